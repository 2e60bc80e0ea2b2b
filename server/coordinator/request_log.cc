#include "server/coordinator/request_log.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"

namespace luthier::coordinator {

absl::Status RequestIdReused(const std::string& id) {
  constexpr char kReused[] = "was used for another request; make a fresh one for each call";
  base::ErrorDetail detail;
  detail.reason = base::reason::kRequestIdReused;
  detail.violations.push_back({"request_id", kReused});
  return base::MakeError(absl::StatusCode::kInvalidArgument,
                         absl::StrCat("request_id: ", base::Quote(id), " ", kReused), std::move(detail));
}

absl::StatusOr<std::optional<std::string>> RequestLog::Find(const std::string& id, const std::string& digest) const {
  if (id.empty()) return std::nullopt;
  std::optional<storage::RequestRecord> record;
  if (const auto found = pending_.find(id); found != pending_.end()) {
    record = found->second;
  } else {
    LUTHIER_ASSIGN_OR_RETURN(record, storage_->FindRequest(id));
  }
  if (!record) return std::nullopt;
  if (record->digest != digest) return RequestIdReused(id);
  return std::move(record->reply);
}

void RequestLog::Remember(const std::string& id, const std::string& digest, std::string reply, absl::Time now) {
  if (id.empty()) return;
  pending_[id] = {id, digest, std::move(reply), now};
}

}  // namespace luthier::coordinator
