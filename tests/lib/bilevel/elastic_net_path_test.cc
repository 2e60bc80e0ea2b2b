#include "lib/bilevel/elastic_net_path.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "lib/base/stop_token.h"
#include "lib/data/synth.h"
#include "lib/notation/synth_specs.h"

namespace luthier::bilevel {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

// Rows with all columns standardized, or with columns in units from 1e-4 to 1e4.
struct PathCase {
  PathCase(int rows, int cols, double density, bool other_units = false) {
    notation::RegressionSpec spec;
    spec.rows = rows;
    spec.cols = cols;
    spec.seed = 21;
    spec.density = density;
    dataset = data::Synthesize(spec).value();
    std::vector<int32_t> all(static_cast<size_t>(rows));
    std::iota(all.begin(), all.end(), 0);
    data::Standardization scaling = data::FitStandardization(dataset.x, all).value();
    if (other_units) {
      for (size_t e = 0; e < dataset.x.value.size(); ++e) {
        dataset.x.value[e] *= std::pow(10.0, static_cast<double>(dataset.x.column[e] % 9) - 4.0);
      }
      scaling = data::FitStandardization(dataset.x, all).value();
      scaling.deviation.setOnes();
    }
    train = LeastSquaresData::Create(dataset, all, scaling, 0.3, {}).value();
    columns = CenteredColumns::Create(train, int64_t{1} << 30, {}).value();
    const VectorXd first = train.MultiplyTransposed(train.target(), {}).value();
    top = first.lpNorm<Eigen::Infinity>();
  }
  // Returns the largest violation of the conditions of the optimum, in units of the largest |X~_j||y|.
  double Violation(const VectorXd& w, double l1, double l2) const {
    const VectorXd residual = train.target() - train.Multiply(w, {}).value();
    const VectorXd pull = train.MultiplyTransposed(residual, {}).value() - l2 * w;
    double worst = 0.0;
    for (Index j = 0; j < w.size(); ++j) {
      const double away = w[j] == 0.0 ? std::abs(pull[j]) - l1 : std::abs(pull[j] - std::copysign(l1, w[j]));
      worst = std::max(worst, away / (std::sqrt(columns.square(j)) * train.target().norm()));
    }
    return worst;
  }

  data::Dataset dataset;
  LeastSquaresData train;
  CenteredColumns columns;
  double top = 0.0;
};

TEST(ElasticNetPathTest, EveryPointMeetsTheConditionsOfTheOptimum) {
  for (const double density : {1.0, 0.15}) {
    for (const int cols : {12, 90, 240}) {
      for (const double l2 : {0.0, 3.0}) {
        const PathCase c(100, cols, density);
        ElasticNetPath path(&c.columns, &c.train.target(), l2);
        for (double share = 2.0; share > 1e-6; share *= 0.6) {
          const VectorXd w = path.At(share * c.top, {}).value();
          EXPECT_LE(c.Violation(w, share * c.top, l2), 1e-10) << cols << " " << density << " " << l2 << " " << share;
        }
      }
    }
  }
}

TEST(ElasticNetPathTest, TheOrderInWhichItIsAskedChangesNoBit) {
  const PathCase c(80, 120, 1.0);
  ElasticNetPaths down, up;
  for (int k = 0; k < 12; ++k) {
    const double l1 = c.top * std::pow(0.5, k), other = c.top * std::pow(0.5, 11 - k);
    EXPECT_TRUE(down.At(c.columns, c.train.target(), l1, 0.0, {}).ok());
    EXPECT_TRUE(up.At(c.columns, c.train.target(), other, 0.0, {}).ok());
  }
  for (int k = 0; k < 12; ++k) {
    const double l1 = 0.9 * c.top * std::pow(0.5, k);
    EXPECT_EQ(down.At(c.columns, c.train.target(), l1, 0.0, {}).value(),
              up.At(c.columns, c.train.target(), l1, 0.0, {}).value());
  }
}

TEST(ElasticNetPathTest, AStopLosesNothing) {
  const PathCase c(80, 120, 1.0);
  ElasticNetPath straight(&c.columns, &c.train.target(), 0.5), stopped(&c.columns, &c.train.target(), 0.5);
  const base::StopSource source;
  source.RequestStop();
  EXPECT_EQ(stopped.At(0.01 * c.top, source.token()).status(), base::StoppedError());
  EXPECT_EQ(straight.At(0.01 * c.top, {}).value(), stopped.At(0.01 * c.top, {}).value());
}

TEST(ElasticNetPathTest, TrainingFromThePathNeedsNoSweep) {
  const PathCase c(100, 200, 1.0);
  ElasticNetPath path(&c.columns, &c.train.target(), 0.0);
  for (double share = 0.9; share > 1e-4; share *= 0.5) {
    const VectorXd start = path.At(share * c.top, {}).value();
    const ElasticNetFit fit =
        TrainElasticNet(c.columns, c.train.target(), {.l1 = share * c.top, .start = &start}, {}).value();
    EXPECT_TRUE(fit.converged);
    EXPECT_EQ(fit.sweeps, 0) << share;
    const ElasticNetFit cold = TrainElasticNet(c.columns, c.train.target(), {.l1 = share * c.top}, {}).value();
    EXPECT_NEAR(fit.objective, cold.objective, 1e-9 * c.train.target().squaredNorm());
  }
}

// Half of the columns are in units in which they look dependent on rounding.
TEST(ElasticNetPathTest, UnitsOfColumnsDoNotMatter) {
  for (const int cols : {20, 150}) {
    const PathCase c(100, cols, 1.0, true);
    for (const double l2 : {0.0, 1e-6}) {
      for (double share = 0.3; share > 1e-13; share *= 1e-2) {
        const ElasticNetFit fit =
            TrainElasticNet(c.columns, c.train.target(), {.l1 = share * c.top, .l2 = l2, .max_sweeps = 1000}, {})
                .value();
        EXPECT_TRUE(fit.converged || fit.exact) << cols << " " << l2 << " " << share << " " << fit.gap;
        EXPECT_LE(c.Violation(fit.weights, share * c.top, l2), 1e-6) << cols << " " << l2 << " " << share;
      }
    }
  }
}

}  // namespace
}  // namespace luthier::bilevel
