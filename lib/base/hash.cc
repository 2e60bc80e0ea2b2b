#include "lib/base/hash.h"

#include <openssl/evp.h>
#include <xxhash.h>

#include "absl/strings/escaping.h"
#include "lib/base/check.h"

namespace luthier::base {

uint64_t Hash64(absl::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::string Sha256Hex(absl::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  LUTHIER_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr) == 1);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size));
}

}  // namespace luthier::base
