#ifndef LUTHIER_LIB_STOPPING_STOPPER_H_
#define LUTHIER_LIB_STOPPING_STOPPER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lib/study/history.h"
#include "lib/study/study_spec.h"
#include "lib/study/trial_state.h"

// Decides whether a trial goes on after a report of its learning curve. Pure bookkeeping: no clock, no randomness, no
// I/O.
namespace luthier::stopping {

enum class Verdict {
  kContinue,
  kPause,  // Its target is reached: save a checkpoint and give it back.
  kStop,   // Not worth going on: end it as PRUNED with its last value.
};

struct Decision {
  Verdict verdict = Verdict::kContinue;
  std::string reason;  // One sentence for people; empty with kContinue.
  friend bool operator==(const Decision&, const Decision&) = default;
};

// Decides whether a trial with `target` (study::Trial::target(), 0: none) pauses now that it reported `step`. At
// resource.max it does not pause: it is complete.
Decision AtTarget(const study::Resource& resource, int64_t target, int64_t step);

// The stopping rules of one study: those of its algorithm and StudySpec::stopping. Trials are numbers >= 1; values are
// the study's metric in user units and may be NaN or infinite. Used by one thread at a time.
//
// The rule's state is a function of the set of calls alone, not of the order in which calls about different trials
// came: it is rebuilt from the rows of a study by replaying each trial's reports, in the order in which they were
// stored, and its end. A decision is not remembered: asked again later about the same step, when others have reported
// more, it may differ.
class Stopper {
 public:
  virtual ~Stopper() = default;

  // `trial` reported `value` at `step` >= 0. Steps ascend within an attempt; a step that is reported again (a later
  // attempt began anew) takes the newer value. Not after Finish.
  virtual void Report(int64_t trial, int64_t step, double value) = 0;
  // The same with the values of all metrics, for studies with StudySpec::metrics. A rule that compares by the study's
  // metric alone leaves the others out.
  virtual void ReportPoint(int64_t trial, const study::CurvePoint& point) { Report(trial, point.step, point.value); }
  // `trial` became final. Once a trial.
  virtual void Finish(int64_t trial, study::TrialState state, std::optional<double> value) = 0;
  // Returns what the worker of `trial` is to do after Report(trial, step, …): kContinue or kStop. At resource.max,
  // where the trial is complete, it is kContinue. O(log trials) and O(points of the trial); with several
  // metrics some milliseconds at a rung.
  virtual Decision Decide(int64_t trial, int64_t step) const = 0;
};

// Null: nothing is ever stopped in this study.
std::unique_ptr<Stopper> CreateStopper(const study::StudySpec& spec);

}  // namespace luthier::stopping

#endif  // LUTHIER_LIB_STOPPING_STOPPER_H_
