#ifndef LUTHIER_LIB_CATALOGUE_CRF_INFO_H_
#define LUTHIER_LIB_CATALOGUE_CRF_INFO_H_

#include <cstddef>

#include "lib/catalogue/objective_info.h"

namespace luthier::catalogue {

// `crf`: a linear-chain conditional random field on labelled sequences (lib/crf); tunes its penalty, its features and
// how it is trained by the quality on held-out sequences.
ObjectiveInfo CrfInfo();

// With fewer tuned strengths a gradient is not worth its cost, unless option `gradient` asks for it.
inline constexpr size_t kFewestChainStrengths = 3;

}  // namespace luthier::catalogue

#endif  // LUTHIER_LIB_CATALOGUE_CRF_INFO_H_
