#ifndef LUTHIER_LIB_GP_CLASSIFICATION_H_
#define LUTHIER_LIB_GP_CLASSIFICATION_H_

#include <optional>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/random.h"
#include "lib/base/stop_token.h"
#include "lib/gp/hyperparameters.h"
#include "lib/gp/regression.h"
#include "lib/kernels/stationary.h"
#include "lib/math/cholesky.h"

// Gaussian-process classification into two classes, y = +1 and -1, by Laplace's approximation (Rasmussen & Williams
// 2006, sections 3.4 and 5.5.1):
//   f ~ GP(m, c^2 + k),  P(y = 1 | f) = Phi(f)
// with a stationary kernel k and a constant of variance c^2, the base rate. The posterior of f at the data is taken as
// normal around its mode f^, with precision K^-1 + W, W = -d^2/df^2 ln p(y | f^) (diagonal). ln p(y | f) is concave, so
// the mode is unique and Newton's method finds it. Under the probit the probability of a class is then closed form,
//   P(y = 1 | u) = Phi(mu(u)/sqrt(1 + var(u)))
// Notation: n points, g = f - m, a = K^-1 g^ = grad ln p(y | f^), B = I + W^1/2 K W^1/2 = L L'.
namespace luthier::gp {

struct ClassifierPrior {
  // The mean m. It sets the base rate: before any data P = Phi(mean/sqrt(1 + variance)) = 0.76, since most settings
  // work.
  double mean = 1.0;
  double variance = 1.0;  // c^2.
  // ln s_f^2 ~ N(this, 1.5^2): mostly settings fail always or never, and f is far from 0 almost everywhere; but where
  // failures come at random the unit noise of the probit must be able to explain them. Lengthscales as
  // PriorKind::kDimensionScaled.
  double log_signal_mean = 2.0;
};

// Derivatives of ln q(y).
struct EvidenceGradient {
  Eigen::VectorXd log_lengthscales;
  double log_signal_variance = 0.0;
};

// A fitted classifier. Immutable; any thread.
class Classifier {
 public:
  // x: n x d; labels: n of +1 and -1. Only the lengthscales and signal_variance of theta are used. `start`: n values of
  // g to begin at, or null. Takes O(n^3/3) a Newton step, mostly 5 to 10. Returns std::nullopt if x or theta is not
  // finite, CANCELLED if `stop` was raised.
  static absl::StatusOr<std::optional<Classifier>> Fit(const kernels::KernelShape& shape, const Hyperparameters& theta,
                                                       const Eigen::Ref<const Eigen::MatrixXd>& x,
                                                       const Eigen::Ref<const Eigen::VectorXd>& labels,
                                                       const ClassifierPrior& prior, const Eigen::VectorXd* start,
                                                       const base::StopToken& stop);

  Eigen::Index size() const { return labels_.size(); }
  const Hyperparameters& hyperparameters() const { return theta_; }
  // g^ (n).
  const Eigen::VectorXd& mode() const { return g_; }
  // ln q(y) = -a'g^/2 + sum_i ln Phi(y_i f^_i) - sum_i ln L_ii (eq. 3.32).
  double log_evidence() const { return log_evidence_; }
  // Returns the gradient of log_evidence (algorithm 5.1), all parameters by one contraction. O(n^3). Returns CANCELLED
  // if `stop` was raised.
  absl::StatusOr<EvidenceGradient> Gradient(const base::StopToken& stop) const;

  // Returns the posterior of f at the rows of `u` (q x d). O(q n (n + d)).
  Posterior Latent(const Eigen::Ref<const Eigen::MatrixXd>& u) const;
  // ln P(y = 1) at the rows of u, and at one point with its d derivatives (unless null).
  Eigen::VectorXd LogProbabilities(const Eigen::Ref<const Eigen::MatrixXd>& u) const;
  double LogProbability(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const;

 private:
  Classifier(kernels::StationaryKernel kernel, Hyperparameters theta, ClassifierPrior prior)
      : kernel_(std::move(kernel)), theta_(std::move(theta)), prior_(prior) {}

  kernels::StationaryKernel kernel_;
  Hyperparameters theta_;
  ClassifierPrior prior_;
  Eigen::MatrixXd z_;  // Scaled points.
  Eigen::VectorXd labels_;
  Eigen::VectorXd g_, a_;
  Eigen::VectorXd root_w_;  // W^1/2.
  math::Cholesky factor_;   // Factor L of B.
  double log_evidence_ = 0.0;
};

// Finds the most probable lengthscales and signal variance: ln q(y) plus their log prior, by bounded L-BFGS in
// logarithms from `carried` or the prior's mode, whichever is better; at most max_evaluations fits. Deterministic.
// Returns CANCELLED if `stop` was raised.
absl::StatusOr<Hyperparameters> FitClassifierHyperparameters(const kernels::KernelShape& shape,
                                                             const Eigen::MatrixXd& x, const Eigen::VectorXd& labels,
                                                             const std::optional<Hyperparameters>& carried,
                                                             int max_evaluations, const ClassifierPrior& prior,
                                                             const base::StopToken& stop);

}  // namespace luthier::gp

#endif  // LUTHIER_LIB_GP_CLASSIFICATION_H_
