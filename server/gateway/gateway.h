#ifndef LUTHIER_SERVER_GATEWAY_GATEWAY_H_
#define LUTHIER_SERVER_GATEWAY_GATEWAY_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "server/access/access.h"
#include "server/service/calls.h"

namespace luthier::gateway {

// Bounds on what callers may take; docs/reference/http.md lists them.
inline constexpr std::size_t kMaxConnections = 2048;  // The oldest idle one makes room for a new one.
inline constexpr std::size_t kMaxHeadBytes = std::size_t{16} << 10;
inline constexpr std::size_t kMaxBodyBytes = std::size_t{4} << 20;
inline constexpr absl::Duration kIdlePatience = absl::Seconds(60);   // Between two requests.
inline constexpr absl::Duration kWritePatience = absl::Seconds(30);  // For a reader that does not read.

struct GatewayOptions {
  // Returns the certificate and the key for new connections to pages, in PEM; null: plain text.
  std::function<std::pair<std::string, std::string>()> certificate;
  // Returns true if /healthz is to answer 200.
  std::function<bool()> ready;
  // Returns the metrics for Prometheus, as text. Null: there are none.
  std::function<std::string()> metrics;
  // Returns the answer to /scale, as JSON: the slots that a pool uses and wants. `query` is what follows the '?'.
  // INVALID_ARGUMENT, saying which part of it is wrong. Null where there are no metrics.
  std::function<absl::StatusOr<std::string>(absl::string_view query)> scale;
  // OK if the peer may read the metrics at the port of a page.
  std::function<absl::Status(const access::Peer&)> may_see_metrics;
  // Hears of the end of every call: "StudyService/GetStudy", "OK", the time that it took. Null: nobody does.
  std::function<void(absl::string_view method, absl::string_view code, absl::Duration took)> ended;
  // Time for the head of a connection's first request.
  absl::Duration head_patience = absl::Seconds(10);
};

// An address serves one of these.
enum class Serves {
  kPage,       // The page, all calls, /healthz, and /metrics and /scale for those who may call; by TLS if there is a
               // certificate.
  kPlainPage,  // The same, in plain text.
  kMetrics,    // /metrics, /scale and /healthz, for everybody, in plain text.
};

// An HTTP/1.1 server that answers every call of our services by the Connect protocol, in JSON and in binary, streams
// included, and has the files of the page, and the metrics. It decides nothing: calls are those of the table
// (service/calls.h), where tokens, roles, limits and the audit are the same as for gRPC. One thread; a stream costs a
// socket, not a thread. Thread-safe.
class Gateway {
 public:
  // `calls` (null where only metrics are served) and `clock` must outlive it.
  static std::unique_ptr<Gateway> Create(GatewayOptions options, const service::Calls* calls, const base::Clock* clock);
  // Ends all calls and connections.
  virtual ~Gateway() = default;
  // Opens a port, until the end. `host`: a number, v6 without brackets; port 0: any free one. `names`: further names by
  // which browsers reach a page. Returns "http://127.0.0.1:7792", with the port that was chosen, and the first of
  // `names` if there is one. Errors: UNAVAILABLE ADDRESS_IN_USE.
  virtual absl::StatusOr<std::string> Listen(Serves what, const std::string& host, int port,
                                             const std::vector<std::string>& names = {}) = 0;
};

}  // namespace luthier::gateway

#endif  // LUTHIER_SERVER_GATEWAY_GATEWAY_H_
