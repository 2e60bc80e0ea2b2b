#include "lib/search/bo/turns/initial.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/search/bo/turns/exploration_points.h"
#include "lib/search/legal/legal_steps.h"
#include "lib/search/legal/legal_walk.h"

namespace luthier::search {
namespace {

constexpr int kMinObservations = 2;         // Fewer results say nothing about the function's shape.
constexpr double kLongest = 0.25;           // Reach of settings near the best, in sides of the cube, …
constexpr double kHalvings = 3.0;           // … and how often it is halved at most.
constexpr uint64_t kLegalDesign = 200'000;  // Points of the design's sequence that are looked through for legal ones.
constexpr size_t kTriesEach = 4;  // Number of tries for each conditional parameter, if all random settings were tried.

absl::Status ExhaustedError() {
  return base::MakeError(absl::StatusCode::kOutOfRange, base::reason::kSpaceExhausted,
                         "every setting of the search space has been tried; widen the space, or set the algorithm's "
                         "option noisy if repeating a setting gives new information");
}

// Returns the number of results of settings that users added.
int64_t BroughtResults(const study::History& history) {
  return std::count_if(history.finished().begin(), history.finished().end(), [&](int index) {
    const study::HistoryTrial& trial = history.trials()[static_cast<size_t>(index)];
    return !trial.ask_index && trial.state == study::TrialState::kComplete && trial.value;
  });
}

// Returns this ask's legal point of the initial design: the default setting first, if it is legal, then the legal
// points of the sequence. Returns std::nullopt beyond the first points of the sequence.
absl::StatusOr<std::optional<study::Parameters>> LegalDesignPoint(const BoStudy& study, const Ask& ask) {
  study::Parameters first = study.encoding.space().Default();
  const bool begins = study.encoding.IsLegal(first);
  if (begins && ask.index == 0) return std::optional<study::Parameters>(std::move(first));
  const auto is_legal = [&](uint64_t i) { return study.encoding.IsLegalAt(study.design.Point(i)); };
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<uint64_t> place,
                           LegalWalk().Find(ask.index - (begins ? 1 : 0), kLegalDesign, is_legal, ask.stop));
  if (!place.has_value()) return std::optional<study::Parameters>();
  return std::optional<study::Parameters>(study.encoding.FromCompact(study.design.Point(*place)));
}

}  // namespace

bool InDesign(const BoStudy& study, const Ask& ask) {
  // With many gradients two results say more than a design does.
  if (study.options.initial_points == 0 && TakesQuasiNewton(study, ask)) return false;
  if (study.learns_from_first_gradients && HasWholeGradients(study, ask) && ask.all.scores.size() >= kMinObservations) {
    return false;
  }
  uint64_t known = ask.index;
  if (study.options.count_history) known += static_cast<uint64_t>(BroughtResults(ask.history));
  return known < static_cast<uint64_t>(study.initial_points) || ask.all.scores.size() < kMinObservations;
}

absl::StatusOr<Suggestion> InitialPoint(const BoStudy& study, const Ask& ask, const std::string& origin) {
  constexpr uint64_t kPoints = uint64_t{1} << math::SobolSequence::kIndexBits;
  Suggestion suggestion;
  suggestion.origin = origin;
  if (study.encoding.legal() != nullptr) {
    LUTHIER_ASSIGN_OR_RETURN(std::optional<study::Parameters> legal, LegalDesignPoint(study, ask));
    if (!legal.has_value()) return Replacement(study, ask, origin);
    suggestion.parameters = *std::move(legal);
  } else {
    suggestion.parameters = ask.index == 0 ? study.encoding.space().Default()
                                           : study.encoding.FromCompact(study.design.Point((ask.index - 1) % kPoints));
  }
  if (IsTried(ask.all, study.encoding.ToModel(suggestion.parameters))) return Replacement(study, ask, origin);
  return suggestion;
}

absl::StatusOr<Suggestion> Replacement(const BoStudy& study, const Ask& ask, const std::string& origin,
                                       const FeasibilityModel* feasible) {
  const study::Encoding& encoding = study.encoding;
  const Observations& data = ask.all;
  Suggestion suggestion;
  suggestion.origin = origin;
  base::RandomStream random(study.seed, "bo/random", ask.index);
  for (int attempt = 0; attempt < kRandomTries; ++attempt) {
    LUTHIER_RETURN_IF_ERROR(ask.stop.Poll());
    suggestion.parameters = encoding.Sample(random);
    const Eigen::VectorXd u = encoding.ToModel(suggestion.parameters);
    // Half of the tries accept only a setting that is likely to succeed.
    if (feasible != nullptr && attempt < kRandomTries / 2 && feasible->Probability(u) < feasible->doubtful()) continue;
    if (!IsTried(data, u)) return suggestion;
  }
  if (study.table.has_value()) {
    std::vector<int> free;
    for (int i = 0; i < study.table->size(); ++i) {
      if (!data.excluded[static_cast<size_t>(i)]) free.push_back(i);
    }
    if (!free.empty()) {
      suggestion.parameters = study.table->Setting(free[random.UniformInt(free.size())]);
      return suggestion;
    }
  }
  // Conditions may concentrate nearly all of random search on a few settings, so each conditional parameter in turn is
  // made active.
  const study::SearchSpace& space = encoding.space();
  std::vector<int> conditional;
  for (int i = 0; i < space.size(); ++i) {
    if (space.parent(i) >= 0) conditional.push_back(i);
  }
  const size_t tries = conditional.empty() ? 0 : std::max<size_t>(kRandomTries, kTriesEach * conditional.size());
  for (size_t attempt = 0; attempt < tries; ++attempt) {
    LUTHIER_RETURN_IF_ERROR(ask.stop.Poll());
    suggestion.parameters = SampleWith(encoding, conditional[attempt % conditional.size()], random);
    if (!encoding.IsLegal(suggestion.parameters)) continue;
    if (!IsTried(data, encoding.ToModel(suggestion.parameters))) return suggestion;
  }
  // A large space in which so many random settings were all tried counts as exhausted.
  if (!study.options.SaidNoisy()) return ExhaustedError();
  if (!encoding.IsLegal(suggestion.parameters)) suggestion.parameters = encoding.Sample(random);
  suggestion.origin = "repeat";
  return suggestion;
}

absl::StatusOr<Suggestion> NearBest(const BoStudy& study, const Ask& ask, const std::string& origin) {
  const study::HistoryTrial* best = nullptr;
  double least = 0.0, highest = 0.0;  // The violation and the score of `best`.
  for (size_t i = 0; i < ask.past.size(); ++i) {
    LUTHIER_RETURN_IF_ERROR(ask.stop.Poll());
    const study::HistoryTrial& trial = *ask.past[i].trial;
    if (trial.state != study::TrialState::kComplete || !trial.value) continue;
    const double violation = ask.violations.empty() ? 0.0 : ask.violations[i];
    const double score = study::Score(study.goal, *trial.value);
    if (best != nullptr && (violation > least || (violation == least && score <= highest))) continue;
    best = &trial;
    least = violation;
    highest = score;
  }
  if (best == nullptr) return Replacement(study, ask, origin);
  base::RandomStream random(study.seed, "bo/near", ask.index);
  const double reach = kLongest * std::exp2(-kHalvings * random.Uniform());
  Eigen::VectorXd u = study.encoding.ToCompact(best->parameters);
  for (int c = 0; c < study.encoding.compact_dim(); ++c) {
    const double shift = reach * (2.0 * random.Uniform() - 1.0);
    if (!study.encoding.Levels(c)) u(c) = std::clamp(u(c) + shift, 0.0, 1.0);
  }
  Suggestion suggestion;
  suggestion.origin = origin;
  if (!study.encoding.IsLegalAt(u)) u = NearestLegal(study.encoding, study.encoding.ToCompact(best->parameters), u);
  suggestion.parameters = study.encoding.FromCompact(u);
  if (IsTried(ask.all, study.encoding.ToModel(suggestion.parameters))) return Replacement(study, ask, origin);
  return suggestion;
}

absl::StatusOr<Suggestion> OnlySetting(const BoStudy& study, const study::History& history) {
  if (!history.trials().empty() && !study.options.SaidNoisy()) return ExhaustedError();
  Suggestion suggestion;
  suggestion.origin = history.trials().empty() ? "init" : "repeat";
  suggestion.parameters = study.encoding.space().Default();
  return suggestion;
}

}  // namespace luthier::search
