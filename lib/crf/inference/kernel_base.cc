#define LUTHIER_CRF_KERNELS kBaseKernels
#define LUTHIER_CRF_KERNELS_NAME "base"
#include "lib/crf/inference/kernel_impl.inc"
