// Reports and Completes over loopback beside full studies and idle workers.
//
//   idle_bench [--studies N] [--workers N] [--calls N] [--rate R]
//
// Each of N studies has used up its budget and one trial runs; each idle worker has an ask of any study under way. One
// client then reports and completes the trials of one more study, `rate` calls a second. Prints how long calls took.
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/check.h"
#include "lib/base/log.h"
#include "lib/command_line/command_line.h"
#include "luthier/v1/study_service.grpc.pb.h"
#include "luthier/v1/worker_service.grpc.pb.h"
#include "server/server.h"

namespace luthier {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kStreams = 500;  // Asks on one connection.

void Check(const grpc::Status& status, const char* what) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", what, status.error_message().c_str());
  std::exit(1);
}

std::shared_ptr<grpc::Channel> Connect(const std::string& address, int number) {
  grpc::ChannelArguments arguments;
  arguments.SetInt("client", number);  // Another connection for each.
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

// The asks of idle workers, each sent again when it ends.
class IdleWorkers {
 public:
  IdleWorkers(const std::string& address, int workers) {
    for (int i = 0; i < workers; ++i) {
      if (i % kStreams == 0) stubs_.push_back(v1::WorkerService::NewStub(Connect(address, 1000 + i)));
      asks_.push_back(std::make_unique<Ask>());
      asks_.back()->worker = "idle-" + std::to_string(i);
      asks_.back()->stub = stubs_.back().get();
      Send(*asks_.back());
    }
    thread_ = std::thread([this] { Loop(); });
  }
  ~IdleWorkers() {
    stopping_ = true;
    for (const auto& ask : asks_) ask->context->TryCancel();
    thread_.join();
    queue_.Shutdown();
  }

 private:
  struct Ask {
    std::string worker;
    v1::WorkerService::Stub* stub = nullptr;
    int round = 0;
    std::unique_ptr<grpc::ClientContext> context;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::SuggestResponse>> reader;
    v1::SuggestResponse reply;
    grpc::Status status;
  };

  void Send(Ask& ask) {
    v1::SuggestRequest request;
    request.set_worker(ask.worker);
    request.set_request_id(ask.worker + "-" + std::to_string(ask.round++));
    ask.context = std::make_unique<grpc::ClientContext>();
    ask.context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(55));
    ask.reader = ask.stub->AsyncSuggest(ask.context.get(), request, &queue_);
    ask.reader->Finish(&ask.reply, &ask.status, &ask);
  }
  void Loop() {
    void* tag = nullptr;
    bool ok = false;
    size_t ended = 0;
    while (ended < asks_.size() && queue_.Next(&tag, &ok)) {
      if (stopping_)
        ++ended;
      else
        Send(*static_cast<Ask*>(tag));
    }
  }

  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<v1::WorkerService::Stub>> stubs_;
  std::vector<std::unique_ptr<Ask>> asks_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

class Client {
 public:
  explicit Client(const std::string& address)
      : studies_(v1::StudyService::NewStub(Connect(address, 0))),
        worker_(v1::WorkerService::NewStub(Connect(address, 1))) {}

  void Create(const std::string& id, int64_t max_trials) {
    v1::CreateStudyRequest request;
    request.set_study_id(id);
    v1::StudySpec& spec = *request.mutable_spec();
    v1::ParameterSpec& x = *spec.add_space();
    x.set_name("x");
    x.mutable_float_()->set_min(0.0);
    x.mutable_float_()->set_max(1.0);
    spec.mutable_metric()->set_name("loss");
    spec.mutable_metric()->set_goal(v1::MINIMIZE);
    spec.mutable_algorithm()->mutable_random();
    spec.mutable_objective()->mutable_command()->add_argv("true");
    spec.mutable_budget()->set_max_trials(max_trials);
    spec.mutable_lease()->mutable_ttl()->set_seconds(3600);
    v1::Study study;
    grpc::ClientContext context;
    Check(studies_->CreateStudy(&context, request, &study), "create");
  }
  v1::Lease Ask(const std::string& id, const std::string& worker) {
    v1::SuggestRequest request;
    request.set_study("projects/default/studies/" + id);
    request.set_worker(worker);
    request.set_request_id(id + "-" + worker);
    v1::SuggestResponse reply;
    grpc::ClientContext context;
    Check(worker_->Suggest(&context, request, &reply), "ask");
    LUTHIER_CHECK(reply.leases_size() == 1);
    return reply.leases(0);
  }
  double Report(const v1::Lease& lease, int64_t step) {
    v1::ReportRequest request;
    request.set_trial(lease.trial().name());
    request.set_token(lease.token());
    v1::Measurement& point = *request.add_measurements();
    point.set_step(step);
    (*point.mutable_metrics())["loss"] = 1.0;
    v1::ReportResponse reply;
    return Timed("report", [&](grpc::ClientContext* context) { return worker_->Report(context, request, &reply); });
  }
  double Complete(const v1::Lease& lease) {
    v1::CompleteRequest request;
    request.set_trial(lease.trial().name());
    request.set_token(lease.token());
    (*request.mutable_measurement()->mutable_metrics())["loss"] = 1.0;
    v1::FinishResponse reply;
    return Timed("complete", [&](grpc::ClientContext* context) { return worker_->Complete(context, request, &reply); });
  }

 private:
  template <typename Call>
  double Timed(const char* what, Call call) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    const auto begin = Clock::now();
    Check(call(&context), what);
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  }

  std::unique_ptr<v1::StudyService::Stub> studies_;
  std::unique_ptr<v1::WorkerService::Stub> worker_;
};

void Print(const char* what, std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const auto at = [&](double p) { return times[static_cast<size_t>(p * static_cast<double>(times.size() - 1))]; };
  std::printf("%-10s p50 %7.2f ms   p99 %7.2f ms\n", what, at(0.5), at(0.99));
}

int Main(int argc, char** argv) {
  int studies = 1000, workers = 1000, calls = 500;
  double rate = 50;
  std::string dir = std::filesystem::temp_directory_path() / ("luthier-idle-" + std::to_string(getpid()));
  CLI::App app("Reports and Completes beside full studies and idle workers", "idle_bench");
  app.add_option("--studies", studies, "Full studies")->check(CLI::Range(0, 100'000))->capture_default_str();
  app.add_option("--workers", workers, "Idle workers")->check(CLI::Range(0, 50'000))->capture_default_str();
  app.add_option("--calls", calls, "Reports, and as many Completes")->check(CLI::Range(1, 5000))->capture_default_str();
  app.add_option("--rate", rate, "Calls a second")->check(CLI::Range(1.0, 10'000.0))->capture_default_str();
  if (const std::optional<int> code = command_line::Parse(app, argc, argv)) return *code;
  base::SetLogLevel(base::LogLevel::kWarning);
  std::filesystem::create_directories(dir);
  server::ServerOptions options;
  options.data_dir = dir + "/db";
  options.listen = "127.0.0.1:0";
  auto server = server::Server::Start(options);
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", std::string(server.status().message()).c_str());
    return 1;
  }
  {
    Client client((*server)->address());
    client.Create("busy", calls);
    std::vector<v1::Lease> leases;
    for (int i = 0; i < calls; ++i) leases.push_back(client.Ask("busy", "busy-" + std::to_string(i)));
    for (int i = 0; i < studies; ++i) {
      const std::string id = "full-" + std::to_string(i);
      client.Create(id, 1);
      client.Ask(id, "holder-" + std::to_string(i));
    }
    const IdleWorkers idle((*server)->address(), workers);
    std::this_thread::sleep_for(std::chrono::seconds(3));  // The asks arrive.
    std::vector<double> reports, completes;
    auto next = Clock::now();
    const auto wait = [&] {
      next += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1.0 / rate));
      std::this_thread::sleep_until(next);
    };
    for (const v1::Lease& lease : leases) {
      wait();
      reports.push_back(client.Report(lease, 1));
      wait();
      completes.push_back(client.Complete(lease));
    }
    std::printf("%d full studies, %d idle workers, %d calls of each kind, %.0f a second\n", studies, workers, calls,
                rate);
    Print("Report", std::move(reports));
    Print("Complete", std::move(completes));
  }
  (*server)->Stop();
  std::filesystem::remove_all(dir);
  return 0;
}

}  // namespace
}  // namespace luthier

int main(int argc, char** argv) {
  return luthier::Main(argc, argv);
}
