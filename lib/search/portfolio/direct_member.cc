#include "lib/search/portfolio/direct_member.h"

#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include "Eigen/Core"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/math/direct.h"
#include "lib/study/metrics.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {
constexpr int kMostPoints = 100'000;
}  // namespace

absl::StatusOr<Suggestion> DirectMember::Suggest(const study::History& history, uint64_t /*ask_index*/,
                                                 const base::StopToken& stop) {
  std::unordered_map<uint64_t, const study::HistoryTrial*> known;
  for (const study::HistoryTrial& trial : history.trials()) known.try_emplace(trial.setting, &trial);
  std::optional<study::Parameters> next;
  bool waits = false;
  const auto follow = [&](const MatrixXd& points) -> absl::StatusOr<VectorXd> {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    VectorXd losses(points.rows());
    for (Index i = 0; i < points.rows(); ++i) {
      study::Parameters setting = encoding_.FromCompact(points.row(i).transpose());
      const auto at = known.find(study::HashOf(setting));
      if (at == known.end()) {
        next = std::move(setting);
        return absl::OutOfRangeError("the first point that was not tried");
      }
      const study::HistoryTrial& trial = *at->second;
      waits = waits || trial.open();
      const bool complete = trial.state == study::TrialState::kComplete && trial.value.has_value();
      losses(i) = complete ? -study::Score(goal_, *trial.value) : std::numeric_limits<double>::quiet_NaN();
    }
    if (waits) return absl::OutOfRangeError("the sweep's results are not all there");
    return losses;
  };
  math::DirectOptions options;
  options.size = math::DirectSize::kLongestSide;
  options.locally_biased = true;
  options.max_evaluations = kMostPoints;
  const absl::StatusOr<math::DirectResult> result =
      math::MinimizeDirect(follow, encoding_.compact_dim(), options, stop);
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  if (next.has_value()) {
    Suggestion suggestion;
    suggestion.parameters = *std::move(next);
    suggestion.origin = "direct";
    return suggestion;
  }
  if (waits) {
    return base::MakeError(absl::StatusCode::kUnavailable, base::reason::kAwaitingResults,
                           "all points of the sweep are under way");
  }
  return base::MakeError(absl::StatusCode::kOutOfRange, base::reason::kSpaceExhausted, "the cells are too small");
}

}  // namespace luthier::search
