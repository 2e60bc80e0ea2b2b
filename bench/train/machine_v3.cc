#define LUTHIER_MULTIPLY_ADDS MultiplyAddsV3
#define LUTHIER_LANES 4
#include "bench/train/machine_kernel.inc"
