#include "server/coordinator/studies/request_log.h"

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

namespace {

// Returns the reply as present programs write it. DATA_LOSS: it can't be read.
absl::StatusOr<storage::StoredReply> Readable(const std::string& id, storage::StoredReply reply) {
  if (std::holds_alternative<storage::DamagedReply>(reply)) return ReplyDamaged(id, "its bytes are damaged");
  const auto* legacy = std::get_if<storage::LegacyReply>(&reply);
  if (legacy == nullptr) return reply;
  absl::StatusOr<storage::StoredReply> parsed = storage::ParseLegacyReply(legacy->text);
  if (!parsed.ok()) return ReplyDamaged(id, parsed.status().message());
  return parsed;
}

}  // namespace

absl::StatusOr<std::optional<storage::RequestRecord>> RequestLog::Read(const std::string& id) const {
  if (const auto found = pending_.find(id); found != pending_.end()) return found->second;
  if (const auto found = changed_.find(id); found != changed_.end()) return found->second;
  return storage_->FindRequest(id);
}

absl::StatusOr<std::optional<storage::StoredReply>> RequestLog::Find(const std::string& id,
                                                                     const std::string& digest) const {
  if (id.empty()) return std::nullopt;
  LUTHIER_ASSIGN_OR_RETURN(std::optional<storage::RequestRecord> record, Read(id));
  if (!record) return std::nullopt;
  if (std::holds_alternative<storage::DamagedReply>(record->reply)) return ReplyDamaged(id, "its bytes are damaged");
  if (record->digest != digest) return RequestIdReused(id);
  return Readable(id, std::move(record->reply));
}

void RequestLog::Remember(const std::string& id, const std::string& digest, storage::StoredReply reply,
                          absl::Duration uptime) {
  if (id.empty()) return;
  pending_[id] = {id, digest, std::move(reply), uptime};
}

void RequestLog::Keep(const std::string& id, absl::Duration uptime, absl::Duration before) {
  if (id.empty() || pending_.count(id) > 0) return;
  absl::StatusOr<std::optional<storage::RequestRecord>> record = Read(id);
  // A row that can't be read is reported when its request is sent again.
  if (!record.ok() || !record->has_value() || (*record)->uptime >= before) return;
  absl::StatusOr<storage::StoredReply> reply = Readable(id, std::move((*record)->reply));
  if (!reply.ok()) return;
  changed_[id] = {id, (*record)->digest, *std::move(reply), uptime};
}

absl::StatusOr<std::string> RequestLog::KeepAnswer(const std::string& id, std::string message) {
  LUTHIER_ASSIGN_OR_RETURN(std::optional<storage::RequestRecord> record, Read(id));
  if (!record) return absl::NotFoundError(absl::StrCat("request ", base::Quote(id), " is not remembered"));
  LUTHIER_ASSIGN_OR_RETURN(record->reply, Readable(id, std::move(record->reply)));
  auto* const changed = std::get_if<storage::ChangedStudy>(&record->reply);
  if (changed == nullptr) return ReplyDamaged(id, "it is of another call");
  if (!changed->message.empty()) return changed->message;
  changed->message = message;
  (pending_.count(id) > 0 ? pending_ : changed_)[id] = *std::move(record);
  return message;
}

}  // namespace luthier::coordinator
