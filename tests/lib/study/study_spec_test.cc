#include "lib/study/study_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "lib/base/error.h"
#include "lib/base/random.h"
#include "tests/lib/study/builders.h"

namespace luthier::study {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

StudySpec Good() {
  StudySpec spec;
  spec.display_name = "Größe";
  spec.description = "two\nlines";
  spec.space = Space({Float("x", 0, 1)});
  spec.metric = {"loss", Goal::kMinimize};
  return spec;
}

struct BadSpec {
  const char* name;
  std::function<void(StudySpec&)> spoil;
  const char* field;
};

void PrintTo(const BadSpec& bad, std::ostream* out) {
  *out << bad.name;
}

class BadSpecTest : public ::testing::TestWithParam<BadSpec> {};

TEST_P(BadSpecTest, IsRefusedNamingTheField) {
  StudySpec spec = Good();
  GetParam().spoil(spec);
  const absl::Status status = ValidateSpec(spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const std::optional<base::ErrorDetail> detail = base::GetErrorDetail(status);
  ASSERT_TRUE(detail && detail->violations.size() == 1) << status;
  EXPECT_EQ(detail->violations[0].field, GetParam().field);
}

void Command(StudySpec& spec, const std::function<void(CommandObjective&)>& spoil) {
  CommandObjective command;
  command.argv = {"train", "--x={x}"};
  spoil(command);
  spec.objective = command;
}

void Builtin(StudySpec& spec, const std::function<void(BuiltinObjective&)>& spoil) {
  BuiltinObjective builtin;
  builtin.model = "logistic";
  spoil(builtin);
  spec.objective = builtin;
}

INSTANTIATE_TEST_SUITE_P(
    All, BadSpecTest,
    ::testing::Values(
        BadSpec{"LongDisplayName", [](StudySpec& s) { s.display_name = std::string(201, 'x'); }, "display_name"},
        BadSpec{"DisplayNameOfTwoLines", [](StudySpec& s) { s.display_name = "a\nb"; }, "display_name"},
        BadSpec{"BrokenDisplayName", [](StudySpec& s) { s.display_name = "\xff"; }, "display_name"},
        BadSpec{"LongDescription", [](StudySpec& s) { s.description = std::string(4001, 'x'); }, "description"},
        BadSpec{"EmptySpace", [](StudySpec& s) { s.space = SearchSpace(); }, "space"},
        BadSpec{"NoMetric", [](StudySpec& s) { s.metric.name = ""; }, "metric.name"},
        BadSpec{"BadMetric", [](StudySpec& s) { s.metric.name = "my loss"; }, "metric.name"},
        BadSpec{"NoTrials", [](StudySpec& s) { s.budget.max_trials = 0; }, "budget.max_trials"},
        BadSpec{"TooManyTrials", [](StudySpec& s) { s.budget.max_trials = kMaxTrials + 1; }, "budget.max_trials"},
        BadSpec{"NegativeParallel", [](StudySpec& s) { s.budget.max_parallel = -1; }, "budget.max_parallel"},
        BadSpec{"TooParallel", [](StudySpec& s) { s.budget.max_parallel = kMaxParallel + 1; }, "budget.max_parallel"},
        BadSpec{"NegativeFailed", [](StudySpec& s) { s.budget.max_failed_trials = -1; }, "budget.max_failed_trials"},
        BadSpec{"NegativePatience", [](StudySpec& s) { s.budget.patience = -1; }, "budget.patience"},
        BadSpec{"TargetNaN", [](StudySpec& s) { s.budget.target_value = std::nan(""); }, "budget.target_value"},
        BadSpec{"ShortLease", [](StudySpec& s) { s.lease.ttl = absl::Seconds(9); }, "lease.ttl"},
        BadSpec{"LongLease", [](StudySpec& s) { s.lease.ttl = absl::InfiniteDuration(); }, "lease.ttl"},
        BadSpec{"NegativeLease", [](StudySpec& s) { s.lease.ttl = -absl::InfiniteDuration(); }, "lease.ttl"},
        BadSpec{"NoAttempts", [](StudySpec& s) { s.lease.max_attempts = 0; }, "lease.max_attempts"},
        BadSpec{"ManyAttempts", [](StudySpec& s) { s.lease.max_attempts = 101; }, "lease.max_attempts"},
        BadSpec{"ReproducibleWithoutParallel", [](StudySpec& s) { s.reproducible = true; }, "reproducible"},
        BadSpec{"NoWeight", [](StudySpec& s) { s.weight = 0.0; }, "weight"},
        BadSpec{"LightWeight", [](StudySpec& s) { s.weight = 0.0099; }, "weight"},
        BadSpec{"HeavyWeight", [](StudySpec& s) { s.weight = 100.1; }, "weight"},
        BadSpec{"NoNumberForWeight", [](StudySpec& s) { s.weight = std::nan(""); }, "weight"},
        BadSpec{"EmptyLabelKey", [](StudySpec& s) { s.labels[""] = "x"; }, "labels"},
        BadSpec{"HostileLabelKey", [](StudySpec& s) { s.labels["a\nb"] = "\x01"; }, "labels"},
        BadSpec{"LongLabel", [](StudySpec& s) { s.labels["a"] = std::string(1025, 'x'); }, "labels.a"},
        BadSpec{"ManyLabels",
                [](StudySpec& s) {
                  for (int i = 0; i < 65; ++i) s.labels[absl::StrCat("k", i)] = "x";
                },
                "labels"},
        BadSpec{"NoResource", [](StudySpec& s) { s.resource = Resource{1, 0, ""}; }, "resource.max"},
        BadSpec{"HugeResource", [](StudySpec& s) { s.resource = Resource{1, kMaxResource + 1, ""}; }, "resource.max"},
        BadSpec{"LeastResourceOfNone", [](StudySpec& s) { s.resource = Resource{0, 9, ""}; }, "resource.min"},
        BadSpec{"LeastAboveMost", [](StudySpec& s) { s.resource = Resource{10, 9, ""}; }, "resource.min"},
        BadSpec{"HostileUnit", [](StudySpec& s) { s.resource = Resource{1, 9, "\x1b[2J"}; }, "resource.unit"},
        BadSpec{"NegativeWarmup", [](StudySpec& s) { s.stopping = MedianStopping{.warmup = -1}; },
                "stopping.median.warmup"},
        BadSpec{"NobodyToCompareWith", [](StudySpec& s) { s.stopping = MedianStopping{.min_trials = 0}; },
                "stopping.median.min_trials"},
        BadSpec{"NoInterval", [](StudySpec& s) { s.stopping = PercentileStopping{.interval = 0}; },
                "stopping.percentile.interval"},
        BadSpec{"PercentileOfAll", [](StudySpec& s) { s.stopping = PercentileStopping{.percentile = 100.0}; },
                "stopping.percentile.percentile"},
        BadSpec{"PercentileNaN", [](StudySpec& s) { s.stopping = PercentileStopping{.percentile = std::nan("")}; },
                "stopping.percentile.percentile"},
        BadSpec{"CurveWithoutEnd", [](StudySpec& s) { s.stopping = CurveStopping{}; }, "stopping.curve"},
        BadSpec{"CertainCurve",
                [](StudySpec& s) {
                  s.resource = Resource{1, 9, ""};
                  s.stopping = CurveStopping{.confidence = 1.0};
                },
                "stopping.curve.confidence"},
        BadSpec{"CurveOfThreePoints",
                [](StudySpec& s) {
                  s.resource = Resource{1, 9, ""};
                  s.stopping = CurveStopping{.min_points = 3};
                },
                "stopping.curve.min_points"},
        BadSpec{"ReproducibleStopping",
                [](StudySpec& s) {
                  s.reproducible = true;
                  s.budget.max_parallel = 2;
                  s.stopping = MedianStopping{};
                },
                "reproducible"},
        BadSpec{"NoCommand", [](StudySpec& s) { Command(s, [](auto& c) { c.argv.clear(); }); },
                "objective.command.argv"},
        BadSpec{"EmptyProgram", [](StudySpec& s) { Command(s, [](auto& c) { c.argv[0] = ""; }); },
                "objective.command.argv[0]"},
        BadSpec{"ZeroByteInArgument",
                [](StudySpec& s) { Command(s, [](auto& c) { c.argv.push_back(std::string("a\0b", 3)); }); },
                "objective.command.argv[2]"},
        BadSpec{"BadVariable", [](StudySpec& s) { Command(s, [](auto& c) { c.environment["A=B"] = "1"; }); },
                "objective.command.environment[\"A=B\"]"},
        BadSpec{"NoTime", [](StudySpec& s) { Command(s, [](auto& c) { c.timeout = absl::ZeroDuration(); }); },
                "objective.command.timeout"},
        BadSpec{"NegativeMemory", [](StudySpec& s) { Command(s, [](auto& c) { c.memory_limit_bytes = -1; }); },
                "objective.command.memory_limit_mb"},
        BadSpec{
            "LongPattern",
            [](StudySpec&
                   s) { Command(s, [](auto& c) { c.stdout_patterns["loss"] = "(" + std::string(1023, 'x') + ")"; }); },
            "objective.command.stdout_patterns[\"loss\"]"},
        BadSpec{"NoPatternForTheMetric",
                [](StudySpec& s) { Command(s, [](auto& c) { c.stdout_patterns["accuracy"] = "([0-9]+)"; }); },
                "objective.command.stdout_patterns"},
        BadSpec{"NoModel", [](StudySpec& s) { Builtin(s, [](auto& b) { b.model = ""; }); }, "objective.builtin.model"},
        BadSpec{"SplitOfNothing", [](StudySpec& s) { Builtin(s, [](auto& b) { b.split.validation = 0.0; }); },
                "objective.builtin.split.validation"},
        BadSpec{"SplitNaN", [](StudySpec& s) { Builtin(s, [](auto& b) { b.split.validation = std::nan(""); }); },
                "objective.builtin.split.validation"},
        BadSpec{"OneFold", [](StudySpec& s) { Builtin(s, [](auto& b) { b.split.folds = 1; }); },
                "objective.builtin.split.folds"}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(StudySpecTest, GoodSpecsPass) {
  EXPECT_TRUE(ValidateSpec(Good()).ok()) << ValidateSpec(Good());
  StudySpec spec = Good();
  spec.reproducible = true;
  spec.budget.max_parallel = 4;
  spec.labels["team"] = "vision";
  Command(spec, [](CommandObjective& c) { c.stdout_patterns["loss"] = "loss=([-+0-9.e]+)"; });
  EXPECT_TRUE(ValidateSpec(spec).ok()) << ValidateSpec(spec);
  Builtin(spec, [](BuiltinObjective& b) { b.split.folds = 10; });
  EXPECT_TRUE(ValidateSpec(spec).ok()) << ValidateSpec(spec);
}

// Older versions took patterns that a new study may not have: whoever reads a stored study must not refuse it.
TEST(StudySpecTest, PatternsAreCheckedWhenAStudyIsMadeNotWhenOneIsRead) {
  for (const char* pattern : {"((", "[0-9]+", R"((a+)\1)"}) {
    StudySpec spec = Good();
    Command(spec, [&](CommandObjective& c) { c.stdout_patterns["loss"] = pattern; });
    EXPECT_TRUE(ValidateSpec(spec).ok()) << pattern;
    const absl::Status refused = ValidateNewSpec(spec);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << pattern;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("objective.command.stdout_patterns[\"loss\"]: ")) << pattern;
  }
  StudySpec spec = Good();
  EXPECT_TRUE(ValidateNewSpec(spec).ok());
  Command(spec, [](CommandObjective& c) { c.stdout_patterns["loss"] = "loss=([-+0-9.e]+)"; });
  EXPECT_TRUE(ValidateNewSpec(spec).ok());
  Command(spec, [](CommandObjective& c) { c.argv = {"python3 train.py"}; });
  EXPECT_TRUE(ValidateSpec(spec).ok());
  EXPECT_THAT(std::string(ValidateNewSpec(spec).message()), HasSubstr("objective.command.argv[0]: "));
}

TEST(StudySpecTest, AllViolationsAreReportedAtOnce) {
  StudySpec spec = Good();
  spec.metric.name = "";
  spec.budget.max_trials = -5;
  spec.lease.ttl = absl::ZeroDuration();
  EXPECT_THAT(std::string(ValidateSpec(spec).message()),
              AllOf(HasSubstr("metric.name"), HasSubstr("budget.max_trials"), HasSubstr("lease.ttl")));
}

TEST(StudySpecTest, AlgorithmsHaveNames) {
  EXPECT_EQ(AlgorithmName(AlgorithmSpec()), "auto");
  EXPECT_EQ(AlgorithmName(BoOptions()), "bo");
  EXPECT_EQ(AlgorithmName(BoDefaults(BoPreset::kFobo)), "fobo");
  EXPECT_EQ(AlgorithmName(RandomOptions()), "random");
  EXPECT_EQ(AlgorithmName(SobolOptions()), "sobol");
  EXPECT_EQ(AlgorithmName(GridOptions()), "grid");
  EXPECT_EQ(AlgorithmName(HaltonOptions()), "halton");
  EXPECT_EQ(AlgorithmName(TpeOptions()), "tpe");
  EXPECT_EQ(AlgorithmName(CmaEsOptions()), "cma_es");
  EXPECT_EQ(AlgorithmName(SuccessiveHalvingOptions()), "successive_halving");
  EXPECT_EQ(AlgorithmName(HyperbandOptions()), "hyperband");
  EXPECT_EQ(AlgorithmName(AshaOptions()), "asha");
}

TEST(StudySpecTest, SomeAlgorithmsHaveASampler) {
  HyperbandOptions hyperband;
  hyperband.sampler = SobolOptions{.scramble = false};
  const AlgorithmSpec algorithm = hyperband;
  ASSERT_NE(SamplerOf(algorithm), nullptr);
  EXPECT_EQ(AsAlgorithm(*SamplerOf(algorithm)), AlgorithmSpec(SobolOptions{.scramble = false}));
  EXPECT_EQ(SamplerOf(AlgorithmSpec(BoOptions())), nullptr);
}

TEST(StudySpecTest, ResourceAndStoppingArePartOfTheSpec) {
  StudySpec other = Good();
  other.resource = Resource{1, 9, "epochs"};
  EXPECT_EQ(FirstDifference(Good(), other), "resource");
  other = Good();
  other.stopping = MedianStopping{};
  EXPECT_EQ(FirstDifference(Good(), other), "stopping");
}

TEST(StudySpecTest, TheFirstDifferenceIsNamedToTheField) {
  const auto differs = [](auto change) {
    StudySpec other = Good();
    change(&other);
    return FirstDifference(Good(), other);
  };
  EXPECT_EQ(differs([](StudySpec*) {}), "");
  EXPECT_EQ(differs([](StudySpec* s) { s->metric.name = "other"; }), "metric.name");
  EXPECT_EQ(differs([](StudySpec* s) { s->metric.goal = Goal::kMaximize; }), "metric.goal");
  EXPECT_EQ(differs([](StudySpec* s) { s->budget.max_parallel += 1; }), "budget.max_parallel");
  EXPECT_EQ(differs([](StudySpec* s) { s->budget.max_failed_trials += 1; }), "budget.max_failed_trials");
  EXPECT_EQ(differs([](StudySpec* s) { s->budget.target_value = 0.25; }), "budget.target_value");
  EXPECT_EQ(differs([](StudySpec* s) { s->budget.patience += 1; }), "budget.patience");
  EXPECT_EQ(differs([](StudySpec* s) { s->budget.max_wall = absl::Hours(3); }), "budget.max_wall");
  EXPECT_EQ(differs([](StudySpec* s) { s->constraints.emplace_back().at_most = 1.0; }), "constraints");
  const std::string last = Good().space.parameters().back().name;
  EXPECT_EQ(differs([](StudySpec* s) {
              std::vector<ParameterSpec> fewer = s->space.parameters();
              fewer.pop_back();
              s->space = *SearchSpace::Create(std::move(fewer));
            }),
            "space (\"" + last + "\")");
}

TEST(StudySpecTest, ScoresAreLargerWhenBetter) {
  EXPECT_GT(Score(Goal::kMinimize, 1.0), Score(Goal::kMinimize, 2.0));
  EXPECT_GT(Score(Goal::kMaximize, 2.0), Score(Goal::kMaximize, 1.0));
}

TEST(IdTest, ReadableOnesPass) {
  for (const char* good : {"a", "0", "branin-5", "a_b.c", "x-"}) EXPECT_TRUE(ValidateId("id", good).ok()) << good;
  for (const char* bad : {"", "-a", "_a", ".a", "A", "a/b", "a..b", "a b", "ü"}) {
    EXPECT_THAT(std::string(ValidateId("study.id", bad).message()), HasSubstr("study.id: ")) << bad;
  }
  EXPECT_TRUE(ValidateId("id", std::string(64, 'a')).ok());
  EXPECT_FALSE(ValidateId("id", std::string(65, 'a')).ok());
}

TEST(IdTest, SlugsAreIds) {
  EXPECT_EQ(Slug("My Study"), "my-study");
  EXPECT_EQ(Slug("  a  &  b  "), "a-b");
  EXPECT_EQ(Slug("CRF l2=0.5"), "crf-l2-0.5");
  EXPECT_EQ(Slug(""), "study");
  EXPECT_EQ(Slug("…"), "study");
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    base::RandomStream random(seed, "test/slug");
    std::string text;
    const uint64_t length = random.UniformInt(100);
    constexpr char kAlphabet[] = "aZ09.-_ /\n\xc3\xbc";
    for (uint64_t i = 0; i < length; ++i) text += kAlphabet[random.UniformInt(sizeof(kAlphabet) - 1)];
    EXPECT_TRUE(ValidateId("id", Slug(text)).ok()) << base::Quote(text) << " gave " << Slug(text);
    EXPECT_EQ(Slug(Slug(text)), Slug(text));
  }
}

TEST(TextTest, OnlyValidUtf8WithoutControlCharacters) {
  EXPECT_TRUE(ValidateText("t", "", 0, false).ok());
  EXPECT_TRUE(ValidateText("t", "äöü€😀", 5, false).ok());
  EXPECT_FALSE(ValidateText("t", "äöü€😀", 4, false).ok());
  EXPECT_TRUE(ValidateText("t", "a\n\tb", 4, true).ok());
  EXPECT_FALSE(ValidateText("t", "a\nb", 4, false).ok());
  EXPECT_FALSE(ValidateText("t", "a\rb", 4, true).ok());
  EXPECT_FALSE(ValidateText("t", std::string("a\0", 2), 4, true).ok());
  // Truncated, overlong, surrogate, beyond U+10FFFF, stray continuation.
  for (const char* bad : {"\xc3", "\xe2\x82", "\xf0\x9f\x98", "\xc0\xaf", "\xe0\x80\xaf", "\xf0\x80\x80\xaf",
                          "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80", "\xff"}) {
    EXPECT_THAT(std::string(ValidateText("t", bad, 10, false).message()), HasSubstr("not valid UTF-8 at byte 0"));
  }
}

}  // namespace
}  // namespace luthier::study
