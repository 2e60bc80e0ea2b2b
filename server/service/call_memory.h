#ifndef LUTHIER_SERVER_SERVICE_CALL_MEMORY_H_
#define LUTHIER_SERVER_SERVICE_CALL_MEMORY_H_

#include <google/protobuf/message.h>
#include <grpcpp/impl/codegen/message_allocator.h>
#include <grpcpp/impl/codegen/proto_buffer_writer.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/server_context.h>

#include <utility>

#include "absl/status/status.h"
#include "luthier/v1/admin_service.pb.h"
#include "luthier/v1/study_service.pb.h"
#include "luthier/v1/worker_service.pb.h"
#include "server/service/memory_guard.h"
#include "server/service/message_memory.h"

// Requests are weighed before they are parsed: a message of 4 MiB may stand for gigabytes.
namespace luthier::service {

// Bytes that a request may take once it is parsed. The largest that our programs send, an import of long curves, takes
// 60 MiB.
inline constexpr int64_t kMostRequestMemory = int64_t{96} << 20;

// Holds the memory that a call was promised, or the reason why it was refused. It lives as long as the call's messages.
class CallMemory {
 public:
  CallMemory(const MemoryGuard* guard, MemoryGuard::Kind kind) : guard_(guard), kind_(kind) {}
  virtual ~CallMemory() = default;

  // Returns why the request was not parsed: it is larger than any may be (INVALID_ARGUMENT), or than there is room for
  // now (RESOURCE_EXHAUSTED MEMORY). Its fields are then empty.
  const absl::Status& refusal() const { return refusal_; }
  // Decides whether a request that would take `bytes` may be parsed.
  bool Weigh(int64_t bytes);

  // Returns the one of a call whose messages are CallMessages; else null.
  static const CallMemory* Of(grpc::CallbackServerContext* context) {
    return dynamic_cast<const CallMemory*>(context->GetRpcAllocatorState());
  }

 private:
  const MemoryGuard* const guard_;
  const MemoryGuard::Kind kind_;
  MemoryGuard::Promise promise_;
  absl::Status refusal_;
};

// Makes the next request that this thread parses that of `call`: gRPC parses it right after it has made its messages.
void BeginCall(CallMemory* call);
// Parses the request unless it is refused. Without BeginCall only kMostRequestMemory is looked at, and a request beyond
// it is an error, which gRPC tells the caller as UNIMPLEMENTED.
grpc::Status ParseWithinMemory(grpc::ByteBuffer* bytes, const MessageMemory& memory,
                               google::protobuf::Message* message);

// Makes the messages of a method's calls. `guard` may be null, and must outlive it.
template <typename Request, typename Response>
class CallMessages final : public grpc::MessageAllocator<Request, Response> {
 public:
  CallMessages(const MemoryGuard* guard, MemoryGuard::Kind kind) : guard_(guard), kind_(kind) {}

  grpc::MessageHolder<Request, Response>* AllocateMessages() override {
    auto* const messages = new Messages(guard_, kind_);
    BeginCall(messages);
    return messages;
  }

 private:
  class Messages final : public grpc::MessageHolder<Request, Response>, public CallMemory {
   public:
    Messages(const MemoryGuard* guard, MemoryGuard::Kind kind) : CallMemory(guard, kind) {
      this->set_request(&request_);
      this->set_response(&response_);
    }
    void Release() override { delete this; }

   private:
    Request request_;
    Response response_;
  };

  const MemoryGuard* const guard_;
  const MemoryGuard::Kind kind_;
};

// Tells gRPC how our requests are read and written.
template <typename Request>
struct WeighedRequest {
  static grpc::Status Serialize(const google::protobuf::MessageLite& message, grpc::ByteBuffer* bytes, bool* own) {
    return grpc::GenericSerialize<grpc::ProtoBufferWriter, Request>(message, bytes, own);
  }
  static grpc::Status Deserialize(grpc::ByteBuffer* bytes, google::protobuf::MessageLite* message) {
    static const auto* const memory = new MessageMemory(Request::descriptor());
    return ParseWithinMemory(bytes, *memory, static_cast<Request*>(message));
  }
};

}  // namespace luthier::service

// To be used before any service is defined: gRPC looks for them there.
#define LUTHIER_WEIGHED(Request)                              \
  template <>                                                 \
  class grpc::SerializationTraits<luthier::v1::Request, void> \
      : public luthier::service::WeighedRequest<luthier::v1::Request> {};
LUTHIER_WEIGHED(CreateTokenRequest)
LUTHIER_WEIGHED(ListTokensRequest)
LUTHIER_WEIGHED(RotateTokenRequest)
LUTHIER_WEIGHED(RevokeTokenRequest)
LUTHIER_WEIGHED(CreateProjectRequest)
LUTHIER_WEIGHED(UpdateProjectRequest)
LUTHIER_WEIGHED(ListProjectsRequest)
LUTHIER_WEIGHED(ListAuditRequest)
LUTHIER_WEIGHED(CreateStudyRequest)
LUTHIER_WEIGHED(GetStudyRequest)
LUTHIER_WEIGHED(ListStudiesRequest)
LUTHIER_WEIGHED(ControlStudyRequest)
LUTHIER_WEIGHED(GetTrialRequest)
LUTHIER_WEIGHED(ListTrialsRequest)
LUTHIER_WEIGHED(EnqueueTrialsRequest)
LUTHIER_WEIGHED(UpdateStudyRequest)
LUTHIER_WEIGHED(ImportTrialsRequest)
LUTHIER_WEIGHED(RetryTrialsRequest)
LUTHIER_WEIGHED(DeleteTrialRequest)
LUTHIER_WEIGHED(SetAttributesRequest)
LUTHIER_WEIGHED(CancelTrialRequest)
LUTHIER_WEIGHED(StopTrialRequest)
LUTHIER_WEIGHED(GetTrialTableRequest)
LUTHIER_WEIGHED(ListEventsRequest)
LUTHIER_WEIGHED(GetImportanceRequest)
LUTHIER_WEIGHED(PredictRequest)
LUTHIER_WEIGHED(ExplainTrialRequest)
LUTHIER_WEIGHED(ListWorkersRequest)
LUTHIER_WEIGHED(WatchStudyRequest)
LUTHIER_WEIGHED(SuggestRequest)
LUTHIER_WEIGHED(HeartbeatRequest)
LUTHIER_WEIGHED(ReportRequest)
LUTHIER_WEIGHED(CompleteRequest)
LUTHIER_WEIGHED(FailRequest)
LUTHIER_WEIGHED(ReleaseRequest)
LUTHIER_WEIGHED(DeclareParametersRequest)
LUTHIER_WEIGHED(GetServerInfoRequest)
#undef LUTHIER_WEIGHED

#endif  // LUTHIER_SERVER_SERVICE_CALL_MEMORY_H_
