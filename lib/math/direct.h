#ifndef LUTHIER_LIB_MATH_DIRECT_H_
#define LUTHIER_LIB_MATH_DIRECT_H_

#include "Eigen/Core"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"

namespace luthier::math {

// Values of a function at the points in the rows of its argument (q x d, inside the unit cube, q >= 1): q numbers. NaN
// and +-infinity mean "nothing here": such points are divided on but never returned. An error ends the search. A
// function that has none may return the vector.
using BatchFunction = absl::FunctionRef<absl::StatusOr<Eigen::VectorXd>(const Eigen::MatrixXd& points)>;

enum class DirectSize {
  kDiagonal,    // Half the diagonal of a cell (Jones, Perttunen & Stuckman 1993).
  kLongestSide  // Its longest side (Gablonsky & Kelley 2001): fewer size classes, so more local.
};

enum class DirectMargin {
  kMedianGap,  // epsilon (median of the values - F_min): invariant to a F + b, a > 0 (Finkel & Kelley 2006).
  kMagnitude   // epsilon max(|F_min|, 1e-8 (F_max - F_min)), as first published: depends on where zero is.
};

struct DirectOptions {
  DirectSize size = DirectSize::kDiagonal;
  DirectMargin margin = DirectMargin::kMedianGap;
  // True: if several cells of one size have the same lowest value, only the oldest is divided. False: all are.
  bool locally_biased = false;
  // The gain a cell must promise, see DirectMargin. >= 0. Published with kMagnitude: 1e-4. With kMedianGap 1e-4 delays
  // Branin by 30 %, while 3e-5 and below visit the same points as published on all five functions of the test.
  double epsilon = 1e-5;
  int max_evaluations = 0;  // 0: min(500 d, 20000).
  // Cells smaller than this (in the units of `size`) are not divided. The search ends when one would be.
  double min_size = 1e-8;
};

enum class DirectOutcome {
  kLimit,    // max_evaluations were spent.
  kSmall,    // A cell of the convex hull became smaller than min_size.
  kNoPoint,  // No value was finite: x is the cube's centre and value +infinity.
};

struct DirectResult {
  Eigen::VectorXd x;
  double value = 0.0;
  int evaluations = 0;
  int not_finite = 0;  // Among the evaluations.
  DirectOutcome outcome = DirectOutcome::kLimit;
};

// Minimises f over [0,1]^dim by dividing the cube (Jones, Perttunen & Stuckman 1993, "Lipschitzian optimization without
// the Lipschitz constant"). The cells' lowest values by size are put in a plane; those on the lower right convex hull,
// from the cell of the smallest value F_min on, whose lower bound F_j - K_j size_j undercuts F_min by the margin are
// divided: along each longest side the points c +- side/3 are evaluated and the cell is cut in three along these sides,
// first along the one with the lowest value, so that low values get large cells.
//
// One call of f evaluates all new centres of a sweep, in the order in which a sequential version would. Cells without a
// finite value count as the largest finite value so far + 1. Deterministic. dim = 0 is legal (one evaluation). Memory:
// O(d) numbers an evaluation. Looks at `stop` before each sweep. Errors: CANCELLED, and those of f.
absl::StatusOr<DirectResult> MinimizeDirect(BatchFunction f, Eigen::Index dim, const DirectOptions& options,
                                            const base::StopToken& stop);

}  // namespace luthier::math

#endif  // LUTHIER_LIB_MATH_DIRECT_H_
