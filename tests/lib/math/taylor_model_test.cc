#include "lib/math/taylor_model.h"

#include <cmath>
#include <memory>
#include <vector>

#include "Eigen/Dense"
#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/math/finite_difference.h"

namespace luthier::math {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

VectorXd RandomVector(base::RandomStream& stream, Index n, double size = 1.0) {
  VectorXd v(n);
  for (Index i = 0; i < n; ++i) v(i) = size * stream.Normal();
  return v;
}

std::shared_ptr<const ScaledMonomials> Basis(int dim, int degree) {
  return std::make_shared<const ScaledMonomials>(dim, degree);
}

TEST(ScaledMonomials, CountTheirTerms) {
  EXPECT_EQ(ScaledMonomials(2, 8).size(), 44);
  EXPECT_EQ(ScaledMonomials(5, 4).size(), 125);
  EXPECT_EQ(ScaledMonomials(1, 1).size(), 1);
  for (int d = 1; d <= 6; ++d) EXPECT_EQ(ScaledMonomials::Count(d, 3, 1000), ScaledMonomials(d, 3).size());
  EXPECT_EQ(ScaledMonomials::Count(1000, 8, 5000), 5000);
  EXPECT_EQ(ScaledMonomials::LargestDegree(5, 130, 8), 4);
  EXPECT_EQ(ScaledMonomials::LargestDegree(2, 130, 8), 8);
  EXPECT_EQ(ScaledMonomials::LargestDegree(200, 130, 8), 1);
}

TEST(ScaledMonomials, ProductsSumToTheTruncatedExponential) {
  base::RandomStream stream(1, "taylor test");
  const ScaledMonomials basis(4, 5);
  const VectorXd z = RandomVector(stream, 4), w = RandomVector(stream, 4);
  VectorXd a(basis.size()), b(basis.size());
  basis.Values(z, a);
  basis.Values(w, b);
  double expected = 0.0, term = 1.0;
  for (int k = 1; k <= 5; ++k) expected += term *= z.dot(w) / k;
  EXPECT_NEAR(a.dot(b), expected, 1e-12 * (1.0 + std::abs(expected)));
}

TEST(ScaledMonomials, DifferentiateThemselves) {
  base::RandomStream stream(2, "taylor test");
  const ScaledMonomials basis(3, 4);
  const VectorXd c = RandomVector(stream, basis.size()), z = RandomVector(stream, 3), v = RandomVector(stream, 3);
  const auto f = [&](const VectorXd& x) {
    VectorXd values(basis.size());
    basis.Values(x, values);
    return c.dot(values);
  };
  VectorXd values(basis.size()), slopes(basis.size());
  basis.Values(z, values);
  basis.Slopes(values, v, slopes);
  const VectorXd gradient = CentralDifference(f, z);
  EXPECT_LT((basis.Gradient(c, values) - gradient).norm(), 1e-6 * gradient.norm());
  EXPECT_NEAR(slopes.dot(c), gradient.dot(v), 1e-6 * gradient.norm());
  MatrixXd hessian(3, 3);
  for (Index j = 0; j < 3; ++j) {
    hessian.col(j) =
        (CentralDifference(f, 1e-4 * VectorXd::Unit(3, j)) - CentralDifference(f, -1e-4 * VectorXd::Unit(3, j))) / 2e-4;
  }
  EXPECT_LT((basis.HessianAtZero(c) - hessian).norm(), 1e-4 * hessian.norm());
}

TaylorData RandomData(base::RandomStream& stream, Index d, Index m, Index k) {
  TaylorData data;
  data.offsets.resize(m, d);
  data.rises = RandomVector(stream, m);
  for (Index i = 0; i < m; ++i) data.offsets.row(i) = RandomVector(stream, d, 0.5).transpose();
  data.slope_offsets.resize(k, d);
  data.slope_directions.resize(k, d);
  data.slopes = RandomVector(stream, k);
  for (Index i = 0; i < k; ++i) {
    data.slope_offsets.row(i) = RandomVector(stream, d, i == 0 ? 0.0 : 0.5).transpose();
    data.slope_directions.row(i) = RandomVector(stream, d).transpose();
  }
  return data;
}

// The same posterior by covariance matrices: k(z, w) = exp(t) - 1 up to degree D, its derivatives, and the remainder on
// the diagonal.
struct Dense {
  int degree;
  VectorXd lengths;
  const TaylorData& data;

  double Series(double t, int derivative) const {  // d^derivative/dt^derivative of sum_{k=1..D} t^k/k!.
    double sum = 0.0;
    for (int k = std::max(1, derivative); k <= degree; ++k)
      sum += std::pow(t, k - derivative) / std::tgamma(k - derivative + 1);
    return sum;
  }
  // Facts i, numbered values first; -1: the value at `z`.
  double Covariance(Index i, Index j, const VectorXd& z) const {
    const Index m = data.rises.size();
    const auto at = [&](Index r) -> VectorXd {
      if (r < 0) return z.cwiseQuotient(lengths);
      return (r < m ? data.offsets.row(r) : data.slope_offsets.row(r - m)).transpose().cwiseQuotient(lengths);
    };
    const auto along = [&](Index r) -> VectorXd {
      if (r < m) return VectorXd::Zero(lengths.size());
      return data.slope_directions.row(r - m).transpose().cwiseQuotient(lengths);
    };
    const VectorXd x = at(i), y = at(j), v = along(i), w = along(j);
    const double t = x.dot(y);
    if (i < m && j < m) return Series(t, 0);
    if (i < m) return Series(t, 1) * x.dot(w);
    if (j < m) return Series(t, 1) * y.dot(v);
    return Series(t, 1) * v.dot(w) + Series(t, 2) * x.dot(w) * y.dot(v);
  }
  double FullVariance(Index i, const VectorXd& z) const {
    const Dense all{60, lengths, data};
    return all.Covariance(i, i, z);
  }
};

TEST(TaylorModel, EqualsTheDenseGaussianProcess) {
  for (const Index k : {0, 5}) {
    SCOPED_TRACE(k);
    base::RandomStream stream(3, "taylor test", static_cast<uint64_t>(k));
    const TaylorData data = RandomData(stream, 2, 7, k);
    const VectorXd lengths = (VectorXd(2) << 0.7, 1.3).finished();
    const Dense dense{3, lengths, data};
    const Index n = data.rows();
    const VectorXd z = RandomVector(stream, 2, 0.4);
    MatrixXd c(n, n);
    VectorXd cross(n), y(n);
    y << data.rises, data.slopes;
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < n; ++j) c(i, j) = dense.Covariance(i, j, z);
      cross(i) = dense.Covariance(i, -1, z);
      c(i, i) = dense.FullVariance(i, z);
    }
    const Eigen::LLT<MatrixXd> llt(c);
    const auto model = TaylorModel::Fit(Basis(2, 3), data, lengths);
    ASSERT_TRUE(model.has_value());
    EXPECT_NEAR(model->Value(z, nullptr), cross.dot(llt.solve(y)), 1e-9);
    const double s2 = y.dot(llt.solve(y)) / static_cast<double>(n);
    EXPECT_NEAR(model->scale(), std::sqrt(s2), 1e-9);
    EXPECT_NEAR(model->Variance(z, nullptr), s2 * (dense.FullVariance(-1, z) - cross.dot(llt.solve(cross))), 1e-8);
    const double log_determinant = 2.0 * llt.matrixLLT().diagonal().array().log().sum();
    EXPECT_NEAR(model->log_likelihood(), -0.5 * static_cast<double>(n) * std::log(s2) - 0.5 * log_determinant, 1e-8);
  }
}

TEST(TaylorModel, DifferentiatesItself) {
  base::RandomStream stream(4, "taylor test");
  const TaylorData data = RandomData(stream, 3, 9, 4);
  const auto model = TaylorModel::Fit(Basis(3, 3), data, VectorXd::Constant(3, 1.1));
  ASSERT_TRUE(model.has_value());
  const VectorXd z = RandomVector(stream, 3, 0.3);
  VectorXd gradient, by_variance;
  model->Value(z, &gradient);
  model->Variance(z, &by_variance);
  const auto value = [&](const VectorXd& x) { return model->Value(x, nullptr); };
  const auto variance = [&](const VectorXd& x) { return model->Variance(x, nullptr); };
  EXPECT_LT((gradient - CentralDifference(value, z)).norm(), 1e-6 * gradient.norm());
  EXPECT_LT((by_variance - CentralDifference(variance, z)).norm(), 1e-5 * by_variance.norm());
  EXPECT_LT((model->GradientAtCentre() - CentralDifference(value, VectorXd::Zero(3))).norm(), 1e-6 * gradient.norm());
}

TEST(TaylorModel, RecoversAPolynomialOfItsDegree) {
  base::RandomStream stream(5, "taylor test");
  const ScaledMonomials truth(3, 3);
  const VectorXd c = RandomVector(stream, truth.size());
  const auto f = [&](const VectorXd& z) {
    VectorXd v(truth.size());
    truth.Values(z, v);
    return c.dot(v);
  };
  TaylorData data = RandomData(stream, 3, truth.size() + 6, 0);
  data.offsets.topRows(6) *= 1e-5;  // Some very near the centre.
  for (Index i = 0; i < data.rises.size(); ++i) data.rises(i) = f(data.offsets.row(i).transpose());
  // The remainder of degrees above three fades as the lengths grow.
  const auto model = TaylorModel::Fit(Basis(3, 3), data, VectorXd::Constant(3, 500.0));
  ASSERT_TRUE(model.has_value());
  for (int i = 0; i < 20; ++i) {
    const VectorXd z = RandomVector(stream, 3, 0.5);
    EXPECT_NEAR(model->Value(z, nullptr), f(z), 2e-5 * (1.0 + std::abs(f(z))));
  }
}

// Conn, Scheinberg & Vicente 2009, (5.6): the interpolating quadratic of least Frobenius norm of its Hessian, from its
// KKT system: [A M; M' 0] [lambda; g] = [rises; 0], A_ij = (z_i . z_j)^2 / 2, M = offsets.
TEST(TaylorModel, IsMinimumFrobeniusInterpolationInTheFlatLimit) {
  base::RandomStream stream(6, "taylor test");
  const Index d = 4, m = 9;  // Of 14 coefficients.
  const TaylorData data = RandomData(stream, d, m, 0);
  MatrixXd kkt = MatrixXd::Zero(m + d, m + d);
  kkt.topLeftCorner(m, m) = (data.offsets * data.offsets.transpose()).array().square() / 2.0;
  kkt.topRightCorner(m, d) = data.offsets;
  kkt.bottomLeftCorner(d, m) = data.offsets.transpose();
  VectorXd right = VectorXd::Zero(m + d);
  right.head(m) = data.rises;
  const VectorXd solution = kkt.fullPivLu().solve(right);
  MatrixXd hessian = MatrixXd::Zero(d, d);
  for (Index i = 0; i < m; ++i) hessian += solution(i) * data.offsets.row(i).transpose() * data.offsets.row(i);
  const auto model = TaylorModel::Fit(Basis(static_cast<int>(d), 2), data, VectorXd::Constant(d, 3000.0));
  ASSERT_TRUE(model.has_value());
  EXPECT_LT((model->HessianAtCentre() - hessian).norm(), 1e-4 * hessian.norm());
  EXPECT_LT((model->GradientAtCentre() - solution.tail(d)).norm(), 1e-4 * hessian.norm());
}

TEST(TaylorModel, LikelihoodFindsTheCoordinateThatMatters) {
  base::RandomStream stream(7, "taylor test");
  TaylorData data = RandomData(stream, 2, 30, 0);
  data.offsets *= 0.6;
  for (Index i = 0; i < 30; ++i) data.rises(i) = std::sin(6.0 * data.offsets(i, 0)) + 0.2 * data.offsets(i, 1);
  auto model = FitTaylorModel(Basis(2, 8), data, {}, 0.0, {}, base::StopToken()).value();
  for (int i = 0; i < 5 && model.has_value(); ++i)
    model = FitTaylorModel(Basis(2, 8), data, model->lengths(), 0.0, {}, base::StopToken()).value();
  ASSERT_TRUE(model.has_value());
  EXPECT_GT(model->lengths()(1), 3.0 * model->lengths()(0));
}

TEST(TaylorModel, LikelihoodNoticesInexactSlopes) {
  for (const double error : {0.0, 0.01}) {
    base::RandomStream stream(8, "taylor test");
    TaylorData data = RandomData(stream, 2, 12, 24);
    for (Index i = 0; i < 12; ++i) {
      data.rises(i) = std::exp(data.offsets(i, 0)) + std::cos(data.offsets(i, 1)) - 2.0;
      for (const Index axis : {0, 1}) {
        const Index s = 2 * i + axis;
        data.slope_offsets.row(s) = data.offsets.row(i);
        data.slope_directions.row(s) = VectorXd::Unit(2, axis).transpose();
        const double exact = axis == 0 ? std::exp(data.offsets(i, 0)) : -std::sin(data.offsets(i, 1));
        data.slopes(s) = exact + error * stream.Normal();
      }
    }
    const auto model = FitTaylorModel(Basis(2, 8), data, {}, 0.0, {}, base::StopToken()).value();
    ASSERT_TRUE(model.has_value());
    if (error == 0.0) {
      EXPECT_LE(model->slope_error(), 1e-6);
    } else {
      EXPECT_GE(model->slope_error(), 1e-3);
    }
  }
}

// The minimum of a quadratic on a box by enumeration: it is stationary in the interior of one of the 3^d faces.
double BoxMinimumByFaces(const VectorXd& g, const MatrixXd& h, const VectorXd& lower, const VectorXd& upper) {
  const Index d = g.size();
  double best = 0.0;
  int faces = 1;
  for (Index j = 0; j < d; ++j) faces *= 3;
  for (int face = 0; face < faces; ++face) {
    VectorXd z = VectorXd::Zero(d);
    std::vector<Index> free;
    int code = face;
    for (Index j = 0; j < d; ++j, code /= 3) {
      if (code % 3 == 2) {
        free.push_back(j);
      } else {
        z(j) = code % 3 == 0 ? lower(j) : upper(j);
      }
    }
    if (!free.empty()) {
      const MatrixXd inner = h(free, free);
      const VectorXd solution = inner.fullPivLu().solve(-(g + h * z)(free));
      for (size_t i = 0; i < free.size(); ++i) z(free[i]) = solution(static_cast<Index>(i));
    }
    if (((z - lower).array() < 0.0).any() || ((upper - z).array() < 0.0).any()) continue;
    best = std::min(best, g.dot(z) + 0.5 * z.dot(h * z));
  }
  return best;
}

TEST(TaylorModel, QuadraticsAreMinimisedOverTheBoxAsByEnumeration) {
  int global = 0, runs = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    base::RandomStream stream(seed, "taylor box");
    const Index d = 2 + static_cast<Index>(seed % 4);
    MatrixXd h(d, d);
    for (Index j = 0; j < d; ++j) h.col(j) = RandomVector(stream, d);
    h = (h + h.transpose()).eval();
    if (seed % 3 == 0) h = (h * h).eval();  // Convex.
    const VectorXd g = RandomVector(stream, d);
    TaylorData data;  // Exactly the quadratic: by its gradients at the centre and at the unit points.
    data.offsets.resize(0, d);
    data.rises.resize(0);
    data.slope_offsets = MatrixXd::Zero(d * (d + 1), d);
    data.slope_directions.resize(d * (d + 1), d);
    data.slopes.resize(d * (d + 1));
    for (Index p = 0; p <= d; ++p) {
      const VectorXd z = p == 0 ? VectorXd::Zero(d) : VectorXd(VectorXd::Unit(d, p - 1) * 0.1);
      const VectorXd gradient = g + h * z;
      for (Index j = 0; j < d; ++j) {
        data.slope_offsets.row(p * d + j) = z.transpose();
        data.slope_directions.row(p * d + j) = VectorXd::Unit(d, j).transpose();
        data.slopes(p * d + j) = gradient(j);
      }
    }
    const auto model = TaylorModel::Fit(Basis(static_cast<int>(d), 2), data, VectorXd::Constant(d, 1000.0));
    ASSERT_TRUE(model.has_value());
    const double size = std::pow(10.0, -static_cast<double>(seed % 5));
    VectorXd lower(d), upper(d);
    for (Index j = 0; j < d; ++j) {
      lower(j) = -size * (j == 0 ? 0.0 : stream.Uniform());
      upper(j) = size * (0.1 + stream.Uniform());
    }
    const VectorXd z = MinimizeInBox(*model, lower, upper, MatrixXd(0, d), base::StopToken()).value();
    EXPECT_TRUE(((z - lower).array() >= 0.0).all() && ((upper - z).array() >= 0.0).all());
    // Of the recovered quadratic: the recovery is exact to about 1e-6.
    const double exact = BoxMinimumByFaces(model->GradientAtCentre(), model->HessianAtCentre(), lower, upper);
    const double found = model->Value(z, nullptr);
    ++runs;
    global += found <= exact + 1e-9 * std::abs(exact);
    EXPECT_LE(found, 0.9 * exact);
    if (seed % 3 == 0) {
      EXPECT_LE(found, exact + 1e-9 * std::abs(exact));
    }
  }
  EXPECT_GE(global, runs - 1);
}

TEST(TaylorModel, RefusesWhatIsNotFinite) {
  base::RandomStream stream(9, "taylor test");
  TaylorData data = RandomData(stream, 2, 5, 0);
  data.rises(3) = std::nan("");
  EXPECT_FALSE(TaylorModel::Fit(Basis(2, 3), data, VectorXd::Ones(2)).has_value());
  EXPECT_FALSE(FitTaylorModel(Basis(2, 3), data, {}, 0.0, {}, base::StopToken()).value().has_value());
}

}  // namespace
}  // namespace luthier::math
