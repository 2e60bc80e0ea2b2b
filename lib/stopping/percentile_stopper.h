#ifndef LUTHIER_LIB_STOPPING_PERCENTILE_STOPPER_H_
#define LUTHIER_LIB_STOPPING_PERCENTILE_STOPPER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "lib/stopping/quantile.h"
#include "lib/stopping/stopper.h"

namespace luthier::stopping {

// Median and percentile stopping (docs/reference/early_stopping.md). In losses, at a report of step s:
//   stop iff the smallest finite loss of the trial up to s > the percentile over the others of their loss at s
// (with running_mean: of the mean of their finite losses up to s). Strictly: equal ones go on. Who the others are:
//   kComplete  COMPLETE trials alone (Golovin et al. 2017, section 3.2.2). They are those that the rule let through, so
//              the bar rises as the study goes on
//   kEnded     PRUNED ones as well, with what they reported, and as worse than all beyond their last report: the
//              percentile is then that of all settings, and a rule of 25 lets the best quarter go on
// Others without a finite report at exactly s do not count, but for the PRUNED ones that ended before it; with none
// that has one, or fewer than min_trials COMPLETE ones in all, nothing is stopped. Else a trial none of whose values is
// finite is stopped. With several objectives a trial is stopped that the rule would stop by each of them.
class PercentileStopper final : public Stopper {
 public:
  enum class Others { kComplete, kEnded };
  PercentileStopper(study::Goal goal, const study::PercentileStopping& rule, Others others)
      : goal_(goal), rule_(rule), others_(others) {}

  void Report(int64_t trial, int64_t step, double value) override;
  void Finish(int64_t trial, study::TrialState state, std::optional<double> value) override;
  Decision Decide(int64_t trial, int64_t step) const override;

 private:
  using Curve = std::map<int64_t, double>;  // Step -> loss; not finite: +infinity.
  const study::Goal goal_;
  const study::PercentileStopping rule_;
  const Others others_;
  std::map<int64_t, Curve> open_;
  mutable std::map<int64_t, RunningQuantile> at_step_;  // Its Value moves numbers about.
  std::vector<int64_t> pruned_at_;                      // kEnded: the last steps of PRUNED trials, ascending.
  int64_t complete_ = 0;
};

}  // namespace luthier::stopping

#endif  // LUTHIER_LIB_STOPPING_PERCENTILE_STOPPER_H_
