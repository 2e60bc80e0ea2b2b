#include "lib/kernels/derivatives.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"

namespace luthier::kernels {

using Eigen::ArrayXd;
using Eigen::ArrayXXd;
using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::RowVectorXd;
using Eigen::VectorXd;

namespace {

constexpr int64_t kProfile = 20;  // Operations of a kernel's value and its derivatives, given the distance.

// Rows of each point, in the order of the row list.
struct RowsOfPoints {
  struct Slope {
    Index row, slope;
  };
  explicit RowsOfPoints(const ObservedRows& observed) : value(static_cast<size_t>(observed.points.rows()), -1) {
    begin.assign(value.size() + 1, 0);
    for (const ObservedRow& row : observed.rows) {
      LUTHIER_CHECK(row.point >= 0 && row.point < observed.points.rows() && row.slope < observed.directions.rows());
      if (row.slope >= 0) ++begin[static_cast<size_t>(row.point) + 1];
    }
    for (size_t p = 0; p < value.size(); ++p) begin[p + 1] += begin[p];
    slopes.resize(begin.back());
    std::vector<size_t> next = begin;
    for (size_t i = 0; i < observed.rows.size(); ++i) {
      const ObservedRow& row = observed.rows[i];
      const size_t point = static_cast<size_t>(row.point);
      if (row.slope >= 0) {
        slopes[next[point]++] = {static_cast<Index>(i), row.slope};
      } else {
        LUTHIER_CHECK(value[point] < 0);
        value[point] = static_cast<Index>(i);
      }
    }
  }
  Index count(Index point) const {
    return static_cast<Index>(begin[static_cast<size_t>(point) + 1] - begin[static_cast<size_t>(point)]);
  }
  const Slope& at(Index point, Index i) const {
    return slopes[begin[static_cast<size_t>(point)] + static_cast<size_t>(i)];
  }
  Index value_row(Index point) const { return value[static_cast<size_t>(point)]; }

  std::vector<Index> value;  // Row, or -1.
  std::vector<size_t> begin;
  std::vector<Slope> slopes;
};

// Entry (i, j) of a symmetric matrix held below its diagonal.
double& Lower(MatrixXd* m, Index i, Index j) {
  return i >= j ? (*m)(i, j) : (*m)(j, i);
}
double Lower(const MatrixXd& m, Index i, Index j) {
  return i >= j ? m(i, j) : m(j, i);
}

double Dot(const double* a, const double* b, Index d) {
  double sum = 0.0;
  for (Index j = 0; j < d; ++j) sum += a[j] * b[j];
  return sum;
}

}  // namespace

// Row i: one point against the fixed one. Columns: parts.
struct DerivativeKernel::Parts {
  ArrayXXd r2, value, first, second, third;
};

struct DerivativeKernel::Pair {
  Pair(int parts, Index d) : f(parts), f1(parts), f2(parts), kp(parts), c(parts), e(parts), sums(parts), work(d) {}
  double k = 0.0;
  double sum = 0.0;   // sum_p f_p.
  ArrayXd f, f1, f2;  // Profiles, unit variance.
  ArrayXd kp, c;      // dk/df_p and c_p.
  ArrayXd e;          // E_pp less the rank-one term `off` f'_p f'_p, which runs over all pairs of parts.
  double off = 0.0;   // 4 k_pq, the same for all p != q.
  ArrayXd sums;       // Work space.
  VectorXd work;
};

DerivativeKernel::DerivativeKernel(StationaryKernel kernel) : kernel_(std::move(kernel)) {
  const KernelShape& shape = kernel_.shape();
  if (shape.structure == Structure::kJoint) {
    part_.assign(shape.column_group.size(), 0);
  } else {
    part_ = shape.column_group;
    parts_ = shape.groups;
    single_ = kernel_.single_weight();
    pair_ = kernel_.pair_weight();
  }
}

VectorXd DerivativeKernel::GradientVariances() const {
  const double first = Profile(kernel_.shape().family, 0.0).slope;
  const double c = -2.0 * kernel_.signal_variance() * (single_ + pair_ * (parts_ - 1)) * first;
  return c * kernel_.inverse_lengthscales().transpose().array().square();
}

KernelGradient DerivativeKernel::LogMeanGradientVariance() const {
  const KernelShape& shape = kernel_.shape();
  KernelGradient gradient;
  gradient.log_lengthscales = VectorXd::Zero(shape.groups);
  const RowVectorXd& inverse = kernel_.inverse_lengthscales();
  const double total = inverse.squaredNorm();
  if (inverse.size() == 0) return gradient;
  for (Index j = 0; j < inverse.size(); ++j) {
    gradient.log_lengthscales(shape.column_group[static_cast<size_t>(j)]) -= 2.0 * inverse(j) * inverse(j) / total;
  }
  if (shape.structure == Structure::kPairwise) {
    // At r = 0 the factor is (1 + 2 rho)/(G (1 + rho)).
    const double rho = kernel_.shape_parameter();
    gradient.log_shape_parameter = rho * (2.0 / (1.0 + 2.0 * rho) - 1.0 / (1.0 + rho));
  }
  return gradient;
}

template <typename Rows, typename Point>
void DerivativeKernel::Evaluate(const Rows& a, const Point& z, bool with_second, bool with_third, Parts* parts) const {
  const Index m = a.rows();
  parts->r2.setZero(m, parts_);
  parts->value.resize(m, parts_);
  parts->first.resize(m, parts_);
  for (Index j = 0; j < a.cols(); ++j) {
    parts->r2.col(part_[static_cast<size_t>(j)]) += (a.col(j).array() - z(j)).square();
  }
  const Family family = kernel_.shape().family;
  const Index size = m * parts_;
  if (!with_second) {
    EvaluateProfile(family, 1.0, size, parts->r2.data(), parts->value.data(), parts->first.data());
    return;
  }
  parts->second.resize(m, parts_);
  if (with_third) parts->third.resize(m, parts_);
  EvaluateProfileDerivatives(family, size, parts->r2.data(), parts->value.data(), parts->first.data(),
                             parts->second.data(), with_third ? parts->third.data() : nullptr);
}

void DerivativeKernel::Load(const Parts& parts, Index i, Pair* pair) const {
  const double s = kernel_.signal_variance();
  double sum = 0.0, square = 0.0;
  for (int p = 0; p < parts_; ++p) {
    const double f = parts.value(i, p);
    pair->f(p) = f;
    pair->f1(p) = parts.first(i, p);
    pair->f2(p) = parts.second(i, p);
    sum += f;
    square += f * f;
  }
  pair->sum = sum;
  pair->k = s * (single_ * sum + 0.5 * pair_ * (sum * sum - square));
  pair->off = 4.0 * s * pair_;
  for (int p = 0; p < parts_; ++p) {
    const double f1 = pair->f1(p);
    const double kp = s * (single_ + pair_ * (sum - pair->f(p)));
    pair->kp(p) = kp;
    pair->c(p) = 2.0 * kp * f1;
    pair->e(p) = 4.0 * kp * pair->f2(p) - pair->off * f1 * f1;
  }
}

void DerivativeKernel::ApplyHessian(const double* delta, const double* w, Pair* pair, double* out) const {
  const Index d = static_cast<Index>(part_.size());
  if (parts_ == 1) {
    const double by_delta = pair->e(0) * Dot(delta, w, d), c = pair->c(0);
    for (Index j = 0; j < d; ++j) out[j] = c * w[j] + by_delta * delta[j];
    return;
  }
  pair->sums.setZero();
  for (Index j = 0; j < d; ++j) pair->sums(part_[static_cast<size_t>(j)]) += delta[j] * w[j];
  const double total = pair->off * (pair->f1 * pair->sums).sum();
  for (Index j = 0; j < d; ++j) {
    const int p = part_[static_cast<size_t>(j)];
    out[j] = pair->c(p) * w[j] + delta[j] * (pair->e(p) * pair->sums(p) + total * pair->f1(p));
  }
}

absl::Status DerivativeKernel::GramLower(const ObservedRows& observed, MatrixXd* k, const base::StopToken& stop) const {
  const Index n = observed.points.rows(), d = observed.points.cols();
  LUTHIER_CHECK(d == static_cast<Index>(part_.size()) && observed.directions.cols() == d);
  const Index total = static_cast<Index>(observed.rows.size());
  const RowsOfPoints rows(observed);
  // Points and directions by rows, so that one of them is contiguous.
  const MatrixXd z = observed.points.transpose(), w = observed.directions.transpose();
  k->resize(total, total);
  Parts parts;
  Pair pair(parts_, d);
  VectorXd delta(d);
  MatrixXd hessian;
  base::Pace pace(stop);
  for (Index b = 0; b < n; ++b) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll((n - b) * (d + kProfile)));
    Evaluate(observed.points.bottomRows(n - b), observed.points.row(b), true, false, &parts);
    const Index slopes_b = rows.count(b);
    const Index value_b = rows.value_row(b);
    hessian.resize(d, slopes_b);
    for (Index a = b; a < n; ++a) {
      Load(parts, a - b, &pair);
      const Index value_a = rows.value_row(a);
      if (value_a >= 0 && value_b >= 0) Lower(k, value_a, value_b) = pair.k;
      const Index slopes_a = rows.count(a);
      if (slopes_a == 0 && slopes_b == 0) continue;
      LUTHIER_RETURN_IF_ERROR(pace.Poll((1 + slopes_a) * (1 + slopes_b) * d));
      delta = z.col(a) - z.col(b);
      for (Index j = 0; j < d; ++j) pair.work(j) = pair.c(part_[static_cast<size_t>(j)]) * delta(j);
      if (value_b >= 0) {
        for (Index i = 0; i < slopes_a; ++i) {
          const RowsOfPoints::Slope& slope = rows.at(a, i);
          Lower(k, slope.row, value_b) = Dot(pair.work.data(), w.col(slope.slope).data(), d);
        }
      }
      for (Index i = 0; i < slopes_b; ++i) {
        const RowsOfPoints::Slope& slope = rows.at(b, i);
        const double* direction = w.col(slope.slope).data();
        if (value_a >= 0 && a != b) Lower(k, value_a, slope.row) = -Dot(pair.work.data(), direction, d);
        if (slopes_a > 0) ApplyHessian(delta.data(), direction, &pair, hessian.col(i).data());
      }
      for (Index j = 0; j < slopes_a; ++j) {
        const RowsOfPoints::Slope& own = rows.at(a, j);
        const double* direction = w.col(own.slope).data();
        for (Index i = 0; i < slopes_b; ++i) {
          Lower(k, own.row, rows.at(b, i).row) = -Dot(direction, hessian.col(i).data(), d);
        }
      }
    }
  }
  return absl::OkStatus();
}

// The weights of one pair of points a, b, scaled directions A (rows: a's slopes) and B, W their slope-slope weights:
//   F = value k + net . dk/ddelta - sum_ij (A'WB)_ij d2k/ddelta_i ddelta_j
struct DerivativeKernel::Sums {
  explicit Sums(Index d, int parts)
      : net(VectorXd::Zero(d)),
        diagonal(d),
        row(d),
        column(d),
        cross(d, d),
        first(parts),
        by_square(parts),
        both(parts, parts) {}
  double value = 0.0;
  VectorXd net;                      // A'(weights of a's slopes with b's value) - B'(of a's value with b's slopes).
  bool has_cross = false;            // True if both points have slopes: the rest is meaningful.
  double quadratic = 0.0;            // delta' A'WB delta.
  VectorXd diagonal;                 // Diagonal of A'WB.
  VectorXd row, column;              // A'WB delta and B'W'A delta. Joint kernels only.
  MatrixXd cross;                    // A'WB. Others only.
  mutable ArrayXd first, by_square;  // Work space.
  mutable ArrayXXd both;
};

void DerivativeKernel::ContractJoint(const double* delta, double f3, const Sums& sums, double times, const Pair& pair,
                                     double* by_column) const {
  // F = s (value f + 2 f' first - 4 f'' quadratic), first = net . delta - trace.
  const Index d = static_cast<Index>(part_.size());
  const double s = kernel_.signal_variance(), f1 = pair.f1(0), f2 = pair.f2(0);
  double first = Dot(sums.net.data(), delta, d);
  double by_square = sums.value * f1;
  if (sums.has_cross) {
    first -= sums.diagonal.sum();
    by_square -= 4.0 * f3 * sums.quadratic;
  }
  by_square += 2.0 * f2 * first;
  const double scale = -2.0 * times * s;
  for (Index j = 0; j < d; ++j) {
    double sum = delta[j] * (delta[j] * by_square + 2.0 * f1 * sums.net(j));
    if (sums.has_cross) sum -= 2.0 * f1 * sums.diagonal(j) + 4.0 * f2 * delta[j] * (sums.row(j) + sums.column(j));
    by_column[j] += scale * sum;
  }
}

void DerivativeKernel::ContractParts(const double* delta, const double* f3, const Sums& sums, double times,
                                     const Pair& pair, double* by_column, double* by_shape) const {
  // first_p: sum over the part of net_j delta_j - (A'WB)_jj. both_pq: of delta_i (A'WB)_ij delta_j, i in p, j in q.
  const Index d = static_cast<Index>(part_.size());
  sums.first.setZero();
  sums.both.setZero();
  for (Index j = 0; j < d; ++j) {
    const int p = part_[static_cast<size_t>(j)];
    sums.first(p) += sums.net(j) * delta[j];
    if (!sums.has_cross) continue;
    sums.first(p) -= sums.diagonal(j);
    for (Index i = 0; i < d; ++i) {
      sums.both(part_[static_cast<size_t>(i)], p) += delta[i] * sums.cross(i, j) * delta[j];
    }
  }
  // by_square_p = dF/dr_p^2, delta and the weights held.
  for (int p = 0; p < parts_; ++p) {
    double sum =
        pair.kp(p) * (sums.value * pair.f1(p) + 2.0 * pair.f2(p) * sums.first(p) - 4.0 * f3[p] * sums.both(p, p));
    for (int q = 0; q < parts_ && pair.off != 0.0; ++q) {
      if (q == p) continue;
      sum += pair.off * (0.5 * pair.f1(p) * pair.f1(q) * sums.first(q) - pair.f1(p) * pair.f2(q) * sums.both(q, q) -
                         pair.f2(p) * pair.f1(q) * (sums.both(p, q) + sums.both(q, p)));
    }
    sums.by_square(p) = sum;
  }
  for (Index j = 0; j < d; ++j) {
    const int p = part_[static_cast<size_t>(j)];
    double sum = delta[j] * (delta[j] * sums.by_square(p) + pair.c(p) * sums.net(j));
    if (sums.has_cross) {
      double by_delta = 0.0;
      for (Index i = 0; i < d; ++i) {
        const int q = part_[static_cast<size_t>(i)];
        double e = pair.off * pair.f1(p) * pair.f1(q);
        if (p == q) e += pair.e(p);
        by_delta += e * (sums.cross(i, j) + sums.cross(j, i)) * delta[i];
      }
      sum -= pair.c(p) * sums.diagonal(j) + delta[j] * by_delta;
    }
    by_column[j] -= 2.0 * times * sum;
  }
  if (pair_ == 0.0) return;
  // F is linear in the weights of sum_p f_p and of sum_{p<q} f_p f_q.
  double singles = 0.0, pairs = 0.0;
  for (int p = 0; p < parts_; ++p) {
    const double own = 2.0 * pair.f1(p) * sums.first(p) - 4.0 * pair.f2(p) * sums.both(p, p);
    singles += sums.value * pair.f(p) + own;
    pairs += (pair.sum - pair.f(p)) * (0.5 * sums.value * pair.f(p) + own);
    for (int q = 0; q < parts_; ++q) {
      if (q != p) pairs -= 4.0 * pair.f1(p) * pair.f1(q) * sums.both(p, q);
    }
  }
  const double rho = kernel_.shape_parameter();
  *by_shape += times * kernel_.signal_variance() * (pair_ * pairs - rho * single_ * singles) / (1.0 + rho);
}

absl::StatusOr<KernelGradient> DerivativeKernel::Contract(const ObservedRows& observed, const MatrixXd& weights,
                                                          const base::StopToken& stop) const {
  const Index n = observed.points.rows(), d = observed.points.cols();
  const bool joint = kernel_.shape().structure == Structure::kJoint;
  const RowsOfPoints rows(observed);
  const MatrixXd z = observed.points.transpose(), w = observed.directions.transpose();
  Parts parts;
  Pair pair(parts_, d);
  Sums sums(d, parts_);
  VectorXd delta(d), by_column = VectorXd::Zero(d), third(parts_), half(d);
  double by_shape = 0.0;
  auto add = [d](double weight, const double* from, double* to) {
    for (Index j = 0; j < d; ++j) to[j] += weight * from[j];
  };
  base::Pace pace(stop);
  for (Index b = 0; b < n; ++b) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll((n - b) * (d + kProfile)));
    Evaluate(observed.points.bottomRows(n - b), observed.points.row(b), true, true, &parts);
    const Index slopes_b = rows.count(b), value_b = rows.value_row(b);
    for (Index a = b; a < n; ++a) {
      Load(parts, a - b, &pair);
      const Index slopes_a = rows.count(a), value_a = rows.value_row(a);
      LUTHIER_RETURN_IF_ERROR(pace.Poll((1 + slopes_a) * (1 + slopes_b) * d));
      sums.value = value_a >= 0 && value_b >= 0 ? Lower(weights, value_a, value_b) : 0.0;
      for (Index j = 0; j < d; ++j) delta(j) = z(j, a) - z(j, b);
      sums.net.setZero();
      // At one point dk/ddelta is 0.
      for (Index i = 0; i < slopes_a && a != b && value_b >= 0; ++i) {
        const RowsOfPoints::Slope& slope = rows.at(a, i);
        add(Lower(weights, slope.row, value_b), w.col(slope.slope).data(), sums.net.data());
      }
      for (Index i = 0; i < slopes_b && a != b && value_a >= 0; ++i) {
        const RowsOfPoints::Slope& slope = rows.at(b, i);
        add(-Lower(weights, value_a, slope.row), w.col(slope.slope).data(), sums.net.data());
      }
      sums.has_cross = slopes_a > 0 && slopes_b > 0;
      if (sums.has_cross) {
        sums.diagonal.setZero();
        sums.quadratic = 0.0;
        if (joint) {
          sums.row.setZero();
          sums.column.setZero();
        } else {
          sums.cross.setZero();
        }
        for (Index i = 0; i < slopes_a; ++i) {
          const RowsOfPoints::Slope& own = rows.at(a, i);
          const double* direction = w.col(own.slope).data();
          half.setZero();  // Row i of W B.
          for (Index j = 0; j < slopes_b; ++j) {
            const RowsOfPoints::Slope& other = rows.at(b, j);
            add(Lower(weights, own.row, other.row), w.col(other.slope).data(), half.data());
          }
          for (Index j = 0; j < d; ++j) sums.diagonal(j) += direction[j] * half(j);
          if (joint) {
            const double along = Dot(half.data(), delta.data(), d), own_along = Dot(direction, delta.data(), d);
            sums.quadratic += own_along * along;
            add(along, direction, sums.row.data());
            add(own_along, half.data(), sums.column.data());
          } else {
            for (Index j = 0; j < d; ++j) add(half(j), direction, sums.cross.col(j).data());
          }
        }
      }
      const double times = a == b ? 1.0 : 2.0;
      if (joint) {
        ContractJoint(delta.data(), parts.third(a - b, 0), sums, times, pair, by_column.data());
      } else {
        for (int p = 0; p < parts_; ++p) third(p) = parts.third(a - b, p);
        ContractParts(delta.data(), third.data(), sums, times, pair, by_column.data(), &by_shape);
      }
    }
  }
  KernelGradient gradient;
  gradient.log_lengthscales = VectorXd::Zero(kernel_.shape().groups);
  for (Index j = 0; j < d; ++j) {
    gradient.log_lengthscales(kernel_.shape().column_group[static_cast<size_t>(j)]) += by_column(j);
  }
  gradient.log_shape_parameter = by_shape;
  return gradient;
}

void DerivativeKernel::Cross(const ObservedRows& observed, const Eigen::Ref<const MatrixXd>& b, MatrixXd* k) const {
  const Index n = observed.points.rows(), d = observed.points.cols(), m = observed.directions.rows();
  LUTHIER_CHECK(d == static_cast<Index>(part_.size()) && b.cols() == d);
  const Index total = static_cast<Index>(observed.rows.size());
  k->resize(total, b.rows());
  // The points of the slopes, one a row, so that all slopes are done at once.
  std::vector<Index> row_of(static_cast<size_t>(m), -1), point_of(static_cast<size_t>(m), 0);
  MatrixXd at(m, d);
  for (Index i = 0; i < total; ++i) {
    const ObservedRow& row = observed.rows[static_cast<size_t>(i)];
    if (row.slope < 0) continue;
    row_of[static_cast<size_t>(row.slope)] = i;
    point_of[static_cast<size_t>(row.slope)] = row.point;
    at.row(row.slope) = observed.points.row(row.point);
  }
  const double s = kernel_.signal_variance();
  Parts parts;
  ArrayXd sum(n), slopes(m), inner(m);
  ArrayXXd c(n, parts_);
  for (Index q = 0; q < b.rows(); ++q) {
    Evaluate(observed.points, b.row(q), false, false, &parts);
    sum = parts.value.rowwise().sum();
    for (int p = 0; p < parts_; ++p) {
      c.col(p) = 2.0 * s * (single_ + pair_ * (sum - parts.value.col(p))) * parts.first.col(p);
    }
    const ArrayXd values = s * (single_ * sum + 0.5 * pair_ * (sum.square() - parts.value.square().rowwise().sum()));
    slopes.setZero();
    for (int p = 0; p < parts_; ++p) {
      inner.setZero();
      for (Index j = 0; j < d; ++j) {
        if (part_[static_cast<size_t>(j)] == p)
          inner += observed.directions.col(j).array() * (at.col(j).array() - b(q, j));
      }
      for (Index i = 0; i < m; ++i) slopes(i) += c(point_of[static_cast<size_t>(i)], p) * inner(i);
    }
    double* column = k->data() + q * total;
    for (Index i = 0; i < total; ++i) {
      const ObservedRow& row = observed.rows[static_cast<size_t>(i)];
      column[i] = row.slope < 0 ? values(row.point) : slopes(row.slope);
    }
  }
}

void DerivativeKernel::PointCross(const ObservedRows& observed, const RowVectorXd& z, VectorXd* k,
                                  MatrixXd* jacobian) const {
  const Index d = observed.points.cols();
  LUTHIER_CHECK(d == static_cast<Index>(part_.size()) && z.size() == d);
  const Index total = static_cast<Index>(observed.rows.size());
  k->resize(total);
  jacobian->resize(total, d);
  Parts parts;
  Evaluate(observed.points, z, true, false, &parts);
  Pair pair(parts_, d);
  VectorXd delta(d), w(d), out(d);
  Index loaded = -1;
  for (Index i = 0; i < total; ++i) {
    const ObservedRow& row = observed.rows[static_cast<size_t>(i)];
    if (row.point != loaded) {
      Load(parts, row.point, &pair);
      delta = (observed.points.row(row.point) - z).transpose();
      loaded = row.point;
    }
    if (row.slope < 0) {
      (*k)(i) = pair.k;
      for (Index j = 0; j < d; ++j) out(j) = pair.c(part_[static_cast<size_t>(j)]) * delta(j);
    } else {
      w = observed.directions.row(row.slope).transpose();
      (*k)(i) = 0.0;
      for (Index j = 0; j < d; ++j) (*k)(i) += pair.c(part_[static_cast<size_t>(j)]) * w(j) * delta(j);
      ApplyHessian(delta.data(), w.data(), &pair, out.data());
    }
    jacobian->row(i) = -out.transpose().cwiseProduct(kernel_.inverse_lengthscales());
  }
}

}  // namespace luthier::kernels
