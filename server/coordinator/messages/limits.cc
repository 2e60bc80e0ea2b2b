#include "server/coordinator/messages/limits.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"

namespace luthier::coordinator {

absl::Status LimitExceeded(absl::string_view limit, int64_t value, absl::string_view message) {
  base::ErrorDetail detail;
  detail.reason = base::reason::kLimitExceeded;
  detail.metadata["limit"] = std::string(limit);
  detail.metadata["value"] = absl::StrCat(value);
  return base::MakeError(absl::StatusCode::kResourceExhausted, message, std::move(detail));
}

}  // namespace luthier::coordinator
