#ifndef LUTHIER_LIB_SEARCH_BO_ACQUISITION_PENDING_INFORMATION_H_
#define LUTHIER_LIB_SEARCH_BO_ACQUISITION_PENDING_INFORMATION_H_

#include <vector>

#include "Eigen/Core"
#include "lib/gp/regression.h"
#include "lib/search/bo/acquisition/acquisition.h"

// Acquisitions for batches: they exclude candidates whose outcome the pending trials already determine.
// docs/design/parallel.md.
namespace luthier::search {

// A posterior with pending trials as its last rows, and the minimum posterior standard deviation that a candidate must
// have to be worth evaluating.
struct InformationLevel {
  const gp::Regression* regression = nullptr;  // Borrowed.
  double deviation = 0.0;                      // Standard deviation of f, in the regression's units.
};

// Returns the minimum posterior standard deviation that a candidate must have: kLeastInformation sd(f(p*) | results).
// p* is the pending point of `open` (q x d, q >= 1) with the largest upper confidence bound mu(p) + root_beta sd(p)
// under the posterior of the results alone, `results`. When UCB proposes a batch at once, p* is its first setting.
//
// `noisy`: true if the objective is noisy, so that a repetition is informative. Otherwise the level is
// sqrt((kLeastInformation sd(p*))^2 + sigma^2) with the model's noise deviation sigma, at least 1e-4 output deviations:
// a trial leaves a deviation of up to sigma at its own setting, and no repetition may pass the level.
inline constexpr double kLeastInformation = 0.2;
double LeastInformation(const gp::Regression& results, const Eigen::Ref<const Eigen::MatrixXd>& open, double root_beta,
                        bool noisy);

// An acquisition that excludes points whose outcome the results and the pending trials already determine: those at
// which sd(f(u) | results, open) / level, averaged over the states, is below 1. Expected improvements vanish there
// anyway. An upper confidence bound or a drawn function does not: a pending trial leaves the posterior mean as it is,
// so the maximum would stay next to it. The value at excluded points is -infinity and the gradient 0, as in
// AcceptRejectAcquisition. With a gradient the threshold is 1 + 1e-6, so that a point at which a search ends also
// passes Values, which rounds differently. Thread-safe.
class PendingInformation final : public AcquisitionFunction {
 public:
  // Borrows `a` and the states, at least one.
  PendingInformation(const AcquisitionFunction* a, std::vector<InformationLevel> states);

  Eigen::VectorXd Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const override;
  double Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const override;

 private:
  // Returns sd/level, averaged over states, for the q points.
  Eigen::VectorXd Information(const Eigen::Ref<const Eigen::MatrixXd>& u) const;

  const AcquisitionFunction* a_;
  std::vector<InformationLevel> states_;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_ACQUISITION_PENDING_INFORMATION_H_
