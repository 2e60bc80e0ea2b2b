// Compiled for x86-64-v4 (AVX-512).
#define LUTHIER_CRF_KERNELS kV4Kernels
#define LUTHIER_CRF_KERNELS_NAME "x86-64-v4"
#include "lib/crf/inference/kernel_impl.inc"
