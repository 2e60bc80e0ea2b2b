#include "lib/kernels/derivatives.h"

#include <cmath>
#include <vector>

#include "Eigen/Eigenvalues"
#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/math/finite_difference.h"

namespace luthier::kernels {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

MatrixXd RandomUniform(uint64_t seed, Index n, Index d) {
  base::RandomStream stream(seed, "derivatives");
  MatrixXd x(n, d);
  for (Index j = 0; j < d; ++j) {
    for (Index i = 0; i < n; ++i) x(i, j) = stream.Uniform();
  }
  return x;
}

std::vector<KernelShape> Shapes(const std::vector<int>& groups) {
  std::vector<KernelShape> shapes;
  for (Family family : {Family::kSquaredExponential, Family::kMatern52}) {
    for (Structure structure : {Structure::kJoint, Structure::kAdditive, Structure::kPairwise}) {
      shapes.push_back(GroupedShape(family, groups, structure));
    }
  }
  return shapes;
}

StationaryKernel KernelAt(const KernelShape& shape) {
  const VectorXd lengthscales = (VectorXd(3) << 0.4, 0.9, 0.6).finished();
  return StationaryKernel(shape, lengthscales, 1.3, 0.7);
}

double Value(const StationaryKernel& kernel, const VectorXd& a, const VectorXd& b) {
  MatrixXd both(2, a.size());
  both << a.transpose(), b.transpose();
  return kernel.Gram(both)(1, 0);
}

// n points with their values, some with one slope, some with d, some with none; rows shuffled.
ObservedRows MixedRows(const StationaryKernel& kernel, const MatrixXd& x, MatrixXd* directions) {
  ObservedRows observed;
  const Index d = x.cols();
  std::vector<VectorXd> list;
  for (Index i = 0; i < x.rows(); ++i) {
    if (i % 3 == 1) {
      observed.rows.push_back({i, static_cast<Index>(list.size())});
      list.push_back(RandomUniform(100 + static_cast<uint64_t>(i), d, 1).col(0).array() - 0.4);
    }
    // The last point has slopes but no value.
    if (i + 1 < x.rows()) observed.rows.push_back({i, -1});
    if (i % 3 == 2) {
      for (Index j = 0; j < d; ++j) {
        observed.rows.push_back({i, static_cast<Index>(list.size())});
        list.push_back(VectorXd::Unit(d, j));
      }
    }
  }
  directions->resize(static_cast<Index>(list.size()), d);
  for (size_t i = 0; i < list.size(); ++i) directions->row(static_cast<Index>(i)) = list[i].transpose();
  observed.points = kernel.Scale(x);
  observed.directions = kernel.Scale(*directions);
  return observed;
}

MatrixXd Full(const MatrixXd& lower) {
  return lower.selfadjointView<Eigen::Lower>();
}

TEST(Profile, HigherDerivativesMatchDifferences) {
  for (Family family : {Family::kSquaredExponential, Family::kMatern52}) {
    for (double r2 : {0.01, 0.3, 2.0, 30.0}) {
      auto at = [&](double t) {
        VectorXd v(4);
        EvaluateProfileDerivatives(family, 1, &t, &v(0), &v(1), &v(2), &v(3));
        return v;
      };
      const double h = 1e-5 * r2;
      const VectorXd numeric = (at(r2 + h) - at(r2 - h)) / (2.0 * h);
      const VectorXd v = at(r2);
      EXPECT_EQ(v(0), Profile(family, r2).value);
      EXPECT_EQ(v(1), Profile(family, r2).slope);
      for (Index i = 0; i < 3; ++i) EXPECT_NEAR(v(i + 1) / numeric(i), 1.0, 1e-7) << FamilyName(family) << r2;
    }
  }
}

TEST(DerivativeKernel, EveryBlockMatchesDifferencesOfTheKernel) {
  const MatrixXd x = RandomUniform(1, 8, 4);
  for (const KernelShape& shape : Shapes({0, 1, 1, 2})) {
    const StationaryKernel kernel = KernelAt(shape);
    const DerivativeKernel derivatives(kernel);
    MatrixXd directions;
    const ObservedRows observed = MixedRows(kernel, x, &directions);
    MatrixXd k;
    ASSERT_TRUE(derivatives.GramLower(observed, &k, base::StopToken()).ok());
    k = Full(k);
    for (size_t a = 0; a < observed.rows.size(); ++a) {
      for (size_t b = 0; b < observed.rows.size(); ++b) {
        const ObservedRow &ra = observed.rows[a], &rb = observed.rows[b];
        // Same point: the mixed derivative of rough kernels is the limit of no difference worth taking; see the next
        // test.
        if (ra.point == rb.point && ra.slope >= 0 && rb.slope >= 0) continue;
        const VectorXd xa = x.row(ra.point), xb = x.row(rb.point);
        const VectorXd va = ra.slope < 0 ? VectorXd::Zero(4) : VectorXd(directions.row(ra.slope));
        const VectorXd vb = rb.slope < 0 ? VectorXd::Zero(4) : VectorXd(directions.row(rb.slope));
        auto at = [&](double s, double t) { return Value(kernel, xa + s * va, xb + t * vb); };
        const double h = ra.slope >= 0 && rb.slope >= 0 ? 1e-4 : 1e-5;
        double expected = at(0, 0);
        if (ra.slope >= 0 && rb.slope >= 0) {
          expected = (at(h, h) - at(h, -h) - at(-h, h) + at(-h, -h)) / (4.0 * h * h);
        } else if (ra.slope >= 0) {
          expected = (at(h, 0) - at(-h, 0)) / (2.0 * h);
        } else if (rb.slope >= 0) {
          expected = (at(0, h) - at(0, -h)) / (2.0 * h);
        }
        EXPECT_NEAR(k(static_cast<Index>(a), static_cast<Index>(b)), expected, 2e-5) << ShapeName(shape);
      }
    }
  }
}

TEST(DerivativeKernel, JointFormulasOfSquaredExponentialAndMatern52) {
  const StationaryKernel se(ArdShape(Family::kSquaredExponential, 2), VectorXd::Constant(2, 0.5), 1.7);
  const StationaryKernel m52(ArdShape(Family::kMatern52, 2), VectorXd::Constant(2, 0.5), 1.7);
  const MatrixXd x = (MatrixXd(2, 2) << 0.1, 0.2, 0.4, 0.9).finished();
  const VectorXd delta = x.row(0) - x.row(1), a = 4.0 * delta;
  const double r = std::sqrt(4.0 * delta.squaredNorm()), e = 1.7 * std::exp(-std::sqrt(5.0) * r);
  const double root = 1.0 + std::sqrt(5.0) * r;
  for (const StationaryKernel& kernel : {se, m52}) {
    const bool gauss = kernel.shape().family == Family::kSquaredExponential;
    const double k = 1.7 * std::exp(-0.5 * r * r);
    ObservedRows observed;
    observed.points = kernel.Scale(x);
    observed.directions = kernel.Scale(MatrixXd::Identity(2, 2).replicate(2, 1));
    observed.rows = {{0, -1}, {1, -1}, {0, 0}, {0, 1}, {1, 2}, {1, 3}};
    MatrixXd gram;
    ASSERT_TRUE(DerivativeKernel(kernel).GramLower(observed, &gram, base::StopToken()).ok());
    gram = Full(gram);
    const VectorXd prior = DerivativeKernel(kernel).GradientVariances();
    for (Index p = 0; p < 2; ++p) {
      EXPECT_NEAR(gram(2 + p, 1), gauss ? -k * a(p) : -5.0 / 3.0 * e * root * a(p), 1e-14);
      EXPECT_NEAR(gram(0, 4 + p), gauss ? k * a(p) : 5.0 / 3.0 * e * root * a(p), 1e-14);
      EXPECT_EQ(gram(2 + p, 0), 0.0);
      EXPECT_NEAR(gram(2 + p, 2 + p), (gauss ? 1.0 : 5.0 / 3.0) * 1.7 * 4.0, 1e-13);
      EXPECT_EQ(prior(p), gram(2 + p, 2 + p));
      for (Index q = 0; q < 2; ++q) {
        const double dpq = p == q ? 4.0 : 0.0;
        EXPECT_NEAR(gram(2 + p, 4 + q),
                    gauss ? k * (dpq - a(p) * a(q)) : 5.0 / 3.0 * e * (root * dpq - 5.0 * a(p) * a(q)), 1e-13);
      }
    }
  }
}

TEST(DerivativeKernel, JointMatricesAreAllPositiveSemidefinite) {
  const MatrixXd x = RandomUniform(2, 14, 4);
  for (const KernelShape& shape : Shapes({0, 1, 1, 2})) {
    const StationaryKernel kernel = KernelAt(shape);
    MatrixXd directions, k;
    ASSERT_TRUE(DerivativeKernel(kernel).GramLower(MixedRows(kernel, x, &directions), &k, base::StopToken()).ok());
    const VectorXd eigenvalues = Eigen::SelfAdjointEigenSolver<MatrixXd>(k).eigenvalues();
    EXPECT_GT(eigenvalues(0), -1e-10 * eigenvalues.tail(1)(0)) << ShapeName(shape);
  }
}

TEST(DerivativeKernel, CrossCovariancesAreRowsOfTheJointMatrix) {
  const MatrixXd x = RandomUniform(3, 9, 4), star = RandomUniform(4, 5, 4);
  for (const KernelShape& shape : Shapes({0, 1, 1, 2})) {
    const StationaryKernel kernel = KernelAt(shape);
    const DerivativeKernel derivatives(kernel);
    MatrixXd directions, cross;
    const ObservedRows observed = MixedRows(kernel, x, &directions);
    const Index n = static_cast<Index>(observed.rows.size());
    derivatives.Cross(observed, kernel.Scale(star), &cross);
    for (Index q = 0; q < star.rows(); ++q) {
      // The point with its value and gradient as further rows.
      ObservedRows more = observed;
      more.points.conservativeResize(10, 4);
      more.points.row(9) = kernel.Scale(star.row(q));
      more.rows.push_back({9, -1});
      const Index m = directions.rows();
      more.directions.conservativeResize(m + 4, 4);
      more.directions.bottomRows(4) = kernel.Scale(MatrixXd::Identity(4, 4));
      for (Index j = 0; j < 4; ++j) more.rows.push_back({9, m + j});
      MatrixXd joint, jacobian;
      VectorXd k;
      ASSERT_TRUE(derivatives.GramLower(more, &joint, base::StopToken()).ok());
      joint = Full(joint);
      EXPECT_LT((cross.col(q) - joint.col(n).head(n)).cwiseAbs().maxCoeff(), 1e-13) << ShapeName(shape);
      derivatives.PointCross(observed, kernel.Scale(star.row(q)).row(0), &k, &jacobian);
      EXPECT_LT((k - joint.col(n).head(n)).cwiseAbs().maxCoeff(), 1e-13) << ShapeName(shape);
      EXPECT_LT((jacobian - joint.block(0, n + 1, n, 4)).cwiseAbs().maxCoeff(), 1e-12) << ShapeName(shape);
    }
  }
}

TEST(DerivativeKernel, ContractionMatchesDifferences) {
  const MatrixXd x = RandomUniform(5, 9, 4);
  for (const KernelShape& shape : Shapes({0, 1, 1, 2})) {
    MatrixXd directions;
    const Index rows = static_cast<Index>(MixedRows(KernelAt(shape), x, &directions).rows.size());
    const MatrixXd half = RandomUniform(6, rows, rows);
    const MatrixXd m = half + half.transpose() - MatrixXd::Ones(rows, rows);
    auto kernel_at = [&](const VectorXd& logs) {
      return StationaryKernel(shape, logs.head(3).array().exp().matrix(), 1.7, std::exp(logs(3)));
    };
    auto f = [&](const VectorXd& logs) {
      const StationaryKernel kernel = kernel_at(logs);
      MatrixXd unused, k;
      EXPECT_TRUE(DerivativeKernel(kernel).GramLower(MixedRows(kernel, x, &unused), &k, base::StopToken()).ok());
      return (m.array() * Full(k).array()).sum();
    };
    const VectorXd logs = (VectorXd(4) << -0.6, 0.3, -0.2, 0.5).finished();
    const StationaryKernel kernel = kernel_at(logs);
    MatrixXd unused;
    const KernelGradient gradient =
        DerivativeKernel(kernel).Contract(MixedRows(kernel, x, &unused), m, base::StopToken()).value();
    VectorXd analytic(4);
    analytic << gradient.log_lengthscales, gradient.log_shape_parameter;
    const math::GradientCheck check = math::CheckGradient(f, logs, analytic);
    EXPECT_LT(check.error, 1e-8) << ShapeName(shape) << ": " << check.Summary();

    auto scale = [&](const VectorXd& at) {
      return std::log(DerivativeKernel(kernel_at(at)).GradientVariances().mean());
    };
    const KernelGradient by_scale = DerivativeKernel(kernel).LogMeanGradientVariance();
    analytic << by_scale.log_lengthscales, by_scale.log_shape_parameter;
    EXPECT_LT(math::CheckGradient(scale, logs, analytic).error, 1e-8) << ShapeName(shape);
  }
}

TEST(DerivativeKernel, TwinPointsStayFinite) {
  // Same point twice, and one as near as numbers get.
  MatrixXd x = MatrixXd::Constant(3, 4, 0.5);
  x(2, 0) = std::nextafter(0.5, 1.0);
  for (const KernelShape& shape : Shapes({0, 1, 1, 2})) {
    const StationaryKernel kernel = KernelAt(shape);
    const DerivativeKernel derivatives(kernel);
    ObservedRows observed;
    observed.points = kernel.Scale(x);
    observed.directions = kernel.Scale(MatrixXd::Ones(3, 4));
    observed.rows = {{0, -1}, {1, -1}, {2, -1}, {0, 0}, {1, 1}, {2, 2}};
    MatrixXd k;
    ASSERT_TRUE(derivatives.GramLower(observed, &k, base::StopToken()).ok());
    const MatrixXd full = Full(k);
    EXPECT_TRUE(full.allFinite()) << ShapeName(shape);
    EXPECT_NEAR(full(3, 4), full(3, 3), 1e-10 * full(3, 3)) << ShapeName(shape);
    EXPECT_NEAR(full(3, 5), full(3, 3), 1e-10 * full(3, 3)) << ShapeName(shape);
    const KernelGradient gradient = derivatives.Contract(observed, MatrixXd::Ones(6, 6), base::StopToken()).value();
    EXPECT_TRUE(gradient.log_lengthscales.allFinite()) << ShapeName(shape);
    EXPECT_TRUE(std::isfinite(gradient.log_shape_parameter)) << ShapeName(shape);
  }
}

}  // namespace
}  // namespace luthier::kernels
