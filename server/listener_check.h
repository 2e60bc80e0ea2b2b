#ifndef LUTHIER_SERVER_LISTENER_CHECK_H_
#define LUTHIER_SERVER_LISTENER_CHECK_H_

#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "lib/base/mutex.h"

namespace luthier::server {

// gRPC 1.51 stops accepting for ever after one "too many open files", silently. So a thread dials our own port every
// `period` and waits for the server's first byte; a bare connect succeeds even when the server is deaf. After three
// failures in a row it calls `on_deaf` (default: log, exit with 70, for a supervisor to start us again).
class ListenerCheck {
 public:
  explicit ListenerCheck(int port, absl::Duration period = absl::Seconds(10), std::function<void()> on_deaf = nullptr);
  ~ListenerCheck();

 private:
  void Loop();

  const int port_;
  const absl::Duration period_;
  const std::function<void()> on_deaf_;
  base::Mutex mutex_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// Whether a server on loopback `port` sends a byte within `timeout`.
bool Answers(int port, absl::Duration timeout);

}  // namespace luthier::server

#endif  // LUTHIER_SERVER_LISTENER_CHECK_H_
