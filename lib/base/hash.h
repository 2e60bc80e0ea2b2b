#ifndef LUTHIER_LIB_BASE_HASH_H_
#define LUTHIER_LIB_BASE_HASH_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace luthier::base {

// XXH3, 64 bits: the same on every machine and for ever (std::hash and absl::Hash are neither). Not cryptographic.
uint64_t Hash64(absl::string_view bytes, uint64_t seed = 0);

// Lower-case hexadecimal SHA-256, for fingerprints that people compare.
std::string Sha256Hex(absl::string_view bytes);

// XXH3 of bytes that come in parts.
class Hash64Parts {
 public:
  Hash64Parts();
  void Add(absl::string_view bytes);
  uint64_t Value() const;  // Hash of all bytes added so far.

 private:
  std::shared_ptr<void> state_;
};
class Sha256Parts {
 public:
  Sha256Parts();
  void Add(absl::string_view bytes);
  std::string Hex() &&;

 private:
  std::shared_ptr<void> state_;
};

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_HASH_H_
