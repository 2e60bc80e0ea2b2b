#include "lib/math/cholesky.h"

#include <algorithm>
#include <cmath>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/math/triangular_blocks.h"

namespace luthier::math {
namespace {

constexpr double kPivotTolerance = 1e-10;
constexpr Eigen::Index kMinCapacity = 16;

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

}  // namespace

absl::StatusOr<std::optional<Cholesky>> Cholesky::Factor(const Eigen::Ref<const MatrixXd>& c,
                                                         const CholeskyOptions& options, const base::StopToken& stop) {
  const Index n = c.rows();
  LUTHIER_CHECK(c.cols() == n);
  Cholesky result;
  result.size_ = n;
  // Lower triangle only: the upper one may hold anything.
  for (Index j = 0; j < n; ++j) {
    if (!c.col(j).tail(n - j).allFinite()) return std::nullopt;
  }
  TriangularSpace space;
  double jitter = 0.0;
  for (int rung = 0; rung <= options.rungs; ++rung) {
    result.buffer_ = c;
    result.buffer_.diagonal().array() += jitter;
    LUTHIER_ASSIGN_OR_RETURN(const bool definite, FactorLowerInPlace(result.buffer_, &space, stop));
    if (definite) {
      result.jitter_ = jitter;
      return result;
    }
    jitter = options.jitter_scale * options.first_jitter * std::pow(10.0, rung);
  }
  return std::nullopt;
}

bool Cholesky::Append(const Eigen::Ref<const VectorXd>& cross, double diagonal) {
  LUTHIER_CHECK(cross.size() == size_);
  VectorXd row = cross;
  if (size_ > 0) lower().triangularView<Eigen::Lower>().solveInPlace(row);
  const double pivot = diagonal + jitter_ - row.squaredNorm();
  if (!(pivot >= kPivotTolerance * diagonal) || !std::isfinite(pivot) || !(pivot > 0.0)) return false;
  if (size_ == buffer_.rows()) {
    const Index capacity = std::max(kMinCapacity, 2 * size_);
    buffer_.conservativeResize(capacity, capacity);
  }
  buffer_.row(size_).head(size_) = row.transpose();
  buffer_(size_, size_) = std::sqrt(pivot);
  ++size_;
  ++appends_;
  return true;
}

void Cholesky::PopBack(int count) {
  LUTHIER_CHECK(count >= 0 && count <= size_);
  size_ -= count;
}

void Cholesky::SolveLowerInPlace(Eigen::Ref<MatrixXd> b) const {
  if (b.cols() == 1) {  // As a matrix the whole factor would be copied first.
    auto column = b.col(0);
    lower().triangularView<Eigen::Lower>().solveInPlace(column);
    return;
  }
  lower().triangularView<Eigen::Lower>().solveInPlace(b);
}

void Cholesky::SolveLowerTransposedInPlace(Eigen::Ref<MatrixXd> b) const {
  lower().triangularView<Eigen::Lower>().adjoint().solveInPlace(b);
}

VectorXd Cholesky::Solve(const Eigen::Ref<const VectorXd>& b) const {
  LUTHIER_CHECK(b.size() == size_);
  VectorXd x = b;
  if (size_ == 0) return x;
  lower().triangularView<Eigen::Lower>().solveInPlace(x);
  lower().triangularView<Eigen::Lower>().adjoint().solveInPlace(x);
  return x;
}

double Cholesky::LogDeterminant() const {
  return 2.0 * buffer_.topLeftCorner(size_, size_).diagonal().array().log().sum();
}

}  // namespace luthier::math
