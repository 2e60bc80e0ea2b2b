#ifndef LUTHIER_LIB_PARETO_DOMINANCE_H_
#define LUTHIER_LIB_PARETO_DOMINANCE_H_

#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"

// Results of several objectives. In this library points are the rows of a matrix, with one column an objective; larger
// is better in every column, and coordinates are finite. No function keeps anything; any thread may call them.
namespace luthier::pareto {

// Returns true if row `a` dominates row `b`: it is nowhere worse and somewhere better.
bool Dominates(const Eigen::Ref<const Eigen::MatrixXd>& points, Eigen::Index a, Eigen::Index b);

// Returns the layer of each row: 0 for those that no row dominates, 1 for those that only rows of layer 0 dominate, and
// so on. Equal rows have the same layer. Sorts once and finds each row's layer by bisection (Zhang, Tian, Cheng & Jin
// 2015, "An efficient approach to nondominated sorting"): O(n log n) for two columns, O(n^2 m) at worst for more.
// Returns CANCELLED if `stop` was raised.
absl::StatusOr<std::vector<int>> Layers(const Eigen::Ref<const Eigen::MatrixXd>& points, const base::StopToken& stop);

// Returns the rows that no row dominates, ascending; of equal ones the first only. O(n f m), f: size of the result.
std::vector<Eigen::Index> Front(const Eigen::Ref<const Eigen::MatrixXd>& points);

}  // namespace luthier::pareto

#endif  // LUTHIER_LIB_PARETO_DOMINANCE_H_
