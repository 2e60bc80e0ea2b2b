#ifndef LUTHIER_LIB_SEARCH_BO_MODEL_FEASIBILITY_H_
#define LUTHIER_LIB_SEARCH_BO_MODEL_FEASIBILITY_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/gp/classification.h"
#include "lib/gp/hyperparameters.h"
#include "lib/study/encoding.h"
#include "lib/study/history.h"
#include "lib/study/study_spec.h"

// A model of where settings work at all: the probability P(u) that a trial of u gives a value, learnt from the trials
// that failed for a fault of the setting and from those that gave one, and how acquisitions take it into account.
// docs/design/feasibility.md.
namespace luthier::search {

// Trials with an outcome, as rows of model coordinates: +1 (COMPLETE, PRUNED) or -1 (FAILED for a fault of the
// setting). At most 1500: the newest, but of neither class fewer than half while it has more.
struct FeasibilityData {
  Eigen::MatrixXd points;
  Eigen::VectorXd labels;
};
// Returns true if there is a trial of label -1.
bool AnyFailed(const study::History& history);
// CANCELLED, here and below: `stop` was raised.
absl::StatusOr<FeasibilityData> CollectFeasibility(const study::History& history, const study::Encoding& encoding,
                                                   const base::StopToken& stop);

// The designer state of the model.
struct FeasibilityState {
  int64_t trials = 0;         // At the last search for hyperparameters.
  gp::Hyperparameters theta;  // Its result.
};

// A classifier over the space. Immutable; any thread.
class FeasibilityModel {
 public:
  // Returns std::nullopt if nothing has failed, or if the model could not be computed. Hyperparameters are searched for
  // when there are at least 5 % more trials than at the last search, on at most 300 of them, else taken over from
  // `last` (what next() gave). Deterministic in its arguments.
  static absl::StatusOr<std::optional<FeasibilityModel>> Fit(const FeasibilityData& data,
                                                             const study::Encoding& encoding,
                                                             const std::optional<FeasibilityState>& last,
                                                             const base::StopToken& stop);

  double Probability(const Eigen::VectorXd& u) const;
  // Below this P a setting is a gamble: 0.7 of the largest P at any success (0.7 of 1/2 where there is none). Not of
  // the incumbent's: an improvement at the border of what works would lower it, and asks would creep across.
  double doubtful() const { return doubtful_; }
  const gp::Classifier& classifier() const { return classifier_; }
  // Returns the state for the next ask.
  const FeasibilityState& next() const { return next_; }

 private:
  FeasibilityModel(gp::Classifier classifier, FeasibilityState next, double doubtful)
      : classifier_(std::move(classifier)), next_(std::move(next)), doubtful_(doubtful) {}

  gp::Classifier classifier_;
  FeasibilityState next_;
  double doubtful_ = 0.0;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_MODEL_FEASIBILITY_H_
