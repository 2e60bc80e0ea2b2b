#ifndef LUTHIER_LIB_BASE_SECRET_H_
#define LUTHIER_LIB_BASE_SECRET_H_

#include <string>

#include "absl/strings/string_view.h"

namespace luthier::base {

// Removes the secrets of tokens, which may be in `text` by mistake: in "lut_", an id and a secret, the secret becomes
// "…", and so does everything behind "lut_" where it is written as bytes, "6c 75 74 5f …", as in gRPC's log. Apply it
// to every message and log line with words of others.
std::string HideTokens(absl::string_view text);

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_SECRET_H_
