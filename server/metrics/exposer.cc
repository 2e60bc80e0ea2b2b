#include "server/metrics/exposer.h"

#include <prometheus/exposer.h>

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"

namespace luthier::metrics {
namespace {

class HttpExposer final : public Exposer {
 public:
  HttpExposer(const std::string& address, const std::shared_ptr<Metrics>& metrics)
      : http_(address, /*num_threads=*/1), port_(http_.GetListeningPorts().front()) {
    http_.RegisterCollectable(metrics);
  }
  int port() const override { return port_; }

 private:
  prometheus::Exposer http_;
  const int port_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Exposer>> Exposer::Start(const std::string& host, int port,
                                                        const std::shared_ptr<Metrics>& metrics) {
  const bool v6 = host.find(':') != std::string::npos;
  const std::string address = absl::StrCat(v6 ? "[" : "", host, v6 ? "]:" : ":", port);
  // The library tells of a taken port by an exception.
  try {
    return std::make_unique<HttpExposer>(address, metrics);
  } catch (const std::exception&) {
    return base::MakeError(absl::StatusCode::kUnavailable, "ADDRESS_IN_USE",
                           absl::StrCat("can't serve metrics on ", base::Quote(address),
                                        ": the address is taken or not ours; choose another with --metrics-listen"));
  }
}

}  // namespace luthier::metrics
