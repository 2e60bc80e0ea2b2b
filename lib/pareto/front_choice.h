#ifndef LUTHIER_LIB_PARETO_FRONT_CHOICE_H_
#define LUTHIER_LIB_PARETO_FRONT_CHOICE_H_

#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"

// Choices among the points of a front.
namespace luthier::pareto {

// Returns min(count, n) rows in the order in which they are chosen: each time the one that adds most to the hypervolume
// above `reference` of those chosen before, the first of equal ones. The volume of the result is at least 1 - 1/e of
// the largest that `count` rows have (Nemhauser, Wolsey & Fisher 1978). Gains only fall as rows are chosen, so most are
// computed once. Gains that take too long (Hypervolume) count as 0. Returns CANCELLED if `stop` was raised.
absl::StatusOr<std::vector<Eigen::Index>> GreedySubset(const Eigen::Ref<const Eigen::MatrixXd>& points,
                                                       const Eigen::Ref<const Eigen::VectorXd>& reference,
                                                       Eigen::Index count, const base::StopToken& stop);

// Returns the row of a front (at least one row) that is the best compromise, the first of equal ones. Columns are
// scaled to 0 at their smallest and 1 at their largest value.
//   two columns   The row that is farthest above the line through the two ends of the front. A front that bends inwards
//                 has its ends as knees.
//   more          The row with the largest product of distances to `reference`, scaled likewise by the distance of the
//                 column's largest value. A row that is not above `reference` has the product 0.
Eigen::Index Knee(const Eigen::Ref<const Eigen::MatrixXd>& front, const Eigen::Ref<const Eigen::VectorXd>& reference);

}  // namespace luthier::pareto

#endif  // LUTHIER_LIB_PARETO_FRONT_CHOICE_H_
