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

constexpr Family kFamilies[] = {Family::kSquaredExponential, Family::kMatern52};

// Every legal shape of the grouping.
std::vector<KernelShape> StationaryShapes(const std::vector<int>& column_group) {
  std::vector<KernelShape> shapes;
  for (Family family : kFamilies) {
    for (Structure structure : {Structure::kJoint, Structure::kAdditive, Structure::kPairwise}) {
      shapes.push_back(GroupedShape(family, column_group, structure));
    }
  }
  return shapes;
}

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
  const double s5 = std::sqrt(5.0) * r;
  switch (family) {
    case Family::kSquaredExponential:
      return std::exp(-r * r / 2.0);
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
    EXPECT_LT(Profile(family, 1e8).value, 1e-300);
    EXPECT_TRUE(std::isfinite(Profile(family, 1e300).slope));
  }
}

TEST(Profile, NamesReadBack) {
  for (Family family : kFamilies) EXPECT_EQ(ParseFamily(FamilyName(family)), family);
  EXPECT_FALSE(ParseFamily("rbf").has_value());
}

// k(x, x') at unit variance, straight from the definitions in Structure.
double ReferenceKernel(const KernelShape& shape, const VectorXd& l, double parameter, const VectorXd& difference) {
  std::vector<double> r2(static_cast<size_t>(shape.groups), 0.0);
  double all = 0.0;
  for (Index j = 0; j < difference.size(); ++j) {
    const int g = shape.column_group[static_cast<size_t>(j)];
    const double term = std::pow(difference(j) / l(g), 2);
    r2[static_cast<size_t>(g)] += term;
    all += term;
  }
  if (shape.structure == Structure::kJoint) return Reference(shape.family, std::sqrt(all));
  double singles = 0.0, pairs = 0.0;
  for (int g = 0; g < shape.groups; ++g) {
    const double fg = Reference(shape.family, std::sqrt(r2[static_cast<size_t>(g)]));
    singles += fg / shape.groups;
    for (int h = 0; h < g; ++h) {
      pairs += 2.0 * fg * Reference(shape.family, std::sqrt(r2[static_cast<size_t>(h)])) /
               (shape.groups * (shape.groups - 1.0));
    }
  }
  if (shape.structure == Structure::kAdditive) return singles;
  return (singles + parameter * pairs) / (1.0 + parameter);
}

TEST(StationaryKernel, GramMatchesTheDefinitionsAndIsPositive) {
  const Index n = 70, d = 4;
  const MatrixXd x = RandomPoints(1, n, d);
  const VectorXd l = (VectorXd(3) << 0.1, 0.7, 3.0).finished();
  for (const KernelShape& shape : StationaryShapes({0, 1, 1, 2})) {
    const StationaryKernel kernel(shape, l, 2.5, 0.6);
    const MatrixXd k = kernel.Gram(x);
    EXPECT_EQ(k, k.transpose());
    for (Index a = 0; a < n; ++a) {
      EXPECT_NEAR(k(a, a), 2.5, 1e-15);
      for (Index b = 0; b < n; ++b) {
        ASSERT_NEAR(k(a, b), 2.5 * ReferenceKernel(shape, l, 0.6, (x.row(a) - x.row(b)).transpose()), 1e-13)
            << ShapeName(shape);
      }
    }
    EXPECT_GE(Eigen::SelfAdjointEigenSolver<MatrixXd>(k).eigenvalues().minCoeff(), -1e-10 * n * 2.5);
  }
}

TEST(StationaryKernel, CrossAgreesWithGram) {
  const MatrixXd x = RandomPoints(2, 300, 4);
  for (const KernelShape& shape : StationaryShapes({0, 1, 2, 3})) {
    const StationaryKernel kernel(shape, VectorXd::Constant(4, 0.4), 1.3, 2.0);
    MatrixXd cross, gram;
    const MatrixXd z = kernel.Scale(x);
    kernel.Cross(z, z, &cross);
    ASSERT_TRUE(kernel.GramLower(z, &gram, nullptr, base::StopToken()).ok());
    EXPECT_LT(MatrixXd((cross - gram).triangularView<Eigen::Lower>()).cwiseAbs().maxCoeff(), 1e-14);
  }
}

TEST(StationaryKernel, PointCrossAgreesWithCrossAndItsDerivativesWithDifferences) {
  const MatrixXd x = RandomPoints(8, 20, 4);
  const VectorXd at = RandomPoints(9, 1, 4).row(0).transpose();
  for (const KernelShape& shape : StationaryShapes({0, 1, 1, 2})) {
    const StationaryKernel kernel(shape, (VectorXd(3) << 0.3, 0.8, 0.5).finished(), 1.3, 0.4);
    const MatrixXd z = kernel.Scale(x);
    auto value = [&](const VectorXd& u, Index i) {
      MatrixXd cross;
      kernel.Cross(z, kernel.Scale(u.transpose()), &cross);
      return cross(i, 0);
    };
    VectorXd k;
    MatrixXd jacobian;
    kernel.PointCross(z, kernel.Scale(at.transpose()).row(0), &k, &jacobian);
    for (Index i = 0; i < x.rows(); ++i) {
      EXPECT_NEAR(k(i), value(at, i), 1e-15);
      const math::GradientCheck check =
          math::CheckGradient([&](const VectorXd& u) { return value(u, i); }, at, jacobian.row(i).transpose());
      EXPECT_LT(check.error, 1e-7) << ShapeName(shape) << ": " << check.Summary();
    }
  }
}

TEST(StationaryKernel, LimitsOfTheLengthscale) {
  const MatrixXd x = RandomPoints(3, 20, 2);
  for (Family family : kFamilies) {
    const StationaryKernel wide(ArdShape(family, 2), VectorXd::Constant(2, 1e9), 1.0);
    EXPECT_LT((wide.Gram(x) - MatrixXd::Ones(20, 20)).cwiseAbs().maxCoeff(), 1e-8);
    const StationaryKernel narrow(ArdShape(family, 2), VectorXd::Constant(2, 1e-6), 1.0);
    EXPECT_LT((narrow.Gram(x) - MatrixXd::Identity(20, 20)).cwiseAbs().maxCoeff(), 1e-8);
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

TEST(Profile, IsAsExactAsTheExponential) {
  // From the first distance that counts to the last one that does.
  for (int i = 0; i <= 3000; ++i) {
    const double t = std::pow(10.0, -18.0 + 20.84 * i / 3000.0);
    const double exact = std::exp(-t);
    EXPECT_NEAR(Profile(Family::kSquaredExponential, 2.0 * t).value, exact, 4e-16 * exact) << t;
  }
  EXPECT_EQ(Profile(Family::kSquaredExponential, 1500.0).value, 0.0);
  EXPECT_TRUE(std::isnan(Profile(Family::kSquaredExponential, NAN).value));
}

TEST(StationaryKernel, APairHasTheSameBitsWhereverItStands) {
  for (Index n : {1, 2, 3, 5, 16, 23, 40}) {
    const MatrixXd x = RandomPoints(7, n, 4);
    for (const KernelShape& shape : StationaryShapes({0, 1, 1, 2})) {
      const StationaryKernel kernel(shape, VectorXd::Constant(3, 0.4), 1.3, 0.8);
      const MatrixXd z = kernel.Scale(x);
      const MatrixXd gram = kernel.Gram(x);
      MatrixXd cross, alone, jacobian, point_jacobian;
      VectorXd k, one;
      kernel.Cross(z, z, &cross);
      EXPECT_EQ(gram, cross) << ShapeName(shape) << " " << n;
      for (Index i = 0; i < n; ++i) {
        kernel.Cross(z.row(i), z, &alone);
        EXPECT_EQ(alone, cross.row(i));
        kernel.PointCross(z, z.row(0), &k, &jacobian);
        EXPECT_EQ(k, cross.col(0));
        kernel.PointCross(z.row(i), z.row(0), &one, &point_jacobian);
        EXPECT_EQ(point_jacobian, jacobian.row(i));
      }
    }
  }
}

TEST(StationaryKernel, ContractionReadsTheLowerTriangleOnly) {
  for (Index n : {1, 2, 4, 5, 30}) {
    const MatrixXd x = RandomPoints(8, n, 3), m = RandomPoints(9, n, n);
    MatrixXd lower = m;
    lower.triangularView<Eigen::StrictlyUpper>().setConstant(NAN);
    for (const KernelShape& shape : StationaryShapes({0, 1, 2})) {
      const StationaryKernel kernel(shape, VectorXd::Constant(3, 0.4), 1.3, 0.8);
      const MatrixXd z = kernel.Scale(x);
      MatrixXd k, slope;
      ASSERT_TRUE(kernel.GramLower(z, &k, &slope, base::StopToken()).ok());
      const KernelGradient a = kernel.Contract(z, slope, m, base::StopToken()).value(),
                           b = kernel.Contract(z, slope, lower, base::StopToken()).value();
      EXPECT_EQ(a.log_lengthscales, b.log_lengthscales) << ShapeName(shape) << " " << n;
      EXPECT_EQ(a.log_shape_parameter, b.log_shape_parameter);
    }
  }
}

TEST(StationaryKernel, ContractionMatchesDifferences) {
  const Index n = 25, d = 4;
  const MatrixXd x = RandomPoints(5, n, d);
  const MatrixXd a = RandomPoints(6, n, n);
  const MatrixXd m = a + a.transpose() - MatrixXd::Ones(n, n);
  for (const KernelShape& shape : StationaryShapes({0, 1, 1, 2})) {
    auto kernel_at = [&](const VectorXd& logs) {
      return StationaryKernel(shape, logs.head(3).array().exp().matrix(), 1.7, std::exp(logs(3)));
    };
    auto f = [&](const VectorXd& logs) { return (m.array() * kernel_at(logs).Gram(x).array()).sum(); };
    const VectorXd logs = (VectorXd(4) << -1.0, 0.3, -0.2, 0.5).finished();
    const StationaryKernel kernel = kernel_at(logs);
    MatrixXd k, slope, weights = m;
    const MatrixXd z = kernel.Scale(x);
    ASSERT_TRUE(kernel.GramLower(z, &k, &slope, base::StopToken()).ok());
    const KernelGradient gradient = kernel.Contract(z, slope, weights, base::StopToken()).value();
    VectorXd analytic(4);
    analytic << gradient.log_lengthscales, gradient.log_shape_parameter;
    const math::GradientCheck check = math::CheckGradient(f, logs, analytic);
    EXPECT_LT(check.error, 1e-8) << ShapeName(shape) << ": " << check.Summary();
    if (!shape.has_shape_parameter()) {
      EXPECT_EQ(gradient.log_shape_parameter, 0.0);
    }
  }
}

TEST(StationaryKernel, NoColumnsMakeAConstant) {
  const StationaryKernel kernel(ArdShape(Family::kMatern52, 0), VectorXd(0), 2.0);
  EXPECT_EQ(kernel.Gram(MatrixXd(3, 0)), MatrixXd::Constant(3, 3, 2.0));
}

}  // namespace
}  // namespace luthier::kernels
