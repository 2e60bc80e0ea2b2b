#ifndef LUTHIER_SERVER_COORDINATOR_OPERATIONS_REPEATED_H_
#define LUTHIER_SERVER_COORDINATOR_OPERATIONS_REPEATED_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/coordinator/batch/changes.h"
#include "server/coordinator/batch/context.h"

namespace luthier::coordinator {

// The reply stored for the request `id`, absent when the request is new. INVALID_ARGUMENT REQUEST_ID_REUSED when the
// id belongs to a request of another `digest`, be it an ask that still waits. Errors as Storage.
absl::StatusOr<std::optional<std::string>> FindReply(const Context& c, const std::string& id,
                                                     const std::string& digest);

// Answers a request that was answered before, by the reply that `rebuild` makes of what is stored, and one whose id
// was used for another request. False: the request is new, and not answered.
template <typename Reply>
bool AnswerRepeated(Context& c, const std::string& id, const std::string& digest, const Done<Reply>& done,
                    const std::function<absl::StatusOr<Reply>(const std::string&)>& rebuild) {
  const absl::StatusOr<std::optional<std::string>> stored = FindReply(c, id, digest);
  if (stored.ok() && !stored->has_value()) return false;
  Answer<Reply>(c, done, stored.ok() ? rebuild(**stored) : absl::StatusOr<Reply>(stored.status()));
  return true;
}

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_OPERATIONS_REPEATED_H_
