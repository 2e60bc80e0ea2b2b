#ifndef LUTHIER_LIB_SEARCH_BO_TURNS_ASK_H_
#define LUTHIER_LIB_SEARCH_BO_TURNS_ASK_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/math/sobol.h"
#include "lib/search/bo/local/trust_box.h"
#include "lib/search/bo/model/feasibility.h"
#include "lib/search/bo/model/gradients.h"
#include "lib/search/bo/model/observations.h"
#include "lib/search/bo/model/surrogate.h"
#include "lib/search/bo/turns/bo_state.h"
#include "lib/search/designer.h"
#include "lib/search/grid/setting_table.h"
#include "lib/study/encoding.h"
#include "lib/study/history.h"
#include "lib/study/study_spec.h"

// Data that the turns of one ask of `bo` share. Functions that take an Ask return CANCELLED once its `stop` is raised.
namespace luthier::search {

inline constexpr int64_t kReadingATrial = 100;  // Operations, for base::Pace.
inline constexpr int kRandomTries = 100;        // Random settings that are drawn in search of one that was not tried.

// Everything that follows from the study alone. Immutable.
struct BoStudy {
  BoStudy(const study::StudySpec& spec, const study::BoOptions& options);
  BoStudy(const BoStudy&) = delete;
  BoStudy& operator=(const BoStudy&) = delete;

  const SettingTable* Table() const { return table.has_value() ? &*table : nullptr; }

  const study::Encoding encoding;
  const study::Goal goal;
  const uint64_t seed;
  const study::BoOptions options;
  const int initial_points;   // Length of the initial design.
  const bool weighs_steps;    // The space has labels or switches, and the acquisition says how much it expects.
  const bool many_gradients;  // Gradients are used, and more than 20 parameters are continuous: quasi_newton.h.
  const bool explores_first;  // The first explorations are the initial design, but for the first trial.
  const math::SobolSequence design;
  const SurrogateOptions surrogate;
  const GradientUnits units;
  const std::optional<SettingTable> table;  // All settings, where the space is small and finite.
};

// An earlier trial, and whose turn its ask was.
struct PastAsk {
  const study::HistoryTrial* trial;
  bool asked;  // False: a user added it, and the head says nothing.
  AskHead head;
};

// One ask: what its turns look at, and the state that they change.
struct Ask {
  const study::History& history;
  const uint64_t index;
  BoState* const state;
  const base::StopToken& stop;
  std::vector<PastAsk> past = {};  // Every trial.
  bool failures = false;           // Failures are modelled, and there are some.
  Observations all = {};           // Every result.
  Observations data = {};          // The results that models are fitted to.
  std::optional<FeasibilityModel> feasible = std::nullopt;
  std::optional<TrustBoxRun> box = std::nullopt;

  const FeasibilityModel* Feasible() const { return feasible.has_value() ? &*feasible : nullptr; }
};

// Returns true if quasi-Newton steps take the place of other local steps: there are many parameters with gradients, and
// at least two whole gradients are known. After TakeData.
bool TakesQuasiNewton(const BoStudy& study, const Ask& ask);

// Fills in `past`, `failures` and `all`.
absl::Status ReadHistory(const BoStudy& study, Ask* ask);
// Fills in `data`, with the reported slopes; those of reporters who are set aside are left out, and whoever is set
// aside is decided anew when it is time to.
absl::Status TakeData(const BoStudy& study, Ask* ask);
// Fills in `feasible` where failures are modelled.
absl::Status FitFeasibility(const BoStudy& study, Ask* ask);
// Adds to `suggestion` what it says of derivatives: where one would be welcome, and whose were left out.
absl::Status AddGradients(const BoStudy& study, const Ask& ask, Suggestion* suggestion);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_TURNS_ASK_H_
