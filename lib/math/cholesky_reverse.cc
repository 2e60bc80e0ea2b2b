#include "lib/math/cholesky_reverse.h"

#include <algorithm>
#include <utility>

#include "Eigen/Dense"
#include "lib/base/check.h"
#include "lib/base/status_macros.h"

namespace luthier::math {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::Ref;

namespace {

constexpr Index kBlock = 64;

// *a += the lower triangle of x y'.
void AddLowerOuter(const Ref<const MatrixXd>& x, const Ref<const MatrixXd>& y, double sign, MatrixXd* a) {
  for (Index begin = 0; begin < a->cols(); begin += kBlock) {
    const Index width = std::min(kBlock, a->cols() - begin), below = a->rows() - begin - width;
    a->block(begin, begin, width, width).triangularView<Eigen::Lower>() +=
        sign * (x.middleRows(begin, width) * y.middleRows(begin, width).transpose());
    a->bottomRows(below).middleCols(begin, width).noalias() +=
        sign * (x.bottomRows(below) * y.middleRows(begin, width).transpose());
  }
}

}  // namespace

MatrixXd ReverseCholeskyByEntry(const Ref<const MatrixXd>& l, MatrixXd l_bar) {
  const Index n = l.rows();
  LUTHIER_CHECK(l.cols() == n && l_bar.rows() == n && l_bar.cols() == n);
  MatrixXd h_bar = MatrixXd::Zero(n, n);
  for (Index i = n - 1; i >= 0; --i) {
    for (Index j = n - 1; j > i; --j) {
      // L_ji = (H_ji - sum_k<i L_jk L_ik) / L_ii
      const double share = l_bar(j, i) / l(i, i);
      l_bar(i, i) -= share * l(j, i);
      h_bar(j, i) = share;
      for (Index k = 0; k < i; ++k) {
        l_bar(i, k) -= share * l(j, k);
        l_bar(j, k) -= share * l(i, k);
      }
    }
    // L_ii = sqrt(H_ii - sum_k<i L_ik^2)
    h_bar(i, i) = 0.5 * l_bar(i, i) / l(i, i);
    for (Index k = 0; k < i; ++k) l_bar(i, k) -= 2.0 * h_bar(i, i) * l(i, k);
  }
  return h_bar;
}

absl::StatusOr<MatrixXd> ReverseCholesky(const Ref<const MatrixXd>& l, MatrixXd l_bar, const base::StopToken& stop) {
  const Index n = l.rows();
  LUTHIER_CHECK(l.cols() == n && l_bar.rows() == n && l_bar.cols() == n);
  for (Index end = n; end > 0;) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    const Index begin = std::max<Index>(0, end - kBlock), width = end - begin, below = n - end;
    const auto d = l.block(begin, begin, width, width);
    const auto r = l.block(begin, 0, width, begin);
    auto c_bar = l_bar.block(end, begin, below, width);
    MatrixXd d_bar = l_bar.block(begin, begin, width, width).triangularView<Eigen::Lower>();
    if (below > 0) {
      const auto b = l.block(end, 0, below, begin);
      const auto c = l.block(end, begin, below, width);
      d.triangularView<Eigen::Lower>().solveInPlace<Eigen::OnTheRight>(c_bar);
      l_bar.block(end, 0, below, begin).noalias() -= c_bar * r;
      d_bar.triangularView<Eigen::Lower>() -= c_bar.transpose() * c;
      l_bar.block(begin, 0, width, begin).noalias() -= c_bar.transpose() * b;
    }
    d_bar = ReverseCholeskyByEntry(d, std::move(d_bar));
    const MatrixXd both = d_bar + d_bar.transpose();
    l_bar.block(begin, 0, width, begin).noalias() -= both * r;
    l_bar.block(begin, begin, width, width).triangularView<Eigen::Lower>() = d_bar;
    end = begin;
  }
  return l_bar;
}

MatrixXd ReverseSolveLower(const Ref<const MatrixXd>& l, const Ref<const MatrixXd>& v, MatrixXd v_bar,
                           MatrixXd* l_bar) {
  l.triangularView<Eigen::Lower>().transpose().solveInPlace(v_bar);
  AddLowerOuter(v_bar, v, -1.0, l_bar);
  return v_bar;
}

MatrixXd ReverseSolveLowerTransposed(const Ref<const MatrixXd>& l, const Ref<const MatrixXd>& v, MatrixXd v_bar,
                                     MatrixXd* l_bar) {
  l.triangularView<Eigen::Lower>().solveInPlace(v_bar);
  AddLowerOuter(v, v_bar, -1.0, l_bar);
  return v_bar;
}

}  // namespace luthier::math
