// Compiled for x86-64-v3 (AVX2, FMA).
#define LUTHIER_CRF_KERNELS kV3Kernels
#define LUTHIER_CRF_KERNELS_NAME "x86-64-v3"
#include "lib/crf/inference/kernel_impl.inc"
