// Every call × every way in which a token ends × when it ends: before the call, while the call waits for what would
// carry it out, in a watch, in a waiting ask, between two pages. Found by reflection: a call without a request here, or
// without a row in the table of calls, fails. Calls are started as a transport of its own does.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "luthier/v1/study_service.pb.h"
#include "server/access/access.h"
#include "server/service/calls.h"
#include "server/storage/memory_storage.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::access::testing {
namespace {

namespace reason = base::reason;

// A request for each call that passes every check but that of the token.
const std::map<std::string, std::string>& Requests() {
  static const auto* const kRequests = new std::map<std::string, std::string>{
      {"StudyService/CreateStudy",
       R"({"study_id": "new", "spec": {"space": [{"name": "x", "float": {"min": 0, "max": 1}}],
           "metric": {"name": "loss", "goal": "MINIMIZE"}, "algorithm": {"random": {}}, "budget": {"max_trials": 9}}})"},
      {"StudyService/CheckStudyFile", R"({"text": "space: []"})"},
      {"StudyService/GetStudy", R"({"name": "STUDY"})"},
      {"StudyService/ListStudies", "{}"},
      {"StudyService/UpdateStudy", R"({"name": "STUDY", "spec": {"display_name": "d"}, "update_mask": "displayName"})"},
      {"StudyService/PauseStudy", R"({"name": "STUDY"})"},
      {"StudyService/ResumeStudy", R"({"name": "STUDY"})"},
      {"StudyService/StopStudy", R"({"name": "STUDY"})"},
      {"StudyService/CancelStudy", R"({"name": "STUDY"})"},
      {"StudyService/DeleteStudy", R"({"name": "STUDY"})"},
      {"StudyService/UndeleteStudy", R"({"name": "STUDY"})"},
      {"StudyService/GetTrial", R"({"name": "STUDY/trials/1"})"},
      {"StudyService/ListTrials", R"({"parent": "STUDY"})"},
      {"StudyService/EnqueueTrials",
       R"({"parent": "STUDY", "request_id": "r", "trials": [{"parameters": {"x": 0.5}}]})"},
      {"StudyService/ImportTrials",
       R"({"parent": "STUDY", "request_id": "r", "trials": [{"parameters": {"x": 0.5}, "state": "FAILED"}]})"},
      {"StudyService/RetryTrials", R"({"parent": "STUDY", "request_id": "r", "all_failed": true})"},
      {"StudyService/DeleteTrial", R"({"name": "STUDY/trials/1"})"},
      {"StudyService/SetAttributes", R"({"name": "STUDY/trials/1", "attributes": {"a": "b"}})"},
      {"StudyService/CancelTrial", R"({"name": "STUDY/trials/1"})"},
      {"StudyService/StopTrial", R"({"name": "STUDY/trials/1"})"},
      {"StudyService/GetTrialTable", R"({"name": "STUDY"})"},
      {"StudyService/ListEvents", R"({"name": "STUDY"})"},
      {"StudyService/GetImportance", R"({"name": "STUDY"})"},
      {"StudyService/Predict", R"({"name": "STUDY", "settings": [{"x": 0.5}]})"},
      {"StudyService/ExplainTrial", R"({"name": "STUDY/trials/1"})"},
      {"StudyService/ListWorkers", "{}"},
      {"StudyService/WatchStudy", R"({"name": "STUDY"})"},
      {"WorkerService/Suggest", R"({"study": "STUDY", "worker": "w", "request_id": "r"})"},
      {"WorkerService/Heartbeat", R"({"worker": "w", "tokens": ["AAAAAAAAAAAAAAAAAAAAAA=="]})"},
      {"WorkerService/Report",
       R"({"trial": "STUDY/trials/1", "token": "AAAAAAAAAAAAAAAAAAAAAA==", "measurements": [{"metrics": {"loss": 1}}]})"},
      {"WorkerService/Complete",
       R"({"trial": "STUDY/trials/1", "token": "AAAAAAAAAAAAAAAAAAAAAA==", "measurement": {"metrics": {"loss": 1}}})"},
      {"WorkerService/Fail",
       R"({"trial": "STUDY/trials/1", "token": "AAAAAAAAAAAAAAAAAAAAAA==",
           "failure": {"kind": "INFRA", "reason": "EXIT_CODE"}})"},
      {"WorkerService/Release", R"({"trial": "STUDY/trials/1", "token": "AAAAAAAAAAAAAAAAAAAAAA=="})"},
      {"WorkerService/DeclareParameters",
       R"({"trial": "STUDY/trials/1", "token": "AAAAAAAAAAAAAAAAAAAAAA==",
           "parameters": [{"name": "y", "float": {"min": 0, "max": 1}}]})"},
      {"WorkerService/GetServerInfo", "{}"},
      {"AdminService/CreateToken", R"({"name": "made", "roles": ["VIEWER"]})"},
      {"AdminService/OpenPage", "{}"},
      {"AdminService/ListTokens", "{}"},
      {"AdminService/RotateToken", R"({"id": "VICTIM"})"},
      {"AdminService/RevokeToken", R"({"id": "VICTIM"})"},
      {"AdminService/CreateProject", R"({"id": "made"})"},
      {"AdminService/UpdateProject", R"({"id": "default", "quotas": {"studies": "7"}})"},
      {"AdminService/ListProjects", "{}"},
      {"AdminService/ListAudit", "{}"},
  };
  return *kRequests;
}

// These are answered from memory as they arrive: nothing lies between the judgement and the answer.
bool AnsweredAtOnce(const std::string& name) {
  return name == "WorkerService/GetServerInfo" || name == "WorkerService/Heartbeat";
}

// Threads that run nothing until the gate opens.
class Gate {
 public:
  void Wait() {
    base::MutexLock lock(&mutex_);
    ++waiting_;
    changed_.SignalAll();
    while (!open_) changed_.Wait(&mutex_);
  }
  void AwaitWaiting(int count) {
    base::MutexLock lock(&mutex_);
    while (waiting_ < count) changed_.Wait(&mutex_);
  }
  void Open() {
    base::MutexLock lock(&mutex_);
    open_ = true;
    changed_.SignalAll();
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  int waiting_ = 0;
  bool open_ = false;
};

constexpr const char* kEnds[] = {"revoked", "replaced", "expired"};
constexpr int kReaders = 2;

struct Key {
  std::string id, secret;
};

// One call under way; a stream is read as fast as it is written.
class Call final : public service::Responder {
 public:
  void Finish(const absl::Status& status, const google::protobuf::Message& reply) override {
    base::MutexLock lock(&mutex_);
    status_ = status;
    reply_ = reply.SerializeAsString();
    ended_ = true;
    changed_.SignalAll();
  }
  void Write(const google::protobuf::Message&, std::function<void(bool)> written) override {
    {
      base::MutexLock lock(&mutex_);
      ++written_;
      changed_.SignalAll();
    }
    written(true);
  }
  void Abort() override {}

  absl::Status Wait() {
    base::MutexLock lock(&mutex_);
    while (!ended_) changed_.Wait(&mutex_);
    return status_;
  }
  void AwaitWritten() {
    base::MutexLock lock(&mutex_);
    while (written_ == 0 && !ended_) changed_.Wait(&mutex_);
  }
  bool ended() {
    base::MutexLock lock(&mutex_);
    return ended_;
  }
  const std::string& reply() const { return reply_; }
  void Cancel() { open_->Cancel(); }
  void Keep(std::shared_ptr<service::OpenCall> open) { open_ = std::move(open); }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  absl::Status status_;
  std::string reply_;
  bool ended_ = false;
  int written_ = 0;
  std::shared_ptr<service::OpenCall> open_;
};

class TimeMatrixTest : public ::testing::Test {
 protected:
  void SetUp() override {
    base::SetLogLevel(base::LogLevel::kError);
    access_ = std::make_unique<Access>(Registry::Open(dir_.path(), &clock_).value(), Auth::kRequired, &clock_);
    coordinator_ = coordinator::Coordinator::Start(&storage_, &clock_, {}).value();
    readers_ = std::make_unique<base::Executor>(kReaders, 256);
    service::Backend backend;
    backend.coordinator = coordinator_.get();
    backend.storage = &storage_;
    backend.readers = readers_.get();
    backend.clock = &clock_;
    backend.access = access_.get();
    calls_ = std::make_unique<service::Calls>(backend);
    for (const char* service : {"StudyService", "WorkerService", "AdminService"}) {
      const auto* const descriptor =
          google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(absl::StrCat("luthier.v1.", service));
      for (int i = 0; i < descriptor->method_count(); ++i) methods_.push_back(descriptor->method(i));
    }
    victim_ = MakeKey().id;
    const Key key = MakeKey();
    const absl::Status made = Begin(key, "StudyService/CreateStudy", R"({"study_id": "s", "spec": {
        "space": [{"name": "x", "float": {"min": 0, "max": 1}}], "metric": {"name": "loss", "goal": "MINIMIZE"},
        "algorithm": {"random": {}}, "budget": {"max_trials": 1}}})")
                                  ->Wait();
    ASSERT_TRUE(made.ok()) << made;
    // Its one trial is taken, so that asks wait.
    const absl::Status asked = Begin(key, "WorkerService/Suggest")->Wait();
    ASSERT_TRUE(asked.ok()) << asked;
  }
  void TearDown() override {
    if (gate_) gate_->Open();
    coordinator_->Drain();
    readers_.reset();
    coordinator_.reset();
  }

  // An admin's token of an hour.
  Key MakeKey() {
    TokenRecord wanted;
    wanted.name = absl::StrCat("k", ++made_);
    wanted.roles = {Role::kAdmin};
    wanted.lifetime = absl::Hours(1);
    const auto made = access_->registry().CreateToken(wanted).value();
    return {made.first.id, made.second};
  }

  // Returns the reason with which calls of the key end from now on.
  std::string End(const Key& key, const std::string& how) {
    if (how == "revoked") {
      EXPECT_TRUE(access_->registry().RevokeToken(key.id).ok());
      return reason::kRevoked;
    }
    if (how == "replaced") {
      EXPECT_TRUE(access_->registry().RotateToken(key.id, absl::ZeroDuration(), absl::ZeroDuration()).ok());
      return reason::kExpired;
    }
    clock_.JumpWall(absl::Hours(1));  // As the trial's lease does not run out.
    access_->registry().EndExpired();
    return reason::kExpired;
  }

  static std::string NameOf(const google::protobuf::MethodDescriptor* method) {
    return absl::StrCat(method->service()->name(), "/", method->name());
  }
  const google::protobuf::MethodDescriptor* Method(const std::string& name) const {
    for (const auto* method : methods_) {
      if (NameOf(method) == name) return method;
    }
    return nullptr;
  }

  // Begins a call. When this returns, it is refused, or admitted and under way.
  std::unique_ptr<Call> Begin(const Key& key, const std::string& name, std::string json = "") {
    const auto* const method = Method(name);
    if (json.empty()) json = Requests().at(name);
    for (const auto& [from, to] : {std::pair<std::string, std::string>("STUDY", "projects/default/studies/s"),
                                   std::pair<std::string, std::string>("VICTIM", victim_)}) {
      for (size_t at = json.find(from); at != std::string::npos; at = json.find(from))
        json.replace(at, from.size(), to);
    }
    const std::unique_ptr<google::protobuf::Message> request(factory_.GetPrototype(method->input_type())->New());
    const auto parsed = google::protobuf::util::JsonStringToMessage(json, request.get());
    EXPECT_TRUE(parsed.ok()) << name << ": " << parsed.ToString();
    auto call = std::make_unique<Call>();
    Peer peer;
    peer.authorization = "Bearer " + key.secret;
    const service::Method* const row =
        service::Find(absl::StrCat("/", method->service()->full_name(), "/", method->name()));
    EXPECT_NE(row, nullptr) << name << " has no row in the table of calls";
    if (row != nullptr) {
      call->Keep(calls_->Start(*row, {peer, absl::Seconds(30)}, request->SerializeAsString(), call.get()));
    }
    return call;
  }

  // The writer and the readers do nothing until the gate opens.
  void Hold() {
    gate_ = std::make_shared<Gate>();
    for (int i = 0; i < kReaders; ++i) ASSERT_TRUE(readers_->Schedule([gate = gate_] { gate->Wait(); }));
    coordinator::SetAttributesOp op;
    op.id = "none";
    op.done = [gate = gate_](const auto&) { gate->Wait(); };
    coordinator_->Submit(std::move(op));
    gate_->AwaitWaiting(kReaders + 1);
  }
  void LetGo() {
    gate_->Open();
    gate_.reset();
  }

  // All that changes could have changed.
  std::string Dump() {
    std::string text = absl::StrCat(storage_.LastSeq().value(), " ");
    const std::vector<TokenRecord> tokens = access_->registry().ListTokens("").value();
    for (const TokenRecord& token : tokens) {
      if (token.id == victim_) absl::StrAppend(&text, token.hash, token.revoked());
      if (token.name == "made") absl::StrAppend(&text, "made");
    }
    const std::vector<ProjectRecord> projects = access_->registry().ListProjects().value();
    for (const ProjectRecord& project : projects) absl::StrAppend(&text, project.id, project.quotas.studies);
    return text;
  }

  luthier::testing::TemporaryDirectory dir_;
  base::ManualClock clock_;
  storage::MemoryStorage storage_;
  std::unique_ptr<Access> access_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;
  std::unique_ptr<base::Executor> readers_;
  std::unique_ptr<service::Calls> calls_;
  google::protobuf::DynamicMessageFactory factory_;
  std::vector<const google::protobuf::MethodDescriptor*> methods_;
  std::shared_ptr<Gate> gate_;
  std::string victim_;
  int made_ = 0;
};

TEST_F(TimeMatrixTest, ATokenThatEndedBeforeACallIsRefused) {
  int cells = 0;
  for (const auto* method : methods_) {
    ASSERT_EQ(Requests().count(NameOf(method)), 1u) << NameOf(method) << " has no request here";
    for (const char* how : kEnds) {
      const Key key = MakeKey();
      const std::string why = std::string(how) == "replaced" ? (End(key, how), reason::kBadToken) : End(key, how);
      const absl::Status status = Begin(key, NameOf(method))->Wait();
      EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << NameOf(method) << " " << how << ": " << status;
      EXPECT_EQ(base::GetReason(status), why) << NameOf(method) << " " << how;
      if (++cells % 8 == 0) clock_.Advance(absl::Minutes(1));  // Or wrong tokens would be answered late.
    }
  }
  EXPECT_EQ(cells, 3 * static_cast<int>(methods_.size()));
}

TEST_F(TimeMatrixTest, ACallWhoseTokenEndsWhileItIsQueuedIsRefused) {
  int cells = 0;
  for (const auto* method : methods_) {
    const std::string name = NameOf(method);
    if (AnsweredAtOnce(name)) continue;
    for (const char* how : kEnds) {
      const Key key = MakeKey();
      const std::string before = Dump();
      Hold();
      const std::unique_ptr<Call> call = Begin(key, name);
      const std::string why = End(key, how);
      LetGo();
      const absl::Status status = call->Wait();
      EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << name << " " << how << ": " << status;
      EXPECT_EQ(base::GetReason(status), why) << name << " " << how;
      EXPECT_EQ(Dump(), before) << name << " " << how;
      ++cells;
    }
  }
  std::printf("%d cells\n", cells);
  EXPECT_EQ(cells, 3 * (static_cast<int>(methods_.size()) - 2));
}

TEST_F(TimeMatrixTest, AWatchEndsWithItsToken) {
  for (const char* how : kEnds) {
    const Key key = MakeKey(), other = MakeKey();
    const auto watch = Begin(key, "StudyService/WatchStudy"), goes_on = Begin(other, "StudyService/WatchStudy");
    watch->AwaitWritten();
    goes_on->AwaitWritten();
    const std::string why = End(key, how);
    EXPECT_EQ(base::GetReason(watch->Wait()), why) << how;
    if (std::string(how) != "expired") {  // All tokens of an hour have expired by then.
      EXPECT_FALSE(goes_on->ended()) << how;
    }
    goes_on->Cancel();
    EXPECT_FALSE(goes_on->Wait().ok());
  }
}

TEST_F(TimeMatrixTest, AWaitingAskEndsWithItsToken) {
  for (const char* how : kEnds) {
    const Key key = MakeKey(), other = MakeKey();
    const uint64_t before = storage_.LastSeq().value();
    const auto ask = [&](const Key& whose, const std::string& id) {
      return Begin(whose, "WorkerService/Suggest",
                   absl::StrCat(R"({"study": "STUDY", "worker": "w", "request_id": ")", id, "\"}"));
    };
    const auto lost = ask(key, "lost"), kept = ask(other, "kept");
    const std::string why = End(key, how);
    EXPECT_EQ(base::GetReason(lost->Wait()), why) << how;
    EXPECT_EQ(storage_.LastSeq().value(), before);
    kept->Cancel();
    EXPECT_FALSE(kept->Wait().ok());
  }
}

TEST_F(TimeMatrixTest, APageAfterTheTokensEndIsRefused) {
  {
    const Key key = MakeKey();
    for (const char* id : {"a", "b", "c"}) {
      const absl::Status made = Begin(key, "StudyService/CreateStudy", absl::StrCat(R"({"study_id": ")", id, R"(",
          "spec": {"space": [{"name": "x", "float": {"min": 0, "max": 1}}], "metric": {"name": "l", "goal": "MINIMIZE"},
                   "algorithm": {"random": {}}}})"))
                                    ->Wait();
      ASSERT_TRUE(made.ok()) << made;
    }
  }
  for (const char* how : kEnds) {
    const Key key = MakeKey();
    const auto first = Begin(key, "StudyService/ListStudies", R"({"page_size": 2})");
    ASSERT_TRUE(first->Wait().ok());
    v1::ListStudiesResponse page;
    ASSERT_TRUE(page.ParseFromString(first->reply()));
    ASSERT_FALSE(page.next_page_token().empty());
    End(key, how);
    const absl::Status refused =
        Begin(key, "StudyService/ListStudies",
              absl::StrCat(R"({"page_size": 2, "page_token": ")", page.next_page_token(), "\"}"))
            ->Wait();
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnauthenticated) << how;
  }
}

}  // namespace
}  // namespace luthier::access::testing
