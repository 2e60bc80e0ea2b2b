// Every call × every way in which a token ends × when it ends: before the call, while the call waits for what would
// carry it out, in a watch, in a waiting ask, between two pages. Found by reflection: a call without a request here
// fails.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/wire/status.h"
#include "server/access/access.h"
#include "server/service/guard.h"
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
      {"StudyService/GetStudy", R"({"name": "STUDY"})"},
      {"StudyService/ListStudies", "{}"},
      {"StudyService/UpdateStudy", R"({"name": "STUDY", "spec": {"display_name": "d"}, "update_mask": "displayName"})"},
      {"StudyService/PauseStudy", R"({"name": "STUDY"})"},
      {"StudyService/ResumeStudy", R"({"name": "STUDY"})"},
      {"StudyService/StopStudy", R"({"name": "STUDY"})"},
      {"StudyService/CancelStudy", R"({"name": "STUDY"})"},
      {"StudyService/DeleteStudy", R"({"name": "STUDY"})"},
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

// Notes how far the newest call has come.
struct Progress {
  std::atomic<int> received{0};
  std::atomic<bool> was_admitted{false};
};

class Observing final : public grpc::experimental::Interceptor {
 public:
  Observing(Progress* progress, grpc::experimental::ServerRpcInfo* info) : progress_(progress), info_(info) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using Hook = grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(Hook::POST_RECV_MESSAGE)) ++progress_->received;
    if (methods->QueryInterceptionHookPoint(Hook::PRE_SEND_STATUS)) {
      const auto* const context = dynamic_cast<grpc::CallbackServerContext*>(info_->server_context());
      progress_->was_admitted = context != nullptr && !Access::CallerOf(*context).token.empty();
    }
    methods->Proceed();
  }

 private:
  Progress* const progress_;
  grpc::experimental::ServerRpcInfo* const info_;
};

class ObservingFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit ObservingFactory(Progress* progress) : progress_(progress) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override {
    return new Observing(progress_, info);
  }

 private:
  Progress* const progress_;
};

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

// One call under way.
struct Call {
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  grpc::ByteBuffer answer;
  grpc::Status status;
  absl::Status Finish() {
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return wire::FromGrpc(status);
  }
};

class TimeMatrixTest : public ::testing::Test {
 protected:
  void SetUp() override {
    base::SetLogLevel(base::LogLevel::kError);
    access_ = Access::Open(dir_.path(), Auth::kRequired, &clock_).value();
    coordinator_ = coordinator::Coordinator::Start(&storage_, &clock_, {}).value();
    readers_ = std::make_unique<base::Executor>(kReaders, 256);
    service::Backend backend;
    backend.coordinator = coordinator_.get();
    backend.storage = &storage_;
    backend.readers = readers_.get();
    backend.clock = &clock_;
    backend.access = access_.get();
    study_ = std::make_unique<service::StudyService>(backend);
    worker_ = std::make_unique<service::WorkerService>(backend);
    admin_ = std::make_unique<service::AdminService>(backend, access_.get());
    guarded_study_ = std::make_unique<service::GuardedStudyService>(access_.get(), nullptr, study_.get());
    guarded_worker_ = std::make_unique<service::GuardedWorkerService>(access_.get(), nullptr, worker_.get());
    guarded_admin_ = std::make_unique<service::GuardedAdminService>(access_.get(), nullptr, admin_.get());
    grpc::ServerBuilder builder;
    builder.RegisterService(guarded_study_.get());
    builder.RegisterService(guarded_worker_.get());
    builder.RegisterService(guarded_admin_.get());
    builder.SetContextAllocator(access_->Contexts());
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
    interceptors.push_back(access_->Interceptors());
    interceptors.push_back(std::make_unique<ObservingFactory>(&progress_));
    builder.experimental().SetInterceptorCreators(std::move(interceptors));
    server_ = builder.BuildAndStart();
    channel_ = server_->InProcessChannel({});
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
                                  ->Finish();
    ASSERT_TRUE(made.ok()) << made;
    // Its one trial is taken, so that asks wait.
    const absl::Status asked = Begin(key, "WorkerService/Suggest")->Finish();
    ASSERT_TRUE(asked.ok()) << asked;
  }
  void TearDown() override {
    if (gate_) gate_->Open();
    coordinator_->Drain();
    server_->Shutdown();
    readers_.reset();
    coordinator_.reset();
    server_.reset();
  }

  // An admin's token of an hour.
  Key MakeKey() {
    TokenRecord wanted;
    wanted.name = absl::StrCat("k", ++made_);
    wanted.roles = {Role::kAdmin};
    wanted.lifetime = absl::Hours(1);
    const auto made = access_->CreateToken(wanted).value();
    return {made.first.id, made.second};
  }

  // Returns the reason with which calls of the key end from now on.
  std::string End(const Key& key, const std::string& how) {
    if (how == "revoked") {
      EXPECT_TRUE(access_->RevokeToken(key.id).ok());
      return reason::kRevoked;
    }
    if (how == "replaced") {
      EXPECT_TRUE(access_->RotateToken(key.id, absl::ZeroDuration(), absl::ZeroDuration()).ok());
      return reason::kExpired;
    }
    clock_.JumpWall(absl::Hours(1));  // As the trial's lease does not run out.
    access_->EndExpired();
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

  // Begins a call with one answer, or a stream that is to be refused.
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
    call->context.AddMetadata("authorization", "Bearer " + key.secret);
    call->context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    const std::string bytes = request->SerializeAsString();
    const grpc::Slice slice(bytes);
    grpc::GenericStub stub(channel_);
    call->reader =
        stub.PrepareUnaryCall(&call->context, absl::StrCat("/", method->service()->full_name(), "/", method->name()),
                              grpc::ByteBuffer(&slice, 1), &call->queue);
    call->reader->StartCall();
    call->reader->Finish(&call->answer, &call->status, nullptr);
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
    const std::vector<TokenRecord> tokens = access_->ListTokens("").value();
    for (const TokenRecord& token : tokens) {
      if (token.id == victim_) absl::StrAppend(&text, token.hash, token.revoked());
      if (token.name == "made") absl::StrAppend(&text, "made");
    }
    const std::vector<ProjectRecord> projects = access_->ListProjects().value();
    for (const ProjectRecord& project : projects) absl::StrAppend(&text, project.id, project.quotas.studies);
    return text;
  }

  luthier::testing::TemporaryDirectory dir_;
  base::ManualClock clock_;
  Progress progress_;
  storage::MemoryStorage storage_;
  std::unique_ptr<Access> access_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;
  std::unique_ptr<base::Executor> readers_;
  std::unique_ptr<service::StudyService> study_;
  std::unique_ptr<service::WorkerService> worker_;
  std::unique_ptr<service::AdminService> admin_;
  std::unique_ptr<service::GuardedStudyService> guarded_study_;
  std::unique_ptr<service::GuardedWorkerService> guarded_worker_;
  std::unique_ptr<service::GuardedAdminService> guarded_admin_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
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
      const absl::Status status = Begin(key, NameOf(method))->Finish();
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
      // A call that was not judged before its token ended says nothing here, and is tried again.
      bool tried = false;
      for (int attempt = 0; attempt < 100 && !tried; ++attempt) {
        const Key key = MakeKey();
        const std::string before = Dump();
        Hold();
        progress_.received = 0;
        const std::unique_ptr<Call> call = Begin(key, name);
        while (progress_.received == 0) std::this_thread::yield();
        for (int i = 0; i < 100 * (attempt + 1); ++i) std::this_thread::yield();
        const std::string why = End(key, how);
        LetGo();
        const absl::Status status = call->Finish();
        EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << name << " " << how << ": " << status;
        tried = progress_.was_admitted;
        if (tried) {
          EXPECT_EQ(base::GetReason(status), why) << name << " " << how;
        }
        EXPECT_EQ(Dump(), before) << name << " " << how;
      }
      EXPECT_TRUE(tried) << name << " " << how << " was never under way";
      ++cells;
    }
  }
  std::printf("%d cells\n", cells);
  EXPECT_EQ(cells, 3 * (static_cast<int>(methods_.size()) - 2));
}

TEST_F(TimeMatrixTest, AWatchEndsWithItsToken) {
  for (const char* how : kEnds) {
    const Key key = MakeKey(), other = MakeKey();
    v1::WatchStudyRequest request;
    request.set_name("projects/default/studies/s");
    const auto stub = v1::StudyService::NewStub(channel_);
    grpc::ClientContext context, kept;
    context.AddMetadata("authorization", "Bearer " + key.secret);
    kept.AddMetadata("authorization", "Bearer " + other.secret);
    const auto watch = stub->WatchStudy(&context, request), goes_on = stub->WatchStudy(&kept, request);
    v1::Event event;
    ASSERT_TRUE(watch->Read(&event));
    ASSERT_TRUE(goes_on->Read(&event));
    const std::string why = End(key, how);
    while (watch->Read(&event)) {
    }
    EXPECT_EQ(base::GetReason(wire::FromGrpc(watch->Finish())), why) << how;
    kept.TryCancel();
  }
}

TEST_F(TimeMatrixTest, AWaitingAskEndsWithItsToken) {
  for (const char* how : kEnds) {
    const Key key = MakeKey(), other = MakeKey();
    const uint64_t before = storage_.LastSeq().value();
    progress_.received = 0;
    const auto ask = [&](const Key& whose, const std::string& id) {
      return Begin(whose, "WorkerService/Suggest",
                   absl::StrCat(R"({"study": "STUDY", "worker": "w", "request_id": ")", id, "\"}"));
    };
    const auto lost = ask(key, "lost"), kept = ask(other, "kept");
    while (progress_.received < 2) std::this_thread::yield();
    const std::string why = End(key, how);
    EXPECT_EQ(base::GetReason(lost->Finish()), why) << how;
    EXPECT_EQ(storage_.LastSeq().value(), before);
    kept->context.TryCancel();
    EXPECT_FALSE(kept->Finish().ok());
  }
}

TEST_F(TimeMatrixTest, APageAfterTheTokensEndIsRefused) {
  {
    const Key key = MakeKey();
    for (const char* id : {"a", "b", "c"}) {
      const absl::Status made = Begin(key, "StudyService/CreateStudy", absl::StrCat(R"({"study_id": ")", id, R"(",
          "spec": {"space": [{"name": "x", "float": {"min": 0, "max": 1}}], "metric": {"name": "l", "goal": "MINIMIZE"},
                   "algorithm": {"random": {}}}})"))
                                    ->Finish();
      ASSERT_TRUE(made.ok()) << made;
    }
  }
  for (const char* how : kEnds) {
    const Key key = MakeKey();
    const auto stub = v1::StudyService::NewStub(channel_);
    v1::ListStudiesRequest request;
    request.set_page_size(2);
    v1::ListStudiesResponse page;
    grpc::ClientContext first, second;
    for (grpc::ClientContext* context : {&first, &second})
      context->AddMetadata("authorization", "Bearer " + key.secret);
    ASSERT_TRUE(stub->ListStudies(&first, request, &page).ok());
    ASSERT_FALSE(page.next_page_token().empty());
    request.set_page_token(page.next_page_token());
    End(key, how);
    const grpc::Status refused = stub->ListStudies(&second, request, &page);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAUTHENTICATED) << how;
  }
}

}  // namespace
}  // namespace luthier::access::testing
