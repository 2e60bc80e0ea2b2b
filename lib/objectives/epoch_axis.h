#ifndef LUTHIER_LIB_OBJECTIVES_EPOCH_AXIS_H_
#define LUTHIER_LIB_OBJECTIVES_EPOCH_AXIS_H_

#include <cstdint>

namespace luthier::objectives {

// The common axis of learning curves, whatever the solver: passes over the training rows. Of all folds, those that
// still run advance until each has had goal() passes; the point there has the step `step` of At(). So a point is that
// of the whole cross-validation, at the first iterates that have cost so much, and trials of different solvers have
// points at the same steps. Reporting points depend on the trainings alone, never on observers.
class EpochAxis {
 public:
  struct Point {
    int64_t passes = 0;  // Whole passes that all have had.
    // The point's: the last multiple of report_every that was crossed; where it pauses, at least the target.
    int64_t step = 0;
    bool report = false, pause = false, checkpoint = false;  // True if it is due.
  };

  // Both > 0; target: EvaluationContext::target. At first goal() is 0: trainings are to be started, no more.
  EpochAxis(int64_t report_every, int64_t checkpoint_every, int64_t target)
      : report_every_(report_every), checkpoint_every_(checkpoint_every), target_(target) {}

  int64_t goal() const { return goal_; }
  // The point when the running folds have had `least` passes or more, at least goal().
  Point At(double least) const;
  // On to the first whole pass after it.
  void MoveOn(const Point& point) { goal_ = point.passes + 1; }
  // The step of the final result, when the fold with most passes had so many. Not beyond the target, which was not
  // reached before the end.
  int64_t LastStep(double most) const;

  // The last whole pass that all have had; 0 at first.
  int64_t done() const { return goal_ == 0 ? 0 : goal_ - 1; }
  // Goes on from a checkpoint, which holds goal(). >= 0.
  void Resume(int64_t goal) { goal_ = goal; }

 private:
  int64_t report_every_;
  int64_t checkpoint_every_;
  int64_t target_;
  int64_t goal_ = 0;
};

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_EPOCH_AXIS_H_
