// Who gets which trial, and how many there are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/coordinator/expect.h"
#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {
namespace {

const absl::Duration kLeaseTtl = absl::Seconds(60);

class CoreGrant : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(h_.Create("s", MakeSpec()).ok()); }
  Harness h_;
};

TEST_F(CoreGrant, AFreshSuggestionIsStoredAndGrantedInOneTransaction) {
  const Grant grant = h_.Get("s", "w");
  EXPECT_EQ(grant.trial.number, 1);
  EXPECT_EQ(grant.attempt, 1);
  EXPECT_EQ(grant.token.size(), 16u);
  const storage::TrialRecord row = h_.Trial("s", 1);
  EXPECT_EQ(row.trial, grant.trial);
  EXPECT_EQ(row.trial.state, TrialState::kRunning);
  EXPECT_EQ(row.grants.back().token, grant.token);
  EXPECT_EQ(row.trial.provenance.designer, "random");
  EXPECT_EQ(row.trial.provenance.ask_index, 0u);
  EXPECT_EQ(h_.memory.LastFence().value(), FenceOf(grant.token));
  std::vector<EventType> types;
  for (const storage::Event& event : h_.Events("s")) types.push_back(event.type);
  EXPECT_THAT(types, ElementsAre(EventType::kStudyCreated, EventType::kTrialSuggested, EventType::kTrialGranted));
  EXPECT_EQ(h_.Events("s").back().actor, "w");
}

TEST_F(CoreGrant, RetriesComeFirstOldestFirstThenEnqueuedTrialsThenSuggestions) {
  const Grant first = h_.Get("s", "a");
  const Grant second = h_.Get("s", "a");
  const Grant third = h_.Get("s", "a");
  ASSERT_TRUE(h_.Enqueue("s", Settings(1)).ok());  // Trial 4.
  ASSERT_TRUE(h_.Release(third).ok());             // PENDING again.
  ASSERT_TRUE(h_.Release(first).ok());
  h_.Pass(kLeaseTtl);  // The lease of trial 2 ends.
  const absl::StatusOr<SuggestReply> reply = h_.Suggest("s", "b", 6);
  ASSERT_TRUE(reply.ok());
  EXPECT_THAT(Numbers(*reply), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(reply->grants[0].attempt, 2);
  EXPECT_EQ(reply->grants[1].attempt, 2);
  EXPECT_EQ(reply->grants[3].trial.provenance.origin, "enqueued");
}

TEST_F(CoreGrant, ARetryGoesToAnotherWorkerIfOneAskedWithinATtl) {
  const Grant grant = h_.Get("s", "a");
  ASSERT_EQ(h_.Get("s", "b").trial.number, 2);  // There is another worker.
  ASSERT_TRUE(h_.Fail(grant, MakeFailure(study::FailureKind::kInfra)).ok());
  EXPECT_EQ(h_.Get("s", "a").trial.number, 3);  // Not the one it just failed at.
  EXPECT_EQ(h_.Get("s", "b").trial.number, 1);
}

TEST_F(CoreGrant, ARetryGoesBackToTheSameWorkerWhenNobodyElseAsks) {
  const Grant grant = h_.Get("s", "a");
  ASSERT_TRUE(h_.Fail(grant, MakeFailure(study::FailureKind::kInfra)).ok());
  EXPECT_EQ(h_.Get("s", "a").trial.number, 1);
}

TEST_F(CoreGrant, ARetryGoesBackToTheSameWorkerAfterATtl) {
  const Grant grant = h_.Get("s", "a");
  ASSERT_EQ(h_.Get("s", "b").trial.number, 2);
  ASSERT_TRUE(h_.Fail(grant, MakeFailure(study::FailureKind::kInfra)).ok());
  h_.Pass(kLeaseTtl - absl::Seconds(1));
  EXPECT_EQ(h_.Get("s", "a").trial.number, 3);
  h_.Pass(absl::Seconds(1));
  EXPECT_EQ(h_.Get("s", "a").trial.number, 1);
}

TEST_F(CoreGrant, AReleasedTrialGoesToAnyone) {
  const Grant grant = h_.Get("s", "a");
  ASSERT_EQ(h_.Get("s", "b").trial.number, 2);
  ASSERT_TRUE(h_.Release(grant).ok());
  EXPECT_EQ(h_.Get("s", "a").trial.number, 1);  // Its worker was started again, say.
}

TEST(CoreBudget, NoMoreRowsThanMaxTrialsHoweverManyAsk) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec(5)).ok());
  std::vector<Operation> operations;
  std::vector<Answered<SuggestReply>> answers(8);
  for (size_t i = 0; i < answers.size(); ++i) {
    SuggestOp op = MakeSuggest("s", "w" + std::to_string(i), 2);
    op.done = answers[i].done();
    operations.push_back(std::move(op));
  }
  ASSERT_TRUE(h.Batch(std::move(operations)).ok());
  size_t granted = 0;
  for (const auto& answer : answers) granted += answer.get()->grants.size();
  EXPECT_EQ(granted, 5u);
  EXPECT_THAT(h.Rows("s"), SizeIs(5));
}

TEST(CoreBudget, RetriesTakeNoBudgetFailuresDo) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec(2)).ok());
  ASSERT_TRUE(h.Fail(h.Get("s", "a"), MakeFailure(study::FailureKind::kInfra)).ok());
  ASSERT_TRUE(h.Fail(h.Get("s", "a"), MakeFailure(study::FailureKind::kConfig)).ok());
  const Grant second = h.Get("s", "a");
  EXPECT_EQ(second.trial.number, 2);
  EXPECT_THAT(h.Suggest("s", "b")->grants, IsEmpty());
  ASSERT_TRUE(h.Complete(second, Loss(1)).ok());
  EXPECT_EQ(h.Study("s").state, study::StudyState::kCompleted);
  EXPECT_EQ(h.Study("s").state_reason, "max_trials reached");
}

TEST(CoreBudget, NoMoreRunningTrialsThanMaxParallel) {
  Harness h;
  study::StudySpec spec = MakeSpec();
  spec.budget.max_parallel = 2;
  ASSERT_TRUE(h.Create("s", spec).ok());
  ASSERT_TRUE(h.Enqueue("s", Settings(3)).ok());
  const absl::StatusOr<SuggestReply> reply = h.Suggest("s", "a", 5);
  EXPECT_THAT(Numbers(*reply), ElementsAre(1, 2));
  EXPECT_THAT(h.Suggest("s", "b")->grants, IsEmpty());
  ASSERT_TRUE(h.Complete(reply->grants[0], Loss(1)).ok());
  EXPECT_EQ(h.Get("s", "b").trial.number, 3);
  h.Pass(kLeaseTtl);  // An expired trial keeps its place, so it can be granted again.
  EXPECT_THAT(Numbers(*h.Suggest("s", "c", 5)), ElementsAre(2, 3));
}

}  // namespace
}  // namespace luthier::coordinator::testing
