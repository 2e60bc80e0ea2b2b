#include "worker/signal_watcher.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "absl/time/time.h"
#include "lib/base/clock.h"

namespace luthier::worker {
namespace {

constexpr int kEnd = SIGUSR1;  // Sent to the watcher's own thread only.
constexpr absl::Duration kSameTerm = absl::Seconds(1);

sigset_t Watched() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, kEnd}) sigaddset(&set, signal);
  return set;
}

}  // namespace

void SignalWatcher::BlockSignals() {
  const sigset_t set = Watched();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

SignalWatcher::SignalWatcher(std::function<void(int, int)> on_signal)
    : thread_([on_signal = std::move(on_signal)] {
        const sigset_t set = Watched();
        const base::SystemClock clock;
        int count = 0;
        absl::Duration terminated = -absl::InfiniteDuration();
        for (;;) {
          siginfo_t info;
          const int signal = sigwaitinfo(&set, &info);
          if (signal == kEnd && info.si_pid == getpid()) return;
          if (signal == SIGTERM) {
            const absl::Duration before = std::exchange(terminated, clock.Monotonic());
            if (terminated - before < kSameTerm) continue;
          }
          if (signal == SIGTERM || signal == SIGINT) on_signal(signal, ++count);
        }
      }) {}

SignalWatcher::~SignalWatcher() {
  pthread_kill(thread_.native_handle(), kEnd);
  thread_.join();
}

}  // namespace luthier::worker
