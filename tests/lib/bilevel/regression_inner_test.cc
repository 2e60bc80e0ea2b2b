// Ridge and kernel ridge: solutions against dense algebra, hypergradients against differences, bounds that hold.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <cmath>
#include <numeric>
#include <vector>

#include "lib/base/random.h"
#include "lib/bilevel/implicit_gradient.h"
#include "lib/bilevel/kernel_ridge.h"
#include "lib/bilevel/ridge.h"
#include "lib/data/synth.h"
#include "lib/notation/synth_specs.h"

namespace luthier::bilevel {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

std::vector<int32_t> Rows(int32_t begin, int32_t end) {
  std::vector<int32_t> rows(static_cast<size_t>(end - begin));
  std::iota(rows.begin(), rows.end(), begin);
  return rows;
}

data::Dataset Generated(int rows, int cols, uint64_t seed, double density = 1.0) {
  notation::RegressionSpec spec;
  spec.rows = rows;
  spec.cols = cols;
  spec.seed = seed;
  spec.density = density;
  spec.waves = 0.5;
  return data::Synthesize(spec).value();
}

// Two halves of generated rows, and one penalty for each column.
struct RidgeCase {
  RidgeCase(int rows, int cols, uint64_t seed, double density = 1.0)
      : dataset(Generated(rows, cols, seed, density)),
        scaling(data::FitStandardization(dataset.x, Rows(0, rows / 2)).value()),
        train(LeastSquaresData::Create(dataset, Rows(0, rows / 2), scaling, 0.3, {}).value()),
        held_out(LeastSquaresData::Create(dataset, Rows(rows / 2, rows), scaling, 0.3, {}).value()),
        gram(LeastSquaresGram::Create(train, {}).value()) {
    columns.count = cols;
    columns.column.resize(static_cast<size_t>(cols));
    std::iota(columns.column.begin(), columns.column.end(), 0);
  }
  double Outer(const VectorXd& lambda) const {
    RidgeInner inner(&train, &gram, columns, lambda.array().exp());
    RidgeOuter outer(&held_out);
    return outer.Value(inner.Solve(1e-14, 1000, {})->weights, nullptr, {}).value();
  }

  data::Dataset dataset;
  data::Standardization scaling;
  LeastSquaresData train, held_out;
  LeastSquaresGram gram;
  ColumnPenalties columns;
};

VectorXd RandomVector(Index n, double scale, base::RandomStream& random) {
  VectorXd v(n);
  for (double& x : v) x = scale * random.Normal();
  return v;
}

TEST(RidgeTest, SolvesTheNormalEquationsWithAndWithoutGram) {
  base::RandomStream random(1, "ridge");
  for (const double density : {1.0, 0.3}) {
    const RidgeCase c(40, 6, 3, density);
    const MatrixXd x = data::DenseRows(c.dataset.x, Rows(0, 20), c.scaling).value();
    EXPECT_TRUE(c.gram.matrix.isApprox(x.transpose() * x, 1e-12));
    EXPECT_TRUE(c.train.column_squares().isApprox(c.gram.matrix.diagonal(), 1e-12));
    const VectorXd l2 = RandomVector(6, 1.0, random).array().exp();
    MatrixXd hessian = c.gram.matrix;
    hessian.diagonal() += l2;
    const VectorXd expected = hessian.ldlt().solve(x.transpose() * c.train.target());
    for (const LeastSquaresGram* gram : {&c.gram, static_cast<const LeastSquaresGram*>(nullptr)}) {
      RidgeInner inner(&c.train, gram, c.columns, l2);
      const LinearSolution s = inner.Solve(1e-13, 1000, {}).value();
      EXPECT_TRUE(s.weights.isApprox(expected, 1e-10));
      VectorXd gradient;
      ASSERT_TRUE(inner.Value(s.weights, &gradient, {}).ok());
      EXPECT_LT(gradient.norm(), 1e-10 * (x.transpose() * c.train.target()).norm());
    }
  }
}

TEST(RidgeTest, HypergradientsMatchDifferences) {
  base::RandomStream random(2, "ridge");
  const RidgeCase c(60, 5, 4);
  for (const double scale : {0.1, 2.0, 5.0}) {
    const VectorXd lambda = RandomVector(5, scale, random);
    RidgeInner inner(&c.train, &c.gram, c.columns, lambda.array().exp());
    RidgeOuter outer(&c.held_out);
    const VectorXd w = inner.Solve(1e-14, 1000, {})->weights;
    const ImplicitGradient g = ComputeImplicitGradient(inner, outer, w, VectorXd(), {}).value();
    EXPECT_TRUE(g.certified);
    for (Index j = 0; j < 5; ++j) {
      VectorXd up = lambda, down = lambda;
      up[j] += 1e-5;
      down[j] -= 1e-5;
      const double numeric = (c.Outer(up) - c.Outer(down)) / 2e-5;
      EXPECT_NEAR(g.gradient[j], numeric, 1e-5 * std::abs(numeric) + 1e-9) << scale << " " << j;
    }
  }
}

// Two halves of generated rows as points.
struct KernelCase {
  KernelCase(int rows, int cols, uint64_t seed) {
    const data::Dataset dataset = Generated(rows, cols, seed);
    points = data::DenseRows(dataset.x, Rows(0, rows / 2), {}).value();
    held_out = data::DenseRows(dataset.x, Rows(rows / 2, rows), {}).value();
    target = Eigen::Map<const VectorXd>(dataset.target.data(), rows / 2);
    held_out_target = Eigen::Map<const VectorXd>(dataset.target.data() + rows / 2, rows - rows / 2);
  }
  // lambda: ln gamma (1 or p entries), ln l2.
  KernelRidgeInner Inner(const VectorXd& lambda) const {
    return KernelRidgeInner::Create(&points, &target, nullptr, lambda.head(lambda.size() - 1).array().exp(),
                                    std::exp(lambda[lambda.size() - 1]), {})
        .value();
  }
  KernelRidgeOuter Outer(const VectorXd& lambda) const {
    return KernelRidgeOuter::Create(&points, &held_out, &held_out_target, nullptr,
                                    lambda.head(lambda.size() - 1).array().exp(), {})
        .value();
  }
  double Value(const VectorXd& lambda) const {
    return Outer(lambda).Value(Inner(lambda).Solve(1e-14, 1000, {})->weights, nullptr, {}).value();
  }

  MatrixXd points, held_out;
  VectorXd target, held_out_target;
};

TEST(KernelRidgeTest, SolvesItsSystemAndPredicts) {
  const KernelCase c(30, 3, 5);
  VectorXd lambda(2);
  lambda << -1.0, -2.0;
  MatrixXd k(15, 15);
  for (Index i = 0; i < 15; ++i) {
    for (Index j = 0; j < 15; ++j) {
      k(i, j) = std::exp(-std::exp(-1.0) * (c.points.row(i) - c.points.row(j)).squaredNorm());
    }
  }
  MatrixXd h = k;
  h.diagonal().array() += std::exp(-2.0);
  const VectorXd expected = h.ldlt().solve(c.target);
  EXPECT_TRUE(c.Inner(lambda).Solve(1e-13, 1000, {})->weights.isApprox(expected, 1e-9));
  double sum = 0.0;
  for (Index i = 0; i < 15; ++i) {
    double value = 0.0;
    for (Index j = 0; j < 15; ++j) {
      value += expected[j] * std::exp(-std::exp(-1.0) * (c.held_out.row(i) - c.points.row(j)).squaredNorm());
    }
    sum += std::pow(value - c.held_out_target[i], 2);
  }
  EXPECT_NEAR(c.Value(lambda), sum / 15.0, 1e-9);
}

TEST(KernelRidgeTest, DistancesOfManyColumnsAreThoseOfFew) {
  base::RandomStream random(3, "distances");
  MatrixXd a(70, 40), b(9, 40);
  for (Index i = 0; i < a.size(); ++i) a.data()[i] = 1e3 + random.Normal();
  for (Index i = 0; i < b.size(); ++i) b.data()[i] = 1e3 + random.Normal();
  const VectorXd gamma = RandomVector(40, 1.0, random).array().exp();
  const MatrixXd d = WeightedSquaredDistances(a, b, gamma, {}).value();
  for (Index i = 0; i < a.rows(); ++i) {
    for (Index k = 0; k < b.rows(); ++k) {
      const double expected = ((a.row(i) - b.row(k)).array().square() * gamma.transpose().array()).sum();
      ASSERT_NEAR(d(i, k), expected, 1e-10 * expected);
    }
  }
}

TEST(KernelRidgeTest, HypergradientsMatchDifferencesForOneWidthAndForMany) {
  base::RandomStream random(4, "kernel");
  const KernelCase c(50, 4, 6);
  for (const int widths : {1, 4}) {
    for (const double scale : {0.3, 1.5}) {
      VectorXd lambda = RandomVector(widths + 1, scale, random);
      lambda.array() -= 1.0;
      KernelRidgeInner inner = c.Inner(lambda);
      KernelRidgeOuter outer = c.Outer(lambda);
      const VectorXd w = inner.Solve(1e-14, 1000, {})->weights;
      const ImplicitGradient g = ComputeImplicitGradient(inner, outer, w, VectorXd(), {}).value();
      EXPECT_TRUE(g.certified);
      ASSERT_EQ(g.gradient.size(), widths + 1);
      for (Index j = 0; j <= widths; ++j) {
        VectorXd up = lambda, down = lambda;
        up[j] += 1e-5;
        down[j] -= 1e-5;
        const double numeric = (c.Value(up) - c.Value(down)) / 2e-5;
        EXPECT_NEAR(g.gradient[j], numeric, 1e-5 * std::abs(numeric) + 1e-8) << widths << " " << j;
      }
    }
  }
}

TEST(KernelRidgeTest, EqualRowsMakeASingularSystemKnown) {
  MatrixXd points = MatrixXd::Ones(20, 2);
  const VectorXd target = VectorXd::LinSpaced(20, -1.0, 1.0);
  KernelRidgeInner bad = KernelRidgeInner::Create(&points, &target, nullptr, VectorXd::Ones(1), 1e-18, {}).value();
  ASSERT_TRUE(bad.Solve(1e-10, 1000, {}).ok());
  EXPECT_TRUE(bad.singular());
  KernelRidgeInner good = KernelRidgeInner::Create(&points, &target, nullptr, VectorXd::Ones(1), 1e-3, {}).value();
  ASSERT_TRUE(good.Solve(1e-10, 1000, {}).ok());
  EXPECT_FALSE(good.singular());
}

// The bound must hold for whatever weights and adjoint a loose solve leaves.
template <typename Inner, typename Outer>
void ExpectBoundHolds(Inner& inner, Outer& outer, double looseness, base::RandomStream& random, int* certified) {
  const VectorXd exact = inner.Solve(1e-14, 1000, {})->weights;
  ImplicitGradientOptions tight;
  tight.relative_tolerance = 1e-13;
  const ImplicitGradient truth = ComputeImplicitGradient(inner, outer, exact, VectorXd(), tight).value();
  VectorXd off(exact.size());
  for (double& x : off) x = random.Normal();
  const VectorXd loose = exact + looseness * exact.norm() / off.norm() * off;
  ImplicitGradientOptions options;
  options.relative_tolerance = looseness;
  const ImplicitGradient g = ComputeImplicitGradient(inner, outer, loose, VectorXd(), options).value();
  ASSERT_TRUE(g.certified);
  ++*certified;
  EXPECT_LE((g.gradient - truth.gradient).norm(), g.error_bound * (1.0 + 1e-9) + truth.error_bound + 1e-12);
}

TEST(RegressionBoundsTest, HoldInRandomProblems) {
  base::RandomStream random(5, "bounds");
  int certified = 0;
  for (uint64_t seed = 0; seed < 5000; ++seed) {
    const double looseness = std::pow(10.0, -4.0 * random.Uniform());
    const RidgeCase ridge(16 + static_cast<int>(seed % 7) * 2, 1 + static_cast<int>(seed % 9), seed);
    const VectorXd lambda = RandomVector(ridge.train.cols(), 3.0, random);
    RidgeInner inner(&ridge.train, nullptr, ridge.columns, lambda.array().exp());
    RidgeOuter outer(&ridge.held_out);
    ExpectBoundHolds(inner, outer, looseness, random, &certified);
    const KernelCase kernel(16, 1 + static_cast<int>(seed % 4), seed);
    const Index widths = seed % 2 == 0 ? 1 : kernel.points.cols();
    const VectorXd hyper = RandomVector(widths + 1, 1.5, random);
    KernelRidgeInner kernel_inner = kernel.Inner(hyper);
    KernelRidgeOuter kernel_outer = kernel.Outer(hyper);
    ExpectBoundHolds(kernel_inner, kernel_outer, looseness, random, &certified);
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_EQ(certified, 10000);
}

}  // namespace
}  // namespace luthier::bilevel
