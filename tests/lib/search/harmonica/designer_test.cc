#include "lib/search/harmonica/designer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "lib/base/error.h"
#include "lib/search/harmonica/restricted_space.h"
#include "lib/search/registry.h"
#include "tests/contract/fake_study.h"
#include "tests/lib/search/restart_oracle.h"
#include "tests/lib/study/builders.h"

namespace luthier::search {
namespace {

using study::Bool;
using study::Categorical;
using study::Float;
using study::HarmonicaOptions;
using study::Int;
using study::Ordinal;
using study::Parameters;
using study::When;
using ::testing::HasSubstr;

study::SearchSpace Switches(int count) {
  std::vector<study::ParameterSpec> parameters;
  for (int i = 0; i < count; ++i) parameters.push_back(Bool("b" + std::to_string(i)));
  return study::Space(parameters);
}

study::StudySpec SpecOf(const study::SearchSpace& space, const HarmonicaOptions& options, int64_t trials = 10000) {
  study::StudySpec spec;
  spec.space = space;
  spec.metric.name = "loss";
  spec.algorithm = options;
  spec.budget.max_trials = trials;
  spec.seed = 11;
  return spec;
}

// -1 for true.
double Sign(const Parameters& p, const std::string& name) {
  return std::get<bool>(p.at(name)) ? -1.0 : 1.0;
}

// 10 (x2 x8 + x15 + x46 + x38 + x3 x6) on 60 switches: least value -50.
double Reference(const Parameters& p) {
  return 10.0 * (Sign(p, "b2") * Sign(p, "b8") + Sign(p, "b15") + Sign(p, "b46") + Sign(p, "b38") +
                 Sign(p, "b3") * Sign(p, "b6"));
}

using Loss = std::function<double(const Parameters&)>;

// One worker; `asks` trials. Returns their suggestions.
std::vector<Suggestion> Play(const study::StudySpec& spec, const Loss& loss, int asks, contract::FakeStudy* study) {
  const std::unique_ptr<Designer> designer = CreateDesigner(spec);
  std::vector<Suggestion> suggestions;
  for (int i = 0; i < asks; ++i) {
    absl::StatusOr<Suggestion> suggestion = designer->Suggest(study->history(), study->asks(), base::StopToken());
    EXPECT_TRUE(suggestion.ok()) << suggestion.status();
    if (!suggestion.ok()) break;
    study->Suggested(*suggestion);
    study->Finish(study->Store(), contract::Complete(loss(suggestion->parameters)));
    suggestions.push_back(*std::move(suggestion));
  }
  return suggestions;
}

TEST(Harmonica, SolvesTheReferenceExampleInOneStage) {
  const study::StudySpec spec = SpecOf(Switches(60), {.samples = 300, .stages = 1});
  contract::FakeStudy study;
  const std::vector<Suggestion> suggestions = Play(spec, Reference, 320, &study);
  for (size_t i = 0; i < suggestions.size(); ++i) {
    EXPECT_EQ(suggestions[i].origin, i < 300 ? "stage" : "base_random");
    if (i < 300) continue;
    EXPECT_EQ(Reference(suggestions[i].parameters), -50.0);
  }
  // The stage is in the log once.
  int records = 0;
  for (const Suggestion& suggestion : suggestions) {
    records += static_cast<int>(ReadHarmonicaState(suggestion.designer_state).records.size());
    EXPECT_LT(suggestion.designer_state.size(), 1024u);
  }
  EXPECT_EQ(records, 1);
}

TEST(Harmonica, MaximizingIsMinimizingTheNegative) {
  study::StudySpec spec = SpecOf(Switches(60), {.samples = 200, .stages = 1});
  spec.metric.goal = study::Goal::kMaximize;
  contract::FakeStudy study;
  const auto suggestions = Play(spec, [](const Parameters& p) { return -Reference(p); }, 205, &study);
  EXPECT_EQ(Reference(suggestions.back().parameters), -50.0);
}

TEST(Harmonica, ALaterStageFindsWhatTheFirstHid) {
  // The second polynomial matters only inside the cube that the first one chooses.
  const auto loss = [](const Parameters& p) {
    const double first = 5.0 * Sign(p, "b0") + 4.0 * Sign(p, "b1") * Sign(p, "b2");
    const bool inside = first == -9.0;
    return first + (inside ? 2.0 * Sign(p, "b10") + 1.5 * Sign(p, "b11") * Sign(p, "b12") : 0.0);
  };
  const study::StudySpec spec = SpecOf(Switches(30), {.samples = 150, .terms = 2, .restrictions = 2});
  contract::FakeStudy study;
  const std::vector<Suggestion> suggestions = Play(spec, loss, 320, &study);
  double mean[3] = {};
  for (int i = 0; i < 150; ++i) mean[0] += loss(suggestions[static_cast<size_t>(i)].parameters) / 150;
  for (int i = 150; i < 300; ++i) mean[1] += loss(suggestions[static_cast<size_t>(i)].parameters) / 150;
  for (int i = 300; i < 320; ++i) mean[2] += loss(suggestions[static_cast<size_t>(i)].parameters) / 20;
  EXPECT_LT(mean[1], mean[0] - 5.0);
  EXPECT_EQ(mean[2], -12.5);
}

TEST(Harmonica, AClosedGateRestrictsNothingAndItsSamplesStay) {
  base::RandomStream random(4, "test/noise");
  const study::StudySpec spec = SpecOf(Switches(30), {.samples = 40});
  const HarmonicaOptions& options = std::get<HarmonicaOptions>(spec.algorithm);
  contract::FakeStudy study;
  Play(spec, [&](const Parameters&) { return random.Normal(); }, 85, &study);
  const HarmonicaPlan plan = PlanHarmonica(spec, options);
  const spectral::BitEncoding bits(spec.space, 0, spec.seed);
  HarmonicaStages stages(spec, options, plan, bits);
  ASSERT_TRUE(stages.Read(study.history(), base::StopToken()).ok());
  ASSERT_EQ(stages.stages().size(), 2u);
  EXPECT_FALSE(stages.stages()[0].believed);
  EXPECT_TRUE(stages.stages()[0].restrictions.empty());
  EXPECT_EQ(stages.stages()[1].results, 80);
  EXPECT_TRUE(stages.done());
}

TEST(Harmonica, AsksNeverWaitForAStage) {
  const study::StudySpec spec = SpecOf(Switches(20), {.samples = 30, .stages = 1, .terms = 2});
  const std::unique_ptr<Designer> designer = CreateDesigner(spec);
  contract::FakeStudy study;
  std::set<std::string> distinct;
  for (int i = 0; i < 45; ++i) {  // Nothing has finished.
    const Suggestion suggestion = *designer->Suggest(study.history(), study.asks(), base::StopToken());
    EXPECT_EQ(suggestion.origin, "stage");
    EXPECT_EQ(suggestion.details.at("sample"), i);
    distinct.insert(study::FormatParameters(suggestion.parameters));
    study.Suggested(suggestion);
    study.Store();
  }
  EXPECT_GT(distinct.size(), 40u);
  // The first 30 results close it, whichever they are.
  for (int64_t number = 45; number > 15; --number) {
    const auto& trial = study.history().trials()[static_cast<size_t>(number - 1)];
    study.Finish(number, contract::Complete(3 * Sign(trial.parameters, "b4") + Sign(trial.parameters, "b7")));
  }
  const Suggestion next = *designer->Suggest(study.history(), study.asks(), base::StopToken());
  EXPECT_EQ(next.origin, "base_random");
  EXPECT_TRUE(std::get<bool>(next.parameters.at("b4")) && std::get<bool>(next.parameters.at("b7")));
}

TEST(Harmonica, LostTrialsSayNothingAndFailedOnesAreBad) {
  const study::StudySpec spec = SpecOf(Switches(20), {.samples = 60, .stages = 1, .terms = 2});
  const std::unique_ptr<Designer> designer = CreateDesigner(spec);
  contract::FakeStudy study;
  int results = 0;
  for (int i = 0; results < 60; ++i) {
    const Suggestion s = *designer->Suggest(study.history(), study.asks(), base::StopToken());
    ASSERT_EQ(s.origin, "stage") << i;
    study.Suggested(s);
    const int64_t number = study.Store();
    if (i % 10 == 0) {
      study.Finish(number, i % 20 ? contract::Cancelled() : contract::Failed(study::FailureKind::kInfra));
      continue;
    }
    ++results;
    if (std::get<bool>(s.parameters.at("b3"))) {
      study.Finish(number, contract::Failed(study::FailureKind::kConfig));
    } else {
      study.Finish(number, contract::Complete(Sign(s.parameters, "b5")));
    }
  }
  for (int i = 0; i < 5; ++i) {
    const Suggestion s = *designer->Suggest(study.history(), study.asks(), base::StopToken());
    EXPECT_EQ(s.origin, "base_random");
    EXPECT_FALSE(std::get<bool>(s.parameters.at("b3")));
    study.Suggested(s);
    study.Store();
  }
}

TEST(Harmonica, OneValueForAllSettingsRestrictsNothing) {
  const study::StudySpec spec = SpecOf(Switches(16), {.samples = 20, .stages = 1});
  contract::FakeStudy study;
  const auto suggestions = Play(spec, [](const Parameters&) { return 0.5; }, 30, &study);
  EXPECT_EQ(suggestions.back().origin, "base_random");
  std::set<std::string> distinct;
  for (int i = 20; i < 30; ++i)
    distinct.insert(study::FormatParameters(suggestions[static_cast<size_t>(i)].parameters));
  EXPECT_EQ(distinct.size(), 10u);
}

study::SearchSpace MixedSpace() {
  return study::Space({Float("lr", 1e-5, 1, study::Scale::kLog), Bool("norm"),
                       Categorical("opt", {"sgd", "adam", "lion"}), Int("layers", 1, 12),
                       When("opt", {std::string("sgd")}, Float("momentum", 0, 0.99)),
                       Int("units", 1, 4096, 1, study::Scale::kLog), Ordinal("size", {"xs", "s", "m", "l", "xl"}),
                       Bool("skip"), Float("drop", 0, 0.5), When("norm", {true}, Bool("affine"))});
}

double MixedLoss(const Parameters& p) {
  double loss = std::abs(std::log10(std::get<double>(p.at("lr"))) + 3.0);
  loss += std::get<bool>(p.at("norm")) ? 0.0 : 2.0;
  loss += std::get<std::string>(p.at("opt")) == "adam" ? 0.0 : 1.5;
  loss += 0.1 * std::abs(std::get<double>(p.at("layers")) - 9.0);
  return loss + std::get<double>(p.at("drop"));
}

// Restarts before every ask, with results that come out of order, through two stages and into the base.
TEST(Harmonica, ARestartAtAnyEventChangesNothing) {
  for (const bool bo : {false, true}) {
    HarmonicaOptions options{.samples = 45, .degree = 1, .terms = 3};
    if (bo) options.base = study::BoOptions{.initial_points = 2};
    const study::StudySpec spec = SpecOf(MixedSpace(), options);
    RestartRun run;
    run.asks = bo ? 114 : 140;
    run.enqueued = 3;
    const Ending ending = [](base::RandomStream& random, const Parameters& p) {
      const double u = random.Uniform();
      if (u < 0.05) return contract::Failed(study::FailureKind::kConfig);
      if (u < 0.1) return contract::Failed(study::FailureKind::kInfra);
      if (u < 0.15) return contract::Pruned(MixedLoss(p));
      return contract::Complete(MixedLoss(p));
    };
    run.ending = ending;
    run.enqueued_ending = ending;
    const std::vector<Suggestion> answers = ExpectRestartsChangeNothing(spec, run);
    EXPECT_THAT(answers.back().origin, HasSubstr("base_"));
    EXPECT_EQ(answers.back().details.at("stages"), 2.0);
    EXPECT_FALSE(ReadHarmonicaState(answers.back().designer_state).selection.empty()) << "a gate should have opened";
  }
}

TEST(Harmonica, ImprovesAMixedSpaceStageByStage) {
  const study::StudySpec spec = SpecOf(MixedSpace(), {.samples = 100, .base = study::BoOptions{}});
  contract::FakeStudy study;
  const std::vector<Suggestion> suggestions = Play(spec, MixedLoss, 230, &study);
  const auto mean = [&](size_t from, size_t to) {
    double sum = 0.0;
    for (size_t i = from; i < to; ++i) sum += MixedLoss(suggestions[i].parameters) / static_cast<double>(to - from);
    return sum;
  };
  EXPECT_LT(mean(100, 200), mean(0, 100) - 1.0);
  EXPECT_LT(mean(200, 230), mean(100, 200));
}

TEST(Harmonica, StatesReadBack) {
  HarmonicaStage stage;
  stage.polynomial = {0.1, {{{1, 5, 9}, -1.0 / 3.0}, {{0}, 1e-300}}};
  stage.believed = true;
  stage.results = 300;
  stage.variance = std::numeric_limits<double>::max();
  stage.cv_r2 = -0.25;
  stage.restrictions = {{5, -1.0 / 7.0}, {0, 2.0}};
  const HarmonicaState state{'b', 0, 17, {3, 0}, {{0, stage}}, "a\nb -- c"};
  const HarmonicaState back = ReadHarmonicaState(EncodeState(kHarmonicaStateKind, state));
  EXPECT_EQ(back.kind, 'b');
  EXPECT_EQ(back.index, 17);
  EXPECT_EQ(back.selection, state.selection);
  ASSERT_EQ(back.records.size(), 1u);
  EXPECT_EQ(back.records[0].number, 0);
  EXPECT_EQ(back.records[0].stage, stage);
  EXPECT_EQ(back.base, state.base);
  EXPECT_EQ(ReadHarmonicaState("s 1 2").kind, 0);
}

TEST(Harmonica, TheLargestRecordFitsIntoAState) {
  HarmonicaStage stage;
  for (int k = 0; k < 32; ++k) {
    stage.polynomial.terms.push_back({{1990, 1991, 1992, 1993, 1994}, -1.0 / 3.0e300});
  }
  for (uint32_t k = 0; k < 16; ++k) stage.restrictions.push_back({UINT32_MAX - k, -1.0 / 3.0e300});
  HarmonicaState state{'s', 4, 99999, {}, {}, ""};
  for (int q = 0; q < 5; ++q) state.records.push_back({q, stage});
  EXPECT_LT(EncodeState(kHarmonicaStateKind, state).size(), 16384u);
}

TEST(RestrictedSpace, EmbedsInsideTheRestrictionsAndProjectsBack) {
  const study::SearchSpace full = MixedSpace();
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    base::RandomStream random(seed, "test/restricted");
    const spectral::BitEncoding bits(full, 0, seed);
    // Stages with random variables and restrictions.
    std::vector<HarmonicaStage> stages(2);
    std::vector<int> order;
    for (int bit = 0; bit < bits.bits(); ++bit) order.push_back(bit);
    random.Shuffle(order);
    for (int q = 0; q < 2; ++q) {
      std::vector<int> chosen(order.begin() + 5 * q, order.begin() + 5 * q + 5);
      for (const int bit : chosen) stages[static_cast<size_t>(q)].polynomial.terms.push_back({{bit}, 1.0});
      stages[static_cast<size_t>(q)].believed = true;
      for (int r = 0; r < 3; ++r) {
        stages[static_cast<size_t>(q)].restrictions.push_back({static_cast<uint32_t>(random.UniformInt(32)), 0.0});
      }
    }
    const RestrictedSpace restricted(bits, stages);
    const study::Encoding encoding(restricted.space());
    for (int i = 0; i < 40; ++i) {
      const Parameters sub = encoding.Sample(random);
      const Parameters embedded = restricted.Embed(sub);
      ASSERT_TRUE(full.Validate(embedded).ok()) << full.Validate(embedded);
      ASSERT_EQ(*full.Canonical(embedded), embedded);
      const std::vector<int> selection = restricted.SelectionOf(sub);
      // Each fixed bit can be had from the value's level.
      for (const spectral::BitGroup& group : bits.groups()) {
        const std::string& name = full.parameters()[static_cast<size_t>(group.parameter)].name;
        if (!embedded.contains(name) || name == "units") continue;  // Whole numbers round over the edge of a cell.
        const int level = bits.LevelOf(group, embedded.at(name));
        bool possible = false;
        for (int code = 0; code < (1 << group.count); ++code) {
          if (group.level_of_code[static_cast<size_t>(code)] != level) continue;
          bool agrees = true;
          for (size_t q = 0; q < 2; ++q) {
            const std::vector<int> variables = Variables(stages[q].polynomial);
            const uint32_t fixed = stages[q].restrictions[static_cast<size_t>(selection[q])].code;
            for (size_t k = 0; k < variables.size(); ++k) {
              const int place = variables[k] - group.begin;
              if (place < 0 || place >= group.count) continue;
              agrees = agrees && ((code >> (group.count - 1 - place)) & 1) == static_cast<int>((fixed >> k) & 1);
            }
          }
          possible = possible || agrees;
        }
        EXPECT_TRUE(possible) << name;
      }
      const auto back = restricted.Project(embedded, selection);
      ASSERT_TRUE(back.has_value());
      const Parameters again = restricted.Embed(*back);
      for (const auto& [name, value] : embedded) {
        const auto* number = std::get_if<double>(&value);
        if (number == nullptr || name == "units") continue;
        EXPECT_NEAR(std::get<double>(again.at(name)), *number, 1e-9 * std::abs(*number) + 1e-12) << name;
      }
      EXPECT_TRUE(restricted.Project(embedded, std::nullopt).has_value() || embedded.contains("units"));
    }
  }
}

TEST(Harmonica, RefusesHostileOptions) {
  const auto status = [](HarmonicaOptions options, int64_t trials = 1000) {
    return Validate(SpecOf(Switches(20), options, trials));
  };
  EXPECT_TRUE(status({}).ok());
  const auto field = [&](const absl::Status& bad) {
    const auto detail = base::GetErrorDetail(bad);
    return detail && !detail->violations.empty() ? detail->violations[0].field : std::string(bad.message());
  };
  EXPECT_EQ(field(status({.samples = 19})), "algorithm.harmonica.samples");
  EXPECT_EQ(field(status({.samples = -1})), "algorithm.harmonica.samples");
  EXPECT_EQ(field(status({.samples = 300}, 200)), "algorithm.harmonica.samples");
  EXPECT_EQ(field(status({.stages = 0})), "algorithm.harmonica.stages");
  EXPECT_EQ(field(status({.stages = 1 << 30})), "algorithm.harmonica.stages");
  EXPECT_EQ(field(status({.degree = 6})), "algorithm.harmonica.expert.degree");
  EXPECT_EQ(field(status({.terms = 0})), "algorithm.harmonica.expert.terms");
  EXPECT_EQ(field(status({.restrictions = 17})), "algorithm.harmonica.expert.restrictions");
  EXPECT_EQ(field(status({.float_bits = 11})), "algorithm.harmonica.expert.float_bits");
  EXPECT_EQ(field(status({.base = study::GridOptions{1, true}})), "algorithm.harmonica.base.grid.levels");
  EXPECT_EQ(field(status({.base = study::BoOptions{.initial_points = -1}})),
            "algorithm.harmonica.base.bo.initial_points");
}

TEST(Harmonica, RefusesMoreBitsAndParametersThanItCanHandle) {
  const auto message = [](const study::SearchSpace& space) {
    return std::string(Validate(SpecOf(space, {})).message());
  };
  std::vector<study::ParameterSpec> parameters;
  for (int i = 0; i < 501; ++i) {
    parameters.push_back(Categorical("c" + std::to_string(i), {"a", "b", "c", "d", "e", "f", "g", "h", "i"}));
  }
  EXPECT_THAT(message(study::Space(parameters)), HasSubstr("the space has 2004 bits; at most 2000 are allowed"));
  parameters.pop_back();
  EXPECT_EQ(message(study::Space(parameters)), "");
  EXPECT_EQ(PlanHarmonica(SpecOf(study::Space(parameters), {}), {}).degree, 1);
  parameters.resize(500 - 4);
  for (int i = 0; i < 500; ++i) parameters.push_back(Float("k" + std::to_string(i), 2, 2));
  EXPECT_THAT(message(study::Space(parameters)), HasSubstr("the space has 996 parameters; at most 995 are allowed"));
}

TEST(Harmonica, TooFewBitsLeaveTheWholeSpaceToTheBaseAndSaySo) {
  const study::StudySpec few = SpecOf(Switches(3), {.base = study::SobolOptions{}});
  const Resolution resolution = Resolve(few);
  EXPECT_TRUE(std::holds_alternative<study::SobolOptions>(resolution.algorithm));
  ASSERT_EQ(resolution.reasons.size(), 1u);
  EXPECT_THAT(resolution.reasons[0], HasSubstr("warning: no stages, sobol on the whole space instead"));
  EXPECT_THAT(resolution.reasons[0], HasSubstr("only 3 bits"));
  EXPECT_EQ(CreateDesigner(few)->Suggest(study::History(), 0, base::StopToken())->origin, "sobol");
  EXPECT_FALSE(Resolve(SpecOf(Switches(12), {.samples = 2000})).reasons.empty());
  EXPECT_TRUE(Resolve(SpecOf(Switches(20), {.samples = 300})).reasons.empty());
  EXPECT_FALSE(PlanHarmonica(SpecOf(Switches(40), {}, 15), {}).staged);
  EXPECT_EQ(PlanHarmonica(SpecOf(Switches(40), {}, 500), {}).samples, 200);
  EXPECT_EQ(PlanHarmonica(SpecOf(Switches(300), {}), {}).degree, 2);
}

TEST(Harmonica, ABaseThatHasTriedAllThatIsLeftExplores) {
  HarmonicaOptions options{.samples = 40, .stages = 1, .degree = 1, .terms = 10, .base = study::GridOptions{}};
  const study::StudySpec spec = SpecOf(Switches(13), options, 1000);
  const auto loss = [](const Parameters& p) {
    double sum = 0.0;
    for (int i = 0; i < 10; ++i) sum += Sign(p, "b" + std::to_string(i));
    return sum;
  };
  contract::FakeStudy study;
  const auto suggestions = Play(spec, loss, 120, &study);
  std::set<std::string> origins;
  for (const Suggestion& suggestion : suggestions) origins.insert(suggestion.origin);
  EXPECT_EQ(origins, (std::set<std::string>{"stage", "base_grid", "explore"}));
}

}  // namespace
}  // namespace luthier::search
