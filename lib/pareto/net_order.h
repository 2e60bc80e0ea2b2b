#ifndef LUTHIER_LIB_PARETO_NET_ORDER_H_
#define LUTHIER_LIB_PARETO_NET_ORDER_H_

#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"

namespace luthier::pareto {

// Rows of a layer beyond this number follow in order of row: by then the layer is covered.
inline constexpr Eigen::Index kMostNetPoints = 256;

// Returns the first min(count, n) rows of an order in which every beginning is a good choice of so many: layer after
// layer (Layers), and within a layer such that what was chosen lies far apart (the epsilon-net of Schmucker et al.
// 2021, "Multi-objective asynchronous successive halving"): first the row that is best in the first column, then again
// and again the one whose nearest neighbour among those chosen is the farthest. Distances are Euclidean between ranks:
// of d different values of a column in the layer, rank k of 0 … d-1 counts k/(d-1). Ties go to the first row. For n
// rows of m columns it takes as long as Layers and O(min(count, 256) n m). Returns CANCELLED if `stop` was raised.
absl::StatusOr<std::vector<Eigen::Index>> NetOrder(const Eigen::Ref<const Eigen::MatrixXd>& points, Eigen::Index count,
                                                   const base::StopToken& stop);

}  // namespace luthier::pareto

#endif  // LUTHIER_LIB_PARETO_NET_ORDER_H_
