// Durable ask + complete round trips per second over loopback TCP, clients on the same machine as the server.
//
//   service_bench [--seconds S] [--clients 1,8,64] [--data-dir DIR] [--algorithm random|sobol]
//
// Each client is a thread with its own connection: Suggest, then Complete, each acknowledged after a full sync. Prints
// a table and, beside it, what bare synchronous appends cost on the same file system: the floor of a commit.
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
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/service/percentile.h"
#include "lib/base/check.h"
#include "lib/base/log.h"
#include "lib/command_line/command_line.h"
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
};

Result Run(const std::string& address, const std::string& study, int clients, double seconds) {
  std::vector<Result> results(static_cast<size_t>(clients));
  std::vector<std::thread> threads;
  std::atomic<bool> stop{false};
  const auto begin = Clock::now();
  for (int c = 0; c < clients; ++c) {
    threads.emplace_back([&, c] {
      grpc::ChannelArguments arguments;
      arguments.SetInt("client", c);  // Another connection for each client.
      const auto channel = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
      const auto stub = v1::WorkerService::NewStub(channel);
      Result& result = results[static_cast<size_t>(c)];
      const std::string worker = "client-" + std::to_string(c);
      for (int64_t i = 0; !stop; ++i) {
        v1::SuggestRequest ask;
        ask.set_study("projects/default/studies/" + study);
        ask.set_worker(worker);
        ask.set_request_id(study + "-" + worker + "-" + std::to_string(i));
        v1::SuggestResponse lease;
        grpc::ClientContext ask_context;
        ask_context.set_wait_for_ready(true);  // Of very many connections at once some are told to come again.
        ask_context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
        auto start = Clock::now();
        grpc::Status status = stub->Suggest(&ask_context, ask, &lease);
        result.ask_us.push_back(Micros(Clock::now() - start));
        if (!status.ok() || lease.leases_size() != 1) {
          std::fprintf(stderr, "ask: %s\n", status.error_message().c_str());
          std::exit(1);
        }
        v1::CompleteRequest complete;
        complete.set_trial(lease.leases(0).trial().name());
        complete.set_token(lease.leases(0).token());
        (*complete.mutable_measurement()->mutable_metrics())["loss"] = 1.0 / static_cast<double>(i + 1);
        v1::FinishResponse finished;
        grpc::ClientContext complete_context;
        complete_context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
        start = Clock::now();
        status = stub->Complete(&complete_context, complete, &finished);
        result.complete_us.push_back(Micros(Clock::now() - start));
        if (!status.ok()) {
          std::fprintf(stderr, "complete: %s\n", status.error_message().c_str());
          std::exit(1);
        }
        ++result.rounds;
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  Result total;
  total.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  for (Result& r : results) {
    total.rounds += r.rounds;
    total.ask_us.insert(total.ask_us.end(), r.ask_us.begin(), r.ask_us.end());
    total.complete_us.insert(total.complete_us.end(), r.complete_us.begin(), r.complete_us.end());
  }
  return total;
}

int Main(int argc, char** argv) {
  double seconds = 5;
  std::vector<int> clients = {1, 8, 64};
  std::string dir = std::filesystem::temp_directory_path() / ("luthier-bench-" + std::to_string(getpid()));
  std::string algorithm = "random";
  CLI::App app("Durable ask + complete round trips per second, clients and server on this machine", "service_bench");
  app.add_option("--seconds", seconds, "Length of each measurement")
      ->check(CLI::Range(0.1, 3600.0))
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
  base::SetLogLevel(base::LogLevel::kWarning);
  std::filesystem::create_directories(dir);
  SyncFloor(dir);
  server::ServerOptions options;
  options.data_dir = dir + "/db";
  options.listen = "127.0.0.1:0";
  auto server = server::Server::Start(options);
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", std::string(server.status().message()).c_str());
    return 1;
  }
  const std::string address = (*server)->address();
  const auto stub = v1::StudyService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  std::printf("cores: %u, data: %s, algorithm: %s\n", std::thread::hardware_concurrency(), dir.c_str(),
              algorithm.c_str());
  std::printf("%8s %12s %12s %10s %10s %12s %12s\n", "clients", "round trips", "writes/s", "ask p50", "ask p99",
              "complete p50", "complete p99");
  for (const int n : clients) {
    const std::string id = "bench-" + std::to_string(n);
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
    const grpc::Status status = stub->CreateStudy(&context, request, &study);
    if (!status.ok()) {
      std::fprintf(stderr, "create: %s\n", status.error_message().c_str());
      return 1;
    }
    Result r = Run(address, id, n, seconds);
    std::printf("%8d %10.0f/s %12.0f %7.0f us %7.0f us %9.0f us %9.0f us\n", n,
                static_cast<double>(r.rounds) / r.seconds, 2.0 * static_cast<double>(r.rounds) / r.seconds,
                Percentile(r.ask_us, 0.5), Percentile(r.ask_us, 0.99), Percentile(r.complete_us, 0.5),
                Percentile(r.complete_us, 0.99));
    std::fflush(stdout);
  }
  (*server)->Stop();
  if (!keep) std::filesystem::remove_all(dir);
  return 0;
}

}  // namespace
}  // namespace luthier

int main(int argc, char** argv) {
  return luthier::Main(argc, argv);
}
