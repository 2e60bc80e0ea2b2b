#include "lib/wire/channel.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/client_interceptor.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/log_limit.h"
#include "lib/base/mutex.h"
#include "lib/base/regular_file.h"
#include "lib/base/secret.h"
#include "lib/base/status_macros.h"
#include "lib/wire/addresses.h"
#include "lib/wire/default_server.h"
#include "lib/wire/token_file.h"

namespace luthier::wire {
namespace {

constexpr unsigned kRefreshSeconds = 60;
constexpr absl::Duration kConnectPatience = absl::Seconds(3);
constexpr absl::string_view kUnix = "unix:";
constexpr absl::string_view kDns = "dns:///";

// Provides the value of "authorization". Follows the token's file, so that a worker outlives the rotation of its token.
// Thread-safe.
class TokenSource {
 public:
  TokenSource(std::string token, std::string file) : file_(std::move(file)), value_(ValueOf(token)) {
    if (!file_.empty()) changed_ = Changed();
  }

  std::string Value() {
    const base::MutexLock lock(&mutex_);
    if (file_.empty() || clock_.Monotonic() < next_look_) return value_;
    next_look_ = clock_.Monotonic() + absl::Seconds(2);
    const int64_t changed = Changed();
    if (changed == changed_ || changed == 0) return value_;
    const absl::StatusOr<std::string> token = ReadTokenFile(file_);
    if (!token.ok()) {  // The file may be half written: it is read again later.
      if (changed != complained_) {
        base::LogWarning("token_file_not_taken", {{"error", std::string(token.status().message())}});
      }
      complained_ = changed;
      return value_;
    }
    changed_ = changed;
    value_ = ValueOf(*token);
    return value_;
  }

 private:
  static std::string ValueOf(const std::string& token) { return absl::StrCat("Bearer ", token); }
  // Returns the time of the file's last change, in nanoseconds; 0 if it is missing, or a pipe, which can be read only
  // once.
  int64_t Changed() const {
    struct stat info;
    if (stat(file_.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return 0;
    return info.st_ctim.tv_sec * 1'000'000'000 + info.st_ctim.tv_nsec;
  }

  const base::SystemClock clock_;
  const std::string file_;
  base::Mutex mutex_;
  std::string value_ ABSL_GUARDED_BY(mutex_);
  int64_t changed_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t complained_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration next_look_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
};

// Sends the token with every call. Credentials of calls would do it, too, but not in plain text, as on a Unix socket.
class TokenSender final : public grpc::experimental::Interceptor {
 public:
  explicit TokenSender(std::string value) : value_(std::move(value)) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(grpc::experimental::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->insert({"authorization", value_});
    }
    methods->Proceed();
  }

 private:
  const std::string value_;  // Metadata refer to it until the call is over.
};

class TokenFactory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit TokenFactory(const ChannelSecurity& security) : source_(security.token, security.token_file) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(grpc::experimental::ClientRpcInfo*) override {
    return new TokenSender(source_.Value());
  }

 private:
  TokenSource source_;
};

// Lets no call go to another user's coordinator at an address that nobody named: the call ends as UNAVAILABLE, as if
// nobody answered, since the right coordinator may come back.
class OwnServerGuard final : public grpc::experimental::Interceptor {
 public:
  explicit OwnServerGuard(const std::string& address) : address_(address) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using Point = grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(Point::PRE_SEND_INITIAL_METADATA)) {
      trust_ = CheckUnnamed(address_);
      if (!trust_.ok()) return methods->Hijack();
    }
    if (!trust_.ok() && methods->QueryInterceptionHookPoint(Point::PRE_RECV_MESSAGE)) {
      methods->FailHijackedRecvMessage();
    }
    if (!trust_.ok() && methods->QueryInterceptionHookPoint(Point::PRE_RECV_STATUS)) {
      const std::string what = absl::IsUnavailable(trust_) ? absl::StrCat(address_, ": ") : "--server ";
      *methods->GetRecvStatus() = grpc::Status(grpc::StatusCode::UNAVAILABLE, absl::StrCat(what, trust_.message()));
    }
    methods->Proceed();
  }

 private:
  const std::string& address_;
  absl::Status trust_;
};

class GuardFactory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit GuardFactory(absl::string_view address) : address_(address) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(grpc::experimental::ClientRpcInfo*) override {
    return new OwnServerGuard(address_);
  }

 private:
  const std::string address_;
};

// Checks the file's size, as gRPC reads the files whole, again and again.
absl::Status CheckReadable(const char* option, const std::string& path) {
  constexpr size_t kMaxFileBytes = size_t{1} << 20;
  const absl::Status status = base::ReadRegularFile(path, kMaxFileBytes).status();
  return status.ok() ? status : base::BadField(option, status.message());
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> TlsChannelCredentials(const ChannelSecurity& security) {
  const bool own_roots = !security.tls_ca.empty() && security.tls_ca != "system";
  if (security.tls_cert.empty() != security.tls_key.empty()) {
    return base::BadField(security.tls_cert.empty() ? "tls-cert" : "tls-key", "is missing: the two go together");
  }
  if (own_roots) LUTHIER_RETURN_IF_ERROR(CheckReadable("tls-ca", security.tls_ca));
  if (!security.tls_cert.empty()) {
    LUTHIER_RETURN_IF_ERROR(CheckReadable("tls-cert", security.tls_cert));
    LUTHIER_RETURN_IF_ERROR(CheckReadable("tls-key", security.tls_key));
  }
  grpc::experimental::TlsChannelCredentialsOptions options;
  if (own_roots || !security.tls_cert.empty()) {
    options.set_certificate_provider(std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
        security.tls_key, security.tls_cert, own_roots ? security.tls_ca : "", kRefreshSeconds));
  }
  if (own_roots) options.watch_root_certs();
  if (!security.tls_cert.empty()) options.watch_identity_key_cert_pairs();
  return grpc::experimental::TlsCredentials(options);
}

// Returns true if an address reaches only this machine. Names in any other form may belong to anybody.
bool IsThisMachine(absl::string_view address) {
  if (absl::StartsWith(address, kUnix)) return true;
  absl::string_view host = absl::StripPrefix(address.substr(0, address.rfind(':')), kDns);
  if (absl::EqualsIgnoreCase(host, "localhost")) return true;
  if (absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]")) {
    in6_addr v6 = {};
    return inet_pton(AF_INET6, std::string(host).c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
  }
  in_addr v4 = {};
  return inet_pton(AF_INET, std::string(host).c_str(), &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

// Returns the value of a variable that is a switch.
absl::StatusOr<bool> IsSet(const char* variable) {
  const char* const value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return false;
  for (const char* yes : {"1", "true", "yes", "on"}) {
    if (absl::EqualsIgnoreCase(value, yes)) return true;
  }
  for (const char* no : {"0", "false", "no", "off"}) {
    if (absl::EqualsIgnoreCase(value, no)) return false;
  }
  return base::BadField(variable, absl::StrCat(base::Quote(value), " is neither 1 nor 0"));
}

// Percent-encodes the path of a target, as in a URL: gRPC decodes %, and takes ? and # for the beginning of other
// parts.
std::string Escaped(absl::string_view path) {
  std::string text;
  for (const char c : path) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("/._~-", absl::string_view(&c, 1))) {
      text += c;
    } else {
      absl::StrAppend(&text, "%", absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    }
  }
  return text;
}

// Returns gRPC's target for "unix:PATH". gRPC cannot use two kinds of paths: it splits them at commas, encoded or not,
// and they must fit into a sockaddr_un. Such paths are reached by way of their folder, which is opened here.
absl::StatusOr<std::string> UnixTarget(absl::string_view address) {
  constexpr size_t kMaxUnixPath = 107;  // sun_path less its zero byte.
  const auto refuse = [&](absl::string_view why) {
    return base::BadField("server", absl::StrCat(base::Quote(address), " ", why));
  };
  absl::string_view path = absl::StripPrefix(address, kUnix);
  if (absl::StartsWith(path, "///")) path.remove_prefix(2);  // unix:///path, as some write it.
  if (path.empty()) return refuse("names no socket; give unix:PATH");
  if (path.size() <= kMaxUnixPath && !absl::StrContains(path, ',')) return absl::StrCat(kUnix, Escaped(path));
  const size_t slash = path.rfind('/');
  const absl::string_view name = slash == absl::string_view::npos ? path : path.substr(slash + 1);
  if (absl::StrContains(name, ',')) return refuse("has a comma in the socket's own name, which gRPC can't have there");
  const std::string folder(path.substr(0, slash == 0 ? 1 : slash));
  // It stays open as long as the process: a channel connects whenever it has to.
  const int fd = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return refuse(absl::StrCat("can't be reached: ", std::strerror(errno), ", where its folder should be"));
  const std::string near = absl::StrCat("/proc/self/fd/", fd, "/", name);
  if (near.size() <= kMaxUnixPath) return absl::StrCat(kUnix, Escaped(near));
  close(fd);
  return refuse("has a name of the socket that is too long: with a path it may have 107 bytes");
}

}  // namespace

absl::StatusOr<std::string> ServerTarget(absl::string_view address) {
  if (absl::StartsWith(address, kUnix)) return UnixTarget(address);
  const auto refuse = [&](absl::string_view why) {
    return base::BadField("server", absl::StrCat(base::Quote(address), " ", why));
  };
  for (const char c : address) {
    if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7F) return refuse("contains spaces or control characters");
  }
  const absl::string_view whole = address;
  absl::ConsumePrefix(&address, kDns);
  if (absl::StrContains(address, "/")) {
    address = whole;
    return refuse("is not host:port, dns:///host:port or unix:PATH; leave out the scheme and slashes");
  }
  const size_t colon = address.rfind(':');
  const bool bracketed = absl::StartsWith(address, "[");
  if (colon == absl::string_view::npos || (bracketed && address[colon - 1] != ']')) {
    return refuse("has no port; give host:port, e.g. localhost:7790");
  }
  const absl::string_view host = address.substr(0, colon);
  if (host.empty()) return refuse("has no host; give host:port, e.g. localhost:7790");
  if (!bracketed && absl::StrContains(host, ":")) return refuse("looks like an IPv6 address; write [address]:port");
  int port = 0;
  if (!absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 1 || port > 65535) {
    return refuse("has no port between 1 and 65535; give host:port, e.g. localhost:7790");
  }
  return absl::StrCat("dns:///", address);
}

namespace {

absl::Status CheckOne(absl::string_view address, const ChannelSecurity& security) {
  LUTHIER_RETURN_IF_ERROR(ServerTarget(address).status());
  if (security.token.empty()) return absl::OkStatus();
  LUTHIER_RETURN_IF_ERROR(CheckCharacters(security.token, "token", ""));
  if (security.tls() || security.accept_plaintext || IsThisMachine(address)) return absl::OkStatus();
  return base::BadField(
      "server",
      absl::StrCat(base::Quote(address),
                   " is another machine, and would get the token in plain text, which everybody on the way can "
                   "read; give --tls-ca FILE (LUTHIER_TLS_CA), the certificate that signed the coordinator's, "
                   "or --accept-plaintext (LUTHIER_ACCEPT_PLAINTEXT=1) where the network is trusted"));
}

}  // namespace

absl::Status CheckServer(absl::string_view servers, const ChannelSecurity& security) {
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<std::string> addresses, SplitAddresses(servers));
  for (const std::string& address : addresses) LUTHIER_RETURN_IF_ERROR(CheckOne(address, security));
  return absl::OkStatus();
}

void PrepareGrpc(bool errors_too) {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  static const bool shown = errors_too;  // The handler takes no argument.
  gpr_set_log_function([](gpr_log_func_args* entry) {
    const std::string message = base::HideTokens(entry->message);
    if (!shown || entry->severity != GPR_LOG_SEVERITY_ERROR) {
      base::Log(base::LogLevel::kDebug, "grpc", {{"message", message}});
      return;
    }
    // Some of these lines are written for each request that is refused.
    static auto* const clock = new base::SystemClock;
    static auto* const limit = new base::LogLimit(clock);
    if (const auto left_out = limit->Admit(absl::StrCat(entry->file, ":", entry->line))) {
      base::LogWarning("grpc", {{"message", message}, {"others_since", absl::StrCat(*left_out)}});
    }
  });
}

void LookAfterConnections() {
  // There is no other way to set it, and it is read once. Programs that we start must not inherit it.
  constexpr char kName[] = "GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS";
  const bool ours = setenv(kName, "100", /*overwrite=*/0) == 0 && std::string(getenv(kName)) == "100";
  // The threads that this starts leave signals to others.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  grpc_init();  // Never shut down: it lives as long as the process.
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (ours) unsetenv(kName);
}

absl::StatusOr<ChannelSecurity> SecurityFrom(ChannelSecurity given, std::string token_file) {
  const auto take = [](const char* variable, std::string* field) {
    const char* const value = std::getenv(variable);
    if (field->empty() && value != nullptr) *field = value;
  };
  take("LUTHIER_TLS_CA", &given.tls_ca);
  take("LUTHIER_TLS_CERT", &given.tls_cert);
  take("LUTHIER_TLS_KEY", &given.tls_key);
  take("LUTHIER_TLS_SERVER_NAME", &given.tls_server_name);
  if (!given.accept_plaintext) {
    LUTHIER_ASSIGN_OR_RETURN(given.accept_plaintext, IsSet("LUTHIER_ACCEPT_PLAINTEXT"));
  }
  const char* const source = token_file.empty() ? "LUTHIER_TOKEN_FILE" : "token-file";
  take("LUTHIER_TOKEN_FILE", &token_file);
  if (!token_file.empty()) {
    LUTHIER_ASSIGN_OR_RETURN(given.token, ReadTokenFile(token_file, source));
    if (token_file != "-") given.token_file = token_file;
  } else if (given.token.empty()) {
    take("LUTHIER_TOKEN", &given.token);
    if (!given.token.empty()) {
      LUTHIER_ASSIGN_OR_RETURN(given.token, TokenIn(given.token, "LUTHIER_TOKEN", ""));
    }
  }
  return given;
}

namespace {

// `patience`: for one attempt to connect.
absl::StatusOr<std::shared_ptr<grpc::Channel>> ChannelTo(absl::string_view address, const ChannelSecurity& security,
                                                         absl::Duration patience) {
  LUTHIER_RETURN_IF_ERROR(CheckOne(address, security));
  LUTHIER_ASSIGN_OR_RETURN(const std::string target, ServerTarget(address));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 3'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Despite its name this limits the time of one attempt to connect.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, static_cast<int>(absl::ToInt64Milliseconds(patience)));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // Tuning runs inside networks; a proxy meant for the web is never wanted and breaks names like "localhost".
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (security.tls() && !absl::StartsWith(address, kUnix)) {
    LUTHIER_ASSIGN_OR_RETURN(credentials, TlsChannelCredentials(security));
    if (!security.tls_server_name.empty()) arguments.SetSslTargetNameOverride(security.tls_server_name);
  }
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  if (security.only_own) interceptors.push_back(std::make_unique<GuardFactory>(address));
  if (!security.token.empty()) interceptors.push_back(std::make_unique<TokenFactory>(security));
  return grpc::experimental::CreateCustomChannelWithInterceptors(target, credentials, arguments,
                                                                 std::move(interceptors));
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> CreateChannel(absl::string_view address,
                                                             const ChannelSecurity& security) {
  return ChannelTo(address, security, absl::StartsWith(address, kDns) ? kAddressPatience : kConnectPatience);
}

absl::StatusOr<std::vector<std::pair<std::string, std::shared_ptr<grpc::Channel>>>> CreateChannels(
    absl::string_view servers, const ChannelSecurity& security) {
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<std::string> addresses, SplitAddresses(servers));
  std::vector<std::pair<std::string, std::shared_ptr<grpc::Channel>>> channels;
  for (const std::string& address : addresses) {
    LUTHIER_ASSIGN_OR_RETURN(
        std::shared_ptr<grpc::Channel> channel,
        addresses.size() == 1 ? CreateChannel(address, security) : ChannelTo(address, security, kAddressPatience));
    channels.emplace_back(address, std::move(channel));
  }
  return channels;
}

}  // namespace luthier::wire
