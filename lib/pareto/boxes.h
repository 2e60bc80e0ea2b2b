#ifndef LUTHIER_LIB_PARETO_BOXES_H_
#define LUTHIER_LIB_PARETO_BOXES_H_

#include <optional>
#include <vector>

#include "Eigen/Core"

namespace luthier::pareto {

// Disjoint boxes that cover what is above a reference point and that no point of a front dominates: the places at which
// a new result would add hypervolume. Corners are given by levels, so that a caller evaluates a function of one
// coordinate once a level. Boxes of no volume are left out.
struct Boxes {
  // The distinct coordinates of the corners in column j, ascending: the reference's first, +infinity last.
  std::vector<std::vector<double>> levels;
  // A row a box, a column an objective: the box is [levels[j][lower(k, j)], levels[j][upper(k, j)]) in column j.
  Eigen::MatrixXi lower, upper;

  Eigen::Index count() const { return lower.rows(); }
};

// Returns those boxes, for the rows of `points` that are above `reference` (one entry a column, at least one).
// Dominated rows change nothing. f such points that dominate none of one another give f + 1 boxes of two columns, at
// most 2f + 1 of three and O(f^2) of four. Returns std::nullopt if there would be more than `most_boxes`.
//
// Each box belongs to a local bound: a maximal corner b below which no box may begin, with a point z^j of the front, or
// the reference, that defines its coordinate j (Lacour, Klamroth & Fonseca 2017, "A box decomposition algorithm to
// compute the hypervolume indicator", sections 2 and 3). The bounds follow from one another as points are added. The
// box of b is
//   column m: [b_m, infinity)          column j < m: [b_j, min over k > j of z^k_j)
// A point above the reference that nothing dominates lies in exactly one of them: lower its last coordinate until a
// point of the front is met, then the one before that, and so on; each step gives the one b_j and z^j that are
// possible. Equal coordinates are taken as though the one of the later row were larger; the boxes between them have no
// volume.
std::optional<Boxes> BoxesAbove(const Eigen::Ref<const Eigen::MatrixXd>& points,
                                const Eigen::Ref<const Eigen::VectorXd>& reference, Eigen::Index most_boxes);

}  // namespace luthier::pareto

#endif  // LUTHIER_LIB_PARETO_BOXES_H_
