#include "lib/bilevel/unrolled_gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "lib/bilevel/implicit_gradient.h"
#include "lib/bilevel/logistic_inner.h"
#include "lib/bilevel/ridge.h"
#include "lib/data/synth.h"
#include "lib/notation/synth_specs.h"

namespace luthier::bilevel {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

std::vector<int32_t> RowsFrom(int32_t begin, int32_t end) {
  std::vector<int32_t> rows(static_cast<size_t>(end - begin));
  std::iota(rows.begin(), rows.end(), begin);
  return rows;
}

// Multinomial logistic regression with one penalty for each weight.
struct DescentCase {
  DescentCase()
      : dataset(data::Synthesize(notation::SynthSpec{.rows = 80, .cols = 3, .classes = 3, .seed = 8}).value()),
        train(linear::LogisticData::Create(&dataset, RowsFrom(0, 40), {}, false).value()),
        held_out(linear::LogisticData::Create(&dataset, RowsFrom(40, 80), {}, false).value()) {
    groups.count = 9;
    groups.weight.resize(9);
    std::iota(groups.weight.begin(), groups.weight.end(), 0);
  }
  // Runs T steps at lambda.
  UnrolledGradient Run(UnrollMethod method, const VectorXd& lambda, int steps,
                       int64_t memory_bytes = UnrolledDescent::kMemoryBytes, int* kept = nullptr) const {
    const linear::LogisticProblem problem(&train, lambda.array().exp());
    LogisticInner inner(&problem, groups);
    LogisticOuter outer(&held_out);
    UnrolledDescent descent(&inner, method, steps, memory_bytes);
    for (int t = 0; t < steps; ++t) EXPECT_TRUE(descent.Advance({}).value()) << t;
    if (kept != nullptr) *kept = descent.kept();
    return descent.Differentiate(outer, {}).value();
  }

  data::Dataset dataset;
  linear::LogisticData train, held_out;
  ColumnPenalties groups;
};

class UnrolledTest : public testing::TestWithParam<UnrollMethod> {};

TEST_P(UnrolledTest, IsTheGradientOfTheMapOfSteps) {
  const DescentCase c;
  // Penalties that the data dominate, and penalties from which the step length is made.
  for (const double shift : {-8.0, 0.0, 6.0}) {
    const VectorXd lambda = VectorXd::LinSpaced(9, shift - 1.0, shift + 2.0);
    for (const int steps : {1, 2, 3, 7, 13}) {
      // By then it is at the optimum.
      if (GetParam() == UnrollMethod::kLbfgs && shift > 0.0 && steps > 7) continue;
      const UnrolledGradient g = c.Run(GetParam(), lambda, steps);
      EXPECT_EQ(g.steps, steps);
      for (Index j = 0; j < 9; ++j) {
        VectorXd up = lambda, down = lambda;
        up[j] += 1e-5;
        down[j] -= 1e-5;
        const double numeric =
            (c.Run(GetParam(), up, steps).outer_value - c.Run(GetParam(), down, steps).outer_value) / 2e-5;
        EXPECT_NEAR(g.gradient[j], numeric, 1e-8 + 1e-6 * std::abs(numeric)) << shift << " " << steps << " " << j;
      }
    }
  }
}

TEST_P(UnrolledTest, LittleMemoryGivesTheSameBits) {
  const DescentCase c;
  const VectorXd lambda = VectorXd::LinSpaced(9, -2.0, 1.0);
  for (const int steps : {1, 11, 12, 13, 60, 199}) {
    if (GetParam() == UnrollMethod::kLbfgs && steps > 20) break;  // It is at the optimum.
    int all = 0, few = 0;
    const UnrolledGradient whole = c.Run(GetParam(), lambda, steps, UnrolledDescent::kMemoryBytes, &all);
    const UnrolledGradient pieces = c.Run(GetParam(), lambda, steps, 0, &few);
    EXPECT_EQ(whole.gradient, pieces.gradient) << steps;
    EXPECT_EQ(whole.x, pieces.x) << steps;
    EXPECT_EQ(all, steps + 1);
    if (steps == 199) {
      EXPECT_LT(few, 60);
    }
  }
}

TEST_P(UnrolledTest, TendsToTheImplicitGradient) {
  const DescentCase c;
  const VectorXd lambda = VectorXd::LinSpaced(9, -1.0, 2.0);
  const int steps = GetParam() == UnrollMethod::kLbfgs ? 25 : 600;
  const UnrolledGradient g = c.Run(GetParam(), lambda, steps);
  const linear::LogisticProblem problem(&c.train, lambda.array().exp());
  LogisticInner inner(&problem, c.groups);
  LogisticOuter outer(&c.held_out);
  const ImplicitGradient implicit = ComputeImplicitGradient(inner, outer, g.x, VectorXd(), {}).value();
  EXPECT_TRUE(g.gradient.isApprox(implicit.gradient, 1e-5)) << g.gradient.transpose() << "\n"
                                                            << implicit.gradient.transpose();
}

std::string NameOf(const testing::TestParamInfo<UnrollMethod>& info) {
  const char* const names[] = {"GradientDescent", "HeavyBall", "Lbfgs"};
  return names[static_cast<size_t>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Methods, UnrolledTest,
                         testing::Values(UnrollMethod::kGradientDescent, UnrollMethod::kHeavyBall,
                                         UnrollMethod::kLbfgs),
                         NameOf);

TEST(UnrolledDescentTest, EndsAtTheOptimum) {
  const DescentCase c;
  const linear::LogisticProblem problem(&c.train, VectorXd::Constant(9, 10.0));
  LogisticInner inner(&problem, c.groups);
  UnrolledDescent descent(&inner, UnrollMethod::kLbfgs, 500);
  int steps = 0;
  while (steps < 500 && descent.Advance({}).value()) ++steps;
  EXPECT_LT(steps, 500);
  EXPECT_TRUE(descent.finite());
  EXPECT_LT(descent.gradient_norm(), 1e-6 * descent.first_gradient_norm());
}

}  // namespace
}  // namespace luthier::bilevel
