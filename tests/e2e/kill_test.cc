// Real server, real workers and real clients; the server is killed with SIGKILL, again and again: at random moments,
// and at the moment when a client has been told that its result is kept. Clients keep a log of what was acknowledged to
// them, apart from the server and synced to disk. Afterwards everything acknowledged must be there, nothing may be
// there twice, and every suggestion must compute to the same bits.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "lib/base/check.h"
#include "lib/base/mutex.h"
#include "lib/base/random.h"
#include "lib/wire/status.h"
#include "luthier/v1/study_service.grpc.pb.h"
#include "luthier/v1/worker_service.grpc.pb.h"
#include "server/coordinator/proposals/replay.h"
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

// The second metric of a result.
double MillisecondsOf(double loss) {
  return std::fmod(loss, 41.0);
}

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

// What all clients share.
struct Field {
  std::string address;
  std::atomic<bool> stop{false};     // Begin nothing more.
  std::atomic<bool> give_up{false};  // Nor wait for anything.
  std::atomic<int64_t> rounds{0};    // Completions acknowledged.
  std::atomic<pid_t> victim{0};      // To be killed the moment a completion is acknowledged.

  void Wrong(const std::string& what) {
    base::MutexLock lock(&mutex);
    wrong.push_back(what);
  }
  std::vector<std::string> AllWrong() {
    base::MutexLock lock(&mutex);
    return wrong;
  }
  base::Mutex mutex;
  std::vector<std::string> wrong ABSL_GUARDED_BY(mutex);  // What must not be.
};

std::string Hex(double value) {
  std::ostringstream text;
  text << std::hexfloat << value;
  return text.str();
}

// Asks and tells. What it was told must be so ever after: it looks again whenever the connection broke meanwhile.
class AskAndTell {
 public:
  AskAndTell(Field* field, int client, AckLog* log)
      : field_(*field),
        client_(client),
        log_(*log),
        workers_(v1::WorkerService::NewStub(Dial(field->address, client))),
        studies_(v1::StudyService::NewStub(Dial(field->address, client))) {}

  void Run() {
    for (int64_t i = 0; !field_.stop; ++i) {
      if (!Round(i)) return;
      if (broke_ && !told_.empty()) LookAgain();
    }
  }

 private:
  // Sends until the outcome is known. A dead server is waited for, so it does not spin.
  template <typename Stub, typename Request, typename Response>
  grpc::Status Send(Stub* stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response) {
    while (true) {
      grpc::ClientContext context;
      context.set_wait_for_ready(true);
      context.set_deadline(std::chrono::system_clock::now() + milliseconds(3000));
      response->Clear();
      const grpc::Status status = (stub->*method)(&context, request, response);
      if (!Unknown(status) || field_.give_up) return status;
      broke_ = true;
    }
  }

  bool Round(int64_t i) {
    v1::SuggestRequest ask;
    ask.set_study("projects/default/studies/external");
    ask.set_worker("client-" + std::to_string(client_));
    ask.set_request_id("ask-" + std::to_string(client_) + "-" + std::to_string(i));
    v1::SuggestResponse lease;
    const grpc::Status asked = Send(workers_.get(), &v1::WorkerService::Stub::Suggest, ask, &lease);
    if (field_.give_up) return false;
    if (!asked.ok()) field_.Wrong("an ask was refused: " + asked.error_message());
    if (lease.leases_size() == 0) return true;
    const v1::Trial& trial = lease.leases(0).trial();
    log_.Write("ask " + std::to_string(trial.number()) + " " + Hex(trial.parameters().fields().at("x").number_value()));
    v1::CompleteRequest complete;
    complete.set_trial(trial.name());
    complete.set_token(lease.leases(0).token());
    const double value = static_cast<double>(client_ * 1'000'000 + i);
    (*complete.mutable_measurement()->mutable_metrics())["loss"] = value;
    (*complete.mutable_measurement()->mutable_metrics())["ms"] = MillisecondsOf(value);
    v1::FinishResponse finished;
    const grpc::Status told = Send(workers_.get(), &v1::WorkerService::Stub::Complete, complete, &finished);
    if (told.ok()) {
      if (const pid_t pid = field_.victim.exchange(0); pid != 0) kill(pid, SIGKILL);
    }
    if (field_.give_up) return false;
    if (!told.ok() || finished.state() != v1::Trial::COMPLETE) {
      field_.Wrong("the holder of trial " + std::to_string(trial.number()) + " was refused: " + told.error_message());
      return true;
    }
    log_.Write("done " + std::to_string(trial.number()) + " " + Hex(value));
    ++field_.rounds;
    told_ = trial.name();
    return true;
  }

  void LookAgain() {
    broke_ = false;
    v1::GetTrialRequest get;
    get.set_name(told_);
    v1::Trial trial;
    const grpc::Status status = Send(studies_.get(), &v1::StudyService::Stub::GetTrial, get, &trial);
    if (!field_.give_up && (!status.ok() || trial.state() != v1::Trial::COMPLETE)) {
      field_.Wrong(told_ + " was acknowledged and is not complete any more");
    }
  }

  Field& field_;
  const int client_;
  AckLog& log_;
  const std::unique_ptr<v1::WorkerService::Stub> workers_;
  const std::unique_ptr<v1::StudyService::Stub> studies_;
  bool broke_ = false;  // Some call's outcome was unknown since the last look.
  std::string told_;    // The trial last completed.
};

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

// A server that is killed and started again, and clients that go on through it all.
class Arena {
 public:
  explicit Arena(std::vector<std::string> program, std::map<std::string, std::string> environment = {})
      : log_(Path("acknowledged")) {
    field_.address = "unix:" + Path("socket");
    argv_ = std::move(program);
    argv_.insert(argv_.end(), {"--listen", field_.address, "--data-dir", Path("data")});
    options_.output = Path("server.log");
    options_.environment = std::move(environment);
    StartServer();
    studies_ = v1::StudyService::NewStub(Dial(field_.address, 1000));
    v1::CreateStudyRequest external = Study("external", kMaxTrials);
    AddFloat(external.mutable_spec(), "x", 0.0, 1.0);
    // Half of its results are beyond the bound.
    external.mutable_spec()->clear_metric();
    external.mutable_spec()->add_metrics()->set_name("loss");
    external.mutable_spec()->mutable_metrics(0)->set_goal(v1::MINIMIZE);
    external.mutable_spec()->add_metrics()->set_name("ms");
    external.mutable_spec()->mutable_metrics(1)->set_at_most(20.0);
    external.mutable_spec()->mutable_algorithm()->mutable_random();
    Create(external);
  }
  ~Arena() {
    field_.give_up = true;
    Finish();
  }

  std::string Path(const std::string& name) const { return directory_.path() + "/" + name; }
  Field& field() { return field_; }

  // A server that answers before its commit may not find what it has just stored: UNAVAILABLE, send again.
  void Create(const v1::CreateStudyRequest& request) {
    grpc::Status status;
    const bool known = Await([&] {
      v1::Study study;
      grpc::ClientContext context;
      context.set_wait_for_ready(true);
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
      status = studies_->CreateStudy(&context, request, &study);
      return status.error_code() != grpc::StatusCode::UNAVAILABLE;
    });
    ASSERT_TRUE(known && status.ok()) << status.error_message();
  }

  int64_t Completed(const std::string& study) {
    v1::GetStudyRequest request;
    request.set_name("projects/default/studies/" + study);
    v1::Study message;
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    return studies_->GetStudy(&context, request, &message).ok() ? message.trials().complete() : -1;
  }

  void StartClients() {
    for (int c = 0; c < kClients; ++c) {
      clients_.emplace_back([this, c] { AskAndTell(&field_, c, &log_).Run(); });
    }
  }

  // False when that takes longer than a minute.
  template <typename F>
  static bool Await(F&& condition) {
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > patience) return false;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return true;
  }

  // Some more rounds; then kills the server, at any moment or when a client has just been told that its result is
  // kept; and starts it again. False: the clients got nowhere.
  bool Kill(bool when_told, base::RandomStream& random) {
    const int64_t before = field_.rounds;
    if (!Await([&] { return field_.rounds >= before + 3; })) return false;
    if (when_told) {
      field_.victim = server_->pid();
      if (!Await([&] { return !server_->Running(); })) return false;
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(random.UniformInt(60'000)));
      server_->Signal(SIGKILL);
    }
    EXPECT_EQ(server_->Wait(), 128 + SIGKILL);
    StartServer();
    return true;
  }

  // Clients end what they began; the server stops in order.
  void Finish() {
    field_.stop = true;
    for (std::thread& client : clients_) client.join();
    clients_.clear();
  }
  int StopServer() {
    server_->Signal(SIGTERM);
    return server_->Wait();
  }

  // Compares the log with the database of a stopped server. Returns how many completions were acknowledged.
  size_t Audit(storage::Storage* storage);

 private:
  void StartServer() { server_ = std::make_unique<testing::Subprocess>(argv_, options_); }

  const testing::TemporaryDirectory directory_;
  Field field_;
  AckLog log_;
  std::vector<std::string> argv_;
  testing::Subprocess::Options options_;
  std::unique_ptr<testing::Subprocess> server_;
  std::unique_ptr<v1::StudyService::Stub> studies_;
  std::vector<std::thread> clients_;
};

size_t Arena::Audit(storage::Storage* storage) {
  const auto study = storage->GetStudy("external");
  if (!study.ok()) {
    field_.Wrong("the study is gone");
    return 0;
  }
  std::map<int64_t, storage::TrialRecord> trials;
  for (int64_t after = 0;;) {
    const auto page = storage->ListTrials(study->key, {}, after, 1000);
    LUTHIER_CHECK(page.ok());
    for (const storage::TrialRecord& t : *page) trials[after = t.trial.number] = t;
    if (page->size() < 1000) break;
  }
  std::ifstream acknowledged(Path("acknowledged"));
  std::string kind, hex;
  int64_t number = 0;
  std::set<int64_t> asked, done;
  while (acknowledged >> kind >> number >> hex) {
    const double value = std::strtod(hex.c_str(), nullptr);
    const std::string name = "trial " + std::to_string(number);
    const auto found = trials.find(number);
    const study::Trial* trial = found == trials.end() ? nullptr : &found->second.trial;
    if (kind == "ask") {
      if (!asked.insert(number).second) field_.Wrong(name + " was given to two asks");
      if (trial == nullptr || std::get<double>(trial->parameters.at("x")) != value) field_.Wrong(name + " is lost");
    } else {
      if (!done.insert(number).second) field_.Wrong(name + " was completed twice");
      if (trial == nullptr || trial->state != study::TrialState::kComplete ||
          trial->final_measurement->metrics.at("loss") != value ||
          trial->final_measurement->metrics.at("ms") != MillisecondsOf(value)) {
        field_.Wrong("the result of " + name + " is lost");
      }
    }
  }
  for (const auto& [n, t] : trials) {
    if (t.trial.state == study::TrialState::kComplete && done.count(n) == 0) {
      field_.Wrong("trial " + std::to_string(n) + " is complete, but nobody was told");
    }
  }
  return done.size();
}

base::RandomStream Seeded() {
  const uint64_t seed = static_cast<uint64_t>(::testing::UnitTest::GetInstance()->random_seed()) + 1;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  return base::RandomStream(seed, "kill_test");
}

TEST(Kill, NothingAcknowledgedIsLost) {
  base::RandomStream random = Seeded();
  Arena arena({testing::Program("luthierd")});
  // Real workers on a study whose designer depends on the history.
  v1::CreateStudyRequest builtin = Study("builtin", kWorkerTrials);
  AddFloat(builtin.mutable_spec(), "x1", -5.0, 10.0);
  AddFloat(builtin.mutable_spec(), "x2", 0.0, 15.0);
  builtin.mutable_spec()->mutable_metric()->set_name("value");
  builtin.mutable_spec()->mutable_algorithm()->mutable_bo();
  builtin.mutable_spec()->mutable_objective()->mutable_builtin()->set_model("function:branin");
  arena.Create(builtin);
  std::vector<std::unique_ptr<testing::Subprocess>> workers;
  for (int w = 0; w < 2; ++w) {
    testing::Subprocess::Options options;
    options.output = arena.Path("worker.log");
    options.directory = arena.Path("");
    workers.push_back(std::make_unique<testing::Subprocess>(
        std::vector<std::string>{testing::Program("luthier-worker"), "--server", arena.field().address, "--name",
                                 "worker-" + std::to_string(w), "--slots", "2"},
        options));
  }
  arena.StartClients();
  for (int kill = 0; kill < kKills; ++kill) {
    // Workers dial again less eagerly than the clients here, so every eighth life lasts until they got somewhere too.
    if (kill % 8 == 0) {
      const int64_t goal = arena.Completed("builtin") + 3;
      ASSERT_TRUE(arena.Await([&] { return arena.Completed("builtin") >= goal; }));
    }
    ASSERT_TRUE(arena.Kill(/*when_told=*/kill % 2 == 1, random)) << "no progress after kill " << kill;
  }
  arena.Finish();
  for (auto& worker : workers) worker->Signal(SIGTERM);
  for (auto& worker : workers) EXPECT_EQ(worker->Wait(), 0);
  EXPECT_EQ(arena.StopServer(), 0);

  storage::SqliteOptions sqlite;
  sqlite.directory = arena.Path("data");
  auto storage = storage::SqliteStorage::Open(sqlite);
  ASSERT_TRUE(storage.ok()) << storage.status();
  const size_t completions = arena.Audit(storage->get());
  EXPECT_THAT(arena.field().AllWrong(), ::testing::IsEmpty());
  EXPECT_GE(completions, size_t{3} * kKills);
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
  std::printf("%d kills, %zu completions acknowledged, none lost\n", kKills, completions);
}

// M1 of tests/README.md: a test of kills that lets this one live is broken.
TEST(Kill, AServerThatAnswersBeforeItsCommitIsFoundOut) {
  base::RandomStream random = Seeded();
  Arena arena({testing::Program("../tests/luthierd_mutants")}, {{"LUTHIER_MUTANT", "1"}});
  arena.StartClients();
  int kills = 0;
  while (kills < kKills && arena.field().AllWrong().empty()) {
    ASSERT_TRUE(arena.Kill(/*when_told=*/kills % 2 == 1, random));
    ++kills;
  }
  const std::vector<std::string> wrong = arena.field().AllWrong();
  EXPECT_THAT(wrong, ::testing::Not(::testing::IsEmpty()));
  if (!wrong.empty()) std::printf("after %d kills: %s\n", kills, wrong.front().c_str());
}

}  // namespace
}  // namespace luthier
