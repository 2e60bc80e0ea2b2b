// How fast polynomial sparse recovery runs: the whole of it (Lasso, refit, and five more of each for the gate), and the
// one Lasso alone.
//
//   psr_bench --cases=60x300,100x1000 --degree=3
//   psr_bench --write=DIR     also writes the samples of each case as text, for bench/reproduce/harmonica/lasso_peer.py
//
// One thread; medians of repeated calls, CPU time.

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "Eigen/Core"
#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/random.h"
#include "lib/spectral/recovery.h"

ABSL_FLAG(std::string, cases, "60x300,60x1000,100x300,100x1000", "bits x samples");
ABSL_FLAG(int, degree, 3, "of the monomials");
ABSL_FLAG(int, terms, 5, "of the polynomial behind the samples");
ABSL_FLAG(double, noise, 0.3, "in standard deviations of the polynomial");
ABSL_FLAG(int, repeats, 9, "of which the median is shown");
ABSL_FLAG(std::string, write, "", "a directory for the samples; empty: none");

namespace luthier::spectral {
namespace {

double CpuMilliseconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

template <typename F>
double Median(F&& call) {
  std::vector<double> times;
  for (int i = 0; i < absl::GetFlag(FLAGS_repeats); ++i) {
    const double start = CpuMilliseconds();
    call();
    times.push_back(CpuMilliseconds() - start);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

double PeakMegabytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

// Rows "y x_0 … x_(b-1)" after a line "lambda bits degree".
void Write(const std::string& path, const BitMatrix& x, const Eigen::VectorXd& y, double lambda, int degree) {
  std::ofstream out(path);
  out << absl::StrFormat("%.17g %d %d\n", lambda, static_cast<int>(x.cols()), degree);
  for (Eigen::Index i = 0; i < x.rows(); ++i) {
    out << absl::StrFormat("%.17g", y[i]);
    for (Eigen::Index j = 0; j < x.cols(); ++j) out << (x(i, j) < 0 ? " -1" : " 1");
    out << "\n";
  }
}

void Run(int bits, int samples) {
  base::RandomStream random(1, "psr_bench");
  BitMatrix x(samples, bits);
  for (float& bit : x.reshaped()) bit = random.Uniform() < 0.5 ? -1.0f : 1.0f;
  Polynomial g;
  for (int k = 0; k < absl::GetFlag(FLAGS_terms); ++k) {
    std::vector<int> set;
    const auto size = 1 + random.UniformInt(static_cast<uint64_t>(absl::GetFlag(FLAGS_degree)));
    while (set.size() < size) {
      const auto bit = static_cast<int>(random.UniformInt(static_cast<uint64_t>(bits)));
      if (std::find(set.begin(), set.end(), bit) == set.end()) set.push_back(bit);
    }
    std::sort(set.begin(), set.end());
    g.terms.push_back({set, (random.Uniform() < 0.5 ? -1.0 : 1.0) * (0.5 + random.Uniform())});
  }
  Eigen::VectorXd y = EvaluateRows(g, x);
  const double deviation = std::sqrt((y.array() - y.mean()).square().mean());
  for (double& v : y) v += absl::GetFlag(FLAGS_noise) * deviation * random.Normal();
  y.array() -= y.mean();
  y /= std::sqrt(y.squaredNorm() / samples);
  std::vector<int> free;
  for (int j = 0; j < bits; ++j) free.push_back(j);
  RecoveryOptions options;
  options.degree = absl::GetFlag(FLAGS_degree);
  Recovery recovery;
  const double whole = Median([&] { recovery = Recover(x, y, free, options, base::StopToken()).value(); });
  LassoFit fit;
  const ParityLasso lasso(x, free, options.degree);
  const double once = Median([&] { fit = lasso.Fit(y, recovery.lambda, {}, base::StopToken()).value(); });
  double sink = 0.0;
  const double pass = Median([&] { sink += lasso.LargestCorrelation(y, base::StopToken()).value(); });
  absl::PrintF("%5d %8d %9d %10.2f %10.2f %10.3f %7d %8d %9.1f\n", bits, samples, recovery.features, whole, once, pass,
               fit.passes, static_cast<int>(fit.terms.size()), PeakMegabytes());
  if (const std::string directory = absl::GetFlag(FLAGS_write); !directory.empty()) {
    const std::string stem = absl::StrCat(directory, "/psr_", bits, "x", samples);
    Write(stem + ".txt", x, y, recovery.lambda, options.degree);
    std::ofstream out(stem + ".fit");
    out << absl::StrFormat("%.17g\n", once);
    for (const Term& term : fit.terms) out << absl::StrFormat("%.17g %s\n", term.weight, absl::StrJoin(term.bits, " "));
  }
}

}  // namespace
}  // namespace luthier::spectral

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("how fast polynomial sparse recovery runs");
  absl::ParseCommandLine(argc, argv);
  absl::PrintF("%5s %8s %9s %10s %10s %10s %7s %8s %9s\n", "bits", "samples", "features", "psr ms", "lasso ms",
               "pass ms", "passes", "nonzero", "peak MB");
  for (const absl::string_view text : absl::StrSplit(absl::GetFlag(FLAGS_cases), ',')) {
    const std::vector<std::string> parts = absl::StrSplit(text, 'x');
    int bits = 0;
    int samples = 0;
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &bits) || !absl::SimpleAtoi(parts[1], &samples) || bits < 3 ||
        bits > 1000 || samples < 5) {
      absl::FPrintF(stderr, "--cases: %s is not BITSxSAMPLES\n", std::string(text));
      return 2;
    }
    luthier::spectral::Run(bits, samples);
  }
  return 0;
}
