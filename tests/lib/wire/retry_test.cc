#include "lib/wire/retry.h"

#include <gmock/gmock.h>

#include <thread>
#include <vector>

#include "lib/base/error.h"

namespace luthier::wire {
namespace {

using ::testing::ElementsAre;

// Records each sleep and moves the clock instead.
class FakeSleeper final : public Sleeper {
 public:
  explicit FakeSleeper(base::ManualClock* clock) : clock_(clock) {}
  bool Sleep(absl::Duration duration) override {
    slept.push_back(duration);
    clock_->Advance(duration);
    return slept.size() < interrupt_at;
  }
  std::vector<absl::Duration> slept;
  size_t interrupt_at = 1'000'000'000;

 private:
  base::ManualClock* clock_;
};

class RetryTest : public ::testing::Test {
 protected:
  // Fails `failures` times with `failure`, then succeeds.
  absl::Status Run(const RetryPolicy& policy, int failures, const absl::Status& failure) {
    attempts_ = 0;
    return Retry(policy, base::Backoff(base::RandomStream(1, "test.retry")), clock_, sleeper_,
                 [&] { return ++attempts_ <= failures ? failure : absl::OkStatus(); });
  }

  base::ManualClock clock_;
  FakeSleeper sleeper_{&clock_};
  int attempts_ = 0;
};

absl::Status QueueFull(absl::Duration delay) {
  base::ErrorDetail detail;
  detail.reason = base::reason::kQueueFull;
  detail.retry_delay = delay;
  return base::MakeError(absl::StatusCode::kResourceExhausted, "full", detail);
}

TEST_F(RetryTest, GivesUpAfterFiveAttempts) {
  EXPECT_EQ(Run({}, 100, absl::UnavailableError("gone")), absl::UnavailableError("gone"));
  EXPECT_EQ(attempts_, 5);
  EXPECT_EQ(sleeper_.slept.size(), 4u);
}

TEST_F(RetryTest, SucceedsOnceTheServerAnswers) {
  EXPECT_TRUE(Run({}, 4, absl::UnavailableError("gone")).ok());
  EXPECT_EQ(attempts_, 5);
}

TEST_F(RetryTest, AnswersAreNotQuestioned) {
  EXPECT_EQ(Run(RetryPolicy::Finish(), 100, absl::NotFoundError("")), absl::NotFoundError(""));
  EXPECT_EQ(attempts_, 1);
}

TEST_F(RetryTest, FinishCallsTryForADay) {
  const absl::Duration begin = clock_.Monotonic();
  EXPECT_FALSE(Run(RetryPolicy::Finish(), 1'000'000, absl::UnavailableError("gone")).ok());
  EXPECT_GT(clock_.Monotonic() - begin, absl::Hours(23));
  EXPECT_LE(clock_.Monotonic() - begin, absl::Hours(24));
  EXPECT_GT(attempts_, 10'000);
}

TEST_F(RetryTest, OddErrorsAreCountedApartFromOutages) {
  EXPECT_FALSE(Run(RetryPolicy::Finish(), 100, absl::InternalError("mangled")).ok());
  EXPECT_EQ(attempts_, 5);
  // Twenty outages, and one mangled answer after each fifth of them.
  attempts_ = 0;
  const absl::Status status =
      Retry(RetryPolicy::Finish(), base::Backoff(base::RandomStream(1, "test.retry")), clock_, sleeper_, [&] {
        if (++attempts_ > 24) return absl::OkStatus();
        return attempts_ % 6 == 0 ? absl::UnknownError("mangled") : absl::UnavailableError("gone");
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(attempts_, 25);
}

TEST_F(RetryTest, ServersDelayIsHonoured) {
  EXPECT_TRUE(Run({}, 2, QueueFull(absl::Seconds(20))).ok());
  EXPECT_TRUE(Run({}, 1, QueueFull(absl::Hours(1000))).ok());
  EXPECT_THAT(sleeper_.slept, ElementsAre(absl::Seconds(20), absl::Seconds(20), base::Backoff::kMaxServerDelay));
}

TEST_F(RetryTest, InterruptedSleepGivesUp) {
  sleeper_.interrupt_at = 2;
  EXPECT_FALSE(Run({}, 100, absl::UnavailableError("gone")).ok());
  EXPECT_EQ(attempts_, 2);
}

TEST_F(RetryTest, BudgetBoundsTheExtraTraffic) {
  RetryBudget budget;
  RetryPolicy policy;
  policy.budget = &budget;
  int sent = 0;
  int calls = 1000;
  for (int i = 0; i < calls; ++i) {  // A server that never answers.
    Run(policy, 100, absl::UnavailableError("gone")).IgnoreError();
    sent += attempts_;
  }
  EXPECT_EQ(sent, calls + 10);
  sent = 0;
  for (int i = 0; i < calls; ++i) {  // One that fails every other time.
    Run(policy, 1, absl::UnavailableError("gone")).IgnoreError();
    sent += attempts_;
    EXPECT_TRUE(Run(policy, 0, absl::OkStatus()).ok());
    sent += attempts_;
  }
  EXPECT_LE(sent, 2 * calls * 11 / 10 + 11);
  EXPECT_GT(sent, 2 * calls + calls / 20);
}

TEST(InterruptibleSleeper, InterruptEndsSleepsNowAndLater) {
  InterruptibleSleeper sleeper;
  EXPECT_TRUE(sleeper.Sleep(absl::ZeroDuration()));
  std::thread other([&] { sleeper.Interrupt(); });
  EXPECT_FALSE(sleeper.Sleep(absl::InfiniteDuration()));
  other.join();
  EXPECT_FALSE(sleeper.Sleep(absl::InfiniteDuration()));
}

}  // namespace
}  // namespace luthier::wire
