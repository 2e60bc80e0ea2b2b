#include "lib/wire/status.h"

#include <utility>

#include "absl/strings/match.h"
#include "lib/base/error.h"
#include "lib/wire/convert.h"
#include "lib/wire/text.h"
#include "luthier/v1/errors.pb.h"

namespace luthier::wire {
namespace {

constexpr size_t kMaxDescriptionBytes = 512;

// Bytes that `c` takes in the grpc-message header: gRPC percent-encodes all but printable ASCII, and '%'.
size_t EncodedBytes(char c) {
  return c >= 0x20 && c <= 0x7E && c != '%' ? 1 : 3;
}

std::string CutMessage(absl::string_view message) {
  size_t encoded = 0;
  for (const char c : message) encoded += EncodedBytes(c);
  if (encoded <= kMaxStatusMessageBytes) return std::string(message);
  const size_t room = kMaxStatusMessageBytes - 9;  // "…" is three bytes, each encoded as three.
  size_t end = 0;
  for (encoded = 0; encoded + EncodedBytes(message[end]) <= room; ++end) encoded += EncodedBytes(message[end]);
  return CutHead(message, end + 3);
}

v1::ErrorDetail DetailToProto(const base::ErrorDetail& detail) {
  v1::ErrorDetail proto;
  proto.set_reason(ValidUtf8(detail.reason));
  for (const base::FieldViolation& v : detail.violations) {
    v1::FieldViolation* out = proto.add_violations();
    out->set_field(ValidUtf8(v.field));
    out->set_description(ValidUtf8(v.description));
  }
  if (detail.retry_delay) *proto.mutable_retry_delay() = ToProto(*detail.retry_delay);
  for (const auto& [key, value] : detail.metadata) (*proto.mutable_metadata())[ValidUtf8(key)] = ValidUtf8(value);
  return proto;
}

void Shrink(v1::ErrorDetail* proto) {
  if (proto->ByteSizeLong() <= kMaxStatusDetailBytes) return;
  for (v1::FieldViolation& v : *proto->mutable_violations()) {
    v.set_field(CutHead(v.field(), kMaxDescriptionBytes));
    v.set_description(CutHead(v.description(), kMaxDescriptionBytes));
  }
  while (proto->ByteSizeLong() > kMaxStatusDetailBytes && proto->violations_size() > 1) {
    proto->mutable_violations()->RemoveLast();
  }
  if (proto->ByteSizeLong() > kMaxStatusDetailBytes) proto->clear_metadata();
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  std::string details;
  if (const std::optional<base::ErrorDetail> detail = base::GetErrorDetail(status)) {
    v1::ErrorDetail proto = DetailToProto(*detail);
    Shrink(&proto);
    details = proto.SerializeAsString();
  }
  // The codes of Abseil and gRPC have the same numbers.
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), CutMessage(ValidUtf8(status.message())), details);
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const int number = static_cast<int>(status.error_code());
  const auto code = number >= 1 && number <= 16 ? static_cast<absl::StatusCode>(number) : absl::StatusCode::kUnknown;
  v1::ErrorDetail proto;
  if (status.error_details().empty() || !proto.ParseFromString(status.error_details())) {
    return absl::Status(code, status.error_message());
  }
  base::ErrorDetail detail;
  detail.reason = proto.reason();
  base::Violations violations;
  for (const v1::FieldViolation& v : proto.violations()) {
    detail.violations.push_back({v.field(), v.description()});
    violations.Add(v.field(), v.description());
  }
  if (proto.has_retry_delay()) {
    const absl::StatusOr<absl::Duration> delay = FromProto(proto.retry_delay());
    if (delay.ok()) detail.retry_delay = *delay;
  }
  for (const auto& [key, value] : proto.metadata()) detail.metadata[key] = value;
  std::string message = status.error_message();
  if (absl::EndsWith(message, "…") && !violations.empty()) {
    const absl::Status rebuilt = violations.ToStatus();
    if (rebuilt.message().size() > message.size()) message = std::string(rebuilt.message());
  }
  return base::MakeError(code, message, std::move(detail));
}

}  // namespace luthier::wire
