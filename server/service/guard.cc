#include "server/service/guard.h"

#include <grpcpp/alarm.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "absl/time/clock.h"
#include "lib/wire/deadline.h"
#include "lib/wire/status.h"

namespace luthier::service {
namespace {

class RefusedStream final : public grpc::ServerWriteReactor<v1::Event> {
 public:
  void OnDone() override { delete this; }
};

// Ends a call after the refusal's delay; deletes itself when it has gone off.
template <typename Reactor>
void FinishLater(Reactor* reactor, const access::Refusal& refusal) {
  if (refusal.delay <= absl::ZeroDuration()) return reactor->Finish(wire::ToGrpc(refusal.status));
  auto* const alarm = new grpc::Alarm;
  alarm->Set(wire::DeadlineIn(refusal.delay), [alarm, reactor, status = refusal.status](bool) {
    const std::unique_ptr<grpc::Alarm> owner(alarm);
    reactor->Finish(wire::ToGrpc(status));
  });
}

}  // namespace

MemoryGuard::Kind MemoryKindOf(absl::string_view method) {
  static constexpr absl::string_view kEnding[] = {
      "Heartbeat",   "Report",    "Complete",    "Fail",        "Release",     "DeclareParameters", "PauseStudy",
      "ResumeStudy", "StopStudy", "CancelStudy", "DeleteStudy", "DeleteTrial", "CancelTrial",       "StopTrial"};
  return std::find(std::begin(kEnding), std::end(kEnding), method) != std::end(kEnding) ? MemoryGuard::Kind::kEnding
                                                                                        : MemoryGuard::Kind::kWork;
}

grpc::ServerUnaryReactor* FinishRefused(grpc::CallbackServerContext* context, const access::Refusal& refusal) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  FinishLater(reactor, refusal);
  return reactor;
}

grpc::ServerWriteReactor<v1::Event>* StreamRefused(const access::Refusal& refusal) {
  auto* const reactor = new RefusedStream;
  FinishLater(reactor, refusal);
  return reactor;
}

}  // namespace luthier::service
