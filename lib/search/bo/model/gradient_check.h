#ifndef LUTHIER_LIB_SEARCH_BO_MODEL_GRADIENT_CHECK_H_
#define LUTHIER_LIB_SEARCH_BO_MODEL_GRADIENT_CHECK_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/search/bo/model/observations.h"
#include "lib/search/bo/model/surrogate.h"

namespace luthier::search {

// Returns the reporters whose slopes contradict the values, ascending. Two faults are found:
//   a wrong unit, sign or order of parameters: gp::CheckSlopes, CheckPairs, CheckAgainstPeers
//   a component that is 0 at each of a reporter's points, five at least: where others' are not 0 (a chance below 1e-5
//   if
//     zeros were spread over all, and RelevanceGain above 5 nats), or, where everybody's are 0, where the values depend
//     on the parameter (20 nats)
// Hyperparameters come from the newest 100 measured values alone, of everybody. Each reporter's newest 150 slopes at
// those points are held against them, up to eight reporters a call in turn. Axes along which everybody's slopes are 0
// are looked at one a call, drawn by `ask_index`. `reporter`: of each row of `data`. `before`: the reporters set aside
// so far, who stay so until their slopes fit as clearly as they once did not. Deterministic in its arguments. O(250^3)
// a reporter, and some 150 O(150^3) for an axis that is looked at. CANCELLED: `stop` was raised.
absl::StatusOr<std::vector<int32_t>> ContradictingReporters(const Observations& data,
                                                            const std::vector<int32_t>& reporter,
                                                            const SurrogateOptions& options,
                                                            const std::vector<int32_t>& before, uint64_t seed,
                                                            uint64_t ask_index, const base::StopToken& stop);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_MODEL_GRADIENT_CHECK_H_
