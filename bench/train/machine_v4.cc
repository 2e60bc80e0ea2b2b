#define LUTHIER_MULTIPLY_ADDS MultiplyAddsV4
#define LUTHIER_LANES 8
#include "bench/train/machine_kernel.inc"
