#include "lib/math/pieces.h"

#include <algorithm>

#include "lib/base/status_macros.h"

namespace luthier::math {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr Index kChunk = 256, kPiece = 64;

}  // namespace

absl::StatusOr<VectorXd> EvaluateInPieces(const Eigen::Ref<const MatrixXd>& u, const base::StopToken& stop,
                                          absl::FunctionRef<VectorXd(const MatrixXd&)> f) {
  VectorXd values(u.rows());
  for (Index chunk = 0; chunk < u.rows(); chunk += kChunk) {
    const Index chunk_end = std::min(chunk + kChunk, u.rows());
    for (Index begin = chunk; begin < chunk_end;) {
      LUTHIER_RETURN_IF_ERROR(stop.Poll());
      const Index rows = chunk_end - begin < 2 * kPiece ? chunk_end - begin : kPiece;
      values.segment(begin, rows) = f(u.middleRows(begin, rows));
      begin += rows;
    }
  }
  return values;
}

}  // namespace luthier::math
