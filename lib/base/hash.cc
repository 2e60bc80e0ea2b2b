#include "lib/base/hash.h"

#include <openssl/evp.h>
#include <xxhash.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "lib/base/check.h"

namespace luthier::base {

uint64_t Hash64(absl::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::string Sha256Hex(absl::string_view bytes) {
  Sha256Parts parts;
  parts.Add(bytes);
  return std::move(parts).Hex();
}

Hash64Parts::Hash64Parts()
    : state_(XXH3_createState(), [](void* p) { XXH3_freeState(static_cast<XXH3_state_t*>(p)); }) {
  LUTHIER_CHECK(state_ != nullptr && XXH3_64bits_reset(static_cast<XXH3_state_t*>(state_.get())) == XXH_OK);
}

void Hash64Parts::Add(absl::string_view bytes) {
  LUTHIER_CHECK(XXH3_64bits_update(static_cast<XXH3_state_t*>(state_.get()), bytes.data(), bytes.size()) == XXH_OK);
}

uint64_t Hash64Parts::Value() const {
  return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state_.get()));
}

Sha256Parts::Sha256Parts() : state_(EVP_MD_CTX_new(), [](void* p) { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(p)); }) {
  // EVP_sha256() would look for the algorithm each time.
  static EVP_MD* const sha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  LUTHIER_CHECK(EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(state_.get()), sha256, nullptr) == 1);
}

void Sha256Parts::Add(absl::string_view bytes) {
  LUTHIER_CHECK(EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(state_.get()), bytes.data(), bytes.size()) == 1);
}

std::string Sha256Parts::Hex() && {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  LUTHIER_CHECK(EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(state_.get()), digest, &size) == 1);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size));
}

}  // namespace luthier::base
