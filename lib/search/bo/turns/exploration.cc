#include "lib/search/bo/turns/exploration.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/search/bo/acquisition/bounded_acquisition.h"
#include "lib/search/bo/turns/exploration_points.h"
#include "lib/search/bo/turns/initial.h"
#include "lib/search/quasi_random/random_designer.h"

namespace luthier::search {
namespace {

// Returns the index of the exploration that is due, in random search's stream. `design` is true while the initial
// design goes on.
absl::StatusOr<std::optional<int64_t>> DueExploration(const BoStudy& study, const Ask& ask, bool design) {
  const study::BoOptions& options = study.options;
  if (options.explore_every == 0) return std::nullopt;
  // Counts the trials by three rules. Trials that were cancelled, or failed for no fault of their setting, are made up
  // for. Points of an initial design do not count unless they are random search's. An exploration whose point was tried
  // already costs nothing and counts as done.
  int64_t next = 0, lost = 0, counted = 0;
  std::vector<const study::Parameters*> done;
  base::Pace pace(ask.stop);
  for (const PastAsk& past : ask.past) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kReadingATrial));
    const study::HistoryTrial& trial = *past.trial;
    const bool nothing = trial.state == study::TrialState::kCancelled ||
                         (trial.state == study::TrialState::kFailed && trial.failure != study::FailureKind::kConfig);
    if (!nothing) done.push_back(&trial.parameters);
    if (!past.asked || (past.head.kind == AskKind::kInitial && !study.explores_first)) continue;
    if (!nothing) ++counted;
    if (past.head.kind != AskKind::kExploration) continue;
    next = std::max(next, past.head.index + 1);
    if (nothing) ++lost;
  }
  const auto before = [](const study::Parameters* a, const study::Parameters* b) { return *a < *b; };
  const int64_t due = design ? next - lost + kRandomTries : (counted + 1) / options.explore_every;
  bool sorted = false;
  while (next - lost < due) {
    LUTHIER_RETURN_IF_ERROR(ask.stop.Poll());
    if (options.exploration == study::BoExploration::kFarthest) return next;  // This kind chooses its own points.
    const study::Parameters point = ExplorationPoint(study.encoding, study.seed, static_cast<uint64_t>(next));
    if (options.SaidNoisy()) return next;
    if (!sorted) {
      // Almost always the first point is new, and nothing needs sorting.
      if (!IsTried(ask.data, study.encoding.ToModel(point))) return next;
      std::sort(done.begin(), done.end(), before);
      sorted = true;
    }
    if (!std::binary_search(done.begin(), done.end(), &point, before)) return next;
    ++next;
  }
  return std::nullopt;
}

absl::StatusOr<Suggestion> Explore(const BoStudy& study, const Ask& ask, int64_t exploration) {
  const study::BoOptions& options = study.options;
  const Observations& data = ask.data;
  const uint64_t index = static_cast<uint64_t>(exploration);
  Suggestion suggestion;
  suggestion.origin = "explore";
  if (options.exploration == study::BoExploration::kFarthest) {
    LUTHIER_ASSIGN_OR_RETURN(suggestion.parameters, FarthestPoint(study.encoding, data, study.seed, index, ask.stop));
    if (!IsTried(data, study.encoding.ToModel(suggestion.parameters))) return suggestion;
  } else if (options.exploration == study::BoExploration::kLipo && !data.CompleteRows().empty()) {
    const OutputTransform plain = OutputTransform::Standard(data.scores);
    LUTHIER_ASSIGN_OR_RETURN(const SlopeBounds slopes, BoundsFor(options, data, plain, 0.0, ask.stop));
    double incumbent = -std::numeric_limits<double>::infinity();
    for (Eigen::Index row : data.FeasibleRows()) incumbent = std::max(incumbent, plain.Forward(data.scores(row)));
    LUTHIER_ASSIGN_OR_RETURN(suggestion.parameters,
                             LipoPoint(study.encoding, *slopes.bounds, incumbent, study.seed, index, ask.stop));
    if (options.SaidNoisy() || !IsTried(data, study.encoding.ToModel(suggestion.parameters))) return suggestion;
  }
  suggestion.parameters = ExplorationPoint(study.encoding, study.seed, index);
  return suggestion;
}

}  // namespace

absl::StatusOr<std::optional<Suggestion>> ExplorationTurn(const BoStudy& study, const Ask& ask) {
  const bool design = InDesign(study, ask);
  if (design && !study.explores_first) return std::nullopt;
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<int64_t> index, DueExploration(study, ask, design && ask.index > 0));
  if (!index.has_value()) return std::nullopt;
  ask.state->kind = AskKind::kExploration;
  ask.state->index = *index;
  LUTHIER_ASSIGN_OR_RETURN(Suggestion suggestion, Explore(study, ask, *index));
  // If the farthest setting was tried, little of a large finite space is left.
  if (study.options.exploration == study::BoExploration::kFarthest && !study.options.SaidNoisy() &&
      IsTried(ask.all, study.encoding.ToModel(suggestion.parameters))) {
    LUTHIER_ASSIGN_OR_RETURN(suggestion, Replacement(study, ask, "explore"));
  }
  return std::optional<Suggestion>(std::move(suggestion));
}

}  // namespace luthier::search
