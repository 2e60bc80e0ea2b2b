#include "lib/bilevel/vf_idca/sparse_vf_idca.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/bilevel/vf_idca/dual_ascent.h"
#include "lib/bilevel/vf_idca/penalized_quadratic.h"

namespace luthier::bilevel {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr int kMaxSweeps = 400;
// Share of the loss without weights up to which the loss at the start makes interpolation worth a try.
constexpr double kSmallLoss = 0.05;
constexpr double kSpeck = 1e-9;
constexpr int kProjections = 300;

// Returns the derivatives of the penalties at the minimum's weights that are not 0, in count() columns.
MatrixXd PenaltySlopes(const SparsePenalties& penalties, const PenalizedMinimum& minimum) {
  const VectorXd w = minimum.x(minimum.support);
  MatrixXd slopes = MatrixXd::Zero(w.size(), penalties.count());
  slopes.col(penalties.l1()) = w.cwiseSign();
  if (penalties.ridge) slopes.col(penalties.l2()) = w;
  if (penalties.groups.empty()) return slopes;
  std::vector<Index> position(static_cast<size_t>(minimum.x.size()), -1);
  for (size_t i = 0; i < minimum.support.size(); ++i) {
    position[static_cast<size_t>(minimum.support[i])] = static_cast<Index>(i);
  }
  for (Index m = 0; m < penalties.group_count(); ++m) {
    double squares = 0.0;
    const std::vector<Index>& group = penalties.groups[static_cast<size_t>(m)];
    for (const Index j : group) squares += minimum.x[j] * minimum.x[j];
    if (squares == 0.0) continue;
    const double norm = std::sqrt(squares);
    for (const Index j : group) {
      if (position[static_cast<size_t>(j)] >= 0) slopes(position[static_cast<size_t>(j)], m) = minimum.x[j] / norm;
    }
  }
  return slopes;
}

// Returns J' H^-1 J at the minimum, or 0 if it has no factor.
MatrixXd Curvature(const PenalizedMinimum& minimum, MatrixXd slopes) {
  const Index count = slopes.cols();
  if (!minimum.factored || minimum.factor.rows() != slopes.rows()) {
    return MatrixXd::Zero(count, count);
  }
  minimum.factor.matrixL().solveInPlace(slopes);
  return slopes.transpose() * slopes;
}

// A group without weights has no curvature in its multiplier: the multiplier falls by a slack until the group gets
// weights, and then by about the block's diagonal for each unit of their norm. Adds the curvature of reaching the norm
// r_m in one step, so that steps are neither endless nor short.
void AddIdleCurvature(const SparseVfRows& rows, const SparsePenalties& penalties, const VectorXd& mu, const VectorXd& r,
                      const VectorXd& x, MatrixXd* curvature) {
  if (penalties.groups.empty()) return;
  VectorXd gradient = -rows.product;
  for (Index j = 0; j < x.size(); ++j) {
    if (x[j] != 0.0) gradient.noalias() += x[j] * rows.gram.col(j);
  }
  for (Index m = 0; m < penalties.group_count(); ++m) {
    const std::vector<Index>& group = penalties.groups[static_cast<size_t>(m)];
    double norm = 0.0, pull = 0.0, diagonal = 0.0;
    for (const Index j : group) {
      norm += std::abs(x[j]);
      pull += std::pow(Soft(gradient[j], mu[penalties.l1()]), 2);
      diagonal += rows.gram(j, j) / static_cast<double>(group.size());
    }
    if (norm > 0.0) continue;
    const double slack = std::max(0.0, mu[m] - std::sqrt(pull));
    (*curvature)(m, m) += 1.0 / std::max(diagonal + slack / r[m], 1e-300);
  }
}

class UpperProblem {
 public:
  UpperProblem(const SparseVfProblem& problem, const VfIdcaOptions& options, const VectorXd& x, const VectorXd& r,
               const VfLower& lower, double alpha)
      : problem_(problem),
        options_(options),
        x_(x),
        r_(r),
        gamma_(lower.gamma),
        cut_(lower.value - lower.gap),
        alpha_(alpha),
        warm_(x) {}

  // *warm has the multipliers at which it starts, which may be empty, and takes those at which it ends.
  absl::StatusOr<VfUpper> Solve(double gap, VectorXd* warm, const base::StopToken& stop) {
    const Index count = problem_.penalties.count();
    VectorXd mu = std::move(*warm);
    if (mu.size() != count + 1) mu = VectorXd::Constant(count + 1, alpha_ / static_cast<double>(count + 2));
    DualAscentOptions dual;
    dual.most = alpha_;
    dual.tolerance = gap;
    Consider(x_, r_);  // The present point counts, too.
    LUTHIER_ASSIGN_OR_RETURN(DualAscent ascent,
                             MaximizeDual([&](const VectorXd& at) { return Evaluate(at, stop); }, std::move(mu), dual));
    best_.gap = RelativeGap(std::max(0.0, best_.value - bound_), best_.value);
    *warm = std::move(ascent.mu);
    return best_;
  }

 private:
  void Consider(const VectorXd& x, const VectorXd& r) {
    const VectorXd violation = options_.violation_weight * (problem_.penalties.Values(x) - r);
    const double cut = problem_.train.Loss(x) - cut_ + gamma_.dot(r - r_);
    const double value = problem_.validation.Loss(x) +
                         0.5 * options_.rho * ((x - x_).squaredNorm() + (r - r_).squaredNorm()) +
                         alpha_ * std::max({0.0, cut, violation.maxCoeff()});
    if (best_.x.size() > 0 && !(value < best_.value)) return;
    best_.x = x;
    best_.r = r;
    best_.value = value;
  }

  absl::StatusOr<DualPoint> Evaluate(const VectorXd& mu, const base::StopToken& stop) {
    const double rho = options_.rho, weight = options_.violation_weight;
    const Index count = problem_.penalties.count();
    const SparseVfRows &train = problem_.train, &validation = problem_.validation;
    Quadratic quadratic;
    quadratic.a = &validation.gram;
    quadratic.b = &train.gram;
    quadratic.second = mu[0];
    quadratic.shift = rho;
    quadratic.c = validation.product + mu[0] * train.product + rho * x_;
    LUTHIER_ASSIGN_OR_RETURN(
        const PenalizedMinimum minimum,
        MinimizePenalized(quadratic, problem_.penalties, weight * mu.tail(count), warm_, kMaxSweeps, stop));
    warm_ = minimum.x;
    const VectorXd slope = mu[0] * gamma_ - weight * mu.tail(count);
    const VectorXd r = (r_ - slope / rho).cwiseMax(options_.least_bound);
    DualPoint point;
    point.value = minimum.bound + validation.half_square + mu[0] * train.half_square + 0.5 * rho * x_.squaredNorm() +
                  0.5 * rho * (r - r_).squaredNorm() + r.dot(slope) - mu[0] * (cut_ + gamma_.dot(r_));
    point.gradient.resize(count + 1);
    point.gradient[0] = train.Loss(minimum.x) - cut_ + gamma_.dot(r - r_);
    const VectorXd values = problem_.penalties.Values(minimum.x);
    point.gradient.tail(count) = weight * (values - r);
    MatrixXd slopes(static_cast<Index>(minimum.support.size()), count + 1);
    const VectorXd gradient = train.gram * minimum.x - train.product;
    slopes.col(0) = gradient(minimum.support);
    slopes.rightCols(count) = weight * PenaltySlopes(problem_.penalties, minimum);
    point.curvature = Curvature(minimum, std::move(slopes));
    for (Index i = 0; i < count; ++i) {
      double share = 1.0 / rho;
      if (r[i] <= options_.least_bound) {
        // As in AddIdleCurvature: the slope falls by a slack until r_i grows.
        const double slack = slope[i] - rho * (r_[i] - options_.least_bound);
        share = 1.0 / (rho + slack / std::max(values[i], options_.least_bound));
      }
      point.curvature(0, 0) += gamma_[i] * gamma_[i] * share;
      point.curvature(i + 1, i + 1) += weight * weight * share;
      point.curvature(0, i + 1) -= gamma_[i] * weight * share;
      point.curvature(i + 1, 0) -= gamma_[i] * weight * share;
    }
    bound_ = std::max(bound_, point.value);
    Consider(minimum.x, r);
    point.gap = RelativeGap(best_.value - bound_, best_.value);
    return point;
  }

  const SparseVfProblem& problem_;
  const VfIdcaOptions& options_;
  const VectorXd &x_, &r_;
  const VectorXd& gamma_;
  const double cut_;
  const double alpha_;
  VectorXd warm_;
  VfUpper best_;
  double bound_ = -std::numeric_limits<double>::infinity();
};

}  // namespace

double SparseVfRows::Loss(const VectorXd& x) const {
  VectorXd gram_x = VectorXd::Zero(x.size());
  for (Index j = 0; j < x.size(); ++j) {
    if (x[j] != 0.0) gram_x.noalias() += x[j] * gram.col(j);  // Most entries are 0.
  }
  return std::max(0.0, 0.5 * x.dot(gram_x) - product.dot(x) + half_square);
}

VfIdcaOptions ElasticNetVfOptions() {
  VfIdcaOptions options;
  options.start = Eigen::Vector2d(10.0, 5.0);
  return options;
}

VfIdcaOptions SparseGroupLassoVfOptions(Index penalties) {
  VfIdcaOptions options;
  options.start = VectorXd::Constant(penalties, 10.0);
  options.rho = 0.1;
  options.alpha_share = 0.01;
  options.violation_weight = 100.0;
  options.relative_step = false;
  options.max_steps = 50;
  return options;
}

absl::StatusOr<VectorXd> StartingBounds(const SparseVfProblem& problem, double share, const base::StopToken& stop) {
  const SparsePenalties& penalties = problem.penalties;
  const double largest = problem.train.product.lpNorm<Eigen::Infinity>();
  Quadratic quadratic;
  quadratic.a = &problem.train.gram;
  quadratic.c = problem.train.product;
  VectorXd mu = VectorXd::Constant(penalties.count(), 0.1 * share * largest);
  mu[penalties.l1()] = share * largest;
  LUTHIER_ASSIGN_OR_RETURN(
      const PenalizedMinimum minimum,
      MinimizePenalized(quadratic, penalties, mu, VectorXd::Zero(quadratic.c.size()), kMaxSweeps, stop));
  const VectorXd values = penalties.Values(minimum.x);
  return VectorXd(values.cwiseMax(std::max(1e-3, 0.1 * values.maxCoeff())));
}

absl::StatusOr<VectorXd> SparseLowerSolver::Interpolate(const VectorXd& r, VectorXd x, double loss, double enough,
                                                        const base::StopToken& stop) {
  const SparseVfRows& train = problem_->train;
  if (!ridged_) {
    MatrixXd gram = train.gram;
    gram.diagonal().array() += kSpeck * gram.trace() / static_cast<double>(gram.rows());
    math::CholeskyOptions options;
    options.jitter_scale = gram.diagonal().maxCoeff();
    LUTHIER_ASSIGN_OR_RETURN(ridged_, math::Cholesky::Factor(gram, options, stop));
    if (!ridged_) return x;
  }
  for (int k = 0; k < kProjections; ++k) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll(2 * x.size() * x.size()));
    const VectorXd slope = train.gram * x - train.product;
    x = ProjectedInto(problem_->penalties, x - ridged_->Solve(slope), r);
    const double now = train.Loss(x);
    if (now <= enough || !(now < 0.95 * loss)) break;
    loss = now;
  }
  return x;
}

absl::StatusOr<VfLower> SparseLowerSolver::Solve(const VectorXd& r, const VectorXd& x, const VectorXd& gamma,
                                                 double tolerance, const base::StopToken& stop) {
  const SparseVfRows& train = problem_->train;
  const SparsePenalties& penalties = problem_->penalties;
  VfLower best;
  best.gap = std::numeric_limits<double>::infinity();
  const auto consider = [&](const VectorXd& at) {
    const VectorXd inside = ScaledInto(penalties, at, r);
    VectorXd slope = -train.product;
    for (Index j = 0; j < inside.size(); ++j) {
      if (inside[j] != 0.0) slope.noalias() += inside[j] * train.gram.col(j);
    }
    LinearBound bound = MinimizeLinear(penalties, slope, r);
    const double value = train.Loss(inside);
    double gap = std::max(0.0, slope.dot(inside) - bound.value);
    if (value < gap) {  // No loss is below 0, at any r.
      gap = value;
      bound.multipliers.setZero();
    }
    if (!(gap < best.gap)) return;
    best = {inside, value, gap, std::move(bound.multipliers)};
  };
  consider(x);
  if (last_.size() > 0) consider(last_);
  const auto done = [&] {
    if (RelativeGap(best.gap, best.value) > tolerance) return false;
    last_ = best.x;
    return true;
  };
  if (done()) return best;
  if (best.value < kSmallLoss * train.half_square) {
    LUTHIER_ASSIGN_OR_RETURN(const VectorXd fitted, Interpolate(r, best.x, best.value, 0.3 * tolerance, stop));
    consider(fitted);
    if (done()) return best;
  }
  if (warm_.size() == 0) warm_ = x;
  const double largest = train.product.lpNorm<Eigen::Infinity>();
  const auto evaluate = [&](const VectorXd& mu) -> absl::StatusOr<DualPoint> {
    Quadratic quadratic;
    quadratic.a = &train.gram;
    quadratic.c = train.product;
    VectorXd at = mu;
    // Without any penalty the minimum need not be unique.
    at[penalties.l1()] = std::max(at[penalties.l1()], 1e-10 * largest);
    LUTHIER_ASSIGN_OR_RETURN(const PenalizedMinimum minimum,
                             MinimizePenalized(quadratic, penalties, at, warm_, kMaxSweeps, stop));
    warm_ = minimum.x;
    const VectorXd values = penalties.Values(minimum.x);
    DualPoint point;
    point.value = minimum.bound + train.half_square - mu.dot(r);
    point.gradient = values - r;
    point.curvature = Curvature(minimum, PenaltySlopes(penalties, minimum));
    AddIdleCurvature(train, penalties, at, r, minimum.x, &point.curvature);
    consider(minimum.x);
    point.gap = RelativeGap(best.gap, best.value);
    return point;
  };
  DualAscentOptions dual;
  dual.tolerance = tolerance;
  dual.cautious = {penalties.l1()};
  if (penalties.ridge) dual.cautious.push_back(penalties.l2());
  VectorXd start = gamma;
  if (start.size() != penalties.count()) {
    start = VectorXd::Zero(penalties.count());
    start[penalties.l1()] = 0.1 * largest;
  }
  LUTHIER_RETURN_IF_ERROR(MaximizeDual(evaluate, std::move(start), dual).status());
  last_ = best.x;
  return best;
}

namespace {

class SparseProblem final : public VfIdcaProblem {
 public:
  SparseProblem(const SparseVfProblem& problem, const VfIdcaOptions& options)
      : problem_(problem), options_(options), lower_(&problem), model_(VectorXd::Zero(variables())) {}

  Index variables() const override { return problem_.train.product.size(); }
  VectorXd Penalties(const VectorXd& x) const override { return problem_.penalties.Values(x); }
  double TrainLoss(const VectorXd& x) const override { return problem_.train.Loss(x); }
  double ValidationLoss(const VectorXd& x) const override { return problem_.validation.Loss(x); }

  absl::StatusOr<VfLower> SolveLower(const VectorXd& r, const VectorXd& x, const VectorXd& gamma, double gap,
                                     const base::StopToken& stop) override {
    return lower_.Solve(r, x, gamma, gap, stop);
  }

  absl::StatusOr<VfUpper> SolveUpper(const VectorXd& x, const VectorXd& r, const VfLower& lower, double alpha,
                                     double gap, const base::StopToken& stop) override {
    return UpperProblem(problem_, options_, x, r, lower, alpha).Solve(gap, &mu_, stop);
  }

  absl::StatusOr<VectorXd> Refit(const VfLower& lower, const base::StopToken& stop) override {
    Quadratic quadratic;
    quadratic.a = &problem_.train.gram;
    quadratic.c = problem_.train.product;
    LUTHIER_ASSIGN_OR_RETURN(const PenalizedMinimum minimum,
                             MinimizePenalized(quadratic, problem_.penalties, lower.gamma, model_, kMaxSweeps, stop));
    if (!minimum.exact) return VectorXd();
    model_ = minimum.x;
    return model_;
  }

 private:
  const SparseVfProblem& problem_;
  const VfIdcaOptions& options_;
  SparseLowerSolver lower_;
  VectorXd mu_;     // Multipliers of the last step.
  VectorXd model_;  // The last penalised model.
};

}  // namespace

absl::StatusOr<VfIdcaResult> RunSparseVfIdca(const SparseVfProblem& problem, const VfIdcaOptions& options,
                                             const std::function<bool(const VfIdcaStep&)>& report,
                                             const base::StopToken& stop) {
  SparseProblem solved(problem, options);
  return RunVfIdca(solved, options, report, stop);
}

}  // namespace luthier::bilevel
