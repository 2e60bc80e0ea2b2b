#include "lib/bilevel/column_penalties.h"

namespace luthier::bilevel {

int32_t ColumnPenalties::IndexOf(Eigen::Index i, int per_column) const {
  if (!weight.empty()) return weight[static_cast<size_t>(i)];
  const auto of = static_cast<size_t>(i / per_column);
  return of < column.size() ? column[of] : 0;
}

Eigen::VectorXd ColumnPenalties::Sums(const Eigen::VectorXd& terms, int per_column) const {
  Eigen::VectorXd sums = Eigen::VectorXd::Zero(count);
  for (Eigen::Index i = 0; i < terms.size(); ++i) sums[IndexOf(i, per_column)] += terms[i];
  return sums;
}

}  // namespace luthier::bilevel
