#ifndef LUTHIER_LIB_MATH_SLICE_SAMPLER_H_
#define LUTHIER_LIB_MATH_SLICE_SAMPLER_H_

#include <cstdint>
#include <vector>

#include "Eigen/Core"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/random.h"

namespace luthier::math {

// Logarithm of an unnormalised density. -infinity outside its support; NaN counts as -infinity. +infinity is not legal:
// give a density with a pole a floor. Functions return an error of the density (CANCELLED if it polls a stop); the
// chain's state is then as before, the stream and the counts are not. A density without errors may return double.
using LogDensity = absl::FunctionRef<absl::StatusOr<double>(const Eigen::VectorXd& x)>;

enum class SliceExpansion {
  kLinear,  // Steps of `width`, at most max_steps in all, split between the sides at random (Neal 2003, fig. 3: a fixed
            // limit for each side would not leave the density invariant where it binds).
  kDoubling  // Doubles a random side, then accepts a point only if it could have led to the same interval (Neal 2003,
             // fig. 4 and 6).
};

struct SliceOptions {
  SliceExpansion expansion = SliceExpansion::kLinear;
  double width = 1.0;      // First interval's length, > 0, in units of x.
  int max_steps = 16;      // kLinear, >= 0.
  int max_doublings = 30;  // kDoubling: 0 … 1000.
  int max_shrinks = 60;    // Then the old point is kept. >= 1.
};

// Counts of a sampler's work. Calls add to them and never reset them.
struct SliceCounts {
  int64_t evaluations = 0;  // Evaluations of the log density.
  int64_t kept = 0;         // Steps that kept the old point after max_shrinks.
};

// A chain's state. Everything a later run needs to go on is x (log_density can be computed anew).
struct SliceState {
  Eigen::VectorXd x;
  double log_density = 0.0;  // At x, finite.
};

// Fills in the state at x. Returns false if the log density there is not finite: the chain cannot start from x; the
// state is still filled. Counts one evaluation.
absl::StatusOr<bool> StartSlice(LogDensity density, const Eigen::VectorXd& x, SliceState* state, SliceCounts* counts);

// One slice-sampling update of x along `direction` (x.size(), not zero, normalised here). Leaves the density invariant
// (and is reversible), whatever the limits. state->log_density must be finite.
absl::Status SliceAlong(LogDensity density, const Eigen::VectorXd& direction, const SliceOptions& options,
                        base::RandomStream& stream, SliceState* state, SliceCounts* counts);

// Calls SliceAlong with a direction uniform on the sphere of the coordinates `block` (indices into x, not empty): a
// joint move.
absl::Status SliceRandomDirection(LogDensity density, const std::vector<int>& block, const SliceOptions& options,
                                  base::RandomStream& stream, SliceState* state, SliceCounts* counts);

// Calls SliceAlong for each coordinate of `block` once, in random order.
absl::Status SliceCoordinates(LogDensity density, const std::vector<int>& block, const SliceOptions& options,
                              base::RandomStream& stream, SliceState* state, SliceCounts* counts);

}  // namespace luthier::math

#endif  // LUTHIER_LIB_MATH_SLICE_SAMPLER_H_
