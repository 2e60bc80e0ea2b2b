#ifndef LUTHIER_LIB_OBJECTIVES_EPOCH_AXIS_H_
#define LUTHIER_LIB_OBJECTIVES_EPOCH_AXIS_H_

#include <cstdint>

namespace luthier::objectives {

// The common axis of learning curves, whatever the solver: passes over the training rows. The folds that still run
// advance until each has had goal() passes; the point there has the step `step` of At(). So a point is that of the
// whole cross-validation, at the first iterates that have cost that many passes, and trials of different solvers have
// points at the same steps. Reporting points depend on the trainings alone, never on observers.
class EpochAxis {
 public:
  struct Point {
    int64_t passes = 0;  // Whole passes that all folds have had.
    // Step of the point: the last multiple of report_every that was crossed; at a pause, at least the target.
    int64_t step = 0;
    bool report = false, pause = false, checkpoint = false;  // True if it is due.
  };

  // Both > 0; target: EvaluationContext::target. At first goal() is 0: trainings are only started.
  EpochAxis(int64_t report_every, int64_t checkpoint_every, int64_t target)
      : report_every_(report_every), checkpoint_every_(checkpoint_every), target_(target) {}

  int64_t goal() const { return goal_; }
  // Returns the point at which the running folds have had `least` passes or more, at least goal().
  Point At(double least) const;
  // Sets the goal to the first whole pass after `point`.
  void MoveOn(const Point& point) { goal_ = point.passes + 1; }
  // Returns the step of the final result, if the fold with most passes had `most`. It is not beyond the target, which
  // was not reached before the end.
  int64_t LastStep(double most) const;

  // Returns the last whole pass that all folds have had; 0 at first.
  int64_t done() const { return goal_ == 0 ? 0 : goal_ - 1; }
  // Continues from a checkpoint, which holds goal(). >= 0.
  void Resume(int64_t goal) { goal_ = goal; }

 private:
  int64_t report_every_;
  int64_t checkpoint_every_;
  int64_t target_;
  int64_t goal_ = 0;
};

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_EPOCH_AXIS_H_
