#ifndef LUTHIER_LIB_SIMULATE_PREVIEW_H_
#define LUTHIER_LIB_SIMULATE_PREVIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lib/study/study_spec.h"

namespace luthier::simulate {

// Forecast of what a study will do, as far as its spec alone tells.
struct Preview {
  struct Rung {
    int64_t step = 0;  // Step up to which it trains; 0: as long as the objective likes (no resource).
    int64_t settings = 0;
    double training = 0.0;  // Units that this rung adds, of all its settings together.
  };
  struct Bracket {
    int64_t times = 1;  // In a row, or round after round.
    std::vector<Rung> rungs;
  };
  std::string algorithm;  // The algorithm that `auto` chooses.
  std::string unit;       // "units" where the resource has no name, "trials" where there is no resource.
  int64_t settings = 0;   // The budget.
  // Brackets in the order in which they begin; the budget may cut the last one short. Asha has one bracket, with the
  // most that its rungs can hold; other algorithms have one bracket of one rung. Harmonica has its stages, of one rung,
  // then its base's brackets.
  std::vector<Bracket> brackets;
  double training = 0.0;               // Units in all; at most, where a rule may stop trials.
  double training_from_scratch = 0.0;  // The same where trials cannot go on from a checkpoint.
  double training_without = 0.0;       // If every setting got all its training.
  bool at_most = false;                // A stopping rule, or asha, may need less.
  bool about = false;                  // asha STOP: the number of trials that go on is not bounded.
  // Estimates, in units, of the time for this many workers that all take as long for a unit: training / workers, but no
  // less than one whole training; and with waiting at the barriers of rungs, of all brackets or, where they overlap, of
  // one.
  int64_t workers = 1;
  double time_at_least = 0.0;
  double time_at_most = 0.0;
};

// Precondition: a valid spec (study::ValidateSpec, search::Validate). workers >= 1, cut to budget.max_parallel.
Preview PreviewOf(const study::StudySpec& spec, int64_t workers);

}  // namespace luthier::simulate

#endif  // LUTHIER_LIB_SIMULATE_PREVIEW_H_
