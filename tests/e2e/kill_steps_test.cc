// A real server, killed with SIGKILL right before each single step on disk of each operation that changes a study:
// after the next start all of the operation is there or nothing, all if it was acknowledged, and the same call again
// brings all of it, once.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/check.h"
#include "luthier/v1/study_service.grpc.pb.h"
#include "luthier/v1/worker_service.grpc.pb.h"
#include "tests/testing/sanitized.h"
#include "tests/testing/subprocess.h"
#include "tests/testing/temporary_directory.h"

namespace luthier {
namespace {

constexpr char kStudy[] = "projects/default/studies/s";
constexpr int kMaxSteps = 200;  // An operation of more would be a test that hangs.

std::string TrialName(int64_t number) {
  return std::string(kStudy) + "/trials/" + std::to_string(number);
}

bool Listens(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  LUTHIER_CHECK(path.size() < sizeof(address.sun_path));
  path.copy(address.sun_path, path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool connected = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  if (!connected) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return connected;
}

struct Stubs {
  std::unique_ptr<v1::StudyService::Stub> studies;
  std::unique_ptr<v1::WorkerService::Stub> workers;
};

template <typename Stub, typename Request, typename Response>
grpc::Status Call(Stub* stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                  const Request& request, Response* response) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  return (stub->*method)(&context, request, response);
}

// A server on a directory of its own. It can be armed: killed before the n-th step on disk from then on.
class Server {
 public:
  // `counted`: with the library that counts steps.
  Server(const std::string& directory, bool counted, std::map<std::string, std::string> environment,
         const std::string& program)
      : steps_(directory + "/steps"), address_("unix:" + directory + "/socket") {
    Arm(0);
    testing::Subprocess::Options options;
    options.output = directory + "/log";
    options.environment = std::move(environment);
    if (counted) {
      options.environment["LD_PRELOAD"] = testing::Program("../tests/libkill_at_write.so");
      options.environment["LUTHIER_KILL_AT"] = steps_;
    }
    process_ = std::make_unique<testing::Subprocess>(
        std::vector<std::string>{testing::Program(program), "--listen", address_, "--data-dir", directory + "/data"},
        options);
    while (!Listens(directory + "/socket")) LUTHIER_CHECK(process_->Running());
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 10);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 10);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 20);
    const auto channel = grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments);
    stubs_ = {v1::StudyService::NewStub(channel), v1::WorkerService::NewStub(channel)};
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    v1::ServerInfo info;
    const grpc::Status status = stubs_.workers->GetServerInfo(&context, {}, &info);
    LUTHIER_CHECK(status.ok());
  }

  void Arm(int32_t step) {
    std::fstream file(steps_, std::ios::in | std::ios::out | std::ios::binary);
    if (!file.is_open()) file.open(steps_, std::ios::out | std::ios::binary);
    file.write(reinterpret_cast<const char*>(&step), sizeof(step));
  }
  Stubs& stubs() { return stubs_; }
  int Stop() {
    process_->Signal(SIGTERM);
    return process_->Wait();
  }

 private:
  const std::string steps_;
  const std::string address_;
  std::unique_ptr<testing::Subprocess> process_;
  Stubs stubs_;
};

// All that a client can read of the study, without times and numbers of events.
std::string State(Stubs& stubs) {
  std::string text;
  v1::GetStudyRequest get;
  get.set_name(kStudy);
  v1::Study study;
  const grpc::Status there = Call(stubs.studies.get(), &v1::StudyService::Stub::GetStudy, get, &study);
  EXPECT_TRUE(there.ok()) << there.error_message();
  study.clear_create_time();
  study.clear_update_time();
  study.clear_update_seq();
  text += study.DebugString();
  for (int64_t number = 1; number <= 40; ++number) {
    v1::GetTrialRequest request;
    request.set_name(TrialName(number));
    v1::Trial trial;
    const grpc::Status status = Call(stubs.studies.get(), &v1::StudyService::Stub::GetTrial, request, &trial);
    if (status.error_code() == grpc::StatusCode::NOT_FOUND) continue;
    EXPECT_TRUE(status.ok()) << status.error_message();
    trial.clear_create_time();
    trial.clear_end_time();
    trial.clear_update_seq();
    for (v1::Attempt& attempt : *trial.mutable_attempts()) {
      attempt.clear_start_time();
      attempt.clear_end_time();
    }
    text += trial.DebugString();
  }
  v1::ListEventsRequest list;
  list.set_name(kStudy);
  list.set_page_size(1000);
  v1::ListEventsResponse events;
  const grpc::Status listed = Call(stubs.studies.get(), &v1::StudyService::Stub::ListEvents, list, &events);
  EXPECT_TRUE(listed.ok()) << listed.error_message();
  for (const v1::Event& event : events.events()) {
    text += v1::Event::Type_Name(event.type()) + " " + std::to_string(event.trial()) + " " + event.detail() + "\n";
  }
  return text;
}

v1::Lease Ask(Stubs& stubs, const std::string& id) {
  v1::SuggestRequest ask;
  ask.set_study(kStudy);
  ask.set_worker("w");
  ask.set_request_id(id);
  v1::SuggestResponse leases;
  const grpc::Status status = Call(stubs.workers.get(), &v1::WorkerService::Stub::Suggest, ask, &leases);
  LUTHIER_CHECK(status.ok() && leases.leases_size() == 1);
  return leases.leases(0);
}

// Trials 1 and 2 are COMPLETE, 3 FAILED, 4 RUNNING with a curve, 5 and 6 PENDING.
v1::Lease Fill(Stubs& stubs) {
  v1::CreateStudyRequest create;
  create.set_study_id("s");
  v1::StudySpec& spec = *create.mutable_spec();
  spec.mutable_metric()->set_name("loss");
  spec.mutable_metric()->set_goal(v1::MINIMIZE);
  spec.mutable_budget()->set_max_trials(20);
  spec.mutable_algorithm()->mutable_random();
  spec.set_open_space(true);
  spec.set_seed(5);
  v1::ParameterSpec& x = *spec.add_space();
  x.set_name("x");
  x.mutable_float_()->set_min(0.0);
  x.mutable_float_()->set_max(1.0);
  v1::Study study;
  grpc::Status status = Call(stubs.studies.get(), &v1::StudyService::Stub::CreateStudy, create, &study);
  LUTHIER_CHECK(status.ok());
  for (int i = 0; i < 2; ++i) {
    const v1::Lease lease = Ask(stubs, "a" + std::to_string(i));
    v1::CompleteRequest complete;
    complete.set_trial(lease.trial().name());
    complete.set_token(lease.token());
    (*complete.mutable_measurement()->mutable_metrics())["loss"] = 1.0 + i;
    v1::FinishResponse finished;
    LUTHIER_CHECK(Call(stubs.workers.get(), &v1::WorkerService::Stub::Complete, complete, &finished).ok());
  }
  const v1::Lease lost = Ask(stubs, "a2");
  v1::FailRequest fail;
  fail.set_trial(lost.trial().name());
  fail.set_token(lost.token());
  fail.mutable_failure()->set_kind(v1::Failure::CONFIG);
  fail.mutable_failure()->set_reason("EXIT_CODE");
  v1::FinishResponse failed;
  LUTHIER_CHECK(Call(stubs.workers.get(), &v1::WorkerService::Stub::Fail, fail, &failed).ok());
  const v1::Lease running = Ask(stubs, "a3");
  v1::ReportRequest report;
  report.set_trial(running.trial().name());
  report.set_token(running.token());
  v1::Measurement& point = *report.add_measurements();
  point.set_step(1);
  (*point.mutable_metrics())["loss"] = 3.0;
  v1::ReportResponse reported;
  LUTHIER_CHECK(Call(stubs.workers.get(), &v1::WorkerService::Stub::Report, report, &reported).ok());
  v1::EnqueueTrialsRequest enqueue;
  enqueue.set_parent(kStudy);
  for (const double value : {0.25, 0.75})
    (*enqueue.add_trials()->mutable_parameters()->mutable_fields())["x"].set_number_value(value);
  v1::EnqueueTrialsResponse enqueued;
  LUTHIER_CHECK(Call(stubs.studies.get(), &v1::StudyService::Stub::EnqueueTrials, enqueue, &enqueued).ok());
  return running;
}

struct Operation {
  const char* name;
  std::function<grpc::Status(Stubs& stubs, const v1::Lease& running)> call;
};

template <typename Request, typename Response>
Operation Of(const char* name,
             grpc::Status (v1::StudyService::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
             Request request) {
  return {name, [method, request](Stubs& stubs, const v1::Lease&) {
            Response response;
            return Call(stubs.studies.get(), method, request, &response);
          }};
}

std::vector<Operation> Operations() {
  std::vector<Operation> all;
  v1::UpdateStudyRequest update;
  update.set_name(kStudy);
  update.set_request_id("update");
  update.mutable_spec()->mutable_budget()->set_max_trials(50);
  v1::ParameterSpec& wider = *update.mutable_spec()->add_space();
  wider.set_name("x");
  wider.mutable_float_()->set_min(-1.0);
  wider.mutable_float_()->set_max(2.0);
  update.mutable_update_mask()->add_paths("budget.max_trials");
  update.mutable_update_mask()->add_paths("space");
  all.push_back(Of("UpdateStudy", &v1::StudyService::Stub::UpdateStudy, update));
  v1::ImportTrialsRequest import;
  import.set_parent(kStudy);
  import.set_request_id("import");
  import.set_source("elsewhere");
  for (int i = 0; i < 12; ++i) {
    v1::Trial& trial = *import.add_trials();
    trial.set_state(v1::Trial::COMPLETE);
    (*trial.mutable_parameters()->mutable_fields())["x"].set_number_value(i / 16.0);
    (*trial.mutable_final_measurement()->mutable_metrics())["loss"] = i;
    trial.mutable_final_measurement()->set_step(2);
    v1::Measurement& point = *trial.add_measurements();
    point.set_step(1);
    (*point.mutable_metrics())["loss"] = i + 1;
  }
  all.push_back(Of("ImportTrials", &v1::StudyService::Stub::ImportTrials, import));
  v1::EnqueueTrialsRequest enqueue;
  enqueue.set_parent(kStudy);
  enqueue.set_request_id("enqueue");
  (*enqueue.add_trials()->mutable_parameters()->mutable_fields())["x"].set_number_value(0.5);
  all.push_back(Of("EnqueueTrials", &v1::StudyService::Stub::EnqueueTrials, enqueue));
  v1::RetryTrialsRequest retry;
  retry.set_parent(kStudy);
  retry.set_request_id("retry");
  retry.set_all_failed(true);
  all.push_back(Of("RetryTrials", &v1::StudyService::Stub::RetryTrials, retry));
  v1::DeleteTrialRequest remove;
  remove.set_name(TrialName(2));
  all.push_back(Of("DeleteTrial", &v1::StudyService::Stub::DeleteTrial, remove));
  v1::SetAttributesRequest note;
  note.set_name(TrialName(1));
  (*note.mutable_attributes())["note"] = std::string(20'000, 'n');
  all.push_back(Of("SetAttributes", &v1::StudyService::Stub::SetAttributes, note));
  v1::StopTrialRequest stop;
  stop.set_name(TrialName(4));
  all.push_back(Of("StopTrial", &v1::StudyService::Stub::StopTrial, stop));
  v1::CancelTrialRequest cancel;
  cancel.set_name(TrialName(5));
  all.push_back(Of("CancelTrial", &v1::StudyService::Stub::CancelTrial, cancel));
  all.push_back({"DeclareParameters", [](Stubs& stubs, const v1::Lease& running) {
                   v1::DeclareParametersRequest request;
                   request.set_trial(running.trial().name());
                   request.set_token(running.token());
                   v1::ParameterSpec& depth = *request.add_parameters();
                   depth.set_name("depth");
                   depth.mutable_int_()->set_min(1);
                   depth.mutable_int_()->set_max(9);
                   v1::DeclareParametersResponse response;
                   return Call(stubs.workers.get(), &v1::WorkerService::Stub::DeclareParameters, request, &response);
                 }});
  all.push_back({"Release", [](Stubs& stubs, const v1::Lease& running) {
                   v1::ReleaseRequest request;
                   request.set_trial(running.trial().name());
                   request.set_token(running.token());
                   request.set_checkpoint("kept");
                   v1::FinishResponse response;
                   return Call(stubs.workers.get(), &v1::WorkerService::Stub::Release, request, &response);
                 }});
  return all;
}

// Written after each operation, so that steps on disk come after its reply.
grpc::Status Later(Stubs& stubs) {
  v1::SetAttributesRequest note;
  note.set_name(TrialName(6));
  (*note.mutable_attributes())["later"] = "yes";
  v1::Trial trial;
  return Call(stubs.studies.get(), &v1::StudyService::Stub::SetAttributes, note, &trial);
}

// The first line in which they differ.
std::string Difference(const std::string& found, const std::string& expected) {
  const std::vector<std::string> a = absl::StrSplit(found, '\n'), b = absl::StrSplit(expected, '\n');
  size_t i = 0;
  while (i < a.size() && i < b.size() && a[i] == b[i]) ++i;
  return absl::StrCat("line ", i + 1, ": '", i < a.size() ? a[i] : "", "' instead of '", i < b.size() ? b[i] : "", "'");
}

class KillSteps : public ::testing::Test {
 protected:
  // Kills at every step of `operation`; what was found wrong. `steps`: how many there were.
  std::vector<std::string> Wrong(const Operation& operation, const std::string& program,
                                 const std::map<std::string, std::string>& environment, int* steps) {
    std::vector<std::string> wrong;
    std::string after, later;
    {
      Server server(Copy(), false, {}, "luthierd");
      const grpc::Status done = operation.call(server.stubs(), running_);
      EXPECT_TRUE(done.ok()) << operation.name << ": " << done.error_message();
      after = State(server.stubs());
      EXPECT_NE(after, before_) << operation.name;
      EXPECT_TRUE(Later(server.stubs()).ok());
      later = State(server.stubs());
    }
    for (int step = 1; step <= kMaxSteps; ++step) {
      const std::string where = absl::StrCat(operation.name, ", killed before step ", step, ": ");
      const std::string directory = Copy();
      bool told = false;
      {
        Server server(directory, true, environment, program);
        server.Arm(step);
        told = operation.call(server.stubs(), running_).ok();
        if (told && Later(server.stubs()).ok()) return wrong;
        if (!told) *steps = step;
      }
      auto server = std::make_unique<Server>(directory, false, std::map<std::string, std::string>{}, "luthierd");
      const std::string found = State(server->stubs());
      if (found != before_ && found != after && found != later)
        wrong.push_back(where + "a part of it is there: " + Difference(found, after));
      if (told && found == before_) wrong.push_back(where + "it was acknowledged and is not there");
      const grpc::Status again = operation.call(server->stubs(), running_);
      const bool gone = again.error_code() == grpc::StatusCode::NOT_FOUND && found != before_;  // By the first call.
      if (!again.ok() && !gone) wrong.push_back(where + "again it is refused: " + again.error_message());
      const std::string repeated = State(server->stubs());
      if (repeated != after && repeated != later)
        wrong.push_back(where + "again it comes to something else: " + Difference(repeated, after));
      server.reset();  // Killed: it holds the database.
      const testing::CommandResult replay =
          testing::RunCommand({testing::Program("luthier"), "verify-replay", "--db", directory + "/data"});
      if (replay.code != 0) wrong.push_back(where + "verify-replay: " + replay.out + replay.err);
      std::filesystem::remove_all(directory);
    }
    wrong.push_back(absl::StrCat(operation.name, " never came to its end"));
    return wrong;
  }

  void SetUp() override {
    if (testing::kSanitized) {
      GTEST_SKIP() << "a sanitizer's library has to be the first, and so has the one that kills";
    }
    const std::string base = temporary_.path() + "/base";
    std::filesystem::create_directories(base);
    Server server(base, false, {}, "luthierd");
    running_ = Fill(server.stubs());
    before_ = State(server.stubs());
    ASSERT_EQ(server.Stop(), 0);
  }

  // A directory with the data as Fill left them.
  std::string Copy() {
    const std::string directory = temporary_.path() + "/" + std::to_string(++copies_);
    std::filesystem::create_directories(directory);
    std::filesystem::copy(temporary_.path() + "/base/data", directory + "/data",
                          std::filesystem::copy_options::recursive);
    return directory;
  }

  const testing::TemporaryDirectory temporary_;
  int copies_ = 0;
  v1::Lease running_;
  std::string before_;
};

TEST_F(KillSteps, EachOperationIsThereWhollyOrNotAtAll) {
  for (const Operation& operation : Operations()) {
    int steps = 0;
    EXPECT_THAT(Wrong(operation, "luthierd", {}, &steps), ::testing::IsEmpty());
    std::printf("%s: killed before each of its %d steps on disk\n", operation.name, steps);
    EXPECT_GE(steps, 2) << operation.name;  // Something is written, and synced.
  }
}

// M1 of tests/README.md: a test of kills that lets this one live is broken.
TEST_F(KillSteps, AServerThatAnswersBeforeItsCommitIsFoundOut) {
  int steps = 0;
  const Operation import = Operations()[1];  // The answer of UpdateStudy waits for a second commit, which keeps it.
  ASSERT_STREQ(import.name, "ImportTrials");
  EXPECT_THAT(Wrong(import, "../tests/luthierd_mutants", {{"LUTHIER_MUTANT", "1"}}, &steps),
              ::testing::Contains(::testing::HasSubstr("it was acknowledged and is not there")));
}

}  // namespace
}  // namespace luthier
