#include "lib/stopping/asha_stopper.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "lib/study/rung_schedule.h"

namespace luthier::stopping {
namespace {

std::vector<int64_t> RungsBelowTheWhole(const study::StudySpec& spec) {
  std::vector<int64_t> steps = study::BracketsOf(spec).front().steps;
  steps.pop_back();
  return steps;
}

}  // namespace

AshaStopper::AshaStopper(const study::StudySpec& spec)
    : spec_(spec), steps_(RungsBelowTheWhole(spec)), rungs_(steps_.size()) {}

void AshaStopper::Report(int64_t trial, int64_t step, double value) {
  const double loss =
      std::isfinite(value) ? -study::Score(spec_.metric.goal, value) : std::numeric_limits<double>::infinity();
  std::vector<std::optional<AtRung>>& mine = open_.try_emplace(trial, steps_.size()).first->second;
  for (size_t k = 0; k < steps_.size() && steps_[k] <= step; ++k) {
    if (mine[k] && mine[k]->step < step) continue;
    auto& rung = rungs_[k];
    if (mine[k]) rung.erase(std::lower_bound(rung.begin(), rung.end(), std::pair(mine[k]->loss, trial)));
    mine[k] = AtRung{step, loss};
    const std::pair<double, int64_t> entry(loss, trial);
    rung.insert(std::lower_bound(rung.begin(), rung.end(), entry), entry);
  }
}

void AshaStopper::Finish(int64_t trial, study::TrialState, std::optional<double>) {
  open_.erase(trial);  // Its values at the rungs stay there.
}

Decision AshaStopper::Decide(int64_t trial, int64_t step) const {
  const auto found = open_.find(trial);
  if (found == open_.end()) return {};
  const auto& options = std::get<study::AshaOptions>(spec_.algorithm);
  for (size_t k = 0; k < steps_.size(); ++k) {
    const std::optional<AtRung>& mine = found->second[k];
    if (!mine || mine->step != step) continue;
    const auto& rung = rungs_[k];
    if (!std::isfinite(rung.front().first)) continue;  // Nobody has a finite value here: there is nothing to rank.
    if (!std::isfinite(mine->loss)) return {Verdict::kStop, absl::StrCat("no finite value at step ", step)};
    const int64_t best = std::max<int64_t>(1, static_cast<int64_t>(rung.size()) / options.eta);
    const auto place = std::lower_bound(rung.begin(), rung.end(), std::pair(mine->loss, trial));
    const int64_t rank = place - rung.begin() + 1;
    if (rank > best) {
      return {Verdict::kStop, absl::StrCat("rank ", rank, " of ", rung.size(), " at rung ", steps_[k],
                                           ", of which the best ", best, " go on")};
    }
  }
  return {};
}

}  // namespace luthier::stopping
