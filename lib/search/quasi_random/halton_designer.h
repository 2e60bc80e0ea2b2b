#ifndef LUTHIER_LIB_SEARCH_QUASI_RANDOM_HALTON_DESIGNER_H_
#define LUTHIER_LIB_SEARCH_QUASI_RANDOM_HALTON_DESIGNER_H_

#include <cstdint>

#include "lib/math/halton.h"
#include "lib/search/designer.h"
#include "lib/search/legal/legal_walk.h"
#include "lib/study/encoding.h"

namespace luthier::search {

// Halton's sequence in the compact encoding: ask i is point i of the scrambled sequence, or point i+1 of the plain one,
// whose point 0 is a corner. Settings may repeat in a finite space. Origin "halton".
class HaltonDesigner final : public Designer {
 public:
  HaltonDesigner(const study::StudySpec& spec, const study::HaltonOptions& options);

  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                     const base::StopToken& stop) override;

 private:
  const study::Encoding encoding_;
  const uint64_t skip_;
  const math::HaltonSequence sequence_;
  LegalWalk walk_;  // Cache.
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_QUASI_RANDOM_HALTON_DESIGNER_H_
