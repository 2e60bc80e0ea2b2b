#ifndef LUTHIER_WORKER_SIGNAL_WATCHER_H_
#define LUTHIER_WORKER_SIGNAL_WATCHER_H_

#include <functional>
#include <thread>

namespace luthier::worker {

// Turns SIGTERM and SIGINT into calls on a thread of its own, where any function may be called. Works for process 1 of
// a container, too, which has no default handling of signals.
class SignalWatcher {
 public:
  // Blocks both signals for the calling thread and those it starts, and ignores SIGPIPE and SIGXFSZ, so
  // that writes fail instead. Call first in main.
  static void BlockSignals();

  // `on_signal(signal, count)`: count is 1 for the first signal of either kind, then 2, …. A SIGTERM within a second of
  // another is the same one: engines send it to a worker and to the script around it, which passes it on.
  explicit SignalWatcher(std::function<void(int, int)> on_signal);
  // No call runs or comes after this.
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

 private:
  std::thread thread_;
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_SIGNAL_WATCHER_H_
