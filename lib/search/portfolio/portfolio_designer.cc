#include "lib/search/portfolio/portfolio_designer.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/checkpoint.h"
#include "lib/base/error.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/search/bo/turns/bo_state.h"
#include "lib/search/bo/turns/noise.h"
#include "lib/search/bo/turns/noise_state.h"
#include "lib/search/portfolio/direct_member.h"
#include "lib/study/compact_column.h"
#include "lib/study/encoding.h"
#include "lib/study/metrics.h"

namespace luthier::search {
namespace {

constexpr int kFewDimensions = 3;        // DIRECT covers no more than that in useful time.
constexpr int kMostDimensions = 20;      // The state of an ask stays small.
constexpr int64_t kFewestTrials = 20;    // Budgets below have no room for members.
constexpr int kMostPassed = 50;          // Settings that were tried already, up to which a member's turn looks further.
constexpr int64_t kReadingAState = 200;  // Operations, for base::Pace.

bool CountsNot(const study::HistoryTrial& trial) {
  return trial.state == study::TrialState::kCancelled ||
         (trial.state == study::TrialState::kFailed && trial.failure != study::FailureKind::kConfig);
}

// Returns the state that the optimizer's last ask before `ask_index` left; "" if there was none.
std::string OptimizerState(const study::History& history, uint64_t ask_index) {
  const study::HistoryTrial* const last = history.LastAskBefore(ask_index);
  if (last == nullptr) return "";
  std::optional<MemberState> member = ParseMemberState(last->designer_state);
  return member.has_value() ? std::move(member->optimizer) : last->designer_state;
}

// Returns true if the optimizer has found noise, which then stays found, or would find it in this history.
bool IsNoisy(const study::History& history, uint64_t ask_index) {
  const std::string state = OptimizerState(history, ask_index);
  return base::CheckpointReader::Open(state, kBoNoiseStateKind).ok() || NoiseShownBy(history) != 0;
}

// One setting of a member's sequence, and the trial whose result it has.
struct Place {
  int64_t number = 0;
  const study::HistoryTrial* trial = nullptr;
  std::string state;
};

// Returns the history that the member would have alone: its sequence so far, in the order of its asks.
study::History HistoryOf(const std::vector<Place>& places) {
  study::History history;
  int64_t number = 0;
  for (const Place& place : places) {
    study::HistoryTrial trial;
    trial.number = ++number;
    trial.ask_index = static_cast<uint64_t>(place.number);
    trial.parameters = place.trial->parameters;
    trial.designer_state = place.state;
    history.AddStored(std::move(trial));
    const study::HistoryTrial& result = *place.trial;
    if (!result.open()) {
      history.Finish(number, result.state, result.value, std::nullopt, result.failure, "", result.step);
    }
  }
  return history;
}

}  // namespace

std::vector<Member> MembersOf(const study::StudySpec& spec) {
  const auto* const bo = std::get_if<study::BoOptions>(&spec.algorithm);
  if (bo == nullptr || bo->SaidNoisy() || !spec.metrics.empty() || spec.resource || spec.open_space ||
      !spec.constraints.empty() || spec.budget.max_trials < kFewestTrials) {
    return {};
  }
  const study::Encoding encoding(spec.space);
  const int dimensions = encoding.compact_dim();
  if (dimensions == 0 || dimensions > kMostDimensions) return {};
  const std::vector<study::ParameterSpec>& parameters = spec.space.parameters();
  const bool conditional =
      std::any_of(parameters.begin(), parameters.end(), [](const auto& p) { return p.condition.has_value(); });
  if (study::AnyUnordered(encoding) || conditional) return {Member::kTpe};
  if (dimensions <= kFewDimensions) return {Member::kDirect};
  return {Member::kCmaEs};
}

const char* NameOf(Member member) {
  switch (member) {
    case Member::kDirect:
      return "direct";
    case Member::kCmaEs:
      return "cma_es";
    case Member::kTpe:
      return "tpe";
  }
  LUTHIER_CHECK(false);
}

std::optional<study::AlgorithmSpec> AlgorithmOf(Member member) {
  switch (member) {
    case Member::kDirect:
      return std::nullopt;
    case Member::kCmaEs:
      return study::CmaEsOptions{};
    case Member::kTpe:
      return study::TpeOptions{};
  }
  LUTHIER_CHECK(false);
}

std::unique_ptr<Designer> CreateMember(const study::StudySpec& spec, Member member, const NestedAlgorithms& nested) {
  const std::optional<study::AlgorithmSpec> algorithm = AlgorithmOf(member);
  if (!algorithm.has_value()) return std::make_unique<DirectMember>(spec);
  study::StudySpec alone = spec;
  alone.algorithm = *algorithm;
  alone.budget.until_answered.reset();
  return nested.Create(alone);
}

PortfolioDesigner::PortfolioDesigner(const study::StudySpec& spec, const std::vector<Member>& members,
                                     const NestedAlgorithms& nested)
    : goal_(spec.metric.goal), kinds_(members), optimizer_(nested.Create(spec)) {
  for (const Member member : members) members_.push_back(CreateMember(spec, member, nested));
}

absl::StatusOr<Suggestion> PortfolioDesigner::Suggest(const study::History& history, uint64_t ask_index,
                                                      const base::StopToken& stop) {
  std::vector<PastTurn> past;
  bool trusted = true;  // Nothing says more of the objective than its exact values do.
  base::Pace pace(stop);
  for (const study::HistoryTrial& trial : history.trials()) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kReadingAState));
    PastTurn turn;
    turn.counts = trial.ask_index.has_value() && !CountsNot(trial);
    if (trial.state == study::TrialState::kComplete && trial.value.has_value()) {
      turn.score = study::Score(goal_, *trial.value);
    }
    if (trial.ask_index.has_value() && ParseAskHead(trial.designer_state).kind == AskKind::kMember) {
      const std::optional<MemberState> state = ParseMemberState(trial.designer_state);
      if (state.has_value() && state->index >= 0 && state->index < static_cast<int64_t>(kinds_.size())) {
        turn.member = static_cast<int>(state->index);
        turn.passed = static_cast<int64_t>(state->passed.size());
      }
    }
    trusted = trusted && !trial.gradient.has_value();
    past.push_back(turn);
  }
  const std::optional<MemberTurn> turn =
      trusted ? NextMember(past, static_cast<int>(kinds_.size())) : std::optional<MemberTurn>();
  if (turn.has_value() && !IsNoisy(history, ask_index)) {
    LUTHIER_ASSIGN_OR_RETURN(std::optional<Suggestion> suggestion, Ask(history, *turn, ask_index, stop));
    if (suggestion.has_value()) return *std::move(suggestion);
  }
  return optimizer_->Suggest(history, ask_index, stop);
}

absl::StatusOr<std::optional<Suggestion>> PortfolioDesigner::Ask(const study::History& history, const MemberTurn& turn,
                                                                 uint64_t ask_index, const base::StopToken& stop) {
  std::vector<Place> places;
  std::set<int64_t> taken;
  std::unordered_map<uint64_t, const study::HistoryTrial*> tried;
  base::Pace pace(stop);
  for (const study::HistoryTrial& trial : history.trials()) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kReadingAState));
    if (CountsNot(trial)) continue;
    tried.try_emplace(trial.setting, &trial);
    if (!trial.ask_index.has_value()) continue;
    std::optional<MemberState> state = ParseMemberState(trial.designer_state);
    if (!state.has_value() || state->index != turn.member) continue;
    for (KnownSetting& known : state->passed) {
      if (known.trial < 1 || known.trial > static_cast<int64_t>(history.trials().size())) continue;
      taken.insert(known.number);
      places.push_back({known.number, &history.trials()[static_cast<size_t>(known.trial - 1)], std::move(known.state)});
    }
    taken.insert(state->number);
    places.push_back({state->number, &trial, std::move(state->state)});
  }
  MemberState state;
  state.kind = AskKind::kMember;
  state.index = turn.member;
  state.optimizer = OptimizerState(history, ask_index);
  while (static_cast<int>(state.passed.size()) <= kMostPassed) {
    while (taken.contains(state.number)) ++state.number;
    absl::StatusOr<Suggestion> suggestion = members_[static_cast<size_t>(turn.member)]->Suggest(
        HistoryOf(places), static_cast<uint64_t>(state.number), stop);
    if (suggestion.status() == base::StoppedError()) return suggestion.status();
    if (!suggestion.ok()) return std::nullopt;
    const auto at = tried.find(study::HashOf(suggestion->parameters));
    if (at == tried.end()) {
      suggestion->details[kMemberTrial] = static_cast<double>(state.number + 1);
      suggestion->details[kMemberEarned] = turn.earned ? 1.0 : 0.0;
      state.state = std::move(suggestion->designer_state);
      suggestion->designer_state = FormatMemberState(state);
      return std::optional<Suggestion>(*std::move(suggestion));
    }
    if (at->second->open() || at->second->number == 0) return std::nullopt;
    taken.insert(state.number);
    places.push_back({state.number, at->second, suggestion->designer_state});
    state.passed.push_back({state.number, at->second->number, std::move(suggestion->designer_state)});
  }
  return std::nullopt;
}

}  // namespace luthier::search
