#include "worker/grpc_coordinator.h"

#include <gmock/gmock.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/wire/convert.h"
#include "lib/wire/status.h"
#include "lib/wire/yaml_spec.h"
#include "worker/flags.h"

namespace luthier::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

study::StudySpec Spec() {
  study::StudySpec spec;
  spec.space = study::SearchSpace::Create({{"lr", study::FloatRange{}, {}, {}}}).value();
  spec.metric.name = "loss";
  spec.objective = study::CommandObjective{{"true"}, {}, absl::Minutes(1), 0, {}};
  return spec;
}

// Answers from a script and keeps the last request of each kind.
class Service final : public v1::WorkerService::Service {
 public:
  grpc::Status Suggest(grpc::ServerContext* context, const v1::SuggestRequest* request,
                       v1::SuggestResponse* response) override {
    suggest = *request;
    if (hang) {
      {
        const std::lock_guard<std::mutex> lock(mutex);
        hanging = true;
        changed.notify_all();
      }
      while (!context->IsCancelled()) std::this_thread::yield();
      return grpc::Status::CANCELLED;
    }
    *response = answer;
    return error;
  }
  grpc::Status GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*, v1::ServerInfo* response) override {
    ++infos;
    *response = info;
    return grpc::Status::OK;
  }
  grpc::Status Heartbeat(grpc::ServerContext*, const v1::HeartbeatRequest* request,
                         v1::HeartbeatResponse* response) override {
    heartbeat = *request;
    response->add_directives(v1::HeartbeatResponse::CONTINUE);
    response->add_directives(v1::HeartbeatResponse::STOP);
    response->add_directives(v1::HeartbeatResponse::LOST);
    response->add_directives(v1::HeartbeatResponse::FINISH);
    response->add_directives(static_cast<v1::HeartbeatResponse::Directive>(77));
    return error;
  }
  grpc::Status Report(grpc::ServerContext*, const v1::ReportRequest* request, v1::ReportResponse* response) override {
    report = *request;
    response->set_directive(v1::HeartbeatResponse::STOP);
    return error;
  }
  grpc::Status Complete(grpc::ServerContext*, const v1::CompleteRequest* request,
                        v1::FinishResponse* response) override {
    complete = *request;
    response->set_state(v1::Trial::PRUNED);
    response->add_warnings("careful");
    return error;
  }
  grpc::Status Fail(grpc::ServerContext*, const v1::FailRequest* request, v1::FinishResponse* response) override {
    fail = *request;
    response->set_state(v1::Trial::FAILED);
    return error;
  }
  grpc::Status Release(grpc::ServerContext*, const v1::ReleaseRequest* request, v1::FinishResponse* response) override {
    release = *request;
    response->set_state(v1::Trial::PENDING);
    return error;
  }

  v1::ServerInfo info;
  int infos = 0;
  v1::SuggestRequest suggest;
  v1::HeartbeatRequest heartbeat;
  v1::ReportRequest report;
  v1::CompleteRequest complete;
  v1::FailRequest fail;
  v1::ReleaseRequest release;
  v1::SuggestResponse answer;
  grpc::Status error;
  bool hang = false;
  std::mutex mutex;
  std::condition_variable changed;
  bool hanging = false;
};

class Studies final : public v1::StudyService::Service {
 public:
  grpc::Status GetStudy(grpc::ServerContext*, const v1::GetStudyRequest* request, v1::Study* response) override {
    name = request->name();
    *response->mutable_spec() = spec;
    return error;
  }
  std::string name;
  v1::StudySpec spec;
  grpc::Status error;
};

class GrpcCoordinatorTest : public ::testing::Test {
 protected:
  GrpcCoordinatorTest() {
    base::SetLogLevel(base::LogLevel::kOff);
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    builder.RegisterService(&studies_);
    server_ = builder.BuildAndStart();
    api_ = MakeGrpcCoordinator(v1::WorkerService::NewStub(server_->InProcessChannel({})),
                               v1::StudyService::NewStub(server_->InProcessChannel({})));
  }
  ~GrpcCoordinatorTest() override { base::SetLogLevel(base::LogLevel::kInfo); }

  v1::Lease MakeLease() {
    study::Trial trial;
    trial.number = 3;
    trial.state = study::TrialState::kRunning;
    trial.parameters = {{"lr", 0.5}};
    trial.create_time = absl::FromUnixSeconds(1'700'000'000);
    v1::Lease lease;
    *lease.mutable_trial() = wire::ToProto(trial, "demo");
    *lease.mutable_spec() = wire::ToProto(Spec());
    lease.set_token("token");
    lease.mutable_ttl()->set_seconds(60);
    lease.set_resume_checkpoint("c");
    lease.set_resume_step(4);
    lease.set_attempt(2);
    return lease;
  }

  Service service_;
  Studies studies_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<CoordinatorApi> api_;
};

TEST_F(GrpcCoordinatorTest, SpecIsRead) {
  studies_.spec = wire::ToProto(Spec());
  const absl::StatusOr<study::StudySpec> spec = api_->GetSpec("demo");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->metric.name, "loss");
  EXPECT_EQ(studies_.name, "projects/default/studies/demo");
  studies_.spec.clear_space();
  EXPECT_TRUE(absl::IsFailedPrecondition(api_->GetSpec("demo").status()));
  studies_.error = grpc::Status(grpc::StatusCode::NOT_FOUND, "no study");
  EXPECT_TRUE(absl::IsNotFound(api_->GetSpec("demo").status()));
}

TEST_F(GrpcCoordinatorTest, SeveralProjectsAreAskedInTurn) {
  service_.answer.mutable_retry_after()->set_seconds(7);
  GrpcCoordinatorOptions options;
  options.projects = {"vision", "speech"};
  api_ = MakeGrpcCoordinator(v1::WorkerService::NewStub(server_->InProcessChannel({})),
                             v1::StudyService::NewStub(server_->InProcessChannel({})), options);
  std::vector<std::string> asked;
  for (const char* id : {"r1", "r1", "r2", "r3"}) {  // A repetition stays where it was.
    EXPECT_EQ(api_->Suggest({"", "w1", 1, id}).value().retry_after, absl::ZeroDuration());
    asked.push_back(service_.suggest.parent());
  }
  EXPECT_THAT(asked, ElementsAre("projects/vision", "projects/vision", "projects/speech", "projects/vision"));
}

TEST_F(GrpcCoordinatorTest, ATokenOfSeveralProjectsAsksInTurn) {
  for (const char* project : {"vision", "speech", "text"}) service_.info.add_projects(project);
  std::vector<std::string> asked;
  for (const char* id : {"r1", "r2", "r3", "r4"}) {
    ASSERT_TRUE(api_->Suggest({"", "w1", 1, id}).ok());
    asked.push_back(service_.suggest.parent());
  }
  EXPECT_THAT(asked, ElementsAre("projects/vision", "projects/speech", "projects/text", "projects/vision"));
  EXPECT_EQ(service_.infos, 1);
}

TEST_F(GrpcCoordinatorTest, ATokenOfOneProjectSaysWhichByItself) {
  service_.info.add_projects("vision");
  ASSERT_TRUE(api_->Suggest({"", "w1", 1, "r1"}).ok());
  EXPECT_EQ(service_.suggest.parent(), "");
  EXPECT_THAT(*api_->OwnProjects(), ElementsAre("vision"));
  service_.info.clear_projects();
  service_.info.set_project("speech");  // Of an older coordinator.
  EXPECT_THAT(*api_->OwnProjects(), ElementsAre("speech"));
}

TEST_F(GrpcCoordinatorTest, SuggestCarriesLeases) {
  *service_.answer.add_leases() = MakeLease();
  service_.answer.mutable_retry_after()->set_seconds(7);
  const SuggestAnswer reply = api_->Suggest({"demo", "w1", 2, "id"}).value();
  EXPECT_EQ(service_.suggest.study(), "projects/default/studies/demo");
  EXPECT_EQ(service_.suggest.worker(), "w1");
  EXPECT_EQ(service_.suggest.count(), 2);
  EXPECT_EQ(service_.suggest.request_id(), "id");
  ASSERT_THAT(reply.leases, SizeIs(1));
  const Lease& lease = reply.leases[0];
  EXPECT_EQ(lease.run.study, "demo");
  EXPECT_EQ(lease.run.trial, 3);
  EXPECT_EQ(lease.run.parameters, (study::Parameters{{"lr", 0.5}}));
  EXPECT_EQ(lease.token, "token");
  EXPECT_EQ(lease.ttl, absl::Seconds(60));
  EXPECT_EQ(lease.run.spec, Spec());
  EXPECT_EQ(lease.run.resume_checkpoint, "c");
  EXPECT_EQ(lease.run.resume_step, 4);
  EXPECT_EQ(lease.run.attempt, 2);
  EXPECT_EQ(reply.retry_after, absl::Seconds(7));
  EXPECT_FALSE(reply.study_done);
}

TEST_F(GrpcCoordinatorTest, ALeaseSaysWhichGradientIsRead) {
  using study::GradientUse;
  const auto read = [&](int gradient, bool direction) {
    v1::Lease lease = MakeLease();
    lease.set_gradient(static_cast<v1::GradientUse>(gradient));
    if (direction) lease.mutable_trial()->mutable_provenance()->add_direction(1.0);
    service_.answer.clear_leases();
    *service_.answer.add_leases() = lease;
    const RunRequest run = api_->Suggest({"demo", "w1", 1, "id"})->leases.at(0).run;
    EXPECT_THAT(run.direction, SizeIs(run.gradient == GradientUse::kDirectional ? 1 : 0));
    return run.gradient;
  };
  EXPECT_EQ(read(v1::GRADIENT_USE_NONE, false), GradientUse::kNone);
  EXPECT_EQ(read(v1::GRADIENT_USE_NONE, true), GradientUse::kNone);
  EXPECT_EQ(read(v1::GRADIENT_USE_FULL, false), GradientUse::kFull);
  EXPECT_EQ(read(v1::GRADIENT_USE_FULL, true), GradientUse::kFull);
  EXPECT_EQ(read(v1::GRADIENT_USE_DIRECTIONAL, true), GradientUse::kDirectional);
  EXPECT_EQ(read(v1::GRADIENT_USE_DIRECTIONAL, false), GradientUse::kFull) << "along nothing";
  // Of a coordinator from before, and of one from later.
  for (const int unknown : {static_cast<int>(v1::GRADIENT_USE_UNSPECIFIED), 77}) {
    EXPECT_EQ(read(unknown, false), GradientUse::kFull);
    EXPECT_EQ(read(unknown, true), GradientUse::kDirectional);
  }
}

TEST_F(GrpcCoordinatorTest, AnyStudyIsNoName) {
  service_.answer.set_study_done(true);
  EXPECT_TRUE(api_->Suggest({"", "w1", 1, "id"})->study_done);
  EXPECT_EQ(service_.suggest.study(), "");
}

TEST_F(GrpcCoordinatorTest, AnUnreadableLeaseIsRefused) {
  v1::Lease lease = MakeLease();
  lease.mutable_spec()->clear_metric();
  *service_.answer.add_leases() = lease;
  EXPECT_THAT(api_->Suggest({"demo", "w1", 1, "id"})->leases, IsEmpty());
  EXPECT_EQ(service_.fail.trial(), "projects/default/studies/demo/trials/3");
  EXPECT_EQ(service_.fail.token(), "token");
  EXPECT_EQ(service_.fail.failure().kind(), v1::Failure::INFRA);
  EXPECT_THAT(service_.fail.failure().message(), HasSubstr("older than the server"));
}

TEST_F(GrpcCoordinatorTest, CancelEndsTheLongPollAndAllLaterOnes) {
  service_.hang = true;
  std::thread canceller([&] {
    std::unique_lock<std::mutex> lock(service_.mutex);
    service_.changed.wait(lock, [&] { return service_.hanging; });
    api_->CancelSuggest();
  });
  EXPECT_TRUE(absl::IsCancelled(api_->Suggest({"demo", "w1", 1, "id"}).status()));
  canceller.join();
  service_.hang = false;
  EXPECT_TRUE(absl::IsCancelled(api_->Suggest({"demo", "w1", 1, "id"}).status()));
  EXPECT_TRUE(api_->Suggest({"demo", "w1", 1, "id", absl::Seconds(5), /*last=*/true}).ok());
}

TEST_F(GrpcCoordinatorTest, HeartbeatTranslatesDirectives) {
  EXPECT_THAT(api_->Heartbeat("w1", {"a", "b", "c", "d", "e"}).value(),
              ElementsAre(study::Directive::kContinue, study::Directive::kStop, study::Directive::kLost,
                          study::Directive::kFinish, study::Directive::kContinue));
  EXPECT_EQ(service_.heartbeat.worker(), "w1");
  EXPECT_THAT(service_.heartbeat.tokens(), ElementsAre("a", "b", "c", "d", "e"));
}

TEST_F(GrpcCoordinatorTest, ReportsAndResultsCarryEverything) {
  study::Measurement m;
  m.step = 4;
  m.metrics["loss"] = 0.25;
  m.gradient = study::Gradient{{1.5}, {}, 0.0, 0.5};
  m.training = {study::TrainingOutcome::kLimit, 0.125, std::nullopt};
  m.gradient_seconds = 0.75;
  EXPECT_EQ(*api_->Report({"demo", 3, "token", {m, m}, "c", 2}), study::Directive::kStop);
  EXPECT_EQ(service_.report.trial(), "projects/default/studies/demo/trials/3");
  EXPECT_EQ(service_.report.token(), "token");
  EXPECT_EQ(service_.report.checkpoint(), "c");
  EXPECT_EQ(service_.report.start_step(), 2);
  ASSERT_EQ(service_.report.measurements_size(), 2);
  EXPECT_EQ(wire::FromProto(service_.report.measurements(0)).value(), m);

  FinalResult result;
  result.study = "demo";
  result.trial = 3;
  result.token = "token";
  result.measurement = m;
  result.pruned = true;
  result.checkpoint = "c2";
  result.output_tail = "tail";
  const FinishAnswer reply = api_->Finish(result).value();
  EXPECT_EQ(reply.state, study::TrialState::kPruned);
  EXPECT_THAT(reply.warnings, ElementsAre("careful"));
  EXPECT_EQ(service_.complete.trial(), "projects/default/studies/demo/trials/3");
  EXPECT_EQ(service_.complete.token(), "token");
  EXPECT_EQ(wire::FromProto(service_.complete.measurement()).value(), m);
  EXPECT_TRUE(service_.complete.pruned());
  EXPECT_EQ(service_.complete.checkpoint(), "c2");
  EXPECT_EQ(service_.complete.output_tail(), "tail");

  result.failed = true;
  result.failure = {study::FailureKind::kInfra, "SIGNAL", "killed"};
  EXPECT_EQ(api_->Finish(result)->state, study::TrialState::kFailed);
  EXPECT_EQ(wire::FromProto(service_.fail.failure()).value(), result.failure);
  EXPECT_EQ(service_.fail.output_tail(), "tail");

  EXPECT_EQ(api_->Release("demo", 3, "token", "c3", 3)->state, study::TrialState::kPending);
  EXPECT_EQ(service_.release.checkpoint(), "c3");
}

TEST_F(GrpcCoordinatorTest, ErrorsKeepTheirReasons) {
  service_.error =
      wire::ToGrpc(base::MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kLeaseLost, "another has it"));
  FinalResult result;
  result.study = "demo";
  result.trial = 3;
  result.token = "t";
  for (const absl::Status& status :
       {api_->Suggest({"demo", "w1", 1, "id"}).status(), api_->Heartbeat("w1", {"a"}).status(),
        api_->Report({"demo", 3, "t", {}, "", {}}).status(), api_->Finish(result).status(),
        api_->Release("demo", 3, "t", "", 0).status()}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_EQ(base::GetReason(status), base::reason::kLeaseLost);
  }
}

TEST(ConnectCoordinator, ChecksTheAddressAndNotTheServer) {
  EXPECT_TRUE(absl::IsInvalidArgument(ConnectCoordinator("nonsense").status()));
  std::unique_ptr<CoordinatorApi> api = ConnectCoordinator("unix:/no/such/socket").value();
  EXPECT_TRUE(absl::IsUnavailable(api->Heartbeat("w1", {"a"}).status()));
}

TEST(Example, IsAValidStudy) {
  const char* source = std::getenv("LUTHIER_SOURCE_DIR");
  if (source == nullptr) GTEST_SKIP() << "needs LUTHIER_SOURCE_DIR, which ctest sets";
  std::ostringstream text;
  text << std::ifstream(std::string(source) + "/examples/command/study.yaml").rdbuf();
  const absl::StatusOr<wire::StudyFile> file = wire::StudyFile::Parse(text.str(), "study.yaml");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->spec().objective().command().argv_size(), 5);
}

// --- The program's edges ---

std::optional<Flags> Parse(std::vector<std::string> words, int* exit_code) {
  words.insert(words.begin(), "luthier-worker");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return ParseFlags(static_cast<int>(argv.size()), argv.data(), exit_code);
}

TEST(Flags, HaveDefaultsFromTheEnvironment) {
  setenv("LUTHIER_SERVER", "example:1234", 1);
  setenv("XDG_STATE_HOME", "/state", 1);
  int exit_code = -1;
  const std::optional<Flags> flags = Parse({}, &exit_code);
  unsetenv("LUTHIER_SERVER");
  unsetenv("XDG_STATE_HOME");
  ASSERT_TRUE(flags);
  EXPECT_EQ(flags->server, "example:1234");
  EXPECT_TRUE(study::ValidateId("name", flags->name).ok()) << flags->name;
  EXPECT_THAT(flags->spool, ::testing::StartsWith("/state/luthier/spool/example-1234-"));
  EXPECT_EQ(flags->slots, 1);
  setenv("LUTHIER_SERVER", "example:1235", 1);
  EXPECT_NE(Parse({}, &exit_code)->spool, flags->spool) << "results of two servers never mix";
  unsetenv("LUTHIER_SERVER");
  EXPECT_EQ(Parse({}, &exit_code)->server, "localhost:7790");
}

TEST(Flags, AreCheckedBeforeAnythingStarts) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{{"--slots", "0"},
                                                                                     {"--slots", "65"},
                                                                                     {"--name", "Bad Name"},
                                                                                     {"--study", "../x"},
                                                                                     {"--exit-when-done"},
                                                                                     {"--server", "nowhere"},
                                                                                     {"--drain-timeout", "-1"},
                                                                                     {"--log-level", "loud"},
                                                                                     {"--colour"},
                                                                                     {"stray"}}) {
    int exit_code = -1;
    ::testing::internal::CaptureStderr();
    EXPECT_FALSE(Parse(words, &exit_code)) << words[0];
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("--help"));
    EXPECT_EQ(exit_code, 2) << words[0];
  }
  int exit_code = -1;
  EXPECT_EQ(Parse({"--study", "projects/default/studies/demo", "--exit-when-done"}, &exit_code)->study, "demo");
  ::testing::internal::CaptureStdout();
  EXPECT_FALSE(Parse({"--help"}, &exit_code));
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("SIGTERM"));
  EXPECT_EQ(exit_code, 0);
}

}  // namespace
}  // namespace luthier::worker
