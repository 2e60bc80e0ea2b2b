#include "lib/search/auto.h"

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lib/search/bo/bo_testing.h"

namespace luthier::search {
namespace {

using study::AutoOptions;
using study::BoGradients;
using study::Bool;
using study::BoOptions;
using study::BoPreset;
using study::Ordinal;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

AutoChoice Choose(study::SearchSpace space, const AutoOptions& options = {}) {
  return ChooseAlgorithm(BoSpec(std::move(space)), options);
}

const BoOptions& Bo(const AutoChoice& choice) {
  return std::get<BoOptions>(choice.algorithm);
}

TEST(Auto, ContinuousSpacesGetTheFirstOrderPresetAsItIs) {
  const AutoChoice choice = Choose(Space({Float("a", 0, 1), Float("b", 1e-3, 1, study::Scale::kLog), Int("c", 1, 9)}));
  EXPECT_EQ(Bo(choice), study::BoDefaults(BoPreset::kFobo));
  EXPECT_THAT(choice.reasons, Contains(HasSubstr("3 tuned parameters, 100 trials: a Gaussian process")));
  EXPECT_THAT(choice.reasons, Contains(HasSubstr("gradients")));
}

TEST(Auto, AResourceIsTrainedInParts) {
  study::StudySpec spec = BoSpec(Space({Float("a", 0, 1)}));
  spec.resource = study::Resource{1, 27, "epochs"};
  const auto chosen = [&](const study::StudySpec& s) { return ChooseAlgorithm(s, AutoOptions()); };
  study::CommandObjective command;
  command.argv = {"true"};
  spec.objective = command;
  const AutoChoice programs = chosen(spec);
  ASSERT_TRUE(std::holds_alternative<study::AshaOptions>(programs.algorithm));
  EXPECT_EQ(std::get<study::AshaOptions>(programs.algorithm).variant, study::AshaVariant::kStop);
  EXPECT_TRUE(std::holds_alternative<BoOptions>(std::get<study::AshaOptions>(programs.algorithm).sampler));
  EXPECT_THAT(programs.reasons[0], HasSubstr("the study has a resource"));
  study::BuiltinObjective builtin;
  builtin.model = "logistic";
  spec.objective = builtin;
  EXPECT_EQ(std::get<study::AshaOptions>(chosen(spec).algorithm).variant, study::AshaVariant::kPromote);

  const auto plain = [&](const std::function<void(study::StudySpec*)>& change) {
    study::StudySpec other = spec;
    change(&other);
    const AutoChoice choice = chosen(other);
    EXPECT_TRUE(std::holds_alternative<BoOptions>(choice.algorithm));
    return choice.reasons.at(1);
  };
  EXPECT_THAT(plain([](auto* s) { s->reproducible = true; }), HasSubstr("reproducible"));
  EXPECT_THAT(plain([](auto* s) { s->stopping = study::MedianStopping(); }), HasSubstr("stopping rule"));
  EXPECT_THAT(plain([](auto* s) { s->resource->max = 2; }), HasSubstr("no rung between"));
  EXPECT_THAT(plain([](auto* s) { s->budget.max_trials = 2; }), HasSubstr("so few trials"));
  command.stdout_patterns = {{"value", "v=(.*)"}};
  EXPECT_THAT(plain([&](auto* s) { s->objective = command; }), HasSubstr("no step"));
  EXPECT_TRUE(std::holds_alternative<BoOptions>(ChooseAlgorithm(spec, AutoOptions{.rules = 0}).algorithm))
      << "a study from before stays as it was";
}

TEST(Auto, WithoutAPlainFloatThereAreNoGradients) {
  const AutoChoice choice =
      Choose(Space({Int("a", 0, 9), Float("b", 0, 1, study::Scale::kLinear, 0.1), Int("c", 0, 9)}));
  EXPECT_EQ(Bo(choice).gradients, BoGradients::kOff);
  EXPECT_THAT(choice.reasons, Not(Contains(HasSubstr("gradients"))));
}

TEST(Auto, NoiseIsBelievedOrReadFromTheObjective) {
  EXPECT_FALSE(Bo(Choose(Space({Float("a", 0, 1)}))).noisy);
  const AutoChoice said = Choose(Space({Float("a", 0, 1)}), AutoOptions{.noisy = true});
  study::BoOptions noisy = study::BoDefaults(BoPreset::kFobo);
  noisy.noisy = true;
  EXPECT_EQ(Bo(said), noisy);
  EXPECT_THAT(said.reasons, Contains(HasSubstr("said to be noisy")));

  study::StudySpec spec = BoSpec(Space({Float("x", 0, 1)}));
  study::BuiltinObjective objective;
  objective.model = "function:branin";
  objective.options["noise"] = 0.0;
  spec.objective = objective;
  EXPECT_FALSE(Bo(ChooseAlgorithm(spec, {})).noisy);
  objective.options["noise"] = 0.5;
  spec.objective = objective;
  const AutoChoice read = ChooseAlgorithm(spec, {});
  EXPECT_TRUE(Bo(read).noisy);
  EXPECT_THAT(read.reasons, Contains(HasSubstr("the objective adds noise")));
}

TEST(Auto, SaysWhatLabelsBudgetAndWorkersMean) {
  const auto reasons = [](int64_t trials, int64_t parallel, study::SearchSpace space) {
    study::StudySpec spec = BoSpec(std::move(space));
    spec.budget.max_trials = trials;
    spec.budget.max_parallel = parallel;
    const AutoChoice choice = ChooseAlgorithm(spec, {});
    EXPECT_EQ(Bo(choice), study::BoDefaults(BoPreset::kFobo));  // None of these changes the choice.
    return choice.reasons;
  };
  const auto numbers = [] { return Space({Float("a", 0, 1), Float("b", 0, 1)}); };
  EXPECT_THAT(reasons(4, 0, numbers()), Contains(HasSubstr("so few trials are all initial design")));
  const std::vector<std::string> usual = reasons(5, 15, numbers());
  EXPECT_THAT(usual, Not(Contains(HasSubstr("so few trials"))));
  EXPECT_THAT(usual, Not(Contains(HasSubstr("at once"))));
  EXPECT_THAT(usual, Not(Contains(HasSubstr("without order"))));
  EXPECT_THAT(reasons(1501, 64, numbers()), Contains(HasSubstr("beyond 1500 results")));
  EXPECT_THAT(reasons(1501, 64, numbers()), Contains(HasSubstr("64 at once")));
  EXPECT_THAT(reasons(100, 0, Space({Float("a", 0, 1), Categorical("c", {"x", "y"})})),
              Contains(HasSubstr("1 parameter without order: a local step")));
}

TEST(Auto, MoreLabelsThanAModelHoldsAreSearchedAtRandom) {
  std::vector<study::ParameterSpec> parameters;
  for (int j = 0; j < 6; ++j) parameters.push_back(Categorical(absl::StrCat("c", j), study::Labels(1000)));
  const AutoChoice choice = Choose(Space(std::move(parameters)));
  EXPECT_TRUE(std::holds_alternative<study::RandomOptions>(choice.algorithm));
  EXPECT_EQ(choice.reasons.size(), 1u);
}

TEST(Auto, AStudyByAutoIsTheStudyOfItsChoice) {
  const TestFunction branin = SixFunctions().front();
  const AutoOptions without_members{.rules = 3};
  study::StudySpec spec = FunctionSpec(branin, 7, without_members);
  MemoryStudy automatic(spec);
  spec.algorithm = ChooseAlgorithm(spec, without_members).algorithm;
  MemoryStudy named(spec);
  for (int i = 0; i < 25; ++i) {
    const Suggestion a = automatic.Ask(), b = named.Ask();
    ASSERT_EQ(a.parameters, b.parameters) << i;
    automatic.Complete(automatic.newest(), branin.f(Point(a.parameters)));
    named.Complete(named.newest(), branin.f(Point(b.parameters)));
  }
}

// Whatever the space, the choice is legal and can be explained.
TEST(Auto, EverySpaceGetsALegalChoice) {
  base::RandomStream random(11, "auto spaces");
  for (int i = 0; i < 200; ++i) {
    study::StudySpec spec = BoSpec(study::RandomSpace(random));
    const AutoChoice choice = ChooseAlgorithm(spec, AutoOptions{.noisy = random.Uniform() < 0.5});
    spec.algorithm = choice.algorithm;
    EXPECT_TRUE(Validate(spec).ok()) << Validate(spec);
    EXPECT_FALSE(choice.reasons.empty());
    for (const std::string& reason : choice.reasons) EXPECT_FALSE(reason.empty());
  }
}

}  // namespace
}  // namespace luthier::search
