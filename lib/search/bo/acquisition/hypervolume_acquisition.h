#ifndef LUTHIER_LIB_SEARCH_BO_ACQUISITION_HYPERVOLUME_ACQUISITION_H_
#define LUTHIER_LIB_SEARCH_BO_ACQUISITION_HYPERVOLUME_ACQUISITION_H_

#include <optional>
#include <utility>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/gp/regression.h"
#include "lib/math/cholesky.h"
#include "lib/search/bo/acquisition/acquisition.h"
#include "lib/search/bo/acquisition/hypervolume_improvement.h"

namespace luthier::search {

// The posterior of one metric's latent function f: that of a regression, or posteriors given drawn values of f at some
// points P, one a draw. All draws have the same deviation. Immutable; any thread.
class MetricPosterior {
 public:
  // Borrows the regression, which may have slopes.
  explicit MetricPosterior(const gp::Regression* regression) : regression_(regression) {}
  // Draws f(P) = mu(P) + L n for each column n of `normals` (q x draws), L L' = Sigma(P), and conditions f on it: at P
  // the deviation is 0 but for round-off, whatever the noise of results. `points` is q x d, q >= 1. O(q N^2 + q^3).
  // Returns std::nullopt if a number is not finite or a covariance cannot be factored, and CANCELLED if `stop` was
  // raised.
  static absl::StatusOr<std::optional<MetricPosterior>> Draw(const gp::Regression* regression,
                                                             const Eigen::MatrixXd& points,
                                                             const Eigen::MatrixXd& normals,
                                                             const base::StopToken& stop);

  Eigen::Index draws() const { return points_.rows() > 0 ? values_.cols() : 1; }
  // Returns the drawn values, q x draws.
  const Eigen::MatrixXd& values() const { return values_; }

  // Sets the means (q x draws) and deviations (q) of f at the rows of u.
  void Predict(const Eigen::Ref<const Eigen::MatrixXd>& u, Eigen::MatrixXd* mean, Eigen::VectorXd* deviation) const;
  // The same at one point, with derivatives along its d coordinates, columns a draw.
  struct AtPoint {
    Eigen::VectorXd mean;
    double deviation = 0.0;
    Eigen::MatrixXd mean_gradient;
    Eigen::VectorXd deviation_gradient;
  };
  AtPoint PredictWithGradient(const Eigen::VectorXd& u) const;

 private:
  const gp::Regression* regression_;
  // With draws: P scaled, f(P), C^-1 k(X, P), L, and L'^-1 normals.
  Eigen::MatrixXd points_, values_, projection_;
  math::Cholesky factor_;
  Eigen::MatrixXd weights_;
};

// ln of the expected hypervolume improvement of independent metrics, averaged over draws as ln mean exp. With draws of
// pending trials it is the greedy choice of a batch, and with draws of noisy results the front is drawn, too (Daulton,
// Balandat & Bakshy 2021, "Parallel Bayesian optimization of multiple noisy objectives with expected hypervolume
// improvement"); the expectation over the new result is exact where they sample.
class HypervolumeAcquisition final : public AcquisitionFunction {
 public:
  // `posteriors`: one an objective, all with the same number of draws. `improvements`: one a draw.
  HypervolumeAcquisition(std::vector<MetricPosterior> posteriors, std::vector<HypervolumeImprovement> improvements);

  Eigen::VectorXd Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const override;
  double Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const override;

 private:
  // Returns the value at one point, given the means there (a column a draw) and the deviations, and, unless `by_means`
  // is null, the derivatives by them.
  double Average(const Eigen::MatrixXd& means, const Eigen::VectorXd& deviation, Eigen::MatrixXd* by_means,
                 Eigen::VectorXd* by_deviation) const;

  std::vector<MetricPosterior> posteriors_;
  std::vector<HypervolumeImprovement> improvements_;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_ACQUISITION_HYPERVOLUME_ACQUISITION_H_
