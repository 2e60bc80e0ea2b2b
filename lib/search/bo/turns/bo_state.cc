#include "lib/search/bo/turns/bo_state.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/gp/hyperparameters.h"

// The text of a state: parts with '|' between them, the last ones left out while they are empty.
//   head         kind and index; then, once slopes were checked, the count of results and the reporters set aside
//   local        climb, climb, which was last, solved sites; with ',' between them
//   surrogate    observations, searches, choice, hyperparameters; ';' and each other choice; '@' and the chain
//   feasibility  trials, hyperparameters
//   box          its first trial
//   basins       as struct BasinsState; ';' and the rows and hyperparameters of the model of other basins
// Databases hold these texts, so every form that was ever written must stay readable.
namespace luthier::search {
namespace {

using Eigen::Index;

std::string FormatClimb(const Climb& climb) {
  std::string text = absl::StrCat(climb.site);
  for (double number : climb.state.Pack()) absl::StrAppendFormat(&text, " %.17g", number);
  return text;
}

std::optional<Climb> ParseClimb(absl::string_view text) {
  Climb climb;
  std::vector<double> numbers;
  bool first = true;
  for (absl::string_view word : absl::StrSplit(text, ' ')) {
    double number = 0.0;
    if (first) {
      if (!absl::SimpleAtoi(word, &climb.site) || climb.site < 0) return std::nullopt;
      first = false;
    } else if (absl::SimpleAtod(word, &number)) {
      numbers.push_back(number);
    } else {
      return std::nullopt;
    }
  }
  const Index dim = numbers.size() < 5 ? 0 : static_cast<Index>((numbers.size() - 5) / 3);
  std::optional<TrustRegionState> state = TrustRegionState::Unpack(numbers, dim);
  if (!state.has_value()) return std::nullopt;
  climb.state = *std::move(state);
  return climb;
}

std::string FormatLocal(const std::optional<LocalSearchState>& state) {
  if (!state.has_value()) return "";
  return absl::StrCat(FormatClimb(state->incumbent), ",", FormatClimb(state->other), ",", state->other_last ? 1 : 0,
                      ",", absl::StrJoin(state->solved, " "));
}

std::optional<LocalSearchState> ParseLocal(absl::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  if (parts.size() != 4) return std::nullopt;
  const std::optional<Climb> incumbent = ParseClimb(parts[0]), other = ParseClimb(parts[1]);
  if (!incumbent.has_value() || !other.has_value()) return std::nullopt;
  LocalSearchState state{*incumbent, *other, parts[2] == "1", {}};
  for (absl::string_view word : absl::StrSplit(parts[3], ' ', absl::SkipEmpty())) {
    int64_t site = 0;
    if (!absl::SimpleAtoi(word, &site) || site < 1) return std::nullopt;
    state.solved.push_back(site);
  }
  return state;
}

std::string FormatSurrogate(const std::optional<SurrogateState>& state) {
  if (!state.has_value()) return "";
  std::string text = absl::StrCat(state->observations, " ", state->searches, " ", state->choice, " ",
                                  gp::FormatHyperparameters(state->theta));
  for (const SurrogateState::Start& other : state->others) {
    absl::StrAppendFormat(&text, ";%d %.4g ", other.choice, other.margin);
    absl::StrAppend(&text, gp::FormatHyperparametersShort(other.theta));
  }
  for (Index j = 0; j < state->chain.size(); ++j) {
    absl::StrAppendFormat(&text, "%c%a", j == 0 ? '@' : ' ', state->chain(j));
  }
  return text;
}

std::optional<SurrogateState> ParseSurrogate(absl::string_view text, const std::vector<ModelChoice>& choices) {
  const std::vector<std::string> ends = absl::StrSplit(text, absl::MaxSplits('@', 1));
  const std::vector<std::string> parts = absl::StrSplit(ends[0], ';');
  const std::vector<std::string> words = absl::StrSplit(parts[0], absl::MaxSplits(' ', 3));
  SurrogateState state;
  auto legal = [&](int choice) { return choice >= 0 && choice < static_cast<int>(choices.size()); };
  auto theta = [&](absl::string_view numbers, int choice) {
    return gp::ParseHyperparameters(numbers, choices[static_cast<size_t>(choice)].shape.groups);
  };
  if (words.size() != 4 || !absl::SimpleAtoi(words[0], &state.observations) ||
      !absl::SimpleAtoi(words[1], &state.searches) || !absl::SimpleAtoi(words[2], &state.choice) ||
      state.observations < 0 || state.searches < 0 || !legal(state.choice)) {
    return std::nullopt;
  }
  std::optional<gp::Hyperparameters> used = theta(words[3], state.choice);
  if (!used.has_value()) return std::nullopt;
  state.theta = *std::move(used);
  for (size_t k = 1; k < parts.size(); ++k) {
    const std::vector<std::string> other = absl::StrSplit(parts[k], absl::MaxSplits(' ', 2));
    SurrogateState::Start start;
    if (other.size() != 3 || !absl::SimpleAtoi(other[0], &start.choice) || !legal(start.choice) ||
        !absl::SimpleAtod(other[1], &start.margin) || !std::isfinite(start.margin)) {
      return std::nullopt;
    }
    std::optional<gp::Hyperparameters> from = theta(other[2], start.choice);
    if (!from.has_value()) return std::nullopt;
    start.theta = *std::move(from);
    state.others.push_back(std::move(start));
  }
  if (ends.size() == 2) {
    const std::vector<std::string> numbers = absl::StrSplit(ends[1], ' ');
    state.chain.resize(static_cast<Index>(numbers.size()));
    for (size_t j = 0; j < numbers.size(); ++j) {
      char* end = nullptr;  // As in ParseHyperparameters.
      state.chain(static_cast<Index>(j)) = std::strtod(numbers[j].c_str(), &end);
      if (numbers[j].empty() || *end != '\0') return std::nullopt;
    }
    if (!state.chain.allFinite()) return std::nullopt;
  }
  return state;
}

std::string FormatFeasibility(const std::optional<FeasibilityState>& state) {
  if (!state.has_value()) return "";
  return absl::StrCat(state->trials, " ", gp::FormatHyperparameters(state->theta));
}

std::optional<FeasibilityState> ParseFeasibility(absl::string_view text, int groups) {
  const std::vector<std::string> words = absl::StrSplit(text, absl::MaxSplits(' ', 1));
  FeasibilityState state;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &state.trials) || state.trials < 1) return std::nullopt;
  std::optional<gp::Hyperparameters> theta = gp::ParseHyperparameters(words[1], groups);
  if (!theta.has_value()) return std::nullopt;
  state.theta = *std::move(theta);
  return state;
}

std::string FormatBasins(const BasinsState& state) {
  if (state.maxima.empty()) return "";
  std::string text = absl::StrCat(state.away ? 1 : 0, " ", absl::StrFormat("%.17g", state.log_ei), " ", state.turns,
                                  " ", state.best_other, " ", absl::StrJoin(state.maxima, " "));
  if (state.theta.has_value()) {
    absl::StrAppend(&text, ";", state.rows, ";", gp::FormatHyperparametersShort(*state.theta));
  }
  return text;
}

BasinsState ParseBasins(absl::string_view text, int groups) {
  const std::vector<std::string> parts = absl::StrSplit(text, ';');
  const std::vector<std::string> words = absl::StrSplit(parts[0], ' ');
  BasinsState state;
  if (words.size() < 5 || (words[0] != "0" && words[0] != "1") || !absl::SimpleAtod(words[1], &state.log_ei) ||
      std::isnan(state.log_ei) || !absl::SimpleAtoi(words[2], &state.turns) || state.turns < 0 ||
      !absl::SimpleAtoi(words[3], &state.best_other) || state.best_other < 0) {
    return {};
  }
  state.away = words[0] == "1";
  for (size_t k = 4; k < words.size(); ++k) {
    int64_t top = 0;
    if (!absl::SimpleAtoi(words[k], &top) || top < 1) return {};
    state.maxima.push_back(top);
  }
  if (parts.size() == 1) return state;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[1], &state.rows) || state.rows < 1) return {};
  state.theta = gp::ParseHyperparameters(parts[2], groups);
  if (!state.theta.has_value()) return {};
  return state;
}

}  // namespace

std::string FormatBoState(const BoState& state) {
  std::string text = absl::StrCat(std::string(1, static_cast<char>(state.kind)), state.index);
  if (state.checked > 0) absl::StrAppend(&text, " ", state.checked);
  for (const int32_t reporter : state.set_aside) absl::StrAppend(&text, " ", reporter);
  absl::StrAppend(&text, "|", FormatLocal(state.local), "|", FormatSurrogate(state.surrogate));
  const std::string feasibility = FormatFeasibility(state.feasibility), basins = FormatBasins(state.basins);
  const std::string box = state.box > 0 ? absl::StrCat(state.box) : "";
  if (!feasibility.empty() || !box.empty() || !basins.empty()) absl::StrAppend(&text, "|", feasibility);
  if (!box.empty() || !basins.empty()) absl::StrAppend(&text, "|", box);
  if (!basins.empty()) absl::StrAppend(&text, "|", basins);
  return text;
}

AskHead ParseAskHead(absl::string_view text) {
  AskHead head;
  const size_t end = text.find_first_of("| ");
  if (end == absl::string_view::npos || end < 2 || !absl::SimpleAtoi(text.substr(1, end - 1), &head.index) ||
      head.index < 0 || head.index >= kExplorations) {
    return {};
  }
  head.kind = static_cast<AskKind>(text[0]);
  return head;
}

BoState ParseBoState(absl::string_view text, const std::vector<ModelChoice>& choices) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits('|', 5));
  if (parts.size() < 3) return {};
  BoState state;
  const AskHead head = ParseAskHead(text);
  state.kind = head.kind;
  state.index = head.index;
  const std::vector<absl::string_view> words = absl::StrSplit(parts[0], ' ');
  if (words.size() > 1 && (!absl::SimpleAtoi(words[1], &state.checked) || state.checked < 1)) return {};
  for (size_t k = 2; k < words.size(); ++k) {
    int32_t reporter = 0;
    if (!absl::SimpleAtoi(words[k], &reporter)) return {};
    state.set_aside.push_back(reporter);
  }
  if (!std::is_sorted(state.set_aside.begin(), state.set_aside.end())) return {};
  const int groups = choices.front().shape.groups;
  state.local = ParseLocal(parts[1]);
  state.surrogate = ParseSurrogate(parts[2], choices);
  if (parts.size() > 3) state.feasibility = ParseFeasibility(parts[3], groups);
  if (parts.size() > 4 && (!absl::SimpleAtoi(parts[4], &state.box) || state.box < 1)) state.box = 0;
  if (parts.size() > 5) state.basins = ParseBasins(parts[5], groups);
  return state;
}

}  // namespace luthier::search
