#ifndef LUTHIER_BENCH_REPRODUCE_ROBOT_PUSH_H_
#define LUTHIER_BENCH_REPRODUCE_ROBOT_PUSH_H_

#include <array>

// Pushing a disc with a robot's hand, seen from above: the task of Wang & Jegelka 2017, "Max-value entropy search for
// efficient Bayesian optimization", simulated by Box2D. Lengths in metres, times in seconds.
//
// The disc (radius 1) lies at the origin and slides with friction; the hand, a bar of 0.6 x 2, starts at `hand` and is
// driven at `velocity` for `steps` steps of 0.01 s, then let go. Everything comes to rest within a second. No noise:
// where the source disturbs the velocity by N(0, 0.1^2), we do not.
namespace luthier::reproduce {

struct Push {
  std::array<double, 2> hand = {0.0, 0.0};      // Centre at the start.
  double angle = 0.0;                           // Of the bar's short side against the x axis, radians.
  std::array<double, 2> velocity = {0.0, 0.0};  // Wanted by the controller.
  int steps = 0;                                // >= 0.
};

struct PushOutcome {
  std::array<double, 2> disc;  // Where the disc ends.
  std::array<double, 2> hand;
  double energy_released;  // Kinetic energy of both when the hand is let go, joules; and at the end.
  double energy_left;
  bool energy_grew = false;  // Whether it ever grew between the two by more than round-off.
};

// Deterministic. Starting positions in which hand and disc overlap are legal: they are pushed apart.
PushOutcome Simulate(const Push& push);

// The task's two parametrisations. A hand in the very middle pushes along x.
//   3-D: position, and t_r in [1, 30] tenths of a second: towards the disc at 5 m/s, the bar across the way.
//   4-D: besides the bar's angle; towards the origin at 10 m/s.
Push Push3(double x, double y, double duration);
Push Push4(double x, double y, double duration, double angle);

}  // namespace luthier::reproduce

#endif  // LUTHIER_BENCH_REPRODUCE_ROBOT_PUSH_H_
