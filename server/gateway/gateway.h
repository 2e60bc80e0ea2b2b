#ifndef LUTHIER_SERVER_GATEWAY_GATEWAY_H_
#define LUTHIER_SERVER_GATEWAY_GATEWAY_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "server/service/calls.h"

namespace luthier::gateway {

// Bounds on what callers may take; docs/reference/http.md lists them.
inline constexpr std::size_t kMaxConnections = 2048;  // The oldest idle one makes room for a new one.
inline constexpr std::size_t kMaxHeadBytes = std::size_t{16} << 10;
inline constexpr std::size_t kMaxBodyBytes = std::size_t{4} << 20;
inline constexpr absl::Duration kHeadPatience = absl::Seconds(10);   // For the head of a request that has begun.
inline constexpr absl::Duration kIdlePatience = absl::Seconds(60);   // Between two requests.
inline constexpr absl::Duration kWritePatience = absl::Seconds(30);  // For a reader that does not read.

struct GatewayOptions {
  std::string host;  // A number, or "localhost"; v6 without brackets.
  int port = 0;      // 0: any free one.
  std::vector<std::string> other_hosts;
  // Returns the certificate and the key for new connections, in PEM; null: plain text.
  std::function<std::pair<std::string, std::string>()> certificate;
  // Returns true if /healthz is to answer 200.
  std::function<bool()> ready;
  // Hears of the end of every call: "StudyService/GetStudy", "OK", the time that it took. Null: nobody does.
  std::function<void(absl::string_view method, absl::string_view code, absl::Duration took)> ended;
};

// An HTTP/1.1 server that answers every call of our services by the Connect protocol, in JSON and in binary, streams
// included, and has the files of the page. It decides nothing: calls are those of the table (service/calls.h), where
// tokens, roles, limits and the audit are the same as for gRPC. One thread; a stream costs a socket, not a thread.
class Gateway {
 public:
  // `calls` and `clock` must outlive it. Errors: UNAVAILABLE ADDRESS_IN_USE.
  static absl::StatusOr<std::unique_ptr<Gateway>> Start(GatewayOptions options, const service::Calls* calls,
                                                        const base::Clock* clock);
  // Ends all calls and connections.
  virtual ~Gateway() = default;
  // Returns "http://127.0.0.1:7792", with the port that was chosen.
  virtual std::string url() const = 0;
};

}  // namespace luthier::gateway

#endif  // LUTHIER_SERVER_GATEWAY_GATEWAY_H_
