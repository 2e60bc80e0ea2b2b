#ifndef LUTHIER_SERVER_METRICS_EXPOSER_H_
#define LUTHIER_SERVER_METRICS_EXPOSER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/metrics/metrics.h"

namespace luthier::metrics {

// Serves http://HOST:PORT/metrics for Prometheus until it is destroyed.
class Exposer {
 public:
  // `host`: a number, not a name; v6 without brackets. Port 0: any free one. Errors: UNAVAILABLE ADDRESS_IN_USE.
  static absl::StatusOr<std::unique_ptr<Exposer>> Start(const std::string& host, int port,
                                                        const std::shared_ptr<Metrics>& metrics);
  virtual ~Exposer() = default;
  // The port really taken.
  virtual int port() const = 0;
};

}  // namespace luthier::metrics

#endif  // LUTHIER_SERVER_METRICS_EXPOSER_H_
