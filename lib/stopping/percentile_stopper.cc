#include "lib/stopping/percentile_stopper.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"

namespace luthier::stopping {

void PercentileStopper::Report(int64_t trial, int64_t step, double value) {
  open_[trial][step] = std::isfinite(value) ? -study::Score(goal_, value) : std::numeric_limits<double>::infinity();
}

void PercentileStopper::Finish(int64_t trial, study::TrialState state, std::optional<double>) {
  const auto found = open_.find(trial);
  if (state == study::TrialState::kComplete) ++complete_;
  if (found == open_.end()) return;
  const bool pruned = state == study::TrialState::kPruned && others_ == Others::kEnded;
  if (pruned) {
    const int64_t last = found->second.rbegin()->first;
    pruned_at_.insert(std::upper_bound(pruned_at_.begin(), pruned_at_.end(), last), last);
  }
  double mean = 0.0;
  double count = 0.0;
  for (const auto& [step, loss] : found->second) {
    if (state != study::TrialState::kComplete && !pruned) break;
    if (!std::isfinite(loss)) continue;
    count += 1.0;
    mean += loss / count - mean / count;
    at_step_.try_emplace(step, rule_.percentile / 100.0).first->second.Add(rule_.running_mean ? mean : loss);
  }
  open_.erase(found);
}

Decision PercentileStopper::Decide(int64_t trial, int64_t step) const {
  const auto found = open_.find(trial);
  if (found == open_.end() || step < rule_.warmup) return {};
  const Curve& curve = found->second;
  const auto mine = curve.find(step);
  if (mine == curve.end()) return {};
  const auto reports = std::distance(curve.begin(), mine) + 1;
  if (reports % rule_.interval != 0) return {};
  double best = std::numeric_limits<double>::infinity();
  for (auto point = curve.begin(); point != std::next(mine); ++point) best = std::min(best, point->second);
  const auto others = at_step_.find(step);
  if (complete_ < rule_.min_trials || others == at_step_.end()) return {};
  if (!std::isfinite(best)) return {Verdict::kStop, absl::StrCat("no finite value up to step ", step)};
  const auto stopped_before = std::lower_bound(pruned_at_.begin(), pruned_at_.end(), step) - pruned_at_.begin();
  const double bound = others->second.Value(static_cast<size_t>(stopped_before));
  if (best <= bound) return {};
  const auto value = [&](double loss) { return study::FormatDouble(study::Score(goal_, -loss)); };
  return {Verdict::kStop,
          absl::StrCat("best value ", value(best), " up to step ", step, " is worse than ",
                       rule_.percentile == 50.0 ? "the median" : absl::StrCat("percentile ", rule_.percentile), ", ",
                       value(bound), ", of ", others->second.size() + static_cast<size_t>(stopped_before), " trials")};
}

}  // namespace luthier::stopping
