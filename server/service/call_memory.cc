#include "server/service/call_memory.h"

#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/impl/codegen/proto_buffer_reader.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"

namespace luthier::service {
namespace {

// Requests below this size get no promise, since they take hardly any memory.
constexpr int64_t kSmall = int64_t{32} << 10;
// The copies are the request, the objects made from it, and what is written of these.
constexpr int64_t kRequestCopies = 3;

thread_local CallMemory* to_be_parsed = nullptr;

absl::Status TooLarge(int64_t most) {
  base::ErrorDetail detail;
  detail.reason = base::reason::kLimitExceeded;
  detail.metadata["limit"] = "request_memory";
  detail.metadata["value"] = absl::StrCat(most);
  return base::MakeError(absl::StatusCode::kInvalidArgument,
                         absl::StrCat("the request would take more than ", most >> 20,
                                      " MiB of memory, as many small parts do; send fewer entries at a time"),
                         std::move(detail));
}

}  // namespace

bool CallMemory::Weigh(int64_t bytes) {
  const int64_t limit = guard_ == nullptr ? 0 : guard_->limit();
  // With a small limit, a request gets at most a share that leaves room for others.
  const int64_t most = limit == 0 ? kMostRequestMemory : std::min(kMostRequestMemory, limit / (2 * kRequestCopies));
  if (bytes > most) {
    refusal_ = TooLarge(most);
  } else if (guard_ != nullptr && bytes > kSmall) {
    absl::StatusOr<MemoryGuard::Promise> promise = guard_->Take(kind_, kRequestCopies * bytes);
    refusal_ = promise.status();
    if (promise.ok()) promise_ = *std::move(promise);
  }
  return refusal_.ok();
}

void BeginCall(CallMemory* call) {
  to_be_parsed = call;
}

grpc::Status ParseWithinMemory(grpc::ByteBuffer* bytes, const MessageMemory& memory,
                               google::protobuf::Message* message) {
  CallMemory* const call = std::exchange(to_be_parsed, nullptr);
  if (bytes == nullptr) return grpc::Status(grpc::StatusCode::INTERNAL, "No payload");
  int64_t weight = 0;
  {
    grpc::ProtoBufferReader reader(bytes);
    if (!reader.status().ok()) return reader.status();
    google::protobuf::io::CodedInputStream in(&reader);
    weight = memory.Of(&in, kMostRequestMemory + 1);
  }
  if (call == nullptr ? weight > kMostRequestMemory : !call->Weigh(weight)) {
    bytes->Clear();
    return call != nullptr ? grpc::Status::OK : grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "too large");
  }
  return grpc::GenericDeserialize<grpc::ProtoBufferReader, google::protobuf::Message>(bytes, message);
}

}  // namespace luthier::service
