#include "lib/base/version.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace luthier::base {

// Linked into programs alone, so that a new commit compiles one file and links no test again.
extern const char kBuildCommit[] __attribute__((weak));

const char* BuildCommit() {
  return kBuildCommit != nullptr ? kBuildCommit : "unknown";
}

const char* BuildLevel() {
#if defined(__AVX2__) && defined(__FMA__) && defined(__BMI2__) && defined(__LZCNT__)
  return "x86-64-v3";
#elif defined(__SSE4_2__) && defined(__POPCNT__)
  return "x86-64-v2";
#elif defined(__x86_64__)
  return "x86-64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "other";
#endif
}

std::string VersionText() {
  return absl::StrCat(kVersion, " (", BuildCommit(), ", ", BuildLevel(), ")");
}

}  // namespace luthier::base
