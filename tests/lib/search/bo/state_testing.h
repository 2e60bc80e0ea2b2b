#ifndef LUTHIER_TESTS_LIB_SEARCH_BO_STATE_TESTING_H_
#define LUTHIER_TESTS_LIB_SEARCH_BO_STATE_TESTING_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/search/bo/turns/bo_state.h"

// The parts of bo's designer state as the texts that they are inside of it.
namespace luthier::search {

// Returns part number `part` of the text of `state`, counted from 0; "" where the text has no such part.
inline std::string PartOf(const BoState& state, size_t part) {
  const std::vector<std::string> parts = absl::StrSplit(FormatBoState(state), '|');
  return part < parts.size() ? parts[part] : "";
}
inline std::string TextOf(const LocalSearchState& local) {
  BoState state;
  state.local = local;
  return PartOf(state, 1);
}
inline std::string TextOf(const SurrogateState& surrogate) {
  BoState state;
  state.surrogate = surrogate;
  return PartOf(state, 2);
}
inline std::string TextOf(const FeasibilityState& feasibility) {
  BoState state;
  state.feasibility = feasibility;
  return PartOf(state, 3);
}
inline std::string TextOf(const BasinsState& basins) {
  BoState state;
  state.basins = basins;
  return PartOf(state, 5);
}

inline std::vector<ModelChoice> ChoicesOfGroups(int groups) {
  ModelChoice choice;
  choice.shape.groups = groups;
  return {choice};
}
inline std::optional<LocalSearchState> ReadLocal(const std::string& text) {
  return ParseBoState(absl::StrCat("a0|", text, "|"), ChoicesOfGroups(1)).local;
}
inline std::optional<SurrogateState> ReadSurrogate(const std::string& text, const std::vector<ModelChoice>& choices) {
  return ParseBoState(absl::StrCat("a0||", text), choices).surrogate;
}
inline BasinsState ReadBasins(const std::string& text, int groups) {
  return ParseBoState(absl::StrCat("a0|||||", text), ChoicesOfGroups(groups)).basins;
}

}  // namespace luthier::search

#endif  // LUTHIER_TESTS_LIB_SEARCH_BO_STATE_TESTING_H_
