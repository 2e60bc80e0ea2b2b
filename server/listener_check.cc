#include "server/listener_check.h"

#include <netdb.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lib/base/descriptor.h"
#include "lib/base/log.h"

namespace luthier::server {
namespace {

constexpr int kExitDeaf = 70;  // EX_SOFTWARE of sysexits.h.
constexpr int kMaxFailures = 3;
// Preface of HTTP/2: its magic, then the head of an empty SETTINGS frame.
constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";

bool Waits(int fd, short events, absl::Duration timeout) {
  pollfd ready{fd, events, 0};
  return poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) == 1;
}

// Returns the first message of a TLS client that speaks HTTP/2.
std::string ClientHello() {
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  if (!context) return "";
  const std::unique_ptr<SSL, void (*)(SSL*)> client(SSL_new(context.get()), SSL_free);
  BIO* const in = BIO_new(BIO_s_mem());
  BIO* const out = BIO_new(BIO_s_mem());
  if (!client || in == nullptr || out == nullptr) return "";
  SSL_set_bio(client.get(), in, out);
  constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_set_alpn_protos(client.get(), kHttp2, sizeof(kHttp2));
  SSL_set_connect_state(client.get());
  SSL_do_handshake(client.get());  // It ends when it needs an answer.
  char* data = nullptr;
  const long size = BIO_get_mem_data(out, &data);
  return std::string(data, static_cast<size_t>(size));
}

// `timeout` is for each step: a packet filter may drop packets, a server may accept a connection and say nothing.
bool Dial(int family, const sockaddr* address, socklen_t size, const std::string& greeting, absl::Duration timeout) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  const auto sends = [&] {
    return send(fd, greeting.data(), greeting.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(greeting.size());
  };
  char byte;
  const bool connecting = connect(fd, address, size) == 0 || errno == EINPROGRESS;
  const bool answered =
      connecting && Waits(fd, POLLOUT, timeout) && sends() && Waits(fd, POLLIN, timeout) && recv(fd, &byte, 1, 0) == 1;
  close(fd);
  return answered;
}

bool UnixAnswers(const std::string& path, const std::string& greeting, absl::Duration timeout) {
  sockaddr_un peer = {};
  peer.sun_family = AF_UNIX;
  if (path.size() >= sizeof(peer.sun_path)) return false;
  std::memcpy(peer.sun_path, path.data(), path.size());
  return Dial(AF_UNIX, reinterpret_cast<const sockaddr*>(&peer), sizeof(peer), greeting, timeout);
}

}  // namespace

bool Answers(const ListenAddress& bound, absl::Duration timeout, bool tls) {
  const std::string greeting = tls ? ClientHello() : std::string(kPreface, sizeof(kPreface) - 1);
  if (bound.unix_socket()) return UnixAnswers(bound.path, greeting, timeout);
  // Without a host getaddrinfo gives the loopback addresses of both families.
  const bool wildcard = bound.host == "0.0.0.0" || bound.host == "::";
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(wildcard ? nullptr : bound.host.c_str(), absl::StrCat(bound.port).c_str(), &hints, &found) != 0) {
    return false;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, freeaddrinfo);
  for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
    if (Dial(a->ai_family, a->ai_addr, a->ai_addrlen, greeting, timeout)) return true;
  }
  return false;
}

bool Serves(const std::function<void(int fd, const std::string& received)>& hand_over, absl::Duration timeout) {
  constexpr int kPauseMs = 10;
  // A frame's head (its length, kind, flags and stream), then eight bytes that the answer repeats.
  static constexpr absl::string_view kPing("\0\0\x08\x06\0\0\0\0\0luthier?", 17);
  static constexpr absl::string_view kPong("\0\0\x08\x06\x01\0\0\0\0luthier?", 17);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) return false;
  const base::Descriptor client(ends[0]);
  hand_over(ends[1], std::string(kPreface, sizeof(kPreface) - 1));
  // The server's settings may come from the thread that hands over, which may read on. Only what arrives later is read
  // by the threads that are to be checked.
  if (!Waits(client.get(), POLLIN, timeout)) return false;
  poll(nullptr, 0, kPauseMs);
  if (send(client.get(), kPing.data(), kPing.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(kPing.size())) return false;
  std::string received;
  char buffer[512];
  // The answer is among the first frames.
  while (received.size() < sizeof(buffer) && Waits(client.get(), POLLIN, timeout)) {
    const ssize_t n = recv(client.get(), buffer, sizeof(buffer), 0);
    if (n <= 0) return false;
    received.append(buffer, static_cast<size_t>(n));
    if (absl::StrContains(received, kPong)) return true;
  }
  return false;
}

Silence::Verdict Silence::Judge(const ListenerSigns& signs) {
  const bool took_in = signs.accepted != accepted_;
  const bool served = signs.serves || signs.ended != ended_;
  accepted_ = signs.accepted;
  ended_ = signs.ended;
  if (signs.answers || (took_in && served)) {
    failures_ = 0;
    return signs.answers ? Verdict::kAnswers : Verdict::kBusy;
  }
  return ++failures_ < kMaxFailures ? Verdict::kSilent : Verdict::kDeaf;
}

ListenerCheck::ListenerCheck(std::string name, std::function<ListenerSigns()> look, absl::Duration period,
                             std::function<void()> on_deaf)
    : name_(std::move(name)), look_(std::move(look)), period_(period), on_deaf_(std::move(on_deaf)), thread_([this] {
        Loop();
      }) {}

ListenerCheck::~ListenerCheck() {
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.Signal();
  thread_.join();
}

void ListenerCheck::Loop() {
  Silence silence;
  while (true) {
    {
      base::MutexLock lock(&mutex_);
      while (!stopping_ && !changed_.WaitFor(&mutex_, period_)) {
      }
      if (stopping_) return;
    }
    const Silence::Verdict verdict = silence.Judge(look_());
    if (verdict == Silence::Verdict::kAnswers) continue;
    if (verdict == Silence::Verdict::kBusy) {
      base::LogWarning("listener_busy", {{"listen", name_}, {"reason", "others connect faster than it answers"}});
      continue;
    }
    base::LogWarning("listener_silent", {{"listen", name_}, {"failures", absl::StrCat(silence.failures())}});
    if (verdict != Silence::Verdict::kDeaf) continue;
    if (on_deaf_) {
      on_deaf_();
      continue;
    }
    base::LogError("listener_deaf", {{"listen", name_}, {"exit", absl::StrCat(kExitDeaf)}});
    _exit(kExitDeaf);
  }
}

}  // namespace luthier::server
