#ifndef LUTHIER_LIB_SEARCH_BO_TURNS_ANSWER_H_
#define LUTHIER_LIB_SEARCH_BO_TURNS_ANSWER_H_

#include "absl/status/statusor.h"
#include "lib/search/bo/turns/ask.h"
#include "lib/search/bo/turns/bo_model.h"

// The end of a study that is answered: what its model says may still be gained is too little to matter
// (Budget::until_answered). Makarova et al. (2022, "Automatic termination for hyperparameter optimization") end a
// search by the same bound, at the standard error of the folds; here a hundredth of it is the limit.
namespace luthier::search {

// Returns a bound on what any untried setting may gain on the best result, in units of the metric: the largest over the
// space of
//   mean + 3 s deviation    under the model, and under each of its alternatives (surrogate.h)
// less the best result. s >= 1 is the factor by which the model's deviations are too small at its own results, each
// predicted from all others. Pending trials count as tried: they take the values that the model predicts. Returns
// infinity once it is clear that the bound exceeds `limit`, if the model has seen noise, if results are missing, as
// those of pruned trials are, or if the metric moves in steps, so that good settings far apart share a value.
absl::StatusOr<double> GainBound(const BoStudy& study, const Ask& ask, const BoModel& model, double limit);

// Returns OUT_OF_RANGE ANSWERED, with the bound, once the study is answered; OK before. Needs more results than the
// initial design has, and three for each parameter.
absl::Status CheckAnswered(const BoStudy& study, const Ask& ask, const BoModel& model);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_TURNS_ANSWER_H_
