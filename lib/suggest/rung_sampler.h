#ifndef LUTHIER_LIB_SUGGEST_RUNG_SAMPLER_H_
#define LUTHIER_LIB_SUGGEST_RUNG_SAMPLER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/suggest/designer.h"

namespace luthier::suggest {

// The history that the sampler of an algorithm with rungs sees, from which the model of a BOHB-like search learns:
// the results at one rung, the highest of `steps` (ascending) at which at least `enough` trials have a finite loss, or
// the lowest one when none has so many.
//   COMPLETE with the value at that rung: trials that have a finite one
//   FAILED: those whose value there is none, and those that failed
//   PRUNED with their newest finite value: those that pause below the rung. They were not good enough so far, which
//     models are to know; they are open again once they are promoted
//   open: those on their way
// Numbers stay, ask indices count new settings alone, gradients are those of COMPLETE trials, at the highest rung only.
// Trials finish in order of number. CANCELLED: `stop` was raised.
absl::StatusOr<study::History> HistoryAtRung(const study::History& history, const std::vector<int64_t>& steps,
                                             size_t enough, study::Goal goal, const base::StopToken& stop);

// New settings for an algorithm with rungs, from the sampler it names. The k-th setting that the study takes from it is
// the k-th answer of that sampler: with random, point k of random search with the same seed.
class RungSampler {
 public:
  // `steps`: the study's longest ladder. The spec must be valid.
  RungSampler(const study::StudySpec& spec, std::vector<int64_t> steps);

  // Errors: SPACE_EXHAUSTED and CANCELLED, as the sampler says.
  absl::StatusOr<Suggestion> Suggest(const study::History& history, const base::StopToken& stop);

 private:
  const study::Goal goal_;
  const std::vector<int64_t> steps_;
  const bool uses_history_;
  const size_t enough_;  // Tuned parameters + 2.
  const std::unique_ptr<Designer> designer_;
};

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_RUNG_SAMPLER_H_
