#ifndef LUTHIER_LIB_STUDY_METRICS_H_
#define LUTHIER_LIB_STUDY_METRICS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "lib/base/error.h"
#include "lib/study/history.h"
#include "lib/study/measurement.h"
#include "lib/study/study_spec.h"

// Several metrics of one study: which there are, which results are feasible, and which of two is better.
//
// `values` below are those of a study's metrics, one for each entry of MetricsOf and in its order, in user units and
// finite. A result is feasible if no value is beyond a bound. How far results are from that is their violation
//
//   V = sum over the metrics of max(0, excess) / spread,
//
// with the excess over the bound in user units and the spread of the metric's values over the COMPLETE trials so far.
namespace luthier::study {

inline constexpr size_t kMaxMetrics = 8;

// Gives the study these metrics, of which at least one is an objective. One objective without bounds becomes
// StudySpec::metric alone.
void SetMetrics(std::vector<MetricSpec> metrics, StudySpec* spec);

// The metrics that every result of the study must have. It lives as long as `spec`.
absl::Span<const MetricSpec> MetricsOf(const StudySpec& spec);
// Returns true if the study's objective is a share of rows that a builtin objective counts, such as
// validation_accuracy: it moves in steps.
bool CountsRows(const StudySpec& spec);
// Number of objectives among them, at least 1 in a valid study.
int ObjectiveCount(const StudySpec& spec);
// The field of the first objective in the study file: "metric" or "metrics[1]".
std::string ObjectiveField(const StudySpec& spec);
bool HasBounds(const MetricSpec& metric);
// True if any of the study's metrics has bounds.
bool HasBounds(const StudySpec& spec);

// Checks the names, bounds and references of a study's metrics, and which rules of the budget go with them.
void ValidateMetrics(const StudySpec& spec, base::Violations* violations);

// Returns the values of the study's metrics; std::nullopt if one is missing or not finite.
std::optional<std::vector<double>> ValuesOf(const StudySpec& spec, const Measurement& measurement);
// Returns the score of each objective, larger is better.
std::vector<double> ScoresOf(const StudySpec& spec, const std::vector<double>& values);
// Returns the names of the study's metrics that the measurement lacks, in order.
std::vector<std::string> MissingMetrics(const StudySpec& spec, const Measurement& measurement);

// Returns by how much the value is beyond the nearer bound: at most 0 within the bounds, -infinity without any.
double Excess(const MetricSpec& metric, double value);
// Says which bounds the values miss: "ms = 23 is above 20"; "" for a feasible result.
std::string MissedBounds(absl::Span<const MetricSpec> metrics, const std::vector<double>& values);
bool IsFeasible(absl::Span<const MetricSpec> metrics, const std::vector<double>& values);

// Fills in what a study with StudySpec::metrics knows of a trial's result: values, standard errors, feasible.
void FillMetrics(const StudySpec& spec, const Measurement& measurement, HistoryTrial* trial);

// Standard deviation of each of the study's metrics over `results`, which are values (divided by their number); 1 where
// it is 0 or not finite.
std::vector<double> SpreadsOf(const StudySpec& spec, const std::vector<const std::vector<double>*>& results);
// The same over the COMPLETE trials of the history.
std::vector<double> SpreadsOf(const StudySpec& spec, const History& history);
// V of a result: 0 if and only if it is feasible, else above 0, possibly infinite.
double Violation(absl::Span<const MetricSpec> metrics, const std::vector<double>& values,
                 const std::vector<double>& spreads);
// V of each trial of the history, with its SpreadsOf; 0 for trials without values.
std::vector<double> ViolationsOf(const StudySpec& spec, const History& history);

// Facts that decide between two results of a study with one objective.
struct Merit {
  double violation = 0.0;
  double score = 0.0;  // study::Score of the objective.
};
// Returns true if `a` is better than `b`: feasible results by their score, before the others by their violation.
bool IsBetter(const Merit& a, const Merit& b);

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_METRICS_H_
