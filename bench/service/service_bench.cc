// Durable ask + complete round trips per second over loopback TCP, clients on the same machine as the server.
//
//   service_bench [--seconds S] [--rounds R] [--clients 1,8,64] [--security open,tokens,tls,mtls,bare,bare_tls]
//   [--data-dir DIR]
//                 [--algorithm random|sobol]
//
// Each client is a thread with its own connection: Suggest, then Complete, each acknowledged after a full sync. Prints
// a table and, beside it, what bare synchronous appends cost on the same file system: the floor of a commit. Kinds of
// security have a coordinator each and are measured in turns, so that whatever else the machine does meets them alike,
// each as often as any other in each place of a turn (with twice as many rounds as kinds, or a multiple): what was
// measured before leaves work to the disk. Then calls that only ask who is called (GetServerInfo), which cost no sync,
// show what encryption costs by itself. "bare" and "bare_tls" are peers: a service of gRPC's that answers this call at
// once and does nothing else, without and with TLS.
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/service/percentile.h"
#include "client/cli/pki.h"
#include "lib/base/check.h"
#include "lib/base/log.h"
#include "lib/base/status_macros.h"
#include "lib/command_line/command_line.h"
#include "lib/wire/channel.h"
#include "lib/wire/token_file.h"
#include "luthier/v1/study_service.grpc.pb.h"
#include "luthier/v1/worker_service.grpc.pb.h"
#include "server/server.h"

namespace luthier {
namespace {

using Clock = std::chrono::steady_clock;

double Micros(Clock::duration d) {
  return std::chrono::duration<double, std::micro>(d).count();
}

void SyncFloor(const std::string& dir) {
  const std::string path = dir + "/sync_probe";
  const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  LUTHIER_CHECK(fd >= 0);
  std::string block(4096, 'x');
  std::vector<double> micros;
  for (int i = 0; i < 500; ++i) {
    const auto start = Clock::now();
    LUTHIER_CHECK(write(fd, block.data(), block.size()) == static_cast<ssize_t>(block.size()));
    LUTHIER_CHECK(fdatasync(fd) == 0);
    micros.push_back(Micros(Clock::now() - start));
  }
  close(fd);
  unlink(path.c_str());
  std::printf("4-KiB append + fdatasync here: p50 %.0f us, p99 %.0f us\n", Percentile(micros, 0.5),
              Percentile(micros, 0.99));
}

struct Result {
  int64_t rounds = 0;
  double seconds = 0;
  std::vector<double> ask_us, complete_us;

  void Add(const Result& more) {
    rounds += more.rounds;
    seconds += more.seconds;
    ask_us.insert(ask_us.end(), more.ask_us.begin(), more.ask_us.end());
    complete_us.insert(complete_us.end(), more.complete_us.begin(), more.complete_us.end());
  }
  double rate() const { return seconds > 0 ? static_cast<double>(rounds) / seconds : 0; }
};

std::string ContentOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  LUTHIER_CHECK(!text.str().empty());
  return text.str();
}

// A peer: answers at once.
class BareService final : public v1::WorkerService::CallbackService {
 public:
  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* context, const v1::GetServerInfoRequest*,
                                          v1::ServerInfo* response) override {
    response->set_version("bare");
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

// A coordinator, or a peer, and how its clients reach it.
struct Target {
  std::string security;  // "open": plain text without tokens; "tokens": with them; "tls", "mtls": encrypted as well.
  std::unique_ptr<server::Server> server;  // Null: a peer.
  std::unique_ptr<BareService> service;
  std::unique_ptr<grpc::Server> peer;
  std::string address;
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  std::string authorization;  // Empty: none is sent.

  // Another connection for each client.
  std::shared_ptr<grpc::Channel> Dial(int client) const {
    grpc::ChannelArguments arguments;
    arguments.SetInt("client", client);
    return grpc::CreateCustomChannel(address, credentials, arguments);
  }
  void Prepare(grpc::ClientContext* context) const {
    if (!authorization.empty()) context->AddMetadata("authorization", authorization);
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  }
};

absl::StatusOr<Target> Start(const std::string& security, const std::string& dir) {
  Target target;
  target.security = security;
  server::ServerOptions options;
  options.data_dir = dir + "/" + security;
  options.listen = "127.0.0.1:0";
  const bool peer = security == "bare" || security == "bare_tls";
  const bool tls = security == "tls" || security == "mtls" || security == "bare_tls";
  const std::string pki = dir + "/pki-" + security;
  grpc::SslCredentialsOptions ssl;
  if (security == "open") options.auth = access::Auth::kOff;
  if (tls) {
    LUTHIER_RETURN_IF_ERROR(cli::MakeAuthority(pki).status());
    LUTHIER_RETURN_IF_ERROR(cli::IssueServer(pki, {"localhost", "127.0.0.1"}).status());
    LUTHIER_RETURN_IF_ERROR(cli::IssueClient(pki, "client").status());
    options.tls.cert = pki + "/server.pem";
    options.tls.key = pki + "/server.key";
    ssl.pem_root_certs = ContentOf(pki + "/ca.pem");
  }
  if (security == "mtls") {
    options.tls.client_ca = pki + "/ca.pem";
    ssl.pem_cert_chain = ContentOf(pki + "/client.pem");
    ssl.pem_private_key = ContentOf(pki + "/client.key");
  }
  target.credentials = tls ? grpc::SslCredentials(ssl) : grpc::InsecureChannelCredentials();
  if (peer) {
    grpc::SslServerCredentialsOptions own;
    if (tls) own.pem_key_cert_pairs.push_back({ContentOf(options.tls.key), ContentOf(options.tls.cert)});
    target.service = std::make_unique<BareService>();
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", tls ? grpc::SslServerCredentials(own) : grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(target.service.get());
    target.peer = builder.BuildAndStart();
    LUTHIER_CHECK(target.peer != nullptr);
    target.address = "127.0.0.1:" + std::to_string(port);
    return target;
  }
  LUTHIER_ASSIGN_OR_RETURN(target.server, server::Server::Start(options));
  target.address = target.server->address();
  if (security != "open") {
    LUTHIER_ASSIGN_OR_RETURN(const std::string token, wire::ReadTokenFile(options.data_dir + "/admin.token"));
    target.authorization = "Bearer " + token;
  }
  return target;
}

// Runs `work(client, stub, result)` again and again on a thread for each client.
template <typename F>
Result Measure(const Target& target, int clients, double seconds, F&& work) {
  std::vector<Result> results(static_cast<size_t>(clients));
  std::vector<std::thread> threads;
  std::atomic<bool> stop{false};
  std::atomic<int> connected{0};
  std::atomic<bool> go{false};
  for (int c = 0; c < clients; ++c) {
    threads.emplace_back([&, c] {
      const auto channel = target.Dial(c);
      // Hellos and handshakes are over before the time begins.
      channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(30));
      const auto stub = v1::WorkerService::NewStub(channel);
      ++connected;
      while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      while (!stop) work(c, *stub, results[static_cast<size_t>(c)]);
    });
  }
  while (connected < clients) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto begin = Clock::now();
  go = true;
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  Result total;
  for (const Result& r : results) total.Add(r);
  total.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return total;
}

[[noreturn]] void Die(const char* what, const grpc::Status& status) {
  std::fprintf(stderr, "%s: %s\n", what, status.error_message().c_str());
  std::exit(1);
}

// Asks for a trial of the study and completes it. `round` makes the requests' ids differ.
Result AskAndComplete(const Target& target, const std::string& study, int round, int clients, double seconds) {
  std::vector<int64_t> asked(static_cast<size_t>(clients), 0);
  return Measure(target, clients, seconds, [&](int c, v1::WorkerService::Stub& stub, Result& result) {
    const std::string worker = "client-" + std::to_string(c);
    const int64_t i = asked[static_cast<size_t>(c)]++;
    v1::SuggestRequest ask;
    ask.set_study("projects/default/studies/" + study);
    ask.set_worker(worker);
    ask.set_request_id(study + "-" + std::to_string(round) + "-" + worker + "-" + std::to_string(i));
    v1::SuggestResponse lease;
    grpc::ClientContext ask_context;
    ask_context.set_wait_for_ready(true);  // Of very many connections at once some are told to come again.
    target.Prepare(&ask_context);
    auto start = Clock::now();
    grpc::Status status = stub.Suggest(&ask_context, ask, &lease);
    result.ask_us.push_back(Micros(Clock::now() - start));
    if (!status.ok() || lease.leases_size() != 1) Die("ask", status);
    v1::CompleteRequest complete;
    complete.set_trial(lease.leases(0).trial().name());
    complete.set_token(lease.leases(0).token());
    (*complete.mutable_measurement()->mutable_metrics())["loss"] = 1.0 / static_cast<double>(i + 1);
    v1::FinishResponse finished;
    grpc::ClientContext complete_context;
    target.Prepare(&complete_context);
    start = Clock::now();
    status = stub.Complete(&complete_context, complete, &finished);
    result.complete_us.push_back(Micros(Clock::now() - start));
    if (!status.ok()) Die("complete", status);
    ++result.rounds;
  });
}

// Asks who is called; its times are those of `ask_us`.
Result AskWho(const Target& target, int clients, double seconds) {
  return Measure(target, clients, seconds, [&](int, v1::WorkerService::Stub& stub, Result& result) {
    v1::ServerInfo info;
    grpc::ClientContext context;
    target.Prepare(&context);
    const auto start = Clock::now();
    const grpc::Status status = stub.GetServerInfo(&context, v1::GetServerInfoRequest(), &info);
    result.ask_us.push_back(Micros(Clock::now() - start));
    if (!status.ok()) Die("info", status);
    ++result.rounds;
  });
}

void CreateStudy(const Target& target, const std::string& id, const std::string& algorithm) {
  v1::CreateStudyRequest request;
  request.set_study_id(id);
  v1::StudySpec& spec = *request.mutable_spec();
  for (const char* name : {"x", "y"}) {
    v1::ParameterSpec& p = *spec.add_space();
    p.set_name(name);
    p.mutable_float_()->set_min(0.0);
    p.mutable_float_()->set_max(1.0);
  }
  spec.mutable_metric()->set_name("loss");
  spec.mutable_metric()->set_goal(v1::MINIMIZE);
  if (algorithm == "sobol")
    spec.mutable_algorithm()->mutable_sobol();
  else
    spec.mutable_algorithm()->mutable_random();
  spec.mutable_budget()->set_max_trials(1'000'000);
  v1::Study study;
  grpc::ClientContext context;
  target.Prepare(&context);
  const grpc::Status status = v1::StudyService::NewStub(target.Dial(-1))->CreateStudy(&context, request, &study);
  if (!status.ok()) Die("create", status);
}

int Main(int argc, char** argv) {
  double seconds = 5;
  int rounds = 1;
  std::vector<std::string> securities = {"open"};
  std::vector<int> clients = {1, 8, 64};
  std::string dir = std::filesystem::temp_directory_path() / ("luthier-bench-" + std::to_string(getpid()));
  std::string algorithm = "random";
  CLI::App app("Durable ask + complete round trips per second, clients and server on this machine", "service_bench");
  app.add_option("--seconds", seconds, "Length of each measurement")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  app.add_option("--rounds", rounds, "Measurements of each kind, in turns")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--security", securities, "Kinds to compare with the first: open, tokens, tls, mtls, bare, bare_tls")
      ->delimiter(',')
      ->check(CLI::IsMember({"open", "tokens", "tls", "mtls", "bare", "bare_tls"}))
      ->capture_default_str();
  app.add_option("--clients", clients, "Numbers of clients to measure, e.g. 1,8,64")
      ->delimiter(',')
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  const CLI::Option* kept = app.add_option("--data-dir", dir, "Where to keep the database; default: a temporary one");
  app.add_option("--algorithm", algorithm, "random or sobol")
      ->check(CLI::IsMember({"random", "sobol"}))
      ->capture_default_str();
  if (const std::optional<int> code = command_line::Parse(app, argc, argv)) return *code;
  const bool keep = kept->count() > 0;
  base::SetLogLevel(base::LogLevel::kError);
  std::filesystem::create_directories(dir);
  SyncFloor(dir);
  std::vector<Target> targets;
  for (const std::string& security : securities) {
    absl::StatusOr<Target> target = Start(security, dir);
    if (!target.ok()) {
      std::fprintf(stderr, "%s\n", std::string(target.status().message()).c_str());
      return 1;
    }
    targets.push_back(*std::move(target));
  }
  double load = 0;
  if (getloadavg(&load, 1) != 1) load = -1;
  std::printf("cores: %u, load before: %.2f, data: %s, algorithm: %s, %d x %.1f s in turns\n",
              std::thread::hardware_concurrency(), load, dir.c_str(), algorithm.c_str(), rounds, seconds);
  std::printf("%8s %8s %12s %12s %10s %10s %12s %12s %10s %10s %10s\n", "clients", "security", "round trips",
              "writes/s", "ask p50", "ask p99", "complete p50", "complete p99", "info/s", "info p50", "info p99");
  for (const int n : clients) {
    const std::string id = "bench-" + std::to_string(n);
    std::vector<Result> works(targets.size()), infos(targets.size());
    for (const Target& target : targets) {
      if (target.server) CreateStudy(target, id, algorithm);
    }
    for (int round = 0; round < rounds; ++round) {
      std::vector<size_t> order(targets.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = (i + static_cast<size_t>(round)) % order.size();
      if (round / static_cast<int>(order.size()) % 2 == 1) std::reverse(order.begin(), order.end());
      for (const size_t t : order) {
        if (targets[t].server) works[t].Add(AskAndComplete(targets[t], id, round, n, seconds));
      }
      for (const size_t t : order) infos[t].Add(AskWho(targets[t], n, seconds));
    }
    for (size_t t = 0; t < targets.size(); ++t) {
      Result &w = works[t], &i = infos[t];
      std::printf("%8d %8s %10.0f/s %12.0f %7.0f us %7.0f us %9.0f us %9.0f us %10.0f %7.0f us %7.0f us\n", n,
                  targets[t].security.c_str(), w.rate(), 2.0 * w.rate(), Percentile(w.ask_us, 0.5),
                  Percentile(w.ask_us, 0.99), Percentile(w.complete_us, 0.5), Percentile(w.complete_us, 0.99), i.rate(),
                  Percentile(i.ask_us, 0.5), Percentile(i.ask_us, 0.99));
      if (t == 0) continue;
      Result &w0 = works[0], &i0 = infos[0];
      if (w.rounds > 0 && w0.rounds > 0) {
        std::printf("%8s %8s %11.1f%% %12s %10s %9.2fx %12s %11.2fx", "", "of first", 100.0 * w.rate() / w0.rate(), "",
                    "", Percentile(w.ask_us, 0.99) / Percentile(w0.ask_us, 0.99), "",
                    Percentile(w.complete_us, 0.99) / Percentile(w0.complete_us, 0.99));
      } else {
        std::printf("%8s %8s %12s %12s %10s %10s %12s %12s", "", "of first", "", "", "", "", "", "");
      }
      std::printf(" %9.1f%% %10s %9.2fx\n", 100.0 * i.rate() / i0.rate(), "",
                  Percentile(i.ask_us, 0.99) / Percentile(i0.ask_us, 0.99));
    }
    std::fflush(stdout);
  }
  for (const Target& target : targets) {
    if (target.server) target.server->Stop();
  }
  if (!keep) std::filesystem::remove_all(dir);
  return 0;
}

}  // namespace
}  // namespace luthier

int main(int argc, char** argv) {
  return luthier::Main(argc, argv);
}
