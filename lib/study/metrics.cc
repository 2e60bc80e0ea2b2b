#include "lib/study/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/study/gradients.h"

namespace luthier::study {
namespace {

void CheckMetricName(const std::string& name, const std::string& field, base::Violations* violations) {
  if (IsName(name)) return;
  violations->Add(field, name.empty() ? std::string("is required: the name of the value to optimize")
                                      : absl::StrCat(base::Quote(name),
                                                     " is not a name: letters, digits, '_' and '.', not starting with "
                                                     "a digit, at most 64"));
}

void CheckBounds(const MetricSpec& metric, const std::string& at, base::Violations* violations) {
  const auto finite = [&](const std::optional<double>& number, const char* name) {
    if (number && !std::isfinite(*number)) violations->Add(absl::StrCat(at, ".", name), "must be finite");
  };
  finite(metric.at_least, "at_least");
  finite(metric.at_most, "at_most");
  finite(metric.reference, "reference");
  if (!metric.objective && !HasBounds(metric)) {
    violations->Add(at, "has neither a goal nor a bound; give goal, at_most or at_least");
  }
  if (!metric.at_least || !metric.at_most) return;
  if (*metric.at_least > *metric.at_most) {
    violations->Add(at + ".at_least", absl::StrCat(FormatDouble(*metric.at_least), " is above at_most, ",
                                                   FormatDouble(*metric.at_most), ": no value meets both"));
  } else if (*metric.at_least == *metric.at_most) {
    violations->Add(at + ".at_least",
                    absl::StrCat("equals at_most, and no result meets an equality; report the distance |value - ",
                                 FormatDouble(*metric.at_most), "| in its place, with at_most: a tolerance"));
  }
}

// Checks that a result which reaches the target can keep the objective's bounds.
void CheckTarget(const StudySpec& spec, const MetricSpec& metric, base::Violations* violations) {
  const std::optional<double>& target = spec.budget.target_value;
  if (!target || !metric.objective) return;
  const bool minimize = metric.goal == Goal::kMinimize;
  const std::optional<double>& bound = minimize ? metric.at_least : metric.at_most;
  if (!bound || Score(metric.goal, *bound) >= Score(metric.goal, *target)) return;
  violations->Add(
      "budget.target_value",
      absl::StrCat(FormatDouble(*target), " is better than all that ", minimize ? "at_least" : "at_most", " of ",
                   metric.name, " allows, ", FormatDouble(*bound), ": no trial would reach it; change one of them"));
}

void CheckReference(const MetricSpec& metric, int objectives, const std::string& at, base::Violations* violations) {
  if (!metric.reference) return;
  const std::string field = at + ".reference";
  if (!metric.objective) return violations->Add(field, "is for an objective; give its goal, too, or leave it out");
  if (objectives == 1) {
    return violations->Add(
        field, absl::StrCat("is for several objectives; of the only one write ",
                            metric.goal == Goal::kMinimize ? "at_most" : "at_least", " if worse values are of no use"));
  }
  const bool minimize = metric.goal == Goal::kMinimize;
  const std::optional<double>& bound = minimize ? metric.at_least : metric.at_most;
  if (bound && Score(metric.goal, *bound) <= Score(metric.goal, *metric.reference)) {
    violations->Add(field,
                    absl::StrCat(FormatDouble(*metric.reference), " is better than all that ",
                                 minimize ? "at_least" : "at_most", " allows: no result would be worth anything"));
  }
}

// Checks what needs one objective.
void CheckSeveralObjectives(const StudySpec& spec, base::Violations* violations) {
  if (spec.budget.target_value) {
    violations->Add("budget.target_value",
                    "does not go with several objectives; give the metric at_most or at_least, or leave it out");
  }
  if (spec.stopping && std::holds_alternative<CurveStopping>(*spec.stopping)) {
    violations->Add("stopping.curve",
                    "extrapolates the curve of one objective and does not go with several; take median or percentile, "
                    "which stop a trial that is worse in every objective, or leave it out");
  }
}

}  // namespace

void SetMetrics(std::vector<MetricSpec> metrics, StudySpec* spec) {
  const auto first = std::find_if(metrics.begin(), metrics.end(), [](const MetricSpec& m) { return m.objective; });
  spec->metric = first != metrics.end() ? *first : metrics.empty() ? MetricSpec() : metrics.front();
  const bool alone =
      metrics.size() == 1 && metrics[0].objective && !HasBounds(metrics[0]) && !metrics[0].reference.has_value();
  if (alone) metrics.clear();
  spec->metrics = std::move(metrics);
}

absl::Span<const MetricSpec> MetricsOf(const StudySpec& spec) {
  return spec.metrics.empty() ? absl::MakeConstSpan(&spec.metric, 1) : absl::MakeConstSpan(spec.metrics);
}

bool CountsRows(const StudySpec& spec) {
  return std::holds_alternative<BuiltinObjective>(spec.objective) && absl::EndsWith(spec.metric.name, "_accuracy");
}

int ObjectiveCount(const StudySpec& spec) {
  const auto metrics = MetricsOf(spec);
  return static_cast<int>(
      std::count_if(metrics.begin(), metrics.end(), [](const MetricSpec& metric) { return metric.objective; }));
}

std::string ObjectiveField(const StudySpec& spec) {
  for (size_t i = 0; i < spec.metrics.size(); ++i) {
    if (spec.metrics[i].objective) return absl::StrCat("metrics[", i, "]");
  }
  return "metric";
}

bool HasBounds(const MetricSpec& metric) {
  return metric.at_least.has_value() || metric.at_most.has_value();
}

bool HasBounds(const StudySpec& spec) {
  return std::any_of(spec.metrics.begin(), spec.metrics.end(), [](const MetricSpec& m) { return HasBounds(m); });
}

void ValidateMetrics(const StudySpec& spec, base::Violations* violations) {
  if (spec.metrics.empty()) return CheckMetricName(spec.metric.name, "metric.name", violations);
  const int objectives = ObjectiveCount(spec);
  if (spec.metrics.size() > kMaxMetrics) {
    violations->Add("metrics", absl::StrCat("has ", spec.metrics.size(), " entries; at most ", kMaxMetrics,
                                            " are allowed. Objectives may report others, which are logged"));
  }
  if (objectives == 0) {
    violations->Add("metrics", "has no objective; give one of the metrics a goal: MINIMIZE or MAXIMIZE");
  }
  std::set<std::string> names;
  for (size_t i = 0; i < spec.metrics.size(); ++i) {
    const MetricSpec& metric = spec.metrics[i];
    const std::string at = absl::StrCat("metrics[", i, "]");
    CheckMetricName(metric.name, at + ".name", violations);
    if (!names.insert(metric.name).second) {
      violations->Add(at + ".name",
                      absl::StrCat(base::Quote(metric.name),
                                   " is there twice; one entry has the goal and both bounds of a metric"));
    }
    if (spec.space.Find(metric.name)) {
      violations->Add(at + ".name",
                      absl::StrCat(base::Quote(metric.name),
                                   " is the name of a parameter; tables and filters need different names"));
    }
    CheckBounds(metric, at, violations);
    CheckReference(metric, objectives, at, violations);
    if (objectives == 1) CheckTarget(spec, metric, violations);
  }
  if (objectives > 1) CheckSeveralObjectives(spec, violations);
}

std::optional<std::vector<double>> ValuesOf(const StudySpec& spec, const Measurement& measurement) {
  std::vector<double> values;
  for (const MetricSpec& metric : MetricsOf(spec)) {
    const auto value = measurement.metrics.find(metric.name);
    if (value == measurement.metrics.end() || !std::isfinite(value->second)) return std::nullopt;
    values.push_back(value->second);
  }
  return values;
}

std::vector<double> ScoresOf(const StudySpec& spec, const std::vector<double>& values) {
  std::vector<double> scores;
  const absl::Span<const MetricSpec> metrics = MetricsOf(spec);
  for (size_t i = 0; i < metrics.size(); ++i) {
    if (metrics[i].objective) scores.push_back(Score(metrics[i].goal, values[i]));
  }
  return scores;
}

std::vector<std::string> MissingMetrics(const StudySpec& spec, const Measurement& measurement) {
  std::vector<std::string> missing;
  for (const MetricSpec& metric : MetricsOf(spec)) {
    if (!measurement.metrics.contains(metric.name)) missing.push_back(metric.name);
  }
  return missing;
}

double Excess(const MetricSpec& metric, double value) {
  double excess = -std::numeric_limits<double>::infinity();
  if (metric.at_least) excess = std::max(excess, *metric.at_least - value);
  if (metric.at_most) excess = std::max(excess, value - *metric.at_most);
  return excess;
}

std::string MissedBounds(absl::Span<const MetricSpec> metrics, const std::vector<double>& values) {
  std::vector<std::string> missed;
  for (size_t i = 0; i < metrics.size(); ++i) {
    if (Excess(metrics[i], values[i]) <= 0.0) continue;
    const bool above = metrics[i].at_most && values[i] > *metrics[i].at_most;
    missed.push_back(absl::StrCat(metrics[i].name, " = ", FormatDouble(values[i]), above ? " is above " : " is below ",
                                  FormatDouble(above ? *metrics[i].at_most : *metrics[i].at_least)));
  }
  return absl::StrJoin(missed, ", ");
}

bool IsFeasible(absl::Span<const MetricSpec> metrics, const std::vector<double>& values) {
  for (size_t i = 0; i < metrics.size(); ++i) {
    if (Excess(metrics[i], values[i]) > 0.0) return false;
  }
  return true;
}

void FillMetrics(const StudySpec& spec, const Measurement& measurement, HistoryTrial* trial) {
  if (spec.metrics.empty()) return;
  std::optional<std::vector<double>> values = ValuesOf(spec, measurement);
  if (!values) return;
  trial->feasible = IsFeasible(spec.metrics, *values);
  trial->values = *std::move(values);
  trial->gradients = GradientsOf(spec, measurement);
  if (measurement.standard_errors.empty()) return;
  for (const MetricSpec& metric : spec.metrics) {
    const auto error = measurement.standard_errors.find(metric.name);
    const bool known = error != measurement.standard_errors.end();
    trial->standard_errors.push_back(known ? std::optional<double>(error->second) : std::nullopt);
  }
}

std::vector<double> SpreadsOf(const StudySpec& spec, const std::vector<const std::vector<double>*>& results) {
  std::vector<double> spreads;
  const auto count = static_cast<double>(results.size());
  for (size_t j = 0; j < MetricsOf(spec).size(); ++j) {
    // Values may be as large as doubles go, so sums are of values that are scaled to 1.
    double largest = 0.0;
    bool varies = false;  // Rounding alone would give a metric that is always the same a spread.
    for (const std::vector<double>* values : results) {
      largest = std::max(largest, std::abs((*values)[j]));
      varies = varies || (*values)[j] != (*results.front())[j];
    }
    double mean = 0.0, squares = 0.0;
    if (varies) {
      for (const std::vector<double>* values : results) mean += (*values)[j] / largest / count;
      for (const std::vector<double>* values : results) {
        const double distance = (*values)[j] / largest - mean;
        squares += distance * distance / count;
      }
    }
    const double spread = std::sqrt(squares) * largest;
    spreads.push_back(std::isfinite(spread) && spread > 0.0 ? spread : 1.0);
  }
  return spreads;
}

std::vector<double> SpreadsOf(const StudySpec& spec, const History& history) {
  std::vector<const std::vector<double>*> results;
  for (const HistoryTrial& trial : history.trials()) {
    if (trial.state == TrialState::kComplete && !trial.values.empty()) results.push_back(&trial.values);
  }
  return SpreadsOf(spec, results);
}

double Violation(absl::Span<const MetricSpec> metrics, const std::vector<double>& values,
                 const std::vector<double>& spreads) {
  double sum = 0.0;
  for (size_t j = 0; j < metrics.size(); ++j) {
    const double excess = Excess(metrics[j], values[j]);
    if (excess > 0.0) sum += std::max(excess / spreads[j], std::numeric_limits<double>::min());
  }
  return sum;
}

std::vector<double> ViolationsOf(const StudySpec& spec, const History& history) {
  std::vector<double> violations(history.trials().size(), 0.0);
  if (!HasBounds(spec)) return violations;
  const std::vector<double> spreads = SpreadsOf(spec, history);
  for (size_t i = 0; i < violations.size(); ++i) {
    const HistoryTrial& trial = history.trials()[i];
    if (!trial.values.empty()) violations[i] = Violation(spec.metrics, trial.values, spreads);
  }
  return violations;
}

bool IsBetter(const Merit& a, const Merit& b) {
  const bool feasible = a.violation == 0.0;
  if (feasible != (b.violation == 0.0)) return feasible;
  return feasible ? a.score > b.score : a.violation < b.violation;
}

}  // namespace luthier::study
