#include "bench/reproduce/robot_push.h"

#include <cmath>
#include <numbers>

#include "bench/reproduce/problems.h"
#include "gtest/gtest.h"
#include "lib/base/random.h"

namespace luthier::reproduce {
namespace {

using std::numbers::pi;

TEST(RobotPush, AHandThatNeverMovesLeavesTheDiscWhereItIs) {
  const PushOutcome end = Simulate({{-3.0, 0.0}, 0.0, {5.0, 0.0}, 0});
  EXPECT_EQ(end.disc[0], 0.0);
  EXPECT_EQ(end.disc[1], 0.0);
  EXPECT_EQ(end.energy_released, 0.0);
}

TEST(RobotPush, APushFromTheLeftMovesTheDiscStraightToTheRight) {
  const PushOutcome end = Simulate(Push3(-3.0, 0.0, 15.0));
  EXPECT_GT(end.disc[0], 1.0);
  EXPECT_NEAR(end.disc[1], 0.0, 0.05);
}

// The controller's force 30 m (5 - v), m = 0.12, holds against friction of 2 N at v = 4.444 alone and of 7 N at v =
// 3.056 with the disc, and gets there within 1/30 s. The disc, of radius 1, is touched after 1.7, half the hand's width
// being 0.3. Then the two go on together.
TEST(RobotPush, GoesAsFarAsForcesAndFrictionLetIt) {
  const double touched = 1.7 / 4.444 + 1.0 / 30.0;
  for (const double seconds : {1.0, 2.0, 3.0}) {
    const PushOutcome end = Simulate(Push3(-3.0, 0.0, 10.0 * seconds));
    EXPECT_NEAR(end.disc[0], 3.056 * (seconds - touched), 0.3) << seconds;
    EXPECT_NEAR(end.disc[0] - end.hand[0], 1.3, 0.3) << seconds;
  }
}

TEST(RobotPush, ALongerPushGoesFarther) {
  double last = -1.0;
  for (double duration : {5.0, 10.0, 15.0, 20.0, 25.0, 30.0}) {
    const PushOutcome end = Simulate(Push3(-3.0, 0.0, duration));
    EXPECT_GT(end.disc[0], last - 1e-6) << duration;
    last = end.disc[0];
  }
  EXPECT_GT(last, 7.0);
}

TEST(RobotPush, ComesToRestAndNeverGainsEnergyAlone) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    base::RandomStream random(seed, "robot_push_test");
    const double x = 10.0 * random.Uniform() - 5.0, y = 10.0 * random.Uniform() - 5.0;
    const double duration = 1.0 + 29.0 * random.Uniform();
    const PushOutcome end =
        Simulate(seed % 2 == 0 ? Push3(x, y, duration) : Push4(x, y, duration, 2.0 * pi * random.Uniform()));
    EXPECT_FALSE(end.energy_grew) << "seed " << seed;
    EXPECT_LT(end.energy_left, 1e-6) << "seed " << seed;
    EXPECT_TRUE(std::isfinite(end.disc[0]) && std::isfinite(end.disc[1]));
  }
}

// The world has no preferred direction: turning start, angle and velocity turns the outcome. Single precision and
// friction make that approximate.
TEST(RobotPush, TurningEverythingTurnsTheOutcome) {
  const PushOutcome right = Simulate(Push3(-3.0, 0.0, 12.0));
  const PushOutcome up = Simulate({{0.0, -3.0}, pi / 2.0, {0.0, 5.0}, 120});
  EXPECT_NEAR(right.disc[0], up.disc[1], 0.02);
}

TEST(RobotPush, StartsThatOverlapTheDiscAreLegal) {
  for (const double x : {0.0, 0.2, -0.9}) {
    const PushOutcome end = Simulate(Push3(x, 0.0, 10.0));
    EXPECT_TRUE(std::isfinite(end.disc[0]));
    EXPECT_LT(end.energy_left, 1e-6);
  }
}

TEST(RobotPush, RepeatsToTheLastBit) {
  const PushOutcome a = Simulate(Push4(2.0, -3.0, 17.0, 1.0)), b = Simulate(Push4(2.0, -3.0, 17.0, 1.0));
  EXPECT_EQ(a.disc, b.disc);
}

TEST(RobotProblem, IsTheDistanceToAGoalThatTheSeedPlaces) {
  const study::Parameters push = {{"x", -3.0}, {"y", 0.0}, {"duration", 15.0}};
  const Problem one = MakeProblem("robot3", 1).value(), same = MakeProblem("robot3", 1).value();
  const Problem other = MakeProblem("robot3", 2).value();
  EXPECT_EQ(one.base.evaluate(push), same.base.evaluate(push));
  EXPECT_NE(one.base.evaluate(push), other.base.evaluate(push));
  // No push at all and the right push.
  base::RandomStream random(1, "reproduce/goal");
  const double goal_x = 10.0 * random.Uniform() - 5.0, goal_y = 10.0 * random.Uniform() - 5.0;
  const double distance = std::hypot(goal_x, goal_y);
  double best = 1e9;
  for (double duration = 5.0; duration < 20.0; duration += 1.0) {
    const double scale = -3.5 / distance;
    best = std::min(best, one.base.evaluate({{"x", scale * goal_x}, {"y", scale * goal_y}, {"duration", duration}}));
  }
  EXPECT_LT(best, 0.5 * distance);
}

}  // namespace
}  // namespace luthier::reproduce
