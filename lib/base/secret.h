#ifndef LUTHIER_LIB_BASE_SECRET_H_
#define LUTHIER_LIB_BASE_SECRET_H_

#include <string>

#include "absl/strings/string_view.h"

namespace luthier::base {

// The text without the secrets of tokens in it, which may be there by mistake: of "lut_", an id and a secret the latter
// becomes "…", and so does all behind "lut_" where it is written as bytes, "6c 75 74 5f …", as gRPC's log does. For
// every message and line of a log with words of others.
std::string HideTokens(absl::string_view text);

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_SECRET_H_
