#include "lib/gp/relevance.h"

#include <cmath>

#include "gtest/gtest.h"
#include "tests/lib/gp/gp_testing.h"

namespace luthier::gp {
namespace {

// (u0 - 0.3)^2 + sin(3 u1) + effect u0 cos(2 u2), at random points, with slopes along the first two axes; standardised.
double GainOf(double effect, Index n, uint64_t seed, bool slopes, double noise = 0.0) {
  base::RandomStream stream(seed, "relevance");
  const MatrixXd x = RandomPoints(stream, n, 3);
  VectorXd y(n);
  Slopes known;
  for (Index i = 0; i < n; ++i) {
    const double a = x(i, 0), b = x(i, 1), c = x(i, 2);
    y(i) = (a - 0.3) * (a - 0.3) + std::sin(3.0 * b) + effect * a * std::cos(2.0 * c) + noise * stream.Normal();
    if (!slopes) continue;
    known.Add(i, VectorXd::Unit(3, 0), 2.0 * (a - 0.3) + effect * std::cos(2.0 * c));
    known.Add(i, VectorXd::Unit(3, 1), 3.0 * std::cos(3.0 * b));
  }
  y.array() -= y.mean();
  const double deviation = std::sqrt(y.squaredNorm() / static_cast<double>(n));
  known.values /= deviation;
  InferenceOptions inference;
  inference.fit_noise = true;
  inference.doubt_noise = noise == 0.0;
  inference.min_noise = 1e-6;
  inference.max_searches = 1;
  inference.random_starts = 1;
  inference.max_evaluations = 30;
  return RelevanceGain({kernels::ArdShape(kernels::Family::kMatern52, 3), x, y / deviation, known}, 2, inference,
                       stream, base::StopToken())
      .value();
}

TEST(RelevanceGain, TellsAnEffectFromNone) {
  for (const uint64_t seed : {1u, 2u, 3u, 4u}) {
    SCOPED_TRACE(seed);
    for (const bool slopes : {false, true}) {
      EXPECT_LT(GainOf(0.0, 15, seed, slopes), 3.0);
      EXPECT_LT(GainOf(0.0, 40, seed, slopes), 3.0);
      EXPECT_GT(GainOf(1.0, 40, seed, slopes), 20.0);
    }
    EXPECT_GT(GainOf(1.0, 15, seed, true), 20.0) << "slopes along the other axes tell, too";
    EXPECT_LT(GainOf(0.0, 40, seed, false, 0.2), 5.0) << "noise";
  }
}

}  // namespace
}  // namespace luthier::gp
