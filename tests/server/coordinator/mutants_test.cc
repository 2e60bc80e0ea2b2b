// A harness that lets its mutant live is broken. Linked with a copy of the coordinator that takes mutants.
#include "tests/server/coordinator/mutants.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "server/coordinator/proposals/replay.h"
#include "tests/server/coordinator/explorer.h"
#include "tests/server/coordinator/harness.h"
#include "tests/server/coordinator/overload.h"
#include "tests/server/coordinator/random_walk.h"

namespace luthier::coordinator {

Mutant active_mutant = Mutant::kNone;

namespace testing {
namespace {

class Mutants : public ::testing::TestWithParam<Mutant> {
 protected:
  void TearDown() override { active_mutant = Mutant::kNone; }
};

using RandomOperations = Mutants;
using ExhaustiveModel = Mutants;
using Replay = Mutants;
using Load = Mutants;

std::string MutantName(const ::testing::TestParamInfo<Mutant>& info) {
  return "M" + std::to_string(static_cast<int>(info.param));
}

std::string Walks() {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    WalkOptions options;
    options.seed = seed;
    options.steps = 2000;
    const std::string wrong = CheckWalk(options, nullptr);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

TEST_P(RandomOperations, NoticeTheMutant) {
  active_mutant = GetParam();
  const std::string wrong = Walks();
  EXPECT_NE(wrong, "");
  std::printf("%s\n", wrong.substr(0, wrong.find("\n  {")).c_str());  // Without the steps.
}
INSTANTIATE_TEST_SUITE_P(All, RandomOperations,
                         ::testing::Values(Mutant::kReplyBeforeCommit, Mutant::kFenceNotCompared,
                                           Mutant::kFenceResetAtStart, Mutant::kBudgetNotCounted,
                                           Mutant::kCompleteNotReplayable, Mutant::kLeasesOnWallClock,
                                           Mutant::kNoFreshTtl),
                         MutantName);

// Two trials of one study; the last bound keeps a search that finds nothing short.
std::string Search() {
  ExplorerOptions options;
  options.max_states = 3000;
  return Explore(options).violation;
}

TEST_P(ExhaustiveModel, NoticesTheMutant) {
  active_mutant = GetParam();
  const std::string wrong = Search();
  EXPECT_NE(wrong, "");
  std::printf("%s\n", wrong.c_str());
}
INSTANTIATE_TEST_SUITE_P(All, ExhaustiveModel,
                         ::testing::Values(Mutant::kReplyBeforeCommit, Mutant::kFenceNotCompared,
                                           Mutant::kFenceResetAtStart, Mutant::kCompleteNotReplayable,
                                           Mutant::kNoFreshTtl),
                         MutantName);

// Results arrive while the designer thinks.
ReplayReport ReplayOfABusyStudy() {
  Harness harness;
  study::StudySpec spec = MakeSpec(14);
  study::BoOptions bo;
  bo.initial_points = 3;
  spec.algorithm = bo;
  EXPECT_TRUE(harness.Create("s", spec).ok());
  harness.late_suggestions = true;
  std::vector<Grant> running;
  for (int i = 0; i < 14; ++i) {
    Answered<SuggestReply> ask = harness.Ask("s", "w" + std::to_string(i % 3));
    if (running.size() > 2) {
      EXPECT_TRUE(harness.Complete(running.front(), Loss(0.1 * i + i % 3)).ok());
      running.erase(running.begin());
    }
    std::vector<Operation> operations;
    if (std::optional<ProposalsOp> proposals = harness.ComputeOne()) operations.push_back(*std::move(proposals));
    EXPECT_TRUE(harness.Batch(std::move(operations)).ok());
    EXPECT_TRUE(ask.ready());
    running.push_back(ask.get()->grants.at(0));
  }
  return VerifyReplay(&harness.memory, harness.Study("s")).value();
}

TEST_P(Replay, NoticesTheMutant) {
  active_mutant = GetParam();
  const ReplayReport report = ReplayOfABusyStudy();
  EXPECT_EQ(report.checked, 14);
  EXPECT_FALSE(report.mismatches.empty());
  for (const std::string& line : report.mismatches) std::printf("%s\n", line.c_str());
}
INSTANTIATE_TEST_SUITE_P(All, Replay, ::testing::Values(Mutant::kLiveHistory), MutantName);

TEST_P(Load, NoticesTheMutant) {
  active_mutant = GetParam();
  const std::string wrong = Overload(Coordinator::Options());
  EXPECT_NE(wrong, "");
  std::printf("%s", wrong.c_str());
}
INSTANTIATE_TEST_SUITE_P(All, Load, ::testing::Values(Mutant::kQueueUnbounded), MutantName);

// The copy without a mutant is as good as the original: it is the mutants that the harnesses notice.
TEST(NoMutant, PassesEveryHarness) {
  EXPECT_EQ(Walks(), "");
  EXPECT_EQ(Search(), "");
  EXPECT_TRUE(ReplayOfABusyStudy().mismatches.empty());
  EXPECT_EQ(Overload(Coordinator::Options()), "");
}

}  // namespace
}  // namespace testing
}  // namespace luthier::coordinator
