#ifndef LUTHIER_LIB_SIMULATE_SIMULATE_H_
#define LUTHIER_LIB_SIMULATE_SIMULATE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lib/study/search_space.h"
#include "lib/study/study_spec.h"

// Runs a search algorithm against a function in this process: no server, no storage, no waiting. For comparing
// algorithms and for trying out a new one.
namespace luthier::simulate {

struct Problem {
  std::string name;
  study::SearchSpace space;
  study::Goal goal = study::Goal::kMinimize;
  std::optional<double> optimum;  // The best possible value, if it is known.
  // The value at a valid setting. A non-finite one makes the trial FAILED.
  std::function<double(const study::Parameters&)> evaluate;
  // The derivatives of the value by the space's differentiable parameters, or null. They are reported beside every
  // value: in full, or along the direction that a suggestion asks for.
  std::function<std::vector<double>(const study::Parameters&)> gradient = nullptr;
};

struct SimulateOptions {
  study::AlgorithmSpec algorithm;
  std::string label;  // Label of the algorithm in the rows; empty: its name.
  Problem problem;
  int64_t evaluations = 50;  // Evaluations of each run. 1 … 10^6.
  int64_t seeds = 1;         // Runs, with study seeds first_seed, first_seed + 1, …. 1 … 10^6.
  uint64_t first_seed = 0;
  int64_t parallel = 1;  // Workers. 1 … 10^4.
  // Standard deviation of the normal noise that is added to each value before the algorithm sees it, from the stream
  // (seed, "simulate/noise", trial); derivatives stay exact. Finite, not negative.
  double noise = 0.0;
};

// One finished evaluation.
struct Row {
  std::string algorithm;
  std::string function;
  uint64_t seed = 0;
  int64_t evaluation = 0;        // From 1, in order of finishing.
  double value = 0.0;            // As reported, with its noise. NaN where the function has none.
  double best = 0.0;             // The function's value where the best one so far was reported; NaN before the first.
  std::optional<double> regret;  // |best - optimum|; absent while one of the two is unknown.
  double suggest_ms = 0.0;       // CPU time that the algorithm took for this setting.
};

// Runs all seeds one after the other and hands every row to `row` at once; `row` returns false to stop early.
//
// With P workers the runs are asynchronous: an event-driven simulation in which an evaluation takes a time of
// exponential distribution, drawn from the stream (seed, "simulate/duration", trial), the same for every algorithm.
// Workers that are free ask at once; so the algorithm always sees P - 1 open trials. Nothing waits: simulated time is a
// number.
//
// A run whose space is exhausted ends with fewer rows. All columns but suggest_ms depend on the options only.
// `cpu_time` is read before and after each suggestion: ThreadCpuTime in programs, a fake in tests. Returns
// INVALID_ARGUMENT for options out of range, a bad problem, or an algorithm that does not suit it.
absl::Status Simulate(const SimulateOptions& options, absl::FunctionRef<absl::Duration()> cpu_time,
                      absl::FunctionRef<bool(const Row&)> row);

// CPU time of the calling thread.
absl::Duration ThreadCpuTime();

// A test function of lib/objectives (`luthier objectives` lists them as function:NAME) as a problem. With `shift`: in
// the box that catalogue::ShiftedBounds gives for that seed, and named NAME+shift.
// NOT_FOUND, with the closest name, for any other.
absl::StatusOr<Problem> TestProblem(absl::string_view name, std::optional<uint64_t> shift = std::nullopt);

// Return the columns algorithm,function,seed,evaluation,value,best,regret,suggest_ms without a line end; RFC 4180
// quoting; unknown values empty.
std::string CsvHeader();
std::string CsvLine(const Row& row);

}  // namespace luthier::simulate

#endif  // LUTHIER_LIB_SIMULATE_SIMULATE_H_
