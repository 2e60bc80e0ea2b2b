// What batches cost beside many studies and many waiting asks: counted in studies, leases and asks that are looked at,
// so that the machine does not matter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/coordinator/studies/pool.h"
#include "tests/server/coordinator/expect.h"
#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {
namespace {

constexpr int kFew = 100;
constexpr int kMany = 5000;
constexpr int64_t kMost = 40;     // Looks that a batch with one operation may take.
constexpr int64_t kChecked = 16;  // Of them: asks that each batch checks in passing, fewer at the end of the line.

enum class Asks { kOfAny, kOfTheirOwn, kOfOne };

// Full studies, each with one running trial, and as many asks that wait. Trials of "one" end when a test says so.
struct Fleet {
  Fleet(int size, Asks asks, int64_t max_trials, int64_t max_parallel = 0, bool wait = true) {
    study::StudySpec one = MakeSpec(max_trials);
    one.budget.max_parallel = max_parallel;
    EXPECT_TRUE(h.Create("one", one).ok());
    while (h.Suggest("one", "holder")->grants.size() == 1) continue;
    for (int i = 1; i < size; ++i) {
      const std::string id = absl::StrCat("s", i);
      EXPECT_TRUE(h.Create(id, MakeSpec(1)).ok());
      EXPECT_THAT(h.Suggest(id, absl::StrCat("w", i))->grants, SizeIs(1));
    }
    for (int i = 0; wait && i < size; ++i) {
      const std::string own = i == 0 ? "one" : absl::StrCat("s", i);
      const std::string id = asks == Asks::kOfAny ? "" : asks == Asks::kOfTheirOwn ? own : "one";
      waiting.push_back(h.Ask(id, absl::StrCat("idle", i), 1, absl::Hours(10)));
    }
    EXPECT_EQ(h.core->waiting(), wait ? size : 0);
  }

  Grant Running(int64_t number) {
    const storage::TrialRecord row = h.Trial("one", number);
    Grant grant;
    grant.study_id = "one";
    grant.trial = row.trial;
    grant.token = row.grants.back().token;
    return grant;
  }
  // Looks that `batch` takes.
  int64_t Steps(const std::function<void()>& batch) {
    const int64_t before = h.core->steps();
    batch();
    return h.core->steps() - before;
  }

  Harness h;
  std::vector<Answered<SuggestReply>> waiting;
};

// Looks taken by `batch` beside few studies and asks. Beside many it must not take more.
int64_t StepsAtAnySize(Asks asks, const std::function<void(Fleet&)>& batch, int64_t max_parallel = 0) {
  const int64_t max_trials = max_parallel > 0 ? 100 : 10;
  Fleet few(kFew, asks, max_trials, max_parallel);
  Fleet many(kMany, asks, max_trials, max_parallel);
  const int64_t steps = few.Steps([&] { batch(few); });
  EXPECT_LE(std::abs(many.Steps([&] { batch(many); }) - steps), kChecked);
  EXPECT_TRUE(many.h.core->CheckInvariants().ok()) << many.h.core->CheckInvariants();
  return steps;
}

class CoreScale : public ::testing::TestWithParam<Asks> {};

TEST_P(CoreScale, AnEmptyBatchCostsTheSameBesideManyStudiesAndAsks) {
  EXPECT_LE(StepsAtAnySize(GetParam(), [](Fleet& f) { ASSERT_TRUE(f.h.Batch().ok()); }), kMost);
}

TEST_P(CoreScale, ACompleteCostsTheSameBesideManyStudiesAndAsks) {
  const auto complete = [](Fleet& f) { ASSERT_TRUE(f.h.Complete(f.Running(1), Loss(1)).ok()); };
  EXPECT_LE(StepsAtAnySize(GetParam(), complete), kMost);
}

TEST_P(CoreScale, RoomThatATrialLeavesIsGivenToTheFirstAskAtTheSameCost) {
  if (GetParam() == Asks::kOfTheirOwn) return;  // The same as of one.
  const auto complete = [](Fleet& f) {
    ASSERT_TRUE(f.h.Complete(f.Running(1), Loss(1)).ok());
    EXPECT_TRUE(f.waiting[0].ready());
    EXPECT_FALSE(f.waiting[1].ready());
  };
  EXPECT_LE(StepsAtAnySize(GetParam(), complete, /*max_parallel=*/3), 2 * kMost);
}

TEST_P(CoreScale, AnAskThatArrivesOrWhoseTimeIsUpCostsTheSame) {
  const auto ask = [](Fleet& f) {
    const Answered<SuggestReply> answer = f.h.Ask("", "late", 1, absl::Seconds(5), "r");
    f.h.Pass(absl::Seconds(5));
    EXPECT_TRUE(answer.ready());
  };
  EXPECT_LE(StepsAtAnySize(GetParam(), ask), 3 * kMost);
}

INSTANTIATE_TEST_SUITE_P(Asks, CoreScale, ::testing::Values(Asks::kOfAny, Asks::kOfTheirOwn, Asks::kOfOne),
                         [](const auto& parameter) {
                           return parameter.param == Asks::kOfAny        ? "OfAny"
                                  : parameter.param == Asks::kOfTheirOwn ? "OfTheirOwn"
                                                                         : "OfOne";
                         });

TEST(CoreScaleLeases, AHeartbeatThatTakesAnExpiredLeaseBackCostsTheSame) {
  const auto steps = [](int size) {
    Fleet f(size, Asks::kOfAny, 10, 0, /*wait=*/false);
    f.h.Pass(absl::Seconds(60));  // Every lease has expired.
    const std::string token = f.Running(1).token;
    return f.Steps(
        [&] { EXPECT_THAT(f.h.Heartbeat("holder", {token}), ::testing::ElementsAre(study::Directive::kContinue)); });
  };
  const int64_t few = steps(kFew);
  EXPECT_EQ(steps(kMany), few);
  EXPECT_LE(few, kMost);
}

TEST(CoreScaleFailures, AFailedCommitReadsOnlyTheStudyThatChanged) {
  const auto reads = [](int size) {
    Fleet f(size, Asks::kOfTheirOwn, 10);
    f.h.storage.FailNextCommit(
        base::MakeError(absl::StatusCode::kUnavailable, base::reason::kStorageFull, "disk full"));
    const Grant grant = f.Running(1);
    const int64_t before = f.h.storage.reads();
    EXPECT_FALSE(f.h.Complete(grant, Loss(1)).ok());
    return f.h.storage.reads() - before;
  };
  const int64_t few = reads(kFew);
  EXPECT_EQ(reads(10 * kFew), few);
  EXPECT_LE(few, 4);
}

TEST(CoreScaleAskers, TheTwoNewestTellWhatAMapOfAllNamesTells) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    Pool pool;
    std::map<std::string, absl::Duration> all;
    for (int i = 0; i < 20; ++i) {
      const absl::Duration now = absl::Seconds(i / 2);
      const std::string name(1, static_cast<char>('a' + random() % 4));
      pool.NoteAsker(name, now);
      all[name] = now;
      for (const char* who : {"a", "b", "c", "d", "e"}) {
        absl::Duration last = -absl::InfiniteDuration();
        for (const auto& [other, when] : all) {
          if (other != who) last = std::max(last, when);
        }
        ASSERT_EQ(pool.LastBeside(who), last) << who;
      }
    }
  }
}

}  // namespace
}  // namespace luthier::coordinator::testing
