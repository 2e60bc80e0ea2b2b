#ifndef LUTHIER_LIB_SIMULATE_TRAINING_H_
#define LUTHIER_LIB_SIMULATE_TRAINING_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/simulate/simulate.h"
#include "lib/study/search_space.h"
#include "lib/study/study_spec.h"

// Studies whose trials report on the way, with workers that pause, stop and go on, in this process: what the algorithms
// that train in parts and the stopping rules save.
namespace luthier::simulate {

struct TrainingProblem {
  std::string name;
  study::SearchSpace space;
  study::Goal goal = study::Goal::kMinimize;
  // The metric after `step` >= 1 units of training. One that is not finite, at the end, makes the trial FAILED.
  std::function<double(const study::Parameters&, int64_t step)> value;
  // The step, 1 … resource.max, at which a training is over by itself: converged, or broken down. Empty: resource.max.
  std::function<int64_t(const study::Parameters&)> length;
};

struct TrainingOptions {
  TrainingProblem problem;
  study::AlgorithmSpec algorithm;
  study::Resource resource;
  std::optional<study::StoppingRule> stopping;
  int64_t trials = 100;      // Settings: budget.max_trials.
  int64_t workers = 1;       // 1 … 10^4.
  int64_t report_every = 1;  // Units between reports; a target is reported in any case.
  bool checkpoints = true;   // A continued trial goes on where it was, rather than from the beginning.
  uint64_t seed = 0;
};

struct TrainingSummary {
  int64_t settings = 0;
  int64_t complete = 0;
  int64_t stopped = 0;  // PRUNED by a rule.
  int64_t paused = 0;   // Left PAUSED at the end.
  int64_t failed = 0;
  int64_t promotions = 0;
  double training = 0.0;       // Units, of all workers together.
  double elapsed = 0.0;        // Simulated time, in the mean time of one unit.
  double idle = 0.0;           // Share of the workers' time before the last new setting that they had nothing to do.
  std::optional<double> best;  // The best COMPLETE value.
};

// One run. Each trial's units take a time of its own, uniform in [0.5, 1.5], from the stream (seed, "simulate/speed",
// trial); reports, pauses and stops take none. A function of the options alone. Returns INVALID_ARGUMENT for options
// out of range, or an algorithm that does not suit the problem.
absl::StatusOr<TrainingSummary> SimulateTraining(const TrainingOptions& options);

// A loss with learning curves that cross, over `lr` (log), `width` and `decay`: power laws that end, at step `whole`,
// in a smooth function of the setting with the minimum 0.1, and fall the more slowly the smaller the learning rate.
TrainingProblem CurveProblem(int64_t whole);

// A problem of simulate.h with learning curves that end in its value at step `whole`:
//   value(x, t) = value(x) + worse * ((t/whole)^-c - 1) / (whole^c - 1),  c = 0.3 + 0.9 * (mean of x in the unit cube)
// so that curves cross; `worse` makes the first step as bad as the median of 64 Sobol points is worse than the best of
// them. Maximized problems: the other way round.
TrainingProblem WithCurves(const Problem& problem, int64_t whole);

}  // namespace luthier::simulate

#endif  // LUTHIER_LIB_SIMULATE_TRAINING_H_
