#ifndef LUTHIER_LIB_SUGGEST_RANDOM_DESIGNER_H_
#define LUTHIER_LIB_SUGGEST_RANDOM_DESIGNER_H_

#include <cstdint>

#include "lib/study/encoding.h"
#include "lib/suggest/designer.h"

namespace luthier::suggest {

// The random point number `index` of a study: every algorithm that mixes in pure random search takes its points from
// here, so that its exploration is, point for point, what random search with the same seed would have done.
// Each coordinate of the compact encoding is uniform; inactive parameters are left out.
study::Parameters ExplorationPoint(const study::Encoding& encoding, uint64_t seed, uint64_t index);

// Random search: ask i is ExplorationPoint(i), whatever the history. Settings may repeat in a finite space.
// Origin "random".
class RandomDesigner final : public Designer {
 public:
  explicit RandomDesigner(const study::StudySpec& spec) : encoding_(spec.space), seed_(spec.seed) {}

  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                     const base::StopToken& stop) override;

 private:
  const study::Encoding encoding_;
  const uint64_t seed_;
};

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_RANDOM_DESIGNER_H_
