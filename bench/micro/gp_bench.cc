// How fast the Gaussian process's parts run, against this machine's matrix product in the same run.
//
//   gp_bench --sizes=50,100,200,500,1000,1400
//
// One thread; medians of repeated calls, CPU time. Flops are counted as the textbook algorithm needs them, not as this
// code does: an implementation that does more work shows a lower rate. A multiplication, addition, comparison,
// division, square root count 1, an exponential or logarithm kExp = 20 (what a vectorised one takes). The last column
// is the rate in per cent of the product of two n x n matrices. The peak is 16 flops a cycle (two fused multiply-adds
// of four doubles, AVX2) at the clock that a chain of dependent products shows.

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "Eigen/Cholesky"
#include "Eigen/Core"
#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "lib/base/check.h"
#include "lib/base/random.h"
#include "lib/gp/likelihood.h"
#include "lib/gp/regression.h"
#include "lib/kernels/stationary.h"
#include "lib/math/cholesky.h"
#include "lib/math/triangular_blocks.h"

ABSL_FLAG(std::string, sizes, "50,100,200,500,1000,1400", "numbers of points");
ABSL_FLAG(int, columns, 6, "coordinates of a point");
ABSL_FLAG(double, seconds, 0.3, "about how long each row is measured");
ABSL_FLAG(std::string, only, "", "rows whose name holds this; empty: all");

namespace luthier {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using kernels::Family;
using kernels::Structure;

constexpr double kExp = 20.0;

double CpuSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Keeps the compiler from dropping what computed it.
volatile double sink = 0.0;

// Median seconds of a call.
double Measure(const std::function<void()>& call) {
  const double budget = absl::GetFlag(FLAGS_seconds);
  call();
  double start = CpuSeconds();
  call();
  const double once = std::max(1e-9, CpuSeconds() - start);
  // Batches of at least 20 microseconds, at least 5 of them.
  const int batch = std::max(1, static_cast<int>(2e-5 / once));
  const int count = std::clamp(static_cast<int>(budget / (once * batch)), 5, 2000);
  std::vector<double> seconds;
  for (int k = 0; k < count; ++k) {
    start = CpuSeconds();
    for (int b = 0; b < batch; ++b) call();
    seconds.push_back((CpuSeconds() - start) / batch);
  }
  std::nth_element(seconds.begin(), seconds.begin() + count / 2, seconds.end());
  return seconds[static_cast<size_t>(count / 2)];
}

// Cycles a second, from a chain of integer products. Each takes three cycles on every x86-64 of the last ten years;
// sums will not do, some processors make them while renaming registers.
double Clock() {
  constexpr int64_t kSteps = 100'000'000;
  const double start = CpuSeconds();
  uint64_t x = 3;
  for (int64_t k = 0; k < kSteps; ++k) {
    x *= x;
    asm volatile("" : "+r"(x));
  }
  const double seconds = CpuSeconds() - start;
  sink = static_cast<double>(x);
  return 3.0 * static_cast<double>(kSteps) / seconds;
}

class Table {
 public:
  void Row(const std::string& name, Index n, double flops, const std::function<void()>& call) {
    const std::string& only = absl::GetFlag(FLAGS_only);
    if (!only.empty() && name.find(only) == std::string::npos && name != "matrix product") return;
    const double seconds = Measure(call);
    const double rate = 1e-9 * flops / seconds;
    if (name == "matrix product") product_ = rate;
    absl::PrintF("%-34s %6d %12.4f %10.2f %7.1f%%\n", name, n, 1e3 * seconds, rate, 100.0 * rate / product_);
    std::fflush(stdout);
  }

 private:
  double product_ = 1.0;
};

struct Data {
  MatrixXd x;
  VectorXd y;
};

Data MakeData(Index n, Index d) {
  base::RandomStream random(1, "gp_bench", static_cast<uint64_t>(n));
  Data data{MatrixXd(n, d), VectorXd(n)};
  for (double& value : data.x.reshaped()) value = random.Uniform();
  for (Index i = 0; i < n; ++i) data.y(i) = std::sin(3.0 * data.x.row(i).sum()) + 0.1 * random.Normal();
  return data;
}

// Flops of one profile: what EvaluateProfile computes, with the slope or without.
double ProfileFlops(Family family, bool slope) {
  switch (family) {
    case Family::kSquaredExponential:
      return kExp + (slope ? 3 : 2);
    case Family::kMatern52:
      return kExp + (slope ? 10 : 8);
  }
  return 0.0;
}

// Of one kernel value between two points.
double PairFlops(const kernels::KernelShape& shape, bool slope) {
  const double d = static_cast<double>(shape.columns()), groups = shape.groups;
  if (shape.structure == Structure::kJoint) return 3.0 * d + ProfileFlops(shape.family, slope);
  return 3.0 * d + groups * (ProfileFlops(shape.family, slope) + (shape.structure == Structure::kPairwise ? 3.0 : 1.0));
}

gp::Hyperparameters Theta(const kernels::KernelShape& shape) {
  gp::Hyperparameters theta;
  theta.lengthscales = VectorXd::Constant(shape.groups, 0.4);
  theta.noise_variance = 1e-3;
  return theta;
}

void Rows(Index n, Table* table) {
  const Index d = absl::GetFlag(FLAGS_columns);
  const double nd = static_cast<double>(n), dd = static_cast<double>(d);
  const double cube = nd * nd * nd, pairs = 0.5 * nd * (nd + 1.0);
  const Data data = MakeData(n, d);
  {
    const MatrixXd a = MatrixXd::Constant(n, n, 1.5), b = MatrixXd::Constant(n, n, 0.5);
    MatrixXd c(n, n);
    table->Row("matrix product", n, 2.0 * cube, [&] {
      c.noalias() = a * b;
      sink = c(0, 0);
    });
  }
  struct Kernel {
    std::string name;
    kernels::KernelShape shape;
  };
  const int columns = static_cast<int>(d);
  std::vector<Kernel> all;
  for (Family family : {Family::kMatern52, Family::kSquaredExponential}) {
    all.push_back({kernels::FamilyName(family), kernels::ArdShape(family, columns)});
  }
  all.push_back({"additive-matern52", kernels::ArdShape(Family::kMatern52, columns, Structure::kAdditive)});
  all.push_back({"pairwise-se", kernels::ArdShape(Family::kSquaredExponential, columns, Structure::kPairwise)});
  for (const Kernel& kernel : all) {
    const kernels::StationaryKernel k = gp::KernelOf(kernel.shape, Theta(kernel.shape));
    const MatrixXd z = k.Scale(data.x);
    MatrixXd gram;
    table->Row("Gram, " + kernel.name, n, pairs * PairFlops(kernel.shape, false), [&] {
      LUTHIER_CHECK(k.GramLower(z, &gram, nullptr, base::StopToken()).ok());
      sink = gram(0, 0);
    });
  }
  {
    const kernels::StationaryKernel k = gp::KernelOf(all[0].shape, Theta(all[0].shape));
    MatrixXd gram = k.Gram(data.x);
    gram.diagonal().array() += 1e-3;
    table->Row("Cholesky", n, cube / 3.0,
               [&] { sink = math::Cholesky::Factor(gram, {}, base::StopToken()).value()->lower()(0, 0); });
    const math::Cholesky factor = *math::Cholesky::Factor(gram, {}, base::StopToken()).value();
    math::TriangularSpace space;
    MatrixXd inverse;
    table->Row("inverse of the factor", n, cube / 3.0, [&] {
      LUTHIER_CHECK(math::InverseTransposed(factor.lower(), &space, &inverse, base::StopToken()).ok());
      sink = inverse(0, 0);
    });
    LUTHIER_CHECK(math::InverseTransposed(factor.lower(), &space, &inverse, base::StopToken()).ok());
    MatrixXd out = MatrixXd::Zero(n, n);
    table->Row("inverse from that", n, cube / 3.0, [&] {
      LUTHIER_CHECK(math::AddSquareOfUpper(inverse, 1e-3, &space, out, base::StopToken()).ok());
      sink = out(0, 0);
    });
  }
  for (const Kernel& kernel : all) {
    gp::Likelihood likelihood(kernel.shape, data.x, data.y);
    gp::Hyperparameters theta = Theta(kernel.shape);
    table->Row("likelihood, " + kernel.name, n, cube / 3.0 + pairs * PairFlops(kernel.shape, false),
               [&] { sink = likelihood.MarginalOverMean(&theta, nullptr, base::StopToken()).value(); });
    gp::LikelihoodGradient gradient;
    // Factor, its inverse, and the product of that with itself: n^3/3 each; joint kernels then n^2 (2 d + 2).
    const double contraction =
        kernel.shape.structure == Structure::kJoint ? nd * nd * (2.0 * dd + 2.0) : pairs * 4.0 * kernel.shape.groups;
    table->Row("likelihood + gradient, " + kernel.name, n,
               cube + pairs * PairFlops(kernel.shape, true) + nd * nd + contraction,
               [&] { sink = likelihood.MarginalOverMean(&theta, &gradient, base::StopToken()).value(); });
  }
  for (const Kernel& kernel : all) {
    if (kernel.name != "matern52" && kernel.name != "additive-matern52" && kernel.name != "pairwise-se") continue;
    constexpr Index kPoints = 2048;
    const double q = static_cast<double>(kPoints);
    const std::optional<gp::Regression> regression =
        gp::Regression::Fit(kernel.shape, Theta(kernel.shape), data.x, data.y, {}, base::StopToken()).value();
    LUTHIER_CHECK(regression.has_value());
    const MatrixXd points = MakeData(kPoints, d).x;
    const double cross = q * nd * PairFlops(kernel.shape, false);
    table->Row("2048 means, " + kernel.name, n, cross + 2.0 * q * nd,
               [&] { sink = regression->PredictMean(points)(0); });
    table->Row("2048 means + variances, " + kernel.name, n, cross + q * (nd * nd + 4.0 * nd),
               [&] { sink = regression->Predict(points).variance(0); });
    constexpr Index kSingle = 16;
    const double single = static_cast<double>(kSingle);
    table->Row("16 x value + gradient, " + kernel.name, n,
               single * (nd * PairFlops(kernel.shape, true) + 2.0 * nd * nd + nd * (3.0 * dd + 4.0 * dd + 4.0)), [&] {
                 for (Index i = 0; i < kSingle; ++i) {
                   sink = regression->PredictWithGradient(points.row(i).transpose()).variance;
                 }
               });
  }
  {
    std::optional<gp::Regression> regression =
        gp::Regression::Fit(all[0].shape, Theta(all[0].shape), data.x, data.y, {}, base::StopToken()).value();
    const VectorXd point = MakeData(1, d).x.row(0).transpose();
    // The row of the factor, and alpha anew: n^2 and 2 n^2. A row is taken off again: that costs alpha once more.
    table->Row("append a point and drop it", n, 5.0 * nd * nd + nd * PairFlops(all[0].shape, false), [&] {
      LUTHIER_CHECK(regression->Append(point, 0.5, base::StopToken()).value());
      regression->PopBack(1);
      sink = regression->outputs()(0);
    });
  }
}

int Main() {
  const double clock = Clock();
#if defined(__AVX2__) && defined(__FMA__)
  constexpr double kFlopsPerCycle = 16.0;
  const char* level = "AVX2 + FMA";
#else
  constexpr double kFlopsPerCycle = 4.0;
  const char* level = "SSE2";
#endif
  absl::PrintF("Clock %.2f GHz, %s: peak %.1f Gflop/s. Exponentials count %.0f flops.\n", 1e-9 * clock, level,
               1e-9 * clock * kFlopsPerCycle, kExp);
  absl::PrintF("%-34s %6s %12s %10s %8s\n", "", "n", "ms", "Gflop/s", "of prod.");
  Table table;
  for (absl::string_view part : absl::StrSplit(absl::GetFlag(FLAGS_sizes), ',', absl::SkipEmpty())) {
    int n = 0;
    if (!absl::SimpleAtoi(part, &n) || n < 2) {
      std::fprintf(stderr, "gp_bench: --sizes: numbers from 2 on\n");
      return 2;
    }
    Rows(n, &table);
  }
  return 0;
}

}  // namespace
}  // namespace luthier

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Times the parts of a Gaussian process.");
  absl::ParseCommandLine(argc, argv);
  return luthier::Main();
}
