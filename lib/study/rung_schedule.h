#ifndef LUTHIER_LIB_STUDY_RUNG_SCHEDULE_H_
#define LUTHIER_LIB_STUDY_RUNG_SCHEDULE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/study/history.h"
#include "lib/study/study_spec.h"

// Shared parts of successive halving, Hyperband and ASHA: rungs, brackets, and the loss of a trial at a rung.
//
// A rung is a step of the intermediate reports. With R = resource.max, the ladder of s halvings is
//   r_i = round(R / eta^(s - i)), i = 0 … s,
// halves rounded up: r_s is R exactly, and r_0 is at least resource.min as long as s <= MaxHalvings. (Where R is
// resource.min times a power of eta, that is r_min eta^i. Elsewhere we count down from R, so that all steps up are by
// the same factor, rather than up from r_min, which would leave a last step that is worth next to nothing.)
namespace luthier::study {

// floor(log_eta(max / min)) in integers. min, max >= 1, eta >= 2.
int MaxHalvings(const Resource& resource, int32_t eta);

// The ladder, ascending. 0 <= halvings <= MaxHalvings.
std::vector<int64_t> RungSteps(int64_t max, int32_t eta, int halvings);

struct Bracket {
  std::vector<int64_t> steps;  // r_0 … r_s.
  std::vector<int64_t> sizes;  // n_0 … n_s: settings at each rung, n_i = floor(n_0 / eta^i).
  friend bool operator==(const Bracket&, const Bracket&) = default;
};
Bracket MakeBracket(int64_t max, int32_t eta, int halvings, int64_t trials);
// Units of training that a full bracket takes: sum of n_i (r_i - r_{i-1}), or, where trials cannot go on from a
// checkpoint and begin anew at each rung, sum of n_i r_i.
double TrainingOf(const Bracket& bracket, bool checkpoints);

// The brackets that an algorithm begins one after the other, round and round. Precondition: a valid spec whose
// algorithm trains in parts. A bracket of fewer settings than eta^s, and asha with a smaller budget, begin at a higher
// rung, so that one setting gets all its training. ASHA: one bracket with the sizes that as many settings as the budget
// has would end in.
std::vector<Bracket> BracketsOf(const StudySpec& spec);

// Returns the loss of `trial` at rung `step`; smaller is better:
//   its first report at or after `step`; +infinity where that is not a finite number
//   else the final value of a COMPLETE trial: nothing was reported in between
//   else +infinity when it FAILED or was PRUNED on its way there
// Returns std::nullopt if the trial is not there yet, was not to get there, or was cancelled.
std::optional<double> LossAt(const HistoryTrial& trial, int64_t step, Goal goal);

// The target of a trial that a user enqueues; 0: none, it belongs to no rung.
int64_t FirstTarget(const StudySpec& spec);

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_RUNG_SCHEDULE_H_
