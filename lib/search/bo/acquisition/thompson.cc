#include "lib/search/bo/acquisition/thompson.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/math/cholesky.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr double kTurn = 6.28318530717958647693;  // 2 pi.
constexpr double kMinNoise = 1e-10;               // In units of s_f^2.
constexpr int kBands = 6;                         // Number of bands with raised frequencies: 2 … 64 times.
constexpr Index kFeatureChunk = 64;               // Number of points whose features are held at once.

// Returns 2 nu of a Matern kernel, 0 for other kernels.
int ChiSquaredDegrees(kernels::Family family) {
  switch (family) {
    case kernels::Family::kSquaredExponential:
      return 0;
    case kernels::Family::kMatern52:
      return 5;
  }
  return 0;
}

// Replaces every entry t by cos(2 pi t), with an absolute error of about 1e-15 for |t| < 1. Unlike libm's function it
// is vectorised. With r = t - rint(t), cos(2 pi t) = -sin(2 pi (|r| - 1/4)), an odd Taylor polynomial on [-pi/2, pi/2]
// of degree 19.
template <typename Block>
void CosineOfTurns(Block&& t) {
  constexpr double kCoefficients[] = {-1.0 / 6.0,
                                      1.0 / 120.0,
                                      -1.0 / 5040.0,
                                      1.0 / 362880.0,
                                      -1.0 / 39916800.0,
                                      1.0 / 6227020800.0,
                                      -1.0 / 1307674368000.0,
                                      1.0 / 355687428096000.0,
                                      -1.0 / 121645100408832000.0};
  constexpr Index kLane = 256;
  using Lane = Eigen::Array<double, Eigen::Dynamic, 1, 0, kLane, 1>;
  for (Index c = 0; c < t.cols(); ++c) {
    for (Index begin = 0; begin < t.rows(); begin += kLane) {
      auto part = t.col(c).segment(begin, std::min(kLane, t.rows() - begin));
      const Lane in = part.array();
      const Lane x = kTurn * (0.25 - (in - in.rint()).abs());
      const Lane x2 = x.square();
      Lane sum = Lane::Constant(x.size(), kCoefficients[8]);
      for (int k = 7; k >= 0; --k) sum = sum * x2 + kCoefficients[k];
      part.array() = x + x * x2 * sum;
    }
  }
}

// Returns the constant mean of each row, which is 0 for slopes.
VectorXd RowMeans(const gp::Regression& regression) {
  VectorXd means = VectorXd::Constant(regression.rows(), regression.hyperparameters().mean);
  const std::vector<kernels::ObservedRow>& rows = regression.observed().rows;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].slope >= 0) means(static_cast<Index>(i)) = 0.0;
  }
  return means;
}

VectorXd Normals(Index n, base::RandomStream& random) {
  VectorXd v(n);
  for (Index i = 0; i < n; ++i) v(i) = random.Normal();
  return v;
}

}  // namespace

SpectralSample SpectralFrequencies(const kernels::StationaryKernel& kernel, int count, SpectralSampling sampling,
                                   base::RandomStream& random) {
  const Eigen::RowVectorXd& inverse = kernel.inverse_lengthscales();
  const int degrees = ChiSquaredDegrees(kernel.shape().family);
  const bool stratified = sampling == SpectralSampling::kStratified && degrees > 0 &&
                          kernel.shape().structure != kernels::Structure::kPairwise;
  const int banded = stratified ? count / 2 : 0;
  const kernels::KernelShape& shape = kernel.shape();
  const bool joint = shape.structure == kernels::Structure::kJoint;
  const double rho = kernel.shape_parameter();
  SpectralSample sample{MatrixXd(count, inverse.size()), VectorXd::Ones(count)};
  for (Index i = 0; i < count; ++i) {
    for (Index j = 0; j < inverse.size(); ++j) sample.frequencies(i, j) = random.Normal() * inverse(j);
    // The kernel is a sum over groups and pairs of groups. A feature belongs to one group, or to two with independent
    // mixing variables.
    int first = -1, second = -1;
    if (!joint) {
      first = static_cast<int>(random.UniformInt(static_cast<uint64_t>(shape.groups)));
      if (shape.structure == kernels::Structure::kPairwise && random.Uniform() * (1.0 + rho) < rho) {
        second = static_cast<int>(random.UniformInt(static_cast<uint64_t>(shape.groups - 1)));
        if (second >= first) ++second;
      }
      for (Index j = 0; j < inverse.size(); ++j) {
        const int group = shape.column_group[static_cast<size_t>(j)];
        if (group != first && group != second) sample.frequencies(i, j) = 0.0;
      }
    }
    if (degrees == 0) continue;
    double g = random.ChiSquared(degrees);
    if (second >= 0) {
      const double other = random.ChiSquared(degrees);
      for (Index j = 0; j < inverse.size(); ++j) {
        const int group = shape.column_group[static_cast<size_t>(j)];
        sample.frequencies(i, j) *= std::sqrt(degrees / (group == second ? other : g));
      }
      continue;
    }
    if (i < banded) g = std::ldexp(g, -2 * static_cast<int>(1 + i % kBands));
    sample.frequencies.row(i) *= std::sqrt(degrees / g);
    if (!stratified) continue;
    // q/p: the density of g/c for chi-squared g is c p(c g), and p(c g)/p(g) = c^nu exp(-g (c - 1)/2). The shares of
    // the mixture are those of the features drawn, because `banded` need not be divisible by kBands.
    double ratio = static_cast<double>(count - banded);
    for (int band = 0; band < kBands; ++band) {
      const double fall = 0.5 * g * (std::ldexp(1.0, 2 * (1 + band)) - 1.0);
      if (fall > 100.0) break;  // It is larger still in higher bands.
      const int members = banded / kBands + (band < banded % kBands ? 1 : 0);
      ratio += members * std::ldexp(std::exp(-fall), degrees * (1 + band));
    }
    sample.weights(i) = count / ratio;
  }
  return sample;
}

FunctionDraw::FunctionDraw(const gp::Regression& regression, int features, SpectralSampling sampling,
                           base::RandomStream& random)
    : kernel_(regression.kernel()), mean_(regression.hyperparameters().mean), points_(0, regression.columns()) {
  LUTHIER_CHECK(features >= 1);
  const SpectralSample sample = SpectralFrequencies(kernel_, features, sampling, random);
  frequencies_ = sample.frequencies / kTurn;
  amplitudes_ = (2.0 * kernel_.signal_variance() / features * sample.weights).cwiseSqrt();
  phases_.resize(features);
  for (Index i = 0; i < features; ++i) phases_(i) = random.Uniform();
}

MatrixXd FunctionDraw::Cosines(const Eigen::Ref<const MatrixXd>& u) const {
  MatrixXd t = u * frequencies_.transpose();
  t.rowwise() += phases_.transpose();
  CosineOfTurns(t);
  return t;
}

absl::StatusOr<MatrixXd> FunctionDraw::RowFeatures(const gp::Regression& regression,
                                                   const base::StopToken& stop) const {
  const auto lengthscales = kernel_.inverse_lengthscales().cwiseInverse().asDiagonal();
  MatrixXd features = Cosines(regression.scaled_points() * lengthscales);
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  const std::vector<kernels::ObservedRow>& rows = regression.observed().rows;
  if (rows.empty()) return features;
  const MatrixXd values = std::move(features);
  // d/dv cos(2 pi (w'x + b)) = -2 pi w'v sin(2 pi (w'x + b)), and sin(2 pi t) = cos(2 pi (t - 1/4)).
  const MatrixXd rates = -kTurn * regression.observed().directions * lengthscales * frequencies_.transpose();
  features.resize(regression.rows(), values.cols());
  base::Pace pace(stop);
  for (Index i = 0; i < features.rows(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(frequencies_.size()));
    const kernels::ObservedRow& row = rows[static_cast<size_t>(i)];
    if (row.slope < 0) {
      features.row(i) = values.row(row.point);
      continue;
    }
    VectorXd sine =
        (frequencies_ * (regression.scaled_points().row(row.point) * lengthscales).transpose() + phases_).array() -
        0.25;
    CosineOfTurns(sine);
    features.row(i) = sine.transpose().cwiseProduct(rates.row(row.slope));
  }
  return features;
}

absl::StatusOr<std::optional<FunctionDraw>> FunctionDraw::Pathwise(const gp::Regression& regression, int features,
                                                                   base::RandomStream random,
                                                                   const base::StopToken& stop) {
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  FunctionDraw draw(regression, features, SpectralSampling::kStratified, random);
  draw.weights_ = draw.amplitudes_.cwiseProduct(Normals(features, random));
  if (regression.size() > 0) {
    // The noise includes the jitter, as the factor does.
    const VectorXd noise = (regression.NoiseVariances().array() + regression.jitter()).sqrt();
    LUTHIER_ASSIGN_OR_RETURN(const MatrixXd rows, draw.RowFeatures(regression, stop));
    const VectorXd prior = rows * draw.weights_ + RowMeans(regression);
    const VectorXd errors = noise.cwiseProduct(Normals(regression.rows(), random));
    draw.update_ = regression.SolveCovariance(regression.Targets() - prior - errors);
    draw.points_ = regression.scaled_points();
    if (!regression.observed().rows.empty()) {
      draw.derivatives_.emplace(draw.kernel_);
      draw.observed_ = regression.observed();
    }
  }
  if (!draw.weights_.allFinite() || !draw.update_.allFinite() || !draw.frequencies_.allFinite()) return std::nullopt;
  return std::optional<FunctionDraw>(std::move(draw));
}

absl::StatusOr<std::optional<FunctionDraw>> FunctionDraw::FourierFeatures(const gp::Regression& regression,
                                                                          int features, base::RandomStream random,
                                                                          const base::StopToken& stop) {
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  FunctionDraw draw(regression, features, SpectralSampling::kPlain, random);
  const Index n = regression.size();
  const VectorXd normals = Normals(features, random);
  if (n == 0) {
    draw.weights_ = draw.amplitudes_.cwiseProduct(normals);
  } else {
    const double signal = draw.kernel_.signal_variance();
    const VectorXd noises = (regression.NoiseVariances().array() + regression.jitter()).max(kMinNoise * signal);
    const double noise = noises(0);
    // Rows of less noise weigh more: each is divided by its noise relative to the values'.
    const VectorXd weights = (noise / noises.array()).sqrt();
    LUTHIER_ASSIGN_OR_RETURN(const MatrixXd rows, draw.RowFeatures(regression, stop));
    const MatrixXd phi = weights.asDiagonal() * rows * draw.amplitudes_.asDiagonal();
    // `a` is A times the noise, so that its entries have the size of the signal.
    MatrixXd a = MatrixXd::Zero(features, features);
    a.selfadjointView<Eigen::Lower>().rankUpdate(phi.transpose());
    a.diagonal().array() += noise;
    math::CholeskyOptions options;
    options.jitter_scale = noise;
    LUTHIER_ASSIGN_OR_RETURN(const std::optional<math::Cholesky> factor, math::Cholesky::Factor(a, options, stop));
    if (!factor.has_value()) return std::nullopt;
    const VectorXd residual = weights.cwiseProduct(regression.Targets() - RowMeans(regression));
    MatrixXd spread = std::sqrt(noise) * normals;
    factor->SolveLowerTransposedInPlace(spread);
    draw.weights_ = draw.amplitudes_.cwiseProduct(factor->Solve(phi.transpose() * residual) + spread.col(0));
  }
  if (!draw.weights_.allFinite() || !draw.frequencies_.allFinite()) return std::nullopt;
  return std::optional<FunctionDraw>(std::move(draw));
}

VectorXd FunctionDraw::Values(const Eigen::Ref<const MatrixXd>& u) const {
  LUTHIER_CHECK(u.cols() == points_.cols());
  VectorXd values(u.rows());
  MatrixXd cross;
  for (Index begin = 0; begin < u.rows(); begin += kFeatureChunk) {
    const Index q = std::min(kFeatureChunk, u.rows() - begin);
    values.segment(begin, q) = (Cosines(u.middleRows(begin, q)) * weights_).array() + mean_;
    if (points_.rows() == 0) continue;
    const MatrixXd scaled = kernel_.Scale(u.middleRows(begin, q));
    if (derivatives_.has_value()) {
      derivatives_->Cross(observed_, scaled, &cross);
    } else {
      kernel_.Cross(points_, scaled, &cross);
    }
    values.segment(begin, q).noalias() += cross.transpose() * update_;
  }
  return values;
}

double FunctionDraw::Value(const VectorXd& u, VectorXd* gradient) const {
  if (gradient == nullptr) return Values(u.transpose())(0);
  LUTHIER_CHECK(u.size() == points_.cols());
  const VectorXd turns = frequencies_ * u + phases_;
  VectorXd cosine = turns;
  CosineOfTurns(cosine);
  VectorXd sine = turns.array() - 0.25;  // sin(2 pi t) = cos(2 pi (t - 1/4)).
  CosineOfTurns(sine);
  double value = mean_ + weights_.dot(cosine);
  *gradient = -kTurn * (frequencies_.transpose() * weights_.cwiseProduct(sine));
  if (points_.rows() == 0) return value;
  const Eigen::RowVectorXd z = u.transpose().cwiseProduct(kernel_.inverse_lengthscales());
  VectorXd k;
  MatrixXd jacobian;
  if (derivatives_.has_value()) {
    derivatives_->PointCross(observed_, z, &k, &jacobian);
  } else {
    kernel_.PointCross(points_, z, &k, &jacobian);
  }
  value += k.dot(update_);
  *gradient += jacobian.transpose() * update_;
  return value;
}

}  // namespace luthier::search
