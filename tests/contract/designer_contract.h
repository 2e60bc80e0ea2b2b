#ifndef LUTHIER_TESTS_CONTRACT_DESIGNER_CONTRACT_H_
#define LUTHIER_TESTS_CONTRACT_DESIGNER_CONTRACT_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/base/stop_token.h"
#include "lib/search/designer.h"
#include "lib/search/registry.h"
#include "lib/study/encoding.h"
#include "lib/study/history.h"
#include "lib/study/legal_settings.h"
#include "lib/study/study_spec.h"
#include "tests/contract/fake_study.h"
#include "tests/lib/base/look_meter.h"

// The promises of every suggestion algorithm (lib/search/designer.h), checked against any study it is given:
//   INSTANTIATE_TEST_SUITE_P(Mine, DesignerContract, ::testing::ValuesIn(cases), DesignerContract::Name);
namespace luthier::contract {

struct DesignerCase {
  std::string name;
  study::StudySpec spec;
  bool seeded = true;               // Another seed gives other suggestions.
  std::optional<int64_t> settings;  // Number of distinct settings when there are few.
  bool ends = false;                // It has a plan, and says that it is done before the settings are all tried.
};

inline void PrintTo(const DesignerCase& c, std::ostream* out) {
  *out << c.name;
}

class DesignerContract : public ::testing::TestWithParam<DesignerCase> {
 public:
  static std::string Name(const ::testing::TestParamInfo<DesignerCase>& info) { return info.param.name; }

 protected:
  const study::StudySpec& spec() const { return GetParam().spec; }
  std::unique_ptr<search::Designer> NewDesigner() const { return search::CreateDesigner(spec()); }

  // A smooth bowl with its minimum inside the unit cube.
  double Loss(const study::Parameters& parameters) const {
    return (encoding_.ToCompact(parameters).array() - 0.3).matrix().squaredNorm();
  }

  // Suggests and checks all that holds of any suggestion. Absent when the space is exhausted, or results are awaited.
  std::optional<search::Suggestion> Suggest(search::Designer& designer, const study::History& history,
                                            uint64_t ask) const {
    absl::StatusOr<search::Suggestion> suggestion = designer.Suggest(history, ask, base::StopToken());
    if (base::GetReason(suggestion.status()) == base::reason::kAwaitingResults) {
      const auto pending = [](const study::HistoryTrial& t) {
        return t.open() && t.state != study::TrialState::kPaused;
      };
      EXPECT_TRUE(std::any_of(history.trials().begin(), history.trials().end(), pending)) << "waits for nothing";
      return std::nullopt;
    }
    if (!suggestion.ok()) {
      EXPECT_EQ(suggestion.status().code(), absl::StatusCode::kOutOfRange) << suggestion.status();
      EXPECT_EQ(base::GetReason(suggestion.status()), base::reason::kSpaceExhausted) << suggestion.status();
      CheckExhausted(history);
      return std::nullopt;
    }
    if (suggestion->resume) {
      const int64_t number = *suggestion->resume;
      const bool known = number >= 1 && number <= static_cast<int64_t>(history.trials().size());
      EXPECT_TRUE(known);
      if (!known) return std::nullopt;
      const study::HistoryTrial& paused = history.trials()[static_cast<size_t>(number - 1)];
      EXPECT_EQ(paused.state, study::TrialState::kPaused);
      EXPECT_GT(suggestion->resource, paused.resource);
      EXPECT_LE(suggestion->resource, spec().resource->max);
      EXPECT_TRUE(suggestion->parameters.empty());
      return *std::move(suggestion);
    }
    const absl::StatusOr<study::Parameters> canonical = spec().space.Canonical(suggestion->parameters);
    EXPECT_TRUE(canonical.ok()) << canonical.status();
    EXPECT_TRUE(!canonical.ok() || *canonical == suggestion->parameters) << "not canonical: " << Print(*suggestion);
    EXPECT_EQ(study::LegalSettings(spec().space, spec().constraints).WhyNot(suggestion->parameters), "");
    EXPECT_FALSE(suggestion->origin.empty());
    EXPECT_LE(suggestion->designer_state.size(), 16384u);
    for (const auto& [name, value] : suggestion->details) {
      EXPECT_TRUE(std::isfinite(value)) << name;
      EXPECT_TRUE(study::IsName(name)) << name;
    }
    if (!suggestion->direction.empty()) {
      study::Gradient asked;
      asked.direction = suggestion->direction;
      EXPECT_TRUE(study::ValidateGradient(asked, static_cast<int>(spec().space.differentiable().size())).ok());
    }
    int64_t last = 0;
    for (const int64_t number : suggestion->set_aside) {
      EXPECT_GT(number, last) << "not ascending";
      last = number;
      const bool has_gradient = number >= 1 && number <= static_cast<int64_t>(history.trials().size()) &&
                                history.trials()[static_cast<size_t>(number - 1)].gradient.has_value();
      EXPECT_TRUE(has_gradient) << "trial " << number << " has no gradient to set aside";
    }
    return *std::move(suggestion);
  }

  // One ask of a study whose suggestions are stored at once. False when the space is exhausted.
  bool Ask(search::Designer& designer, FakeStudy* study) const {
    const std::optional<search::Suggestion> suggestion = Suggest(designer, study->history(), study->asks());
    if (!suggestion) return false;
    study->Suggested(*suggestion);
    study->Store();
    return true;
  }

  // `asks` asks one after the other, each ending as `outcome(ask, loss)` says, after which there must still be an
  // answer.
  void RunAndAskOnce(int asks, const std::function<Outcome(int, double)>& outcome) const {
    const std::unique_ptr<search::Designer> designer = NewDesigner();
    FakeStudy study;
    for (int i = 0; i < asks; ++i) {
      if (!Ask(*designer, &study)) return;
      const study::HistoryTrial& trial = study.history().trials().back();
      study.Finish(trial.number, outcome(i, Loss(trial.parameters)));
    }
    Suggest(*designer, study.history(), study.asks());
  }

  static std::string Print(const search::Suggestion& s) {
    std::string text = s.origin + ": " + study::FormatParameters(s.parameters) + " carry=" + s.designer_state;
    if (s.resume) text += " resume=" + std::to_string(*s.resume);
    text += " resource=" + std::to_string(s.resource);
    for (const double part : s.direction) text += " v=" + study::FormatDouble(part);
    for (const int64_t number : s.set_aside) text += " without " + std::to_string(number);
    for (const auto& [name, value] : s.details) text += " " + name + "=" + study::FormatDouble(value);
    return text;
  }

  // Returns what an ask gives, a suggestion or an error, as text.
  static std::string Answer(search::Designer& designer, const FakeStudy& study, const base::StopToken& stop) {
    const absl::StatusOr<search::Suggestion> suggestion = designer.Suggest(study.history(), study.asks(), stop);
    return suggestion.ok() ? Print(*suggestion) : suggestion.status().ToString();
  }

  // In a study with a resource, half of the trials that have a target below all of it reach it and pause. False: this
  // one does not.
  bool Pauses(base::RandomStream& random, FakeStudy* study, int64_t number) const {
    const study::HistoryTrial trial = study->history().trials()[static_cast<size_t>(number - 1)];
    if (!spec().resource || trial.resource == 0 || trial.resource >= spec().resource->max) return false;
    if (random.UniformInt(2) == 0) return false;
    study->Report(number, trial.resource, random.UniformInt(8) == 0 ? std::nan("") : Loss(trial.parameters));
    study->Pause(number);
    return true;
  }

  // Any ending, mostly good ones.
  Outcome RandomOutcome(base::RandomStream& random, const study::Parameters& parameters) const {
    const double loss = Loss(parameters);
    switch (random.UniformInt(16)) {
      case 0:
        return Failed(study::FailureKind::kConfig);
      case 1:
        return Failed(study::FailureKind::kInfra);
      case 2:
        return Cancelled();
      case 3:
        return Pruned(loss + 1.0);
      case 4:
        return Pruned(std::nullopt);
      case 5: {
        Outcome outcome = Complete(loss);
        if (spec().space.differentiable().empty()) return outcome;
        outcome.gradient = study::Gradient();
        for (size_t i = 0; i < spec().space.differentiable().size(); ++i) {
          outcome.gradient->values.push_back(random.Normal());
        }
        return outcome;
      }
      default:
        return Complete(loss);
    }
  }

  void CheckExhausted(const study::History& history) const {
    if (!GetParam().settings) {
      const bool full = static_cast<int64_t>(history.trials().size()) >= spec().budget.max_trials;
      EXPECT_TRUE(GetParam().ends || (spec().resource && full)) << "exhausted, yet settings without end are left";
      return;
    }
    std::set<std::string> tried;
    for (const study::HistoryTrial& trial : history.trials()) {
      if (encoding_.IsLegal(trial.parameters)) tried.insert(study::FormatParameters(trial.parameters));
    }
    EXPECT_EQ(static_cast<int64_t>(tried.size()), *GetParam().settings) << "exhausted, yet settings are left";
  }

 private:
  const study::Encoding encoding_{GetParam().spec.space, GetParam().spec.constraints};
};

TEST_P(DesignerContract, TheStudyIsValid) {
  EXPECT_TRUE(search::Validate(spec()).ok()) << search::Validate(spec());
}

TEST_P(DesignerContract, TheSameSeedGivesTheSameAnswersAndAnotherSeedOthers) {
  const auto run = [&](uint64_t seed) {
    study::StudySpec seeded = spec();
    seeded.seed = seed;
    const std::unique_ptr<search::Designer> designer = search::CreateDesigner(seeded);
    FakeStudy study;
    std::string text;
    while (study.asks() < 8 && Ask(*designer, &study)) {
      const study::HistoryTrial& trial = study.history().trials().back();
      text += study::FormatParameters(trial.parameters) + "\n";
      study.Finish(trial.number, Complete(Loss(trial.parameters)));
    }
    return text;
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_EQ(run(1) != run(2), GetParam().seeded);
}

// Four workers, suggestions that wait for the store, results of every kind in random order, settings put in by a user.
// At random moments the process dies: a new designer with the history rebuilt from the log continues bit by bit like
// the old.
TEST_P(DesignerContract, ARestartChangesNothing) {
  constexpr uint64_t kAsks = 40;
  constexpr size_t kWorkers = 4;
  const uint64_t seed = 77;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  base::RandomStream random(seed, "test/restart");
  struct Recorded {
    size_t events;
    uint64_t ask;
    std::string answer;
  };
  std::vector<Recorded> recorded;
  const std::unique_ptr<search::Designer> designer = NewDesigner();
  FakeStudy study;
  size_t waiting = 0;
  while (study.asks() < kAsks) {
    const std::vector<int64_t>& open = study.open();
    const uint64_t what = random.UniformInt(10);
    if (what == 0 && open.size() < 2 * kWorkers) {
      study.Enqueue(spec().space.Default());
    } else if (waiting > 0 && what < 4) {
      study.Store(random.UniformInt(waiting--));
    } else if (open.size() + waiting < kWorkers) {
      const std::optional<search::Suggestion> suggestion = Suggest(*designer, study.history(), study.asks());
      if (!suggestion) return;
      recorded.push_back({study.events(), study.asks(), Print(*suggestion)});
      if (random.UniformInt(5) == 0) {
        const std::unique_ptr<search::Designer> restarted = NewDesigner();
        const auto again = Suggest(*restarted, study.Replay(study.events()), study.asks());
        ASSERT_TRUE(again.has_value());
        ASSERT_EQ(Print(*again), recorded.back().answer) << "ask " << study.asks();
      }
      study.Suggested(*suggestion);
      ++waiting;
    } else if (!open.empty()) {
      const int64_t number = open[random.UniformInt(open.size())];
      if (Pauses(random, &study, number)) continue;
      study.Finish(number, RandomOutcome(random, study.history().trials()[static_cast<size_t>(number - 1)].parameters));
    }
  }
  // Nothing the object has learnt since may show when it is asked again about the past.
  for (size_t k = 2; k < recorded.size(); k += recorded.size() / 4 + 1) {
    const auto again = Suggest(*designer, study.Replay(recorded[k].events), recorded[k].ask);
    ASSERT_TRUE(again.has_value());
    ASSERT_EQ(Print(*again), recorded[k].answer) << "ask " << recorded[k].ask;
  }
}

// An ask that is stopped at any of its looks says so at once, and the same object then answers as one that never was:
// whether it had asked before, and so has something in its caches, or not.
TEST_P(DesignerContract, AStoppedAskMayBeMadeAgain) {
  constexpr uint64_t kAsks = 16;
  const uint64_t seed = 78;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  base::RandomStream random(seed, "test/stop");
  const std::unique_ptr<search::Designer> first = NewDesigner();
  FakeStudy study;
  size_t early = 0;  // Events before an earlier ask.
  uint64_t early_ask = 0;
  while (study.asks() < kAsks) {
    if (study.asks() == kAsks / 2) {
      early = study.events();
      early_ask = study.asks();
    }
    if (!Ask(*first, &study)) break;
    const std::vector<int64_t> open = study.open();
    const int64_t number = open[random.UniformInt(open.size())];
    if (Pauses(random, &study, number)) continue;
    study.Finish(number, RandomOutcome(random, study.history().trials()[static_cast<size_t>(number - 1)].parameters));
  }
  const study::History earlier = study.Replay(early);
  for (const bool warm : {false, true}) {
    const auto designer = [&] {
      std::unique_ptr<search::Designer> made = NewDesigner();
      if (warm) Suggest(*made, earlier, early_ask);
      return made;
    };
    const std::string expected = Answer(*designer(), study, base::StopToken());
    int64_t looks = 0;
    {
      const std::unique_ptr<search::Designer> counted = designer();
      const luthier::testing::LookMeter meter([] {});
      EXPECT_EQ(Answer(*counted, study, base::StopSource().token()), expected);
      looks = meter.looks();
    }
    if (looks == 0) continue;  // It does nothing that may take long.
    for (const int64_t at : {int64_t{1}, (looks + 1) / 2, looks,
                             1 + static_cast<int64_t>(random.UniformInt(static_cast<uint64_t>(looks)))}) {
      SCOPED_TRACE(::testing::Message() << "stopped at look " << at << " of " << looks << (warm ? ", warm" : ", cold"));
      const std::unique_ptr<search::Designer> stopped = designer();
      {
        const base::StopSource source;
        luthier::testing::LookMeter meter([&] { source.RequestStop(); }, at);
        const absl::StatusOr<search::Suggestion> none = stopped->Suggest(study.history(), study.asks(), source.token());
        EXPECT_EQ(none.status(), base::StoppedError());
        EXPECT_EQ(meter.looks(), at) << "it went on";
      }
      EXPECT_EQ(Answer(*stopped, study, base::StopToken()), expected);
    }
  }
}

TEST_P(DesignerContract, AlgorithmsWithoutHistoryDoNotLookAtIt) {
  if (search::UsesHistory(spec())) return;
  const std::unique_ptr<search::Designer> designer = NewDesigner();
  FakeStudy study;
  for (int i = 0; i < 8 && Ask(*designer, &study); ++i) {
    study.Enqueue(spec().space.Default());
    study.Finish(study.open().front(), Complete(i));
  }
  for (uint64_t ask = 0; ask < study.asks(); ++ask) {
    const auto blind = Suggest(*designer, study::History(), ask);
    const auto seeing = Suggest(*designer, study.history(), ask);
    ASSERT_TRUE(blind && seeing);
    EXPECT_EQ(Print(*blind), Print(*seeing));
  }
}

TEST_P(DesignerContract, SurvivesFailuresOnly) {
  RunAndAskOnce(12, [](int, double) { return Failed(study::FailureKind::kConfig); });
}

TEST_P(DesignerContract, SurvivesLostWorkersOnly) {
  RunAndAskOnce(12, [](int, double) { return Failed(study::FailureKind::kInfra); });
}

TEST_P(DesignerContract, SurvivesCancelledTrialsOnly) {
  RunAndAskOnce(12, [](int, double) { return Cancelled(); });
}

TEST_P(DesignerContract, SurvivesPrunedTrialsOnly) {
  RunAndAskOnce(12, [](int i, double loss) { return i % 2 ? Pruned(loss) : Pruned(std::nullopt); });
}

TEST_P(DesignerContract, SurvivesEqualValues) {
  RunAndAskOnce(14, [](int, double) { return Complete(0.25); });
}

TEST_P(DesignerContract, SurvivesHugeValues) {
  RunAndAskOnce(14, [](int i, double loss) { return Complete((i % 2 ? 1e300 : -1e300) * (loss + 0.1)); });
}

TEST_P(DesignerContract, SurvivesLargestDoubles) {
  RunAndAskOnce(14, [](int i, double) {
    constexpr double kLargest = std::numeric_limits<double>::max();
    return Complete(i % 2 ? kLargest : -kLargest);
  });
}

TEST_P(DesignerContract, SurvivesTinyValues) {
  RunAndAskOnce(14, [](int i, double loss) { return Complete(loss * 1e-310 * i); });
}

TEST_P(DesignerContract, SurvivesOneOutlier) {
  RunAndAskOnce(14, [](int i, double loss) { return Complete(i == 3 ? 1e300 : loss); });
}

// COMPLETE values are finite always; the last value of a PRUNED trial need not be.
TEST_P(DesignerContract, SurvivesValuesThatAreNoNumbers) {
  const std::unique_ptr<search::Designer> designer = NewDesigner();
  FakeStudy study;
  for (int i = 0; i < 12; ++i) {
    if (!Ask(*designer, &study)) return;
    const study::HistoryTrial& trial = study.history().trials().back();
    const double inf = std::numeric_limits<double>::infinity();
    const double values[] = {std::nan(""), inf, -inf, Loss(trial.parameters)};
    study.Finish(trial.number, Pruned(values[i % 4]));
  }
}

TEST_P(DesignerContract, SurvivesAHundredOpenTrials) {
  const std::unique_ptr<search::Designer> designer = NewDesigner();
  FakeStudy study;
  for (int i = 0; i < 4 && Ask(*designer, &study); ++i) {
    study.Finish(study.open().back(), Complete(Loss(study.history().trials().back().parameters)));
  }
  base::RandomStream random(5, "test/pending");
  const study::Encoding encoding(spec().space);
  for (int i = 0; i < 100; ++i) study.Enqueue(encoding.Sample(random));
  for (int i = 0; i < 3; ++i) {
    if (!Ask(*designer, &study)) return;
  }
}

TEST_P(DesignerContract, SurvivesDuplicatePointsWithDifferentValues) {
  const std::unique_ptr<search::Designer> designer = NewDesigner();
  FakeStudy study;
  for (int i = 0; i < 20; ++i) study.Finish(study.Enqueue(spec().space.Default()), Complete(i % 3));
  for (int i = 0; i < 4; ++i) {
    if (!Ask(*designer, &study)) return;
    study.Finish(study.open().back(), Complete(Loss(study.history().trials().back().parameters)));
  }
}

TEST_P(DesignerContract, SettingsOfUsersCountAndDoNotShiftAsks) {
  const std::unique_ptr<search::Designer> designer = NewDesigner();
  FakeStudy study;
  base::RandomStream random(6, "test/users");
  const study::Encoding encoding(spec().space);
  for (int i = 0; i < 6; ++i) {
    const int64_t number = study.Enqueue(encoding.Sample(random));
    if (i % 2 == 0) study.Finish(number, Complete(i));
    if (!Ask(*designer, &study)) return;
  }
  EXPECT_EQ(study.asks(), 6u);
}

TEST_P(DesignerContract, TheSpaceIsExhaustedOnlyWhenEverythingWasTried) {
  if (!GetParam().settings) return;
  const std::unique_ptr<search::Designer> designer = NewDesigner();
  FakeStudy study;
  for (int64_t i = 0; i < *GetParam().settings + 3; ++i) {
    if (!Ask(*designer, &study)) return;
    study.Finish(study.open().back(), Complete(Loss(study.history().trials().back().parameters)));
  }
}

}  // namespace luthier::contract

#endif  // LUTHIER_TESTS_CONTRACT_DESIGNER_CONTRACT_H_
