#include "lib/stopping/asha_stopper.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "lib/study/metrics.h"
#include "lib/study/rung_order.h"
#include "lib/study/rung_schedule.h"

namespace luthier::stopping {
namespace {

constexpr size_t kMostCompared = 1000;

std::vector<int64_t> RungsBelowTheWhole(const study::StudySpec& spec) {
  std::vector<int64_t> steps = study::BracketsOf(spec).front().steps;
  steps.pop_back();
  return steps;
}

}  // namespace

AshaStopper::AshaStopper(const study::StudySpec& spec)
    : spec_(spec), steps_(RungsBelowTheWhole(spec)), rungs_(steps_.size()), values_(steps_.size()) {}

void AshaStopper::Report(int64_t trial, int64_t step, double value) {
  ReportPoint(trial, {step, value});
}

void AshaStopper::ReportPoint(int64_t trial, const study::CurvePoint& point) {
  const bool counts = std::isfinite(point.value) && study::HasAllValues(spec_, point.values);
  const double loss = counts ? -study::Score(spec_.metric.goal, point.value) : std::numeric_limits<double>::infinity();
  std::vector<std::optional<AtRung>>& mine = open_.try_emplace(trial, steps_.size()).first->second;
  for (size_t k = 0; k < steps_.size() && steps_[k] <= point.step; ++k) {
    if (mine[k] && mine[k]->step < point.step) continue;
    auto& rung = rungs_[k];
    if (mine[k]) rung.erase(std::lower_bound(rung.begin(), rung.end(), std::pair(mine[k]->loss, trial)));
    mine[k] = AtRung{point.step, loss};
    const std::pair<double, int64_t> entry(loss, trial);
    rung.insert(std::lower_bound(rung.begin(), rung.end(), entry), entry);
    if (spec_.metrics.empty()) continue;
    if (counts) {
      values_[k][trial] = point.values;
    } else {
      values_[k].erase(trial);
    }
  }
}

void AshaStopper::Finish(int64_t trial, study::TrialState, std::optional<double>) {
  open_.erase(trial);  // Its values at the rungs stay there.
}

std::pair<int64_t, int64_t> AshaStopper::RankAt(size_t k, int64_t trial, double loss) const {
  const auto& rung = rungs_[k];
  if (spec_.metrics.empty()) {
    const auto place = std::lower_bound(rung.begin(), rung.end(), std::pair(loss, trial));
    return {static_cast<int64_t>(rung.size()), place - rung.begin() + 1};
  }
  std::vector<study::RungResult> results;
  size_t mine = 0;
  for (auto one = values_[k].rbegin(); one != values_[k].rend(); ++one) {
    if (results.size() >= kMostCompared && one->first > trial) continue;
    if (results.size() >= kMostCompared && one->first < trial) break;
    if (one->first == trial) mine = results.size();
    const double first = study::ScoresOf(spec_, one->second).front();
    results.push_back({.loss = -first, .values = one->second, .tie = one->first});
  }
  // Nothing stops the ranking of so few.
  const std::vector<size_t> order = *study::RungOrder(spec_, results, results.size(), base::StopToken());
  const auto place = std::find(order.begin(), order.end(), mine);
  return {static_cast<int64_t>(results.size()), place - order.begin() + 1};
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
    const auto [count, rank] = RankAt(k, trial, mine->loss);
    const int64_t best = std::max<int64_t>(1, count / options.eta);
    if (rank > best) {
      return {Verdict::kStop, absl::StrCat("rank ", rank, " of ", count, " at rung ", steps_[k], ", of which the best ",
                                           best, " go on")};
    }
  }
  return {};
}

}  // namespace luthier::stopping
