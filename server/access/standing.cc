#include "server/access/standing.h"

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"

namespace luthier::access {
namespace {

absl::Status Ended(const char* why, absl::string_view message) {
  return base::MakeError(absl::StatusCode::kUnauthenticated, why, message);
}

}  // namespace

absl::Status Standing::Check(absl::Time now) const {
  if (revoked_) return Ended(base::reason::kRevoked, absl::StrCat("token ", token_, " was revoked"));
  if (!replaced_ && now < end()) return absl::OkStatus();
  if (replaced_ || old_) {
    return Ended(base::reason::kExpired, absl::StrCat("this secret of token ", token_,
                                                      " was replaced by a newer one, which to use from now on"));
  }
  return Ended(base::reason::kExpired, absl::StrCat("token ", token_, " has expired; luthier admin token rotate ",
                                                    token_, " makes a new secret"));
}

absl::Time Standing::end() const {
  if (revoked_ || replaced_) return absl::InfinitePast();
  const int64_t micros = end_micros_;
  return micros == INT64_MAX ? absl::InfiniteFuture() : absl::FromUnixMicros(micros);
}

}  // namespace luthier::access
