#ifndef LUTHIER_LIB_SUGGEST_GRADIENT_CHECK_H_
#define LUTHIER_LIB_SUGGEST_GRADIENT_CHECK_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/suggest/observations.h"
#include "lib/suggest/surrogate.h"

namespace luthier::suggest {

// Which reporters' slopes contradict the values, ascending: one worker's wrong unit, sign, or order of parameters
// (gp::CheckSlopes, CheckPairs, CheckAgainstPeers), or a component that is 0 at every point of a reporter's, five at
// least, though others' are not (a chance below 1e-5 if the zeros were spread over all, and RelevanceGain above 5 nats)
// or, where all agree, the values depend on the parameter (20 nats). Hyperparameters come from the newest 100 measured
// values alone, of everybody; each reporter is held against them with the slopes at those points, the newest 150, up to
// eight reporters a call in turn. `before`: set aside so far. They stay so until their slopes fit as clearly as they
// once did not. Axes along which everybody's slopes are 0 are looked at one a call, drawn by ask_index. reporter: of
// each row of data. Deterministic in its arguments. O(250^3) a reporter, and some 150 O(150^3) for an axis that is
// looked at. CANCELLED: `stop` was raised.
absl::StatusOr<std::vector<int32_t>> ContradictingReporters(const Observations& data,
                                                            const std::vector<int32_t>& reporter,
                                                            const SurrogateOptions& options,
                                                            const std::vector<int32_t>& before, uint64_t seed,
                                                            uint64_t ask_index, const base::StopToken& stop);

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_GRADIENT_CHECK_H_
