#ifndef LUTHIER_LIB_PARETO_CROWDING_H_
#define LUTHIER_LIB_PARETO_CROWDING_H_

#include "Eigen/Core"

namespace luthier::pareto {

// Returns how much room each row of a layer has (Deb, Pratap, Agarwal & Meyarivan 2002, "A fast and elitist
// multiobjective genetic algorithm: NSGA-II", section III.B): the sum over the columns of the distance between its two
// neighbours in that column, as a share of the column's extent. Infinite for the rows at the two ends of a column, and
// for all rows of one or two. Of equal values the row that comes first is the smaller. A column in which all rows are
// equal adds nothing. O(n m log n).
Eigen::VectorXd CrowdingDistances(const Eigen::Ref<const Eigen::MatrixXd>& points);

}  // namespace luthier::pareto

#endif  // LUTHIER_LIB_PARETO_CROWDING_H_
