#ifndef LUTHIER_LIB_SEARCH_BO_TURNS_ASK_H_
#define LUTHIER_LIB_SEARCH_BO_TURNS_ASK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/math/sobol.h"
#include "lib/search/bo/local/trust_box.h"
#include "lib/search/bo/model/ask_key.h"
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

// Data that the turns of one ask of `bo` share. Functions that take an Ask and return a status
// return CANCELLED once its `stop` is raised.
namespace luthier::search {

inline constexpr int64_t kReadingATrial = 100;  // Operations, for base::Pace.
inline constexpr int kRandomTries = 100;        // Random settings that are drawn in search of one that was not tried.

// Everything that follows from the study alone. Immutable.
struct BoStudy {
  BoStudy(const study::StudySpec& study_spec, const study::BoOptions& bo_options);
  BoStudy(const BoStudy&) = delete;
  BoStudy& operator=(const BoStudy&) = delete;

  bool SeveralObjectives() const { return objectives.size() > 1; }
  const SettingTable* Table() const { return table.has_value() ? &*table : nullptr; }

  const study::StudySpec spec;
  const study::Encoding encoding;
  const study::Goal goal;                // The goal of the objective; of several that of the first.
  const std::vector<size_t> objectives;  // Positions in spec.metrics; empty in studies without them.
  const uint64_t seed;
  const study::BoOptions options;
  const int initial_points;                // Length of the initial design.
  const bool weighs_steps;                 // Steps compete with the model: labels or switches, and (log) EI.
  const bool many_gradients;               // Gradients of more than 20 parameters (quasi_newton.h).
  const bool one_slope_each;               // Models use one slope a point, so as not to have too many rows.
  const bool learns_from_first_gradients;  // LearnsFromFirstGradients.
  const bool wide;  // More scalars than a model can be fitted to in time: quasi-Newton steps and new starts only.
  const bool explores_first;  // Explorations are the initial design, after the first trial.
  const bool until_answered;  // The study ends once it is answered (answer.h).
  const bool recommends;      // A trial is recommended where results are noisy (noise.h).
  const math::SobolSequence design;
  const SurrogateOptions surrogate;
  const GradientUnits units;
  const std::optional<SettingTable> table;  // All legal settings, if the space is small and finite.
  // The search finds out whether results are noisy (noise.h). Not in a space whose settings the budget can use up.
  const bool finds_noise;
  const bool has_labels;  // Every label keeps a floor of trials (labels.h).
};

// An earlier trial, and the turn that suggested it.
struct PastAsk {
  const study::HistoryTrial* trial;
  bool asked;  // False if a user added the trial; `head` is then a default one.
  AskHead head;
};

// One ask: the data that its turns read, and the state that they change.
struct Ask {
  const study::History& history;
  const uint64_t index;
  BoState* const state;
  const base::StopToken& stop;
  std::vector<PastAsk> past = {};       // Every trial.
  std::vector<double> violations = {};  // study::ViolationsOf; empty if every result is feasible.
  std::vector<size_t> in_doubt = {};    // BoundsInDoubt.
  bool failures = false;                // True if failures are modelled and at least one occurred.
  Observations all = {};                // Every result.
  Observations data = {};               // The results that models are fitted to.
  std::optional<FeasibilityModel> feasible = std::nullopt;
  std::optional<TrustBoxRun> box = std::nullopt;

  const FeasibilityModel* Feasible() const { return feasible.has_value() ? &*feasible : nullptr; }
};

// Names the random streams of the ask.
inline AskKey KeyOf(const BoStudy& study, const Ask& ask) {
  return {study.seed, ask.index};
}

// Returns true once there are two results and one of them has a whole gradient that is not set aside.
bool HasWholeGradients(const BoStudy& study, const Ask& ask);

// Returns true if quasi-Newton steps (quasi_newton.h) replace trust-region steps: the study has
// many gradients, at least two whole ones are known, and no bound is in doubt. Call it after TakeData.
bool TakesQuasiNewton(const BoStudy& study, const Ask& ask);

// Fills in `past`, `violations`, `in_doubt`, `failures` and `all`.
absl::Status ReadHistory(const BoStudy& study, Ask* ask);
// Fills in `data`: the results, with the reported slopes unless the option gradients is off. Slopes
// of reporters who are set aside are left out. From five finished trials on, whenever their number
// has grown by 5 %, decides anew who is set aside (gradient_check.h).
absl::Status TakeData(const BoStudy& study, Ask* ask);
// Fills in `feasible` if `failures` is true and the model can be fitted.
absl::Status FitFeasibility(const BoStudy& study, Ask* ask);
// Adds to `suggestion` the direction in which a derivative is wanted (option gradients:
// directional), and the trials whose gradients are set aside.
absl::Status AddGradients(const BoStudy& study, const Ask& ask, Suggestion* suggestion);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_TURNS_ASK_H_
