#ifndef LUTHIER_SERVER_LISTENER_CHECK_H_
#define LUTHIER_SERVER_LISTENER_CHECK_H_

#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "lib/base/mutex.h"
#include "server/listen_address.h"

namespace luthier::server {

// Watches that a listener still answers. gRPC 1.51 stops accepting for ever after one "too many open files", silently.
// So a thread dials the listener every `period` and waits for the server's first byte: a bare connect succeeds even
// when the server is deaf. After three failures in a row it calls `on_deaf` (default: log, exit with 70, for a
// supervisor to start us again).
class ListenerCheck {
 public:
  // `bound`: what the server listens on, with the port really taken.
  // `tls`: the listener expects the hello of TLS.
  explicit ListenerCheck(ListenAddress bound, absl::Duration period = absl::Seconds(10),
                         std::function<void()> on_deaf = nullptr, bool tls = false);
  ~ListenerCheck();

 private:
  void Loop();

  const ListenAddress bound_;
  const absl::Duration period_;
  const std::function<void()> on_deaf_;
  const bool tls_;
  base::Mutex mutex_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// True if a server that listens on `bound` sends a byte to a client of HTTP/2, or of TLS. `timeout` is for connecting,
// and again for the byte. A wildcard is dialled on loopback. One address that answers is enough where the host has
// several.
bool Answers(const ListenAddress& bound, absl::Duration timeout, bool tls = false);

}  // namespace luthier::server

#endif  // LUTHIER_SERVER_LISTENER_CHECK_H_
