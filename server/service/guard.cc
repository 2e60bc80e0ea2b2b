#include "server/service/guard.h"

#include <grpcpp/alarm.h>

#include <memory>
#include <utility>

#include "lib/wire/status.h"

namespace luthier::service {
namespace {

class RefusedStream final : public grpc::ServerWriteReactor<v1::Event> {
 public:
  explicit RefusedStream(const absl::Status& status) { Finish(wire::ToGrpc(status)); }
  void OnDone() override { delete this; }
};

// Ends itself when it has gone off.
struct Delayed {
  grpc::Alarm alarm;
  grpc::ServerUnaryReactor* reactor;
  absl::Status status;
};

}  // namespace

grpc::ServerUnaryReactor* FinishRefused(grpc::CallbackServerContext* context, access::Refusal refusal) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  if (refusal.delay <= absl::ZeroDuration()) {
    reactor->Finish(wire::ToGrpc(refusal.status));
    return reactor;
  }
  auto* const delayed = new Delayed{{}, reactor, std::move(refusal.status)};
  delayed->alarm.Set(absl::ToChronoTime(absl::Now() + refusal.delay), [delayed](bool) {
    const std::unique_ptr<Delayed> owner(delayed);
    owner->reactor->Finish(wire::ToGrpc(owner->status));
  });
  return reactor;
}

grpc::ServerWriteReactor<v1::Event>* StreamRefused(access::Refusal refusal) {
  return new RefusedStream(refusal.status);
}

}  // namespace luthier::service
