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

// Points that no model chooses. `index` is the number of the exploration; random search's point of
// that index (random_designer.h) is the one that exploration takes by default.
namespace luthier::search {

// Returns a setting far from all tried ones: it maximises the Euclidean distance to the nearest of
// them, in model coordinates. The search takes the best of 4096 scrambled Sobol points and up to
// 1024 corners, and improves it coordinate by coordinate. Such points cover the space evenly; in
// more than five dimensions they are corners. Returns CANCELLED, here and below, if `stop` was
// raised.
absl::StatusOr<study::Parameters> FarthestPoint(const study::Encoding& encoding, const Observations& data,
                                                uint64_t seed, uint64_t index, const base::StopToken& stop);

// Returns the first of 3000 random settings whose upper bound reaches `incumbent`, or else the one
// with the largest upper bound. The first setting is random search's point `index`, which is also
// the result without bounds.
absl::StatusOr<study::Parameters> LipoPoint(const study::Encoding& encoding, const OutputBounds& bounds,
                                            double incumbent, uint64_t seed, uint64_t index,
                                            const base::StopToken& stop);

// Returns a random setting, legal or not, in which `parameter` is active. Each parameter on which it depends takes
// one of the values that the condition needs. All others are drawn as random search draws them.
study::Parameters SampleWith(const study::Encoding& encoding, int parameter, base::RandomStream& random);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_TURNS_EXPLORATION_POINTS_H_
