// Open spaces: trials that declare parameters while they run, and gradients by names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "lib/base/random.h"
#include "server/coordinator/proposals/replay.h"
#include "tests/server/coordinator/expect.h"
#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {
namespace {

using study::ParameterSpec;

ParameterSpec Float(const std::string& name, double min = 0.0, double max = 1.0) {
  ParameterSpec p;
  p.name = name;
  p.domain = study::FloatRange{min, max, study::Scale::kLinear, std::nullopt};
  return p;
}

ParameterSpec Choice(const std::string& name) {
  ParameterSpec p;
  p.name = name;
  p.domain = study::CategoricalLabels{{"a", "b"}};
  return p;
}

study::StudySpec OpenSpec(int64_t max_trials, study::AlgorithmSpec algorithm) {
  study::StudySpec spec = MakeSpec(max_trials);
  spec.space = study::SearchSpace();
  spec.objective = study::ExternalObjective{};
  spec.algorithm = std::move(algorithm);
  spec.open_space = true;
  return spec;
}

study::BoOptions Fobo() {
  study::BoOptions bo = study::BoDefaults(study::BoPreset::kFobo);
  bo.initial_points = 3;
  return bo;
}

class OpenSpace : public ::testing::Test {
 protected:
  absl::StatusOr<DeclareReply> Declare(const Grant& grant, std::vector<ParameterSpec> parameters) {
    Answered<DeclareReply> answer;
    DeclareOp op{grant.study_id, grant.trial.number, grant.token, std::move(parameters), answer.done()};
    EXPECT_TRUE(h_.Batch({std::move(op)}).ok());
    return answer.get();
  }
  absl::StatusOr<FinishReply> Complete(const Grant& grant, study::Measurement measurement,
                                       std::vector<std::string> unused = {}) {
    Answered<FinishReply> answer;
    FinishOp op;
    op.id = grant.study_id;
    op.number = grant.trial.number;
    op.token = grant.token;
    op.content = CompleteContent{std::move(measurement), false, ""};
    op.unused = std::move(unused);
    op.done = answer.done();
    EXPECT_TRUE(h_.Batch({std::move(op)}).ok());
    return answer.get();
  }
  void ExpectSound(const std::string& id) {
    EXPECT_TRUE(h_.core->CheckInvariants().ok()) << h_.core->CheckInvariants();
    EXPECT_THAT(VerifyReplay(&h_.memory, h_.Study(id)).value().mismatches, IsEmpty());
    h_.Restart();
    EXPECT_TRUE(h_.core->CheckInvariants().ok()) << h_.core->CheckInvariants();
  }
  Harness h_;
};

TEST_F(OpenSpace, ATrialGetsValuesForWhatItDeclaresAndKeepsThem) {
  ASSERT_TRUE(h_.Create("s", OpenSpec(4, study::AutoOptions())).ok());
  const Grant grant = h_.Get("s", "w");
  EXPECT_THAT(grant.trial.parameters, IsEmpty());
  const absl::StatusOr<DeclareReply> first = Declare(grant, {Float("x", 2.0, 3.0), Choice("c")});
  ASSERT_TRUE(first.ok()) << first.status();
  const double x = std::get<double>(first->parameters.at("x"));
  EXPECT_TRUE(x >= 2.0 && x <= 3.0);
  EXPECT_EQ(Declare(grant, {Float("x", 2.0, 3.0)})->parameters.at("x"), study::ParameterValue(x));  // Asked again.
  EXPECT_THAT(h_.Study("s").spec.space.parameters(), SizeIs(2));
  EXPECT_THAT(h_.Events("s", EventType::kParametersDeclared), SizeIs(1));
  h_.Restart();
  EXPECT_EQ(Declare(grant, {Float("x", 2.0, 3.0)})->parameters.at("x"), study::ParameterValue(x));
  ASSERT_TRUE(Complete(grant, Loss(x)).ok());
  // The next trial comes with both.
  const Grant second = h_.Get("s", "w");
  EXPECT_EQ(second.trial.parameters.count("x") + second.trial.parameters.count("c"), 2U);
  ASSERT_TRUE(Complete(second, Loss(1.0), {"c"}).ok());
  EXPECT_EQ(h_.Rows("s")[1].trial.parameters.count("c"), 0U);
  EXPECT_EQ(h_.Rows("s")[1].trial.unused.count("c"), 1U);
  ExpectSound("s");
}

TEST_F(OpenSpace, ParametersThatTrialsDeclaredAreNoDifference) {
  const study::StudySpec open = OpenSpec(4, study::AutoOptions());
  ASSERT_TRUE(h_.Create("s", open).ok());
  ASSERT_TRUE(Declare(h_.Get("s", "w"), {Float("x"), Choice("c")}).ok());
  EXPECT_TRUE(h_.Create("s", open).ok());
  study::StudySpec other = open;
  other.metric.goal = study::Goal::kMaximize;
  ExpectRefused(h_.Create("s", other), absl::StatusCode::kAlreadyExists, base::reason::kStudyExists,
                "they first differ in metric.goal; it can't be changed there");
  other = open;
  other.budget.max_trials = 9;
  ExpectRefused(h_.Create("s", other), absl::StatusCode::kAlreadyExists, base::reason::kStudyExists,
                "they first differ in budget.max_trials; to change it there");
  other = open;
  other.open_space = false;
  other.space = MakeSpec().space;
  ExpectRefused(h_.Create("s", other), absl::StatusCode::kAlreadyExists, base::reason::kStudyExists,
                "they first differ in open_space;");
}

TEST_F(OpenSpace, WrongDeclarationsChangeNothing) {
  ASSERT_TRUE(h_.Create("closed", MakeSpec(4)).ok());
  const Grant closed = h_.Get("closed", "w");
  ExpectRefused(Declare(closed, {Float("y")}), absl::StatusCode::kFailedPrecondition, "NOT_OPEN", "open_space");
  ASSERT_TRUE(h_.Create("s", OpenSpec(4, study::RandomOptions())).ok());
  const Grant grant = h_.Get("s", "w");
  ASSERT_TRUE(Declare(grant, {Float("x")}).ok());
  const auto seq = h_.Study("s").update_seq;
  ExpectRefused(Declare(grant, {Float("x", 0.0, 2.0)}), absl::StatusCode::kFailedPrecondition, "PARAMETER_DIFFERS",
                "another range");
  ExpectRefused(Declare(grant, {Choice("x")}), absl::StatusCode::kFailedPrecondition, "PARAMETER_DIFFERS",
                "another kind");
  ExpectRefused(Declare(grant, {Float("y", 1.0, 0.0)}), absl::StatusCode::kInvalidArgument, "BAD_FIELD",
                "parameters[0]");
  ExpectRefused(Declare(grant, {Float("no name")}), absl::StatusCode::kInvalidArgument, "BAD_FIELD", "not a name");
  ParameterSpec conditional = Float("y");
  conditional.condition = study::Condition{"x", {1.0}};
  ExpectRefused(Declare(grant, {conditional}), absl::StatusCode::kInvalidArgument, "BAD_FIELD", "condition");
  Grant other = grant;
  other.token = std::string(16, 'x');
  ExpectRefused(Declare(other, {Float("y")}), absl::StatusCode::kFailedPrecondition, "LEASE_LOST", "");
  EXPECT_EQ(h_.Study("s").update_seq, seq);
  ASSERT_TRUE(Complete(grant, Loss(1.0)).ok());
  ExpectRefused(Declare(grant, {Float("y")}), absl::StatusCode::kFailedPrecondition, "TRIAL_FINAL", "");
  ExpectRefused(Complete(closed, Loss(1.0), {"x"}), absl::StatusCode::kInvalidArgument, "BAD_FIELD", "unused");
  study::StudySpec laid_out = OpenSpec(4, study::GridOptions());
  EXPECT_THAT(std::string(study::ValidateSpec(laid_out).message()), HasSubstr("open_space: does not go with grid"));
}

TEST_F(OpenSpace, ABuiltinObjectiveTakesNoParameterThatItLacks) {
  study::StudySpec spec = OpenSpec(4, study::RandomOptions());
  spec.space = study::SearchSpace::Create({Float("x1", -5.0, 10.0), Float("x2", 0.0, 15.0)}).value();
  spec.metric = {"value", study::Goal::kMinimize};
  spec.objective = study::BuiltinObjective{"function:branin", "", {}, {}};
  ASSERT_TRUE(h_.Create("s", spec).ok());
  const Grant grant = h_.Get("s", "w");
  EXPECT_TRUE(Declare(grant, {Float("x1", -5.0, 10.0)}).ok());
  ExpectRefused(Declare(grant, {Float("x3")}), absl::StatusCode::kInvalidArgument, "BAD_FIELD",
                "objective function:branin has no parameter \"x3\"");
}

TEST_F(OpenSpace, TheSpaceGrowsSoOftenAndNoMore) {
  ASSERT_TRUE(h_.Create("s", OpenSpec(4, study::RandomOptions())).ok());
  const Grant grant = h_.Get("s", "w");
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(Declare(grant, {Float(absl::StrCat("x", i))}).ok()) << i;
  ExpectRefused(Declare(grant, {Float("more")}), absl::StatusCode::kResourceExhausted, "LIMIT_EXCEEDED", "200 times");
  EXPECT_TRUE(Declare(grant, {Float("x7")}).ok());
  ExpectSound("s");
}

TEST_F(OpenSpace, AFiniteSpaceIsNotExhausted) {
  ASSERT_TRUE(h_.Create("s", OpenSpec(8, study::AutoOptions())).ok());
  for (int i = 0; i < 8; ++i) {
    const Grant grant = h_.Get("s", "w");
    ASSERT_TRUE(Declare(grant, {Choice("c")}).ok());
    ASSERT_TRUE(Complete(grant, Loss(i)).ok());
  }
  EXPECT_EQ(h_.Study("s").state_reason, "max_trials reached");
  ExpectSound("s");
}

TEST_F(OpenSpace, EnqueuedValuesWaitForTheirDeclaration) {
  ASSERT_TRUE(h_.Create("s", OpenSpec(6, Fobo())).ok());
  ASSERT_TRUE(h_.Enqueue("s", {{{{"x", 0.25}, {"c", std::string("b")}, {"far", 9.0}}, {}}}).ok());
  const Grant grant = h_.Get("s", "w");
  EXPECT_THAT(grant.trial.parameters, IsEmpty());
  EXPECT_EQ(Declare(grant, {Float("x")})->parameters.at("x"), study::ParameterValue(0.25));
  h_.Restart();
  EXPECT_EQ(Declare(grant, {Choice("c")})->parameters.at("c"), study::ParameterValue(std::string("b")));
  const double far = std::get<double>(Declare(grant, {Float("far")})->parameters.at("far"));
  EXPECT_TRUE(far >= 0.0 && far <= 1.0);  // What was enqueued is out of its range.
  const absl::StatusOr<FinishReply> told = Complete(grant, Loss(1.0));
  ASSERT_TRUE(told.ok());
  EXPECT_THAT(told->warnings, ElementsAre(HasSubstr("not used: far = 9,")));
  // What the space has is checked at once.
  ExpectRefused(h_.Enqueue("s", {{{{"x", 7.0}}, {}}}), absl::StatusCode::kInvalidArgument, "BAD_FIELD", "parameters.x");
  ASSERT_TRUE(h_.Enqueue("s", {{{{"x", 0.5}}, {}}}).ok());
  const Grant open = h_.Get("s", "w");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Complete(h_.Get("s", "v"), Loss(i)).ok());
  EXPECT_EQ(Declare(open, {Float("x")})->parameters.at("x"), study::ParameterValue(0.5));
  ASSERT_TRUE(Complete(open, Loss(2.0)).ok());
  ASSERT_TRUE(Complete(h_.Get("s", "w"), Loss(2.0)).ok());
  ExpectSound("s");
}

TEST_F(OpenSpace, GradientsByNamesAreKeptAsWhatIsKnown) {
  study::StudySpec spec = MakeSpec(4);
  spec.space = study::SearchSpace::Create({Float("a"), Float("b"), Choice("c")}).value();
  ASSERT_TRUE(h_.Create("s", spec).ok());
  const auto told = [&](std::map<std::string, double> names) {
    study::Measurement m = Loss(1.0);
    m.gradient.emplace().by_name = std::move(names);
    const Grant grant = h_.Get("s", "w");
    const absl::StatusOr<FinishReply> reply = Complete(grant, m);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return std::make_pair(h_.Rows("s").back().trial.final_measurement->gradient, reply->warnings);
  };
  const auto full = told({{"b", 3.0}, {"a", -4.0}});
  EXPECT_THAT(full.first->values, ElementsAre(-4.0, 3.0));
  const auto part = told({{"b", 3.0}});
  EXPECT_THAT(part.first->direction, ElementsAre(0.0, 1.0));
  EXPECT_EQ(part.first->slope, 3.0);
  const auto wrong = told({{"c", 3.0}});
  EXPECT_FALSE(wrong.first);
  ASSERT_THAT(wrong.second, SizeIs(1));
  EXPECT_THAT(wrong.second[0], HasSubstr("no active float parameter"));
  EXPECT_FALSE(told({{"a", std::numeric_limits<double>::quiet_NaN()}}).first);
}

// Two workers at random: declare, leave out, fail, lose their lease, and the coordinator starts anew. Every trial has
// what was declared in it and not left unused; every suggestion can be computed again.
TEST_F(OpenSpace, AnyOrderOfDeclarationsCanBeReplayed) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    base::RandomStream random(seed, "open_space_test", 0);
    const std::string id = absl::StrCat("s", seed);
    const study::AlgorithmSpec algorithm = seed % 3 == 0   ? study::AlgorithmSpec(study::AutoOptions())
                                           : seed % 3 == 1 ? study::AlgorithmSpec(Fobo())
                                                           : study::AlgorithmSpec(study::TpeOptions());
    ASSERT_TRUE(h_.Create(id, OpenSpec(25, algorithm)).ok());
    std::vector<Grant> running;
    std::map<int64_t, study::Parameters> values;  // By trial.
    while (true) {
      const uint64_t move = random.UniformInt(10);
      if (move < 3 && running.size() < 2) {
        const Answered<SuggestReply> ask = h_.Ask(id, "w", 1, absl::Seconds(1));
        if (!ask.ready()) h_.Pass(absl::Seconds(2));
        ASSERT_TRUE(ask.ready() && ask.get().ok());
        if (ask.get()->grants.empty() && running.empty()) break;
        for (const Grant& grant : ask.get()->grants) {
          running.push_back(grant);
          values[grant.trial.number] = grant.trial.parameters;
        }
      } else if (move < 7 && !running.empty()) {
        const Grant& grant = running[random.UniformInt(running.size())];
        const std::string name = absl::StrCat("p", random.UniformInt(6));
        const ParameterSpec p = name > "p3" ? Choice(name) : Float(name);
        const absl::StatusOr<DeclareReply> reply = Declare(grant, {p});
        ASSERT_TRUE(reply.ok()) << reply.status();
        study::Parameters& known = values[grant.trial.number];
        const auto [at, fresh] = known.emplace(name, reply->parameters.at(name));
        EXPECT_TRUE(fresh || at->second == reply->parameters.at(name));
      } else if (move < 9 && !running.empty()) {
        const size_t place = random.UniformInt(running.size());
        const Grant grant = running[place];
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(place));
        study::Parameters& known = values[grant.trial.number];
        std::vector<std::string> unused;
        double loss = 1.0;
        study::Measurement m;
        for (const auto& [name, value] : study::Parameters(known)) {
          if (random.UniformInt(4) == 0) {
            unused.push_back(name);
            known.erase(name);
          } else if (const double* x = std::get_if<double>(&value)) {
            loss += (*x - 0.4) * (*x - 0.4);
            if (!m.gradient) m.gradient.emplace();
            m.gradient->by_name[name] = 2.0 * (*x - 0.4);
          }
        }
        m.metrics[kMetric] = loss;
        ASSERT_TRUE(Complete(grant, m, unused).ok());
      } else if (move == 9) {
        h_.Restart();
      }
    }
    for (const storage::TrialRecord& row : h_.Rows(id)) EXPECT_EQ(row.trial.parameters, values[row.trial.number]);
    EXPECT_THAT(h_.Rows(id), SizeIs(25));
    ExpectSound(id);
  }
}

}  // namespace
}  // namespace luthier::coordinator::testing
