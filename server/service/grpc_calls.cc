#include "server/service/grpc_calls.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_buffer_writer.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/rpc_service_method.h>

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "lib/wire/certificate.h"
#include "lib/wire/deadline.h"
#include "lib/wire/status.h"
#include "server/service/methods.h"

namespace luthier::service {
namespace {

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

}  // namespace

GrpcCalls::GrpcCalls(const Calls* calls) {
  using grpc::internal::RpcMethod;
  for (size_t i = 0; i < Methods().size(); ++i) {
    const Method* const method = &Methods()[i];
    AddMethod(new grpc::internal::RpcServiceMethod(
        method->path.c_str(), method->streams ? RpcMethod::SERVER_STREAMING : RpcMethod::NORMAL_RPC, nullptr));
    grpc::internal::MethodHandler* handler;
    if (method->streams) {
      handler = new grpc::internal::CallbackServerStreamingHandler<Received, grpc::ByteBuffer>(
          [calls, method](grpc::CallbackServerContext* context, const Received* received) {
            auto* const reactor = new Streaming(context);
            reactor->Carry(Start(*calls, *method, *context, *received, reactor));
            return reactor;
          });
    } else {
      handler = new grpc::internal::CallbackUnaryHandler<Received, grpc::ByteBuffer>(
          [calls, method](grpc::CallbackServerContext* context, const Received* received, grpc::ByteBuffer* reply) {
            auto* const reactor = new Unary(reply);
            reactor->Carry(Start(*calls, *method, *context, *received, reactor));
            return reactor;
          });
    }
    MarkMethodCallback(static_cast<int>(i), handler);
  }
}

}  // namespace luthier::service
