#ifndef LUTHIER_TESTS_LIB_SEARCH_BO_STATE_TESTING_H_
#define LUTHIER_TESTS_LIB_SEARCH_BO_STATE_TESTING_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/search/bo/turns/bo_state.h"
#include "lib/search/legacy_state.h"

// Parts of bo's designer state, alone in its bytes, or in the text of former versions.
namespace luthier::search {

inline std::string BytesOf(const LocalSearchState& local) {
  BoState state;
  state.local = local;
  return FormatBoState(state);
}
inline std::string BytesOf(const SurrogateState& surrogate) {
  BoState state;
  state.surrogate = surrogate;
  return FormatBoState(state);
}
inline std::string BytesOf(const FeasibilityState& feasibility) {
  BoState state;
  state.feasibility = feasibility;
  return FormatBoState(state);
}
inline std::string BytesOf(const BasinsState& basins) {
  BoState state;
  state.basins = basins;
  return FormatBoState(state);
}

inline std::vector<ModelChoice> ChoicesOfGroups(int groups) {
  ModelChoice choice;
  choice.shape.groups = groups;
  return {choice};
}
inline BoState ReadLegacy(const std::string& text, const std::vector<ModelChoice>& choices) {
  return ParseBoState(CurrentState(text), choices);
}
inline std::optional<LocalSearchState> ReadLegacyLocal(const std::string& text) {
  return ReadLegacy(absl::StrCat("a0|", text, "|"), ChoicesOfGroups(1)).local;
}
inline std::optional<SurrogateState> ReadLegacySurrogate(const std::string& text,
                                                         const std::vector<ModelChoice>& choices) {
  return ReadLegacy(absl::StrCat("a0||", text), choices).surrogate;
}
inline BasinsState ReadLegacyBasins(const std::string& text, int groups) {
  return ReadLegacy(absl::StrCat("a0|||||", text), ChoicesOfGroups(groups)).basins;
}

}  // namespace luthier::search

#endif  // LUTHIER_TESTS_LIB_SEARCH_BO_STATE_TESTING_H_
