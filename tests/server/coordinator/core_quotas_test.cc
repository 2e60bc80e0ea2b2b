// What projects have of what all of them share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/error.h"
#include "lib/study/quotas.h"
#include "tests/server/coordinator/expect.h"
#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {
namespace {

Core::Options WithQuotas(const study::QuotaTable* quotas) {
  Core::Options options = Harness::DefaultOptions();
  options.quotas = quotas;
  return options;
}

class CoreQuotas : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* id : {"p/a", "p/b", "q/a"}) ASSERT_TRUE(h_.Create(id, MakeSpec()).ok());
  }
  void ExpectSound() {
    const absl::Status sound = h_.core->CheckInvariants();
    EXPECT_TRUE(sound.ok()) << sound;
  }
  Answered<SuggestReply> AskAny(const std::string& project, const std::string& worker) {
    SuggestOp op;
    op.pool = study::PoolKey(project, "default");
    op.worker = worker;
    op.request_id = absl::StrCat("any-", ++requests_);
    op.deadline = h_.clock.Monotonic() + absl::Seconds(60);
    return h_.Ask(std::move(op));
  }

  study::QuotaTable quotas_;
  Harness h_{WithQuotas(&quotas_)};
  int requests_ = 0;
};

TEST_F(CoreQuotas, RunningTrialsOfAllStudiesCountAndAsksWaitForTheNext) {
  quotas_.Set("p", {0, 2, 0, 0});
  const Grant first = h_.Get("p/a", "v");
  h_.Get("p/b", "w");
  const Answered<SuggestReply> named = h_.Ask("p/a", "x"), any = AskAny("p", "y");
  EXPECT_FALSE(named.ready() || any.ready());
  EXPECT_THAT(h_.core->held_back(), ElementsAre("p"));
  EXPECT_THAT(h_.Suggest("q/a", "z")->grants, SizeIs(1));  // Another project's.
  ExpectSound();
  ASSERT_TRUE(h_.Complete(first, Loss(1)).ok());
  EXPECT_TRUE(named.ready());
  EXPECT_FALSE(any.ready());
  ExpectSound();
  quotas_.Set("p", {0, 3, 0, 0});
  ASSERT_TRUE(h_.Batch().ok());
  ASSERT_TRUE(any.ready());
  EXPECT_THAT((*any.get()).grants, SizeIs(1));
  EXPECT_THAT(h_.core->held_back(), IsEmpty());
  EXPECT_THAT(h_.Suggest("p/a", "u")->grants, SizeIs(0));  // It may not wait.
  ExpectSound();
}

TEST_F(CoreQuotas, AnAskForManyGetsWhatThereIsRoomFor) {
  quotas_.Set("p", {0, 3, 0, 0});
  h_.Get("p/a", "v");
  EXPECT_THAT(h_.Suggest("p/b", "w", 10)->grants, SizeIs(2));
  ExpectSound();
}

TEST_F(CoreQuotas, LeasesThatEndedMakeRoom) {
  quotas_.Set("p", {0, 1, 0, 0});
  const Grant lost = h_.Get("p/a", "v");
  const Answered<SuggestReply> waiting = h_.Ask("p/a", "w", 1, absl::Seconds(600));
  EXPECT_FALSE(waiting.ready());
  h_.Pass(absl::Seconds(61));
  h_.Pass(absl::Seconds(61));  // Of "v", for one TTL, others have the first chance.
  ASSERT_TRUE(waiting.ready());
  EXPECT_EQ((*waiting.get()).grants.at(0).trial.number, lost.trial.number);
  ExpectSound();
  h_.Restart();
  ExpectSound();
}

TEST_F(CoreQuotas, StudiesBeyondTheQuotaAreRefusedUntilOneIsDeleted) {
  quotas_.Set("p", {2, 0, 0, 0});
  const absl::Status refused = h_.Create("p/c", MakeSpec()).status();
  EXPECT_EQ(base::GetReason(refused), base::reason::kLimitExceeded);
  EXPECT_EQ(base::GetErrorDetail(refused)->metadata.at("limit"), "project_studies");
  EXPECT_TRUE(h_.Create("p/a", MakeSpec()).ok());  // It is there.
  EXPECT_TRUE(h_.Create("q/b", MakeSpec()).ok());
  ASSERT_TRUE(h_.Control("p/b", Control::kDelete).ok());
  EXPECT_TRUE(h_.Create("p/c", MakeSpec()).ok());
  ExpectSound();
}

TEST_F(CoreQuotas, AsksBeyondTheQuotaAreToldToComeBack) {
  quotas_.Set("p", {0, 1, 2, 0});
  h_.Get("p/a", "v");
  const Answered<SuggestReply> first = h_.Ask("p/a", "w"), second = AskAny("p", "x"), third = h_.Ask("p/b", "y");
  EXPECT_FALSE(first.ready() || second.ready());
  ASSERT_TRUE(third.ready());
  EXPECT_EQ(base::GetReason(third.get().status()), base::reason::kQueueFull);
  EXPECT_GT(base::GetErrorDetail(third.get().status())->retry_delay, absl::ZeroDuration());
  EXPECT_TRUE(h_.Suggest("q/a", "z").ok());
  h_.Pass(absl::Seconds(61));
  EXPECT_TRUE(first.ready() && second.ready());
  ExpectSound();
}

TEST_F(CoreQuotas, BytesBeyondTheQuotaBringNothingNewAndResultsAreTaken) {
  const auto kept = [&](const std::string& id) { return h_.Study(id).bytes; };
  EXPECT_EQ(kept("p/a"), 0);
  const Grant first = h_.Get("p/a", "v"), second = h_.Get("p/b", "w");
  ASSERT_TRUE(h_.Report(first, {Loss(2, 1), Loss(1, 2)}).ok());
  const int64_t points = kept("p/a");
  EXPECT_GT(points, 0);
  ASSERT_TRUE(h_.Complete(first, Loss(1)).ok());
  EXPECT_GT(kept("p/a"), points);
  ExpectSound();
  h_.Restart();
  ExpectSound();
  quotas_.Set("p", {0, 0, 0, 0, kept("p/a")});
  // Whatever is new in the project, not in others.
  const absl::StatusOr<SuggestReply> ask = h_.Suggest("p/b", "v");
  EXPECT_EQ(base::GetReason(ask.status()), base::reason::kQueueFull);
  EXPECT_TRUE(base::GetErrorDetail(ask.status())->retry_delay.has_value());
  EXPECT_THAT(std::string(ask.status().message()), HasSubstr("project \"p\" keeps about"));
  for (const absl::Status& status : {h_.Create("p/c", MakeSpec()).status(), h_.Enqueue("p/b", {NewTrial()}).status(),
                                     h_.Import("p/b", {ImportedTrial()}).status()}) {
    EXPECT_EQ(base::GetReason(status), base::reason::kLimitExceeded) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("luthier study delete"));
  }
  EXPECT_THAT(h_.Suggest("q/a", "z")->grants, SizeIs(1));
  ASSERT_TRUE(h_.Report(second, {Loss(3, 1)}).ok());
  ASSERT_TRUE(h_.Complete(second, Loss(2)).ok());
  EXPECT_GT(kept("p/b"), 0);
  ExpectSound();
  ASSERT_TRUE(h_.Control("p/a", Control::kDelete).ok());
  ExpectSound();
  EXPECT_TRUE(h_.Create("p/c", MakeSpec()).ok()) << "what went with the study is room again";
  EXPECT_THAT(h_.Suggest("p/b", "v")->grants, SizeIs(1));
}

}  // namespace
}  // namespace luthier::coordinator::testing
