// Every call × every kind of caller × own, other and no project, found by reflection: a call without a row fails.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/util/json_util.h>

#include <map>
#include <vector>

#include "absl/strings/match.h"
#include "lib/base/error.h"
#include "tests/server/access/access_fixture.h"

namespace luthier::access::testing {
namespace {

using Roles = std::set<std::string>;

const Roles kSee = {"viewer", "user", "worker", "both", "maintainer", "several", "admin"};
const Roles kRead = {"viewer", "user", "both", "maintainer", "several", "admin"};
const Roles kWork = {"user", "worker", "both", "maintainer", "several", "admin"};
const Roles kWrite = {"user", "both", "maintainer", "several", "admin"};
const Roles kAdmin = {"admin"};

// Who may call what, as docs/guide/security.md says.
const std::map<std::string, Roles>& Matrix() {
  static const auto* const kMatrix = new std::map<std::string, Roles>{
      {"StudyService/CreateStudy", kWrite},   {"StudyService/GetStudy", kSee},
      {"StudyService/ListStudies", kRead},    {"StudyService/UpdateStudy", kWrite},
      {"StudyService/PauseStudy", kWrite},    {"StudyService/ResumeStudy", kWrite},
      {"StudyService/StopStudy", kWrite},     {"StudyService/CancelStudy", kWrite},
      {"StudyService/DeleteStudy", kWrite},   {"StudyService/GetTrial", kSee},
      {"StudyService/ListTrials", kRead},     {"StudyService/EnqueueTrials", kWrite},
      {"StudyService/ImportTrials", kWrite},  {"StudyService/RetryTrials", kWrite},
      {"StudyService/DeleteTrial", kWrite},   {"StudyService/SetAttributes", kWrite},
      {"StudyService/CancelTrial", kWrite},   {"StudyService/StopTrial", kWrite},
      {"StudyService/Predict", kRead},        {"StudyService/ExplainTrial", kSee},
      {"StudyService/ListWorkers", kRead},    {"StudyService/GetTrialTable", kRead},
      {"StudyService/ListEvents", kRead},     {"StudyService/GetImportance", kRead},
      {"StudyService/WatchStudy", kRead},     {"WorkerService/Suggest", kWork},
      {"WorkerService/Heartbeat", kWork},     {"WorkerService/Report", kWork},
      {"WorkerService/Complete", kWork},      {"WorkerService/Fail", kWork},
      {"WorkerService/Release", kWork},       {"WorkerService/DeclareParameters", kWork},
      {"WorkerService/GetServerInfo", kSee},  {"AdminService/CreateToken", kAdmin},
      {"AdminService/ListTokens", kAdmin},    {"AdminService/RotateToken", kAdmin},
      {"AdminService/RevokeToken", kAdmin},   {"AdminService/CreateProject", kAdmin},
      {"AdminService/UpdateProject", kAdmin}, {"AdminService/ListProjects", kAdmin},
      {"AdminService/ListAudit", kAdmin},     {"AdminService/OpenPage", kAdmin},
      {"StudyService/CheckStudyFile", kRead}, {"StudyService/UndeleteStudy", kWrite},
  };
  return *kMatrix;
}

// The fields by which requests name what they are about.
const std::map<std::string, std::string>& Names() {
  static const auto* const kNames = new std::map<std::string, std::string>{
      {"name", "/studies/none"}, {"parent", ""}, {"study", "/studies/none"}, {"trial", "/studies/none/trials/1"}};
  return *kNames;
}

class MatrixTest : public AccessTest {
 protected:
  void SetUp() override {
    AccessTest::SetUp();
    for (const char* service : {"StudyService", "WorkerService", "AdminService"}) {
      const auto* const descriptor =
          google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(absl::StrCat("luthier.v1.", service));
      ASSERT_NE(descriptor, nullptr);
      for (int i = 0; i < descriptor->method_count(); ++i) methods_.push_back(descriptor->method(i));
    }
  }

  // Returns what the call of `method` about something in `project` ("": about nothing in particular) comes to.
  // *named: whether the request names something at all.
  absl::Status Call(const std::shared_ptr<grpc::Channel>& channel, const google::protobuf::MethodDescriptor* method,
                    const std::string& project, bool* named = nullptr) {
    google::protobuf::DynamicMessageFactory factory;
    const std::unique_ptr<google::protobuf::Message> request(factory.GetPrototype(method->input_type())->New());
    const bool admin = method->service()->name() == "AdminService";
    for (const auto& [field, rest] : Names()) {
      const auto* const descriptor = method->input_type()->FindFieldByName(field);
      if (descriptor == nullptr || admin || project.empty()) continue;
      // Both ask and create take a project, too; the study is what counts where there is one.
      const bool list = field == "parent" && (method->name() == "CreateStudy" || method->name() == "ListStudies" ||
                                              method->name() == "Suggest");
      const std::string tail = field == "parent" && !list ? "/studies/none" : rest;
      request->GetReflection()->SetString(request.get(), descriptor, absl::StrCat("projects/", project, tail));
      if (named != nullptr) *named = true;
    }
    return AccessTest::Call(channel, method, *request);
  }

  std::vector<const google::protobuf::MethodDescriptor*> methods_;
};

std::string NameOf(const google::protobuf::MethodDescriptor* method) {
  return absl::StrCat(method->service()->name(), "/", method->name());
}

TEST_F(MatrixTest, EveryCallHasARow) {
  for (const auto* method : methods_) EXPECT_EQ(Matrix().count(NameOf(method)), 1u) << NameOf(method);
  EXPECT_EQ(Matrix().size(), methods_.size());
}

TEST_F(MatrixTest, WithoutAValidTokenNothingGoes) {
  const std::map<std::string, std::string> reasons = {
      {"", base::reason::kNoToken},
      {"expired", base::reason::kExpired},
      {"revoked", base::reason::kRevoked},
      {"lut_0123456789abcdef_" + std::string(43, 'A'), base::reason::kBadToken},
      {"lut_", base::reason::kBadToken}};
  for (const auto& [caller, reason] : reasons) {
    const auto channel = Channel(caller);
    for (size_t i = 0; i < methods_.size(); ++i) {
      if (i % 12 != 0 && !caller.empty()) continue;  // Wrong tokens beyond ten a minute take a second each.
      const absl::Status status = Call(channel, methods_[i], "vision");
      EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << NameOf(methods_[i]) << " " << caller;
      EXPECT_EQ(base::GetReason(status), reason) << NameOf(methods_[i]) << " " << caller;
    }
  }
}

TEST_F(MatrixTest, RolesAndProjects) {
  // "several" has a token for the projects "vision" and "speech", the others for "vision" alone.
  for (const char* caller : {"viewer", "user", "worker", "both", "maintainer", "several", "admin"}) {
    const auto channel = Channel(caller);
    for (const auto* method : methods_) {
      const bool may = Matrix().at(NameOf(method)).count(caller) > 0;
      for (const char* project : {"vision", "other", "speech", ""}) {
        bool named = false;
        const absl::Status status = Call(channel, method, project, &named);
        const std::string what =
            absl::StrCat(NameOf(method), " by ", caller, " in '", project, "': ", status.ToString());
        EXPECT_NE(status.code(), absl::StatusCode::kUnauthenticated) << what;
        EXPECT_NE(status.code(), absl::StatusCode::kUnimplemented) << what;
        const bool foreign =
            std::string(project) == "other" || (std::string(project) == "speech" && std::string(caller) != "several");
        const bool elsewhere = foreign && named && std::string(caller) != "admin";
        if (elsewhere) {
          EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << what;
        } else if (may) {
          EXPECT_NE(status.code(), absl::StatusCode::kPermissionDenied) << what;
        } else {
          EXPECT_EQ(base::GetReason(status), base::reason::kRole) << what;
        }
      }
    }
  }
}

// Calls that change a study that there is, or its trials, and who may make them by the study's owner.
class OwnersTest : public MatrixTest {
 protected:
  // What callers of the role USER may do to a study that another one made.
  static const std::set<std::string>& OwnersOnly() {
    static const auto* const kOwners = new std::set<std::string>{
        "StudyService/UpdateStudy",   "StudyService/PauseStudy",    "StudyService/ResumeStudy",
        "StudyService/StopStudy",     "StudyService/CancelStudy",   "StudyService/DeleteStudy",
        "StudyService/UndeleteStudy", "StudyService/EnqueueTrials", "StudyService/ImportTrials",
        "StudyService/RetryTrials",   "StudyService/DeleteTrial",   "StudyService/SetAttributes",
        "StudyService/CancelTrial",   "StudyService/StopTrial"};
    return *kOwners;
  }

  // Makes a study, with a trial that nobody holds.
  void Make(const std::string& who, const std::string& id, const std::string& project) {
    const auto stub = v1::StudyService::NewStub(Channel(who));
    v1::CreateStudyRequest create = Study(id);
    if (!project.empty()) create.set_parent("projects/" + project);
    v1::Study study;
    const grpc::Status made = stub->CreateStudy(Context().get(), create, &study);
    ASSERT_TRUE(made.ok()) << made.error_message();
    v1::EnqueueTrialsRequest enqueue;
    enqueue.set_parent(study.name());
    (*enqueue.add_trials()->mutable_parameters()->mutable_fields())["x"].set_number_value(0.5);
    v1::EnqueueTrialsResponse response;
    const grpc::Status added = stub->EnqueueTrials(Context().get(), enqueue, &response);
    ASSERT_TRUE(added.ok()) << added.error_message();
  }

  // What the call of `method` about the study comes to. It has what a call needs to get to the study.
  absl::Status CallAbout(const std::string& who, const google::protobuf::MethodDescriptor* method,
                         const std::string& study) {
    google::protobuf::DynamicMessageFactory factory;
    const std::unique_ptr<google::protobuf::Message> request(factory.GetPrototype(method->input_type())->New());
    const auto set = [&](const char* field, const std::string& value) {
      const auto* const descriptor = method->input_type()->FindFieldByName(field);
      if (descriptor != nullptr) request->GetReflection()->SetString(request.get(), descriptor, value);
    };
    const bool trial = method->name() == "DeleteTrial" || method->name() == "SetAttributes" ||
                       method->name() == "CancelTrial" || method->name() == "StopTrial";
    set("name", trial ? study + "/trials/1" : study);
    set("parent", study);
    set("request_id", absl::StrCat(who, ++calls_));
    std::string text;
    if (method->name() == "UpdateStudy") text = R"({"spec": {"description": "x"}, "update_mask": "description"})";
    if (method->name() == "EnqueueTrials") text = R"({"trials": [{"parameters": {"x": 0.5}}]})";
    if (method->name() == "ImportTrials") {
      text =
          R"({"trials": [{"state": "COMPLETE", "parameters": {"x": 0.5}, "final_measurement": {"metrics": {"loss": 1}}}]})";
    }
    if (method->name() == "RetryTrials") text = R"({"numbers": [1]})";
    if (method->name() == "SetAttributes") text = R"({"attributes": {"note": "x"}})";
    if (!text.empty()) {
      const std::unique_ptr<google::protobuf::Message> more(factory.GetPrototype(method->input_type())->New());
      EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(text, more.get()).ok()) << text;
      request->MergeFrom(*more);
    }
    return AccessTest::Call(Channel(who), method, *request);
  }

  int calls_ = 0;
};

TEST_F(OwnersTest, EveryCallThatChangesAStudyIsForItsOwnerOrForAll) {
  // CreateStudy makes one, CheckStudyFile none.
  for (const auto* method : methods_) {
    const std::string name = NameOf(method);
    const bool changes =
        method->service()->name() == "StudyService" && Matrix().at(name) == kWrite && method->name() != "CreateStudy";
    EXPECT_EQ(OwnersOnly().count(name), changes ? 1u : 0u) << name;
  }
}

TEST_F(OwnersTest, StrangersOfTheRoleUserAreRefused) {
  Make("user", "mine", "");
  Make("several", "far", "speech");
  for (const auto* method : methods_) {
    if (OwnersOnly().count(NameOf(method)) == 0) continue;
    for (const char* stranger : {"both", "commander", "several"}) {
      const absl::Status status = CallAbout(stranger, method, "projects/vision/studies/mine");
      const std::string what = absl::StrCat(NameOf(method), " by ", stranger, ": ", status.ToString());
      if (method->name() == "UndeleteStudy") {
        EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << what;  // It is not deleted.
        continue;
      }
      EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << what;
      EXPECT_EQ(base::GetReason(status), base::reason::kRole) << what;
      EXPECT_TRUE(absl::StrContains(status.message(), "was made by \"vision/user\"")) << what;
    }
    // The name of a token counts within its project alone.
    EXPECT_EQ(CallAbout("speaker", method, "projects/speech/studies/far").code(),
              method->name() == "UndeleteStudy" ? absl::StatusCode::kNotFound : absl::StatusCode::kPermissionDenied)
        << NameOf(method);
  }
}

TEST_F(OwnersTest, OwnersMaintainersAndAdminsAreNot) {
  int made = 0;
  for (const char* may : {"user", "maintainer", "admin"}) {
    for (const auto* method : methods_) {
      if (OwnersOnly().count(NameOf(method)) == 0) continue;
      const std::string id = absl::StrCat("s", ++made);
      Make("user", id, "");
      const std::string study = absl::StrCat("projects/vision/studies/", id);
      if (method->name() == "UndeleteStudy") {
        const auto* const remove = method->service()->FindMethodByName("DeleteStudy");
        ASSERT_TRUE(CallAbout("user", remove, study).ok());
        EXPECT_EQ(CallAbout("both", method, study).code(), absl::StatusCode::kPermissionDenied);
      }
      const absl::Status status = CallAbout(may, method, study);
      // Trial 1 is pending: it can be neither deleted, stopped nor tried again, and nothing runs that could be resumed.
      const bool fits =
          method->name() != "DeleteTrial" && method->name() != "StopTrial" && method->name() != "RetryTrials";
      EXPECT_EQ(status.code(), fits ? absl::StatusCode::kOk : absl::StatusCode::kFailedPrecondition)
          << NameOf(method) << " by " << may << ": " << status;
    }
  }
}

TEST_F(OwnersTest, StudiesSayWhoMadeThemAndTheAuditWhoDeletedThem) {
  Make("user", "mine", "");
  Make("several", "far", "speech");
  Make("admin", "theirs", "vision");
  const auto admin = v1::StudyService::NewStub(Channel("admin"));
  const auto owner = [&](const std::string& name) {
    v1::GetStudyRequest get;
    get.set_name(name);
    v1::Study study;
    EXPECT_TRUE(admin->GetStudy(Context().get(), get, &study).ok()) << name;
    return study.owner();
  };
  EXPECT_EQ(owner("projects/vision/studies/mine"), "vision/user");
  EXPECT_EQ(owner("projects/speech/studies/far"), "speech/several");
  EXPECT_EQ(owner("projects/vision/studies/theirs"), "admin");
  v1::CreateStudyRequest create = Study("nobodys");
  v1::Study made;
  ASSERT_TRUE(v1::StudyService::NewStub(Socket())->CreateStudy(Context().get(), create, &made).ok());
  EXPECT_EQ(made.owner(), "");
  // Deleted studies are listed for those who see the project.
  const auto user = v1::StudyService::NewStub(Channel("user"));
  v1::ControlStudyRequest control;
  control.set_name("projects/vision/studies/mine");
  v1::DeleteStudyResponse deleted;
  ASSERT_TRUE(user->DeleteStudy(Context().get(), control, &deleted).ok());
  v1::ListStudiesRequest list;
  list.set_deleted(true);
  v1::ListStudiesResponse listed;
  ASSERT_TRUE(v1::StudyService::NewStub(Channel("viewer"))->ListStudies(Context().get(), list, &listed).ok());
  ASSERT_EQ(listed.studies_size(), 1);
  EXPECT_EQ(listed.studies(0).name(), "projects/vision/studies/mine");
  EXPECT_EQ(listed.studies(0).owner(), "vision/user");
  const int64_t left = listed.studies(0).purge_time().seconds() - listed.studies(0).delete_time().seconds();
  EXPECT_NEAR(static_cast<double>(left), 7 * 86400.0, 60);
  listed.Clear();
  ASSERT_TRUE(v1::StudyService::NewStub(Channel("stranger"))->ListStudies(Context().get(), list, &listed).ok());
  EXPECT_EQ(listed.studies_size(), 0);
  v1::UndeleteStudyRequest undelete;
  undelete.set_name("projects/vision/studies/mine");
  undelete.set_new_id("back");
  v1::Study back;
  ASSERT_TRUE(user->UndeleteStudy(Context().get(), undelete, &back).ok());
  EXPECT_EQ(back.name(), "projects/vision/studies/back");
  EXPECT_EQ(back.trials().pending(), 1);
  v1::ListAuditRequest ask;
  ask.set_kind(v1::CHANGES);
  v1::ListAuditResponse audit;
  ASSERT_TRUE(v1::AdminService::NewStub(Channel("admin"))->ListAudit(Context().get(), ask, &audit).ok());
  std::vector<std::string> entries;
  for (int i = 0; i < 2; ++i) {
    entries.push_back(absl::StrCat(audit.entries(i).name(), " ", audit.entries(i).method(), " ",
                                   audit.entries(i).object(), " ", audit.entries(i).outcome()));
  }
  EXPECT_EQ(entries[0], "user StudyService/UndeleteStudy projects/vision/studies/mine OK");
  EXPECT_EQ(entries[1], "user StudyService/DeleteStudy projects/vision/studies/mine OK");
}

TEST_F(MatrixTest, ForeignAndMissingResourcesLookAlike) {
  const auto stranger = v1::StudyService::NewStub(Channel("stranger"));
  v1::CreateStudyRequest create;
  create.set_study_id("secret");
  auto* parameter = create.mutable_spec()->add_space();
  parameter->set_name("x");
  parameter->mutable_float_()->set_min(0);
  parameter->mutable_float_()->set_max(1);
  create.mutable_spec()->mutable_metric()->set_name("loss");
  create.mutable_spec()->mutable_metric()->set_goal(v1::MINIMIZE);
  v1::Study study;
  const grpc::Status made = stranger->CreateStudy(Context().get(), create, &study);
  ASSERT_TRUE(made.ok()) << made.error_message();
  EXPECT_EQ(study.name(), "projects/other/studies/secret");
  const auto user = v1::StudyService::NewStub(Channel("user"));
  std::vector<std::string> texts;
  for (const char* id : {"secret", "nosuch"}) {
    v1::GetStudyRequest get;
    get.set_name(absl::StrCat("projects/other/studies/", id));
    const grpc::Status status = user->GetStudy(Context().get(), get, &study);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
    std::string text = status.error_message();
    text.replace(text.find(id), 6, "......");
    texts.push_back(text);
  }
  EXPECT_EQ(texts[0], texts[1]);
}

}  // namespace
}  // namespace luthier::access::testing
