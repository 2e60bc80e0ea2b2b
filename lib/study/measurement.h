#ifndef LUTHIER_LIB_STUDY_MEASUREMENT_H_
#define LUTHIER_LIB_STUDY_MEASUREMENT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace luthier::study {

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

  bool full() const { return direction.empty(); }
  friend bool operator==(const Gradient&, const Gradient&) = default;
};

// One point of a learning curve, or a trial's final result.
struct Measurement {
  int64_t step = 0;                       // >= 0; the objective's own axis (epochs, passes, iterations).
  std::map<std::string, double> metrics;  // User units. Intermediate values may be non-finite.
  std::optional<double> elapsed_seconds;  // Training time so far in this attempt.
  std::optional<Gradient> gradient;

  friend bool operator==(const Measurement&, const Measurement&) = default;
};

// Length, finiteness and direction of a gradient against a space with `dimension` differentiable parameters.
// INVALID_ARGUMENT with field paths relative to the gradient.
absl::Status ValidateGradient(const Gradient& gradient, int dimension);

// The directional derivative that a full gradient gives along `direction`: slope = gradient · direction, error at most
// the gradient's times |direction|. Absent when their lengths differ or the slope is not finite.
std::optional<Gradient> Along(const Gradient& full, const std::vector<double>& direction);

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_MEASUREMENT_H_
