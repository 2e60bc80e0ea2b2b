#include "lib/pareto/front_choice.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/pareto/hypervolume.h"

namespace luthier::pareto {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

absl::StatusOr<std::vector<Index>> GreedySubset(const Eigen::Ref<const MatrixXd>& points,
                                                const Eigen::Ref<const VectorXd>& reference, Index count,
                                                const base::StopToken& stop) {
  constexpr size_t kNever = std::numeric_limits<size_t>::max();
  // `value` is what the row adds to the first `chosen` choices, or with kNever a bound of it.
  struct Gain {
    double value;
    Index row;
    size_t chosen;
    bool operator<(const Gain& other) const { return value != other.value ? value < other.value : row > other.row; }
  };
  std::priority_queue<Gain> gains;
  for (Index i = 0; i < points.rows(); ++i) gains.push({std::numeric_limits<double>::infinity(), i, kNever});
  std::vector<Index> chosen;
  while (!gains.empty() && static_cast<Index>(chosen.size()) < count) {
    Gain best = gains.top();
    gains.pop();
    if (best.chosen == chosen.size()) {  // No other row can add more.
      chosen.push_back(best.row);
      continue;
    }
    LUTHIER_RETURN_IF_ERROR(stop.Poll(static_cast<int64_t>(chosen.size()) * points.cols()));
    const MatrixXd before = points(chosen, Eigen::all);
    best.value = HypervolumeGain(before, reference, points.row(best.row).transpose()).value_or(0.0);
    best.chosen = chosen.size();
    gains.push(best);
  }
  return chosen;
}

Index Knee(const Eigen::Ref<const MatrixXd>& front, const Eigen::Ref<const VectorXd>& reference) {
  LUTHIER_CHECK(front.rows() >= 1 && front.cols() == reference.size());
  const Eigen::RowVectorXd low = front.cols() == 2 ? front.colwise().minCoeff().eval() : reference.transpose().eval();
  const Eigen::RowVectorXd high = front.colwise().maxCoeff();
  Index best = 0;
  double most = -std::numeric_limits<double>::infinity();
  for (Index i = 0; i < front.rows(); ++i) {
    double worth = front.cols() == 2 ? 0.0 : 1.0;
    for (Index j = 0; j < front.cols(); ++j) {
      const double width = high(j) / 2.0 - low(j) / 2.0;  // Halves, since the difference may overflow.
      const double share = width > 0.0 ? std::max(front(i, j) / 2.0 - low(j) / 2.0, 0.0) / width : 0.0;
      if (front.cols() == 2) {
        worth += share;
      } else {
        worth *= share;
      }
    }
    if (worth > most) {
      most = worth;
      best = i;
    }
  }
  return best;
}

}  // namespace luthier::pareto
