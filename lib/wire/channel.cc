#include "lib/wire/channel.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <signal.h>

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/log_limit.h"
#include "lib/base/status_macros.h"

namespace luthier::wire {

absl::StatusOr<std::string> ServerTarget(absl::string_view address) {
  constexpr absl::string_view kUnix = "unix:";
  constexpr size_t kMaxUnixPath = 107;  // sun_path less its zero byte.
  const auto refuse = [&](absl::string_view why) {
    return base::BadField("server", absl::StrCat(base::Quote(address), " ", why));
  };
  for (const char c : address) {
    if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7F) return refuse("contains spaces or control characters");
  }
  if (absl::StartsWith(address, kUnix)) {
    const absl::string_view path = address.substr(kUnix.size());
    if (path.empty()) return refuse("names no socket; give unix:PATH");
    if (path.size() > kMaxUnixPath) return refuse("is longer than the 107 bytes a socket's path may have");
    return std::string(address);
  }
  if (absl::StrContains(address, "/")) return refuse("is not host:port or unix:PATH; leave out the scheme and slashes");
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

void RouteGrpcLog(bool errors_too) {
  static const bool shown = errors_too;  // The handler takes no argument.
  gpr_set_log_function([](gpr_log_func_args* entry) {
    if (!shown || entry->severity != GPR_LOG_SEVERITY_ERROR) {
      base::Log(base::LogLevel::kDebug, "grpc", {{"message", entry->message}});
      return;
    }
    // Some of them are written for each request that is refused.
    static auto* const clock = new base::SystemClock;
    static auto* const limit = new base::LogLimit(clock);
    if (const auto left_out = limit->Admit(absl::StrCat(entry->file, ":", entry->line))) {
      base::LogWarning("grpc", {{"message", entry->message}, {"others_since", absl::StrCat(*left_out)}});
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

absl::StatusOr<std::shared_ptr<grpc::Channel>> CreateChannel(absl::string_view address) {
  LUTHIER_ASSIGN_OR_RETURN(const std::string target, ServerTarget(address));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 3'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Despite its name: how long one attempt to connect may take.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 3'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // Tuning runs inside networks; a proxy meant for the web is never wanted and breaks names like "localhost".
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace luthier::wire
