#include "tests/server/coordinator/walk_studies.h"

#include <utility>

#include "lib/search/registry.h"
#include "lib/study/metrics.h"
#include "tests/server/coordinator/harness.h"
#include "tests/server/coordinator/rung_designer.h"

namespace luthier::coordinator::testing {
namespace {

const absl::Duration kTtl = absl::Seconds(20);

class AskingDesigner final : public search::Designer {
 public:
  explicit AskingDesigner(std::unique_ptr<search::Designer> other) : other_(std::move(other)) {}
  absl::StatusOr<search::Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                             const base::StopToken& stop) override {
    absl::StatusOr<search::Suggestion> suggestion = other_->Suggest(history, ask_index, stop);
    if (!suggestion.ok()) return suggestion;
    if (ask_index % 3 != 0) suggestion->direction = {ask_index % 2 == 0 ? 1.0 : -0.1 * static_cast<double>(ask_index)};
    for (int64_t number = 1; number <= static_cast<int64_t>(ask_index); number += 4) {
      suggestion->set_aside.push_back(number);
    }
    return suggestion;
  }

 private:
  const std::unique_ptr<search::Designer> other_;
};

}  // namespace

study::StudySpec WalkSpec(uint32_t variant, bool late) {
  study::StudySpec spec = MakeSpec(12);
  spec.lease.ttl = kTtl;
  spec.seed = variant;
  switch (variant % 8) {
    case 0:
      spec.budget.max_trials = 6;
      break;
    case 1:
      spec.budget.max_parallel = 2;
      break;
    case 2:
      spec.budget.target_value = 0.0;
      break;
    case 3:
      spec.budget.patience = 3;
      spec.metric.goal = study::Goal::kMaximize;
      // The largest losses of a walk, 8 and 9, are beyond the bound.
      if (variant == 11) study::SetMetrics({{kMetric, study::Goal::kMaximize, true, std::nullopt, 7.0}}, &spec);
      break;
    case 4:
      spec.budget.max_failed_trials = 2;
      spec.lease.max_attempts = 1;
      break;
    case 5:
      spec.objective = study::ExternalObjective{};
      spec.lease.max_attempts = 2;
      break;
    case 6:
      spec.budget.max_trials = 40;
      spec.budget.max_parallel = 3;
      spec.reproducible = late;
      break;
    default:
      spec.budget.max_trials = 60;
      break;
  }
  spec.weight = variant % 3 == 0 ? 1.0 : 0.5 * variant;
  // Its designer looks at history, so what it suggests comes late.
  if (late && variant >= 7) {
    const int64_t trials = variant % 2 == 0 ? 5 : 20;
    const study::LeaseOptions lease = spec.lease;
    const double weight = spec.weight;
    spec = PartsSpec(trials);
    spec.lease = lease;
    spec.weight = weight;
    spec.seed = variant;
    if (variant == 9) spec.budget.max_parallel = 3;
  }
  return spec;
}

std::unique_ptr<search::Designer> MakeWalkDesigner(const study::StudySpec& spec) {
  if (spec.resource) return std::make_unique<RungDesigner>(spec, /*left_out=*/3);
  return std::make_unique<AskingDesigner>(search::CreateDesigner(spec));
}

std::unique_ptr<stopping::Stopper> MakeWalkStopper(const study::StudySpec& spec) {
  return spec.resource ? std::make_unique<LimitStopper>(kStopAbove) : nullptr;
}

}  // namespace luthier::coordinator::testing
