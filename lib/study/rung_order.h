#ifndef LUTHIER_LIB_STUDY_RUNG_ORDER_H_
#define LUTHIER_LIB_STUDY_RUNG_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/study/history.h"
#include "lib/study/study_spec.h"

// The order of results at a rung, with one metric or several.
namespace luthier::study {

// A trial's result at a rung.
struct RungResult {
  // The loss of the study's metric, smaller is better: LossAt (rung_schedule.h). A trial of +infinity can't go on.
  double loss = 0.0;
  // In studies with StudySpec::metrics: their values. Empty if `loss` is infinite, and, with one objective, if the
  // trial reported no other metric at the rung.
  std::vector<double> values = {};
  int64_t tie = 0;  // The smaller one comes first where results are as good as each other.
};

// Returns true if `values`, of a CurvePoint, are finite ones of all of StudySpec::metrics.
bool HasAllValues(const StudySpec& spec, const std::vector<double>& values);

// Returns the trial's result at rung `step`, with tie 0; std::nullopt if LossAt has none. In a study with
// StudySpec::metrics and several objectives the loss is +infinity unless all metrics are finite.
std::optional<RungResult> ResultAt(const StudySpec& spec, const HistoryTrial& trial, int64_t step);

// Returns the places in `results` of the best min(count, n), best first; ties are distinct. Results with an infinite
// loss are last, and before them those that do not keep the bounds, in order of their Violation with the spreads of
// these results. The others come first, those among them that reported the loss alone, so that nothing is known of the
// bounds: with one objective by loss; with several in the order of pareto::NetOrder,
// which is by layer of non-domination, and within a layer such that those chosen first lie far apart. Returns CANCELLED
// if `stop` was raised.
absl::StatusOr<std::vector<size_t>> RungOrder(const StudySpec& spec, const std::vector<RungResult>& results,
                                              size_t count, const base::StopToken& stop);

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_RUNG_ORDER_H_
