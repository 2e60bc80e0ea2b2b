#ifndef LUTHIER_LIB_SUGGEST_SOBOL_DESIGNER_H_
#define LUTHIER_LIB_SUGGEST_SOBOL_DESIGNER_H_

#include <cstdint>

#include "lib/math/sobol.h"
#include "lib/study/encoding.h"
#include "lib/suggest/designer.h"

namespace luthier::suggest {

// Sobol's low-discrepancy sequence in the compact encoding: ask i is point i of the scrambled sequence, or point i+1 of
// the plain one, whose point 0 is a corner. Settings may repeat in a finite space. The sequence ends after 2^32 points;
// from there on ExplorationPoint(i). Origin "sobol".
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
};

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_SOBOL_DESIGNER_H_
