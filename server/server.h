#ifndef LUTHIER_SERVER_SERVER_H_
#define LUTHIER_SERVER_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lib/search/designer.h"
#include "lib/study/study_spec.h"
#include "server/access/access.h"
#include "server/tls.h"

namespace luthier::server {

struct ServerOptions {
  // Directory with the database; created when missing. Empty: everything in memory, gone at the end.
  std::string data_dir;
  // "host:port" (port 0: any free one) or "unix:/path". Empty: no listener.
  std::string listen = "localhost:7790";
  // Encryption of that "host:port", and of the page; a Unix socket needs none.
  TlsFiles tls;
  // True allows plain text beyond loopback.
  bool accept_plaintext = false;
  // Callers that need a token. Without a data directory there are no tokens: kAuto then means kOff on loopback.
  access::Auth auth = access::Auth::kAuto;
  // True keeps tokens and projects although no listener asks for them.
  bool keep_tokens = false;
  // True keeps the database even on a network file system, whose locks can't be trusted.
  bool force_network_filesystem = false;
  int suggest_threads = 2;
  // Time that asks wait for the model of one study while other studies wait for suggestions, too; then they get a point
  // that needs none. At least 0.1 s.
  absl::Duration suggest_deadline = absl::Seconds(10);
  // Bytes that the process may use: service::MemoryGuard. 0: no limit.
  int64_t memory_limit = 0;
  // "host:port" for Prometheus (http, /metrics; port 0: any free one); the host as a number, or "localhost". Beyond
  // loopback only with `accept_plaintext`. Empty: none.
  std::string metrics_listen;
  // "host:port" of the page and of all calls over HTTP (port 0: any free one); the host as a number, or "localhost".
  // TLS as `listen`; beyond loopback only with it, or with `accept_plaintext`. Every call needs a token, unless `auth`
  // is kOff. Empty: none.
  std::string http_listen;
  // Further names of the machine, without ports, by which browsers reach `http_listen`.
  std::vector<std::string> http_hosts;
  // Time for which Stop still accepts results before it refuses everything. Callers are then told UNAVAILABLE DRAINING;
  // a call that meets the closing of its connection is UNAVAILABLE, without a reason.
  absl::Duration farewell = absl::ZeroDuration();
  // Longest time that Stop waits for calls under way.
  absl::Duration grace = absl::Seconds(3);
  // A connection with more open calls is closed: OpenCalls. It is twice the number of streams that a connection may
  // have open, so that only clients that reset streams exceed it.
  int calls_per_connection = 2000;
  // Makes the designers of studies; null: search::CreateDesigner. Tests bring their own.
  std::function<std::unique_ptr<search::Designer>(const study::StudySpec&)> designers;
};

// A whole coordinator: storage, core, threads and the gRPC listener. Start opens and serves; Stop (and the destructor)
// refuses new asks, commits what is queued, closes the listener, then the database. Thread-safe.
class Server {
 public:
  // Errors: FAILED_PRECONDITION (directory locked by another process, not our database, newer format), INVALID_ARGUMENT
  // (addresses; plain text beyond loopback), UNAVAILABLE (port in use), DATA_LOSS (corrupt database).
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options);
  virtual ~Server() = default;

  // Returns what clients dial: "host:port" with the port that was chosen, or "unix:/path".
  virtual std::string address() const = 0;
  // Returns "host:port" of the metrics; empty if there are none.
  virtual std::string metrics_address() const = 0;
  // Returns "http://host:port" of the page; empty if there is none.
  virtual std::string http_url() const = 0;
  virtual void Stop() = 0;
};

}  // namespace luthier::server

#endif  // LUTHIER_SERVER_SERVER_H_
