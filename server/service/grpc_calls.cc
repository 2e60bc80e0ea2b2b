#include "server/service/grpc_calls.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_buffer_writer.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/rpc_service_method.h>

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "lib/base/mutex.h"
#include "lib/wire/certificate.h"
#include "lib/wire/deadline.h"
#include "lib/wire/status.h"
#include "server/service/methods.h"
#include "server/service/reflection.h"

namespace luthier::service {
namespace {

// The time for which a conversation may be silent: it would keep a server that ends, and costs memory.
constexpr absl::Duration kSilence = absl::Seconds(10);

// The bytes of a request. They are let go when the call starts, not when it ends.
struct Received {
  mutable grpc::ByteBuffer bytes;
};

}  // namespace
}  // namespace luthier::service

template <>
class grpc::SerializationTraits<luthier::service::Received, void> {
 public:
  static Status Deserialize(ByteBuffer* bytes, luthier::service::Received* received) {
    if (!bytes->Valid()) return Status(StatusCode::INTERNAL, "No payload");
    received->bytes.Swap(bytes);
    return Status::OK;
  }
};

namespace luthier::service {
namespace {

grpc::ByteBuffer Serialized(const google::protobuf::Message& message) {
  grpc::ByteBuffer bytes;
  bool own = false;
  grpc::GenericSerialize<grpc::ProtoBufferWriter, google::protobuf::Message>(message, &bytes, &own);
  return bytes;
}

// Returns the property of gRPC's connection that has this name.
std::string PropertyOf(const grpc::CallbackServerContext& context, const char* name) {
  const auto auth = context.auth_context();
  if (!auth) return "";
  const auto values = auth->FindPropertyValues(name);
  return values.empty() ? "" : std::string(values[0].data(), values[0].size());
}

Arrival ArrivalOf(const grpc::CallbackServerContext& context) {
  Arrival arrival;
  arrival.time_left = wire::TimeUntil(context.raw_deadline());
  access::Peer& peer = arrival.peer;
  peer.address = context.peer();
  const bool unix_socket = absl::StartsWith(peer.address, "unix:");
  const size_t port = peer.address.rfind(':');
  if (!unix_socket && port != std::string::npos) peer.address.resize(port);
  const auto [begin, end] = context.client_metadata().equal_range("authorization");
  if (begin != end) peer.authorization = std::string(begin->second.data(), begin->second.size());
  if (begin != end && std::next(begin) != end) peer.authorization.reset();
  const std::string transport = PropertyOf(context, GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME);
  // The credentials of connections that our acceptor took from the coordinator's own user.
  peer.own_user = transport == "local";
  peer.secret = peer.own_user || transport == "ssl" || transport == "tls" || unix_socket;
  peer.certificate = [&context] {
    return wire::CertificateSha256(PropertyOf(context, GRPC_X509_PEM_CERT_PROPERTY_NAME)).value_or("");
  };
  return arrival;
}

// Starts the call, and lets its bytes go.
std::shared_ptr<OpenCall> Start(const Calls& calls, const Method& method, const grpc::CallbackServerContext& context,
                                const Received& received, Responder* responder) {
  grpc::ByteBuffer bytes;
  bytes.Swap(&received.bytes);
  grpc::Slice slice;
  if (!bytes.TrySingleSlice(&slice).ok()) bytes.DumpToSingleSlice(&slice);
  const absl::string_view view(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return calls.Start(method, ArrivalOf(context), view, responder);
}

class Unary final : public grpc::ServerUnaryReactor, public Responder {
 public:
  explicit Unary(grpc::ByteBuffer* reply) : reply_(reply) {}
  void Carry(std::shared_ptr<OpenCall> call) { call_ = std::move(call); }

  void Finish(const absl::Status& status, const google::protobuf::Message& reply) override {
    if (status.ok()) *reply_ = Serialized(reply);
    ServerUnaryReactor::Finish(wire::ToGrpc(status));  // May delete this.
  }
  void Write(const google::protobuf::Message&, std::function<void(bool)>) override {}
  void Abort() override {}

  void OnCancel() override { call_->Cancel(); }
  void OnDone() override { delete this; }
  // Both of these are short: gRPC need not hand them to another thread.
  bool InternalInlineable() override { return true; }

 private:
  grpc::ByteBuffer* const reply_;
  std::shared_ptr<OpenCall> call_;
};

class Streaming final : public grpc::ServerWriteReactor<grpc::ByteBuffer>, public Responder {
 public:
  explicit Streaming(grpc::CallbackServerContext* context) : context_(context) {}
  void Carry(std::shared_ptr<OpenCall> call) { call_ = std::move(call); }

  void Finish(const absl::Status& status, const google::protobuf::Message&) override {
    ServerWriteReactor::Finish(wire::ToGrpc(status));  // May delete this.
  }
  void Write(const google::protobuf::Message& message, std::function<void(bool)> written) override {
    bytes_ = Serialized(message);
    written_ = std::move(written);
    StartWrite(&bytes_);
  }
  // gRPC makes no callback on this thread before TryCancel returns.
  void Abort() override { context_->TryCancel(); }

  void OnWriteDone(bool ok) override { std::exchange(written_, nullptr)(ok); }
  void OnCancel() override { call_->Cancel(); }
  void OnDone() override { delete this; }

 private:
  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer bytes_;
  std::function<void(bool)> written_;
  std::shared_ptr<OpenCall> call_;
};

// A stream of requests, each of which is a call, and is answered before the next one is read. An error of a call ends
// the conversation.
class Conversation final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>, public Responder {
 public:
  Conversation(const Calls* calls, const Method* method, grpc::CallbackServerContext* context)
      : calls_(calls), method_(method), context_(context) {
    Listen();
  }

  void OnReadDone(bool ok) override {
    if (!silence_->End()) return;
    silence_->alarm.Cancel();
    if (!ok) return ServerBidiReactor::Finish(grpc::Status::OK);
    if (++requests_ > kMaxReflectionRequests) {
      return ServerBidiReactor::Finish(wire::ToGrpc(absl::ResourceExhaustedError(
          absl::StrCat("the stream had ", kMaxReflectionRequests, " requests; open another one"))));
    }
    Received received;
    received.bytes.Swap(&bytes_);
    call_ = Start(*calls_, *method_, *context_, received, this);
  }
  void OnWriteDone(bool ok) override {
    call_.reset();
    ok ? Listen() : ServerBidiReactor::Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override { delete this; }

  void Finish(const absl::Status& status, const google::protobuf::Message& reply) override {
    if (!status.ok()) return ServerBidiReactor::Finish(wire::ToGrpc(status));  // May delete this.
    answer_ = Serialized(reply);
    StartWrite(&answer_);
  }
  void Write(const google::protobuf::Message&, std::function<void(bool)>) override {}
  void Abort() override {}

 private:
  // The wait for the next request, which a request ends, or its alarm. The alarm may outlive the conversation.
  struct Silence {
    // Returns true to the first of the two alone.
    bool End() {
      const base::MutexLock lock(&mutex);
      return !std::exchange(ended, true);
    }

    base::Mutex mutex;
    bool ended ABSL_GUARDED_BY(mutex) = false;
    grpc::Alarm alarm;
  };

  // Reads the next request, or ends the conversation if none comes. Until Finish is called, gRPC keeps this.
  void Listen() {
    silence_ = std::make_shared<Silence>();
    silence_->alarm.Set(wire::DeadlineIn(kSilence), [this, kept = silence_](bool) mutable {
      const std::shared_ptr<Silence> silence = std::exchange(kept, nullptr);
      if (!silence->End()) return;
      ServerBidiReactor::Finish(wire::ToGrpc(absl::DeadlineExceededError(
          absl::StrCat("no request came for ", absl::FormatDuration(kSilence), "; open another stream"))));
    });
    StartRead(&bytes_);
  }

  const Calls* const calls_;
  const Method* const method_;
  grpc::CallbackServerContext* const context_;
  int requests_ = 0;
  grpc::ByteBuffer bytes_, answer_;
  std::shared_ptr<Silence> silence_;
  std::shared_ptr<OpenCall> call_;
};

}  // namespace

GrpcCalls::GrpcCalls(const Calls* calls) {
  using grpc::internal::RpcMethod;
  int added = 0;
  const auto add = [&](const Method& method, RpcMethod::RpcType type, grpc::internal::MethodHandler* handler) {
    AddMethod(new grpc::internal::RpcServiceMethod(method.path.c_str(), type, nullptr));
    MarkMethodCallback(added++, handler);
  };
  for (const Method& row : Methods()) {
    const Method* const method = &row;
    if (method->streams) {
      add(row, RpcMethod::SERVER_STREAMING,
          new grpc::internal::CallbackServerStreamingHandler<Received, grpc::ByteBuffer>(
              [calls, method](grpc::CallbackServerContext* context, const Received* received) {
                auto* const reactor = new Streaming(context);
                reactor->Carry(Start(*calls, *method, *context, *received, reactor));
                return reactor;
              }));
    } else {
      add(row, RpcMethod::NORMAL_RPC,
          new grpc::internal::CallbackUnaryHandler<Received, grpc::ByteBuffer>(
              [calls, method](grpc::CallbackServerContext* context, const Received* received, grpc::ByteBuffer* reply) {
                auto* const reactor = new Unary(reply);
                reactor->Carry(Start(*calls, *method, *context, *received, reactor));
                return reactor;
              }));
    }
  }
  for (const Method& row : ReflectionMethods()) {
    const Method* const method = &row;
    add(row, RpcMethod::BIDI_STREAMING,
        new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
            [calls, method](grpc::CallbackServerContext* context) {
              return new Conversation(calls, method, context);
            }));
  }
}

}  // namespace luthier::service
