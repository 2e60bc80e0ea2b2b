#ifndef LUTHIER_LIB_SEARCH_BO_LOCAL_QUASI_NEWTON_H_
#define LUTHIER_LIB_SEARCH_BO_LOCAL_QUASI_NEWTON_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/search/bo/model/gradients.h"
#include "lib/study/encoding.h"
#include "lib/study/history.h"
#include "lib/study/study_spec.h"

// Quasi-Newton steps for many parameters with gradients: bounded L-BFGS (lib/math/lbfgs.h) over the unit cube, whose
// evaluations are the study's trials. Nothing is kept between asks. The minimisation runs again from the climb's first
// point and is answered from the results; the first point that no result answers is the next suggestion. So with one
// worker the trials are the minimiser's own evaluations, bit for bit, whatever happened in between.
// docs/design/quasi_newton.md.
namespace luthier::search {

// The results that a minimisation can be answered from. Borrows everything.
struct QuasiNewtonLog {
  const study::History& history;
  const study::Encoding& encoding;
  study::Goal goal;
  const GradientUnits& units;
  const std::vector<int32_t>& set_aside;  // Reporters whose gradients do not count, ascending.
};

struct QuasiNewtonStep {
  study::Parameters parameters;  // Not tried before.
  double predicted_gain = 0.0;   // Decrease along the gradient of the climb's best point, score units, >= 0.
  double best = 0.0;             // Score of the climb's best point.
  double length = 0.0;           // Largest change of a coordinate against the climb's best point, sides of the cube.
};

// The state of a climb.
enum class ClimbOutcome {
  kStep,     // There is a next step.
  kEnded,    // The minimisation has ended: nothing lower is to be found from there.
  kPending,  // Its next points are all pending.
};
struct QuasiNewtonAnswer {
  ClimbOutcome outcome = ClimbOutcome::kEnded;
  std::optional<QuasiNewtonStep> step;  // Given with kStep.
};

// Returns the number of active continuous parameters of `parameters`.
int ActiveContinuous(const study::Encoding& encoding, const study::Parameters& parameters);

// Returns true if the result of `trial` can answer: it is COMPLETE, and its whole gradient is known and counts.
bool HasWholeGradient(const QuasiNewtonLog& log, const study::HistoryTrial& trial);

// Returns the next step of the climb that began at trial `site`, which HasWholeGradient. Continuous parameters that are
// active there change, the others stay. A setting that failed for a fault of its own, or whose gradient is not known,
// counts as outside the domain: the line search steps back from it. Where the next point is pending (other workers have
// it), points at 2, 1/2, 4 and 1/4 times its distance along the same direction are suggested instead. O(trials d) and
// the replay, O(evaluations d). CANCELLED: `stop` was raised.
absl::StatusOr<QuasiNewtonAnswer> SuggestQuasiNewton(const QuasiNewtonLog& log, int64_t site,
                                                     const base::StopToken& stop);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_LOCAL_QUASI_NEWTON_H_
