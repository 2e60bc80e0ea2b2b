#include "lib/bilevel/null_space.h"

#include <Eigen/QR>
#include <cmath>

namespace luthier::bilevel {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

bool DropDependent(const MatrixXd& gram, const VectorXd& signs, VectorXd* w) {
  Eigen::ColPivHouseholderQR<MatrixXd> qr(gram);
  qr.setThreshold(kDependent);
  const Index rank = qr.rank(), size = gram.rows(), nullity = size - rank;
  if (nullity == 0) return false;
  MatrixXd basis(size, nullity);
  basis.topRows(rank) = -qr.matrixR()
                             .topLeftCorner(rank, rank)
                             .triangularView<Eigen::Upper>()
                             .solve(qr.matrixR().topRightCorner(rank, nullity).eval());
  basis.bottomRows(nullity).setIdentity();
  basis = qr.colsPermutation() * basis;
  for (Index k = 0; k < nullity; ++k) {
    VectorXd d = basis.col(k);
    if (signs.dot(d) > 0.0) d = -d;
    double length = INFINITY;
    Index first = -1;
    for (Index i = 0; i < size; ++i) {
      if (d[i] * signs[i] >= 0.0 || (*w)[i] == 0.0) continue;
      if (-(*w)[i] / d[i] < length) {
        length = -(*w)[i] / d[i];
        first = i;
      }
    }
    if (first < 0) continue;
    *w += length * d;
    (*w)[first] = 0.0;
    for (Index other = k + 1; other < nullity; ++other) {
      basis.col(other) -= basis(first, other) / d[first] * d;
      basis(first, other) = 0.0;
    }
  }
  for (Index i = 0; i < size; ++i) {
    if ((*w)[i] * signs[i] < 0.0) (*w)[i] = 0.0;  // Rounding changed the sign.
  }
  return true;
}

}  // namespace luthier::bilevel
