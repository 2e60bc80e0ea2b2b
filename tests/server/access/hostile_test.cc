// Callers who have a valid token and want what is another's: each try is refused, and the database is as before.
#include <SQLiteCpp/SQLiteCpp.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/dynamic_message.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "lib/base/error.h"
#include "lib/data/data_root.h"
#include "tests/server/access/access_fixture.h"
#include "tests/worker/testing.h"
#include "worker/objectives/builtin.h"

namespace luthier::access::testing {
namespace {

constexpr char kStudy[] = "projects/vision/studies/s";
constexpr char kTrial[] = "projects/vision/studies/s/trials/1";

// The rows of a query, a line each.
std::string Rows(SQLite::Database& db, const std::string& query) {
  std::string text;
  SQLite::Statement rows(db, query);
  while (rows.executeStep()) {
    for (int column = 0; column < rows.getColumnCount(); ++column) {
      const SQLite::Column value = rows.getColumn(column);
      const absl::string_view bytes(static_cast<const char*>(value.getBlob()), static_cast<size_t>(value.getBytes()));
      absl::StrAppend(&text, column == 0 ? "" : "|", absl::CHexEscape(bytes));
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

class HostileTest : public AccessTest {
 protected:
  // Two studies of vision, one of them with a command; `worker` holds trial 1 of the first.
  void SetUp() override {
    AccessTest::SetUp();
    v1::CreateStudyRequest create = Study("s");
    v1::Study study;
    grpc::Status made = v1::StudyService::NewStub(Channel("user"))->CreateStudy(Context().get(), create, &study);
    ASSERT_TRUE(made.ok()) << made.error_message();
    create.set_study_id("command");
    create.mutable_spec()->mutable_objective()->mutable_command()->add_argv("/bin/true");
    made = v1::StudyService::NewStub(Channel("commander"))->CreateStudy(Context().get(), create, &study);
    ASSERT_TRUE(made.ok()) << made.error_message();
    v1::SuggestRequest ask;
    ask.set_study(kStudy);
    ask.set_worker("w");
    ask.set_request_id("r1");
    v1::SuggestResponse suggested;
    const auto worker = v1::WorkerService::NewStub(Channel("worker"));
    ASSERT_TRUE(worker->Suggest(Context().get(), ask, &suggested).ok());
    ASSERT_EQ(suggested.leases_size(), 1);
    lease_ = suggested.leases(0).token();
    ASSERT_EQ(suggested.leases(0).trial().name(), kTrial);
    v1::ReportRequest report = Report("file:mine");
    v1::ReportResponse reported;
    const grpc::Status status = worker->Report(Context().get(), report, &reported);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  v1::ReportRequest Report(const std::string& checkpoint) const {
    v1::ReportRequest report;
    report.set_trial(kTrial);
    report.set_token(lease_);
    v1::Measurement* measurement = report.add_measurements();
    measurement->set_step(checkpoint == "file:mine" ? 1 : 2);
    (*measurement->mutable_metrics())["loss"] = 0.25;
    report.set_checkpoint(checkpoint);
    return report;
  }

  // All that is kept, but for the record of what was tried: the audit, last uses, and events of refused reports.
  std::string Dump() {
    std::string text;
    SQLite::Database studies(dir_.path() + "/luthier.db", SQLite::OPEN_READONLY);
    SQLite::Statement tables(studies, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name");
    while (tables.executeStep()) {
      const std::string table = tables.getColumn(0).getText();
      if (absl::StartsWith(table, "sqlite_") || table == "counter") continue;
      const std::string where =
          table == "event" ? absl::StrCat(" WHERE type <> ", static_cast<int>(v1::Event::REPORT_REFUSED)) : "";
      absl::StrAppend(&text, table, ":\n", Rows(studies, absl::StrCat("SELECT * FROM ", table, where)));
    }
    SQLite::Database access(dir_.path() + "/access.db", SQLite::OPEN_READONLY);
    absl::StrAppend(&text, "projects:\n", Rows(access, "SELECT * FROM projects ORDER BY id"));
    absl::StrAppend(&text, "tokens:\n",
                    Rows(access,
                         "SELECT id, name, project, roles, commands, hash, previous_hash, expire_time, revoke_time, "
                         "certificate FROM tokens ORDER BY id"));
    return text;
  }

  std::string lease_;
};

TEST_F(HostileTest, ALeaseOfAnother) {
  const std::string before = Dump();
  ASSERT_TRUE(absl::StrContains(before, "file:mine"));
  // "both" is of the same project, "stranger" of another one; both know name and lease.
  for (const char* who : {"both", "stranger"}) {
    const auto thief = v1::WorkerService::NewStub(Channel(who));
    const std::string refusal = std::string(who) == "both" ? base::reason::kLeaseLost : base::reason::kNotFound;
    v1::ReportResponse reported;
    EXPECT_EQ(Reason(thief->Report(Context().get(), Report("file:theirs"), &reported)), refusal);
    v1::CompleteRequest complete;
    complete.set_trial(kTrial);
    complete.set_token(lease_);
    (*complete.mutable_measurement()->mutable_metrics())["loss"] = -1e9;
    v1::FinishResponse finished;
    EXPECT_EQ(Reason(thief->Complete(Context().get(), complete, &finished)), refusal);
    v1::FailRequest fail;
    fail.set_trial(kTrial);
    fail.set_token(lease_);
    fail.mutable_failure()->set_kind(v1::Failure::CONFIG);
    fail.mutable_failure()->set_reason("NON_FINITE");
    EXPECT_EQ(Reason(thief->Fail(Context().get(), fail, &finished)), refusal);
    v1::ReleaseRequest release;
    release.set_trial(kTrial);
    release.set_token(lease_);
    release.set_checkpoint("file:theirs");
    EXPECT_EQ(Reason(thief->Release(Context().get(), release, &finished)), refusal);
    v1::DeclareParametersRequest declare;
    declare.set_trial(kTrial);
    declare.set_token(lease_);
    *declare.add_parameters() = Study("s").spec().space(0);
    v1::DeclareParametersResponse declared;
    const grpc::Status refused = thief->DeclareParameters(Context().get(), declare, &declared);
    EXPECT_FALSE(refused.ok());
    EXPECT_EQ(Dump(), before) << who;
  }
  // The holder goes on.
  v1::ReportResponse reported;
  const grpc::Status status =
      v1::WorkerService::NewStub(Channel("worker"))->Report(Context().get(), Report("file:mine-too"), &reported);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_NE(Dump(), before);
}

TEST_F(HostileTest, ANameOfAnother) {
  const std::string before = Dump();
  const auto thief = v1::WorkerService::NewStub(Channel("both"));
  for (const char* name : {"worker/w", "vision/worker/w", "../worker/w", "w\n", ""}) {
    v1::SuggestRequest ask;
    ask.set_study(kStudy);
    ask.set_worker(name);
    ask.set_request_id("r1");
    v1::SuggestResponse suggested;
    EXPECT_EQ(Reason(thief->Suggest(Context().get(), ask, &suggested)), base::reason::kBadField) << name;
    v1::HeartbeatRequest beat;
    beat.set_worker(name);
    beat.add_tokens(lease_);
    v1::HeartbeatResponse directives;
    EXPECT_EQ(Reason(thief->Heartbeat(Context().get(), beat, &directives)), base::reason::kBadField) << name;
  }
  EXPECT_EQ(Dump(), before);
}

TEST_F(HostileTest, ARequestOfAnother) {
  // The same id, the same words: for somebody else it is another request, whose answer tells nothing of the first.
  v1::EnqueueTrialsRequest enqueue;
  enqueue.set_parent(kStudy);
  enqueue.set_request_id("e1");
  (*enqueue.add_trials()->mutable_parameters()->mutable_fields())["x"].set_number_value(0.5);
  const auto add = [&](const std::string& who) {
    v1::EnqueueTrialsResponse response;
    const grpc::Status status =
        v1::StudyService::NewStub(Channel(who))->EnqueueTrials(Context().get(), enqueue, &response);
    EXPECT_TRUE(status.ok()) << who << ": " << status.error_message();
    return response.trials_size() == 1 ? response.trials(0).name() : "";
  };
  const std::string mine = add("user"), theirs = add("maintainer");
  EXPECT_NE(mine, theirs);
  EXPECT_EQ(add("user"), mine);
  EXPECT_EQ(add("maintainer"), theirs);
}

TEST_F(HostileTest, AStudyOfAnotherProjectWhateverTheCall) {
  const std::string before = Dump();
  const auto channel = Channel("stranger");
  int calls = 0;
  for (const char* service : {"StudyService", "WorkerService"}) {
    const auto* const descriptor =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(absl::StrCat("luthier.v1.", service));
    for (int i = 0; i < descriptor->method_count(); ++i) {
      const auto* const method = descriptor->method(i);
      google::protobuf::DynamicMessageFactory factory;
      for (const char* object : {"projects/vision", kStudy, kTrial}) {
        const std::unique_ptr<google::protobuf::Message> request(factory.GetPrototype(method->input_type())->New());
        bool named = false;
        for (const char* field : {"name", "parent", "study", "trial"}) {
          const auto* const there = method->input_type()->FindFieldByName(field);
          if (there == nullptr) continue;
          request->GetReflection()->SetString(request.get(), there, object);
          named = true;
        }
        if (!named) continue;
        ++calls;
        const absl::Status status = Call(channel, method, *request);
        EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << method->full_name() << " " << object << ": " << status;
        EXPECT_FALSE(absl::StrContains(status.message(), "budget")) << status;
      }
    }
  }
  EXPECT_GT(calls, 60);
  EXPECT_EQ(Dump(), before);
}

TEST_F(HostileTest, AStudyThatItMaySeeAndNotChange) {
  const std::string before = Dump();
  const auto* const service =
      google::protobuf::DescriptorPool::generated_pool()->FindServiceByName("luthier.v1.StudyService");
  for (const char* who : {"viewer", "worker"}) {
    const auto channel = Channel(who);
    for (const char* name : {"CreateStudy", "UpdateStudy", "PauseStudy", "ResumeStudy", "StopStudy", "CancelStudy",
                             "DeleteStudy", "UndeleteStudy", "EnqueueTrials", "ImportTrials", "RetryTrials",
                             "DeleteTrial", "SetAttributes", "CancelTrial", "StopTrial"}) {
      const auto* const method = service->FindMethodByName(name);
      ASSERT_NE(method, nullptr) << name;
      google::protobuf::DynamicMessageFactory factory;
      const std::unique_ptr<google::protobuf::Message> request(factory.GetPrototype(method->input_type())->New());
      for (const char* field : {"name", "study", "trial"}) {
        if (const auto* const there = method->input_type()->FindFieldByName(field)) {
          request->GetReflection()->SetString(request.get(), there, absl::StrContains(name, "Trial") ? kTrial : kStudy);
        }
      }
      EXPECT_EQ(base::GetReason(Call(channel, method, *request)), base::reason::kRole) << who << " " << name;
    }
  }
  EXPECT_EQ(Dump(), before);
}

TEST_F(HostileTest, ACommandWithoutTheRight) {
  const std::string before = Dump();
  const auto user = v1::StudyService::NewStub(Channel("user"));
  v1::CreateStudyRequest create = Study("mine");
  create.mutable_spec()->mutable_objective()->mutable_command()->add_argv("/bin/sh");
  v1::Study study;
  EXPECT_EQ(Reason(user->CreateStudy(Context().get(), create, &study)), base::reason::kRole);
  for (const char* name : {kStudy, "projects/vision/studies/command"}) {
    for (const char* path : {"objective", "objective.command", "objective.command.argv", "*"}) {
      v1::UpdateStudyRequest update;
      update.set_name(name);
      update.mutable_spec()->mutable_objective()->mutable_command()->add_argv("/bin/sh");
      update.mutable_update_mask()->add_paths(path);
      EXPECT_EQ(Reason(user->UpdateStudy(Context().get(), update, &study)), base::reason::kRole) << name << " " << path;
    }
  }
  EXPECT_EQ(Dump(), before);
}

TEST_F(HostileTest, TokensOfAnother) {
  const std::string before = Dump();
  for (const char* who : {"commander", "both", "viewer"}) {
    const auto admin = v1::AdminService::NewStub(Channel(who));
    v1::CreateTokenRequest create;
    create.set_name("mine");
    create.add_roles(v1::ADMIN);
    v1::CreateTokenResponse made;
    EXPECT_EQ(Reason(admin->CreateToken(Context().get(), create, &made)), base::reason::kRole);
    v1::RotateTokenRequest rotate;
    rotate.set_id(ids_["admin"]);
    EXPECT_EQ(Reason(admin->RotateToken(Context().get(), rotate, &made)), base::reason::kRole);
    v1::RevokeTokenRequest revoke;
    revoke.set_id(ids_["admin"]);
    v1::Token token;
    EXPECT_EQ(Reason(admin->RevokeToken(Context().get(), revoke, &token)), base::reason::kRole);
    EXPECT_EQ(made.secret(), "");
  }
  EXPECT_EQ(Dump(), before);
}

// What a study may name is below the worker's data root, whoever made the study.
TEST(HostileStudy, DataOutsideOfTheRoot) {
  const luthier::testing::TemporaryDirectory root, outside;
  outside.Write("secret.csv", "12345678,0\n2,1\n");
  const std::string secret = outside.path() + "/secret.csv";
  ASSERT_EQ(symlink(secret.c_str(), (root.path() + "/link.csv").c_str()), 0);
  ASSERT_EQ(symlink(outside.path().c_str(), (root.path() + "/folder").c_str()), 0);
  const auto data_root = data::DataRoot::Open(root.path());
  ASSERT_TRUE(data_root.ok()) << data_root.status();
  worker::BuiltinRunner runner(&*data_root, nullptr);
  for (const std::string& path : {secret, std::string("link.csv"), std::string("folder/secret.csv"),
                                  "../" + outside.path().substr(5) + "/secret.csv", std::string("/etc/shadow"),
                                  std::string("/proc/self/environ")}) {
    worker::RunRequest request;
    request.study = "vision/s";
    request.trial = 1;
    request.spec.space = study::SearchSpace::Create({{"l2", study::FloatRange{}, {}, {}}}).value();
    request.spec.metric.name = "validation_loss";
    study::BuiltinObjective logistic;
    logistic.model = "logistic";
    logistic.data = path;
    request.spec.objective = logistic;
    request.parameters = {{"l2", 0.5}};
    EXPECT_FALSE(runner.Open(request.spec).ok()) << path;
    worker::RecordingSink sink;
    const worker::RunOutcome outcome = runner.Run(request, &sink);
    EXPECT_EQ(outcome.failure.reason, study::failure::kBadObjective) << path;
    EXPECT_FALSE(absl::StrContains(outcome.failure.message + outcome.output_tail, "12345678")) << path;
    EXPECT_TRUE(sink.reports.empty()) << path;
  }
}

// Contexts of such calls are gRPC's own: they must not be released as though they were ours.
TEST_F(HostileTest, MethodsThatNobodyHas) {
  for (const char* who : {"", "user", "no-token"}) {
    for (const char* path : {"/AWS.ALB/healthcheck", "/luthier.v1.StudyService/NoSuchMethod", "/"}) {
      const grpc::Status status = CallPath(Channel(who), path, grpc::ByteBuffer());
      EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
      EXPECT_EQ(Reason(status), base::reason::kUnimplemented);
      EXPECT_TRUE(absl::StrContains(status.error_message(), absl::StrCat("no method \"", path, "\"")))
          << status.error_message();
    }
  }
  v1::ListStudiesResponse studies;
  EXPECT_TRUE(v1::StudyService::NewStub(Channel("user"))->ListStudies(Context().get(), {}, &studies).ok());
}

}  // namespace
}  // namespace luthier::access::testing
