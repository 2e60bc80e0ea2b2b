#include "worker/signal_watcher.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace luthier::worker {
namespace {

constexpr int kEnd = SIGUSR1;  // Sent to the watcher's own thread only.

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
}

SignalWatcher::SignalWatcher(std::function<void(int, int)> on_signal)
    : thread_([on_signal = std::move(on_signal)] {
        const sigset_t set = Watched();
        int count = 0;
        for (;;) {
          siginfo_t info;
          const int signal = sigwaitinfo(&set, &info);
          if (signal == kEnd && info.si_pid == getpid()) return;
          if (signal == SIGTERM || signal == SIGINT) on_signal(signal, ++count);
        }
      }) {}

SignalWatcher::~SignalWatcher() {
  pthread_kill(thread_.native_handle(), kEnd);
  thread_.join();
}

}  // namespace luthier::worker
