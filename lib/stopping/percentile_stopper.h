#ifndef LUTHIER_LIB_STOPPING_PERCENTILE_STOPPER_H_
#define LUTHIER_LIB_STOPPING_PERCENTILE_STOPPER_H_

#include <cstdint>
#include <map>
#include <optional>

#include "lib/stopping/quantile.h"
#include "lib/stopping/stopper.h"

namespace luthier::stopping {

// Median and percentile stopping (Golovin et al. 2017, section 3.2.2; docs/algorithms/early_stopping.md). In losses, at
// a report of step s:
//   stop iff the smallest finite loss of the trial up to s > the percentile over COMPLETE trials of their loss at s
// (with running_mean: of the mean of their finite losses up to s). Strictly: equal ones go on. COMPLETE trials without
// a finite report at exactly s do not count; with none of them, or fewer than min_trials COMPLETE ones in all, nothing
// is stopped. A trial none of whose values is finite is stopped.
class PercentileStopper final : public Stopper {
 public:
  PercentileStopper(study::Goal goal, const study::PercentileStopping& rule) : goal_(goal), rule_(rule) {}

  void Report(int64_t trial, int64_t step, double value) override;
  void Finish(int64_t trial, study::TrialState state, std::optional<double> value) override;
  Decision Decide(int64_t trial, int64_t step) const override;

 private:
  using Curve = std::map<int64_t, double>;  // Step -> loss; not finite: +infinity.
  const study::Goal goal_;
  const study::PercentileStopping rule_;
  std::map<int64_t, Curve> open_;
  std::map<int64_t, RunningQuantile> at_step_;
  int64_t complete_ = 0;
};

}  // namespace luthier::stopping

#endif  // LUTHIER_LIB_STOPPING_PERCENTILE_STOPPER_H_
