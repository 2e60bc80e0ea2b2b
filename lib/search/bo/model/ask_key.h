#ifndef LUTHIER_LIB_SEARCH_BO_MODEL_ASK_KEY_H_
#define LUTHIER_LIB_SEARCH_BO_MODEL_ASK_KEY_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "lib/base/random.h"

namespace luthier::search {

// Names the random streams of one ask.
struct AskKey {
  uint64_t seed = 0;   // The study's.
  uint64_t index = 0;  // The ask's.

  base::RandomStream Stream(absl::string_view purpose, uint32_t item = 0) const {
    return base::RandomStream(seed, purpose, index, item);
  }
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_MODEL_ASK_KEY_H_
