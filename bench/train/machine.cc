#include "bench/train/machine.h"

#include <time.h>

#include <Eigen/Core>
#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/str_format.h"
#include "lib/base/random.h"
#include "lib/crf/inference/inference.h"

namespace luthier::bench {

double MultiplyAddsBase(int64_t rounds);
double MultiplyAddsV3(int64_t rounds);
double MultiplyAddsV4(int64_t rounds);

double ThreadSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

namespace {

volatile double sink = 0.0;  // What is measured must not be left out.

template <typename F>
double BestSeconds(int runs, F&& work) {
  double best = 1e300;
  for (int run = 0; run < runs; ++run) {
    const double start = ThreadSeconds();
    work();
    best = std::min(best, ThreadSeconds() - start);
  }
  return best;
}

double MultiplyAddGflops() {
  constexpr int64_t kRounds = 1'000'000;
  constexpr double kFlopsPerLane = 2.0 * 24.0 * static_cast<double>(kRounds) * 1e-9;
  double best = 2.0 * kFlopsPerLane / BestSeconds(3, [] { sink = sink + MultiplyAddsBase(kRounds); });
#ifdef LUTHIER_BENCH_X86
  const absl::string_view set = crf::BestKernels().name;
  if (set == "x86-64-v4") best = 8.0 * kFlopsPerLane / BestSeconds(3, [] { sink = sink + MultiplyAddsV4(kRounds); });
  if (set == "x86-64-v3") best = 4.0 * kFlopsPerLane / BestSeconds(3, [] { sink = sink + MultiplyAddsV3(kRounds); });
#endif
  return best;
}

double MatrixGflops() {
  constexpr Eigen::Index kSize = 512;
  const Eigen::MatrixXd a = Eigen::MatrixXd::Constant(kSize, kSize, 0.5), b = a;
  Eigen::MatrixXd c(kSize, kSize);
  const double seconds = BestSeconds(3, [&] {
    c.noalias() = a * b;
    sink = sink + c(0, 0);
  });
  return 2.0 * static_cast<double>(kSize * kSize * kSize) * 1e-9 / seconds;
}

// GB/s of reading `count` doubles `times` times.
double ReadRate(const crf::Kernels& kernels, const double* x, int64_t count, int times) {
  const double seconds = BestSeconds(3, [&] {
    for (int k = 0; k < times; ++k) sink = sink + kernels.dot(x, x, count);
  });
  return 8.0 * static_cast<double>(count) * times * 1e-9 / seconds;
}

double RowRate(const crf::Kernels& kernels, const double* x, int64_t rows, int64_t stride) {
  std::vector<int32_t> order(static_cast<size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  base::RandomStream(1, "bench.rows").Shuffle(order);
  const double seconds = BestSeconds(3, [&] {
    double sum = 0.0;
    for (const int32_t row : order) sum += kernels.dot(x + row * stride, x + row * stride, stride);
    sink = sink + sum;
  });
  return 8.0 * static_cast<double>(rows * stride) * 1e-9 / seconds;
}

}  // namespace

MachineLimits MeasureMachine() {
  const crf::Kernels& kernels = crf::BestKernels();
  MachineLimits limits;
  limits.multiply_add_gflops = MultiplyAddGflops();
  limits.matrix_gflops = MatrixGflops();
  constexpr int64_t kCache = int64_t{1} << 15, kMemory = int64_t{1} << 25, kThird = int64_t{1} << 23;
  crf::AlignedDoubles x(kMemory);
  std::fill_n(x.data(), kMemory, 0.5);
  limits.cache_gbs = ReadRate(kernels, x.data(), kCache, 200);
  limits.read_gbs = ReadRate(kernels, x.data(), kMemory, 1);
  const double triad = BestSeconds(3, [&] {
    kernels.add_scaled(x.data(), 0.25, x.data() + kThird, kThird, x.data() + 2 * kThird);
    sink = sink + x.data()[2 * kThird];
  });
  limits.triad_gbs = 3.0 * 8.0 * static_cast<double>(kThird) * 1e-9 / triad;
  constexpr int64_t kStride = 24;
  limits.rows_gbs = RowRate(kernels, x.data(), (int64_t{1} << 22) / kStride, kStride);
  return limits;
}

void PrintMachine(const MachineLimits& m) {
  absl::PrintF(
      "machine, one thread, kernels %s: multiply-adds in registers %.1f GFlop/s, matrix product (this build) %.1f\n",
      crf::BestKernels().name, m.multiply_add_gflops, m.matrix_gflops);
  absl::PrintF("  reading 256 KiB %.1f GB/s, 256 MiB %.1f, rows of 192 bytes at random from 32 MiB %.1f; triad %.1f\n",
               m.cache_gbs, m.read_gbs, m.rows_gbs, m.triad_gbs);
}

}  // namespace luthier::bench
