#include "server/coordinator/request_log.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "server/storage/legacy_records.h"

namespace luthier::coordinator {

absl::Status RequestIdReused(const std::string& id) {
  constexpr char kReused[] = "was used for another request; make a fresh one for each call";
  base::ErrorDetail detail;
  detail.reason = base::reason::kRequestIdReused;
  detail.violations.push_back({"request_id", kReused});
  return base::MakeError(absl::StatusCode::kInvalidArgument,
                         absl::StrCat("request_id: ", base::Quote(id), " ", kReused), std::move(detail));
}

absl::Status ReplyDamaged(const std::string& id, absl::string_view why) {
  return absl::DataLossError(absl::StrCat("the stored reply to request ", base::Quote(id), " can't be read: ", why,
                                          "; restore a backup, or look at what the request did and send what is "
                                          "missing with a fresh request_id"));
}

absl::StatusOr<std::optional<storage::StoredReply>> RequestLog::Find(const std::string& id,
                                                                     const std::string& digest) const {
  if (id.empty()) return std::nullopt;
  std::optional<storage::RequestRecord> record;
  if (const auto found = pending_.find(id); found != pending_.end()) {
    record = found->second;
  } else {
    LUTHIER_ASSIGN_OR_RETURN(record, storage_->FindRequest(id));
  }
  if (!record) return std::nullopt;
  if (record->digest != digest) return RequestIdReused(id);
  if (std::holds_alternative<storage::DamagedReply>(record->reply)) return ReplyDamaged(id, "its bytes are damaged");
  const auto* legacy = std::get_if<storage::LegacyReply>(&record->reply);
  if (legacy == nullptr) return std::move(record->reply);
  absl::StatusOr<storage::StoredReply> reply = storage::ParseLegacyReply(legacy->text);
  if (!reply.ok()) return ReplyDamaged(id, reply.status().message());
  return *std::move(reply);
}

void RequestLog::Remember(const std::string& id, const std::string& digest, storage::StoredReply reply,
                          absl::Time now) {
  if (id.empty()) return;
  pending_[id] = {id, digest, std::move(reply), now};
}

}  // namespace luthier::coordinator
