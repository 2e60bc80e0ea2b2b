#include "server/acceptor.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <list>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/descriptor.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/log_limit.h"
#include "lib/base/status_macros.h"

namespace luthier::server {
namespace {

using base::Descriptor;

constexpr absl::string_view kMagic = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr size_t kFrameHead = 9;
constexpr size_t kFrameType = 3;  // Its position in the head.
constexpr char kSettings = 4;
// A record of TLS: its kind, two bytes of version, two of length; then the kind of its first message.
constexpr size_t kHelloHead = 6;
constexpr char kHandshakeRecord = 22;
constexpr char kTlsMajor = 3;
constexpr char kClientHello = 1;
constexpr int kReserve = 256;
// Time between two checks of patience while a preface is awaited.
constexpr int kTickMs = 100;
constexpr int kUserTimeoutMs = 10'000;  // Limit for sent bytes that are not acknowledged.

absl::Status Taken(const ListenAddress& address) {
  return base::MakeError(absl::StatusCode::kUnavailable, "ADDRESS_IN_USE",
                         absl::StrCat("can't listen on ", base::Quote(address.Target()),
                                      ": the address is taken or not ours; choose another with --listen"));
}

int MaxDescriptors() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > INT32_MAX) return INT32_MAX;
  const int all = static_cast<int>(limit.rlim_cur);
  return std::max(all - kReserve, all / 2);
}

int PortOf(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

// Returns the address of the other end, without the port. "": a process on this machine, by a Unix socket.
std::string PeerOf(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return std::string(reinterpret_cast<const char*>(&v4.sin_addr), sizeof(v4.sin_addr));
  }
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    return std::string(reinterpret_cast<const char*>(&v6.sin6_addr), sizeof(v6.sin6_addr));
  }
  return "";
}

absl::StatusOr<Descriptor> ListenUnix(const ListenAddress& address) {
  struct stat info;
  // A socket file on which nobody listens was left behind: CheckFree has checked that.
  if (stat(address.path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode)) unlink(address.path.c_str());
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, address.path.data(), std::min(address.path.size(), sizeof(name.sun_path) - 1));
  Descriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd.get() < 0 || bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0 ||
      listen(fd.get(), SOMAXCONN) != 0) {
    return errno == EADDRINUSE ? Taken(address) : CannotListen(address, errno);
  }
  return fd;
}

// Returns a listening descriptor, invalid if the address can't be had. Connections inherit the options.
Descriptor ListenTcp(const addrinfo& address, int port, bool both_families) {
  Descriptor fd(socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return fd;
  const auto set = [&](int level, int name, int value) { setsockopt(fd.get(), level, name, &value, sizeof(value)); };
  set(SOL_SOCKET, SO_REUSEADDR, 1);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
  sockaddr_storage name = {};
  std::memcpy(&name, address.ai_addr, address.ai_addrlen);
  if (address.ai_family == AF_INET6) {
    set(IPPROTO_IPV6, IPV6_V6ONLY, both_families ? 0 : 1);
    reinterpret_cast<sockaddr_in6*>(&name)->sin6_port = htons(static_cast<uint16_t>(port));
  } else {
    reinterpret_cast<sockaddr_in*>(&name)->sin_port = htons(static_cast<uint16_t>(port));
  }
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), address.ai_addrlen) != 0 ||
      listen(fd.get(), SOMAXCONN) != 0) {
    return Descriptor(-1);
  }
  return fd;
}

struct Bound {
  std::vector<Descriptor> listeners;
  int port = 0;
};

// Binds all addresses of the host on one port. A wildcard stands for both families, as it does for gRPC.
absl::StatusOr<Bound> BindTcp(const ListenAddress& address) {
  const bool wildcard = address.host == "0.0.0.0" || address.host == "::";
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(wildcard ? "::" : address.host.c_str(), "0", &hints, &found) != 0) return Taken(address);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, freeaddrinfo);
  Bound bound;
  bound.port = address.port;
  for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
    Descriptor fd = ListenTcp(*a, bound.port, wildcard);
    if (fd.get() < 0 && errno == EADDRINUSE) return Taken(address);
    if (fd.get() < 0) continue;  // No IPv6 here.
    bound.port = PortOf(fd.get());
    bound.listeners.push_back(std::move(fd));
  }
  return bound;
}

absl::StatusOr<Bound> Bind(const ListenAddress& address) {
  constexpr int kAttempts = 16;  // A port that is free for one address of a name may be in use for another.
  if (address.unix_socket()) {
    LUTHIER_ASSIGN_OR_RETURN(Descriptor fd, ListenUnix(address));
    Bound bound;
    bound.listeners.push_back(std::move(fd));
    return bound;
  }
  absl::StatusOr<Bound> bound = BindTcp(address);
  for (int i = 1; i < kAttempts && address.port == 0 && !bound.ok(); ++i) bound = BindTcp(address);
  if (bound.ok() && bound->listeners.empty() && address.host == "0.0.0.0") {
    addrinfo v4 = {};
    sockaddr_in any = {};
    any.sin_family = AF_INET;
    v4.ai_family = AF_INET;
    v4.ai_addr = reinterpret_cast<sockaddr*>(&any);
    v4.ai_addrlen = sizeof(any);
    Descriptor fd = ListenTcp(v4, address.port, false);
    if (fd.get() >= 0) {
      bound->port = PortOf(fd.get());
      bound->listeners.push_back(std::move(fd));
    }
  }
  if (bound.ok() && bound->listeners.empty()) return Taken(address);
  return bound;
}

// A connection whose preface is not finished.
struct Connection {
  Descriptor fd;
  std::string peer;
  absl::Duration deadline;
  std::string received = "";
};

class AcceptorImpl final : public Acceptor {
 public:
  AcceptorImpl(Bound bound, ListenAddress address, const base::Clock* clock, const AcceptorOptions& options)
      : listeners_(std::move(bound.listeners)),
        bound_(std::move(address)),
        clock_(clock),
        options_(options),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    bound_.port = bound.port;
    if (bound_.unix_socket()) lstat(bound_.path.c_str(), &file_);
    if (options_.max_descriptors == 0) options_.max_descriptors = MaxDescriptors();
    options_.unfinished = std::min(options_.unfinished, std::max(1, options_.max_descriptors / 2));
  }
  ~AcceptorImpl() override {
    const uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof(one));
    if (thread_.joinable()) thread_.join();
    if (bound_.unix_socket() && LookForSocket() == SocketFile::kInPlace) unlink(bound_.path.c_str());
  }

  SocketFile LookForSocket() const override {
    if (!bound_.unix_socket()) return SocketFile::kInPlace;
    struct stat info;
    if (lstat(bound_.path.c_str(), &info) != 0) return SocketFile::kMissing;
    const bool same = info.st_dev == file_.st_dev && info.st_ino == file_.st_ino;
    return same ? SocketFile::kInPlace : SocketFile::kReplaced;
  }

  const ListenAddress& bound() const override { return bound_; }
  void Start(HandOver hand_over) override {
    hand_over_ = std::move(hand_over);
    thread_ = std::thread([this] { Loop(); });
  }

 private:
  enum class Preface { kUnfinished, kFinished, kWrong };

  void Loop() {
    bool accepting = true;
    while (true) {
      std::vector<pollfd> waits = {{wake_.get(), POLLIN, 0}};
      for (const Descriptor& listener : listeners_) waits.push_back({accepting ? listener.get() : -1, POLLIN, 0});
      for (const Connection& c : unfinished_) waits.push_back({c.fd.get(), POLLIN, 0});
      const bool idle = unfinished_.empty() && accepting;
      if (poll(waits.data(), waits.size(), idle ? -1 : kTickMs) < 0 && errno != EINTR) {
        base::LogError("listener_poll", {{"error", std::strerror(errno)}});
        return;  // The self-check then ends the process.
      }
      if (waits[0].revents != 0) return;
      size_t i = 1 + listeners_.size();
      for (auto c = unfinished_.begin(); c != unfinished_.end(); ++i) {
        const auto next = std::next(c);
        if (waits[i].revents != 0)
          GoOn(c);
        else if (clock_->Monotonic() >= c->deadline)
          Drop(c);
        c = next;
      }
      accepting = true;
      for (size_t k = 0; k < listeners_.size(); ++k) {
        if (waits[1 + k].revents != 0) accepting = Accept(listeners_[k].get()) && accepting;
      }
    }
  }

  // Accepts one connection. False: no more can be accepted for now.
  bool Accept(int listener) {
    while (true) {
      sockaddr_storage address = {};
      socklen_t size = sizeof(address);
      Descriptor fd(accept4(listener, reinterpret_cast<sockaddr*>(&address), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (fd.get() < 0) {
        if (errno == ECONNABORTED || errno == EINTR) continue;
        return errno == EAGAIN;
      }
      if (options_.accepted != nullptr) ++*options_.accepted;
      if (fd.get() >= options_.max_descriptors) {
        Refuse();
        continue;
      }
      std::string peer = PeerOf(address);
      MakeRoom();
      ++of_peer_[peer];
      unfinished_.push_back({std::move(fd), std::move(peer), clock_->Monotonic() + options_.patience});
      GoOn(std::prev(unfinished_.end()));
    }
  }

  // All descriptors are in use: closes the new connection, and the oldest silent one to make room for the next.
  void Refuse() {
    if (!unfinished_.empty()) Drop(unfinished_.begin());
    if (!log_.Admit("")) return;
    base::LogWarning("connections_full", {{"descriptors", absl::StrCat(options_.max_descriptors)}});
  }

  void MakeRoom() {
    if (unfinished_.size() < static_cast<size_t>(options_.unfinished)) return;
    const auto most = std::max_element(of_peer_.begin(), of_peer_.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    Drop(std::find_if(unfinished_.begin(), unfinished_.end(),
                      [&](const Connection& c) { return c.peer == most->first; }));
  }

  void GoOn(std::list<Connection>::iterator c) {
    const Preface preface = Read(*c);
    if (preface == Preface::kFinished) hand_over_(c->fd.Release(), c->received);
    if (preface != Preface::kUnfinished) Drop(c);
  }

  Preface Read(Connection& c) const {
    char buffer[kMagic.size() + kFrameHead];
    const size_t wanted = options_.tls ? kHelloHead : sizeof(buffer);
    while (c.received.size() < wanted) {
      const ssize_t n = recv(c.fd.get(), buffer, wanted - c.received.size(), 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return Preface::kUnfinished;
      if (n <= 0) return Preface::kWrong;
      c.received.append(buffer, static_cast<size_t>(n));
      if (options_.tls) {
        if (c.received[0] != kHandshakeRecord || (c.received.size() > 1 && c.received[1] != kTlsMajor)) {
          return Preface::kWrong;
        }
        continue;
      }
      const absl::string_view begin = absl::string_view(c.received).substr(0, kMagic.size());
      if (!absl::StartsWith(kMagic, begin)) return Preface::kWrong;
    }
    if (options_.tls) return c.received[kHelloHead - 1] == kClientHello ? Preface::kFinished : Preface::kWrong;
    return c.received[kMagic.size() + kFrameType] == kSettings ? Preface::kFinished : Preface::kWrong;
  }

  // Closes the connection, unless it was handed over.
  void Drop(std::list<Connection>::iterator c) {
    const auto mine = of_peer_.find(c->peer);
    if (--mine->second == 0) of_peer_.erase(mine);
    unfinished_.erase(c);
  }

  const std::vector<Descriptor> listeners_;
  ListenAddress bound_;
  struct stat file_ = {};  // Identity of a Unix socket's file.
  const base::Clock* const clock_;
  AcceptorOptions options_;
  const Descriptor wake_;
  HandOver hand_over_;
  // Used by the thread alone. In order of arrival.
  std::list<Connection> unfinished_;
  std::map<std::string, int> of_peer_;
  base::LogLimit log_{clock_};
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Listen(const ListenAddress& address, const base::Clock* clock,
                                                           AcceptorOptions options) {
  LUTHIER_ASSIGN_OR_RETURN(Bound bound, Bind(address));
  return std::make_unique<AcceptorImpl>(std::move(bound), address, clock, options);
}

}  // namespace luthier::server
