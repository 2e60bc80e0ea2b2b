#ifndef LUTHIER_LIB_SEARCH_BO_TURNS_EXPLORATION_POINTS_H_
#define LUTHIER_LIB_SEARCH_BO_TURNS_EXPLORATION_POINTS_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "lib/base/random.h"
#include "lib/base/stop_token.h"
#include "lib/search/bo/lipschitz/slope_bounds.h"
#include "lib/search/bo/model/observations.h"
#include "lib/study/encoding.h"

// Points that no model chooses. Exploration number `index` of a study begins with random search's own point of that
// index (random_designer.h).
namespace luthier::search {

// The setting farthest from all tried ones (largest smallest Euclidean distance of model points): the best of 4096
// scrambled Sobol points and up to 1024 corners, improved coordinate by coordinate. Covers the space evenly; in more
// than five dimensions it visits corners. CANCELLED, here and below: `stop` was raised.
absl::StatusOr<study::Parameters> FarthestPoint(const study::Encoding& encoding, const Observations& data,
                                                uint64_t seed, uint64_t index, const base::StopToken& stop);

// Random search's point `index` if an improvement is possible there by the bounds, else the first of its 3000
// successors of the same index where one is, else the most promising of them. Without bounds: random search's point.
absl::StatusOr<study::Parameters> LipoPoint(const study::Encoding& encoding, const OutputBounds& bounds,
                                            double incumbent, uint64_t seed, uint64_t index,
                                            const base::StopToken& stop);

// A random setting in which parameter `parameter` exists: those that it depends on take one of the values that it
// needs, all others are drawn as random search draws them.
study::Parameters SampleWith(const study::Encoding& encoding, int parameter, base::RandomStream& random);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_TURNS_EXPLORATION_POINTS_H_
