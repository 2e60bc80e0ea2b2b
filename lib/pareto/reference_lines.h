#ifndef LUTHIER_LIB_PARETO_REFERENCE_LINES_H_
#define LUTHIER_LIB_PARETO_REFERENCE_LINES_H_

#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"

// Reference lines of NSGA-III (Deb & Jain 2014, "An evolutionary many-objective optimization algorithm using
// reference-point-based nondominated sorting approach"). With more than three objectives, distances between neighbours
// say little about how a front is covered; lines from its ideal point do.
namespace luthier::pareto {

// Returns the points of the simplex {w >= 0, sum w = 1} whose coordinates are multiples of 1/divisions, a row each, in
// lexicographic order: binomial(divisions + objectives - 1, objectives - 1) of them (Das & Dennis 1998).
Eigen::MatrixXd SimplexLattice(int objectives, int divisions);

// Returns at least `objectives` and, where that allows it, at most `most` directions: the lattice with the most
// divisions, and if it has none inside of the simplex (divisions < objectives) the largest one, too, that fits with it
// and is drawn in to half its distance from the centre (section IV.B of the paper). At least 2 objectives.
Eigen::MatrixXd ReferenceDirections(int objectives, int most);

// Place of a point among the lines.
struct Niche {
  Eigen::Index line = 0;  // The nearest one; the first of equally near ones.
  double distance = 0.0;  // From it, in the units of Normalized.
};

// Returns by how much each point (larger is better) is short of the best of each column, in units in which the plane
// through the extreme points cuts every axis at 1 (section IV.C), but no unit is larger than the largest shortfall in
// its column. The extreme point of an axis is the row with the least largest shortfall, where those of other columns
// count 10^6 times. Where the extreme points span no plane that cuts every axis, the units are the largest shortfalls;
// 1 where that is 0.
Eigen::MatrixXd Normalized(const Eigen::Ref<const Eigen::MatrixXd>& points);

// Returns the niche of each normalised row. Returns CANCELLED if `stop` was raised.
absl::StatusOr<std::vector<Niche>> Niches(const Eigen::Ref<const Eigen::MatrixXd>& normalized,
                                          const Eigen::Ref<const Eigen::MatrixXd>& directions,
                                          const base::StopToken& stop);

}  // namespace luthier::pareto

#endif  // LUTHIER_LIB_PARETO_REFERENCE_LINES_H_
