// The elastic net: conditions of the optimum, gaps, agreement of dense and sparse columns, derivatives by differences.

#include "lib/bilevel/elastic_net.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "lib/bilevel/implicit_gradient.h"
#include "lib/data/synth.h"
#include "lib/notation/synth_specs.h"

namespace luthier::bilevel {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

struct Case {
  Case(int rows, int cols, uint64_t seed, double density) {
    notation::RegressionSpec spec;
    spec.rows = rows;
    spec.cols = cols;
    spec.seed = seed;
    spec.density = density;
    dataset = data::Synthesize(spec).value();
    std::vector<int32_t> first(static_cast<size_t>(rows / 2)), second(first.size());
    std::iota(first.begin(), first.end(), 0);
    std::iota(second.begin(), second.end(), rows / 2);
    const data::Standardization scaling = data::FitStandardization(dataset.x, first).value();
    train = LeastSquaresData::Create(dataset, first, scaling, 0.3, {}).value();
    held_out = LeastSquaresData::Create(dataset, second, scaling, 0.3, {}).value();
    dense = CenteredColumns::Create(train, int64_t{1} << 30, {}).value();
    sparse = CenteredColumns::Create(train, 0, {}).value();
  }
  ElasticNetFit Train(double l1, double l2, const CenteredColumns& columns) const {
    return TrainElasticNet(columns, train.target(), {.l1 = l1, .l2 = l2, .tolerance = 1e-13}, {}).value();
  }
  double Outer(double l1, double l2) const {
    RidgeOuter outer(&held_out);
    return outer.Value(Train(l1, l2, dense).weights, nullptr, {}).value();
  }

  data::Dataset dataset;
  LeastSquaresData train, held_out;
  CenteredColumns dense, sparse;
};

TEST(ElasticNetTest, WeightsMeetTheConditionsOfTheOptimum) {
  for (const int cols : {8, 60, 300}) {
    for (const double l1 : {0.5, 5.0, 40.0}) {
      for (const double l2 : {0.0, 0.1, 10.0}) {
        SCOPED_TRACE(testing::Message() << cols << " columns, l1 " << l1 << ", l2 " << l2);
        const Case c(160, cols, 7, 1.0);
        const ElasticNetFit fit = c.Train(l1, l2, c.dense), other = c.Train(l1, l2, c.sparse);
        ASSERT_TRUE(fit.converged);
        ASSERT_TRUE(other.converged);
        EXPECT_LE((fit.weights - other.weights).lpNorm<Eigen::Infinity>(), 1e-7);
        const VectorXd residual = c.train.target() - c.train.Multiply(fit.weights, {}).value();
        const VectorXd pull = c.train.MultiplyTransposed(residual, {}).value() - l2 * fit.weights;
        for (Index j = 0; j < cols; ++j) {
          if (fit.weights[j] == 0.0) {
            EXPECT_LE(std::abs(pull[j]), l1 + 1e-6);
          } else {
            EXPECT_NEAR(pull[j], std::copysign(l1, fit.weights[j]), 1e-6);
          }
        }
      }
    }
  }
}

// Every column four times, and more columns than rows: the lasso's weights are not unique, and those found have
// independent columns.
TEST(ElasticNetTest, RepeatedColumnsAreTaken) {
  Case c(60, 40, 9, 1.0);
  data::Dataset repeated = c.dataset;
  repeated.x.cols = 160;
  repeated.x.row_start = {0};
  repeated.x.column.clear();
  repeated.x.value.clear();
  for (int64_t i = 0; i < c.dataset.x.rows; ++i) {
    for (int copy = 0; copy < 4; ++copy) {
      for (int64_t e = c.dataset.x.row_start[static_cast<size_t>(i)];
           e < c.dataset.x.row_start[static_cast<size_t>(i) + 1]; ++e) {
        repeated.x.column.push_back(c.dataset.x.column[static_cast<size_t>(e)] + 40 * copy);
        repeated.x.value.push_back(c.dataset.x.value[static_cast<size_t>(e)]);
      }
    }
    repeated.x.row_start.push_back(static_cast<int64_t>(repeated.x.column.size()));
  }
  repeated.features.clear();
  std::vector<int32_t> rows(30);
  std::iota(rows.begin(), rows.end(), 0);
  const data::Standardization scaling = data::FitStandardization(repeated.x, rows).value();
  const LeastSquaresData train = LeastSquaresData::Create(repeated, rows, scaling, 0.3, {}).value();
  const CenteredColumns columns = CenteredColumns::Create(train, int64_t{1} << 30, {}).value();
  for (const double l1 : {10.0, 1.0, 1e-2, 1e-4}) {
    const ElasticNetFit fit = TrainElasticNet(columns, train.target(), {.l1 = l1, .tolerance = 1e-12}, {}).value();
    EXPECT_TRUE(fit.converged) << l1;
    EXPECT_LE(fit.sweeps, 300) << l1;
    const ElasticNetFit once = c.Train(l1, 0.0, c.dense);
    EXPECT_NEAR(fit.objective, once.objective, 1e-9 * (1.0 + once.objective)) << l1;
  }
}

TEST(ElasticNetTest, TheGapBoundsWhatMoreTrainingGains) {
  const Case c(160, 120, 11, 1.0);
  for (const double l2 : {0.0, 1.0}) {
    const double least = c.Train(2.0, l2, c.dense).objective;
    for (const double tolerance : {0.1, 1e-2, 1e-4, 1e-7}) {
      const ElasticNetFit fit =
          TrainElasticNet(c.dense, c.train.target(), {.l1 = 2.0, .l2 = l2, .tolerance = tolerance}, {}).value();
      EXPECT_TRUE(fit.converged);
      EXPECT_LE(fit.objective - least, fit.gap + 1e-9 * least);
    }
  }
}

TEST(ElasticNetTest, WithoutL1ItIsRidge) {
  const Case c(160, 20, 3, 1.0);
  const LeastSquaresGram gram = LeastSquaresGram::Create(c.train, {}).value();
  RidgeInner ridge(&c.train, &gram, ColumnPenalties{}, VectorXd::Constant(20, 3.0));
  const VectorXd expected = ridge.Solve(1e-14, 1000, {})->weights;
  EXPECT_LE((c.Train(0.0, 3.0, c.dense).weights - expected).lpNorm<Eigen::Infinity>(), 1e-7);
}

TEST(ElasticNetTest, DerivativesMatchDifferences) {
  for (const double density : {1.0, 0.1}) {
    const Case c(200, 40, 5, density);
    const double l1 = 6.0, l2 = 2.0;
    const ElasticNetFit fit = c.Train(l1, l2, c.dense);
    ASSERT_GT(fit.kink_margin, 1e-4);
    const std::vector<Index> support = SupportOf(fit.weights);
    ASSERT_GE(support.size(), 3u);
    ASSERT_LT(support.size(), 40u);
    const VectorXd w = fit.weights(support);
    ElasticNetInner inner(&c.dense, &c.train.target(), support, w.cwiseSign(), l1, l2);
    ElasticNetOuter outer(&c.held_out, support);
    ImplicitGradientOptions options;
    options.error_bound = false;
    const ImplicitGradient gradient = ComputeImplicitGradient(inner, outer, w, VectorXd(), options).value();
    EXPECT_LE(gradient.inner_gradient_norm, 1e-6);
    const double h = 1e-6;
    EXPECT_NEAR(gradient.gradient[0], (c.Outer(l1 * std::exp(h), l2) - c.Outer(l1 * std::exp(-h), l2)) / (2 * h), 1e-6);
    EXPECT_NEAR(gradient.gradient[1], (c.Outer(l1, l2 * std::exp(h)) - c.Outer(l1, l2 * std::exp(-h))) / (2 * h), 1e-6);
  }
}

TEST(ElasticNetTest, AboveTheLargestCorrelationAllWeightsAreZero) {
  const Case c(60, 10, 2, 1.0);
  const double top = c.train.MultiplyTransposed(c.train.target(), {}).value().lpNorm<Eigen::Infinity>();
  EXPECT_TRUE(SupportOf(c.Train(1.001 * top, 0.0, c.dense).weights).empty());
  EXPECT_FALSE(SupportOf(c.Train(0.98 * top, 0.0, c.dense).weights).empty());
}

// Few entries stand for many rows: the oracle are products of the rows themselves.
TEST(ElasticNetTest, CondensedColumnsMakeTheSameProblem) {
  for (const int cols : {1, 7, 60}) {
    const Case c(1000, cols, 17, 1.0);
    VectorXd target;
    const CenteredColumns condensed = CenteredColumns::Condense(c.train, &target, {}).value();
    ASSERT_EQ(condensed.rows(), cols + 1);
    ASSERT_EQ(target.size(), cols + 1);
    EXPECT_NEAR(target.squaredNorm(), c.train.target().squaredNorm(), 1e-11 * target.squaredNorm());
    const VectorXd pull = condensed.DotAll(CenteredColumns::From(target), {}).value();
    const VectorXd all = c.train.MultiplyTransposed(c.train.target(), {}).value();
    EXPECT_LT((pull - all).norm(), 1e-11 * all.norm());
    for (const double l1 : {0.0, 5.0, 80.0}) {
      const ElasticNetOptions options{.l1 = l1, .l2 = 0.5, .tolerance = 1e-13};
      const ElasticNetFit few = TrainElasticNet(condensed, target, options, {}).value();
      const ElasticNetFit many = c.Train(l1, 0.5, c.dense);
      EXPECT_TRUE(few.converged || few.exact);
      EXPECT_NEAR(few.objective, many.objective, 1e-11 * many.objective);
      EXPECT_LT((few.weights - many.weights).norm(), 1e-7 * (1.0 + many.weights.norm()));
      EXPECT_EQ(SupportOf(few.weights), SupportOf(many.weights));
      const double written_down =
          0.5 * (c.train.Dense(0, c.train.rows()) * few.weights - c.train.target()).squaredNorm() +
          l1 * few.weights.lpNorm<1>() + 0.25 * few.weights.squaredNorm();
      EXPECT_NEAR(few.objective, written_down, 1e-11 * written_down);
    }
  }
}

TEST(ElasticNetTest, CondensedColumnsMayDependOnEachOtherOrBeZero) {
  Case c(400, 12, 23, 1.0);
  for (int64_t i = 0; i < c.dataset.x.rows; ++i) {
    double* const row = c.dataset.x.value.data() + c.dataset.x.row_start[static_cast<size_t>(i)];
    row[3] = 2.0;                    // Constant.
    row[5] = 3.0 * row[1] - row[2];  // A combination of others.
    row[7] = 1e9 + row[4];           // Far from 0.
    row[9] *= 1e-9;                  // Other units.
  }
  std::vector<int32_t> rows(400);
  std::iota(rows.begin(), rows.end(), 0);
  const data::Standardization scaling = data::FitStandardization(c.dataset.x, rows).value();
  const LeastSquaresData train = LeastSquaresData::Create(c.dataset, rows, scaling, 0.3, {}).value();
  VectorXd target;
  const CenteredColumns condensed = CenteredColumns::Condense(train, &target, {}).value();
  const CenteredColumns dense = CenteredColumns::Create(train, int64_t{1} << 30, {}).value();
  EXPECT_EQ(condensed.square(3), 0.0);
  for (const double l1 : {0.1, 20.0}) {
    const ElasticNetOptions options{.l1 = l1, .tolerance = 1e-12};
    const ElasticNetFit few = TrainElasticNet(condensed, target, options, {}).value();
    const ElasticNetFit many = TrainElasticNet(dense, train.target(), options, {}).value();
    EXPECT_NEAR(few.objective, many.objective, 1e-9 * many.objective);
    EXPECT_EQ(few.weights[3], 0.0);
  }
}

TEST(ElasticNetTest, CondensingIsForManyRowsOfFewColumns) {
  const Case few(160, 20, 3, 1.0);
  EXPECT_FALSE(CenteredColumns::WorthCondensing(few.train));
  const Case many(300000, 10, 3, 1.0);
  EXPECT_TRUE(CenteredColumns::WorthCondensing(many.train));
  const Case sparse(300000, 10, 3, 0.1);
  EXPECT_FALSE(CenteredColumns::WorthCondensing(sparse.train));
}

}  // namespace
}  // namespace luthier::bilevel
