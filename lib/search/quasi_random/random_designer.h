#ifndef LUTHIER_LIB_SEARCH_QUASI_RANDOM_RANDOM_DESIGNER_H_
#define LUTHIER_LIB_SEARCH_QUASI_RANDOM_RANDOM_DESIGNER_H_

#include <cstdint>

#include "lib/search/designer.h"
#include "lib/study/encoding.h"

namespace luthier::search {

// Returns random point number `index` of a study. Every algorithm that mixes in pure random search takes its points
// from here: its exploration is then, point for point, random search with the same seed. Each coordinate of the compact
// encoding is uniform; inactive parameters are left out. With constraints on parameters it is the first legal draw of
// the point's own stream, so that points are legal, and the same for all algorithms.
study::Parameters ExplorationPoint(const study::Encoding& encoding, uint64_t seed, uint64_t index);

// Random search: ask i is ExplorationPoint(i) for any history. Settings may repeat in a finite space. Origin "random".
class RandomDesigner final : public Designer {
 public:
  explicit RandomDesigner(const study::StudySpec& spec) : encoding_(spec.space, spec.constraints), seed_(spec.seed) {}

  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                     const base::StopToken& stop) override;

 private:
  const study::Encoding encoding_;
  const uint64_t seed_;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_QUASI_RANDOM_RANDOM_DESIGNER_H_
