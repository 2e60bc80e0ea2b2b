#ifndef LUTHIER_LIB_STOPPING_ASHA_STOPPER_H_
#define LUTHIER_LIB_STOPPING_ASHA_STOPPER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "lib/stopping/stopper.h"

namespace luthier::stopping {

// The variant of asha that pauses nothing (docs/reference/asha.md). At rung r_k, its first report at or after r_k, a
// trial goes on iff its rank among the values of rung k so far, its own included, is at most max(1, floor(|P| / eta));
// ties by number. A value that is not finite stops it, unless nobody has a finite one at that rung. The whole resource
// is no rung. With bounds or several objectives the rank is that of study::RungOrder, among the newest 1,000 trials
// with values at the rung, and its own.
class AshaStopper final : public Stopper {
 public:
  // Precondition: a valid spec whose algorithm is asha with kStop.
  explicit AshaStopper(const study::StudySpec& spec);

  void Report(int64_t trial, int64_t step, double value) override;
  void ReportPoint(int64_t trial, const study::CurvePoint& point) override;
  void Finish(int64_t trial, study::TrialState state, std::optional<double> value) override;
  Decision Decide(int64_t trial, int64_t step) const override;

 private:
  struct AtRung {
    int64_t step;
    double loss;  // +infinity if not all metrics are finite.
  };
  // Returns how many trials are ranked at rung `k`, and the place of `trial` among them, from 1.
  std::pair<int64_t, int64_t> RankAt(size_t k, int64_t trial, double loss) const;
  const study::StudySpec spec_;
  const std::vector<int64_t> steps_;
  std::map<int64_t, std::vector<std::optional<AtRung>>> open_;  // By trial; index: rung.
  std::vector<std::vector<std::pair<double, int64_t>>> rungs_;  // Ascending (loss, trial).
  // In studies with StudySpec::metrics: by rung, the values of the trials that have them.
  std::vector<std::map<int64_t, std::vector<double>>> values_;
};

}  // namespace luthier::stopping

#endif  // LUTHIER_LIB_STOPPING_ASHA_STOPPER_H_
