#include "lib/math/cholesky.h"

#include <algorithm>
#include <cmath>

#include "Eigen/Cholesky"
#include "lib/base/check.h"

namespace luthier::math {
namespace {

constexpr double kPivotTolerance = 1e-10;
constexpr Eigen::Index kBlock = 48;
constexpr Eigen::Index kMinCapacity = 16;

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Inverts the lower triangle of `a` in place by halving: [A 0; B C]^-1 = [A^-1 0; -C^-1 B A^-1 C^-1].
void InvertLowerInPlace(Eigen::Ref<MatrixXd, 0, Eigen::OuterStride<>> a) {
  const Index n = a.rows();
  if (n <= kBlock) {
    for (Index j = 0; j < n; ++j) {
      a(j, j) = 1.0 / a(j, j);
      // Column j of the inverse below the diagonal: -A22^-1 a21 a_jj^-1, by forward substitution with the original A22.
      for (Index i = j + 1; i < n; ++i) a(i, j) *= -a(j, j);
    }
    // Now column j holds -a21/a_jj and the diagonal is inverted; substitute column by column from the right.
    for (Index j = n - 2; j >= 0; --j) {
      const Index m = n - j - 1;
      // Columns right of j are already inverted: multiply by that inverse.
      VectorXd column = a.col(j).tail(m);
      a.col(j).tail(m).noalias() = a.bottomRightCorner(m, m).triangularView<Eigen::Lower>() * column;
    }
    return;
  }
  const Index top = (n / 2 + 7) / 8 * 8;
  const Index bottom = n - top;
  InvertLowerInPlace(a.topLeftCorner(top, top));
  InvertLowerInPlace(a.bottomRightCorner(bottom, bottom));
  MatrixXd middle(bottom, top);
  middle.noalias() = a.bottomLeftCorner(bottom, top) * a.topLeftCorner(top, top).triangularView<Eigen::Lower>();
  middle = -middle;
  a.bottomLeftCorner(bottom, top).noalias() =
      a.bottomRightCorner(bottom, bottom).triangularView<Eigen::Lower>() * middle;
}

}  // namespace

std::optional<Cholesky> Cholesky::Factor(const Eigen::Ref<const MatrixXd>& c, const CholeskyOptions& options) {
  const Index n = c.rows();
  LUTHIER_CHECK(c.cols() == n);
  Cholesky result;
  result.size_ = n;
  // Lower triangle only: the upper one may hold anything.
  for (Index j = 0; j < n; ++j) {
    if (!c.col(j).tail(n - j).allFinite()) return std::nullopt;
  }
  double jitter = 0.0;
  for (int rung = 0; rung <= options.rungs; ++rung) {
    result.buffer_ = c;
    result.buffer_.diagonal().array() += jitter;
    Eigen::LLT<Eigen::Ref<MatrixXd>> llt(result.buffer_);  // In place.
    // LLT reports success on NaN, hence the second test; the third refuses pivots that are round-off.
    if (llt.info() == Eigen::Success && result.buffer_.diagonal().allFinite() &&
        (n == 0 || result.buffer_.diagonal().minCoeff() > 0.0)) {
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

MatrixXd InvertLower(const Eigen::Ref<const MatrixXd, 0, Eigen::OuterStride<>>& lower) {
  MatrixXd inverse = lower.triangularView<Eigen::Lower>();
  InvertLowerInPlace(inverse);
  return inverse;
}

void AddInverseFromFactor(const Eigen::Ref<const MatrixXd>& l_inverse, double scale, Eigen::Ref<MatrixXd> out) {
  const Index n = l_inverse.rows();
  LUTHIER_CHECK(l_inverse.cols() == n && out.rows() == n && out.cols() == n);
  // Block column j of the product's lower triangle: rows of l_inverse above the block contribute zeros.
  for (Index j = 0; j < n; j += kBlock) {
    const Index width = std::min(kBlock, n - j);
    // out(i.., j..) for i >= j: sum over rows r >= i of l_inverse(r, i) l_inverse(r, j).
    for (Index i = j; i < n; i += 2 * kBlock) {
      const Index height = std::min(2 * kBlock, n - i);
      out.block(i, j, height, width).noalias() +=
          scale * l_inverse.block(i, i, n - i, height).transpose() * l_inverse.block(i, j, n - i, width);
    }
  }
}

}  // namespace luthier::math
