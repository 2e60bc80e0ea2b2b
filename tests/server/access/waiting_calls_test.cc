#include "server/access/waiting_calls.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lib/base/error.h"

namespace luthier::access::testing {
namespace {

class WaitingCallsTest : public ::testing::Test {
 protected:
  WaitingCalls::Listener Note(const std::string& name) {
    return [this, name](const absl::Status& why) { ended_.push_back(name + " " + base::GetReason(why)); };
  }
  std::shared_ptr<Standing> Make(absl::Duration left) { return std::make_shared<Standing>("id", clock_.Wall() + left); }
  using Names = std::vector<std::string>;

  base::ManualClock clock_;
  Names ended_;
  WaitingCalls calls_{&clock_, absl::Hours(1)};  // It looks at the clock when it is told to.
};

TEST_F(WaitingCallsTest, EndWithTheirSecretAndNotBefore) {
  const auto a = Make(absl::Minutes(1)), b = Make(absl::Minutes(2));
  calls_.Add(a, Note("a1"));
  calls_.Add(a, Note("a2"));
  calls_.Add(b, Note("b"));
  clock_.Advance(absl::Minutes(1) - absl::Microseconds(1));
  calls_.Tick();
  EXPECT_EQ(ended_, Names());
  clock_.Advance(absl::Microseconds(1));
  calls_.Tick();
  EXPECT_EQ(ended_, (Names{"a1 EXPIRED", "a2 EXPIRED"}));
  EXPECT_EQ(calls_.size(), 1u);
  b->Revoke();
  calls_.Look(b.get());
  EXPECT_EQ(ended_.back(), "b REVOKED");
  calls_.Tick();
  EXPECT_EQ(ended_.size(), 3u);
  EXPECT_EQ(calls_.size(), 0u);
}

TEST_F(WaitingCallsTest, CallsUnderAnEndedSecretEndAtOnce) {
  const auto a = Make(absl::ZeroDuration());
  calls_.Add(a, Note("a"));
  EXPECT_EQ(ended_, Names{"a EXPIRED"});
  const auto b = Make(absl::Hours(1));
  b->Replace();
  calls_.Add(b, Note("b"));
  EXPECT_EQ(ended_.back(), "b EXPIRED");
  EXPECT_EQ(calls_.size(), 0u);
}

TEST_F(WaitingCallsTest, RemovedCallsHearNothing) {
  const auto a = Make(absl::Minutes(1));
  const uint64_t first = calls_.Add(a, Note("first"));
  calls_.Add(a, Note("second"));
  calls_.Remove(first);
  calls_.Remove(first);
  a->Revoke();
  calls_.Look(a.get());
  EXPECT_EQ(ended_, Names{"second REVOKED"});
}

TEST_F(WaitingCallsTest, FollowAnEndThatMovesAndAClockThatSteps) {
  const auto a = Make(absl::Hours(1));
  calls_.Add(a, Note("a"));
  a->SetEnd(clock_.Wall() + absl::Minutes(1));
  calls_.Look(a.get());
  clock_.JumpWall(-absl::Hours(24 * 365 * 20));
  clock_.Advance(absl::Minutes(2));
  calls_.Tick();
  EXPECT_EQ(ended_, Names());
  clock_.JumpWall(absl::Hours(24 * 365 * 20));
  calls_.Tick();
  EXPECT_EQ(ended_, Names{"a EXPIRED"});
  // What a wrong clock ended is in force again, and so are calls that begin then.
  clock_.JumpWall(-absl::Minutes(2));
  calls_.Add(a, Note("again"));
  EXPECT_EQ(ended_.size(), 1u);
  clock_.JumpWall(absl::Minutes(2));
  calls_.Tick();
  EXPECT_EQ(ended_.back(), "again EXPIRED");
}

TEST_F(WaitingCallsTest, ARevocationHoldsWhateverTheClockSays) {
  const auto a = Make(absl::Hours(1));
  a->Revoke();
  clock_.JumpWall(-absl::Hours(24 * 365 * 20));
  EXPECT_EQ(base::GetReason(a->Check(clock_.Wall())), base::reason::kRevoked);
}

TEST(WaitingCalls, LookAtTheClockByThemselves) {
  base::ManualClock clock;
  WaitingCalls calls(&clock, absl::Milliseconds(1));
  base::Mutex mutex;
  base::CondVar changed;
  bool ended = false;
  calls.Add(std::make_shared<Standing>("id", clock.Wall() + absl::Minutes(1)), [&](const absl::Status&) {
    base::MutexLock lock(&mutex);
    ended = true;
    changed.Signal();
  });
  clock.Advance(absl::Minutes(1));
  base::MutexLock lock(&mutex);
  while (!ended) changed.Wait(&mutex);
}

}  // namespace
}  // namespace luthier::access::testing
