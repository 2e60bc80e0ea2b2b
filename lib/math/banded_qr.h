#ifndef LUTHIER_LIB_MATH_BANDED_QR_H_
#define LUTHIER_LIB_MATH_BANDED_QR_H_

#include <algorithm>

#include "Eigen/Core"

namespace luthier::math {

// Householder's A = Q R for A (m x n, m >= n) whose column j is zero below row j + band: a block of `band` rows on a
// diagonal, say, as in regularised least squares. Column j is reflected within rows j … j + band, which fills nothing
// in below: 2 band n^2 flops, whatever m is. Four reflections at a time pass over two columns each. As stable as any
// Householder QR.
class BandedQr {
 public:
  // Factors `a`. Entries below the band are not read. 0 <= band; m <= n + band.
  BandedQr(const Eigen::Ref<const Eigen::MatrixXd>& a, Eigen::Index band);

  // n x n; only its upper triangle is R.
  auto r() const { return work_.topLeftCorner(columns_, columns_); }
  // Replaces x, of m entries, by Q x.
  void ApplyQ(Eigen::VectorXd* x) const;

 private:
  // Reflects column j, and the later ones of its panel, which ends before column `end`.
  void Reflect(Eigen::Index j, Eigen::Index end);
  // Number of entries of column j's reflector, the leading 1 included.
  Eigen::Index Length(Eigen::Index j) const { return std::min(band_ + 1, rows_ - j); }

  Eigen::Index rows_, columns_, band_;
  Eigen::MatrixXd work_;  // R, and below it the reflectors v = (1, …) without their 1; rows of zeros at the end.
  Eigen::VectorXd tau_;   // H = 1 - tau v v'.
};

}  // namespace luthier::math

#endif  // LUTHIER_LIB_MATH_BANDED_QR_H_
