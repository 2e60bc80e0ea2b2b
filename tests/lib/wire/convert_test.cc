#include "lib/wire/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/search/designer_state.h"
#include "tests/lib/wire/random_spec.h"
#include "tests/testing/violations.h"

namespace luthier::wire {
namespace {

using luthier::testing::Fields;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

v1::StudySpec SmallSpec() {
  v1::StudySpec spec;
  v1::ParameterSpec* p = spec.add_space();
  p->set_name("x");
  p->mutable_float_()->set_min(0);
  p->mutable_float_()->set_max(1);
  spec.mutable_metric()->set_name("loss");
  spec.mutable_metric()->set_goal(v1::MINIMIZE);
  return spec;
}

TEST(ConvertSpec, RoundTripKeepsEveryRandomSpec) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    base::RandomStream random(seed, "test.spec");
    const study::StudySpec spec = testing::RandomSpec(random);
    const v1::StudySpec proto = ToProto(spec);
    v1::StudySpec received;  // As it comes off the wire.
    ASSERT_TRUE(received.ParseFromString(proto.SerializeAsString()));
    const absl::StatusOr<study::StudySpec> back = FromProto(received);
    ASSERT_TRUE(back.ok()) << back.status();
    ASSERT_EQ(*back, spec);
    // Once the defaults are written out, another turn changes nothing.
    ASSERT_EQ(ToProto(*back).DebugString(), proto.DebugString());
  }
}

TEST(ConvertSpec, SmallestSpecGetsTheDocumentedDefaultsWrittenOut) {
  const absl::StatusOr<study::StudySpec> spec = FromProto(SmallSpec());
  ASSERT_TRUE(spec.ok()) << spec.status();
  const v1::StudySpec full = ToProto(*spec);
  EXPECT_EQ(full.space(0).float_().scale(), v1::LINEAR);
  EXPECT_TRUE(full.algorithm().has_auto_());
  EXPECT_TRUE(full.objective().has_external());
  EXPECT_EQ(full.budget().max_trials(), 100);
  EXPECT_EQ(full.lease().ttl().seconds(), 60);
  EXPECT_EQ(full.lease().max_attempts(), 3);
}

// One bad parameter must not make good placeholders read as if the space lacked them.
TEST(ConvertSpec, ProgramsThatKnowOneMetricAreToldTheFirstObjective) {
  v1::StudySpec spec = SmallSpec();
  spec.clear_metric();
  spec.add_metrics()->set_name("ms");
  spec.mutable_metrics(0)->set_at_most(20);
  spec.add_metrics()->set_name("loss");
  spec.mutable_metrics(1)->set_goal(v1::MINIMIZE);
  spec.mutable_metrics(1)->set_at_least(0);
  const v1::StudySpec told = ToProto(*FromProto(spec));
  EXPECT_EQ(told.metric().ShortDebugString(), "name: \"loss\" goal: MINIMIZE");
  EXPECT_EQ(told.metrics_size(), 2);
  EXPECT_EQ(*FromProto(told), *FromProto(spec));
  spec.mutable_metrics()->RemoveLast();
  *spec.mutable_metrics(0) = told.metric();
  EXPECT_EQ(ToProto(*FromProto(spec)).metrics_size(), 0) << "one objective without bounds is the metric alone";
}

TEST(ConvertSpec, ABadParameterIsTheOnlyComplaint) {
  v1::StudySpec spec = SmallSpec();
  v1::ParameterSpec* bad = spec.add_space();
  bad->set_name("units");
  bad->mutable_int_()->set_min(10);
  bad->mutable_int_()->set_max(1);
  for (const char* text : {"prog", "--x={x}", "--units={units}"}) {
    spec.mutable_objective()->mutable_command()->add_argv(text);
  }
  EXPECT_THAT(Fields(FromProto(spec).status()), ElementsAre("space[1].int.max"));
  spec.mutable_objective()->mutable_command()->add_argv("{unit}");
  EXPECT_THAT(Fields(FromProto(spec).status()), ElementsAre("space[1].int.max", "objective.command.argv[3]"));
}

struct BadSpec {
  const char* name;
  std::function<void(v1::StudySpec*)> change;
  std::vector<std::string> fields;
};

class ConvertBadSpec : public ::testing::TestWithParam<BadSpec> {};

TEST_P(ConvertBadSpec, NamesTheField) {
  v1::StudySpec spec = SmallSpec();
  GetParam().change(&spec);
  const absl::Status status = FromProto(spec).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(base::GetReason(status), base::reason::kBadField);
  EXPECT_THAT(Fields(status), ::testing::ElementsAreArray(GetParam().fields)) << status;
}

v1::ParameterSpec* AddBool(v1::StudySpec* spec, const std::string& name) {
  v1::ParameterSpec* p = spec->add_space();
  p->set_name(name);
  p->mutable_bool_();
  return p;
}

INSTANTIATE_TEST_SUITE_P(
    Table, ConvertBadSpec,
    ::testing::Values(
        BadSpec{"Empty", [](v1::StudySpec* s) { s->Clear(); }, {"metric.goal", "space", "metric.name"}},
        BadSpec{"NoKind", [](v1::StudySpec* s) { s->mutable_space(0)->clear_kind(); }, {"space[0]"}},
        BadSpec{"NoMin",
                [](v1::StudySpec* s) { s->mutable_space(0)->mutable_float_()->clear_min(); },
                {"space[0].float.min"}},
        BadSpec{"NoBounds",
                [](v1::StudySpec* s) { s->mutable_space(0)->mutable_int_(); },
                {"space[0].int.min", "space[0].int.max"}},
        BadSpec{"NanBound",
                [](v1::StudySpec* s) { s->mutable_space(0)->mutable_float_()->set_max(kNan); },
                {"space[0].float.max"}},
        BadSpec{"SwappedBounds",
                [](v1::StudySpec* s) { s->mutable_space(0)->mutable_float_()->set_min(2); },
                {"space[0].float.max"}},
        BadSpec{"UnknownScale",
                [](v1::StudySpec* s) { s->mutable_space(0)->mutable_float_()->set_scale(static_cast<v1::Scale>(9)); },
                {"space[0].float.scale"}},
        BadSpec{"NanDefault",
                [](v1::StudySpec* s) { s->mutable_space(0)->mutable_default_value()->set_number_value(kNan); },
                {"space[0].default_value"}},
        BadSpec{"NullDefault",
                [](v1::StudySpec* s) { s->mutable_space(0)->mutable_default_value(); },
                {"space[0].default_value"}},
        BadSpec{"ListDefault",
                [](v1::StudySpec* s) { s->mutable_space(0)->mutable_default_value()->mutable_list_value(); },
                {"space[0].default_value"}},
        BadSpec{"BrokenParentCausesNoSecondComplaint",
                [](v1::StudySpec* s) {
                  AddBool(s, "parent")->clear_kind();
                  v1::Condition* c = AddBool(s, "child")->mutable_condition();
                  c->set_parent("parent");
                  c->add_values()->set_number_value(3);
                },
                {"space[1]"}},
        BadSpec{"InfiniteConditionValue",
                [](v1::StudySpec* s) {
                  AddBool(s, "parent");
                  v1::Condition* c = AddBool(s, "child")->mutable_condition();
                  c->set_parent("parent");
                  c->add_values()->set_number_value(kInf);
                },
                {"space[2].condition.values[0]"}},
        BadSpec{"TooManyParameters",
                [](v1::StudySpec* s) {
                  for (int i = 0; i < study::kMaxParameters; ++i) AddBool(s, absl::StrCat("b", i));
                },
                {"space"}},
        BadSpec{"NoGoal", [](v1::StudySpec* s) { s->mutable_metric()->clear_goal(); }, {"metric.goal"}},
        BadSpec{
            "BoundOfTheMetric", [](v1::StudySpec* s) { s->mutable_metric()->set_at_most(1.0); }, {"metric.at_most"}},
        BadSpec{"MetricAndOtherMetrics",
                [](v1::StudySpec* s) {
                  *s->add_metrics() = s->metric();
                  s->mutable_metric()->set_name("accuracy");
                },
                {"metric"}},
        BadSpec{"UnknownGoalOfOneOfSeveral",
                [](v1::StudySpec* s) {
                  *s->add_metrics() = s->metric();
                  s->clear_metric();
                  s->add_metrics()->set_name("ms");
                  s->mutable_metrics(1)->set_goal(static_cast<v1::Goal>(7));
                },
                {"metrics[1].goal"}},
        BadSpec{"ManyMetrics",
                [](v1::StudySpec* s) {
                  s->clear_metric();
                  for (int i = 0; i < 100'000; ++i) {
                    s->add_metrics()->set_name(absl::StrCat("m", i));
                    s->mutable_metrics(i)->set_goal(v1::MINIMIZE);
                  }
                },
                {"metrics"}},
        BadSpec{"UnknownGoal",
                [](v1::StudySpec* s) { s->mutable_metric()->set_goal(static_cast<v1::Goal>(7)); },
                {"metric.goal"}},
        BadSpec{"UnknownAcquisition",
                [](v1::StudySpec* s) {
                  s->mutable_algorithm()->mutable_bo()->set_acquisition(
                      static_cast<v1::Algorithm::Bo::Acquisition>(-1));
                },
                {"algorithm.bo.acquisition"}},
        BadSpec{"NanOption",
                [](v1::StudySpec* s) {
                  v1::Objective::Builtin* b = s->mutable_objective()->mutable_builtin();
                  b->set_model("logistic");
                  (*b->mutable_options())["l2"].set_number_value(kNan);
                },
                {"objective.builtin.options.l2"}},
        BadSpec{"MemoryLimitOverflows",
                [](v1::StudySpec* s) {
                  v1::Objective::Command* c = s->mutable_objective()->mutable_command();
                  c->add_argv("true");
                  c->set_memory_limit_mb(std::numeric_limits<int64_t>::max());
                },
                {"objective.command.memory_limit_mb"}},
        BadSpec{"MalformedTimeout",
                [](v1::StudySpec* s) {
                  v1::Objective::Command* c = s->mutable_objective()->mutable_command();
                  c->add_argv("true");
                  c->mutable_timeout()->set_seconds(1);
                  c->mutable_timeout()->set_nanos(-1);
                },
                {"objective.command.timeout"}},
        BadSpec{"ZeroTrials", [](v1::StudySpec* s) { s->mutable_budget()->set_max_trials(0); }, {"budget.max_trials"}},
        BadSpec{"NanTarget",
                [](v1::StudySpec* s) { s->mutable_budget()->set_target_value(kNan); },
                {"budget.target_value"}},
        BadSpec{"HugeTtl",
                [](v1::StudySpec* s) {
                  s->mutable_lease()->mutable_ttl()->set_seconds(std::numeric_limits<int64_t>::min());
                },
                {"lease.ttl"}},
        BadSpec{"AllAtOnce",
                [](v1::StudySpec* s) {
                  s->mutable_space(0)->mutable_float_()->clear_max();
                  AddBool(s, "2");
                  s->mutable_metric()->clear_goal();
                  s->mutable_budget()->set_max_parallel(-1);
                },
                {"space[0].float.max", "space[1].name", "metric.goal", "budget.max_parallel"}}),
    [](const auto& i) { return std::string(i.param.name); });

TEST(ConvertTrial, RoundTripKeepsEveryRandomTrial) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    base::RandomStream random(seed, "test.trial");
    const study::Trial trial = testing::RandomTrial(random);
    v1::Trial received;
    ASSERT_TRUE(received.ParseFromString(ToProto(trial, "my-study").SerializeAsString()));
    EXPECT_EQ(received.name(), absl::StrCat("projects/default/studies/my-study/trials/", trial.number));
    const absl::StatusOr<study::Trial> back = FromProto(received);
    ASSERT_TRUE(back.ok()) << back.status();
    ASSERT_EQ(*back, trial);
  }
}

TEST(ConvertTrial, DesignersStatesAreBase64AndFormerOnesAsTheyWere) {
  study::Provenance provenance;
  provenance.designer_state = search::EncodeState("some/1", std::string("\xff, which is no UTF-8"));
  std::string bytes;
  ASSERT_TRUE(absl::Base64Unescape(ToProto(provenance).carry(), &bytes));
  EXPECT_EQ(bytes, provenance.designer_state);
  EXPECT_EQ(FromProto(ToProto(provenance)).designer_state, provenance.designer_state);
  for (const char* former : {"", "a0||", "hoag 0 1", "17"}) {
    provenance.designer_state = former;
    EXPECT_EQ(ToProto(provenance).carry(), former);
    EXPECT_EQ(FromProto(ToProto(provenance)).designer_state, former);
  }
}

TEST(ConvertTrial, EveryViolationIsReported) {
  v1::Trial trial;
  trial.set_name("projects/default/studies/s/trials/2");
  trial.set_number(3);
  trial.mutable_failure()->set_reason("no");
  (*trial.mutable_parameters()->mutable_fields())["x"].set_null_value({});
  trial.add_attempts()->mutable_end_time()->set_nanos(-1);
  EXPECT_THAT(Fields(FromProto(trial).status()),
              ElementsAre("number", "state", "parameters.x", "failure.kind", "failure.reason", "attempts[0].end_time",
                          "attempts[0].outcome"));
}

TEST(ConvertMeasurement, AcceptsNonFiniteMetricsAndRefusesTheRest) {
  v1::Measurement m;
  (*m.mutable_metrics())["loss"] = kNan;
  ASSERT_TRUE(FromProto(m).ok());
  EXPECT_TRUE(std::isnan(FromProto(m)->metrics.at("loss")));
  m.set_step(-1);
  m.set_elapsed_seconds(kInf);
  (*m.mutable_metrics())["a b"] = 1;
  m.mutable_gradient();
  EXPECT_THAT(Fields(FromProto(m).status()), ElementsAre("step", "metrics[\"a b\"]", "elapsed_seconds", "gradient"));
  m.clear_metrics();  // A pruned trial may have none; whoever needs one checks.
  EXPECT_THAT(Fields(FromProto(m).status()), ElementsAre("step", "elapsed_seconds", "gradient"));
  for (int i = 0; i < 33; ++i) (*m.mutable_metrics())[absl::StrCat("m", i)] = 1;
  EXPECT_THAT(std::string(FromProto(m).status().message()), HasSubstr("at most 32"));
}

TEST(ConvertMeasurement, MalformedGradientCanBeDroppedAndTheLossKept) {
  v1::Measurement m;
  (*m.mutable_metrics())["loss"] = 0.5;
  m.mutable_gradient()->mutable_directional()->set_slope(1);
  LeftOut left_out;
  const absl::StatusOr<study::Measurement> kept = FromProto(m, &left_out);
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(kept->metrics.at("loss"), 0.5);
  EXPECT_FALSE(kept->gradient.has_value());
  EXPECT_THAT(Fields(left_out.gradient), ElementsAre("gradient.directional.direction"));
  EXPECT_TRUE(left_out.training.ok());
  m.mutable_gradient()->mutable_full()->add_values(2);
  EXPECT_TRUE(FromProto(m, &left_out)->gradient.has_value());
  EXPECT_TRUE(left_out.gradient.ok());
}

TEST(ConvertMeasurement, TrainingsAreChecked) {
  v1::Measurement m;
  (*m.mutable_metrics())["loss"] = 0.5;
  m.mutable_training()->set_gradient_norm(-1.0);
  m.mutable_training()->set_duality_gap(kNan);
  m.set_gradient_seconds(kInf);
  EXPECT_THAT(Fields(FromProto(m).status()),
              ElementsAre("training.outcome", "training.gradient_norm", "training.duality_gap", "gradient_seconds"));
  // Of a newer program.
  m.mutable_training()->set_outcome(static_cast<v1::Training::Outcome>(99));
  m.mutable_training()->clear_gradient_norm();
  m.mutable_training()->clear_duality_gap();
  EXPECT_THAT(Fields(FromProto(m).status()), ElementsAre("training.outcome", "gradient_seconds"));
  // The loss is worth more.
  LeftOut left_out;
  const absl::StatusOr<study::Measurement> kept = FromProto(m, &left_out);
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(kept->metrics.at("loss"), 0.5);
  EXPECT_FALSE(kept->training.has_value());
  EXPECT_FALSE(kept->gradient_seconds.has_value());
  EXPECT_TRUE(left_out.gradient.ok());
  EXPECT_THAT(Fields(left_out.training), ElementsAre("training.outcome", "gradient_seconds"));
  // One of the two may be good.
  m.mutable_training()->set_outcome(v1::Training::LIMIT);
  EXPECT_EQ(FromProto(m, &left_out)->training->outcome, study::TrainingOutcome::kLimit);
  EXPECT_THAT(Fields(left_out.training), ElementsAre("gradient_seconds"));
}

// Every outcome has a number of its own, and comes back.
TEST(ConvertMeasurement, OutcomesOfTrainings) {
  std::set<int> numbers;
  for (int i = 0; i < study::kTrainingOutcomeCount; ++i) {
    const auto outcome = static_cast<study::TrainingOutcome>(i);
    const v1::Training::Outcome proto = ToProto(outcome);
    EXPECT_EQ(FromProto(proto).value(), outcome);
    EXPECT_EQ(absl::AsciiStrToLower(v1::Training::Outcome_Name(proto)), study::TrainingOutcomeName(outcome));
    numbers.insert(proto);
  }
  EXPECT_THAT(numbers, ::testing::SizeIs(v1::Training::Outcome_ARRAYSIZE - 1));
}

TEST(ConvertFailure, LongMessageKeepsItsTail) {
  v1::Failure failure;
  failure.set_kind(v1::Failure::CONFIG);
  failure.set_reason("EXIT_CODE");
  failure.set_message(std::string(10'000, 'a') + "the end");
  const absl::StatusOr<study::Failure> cut = FromProto(failure);
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->message.size(), kMaxFailureMessageBytes);
  EXPECT_THAT(cut->message, ::testing::EndsWith("the end"));
}

TEST(ConvertFailure, BytesThatAreNotUtf8BecomeSendable) {
  v1::Failure proto = ToProto(study::Failure{study::FailureKind::kConfig, "SIGNAL", "caf\xE9 \xFF"});
  v1::Failure received;
  ASSERT_TRUE(received.ParseFromString(proto.SerializeAsString()));
  EXPECT_EQ(received.message(), "caf\xEF\xBF\xBD \xEF\xBF\xBD");
}

TEST(ConvertTime, KeepsNanosecondsAndClampsTheRest) {
  const absl::Time t = absl::FromUnixNanos(-1);
  EXPECT_EQ(ToProto(t).seconds(), -1);
  EXPECT_EQ(ToProto(t).nanos(), 999'999'999);
  EXPECT_EQ(*FromProto(ToProto(t)), t);
  EXPECT_TRUE(FromProto(ToProto(absl::InfiniteFuture())).ok());
  EXPECT_TRUE(FromProto(ToProto(absl::InfinitePast())).ok());
  EXPECT_EQ(*FromProto(ToProto(-absl::Milliseconds(1500))), -absl::Milliseconds(1500));
  EXPECT_TRUE(FromProto(ToProto(absl::InfiniteDuration())).ok());
  EXPECT_TRUE(FromProto(ToProto(-absl::InfiniteDuration())).ok());
}

TEST(ConvertStates, EveryStateHasItsNumberAndOthersAreRefused) {
  for (int i = 0; i < 6; ++i) {
    const auto state = static_cast<study::TrialState>(i);
    EXPECT_EQ(v1::Trial::State_Name(ToProto(state)), std::string(study::TrialStateName(state)));
    EXPECT_EQ(*FromProto(ToProto(state)), state);
  }
  for (int i = 0; i < 5; ++i) {
    const auto state = static_cast<study::StudyState>(i);
    EXPECT_EQ(v1::Study::State_Name(ToProto(state)), std::string(study::StudyStateName(state)));
    EXPECT_EQ(*FromProto(ToProto(state)), state);
  }
  EXPECT_FALSE(FromProto(static_cast<v1::Trial::State>(0)).ok());
  EXPECT_FALSE(FromProto(static_cast<v1::Study::State>(77)).ok());
}

}  // namespace
}  // namespace luthier::wire
