#define LUTHIER_MULTIPLY_ADDS MultiplyAddsBase
#define LUTHIER_LANES 2
#include "bench/train/machine_kernel.inc"
