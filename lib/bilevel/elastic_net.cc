#include "lib/bilevel/elastic_net.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "lib/base/check.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/bilevel/null_space.h"

namespace luthier::bilevel {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using Residual = CenteredColumns::Residual;

constexpr double kCondensedEntries = 1 << 20;  // Entries of X~ from which on a condensed copy is worth its price,
constexpr double kCondensingWork = 5e10;       //   and the multiplications that it may take.
constexpr double kDense = 0.25;                // Share of entries above which a dense copy is faster.
constexpr double kGramWork = 1e9;              // Multiplications.
constexpr Index kLargestGram = 3000;
constexpr int kSweepsARound = 20;           // Sweeps of coordinate descent before the support is solved for.
constexpr int kCrossings = 20;              // Weights that may reach 0 while the support is solved for.
constexpr double kSettled = 1e-2;           // A sweep that gains less than this share of the gap ends the round.
constexpr size_t kLeastNew = 100;           // Least number of columns that may join the working set at once.
constexpr int kFruitless = 5;               // Rounds without progress after which rounding prevents any.
constexpr double kRounding = 1e-14;         // As a share of h(0); smaller differences are rounding.
constexpr double kProductRounding = 1e-13;  // Share of the size of a product that may be rounding.

double SoftThreshold(double x, double by) {
  return x > by ? x - by : x < -by ? x + by : 0.0;
}

// One training.
class Descent {
 public:
  Descent(const CenteredColumns& x, const VectorXd& y, const ElasticNetOptions& options, const base::StopToken& stop)
      : x_(x), y_(y), options_(options), stop_(stop), pace_(stop), half_(0.5 * y.squaredNorm()) {}

  absl::StatusOr<ElasticNetFit> Run() {
    double top = 0.0;
    if (options_.start != nullptr) {
      LUTHIER_ASSIGN_OR_RETURN(c_, x_.DotAll(CenteredColumns::From(y_), stop_));
      top = c_.size() > 0 ? c_.lpNorm<Eigen::Infinity>() : 0.0;
    }
    fit_.weights = options_.start != nullptr ? *options_.start : VectorXd::Zero(x_.cols());
    LUTHIER_RETURN_IF_ERROR(Renew());
    double best = INFINITY;
    int fruitless = 0;
    for (bool first = options_.start == nullptr;; first = false) {
      LUTHIER_ASSIGN_OR_RETURN(c_, x_.DotAll(r_, stop_));
      if (first) top = c_.size() > 0 ? c_.lpNorm<Eigen::Infinity>() : 0.0;
      const double away = Certify(top);
      if (!std::isfinite(fit_.gap)) return fit_;
      fit_.converged = fit_.gap <= options_.tolerance * half_;
      if (fit_.converged) return fit_;
      fruitless = fit_.gap < 0.9 * best ? 0 : fruitless + 1;
      best = std::min(best, fit_.gap);
      fit_.exact = fruitless >= kFruitless && (fit_.gap <= kRounding * half_ || away <= kProductRounding);
      if (fit_.exact || fit_.sweeps >= options_.max_sweeps) return fit_;
      LUTHIER_RETURN_IF_ERROR(Round());
    }
  }

 private:
  // Computes the residual of the weights, whose updates drift.
  absl::Status Renew() {
    r_ = CenteredColumns::From(y_);
    for (const Index j : SupportOf(fit_.weights)) {
      LUTHIER_RETURN_IF_ERROR(pace_.Poll(x_.cost(j)));
      x_.Add(j, -fit_.weights[j], &r_);
    }
    return absl::OkStatus();
  }

  // Computes objective, gap and conditions at the weights, from c_. Returns the largest violation of a condition as a
  // share of the numbers whose rounding is in it.
  double Certify(double top) {
    const VectorXd& w = fit_.weights;
    const double l1 = options_.l1, l2 = options_.l2;
    const VectorXd r = r_.value.array() + r_.shift;
    fit_.objective = 0.5 * r.squaredNorm() + l1 * w.lpNorm<1>() + 0.5 * l2 * w.squaredNorm();
    const VectorXd pull = c_ - l2 * w;
    const double largest = pull.size() > 0 ? pull.lpNorm<Eigen::Infinity>() : 0.0;
    // Fenchel's dual at a multiple t of the residual. There are two: of the lasso on rows extended by sqrt(l2) I, and
    // of the problem itself.
    const double t = largest > l1 ? l1 / largest : 1.0;
    double dual = half_ - 0.5 * (y_ - t * r).squaredNorm() - 0.5 * l2 * t * t * w.squaredNorm();
    if (l2 > 0.0) {
      double soft = 0.0;
      for (Index j = 0; j < c_.size(); ++j) soft += std::pow(SoftThreshold(c_[j], l1), 2);
      dual = std::max(dual, half_ - 0.5 * (y_ - r).squaredNorm() - soft / (2.0 * l2));
    }
    fit_.gap = std::max(0.0, fit_.objective - dual);
    fit_.violation = 0.0;
    fit_.kink_margin = 1.0;
    double size = std::sqrt(2.0 * half_), rounded = 0.0;
    for (Index j = 0; j < w.size(); ++j) size += std::abs(w[j]) * std::sqrt(x_.square(j));
    for (Index j = 0; j < w.size(); ++j) {
      double away = 0.0, margin = 1.0;
      if (w[j] == 0.0) {
        away = std::max(0.0, std::abs(c_[j]) - l1);
        margin = (l1 - std::abs(c_[j])) / l1;
      } else {
        away = std::abs(pull[j] - (w[j] > 0.0 ? l1 : -l1));
        margin = std::abs(w[j]) * (x_.square(j) + l2) / l1;
      }
      fit_.violation = std::max(fit_.violation, away);
      if (away > 0.0) rounded = std::max(rounded, away / (std::sqrt(x_.square(j)) * size + l2 * std::abs(w[j])));
      if (l1 > 0.0) fit_.kink_margin = std::min(fit_.kink_margin, std::max(0.0, margin));
    }
    if (top > 0.0) fit_.violation /= top;
    return rounded;
  }

  absl::Status Round() {
    std::vector<Index> work = SupportOf(fit_.weights), more;
    for (Index j = 0; j < c_.size(); ++j) {
      if (fit_.weights[j] == 0.0 && std::abs(c_[j]) > options_.l1 && x_.square(j) > 0.0) more.push_back(j);
    }
    const size_t most = std::max(kLeastNew, work.size());
    if (more.size() > most) {
      std::nth_element(more.begin(), more.begin() + static_cast<std::ptrdiff_t>(most), more.end(),
                       [this](Index a, Index b) {
                         const double left = std::abs(c_[a]), right = std::abs(c_[b]);
                         return left != right ? left > right : a < b;
                       });
      more.resize(most);
    }
    work.insert(work.end(), more.begin(), more.end());
    std::sort(work.begin(), work.end());
    for (int k = 0; k < kSweepsARound && fit_.sweeps < options_.max_sweeps; ++k) {
      ++fit_.sweeps;
      double gained = 0.0;
      for (const Index j : work) {
        LUTHIER_RETURN_IF_ERROR(pace_.Poll(2 * x_.cost(j) + base::kRandomAccess));
        const double curvature = x_.square(j) + options_.l2;
        if (!(curvature > 0.0)) continue;
        const double old = fit_.weights[j];
        const double next = SoftThreshold(x_.Dot(j, r_) + x_.square(j) * old, options_.l1) / curvature;
        if (next == old) continue;
        x_.Add(j, old - next, &r_);
        fit_.weights[j] = next;
        gained += 0.5 * curvature * (next - old) * (next - old);
      }
      if (gained <= kSettled * fit_.gap) break;
    }
    LUTHIER_RETURN_IF_ERROR(SolveOnSupport());
    return Renew();
  }

  // Moves to the minimum over the weights with the present signs, and drops weights that reach 0 on the way. Each step
  // lowers h, which is a convex quadratic there.
  absl::Status SolveOnSupport() {
    std::vector<Index> support = SupportOf(fit_.weights);
    if (support.empty()) return absl::OkStatus();
    LUTHIER_ASSIGN_OR_RETURN(std::optional<MatrixXd> gram, x_.Gram(support, stop_));
    if (!gram) return absl::OkStatus();
    MatrixXd hessian = *std::move(gram);
    hessian.diagonal().array() += options_.l2;
    // In units of the columns, so that columns of other units do not look dependent.
    VectorXd unit = hessian.diagonal().cwiseSqrt();
    hessian = unit.cwiseInverse().asDiagonal() * hessian * unit.cwiseInverse().asDiagonal();
    const Residual target = CenteredColumns::From(y_);
    // Leaves weights that became 0 out of the problem. Returns false if there are none.
    const auto drop_zeros = [&] {
      std::vector<Index> kept, places;
      for (size_t i = 0; i < support.size(); ++i) {
        if (fit_.weights[support[i]] == 0.0) continue;
        kept.push_back(support[i]);
        places.push_back(static_cast<Index>(i));
      }
      if (kept.size() == support.size()) return false;
      hessian = MatrixXd(hessian(places, places));
      unit = VectorXd(unit(places));
      support = std::move(kept);
      return true;
    };
    for (int k = 0; k < kCrossings && !support.empty(); ++k) {
      const auto size = static_cast<Index>(support.size());
      VectorXd b(size), from(size);
      for (Index i = 0; i < size; ++i) {
        const Index j = support[static_cast<size_t>(i)];
        LUTHIER_RETURN_IF_ERROR(pace_.Poll(x_.cost(j)));
        from[i] = fit_.weights[j] * unit[i];
        b[i] = (x_.Dot(j, target) - (from[i] > 0.0 ? options_.l1 : -options_.l1)) / unit[i];
      }
      math::CholeskyOptions exact;
      exact.rungs = 0;
      LUTHIER_ASSIGN_OR_RETURN(const std::optional<math::Cholesky> factor,
                               math::Cholesky::Factor(hessian, exact, stop_));
      const bool regular = factor && factor->lower().diagonal().cwiseAbs2().minCoeff() >
                                         kDependent * factor->lower().diagonal().cwiseAbs2().maxCoeff();
      if (!regular) {
        // The weights are not unique; those with the least l1 norm and the fewest columns are as good as others.
        if (options_.l2 > 0.0 || !DropDependent(hessian, from.cwiseSign().cwiseQuotient(unit), &from))
          return absl::OkStatus();
        for (Index i = 0; i < size; ++i) fit_.weights[support[static_cast<size_t>(i)]] = from[i] / unit[i];
        if (!drop_zeros()) return absl::OkStatus();
        continue;
      }
      VectorXd to = factor->Solve(b);
      to += factor->Solve(b - hessian.selfadjointView<Eigen::Lower>() * to);
      if (!to.allFinite()) return absl::OkStatus();
      double step = 1.0;
      for (Index i = 0; i < size; ++i) {
        if (from[i] * to[i] <= 0.0) step = std::min(step, from[i] / (from[i] - to[i]));
      }
      for (Index i = 0; i < size; ++i) {
        const double value = step == 1.0 ? to[i] : from[i] + step * (to[i] - from[i]);
        const bool crossed = from[i] * to[i] <= 0.0 && from[i] / (from[i] - to[i]) <= step;
        fit_.weights[support[static_cast<size_t>(i)]] = crossed || value * from[i] <= 0.0 ? 0.0 : value / unit[i];
      }
      if (!drop_zeros()) return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  const CenteredColumns& x_;
  const VectorXd& y_;
  const ElasticNetOptions options_;
  const base::StopToken stop_;
  base::Pace pace_;
  const double half_;
  ElasticNetFit fit_;
  Residual r_;  // y - X~ w
  VectorXd c_;
};

}  // namespace

absl::Status CenteredColumns::ByColumns(const LeastSquaresData& data, const base::StopToken& stop, Sparse* out) {
  base::Pace pace(stop);
  const auto each = [&](const auto& f) -> absl::Status {
    for (Index i = 0; i < data.rows(); ++i) {
      const LeastSquaresData::Entries row = data.row(i);
      LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess * (row.count + 1)));
      for (int64_t e = 0; e < row.count; ++e) f(i, row.column[e], row.value[e]);
    }
    return absl::OkStatus();
  };
  out->resize(data.rows(), data.cols());
  out->resizeNonZeros(data.nonzeros());
  int64_t* const start = out->outerIndexPtr();
  std::fill(start, start + data.cols() + 1, 0);
  LUTHIER_RETURN_IF_ERROR(each([&](Index, int32_t j, double) { ++start[j + 1]; }));
  std::partial_sum(start, start + data.cols() + 1, start);
  std::vector<int64_t> next(start, start + data.cols());
  return each([&](Index i, int32_t j, double value) {
    const int64_t at = next[static_cast<size_t>(j)]++;
    out->innerIndexPtr()[at] = i;
    out->valuePtr()[at] = value;
  });
}

absl::StatusOr<CenteredColumns> CenteredColumns::Create(const LeastSquaresData& data, int64_t max_bytes,
                                                        const base::StopToken& stop) {
  CenteredColumns out;
  const Index n = data.rows(), p = data.cols();
  out.rows_ = n;
  out.squares_ = data.column_squares();
  base::Pace pace(stop);
  const double all = static_cast<double>(n) * static_cast<double>(p);
  if (8.0 * all <= static_cast<double>(max_bytes) && static_cast<double>(data.nonzeros()) >= kDense * all) {
    out.dense_.resize(n, p);
    for (Index i = 0; i < n; ++i) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(2 * p + 1));
      out.dense_.row(i) = -data.mean().transpose();
      const LeastSquaresData::Entries row = data.row(i);
      for (int64_t e = 0; e < row.count; ++e) out.dense_(i, row.column[e]) += row.value[e];
    }
    for (Index j = 0; j < p; ++j) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(2 * n + 1));
      out.dense_.col(j) *= data.scale()[j];
      out.squares_[j] = out.dense_.col(j).squaredNorm();
    }
    return out;
  }
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  LUTHIER_RETURN_IF_ERROR(ByColumns(data, stop, &out.sparse_));
  out.mean_ = data.mean();
  out.scale_ = data.scale();
  out.sums_ = VectorXd::Zero(p);
  for (Index j = 0; j < p; ++j) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(out.cost(j)));
    for (decltype(out.sparse_)::InnerIterator it(out.sparse_, j); it; ++it) out.sums_[j] += it.value();
  }
  return out;
}

bool CenteredColumns::WorthCondensing(const LeastSquaresData& data) {
  const double n = static_cast<double>(data.rows()), p = static_cast<double>(data.cols());
  return n > 2.0 * (p + 1.0) && n * p >= kCondensedEntries && 2.0 * n * p * p <= kCondensingWork &&
         static_cast<double>(data.nonzeros()) >= kDense * n * p;
}

absl::StatusOr<CenteredColumns> CenteredColumns::Condense(const LeastSquaresData& data, VectorXd* target,
                                                          const base::StopToken& stop) {
  constexpr Index kStrip = 128;
  const Index n = data.rows(), p = data.cols();
  MatrixXd r = MatrixXd::Zero(p + 1, p + 1);
  VectorXd products;
  for (Index begin = 0; begin < n; begin += kStrip) {
    const Index count = std::min(kStrip, n - begin);
    MatrixXd strip(count, p + 1);
    strip.leftCols(p) = data.Dense(begin, count);
    strip.col(p) = data.target().segment(begin, count);
    // Reflects entry k of the triangle and column k of the strip onto the entry.
    for (Index k = 0; k <= p; ++k) {
      LUTHIER_RETURN_IF_ERROR(stop.Poll(2 * count * (p + 1 - k)));
      const double below = strip.col(k).stableNorm();
      if (below == 0.0) continue;
      const double norm = std::hypot(r(k, k), below);
      const double to = r(k, k) <= 0.0 ? norm : -norm, pivot = r(k, k) - to;
      strip.col(k) /= pivot;
      r(k, k) = to;
      const Index others = p - k;
      if (others == 0) continue;
      products = r.row(k).tail(others).transpose();
      products.noalias() += strip.rightCols(others).transpose() * strip.col(k);
      products *= -pivot / to;
      r.row(k).tail(others) -= products.transpose();
      strip.rightCols(others).noalias() -= strip.col(k) * products.transpose();
    }
  }
  CenteredColumns out;
  out.rows_ = p + 1;
  out.dense_ = r.leftCols(p);
  out.squares_ = out.dense_.colwise().squaredNorm().transpose();
  *target = r.col(p);
  return out;
}

Residual CenteredColumns::From(VectorXd value) {
  Residual r;
  r.sum = value.sum();
  r.value = std::move(value);
  return r;
}

int64_t CenteredColumns::cost(Index j) const {
  return 1 + (dense_.size() > 0 ? rows_ : sparse_.outerIndexPtr()[j + 1] - sparse_.outerIndexPtr()[j]);
}

double CenteredColumns::Dot(Index j, const Residual& r) const {
  if (dense_.size() > 0) return dense_.col(j).dot(r.value);
  double sum = 0.0;
  for (decltype(sparse_)::InnerIterator it(sparse_, j); it; ++it) sum += it.value() * r.value[it.row()];
  return scale_[j] * (sum + r.shift * sums_[j] - mean_[j] * r.sum);
}

void CenteredColumns::Add(Index j, double factor, Residual* r) const {
  if (dense_.size() > 0) {
    r->value += factor * dense_.col(j);
    return;
  }
  const double scaled = factor * scale_[j];
  for (decltype(sparse_)::InnerIterator it(sparse_, j); it; ++it) r->value[it.row()] += scaled * it.value();
  r->shift -= scaled * mean_[j];
  r->sum += scaled * (sums_[j] - static_cast<double>(rows_) * mean_[j]);
}

absl::StatusOr<VectorXd> CenteredColumns::DotAll(const Residual& r, const base::StopToken& stop) const {
  VectorXd out(cols());
  base::Pace pace(stop);
  for (Index j = 0; j < cols(); ++j) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(cost(j)));
    out[j] = Dot(j, r);
  }
  return out;
}

absl::StatusOr<std::optional<MatrixXd>> CenteredColumns::Gram(const std::vector<Index>& columns,
                                                              const base::StopToken& stop) const {
  const auto size = static_cast<Index>(columns.size());
  const double work = static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(rows_);
  if (size > kLargestGram || work > kGramWork) {
    return std::optional<MatrixXd>();
  }
  // Multiplies strips of columns made dense.
  constexpr Index kStrip = 64;
  MatrixXd some(rows_, size);
  for (Index k = 0; k < size; ++k) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll(rows_));
    Residual column = From(VectorXd::Zero(rows_));
    Add(columns[static_cast<size_t>(k)], 1.0, &column);
    some.col(k) = column.value.array() + column.shift;
  }
  MatrixXd gram(size, size);
  for (Index begin = 0; begin < size; begin += kStrip) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    const Index count = std::min(kStrip, size - begin);
    gram.middleCols(begin, count).noalias() = some.transpose() * some.middleCols(begin, count);
  }
  return std::optional<MatrixXd>(std::move(gram));
}

absl::StatusOr<ElasticNetFit> TrainElasticNet(const CenteredColumns& x, const VectorXd& target,
                                              const ElasticNetOptions& options, const base::StopToken& stop) {
  LUTHIER_CHECK(options.l1 >= 0.0 && options.l2 >= 0.0 && target.size() == x.rows());
  return Descent(x, target, options, stop).Run();
}

std::vector<Index> SupportOf(const VectorXd& weights) {
  std::vector<Index> support;
  for (Index j = 0; j < weights.size(); ++j) {
    if (weights[j] != 0.0) support.push_back(j);
  }
  return support;
}

ElasticNetInner::ElasticNetInner(const CenteredColumns* x, const VectorXd* target, std::vector<Index> support,
                                 VectorXd signs, double l1, double l2)
    : x_(x), target_(target), support_(std::move(support)), signs_(std::move(signs)), l1_(l1), l2_(l2) {
  LUTHIER_CHECK(!support_.empty() && static_cast<Index>(support_.size()) == signs_.size());
}

absl::StatusOr<VectorXd> ElasticNetInner::TransposedOnSupport(const Residual& r, const base::StopToken& stop) const {
  VectorXd out(dim());
  base::Pace pace(stop);
  for (Index k = 0; k < dim(); ++k) {
    const Index j = support_[static_cast<size_t>(k)];
    LUTHIER_RETURN_IF_ERROR(pace.Poll(x_->cost(j)));
    out[k] = x_->Dot(j, r);
  }
  return out;
}

absl::StatusOr<Residual> ElasticNetInner::ProductOnSupport(const VectorXd& v, VectorXd start,
                                                           const base::StopToken& stop) const {
  Residual r = CenteredColumns::From(std::move(start));
  base::Pace pace(stop);
  for (Index k = 0; k < dim(); ++k) {
    const Index j = support_[static_cast<size_t>(k)];
    LUTHIER_RETURN_IF_ERROR(pace.Poll(x_->cost(j)));
    x_->Add(j, v[k], &r);
  }
  return r;
}

absl::StatusOr<double> ElasticNetInner::Value(const VectorXd& w, VectorXd* gradient, const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(const Residual r, ProductOnSupport(w, -*target_, stop));
  if (gradient != nullptr) {
    LUTHIER_ASSIGN_OR_RETURN(*gradient, TransposedOnSupport(r, stop));
    *gradient += l1_ * signs_ + l2_ * w;
  }
  return 0.5 * (r.value.array() + r.shift).square().sum() + l1_ * signs_.dot(w) + 0.5 * l2_ * w.squaredNorm();
}

absl::Status ElasticNetInner::SetPoint(const VectorXd& w, const base::StopToken&) {
  w_ = w;
  return absl::OkStatus();
}

absl::StatusOr<VectorXd> ElasticNetInner::HessianVector(const VectorXd& v, const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(const Residual r, ProductOnSupport(v, VectorXd::Zero(x_->rows()), stop));
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd back, TransposedOnSupport(r, stop));
  return VectorXd(back + l2_ * v);
}

absl::StatusOr<VectorXd> ElasticNetInner::HessianDiagonal(const base::StopToken&) {
  VectorXd diagonal(dim());
  for (Index k = 0; k < dim(); ++k) diagonal[k] = x_->square(support_[static_cast<size_t>(k)]) + l2_;
  return diagonal;
}

absl::StatusOr<bool> ElasticNetInner::PreparePreconditioner(const base::StopToken& stop) {
  if (!prepared_) {
    prepared_ = true;
    LUTHIER_ASSIGN_OR_RETURN(std::optional<MatrixXd> gram, x_->Gram(support_, stop));
    if (gram) {
      gram->diagonal().array() += l2_;
      math::CholeskyOptions exact;
      exact.rungs = 0;
      LUTHIER_ASSIGN_OR_RETURN(factor_, math::Cholesky::Factor(*gram, exact, stop));
    }
  }
  return factor_.has_value();
}

VectorXd ElasticNetInner::Precondition(const VectorXd& r) {
  return factor_->Solve(r);
}

VectorXd ElasticNetInner::CrossTransposeVector(const VectorXd& q) {
  VectorXd out(2);
  out << l1_ * signs_.dot(q), l2_ * w_.dot(q);
  return out;
}

double ElasticNetInner::CrossNorm() {
  return std::hypot(l1_ * std::sqrt(static_cast<double>(dim())), l2_ * w_.norm());
}

absl::StatusOr<InnerConstants> ElasticNetInner::Constants(const base::StopToken&) {
  InnerConstants constants;
  constants.mu = l2_;
  constants.cross_lipschitz = l2_;
  return constants;
}

ElasticNetOuter::ElasticNetOuter(const LeastSquaresData* data, std::vector<Index> support)
    : cols_(data->cols()), all_(data), support_(std::move(support)) {}

absl::StatusOr<double> ElasticNetOuter::Value(const VectorXd& w, VectorXd* gradient, const base::StopToken& stop) {
  VectorXd all = VectorXd::Zero(cols_), all_gradient;
  for (size_t k = 0; k < support_.size(); ++k) all[support_[k]] = w[static_cast<Index>(k)];
  LUTHIER_ASSIGN_OR_RETURN(const double value, all_.Value(all, gradient == nullptr ? nullptr : &all_gradient, stop));
  if (gradient != nullptr) {
    gradient->resize(w.size());
    for (size_t k = 0; k < support_.size(); ++k) (*gradient)[static_cast<Index>(k)] = all_gradient[support_[k]];
  }
  return value;
}

}  // namespace luthier::bilevel
