#include "lib/bilevel/column_penalties.h"

namespace luthier::bilevel {

Eigen::VectorXd ColumnPenalties::Sums(const Eigen::VectorXd& terms, int per_column) const {
  Eigen::VectorXd sums = Eigen::VectorXd::Zero(count);
  for (Eigen::Index j = 0; j < terms.size(); ++j) {
    const auto of = static_cast<size_t>(j / per_column);
    sums[of < column.size() ? column[of] : 0] += terms[j];
  }
  return sums;
}

}  // namespace luthier::bilevel
