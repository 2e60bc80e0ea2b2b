#ifndef LUTHIER_LIB_SEARCH_MULTI_FIDELITY_RUNG_SAMPLER_H_
#define LUTHIER_LIB_SEARCH_MULTI_FIDELITY_RUNG_SAMPLER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/search/designer.h"

namespace luthier::search {

// Returns the history that the sampler of an algorithm with rungs sees: the model of a BOHB-like search learns from it.
// It holds the results (study::ResultAt) at one rung: the highest of `steps` (ascending) at which at least `enough`
// trials have a finite loss, or the lowest one if no rung has so many.
//   COMPLETE  with the values at that rung: trials with finite ones
//   PRUNED    with their newest finite values: other trials that are PAUSED or PRUNED. Models learn from them that they
//             were not good enough so far. A PAUSED trial is pending again once it is promoted
//   FAILED    other trials with a non-finite loss there, and trials that failed
//   pending   trials that have not reached the rung yet
// Trials keep their numbers and finish in order of number. Ask indices count new settings alone. Only COMPLETE trials
// have gradients, and only at the highest rung. Returns CANCELLED if `stop` was raised.
absl::StatusOr<study::History> HistoryAtRung(const study::History& history, const std::vector<int64_t>& steps,
                                             size_t enough, const study::StudySpec& spec, const base::StopToken& stop);

// Draws new settings for an algorithm with rungs from the sampler that it names. The k-th setting of the study is the
// k-th answer of that sampler: with random, point k of random search with the same seed.
class RungSampler {
 public:
  // `steps`: the study's longest ladder. The spec must be valid.
  RungSampler(const study::StudySpec& spec, std::vector<int64_t> steps, const NestedAlgorithms& nested);

  // Returns the next new setting. Errors are the sampler's: SPACE_EXHAUSTED and CANCELLED.
  absl::StatusOr<Suggestion> Suggest(const study::History& history, const base::StopToken& stop);

 private:
  const study::StudySpec spec_;
  const std::vector<int64_t> steps_;
  const bool uses_history_;
  const size_t enough_;  // Number of tuned parameters + 2.
  const std::unique_ptr<Designer> designer_;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_MULTI_FIDELITY_RUNG_SAMPLER_H_
