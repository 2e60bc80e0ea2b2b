// What asks get when the designers of several studies take too long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/coordinator/proposals/late.h"
#include "server/coordinator/proposals/replay.h"
#include "tests/server/coordinator/expect.h"
#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {
namespace {

const absl::Duration kDeadline = absl::Seconds(10);

Core::Options Impatient() {
  Core::Options options = Harness::DefaultOptions();
  options.suggest_deadline = kDeadline;
  return options;
}

study::StudySpec LateSpec(int64_t max_trials = 100) {
  return BoSpec(max_trials, 2);
}

TEST(LatePoint, KeepsTheStudysConstraints) {
  study::StudySpec spec = LateSpec();
  const std::string first = spec.space.parameters().front().name;
  const auto ends = std::get<study::FloatRange>(spec.space.parameters().front().domain);
  const double middle = 0.5 * (ends.min + ends.max);
  const study::StudySpec free = spec;
  spec.constraints.push_back({.sum = {{first, 1.0}}, .at_least = {}, .at_most = middle, .forbid = {}});
  int kept = 0;
  for (int64_t number = 1; number <= 100; ++number) {
    const study::Parameters point = LatePoint(spec, number);
    EXPECT_LE(std::get<double>(point.at(first)), middle);
    EXPECT_EQ(point, LatePoint(spec, number));
    kept += point == LatePoint(free, number);
  }
  EXPECT_NEAR(kept, 50, 2) << "points of the sequence that are legal stay";
}

class CoreLate : public ::testing::Test {
 protected:
  void SetUp() override {
    h_.late_suggestions = true;
    ASSERT_TRUE(h_.Create("s", LateSpec()).ok());
    ASSERT_TRUE(h_.Create("t", LateSpec()).ok());
  }
  Answered<SuggestReply> Ask(const std::string& id, int count = 1) { return h_.Ask(id, "w", count, absl::Hours(10)); }
  // The oldest request is computed, and its suggestions are applied.
  void Compute() {
    std::vector<Operation> operations;
    operations.push_back(h_.ComputeOne().value());
    ASSERT_TRUE(h_.Batch(std::move(operations)).ok());
  }
  ReplayReport Replay(const std::string& id) { return VerifyReplay(&h_.memory, h_.Study(id)).value(); }

  Harness h_{Impatient()};
};

TEST_F(CoreLate, AsksGetAPointWithoutAModelOnceTheirsTakesTooLongWhileAnotherStudyWaits) {
  const Answered<SuggestReply> s = Ask("s"), t = Ask("t");
  h_.Pass(kDeadline - absl::Milliseconds(1));
  EXPECT_FALSE(s.ready());
  h_.Pass(absl::Milliseconds(1));
  ASSERT_TRUE(s.ready());
  const study::Trial& trial = s.get()->grants.at(0).trial;
  EXPECT_EQ(trial.state, TrialState::kRunning);
  EXPECT_EQ(trial.provenance.origin, "late");
  EXPECT_EQ(trial.provenance.designer, "bo");
  EXPECT_FALSE(trial.provenance.ask_index);
  EXPECT_EQ(trial.parameters, LatePoint(LateSpec(), 1));
  EXPECT_TRUE(t.ready());  // Its own was late, too.
  // The model goes on and serves the next ask.
  const Answered<SuggestReply> next = Ask("s");
  EXPECT_FALSE(next.ready());
  Compute();
  ASSERT_TRUE(next.ready());
  EXPECT_EQ(next.get()->grants.at(0).trial.provenance.ask_index, 0u);
  EXPECT_NE(next.get()->grants.at(0).trial.provenance.origin, "late");
  EXPECT_TRUE(h_.core->CheckInvariants().ok()) << h_.core->CheckInvariants();
}

TEST_F(CoreLate, AStudyAloneWaits) {
  const Answered<SuggestReply> s = Ask("s");
  h_.Pass(absl::Hours(1));
  EXPECT_FALSE(s.ready());
  // Its hour is over at once when somebody else comes.
  const Answered<SuggestReply> t = Ask("t");
  h_.Pass(absl::ZeroDuration());
  EXPECT_TRUE(s.ready());
  EXPECT_FALSE(t.ready());
}

TEST_F(CoreLate, EveryAskThatWaitsGetsOneAsFarAsThereIsRoom) {
  study::StudySpec spec = LateSpec(3);
  ASSERT_TRUE(h_.Create("small", spec).ok());
  const Answered<SuggestReply> many = Ask("small", 5), t = Ask("t");
  h_.Pass(kDeadline);
  ASSERT_TRUE(many.ready());
  EXPECT_THAT(many.get()->grants, SizeIs(3));
  EXPECT_THAT(h_.Rows("small"), SizeIs(3));
  Compute();  // There is no room for what the model says.
  EXPECT_THAT(h_.Rows("small"), SizeIs(3));
  for (const Grant& grant : many.get()->grants) ASSERT_TRUE(h_.Complete(grant, Loss(1.0)).ok());
  EXPECT_EQ(h_.Study("small").state, study::StudyState::kCompleted);
}

TEST_F(CoreLate, AfterOneTheModelHasAsLongAgain) {
  const Answered<SuggestReply> s = Ask("s"), t = Ask("t");
  h_.Pass(kDeadline);
  ASSERT_TRUE(s.ready());
  const Answered<SuggestReply> next = Ask("s"), other = Ask("t");
  h_.Pass(kDeadline - absl::Milliseconds(1));
  EXPECT_FALSE(next.ready());
  h_.Pass(absl::Milliseconds(1));
  EXPECT_TRUE(next.ready());
}

TEST_F(CoreLate, StudiesThatCannotHaveOneWait) {
  study::StudySpec reproducible = LateSpec();
  reproducible.reproducible = true;
  reproducible.budget.max_parallel = 2;
  study::StudySpec finite = LateSpec();
  study::ParameterSpec n;
  n.name = std::string("n");
  n.domain = study::IntRange{0, 9, 1, study::Scale::kLinear};
  finite.space = study::SearchSpace::Create({n}).value();
  study::StudySpec parts = LateSpec();
  parts.algorithm = study::AshaOptions{};
  parts.resource = study::Resource{.min = 1, .max = 9, .unit = ""};
  ASSERT_TRUE(h_.Create("reproducible", reproducible).ok());
  ASSERT_TRUE(h_.Create("finite", finite).ok());
  ASSERT_TRUE(h_.Create("parts", parts).ok());
  std::vector<Answered<SuggestReply>> asks;
  for (const char* id : {"reproducible", "finite", "parts"}) asks.push_back(Ask(id));
  h_.Pass(absl::Hours(1));
  for (const Answered<SuggestReply>& ask : asks) EXPECT_FALSE(ask.ready());
}

TEST_F(CoreLate, SuggestionsAreReplayedWithLatePointsAmongThem) {
  for (int round = 0; round < 6; ++round) {
    const Answered<SuggestReply> s = Ask("s"), t = Ask("t");
    if (round % 2 == 0) h_.Pass(kDeadline);
    const Answered<SuggestReply> next = Ask("s");
    while (std::optional<ProposalsOp> proposals = h_.ComputeOne()) {
      std::vector<Operation> operations;
      operations.push_back(*std::move(proposals));
      ASSERT_TRUE(h_.Batch(std::move(operations)).ok());
    }
    if (round == 3) h_.Restart();
    for (const Answered<SuggestReply>* ask : {&s, &t, &next}) {
      if (!ask->ready()) continue;
      for (const Grant& grant : ask->get()->grants) {
        ASSERT_TRUE(h_.Complete(grant, Loss(std::get<double>(grant.trial.parameters.at("x")))).ok());
      }
    }
  }
  int64_t late = 0;
  for (const storage::TrialRecord& row : h_.Rows("s")) late += IsLate(row.trial.provenance) ? 1 : 0;
  EXPECT_GE(late, 3);
  const ReplayReport report = Replay("s");
  EXPECT_EQ(report.checked, static_cast<int64_t>(h_.Rows("s").size()));
  EXPECT_THAT(report.mismatches, IsEmpty());
}

TEST_F(CoreLate, AChangedPointIsFound) {
  const Answered<SuggestReply> s = Ask("s"), t = Ask("t");
  h_.Pass(kDeadline);
  storage::TrialRecord row = h_.Trial("s", 1);
  row.trial.parameters["x"] = std::nextafter(std::get<double>(row.trial.parameters["x"]), 2.0);
  ASSERT_TRUE(h_.memory.Commit({storage::PutTrial{h_.Study("s").key, row}}).ok());
  const ReplayReport report = Replay("s");
  ASSERT_THAT(report.mismatches, SizeIs(1));
  EXPECT_THAT(report.mismatches[0], HasSubstr("trial 1 (late)"));
}

TEST(CoreProposals, APartOfARequestIsGivenOutAtOnce) {
  Harness h;
  h.late_suggestions = true;
  ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
  const Answered<SuggestReply> first = h.Ask("s", "a");
  ProposalsOp alone = h.ComputeOne().value();
  const Answered<SuggestReply> second = h.Ask("s", "b"), third = h.Ask("s", "c");
  std::vector<Operation> operations;
  operations.push_back(std::move(alone));
  ASSERT_TRUE(h.Batch(std::move(operations)).ok());
  ASSERT_TRUE(first.ready());
  ProposalsOp both = h.ComputeOne().value();
  ASSERT_THAT(both.suggestions, SizeIs(2));
  ProposalsOp part = both;
  part.suggestions.pop_back();
  part.more = true;
  operations.clear();
  operations.push_back(std::move(part));
  ASSERT_TRUE(h.Batch(std::move(operations)).ok());
  EXPECT_TRUE(second.ready());
  EXPECT_FALSE(third.ready());
  EXPECT_FALSE(h.ComputeOne());  // The rest is on its way.
  ProposalsOp rest = both;
  rest.suggestions.erase(rest.suggestions.begin());
  ++rest.first_ask_index;
  operations.clear();
  operations.push_back(std::move(rest));
  ASSERT_TRUE(h.Batch(std::move(operations)).ok());
  ASSERT_TRUE(third.ready());
  EXPECT_EQ(third.get()->grants.at(0).trial.provenance.ask_index, 2u);
  EXPECT_THAT(VerifyReplay(&h.memory, h.Study("s")).value().mismatches, IsEmpty());
}

}  // namespace
}  // namespace luthier::coordinator::testing
