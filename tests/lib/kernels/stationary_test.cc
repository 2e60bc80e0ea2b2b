#include "lib/kernels/stationary.h"

#include <cmath>

#include "Eigen/Eigenvalues"
#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/math/finite_difference.h"

namespace luthier::kernels {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr Family kFamilies[] = {Family::kSquaredExponential, Family::kMatern12, Family::kMatern32, Family::kMatern52};

MatrixXd RandomPoints(uint64_t seed, Index n, Index d) {
  base::RandomStream stream(seed, "kernel points");
  MatrixXd x(n, d);
  for (Index j = 0; j < d; ++j) {
    for (Index i = 0; i < n; ++i) x(i, j) = stream.Uniform();
  }
  return x;
}

// The formulas of the literature, in r.
double Reference(Family family, double r) {
  const double s3 = std::sqrt(3.0) * r, s5 = std::sqrt(5.0) * r;
  switch (family) {
    case Family::kSquaredExponential:
      return std::exp(-r * r / 2.0);
    case Family::kMatern12:
      return std::exp(-r);
    case Family::kMatern32:
      return (1.0 + s3) * std::exp(-s3);
    case Family::kMatern52:
      return (1.0 + s5 + s5 * s5 / 3.0) * std::exp(-s5);
  }
  return NAN;
}

TEST(Profile, MatchesTheFormulasAndTheirSlopes) {
  for (Family family : kFamilies) {
    for (double r : {1e-3, 0.1, 0.5, 1.0, 3.0, 10.0}) {
      const ProfileValue p = Profile(family, r * r);
      EXPECT_NEAR(p.value, Reference(family, r), 1e-14);
      const double h = 1e-6 * r * r;
      const double slope =
          (Reference(family, std::sqrt(r * r + h)) - Reference(family, std::sqrt(r * r - h))) / (2.0 * h);
      EXPECT_NEAR(p.slope, slope, 1e-6 * std::max(1.0, std::abs(slope)) + 1e-10 / h * 1e-6) << FamilyName(family) << r;
    }
    EXPECT_EQ(Profile(family, 0.0).value, 1.0);
    EXPECT_TRUE(std::isfinite(Profile(family, 0.0).slope));
    EXPECT_EQ(Profile(family, 1e8).value, 0.0);
    EXPECT_TRUE(std::isfinite(Profile(family, 1e300).slope));
  }
}

TEST(Profile, NamesReadBack) {
  for (Family family : kFamilies) EXPECT_EQ(ParseFamily(FamilyName(family)), family);
  EXPECT_FALSE(ParseFamily("rbf").has_value());
}

TEST(StationaryKernel, GramMatchesPairwiseEvaluationAndIsPositive) {
  const Index n = 70, d = 3;
  const MatrixXd x = RandomPoints(1, n, d);
  const VectorXd l = (VectorXd(3) << 0.1, 0.7, 3.0).finished();
  for (Family family : kFamilies) {
    const StationaryKernel kernel(ArdShape(family, d), l, 2.5);
    const MatrixXd k = kernel.Gram(x);
    EXPECT_EQ(k, k.transpose());
    for (Index a = 0; a < n; ++a) {
      EXPECT_EQ(k(a, a), 2.5);
      for (Index b = 0; b < n; ++b) {
        const double r = ((x.row(a) - x.row(b)).transpose().array() / l.array()).matrix().norm();
        ASSERT_NEAR(k(a, b), 2.5 * Reference(family, r), 1e-13);
      }
    }
    EXPECT_GE(Eigen::SelfAdjointEigenSolver<MatrixXd>(k).eigenvalues().minCoeff(), -1e-10 * n * 2.5);
  }
}

TEST(StationaryKernel, CrossAgreesWithGram) {
  const MatrixXd x = RandomPoints(2, 300, 4);
  const StationaryKernel kernel(ArdShape(Family::kMatern52, 4), VectorXd::Constant(4, 0.4), 1.3);
  MatrixXd cross, slope, gram, gram_slope;
  const MatrixXd z = kernel.Scale(x);
  kernel.Cross(z, z, &cross, &slope);
  kernel.GramLower(z, &gram, &gram_slope);
  EXPECT_LT(MatrixXd((cross - gram).triangularView<Eigen::Lower>()).cwiseAbs().maxCoeff(), 1e-15);
  EXPECT_LT(MatrixXd((slope - gram_slope).triangularView<Eigen::Lower>()).cwiseAbs().maxCoeff(), 1e-15);
}

TEST(StationaryKernel, LimitsOfTheLengthscale) {
  const MatrixXd x = RandomPoints(3, 20, 2);
  for (Family family : kFamilies) {
    const StationaryKernel wide(ArdShape(family, 2), VectorXd::Constant(2, 1e9), 1.0);
    EXPECT_LT((wide.Gram(x) - MatrixXd::Ones(20, 20)).cwiseAbs().maxCoeff(), 1e-8);
    const StationaryKernel narrow(ArdShape(family, 2), VectorXd::Constant(2, 1e-6), 1.0);
    EXPECT_LT((narrow.Gram(x) - MatrixXd::Identity(20, 20)).cwiseAbs().maxCoeff(), 1e-12);
  }
}

TEST(StationaryKernel, OneHotColumnsSharingALengthscaleSeeOnlyWhetherLabelsDiffer) {
  // Three labels at e_i/sqrt2: every pair at distance 1, whichever the labels.
  const double s = std::sqrt(0.5);
  const MatrixXd x = (MatrixXd(3, 4) << 0.2, s, 0, 0, 0.2, 0, s, 0, 0.2, 0, 0, s).finished();
  const KernelShape shape = GroupedShape(Family::kMatern52, {0, 1, 1, 1});
  EXPECT_EQ(shape.groups, 2);
  const MatrixXd k = StationaryKernel(shape, (VectorXd(2) << 0.5, 2.0).finished(), 1.0).Gram(x);
  for (Index a = 0; a < 3; ++a) {
    for (Index b = 0; b < a; ++b) EXPECT_NEAR(k(a, b), Reference(Family::kMatern52, 0.5), 1e-14);
  }
}

TEST(StationaryKernel, LengthscaleGradientMatchesDifferences) {
  const Index n = 25, d = 4;
  const MatrixXd x = RandomPoints(5, n, d);
  const MatrixXd a = RandomPoints(6, n, n);
  const MatrixXd m = a + a.transpose() - MatrixXd::Ones(n, n);
  for (Family family : kFamilies) {
    const KernelShape shape = GroupedShape(family, {0, 1, 1, 2});
    auto f = [&](const VectorXd& log_l) {
      return (m.array() * StationaryKernel(shape, log_l.array().exp().matrix(), 1.7).Gram(x).array()).sum();
    };
    const VectorXd log_l = (VectorXd(3) << -1.0, 0.3, -0.2).finished();
    const StationaryKernel kernel(shape, log_l.array().exp().matrix(), 1.7);
    MatrixXd k, slope;
    const MatrixXd z = kernel.Scale(x);
    kernel.GramLower(z, &k, &slope);
    slope.array() *= m.array();
    const math::GradientCheck check = math::CheckGradient(f, log_l, LogLengthscaleGradient(shape, z, slope));
    EXPECT_LT(check.error, 1e-8) << FamilyName(family) << ": " << check.Summary();
  }
}

TEST(StationaryKernel, NoColumnsMakeAConstant) {
  const StationaryKernel kernel(ArdShape(Family::kMatern52, 0), VectorXd(0), 2.0);
  EXPECT_EQ(kernel.Gram(MatrixXd(3, 0)), MatrixXd::Constant(3, 3, 2.0));
}

}  // namespace
}  // namespace luthier::kernels
