// How many slots studies use and want.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/study/quotas.h"
#include "tests/server/coordinator/expect.h"
#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {
namespace {

const char kPool[] = "default/default";

study::StudySpec Spec(int64_t max_trials, int64_t max_parallel, const std::string& pool = "") {
  study::StudySpec spec = MakeSpec(max_trials);
  spec.budget.max_parallel = max_parallel;
  if (!pool.empty()) spec.pool = pool;
  return spec;
}

PoolSlots Of(Harness& h, const std::string& pool = kPool) {
  const std::map<std::string, PoolSlots> slots = h.core->CountSlots();
  const auto found = slots.find(pool);
  return found == slots.end() ? PoolSlots() : found->second;
}

TEST(CoreSlots, AreAsManyAsMayRunBesideWhatRuns) {
  Harness h;
  ASSERT_TRUE(h.Create("s", Spec(10, 4)).ok());
  EXPECT_EQ(Of(h), (PoolSlots{0, 4}));
  const Grant first = h.Get("s", "a");
  h.Get("s", "b");
  EXPECT_EQ(Of(h), (PoolSlots{2, 2}));
  ASSERT_TRUE(h.Complete(first, Loss(1)).ok());
  EXPECT_EQ(Of(h), (PoolSlots{1, 3}));
  ASSERT_TRUE(h.Control("s", Control::kPause).ok());
  EXPECT_EQ(Of(h), (PoolSlots{1, 0}));
}

TEST(CoreSlots, AreNoMoreThanTrialsThatAreLeft) {
  Harness h;
  ASSERT_TRUE(h.Create("s", Spec(3, 0)).ok());
  EXPECT_EQ(Of(h), (PoolSlots{0, 3}));
  std::vector<Grant> grants;
  for (int i = 0; i < 3; ++i) grants.push_back(h.Get("s", "a"));
  EXPECT_EQ(Of(h), (PoolSlots{3, 0}));
  ASSERT_TRUE(h.Release(grants[0]).ok());  // It waits for another worker.
  EXPECT_EQ(Of(h), (PoolSlots{2, 1}));
  for (const int i : {1, 2}) ASSERT_TRUE(h.Complete(grants[static_cast<size_t>(i)], Loss(1)).ok());
  EXPECT_EQ(Of(h), (PoolSlots{0, 1}));
  ASSERT_TRUE(h.Complete(h.Get("s", "b"), Loss(1)).ok());
  EXPECT_EQ(Of(h), PoolSlots());
  EXPECT_EQ(h.Study("s").state, StudyState::kCompleted);
}

TEST(CoreSlots, TrialsThatUsersAddAreWanted) {
  Harness h;
  ASSERT_TRUE(h.Create("s", Spec(5, 0)).ok());
  ASSERT_TRUE(h.Enqueue("s", Settings(2)).ok());
  EXPECT_EQ(Of(h), (PoolSlots{0, 5}));
}

TEST(CoreSlots, ALostWorkersSlotIsWantedAgain) {
  Harness h;
  ASSERT_TRUE(h.Create("s", Spec(2, 1)).ok());
  h.Get("s", "a");
  EXPECT_EQ(Of(h), (PoolSlots{1, 0}));
  h.Pass(absl::Seconds(61));
  EXPECT_EQ(Of(h), (PoolSlots{0, 1}));
}

TEST(CoreSlots, ASearchThatIsDoneWantsNone) {
  Harness h;
  study::StudySpec spec = Spec(100, 0);
  study::ParameterSpec b;
  b.name = "b";
  b.domain = study::BoolSwitch{};
  spec.space = study::SearchSpace::Create({b}).value();
  spec.algorithm = study::GridOptions{};
  ASSERT_TRUE(h.Create("s", spec).ok());
  EXPECT_EQ(h.Suggest("s", "a", 5)->grants.size(), 2u);
  EXPECT_THAT(h.Suggest("s", "b")->grants, IsEmpty());
  EXPECT_EQ(Of(h), (PoolSlots{2, 0}));
}

TEST(CoreSlots, StudiesThatUsersAskForThemselvesWantNone) {
  Harness h;
  study::StudySpec spec = Spec(10, 0);
  spec.objective = study::ExternalObjective{};
  ASSERT_TRUE(h.Create("s", spec).ok());
  h.Get("s", "a");
  EXPECT_TRUE(h.core->CountSlots().empty());
}

TEST(CoreSlots, PoolsAndProjectsAreCountedByThemselves) {
  Harness h;
  ASSERT_TRUE(h.Create("s", Spec(3, 0)).ok());
  ASSERT_TRUE(h.Create("t", Spec(10, 2)).ok());
  ASSERT_TRUE(h.Create("g", Spec(4, 0, "gpus")).ok());
  ASSERT_TRUE(h.Create("vision/s", Spec(7, 0)).ok());
  EXPECT_EQ(Of(h), (PoolSlots{0, 5}));
  EXPECT_EQ(Of(h, "default/gpus"), (PoolSlots{0, 4}));
  EXPECT_EQ(Of(h, "vision/default"), (PoolSlots{0, 7}));
  ASSERT_TRUE(h.Control("t", Control::kDelete).ok());
  EXPECT_EQ(Of(h), (PoolSlots{0, 3}));
}

TEST(CoreSlots, AQuotaBoundsWhatAProjectWants) {
  study::QuotaTable quotas;
  quotas.Set("vision", {.running_trials = 5});
  Core::Options options = Harness::DefaultOptions();
  options.quotas = &quotas;
  Harness h(options);
  ASSERT_TRUE(h.Create("vision/s", Spec(4, 0)).ok());
  ASSERT_TRUE(h.Create("vision/g", Spec(10, 0, "gpus")).ok());
  EXPECT_EQ(Of(h, "vision/default"), (PoolSlots{0, 4}));
  EXPECT_EQ(Of(h, "vision/gpus"), (PoolSlots{0, 1}));
  h.Get("vision/g", "a");
  h.Get("vision/g", "b");
  EXPECT_EQ(Of(h, "vision/default"), (PoolSlots{0, 3}));
  EXPECT_EQ(Of(h, "vision/gpus"), (PoolSlots{2, 0}));
}

}  // namespace
}  // namespace luthier::coordinator::testing
