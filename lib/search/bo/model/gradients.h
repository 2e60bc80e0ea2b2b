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

// Reported derivatives of the metric, as a model of scores over the unit cube sees them. docs/design/fobo.md.
namespace luthier::search {

// Known parts of the score's gradient at one point: derivatives per side of the unit cube, model coordinates.
struct ScoreSlopes {
  std::vector<int> axes;      // Coordinates whose derivatives are known; empty: the one along `direction` is.
  Eigen::VectorXd direction;  // d, of length 1; empty with axes.
  Eigen::VectorXd values;     // One an axis, or one. Finite.
  Eigen::VectorXd variances;  // Variances of their errors; likewise.

  bool empty() const { return values.size() == 0; }
};

// The chain rule between user units and the unit cube:
//   d(score)/du_j = +-d(metric)/dx_j dx_j/du_j,   dx_j/du_j = study::Encoding::UserPerUnit
class GradientUnits {
 public:
  GradientUnits(const study::Encoding& encoding, study::Goal goal);

  // Components that are not finite are left out one by one; so are those of inactive and constant parameters. An error
  // bound is taken as the standard deviation of each derivative. Empty when nothing usable is left, or when a direction
  // moves a constant parameter.
  ScoreSlopes FromUser(const study::Gradient& gradient, const study::Parameters& parameters) const;
  // A direction at a setting, in the coordinates of study::Gradient::direction: uniform on the unit sphere of the k
  // active continuous coordinates of the cube, and at right angles to those of the other asks of its group of k:
  // RandomStream(seed, "bo/direction", ask_index / k, 0 ... ask_index % k). Empty without any. O(k^3). CANCELLED:
  // `stop` was raised.
  absl::StatusOr<std::vector<double>> RandomDirection(const study::Parameters& parameters, uint64_t seed,
                                                      uint64_t ask_index, const base::StopToken& stop) const;

 private:
  const study::Encoding* encoding_;
  study::Goal goal_;
  std::vector<int> column_;  // Column of each differentiable parameter; -1: constant.
};

// Rows for a model of n points: everything known at them while n + rows <= full_rows, the best points first; else one
// slope a point, a gradient's along itself. Past max_rows, gp::SlopesWithin. one_each: one slope a point from the
// start.
gp::Slopes ModelSlopes(const std::vector<ScoreSlopes>& known, const Eigen::VectorXd& scores, Eigen::Index columns,
                       bool one_each, Eigen::Index full_rows, Eigen::Index max_rows);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_MODEL_GRADIENTS_H_
