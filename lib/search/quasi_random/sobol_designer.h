#ifndef LUTHIER_LIB_SEARCH_QUASI_RANDOM_SOBOL_DESIGNER_H_
#define LUTHIER_LIB_SEARCH_QUASI_RANDOM_SOBOL_DESIGNER_H_

#include <cstdint>

#include "lib/math/sobol.h"
#include "lib/search/designer.h"
#include "lib/search/legal/legal_walk.h"
#include "lib/study/encoding.h"

namespace luthier::search {

// Sobol's low-discrepancy sequence in the compact encoding: ask i is point i of the scrambled sequence, or point i+1 of
// the plain one, whose point 0 is a corner. Settings may repeat in a finite space. The sequence ends after 2^32 points;
// later asks are ExplorationPoint(i). Origin "sobol".
class SobolDesigner final : public Designer {
 public:
  SobolDesigner(const study::StudySpec& spec, const study::SobolOptions& options);

  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                     const base::StopToken& stop) override;

 private:
  const study::Encoding encoding_;
  const uint64_t seed_;
  const uint64_t skip_;
  const math::SobolSequence sequence_;
  LegalWalk walk_;  // Cache.
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_QUASI_RANDOM_SOBOL_DESIGNER_H_
