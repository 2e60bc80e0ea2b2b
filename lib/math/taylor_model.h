#ifndef LUTHIER_LIB_MATH_TAYLOR_MODEL_H_
#define LUTHIER_LIB_MATH_TAYLOR_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/math/monomials.h"

namespace luthier::math {

// Facts about a function f around a centre c: differences of values, and slopes.
struct TaylorData {
  Eigen::MatrixXd offsets;   // m x d: points minus c, none of them 0.
  Eigen::VectorXd rises;     // m: f(point) - f(c).
  double value_error = 0.0;  // Standard deviation of the rounding error of one rise. >= 0.

  Eigen::MatrixXd slope_offsets;     // k x d: points minus c; 0 is legal.
  Eigen::MatrixXd slope_directions;  // k x d, none of them 0.
  Eigen::VectorXd slopes;            // k: direction . grad f(point).

  Eigen::Index rows() const { return rises.size() + slopes.size(); }
};

// f(c + z) - f(c) as a polynomial in z of a fixed degree D, from fewer, as many or more facts than it has coefficients:
// Bayesian regression with the prior of independent coefficients
//   f(c + z) - f(c) = s sum_{1 <= |a|} w_a prod_j (z_j/l_j)^a_j / sqrt(a!),  w_a ~ N(0, 1),
// so that cov(z, z') = s^2 (exp(t) - 1), t = sum_j z_j z'_j / l_j^2: a Gaussian-kernel process expanded around c (it
// grows away from c instead of being stationary). Degrees up to D are the model; the variance of those above, which t
// gives in closed form, is taken as independent noise of each fact. So near points fix value, slope and curvature, far
// points add what they can, and a polynomial of degree D is recovered exactly from enough facts. With D = 2 and large l
// it becomes interpolation with the least Frobenius norm of the Hessian (Conn, Scheinberg & Vicente 2009, ch. 5) and,
// with more points than coefficients, regression weighted by the remainder term.
//
// s is the maximum-likelihood value; l is chosen by the caller (FitTaylorModel) by the likelihood. Solved by a QR
// factorisation of the whitened facts, each scaled to variance 1, so points at distances 1e-7 and 1 go together.
// Noise-free functions only: there is no noise but rounding. Immutable.
class TaylorModel {
 public:
  // Largest |t| up to which a fact is told apart from others; beyond, it has no weight.
  static constexpr double kMaxExponent = 600.0;

  // slope_error: standard deviation of a slope's error relative to its prior deviation. `scale_guess`: s of an earlier
  // fit, to weigh value_error; if 0, a low guess from the data. Returns std::nullopt if something is not finite. rows()
  // >= 1.
  static std::optional<TaylorModel> Fit(std::shared_ptr<const ScaledMonomials> basis, const TaylorData& data,
                                        const Eigen::VectorXd& lengths, double slope_error = 0.0,
                                        double scale_guess = 0.0);

  // f(c + z) - f(c) and, when not null, its gradient. z has d entries.
  double Value(const Eigen::VectorXd& z, Eigen::VectorXd* gradient) const;
  // Posterior variance of that value, remainder included, and its gradient.
  double Variance(const Eigen::VectorXd& z, Eigen::VectorXd* gradient) const;
  Eigen::VectorXd GradientAtCentre() const;
  Eigen::MatrixXd HessianAtCentre() const;  // Zero when the degree is 1.

  // Log density of the facts with s maximised, up to a constant of their number.
  double log_likelihood() const { return log_likelihood_; }
  double scale() const { return scale_; }  // s.
  double slope_error() const { return slope_error_; }
  const Eigen::VectorXd& lengths() const { return lengths_; }
  Eigen::Index dim() const { return lengths_.size(); }

 private:
  TaylorModel() = default;

  std::shared_ptr<const ScaledMonomials> basis_;
  Eigen::VectorXd lengths_;
  double slope_error_ = 0.0;
  double scale_ = 0.0;
  double log_likelihood_ = 0.0;
  Eigen::VectorXd coefficients_;  // Coefficients of the scaled monomials of z/l.
  Eigen::MatrixXd rows_;          // Facts x terms: whitened facts over their prior deviation.
  Eigen::MatrixXd factor_;        // R with R'R = rows rows' + noise; upper triangle.
};

struct TaylorFitOptions {
  double min_length = 0.02;
  double max_length = 50.0;
  double max_ratio = 10.0;  // Largest ratio of the longest to the shortest length.
  // Bound on the work of the search for lengths, in multiplications (about 1e9 a second); 3 fits are always made.
  double max_work = 1.5e7;
  uint64_t first_coordinate = 0;  // Length tried first, modulo d. Callers pass a count: each gets its turn.
};

// Maximises the likelihood over the lengths: from `start` (d entries, all > 0), or from the best of 0.1, 0.2, …, 6.4
// for all when it is empty, first a common factor, then each length by a factor 1.5; and over slope_error in {0, 1e-6,
// 1e-3, 3e-2} when there are slopes, from start_slope_error. Returns std::nullopt if no fit is finite. Deterministic.
// Here and below the functions return CANCELLED if `stop` was raised.
absl::StatusOr<std::optional<TaylorModel>> FitTaylorModel(std::shared_ptr<const ScaledMonomials> basis,
                                                          const TaylorData& data, const Eigen::VectorXd& start,
                                                          double start_slope_error, const TaylorFitOptions& options,
                                                          const base::StopToken& stop);

// The minimum of the model over the box lower <= z <= upper (finite, holding 0): local searches from 0, the best of a
// Sobol set, and `starts` (s x d rows, clipped to the box). Returns 0 when nothing lower is found. Deterministic.
absl::StatusOr<Eigen::VectorXd> MinimizeInBox(const TaylorModel& model, const Eigen::VectorXd& lower,
                                              const Eigen::VectorXd& upper, const Eigen::MatrixXd& starts,
                                              const base::StopToken& stop);

// Returns the point of the box with the largest variance found, where the model knows least.
absl::StatusOr<Eigen::VectorXd> LeastKnownInBox(const TaylorModel& model, const Eigen::VectorXd& lower,
                                                const Eigen::VectorXd& upper, const base::StopToken& stop);

}  // namespace luthier::math

#endif  // LUTHIER_LIB_MATH_TAYLOR_MODEL_H_
