#ifndef LUTHIER_SERVER_ACCESS_STANDING_H_
#define LUTHIER_SERVER_ACCESS_STANDING_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lib/base/permit.h"

namespace luthier::access {

// Says whether one secret of a token is in force. Calls are admitted under a secret, and end with it. A revocation
// holds whatever the clock says later. An expiry is a date, so that a wrong clock that is put right ends no token for
// good. Thread-safe.
class Standing final : public base::Permit {
 public:
  // The secret is in force until `end`.
  Standing(std::string token, absl::Time end) : token_(std::move(token)) { SetEnd(end); }

  void SetEnd(absl::Time end) { end_micros_ = absl::ToUnixMicros(end); }
  void Revoke() { revoked_ = true; }
  // Another secret takes the place of this one at `end`.
  void GiveWay(absl::Time end) {
    SetEnd(end);
    old_ = true;
  }
  // Another secret has taken the place of this one.
  void Replace() { replaced_ = true; }

  // UNAUTHENTICATED REVOKED; UNAUTHENTICATED EXPIRED, also of a secret that was replaced.
  absl::Status Check(absl::Time now) const override;
  // Returns the end of the secret, as far as it is known now.
  absl::Time end() const;

 private:
  const std::string token_;
  std::atomic<int64_t> end_micros_{0};
  std::atomic<bool> revoked_{false};
  std::atomic<bool> replaced_{false};
  std::atomic<bool> old_{false};
};

}  // namespace luthier::access

#endif  // LUTHIER_SERVER_ACCESS_STANDING_H_
