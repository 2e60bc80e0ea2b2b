#ifndef LUTHIER_LIB_STUDY_MEASUREMENT_H_
#define LUTHIER_LIB_STUDY_MEASUREMENT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace luthier::study {

// Accuracy of a gradient by implicit differentiation, namely the distance of the training from its optimum and of the
// linear system from its solution. Of several folds the largest numbers, of `strong_convexity` the least. Finite and
// >= 0. Symbols as in lib/bilevel/inner_problem.h.
struct ImplicitSolve {
  double tolerance = 0.0;            // Tolerance asked for (Provenance::tolerance); 0: all digits.
  double inner_gradient_norm = 0.0;  // |grad_x h|
  double residual = 0.0;             // |H q - grad_x g|
  double outer_gradient_norm = 0.0;  // |grad_x g|
  double strong_convexity = 0.0;     // mu, a bound or an estimate; 0: unknown.
  // Bound on the Euclidean error of the derivatives by the logarithms of the parameters; absent: unknown.
  std::optional<double> log_error_bound;
  bool certified = false;  // log_error_bound and strong_convexity are proven.
  friend bool operator==(const ImplicitSolve&, const ImplicitSolve&) = default;
};

// Derivative information about the study's metric at a trial's parameters, in user units: d(metric)/d(parameter value),
// whatever the parameter's scale. Coordinates are the search space's differentiable parameters (SearchSpace::
// differentiable()) in the order of the study's space; inactive ones are 0.
struct Gradient {
  // Full gradient when `direction` is empty: one entry a differentiable parameter.
  std::vector<double> values;
  // Directional derivative: slope = gradient · direction. `values` is empty then. Same coordinates, any nonzero length.
  std::vector<double> direction;
  double slope = 0.0;
  // Bound on the Euclidean error of the full gradient, or on |error| of the slope; absent: unknown.
  std::optional<double> error_bound;
  std::optional<ImplicitSolve> solve = std::nullopt;  // Full gradients only; absent: unknown.
  // As it came from outside: derivatives by parameters' names, a missing one unknown. FromNames (search_space.h) makes
  // one of the two kinds above of it.
  std::map<std::string, double> by_name = {};

  bool full() const { return direction.empty(); }
  friend bool operator==(const Gradient&, const Gradient&) = default;
};

// Derivative of the study's metric that can be used by whoever asked for an evaluation.
enum class GradientUse { kNone, kFull, kDirectional };
absl::string_view GradientUseName(GradientUse use);  // "none", "full", "directional".

// Outcomes of the training behind a measurement, from best to worst.
enum class TrainingOutcome {
  kConverged,  // The gradient or the duality gap is as small as the tolerance asks for.
  kPrecision,  // No further step lowers the objective in floating point.
  kTarget,     // It went as far as asked for: a rung, or a limit that the user set or tunes.
  kLimit,      // A limit that nobody chose ended it: the metrics are not those of the optimum.
  kDiverged,   // The loss or its gradient is not finite.
};
inline constexpr int kTrainingOutcomeCount = 5;
absl::string_view TrainingOutcomeName(TrainingOutcome outcome);  // "converged", "precision", "target", …
// INVALID_ARGUMENT that names all outcomes.
absl::StatusOr<TrainingOutcome> ParseTrainingOutcome(absl::string_view name);

// Report on the training behind a measurement. For several folds: the worst outcome, and the largest numbers.
struct TrainingReport {
  TrainingOutcome outcome = TrainingOutcome::kConverged;
  // Largest entry of the gradient of the training objective as a multiple of the largest one at zero weights. >= 0.
  std::optional<double> gradient_norm;
  // Bound on what the training objective lies above its minimum, as a multiple of its value at zero weights. >= 0.
  std::optional<double> duality_gap;

  friend bool operator==(const TrainingReport&, const TrainingReport&) = default;
};

// The report of several trainings together. A number is absent when it is absent in one of them.
TrainingReport Worse(const TrainingReport& a, const TrainingReport& b);

// One point of a learning curve, or a trial's final result.
struct Measurement {
  int64_t step = 0;                       // >= 0; the objective's own axis (epochs, passes, iterations).
  std::map<std::string, double> metrics;  // User units. Intermediate values may be non-finite.
  std::optional<double> elapsed_seconds;  // Training time so far in this attempt.
  std::optional<Gradient> gradient;
  std::optional<TrainingReport> training;              // Not set in intermediate points, or if not reported.
  std::optional<double> gradient_seconds;              // The part of elapsed_seconds that went into the gradient.
  std::map<std::string, double> standard_errors = {};  // Errors of some of the metrics; finite and >= 0.
  std::map<std::string, Gradient> gradients = {};      // Gradients of metrics other than that of `gradient`.

  friend bool operator==(const Measurement&, const Measurement&) = default;
};

// Checks length, finiteness and direction of a gradient against a space with `dimension` differentiable parameters.
// Returns INVALID_ARGUMENT with field paths relative to the gradient.
absl::Status ValidateGradient(const Gradient& gradient, int dimension);

// Checks that all numbers are finite and at least 0. Returns INVALID_ARGUMENT with field paths relative to the report.
absl::Status ValidateTraining(const TrainingReport& report);
// Checks that a time in seconds is finite and at least 0. Returns INVALID_ARGUMENT naming `field`.
absl::Status ValidateSeconds(double seconds, absl::string_view field);

// Returns the directional derivative that a full gradient gives along `direction`: slope = gradient · direction, error
// at most the gradient's times |direction|. Returns std::nullopt if their lengths differ or the slope is not finite.
std::optional<Gradient> Along(const Gradient& full, const std::vector<double>& direction);

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_MEASUREMENT_H_
