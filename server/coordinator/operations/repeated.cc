#include "server/coordinator/operations/repeated.h"

namespace luthier::coordinator {

absl::StatusOr<std::optional<std::string>> FindReply(const Context& c, const std::string& id,
                                                     const std::string& digest) {
  // An ask that waits owns its id already.
  for (const Waiter& waiter : c.state.waiters) {
    if (!id.empty() && waiter.op.request_id == id && waiter.digest != digest) return RequestIdReused(id);
  }
  return c.requests.Find(id, digest);
}

}  // namespace luthier::coordinator
