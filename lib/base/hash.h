#ifndef LUTHIER_LIB_BASE_HASH_H_
#define LUTHIER_LIB_BASE_HASH_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace luthier::base {

// XXH3, 64 bits: the same on every machine and for ever (std::hash and absl::Hash are neither). Not cryptographic.
uint64_t Hash64(absl::string_view bytes, uint64_t seed = 0);

// Lower-case hexadecimal SHA-256, for fingerprints that people compare.
std::string Sha256Hex(absl::string_view bytes);

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_HASH_H_
