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

// Quasi-Newton steps for many parameters with gradients: bounded L-BFGS (lib/math/lbfgs.h) over the
// unit cube. The study's trials are its evaluations. No state is kept between asks: each ask runs
// the minimisation again from the climb's first point and looks its evaluations up in the results.
// The first point without a result is the next suggestion. With one worker the trials are therefore
// the minimiser's own evaluations, bit for bit. docs/design/quasi_newton.md.
namespace luthier::search {

// The results in which evaluations are looked up. Borrows everything.
struct QuasiNewtonLog {
  const study::History& history;
  const study::Encoding& encoding;
  study::Goal goal;
  const GradientUnits& units;
  const std::vector<int32_t>& set_aside;  // Reporters whose gradients are ignored, ascending.
};

struct QuasiNewtonStep {
  study::Parameters parameters;  // A setting that was not tried before.
  double predicted_gain = 0.0;   // Linear prediction from the best point, score units, >= 0.
  double best = 0.0;             // Score of the climb's best point.
  double length = 0.0;           // Max norm of the step from that point, in sides of the cube.
};

// The state of a climb.
enum class ClimbOutcome {
  kStep,     // There is a next step.
  kEnded,    // The minimisation has ended.
  kPending,  // There is a next point, but it and all its substitutes were suggested already.
};
struct QuasiNewtonAnswer {
  ClimbOutcome outcome = ClimbOutcome::kEnded;
  std::optional<QuasiNewtonStep> step;  // Given with kStep.
};

// Returns the number of active continuous parameters of `parameters`.
int ActiveContinuous(const study::Encoding& encoding, const study::Parameters& parameters);

// Returns true if the result of `trial` can serve as an evaluation: it is COMPLETE with a finite
// value, all derivatives of its active continuous parameters are known, and its reporter is not set
// aside.
bool HasWholeGradient(const QuasiNewtonLog& log, const study::HistoryTrial& trial);

// Returns the next step of the climb that began at trial `site`, for which HasWholeGradient must
// hold. The continuous parameters that are active there change; all others stay. A finished setting
// without a whole gradient, such as a failed one, counts as outside the domain: the line search
// steps back from it. CANCELLED trials are ignored. If the next point is pending, points at 2, 1/2,
// 4 and 1/4 times its distance from the climb's best point, in the same direction, are suggested
// instead. O(trials d), and O(evaluations d) for the replay. Returns CANCELLED if `stop` was
// raised.
absl::StatusOr<QuasiNewtonAnswer> SuggestQuasiNewton(const QuasiNewtonLog& log, int64_t site,
                                                     const base::StopToken& stop);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_LOCAL_QUASI_NEWTON_H_
