#include "lib/math/banded_qr.h"

#include <cmath>

#include "lib/base/check.h"

namespace luthier::math {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using Eigen::internal::padd;
using Eigen::internal::pmadd;

#ifdef EIGEN_VECTORIZE_AVX512
using Packet = Eigen::internal::packet_traits<double>::half;
#else
using Packet = Eigen::internal::packet_traits<double>::type;
#endif
constexpr Index kLanes = sizeof(Packet) / sizeof(double);
constexpr Index kPanel = 4;  // Columns whose reflections are applied together.
static_assert(kPanel % kLanes == 0);

Index Padded(Index n) {
  return (n + kPanel - 1) / kPanel * kPanel;
}

// Four reflectors over the same rows, zeros where they have none.
struct Panel {
  explicit Panel(Index window) : v(MatrixXd::Zero(window, kPanel)) {}

  // c -= V T c for kColumns columns that begin at `c`, `stride` apart: the reflections in order, first column of V
  // first.
  template <int kColumns>
  void Apply(double* c, Index stride) const {
    const Index window = v.rows();
    Packet sums[kColumns][kPanel];
    for (auto& column : sums) {
      for (Packet& sum : column) sum = Eigen::internal::pset1<Packet>(0.0);
    }
    for (Index i = 0; i < window; i += kLanes) {
      Packet a[kColumns];
      for (int k = 0; k < kColumns; ++k) a[k] = Eigen::internal::ploadu<Packet>(c + k * stride + i);
      for (int r = 0; r < kPanel; ++r) {
        const Packet u = Eigen::internal::ploadu<Packet>(v.data() + r * window + i);
        for (int k = 0; k < kColumns; ++k) sums[k][r] = pmadd(u, a[k], sums[k][r]);
      }
    }
    Packet factors[kColumns][kPanel];
    for (int k = 0; k < kColumns; ++k) {
      double t[kPanel];
      for (int r = 0; r < kPanel; ++r) {
        double dot = Eigen::internal::predux(sums[k][r]);
        for (int s = 0; s < r; ++s) dot -= products[r][s] * t[s];
        t[r] = tau[r] * dot;
        factors[k][r] = Eigen::internal::pset1<Packet>(-t[r]);
      }
    }
    for (Index i = 0; i < window; i += kLanes) {
      Packet u[kPanel];
      for (int r = 0; r < kPanel; ++r) u[r] = Eigen::internal::ploadu<Packet>(v.data() + r * window + i);
      for (int k = 0; k < kColumns; ++k) {
        double* at = c + k * stride + i;
        const Packet low = pmadd(u[0], factors[k][0], Eigen::internal::ploadu<Packet>(at));
        const Packet high = pmadd(u[3], factors[k][3], Eigen::internal::pmul(u[2], factors[k][2]));
        Eigen::internal::pstoreu(at, padd(pmadd(u[1], factors[k][1], low), high));
      }
    }
  }

  MatrixXd v;                                 // window x 4.
  double tau[kPanel] = {0.0, 0.0, 0.0, 0.0};  // 0: no reflection.
  double products[kPanel][kPanel] = {};       // v_r'v_s for s < r.
};

}  // namespace

BandedQr::BandedQr(const Eigen::Ref<const MatrixXd>& a, Index band)
    : rows_(a.rows()), columns_(a.cols()), band_(band), tau_(VectorXd::Zero(a.cols())) {
  LUTHIER_CHECK(band >= 0 && rows_ >= columns_ && rows_ <= columns_ + band);
  const Index window = Padded(band + kPanel);
  // The stride is not a multiple of 64 bytes, lest columns share their places in the cache.
  const Index stride = Padded(columns_) + window + kPanel;
  work_ = MatrixXd::Zero(stride % 8 == 0 ? stride + kPanel : stride, columns_);
  for (Index j = 0; j < columns_; ++j) {
    const Index used = std::min(j + band + 1, rows_);
    work_.col(j).head(used) = a.col(j).head(used);
  }
  Panel panel(window);
  for (Index first = 0; first < columns_; first += kPanel) {
    const Index end = std::min(first + kPanel, columns_);
    for (Index j = first; j < end; ++j) Reflect(j, end);
    if (end == columns_) break;
    for (int r = 0; r < kPanel; ++r) {
      const Index j = first + r, tail = Length(j) - 1;
      panel.v.col(r).setZero();
      panel.v(r, r) = 1.0;
      panel.v.col(r).segment(r + 1, tail) = work_.col(j).segment(j + 1, tail);
      panel.tau[r] = tau_(j);
      for (int s = 0; s < r; ++s) panel.products[r][s] = panel.v.col(r).dot(panel.v.col(s));
    }
    const Index columns_stride = work_.rows();
    Index k = end;
    for (; k + 2 <= columns_; k += 2) panel.Apply<2>(&work_(first, k), columns_stride);
    if (k < columns_) panel.Apply<1>(&work_(first, k), columns_stride);
  }
}

void BandedQr::Reflect(Index j, Index end) {
  const Index tail = Length(j) - 1;
  double& head = work_(j, j);
  auto v = work_.col(j).segment(j + 1, tail);
  const double below = v.squaredNorm();
  if (!(below > 0.0)) return;  // There is nothing to reflect.
  const double norm = std::sqrt(head * head + below);
  const double image = head > 0.0 ? -norm : norm;
  tau_(j) = (image - head) / image;
  v /= head - image;
  head = image;
  for (Index k = j + 1; k < end; ++k) {
    auto c = work_.col(k).segment(j + 1, tail);
    const double t = tau_(j) * (work_(j, k) + v.dot(c));
    work_(j, k) -= t;
    c -= t * v;
  }
}

void BandedQr::ApplyQ(VectorXd* x) const {
  LUTHIER_CHECK(x->size() == rows_);
  for (Index j = columns_; j-- > 0;) {
    const Index tail = Length(j) - 1;
    const auto v = work_.col(j).segment(j + 1, tail);
    const double t = tau_(j) * ((*x)(j) + v.dot(x->segment(j + 1, tail)));
    (*x)(j) -= t;
    x->segment(j + 1, tail) -= t * v;
  }
}

}  // namespace luthier::math
