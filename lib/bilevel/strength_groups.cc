#include "lib/bilevel/strength_groups.h"

namespace luthier::bilevel {

Eigen::VectorXd StrengthGroups::Sums(const Eigen::VectorXd& terms, int per_column) const {
  Eigen::VectorXd sums = Eigen::VectorXd::Zero(count);
  for (Eigen::Index j = 0; j < terms.size(); ++j) {
    const auto of = static_cast<size_t>(j / per_column);
    sums[of < column.size() ? column[of] : 0] += terms[j];
  }
  return sums;
}

}  // namespace luthier::bilevel
