#include "lib/math/taylor_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/math/banded_qr.h"
#include "lib/math/lbfgs.h"
#include "lib/math/sobol.h"

namespace luthier::math {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Rounding of the factorisation, relative to a fact's prior deviation.
constexpr double kJitter = 1e-13;

// sum_{k >= first} t^k/k!, without cancellation.
double ExponentialTail(double t, int first) {
  double term = 1.0;
  if (t > first) {  // Most of the sum is in the tail.
    double head = 0.0;
    for (int k = 1; k <= first; ++k) {
      head += term;
      term *= t / k;
    }
    return std::exp(t) - head;
  }
  for (int k = 1; k <= first; ++k) term *= t / k;
  double sum = term;
  for (int k = first + 1; term > 1e-17 * sum; ++k) {
    term *= t / k;
    sum += term;
  }
  return sum;
}

// A whitened fact: its coefficients on the scaled monomials and the variance of the remainder.
struct Fact {
  VectorXd terms;
  double remainder;
};

Fact ValueFact(const ScaledMonomials& basis, const VectorXd& x) {
  VectorXd values(basis.size());
  basis.Values(x, values);
  const double t = x.squaredNorm();
  return {std::move(values), ExponentialTail(std::min(t, TaylorModel::kMaxExponent), basis.degree() + 1)};
}

// Slope along `w` at x, both in units of the lengths. d/dw d/dw' of (x.x')^k/k! at x = x' is
// |w|^2 t^(k-1)/(k-1)! + (x.w)^2 t^(k-2)/(k-2)!.
Fact SlopeFact(const ScaledMonomials& basis, const VectorXd& x, const VectorXd& w) {
  VectorXd values(basis.size()), slopes(basis.size());
  basis.Values(x, values);
  basis.Slopes(values, w, slopes);
  const double t = std::min(x.squaredNorm(), TaylorModel::kMaxExponent);
  const double along = x.dot(w);
  return {std::move(slopes), w.squaredNorm() * ExponentialTail(t, basis.degree()) +
                                 along * along * ExponentialTail(t, basis.degree() - 1)};
}

}  // namespace

std::optional<TaylorModel> TaylorModel::Fit(std::shared_ptr<const ScaledMonomials> basis, const TaylorData& data,
                                            const VectorXd& lengths, double slope_error, double scale_guess) {
  const Index m = data.rises.size(), k = data.slopes.size(), n = m + k, p = basis->size();
  LUTHIER_CHECK(n >= 1 && lengths.size() == basis->dim());
  TaylorModel model;
  model.basis_ = std::move(basis);
  model.lengths_ = lengths;
  model.slope_error_ = slope_error;
  model.rows_.resize(n, p);
  VectorXd observed(n), noise(n), deviation(n);
  double log_deviations = 0.0;
  for (Index i = 0; i < n; ++i) {
    const Index s = i - m;
    const auto offset = i < m ? data.offsets.row(i) : data.slope_offsets.row(s);
    const VectorXd x = offset.transpose().cwiseQuotient(lengths);
    const Fact fact =
        i < m ? ValueFact(*model.basis_, x)
              : SlopeFact(*model.basis_, x, data.slope_directions.row(s).transpose().cwiseQuotient(lengths));
    const double variance = fact.terms.squaredNorm() + fact.remainder;
    if (!(variance > 0.0 && std::isfinite(variance))) return std::nullopt;
    deviation(i) = std::sqrt(variance);
    log_deviations += std::log(deviation(i));
    model.rows_.row(i) = fact.terms.transpose() / deviation(i);
    noise(i) = fact.remainder / variance + kJitter * kJitter + (i < m ? 0.0 : slope_error * slope_error);
    observed(i) = (i < m ? data.rises(i) : data.slopes(s)) / deviation(i);
  }
  double guess = scale_guess > 0.0 ? scale_guess : std::sqrt(observed.squaredNorm() / static_cast<double>(n));
  guess = std::max(guess, std::numeric_limits<double>::min());
  for (Index i = 0; i < m; ++i) noise(i) += std::pow(data.value_error / (guess * deviation(i)), 2);

  // [rows'; noise^(1/2)] = Q R: the least-norm weights with rows w + noise^(1/2) e = observed are Q R^-T observed.
  MatrixXd stacked = MatrixXd::Zero(p + n, n);
  stacked.topRows(p) = model.rows_.transpose();
  stacked.bottomRows(n).diagonal() = noise.cwiseSqrt();
  const BandedQr qr(stacked, p);
  model.factor_ = qr.r();
  VectorXd weights = VectorXd::Zero(p + n);
  weights.head(n) = model.factor_.transpose().triangularView<Eigen::Lower>().solve(observed);
  const double squares = weights.squaredNorm() / static_cast<double>(n);
  qr.ApplyQ(&weights);
  model.coefficients_ = weights.head(p);
  model.scale_ = std::sqrt(squares);
  model.log_likelihood_ = -0.5 * static_cast<double>(n) * std::log(std::max(squares, 1e-300)) -
                          model.factor_.diagonal().array().abs().log().sum() - log_deviations;
  if (!std::isfinite(model.log_likelihood_) || !model.coefficients_.allFinite()) return std::nullopt;
  return model;
}

double TaylorModel::Value(const VectorXd& z, VectorXd* gradient) const {
  VectorXd values(basis_->size());
  basis_->Values(z.cwiseQuotient(lengths_), values);
  if (gradient != nullptr) *gradient = basis_->Gradient(coefficients_, values).cwiseQuotient(lengths_);
  return coefficients_.dot(values);
}

double TaylorModel::Variance(const VectorXd& z, VectorXd* gradient) const {
  const VectorXd x = z.cwiseQuotient(lengths_);
  VectorXd values(basis_->size());
  basis_->Values(x, values);
  const double exponent = std::min(x.squaredNorm(), kMaxExponent);
  VectorXd explained = rows_ * values;
  factor_.transpose().triangularView<Eigen::Lower>().solveInPlace(explained);
  const double variance =
      values.squaredNorm() + ExponentialTail(exponent, basis_->degree() + 1) - explained.squaredNorm();
  if (gradient != nullptr) {
    factor_.triangularView<Eigen::Upper>().solveInPlace(explained);
    const VectorXd terms = rows_.transpose() * explained;
    *gradient =
        2.0 * scale_ * scale_ * (std::exp(exponent) * x - basis_->Gradient(terms, values)).cwiseQuotient(lengths_);
  }
  return scale_ * scale_ * std::max(variance, 0.0);
}

VectorXd TaylorModel::GradientAtCentre() const {
  return coefficients_.head(dim()).cwiseQuotient(lengths_);
}

MatrixXd TaylorModel::HessianAtCentre() const {
  const VectorXd scale = lengths_.cwiseInverse();
  return scale.asDiagonal() * basis_->HessianAtZero(coefficients_) * scale.asDiagonal();
}

absl::StatusOr<std::optional<TaylorModel>> FitTaylorModel(std::shared_ptr<const ScaledMonomials> basis,
                                                          const TaylorData& data, const VectorXd& start,
                                                          double start_slope_error, const TaylorFitOptions& options,
                                                          const base::StopToken& stop) {
  const Index d = basis->dim();
  const double n = static_cast<double>(data.rows()), p = static_cast<double>(basis->size());
  int fits_left = static_cast<int>(std::clamp(options.max_work / (n * n * (p + n)), 3.0, 1000.0));
  std::optional<TaylorModel> best;
  const auto attempt = [&](const VectorXd& lengths, double slope_error) -> absl::StatusOr<bool> {
    if (fits_left <= 0 || lengths.minCoeff() < options.min_length || lengths.maxCoeff() > options.max_length ||
        lengths.maxCoeff() > options.max_ratio * lengths.minCoeff()) {
      return false;
    }
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    --fits_left;
    std::optional<TaylorModel> fit =
        TaylorModel::Fit(basis, data, lengths, slope_error, best.has_value() ? best->scale() : 0.0);
    if (!fit.has_value()) return false;
    if (best.has_value() && !(fit->log_likelihood() > best->log_likelihood() + 1e-9)) return false;
    best = std::move(fit);
    return true;
  };
  if (start.size() == 0) {
    for (double length = 0.8; length < 7.0; length *= 2.0) {
      LUTHIER_RETURN_IF_ERROR(attempt(VectorXd::Constant(d, length), start_slope_error).status());
    }
    for (double length = 0.4; length > 0.09; length /= 2.0) {
      LUTHIER_RETURN_IF_ERROR(attempt(VectorXd::Constant(d, length), start_slope_error).status());
    }
  } else {
    const VectorXd bounded = start.cwiseMax(options.min_length).cwiseMin(options.max_length);
    LUTHIER_RETURN_IF_ERROR(
        attempt(bounded.cwiseMax(bounded.maxCoeff() / options.max_ratio), start_slope_error).status());
    if (!best.has_value()) {
      LUTHIER_RETURN_IF_ERROR(attempt(VectorXd::Constant(d, 0.8), start_slope_error).status());
    }
    if (!best.has_value()) return std::nullopt;
    const VectorXd from = best->lengths();
    for (const double factor : {0.5, 0.7, 1.4, 2.0}) {
      LUTHIER_RETURN_IF_ERROR(attempt(from * factor, start_slope_error).status());
    }
  }
  if (!best.has_value()) return std::nullopt;
  if (data.slopes.size() > 0) {
    for (const double error : {0.0, 1e-6, 1e-3, 3e-2}) {
      if (error != start_slope_error) LUTHIER_RETURN_IF_ERROR(attempt(best->lengths(), error).status());
    }
  }
  if (data.rows() < 2 * d) return best;  // Too few facts to tell coordinates apart.
  for (Index i = 0; i < d; ++i) {
    const Index j =
        static_cast<Index>((options.first_coordinate + static_cast<uint64_t>(i)) % static_cast<uint64_t>(d));
    for (const double factor : {1.0 / 1.5, 1.5}) {
      VectorXd lengths = best->lengths();
      lengths(j) *= factor;
      LUTHIER_ASSIGN_OR_RETURN(const bool better, attempt(lengths, best->slope_error()));
      if (better) break;
    }
  }
  return best;
}

namespace {

using ModelFunction = absl::FunctionRef<double(const VectorXd& z, VectorXd* gradient)>;

// Returns the lowest of local minima of `f`, searched from the points in the columns of `starts` within the box. The
// points and values are scaled to about 1.
absl::StatusOr<VectorXd> BestLocalMinimum(ModelFunction f, const VectorXd& lower, const VectorXd& upper,
                                          const std::vector<VectorXd>& starts, const base::StopToken& stop) {
  const double size = std::max(upper.maxCoeff(), -lower.minCoeff());
  double unit = 0.0;
  for (const VectorXd& z : starts) unit = std::max(unit, std::abs(f(z, nullptr)));
  if (!(unit > 0.0 && std::isfinite(unit) && size > 0.0)) return VectorXd::Zero(lower.size());
  LbfgsOptions options;
  options.max_iterations = 200;
  options.max_evaluations = 300;
  options.gradient_tolerance = 1e-13;
  VectorXd best = VectorXd::Zero(lower.size());
  double best_value = f(best, nullptr);
  for (const VectorXd& start : starts) {
    const auto scaled = [&](const VectorXd& x, VectorXd* gradient) {
      const double value = f(size * x, gradient) / unit;
      if (gradient != nullptr) *gradient *= size / unit;
      return value;
    };
    LUTHIER_ASSIGN_OR_RETURN(const LbfgsResult r,
                             MinimizeLbfgs(scaled, start / size, lower / size, upper / size, options, stop));
    const VectorXd z = (size * r.x).cwiseMax(lower).cwiseMin(upper);
    const double value = f(z, nullptr);
    if (value < best_value) {
      best_value = value;
      best = z;
    }
  }
  return best;
}

// Returns the `count` lowest of 32 + 16 d Sobol points.
absl::StatusOr<std::vector<VectorXd>> LowestOfSobolSet(ModelFunction f, const VectorXd& lower, const VectorXd& upper,
                                                       size_t count, const base::StopToken& stop) {
  const int d = static_cast<int>(lower.size());
  const SobolSequence sobol(d);
  const int points = 32 + 16 * d;
  MatrixXd screened(d, points);
  std::vector<std::pair<double, int>> by_value;
  for (int i = 0; i < points; ++i) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    screened.col(i) = lower + sobol.Point(static_cast<uint64_t>(i) + 1).cwiseProduct(upper - lower);
    const double value = f(screened.col(i), nullptr);
    if (std::isfinite(value)) by_value.emplace_back(value, i);
  }
  std::sort(by_value.begin(), by_value.end());
  std::vector<VectorXd> lowest;
  for (size_t i = 0; i < std::min(count, by_value.size()); ++i) lowest.push_back(screened.col(by_value[i].second));
  return lowest;
}

}  // namespace

absl::StatusOr<VectorXd> MinimizeInBox(const TaylorModel& model, const VectorXd& lower, const VectorXd& upper,
                                       const MatrixXd& starts, const base::StopToken& stop) {
  const auto f = [&](const VectorXd& z, VectorXd* gradient) { return model.Value(z, gradient); };
  LUTHIER_ASSIGN_OR_RETURN(std::vector<VectorXd> from, LowestOfSobolSet(f, lower, upper, 4, stop));
  from.push_back(VectorXd::Zero(lower.size()));
  for (Index i = 0; i < starts.rows(); ++i) from.push_back(starts.row(i).transpose().cwiseMax(lower).cwiseMin(upper));
  return BestLocalMinimum(f, lower, upper, from, stop);
}

absl::StatusOr<VectorXd> LeastKnownInBox(const TaylorModel& model, const VectorXd& lower, const VectorXd& upper,
                                         const base::StopToken& stop) {
  const auto f = [&](const VectorXd& z, VectorXd* gradient) {
    const double value = -model.Variance(z, gradient);
    if (gradient != nullptr) *gradient = -*gradient;
    return value;
  };
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<VectorXd> from, LowestOfSobolSet(f, lower, upper, 2, stop));
  return BestLocalMinimum(f, lower, upper, from, stop);
}

}  // namespace luthier::math
