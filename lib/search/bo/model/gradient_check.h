#ifndef LUTHIER_LIB_SEARCH_BO_MODEL_GRADIENT_CHECK_H_
#define LUTHIER_LIB_SEARCH_BO_MODEL_GRADIENT_CHECK_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/search/bo/model/ask_key.h"
#include "lib/search/bo/model/observations.h"
#include "lib/search/bo/model/surrogate.h"

namespace luthier::search {

// Returns the reporters whose slopes contradict the values, ascending. It finds two faults:
//   a wrong unit, sign or order of parameters   by gp::CheckSlopes, CheckPairs, CheckAgainstPeers
//   a component that is always 0, wrongly       at all of a reporter's points, at least five. If others
//                                               report nonzero slopes there, the zeros must have a
//                                               chance of at most 1e-5 if spread over all reporters, and
//                                               RelevanceGain must exceed 5 nats. If everybody's slopes
//                                               are 0, RelevanceGain must exceed 20 nats.
// Hyperparameters come from the newest 100 measured values of all reporters, without slopes. A call
// checks up to eight reporters, in turn, by about 150 of each one's newest slopes at those points.
// A call checks one of the axes along which everybody's slopes are 0, drawn by `key`.
//
// `reporter` has the reporter of each row of `data`. `before` has the reporters set aside so far.
// Such a reporter is set aside until CheckSlopes confirms its slopes and no other test objects.
// Deterministic in its arguments. A reporter costs O(250^3), an axis some 150 O(150^3). Returns
// CANCELLED if `stop` was raised.
absl::StatusOr<std::vector<int32_t>> ContradictingReporters(const Observations& data,
                                                            const std::vector<int32_t>& reporter,
                                                            const SurrogateOptions& options,
                                                            const std::vector<int32_t>& before, const AskKey& key,
                                                            const base::StopToken& stop);

// Returns the same for whole gradients of many parameters. Their points lie along climbs, where a model of the values
// alone says little about slopes. Compares the ten closest conclusive pairs of each reporter's newest 30 points by the
// trapezoid rule, as gp::CheckPairs does, but with slopes along all axes that differ and without lengthscales, which
// are not known. A reporter is set aside if at least five pairs are conclusive and three quarters of them misfit by
// more than 0.4; it is accepted again once fewer do. `before`, `reporter`: as above. O(30^2 d) a reporter. Returns
// CANCELLED if `stop` was raised.
absl::StatusOr<std::vector<int32_t>> ContradictingClimbs(const Observations& data, const std::vector<int32_t>& reporter,
                                                         const std::vector<int32_t>& before,
                                                         const base::StopToken& stop);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_MODEL_GRADIENT_CHECK_H_
