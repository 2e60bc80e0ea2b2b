#ifndef LUTHIER_LIB_SEARCH_BO_TURNS_BO_STATE_H_
#define LUTHIER_LIB_SEARCH_BO_TURNS_BO_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "lib/search/bo/acquisition/basins.h"
#include "lib/search/bo/local/local_search.h"
#include "lib/search/bo/model/feasibility.h"
#include "lib/search/bo/model/surrogate.h"

// The designer state of `bo`: what one ask leaves for the next one, beside its setting. Each part is described where it
// is used; an ask that does not use a part hands it on as it is.
namespace luthier::search {

inline constexpr int64_t kExplorations = int64_t{1} << 40;  // More than any study has.

// Whose turn an ask was.
enum class AskKind : char {
  kInitial = 'i',      // Initial design.
  kExploration = 'x',  // Exploration.
  kLocalStep = 't',    // Trust-region step.
  kModel = 'a',        // Anything else.
};

struct BoState {
  AskKind kind = AskKind::kModel;
  int64_t index = 0;               // kExploration: place in random search's stream; kLocalStep: site of the climb.
  int64_t checked = 0;             // Results when reported slopes were last held against values; 0: never.
  std::vector<int32_t> set_aside;  // Reporters whose slopes contradicted the values, ascending.
  std::optional<LocalSearchState> local;
  std::optional<SurrogateState> surrogate;
  std::optional<FeasibilityState> feasibility;
  int64_t box = 0;  // Trial that the trust box began with; 0: no box yet.
  BasinsState basins;
};

// Returns the text of `state`, without line ends. ParseBoState reads it back to the same bits, but for
// SurrogateState::others and BasinsState::theta, which keep a few digits; formatting those again gives the same text.
std::string FormatBoState(const BoState& state);
// Reads such a text of a study whose models are `choices`. A part that is damaged, or of another space, is read as
// absent; a text that is damaged as a whole gives a state of kModel without parts.
BoState ParseBoState(absl::string_view text, const std::vector<ModelChoice>& choices);

// Kind and index of an earlier ask.
struct AskHead {
  AskKind kind = AskKind::kModel;
  int64_t index = 0;
};
// Reads the head of such a text alone: cheap enough to be done for every trial of a history.
AskHead ParseAskHead(absl::string_view text);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_TURNS_BO_STATE_H_
