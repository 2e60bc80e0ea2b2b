// Directions that designers ask for, gradients that they set aside, and who reported what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/random.h"
#include "lib/search/registry.h"
#include "server/coordinator/proposals/replay.h"
#include "tests/server/coordinator/expect.h"
#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {
namespace {

// Distrusts gradients of one sign: as a real check would, it judges by the reporter, not by the trial. Says in its
// details who reported each result, so that a replay that numbers workers otherwise is found.
class Suspicious final : public search::Designer {
 public:
  explicit Suspicious(const study::StudySpec& spec) : random_(search::CreateDesigner(RandomSpec(spec))) {}
  absl::StatusOr<search::Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                             const base::StopToken& stop) override {
    search::Suggestion suggestion = random_->Suggest(history, ask_index, stop).value();
    suggestion.origin = "suspicious";
    suggestion.direction = {ask_index % 2 == 0 ? 0.5 : -2.0};
    std::set<int32_t> liars;
    for (const study::HistoryTrial& trial : history.trials()) {
      if (trial.gradient && trial.gradient->values[0] < 0) liars.insert(trial.reporter);
    }
    for (const study::HistoryTrial& trial : history.trials()) {
      if (trial.open()) continue;
      suggestion.details[absl::StrCat("reporter_", trial.number)] = trial.reporter;
      if (trial.gradient && liars.count(trial.reporter) > 0) suggestion.set_aside.push_back(trial.number);
    }
    return suggestion;
  }

 private:
  static study::StudySpec RandomSpec(study::StudySpec spec) {
    spec.algorithm = study::RandomOptions{};
    return spec;
  }
  const std::unique_ptr<search::Designer> random_;
};

std::unique_ptr<search::Designer> MakeSuspicious(const study::StudySpec& spec) {
  return std::make_unique<Suspicious>(spec);
}

// Of an algorithm that looks at history.
study::StudySpec Spec(int64_t max_trials) {
  study::StudySpec spec = MakeSpec(max_trials);
  spec.algorithm = study::BoOptions{};
  return spec;
}

study::Measurement WithGradient(double loss, double slope) {
  study::Measurement m = Loss(loss);
  m.gradient.emplace().values = {slope};
  return m;
}

// Each of the workers takes a trial and completes it; worker "bad" gives gradients of the wrong sign.
void Round(Harness& h, const std::vector<std::string>& workers) {
  for (const std::string& worker : workers) {
    const Grant grant = h.Get("s", worker);
    ASSERT_TRUE(h.Complete(grant, WithGradient(1.0, worker == "bad" ? -1.0 : 1.0)).ok());
  }
}

std::vector<int64_t> SetAside(Harness& h) {
  std::vector<int64_t> numbers;
  const std::vector<storage::SetAside> all = h.memory.ListSetAside(h.Study("s").key, 0, 1000).value();
  for (const storage::SetAside& entry : all) {
    numbers.push_back(entry.trial);
  }
  return numbers;
}

TEST(CoreGradients, ADirectionGoesFromTheDesignerToRowAndGrant) {
  Harness h(Harness::DefaultOptions(), MakeSuspicious);
  ASSERT_TRUE(h.Create("s", Spec(10)).ok());
  const Grant first = h.Get("s", "a");
  EXPECT_THAT(first.trial.provenance.direction, ElementsAre(0.5));
  EXPECT_THAT(h.Get("s", "b").trial.provenance.direction, ElementsAre(-2.0));
  EXPECT_THAT(h.Trial("s", 2).trial.provenance.direction, ElementsAre(-2.0));
  // Whoever is granted the trial again is asked for the same.
  ASSERT_TRUE(h.Release(first).ok());
  h.Restart();
  const Grant again = h.Get("s", "c");
  EXPECT_EQ(again.trial.number, 1);
  EXPECT_THAT(again.trial.provenance.direction, ElementsAre(0.5));
  // A user's own trials ask for nothing.
  ASSERT_TRUE(h.Enqueue("s", {NewTrial{{{"x", 0.5}}, {}}}).ok());
  EXPECT_THAT(h.Get("s", "c").trial.provenance.direction, IsEmpty());
}

TEST(CoreGradients, AGrantSaysWhichGradientIsRead) {
  using study::GradientUse;
  Harness h;
  study::StudySpec spec = Spec(10);
  ASSERT_TRUE(h.Create("bo", spec).ok());
  spec.algorithm = study::BoDefaults(study::BoPreset::kFobo);
  ASSERT_TRUE(h.Create("fobo", spec).ok());
  study::BoOptions slopes = study::BoDefaults(study::BoPreset::kFobo);
  slopes.gradients = study::BoGradients::kDirectional;
  spec.algorithm = slopes;
  ASSERT_TRUE(h.Create("slopes", spec).ok());
  EXPECT_EQ(h.Get("bo", "a").gradient, GradientUse::kNone);
  EXPECT_EQ(h.Get("fobo", "a").gradient, GradientUse::kFull);
  const Grant slope = h.Get("slopes", "a");
  EXPECT_EQ(slope.gradient, GradientUse::kDirectional);
  EXPECT_THAT(slope.trial.provenance.direction, SizeIs(1));
  // The same after a restart, for the next attempt and for new trials; a user's own has no direction.
  ASSERT_TRUE(h.Release(slope).ok());
  h.Restart();
  const Grant again = h.Get("slopes", "b");
  EXPECT_EQ(again.trial.number, 1);
  EXPECT_EQ(again.gradient, GradientUse::kDirectional);
  EXPECT_EQ(h.Get("bo", "b").gradient, GradientUse::kNone);
  EXPECT_EQ(h.Get("fobo", "b").gradient, GradientUse::kFull);
  ASSERT_TRUE(h.Enqueue("slopes", {NewTrial{{{"x", 0.5}}, {}}}).ok());
  EXPECT_EQ(h.Get("slopes", "b").gradient, GradientUse::kFull);
}

TEST(CoreGradients, EachGradientIsSetAsideOnceByAnEventInTheSuggestionsTransaction) {
  Harness h(Harness::DefaultOptions(), MakeSuspicious);
  ASSERT_TRUE(h.Create("s", Spec(20)).ok());
  Round(h, {"good", "bad", "good", "bad"});  // Trials 1 to 4; the third ask knew of 1 and 2.
  EXPECT_THAT(SetAside(h), ElementsAre(2));
  const storage::TrialRecord final_row = h.Trial("s", 2);
  const Grant five = h.Get("s", "good");
  EXPECT_THAT(five.trial.provenance.set_aside, ElementsAre(4));  // Trial 3's set aside 2.
  EXPECT_THAT(h.Trial("s", 3).trial.provenance.set_aside, ElementsAre(2));
  EXPECT_THAT(SetAside(h), ElementsAre(2, 4));
  const std::vector<storage::Event> events = h.Events("s", storage::EventType::kGradientSetAside);
  ASSERT_THAT(events, SizeIs(2));
  EXPECT_EQ(events[1].trial, 4);
  EXPECT_EQ(events[1].attempt, 1);
  EXPECT_EQ(events[1].actor, "bad");
  EXPECT_THAT(events[1].detail, HasSubstr("the losses are kept"));
  const storage::TrialRecord row = h.Trial("s", 5);
  EXPECT_EQ(events[1].seq, row.create_seq + 1);
  EXPECT_EQ(h.Trial("s", 2), final_row);  // A final row never changes.
  EXPECT_TRUE(h.core->CheckInvariants().ok());
}

TEST(CoreGradients, ARestartNeitherForgetsNorRepeats) {
  Harness h(Harness::DefaultOptions(), MakeSuspicious);
  ASSERT_TRUE(h.Create("s", Spec(20)).ok());
  Round(h, {"good", "bad", "good"});
  h.Restart();
  Round(h, {"bad", "good", "bad", "good"});
  h.Restart();
  h.Get("s", "good");
  EXPECT_THAT(SetAside(h), ElementsAre(2, 4, 6));
  EXPECT_THAT(h.Events("s", storage::EventType::kGradientSetAside), SizeIs(3));
}

TEST(CoreGradients, AFailedCommitSetsNothingAside) {
  Harness h(Harness::DefaultOptions(), MakeSuspicious);
  ASSERT_TRUE(h.Create("s", Spec(20)).ok());
  Round(h, {"good", "bad"});
  h.late_suggestions = true;
  const Answered<SuggestReply> ask = h.Ask("s", "good");
  std::vector<Operation> operations;
  operations.push_back(h.ComputeOne().value());
  h.storage.FailNextCommit(absl::UnavailableError("full"));
  EXPECT_FALSE(h.Batch(std::move(operations)).ok());
  EXPECT_THAT(SetAside(h), IsEmpty());
  h.late_suggestions = false;
  h.Get("s", "good");
  EXPECT_THAT(SetAside(h), ElementsAre(2));
}

TEST(CoreGradients, OnlyWhatHasAGradientLosesIt) {
  // Whatever a designer says.
  struct Wild final : search::Designer {
    absl::StatusOr<search::Suggestion> Suggest(const study::History&, uint64_t, const base::StopToken&) override {
      search::Suggestion suggestion;
      suggestion.parameters = {{"x", 0.5}, {"n", 1.0}};
      suggestion.set_aside = {-5, 0, 1, 2, 3, 4, 1'000'000};
      return suggestion;
    }
  };
  Harness h(Harness::DefaultOptions(), [](const study::StudySpec&) { return std::make_unique<Wild>(); });
  ASSERT_TRUE(h.Create("s", Spec(20)).ok());
  const Grant one = h.Get("s", "a");
  const Grant two = h.Get("s", "a");
  const Grant three = h.Get("s", "a");
  ASSERT_TRUE(h.Complete(one, Loss(1.0)).ok());
  ASSERT_TRUE(h.Complete(two, WithGradient(1.0, 2.0)).ok());
  ASSERT_TRUE(h.Fail(three, MakeFailure(study::FailureKind::kConfig)).ok());
  h.Get("s", "a");  // Trial 4, still open.
  EXPECT_THAT(SetAside(h), ElementsAre(2));
}

TEST(CoreGradients, AnImpossibleDirectionIsTheDesignersFailure) {
  for (const std::vector<double>& direction :
       {std::vector<double>{1.0, 2.0}, std::vector<double>{0.0}, std::vector<double>{std::nan("")}}) {
    struct Wild final : search::Designer {
      absl::StatusOr<search::Suggestion> Suggest(const study::History&, uint64_t, const base::StopToken&) override {
        search::Suggestion suggestion;
        suggestion.parameters = {{"x", 0.5}, {"n", 1.0}};
        suggestion.direction = direction;
        return suggestion;
      }
      std::vector<double> direction;
    };
    Harness h(Harness::DefaultOptions(), [&](const study::StudySpec&) {
      auto wild = std::make_unique<Wild>();
      wild->direction = direction;
      return wild;
    });
    ASSERT_TRUE(h.Create("s", Spec(20)).ok());
    const Grant grant = h.Get("s", "a");
    EXPECT_EQ(grant.trial.provenance.origin, "designer_failed");
    EXPECT_THAT(grant.trial.provenance.direction, IsEmpty());
  }
}

// Workers that come and go, with releases, failures, expiries and restarts.
TEST(CoreGradients, WorkersAreNumberedByTheLogAlone) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    base::RandomStream random(seed, "workers");
    Harness h(Harness::DefaultOptions(), MakeSuspicious);
    ASSERT_TRUE(h.Create("s", Spec(40)).ok());
    std::vector<Grant> running;
    for (int step = 0; step < 1000 && h.Study("s").state == study::StudyState::kActive; ++step) {
      const uint64_t what = random.UniformInt(20);
      if (what < 8 && running.size() < 4) {
        const absl::StatusOr<SuggestReply> reply =
            h.Suggest("s", absl::StrCat("w", random.UniformInt(2 + static_cast<uint64_t>(step) / 20)));
        ASSERT_TRUE(reply.ok());
        for (const Grant& grant : reply->grants) running.push_back(grant);
      } else if (what < 18 && !running.empty()) {
        const size_t which = random.UniformInt(running.size());
        const Grant grant = running[which];
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(which));
        const uint64_t how = random.UniformInt(10);
        if (how == 0) {
          (void)h.Release(grant);
        } else if (how == 1) {
          (void)h.Fail(grant, MakeFailure(study::FailureKind::kInfra));
        } else if (how == 2) {
          (void)h.Fail(grant, MakeFailure(study::FailureKind::kConfig));
        } else {  // Or it is lost: then another has it.
          (void)h.Complete(grant, WithGradient(random.Uniform(), random.UniformInt(8) == 0 ? -1.0 : 1.0));
        }
      } else if (what == 18) {
        h.Pass(absl::Seconds(61));
      } else if (what == 19) {
        h.Restart();
      }
    }
    const ReplayReport report = VerifyReplay(&h.memory, h.Study("s"), MakeSuspicious).value();
    EXPECT_EQ(report.checked, static_cast<int64_t>(h.Rows("s").size()));
    EXPECT_THAT(report.mismatches, IsEmpty());
    // Against the log itself: numbers in the order of first results.
    std::map<std::string, int> numbers;
    std::map<int64_t, int> expected;
    for (const storage::Event& event : h.Events("s")) {
      const bool result = event.type == storage::EventType::kTrialCompleted ||
                          event.type == storage::EventType::kTrialPruned ||
                          (event.type == storage::EventType::kTrialFailed && !event.actor.empty());
      if (result)
        expected[event.trial] = numbers.try_emplace(event.actor, static_cast<int>(numbers.size())).first->second;
    }
    EXPECT_GE(numbers.size(), 3u);
    const storage::TrialRecord last = h.Rows("s").back();
    int checked = 0;
    for (const auto& [name, value] : last.trial.provenance.details) {
      const int64_t number = std::stoll(name.substr(sizeof("reporter_") - 1));
      const storage::TrialRecord row = h.Trial("s", number);
      if (study::ReporterOf(row.trial).empty()) continue;
      const auto found = expected.find(number);
      ASSERT_NE(found, expected.end()) << "trial " << number;
      EXPECT_EQ(value, found->second) << "trial " << number;
      ++checked;
    }
    EXPECT_GE(checked, 10);
  }
}

// Three workers that come back after each restart; one of them lies. Everything stored, down to the last bit.
std::vector<storage::TrialRecord> RunWithRestartAt(int restart, const study::StudySpec& spec,
                                                   const DesignerFactory& designers, int* steps) {
  Harness h(Harness::DefaultOptions(), designers);
  *steps = 0;
  const auto step = [&] {
    if (++*steps == restart) h.Restart();
  };
  EXPECT_TRUE(h.Create("s", spec).ok());
  for (int round = 0; h.Study("s").state == study::StudyState::kActive; ++round) {
    std::vector<Grant> grants;
    for (const char* worker : {"a", "bad", "c"}) {
      step();
      absl::StatusOr<SuggestReply> reply = h.Suggest("s", worker);
      if (reply.ok() && reply->grants.empty()) reply = h.Suggest("s", worker);
      EXPECT_TRUE(reply.ok());
      for (const Grant& grant : reply->grants) grants.push_back(grant);
    }
    // They finish in another order than they began.
    std::rotate(grants.begin(), grants.begin() + round % static_cast<int>(grants.size()), grants.end());
    for (const Grant& grant : grants) {
      step();
      const double x = std::get<double>(grant.trial.parameters.at("x"));
      const bool lies = grant.trial.attempts.back().worker == "bad";
      const double slope = 2 * (x - 0.3);
      EXPECT_TRUE(h.Complete(grant, WithGradient((x - 0.3) * (x - 0.3), lies ? -slope : slope)).ok());
    }
  }
  EXPECT_THAT(VerifyReplay(&h.memory, h.Study("s"), designers).value().mismatches, IsEmpty());
  return h.Rows("s");
}

TEST(CoreGradients, ARestartBetweenAnyTwoStepsChangesNoBit) {
  const std::vector<std::pair<study::StudySpec, DesignerFactory>> cases = {{Spec(18), MakeSuspicious},
                                                                           {Spec(9), search::CreateDesigner}};
  for (const auto& [spec, designers] : cases) {
    int steps = 0;
    const std::vector<storage::TrialRecord> rows = RunWithRestartAt(0, spec, designers, &steps);
    ASSERT_EQ(static_cast<int64_t>(rows.size()), spec.budget.max_trials);
    for (int restart = 1; restart <= steps; ++restart) {
      SCOPED_TRACE(restart);
      int same = 0;
      EXPECT_EQ(RunWithRestartAt(restart, spec, designers, &same), rows);
      EXPECT_EQ(same, steps);
    }
  }
}

TEST(CoreGradients, AReproducibleStudyDoesNotLookAtWhoReported) {
  study::StudySpec spec = Spec(12);
  spec.reproducible = true;
  spec.budget.max_parallel = 1;
  Harness h(Harness::DefaultOptions(), MakeSuspicious);
  ASSERT_TRUE(h.Create("s", spec).ok());
  Round(h, {"a", "b", "c", "a", "b", "c"});
  for (const storage::TrialRecord& row : h.Rows("s")) {
    for (const auto& [name, value] : row.trial.provenance.details) EXPECT_EQ(value, 0.0) << name;
  }
  EXPECT_THAT(VerifyReplay(&h.memory, h.Study("s"), MakeSuspicious).value().mismatches, IsEmpty());
}

TEST(CoreGradients, AChangedDirectionIsFound) {
  Harness h(Harness::DefaultOptions(), MakeSuspicious);
  ASSERT_TRUE(h.Create("s", Spec(6)).ok());
  Round(h, {"good", "bad", "good", "good"});
  storage::TrialRecord row = h.Trial("s", 2);
  row.trial.provenance.direction[0] = std::nextafter(row.trial.provenance.direction[0], 9.0);
  ASSERT_TRUE(h.memory.Commit({storage::PutTrial{h.Study("s").key, row}}).ok());
  row = h.Trial("s", 3);
  ASSERT_THAT(row.trial.provenance.set_aside, ElementsAre(2));
  row.trial.provenance.set_aside.clear();
  ASSERT_TRUE(h.memory.Commit({storage::PutTrial{h.Study("s").key, row}}).ok());
  const ReplayReport report = VerifyReplay(&h.memory, h.Study("s"), MakeSuspicious).value();
  ASSERT_THAT(report.mismatches, SizeIs(3));
  EXPECT_THAT(report.mismatches[0], HasSubstr("trial 2 (ask 1)"));
  EXPECT_THAT(report.mismatches[1], HasSubstr("trial 3 (ask 2)"));
  EXPECT_THAT(report.mismatches[2], HasSubstr("trial 4 (ask 3)"));  // Trial 2's gradient was never noted.
}

}  // namespace
}  // namespace luthier::coordinator::testing
