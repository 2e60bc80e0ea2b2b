#include "server/listen_address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/base/descriptor.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"

namespace luthier::server {
namespace {

constexpr char kForm[] = "give host:port, e.g. localhost:7790, or unix:PATH";
constexpr absl::string_view kUnix = "unix:";
constexpr size_t kMaxUnixPath = 107;  // sun_path less its zero byte.

absl::Status Refuse(absl::string_view text, absl::string_view why) {
  return base::BadField("listen", absl::StrCat(base::Quote(text), " ", why));
}

absl::Status InUse(const ListenAddress& address) {
  return base::MakeError(
      absl::StatusCode::kUnavailable, "ADDRESS_IN_USE",
      absl::StrCat("can't listen on ", base::Quote(address.Target()),
                   ": another program listens there, perhaps another luthierd; stop it, or choose another "
                   "address with --listen"));
}

absl::StatusOr<ListenAddress> ParseUnix(absl::string_view text) {
  absl::string_view path = text.substr(kUnix.size());
  if (absl::StartsWith(path, "///")) path.remove_prefix(2);  // unix:///path, as some users write it.
  if (path.empty()) return Refuse(text, "names no socket; give unix:PATH");
  if (absl::StrContains(path.substr(path.rfind('/') + 1), ',')) {
    return Refuse(text, "has a comma in the socket's own name, which no gRPC client can reach");
  }
  if (path.size() > kMaxUnixPath) {
    return Refuse(text,
                  "is longer than the 107 bytes a socket's path may have; make a short link to its folder "
                  "(ln -s FOLDER /tmp/short), and name the socket below that");
  }
  ListenAddress address;
  address.path = std::string(path);
  return address;
}

base::Descriptor NewSocket(int family) {
  return base::Descriptor(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

absl::Status CheckUnix(const ListenAddress& address) {
  const std::filesystem::path folder = std::filesystem::absolute(address.path).lexically_normal().parent_path();
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return Refuse(address.Target(),
                  absl::StrCat("can't be made: there is no folder ", base::Quote(folder.string()), "; make it first"));
  }
  // Checked before a socket is made, while a clear error can still be given.
  if (faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) return CannotListen(address, errno);
  struct stat info;
  if (stat(address.path.c_str(), &info) != 0) return absl::OkStatus();
  if (!S_ISSOCK(info.st_mode)) return Refuse(address.Target(), "is a file that is no socket; choose another path");
  // A socket file on which nobody listens was left behind, and is replaced.
  const base::Descriptor probe = NewSocket(AF_UNIX);
  sockaddr_un peer = {};
  peer.sun_family = AF_UNIX;
  std::memcpy(peer.sun_path, address.path.data(), address.path.size());
  const bool answers = connect(probe.get(), reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)) == 0;
  return answers ? InUse(address) : absl::OkStatus();
}

}  // namespace

absl::Status CannotListen(const ListenAddress& address, int problem) {
  const char* remedy = "";
  if (problem == EADDRNOTAVAIL) remedy = "; it is not an address of this machine";
  if (problem == EROFS) remedy = "; choose a folder that can be written to";
  if (problem == EACCES) {
    remedy = address.unix_socket()
                 ? "; luthierd's user must be allowed to write into the socket's folder, as its unit is "
                   "into /run/luthier: choose another path"
                 : "; ports below 1024 need more rights, choose another";
  }
  return absl::FailedPreconditionError(
      absl::StrCat("can't listen on ", base::Quote(address.Target()), ": ", std::strerror(problem), remedy));
}

bool ListenAddress::loopback() const {
  if (unix_socket() || host == "localhost" || host == "::1") return true;
  in_addr v4 = {};
  return inet_pton(AF_INET, host.c_str(), &v4) == 1 && (ntohl(v4.s_addr) >> 24) == 127;
}

std::string ListenAddress::Target() const {
  if (unix_socket()) return absl::StrCat(kUnix, path);
  return absl::StrContains(host, ":") ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text) {
  if (absl::StartsWith(text, kUnix)) return ParseUnix(text);
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7F) {
      return Refuse(text, "contains spaces or control characters");
    }
  }
  if (absl::StrContains(text, "/")) return Refuse(text, absl::StrCat("is not an address; ", kForm));
  const size_t colon = text.rfind(':');
  const bool bracketed = absl::StartsWith(text, "[");
  if (colon == absl::string_view::npos || (bracketed && text[colon - 1] != ']')) {
    return Refuse(text, absl::StrCat("has no port; ", kForm));
  }
  absl::string_view host = text.substr(0, colon);
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host.empty()) return Refuse(text, absl::StrCat("has no host; ", kForm));
  if (!bracketed && absl::StrContains(host, ":"))
    return Refuse(text, "looks like an IPv6 address; write [address]:port");
  const absl::string_view digits = text.substr(colon + 1);
  ListenAddress address;
  address.host = std::string(host);
  const bool number = !digits.empty() && digits.find_first_not_of("0123456789") == absl::string_view::npos;
  if (!number || !absl::SimpleAtoi(digits, &address.port) || address.port > 65535) {
    return Refuse(text, absl::StrCat("has ", digits.empty() ? "no port" : "a port", " that is not between 1 and 65535",
                                     " (0: any free one); ", kForm));
  }
  return address;
}

ListenAddress WithKnownHost(ListenAddress address) {
  if (address.host != "localhost") return address;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.host.c_str(), nullptr, nullptr, &found) == 0) {
    freeaddrinfo(found);
  } else {
    address.host = "127.0.0.1";
  }
  return address;
}

absl::Status CheckFree(const ListenAddress& address) {
  if (address.unix_socket()) return CheckUnix(address);
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, [](addrinfo* a) {
    if (a != nullptr) freeaddrinfo(a);
  });
  if (code != 0) {
    return Refuse(address.Target(), absl::StrCat("names a host that is not known here (", gai_strerror(code),
                                                 "); give an address of this machine, or localhost"));
  }
  int problem = 0;
  bool possible = false;
  for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
    const base::Descriptor probe = NewSocket(a->ai_family);
    if (probe.get() < 0) continue;  // No IPv6 here.
    const int yes = 1;
    setsockopt(probe.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(probe.get(), a->ai_addr, a->ai_addrlen) == 0) {
      possible = true;
      continue;
    }
    // An error even if another address of the name is free: clients would find the wrong server.
    if (errno == EADDRINUSE) return InUse(address);
    problem = errno;
  }
  if (possible) return absl::OkStatus();
  return CannotListen(address, problem);
}

}  // namespace luthier::server
