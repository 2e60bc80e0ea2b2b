// Which calls are refused when the process uses more memory than it may: every call of both services.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/executor.h"
#include "lib/base/mutex.h"
#include "lib/wire/status.h"
#include "luthier/v1/study_service.grpc.pb.h"
#include "luthier/v1/worker_service.grpc.pb.h"
#include "server/service/calls.h"
#include "server/service/grpc_calls.h"
#include "server/storage/memory_storage.h"

namespace luthier::service::testing {
namespace {

using coordinator::Coordinator;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// Counts refusals.
class Refusals final : public coordinator::Observer {
 public:
  void OnRefused(coordinator::OperationClass operation_class, const absl::Status& status) override {
    const base::MutexLock lock(&mutex_);
    const char* name = operation_class == coordinator::OperationClass::kResults ? "results " : "requests ";
    ++counts_[name + base::GetReason(status)];
  }
  void OnCommit(absl::Duration, size_t, const absl::Status&) override {}
  void OnEvent(const storage::Event&) override {}
  void OnSuggestions(absl::string_view, absl::Duration) override {}
  void OnCensus(const coordinator::Census&) override {}

  std::map<std::string, int> Take() {
    const base::MutexLock lock(&mutex_);
    return std::exchange(counts_, {});
  }

 private:
  base::Mutex mutex_;
  std::map<std::string, int> counts_ ABSL_GUARDED_BY(mutex_);
};

class MemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    channel_ = server_->InProcessChannel({});
  }
  void TearDown() override {
    coordinator_->Drain();
    server_->Shutdown();
    readers_.reset();
    coordinator_.reset();
  }

  void Use(int64_t bytes) {
    used_ = bytes;
    clock_.Advance(absl::Seconds(1));
  }
  // The calls that are refused for want of memory. All are sent empty: what is read of them is refused in another way.
  std::vector<std::string> Refused(absl::string_view reason = base::reason::kMemory) {
    std::vector<std::string> refused;
    const auto study = v1::StudyService::NewStub(channel_);
    const auto work = v1::WorkerService::NewStub(channel_);
    const auto note = [&](const char* name, const grpc::Status& status) {
      ++calls_;
      if (base::GetReason(wire::FromGrpc(status)) == reason) refused.push_back(name);
    };
#define CALL(stub, Method, Request, Response)                        \
  {                                                                  \
    grpc::ClientContext context;                                     \
    v1::Response response;                                           \
    note(#Method, stub->Method(&context, v1::Request(), &response)); \
  }
    CALL(study, CreateStudy, CreateStudyRequest, Study);
    CALL(study, CheckStudyFile, CheckStudyFileRequest, CheckStudyFileResponse);
    CALL(study, GetStudy, GetStudyRequest, Study);
    CALL(study, ListStudies, ListStudiesRequest, ListStudiesResponse);
    CALL(study, UpdateStudy, UpdateStudyRequest, Study);
    CALL(study, PauseStudy, ControlStudyRequest, Study);
    CALL(study, ResumeStudy, ControlStudyRequest, Study);
    CALL(study, StopStudy, ControlStudyRequest, Study);
    CALL(study, CancelStudy, ControlStudyRequest, Study);
    CALL(study, DeleteStudy, ControlStudyRequest, DeleteStudyResponse);
    CALL(study, UndeleteStudy, UndeleteStudyRequest, Study);
    CALL(study, GetTrial, GetTrialRequest, Trial);
    CALL(study, ListTrials, ListTrialsRequest, ListTrialsResponse);
    CALL(study, EnqueueTrials, EnqueueTrialsRequest, EnqueueTrialsResponse);
    CALL(study, ImportTrials, ImportTrialsRequest, ImportTrialsResponse);
    CALL(study, RetryTrials, RetryTrialsRequest, EnqueueTrialsResponse);
    CALL(study, DeleteTrial, DeleteTrialRequest, DeleteTrialResponse);
    CALL(study, SetAttributes, SetAttributesRequest, Trial);
    CALL(study, CancelTrial, CancelTrialRequest, Trial);
    CALL(study, StopTrial, StopTrialRequest, Trial);
    CALL(study, GetTrialTable, GetTrialTableRequest, GetTrialTableResponse);
    CALL(study, ListEvents, ListEventsRequest, ListEventsResponse);
    CALL(study, GetImportance, GetImportanceRequest, GetImportanceResponse);
    CALL(study, Predict, PredictRequest, PredictResponse);
    CALL(study, ExplainTrial, ExplainTrialRequest, ExplainTrialResponse);
    CALL(study, ListWorkers, ListWorkersRequest, ListWorkersResponse);
    CALL(work, Suggest, SuggestRequest, SuggestResponse);
    CALL(work, Heartbeat, HeartbeatRequest, HeartbeatResponse);
    CALL(work, Report, ReportRequest, ReportResponse);
    CALL(work, Complete, CompleteRequest, FinishResponse);
    CALL(work, Fail, FailRequest, FinishResponse);
    CALL(work, Release, ReleaseRequest, FinishResponse);
    CALL(work, DeclareParameters, DeclareParametersRequest, DeclareParametersResponse);
    CALL(work, GetServerInfo, GetServerInfoRequest, ServerInfo);
#undef CALL
    grpc::ClientContext context;
    note("WatchStudy", study->WatchStudy(&context, v1::WatchStudyRequest())->Finish());
    return refused;
  }

  base::ManualClock clock_;
  base::SystemClock system_clock_;
  std::atomic<int64_t> used_{0};
  int calls_ = 0;
  const MemoryGuard memory_{{1'000'000, [this] { return used_.load(); }, [] {}}, &clock_};
  storage::MemoryStorage storage_;
  std::unique_ptr<Coordinator> coordinator_ = Coordinator::Start(&storage_, &system_clock_, {}).value();
  std::unique_ptr<base::Executor> readers_ = std::make_unique<base::Executor>(1, 8);
  Refusals refusals_;
  std::atomic<bool> closing_{false};
  const Backend backend_{coordinator_.get(), &storage_,  readers_.get(), &system_clock_,
                         &memory_,           &refusals_, &closing_};
  Calls all_{backend_};
  GrpcCalls service_{&all_};
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(MemoryTest, WorkIsRefusedFirstAndResultsLast) {
  Use(900'000);  // A read needs some, too: a sixteenth of the limit.
  EXPECT_THAT(Refused(), ElementsAre());
  int methods = 0;
  for (const char* service : {v1::StudyService::service_full_name(), v1::WorkerService::service_full_name()}) {
    methods += google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(service)->method_count();
  }
  EXPECT_EQ(calls_, methods) << "a new call is to be looked at here, too";
  EXPECT_THAT(refusals_.Take(), IsEmpty());
  Use(1'000'000);
  EXPECT_THAT(Refused(), ElementsAre("CreateStudy", "CheckStudyFile", "GetStudy", "ListStudies", "UpdateStudy",
                                     "UndeleteStudy", "GetTrial", "ListTrials", "EnqueueTrials", "ImportTrials",
                                     "RetryTrials", "SetAttributes", "GetTrialTable", "ListEvents", "GetImportance",
                                     "Predict", "ExplainTrial", "ListWorkers", "Suggest", "WatchStudy"));
  EXPECT_THAT(refusals_.Take(), ElementsAre(Pair("requests MEMORY", 20)));
  Use(1'099'000);
  EXPECT_EQ(Refused().size(), 20u);
  EXPECT_THAT(refusals_.Take(), ElementsAre(Pair("requests MEMORY", 20)));
  Use(1'100'000);
  EXPECT_EQ(Refused().size(), static_cast<size_t>(methods) - 1) << "GetServerInfo alone is answered";
  // Results: Heartbeat, Report, Complete, Fail, Release, DeclareParameters.
  EXPECT_THAT(refusals_.Take(), ElementsAre(Pair("requests MEMORY", methods - 7), Pair("results MEMORY", 6)));
}

TEST_F(MemoryTest, EveryCallIsRefusedWhenConnectionsAreAboutToEnd) {
  closing_ = true;
  const size_t refused = Refused(base::reason::kDraining).size();
  EXPECT_EQ(refused, static_cast<size_t>(calls_) - 1) << "GetServerInfo alone is answered";
  EXPECT_THAT(refusals_.Take(), ElementsAre(Pair("requests DRAINING", calls_ - 7), Pair("results DRAINING", 6)));
}

}  // namespace
}  // namespace luthier::service::testing
