#include "lib/stopping/curve_stopper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "lib/base/random.h"

namespace luthier::stopping {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(StudentQuantileTest, AgreesWithTables) {
  // Abramowitz & Stegun, table 26.10.
  const struct {
    double p;
    int degrees;
    double quantile;
  } kTable[] = {{0.95, 1, 6.314},  {0.95, 2, 2.920},   {0.95, 3, 2.353},  {0.95, 4, 2.132},   {0.95, 10, 1.812},
                {0.95, 30, 1.697}, {0.975, 3, 3.182},  {0.975, 5, 2.571}, {0.975, 60, 2.000}, {0.99, 2, 6.965},
                {0.99, 7, 2.998},  {0.995, 20, 2.845}, {0.9, 4, 1.533},   {0.9, 62, 1.295},   {0.5, 9, 0.0}};
  for (const auto& row : kTable) {
    EXPECT_NEAR(StudentQuantile(row.p, row.degrees), row.quantile, 6e-4) << row.p << " " << row.degrees;
  }
}

std::vector<StepLoss> Curve(int steps, double floor, double scale, double exponent, double noise, uint64_t seed) {
  base::RandomStream random(seed, "test/curve");
  std::vector<StepLoss> points;
  for (int t = 1; t <= steps; ++t) {
    points.push_back({static_cast<double>(t), floor + scale * std::pow(t, -exponent) + noise * random.Normal()});
  }
  return points;
}

TEST(LossBoundTest, LiesBelowTheTruthForPowerLaws) {
  // 300 curves of each kind: at 95% nearly all bounds must hold, whatever the exponent, also between those of the grid.
  for (const double exponent : {0.1, 0.3, 0.5, 0.8, 1.5}) {
    for (const double noise : {0.0, 0.001, 0.02}) {
      int wrong = 0;
      for (uint64_t seed = 0; seed < 300; ++seed) {
        const int steps = 6 + static_cast<int>(seed % 60);
        const double bound = LossBound(Curve(steps, 0.2, 0.8, exponent, noise, seed), 100.0, 0.95);
        const double truth = 0.2 + 0.8 * std::pow(100.0, -exponent);
        wrong += bound > truth ? 1 : 0;
      }
      EXPECT_LE(wrong, 15) << exponent << " " << noise;
    }
  }
}

TEST(LossBoundTest, SaysSomethingUsefulAboutFlatCurves) {
  // 30 of 100 steps, on a plateau: the bound is near it.
  EXPECT_GT(LossBound(Curve(30, 0.5, 0.8, 1.5, 0.001, 1), 100.0, 0.95), 0.47);
  EXPECT_EQ(LossBound(Curve(30, 0.5, 0.0, 1.0, 0.0, 1), 100.0, 0.95), 0.5);
}

TEST(LossBoundTest, ScalesAndShiftsWithTheLosses) {
  const std::vector<StepLoss> curve = Curve(20, 0.2, 0.8, 0.5, 0.01, 3);
  std::vector<StepLoss> other = curve;
  for (StepLoss& p : other) p.loss = 1000.0 * p.loss - 7.0;
  EXPECT_NEAR(LossBound(other, 100.0, 0.95), 1000.0 * LossBound(curve, 100.0, 0.95) - 7.0, 1e-8);
}

TEST(LossBoundTest, SurvivesWhatIsNoCurve) {
  EXPECT_EQ(LossBound({{1, 1}, {2, 1}, {3, 1}}, 10.0, 0.95), -kInfinity);
  EXPECT_EQ(LossBound({{1, 4}, {2, 3}, {3, 2}, {10, 1}}, 10.0, 0.95), -kInfinity);  // Nothing to extrapolate.
  EXPECT_EQ(LossBound({{1, 1e308}, {2, -1e308}, {3, 1e308}, {4, 0}}, 10.0, 0.95), -kInfinity);
  EXPECT_TRUE(std::isfinite(LossBound({{1, 1e300}, {2, 1e299}, {3, 1e298}, {4, 1e297}}, 1e12, 0.95)));
  EXPECT_TRUE(std::isfinite(LossBound({{1, 1e-320}, {2, 2e-320}, {3, 0}, {4, 1e-310}}, 1e12, 0.999999)));
  // Rising: at best as low as on average, less what noise may do.
  EXPECT_GT(LossBound({{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}}, 10.0, 0.95), -8.0);
}

study::StudySpec Spec(study::Goal goal) {
  study::StudySpec spec;
  spec.metric.goal = goal;
  spec.resource = study::Resource{.min = 1, .max = 100, .unit = ""};
  return spec;
}

TEST(CurveStopperTest, StopsAPlateauAboveTheBestAndNothingElse) {
  for (const study::Goal goal : {study::Goal::kMinimize, study::Goal::kMaximize}) {
    CurveStopper stopper(Spec(goal), study::CurveStopping{});
    const auto report = [&](int64_t trial, const std::vector<StepLoss>& curve) {
      Verdict verdict = Verdict::kContinue;
      for (const StepLoss& p : curve) {
        const auto step = static_cast<int64_t>(p.step);
        stopper.Report(trial, step, study::Score(goal, -p.loss));
        if (verdict == Verdict::kContinue) verdict = stopper.Decide(trial, step).verdict;
      }
      return verdict;
    };
    const std::vector<StepLoss> plateau = Curve(40, 0.5, 0.8, 1.5, 0.001, 1);
    EXPECT_EQ(report(1, plateau), Verdict::kContinue);  // Nothing COMPLETE yet.
    stopper.Finish(1, study::TrialState::kPruned, study::Score(goal, -0.5));
    EXPECT_EQ(report(2, plateau), Verdict::kContinue);
    stopper.Finish(2, study::TrialState::kComplete, study::Score(goal, -0.3));
    EXPECT_EQ(report(3, plateau), Verdict::kStop);
    EXPECT_EQ(report(4, Curve(40, 0.1, 0.8, 0.5, 0.001, 2)), Verdict::kContinue);   // Still falling.
    EXPECT_EQ(report(5, Curve(40, 0.25, 0.8, 1.5, 0.001, 2)), Verdict::kContinue);  // A better plateau.
    const double none = std::nan("");
    EXPECT_EQ(report(6, {{1, none}, {2, none}, {3, none}, {4, none}, {5, none}}), Verdict::kContinue);
    EXPECT_EQ(report(7, {{1, none}, {2, none}, {3, none}, {4, none}, {5, none}, {6, none}}), Verdict::kStop);
  }
}

TEST(CurveStopperTest, WaitsForWarmupPointsAndInterval) {
  study::CurveStopping rule;
  rule.warmup = 20;
  rule.min_points = 8;
  rule.interval = 5;
  CurveStopper stopper(Spec(study::Goal::kMinimize), rule);
  stopper.Finish(1, study::TrialState::kComplete, 0.1);
  std::vector<int64_t> stops;
  for (const StepLoss& p : Curve(40, 0.5, 0.8, 1.5, 0.001, 1)) {
    const auto step = static_cast<int64_t>(p.step);
    stopper.Report(2, step, p.loss);
    if (stopper.Decide(2, step).verdict == Verdict::kStop) stops.push_back(step);
  }
  EXPECT_THAT(stops, ::testing::ElementsAre(20, 25, 30, 35, 40));
}

}  // namespace
}  // namespace luthier::stopping
