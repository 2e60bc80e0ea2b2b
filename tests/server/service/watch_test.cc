// Watches at the moments when an event is easily lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "lib/base/error.h"
#include "lib/base/executor.h"
#include "tests/server/coordinator/future.h"
#include "tests/server/coordinator/harness.h"
#include "tests/server/service/fixture.h"
#include "tests/server/service/over_storage.h"
#include "tests/testing/forwarding_storage.h"

namespace luthier::service::testing {
namespace {

using coordinator::ControlOp;
using coordinator::Coordinator;
using coordinator::FinishReply;
using coordinator::Grant;
using coordinator::StudyReply;
using coordinator::SuggestReply;
using coordinator::testing::Loss;
using coordinator::testing::MakeFinish;
using coordinator::testing::MakeSpec;
using coordinator::testing::MakeSuggest;

class WatchTest : public OverStorage<luthier::testing::HookedStorage> {
 protected:
  void SetUp() override {
    Coordinator::Options options;
    options.tick = absl::Milliseconds(5);
    Start(1, options);
    ASSERT_TRUE(Send<StudyReply>(coordinator::CreateStudyOp{"s", MakeSpec(2), "user", {}}).ok());
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  }

  template <typename Reply, typename Op>
  absl::StatusOr<Reply> Send(Op op) {
    return coordinator::testing::Send<Reply>(*coordinator_, std::move(op)).Wait();
  }
  Grant Get() {
    coordinator::SuggestOp ask = MakeSuggest("s", "w");
    return Send<SuggestReply>(std::move(ask))->grants.at(0);
  }
  absl::Status Complete(const Grant& grant) {
    return Send<FinishReply>(MakeFinish(grant, coordinator::CompleteContent{Loss(1), false, ""})).status();
  }
  void Watch() {
    v1::WatchStudyRequest request;
    request.set_name("projects/default/studies/s");
    request.set_until_finished(true);
    stream_ = stub_->WatchStudy(&context_, request);
  }
  // The types of the events up to the first of `last`, or up to the end.
  std::vector<v1::Event::Type> ReadUntil(v1::Event::Type last) {
    std::vector<v1::Event::Type> types;
    v1::Event event;
    while (stream_->Read(&event)) {
      types.push_back(event.type());
      if (event.type() == last) break;
    }
    return types;
  }

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::Event>> stream_;
};

TEST_F(WatchTest, EventsCommittedWhileTheReadersAreBusyComeAfterwards) {
  const Grant first = Get();
  const Grant second = Get();
  Watch();
  ASSERT_EQ(ReadUntil(v1::Event::TRIAL_GRANTED).back(), v1::Event::TRIAL_GRANTED);
  ASSERT_EQ(ReadUntil(v1::Event::TRIAL_GRANTED).back(), v1::Event::TRIAL_GRANTED);
  ASSERT_TRUE(Complete(first).ok());
  ASSERT_EQ(ReadUntil(v1::Event::TRIAL_COMPLETED).back(), v1::Event::TRIAL_COMPLETED);
  // The one thread is held up, and its queue is full: no wake-up of the watch leads to a read.
  base::Mutex mutex;
  base::CondVar changed;
  bool held = false, release = false;
  const auto hold = [&] {
    base::MutexLock lock(&mutex);
    held = true;
    changed.SignalAll();
    while (!release) changed.Wait(&mutex);
  };
  while (!readers_->Schedule(hold)) std::this_thread::yield();
  {
    base::MutexLock lock(&mutex);
    while (!held) changed.Wait(&mutex);
  }
  (void)readers_->Schedule([] {});     // Full already when the watch was about to look.
  ASSERT_TRUE(Complete(second).ok());  // The last event of the study.
  (void)Send<StudyReply>(ControlOp{"s", coordinator::Control::kStop, "", "user", {}});  // Watches have been woken.
  {
    base::MutexLock lock(&mutex);
    release = true;
    changed.SignalAll();
  }
  EXPECT_THAT(ReadUntil(v1::Event::STUDY_COMPLETED),
              ::testing::ElementsAre(v1::Event::TRIAL_COMPLETED, v1::Event::STUDY_COMPLETED));
  EXPECT_TRUE(stream_->Finish().ok());
}

TEST_F(WatchTest, TheLastEventIsToldThoughItComesWhileTheEndIsLookedFor) {
  const Grant grant = Get();
  // The watch finds the study stopped; before it looks whether a trial is open still, the last one ends.
  absl::Status completed;
  ASSERT_TRUE(Send<StudyReply>(ControlOp{"s", coordinator::Control::kStop, "", "user", {}}).ok());
  storage_.BeforeSummarize([&] { completed = Complete(grant); });
  Watch();
  const std::vector<v1::Event::Type> types = ReadUntil(v1::Event::TRIAL_COMPLETED);
  EXPECT_TRUE(completed.ok()) << completed;
  EXPECT_EQ(types.back(), v1::Event::TRIAL_COMPLETED);
  v1::Event event;
  EXPECT_FALSE(stream_->Read(&event));
  EXPECT_TRUE(stream_->Finish().ok());
}

TEST_F(WatchTest, AServerThatDrainsSendsWatchersAway) {
  Watch();
  ASSERT_EQ(ReadUntil(v1::Event::STUDY_CREATED).back(), v1::Event::STUDY_CREATED);
  coordinator_->Drain();
  v1::Event event;
  EXPECT_FALSE(stream_->Read(&event));
  const absl::Status status = wire::FromGrpc(stream_->Finish());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(base::GetReason(status), base::reason::kDraining);
  EXPECT_GT(base::GetErrorDetail(status)->retry_delay, absl::ZeroDuration());
}

// Without a farewell who calls at that moment may not learn why.
class FarewellTest : public ServiceTest {
 protected:
  FarewellTest() { farewell_ = absl::Seconds(1); }
};

TEST_F(FarewellTest, CallersOfAStoppingServerAreToldSo) {
  std::thread stopping;
  absl::Status status;
  do {
    v1::ListStudiesResponse response;
    status = wire::FromGrpc(studies_->ListStudies(Context().get(), {}, &response));
    if (!stopping.joinable()) stopping = std::thread([this] { server_->Stop(); });
  } while (status.ok());
  v1::SuggestResponse lease;
  const absl::Status ask = wire::FromGrpc(work_->Suggest(Context().get(), Ask("s", "r1"), &lease));
  stopping.join();
  for (const absl::Status& told : {status, ask}) {
    ASSERT_EQ(base::GetReason(told), base::reason::kDraining) << told;
    EXPECT_GT(base::GetErrorDetail(told)->retry_delay, absl::ZeroDuration());
  }
}

}  // namespace
}  // namespace luthier::service::testing
