#ifndef LUTHIER_SERVER_OPEN_CALLS_H_
#define LUTHIER_SERVER_OPEN_CALLS_H_

#include <grpcpp/support/server_interceptor.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"

namespace luthier::server {

// Counts the open calls of a gRPC server, and bounds those of one connection. HTTP/2 limits streams, but a stream that
// the client resets no longer counts there while gRPC 1.51 still holds its call. So a client that opens and resets
// streams quickly makes gRPC hold any number of calls (CVE-2023-44487). Thread-safe.
class OpenCalls {
 public:
  // `abort` is called with the peer's name, on one of gRPC's threads, when a connection has more than `max_calls` open
  // calls; once until all of them have ended. Peers on Unix sockets have no names: their calls are not bounded. `clock`
  // must outlive it.
  OpenCalls(const base::Clock* clock, int max_calls, std::function<void(const std::string& peer)> abort);

  // Goes to the server's builder. The server must not outlive this.
  std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> Interceptors();
  // Returns when no call is open, at the latest after `timeout`.
  void WaitForNone(absl::Duration timeout);
  // Returns the number of calls that have ended since the start.
  uint64_t ended() const { return ended_.load(); }

 private:
  class Call;
  class Factory;
  struct Connection {
    int calls = 0;
    bool aborted = false;
  };
  using Connections = std::unordered_map<std::string, Connection>;

  // Returns the caller's connection, for End.
  Connections::value_type* Begin(const std::string& peer);
  void End(Connections::value_type* connection);

  const base::Clock* const clock_;
  const int max_calls_;
  const std::function<void(const std::string& peer)> abort_;
  base::Mutex mutex_;
  base::CondVar none_;
  std::atomic<uint64_t> ended_{0};
  Connections connections_ ABSL_GUARDED_BY(mutex_);  // Has an entry for each connection with open calls.
};

}  // namespace luthier::server

#endif  // LUTHIER_SERVER_OPEN_CALLS_H_
