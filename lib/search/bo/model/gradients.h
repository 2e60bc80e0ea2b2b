#ifndef LUTHIER_LIB_SEARCH_BO_MODEL_GRADIENTS_H_
#define LUTHIER_LIB_SEARCH_BO_MODEL_GRADIENTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/stop_token.h"
#include "lib/gp/slopes.h"
#include "lib/study/encoding.h"
#include "lib/study/history.h"
#include "lib/study/study_spec.h"

// Conversion of reported derivatives of the metric to derivatives of the score over the unit cube,
// which the model uses. docs/design/fobo.md.
namespace luthier::search {

// The known part of the score's gradient at one point, in model coordinates. Derivatives are per
// side of the unit cube. Either `axes` or `direction` is set.
struct ScoreSlopes {
  std::vector<int> axes;      // Coordinates whose derivatives are known.
  Eigen::VectorXd direction;  // d entries, norm 1: the direction whose derivative is known.
  Eigen::VectorXd values;     // One derivative an axis, or the one along `direction`. Finite.
  Eigen::VectorXd variances;  // Variances of the errors of `values`. Finite.

  bool empty() const { return values.size() == 0; }
};

// Returns the slope of a full gradient, which has axes, along itself. `columns`: model coordinates.
ScoreSlopes Steepest(const ScoreSlopes& full, Eigen::Index columns);

// The chain rule between user units and the unit cube:
//   d(score)/du_j = +-d(metric)/dx_j dx_j/du_j,   dx_j/du_j = study::Encoding::UserPerUnit
class GradientUnits {
 public:
  GradientUnits(const study::Encoding& encoding, study::Goal goal);

  // Converts a reported gradient at `parameters`. Components that are not finite, and those of
  // inactive and constant parameters, are left out one by one. An error bound counts as the
  // standard deviation of each derivative. The result is empty if nothing usable is left, or if a
  // direction moves a constant parameter.
  ScoreSlopes FromUser(const study::Gradient& gradient, const study::Parameters& parameters) const;
  // Returns a random direction at `parameters`, in the coordinates of study::Gradient::direction.
  // It is uniform on the unit sphere of the k active continuous coordinates of the cube. The
  // directions of k asks with the same ask_index / k are orthogonal: they are drawn from
  // RandomStream(seed, "bo/direction", ask_index / k, 0 ... ask_index % k). The result is empty if
  // k is 0. O(k^3). Returns CANCELLED if `stop` was raised.
  absl::StatusOr<std::vector<double>> RandomDirection(const study::Parameters& parameters, uint64_t seed,
                                                      uint64_t ask_index, const base::StopToken& stop) const;

 private:
  const study::Encoding* encoding_;
  study::Goal goal_;
  std::vector<int> column_;  // Column of each differentiable parameter, or -1 if it is constant.
};

// Returns the slopes that a model of n points uses. Points are served best first: each gives all
// its known derivatives while values and slopes fit into `full_rows`. The others give one slope
// each: for a full gradient, the derivative along the gradient itself. With `one_each` every point
// gives one slope. If values and slopes exceed `max_rows`, gp::SlopesWithin selects among the
// slopes.
gp::Slopes ModelSlopes(const std::vector<ScoreSlopes>& known, const Eigen::VectorXd& scores, Eigen::Index columns,
                       bool one_each, Eigen::Index full_rows, Eigen::Index max_rows);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_MODEL_GRADIENTS_H_
