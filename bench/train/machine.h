#ifndef LUTHIER_BENCH_TRAIN_MACHINE_H_
#define LUTHIER_BENCH_TRAIN_MACHINE_H_

#include <cstdint>

// What one thread of this machine can do at most, measured: the limits that kernels are held against.
namespace luthier::bench {

struct MachineLimits {
  double multiply_add_gflops = 0.0;  // Fused multiply-adds in registers, as wide as the processor has them.
  double matrix_gflops = 0.0;        // Eigen's product of two 512 x 512 matrices, as this build compiles it.
  double cache_gbs = 0.0;            // Reading 256 KiB again and again, bytes.
  double read_gbs = 0.0;             // Reading 256 MiB in order.
  double triad_gbs = 0.0;            // a = b + s c over 3 x 64 MiB, bytes read and written.
  double rows_gbs = 0.0;             // Reading rows of 192 bytes in random order from 32 MiB, one after the other.
};
// About a second of CPU.
MachineLimits MeasureMachine();

// Two lines of text.
void PrintMachine(const MachineLimits& limits);

// CPU seconds of this thread.
double ThreadSeconds();

}  // namespace luthier::bench

#endif  // LUTHIER_BENCH_TRAIN_MACHINE_H_
