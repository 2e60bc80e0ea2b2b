// Every call × every kind of caller × own, other and no project, found by reflection: a call without a row fails.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/dynamic_message.h>

#include <map>
#include <vector>

#include "lib/base/error.h"
#include "tests/server/access/access_fixture.h"

namespace luthier::access::testing {
namespace {

using Roles = std::set<std::string>;

const Roles kSee = {"viewer", "user", "worker", "both", "admin"};
const Roles kRead = {"viewer", "user", "both", "admin"};
const Roles kWork = {"user", "worker", "both", "admin"};
const Roles kWrite = {"user", "both", "admin"};
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
      {"StudyService/CheckStudyFile", kRead},
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
  for (const char* caller : {"viewer", "user", "worker", "both", "admin"}) {
    const auto channel = Channel(caller);
    for (const auto* method : methods_) {
      const bool may = Matrix().at(NameOf(method)).count(caller) > 0;
      for (const char* project : {"vision", "other", ""}) {
        bool named = false;
        const absl::Status status = Call(channel, method, project, &named);
        const std::string what =
            absl::StrCat(NameOf(method), " by ", caller, " in '", project, "': ", status.ToString());
        EXPECT_NE(status.code(), absl::StatusCode::kUnauthenticated) << what;
        EXPECT_NE(status.code(), absl::StatusCode::kUnimplemented) << what;
        const bool elsewhere = std::string(project) == "other" && named && std::string(caller) != "admin";
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
