#ifndef LUTHIER_LIB_STUDY_HISTORY_H_
#define LUTHIER_LIB_STUDY_HISTORY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/study/trial.h"

namespace luthier::study {

// A point of a learning curve: the study's metric in user units, possibly not finite, after `step` units of training.
struct CurvePoint {
  int64_t step = 0;
  double value = 0.0;
  // In studies with StudySpec::metrics: the values of all of them. If the point lacks a finite one: with several
  // objectives NaN for it, with one empty, as are all such points that were stored before there were NaN.
  std::vector<double> values = {};
  friend bool operator==(const CurvePoint&, const CurvePoint&) = default;
};

// One trial as a designer sees it.
struct HistoryTrial {
  int64_t number = 0;                 // 0: suggested, not yet stored.
  std::optional<uint64_t> ask_index;  // std::nullopt for trials a user enqueued.
  Parameters parameters;
  uint64_t setting = 0;  // HashOf(parameters): History keeps it, so that designers see cheaply what they have seen.
  TrialState state = TrialState::kPending;
  std::optional<double> value;           // The study's metric in user units; COMPLETE (always finite) or PRUNED.
  std::optional<double> standard_error;  // The error of `value`, if it was reported.
  // In studies with StudySpec::metrics: the values of all of them, in that order. Empty without a result, or if it
  // lacks one, which may be in PRUNED.
  std::vector<double> values = {};
  std::vector<std::optional<double>> standard_errors = {};  // Errors of `values` where reported; empty: none was.
  bool feasible = true;                                     // False if one of `values` is beyond a bound.
  int64_t step = 0;                                         // Step of the final measurement; 0: there is none.
  std::optional<Gradient> gradient;                         // Gradient of the study's metric, valid for the space.
  // Gradients of `values` where reported, in that order, that of the study's metric included; empty: none was.
  std::vector<std::optional<Gradient>> gradients = {};
  std::optional<FailureKind> failure;  // In FAILED.
  std::string designer_state;          // Text that the designer stored with this suggestion.
  // Who reported the result: workers are numbered by their first final result in the log, from 0. Wrong gradients are
  // mostly one worker's. In a reproducible study, where nothing may depend on who was faster, always 0.
  int32_t reporter = 0;
  // Its learning curve, ascending in step; where a step was reported more than once (a later attempt began anew), the
  // newest value. Filled in studies with a `resource` only.
  std::vector<CurvePoint> points;
  int64_t resource = 0;  // The step until which it is to be trained; 0: no target.

  bool open() const { return !IsFinal(state); }
  // Forgets the result, but neither the state nor the reporter.
  void ClearResult();
};

// The part of a study's log that a designer may depend on, in log order. Designers see nothing else: no times, no
// retries, no names of workers. Single-threaded; copy to hand to another thread.
class History {
 public:
  // Trials in order of number; suggested-but-unstored ones after them in order of ask index.
  const std::vector<HistoryTrial>& trials() const { return trials_; }
  // Indices into trials() of those that became final, in log order.
  const std::vector<int>& finished() const { return finished_; }
  // Indices into trials() of those that were PAUSED or became final, in log order of the first time: when each first
  // had a result.
  const std::vector<int>& settled() const { return settled_; }
  // The stored trial with the largest ask index below `ask_index`, or null.
  const HistoryTrial* LastAskBefore(uint64_t ask_index) const;

  // Adds a stored trial. It replaces the suggested-but-unstored trial of the same ask index. Numbers come 1, 2, ….
  void AddStored(HistoryTrial trial);
  // Adds a suggestion on its way to the store.
  void AddSuggested(uint64_t ask_index, Parameters parameters, std::string designer_state, int64_t resource = 0);
  // Notes that trial `number` became final. `worker`: the worker whose report made it so, which is how workers get
  // their numbers (HistoryTrial::reporter); if empty, the trial's reporter stays as it is. `step`: that of the value.
  void Finish(int64_t number, TrialState state, std::optional<double> value, std::optional<Gradient> gradient,
              std::optional<FailureKind> failure, const std::string& worker = "", int64_t step = 0);
  // Notes of final trial `number` the `standard_error` of `result` and, in studies with StudySpec::metrics, the values
  // of all metrics: its `values`, `standard_errors` and `feasible`.
  void NoteMetrics(int64_t number, const HistoryTrial& result);

  // Notes the present parameters of open trial `number` (open spaces: those that its objective asked for).
  void Change(int64_t number, Parameters parameters);
  // Extends gradients of fewer entries to `dimensions`: with 0 for parameters that came later, which are inactive
  // there.
  void ExtendGradients(size_t dimensions);

  // Notes that final trial `number` no longer counts (study::IsRemoved): it looks cancelled from now on. Designers that
  // have seen its result must be made anew.
  void Remove(int64_t number);

  // --- Studies with a `resource` ---
  // Notes that a worker reported a point of open trial `number`.
  void Report(int64_t number, CurvePoint point);
  void Report(int64_t number, int64_t step, double value) { Report(number, CurvePoint{step, value}); }
  // Notes that open trial `number` reached its target and is PAUSED. Its reports there came before.
  void Pause(int64_t number);
  // Notes that ask `ask_index` continues PAUSED trial `number` up to `resource`, its new target, which is above the old
  // one: the trial is PENDING. Call AddSuggestedResume as soon as it is suggested, and Resume when it was stored
  // (whether or not the suggestion came before it).
  void AddSuggestedResume(uint64_t ask_index, int64_t number, int64_t resource);
  void Resume(uint64_t ask_index, int64_t number, int64_t resource);

  // Returns what a designer may see in a study with `reproducible` set, when it is asked with at most `parallel` trials
  // at once: results of the trials numbered <= count - parallel + 1, in order of number, where count is the number of
  // trials() before this ask (with parallel = 1: all of them). All other trials look pending, and all reporters are 0.
  // The view does not depend on the order in which workers finish. Returns std::nullopt while one of those results is
  // still missing.
  std::optional<History> ReproducibleView(int64_t parallel) const;

 private:
  void Settle(int64_t number);

  std::vector<HistoryTrial> trials_;
  std::vector<int> finished_;
  std::vector<int> settled_;
  std::vector<bool> has_settled_;  // By index into trials_; shorter where the rest have not.
  int stored_ = 0;
  std::set<uint64_t> resume_asks_;
  std::map<std::string, int32_t> reporters_;  // Numbers of workers; names do not leave this class.
};

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_HISTORY_H_
