#ifndef LUTHIER_LIB_SUGGEST_FEASIBILITY_H_
#define LUTHIER_LIB_SUGGEST_FEASIBILITY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/stop_token.h"
#include "lib/gp/classification.h"
#include "lib/study/encoding.h"
#include "lib/study/history.h"
#include "lib/study/study_spec.h"
#include "lib/suggest/acquisition.h"

// Where settings work at all: the probability P(u) that a trial of u gives a value, learnt from the trials that failed
// for a fault of the setting and from those that gave one, and how acquisitions take it into account.
// docs/design/feasibility.md.
namespace luthier::suggest {

// Trials with an outcome, as rows of model coordinates: +1 (COMPLETE, PRUNED) or -1 (FAILED for a fault of the
// setting). At most 1500: the newest, but of neither class fewer than half while it has more.
struct FeasibilityData {
  Eigen::MatrixXd points;
  Eigen::VectorXd labels;
};
// Whether there is a trial of label -1.
bool AnyFailed(const study::History& history);
// CANCELLED, here and below: `stop` was raised.
absl::StatusOr<FeasibilityData> CollectFeasibility(const study::History& history, const study::Encoding& encoding,
                                                   const base::StopToken& stop);

// A classifier over the space. Immutable; any thread.
class FeasibilityModel {
 public:
  // Absent when nothing has failed, or when the model could not be computed. Hyperparameters are searched for when
  // there are at least 5 % more trials than at the last search, on at most 300 of them, else taken over from `carried`
  // (what carry() gave; anything else is as if there were none). Deterministic in its arguments.
  static absl::StatusOr<std::optional<FeasibilityModel>> Fit(const FeasibilityData& data,
                                                             const study::Encoding& encoding, absl::string_view carried,
                                                             const base::StopToken& stop);

  double Probability(const Eigen::VectorXd& u) const;
  // Below this P a setting is a gamble: 0.7 of the largest P at any success (0.7 of 1/2 where there is none). Not of
  // the record's: a record at the border of what works would lower it, and asks would creep across.
  double doubtful() const { return doubtful_; }
  const gp::Classifier& classifier() const { return classifier_; }
  // Text without line ends or '|'.
  const std::string& carry() const { return carry_; }

 private:
  FeasibilityModel(gp::Classifier classifier, std::string carry, double doubtful)
      : classifier_(std::move(classifier)), carry_(std::move(carry)), doubtful_(doubtful) {}

  gp::Classifier classifier_;
  std::string carry_;
  double doubtful_ = 0.0;
};

// An acquisition under the chance that the trial fails. A failure improves on nothing, so
//   EI, PI:          P(u) exp c(ln a(u))        their logarithms: c(a(u)) + ln P(u)
// where c(t) = t, but -14 - ln(-13 - t) below -14: once next to nothing is left to gain anywhere (an EI of 10^-6
// deviations), the model's guess of what might be gained where everything fails, 10^-100 instead of 10^-400, must not
// outweigh any P. For the same reason ln P counts 20 times what it is below 0.7 of the largest P at any success. A
// bound or draw g is on the outputs' scale. There a failure counts as the outputs' lower quartile w:
//   UCB, TS:         w + P(u) (g(u) - w)
// -infinity stays what it is. Borrows both.
class FeasibleAcquisition final : public AcquisitionFunction {
 public:
  FeasibleAcquisition(const AcquisitionFunction* a, const FeasibilityModel* model, study::BoAcquisition kind,
                      double failure_value);

  Eigen::VectorXd Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const override;
  double Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const override;

 private:
  // The value for a(u) and ln P(u), with its derivatives.
  double Combine(double a, double log, double* by_a, double* by_log) const;

  const AcquisitionFunction* a_;
  const FeasibilityModel* model_;
  bool logarithm_, bound_;
  double failure_value_;
};

// What a failure counts as for UCB and TS, given the outputs of the results (at least one).
double FailureValue(Eigen::VectorXd outputs);

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_FEASIBILITY_H_
