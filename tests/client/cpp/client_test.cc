#include "client/cpp/client.h"

#include <gmock/gmock.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <regex>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/mutex.h"
#include "lib/base/version.h"
#include "lib/wire/resource_name.h"
#include "lib/wire/status.h"
#include "luthier/v1/study_service.grpc.pb.h"
#include "luthier/v1/worker_service.grpc.pb.h"

namespace luthier::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// What a server did, and what it is told to do: shared by both fake services. Thread-safe.
class Script {
 public:
  // The next `times` calls of `method` are answered by `status` instead.
  void FailNext(const std::string& method, int times, const absl::Status& status) {
    const base::MutexLock lock(&mutex_);
    for (int i = 0; i < times; ++i) failures_[method].push_back(status);
  }
  grpc::Status Enter(const std::string& method, const std::string& request) {
    const base::MutexLock lock(&mutex_);
    calls_[method].push_back(request);
    std::vector<absl::Status>& failures = failures_[method];
    if (failures.empty()) return grpc::Status::OK;
    const absl::Status status = failures.front();
    failures.erase(failures.begin());
    return wire::ToGrpc(status);
  }
  std::vector<std::string> Calls(const std::string& method) {
    const base::MutexLock lock(&mutex_);
    return calls_[method];
  }

 private:
  base::Mutex mutex_;
  std::map<std::string, std::vector<absl::Status>> failures_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<std::string>> calls_ ABSL_GUARDED_BY(mutex_);
};

class FakeStudyService final : public v1::StudyService::Service {
 public:
  explicit FakeStudyService(Script* script) : script_(script) {}

  grpc::Status CreateStudy(grpc::ServerContext*, const v1::CreateStudyRequest* request, v1::Study* study) override {
    study->set_name(wire::StudyName(request->study_id()));
    return script_->Enter("CreateStudy", request->study_id());
  }
  grpc::Status PauseStudy(grpc::ServerContext*, const v1::ControlStudyRequest* request, v1::Study* study) override {
    study->set_name(request->name());
    return script_->Enter("PauseStudy", request->request_id());
  }
  grpc::Status GetStudy(grpc::ServerContext* context, const v1::GetStudyRequest* request, v1::Study* study) override {
    study->set_name(request->name());
    if (block_until_cancelled) {
      while (!context->IsCancelled()) std::this_thread::yield();
      return grpc::Status::CANCELLED;
    }
    return script_->Enter("GetStudy", request->name());
  }
  grpc::Status ListTrials(grpc::ServerContext*, const v1::ListTrialsRequest* request,
                          v1::ListTrialsResponse* response) override {
    // 25 trials, ten a page.
    const int from = request->page_token().empty() ? 1 : std::stoi(request->page_token());
    for (int i = from; i < from + 10 && i <= 25; ++i) response->add_trials()->set_number(i);
    if (from + 10 <= 25) response->set_next_page_token(std::to_string(from + 10));
    return script_->Enter("ListTrials", request->page_token());
  }
  // Events 1 … 30, those after after_seq; breaks off after every seven, and repeats the last one seen.
  grpc::Status WatchStudy(grpc::ServerContext*, const v1::WatchStudyRequest* request,
                          grpc::ServerWriter<v1::Event>* writer) override {
    const grpc::Status status = script_->Enter("WatchStudy", absl::StrCat(request->after_seq()));
    if (!status.ok()) return status;
    const uint64_t from = std::max<uint64_t>(1, request->after_seq());
    for (uint64_t seq = from; seq <= 30; ++seq) {
      v1::Event event;
      event.set_seq(seq);
      writer->Write(event);
      if (seq == from + 7) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "connection reset");
    }
    return grpc::Status::OK;
  }

  std::atomic<bool> block_until_cancelled{false};

 private:
  Script* const script_;
};

class FakeWorkerService final : public v1::WorkerService::Service {
 public:
  explicit FakeWorkerService(Script* script) : script_(script) {}

  grpc::Status Suggest(grpc::ServerContext* context, const v1::SuggestRequest* request, v1::SuggestResponse*) override {
    deadline = absl::FromChrono(context->deadline() - std::chrono::system_clock::now());
    return script_->Enter("Suggest", request->request_id());
  }
  grpc::Status Complete(grpc::ServerContext*, const v1::CompleteRequest* request, v1::FinishResponse*) override {
    return script_->Enter("Complete", request->trial() + " " + request->token());
  }
  grpc::Status GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*, v1::ServerInfo* info) override {
    info->set_version("7.8.9");
    return grpc::Status::OK;
  }

  std::atomic<absl::Duration> deadline{absl::ZeroDuration()};

 private:
  Script* const script_;
};

class FakeSleeper final : public wire::Sleeper {
 public:
  explicit FakeSleeper(base::ManualClock* clock) : clock_(clock) {}
  bool Sleep(absl::Duration duration) override {
    clock_->Advance(duration);
    return true;
  }

 private:
  base::ManualClock* clock_;
};

class ClientTest : public ::testing::Test {
 protected:
  ClientTest() {
    grpc::ServerBuilder builder;
    builder.RegisterService(&studies_);
    builder.RegisterService(&workers_);
    server_ = builder.BuildAndStart();
    client_ = NewClient(1);
  }
  ~ClientTest() override { server_->Shutdown(); }

  std::unique_ptr<Client> NewClient(uint64_t seed) {
    ClientOptions options;
    options.seed = seed;
    options.clock = &clock_;
    options.sleeper = &sleeper_;
    return std::make_unique<Client>(server_->InProcessChannel({}), options);
  }

  Script script_;
  FakeStudyService studies_{&script_};
  FakeWorkerService workers_{&script_};
  std::unique_ptr<grpc::Server> server_;
  base::ManualClock clock_;
  FakeSleeper sleeper_{&clock_};
  std::unique_ptr<Client> client_;
};

TEST_F(ClientTest, RepetitionsOfACallCarryOneRequestIdAndCallsDifferentOnes) {
  script_.FailNext("PauseStudy", 2, absl::UnavailableError("gone"));
  ASSERT_TRUE(client_->PauseStudy("s").ok());
  ASSERT_TRUE(client_->PauseStudy("s").ok());
  ASSERT_TRUE(NewClient(2)->PauseStudy("s").ok());
  const std::vector<std::string> ids = script_.Calls("PauseStudy");
  ASSERT_THAT(ids, SizeIs(5));
  EXPECT_EQ(ids[0], ids[1]);
  EXPECT_EQ(ids[0], ids[2]);
  EXPECT_THAT(std::set<std::string>(ids.begin() + 2, ids.end()), SizeIs(3));
  for (const std::string& id : ids) {
    EXPECT_TRUE(std::regex_match(id, std::regex("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")))
        << id;
  }
}

TEST_F(ClientTest, GivesUpAfterFiveAttemptsWithTheServersReason) {
  script_.FailNext("CreateStudy", 100, base::MakeError(absl::StatusCode::kUnavailable, base::reason::kDraining, "bye"));
  const absl::Status status = client_->CreateStudy("s", v1::StudySpec()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(base::GetReason(status), base::reason::kDraining);
  EXPECT_THAT(script_.Calls("CreateStudy"), SizeIs(5));
}

TEST_F(ClientTest, AnswersAreNotRepeated) {
  script_.FailNext("GetStudy", 1, base::MakeError(absl::StatusCode::kNotFound, base::reason::kNotFound, "no study"));
  EXPECT_EQ(client_->GetStudy("s").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(script_.Calls("GetStudy"), ElementsAre("projects/default/studies/s"));
}

TEST_F(ClientTest, ResultsAreSentUntilTheyArrive) {
  script_.FailNext("Complete", 500, absl::UnavailableError("gone"));
  EXPECT_TRUE(client_->Complete({"s", 3, "token"}, v1::Measurement()).ok());
  EXPECT_THAT(script_.Calls("Complete"), SizeIs(501));
  EXPECT_EQ(script_.Calls("Complete").back(), "projects/default/studies/s/trials/3 token");
}

TEST_F(ClientTest, LostLeaseEndsTheSending) {
  script_.FailNext("Complete", 3, absl::DeadlineExceededError("slow"));
  script_.FailNext("Complete", 1,
                   base::MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kLeaseLost, "lost"));
  EXPECT_EQ(base::GetReason(client_->Complete({"s", 3, "token"}, v1::Measurement()).status()),
            base::reason::kLeaseLost);
  EXPECT_THAT(script_.Calls("Complete"), SizeIs(4));
}

TEST_F(ClientTest, PagesAreJoined) {
  std::vector<int64_t> numbers;
  script_.FailNext("ListTrials", 1, absl::UnavailableError("gone"));
  ASSERT_TRUE(client_
                  ->ListTrials("s", {},
                               [&](const v1::Trial& trial) {
                                 numbers.push_back(trial.number());
                                 return true;
                               })
                  .ok());
  ASSERT_THAT(numbers, SizeIs(25));
  for (size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(numbers[i], static_cast<int64_t>(i) + 1);
  int seen = 0;
  ASSERT_TRUE(client_->ListTrials("s", {}, [&](const v1::Trial&) { return ++seen < 3; }).ok());
  EXPECT_EQ(seen, 3);
}

TEST_F(ClientTest, WatchGoesOnWhereItBrokeOffAndShowsEachEventOnce) {
  std::vector<uint64_t> seen;
  const auto collect = [&](const v1::Event& event) {
    seen.push_back(event.seq());
    return true;
  };
  ASSERT_TRUE(client_->WatchStudy("s", {}, collect).ok());
  ASSERT_THAT(seen, SizeIs(30));
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], i + 1);
  EXPECT_THAT(script_.Calls("WatchStudy"), ElementsAre("0", "8", "15", "22", "29"));
}

TEST_F(ClientTest, WatchEndsWhenTheCallerHasEnough) {
  int seen = 0;
  ASSERT_TRUE(client_->WatchStudy("s", {}, [&](const v1::Event&) { return ++seen < 10; }).ok());
  EXPECT_EQ(seen, 10);
}

TEST_F(ClientTest, WatchGivesUpOnAServerThatStaysAway) {
  script_.FailNext("WatchStudy", 100'000, absl::UnavailableError("gone"));
  const absl::Duration begin = clock_.Monotonic();
  Client::WatchOptions options;
  options.patience = absl::Minutes(2);
  EXPECT_EQ(client_->WatchStudy("s", options, [](const v1::Event&) { return true; }), absl::UnavailableError("gone"));
  EXPECT_GT(clock_.Monotonic() - begin, absl::Minutes(2));
  EXPECT_LT(clock_.Monotonic() - begin, absl::Minutes(2) + absl::Seconds(10));
}

TEST_F(ClientTest, WatchStopsAtAnAnswer) {
  script_.FailNext("WatchStudy", 1, base::MakeError(absl::StatusCode::kNotFound, base::reason::kNotFound, "no study"));
  EXPECT_EQ(client_->WatchStudy("s", {}, [](const v1::Event&) { return true; }).code(), absl::StatusCode::kNotFound);
}

TEST_F(ClientTest, SuggestWaitsAsLongAsAsked) {
  ASSERT_TRUE(client_->Suggest("s", "w", 1, absl::Seconds(20)).ok());
  EXPECT_GT(workers_.deadline.load(), absl::Seconds(15));
  EXPECT_LT(workers_.deadline.load(), absl::Seconds(21));
  ASSERT_TRUE(client_->Suggest("s", "w", 1, absl::InfiniteDuration()).ok());
  EXPECT_LT(workers_.deadline.load(), absl::Seconds(61));
}

TEST_F(ClientTest, PatienceBoundsWhatTheServerAsksFor) {
  base::ErrorDetail full;
  full.reason = base::reason::kStorageFull;
  full.retry_delay = absl::Seconds(30);
  const absl::Status status = base::MakeError(absl::StatusCode::kUnavailable, "the disk is full", full);
  const absl::Duration begin = clock_.Monotonic();
  script_.FailNext("CreateStudy", 1, status);
  EXPECT_TRUE(client_->CreateStudy("s", v1::StudySpec()).ok());  // Patience without end waits the 30 s.
  EXPECT_EQ(clock_.Monotonic() - begin, absl::Seconds(30));

  ClientOptions options;
  options.clock = &clock_;
  options.sleeper = &sleeper_;
  options.patience = absl::Seconds(15);
  Client hasty(server_->InProcessChannel({}), options);
  script_.FailNext("CreateStudy", 1, status);
  EXPECT_EQ(base::GetReason(hasty.CreateStudy("s", v1::StudySpec()).status()), base::reason::kStorageFull);
  // A long poll has no time for more than itself, whatever the patience.
  script_.FailNext("Suggest", 1, status);
  EXPECT_EQ(base::GetReason(client_->Suggest("s", "w", 1, absl::Seconds(5)).status()), base::reason::kStorageFull);
  EXPECT_EQ(clock_.Monotonic() - begin, absl::Seconds(30));
}

TEST_F(ClientTest, NoServerParksACallForMoreThanAMinute) {
  base::ErrorDetail full;
  full.reason = base::reason::kStorageFull;
  full.retry_delay = absl::Hours(1000);
  script_.FailNext("CreateStudy", 1, base::MakeError(absl::StatusCode::kUnavailable, "the disk is full", full));
  const absl::Duration begin = clock_.Monotonic();
  EXPECT_TRUE(client_->CreateStudy("s", v1::StudySpec()).ok());
  EXPECT_EQ(clock_.Monotonic() - begin, absl::Minutes(1));
}

TEST_F(ClientTest, InterruptEndsCallsInFlightAndThoseToCome) {
  studies_.block_until_cancelled = true;
  ClientOptions options;  // Real sleeps, which Interrupt ends too.
  Client client(server_->InProcessChannel({}), options);
  absl::Status status;
  std::thread call([&] { status = client.GetStudy("s").status(); });
  client.Interrupt();
  call.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(client.GetStudy("s").status().code(), absl::StatusCode::kCancelled);
}

TEST_F(ClientTest, ACallThatTheServerLacksNamesBothVersions) {
  // Neither fake has AdminService, and gRPC answers for it.
  Client client(server_->InProcessChannel({}), {});
  const absl::Status status = client.ListProjects().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("the server, version 7.8.9, lacks a call"));
  EXPECT_THAT(status.message(), HasSubstr(absl::StrCat("this program, version ", base::kVersion)));
}

TEST(Client, BadAddressIsRefusedAndDeadServerIsUnavailable) {
  EXPECT_EQ(Client::Create("nowhere", {}).status().code(), absl::StatusCode::kInvalidArgument);
  base::ManualClock clock;
  FakeSleeper sleeper(&clock);
  ClientOptions options;
  options.clock = &clock;
  options.sleeper = &sleeper;
  const absl::StatusOr<std::unique_ptr<Client>> client = Client::Create("unix:/nonexistent/socket", options);
  ASSERT_TRUE(client.ok());
  const absl::Status status = (*client)->GetServerInfo().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(base::GetReason(status), "");
}

}  // namespace
}  // namespace luthier::client
