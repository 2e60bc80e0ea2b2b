#include "server/open_calls.h"

#include <grpcpp/server_context.h>

#include <utility>

#include "absl/strings/match.h"

namespace luthier::server {

using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerInterceptorFactoryInterface;

// Lives as long as the call.
class OpenCalls::Call final : public Interceptor {
 public:
  Call(OpenCalls* calls, const std::string& peer) : calls_(calls), connection_(calls->Begin(peer)) {}
  ~Call() override { calls_->End(connection_); }
  void Intercept(InterceptorBatchMethods* methods) override { methods->Proceed(); }

 private:
  OpenCalls* const calls_;
  Connections::value_type* const connection_;
};

class OpenCalls::Factory final : public ServerInterceptorFactoryInterface {
 public:
  explicit Factory(OpenCalls* calls) : calls_(calls) {}
  Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override {
    return new Call(calls_, info->server_context()->peer());
  }

 private:
  OpenCalls* const calls_;
};

OpenCalls::OpenCalls(const base::Clock* clock, int max_calls, std::function<void(const std::string& peer)> abort)
    : clock_(clock), max_calls_(max_calls), abort_(std::move(abort)) {}

std::unique_ptr<ServerInterceptorFactoryInterface> OpenCalls::Interceptors() {
  return std::make_unique<Factory>(this);
}

void OpenCalls::WaitForNone(absl::Duration timeout) {
  const absl::Duration end = clock_->Monotonic() + timeout;
  const base::MutexLock lock(&mutex_);
  while (!connections_.empty()) {
    const absl::Duration left = end - clock_->Monotonic();
    if (left <= absl::ZeroDuration() || none_.WaitFor(&mutex_, left)) return;
  }
}

OpenCalls::Connections::value_type* OpenCalls::Begin(const std::string& peer) {
  Connections::value_type* connection;
  {
    const base::MutexLock lock(&mutex_);
    connection = &*connections_.try_emplace(peer).first;
    Connection& entry = connection->second;
    if (++entry.calls <= max_calls_ || entry.aborted || absl::StartsWith(peer, "unix")) return connection;
    entry.aborted = true;
  }
  abort_(peer);
  return connection;
}

void OpenCalls::End(Connections::value_type* connection) {
  ++ended_;
  const base::MutexLock lock(&mutex_);
  if (--connection->second.calls > 0) return;
  connections_.erase(connections_.find(connection->first));
  if (connections_.empty()) none_.SignalAll();
}

}  // namespace luthier::server
