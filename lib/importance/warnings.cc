#include "lib/importance/warnings.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "lib/base/error.h"
#include "lib/study/compact_column.h"
#include "lib/study/encoding.h"

namespace luthier::importance {
namespace {

using study::CompactColumn;

constexpr size_t kFewLevels = 10;  // Ordered levels that are counted one by one.
constexpr size_t kNamed = 3;       // Parameters that a sentence names.
constexpr size_t kLeastCounted = static_cast<size_t>(kMinTrials);

// "x", "y" and "z"; or "x", "y", "z" and 4 more.
std::string Listed(const std::vector<std::string>& names) {
  std::vector<std::string> quoted;
  for (size_t i = 0; i < std::min(names.size(), kNamed); ++i) quoted.push_back(base::Quote(names[i]));
  if (names.size() > kNamed) {
    return absl::StrCat(absl::StrJoin(quoted, ", "), " and ", names.size() - kNamed, " more");
  }
  const std::string last = quoted.back();
  quoted.pop_back();
  return quoted.empty() ? last : absl::StrCat(absl::StrJoin(quoted, ", "), " and ", last);
}

// The places of trials in the range of a parameter that they have.
struct Spread {
  std::string name;
  size_t trials = 0;
  size_t alike = 0;  // Trials with the commonest label or level, or in the tenth of the range that has most of them.
  bool hardly_varied = false;
  std::optional<double> width =
      std::nullopt;  // Least part of a continuous range that holds most of the trials; of [0, 1].
};

// Returns the largest number of `u`, which are in order, within `width` of each other.
size_t MostWithin(const std::vector<double>& u, double width) {
  size_t most = 0;
  for (size_t first = 0, last = 0; first < u.size(); ++first) {
    while (last < u.size() && u[last] - u[first] <= width) ++last;
    most = std::max(most, last - first);
  }
  return most;
}

// Returns the least width that holds `count` of `u`, which are in order.
double LeastWidth(const std::vector<double>& u, size_t count) {
  double least = 1.0;
  for (size_t first = 0; first + count <= u.size(); ++first) least = std::min(least, u[first + count - 1] - u[first]);
  return least;
}

Spread SpreadOf(const CompactColumn& column, std::string name, std::vector<double> u) {
  Spread spread{.name = std::move(name), .trials = u.size()};
  if (u.size() < kLeastCounted) return spread;
  std::sort(u.begin(), u.end());
  const bool unordered = column.kind() == CompactColumn::Kind::kUnordered;
  const bool counted = unordered || (column.kind() == CompactColumn::Kind::kOrdered && column.levels() <= kFewLevels);
  if (counted) {
    std::map<double, size_t> by_level;
    for (const double at : u) ++by_level[column.Canonical(at)];
    const auto commonest = std::max_element(by_level.begin(), by_level.end(),
                                            [](const auto& a, const auto& b) { return a.second < b.second; });
    const CompactColumn::Cell cell =
        unordered ? CompactColumn::Cell{0.0, 1.0 / column.levels()} : column.CellOf(commonest->first);
    spread.alike = commonest->second;
    // A level that fills half of the range has half of the trials by chance.
    const double expected = cell.high - cell.low;
    spread.hardly_varied =
        static_cast<double>(spread.alike) >= std::max(kMostTrials, expected + 0.4) * static_cast<double>(u.size());
    return spread;
  }
  spread.alike = MostWithin(u, kAlike);
  spread.hardly_varied = static_cast<double>(spread.alike) >= kMostTrials * static_cast<double>(u.size());
  spread.width = LeastWidth(u, static_cast<size_t>(std::ceil(kMostTrials * static_cast<double>(u.size()))));
  return spread;
}

std::vector<Spread> Spreads(const study::SearchSpace& space, const std::vector<Observation>& observations) {
  const study::Encoding encoding(space);
  std::vector<std::vector<double>> by_column(static_cast<size_t>(encoding.compact_dim()));
  for (const Observation& observation : observations) {
    const Eigen::VectorXd u = encoding.ToCompact(observation.parameters);
    for (int c = 0; c < encoding.compact_dim(); ++c) {
      const auto parameter = static_cast<size_t>(encoding.compact_parameter(c));
      if (observation.parameters.count(space.parameters()[parameter].name) == 0) continue;
      by_column[static_cast<size_t>(c)].push_back(u(c));
    }
  }
  std::vector<Spread> spreads;
  for (int c = 0; c < encoding.compact_dim(); ++c) {
    spreads.push_back(SpreadOf(CompactColumn(encoding, c), space.ScalarName(encoding.compact_scalar(c)),
                               std::move(by_column[static_cast<size_t>(c)])));
  }
  return spreads;
}

constexpr char kElsewhere[] =
    " What the rest of the space is like is guessed from few trials: trials of random or sobol tell more of it, and a "
    "smaller quantile asks what matters among the best.";

// Returns a warning about a search that has converged; empty: it has not.
std::string OfConvergence(const study::SearchSpace& space, const std::vector<Observation>& observations) {
  std::vector<std::string> names;
  size_t alike = observations.size(), trials = 0;
  double log_spread = 0.0, ranges = 0.0;
  for (const Spread& spread : Spreads(space, observations)) {
    if (spread.hardly_varied) {
      names.push_back(spread.name);
      if (spread.alike <= alike) alike = spread.alike, trials = spread.trials;
    }
    if (spread.width) log_spread += std::log(std::max(*spread.width, 1e-12) / kMostTrials), ranges += 1.0;
  }
  if (names.size() == 1) {
    return absl::StrCat("Trials are much alike: ", Listed(names), " hardly varied, ", alike, " of ", trials,
                        " trials have it within a tenth of its range, or the same value of it.", kElsewhere);
  }
  if (!names.empty()) {
    return absl::StrCat("Trials are much alike: ", Listed(names), " hardly varied, at least ", alike, " of ", trials,
                        " trials have each of them within a tenth of its range, or the same value of it.", kElsewhere);
  }
  const double mean = ranges == 0.0 ? 1.0 : std::exp(log_spread / ranges);
  if (mean >= kCrowded) return "";
  return absl::StrFormat(
      "Trials are much alike: three quarters of them lie within %.0f %% of the range of a parameter, on the average of "
      "%.0f.%s",
      100.0 * kMostTrials * mean, ranges, kElsewhere);
}

// Returns a warning about an order that is not known; empty: the first parameter is.
std::string OfOrder(const std::vector<ParameterShare>& parameters) {
  std::vector<std::string> first;
  double widest = 0.0;
  for (const ParameterShare& p : parameters) {
    if (p.share.high < parameters.front().share.low) continue;
    first.push_back(p.name);
    widest = std::max(widest, p.share.high - p.share.low);
  }
  if (first.size() < 2 || widest < kWideInterval) return "";
  return absl::StrCat("Which parameter matters most is not known: the intervals of ", Listed(first), " overlap.");
}

}  // namespace

std::vector<std::string> Warnings(const study::SearchSpace& space, const std::vector<Observation>& observations,
                                  const EndedTrials& ended, const Importance& importance) {
  std::vector<std::string> warnings;
  if (importance.predicted < kPoorPrediction) {
    warnings.push_back(absl::StrFormat(
        "The shares say little: of the variance of trials that were held back, the model behind them predicts %.0f %%. "
        "More trials help, unless the metric is mostly noise.",
        100.0 * std::max(0.0, importance.predicted)));
  }
  const auto trials = static_cast<int64_t>(observations.size()),
             columns = static_cast<int64_t>(importance.parameters.size());
  if (trials < kTrialsPerParameter * columns) {
    warnings.push_back(absl::StrCat(trials, " trials are few for ", columns,
                                    columns == 1 ? " parameter" : " parameters", ": with less than ",
                                    kTrialsPerParameter, " for each, chance looks like a small share."));
  }
  if (std::string alike = OfConvergence(space, observations); !alike.empty()) warnings.push_back(std::move(alike));
  if (std::string order = OfOrder(importance.parameters); !order.empty()) warnings.push_back(std::move(order));
  const int64_t lost = ended.failed + ended.pruned;
  if (static_cast<double>(lost) > kMostLeftOut * static_cast<double>(lost + ended.complete)) {
    warnings.push_back(absl::StrCat(lost, " of ", lost + ended.complete, " trials that ended are left out, ",
                                    ended.failed, " that failed and ", ended.pruned,
                                    " that were pruned: the shares know nothing of settings where most do."));
  }
  return warnings;
}

}  // namespace luthier::importance
