#include "server/server.h"

#include <arpa/inet.h>
#include <grpcpp/ext/health_check_service_server_builder_option.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/executor.h"
#include "lib/base/log.h"
#include "lib/base/log_limit.h"
#include "lib/base/status_macros.h"
#include "lib/base/version.h"
#include "lib/wire/channel.h"
#include "lib/wire/deadline.h"
#include "lib/wire/deterministic.h"
#include "server/acceptor.h"
#include "server/connections.h"
#include "server/coordinator/writer/coordinator.h"
#include "server/directory_watch.h"
#include "server/exposure.h"
#include "server/gateway/gateway.h"
#include "server/heap_trimmer.h"
#include "server/listen_address.h"
#include "server/listener_check.h"
#include "server/memory_limit.h"
#include "server/metrics/metrics.h"
#include "server/metrics/rpc_interceptor.h"
#include "server/metrics/scale.h"
#include "server/open_calls.h"
#include "server/service/calls.h"
#include "server/service/grpc_calls.h"
#include "server/service/methods.h"
#include "server/storage/memory_storage.h"
#include "server/storage/sqlite_storage.h"
#include "server/unknown_methods.h"

namespace luthier::server {
namespace {

constexpr int kReaderThreads = 4;
constexpr int kScannerThreads = 2;
constexpr size_t kMaxQueuedReads = 256;
constexpr int kMaxMessageBytes = 4 << 20;
constexpr size_t kMaxGrpcBytes = size_t{1} << 30;  // Memory of connections and calls if there is no memory limit.
constexpr int kMaxMetadataBytes = 8 << 10;
// One connection may carry many long polls; results must still get through beside them.
constexpr int kMaxStreams = 1000;
constexpr int kPagePort = 7792;  // The usual port of a page that is opened by OpenPage.
constexpr char kHealthService[] = "luthier.v1.Coordinator";

// True if the socket is inside the data directory: the directory's lock keeps others off, and it may not exist yet.
bool IsInside(const ListenAddress& address, const std::string& directory) {
  const auto normal = [](const std::string& path) {
    std::string text = std::filesystem::absolute(path).lexically_normal().string();
    while (text.size() > 1 && text.back() == '/') text.pop_back();
    return text;
  };
  return address.unix_socket() && !directory.empty() &&
         normal(std::filesystem::path(address.path).parent_path() / ".") == normal(directory);
}

// Raises the soft limit to the hard one: each connection takes a descriptor, and gRPC 1.51 never recovers from running
// out.
void RaiseDescriptorLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Returns the socket that every data directory has, for programs of its owner on the same machine. Absent if its path
// would be too long for a socket.
std::optional<ListenAddress> SocketOf(const std::string& directory) {
  constexpr size_t kMaxSocketPath = 100;
  if (directory.empty()) return std::nullopt;
  ListenAddress address;
  address.path = std::filesystem::absolute(directory).lexically_normal().string() + "/socket";
  if (address.path.size() > kMaxSocketPath) return std::nullopt;
  return address;
}

// Returns the address at which metrics, or the page, are served. Its host is a number.
absl::StatusOr<ListenAddress> ParseHttpAddress(const char* option, const std::string& text) {
  absl::StatusOr<ListenAddress> address = ParseListenAddress(text);
  if (!address.ok()) return base::BadField(option, address.status().message());
  if (address->host == "localhost") address->host = "127.0.0.1";
  unsigned char bytes[sizeof(in6_addr)];
  const bool number =
      inet_pton(AF_INET, address->host.c_str(), bytes) == 1 || inet_pton(AF_INET6, address->host.c_str(), bytes) == 1;
  if (address->unix_socket() || !number) {
    return base::BadField(option, absl::StrCat(base::Quote(text),
                                               " is not HOST:PORT with an IP address or localhost, as in "
                                               "127.0.0.1:7791 or 0.0.0.0:7791"));
  }
  return address;
}

// Checks that plain text beyond loopback was asked for.
absl::Status CheckReach(absl::string_view option, const ListenAddress& address, bool accept_plaintext) {
  if (address.loopback() || accept_plaintext) return absl::OkStatus();
  return base::BadField(option,
                        absl::StrCat(base::Quote(address.Target()),
                                     " is reachable from other machines in plain text; give --tls-cert and "
                                     "--tls-key (luthier admin pki makes them), or --accept-plaintext where the "
                                     "network is trusted"));
}

// Returns who needs a token. Without a data directory tokens are not kept.
absl::StatusOr<access::Auth> AuthOf(const ServerOptions& options, const ListenAddress& listen) {
  if (!options.data_dir.empty() || options.auth == access::Auth::kOff) return options.auth;
  if (options.auth == access::Auth::kAuto && listen.loopback()) return access::Auth::kOff;
  return base::BadField("auth", "needs a data directory, where tokens are kept; give --data-dir, or --auth off");
}

// True if the process at the other end of a Unix socket runs as the coordinator's user, or as root.
bool IsOwnUser(int fd) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && (peer.uid == geteuid() || peer.uid == 0);
}

bool IsUnixSocket(int fd) {
  int domain = 0;
  socklen_t size = sizeof(domain);
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

// Returns "WorkerService/Suggest", … for all calls that the server answers over gRPC.
std::vector<std::string> MethodNames() {
  std::vector<std::string> names = {"Health/Check", "ServerReflection/ServerReflectionInfo"};
  for (const service::Method& method : service::Methods()) names.emplace_back(method.name);
  return names;
}

const char* AuthName(access::Auth auth) {
  return auth == access::Auth::kAuto ? "auto" : auth == access::Auth::kRequired ? "required" : "off";
}

uint64_t Entropy() {
  uint64_t value = 0;
  LUTHIER_CHECK(getrandom(&value, sizeof(value), 0) == sizeof(value));
  return value;
}

class ServerImpl final : public Server {
 public:
  ~ServerImpl() override { Stop(); }

  absl::Status Open(const ServerOptions& options) {
    ListenAddress listen;
    if (!options.listen.empty()) {
      LUTHIER_ASSIGN_OR_RETURN(listen, ParseListenAddress(options.listen));
      listen = WithKnownHost(std::move(listen));
      LUTHIER_RETURN_IF_ERROR(CheckReach("listen", listen, options.accept_plaintext || options.tls.any()));
      tls_ = options.tls.any() && !listen.unix_socket();
      if (tls_) {
        LUTHIER_ASSIGN_OR_RETURN(tls_keeper_, TlsKeeper::Open(options.tls, &clock_));
      }
      // Checked before the database is made or brought up to date.
      if (!IsInside(listen, options.data_dir)) LUTHIER_RETURN_IF_ERROR(CheckFree(listen));
    }
    ListenAddress metrics_listen;
    if (!options.metrics_listen.empty()) {
      LUTHIER_ASSIGN_OR_RETURN(metrics_listen, ParseHttpAddress("metrics-listen", options.metrics_listen));
      LUTHIER_RETURN_IF_ERROR(CheckReach("metrics-listen", metrics_listen, options.accept_plaintext));
    }
    if (!options.http_listen.empty()) {
      LUTHIER_ASSIGN_OR_RETURN(http_listen_, ParseHttpAddress("http-listen", options.http_listen));
      LUTHIER_RETURN_IF_ERROR(CheckReach("http-listen", http_listen_, options.accept_plaintext || tls_));
    }
    farewell_ = options.farewell;
    grace_ = options.grace;
    wire::PrepareGrpc();
    wire::SendMapsInOrder();  // Makes a repeated answer equal to the first one, to the byte.
    RaiseDescriptorLimit();
    coordinator::Coordinator::Options coordinator_options;
    coordinator_options.core.token_seed = Entropy();
    coordinator_options.core.quotas = &quotas_;
    coordinator_options.suggest_threads = options.suggest_threads;
    coordinator_options.core.suggest_deadline = options.suggest_deadline;
    if (options.memory_limit > 0) {
      coordinator_options.max_idle_designer_bytes =
          std::min(coordinator_options.max_idle_designer_bytes, options.memory_limit / 4);
    }
    if (options.designers) coordinator_options.designers = options.designers;
    LUTHIER_RETURN_IF_ERROR(OpenStorage(options, &coordinator_options));
    if (!options.listen.empty()) LUTHIER_RETURN_IF_ERROR(OpenAccess(options, listen));
    exposures_ = Exposures(options, listen, metrics_listen);
    if (!options.metrics_listen.empty()) MakeMetrics(options);
    workers_ = std::make_unique<service::WorkerLog>(&clock_, metrics_.get());
    coordinator_options.observer = workers_.get();
    LUTHIER_ASSIGN_OR_RETURN(coordinator_,
                             coordinator::Coordinator::Start(storage_.get(), &clock_, coordinator_options));
    readers_ = std::make_unique<base::Executor>(kReaderThreads, kMaxQueuedReads);
    scanners_ = std::make_unique<base::Executor>(kScannerThreads, kMaxQueuedReads, /*low_priority=*/true);
    if (!options.listen.empty()) MakeCalls(options);
    if (metrics_) {
      LUTHIER_ASSIGN_OR_RETURN(const std::string url,
                               OpenHttp(gateway::Serves::kMetrics, metrics_listen.host, metrics_listen.port));
      metrics_address_ = url.substr(url.find("//") + 2);
      base::LogInfo("metrics", {{"url", absl::StrCat(url, "/metrics")}});
    }
    ready_ = true;
    reminder_ = std::make_unique<ExposureReminder>(exposures_, &clock_);
    trimmer_ = std::make_unique<HeapTrimmer>(HeapTrimmer::Options());
    trimmer_->Start();
    if (options.listen.empty()) {
      if (file_ != nullptr)
        directory_watch_ = std::make_unique<DirectoryWatch>([this] {
          if (access_) access_->registry().WarnOfEnds();
          return CheckHeld();
        });
      return absl::OkStatus();
    }
    return Listen(options, listen);
  }

  std::string address() const override { return address_; }
  std::string metrics_address() const override { return metrics_address_; }
  std::string http_url() const override {
    const base::MutexLock lock(&page_mutex_);
    return page_url_;
  }

  void Stop() override {
    if (stopped_) return;
    stopped_ = true;
    directory_watch_.reset();
    listener_check_.reset();
    reminder_.reset();
    trimmer_.reset();
    ready_ = false;
    if (grpc_) {
      if (auto* health = grpc_->GetHealthCheckService()) health->SetServingStatus(false);
    }
    if (coordinator_) coordinator_->Drain();
    if (grpc_) absl::SleepFor(farewell_);
    closing_ = true;
    acceptor_.reset();
    own_acceptor_.reset();
    if (grpc_) {
      // While gRPC 1.51 shuts down, it answers new calls with CANCELLED. So it gets no more of them.
      const absl::Duration latest = clock_.Monotonic() + grace_;
      calls_->WaitForNone(grace_);
      EndConnections(listening_);
      if (own_listening_) EndConnections(*own_listening_);
      EndGateway();
      grpc_->Shutdown(wire::DeadlineIn(latest - clock_.Monotonic()));
    }
    EndGateway();  // Before the objects that it reads.
    readers_.reset();
    scanners_.reset();
    coordinator_.reset();
    grpc_.reset();
    storage_.reset();
    if (!address_.empty()) base::LogInfo("stopped");
  }

 private:
  absl::Status OpenStorage(const ServerOptions& options, coordinator::Coordinator::Options* coordinator_options) {
    if (options.data_dir.empty()) {
      storage_ = std::make_unique<storage::MemoryStorage>();
    } else {
      storage::SqliteOptions sqlite;
      sqlite.directory = options.data_dir;
      sqlite.check_behind = true;
      sqlite.force_network_filesystem = options.force_network_filesystem;
      LUTHIER_ASSIGN_OR_RETURN(std::unique_ptr<storage::SqliteStorage> file, storage::SqliteStorage::Open(sqlite));
      file_ = file.get();
      storage_ = std::move(file);
      coordinator_options->free_bytes = [dir = options.data_dir]() -> int64_t {
        struct statvfs fs;
        if (statvfs(dir.c_str(), &fs) != 0) return INT64_MAX;
        return static_cast<int64_t>(fs.f_bavail) * static_cast<int64_t>(fs.f_frsize);
      };
    }
    return absl::OkStatus();
  }

  absl::Status OpenAccess(const ServerOptions& options, const ListenAddress& listen) {
    LUTHIER_ASSIGN_OR_RETURN(const access::Auth auth, AuthOf(options, listen));
    // Tokens have a database of their own. It is opened only if it may be needed, since opening it delays the start.
    std::error_code error;
    const bool keep =
        (auth != access::Auth::kOff && !listen.unix_socket()) || auth == access::Auth::kRequired ||
        options.keep_tokens || !options.http_listen.empty() ||
        std::filesystem::exists(std::filesystem::path(options.data_dir) / access::AccessStore::kFile, error);
    LUTHIER_ASSIGN_OR_RETURN(std::unique_ptr<access::Registry> registry,
                             access::Registry::Open(keep ? options.data_dir : "", &clock_));
    registry->KeepQuotas(&quotas_);
    access_ = std::make_unique<access::Access>(std::move(registry), auth, &clock_);
    return absl::OkStatus();
  }

  void MakeMetrics(const ServerOptions& options) {
    const auto ready = [this] { return ready_.load() && coordinator_->serving(); };
    const auto tokens = [this] {
      return access_ ? access_->registry().TokensInForce() : std::map<std::string, int64_t>();
    };
    const auto certificates = [this] {
      return tls_keeper_ ? tls_keeper_->DaysLeft() : std::map<std::string, double>();
    };
    const auto tokens_ending = [this] {
      return access_ ? static_cast<int64_t>(access_->registry().EndingSoon().size()) : int64_t{0};
    };
    metrics_ = std::make_shared<metrics::Metrics>(metrics::MetricsOptions{
        MethodNames(), options.data_dir, ready, tokens, !exposures_.empty(), certificates, tokens_ending});
    if (access_) access_->OnFailure([this](absl::string_view reason) { metrics_->OnAuthFailure(reason); });
  }

  void MakeCalls(const ServerOptions& options) {
    service::MemoryGuard::Options memory;
    memory.limit = options.memory_limit;
    memory.used = [limit = options.memory_limit] { return UsedMemory(limit); };
    memory_ = std::make_unique<service::MemoryGuard>(std::move(memory), &clock_);
    service::Backend backend{coordinator_.get(), storage_.get(), readers_.get(), &clock_,        memory_.get(),
                             metrics_.get(),     &closing_,      access_.get(),  workers_.get(), scanners_.get()};
    backend.page_url = [this] { return http_url(); };
    backend.open_page = [this] { return OpenOwnPage(); };
    service_calls_ = std::make_unique<service::Calls>(backend);
    grpc_calls_ = std::make_unique<service::GrpcCalls>(service_calls_.get());
  }

  // Listens on a socket in the data directory, too, unless `listen` is one: for programs of the coordinator's own user.
  void ListenOnOwnSocket(const ServerOptions& options, const ListenAddress& listen) {
    if (const std::optional<ListenAddress> own = SocketOf(options.data_dir);
        own && !IsInside(listen, options.data_dir)) {
      absl::StatusOr<std::unique_ptr<Acceptor>> acceptor = Acceptor::Listen(*own, &clock_);
      if (acceptor.ok()) {
        own_acceptor_ = *std::move(acceptor);
        chmod(own->path.c_str(), 0600);
        own_listening_ = *own;
      } else {
        base::LogWarning("no_own_socket", {{"path", own->path}, {"error", std::string(acceptor.status().message())}});
      }
    } else if (!own && !options.data_dir.empty() && !listen.unix_socket()) {
      base::LogWarning("no_own_socket", {{"path", options.data_dir},
                                         {"error",
                                          "the path of a socket there would be longer than 107 bytes: programs "
                                          "on this machine, too, reach this coordinator with --server alone"}});
    }
  }

  // gRPC gets connections of three kinds from our acceptors.
  void TakeConnections(grpc::ServerBuilder* builder) {
    const auto connections = [&](std::shared_ptr<grpc::ServerCredentials> credentials) {
      return builder->experimental().AddExternalConnectionAcceptor(
          grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, std::move(credentials));
    };
    connections_ = connections(tls_ ? tls_keeper_->Credentials() : grpc::InsecureServerCredentials());
    unix_connections_ = connections(grpc::InsecureServerCredentials());
    // The credentials mark these connections as those of the coordinator's own user (access::Peer::own_user).
    own_connections_ = connections(grpc::experimental::LocalServerCredentials(UDS));
  }

  void Limit(const ServerOptions& options, grpc::ServerBuilder* builder) {
    grpc::ResourceQuota quota("luthierd");
    quota.Resize(options.memory_limit > 0 ? static_cast<size_t>(options.memory_limit) / 2 : kMaxGrpcBytes);
    builder->SetResourceQuota(quota);
    builder->SetMaxReceiveMessageSize(kMaxMessageBytes);
    builder->SetMaxSendMessageSize(kMaxMessageBytes);
    // gRPC 1.51 inflates a compressed message as a whole before it compares its size with the limit.
    for (const grpc_compression_algorithm algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
      builder->SetCompressionAlgorithmSupportStatus(algorithm, false);
    }
    builder->AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
    // Time for the SETTINGS frame of a client. The acceptor has seen to the earlier steps of the handshake.
    builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000);
    builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
    builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
    // Clients that vanish are noticed, and clients may ping an idle connection.
    builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
    builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
    builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
    builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  }

  // Names who sees each call: how many are open, with which certificate, how long it takes.
  void Intercept(const ServerOptions& options, grpc::ServerBuilder* builder) {
    calls_ = std::make_unique<OpenCalls>(&clock_, options.calls_per_connection,
                                         [this](const std::string& peer) { Abort(peer); });
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
    interceptors.push_back(calls_->Interceptors());
    if (tls_keeper_) interceptors.push_back(tls_keeper_->Interceptors());
    if (metrics_) interceptors.push_back(metrics::CountCalls(metrics_.get(), &clock_));
    builder->experimental().SetInterceptorCreators(std::move(interceptors));
  }

  absl::Status Listen(const ServerOptions& options, const ListenAddress& listen) {
    LUTHIER_ASSIGN_OR_RETURN(acceptor_, Acceptor::Listen(listen, &clock_, Accepting()));
    ListenOnOwnSocket(options, listen);
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    TakeConnections(&builder);
    Limit(options, &builder);
    Intercept(options, &builder);
    builder.RegisterService(grpc_calls_.get());
    builder.RegisterCallbackGenericService(&unknown_methods_);
    grpc_ = builder.BuildAndStart();
    if (!grpc_) return absl::InternalError("gRPC does not start");
    StartAccepting(acceptor_.get());
    if (own_acceptor_) StartAccepting(own_acceptor_.get());
    listening_ = acceptor_->bound();
    address_ = listening_.Target();
    listener_check_ = std::make_unique<ListenerCheck>(address_, [this] { return LookAtListener(); });
    grpc_->GetHealthCheckService()->SetServingStatus(kHealthService, true);
    if (access_->auth() != access::Auth::kOff && !listen.unix_socket()) {
      LUTHIER_ASSIGN_OR_RETURN(const std::string first, access_->registry().MakeFirstToken());
      if (!first.empty()) {
        base::LogWarning("first_token", {{"file", first},
                                         {"warning",
                                          "calls to this port need a token from now on; this "
                                          "one is an admin's"}});
      }
    }
    if (!options.http_listen.empty()) {
      LUTHIER_RETURN_IF_ERROR(
          OpenHttp(gateway::Serves::kPage, http_listen_.host, http_listen_.port, options.http_hosts).status());
    }
    base::LogInfo("serving", {{"version", base::kVersion},
                              {"listen", address_},
                              {"tls", tls_ ? "yes" : "no"},
                              {"tokens", AuthName(access_->auth())},
                              {"data", options.data_dir.empty() ? "memory" : options.data_dir},
                              {"seq", absl::StrCat(coordinator_->committed_seq())},
                              {"grpc", grpc::Version()}});
    if (file_ != nullptr) file_->BeginPageCheck();
    directory_watch_ = std::make_unique<DirectoryWatch>([this] {
      if (access_) access_->registry().WarnOfEnds();
      return CheckHeld();
    });
    return absl::OkStatus();
  }

  // Makes what serves HTTP, without a port yet.
  std::unique_ptr<gateway::Gateway> MakeGateway() {
    gateway::GatewayOptions http;
    http.ready = [this] { return ready_.load() && coordinator_->serving(); };
    if (tls_keeper_) {
      http.certificate = [this] {
        const TlsContents contents = tls_keeper_->InUse();
        return std::make_pair(contents.cert, contents.key);
      };
    }
    if (metrics_) {
      http.metrics = [this] { return metrics_->Text(); };
      http.scale = [this](absl::string_view query) { return metrics::ScaleAnswer(*metrics_, query); };
      http.ended = [this](absl::string_view method, absl::string_view code, absl::Duration took) {
        metrics_->OnCall(method, code, took);
      };
    }
    if (access_) {
      http.may_see_metrics = [this](const access::Peer& peer) {
        access::Request request;
        request.method = "Metrics";
        request.right = access::Right::kSee;
        access::Admitted admitted;
        return access_->Admit(peer, request, &admitted).status;
      };
    }
    return gateway::Gateway::Create(std::move(http), service_calls_.get(), &clock_);
  }

  // Serves something over HTTP. Returns its address.
  absl::StatusOr<std::string> OpenHttp(gateway::Serves what, const std::string& host, int port,
                                       const std::vector<std::string>& names = {}) {
    const base::MutexLock lock(&page_mutex_);
    if (closing_) return coordinator::Draining();
    if (gateway_ == nullptr) gateway_ = MakeGateway();
    absl::StatusOr<std::string> url = gateway_->Listen(what, host, port, names);
    if (!url.ok() || what == gateway::Serves::kMetrics) return url;
    page_url_ = *url;
    base::LogInfo("http", {{"url", page_url_}});
    return url;
  }

  // Opens a page for this machine. Its usual port may be taken.
  absl::StatusOr<std::string> OpenOwnPage() {
    for (const int port : {kPagePort, 0}) {
      if (std::string open = http_url(); !open.empty()) return open;
      absl::StatusOr<std::string> url = OpenHttp(gateway::Serves::kPlainPage, "127.0.0.1", port);
      if (url.ok() || port == 0) return url;
    }
    return coordinator::Draining();
  }

  // Ends it with all of its calls.
  void EndGateway() {
    std::unique_ptr<gateway::Gateway> gateway;
    {
      const base::MutexLock lock(&page_mutex_);
      gateway = std::move(gateway_);
    }
  }

  // Returns the options of the listener that clients are told of.
  AcceptorOptions Accepting() {
    AcceptorOptions accepting;
    accepting.tls = tls_;
    accepting.accepted = &accepted_;
    return accepting;
  }

  using Taker = grpc::experimental::ExternalConnectionAcceptor;
  static void HandOver(Taker* taker, int fd, const std::string& received) {
    const grpc::Slice slice(received);
    Taker::NewConnectionParameters connection;
    connection.fd = fd;
    connection.read_buffer = grpc::ByteBuffer(&slice, 1);
    taker->HandleNewConnection(&connection);
  }

  void StartAccepting(Acceptor* acceptor) {
    acceptor->Start([this](int fd, const std::string& received) {
      auto& taker = !IsUnixSocket(fd) ? connections_ : IsOwnUser(fd) ? own_connections_ : unix_connections_;
      HandOver(taker.get(), fd, received);
    });
  }

  ListenerSigns LookAtListener() {
    constexpr absl::Duration kPatience = absl::Seconds(5);
    ListenerSigns signs;
    signs.answers = Answers(listening_, kPatience, tls_);
    signs.serves =
        !signs.answers &&
        Serves([this](int fd, const std::string& received) { HandOver(unix_connections_.get(), fd, received); },
               kPatience);
    signs.accepted = accepted_.load();
    signs.ended = calls_->ended();
    return signs;
  }

  // Checks that all files are still in their place. Sockets whose file is missing are made again.
  absl::Status CheckHeld() {
    if (file_ != nullptr) LUTHIER_RETURN_IF_ERROR(file_->CheckFiles());
    if (access_) LUTHIER_RETURN_IF_ERROR(access_->registry().CheckHeld());
    for (std::unique_ptr<Acceptor>* acceptor : {&acceptor_, &own_acceptor_}) {
      if (*acceptor) LUTHIER_RETURN_IF_ERROR(KeepSocket(acceptor));
    }
    return absl::OkStatus();
  }

  absl::Status KeepSocket(std::unique_ptr<Acceptor>* acceptor) {
    const Acceptor::SocketFile file = (*acceptor)->LookForSocket();
    const std::string path = (*acceptor)->bound().path;
    if (file == Acceptor::SocketFile::kReplaced) {
      return absl::DataLossError(absl::StrCat("the socket ", path,
                                              " was replaced while the server ran, so clients reach somebody else "
                                              "there; see who made it, remove it and start again"));
    }
    if (file == Acceptor::SocketFile::kInPlace) {
      missing_.erase(path);
      return absl::OkStatus();
    }
    // The socket is not made again at the first look: a user who removes the whole directory must find it empty at the
    // end.
    if (missing_.insert(path).second) return absl::OkStatus();
    absl::StatusOr<std::unique_ptr<Acceptor>> again =
        Acceptor::Listen((*acceptor)->bound(), &clock_, acceptor == &acceptor_ ? Accepting() : AcceptorOptions());
    if (!again.ok()) {
      if (socket_log_.Admit(path)) {
        base::LogError("socket_missing", {{"path", path}, {"error", std::string(again.status().message())}});
      }
      return absl::OkStatus();
    }
    if (acceptor == &own_acceptor_) chmod(path.c_str(), 0600);
    StartAccepting(again->get());
    *acceptor = *std::move(again);
    base::LogWarning("socket_made_again", {{"path", path}, {"reason", "its file was removed while the server ran"}});
    return absl::OkStatus();
  }

  // Returns the exposures that follow from the options.
  std::vector<Exposure> Exposures(const ServerOptions& options, const ListenAddress& listen,
                                  const ListenAddress& metrics_listen) const {
    std::vector<Exposure> exposures;
    const bool reached = !options.listen.empty() && !listen.loopback();
    if (reached && !tls_) {
      exposures.push_back({"plaintext", listen.Target(), "all that is sent to this port can be read"});
    }
    if (reached && access_->auth() == access::Auth::kOff) {
      exposures.push_back({"no_tokens", listen.Target(), "anyone who reaches this port is an admin"});
    }
    if (!options.http_listen.empty() && !http_listen_.loopback() && !tls_) {
      exposures.push_back({"plaintext", http_listen_.Target(), "all that is sent to this port can be read"});
    }
    if (!options.http_listen.empty() && access_ && access_->auth() == access::Auth::kOff) {
      exposures.push_back({"no_tokens", http_listen_.Target(), "anyone who reaches this port is an admin"});
    }
    if (!options.metrics_listen.empty() && !metrics_listen.loopback()) {
      exposures.push_back({"plaintext", metrics_listen.Target(), "anyone who reaches this port reads the metrics"});
    }
    return exposures;
  }

  void Abort(const std::string& peer) {
    if (!AbortConnection(peer)) return;  // The connection has ended by itself.
    if (const auto left_out = abort_log_.Admit("")) {
      base::LogWarning("connection_aborted", {{"peer", peer},
                                              {"reason", "it resets its streams faster than they end"},
                                              {"others_since", absl::StrCat(*left_out)}});
    }
  }

  base::SystemClock clock_;
  std::atomic<bool> closing_{false};
  base::LogLimit abort_log_{&clock_}, socket_log_{&clock_};
  study::QuotaTable quotas_;
  std::unique_ptr<storage::Storage> storage_;
  storage::SqliteStorage* file_ = nullptr;  // Same as `storage_`, unless that is in memory.
  std::shared_ptr<metrics::Metrics> metrics_;
  std::unique_ptr<service::WorkerLog> workers_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;
  std::unique_ptr<base::Executor> readers_, scanners_;
  std::unique_ptr<access::Access> access_;  // Null without a listener.
  bool tls_ = false;
  std::unique_ptr<TlsKeeper> tls_keeper_;  // Null for plain text.
  std::unique_ptr<service::MemoryGuard> memory_;
  std::unique_ptr<service::Calls> service_calls_;
  std::unique_ptr<service::GrpcCalls> grpc_calls_;
  UnknownMethods unknown_methods_;
  std::unique_ptr<OpenCalls> calls_;
  std::unique_ptr<grpc::Server> grpc_;
  ListenAddress http_listen_;
  mutable base::Mutex page_mutex_;
  std::unique_ptr<gateway::Gateway> gateway_ ABSL_GUARDED_BY(page_mutex_);  // Null before it is made, and at the end.
  std::string page_url_ ABSL_GUARDED_BY(page_mutex_);
  // They hand connections to `grpc_`: those of the network, of Unix sockets, and of the coordinator's own user.
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_, unix_connections_, own_connections_;
  std::atomic<uint64_t> accepted_{0};                  // Counted by `acceptor_`.
  std::unique_ptr<Acceptor> acceptor_, own_acceptor_;  // `own_acceptor_` has the socket in the data directory.
  std::unique_ptr<ListenerCheck> listener_check_;
  std::unique_ptr<DirectoryWatch> directory_watch_;
  std::set<std::string> missing_;  // Used by the watch's thread: sockets whose file was missing when it last looked.
  std::vector<Exposure> exposures_;
  std::unique_ptr<ExposureReminder> reminder_;
  std::unique_ptr<HeapTrimmer> trimmer_;
  ListenAddress listening_;
  std::optional<ListenAddress> own_listening_;
  std::string address_;
  std::string metrics_address_;
  std::atomic<bool> ready_{false};
  absl::Duration farewell_ = absl::ZeroDuration(), grace_ = absl::ZeroDuration();
  bool stopped_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  auto server = std::make_unique<ServerImpl>();
  LUTHIER_RETURN_IF_ERROR(server->Open(options));
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace luthier::server
