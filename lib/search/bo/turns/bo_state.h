#ifndef LUTHIER_LIB_SEARCH_BO_TURNS_BO_STATE_H_
#define LUTHIER_LIB_SEARCH_BO_TURNS_BO_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "lib/search/bo/acquisition/basins.h"
#include "lib/search/bo/local/border_search.h"
#include "lib/search/bo/local/local_search.h"
#include "lib/search/bo/model/feasibility.h"
#include "lib/search/bo/model/surrogate.h"

// The designer state of `bo`: the data that one ask passes to the next one. Each member is
// described by the header that uses it. An ask that does not use a member passes it on unchanged.
namespace luthier::search {

inline constexpr int64_t kExplorations = int64_t{1} << 40;  // More than any study has.

// The turn that answered an ask.
enum class AskKind : char {
  kInitial = 'i',      // Initial design.
  kExploration = 'x',  // Exploration.
  kLocalStep = 't',    // Trust-region step.
  kProbe = 'p',        // The best setting again, to see whether results are noisy (noise.h).
  kMember = 'm',       // Another search of a portfolio (lib/search/portfolio), which is none of the optimizer's turns.
  kLabel = 'l',        // A label that has fewer trials than its floor (labels.h).
  kModel = 'a',        // Anything else.
};

// The turn that answered an ask; the beginning of its state.
struct AskHead {
  AskKind kind = AskKind::kModel;
  // kExploration: random search's index. kLocalStep: its site. kProbe: the trial tried again. kMember: the member.
  int64_t index = 0;
};

struct BoState : AskHead {
  int64_t checked = 0;             // Finished trials at the last check of slopes; 0: never.
  std::vector<int32_t> set_aside;  // Reporters whose slopes contradicted the values, ascending.
  std::optional<LocalSearchState> local;
  std::optional<SurrogateState> surrogate;
  std::optional<FeasibilityState> feasibility;
  int64_t box = 0;  // First trial of the trust box's run; 0: no box yet.
  BasinsState basins;
  // States of the models of further metrics, by position in StudySpec::metrics (metric_models.h). Without any it is
  // empty.
  std::vector<std::optional<SurrogateState>> metrics;
  std::optional<BorderClimb> border;  // In studies with bounds.
  int64_t noise_by = 0;               // The trial whose result showed noise (noise.h); 0: none did.
};

// A setting of a member's own sequence that had been tried before the member came to it.
struct KnownSetting {
  int64_t number = 0;  // Its place in the sequence, from 0.
  int64_t trial = 0;   // The trial whose result it has.
  std::string state;   // The designer state that the member gave it.
};

// The state of an ask that a member of a portfolio answered.
struct MemberState : AskHead {
  int64_t number = 0;                // The setting's place in the member's own sequence, from 0.
  std::vector<KnownSetting> passed;  // Settings that the member passed since its one before.
  std::string state;                 // The member's own designer state.
  std::string optimizer;             // The state of the optimizer's last ask, as it was.
};
// Returns the bytes of such a state. ParseBoState reads what they hold of the optimizer.
std::string FormatMemberState(const MemberState& state);
std::optional<MemberState> ParseMemberState(absl::string_view bytes);

// Returns the bytes of `state` (lib/search/designer_state.h). ParseBoState restores the same bits, with two exceptions:
// SurrogateState::others and BasinsState::theta keep a few digits, which keeping them again does not change, and
// `metrics` keeps no SurrogateState::others where all of it would be long; a BasinsState without maxima is not stored.
std::string FormatBoState(BoState state);
// Reads such bytes, for a study whose models are `choices`. A member that belongs to another space is left out. Other
// bytes give a default state.
BoState ParseBoState(absl::string_view bytes, const std::vector<ModelChoice>& choices);

// Reads the beginning alone, which is cheap enough for every trial of a history.
AskHead ParseAskHead(absl::string_view bytes);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_TURNS_BO_STATE_H_
