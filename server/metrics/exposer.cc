#include "server/metrics/exposer.h"

#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <list>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/descriptor.h"
#include "lib/base/error.h"
#include "lib/base/log.h"

namespace luthier::metrics {
namespace {

using base::Descriptor;

// Time between two checks of patience while somebody is connected.
constexpr int kTickMs = 100;

std::string Reply(absl::string_view status, absl::string_view body) {
  return absl::StrCat("HTTP/1.1 ", status,
                      "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: ", body.size(),
                      "\r\nConnection: close\r\n\r\n", body);
}

struct Connection {
  Descriptor fd;
  absl::Duration deadline;
  std::string request = "";
  std::string reply = "";  // Empty while the request is not complete.
  size_t sent = 0;
};

class HttpExposer final : public Exposer {
 public:
  HttpExposer(Descriptor listener, int port, std::shared_ptr<const Metrics> metrics, const base::Clock* clock)
      : listener_(std::move(listener)),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        port_(port),
        metrics_(std::move(metrics)),
        clock_(clock),
        thread_([this] { Loop(); }) {}
  ~HttpExposer() override {
    const uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof(one));
    thread_.join();
  }
  int port() const override { return port_; }

 private:
  void Loop() {
    while (true) {
      std::vector<pollfd> waits = {{wake_.get(), POLLIN, 0}, {accepting_ ? listener_.get() : -1, POLLIN, 0}};
      for (const Connection& c : connections_) {
        waits.push_back({c.fd.get(), static_cast<short>(c.reply.empty() ? POLLIN : POLLOUT), 0});
      }
      const bool idle = connections_.empty() && accepting_;
      if (poll(waits.data(), waits.size(), idle ? -1 : kTickMs) < 0 && errno != EINTR) {
        base::LogError("metrics_poll", {{"errno", absl::StrCat(errno)}});
        return;
      }
      if (waits[0].revents != 0) return;
      accepting_ = true;
      size_t i = 2;
      for (auto c = connections_.begin(); c != connections_.end(); ++i) {
        const bool over = (waits[i].revents != 0 && !GoOn(*c)) || clock_->Monotonic() >= c->deadline;
        c = over ? connections_.erase(c) : std::next(c);
      }
      if (waits[1].revents != 0) Accept();
    }
  }

  void Accept() {
    while (true) {
      Descriptor fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (fd.get() < 0) {
        // No descriptor is left, or worse: accepting is tried again after a tick.
        if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) accepting_ = false;
        if (errno == ECONNABORTED || errno == EINTR) continue;
        return;
      }
      if (connections_.size() == kMaxConnections) connections_.pop_front();
      connections_.push_back({std::move(fd), clock_->Monotonic() + kPatience});
    }
  }

  // Reads and writes. False: the connection is over.
  bool GoOn(Connection& c) {
    if (c.reply.empty()) {
      char buffer[4096];
      const ssize_t n = recv(c.fd.get(), buffer, sizeof(buffer), 0);
      if (n <= 0) return n < 0 && (errno == EAGAIN || errno == EINTR);
      c.request.append(buffer, static_cast<size_t>(n));
      c.reply = Answer(c.request);
      if (c.reply.empty()) return true;
      c.deadline = clock_->Monotonic() + kPatience;
    }
    const ssize_t n = send(c.fd.get(), c.reply.data() + c.sent, c.reply.size() - c.sent, MSG_NOSIGNAL);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    c.sent += static_cast<size_t>(n);
    if (c.sent < c.reply.size()) return true;
    shutdown(c.fd.get(), SHUT_WR);
    return false;
  }

  // Returns the reply; "" while the request is not complete.
  std::string Answer(absl::string_view request) const {
    if (request.size() > kMaxRequestBytes) return Reply("431 Request Header Fields Too Large", "");
    if (!absl::StrContains(request, "\r\n\r\n") && !absl::StrContains(request, "\n\n")) return "";
    const std::vector<absl::string_view> line = absl::StrSplit(request.substr(0, request.find_first_of("\r\n")), ' ');
    if (line.size() != 3 || !absl::StartsWith(line[2], "HTTP/1.")) return Reply("400 Bad Request", "");
    if (line[0] != "GET") return Reply("405 Method Not Allowed", "");
    if (line[1].substr(0, line[1].find('?')) != "/metrics") return Reply("404 Not Found", "See /metrics.\n");
    return Reply("200 OK", metrics_->Text());
  }

  const Descriptor listener_;
  const Descriptor wake_;
  const int port_;
  const std::shared_ptr<const Metrics> metrics_;
  const base::Clock* const clock_;
  // Used by the thread alone. In order of arrival.
  std::list<Connection> connections_;
  bool accepting_ = true;
  std::thread thread_;
};

int PortOf(int fd) {
  sockaddr_storage address;
  socklen_t size = sizeof(address);
  char port[16];
  const bool known = getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
                     getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, nullptr, 0, port, sizeof(port),
                                 NI_NUMERICSERV) == 0;
  return known ? std::atoi(port) : 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Exposer>> Exposer::Start(const std::string& host, int port,
                                                        std::shared_ptr<const Metrics> metrics,
                                                        const base::Clock* clock) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found) == 0) {
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, freeaddrinfo);
    Descriptor fd(socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int yes = 1;
    if (fd.get() >= 0 && setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
        bind(fd.get(), list->ai_addr, list->ai_addrlen) == 0 && listen(fd.get(), SOMAXCONN) == 0) {
      const int taken = PortOf(fd.get());
      return std::make_unique<HttpExposer>(std::move(fd), taken, std::move(metrics), clock);
    }
  }
  const bool v6 = absl::StrContains(host, ":");
  return base::MakeError(
      absl::StatusCode::kUnavailable, "ADDRESS_IN_USE",
      absl::StrCat("can't serve metrics on ", base::Quote(absl::StrCat(v6 ? "[" : "", host, v6 ? "]:" : ":", port)),
                   ": the address is taken or not ours; choose another with --metrics-listen"));
}

}  // namespace luthier::metrics
