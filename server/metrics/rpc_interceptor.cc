#include "server/metrics/rpc_interceptor.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace luthier::metrics {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;

// "/luthier.v1.WorkerService/Suggest" -> "WorkerService/Suggest".
std::string ShortName(absl::string_view full) {
  const size_t slash = full.rfind('/');
  if (slash == absl::string_view::npos || slash == 0) return std::string(full);
  const size_t dot = full.rfind('.', slash);
  return std::string(full.substr(dot == absl::string_view::npos ? 1 : dot + 1));
}

class CallCounter final : public Interceptor {
 public:
  CallCounter(Metrics* metrics, const base::Clock* clock, const char* method)
      : metrics_(metrics), clock_(clock), method_(ShortName(method)), begin_(clock->Monotonic()) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const auto code = static_cast<absl::StatusCode>(methods->GetSendStatus().error_code());
      metrics_->OnCall(method_, absl::StatusCodeToString(code), clock_->Monotonic() - begin_);
    }
    methods->Proceed();
  }

 private:
  Metrics* const metrics_;
  const base::Clock* const clock_;
  const std::string method_;
  const absl::Duration begin_;
};

class Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  Factory(Metrics* metrics, const base::Clock* clock) : metrics_(metrics), clock_(clock) {}
  Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override {
    return new CallCounter(metrics_, clock_, info->method());
  }

 private:
  Metrics* const metrics_;
  const base::Clock* const clock_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> CountCalls(Metrics* metrics,
                                                                                  const base::Clock* clock) {
  return std::make_unique<Factory>(metrics, clock);
}

}  // namespace luthier::metrics
