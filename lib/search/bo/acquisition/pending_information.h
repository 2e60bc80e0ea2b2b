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

// Returns kLeastInformation times the deviation that the most promising pending trial had before it was asked for:
// sd(f(p*) | results), where p* of `open` (q x d, q >= 1) has the largest mu(p) + root_beta sd(p) under the results
// alone. In a batch that UCB was asked for at once, p* is the first setting, whatever followed. `results`: the
// posterior of the results alone.
//
// `noisy`: true if measuring a setting again tells anything. If not, the model has some noise sigma all the same, at
// least 1e-4 output deviations, and a trial leaves a deviation of up to sigma at its own setting, however small sd(p*)
// is. The level is then sqrt((kLeastInformation sd(p*))^2 + sigma^2), above all that a repetition could tell.
inline constexpr double kLeastInformation = 0.2;
double LeastInformation(const gp::Regression& results, const Eigen::Ref<const Eigen::MatrixXd>& open, double root_beta,
                        bool noisy);

// An acquisition that excludes points at which the results and the pending trials leave less to be learnt than the
// levels say: sd(f(u) | results, open) < level on the average over states of sd/level. Improvements vanish there by
// themselves; an upper confidence bound, or a function drawn, is the largest again next to where it was, as the mean
// does not move. The value there is -infinity and the gradient 0, as in AcceptRejectAcquisition; with a gradient the
// edge counts as 1e-6 further out, so that where a search ends is inside by the batch's round-off, too. Thread-safe.
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
