#include "lib/math/svd.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "Eigen/QR"
#include "Eigen/SVD"
#include "lib/base/check.h"

namespace luthier::math {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using Eigen::internal::pmadd;
using Eigen::internal::pmul;
using Eigen::internal::pset1;

using SvdPacket = Eigen::internal::packet_traits<double>::type;
constexpr Index kSvdLanes = sizeof(SvdPacket) / sizeof(double);
constexpr Index kStrips = 4;
constexpr Index kRowPanel = kStrips * kSvdLanes;  // Rows that are rotated together.
// Rotations that are held back, so that a panel of rows meets many of them while in cache.
constexpr size_t kMostPending = 16384;
constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
constexpr Index kSweepsPerValue = 30;  // Two are usual.
constexpr double kLong = 1.25;         // Rows per column from which A = Q R comes first.

struct Rotation {
  double c, s;
};

// [c s; -s c] (f, g)' = (r, 0)'.
Rotation Rotate(double f, double g, double* r) {
  if (g == 0.0) {
    *r = f;
    return {1.0, 0.0};
  }
  const double square = f * f + g * g;
  // Entries are at most about the size of the matrix, which is scaled; squares of tiny ones are lost.
  const double length = square > 1e-280 ? std::sqrt(square) : std::hypot(f, g);
  *r = length;
  return {f / length, g / length};
}

// The smaller singular value of [f g; 0 h]: LAPACK's dlas2.
double SmallerOfTwo(double f, double g, double h) {
  f = std::abs(f), g = std::abs(g), h = std::abs(h);
  const double low = std::min(f, h), high = std::max(f, h);
  if (low == 0.0) return 0.0;
  const double sum = 1.0 + low / high, difference = (high - low) / high;
  if (g < high) {
    const double square = (g / high) * (g / high);
    return low * (2.0 / (std::sqrt(sum * sum + square) + std::sqrt(difference * difference + square)));
  }
  const double ratio = high / g;
  if (ratio == 0.0) return low * high / g;
  const double a = sum * ratio, b = difference * ratio;
  return 2.0 * (low / (std::sqrt(1.0 + a * a) + std::sqrt(1.0 + b * b))) * ratio;
}

// A square matrix that begins as 1 and whose columns are rotated, many rotations at a time.
class Rotated {
 public:
  explicit Rotated(Index n) : n_(n), columns_(MatrixXd::Zero((n + kRowPanel - 1) / kRowPanel * kRowPanel, n)) {
    columns_.topRows(n).setIdentity();
  }

  // The next rotations are of columns (first, first + step), (first + step, first + 2 step), ...
  void Begin(Index first, Index step) {
    if (pending_.size() > kMostPending) Flush();
    sweeps_.push_back({first, step, pending_.size()});
  }
  void Add(const Rotation& rotation) { pending_.push_back(rotation); }

  auto Get() {
    Flush();
    return columns_.topRows(n_);
  }

 private:
  struct Sweep {
    Index first, step;
    size_t begin;
  };

  void Flush() {
    for (Index row = 0; row < columns_.rows(); row += kRowPanel) {
      for (size_t k = 0; k < sweeps_.size(); ++k) {
        const size_t end = k + 1 < sweeps_.size() ? sweeps_[k + 1].begin : pending_.size();
        Apply(sweeps_[k], end, row);
      }
    }
    sweeps_.clear();
    pending_.clear();
  }

  // One column stays in registers from rotation to rotation.
  void Apply(const Sweep& sweep, size_t end, Index row) {
    double* at = columns_.data() + sweep.first * columns_.rows() + row;
    const Index stride = sweep.step * columns_.rows();
    SvdPacket x[kStrips];
    for (Index p = 0; p < kStrips; ++p) x[p] = Eigen::internal::ploadu<SvdPacket>(at + p * kSvdLanes);
    for (size_t k = sweep.begin; k < end; ++k) {
      const SvdPacket c = pset1<SvdPacket>(pending_[k].c), s = pset1<SvdPacket>(pending_[k].s);
      const SvdPacket minus_s = pset1<SvdPacket>(-pending_[k].s);
      for (Index p = 0; p < kStrips; ++p) {
        const SvdPacket y = Eigen::internal::ploadu<SvdPacket>(at + stride + p * kSvdLanes);
        Eigen::internal::pstoreu(at + p * kSvdLanes, pmadd(s, y, pmul(c, x[p])));
        x[p] = pmadd(minus_s, x[p], pmul(c, y));
      }
      at += stride;
    }
    for (Index p = 0; p < kStrips; ++p) Eigen::internal::pstoreu(at + p * kSvdLanes, x[p]);
  }

  Index n_;
  MatrixXd columns_;  // Rows of zeros at the end fill the last panel.
  std::vector<Sweep> sweeps_;
  std::vector<Rotation> pending_;
};

// The upper bidiagonal B = U diag(d) V' with diagonal d and e above it.
struct Bidiagonal {
  // Sweeps until e is zero; d may then have either sign. Returns false if that takes too long. Null means without
  // vectors.
  bool Diagonalize(Rotated* u, Rotated* v);
  // One sweep over rows `from` to `to`, of either order: B turned by half a turn and transposed is upper bidiagonal,
  // too.
  template <bool kVectors>
  void Sweep(Index from, Index to, bool shifted, Rotated* u, Rotated* v);

  VectorXd d, e;
};

bool Bidiagonal::Diagonalize(Rotated* u, Rotated* v) {
  const Index n = d.size();
  if (n == 1) return true;
  const double nothing = 0.5 * kEpsilon * std::max(d.cwiseAbs().maxCoeff(), e.cwiseAbs().maxCoeff());
  Index end = n - 1, old_begin = -1, old_end = -1;
  bool down = true;
  for (Index left = kSweepsPerValue * n; left > 0; --left) {
    while (end > 0 && std::abs(e[end - 1]) <= nothing) e[--end] = 0.0;
    if (end == 0) return true;
    Index begin = end;
    bool singular = false;
    while (true) {
      if (std::abs(d[begin]) <= nothing) {
        d[begin] = 0.0;
        singular = true;
      }
      if (begin == 0) break;
      if (std::abs(e[begin - 1]) <= nothing) {
        e[begin - 1] = 0.0;
        break;
      }
      --begin;
    }
    // A new block is swept from its large end to its small one.
    if (begin > old_end || end < old_begin) down = std::abs(d[begin]) >= std::abs(d[end]);
    old_begin = begin, old_end = end;
    const Index from = down ? begin : end, to = down ? end : begin;
    if (u != nullptr) {
      Sweep<true>(from, to, !singular, u, v);
    } else {
      Sweep<false>(from, to, !singular, u, v);
    }
  }
  return false;
}

template <bool kVectors>
void Bidiagonal::Sweep(Index from, Index to, bool shifted, Rotated* u, Rotated* v) {
  const Index step = from < to ? 1 : -1;
  if (step < 0) std::swap(u, v);
  const auto between = [&](Index i) -> double& { return e[step > 0 ? i : i - 1]; };  // Entry between i and i + step.
  if (kVectors) {
    u->Begin(from, step);
    v->Begin(from, step);
  }
  double shift = 0.0;
  if (shifted) {
    shift = SmallerOfTwo(d[to - step], between(to - step), d[to]);
    const double share = shift / d[from];
    if (share * share < kEpsilon) shift = 0.0;
  }
  if (shift == 0.0) {
    Rotation right{1.0, 0.0}, left{1.0, 0.0};
    for (Index i = from; i != to; i += step) {
      double r;
      right = Rotate(d[i] * right.c, between(i), &r);
      if (i != from) between(i - step) = left.s * r;
      left = Rotate(left.c * r, d[i + step] * right.s, &d[i]);
      if (kVectors) {
        v->Add(right);
        u->Add(left);
      }
    }
    const double last = d[to] * right.c;
    d[to] = last * left.c;
    between(to - step) = last * left.s;
    return;
  }
  double f = (std::abs(d[from]) - shift) * (std::copysign(1.0, d[from]) + shift / d[from]), g = between(from);
  for (Index i = from; i != to; i += step) {
    double r;
    const Rotation right = Rotate(f, g, &r);
    if (i != from) between(i - step) = r;
    const double above = between(i), next = d[i + step];
    f = right.c * d[i] + right.s * above;
    const double upper = right.c * above - right.s * d[i];
    const Rotation left = Rotate(f, right.s * next, &d[i]);
    f = left.c * upper + left.s * (right.c * next);
    d[i + step] = left.c * (right.c * next) - left.s * upper;
    if (i + step != to) {
      g = left.s * between(i + step);
      between(i + step) *= left.c;
    }
    if (kVectors) {
      v->Add(right);
      u->Add(left);
    }
  }
  between(to - step) = f;
}

// The order in which values descend.
std::vector<Index> Descending(const VectorXd& values) {
  std::vector<Index> order(static_cast<size_t>(values.size()));
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(), [&](Index i, Index j) { return values[i] > values[j]; });
  return order;
}

ThinSvd ByJacobi(const MatrixXd& a, bool vectors) {
  const Eigen::JacobiSVD<MatrixXd> svd(a, vectors ? Eigen::ComputeThinU | Eigen::ComputeThinV : 0);
  ThinSvd out;
  out.values = svd.singularValues();
  if (vectors) {
    out.u = svd.matrixU();
    out.v = svd.matrixV();
  }
  return out;
}

// Decomposes a finite matrix of m >= n and entries up to 1.
ThinSvd DecomposeSquarish(const MatrixXd& a, bool vectors) {
  const Index m = a.rows(), n = a.cols();
  Bidiagonal b;
  if (n == 1) {
    ThinSvd out;
    out.values = VectorXd::Constant(1, a.norm());
    if (vectors) {
      out.v = MatrixXd::Ones(1, 1);
      out.u = out.values[0] > 0.0 ? MatrixXd(a / out.values[0]) : MatrixXd::Identity(m, 1);
    }
    return out;
  }
  Eigen::internal::UpperBidiagonalization<MatrixXd> reduced(a);
  auto band = reduced.bidiagonal();  // A copy, as Eigen gives no diagonal of a constant one.
  b.d = band.diagonal<0>();
  b.e = band.diagonal<1>();
  ThinSvd out;
  if (!vectors) {
    if (!b.Diagonalize(nullptr, nullptr)) return ByJacobi(a, vectors);
    out.values = b.d.cwiseAbs();
    std::sort(out.values.begin(), out.values.end(), std::greater<double>());
    return out;
  }
  Rotated u(n), v(n);
  if (!b.Diagonalize(&u, &v)) return ByJacobi(a, vectors);
  const VectorXd values = b.d.cwiseAbs();
  const std::vector<Index> order = Descending(values);
  const auto left = u.Get(), right = v.Get();
  out.values.resize(n);
  out.u = MatrixXd::Zero(m, n);
  out.v.resize(n, n);
  for (Index j = 0; j < n; ++j) {
    const Index from = order[static_cast<size_t>(j)];
    out.values[j] = values[from];
    out.u.col(j).head(n) = left.col(from);
    out.v.col(j) = std::copysign(1.0, b.d[from]) * right.col(from);
  }
  reduced.householderU().applyThisOnTheLeft(out.u);
  reduced.householderV().applyThisOnTheLeft(out.v);
  return out;
}

// Decomposes a finite matrix of m >= n and entries up to 1 by way of A = Q R.
ThinSvd DecomposeLong(const MatrixXd& a, bool vectors) {
  const Index m = a.rows(), n = a.cols();
  if (n == 1 || static_cast<double>(m) < kLong * static_cast<double>(n)) return DecomposeSquarish(a, vectors);
  const Eigen::HouseholderQR<MatrixXd> qr(a);
  ThinSvd out = DecomposeSquarish(qr.matrixQR().topRows(n).triangularView<Eigen::Upper>(), vectors);
  if (!vectors) return out;
  MatrixXd u = MatrixXd::Zero(m, n);
  u.topRows(n) = out.u;
  u.applyOnTheLeft(qr.householderQ());
  out.u = std::move(u);
  return out;
}

ThinSvd Decompose(const Eigen::Ref<const MatrixXd>& a, bool vectors) {
  LUTHIER_CHECK(a.size() > 0);
  const Index count = std::min(a.rows(), a.cols());
  ThinSvd out;
  if (!a.allFinite()) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    out.values = VectorXd::Constant(count, nan);
    if (vectors) {
      out.u = MatrixXd::Constant(a.rows(), count, nan);
      out.v = MatrixXd::Constant(a.cols(), count, nan);
    }
    return out;
  }
  const double largest = a.cwiseAbs().maxCoeff();
  if (largest == 0.0) {
    out.values = VectorXd::Zero(count);
    if (vectors) {
      out.u = MatrixXd::Identity(a.rows(), count);
      out.v = MatrixXd::Identity(a.cols(), count);
    }
    return out;
  }
  // Powers of 2 scale exactly, in two steps as that of the smallest numbers is not finite.
  const int exponent = std::ilogb(largest) + 1, half = exponent / 2;
  const double first = std::ldexp(1.0, -half), second = std::ldexp(1.0, half - exponent);
  if (a.rows() >= a.cols()) {
    out = DecomposeLong((a * first) * second, vectors);
  } else {
    out = DecomposeLong((a.transpose() * first) * second, vectors);
    std::swap(out.u, out.v);
  }
  out.values = (out.values / first) / second;
  return out;
}

}  // namespace

ThinSvd ComputeThinSvd(const Eigen::Ref<const MatrixXd>& a) {
  return Decompose(a, true);
}

VectorXd SingularValues(const Eigen::Ref<const MatrixXd>& a) {
  return Decompose(a, false).values;
}

}  // namespace luthier::math
