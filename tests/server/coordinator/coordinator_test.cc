// The coordinator with its threads, on a storage in memory. Nothing here waits for a time to pass: each wait is for an
// answer, and a test that hangs has failed.
#include "server/coordinator/writer/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "server/storage/memory_storage.h"
#include "tests/server/coordinator/expect.h"
#include "tests/server/coordinator/future.h"
#include "tests/server/coordinator/harness.h"
#include "tests/server/coordinator/overload.h"
#include "tests/testing/faulty_storage.h"
#include "tests/testing/forwarding_storage.h"

namespace luthier::coordinator {
namespace {

using luthier::testing::FaultyStorage;
using luthier::testing::GatedStorage;
using testing::Future;
using ::testing::HasSubstr;
using testing::Loss;
using testing::MakeFinish;
using testing::MakeSpec;
using testing::MakeSuggest;

absl::Status Full() {
  return base::MakeError(absl::StatusCode::kUnavailable, base::reason::kStorageFull, "disk full");
}

class CoordinatorTest : public ::testing::Test {
 protected:
  static Coordinator::Options TestOptions() {
    Coordinator::Options options;
    options.core.token_seed = 1;
    options.tick = absl::Milliseconds(1);
    return options;
  }
  void Start(Coordinator::Options options = TestOptions()) {
    coordinator_.reset();
    coordinator_ = Coordinator::Start(&gate_, &clock_, std::move(options)).value();
  }
  template <typename Reply, typename Op>
  Future<Reply> Send(Op op, absl::Duration deadline = absl::InfiniteDuration()) {
    return testing::Send<Reply>(*coordinator_, std::move(op), deadline);
  }
  absl::StatusOr<StudyReply> Create(const std::string& id, const study::StudySpec& spec) {
    return Send<StudyReply>(CreateStudyOp{id, spec, "user", {}}).Wait();
  }
  Future<SuggestReply> Ask(const std::string& id, const std::string& worker, int count = 1) {
    SuggestOp op = MakeSuggest(id, worker, count);
    op.deadline = absl::InfiniteDuration();
    return Send<SuggestReply>(std::move(op));
  }
  absl::StatusOr<FinishReply> Complete(const Grant& grant, double value) {
    return Send<FinishReply>(MakeFinish(grant, CompleteContent{Loss(value), false, ""})).Wait();
  }
  // An operation that the writer takes after everything submitted so far.
  void Barrier() { (void)Send<TrialReply>(CancelTrialOp{"no-such-study", 1, "user", {}}).Wait(); }

  base::ManualClock clock_;
  storage::MemoryStorage memory_;
  FaultyStorage faulty_{&memory_};
  GatedStorage gate_{&faulty_};
  std::unique_ptr<Coordinator> coordinator_;
};

TEST_F(CoordinatorTest, ManyWorkersAtOnceGetExactlyMaxTrialsAndEachResultCountsOnce) {
  Start();
  constexpr int kWorkers = 8;
  constexpr int kTrials = 300;
  for (const char* id : {"random", "bo"}) {
    study::StudySpec spec = MakeSpec(id == std::string("bo") ? 25 : kTrials);
    if (id == std::string("bo")) spec.algorithm = study::BoOptions{};
    ASSERT_TRUE(Create(id, spec).ok());
  }
  std::atomic<int> completed{0};
  std::vector<std::thread> workers;
  for (int w = 0; w < kWorkers; ++w) {
    workers.emplace_back([&, w] {
      const std::string name = absl::StrCat("w", w);
      const std::string study = w % 4 == 3 ? "bo" : "random";
      for (int i = 0; true; ++i) {
        const absl::StatusOr<SuggestReply> reply = Ask(study, name, 1 + i % 3).Wait();
        ASSERT_TRUE(reply.ok()) << reply.status();
        if (reply->study_done) return;
        for (const Grant& grant : reply->grants) {
          Future<HeartbeatReply> beat;
          coordinator_->Heartbeat(name, {grant.token}, beat.done());
          ASSERT_EQ(beat.Wait()->directives, std::vector<study::Directive>{study::Directive::kContinue});
          if (i % 7 == 5 && grant.attempt == 1) {
            ASSERT_TRUE(Send<FinishReply>(MakeFinish(grant, ReleaseContent{})).Wait().ok());
            continue;
          }
          const absl::StatusOr<FinishReply> first = Complete(grant, i);
          const absl::StatusOr<FinishReply> again = Complete(grant, i);
          ASSERT_TRUE(first.ok() && again.ok()) << first.status();
          ASSERT_EQ(first->seq, again->seq);
          ++completed;
        }
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(completed, kTrials + 25);
  for (const char* id : {"random", "bo"}) {
    const storage::StudyRecord record = memory_.GetStudy(id).value();
    EXPECT_EQ(record.state, study::StudyState::kCompleted);
    EXPECT_EQ(memory_.Summarize(record)->by_state[static_cast<size_t>(study::TrialState::kComplete)],
              record.spec.budget.max_trials);
  }
  EXPECT_EQ(coordinator_->live_leases(), 0u);
  EXPECT_EQ(coordinator_->committed_seq(), memory_.LastSeq().value());
}

TEST_F(CoordinatorTest, ALongPollWakesUpWhenATrialIsReleased) {
  Start();
  ASSERT_TRUE(Create("s", MakeSpec(1)).ok());
  const Grant grant = Ask("s", "a").Wait()->grants.at(0);
  Future<SuggestReply> waiting = Ask("s", "b");
  Barrier();
  EXPECT_FALSE(waiting.ready());
  ASSERT_TRUE(Send<FinishReply>(MakeFinish(grant, ReleaseContent{})).Wait().ok());
  EXPECT_EQ(waiting.Wait()->grants.at(0).trial.number, 1);
}

TEST_F(CoordinatorTest, ALongPollWakesUpWhenALeaseExpiresWithoutAnyCall) {
  Coordinator::Options options = TestOptions();
  options.core.stall = absl::Hours(1);
  Start(options);
  ASSERT_TRUE(Create("s", MakeSpec(1)).ok());
  ASSERT_TRUE(Ask("s", "a").Wait().ok());
  Future<SuggestReply> waiting = Ask("s", "b");
  clock_.Advance(absl::Seconds(61));
  EXPECT_EQ(waiting.Wait()->grants.at(0).attempt, 2);
}

TEST_F(CoordinatorTest, AHeartbeatTakesAnExpiredLeaseBackThroughTheWriter) {
  Coordinator::Options options = TestOptions();
  options.core.stall = absl::Hours(1);
  Start(options);
  ASSERT_TRUE(Create("s", MakeSpec(1)).ok());
  const Grant grant = Ask("s", "a").Wait()->grants.at(0);
  clock_.Advance(absl::Seconds(61));
  Future<HeartbeatReply> beat;
  coordinator_->Heartbeat("a", {grant.token}, beat.done());
  EXPECT_EQ(beat.Wait()->directives, std::vector<study::Directive>{study::Directive::kContinue});
  const std::vector<storage::Event> events = memory_.ListEvents(1, 0, 100).value();
  EXPECT_EQ(events.back().type, storage::EventType::kTrialResumed);
}

TEST_F(CoordinatorTest, AFullQueueRefusesAtOnceAndResultsHaveTheirOwn) {
  Coordinator::Options options = TestOptions();
  options.max_ask_ops = 3;
  options.max_finish_ops = 2;
  Start(options);
  ASSERT_TRUE(Create("s", MakeSpec()).ok());
  const Grant grant = Ask("s", "a").Wait()->grants.at(0);
  gate_.Close();
  Future<EnqueueReply> held = Send<EnqueueReply>(EnqueueOp{"s", {{{{"x", 0.5}}, {}}}, "", "user", {}});
  gate_.AwaitCommit();  // The writer is busy; its queue is empty.
  std::vector<Future<StudyReply>> asks;
  for (int i = 0; i < 4; ++i) {
    asks.push_back(Send<StudyReply>(ControlOp{"s", i % 2 == 0 ? Control::kPause : Control::kResume, "", "user", {}}));
  }
  ASSERT_TRUE(asks[3].ready());  // The limit is 3.
  const absl::Status refused = asks[3].Wait().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(base::GetReason(refused), base::reason::kQueueFull);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("too many requests wait already; try again shortly"));
  EXPECT_GT(base::GetErrorDetail(refused)->retry_delay, absl::ZeroDuration());

  std::vector<Future<FinishReply>> results;
  for (int i = 0; i < 3; ++i) {
    results.push_back(Send<FinishReply>(MakeFinish(grant, CompleteContent{Loss(1), false, ""})));
  }
  ASSERT_TRUE(results[2].ready());
  EXPECT_EQ(base::GetReason(results[2].Wait().status()), base::reason::kQueueFull);
  EXPECT_THAT(std::string(results[2].Wait().status().message()), HasSubstr("too many results"));
  gate_.Open();
  EXPECT_TRUE(held.Wait().ok());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(asks[i].Wait().ok());
  EXPECT_TRUE(results[0].Wait().ok());
  EXPECT_TRUE(results[1].Wait().ok());
  EXPECT_TRUE(Send<StudyReply>(ControlOp{"s", Control::kResume, "", "user", {}}).Wait().ok());
}

TEST_F(CoordinatorTest, TooManyLongPollsAreRefused) {
  Coordinator::Options options = TestOptions();
  options.max_waiting_asks = 2;
  Start(options);
  ASSERT_TRUE(Create("s", MakeSpec(1)).ok());
  ASSERT_TRUE(Ask("s", "a").Wait().ok());
  Future<SuggestReply> one = Ask("s", "b");
  Future<SuggestReply> two = Ask("s", "c");
  Barrier();
  Barrier();  // The count is published after the batch.
  const absl::Status refused = Ask("s", "d").Wait().status();
  EXPECT_EQ(base::GetReason(refused), base::reason::kQueueFull);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("too many asks"));
  EXPECT_FALSE(one.ready());
  EXPECT_FALSE(two.ready());
}

TEST_F(CoordinatorTest, AnOperationWhoseDeadlinePassedInTheQueueIsDropped) {
  Start();
  ASSERT_TRUE(Create("s", MakeSpec()).ok());
  gate_.Close();
  Future<StudyReply> held = Send<StudyReply>(ControlOp{"s", Control::kPause, "", "user", {}});
  gate_.AwaitCommit();
  Future<StudyReply> late =
      Send<StudyReply>(ControlOp{"s", Control::kStop, "", "user", {}}, clock_.Monotonic() + absl::Seconds(1));
  clock_.Advance(absl::Seconds(2));
  gate_.Open();
  EXPECT_EQ(late.Wait().status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(late.Wait().status().message()), HasSubstr("nothing was done"));
  EXPECT_TRUE(held.Wait().ok());
  EXPECT_EQ(memory_.GetStudy("s")->state, study::StudyState::kPaused);
}

TEST_F(CoordinatorTest, DrainRefusesAsksAnswersWaitingOnesAndTakesResults) {
  Start();
  ASSERT_TRUE(Create("s", MakeSpec(1)).ok());
  const Grant grant = Ask("s", "a").Wait()->grants.at(0);
  Future<SuggestReply> waiting = Ask("s", "b");
  EXPECT_TRUE(coordinator_->serving());
  coordinator_->Drain();
  EXPECT_FALSE(coordinator_->serving());
  for (const absl::Status& status : {waiting.Wait().status(), Ask("s", "c").Wait().status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(base::GetReason(status), base::reason::kDraining);
    EXPECT_THAT(std::string(status.message()), HasSubstr("the server is shutting down"));
    EXPECT_GT(base::GetErrorDetail(status)->retry_delay, absl::ZeroDuration());
  }
  EXPECT_TRUE(Complete(grant, 1).ok());
}

TEST_F(CoordinatorTest, StoppingCommitsWhatIsQueuedAndAnswersEverything) {
  Start();
  ASSERT_TRUE(Create("s", MakeSpec()).ok());
  const SuggestReply granted = Ask("s", "a", 8).Wait().value();
  gate_.Close();
  std::vector<Future<FinishReply>> results;
  for (const Grant& grant : granted.grants) {
    results.push_back(Send<FinishReply>(MakeFinish(grant, CompleteContent{Loss(1), false, ""})));
  }
  gate_.AwaitCommit();
  std::thread stopper([&] { coordinator_.reset(); });
  gate_.Open();
  stopper.join();
  for (Future<FinishReply>& result : results) {
    ASSERT_TRUE(result.ready());
    EXPECT_TRUE(result.Wait().ok()) << result.Wait().status();
  }
  EXPECT_EQ(memory_.Summarize(memory_.GetStudy("s").value())->by_state[2], 8);
}

TEST_F(CoordinatorTest, LeasesSurviveARestart) {
  Start();
  ASSERT_TRUE(Create("s", MakeSpec()).ok());
  const Grant grant = Ask("s", "a").Wait()->grants.at(0);
  Start();
  EXPECT_EQ(coordinator_->live_leases(), 1u);
  EXPECT_TRUE(Complete(grant, 1).ok());
}

TEST_F(CoordinatorTest, SubscribersAreWokenByCommitsOfTheirStudyOnly) {
  Start();
  const storage::StudyKey s = Create("s", MakeSpec())->record.key;
  const storage::StudyKey t = Create("t", MakeSpec())->record.key;
  Barrier();
  // Subscribed until the first commit.
  const auto count = [this](storage::StudyKey study) {
    const auto wakes = std::make_shared<std::atomic<int>>(0);
    coordinator_->Subscribe(study, [wakes](Coordinator::Wake why) {
      if (why == Coordinator::Wake::kCommit) ++*wakes;
      return why != Coordinator::Wake::kCommit;
    });
    return wakes;
  };
  const auto s_wakes = count(s), t_wakes = count(t);
  ASSERT_TRUE(Ask("s", "a").Wait().ok());
  Barrier();  // Watchers are woken after the answers.
  EXPECT_EQ(*s_wakes, 1);
  EXPECT_EQ(*t_wakes, 0);
  ASSERT_TRUE(Ask("s", "a").Wait().ok());
  ASSERT_TRUE(Ask("t", "a").Wait().ok());
  Barrier();
  EXPECT_EQ(*s_wakes, 1);
  EXPECT_EQ(*t_wakes, 1);
}

TEST_F(CoordinatorTest, SubscribersAreWokenNowAndThenThoughNothingHappens) {
  Start();
  const storage::StudyKey s = Create("s", MakeSpec())->record.key;
  const auto counted = std::make_shared<std::atomic<int>>(0);
  std::atomic<int>& ticks = *counted;
  coordinator_->Subscribe(s, [counted](Coordinator::Wake why) {
    *counted += why == Coordinator::Wake::kTick;
    return true;
  });
  for (int round = 1; round <= 3; ++round) {
    clock_.Advance(TestOptions().tick);
    while (ticks < round) std::this_thread::yield();
  }
  coordinator_->Drain();  // Said at once, though no time passes.
  const int before = ticks;
  while (ticks == before) std::this_thread::yield();
}

TEST_F(CoordinatorTest, WaitingOperationsAreBoundedInNumberAndBytes) {
  EXPECT_EQ(testing::Overload(Coordinator::Options()), "");
}

TEST_F(CoordinatorTest, AFullDiskIsAnErrorThatPassesAndCostsNoLease) {
  Start();
  ASSERT_TRUE(Create("s", MakeSpec()).ok());
  const Grant grant = Ask("s", "a").Wait()->grants.at(0);
  faulty_.FailNextCommit(Full());
  EXPECT_EQ(base::GetReason(Complete(grant, 1).status()), base::reason::kStorageFull);
  Barrier();
  EXPECT_TRUE(Complete(grant, 1).ok());
  EXPECT_TRUE(coordinator_->serving());
}

TEST_F(CoordinatorTest, AServerWhoseDiskWasFullServesAgainByItself) {
  Start();
  ASSERT_TRUE(Create("s", MakeSpec()).ok());
  const int64_t first = faulty_.commits() + 1;
  for (int64_t n = first; n < first + 3; ++n) faulty_.FailCommit(n, Full());
  EXPECT_FALSE(Send<StudyReply>(ControlOp{"s", Control::kPause, "", "user", {}}).Wait().ok());
  // Nobody calls: whoever looks at serving() sends nothing.
  while (!coordinator_->serving() || faulty_.commits() < first + 3) std::this_thread::yield();
}

TEST_F(CoordinatorTest, ANearlyFullDiskStopsNewWorkButTakesResultsAndControl) {
  std::atomic<int64_t> free{int64_t{1} << 40};
  Coordinator::Options options = TestOptions();
  options.free_bytes = [&] { return free.load(); };
  Start(options);
  ASSERT_TRUE(Create("s", MakeSpec()).ok());
  const Grant grant = Ask("s", "a").Wait()->grants.at(0);
  ASSERT_TRUE(Send<StudyReply>(ControlOp{"s", Control::kPause, "", "user", {}}).Wait().ok());
  Future<SuggestReply> waiting = Ask("s", "b");  // Since before the disk was full.
  Barrier();
  ASSERT_FALSE(waiting.ready());
  free = 1000;
  clock_.Advance(absl::Seconds(11));
  Barrier();
  ASSERT_TRUE(Send<StudyReply>(ControlOp{"s", Control::kResume, "", "user", {}}).Wait().ok());
  EXPECT_EQ(base::GetReason(waiting.Wait().status()), base::reason::kStorageLow);
  const absl::Status refused = Ask("s", "a").Wait().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(base::GetReason(refused), base::reason::kStorageLow);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("results are taken, but no new work is given"));
  EXPECT_TRUE(Complete(grant, 1).ok());
  EXPECT_TRUE(Send<StudyReply>(ControlOp{"s", Control::kStop, "", "user", {}}).Wait().ok());
  free = int64_t{1} << 40;
  clock_.Advance(absl::Seconds(11));
  ASSERT_TRUE(Send<StudyReply>(ControlOp{"s", Control::kStop, "", "user", {}}).Wait().ok());
  EXPECT_TRUE(Create("t", MakeSpec()).ok());
}

using CoordinatorDeathTest = CoordinatorTest;

TEST_F(CoordinatorDeathTest, AStorageThatCannotBeTrustedEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fail = [&](bool with_handler) {
    Coordinator::Options options = TestOptions();
    if (with_handler) {
      options.on_fatal = [](const absl::Status& status) {
        _exit(status.code() == absl::StatusCode::kDataLoss ? 3 : 4);
      };
    }
    Start(options);
    faulty_.FailNextCommit(absl::DataLossError("sync failed"));
    (void)Create("s", MakeSpec());
    _exit(0);
  };
  EXPECT_EXIT(fail(true), ::testing::ExitedWithCode(3), "storage_failed error=\"sync failed\"");
  EXPECT_EXIT(fail(false), ::testing::ExitedWithCode(74), "storage_failed");
}

TEST_F(CoordinatorDeathTest, RowsThatCannotBeReadAfterAFailedCommitEndTheProcessWithAnErrorNotACrash) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fail = [&] {
    Coordinator::Options options = TestOptions();
    options.on_fatal = [](const absl::Status& status) { _exit(status.code() == absl::StatusCode::kDataLoss ? 3 : 4); };
    Start(options);
    (void)Create("s", MakeSpec());
    faulty_.FailNextCommit(Full());
    faulty_.FailReads(absl::DataLossError("a row is damaged"));
    (void)Create("t", MakeSpec());
    while (true) pause();  // The writer's thread ends the process.
  };
  EXPECT_EXIT(fail(), ::testing::ExitedWithCode(3), "storage_failed error=\"a row is damaged\"");
}

// A permit that ends when the test says so.
class Revocable final : public base::Permit {
 public:
  void Revoke() { revoked_ = true; }
  absl::Status Check(absl::Time) const override {
    return revoked_ ? base::MakeError(absl::StatusCode::kUnauthenticated, base::reason::kRevoked, "revoked")
                    : absl::OkStatus();
  }

 private:
  std::atomic<bool> revoked_{false};
};

TEST_F(CoordinatorTest, WaitingOperationsAreRefusedWhenTheirPermitEnds) {
  Start();
  ASSERT_TRUE(Create("s", MakeSpec()).ok());
  const auto permit = std::make_shared<Revocable>();
  gate_.Close();
  Future<SuggestReply> first = Ask("s", "w");
  gate_.AwaitCommit();  // The writer is busy; its queue is empty.
  Future<SuggestReply> queued;
  SuggestOp op = MakeSuggest("s", "v");
  op.done = queued.done();
  coordinator_->Submit(std::move(op), absl::InfiniteDuration(), permit);
  permit->Revoke();
  // What had begun is not stored yet, and AwaitBatch does not say that it is.
  EXPECT_FALSE(coordinator_->AwaitBatch(absl::Milliseconds(1)));
  std::thread waiting([&] { EXPECT_TRUE(coordinator_->AwaitBatch(absl::Hours(1))); });
  gate_.Open();
  waiting.join();
  EXPECT_TRUE(first.Wait().ok());
  EXPECT_EQ(base::GetReason(queued.Wait().status()), base::reason::kRevoked);
  EXPECT_TRUE(coordinator_->AwaitBatch(absl::Hours(1)));
  EXPECT_EQ(memory_.ListTrials(1, {}, 0, 10).value().size(), 1u);
}

TEST_F(CoordinatorTest, AStorageThatCannotBeReadStopsTheStart) {
  faulty_.FailReads(absl::DataLossError("page 7"));
  EXPECT_EQ(Coordinator::Start(&faulty_, &clock_, TestOptions()).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace luthier::coordinator
