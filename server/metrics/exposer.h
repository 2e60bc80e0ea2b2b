#ifndef LUTHIER_SERVER_METRICS_EXPOSER_H_
#define LUTHIER_SERVER_METRICS_EXPOSER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "server/metrics/metrics.h"

namespace luthier::metrics {

// Bounds on what callers may take; docs/reference/api.md lists them.
inline constexpr size_t kMaxConnections = 64;  // The oldest one makes room for a new one.
inline constexpr size_t kMaxRequestBytes = size_t{8} << 10;
inline constexpr absl::Duration kPatience = absl::Seconds(5);  // Limit for the request, and again for the reply.

// Serves http://HOST:PORT/metrics for Prometheus until it is destroyed: one thread, one request a connection, GET only.
// A client that sends half a request, or does not read the reply, delays no other.
class Exposer {
 public:
  // `host`: a number, not a name; v6 without brackets. Port 0: any free one. `clock` must outlive it. Errors:
  // UNAVAILABLE ADDRESS_IN_USE.
  static absl::StatusOr<std::unique_ptr<Exposer>> Start(const std::string& host, int port,
                                                        std::shared_ptr<const Metrics> metrics,
                                                        const base::Clock* clock);
  virtual ~Exposer() = default;
  // Returns the port that was chosen.
  virtual int port() const = 0;
};

}  // namespace luthier::metrics

#endif  // LUTHIER_SERVER_METRICS_EXPOSER_H_
