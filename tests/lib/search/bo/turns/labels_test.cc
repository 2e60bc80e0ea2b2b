#include "lib/search/bo/turns/labels.h"

#include <cmath>
#include <map>
#include <string>

#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/search/bo/model/observations.h"
#include "lib/search/bo/turns/label_detail.h"
#include "tests/lib/search/bo/bo_testing.h"

namespace luthier::search {
namespace {

using study::Bool;
using study::Parameters;

study::SearchSpace Kernels() {
  return Space({Categorical("kernel", {"linear", "radial", "sigmoid"}), Float("c", 0, 1), Bool("shrink"),
                When("kernel", {"radial", "sigmoid"}, Float("gamma", 0, 1)),
                When("kernel", {"sigmoid"}, Float("shift", 0, 1))});
}

study::StudySpec SpecOf(study::SearchSpace space, uint64_t seed, int32_t rules = study::BoOptions::kNewestRules) {
  study::BoOptions options;
  options.rules = rules;
  study::StudySpec spec = BoSpec(std::move(space), seed, options);
  spec.budget.max_trials = 60;
  return spec;
}

// Guessing everywhere, but for a wide valley of "linear" and a narrow, deeper one of "radial".
double Narrow(const Parameters& p) {
  const double c = Number(p, "c");
  const std::string& kernel = std::get<std::string>(p.at("kernel"));
  double depth = 0.0, least = 0.3;
  if (kernel == "linear") depth = std::exp(-8.0 * std::pow(c - 0.4, 2));
  if (kernel == "radial") {
    depth = std::exp(-60.0 * std::pow(c - 0.75, 2) - 60.0 * std::pow(Number(p, "gamma") - 0.2, 2));
    least = 0.0;
  }
  return least + (1.0 - least) * (1.0 - depth);
}

// A label of nothing but bad results, as far as any number of trials can tell.
double Known(const Parameters& p) {
  const std::string& kernel = std::get<std::string>(p.at("kernel"));
  return std::pow(Number(p, "c") - 0.3, 2) + (kernel == "linear" ? 0.0 : kernel == "radial" ? 5.0 : 8.0);
}

std::map<std::string, int> Counts(const study::History& history, const std::string& name) {
  std::map<std::string, int> counts;
  for (const study::HistoryTrial& trial : history.trials()) {
    const auto at = trial.parameters.find(name);
    if (at != trial.parameters.end()) ++counts[study::FormatValue(at->second)];
  }
  return counts;
}

// The contract: whatever the results are, no label stays below four trials.
TEST(Labels, EveryOneKeepsAFloorOfTrials) {
  const auto lottery = [](const Parameters& p) {
    base::RandomStream random(study::HashOf(p), "test/labels");
    return (std::get<std::string>(p.at("kernel")) == "linear" ? 0.0 : 100.0) + random.Uniform();
  };
  for (uint64_t seed = 0; seed < 3; ++seed) {
    for (const auto& f : {Narrow, Known, +lottery}) {
      MemoryStudy study(SpecOf(Kernels(), seed));
      for (int i = 0; i < 40; ++i) {
        const Suggestion s = study.Ask();
        study.Complete(study.newest(), f(s.parameters));
      }
      for (const auto& [name, labels] : {std::pair{"kernel", 3u}, std::pair{"shrink", 2u}}) {
        const std::map<std::string, int> counts = Counts(study.history(), name);
        EXPECT_EQ(counts.size(), labels);
        for (const auto& [label, count] : counts) EXPECT_GE(count, 4) << label << " of " << name << ", seed " << seed;
      }
    }
  }
}

// "radial" has two numbers, so that its floor is nine trials.
TEST(Labels, AnUnluckyOneIsTriedAgain) {
  const auto trials = [](uint64_t seed) {
    MemoryStudy study(SpecOf(Kernels(), seed));
    for (int i = 0; i < 60; ++i) {
      const Suggestion s = study.Ask();
      study.Complete(study.newest(), Narrow(s.parameters));
    }
    return Counts(study.history(), "kernel")["radial"];
  };
  for (uint64_t seed = 0; seed < 4; ++seed) EXPECT_GE(trials(seed), 9) << seed;
}

// A label that is never solved, and two whose results say nothing: these were mostly left where the design left them.
TEST(Labels, HaveMoreTrialsThanUnderTheRulesBefore) {
  const auto f = [](const Parameters& p) {
    base::RandomStream random(study::HashOf(p), "test/labels");
    return std::get<std::string>(p.at("kernel")) == "linear" ? 0.3 + 0.1 * random.Uniform() : 1.0;
  };
  const auto others = [&](int32_t rules) {
    int count = 0;
    for (uint64_t seed = 0; seed < 3; ++seed) {
      MemoryStudy study(SpecOf(Kernels(), seed, rules));
      for (int i = 0; i < 30; ++i) {
        const Suggestion s = study.Ask();
        study.Complete(study.newest(), f(s.parameters));
      }
      std::map<std::string, int> counts = Counts(study.history(), "kernel");
      count += counts["radial"] + counts["sigmoid"];
    }
    return count;
  };
  EXPECT_GE(others(study::BoOptions::kNewestRules), others(2) + 3);
}

// A rule that stops each trial of a label says only that it is slow: the label has more of them, not fewer.
TEST(Labels, StoppedTrialsCountHalf) {
  MemoryStudy study(SpecOf(Kernels(), 4));
  for (int i = 0; i < 50; ++i) {
    const Suggestion s = study.Ask();
    if (std::get<std::string>(s.parameters.at("kernel")) == "linear") {
      study.Complete(study.newest(), Narrow(s.parameters));
    } else {
      study.Prune(study.newest(), 3.0);
    }
  }
  const std::map<std::string, int> counts = Counts(study.history(), "kernel");
  EXPECT_GE(counts.at("radial"), 8);
  EXPECT_GE(counts.at("sigmoid"), 8);
}

// The floors of "radial" and "sigmoid" are 9 and 12 trials, of which a model that knows them to be bad makes 4 each.
TEST(Labels, WhatIsKnownToBeBadIsLeftAlone) {
  MemoryStudy study(SpecOf(Kernels(), 2));
  int turns = 0;
  for (int i = 0; i < 60; ++i) {
    const Suggestion s = study.Ask();
    turns += s.origin == "label" ? 1 : 0;
    study.Complete(study.newest(), Known(s.parameters));
  }
  EXPECT_LE(turns, 10);
}

TEST(Labels, ASuggestionSaysWhichParameterAndHowManyTrialsItHad) {
  MemoryStudy study(SpecOf(Kernels(), 5));
  int asks = 0, after_design = 0;
  for (int i = 0; i < 45; ++i) {
    const std::map<std::string, std::map<std::string, int>> before = {{"kernel", Counts(study.history(), "kernel")},
                                                                      {"shrink", Counts(study.history(), "shrink")}};
    const Suggestion s = study.Ask();
    after_design += s.origin == "init" ? 0 : 1;
    if (s.origin == "label") {
      ++asks;
      int named = 0;
      for (const auto& [name, counts] : before) {
        const auto detail = s.details.find(kLabelDetail + name);
        if (detail == s.details.end()) continue;
        ++named;
        const auto known = counts.find(study::FormatValue(s.parameters.at(name)));
        EXPECT_EQ(detail->second, known == counts.end() ? 0 : known->second);
      }
      EXPECT_EQ(named, 1);
      EXPECT_LE(3 * asks, after_design) << "at most one ask in three";
    }
    study.Complete(study.newest(), Narrow(s.parameters));
  }
  EXPECT_GE(asks, 3);
}

TEST(Labels, ARestartChangesNoBit) {
  MemoryStudy one(SpecOf(Kernels(), 7)), other(SpecOf(Kernels(), 7));
  for (int i = 0; i < 40; ++i) {
    other.Restart();
    const Suggestion a = one.Ask(), b = other.Ask();
    ASSERT_EQ(a.parameters, b.parameters) << i;
    ASSERT_EQ(a.designer_state, b.designer_state) << i;
    ASSERT_EQ(a.details, b.details) << i;
    one.Complete(one.newest(), Narrow(a.parameters));
    other.Complete(other.newest(), Narrow(b.parameters));
  }
}

// Older studies go on as they began, and so do those without labels.
TEST(Labels, OthersGiveTheSameBits) {
  const auto bowl = [](const Parameters& p) {
    return std::pow(Number(p, "x") - 0.3, 2) + std::cos(9 * Number(p, "y"));
  };
  MemoryStudy newest(SpecOf(Space({Float("x", 0, 1), Float("y", 0, 1)}), 3)),
      before(SpecOf(Space({Float("x", 0, 1), Float("y", 0, 1)}), 3, 2));
  for (int i = 0; i < 30; ++i) {
    const Suggestion a = newest.Ask(), b = before.Ask();
    ASSERT_EQ(a.parameters, b.parameters) << i;
    ASSERT_EQ(a.designer_state, b.designer_state) << i;
    newest.Complete(newest.newest(), bowl(a.parameters));
    before.Complete(before.newest(), bowl(b.parameters));
  }
  MemoryStudy old(SpecOf(Kernels(), 3, 2));
  for (int i = 0; i < 30; ++i) {
    const Suggestion s = old.Ask();
    EXPECT_NE(s.origin, "label");
    old.Complete(old.newest(), Narrow(s.parameters));
  }
}

TEST(LiftPruned, RaisesStoppedTrialsToTheLowerQuartileAndNoFurther) {
  study::History history;
  const double values[] = {1, 2, 3, 4, 5, 9, 4.5};  // Losses; the last two are of stopped trials.
  for (int i = 0; i < 7; ++i) {
    study::HistoryTrial trial;
    trial.number = i + 1;
    trial.ask_index = static_cast<uint64_t>(i);
    trial.parameters = {{"x", 0.1 * i}};
    history.AddStored(trial);
    history.Finish(i + 1, i < 5 ? study::TrialState::kComplete : study::TrialState::kPruned, values[i], std::nullopt,
                   std::nullopt);
  }
  const study::Encoding encoding(Space({Float("x", 0, 1)}));
  absl::StatusOr<Observations> data =
      Collect(history, encoding, study::Goal::kMinimize, nullptr, false, base::StopToken());
  ASSERT_TRUE(data.ok());
  LiftPruned(history, &*data);
  const double expected[] = {-1, -2, -3, -4, -5, -4, -4};
  for (int i = 0; i < 7; ++i) EXPECT_EQ(data->scores(i), expected[i]) << i;
}

}  // namespace
}  // namespace luthier::search
