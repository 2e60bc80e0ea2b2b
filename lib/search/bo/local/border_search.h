#ifndef LUTHIER_LIB_SEARCH_BO_LOCAL_BORDER_SEARCH_H_
#define LUTHIER_LIB_SEARCH_BO_LOCAL_BORDER_SEARCH_H_

#include <optional>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/search/bo/local/border_step.h"
#include "lib/search/bo/model/observations.h"
#include "lib/search/legal/legal_steps.h"
#include "lib/study/encoding.h"

// Local search within bounds by steps of border_step.h: one climb, from the best setting. For objectives without noise.
// docs/design/trust_region.md.
namespace luthier::search {

// The state of the climb. A default one has not begun.
struct BorderClimb {
  bool ended = false;    // True once nothing is left to gain or to learn around the best setting.
  Eigen::VectorXd home;  // Compact coordinates that steps do not change, and 0 for those that they do.
  BorderState state;     // State of its last step.
};

// The metrics with bounds in the rows of Observations. `values` of metric j are those of `rows`.
struct BorderResults {
  std::vector<Eigen::Index> rows;  // Measured results that have all metrics.
  std::vector<BorderMetric> metrics;
};

struct BorderMove {
  study::Parameters parameters;  // A setting that was not tried before.
  double predicted_gain = 0.0;   // Gain of merit (border_step.h).
  double best = 0.0;             // Score of the setting that it starts from.
  bool best_feasible = false;    // True if that setting is feasible.
  int active = 0;                // Bounds that it ends on.
  BorderClimb next;              // The state once the step is made.
};

// Returns the faces of the legal settings as functions of the compact coordinates `active`, where all others are those
// of `home`. It borrows `faces`.
BorderFaces FacesAround(const LegalFaces& faces, Eigen::VectorXd home, std::vector<int> active);

// Returns the next step. It changes the active continuous parameters; all others keep the values of the best setting.
// Returns std::nullopt if the climb has ended, which `last` then says, if there are fewer than two results, and unless
// the number of continuous coordinates is from 1 to 50. Returns CANCELLED if `stop` was raised.
absl::StatusOr<std::optional<BorderMove>> SuggestBorderMove(const Observations& data, const BorderResults& results,
                                                            const study::Encoding& encoding, BorderClimb* last,
                                                            const base::StopToken& stop);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_LOCAL_BORDER_SEARCH_H_
