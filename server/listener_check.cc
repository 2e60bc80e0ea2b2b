#include "server/listener_check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/log.h"

namespace luthier::server {
namespace {

constexpr int kExitDeaf = 70;  // EX_SOFTWARE of sysexits.h.
constexpr int kMaxFailures = 3;

bool ReadsByte(int fd, int timeout_ms) {
  pollfd readable{fd, POLLIN, 0};
  char byte;
  return poll(&readable, 1, timeout_ms) == 1 && recv(fd, &byte, 1, 0) == 1;
}

bool Dial(int family, const sockaddr* address, socklen_t size, int timeout_ms) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool answered = connect(fd, address, size) == 0 && ReadsByte(fd, timeout_ms);
  close(fd);
  return answered;
}

}  // namespace

bool Answers(int port, absl::Duration timeout) {
  const int timeout_ms = static_cast<int>(absl::ToInt64Milliseconds(timeout));
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(static_cast<uint16_t>(port));
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (Dial(AF_INET, reinterpret_cast<const sockaddr*>(&v4), sizeof(v4), timeout_ms)) return true;
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(static_cast<uint16_t>(port));
  v6.sin6_addr = in6addr_loopback;
  return Dial(AF_INET6, reinterpret_cast<const sockaddr*>(&v6), sizeof(v6), timeout_ms);
}

ListenerCheck::ListenerCheck(int port, absl::Duration period, std::function<void()> on_deaf)
    : port_(port), period_(period), on_deaf_(std::move(on_deaf)), thread_([this] { Loop(); }) {}

ListenerCheck::~ListenerCheck() {
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.Signal();
  thread_.join();
}

void ListenerCheck::Loop() {
  int failures = 0;
  while (true) {
    {
      base::MutexLock lock(&mutex_);
      while (!stopping_ && !changed_.WaitFor(&mutex_, period_)) {
      }
      if (stopping_) return;
    }
    failures = Answers(port_, absl::Seconds(5)) ? 0 : failures + 1;
    if (failures == 0) continue;
    base::LogWarning("listener_silent", {{"port", absl::StrCat(port_)}, {"failures", absl::StrCat(failures)}});
    if (failures < kMaxFailures) continue;
    if (on_deaf_) {
      on_deaf_();
      failures = 0;
      continue;
    }
    base::LogError("listener_deaf", {{"port", absl::StrCat(port_)}, {"exit", absl::StrCat(kExitDeaf)}});
    _exit(kExitDeaf);
  }
}

}  // namespace luthier::server
