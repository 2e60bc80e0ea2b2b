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

// A model of which settings work at all. It predicts the probability P(u) that a trial of u gives a
// value. It learns P from trials that failed for a fault of the setting and from trials that gave a
// value. docs/design/feasibility.md.
namespace luthier::search {

// Trials with an outcome: rows of model coordinates and their labels, +1 (COMPLETE, PRUNED) or -1
// (FAILED for a fault of the setting). There are at most 1500, the newest. Each class keeps at
// least half of these rows, or all of its trials if it has fewer.
struct FeasibilityData {
  Eigen::MatrixXd points;
  Eigen::VectorXd labels;
};
// Returns true if there is a trial of label -1.
bool AnyFailed(const study::History& history);
// Collects those trials. Returns CANCELLED, here and below, if `stop` was raised.
absl::StatusOr<FeasibilityData> CollectFeasibility(const study::History& history, const study::Encoding& encoding,
                                                   const base::StopToken& stop);

// The designer state of the model.
struct FeasibilityState {
  int64_t trials = 0;         // Number of trials at the last search for hyperparameters.
  gp::Hyperparameters theta;  // The result of that search.
};

// A classifier over the space. It is immutable and may be used by any thread.
class FeasibilityModel {
 public:
  // Fits the classifier to `data`. Returns std::nullopt if nothing has failed, or if the model
  // could not be computed. Hyperparameters are searched for, on at most 300 trials, when there are
  // at least 5 % more trials than at the last search. Otherwise those of `last`, an earlier next(),
  // are used. Deterministic in its arguments.
  static absl::StatusOr<std::optional<FeasibilityModel>> Fit(const FeasibilityData& data,
                                                             const study::Encoding& encoding,
                                                             const std::optional<FeasibilityState>& last,
                                                             const base::StopToken& stop);

  // Returns P(u), for model coordinates `u`.
  double Probability(const Eigen::VectorXd& u) const;
  // The P below which a setting is considered likely to fail: 0.7 times the largest P at any
  // success, or times 1/2 if that is larger. The incumbent's P is not the reference: an improvement
  // at the border of the feasible region would lower the threshold, and asks would creep across the
  // border.
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
