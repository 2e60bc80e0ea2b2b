// Real server, real workers and real clients; the server is killed with SIGKILL at random moments, again and again.
// Clients keep a log of what was acknowledged to them, apart from the server and synced to disk. Afterwards everything
// acknowledged must be there, nothing may be there twice, and every suggestion must compute to the same bits.
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "lib/base/check.h"
#include "lib/base/random.h"
#include "lib/wire/status.h"
#include "luthier/v1/study_service.grpc.pb.h"
#include "luthier/v1/worker_service.grpc.pb.h"
#include "server/coordinator/replay.h"
#include "server/storage/sqlite_storage.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/temporary_directory.h"

namespace luthier {
namespace {

using std::chrono::milliseconds;

constexpr int kKills = 32;
constexpr int kClients = 3;
constexpr int64_t kMaxTrials = 100'000;  // More than the run can use up: asks never dry out.
constexpr int64_t kWorkerTrials = 400;

// One line an acknowledgement, synced before the client goes on.
class AckLog {
 public:
  explicit AckLog(const std::string& path) : fd_(open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600)) {
    LUTHIER_CHECK(fd_ >= 0);
  }
  ~AckLog() { close(fd_); }
  void Write(const std::string& line) {
    const std::string text = line + "\n";
    LUTHIER_CHECK(write(fd_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    LUTHIER_CHECK(fdatasync(fd_) == 0);
  }

 private:
  const int fd_;
};

std::shared_ptr<grpc::Channel> Dial(const std::string& address, int client) {
  grpc::ChannelArguments arguments;
  arguments.SetInt("client", client);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

// Whether the outcome is unknown, so that the same request must be sent again.
bool Unknown(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
         status.error_code() == grpc::StatusCode::CANCELLED || status.error_code() == grpc::StatusCode::UNKNOWN ||
         status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
}

// Sends until the outcome is known. A dead server is waited for, so it does not spin.
template <typename Request, typename Response, typename Method>
grpc::Status Send(v1::WorkerService::Stub* stub, Method method, const Request& request, Response* response,
                  const std::atomic<bool>& give_up) {
  while (true) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + milliseconds(3000));
    response->Clear();
    const grpc::Status status = (stub->*method)(&context, request, response);
    if (!Unknown(status) || give_up) return status;
  }
}

void ClientLoop(const std::string& address, int client, AckLog* log, const std::atomic<bool>& stop,
                const std::atomic<bool>& give_up, std::atomic<int64_t>* rounds) {
  const auto stub = v1::WorkerService::NewStub(Dial(address, client));
  for (int64_t i = 0; !stop; ++i) {
    v1::SuggestRequest ask;
    ask.set_study("projects/default/studies/external");
    ask.set_worker("client-" + std::to_string(client));
    ask.set_request_id("ask-" + std::to_string(client) + "-" + std::to_string(i));
    v1::SuggestResponse lease;
    const grpc::Status asked = Send(stub.get(), &v1::WorkerService::Stub::Suggest, ask, &lease, give_up);
    if (give_up) return;
    ASSERT_TRUE(asked.ok()) << asked.error_message();
    if (lease.leases_size() == 0) continue;
    const v1::Trial& trial = lease.leases(0).trial();
    std::ostringstream line;
    line << "ask " << trial.number() << " " << std::hexfloat << trial.parameters().fields().at("x").number_value();
    log->Write(line.str());
    v1::CompleteRequest complete;
    complete.set_trial(trial.name());
    complete.set_token(lease.leases(0).token());
    const double value = static_cast<double>(client * 1'000'000 + i);
    (*complete.mutable_measurement()->mutable_metrics())["loss"] = value;
    v1::FinishResponse finished;
    const grpc::Status told = Send(stub.get(), &v1::WorkerService::Stub::Complete, complete, &finished, give_up);
    if (give_up) return;
    ASSERT_TRUE(told.ok()) << told.error_message();
    ASSERT_EQ(finished.state(), v1::Trial::COMPLETE);
    std::ostringstream done;
    done << "done " << trial.number() << " " << std::hexfloat << value;
    log->Write(done.str());
    ++*rounds;
  }
}

v1::CreateStudyRequest Study(const std::string& id, int64_t max_trials) {
  v1::CreateStudyRequest request;
  request.set_study_id(id);
  v1::StudySpec& spec = *request.mutable_spec();
  spec.mutable_metric()->set_goal(v1::MINIMIZE);
  spec.mutable_budget()->set_max_trials(max_trials);
  spec.set_seed(11);
  return request;
}

void AddFloat(v1::StudySpec* spec, const std::string& name, double min, double max) {
  v1::ParameterSpec& p = *spec->add_space();
  p.set_name(name);
  p.mutable_float_()->set_min(min);
  p.mutable_float_()->set_max(max);
}

TEST(Kill, NothingAcknowledgedIsLost) {
  const testing::TemporaryDirectory directory;
  const std::string socket = "unix:" + directory.path() + "/socket";
  const std::string data = directory.path() + "/data";
  const std::string server_log = directory.path() + "/server.log";
  const uint64_t seed = static_cast<uint64_t>(::testing::UnitTest::GetInstance()->random_seed()) + 1;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  base::RandomStream random(seed, "kill_test");

  const auto start_server = [&] {
    testing::Subprocess::Options options;
    options.output = server_log;
    return std::make_unique<testing::Subprocess>(
        std::vector<std::string>{testing::Program("luthierd"), "--listen", socket, "--data-dir", data}, options);
  };
  auto server = start_server();
  const auto channel = Dial(socket, 1000);
  const auto studies = v1::StudyService::NewStub(channel);
  const auto create = [&](const v1::CreateStudyRequest& request) {
    v1::Study study;
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    const grpc::Status status = studies->CreateStudy(&context, request, &study);
    ASSERT_TRUE(status.ok()) << status.error_message();
  };
  v1::CreateStudyRequest external = Study("external", kMaxTrials);
  AddFloat(external.mutable_spec(), "x", 0.0, 1.0);
  external.mutable_spec()->mutable_metric()->set_name("loss");
  external.mutable_spec()->mutable_algorithm()->mutable_random();
  create(external);
  // Real workers on a study whose designer depends on the history.
  v1::CreateStudyRequest builtin = Study("builtin", kWorkerTrials);
  AddFloat(builtin.mutable_spec(), "x1", -5.0, 10.0);
  AddFloat(builtin.mutable_spec(), "x2", 0.0, 15.0);
  builtin.mutable_spec()->mutable_metric()->set_name("value");
  builtin.mutable_spec()->mutable_algorithm()->mutable_bo();
  builtin.mutable_spec()->mutable_objective()->mutable_builtin()->set_model("function:branin");
  create(builtin);

  std::vector<std::unique_ptr<testing::Subprocess>> workers;
  for (int w = 0; w < 2; ++w) {
    testing::Subprocess::Options options;
    options.output = directory.path() + "/worker.log";
    options.directory = directory.path();
    workers.push_back(std::make_unique<testing::Subprocess>(
        std::vector<std::string>{testing::Program("luthier-worker"), "--server", socket, "--name",
                                 "worker-" + std::to_string(w), "--slots", "2"},
        options));
  }
  AckLog log(directory.path() + "/acknowledged");
  std::atomic<bool> stop{false}, give_up{false};
  std::atomic<int64_t> rounds{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] { ClientLoop(socket, c, &log, stop, give_up, &rounds); });
  }

  const auto worker_trials = [&]() -> int64_t {
    v1::GetStudyRequest request;
    request.set_name("projects/default/studies/builtin");
    v1::Study study;
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    return studies->GetStudy(&context, request, &study).ok() ? study.trials().complete() : -1;
  };
  // Kill while requests are under way: wait for progress after each restart, then a random moment more. Workers dial
  // again less eagerly than the clients here, so every eighth life lasts until they have got somewhere too.
  for (int kill = 0; kill < kKills; ++kill) {
    const int64_t before = rounds;
    const int64_t worker_goal = kill % 8 == 0 ? worker_trials() + 3 : 0;
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while ((rounds < before + 3 || (worker_goal > 0 && worker_trials() < worker_goal)) &&
           std::chrono::steady_clock::now() < patience) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    ASSERT_LT(std::chrono::steady_clock::now(), patience) << "no progress after kill " << kill;
    std::this_thread::sleep_for(std::chrono::microseconds(random.UniformInt(60'000)));
    server->Signal(SIGKILL);
    EXPECT_EQ(server->Wait(), 128 + SIGKILL);
    server = start_server();
  }
  stop = true;
  for (std::thread& client : clients) client.join();
  for (auto& worker : workers) worker->Signal(SIGTERM);
  for (auto& worker : workers) EXPECT_EQ(worker->Wait(), 0);
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(), 0);

  storage::SqliteOptions sqlite;
  sqlite.directory = data;
  auto storage = storage::SqliteStorage::Open(sqlite);
  ASSERT_TRUE(storage.ok()) << storage.status();
  const auto study = (*storage)->GetStudy("external");
  ASSERT_TRUE(study.ok());
  std::map<int64_t, storage::TrialRecord> trials;
  for (int64_t after = 0;;) {
    const auto page = (*storage)->ListTrials(study->key, {}, after, 1000);
    ASSERT_TRUE(page.ok());
    for (const storage::TrialRecord& t : *page) trials[after = t.trial.number] = t;
    if (page->size() < 1000) break;
  }
  std::ifstream acknowledged(directory.path() + "/acknowledged");
  std::string kind, hex;
  int64_t number = 0;
  std::set<int64_t> asked, done;
  int64_t lost = 0;
  while (acknowledged >> kind >> number >> hex) {
    const double value = std::strtod(hex.c_str(), nullptr);
    if (kind == "ask") {
      EXPECT_TRUE(asked.insert(number).second) << "trial " << number << " was given to two asks";
      const auto found = trials.find(number);
      if (found == trials.end() || std::get<double>(found->second.trial.parameters.at("x")) != value) ++lost;
    } else {
      EXPECT_TRUE(done.insert(number).second) << "trial " << number << " was completed twice";
      const auto found = trials.find(number);
      if (found == trials.end() || found->second.trial.state != study::TrialState::kComplete ||
          found->second.trial.final_measurement->metrics.at("loss") != value) {
        ++lost;
      }
    }
  }
  EXPECT_EQ(lost, 0);
  EXPECT_GE(static_cast<int64_t>(done.size()), 3 * kKills);
  for (const auto& [n, t] : trials) {
    if (t.trial.state == study::TrialState::kComplete) {
      EXPECT_EQ(done.count(n), 1u) << "trial " << n << " is complete, but nobody was told";
    }
  }
  for (const char* id : {"external", "builtin"}) {
    const auto record = (*storage)->GetStudy(id);
    ASSERT_TRUE(record.ok());
    const auto report = coordinator::VerifyReplay(storage->get(), *record);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->other_version, 0);
    EXPECT_TRUE(report->mismatches.empty()) << id << ": " << report->mismatches.front();
    std::printf("%s: %lld suggestions computed again, all equal\n", id, static_cast<long long>(report->checked));
    EXPECT_GT(report->checked, 10);
  }
  std::printf("%d kills, %zu completions acknowledged, %lld lost\n", kKills, done.size(), static_cast<long long>(lost));
}

}  // namespace
}  // namespace luthier
