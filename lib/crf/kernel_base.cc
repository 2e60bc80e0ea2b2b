#define LUTHIER_CRF_KERNELS kBaseKernels
#define LUTHIER_CRF_KERNELS_NAME "base"
#include "lib/crf/kernel_impl.inc"
