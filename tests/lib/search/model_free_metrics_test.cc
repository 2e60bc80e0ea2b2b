#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/lib/search/metrics_testing.h"

// Bounds and fronts in algorithms without a model.
namespace luthier::search {
namespace {

using Eigen::VectorXd;
using study::CmaEsOptions;
using study::TpeOptions;

TEST(ModelFreeMetrics, BoundsAndFrontsGuideTpe) {
  double tpe = 0.0, random = 0.0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const std::vector<study::MetricSpec> metrics = {Objective("branin"), Objective("currin")};
    MetricsStudy study(MetricsSpec(Square(), metrics, seed, TpeOptions{}), BraninCurrin);
    study.Run(60);
    tpe += Worth(study.spec(), study.Feasible(), kBraninCurrinReference);
    MetricsStudy other(MetricsSpec(Square(), metrics, seed, study::RandomOptions{}), BraninCurrin);
    other.Run(60);
    random += Worth(other.spec(), other.Feasible(), kBraninCurrinReference);
  }
  EXPECT_GT(tpe, random + 20.0);
  MetricsStudy study(MetricsSpec(Square(), {Objective("sum"), AtMost("inside", 0.0)}, 1, TpeOptions{}), OutsideCircle);
  study.Run(80);
  EXPECT_LT(-Worth(study.spec(), study.Feasible(), VectorXd()), 1.15);
  EXPECT_GT(study.Feasible().size(), 20u) << "a fifth of the square is feasible";
}

TEST(ModelFreeMetrics, CmaEsRanksByViolationAndThenByValue) {
  MetricsStudy study(MetricsSpec(Square(), {Objective("sum"), AtMost("inside", 0.0)}, 1, CmaEsOptions{}),
                     OutsideCircle);
  for (int i = 0; i < 120; ++i) {
    ASSERT_TRUE(study.Ask().ok());
    study.Complete(study.newest());
    if (i % 17 == 0) {
      ASSERT_EQ(study.AskAnew()->designer_state.size(), study.history().trials().back().designer_state.size());
    }
  }
  EXPECT_LT(-Worth(study.spec(), study.Feasible(), VectorXd()), 1.05);
}

}  // namespace
}  // namespace luthier::search
