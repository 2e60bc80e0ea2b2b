#include "lib/linear/panel_cholesky.h"

#include <Eigen/Cholesky>
#include <algorithm>

#include "lib/base/pace.h"
#include "lib/base/status_macros.h"

namespace luthier::linear {

using Eigen::Index;
using Eigen::MatrixXd;

namespace {

// Numbers of columns of a panel, and of the columns that are updated at once. The latter is a multiple of the kernels'
// blocks for any instruction set, so that each sum is the same as without pieces.
constexpr Index kPanel = 64;
constexpr Index kColumnsAtOnce = 48;

}  // namespace

absl::StatusOr<bool> FactorInPlace(MatrixXd* a, const base::StopToken& stop) {
  const Index n = a->rows();
  base::Pace pace(stop);
  for (Index k = 0; k < n; k += kPanel) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll((n - k) * kPanel * kPanel));
    const Index width = std::min(kPanel, n - k);
    const Index rest = n - k - width;
    auto corner = a->block(k, k, width, width);
    const Eigen::LLT<MatrixXd> llt(corner);
    if (llt.info() != Eigen::Success) return false;
    const MatrixXd lower = llt.matrixL();
    if (!lower.allFinite()) return false;
    corner = lower;
    if (rest == 0) break;
    auto below = a->block(k + width, k, rest, width);
    lower.triangularView<Eigen::Lower>().transpose().solveInPlace<Eigen::OnTheRight>(below);
    for (Index j = 0; j < rest; j += kColumnsAtOnce) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll((rest - j) * kColumnsAtOnce * kPanel));
      const Index columns = std::min(kColumnsAtOnce, rest - j);
      const Index under = rest - j - columns;
      const auto rows = below.middleRows(j, columns);
      const Index at = k + width + j;
      a->block(at, at, columns, columns).selfadjointView<Eigen::Lower>().rankUpdate(rows, -1.0);
      a->block(at + columns, at, under, columns).noalias() -= below.bottomRows(under) * rows.transpose();
    }
  }
  return true;
}

}  // namespace luthier::linear
