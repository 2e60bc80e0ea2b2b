#ifndef LUTHIER_SERVER_LISTENER_CHECK_H_
#define LUTHIER_SERVER_LISTENER_CHECK_H_

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "lib/base/mutex.h"
#include "server/listen_address.h"

namespace luthier::server {

// Signs of life that a check finds. The counts are totals since the start.
struct ListenerSigns {
  bool answers = false;   // A client of the listener got the server's first byte.
  bool serves = false;    // gRPC answered a connection that needed no listener. Not looked for if the first holds.
  uint64_t accepted = 0;  // Connections that the listener accepted.
  uint64_t ended = 0;     // Calls that have ended.
};

// Tells a server that is stuck from one that is overloaded. A check may wait behind clients that open connections as
// fast as they are accepted, so silence alone proves nothing. It counts only if, since the check before, the listener
// accepted nothing, or gRPC neither ended a call nor answers a connection of its own.
class Silence {
 public:
  enum class Verdict { kAnswers, kBusy, kSilent, kDeaf };
  // kDeaf: silent at three checks in a row, and at each check after that.
  Verdict Judge(const ListenerSigns& signs);
  int failures() const { return failures_; }

 private:
  int failures_ = 0;
  uint64_t accepted_ = 0;  // Count at the check before.
  uint64_t ended_ = 0;
};

// Watches that a listener still answers, since a server whose threads are stuck looks like one that nobody calls. A
// thread looks every `period`; a look may take some seconds. When the server is deaf it calls `on_deaf` (default: log,
// and exit with 70, so that a supervisor starts us again).
class ListenerCheck {
 public:
  // `look` runs on the check's thread. `name` is that of the listener, for the log.
  ListenerCheck(std::string name, std::function<ListenerSigns()> look, absl::Duration period = absl::Seconds(10),
                std::function<void()> on_deaf = nullptr);
  ~ListenerCheck();

 private:
  void Loop();

  const std::string name_;
  const std::function<ListenerSigns()> look_;
  const absl::Duration period_;
  const std::function<void()> on_deaf_;
  base::Mutex mutex_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// True if a server that listens on `bound` sends a byte to a client of HTTP/2, or of TLS. `timeout` is for connecting,
// and again for the byte. A wildcard is dialled on loopback. If the host has several addresses, one that answers is
// enough.
bool Answers(const ListenAddress& bound, absl::Duration timeout, bool tls = false);

// True if a server of HTTP/2 that is handed one end of a private pair of sockets answers a ping through the other one
// within `timeout`: it reads what arrives. `hand_over` takes over the descriptor, which does not block, and the
// client's preface.
bool Serves(const std::function<void(int fd, const std::string& received)>& hand_over, absl::Duration timeout);

}  // namespace luthier::server

#endif  // LUTHIER_SERVER_LISTENER_CHECK_H_
