#include "lib/math/triangular_blocks.h"

#include <algorithm>
#include <cmath>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"

namespace luthier::math {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::internal::pmadd;
using Eigen::internal::pmul;
using Eigen::internal::psub;

// At most four lanes: rows and columns go by fours.
#ifdef EIGEN_VECTORIZE_AVX512
using BlockPacket = Eigen::internal::packet_traits<double>::half;
#else
using BlockPacket = Eigen::internal::packet_traits<double>::type;
#endif
constexpr Index kBlockLanes = sizeof(BlockPacket) / sizeof(double);
constexpr Index kWidth = 4;
static_assert(kWidth % kBlockLanes == 0);

BlockPacket Set(double x) {
  return Eigen::internal::pset1<BlockPacket>(x);
}
BlockPacket Load(const double* from) {
  return Eigen::internal::ploadu<BlockPacket>(from);
}
void Store(double* to, BlockPacket x) {
  Eigen::internal::pstoreu(to, x);
}

// Rows rounded up to fours, and the distance of columns in a work space: no multiple of 64 bytes, lest columns share
// their places in the cache.
Index InFours(Index n) {
  return (n + kWidth - 1) / kWidth * kWidth;
}
Index Stride(Index padded) {
  return padded % 8 == 0 ? padded + kWidth : padded;
}

// A square in a work space, of whole fours.
struct Square {
  Square(Index n, std::vector<double>* space) : size(InFours(n)), stride(Stride(size)) {
    if (static_cast<Index>(space->size()) < size * stride) space->resize(static_cast<size_t>(size * stride));
    data = space->data();
  }
  Eigen::Map<MatrixXd, 0, Eigen::OuterStride<>> block(Index n) const {
    return {data, n, n, Eigen::OuterStride<>(stride)};
  }

  Index size, stride;
  double* data;
};

// The lower triangle of `from` with ones on the diagonal of the padding.
Square PaddedLower(const ConstTriangularRef& from, std::vector<double>* space) {
  const Index n = from.rows();
  const Square work(n, space);
  for (Index j = 0; j < work.size; ++j) {
    double* column = work.data + j * work.stride;
    std::fill(column + j / kWidth * kWidth, column + j, 0.0);
    if (j < n) {
      std::copy_n(from.data() + j * from.outerStride() + j, n - j, column + j);
      std::fill(column + n, column + work.size, 0.0);
    } else {
      std::fill(column + j, column + work.size, 0.0);
      column[j] = 1.0;
    }
  }
  return work;
}

// sums(c, p) = sum over `count` columns k of register p of rows of a times row c of b. Both have their columns `stride`
// apart.
template <int kPackets>
inline void Products(const double* a, const double* b, Index stride, Index count,
                     BlockPacket (&sums)[kWidth][kPackets]) {
  for (int c = 0; c < kWidth; ++c) {
    for (int p = 0; p < kPackets; ++p) sums[c][p] = Set(0.0);
  }
  for (Index k = 0; k < count; ++k) {
    BlockPacket rows[kPackets];
    for (int p = 0; p < kPackets; ++p) rows[p] = Load(a + p * kBlockLanes);
    for (int c = 0; c < kWidth; ++c) {
      const BlockPacket factor = Set(b[c]);
      for (int p = 0; p < kPackets; ++p) sums[c][p] = pmadd(rows[p], factor, sums[c][p]);
    }
    a += stride;
    b += stride;
  }
}

// A lower triangular 4 x 4 matrix: minus its entries below the diagonal, and the inverses of its diagonal.
struct Corner {
  Corner(const double* l, Index s)
      : l10(-l[1]),
        l20(-l[2]),
        l30(-l[3]),
        l21(-l[s + 2]),
        l31(-l[s + 3]),
        l32(-l[2 * s + 3]),
        inverse{1.0 / l[0], 1.0 / l[s + 1], 1.0 / l[2 * s + 2], 1.0 / l[3 * s + 3]} {}
  double l10, l20, l30, l21, l31, l32;
  double inverse[kWidth];
};

// Four columns c of rows: c = (c - a b') T^-1 for T the transposed corner.
template <int kPackets>
inline void UpdateAndSolve(const double* a, const double* b, Index stride, Index count, const Corner& corner,
                           double* c) {
  BlockPacket x[kWidth][kPackets];
  Products<kPackets>(a, b, stride, count, x);
  for (int p = 0; p < kPackets; ++p) {
    double* at = c + p * kBlockLanes;
    const BlockPacket x0 = pmul(psub(Load(at), x[0][p]), Set(corner.inverse[0]));
    BlockPacket x1 = psub(Load(at + stride), x[1][p]);
    BlockPacket x2 = psub(Load(at + 2 * stride), x[2][p]);
    BlockPacket x3 = psub(Load(at + 3 * stride), x[3][p]);
    x1 = pmul(pmadd(x0, Set(corner.l10), x1), Set(corner.inverse[1]));
    x2 = pmul(pmadd(x1, Set(corner.l21), pmadd(x0, Set(corner.l20), x2)), Set(corner.inverse[2]));
    x3 = pmadd(x2, Set(corner.l32), pmadd(x1, Set(corner.l31), pmadd(x0, Set(corner.l30), x3)));
    Store(at, x0);
    Store(at + stride, x1);
    Store(at + 2 * stride, x2);
    Store(at + 3 * stride, pmul(x3, Set(corner.inverse[3])));
  }
}

// f.template operator()<kPackets>(row) over rows begin … end-1, a multiple of four.
template <typename F>
inline void Panels(Index begin, Index end, F&& f) {
  Index i = begin;
  for (; i + 3 * kBlockLanes <= end; i += 3 * kBlockLanes) f.template operator()<3>(i);
  for (; i + 2 * kBlockLanes <= end; i += 2 * kBlockLanes) f.template operator()<2>(i);
  for (; i < end; i += kBlockLanes) f.template operator()<1>(i);
}

// Works column by column of four, each from all columns before it.
bool FactorBlock(Index n, Index stride, double* w) {
  for (Index j = 0; j < n; j += kWidth) {
    double* corner = w + j * stride + j;
    for (Index i = 0; i < kWidth; i += kBlockLanes) {
      BlockPacket x[kWidth][1];
      Products<1>(w + j + i, w + j, stride, j, x);
      for (int c = 0; c < kWidth; ++c) {
        double* at = corner + c * stride + i;
        Store(at, psub(Load(at), x[c][0]));
      }
    }
    for (Index c = 0; c < kWidth; ++c) {
      for (Index r = c; r < kWidth; ++r) {
        double& entry = corner[c * stride + r];
        for (Index k = 0; k < c; ++k) entry -= corner[k * stride + r] * corner[k * stride + c];
      }
      const double pivot = corner[c * stride + c];
      if (!(pivot > 0.0) || !std::isfinite(pivot)) return false;
      const double root = std::sqrt(pivot);
      for (Index r = c; r < kWidth; ++r) corner[c * stride + r] /= root;
    }
    const Corner solve(corner, stride);
    Panels(j + kWidth, n, [&]<int kPackets>(Index i) {
      UpdateAndSolve<kPackets>(w + i, w + j, stride, j, solve, w + j * stride + i);
    });
  }
  return true;
}

// u: the unit matrix on entry, l^-T on return. From u l' = 1, column by column of four.
void InvertBlock(Index n, Index stride, const double* l, double* u) {
  for (Index j = 0; j < n; j += kWidth) {
    const Corner solve(l + j * stride + j, stride);
    Panels(0, j + kWidth, [&]<int kPackets>(Index i) {
      const Index first = std::min(i, j);  // Left of it these rows are 0.
      UpdateAndSolve<kPackets>(u + first * stride + i, l + first * stride + j, stride, j - first, solve,
                               u + j * stride + i);
    });
  }
}

// The lower triangle of u u' into out.
void SquareBlock(Index n, Index stride, const double* u, double* out) {
  for (Index j = 0; j < n; j += kWidth) {
    Panels(j, n, [&]<int kPackets>(Index i) {
      BlockPacket x[kWidth][kPackets];
      Products<kPackets>(u + i * stride + i, u + i * stride + j, stride, n - i, x);
      for (Index c = 0; c < kWidth; ++c) {
        for (int p = 0; p < kPackets; ++p) Store(out + (j + c) * stride + i + p * kBlockLanes, x[c][p]);
      }
    });
  }
}

// Returns the row at which to halve.
Index Half(Index n) {
  return (n / 2 + 7) / 8 * 8;
}

// Writes the inverse into `upper`, which is 0 below its diagonal.
absl::Status InverseInto(const ConstTriangularRef& lower, TriangularSpace* space, TriangularRef upper,
                         const base::StopToken& stop) {
  const Index n = lower.rows();
  if (n <= kTriangularBlock) {
    const Square l = PaddedLower(lower, &space->first), u(n, &space->second);
    u.block(u.size).setIdentity();
    InvertBlock(l.size, l.stride, l.data, u.data);
    upper = u.block(n);
    return stop.Poll(n * n * n / 3);
  }
  // [L1 0; B L2]^-T = [U1, -U1 B' U2; 0, U2].
  const Index top = Half(n), bottom = n - top;
  LUTHIER_RETURN_IF_ERROR(InverseInto(lower.topLeftCorner(top, top), space, upper.topLeftCorner(top, top), stop));
  LUTHIER_RETURN_IF_ERROR(
      InverseInto(lower.bottomRightCorner(bottom, bottom), space, upper.bottomRightCorner(bottom, bottom), stop));
  MatrixXd middle(top, bottom);
  middle.noalias() = lower.bottomLeftCorner(bottom, top).transpose() *
                     upper.bottomRightCorner(bottom, bottom).triangularView<Eigen::Upper>();
  LUTHIER_RETURN_IF_ERROR(stop.Poll(top * bottom * bottom));
  upper.topRightCorner(top, bottom).noalias() =
      upper.topLeftCorner(top, top).triangularView<Eigen::Upper>() * (-1.0 * middle);
  return stop.Poll(top * top * bottom);
}

}  // namespace

absl::StatusOr<bool> FactorLowerInPlace(TriangularRef c, TriangularSpace* space, const base::StopToken& stop) {
  const Index n = c.rows();
  LUTHIER_CHECK(c.cols() == n);
  if (n <= kTriangularBlock) {
    const Square work = PaddedLower(c, &space->first);
    if (!FactorBlock(work.size, work.stride, work.data)) return false;
    for (Index j = 0; j < n; ++j) {
      std::copy_n(work.data + j * work.stride + j, n - j, c.data() + j * c.outerStride() + j);
    }
    LUTHIER_RETURN_IF_ERROR(stop.Poll(n * n * n / 3));
    return true;
  }
  const Index top = Half(n), bottom = n - top;
  LUTHIER_ASSIGN_OR_RETURN(const bool definite, FactorLowerInPlace(c.topLeftCorner(top, top), space, stop));
  if (!definite) return false;
  TriangularRef below = c.bottomLeftCorner(bottom, top);
  c.topLeftCorner(top, top).triangularView<Eigen::Lower>().adjoint().solveInPlace<Eigen::OnTheRight>(below);
  LUTHIER_RETURN_IF_ERROR(stop.Poll(bottom * top * top));
  c.bottomRightCorner(bottom, bottom).selfadjointView<Eigen::Lower>().rankUpdate(below, -1.0);
  LUTHIER_RETURN_IF_ERROR(stop.Poll(bottom * bottom * top));
  return FactorLowerInPlace(c.bottomRightCorner(bottom, bottom), space, stop);
}

absl::Status InverseTransposed(const ConstTriangularRef& lower, TriangularSpace* space, MatrixXd* upper,
                               const base::StopToken& stop) {
  LUTHIER_CHECK(lower.cols() == lower.rows());
  upper->setZero(lower.rows(), lower.rows());
  return InverseInto(lower, space, *upper, stop);
}

absl::Status AddSquareOfUpper(const ConstTriangularRef& upper, double scale, TriangularSpace* space, TriangularRef out,
                              const base::StopToken& stop) {
  const Index n = upper.rows();
  LUTHIER_CHECK(upper.cols() == n && out.rows() == n && out.cols() == n);
  if (n <= kTriangularBlock) {
    const Square u(n, &space->first), square(n, &space->second);
    if (u.size > n) u.block(u.size).setZero();
    u.block(n) = upper;
    SquareBlock(u.size, u.stride, u.data, square.data);
    for (Index j = 0; j < n; ++j) out.col(j).tail(n - j) += scale * square.block(n).col(j).tail(n - j);
    return stop.Poll(n * n * n / 3);
  }
  // [U1 B; 0 U2]: the square is [U1 U1' + B B', .; U2 B', U2 U2'].
  const Index top = Half(n), bottom = n - top;
  LUTHIER_RETURN_IF_ERROR(
      AddSquareOfUpper(upper.topLeftCorner(top, top), scale, space, out.topLeftCorner(top, top), stop));
  LUTHIER_RETURN_IF_ERROR(AddSquareOfUpper(upper.bottomRightCorner(bottom, bottom), scale, space,
                                           out.bottomRightCorner(bottom, bottom), stop));
  const auto right = upper.topRightCorner(top, bottom);
  out.topLeftCorner(top, top).selfadjointView<Eigen::Lower>().rankUpdate(right, scale);
  LUTHIER_RETURN_IF_ERROR(stop.Poll(top * top * bottom));
  MatrixXd middle(bottom, top);
  middle.noalias() = upper.bottomRightCorner(bottom, bottom).triangularView<Eigen::Upper>() * right.transpose();
  out.bottomLeftCorner(bottom, top) += scale * middle;
  return stop.Poll(top * bottom * bottom);
}

}  // namespace luthier::math
