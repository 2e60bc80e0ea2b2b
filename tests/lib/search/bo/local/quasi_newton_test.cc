#include "lib/search/bo/local/quasi_newton.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lib/math/lbfgs.h"
#include "lib/study/encoding.h"
#include "tests/lib/search/bo/bo_testing.h"
#include "tests/lib/search/restart_oracle.h"

namespace luthier::search {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

constexpr int kDim = 24;

// Rosenbrock's function of kDim parameters in [-2, 2], its user-unit gradient in the not-null `gradient`.
double Rosenbrock(const VectorXd& x, VectorXd* gradient) {
  double f = 0.0;
  VectorXd g = VectorXd::Zero(x.size());
  for (Index i = 0; i + 1 < x.size(); ++i) {
    const double a = x(i + 1) - x(i) * x(i), b = 1.0 - x(i);
    f += 100.0 * a * a + b * b;
    g(i) += -400.0 * a * x(i) - 2.0 * b;
    g(i + 1) += 200.0 * a;
  }
  if (gradient != nullptr) *gradient = g;
  return f;
}

std::string NameOf(int i) {
  return "x" + std::to_string(100 + i);
}
VectorXd PointOf(const study::Parameters& parameters) {
  VectorXd x(kDim);
  for (int i = 0; i < kDim; ++i) x(i) = std::get<double>(parameters.at(NameOf(i)));
  return x;
}
study::SearchSpace Cube() {
  std::vector<study::ParameterSpec> parameters;
  for (int i = 0; i < kDim; ++i) parameters.push_back(Float(NameOf(i), -2.0, 2.0));
  return Space(std::move(parameters));
}
study::StudySpec Spec(uint64_t seed = 1) {
  return BoSpec(Cube(), seed, study::BoDefaults(study::BoPreset::kFobo));
}
void Report(MemoryStudy& study, int64_t number) {
  const VectorXd x = PointOf(study.history().trials()[static_cast<size_t>(number - 1)].parameters);
  VectorXd gradient;
  const double value = Rosenbrock(x, &gradient);
  study.Complete(number, value, FullGradient(std::vector<double>(gradient.data(), gradient.data() + kDim)));
}

// A log with nothing in it but a climb.
class QuasiNewtonTest : public ::testing::Test {
 protected:
  QuasiNewtonAnswer Ask() {
    return SuggestQuasiNewton({history_, encoding_, study::Goal::kMinimize, units_, set_aside_}, 1, base::StopToken())
        .value();
  }
  int64_t Add(study::Parameters parameters) {
    study::HistoryTrial trial;
    trial.number = static_cast<int64_t>(history_.trials().size()) + 1;
    trial.parameters = std::move(parameters);
    history_.AddStored(trial);
    return trial.number;
  }
  void Finish(int64_t number) {
    VectorXd gradient;
    const double value = Rosenbrock(PointOf(history_.trials()[static_cast<size_t>(number - 1)].parameters), &gradient);
    history_.Finish(number, study::TrialState::kComplete, value,
                    FullGradient(std::vector<double>(gradient.data(), gradient.data() + kDim)), std::nullopt);
  }

  study::Encoding encoding_{Cube()};
  GradientUnits units_{encoding_, study::Goal::kMinimize};
  study::History history_;
  std::vector<int32_t> set_aside_;
};

TEST_F(QuasiNewtonTest, TrialsAreTheMinimisersOwnEvaluationsBitForBit) {
  std::vector<study::Parameters> evaluated;
  const auto f = [&](const VectorXd& u, VectorXd* gradient) {
    evaluated.push_back(encoding_.FromCompact(u));
    VectorXd by_user;
    const double value = Rosenbrock(PointOf(evaluated.back()), &by_user);
    *gradient = 4.0 * by_user;  // A side of the cube is 4 user units.
    return value;
  };
  math::LbfgsOptions options;
  options.first_step = 0.1;
  options.max_evaluations = 60;
  const VectorXd start = VectorXd::Constant(kDim, 0.3);
  ASSERT_TRUE(
      math::MinimizeLbfgs(f, start, VectorXd::Zero(kDim), VectorXd::Ones(kDim), options, base::StopToken()).ok());
  ASSERT_EQ(evaluated.size(), 60u);
  Finish(Add(encoding_.FromCompact(start)));
  for (size_t k = 1; k < evaluated.size(); ++k) {
    const QuasiNewtonAnswer answer = Ask();
    ASSERT_EQ(answer.outcome, ClimbOutcome::kStep) << k;
    ASSERT_EQ(answer.step->parameters, evaluated[k]) << k;
    EXPECT_GE(answer.step->predicted_gain, 0.0);
    Finish(Add(answer.step->parameters));
  }
}

TEST_F(QuasiNewtonTest, StepsAvoidPendingPointsAlongTheSameDirection) {
  const VectorXd start = VectorXd::Constant(kDim, 0.5);
  Finish(Add(encoding_.FromCompact(start)));
  std::vector<VectorXd> moves;
  for (int k = 0; k < 5; ++k) {
    const QuasiNewtonAnswer answer = Ask();
    ASSERT_EQ(answer.outcome, ClimbOutcome::kStep) << k;
    moves.push_back(encoding_.ToCompact(answer.step->parameters) - start);
    Add(answer.step->parameters);  // Stays pending.
  }
  EXPECT_EQ(Ask().outcome, ClimbOutcome::kPending);
  const std::vector<double> lengths = {1.0, 2.0, 0.5, 4.0, 0.25};
  EXPECT_NEAR(moves[0].lpNorm<Eigen::Infinity>(), 0.1, 1e-9);
  for (size_t k = 0; k < moves.size(); ++k) EXPECT_LE((moves[k] - lengths[k] * moves[0]).norm(), 1e-9) << k;
}

TEST_F(QuasiNewtonTest, TheLineSearchStepsBackFromFailuresAndUnknownGradients) {
  Finish(Add(encoding_.FromCompact(VectorXd::Constant(kDim, 0.5))));
  double length = Ask().step->length;
  for (int k = 0; k < 6; ++k) {
    const int64_t number = Add(Ask().step->parameters);
    if (k % 2 == 0) {
      history_.Finish(number, study::TrialState::kFailed, std::nullopt, std::nullopt, study::FailureKind::kConfig);
    } else {
      history_.Finish(number, study::TrialState::kComplete, 1.0, std::nullopt, std::nullopt);
    }
    const QuasiNewtonAnswer answer = Ask();
    ASSERT_EQ(answer.outcome, ClimbOutcome::kStep);
    EXPECT_LT(answer.step->length, length);
    length = answer.step->length;
  }
}

TEST_F(QuasiNewtonTest, ACancelledPointIsSuggestedAgain) {
  Finish(Add(encoding_.FromCompact(VectorXd::Constant(kDim, 0.5))));
  const study::Parameters first = Ask().step->parameters;
  history_.Finish(Add(first), study::TrialState::kCancelled, std::nullopt, std::nullopt, std::nullopt);
  EXPECT_EQ(Ask().step->parameters, first);
}

TEST_F(QuasiNewtonTest, AClimbThatStandsAtAMinimumHasEnded) {
  Finish(Add(encoding_.FromCompact(VectorXd::Constant(kDim, 0.75))));  // x = 1.
  EXPECT_EQ(Ask().outcome, ClimbOutcome::kEnded);
}

TEST_F(QuasiNewtonTest, GradientsOfAReporterWhoIsSetAsideDoNotCount) {
  const int64_t first = Add(encoding_.FromCompact(VectorXd::Constant(kDim, 0.5)));
  Finish(first);
  set_aside_ = {history_.trials()[0].reporter};
  EXPECT_FALSE(
      HasWholeGradient({history_, encoding_, study::Goal::kMinimize, units_, set_aside_}, history_.trials()[0]));
}

TEST(QuasiNewtonStudy, IsAsGoodAsTheMinimiserWithAsManyEvaluations) {
  MemoryStudy study(Spec());
  const study::Encoding encoding(study.spec().space);
  double best = std::numeric_limits<double>::infinity();
  int steps = 0;
  std::set<std::string> origins;
  for (int k = 0; k < 60; ++k) {
    const Suggestion s = study.Ask();
    origins.insert(s.origin);
    if (s.origin == "quasi_newton") ++steps;
    Report(study, study.newest());
    best = std::min(best, *study.history().trials().back().value);
  }
  EXPECT_GE(steps, 30);
  EXPECT_TRUE(origins.contains("acq"));
  const auto f = [&](const VectorXd& u, VectorXd* gradient) {
    VectorXd by_user;
    const double value = Rosenbrock(PointOf(encoding.FromCompact(u)), &by_user);
    *gradient = 4.0 * by_user;
    return value;
  };
  math::LbfgsOptions options;
  options.first_step = 0.1;
  options.max_evaluations = steps + 1;  // The first trial is the start of the climb.
  const math::LbfgsResult alone =
      math::MinimizeLbfgs(f, encoding.ToCompact(encoding.space().Default()), VectorXd::Zero(kDim), VectorXd::Ones(kDim),
                          options, base::StopToken())
          .value();
  EXPECT_LE(best, alone.value);
}

TEST(QuasiNewtonStudy, RestartsAndParallelAsksChangeNothing) {
  MemoryStudy study(Spec()), again(Spec());
  std::vector<int64_t> open;
  for (int k = 0; k < 24; ++k) {
    again.Restart();  // Knows nothing but the log.
    const Suggestion a = study.Ask(), b = again.Ask();
    ASSERT_EQ(a.parameters, b.parameters) << k;
    ASSERT_EQ(a.designer_state, b.designer_state) << k;
    open.push_back(study.newest());
    if (open.size() < 3) continue;
    for (MemoryStudy* one : {&study, &again}) Report(*one, open.front());
    open.erase(open.begin());
  }
  std::set<std::string> settings;
  for (const study::HistoryTrial& trial : study.history().trials()) {
    EXPECT_TRUE(settings.insert(study::FormatParameters(trial.parameters)).second) << "a setting was tried twice";
  }
}

// A label beside the numbers: steps are not weighed against proposals, whose promise models of many parameters
// overrate.
TEST(QuasiNewtonStudy, LabelsStayWhatTheyAreInAClimb) {
  std::vector<study::ParameterSpec> parameters;
  for (int i = 0; i < kDim; ++i) parameters.push_back(Float(NameOf(i), 0.0, 1.0));
  parameters.push_back({"label", study::CategoricalLabels{{"a", "b"}}, std::nullopt, std::nullopt});
  MemoryStudy study(BoSpec(Space(std::move(parameters)), 1, study::BoDefaults(study::BoPreset::kFobo)));
  double best = std::numeric_limits<double>::infinity();
  int steps = 0;
  for (int k = 0; k < 30; ++k) {
    const Suggestion s = study.Ask();
    VectorXd x = PointOf(s.parameters);
    double value = std::get<std::string>(s.parameters.at("label")) == "b" ? 1.0 : 0.0;
    std::vector<double> gradient;
    for (int i = 0; i < kDim; ++i) {
      value += (1 + i) * (x(i) - 0.3) * (x(i) - 0.3);
      gradient.push_back(2 * (1 + i) * (x(i) - 0.3));
    }
    if (s.origin == "quasi_newton") ++steps;
    study.Complete(study.newest(), value, FullGradient(gradient));
    best = std::min(best, value);
  }
  EXPECT_GE(steps, 18);
  EXPECT_LT(best, 1.0 + 1e-3);
}

// Settings far from the best give no gradient, as trainings that end at their limit: the first one is all there is.
TEST(QuasiNewtonStudy, OneGradientSuffices) {
  MemoryStudy study(Spec());
  study.Ask();
  Report(study, 1);
  EXPECT_EQ(study.Ask().origin, "init") << "the climb begins at the better of two";
  study.Complete(2, 1e6);
  EXPECT_EQ(study.Ask().origin, "quasi_newton");
  study.Complete(3, 1e6);
  EXPECT_EQ(study.Ask().origin, "quasi_newton");  // The line search steps back.
}

TEST(QuasiNewtonStudy, TheFirstClimbBeginsAtTheBetterOfTwoTrials) {
  MemoryStudy study(Spec());
  const study::Parameters start = study.Ask().parameters;
  study.Complete(1, 1e6, FullGradient(std::vector<double>(kDim, 1.0)));
  study.Ask();
  Report(study, 2);
  const Suggestion step = study.Ask();
  EXPECT_EQ(step.origin, "quasi_newton");
  EXPECT_EQ(step.details.at("site"), 2.0);
}

TEST(QuasiNewtonStudy, RestartsOfVeryLongVectorsBeginNearTheBest) {
  constexpr int kLong = 210;
  std::vector<study::ParameterSpec> parameters;
  for (int i = 0; i < kLong; ++i) parameters.push_back(Float(NameOf(i), -2.0, 2.0));
  MemoryStudy study(BoSpec(Space(std::move(parameters)), 1, study::BoDefaults(study::BoPreset::kFobo)));
  const study::Parameters first = study.Ask().parameters;
  study.Complete(1, 1.0, FullGradient(std::vector<double>(kLong, 1.0)));
  study.Ask();
  study.Complete(2, 2.0);
  std::set<std::string> reaches;
  int restarts = 0;
  for (int i = 0; i < 12; ++i) {  // All are pending.
    const Suggestion s = study.Ask();
    if (s.origin != "near_best") continue;
    ++restarts;
    double reach = 0.0;
    for (const auto& [name, value] : s.parameters) {
      reach = std::max(reach, std::abs(std::get<double>(value) - std::get<double>(first.at(name))) / 4.0);
    }
    EXPECT_LE(reach, 0.25);
    EXPECT_GE(reach, 0.02);
    EXPECT_TRUE(reaches.insert(study::FormatDouble(reach)).second);
  }
  EXPECT_GE(restarts, 6);
}

TEST(QuasiNewtonStudy, HalfAGradientIsNoReasonToEndTheDesign) {
  MemoryStudy study(Spec());
  for (int k = 0; k < 12; ++k) {
    EXPECT_EQ(study.Ask().origin, "init");
    std::vector<double> gradient(kDim, 1.0);
    gradient[3] = std::numeric_limits<double>::quiet_NaN();
    study.Complete(study.newest(), k, FullGradient(gradient));
  }
}

TEST(QuasiNewtonStudy, TwentyParametersStayWithTrustRegions) {
  std::vector<study::ParameterSpec> parameters;
  for (int i = 0; i < 20; ++i) parameters.push_back(Float(NameOf(i), -2.0, 2.0));
  MemoryStudy study(BoSpec(Space(std::move(parameters)), 1, study::BoDefaults(study::BoPreset::kFobo)));
  for (int k = 0; k < 12; ++k) {
    const Suggestion s = study.Ask();
    EXPECT_NE(s.origin, "quasi_newton");
    study.Complete(study.newest(), k, FullGradient(std::vector<double>(20, 1.0)));
  }
}

// The strengths of a builtin training: at the third ask the design is over if one of two trials has a gradient.
TEST(FirstGradientsTest, EndTheDesignOfFewStrengthsOfABuiltinTraining) {
  std::vector<study::ParameterSpec> parameters;
  for (int i = 0; i < 8; ++i) parameters.push_back(Float(NameOf(i), -2.0, 2.0));
  for (const bool builtin : {true, false}) {
    for (const bool gradient : {true, false}) {
      study::StudySpec spec = BoSpec(Space(parameters), 1, study::BoDefaults(study::BoPreset::kFobo));
      if (builtin) {
        study::BuiltinObjective training;
        training.model = "logistic";
        spec.objective = training;
      }
      MemoryStudy study(spec);
      study.Ask();
      study.Complete(1, 1.0, gradient ? std::optional(FullGradient(std::vector<double>(8, 1.0))) : std::nullopt);
      EXPECT_EQ(study.Ask().origin, "init");
      study.Complete(2, 2.0);
      EXPECT_EQ(study.Ask().origin == "init", !builtin || !gradient) << builtin << gradient;
    }
  }
}

}  // namespace
}  // namespace luthier::search
