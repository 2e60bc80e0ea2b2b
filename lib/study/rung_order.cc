#include "lib/study/rung_order.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "Eigen/Core"
#include "lib/base/status_macros.h"
#include "lib/pareto/net_order.h"
#include "lib/study/metrics.h"
#include "lib/study/rung_schedule.h"

namespace luthier::study {

using Eigen::Index;

namespace {

// Returns the first `count` places that keep the bounds, of `feasible`, which are in order of tie.
absl::StatusOr<std::vector<size_t>> ByLayers(const StudySpec& spec, const std::vector<RungResult>& results,
                                             const std::vector<size_t>& feasible, size_t count,
                                             const base::StopToken& stop) {
  Eigen::MatrixXd scores(static_cast<Index>(feasible.size()), ObjectiveCount(spec));
  for (size_t i = 0; i < feasible.size(); ++i) {
    const std::vector<double> of_result = ScoresOf(spec, results[feasible[i]].values);
    for (size_t j = 0; j < of_result.size(); ++j) scores(static_cast<Index>(i), static_cast<Index>(j)) = of_result[j];
  }
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<Index> net,
                           pareto::NetOrder(scores, static_cast<Index>(std::min(count, feasible.size())), stop));
  std::vector<size_t> order;
  for (const Index i : net) order.push_back(feasible[static_cast<size_t>(i)]);
  return order;
}

}  // namespace

bool HasAllValues(const StudySpec& spec, const std::vector<double>& values) {
  return values.size() == spec.metrics.size() &&
         std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
}

std::optional<RungResult> ResultAt(const StudySpec& spec, const HistoryTrial& trial, int64_t step) {
  const std::optional<double> loss = LossAt(trial, step, spec.metric.goal);
  if (!loss) return std::nullopt;
  RungResult result;
  result.loss = *loss;
  if (spec.metrics.empty() || !std::isfinite(*loss)) return result;
  const auto point = std::lower_bound(trial.points.begin(), trial.points.end(), step,
                                      [](const CurvePoint& p, int64_t s) { return p.step < s; });
  result.values = point != trial.points.end() ? point->values : trial.values;
  if (HasAllValues(spec, result.values)) return result;
  if (ObjectiveCount(spec) == 1) {
    result.values.clear();
    return result;
  }
  return RungResult{.loss = std::numeric_limits<double>::infinity()};
}

absl::StatusOr<std::vector<size_t>> RungOrder(const StudySpec& spec, const std::vector<RungResult>& results,
                                              size_t count, const base::StopToken& stop) {
  count = std::min(count, results.size());
  std::vector<size_t> order(results.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(count);
  if (spec.metrics.empty()) {
    std::partial_sort(order.begin(), end, order.end(), [&](size_t a, size_t b) {
      return std::pair(results[a].loss, results[a].tie) < std::pair(results[b].loss, results[b].tie);
    });
    order.resize(count);
    return order;
  }
  std::vector<const std::vector<double>*> known;
  for (const RungResult& result : results) {
    if (!result.values.empty()) known.push_back(&result.values);
  }
  const std::vector<double> spreads = SpreadsOf(spec, known);
  // Results that keep the bounds, and those of which only the loss is known, have violation 0.
  std::vector<double> violations, losses;
  for (const RungResult& result : results) {
    const bool has_values = !result.values.empty();
    violations.push_back(has_values ? Violation(spec.metrics, result.values, spreads) : 0.0);
    losses.push_back(violations.back() > 0.0 ? 0.0 : result.loss);
  }
  const bool several = ObjectiveCount(spec) > 1;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const auto key = [&](size_t i) {
      const double loss = several ? 0.0 : losses[i];
      return std::tuple(!std::isfinite(results[i].loss), violations[i], loss, results[i].tie);
    };
    return key(a) < key(b);
  });
  if (several) {
    const auto first_other = std::find_if(order.begin(), order.end(),
                                          [&](size_t i) { return results[i].values.empty() || violations[i] > 0.0; });
    const std::vector<size_t> feasible(order.begin(), first_other);
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<size_t> best, ByLayers(spec, results, feasible, count, stop));
    std::copy(best.begin(), best.end(), order.begin());
  }
  order.resize(count);
  return order;
}

}  // namespace luthier::study
