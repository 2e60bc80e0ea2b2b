// A fleet that asks and completes as fast as it is let, against a luthierd of its own.
//
//   fleet_bench [--seconds S] [--clients 64,2000] [--hearts N] [--data-dir DIR]
//
// Each client has a connection and is always in a call: Suggest, then Complete. Refused, it waits as the C++ client
// does (base/backoff.h) and sends the call again. Beside them `hearts` connections send a heartbeat every 50 ms each.
// Prints round trips a second, how long accepted calls took from their sending to their reply, how many were refused,
// and how long heartbeats took. The server, the clients and the hearts are a process each, with one thread for all
// clients and one for all hearts, on the same cores.
#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "bench/service/percentile.h"
#include "lib/base/backoff.h"
#include "lib/base/check.h"
#include "lib/command_line/command_line.h"
#include "lib/wire/status.h"
#include "luthier/v1/study_service.grpc.pb.h"
#include "luthier/v1/worker_service.grpc.pb.h"

namespace luthier {
namespace {

using Clock = std::chrono::steady_clock;

double Millis(Clock::duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

// A luthierd that ends with this object.
class Daemon {
 public:
  Daemon(const std::string& program, const std::string& dir) {
    int out[2];
    LUTHIER_CHECK(pipe(out) == 0);
    pid_ = fork();
    LUTHIER_CHECK(pid_ >= 0);
    if (pid_ == 0) {
      dup2(out[1], STDOUT_FILENO);
      execl(program.c_str(), "luthierd", "--listen", "127.0.0.1:0", "--data-dir", dir.c_str(), "--log-level", "warning",
            nullptr);
      std::perror(program.c_str());
      _exit(127);
    }
    close(out[1]);
    char byte;
    std::string line;
    while (read(out[0], &byte, 1) == 1 && byte != '\n') line += byte;
    const size_t at = line.find("serving on ");
    LUTHIER_CHECK(at != std::string::npos);
    address_ = line.substr(at + 11);
  }
  ~Daemon() {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
  const std::string& address() const { return address_; }

 private:
  pid_t pid_ = -1;
  std::string address_;
};

struct Counts {
  std::vector<double> accepted_ms, heartbeat_ms;
  int64_t rounds = 0, refused = 0;
};

// What the next event of the queue is to be told to.
using Step = std::function<void(bool ok)>;

// One connection with at most one call under way.
class Caller {
 public:
  Caller(grpc::CompletionQueue* queue, Counts* counts, const std::string& address, const std::string& study, int number)
      : queue_(queue),
        counts_(counts),
        study_(study),
        worker_(absl::StrCat("client-", number)),
        backoff_(base::RandomStream(static_cast<uint64_t>(number), "fleet_bench")) {
    grpc::ChannelArguments arguments;
    arguments.SetInt("client", number);  // A connection of its own.
    stub_ =
        v1::WorkerService::NewStub(grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  }

  void Ask() {
    v1::SuggestRequest ask;
    ask.set_study("projects/default/studies/" + study_);
    ask.set_worker(worker_);
    ask.set_request_id(absl::StrCat(study_, "-", worker_, "-", asks_));
    Call<v1::SuggestResponse>([&](auto* context) { return stub_->AsyncSuggest(context, ask, queue_); },
                              [this](const v1::SuggestResponse& reply) {
                                LUTHIER_CHECK(reply.leases_size() == 1);
                                ++asks_;
                                complete_.set_trial(reply.leases(0).trial().name());
                                complete_.set_token(reply.leases(0).token());
                                (*complete_.mutable_measurement()->mutable_metrics())["loss"] = 1.0;
                                Complete();
                              },
                              [this] { Ask(); });
  }

  // One heartbeat, and another 50 ms after its reply.
  void Beat() {
    v1::HeartbeatRequest beat;
    beat.set_worker(worker_);
    const auto start = Clock::now();
    auto context = std::make_shared<grpc::ClientContext>();
    auto status = std::make_shared<grpc::Status>();
    auto reply = std::make_shared<v1::HeartbeatResponse>();
    std::shared_ptr<grpc::ClientAsyncResponseReader<v1::HeartbeatResponse>> reader =
        stub_->AsyncHeartbeat(context.get(), beat, queue_);
    step_ = [this, context, status, reply, reader, start](bool) {
      if (status->ok()) counts_->heartbeat_ms.push_back(Millis(Clock::now() - start));
      Wait(absl::Milliseconds(50), [this] { Beat(); });
    };
    reader->Finish(reply.get(), status.get(), &step_);
  }

 private:
  void Complete() {
    Call<v1::FinishResponse>([&](auto* context) { return stub_->AsyncComplete(context, complete_, queue_); },
                             [this](const v1::FinishResponse&) {
                               ++counts_->rounds;
                               Ask();
                             },
                             [this] { Complete(); });
  }

  template <typename Reply, typename Begin, typename Done, typename Again>
  void Call(Begin begin, Done done, Again again) {
    auto context = std::make_shared<grpc::ClientContext>();
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    auto status = std::make_shared<grpc::Status>();
    auto reply = std::make_shared<Reply>();
    const auto start = Clock::now();
    std::shared_ptr<grpc::ClientAsyncResponseReader<Reply>> reader = begin(context.get());
    step_ = [this, context, status, reply, reader, start, done, again](bool) {
      if (status->ok()) {
        counts_->accepted_ms.push_back(Millis(Clock::now() - start));
        backoff_.Reset();
        done(*reply);
        return;
      }
      ++counts_->refused;
      Wait(backoff_.Next(wire::FromGrpc(*status)), again);
    };
    reader->Finish(reply.get(), status.get(), &step_);
  }

  template <typename Then>
  void Wait(absl::Duration duration, Then then) {
    step_ = [then](bool) { then(); };
    alarm_.Set(queue_, std::chrono::system_clock::now() + absl::ToChronoMicroseconds(duration), &step_);
  }

  grpc::CompletionQueue* const queue_;
  Counts* const counts_;
  const std::string study_, worker_;
  std::unique_ptr<v1::WorkerService::Stub> stub_;
  v1::CompleteRequest complete_;
  base::Backoff backoff_;
  grpc::Alarm alarm_;
  Step step_;
  int64_t asks_ = 0;
};

// Handles events of `queue` for so long.
void Run(grpc::CompletionQueue& queue, double seconds) {
  const auto end = std::chrono::system_clock::now() + std::chrono::duration_cast<std::chrono::system_clock::duration>(
                                                          std::chrono::duration<double>(seconds));
  void* tag = nullptr;
  bool ok = false;
  while (queue.AsyncNext(&tag, &ok, end) == grpc::CompletionQueue::GOT_EVENT) {
    const Step step = std::move(*static_cast<Step*>(tag));  // It sets the next one.
    step(ok);
  }
}

constexpr double kGettingThere = 5.0;  // Seconds until all have connected, and found their pace.

struct Beats {
  double p50 = 0.0, p99 = 0.0;
};

[[noreturn]] void MeasureHearts(const std::string& address, int hearts, double seconds, int result) {
  grpc::CompletionQueue queue;
  Counts counts;
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < hearts; ++i) {
    callers.push_back(std::make_unique<Caller>(&queue, &counts, address, "", i));
    callers.back()->Beat();
  }
  Run(queue, kGettingThere);
  counts = Counts();
  Run(queue, seconds);
  const Beats beats{Percentile(counts.heartbeat_ms, 0.5), Percentile(counts.heartbeat_ms, 0.99)};
  LUTHIER_CHECK(write(result, &beats, sizeof(beats)) == sizeof(beats));
  std::quick_exit(0);
}

void CreateStudy(const std::string& address, const std::string& study) {
  const auto stub = v1::StudyService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  v1::CreateStudyRequest request;
  request.set_study_id(study);
  v1::StudySpec& spec = *request.mutable_spec();
  v1::ParameterSpec& p = *spec.add_space();
  p.set_name("x");
  p.mutable_float_()->set_min(0.0);
  p.mutable_float_()->set_max(1.0);
  spec.mutable_metric()->set_name("loss");
  spec.mutable_metric()->set_goal(v1::MINIMIZE);
  spec.mutable_algorithm()->mutable_random();
  spec.mutable_budget()->set_max_trials(1'000'000);
  v1::Study created;
  grpc::ClientContext context;
  const grpc::Status status = stub->CreateStudy(&context, request, &created);
  if (status.ok()) return;
  std::fprintf(stderr, "create: %s\n", status.error_message().c_str());
  std::exit(1);
}

// Calls are under way at its end, which nobody needs.
[[noreturn]] void Measure(const std::string& address, int clients, double seconds, int hearts_result) {
  const std::string study = absl::StrCat("fleet-", clients);
  CreateStudy(address, study);
  grpc::CompletionQueue queue;
  Counts counts;
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < clients; ++i) {
    callers.push_back(std::make_unique<Caller>(&queue, &counts, address, study, i));
    callers.back()->Ask();
  }
  Run(queue, kGettingThere);
  counts = Counts();
  const auto begin = Clock::now();
  Run(queue, seconds);
  const double took = Millis(Clock::now() - begin) / 1000;
  Beats beats;
  LUTHIER_CHECK(read(hearts_result, &beats, sizeof(beats)) == sizeof(beats));
  std::printf("%8d %9.0f/s %8.0f ms %8.0f ms %8.0f ms %9.0f/s %10.0f ms %8.0f ms\n", clients,
              static_cast<double>(counts.rounds) / took, Percentile(counts.accepted_ms, 0.5),
              Percentile(counts.accepted_ms, 0.99), Percentile(counts.accepted_ms, 1.0),
              static_cast<double>(counts.refused) / took, beats.p50, beats.p99);
  std::fflush(stdout);
  std::quick_exit(0);
}

// One line of the table, by processes of its own: gRPC's library must not be used before a fork.
int MeasureOne(const std::string& program, const std::string& dir, int clients, int hearts, double seconds) {
  const Daemon daemon(program, dir);
  int pipe_ends[2];
  LUTHIER_CHECK(pipe(pipe_ends) == 0);
  const pid_t beating = fork();
  LUTHIER_CHECK(beating >= 0);
  if (beating == 0) MeasureHearts(daemon.address(), hearts, seconds, pipe_ends[1]);
  const pid_t measured = fork();
  LUTHIER_CHECK(measured >= 0);
  if (measured == 0) Measure(daemon.address(), clients, seconds, pipe_ends[0]);
  int code = 0;
  waitpid(measured, &code, 0);
  kill(beating, SIGKILL);
  waitpid(beating, nullptr, 0);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  return code == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  double seconds = 10;
  int hearts = 20;
  std::vector<int> clients = {64, 2000};
  std::string dir = std::filesystem::temp_directory_path() / ("luthier-fleet-" + std::to_string(getpid()));
  CLI::App app("A fleet that asks and completes as fast as it is let", "fleet_bench");
  app.add_option("--seconds", seconds, "Length of each measurement, after 5 s of getting there")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  app.add_option("--clients", clients, "Numbers of clients to measure, e.g. 64,2000")
      ->delimiter(',')
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app.add_option("--hearts", hearts, "Connections that send heartbeats")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--data-dir", dir, "Where to keep the databases; default: a temporary directory");
  if (const std::optional<int> code = command_line::Parse(app, argc, argv)) return *code;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "luthierd";
  std::filesystem::create_directories(dir);
  std::printf("%8s %11s %11s %11s %11s %11s %13s %11s\n", "clients", "round trips", "call p50", "p99", "max", "refused",
              "heartbeat p50", "p99");
  std::fflush(stdout);
  for (const int n : clients) {
    if (MeasureOne(program, dir + "/" + std::to_string(n), n, hearts, seconds) != 0) return 1;
  }
  std::filesystem::remove_all(dir);
  return 0;
}

}  // namespace
}  // namespace luthier

int main(int argc, char** argv) {
  return luthier::Main(argc, argv);
}
