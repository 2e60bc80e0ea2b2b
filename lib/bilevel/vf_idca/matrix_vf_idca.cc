#include "lib/bilevel/vf_idca/matrix_vf_idca.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/bilevel/vf_idca/factored_newton.h"
#include "lib/math/svd.h"

namespace luthier::bilevel {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

// Share of the largest singular value, or of the nuclear norm's bound if that is larger, below which a singular value
// is dropped when factors are made.
constexpr double kSmallSingular = 1e-2;
// Share of the largest singular value below which a column of the factors is not used by the solution.
constexpr double kIdle = 1e-8;
// Size of new columns of the factors, as a share of the nuclear norm's bound.
constexpr double kNewShare = 0.05;
constexpr int kMaxGrowths = 40;

// Returns about the number of operations of a call of MinimizeFactored.
double Work(const MatrixProblem& problem, Index rank) {
  const double rows = static_cast<double>(rank * problem.rows);
  const double cols = static_cast<double>(rank * problem.cols + problem.features());
  return 25.0 * (rows * cols * cols + cols * cols * cols / 3.0);
}

// Factors a matrix: a and b are its leading singular vectors times the roots of the singular values above `least`.
void Factor(const math::ThinSvd& svd, double least, MatrixXd* a, MatrixXd* b) {
  const VectorXd& values = svd.values;
  Index rank = 0;
  while (rank < values.size() && values[rank] > least) ++rank;
  const VectorXd roots = values.head(rank).cwiseSqrt();
  *a = svd.u.leftCols(rank) * roots.asDiagonal();
  *b = svd.v.leftCols(rank) * roots.asDiagonal();
}

// Drops the directions that add nothing to the factors' product. At a saddle point they fill the rank, so that no
// descent direction can be added.
void DropIdleColumns(MatrixXd* a, MatrixXd* b) {
  const math::ThinSvd svd = math::ComputeThinSvd(*a * b->transpose());
  if (svd.values.tail(1)[0] > kIdle * svd.values[0]) return;
  Factor(svd, kIdle * svd.values[0], a, b);
}

// Adds columns along the steepest descent of the product: the leading singular vectors of -gradient.
void Grow(const MatrixXd& gradient, Index columns, double size, MatrixXd* a, MatrixXd* b) {
  const math::ThinSvd svd = math::ComputeThinSvd(gradient);
  columns = std::min(columns, svd.values.size());
  const Index old = a->cols();
  a->conservativeResize(gradient.rows(), old + columns);
  b->conservativeResize(gradient.cols(), old + columns);
  const double root = std::sqrt(size);
  a->rightCols(columns) = -root * svd.u.leftCols(columns);
  b->rightCols(columns) = root * svd.v.leftCols(columns);
}

// Adds up to two columns to the factors of the point, or lowers the tolerance if they have all there can be.
void GrowOrRefine(const MatrixProblem& problem, const MatrixXd& gradient, double size, FactoredPoint* point,
                  double* tolerance) {
  const Index most = std::min(problem.rows, problem.cols);
  if (point->a.cols() >= most) DropIdleColumns(&point->a, &point->b);
  if (point->a.cols() >= most) {
    *tolerance *= 0.1;
  } else {
    Grow(gradient, std::min<Index>(2, most - point->a.cols()), size, &point->a, &point->b);
  }
}

}  // namespace

VfIdcaOptions MatrixVfOptions(const MatrixProblem& problem) {
  VfIdcaOptions options;
  options.start = VectorXd::Constant(1 + static_cast<Index>(problem.groups.size()), 0.1);
  options.start[0] = 1.0;
  options.least_bound = 1e-6;
  options.alpha_share = 1.0;
  options.tolerance = 5e-2;
  options.max_steps = 500;
  return options;
}

VectorXd MatrixVfProblem::Penalties(const VectorXd& x) const {
  return MatrixPenalties(*problem_, x);
}

double MatrixVfProblem::TrainLoss(const VectorXd& x) const {
  return MatrixLoss(*problem_, problem_->train, x);
}

double MatrixVfProblem::ValidationLoss(const VectorXd& x) const {
  return MatrixLoss(*problem_, problem_->validation, x);
}

absl::StatusOr<VectorXd> MatrixVfProblem::Refit(const VfLower& lower, const base::StopToken&) {
  return lower.x;
}

absl::StatusOr<VfLower> MatrixVfProblem::SolveLower(const VectorXd& r, const VectorXd& x, const VectorXd& gamma,
                                                    double gap, const base::StopToken& stop) {
  const MatrixProblem& problem = *problem_;
  VfLower best;
  best.gap = std::numeric_limits<double>::infinity();
  MatrixXd slope;  // Derivative by Gamma, at the last point considered.
  // The feasible set is a product of balls of the penalties' norms, so the least <slope, z> in it is known. By
  // convexity it bounds the gap, and the multipliers are the slopes' dual norms.
  const auto consider = [&](VectorXd w, MatrixXd low_rank, double nuclear) {
    if (nuclear > r[0]) low_rank *= r[0] / nuclear;
    for (size_t m = 0; m < problem.groups.size(); ++m) {
      const double norm = w(problem.groups[m]).norm(), bound = r[static_cast<Index>(m) + 1];
      if (norm <= bound) continue;
      for (const Index j : problem.groups[m]) w[j] *= bound / norm;
    }
    VfLower now;
    now.x = Joined(w, low_rank);
    now.value = TrainLoss(now.x);
    VectorXd gradient = VectorXd::Zero(now.x.size());
    AddMatrixGradient(problem, problem.train, now.x, 1.0, &gradient);
    slope = LowRankOf(problem, gradient);
    now.gamma = MatrixDualNorms(problem, gradient);
    now.gap = std::max(0.0, gradient.dot(now.x) + now.gamma.dot(r));
    if (now.value < now.gap) {  // No loss is below 0, at any r.
      now.gap = now.value;
      now.gamma.setZero();
    }
    if (now.gap < best.gap) best = std::move(now);
  };
  FactoredPoint point;
  point.weights = WeightsOf(problem, x);
  point.r = r;
  point.multipliers = gamma;
  const math::ThinSvd svd = math::ComputeThinSvd(LowRankOf(problem, x));
  consider(point.weights, LowRankOf(problem, x), svd.values.sum());
  if (RelativeGap(best.gap, best.value) <= gap) return best;
  Factor(svd, kSmallSingular * std::max(r[0], svd.values[0]), &point.a, &point.b);
  Grow(slope, 1, kNewShare * r[0], &point.a, &point.b);
  double tolerance = 0.1 * gap, work = 0.0;
  for (int k = 0; k < kMaxGrowths; ++k) {
    LUTHIER_ASSIGN_OR_RETURN(point, MinimizeFactored(problem, nullptr, std::move(point), tolerance, stop));
    const double half = 0.5 * (point.a.squaredNorm() + point.b.squaredNorm());
    consider(point.weights, point.a * point.b.transpose(), half);
    if (RelativeGap(best.gap, best.value) <= gap) break;
    work += Work(problem, point.a.cols());
    if (work > most_work_) break;
    GrowOrRefine(problem, slope, kNewShare * r[0], &point, &tolerance);
    if (tolerance < 1e-2 * gap) break;
  }
  return best;
}

absl::StatusOr<VfUpper> MatrixVfProblem::SolveUpper(const VectorXd& x, const VectorXd& r, const VfLower& lower,
                                                    double alpha, double gap, const base::StopToken& stop) {
  const MatrixProblem& problem = *problem_;
  const double rho = options_->rho, cut = lower.value - lower.gap;
  LUTHIER_CHECK(options_->violation_weight == 1.0);
  FactoredStep step;
  step.weights = WeightsOf(problem, x);
  step.low_rank = LowRankOf(problem, x);
  step.bounds = r;
  step.gamma = lower.gamma;
  step.cut = cut;
  step.alpha = alpha;
  step.rho = rho;
  step.least_bound = options_->least_bound;

  VfUpper best;
  best.value = std::numeric_limits<double>::infinity();
  double bound = -std::numeric_limits<double>::infinity();
  const auto consider = [&](const VectorXd& at, const VectorXd& bounds) {
    const double violation =
        std::max({0.0, TrainLoss(at) - cut + lower.gamma.dot(bounds - r), (Penalties(at) - bounds).maxCoeff()});
    const double value =
        ValidationLoss(at) + 0.5 * rho * ((at - x).squaredNorm() + (bounds - r).squaredNorm()) + alpha * violation;
    if (!(value < best.value)) return;
    best.x = at;
    best.r = bounds;
    best.value = value;
  };
  consider(x, r);
  const auto gradient_at = [&](const VectorXd& at, double weight) {
    VectorXd gradient = rho * (at - x);
    AddMatrixGradient(problem, problem.validation, at, 1.0, &gradient);
    AddMatrixGradient(problem, problem.train, at, weight, &gradient);
    return gradient;
  };
  // Returns a bound of the curvature of half the mean squares: the largest squared norm of an entry's features, plus 1
  // for Gamma.
  const auto curve = [&](const MatrixEntries& entries) {
    return 1.0 + (entries.features.size() == 0 ? 0.0 : entries.features.rowwise().squaredNorm().maxCoeff());
  };
  const double validation_curve = curve(problem.validation), train_curve = curve(problem.train);

  FactoredPoint point;
  point.weights = step.weights;
  point.r = r;
  point.multipliers = mu_;
  point.cut_multiplier = mu_cut_;
  const math::ThinSvd svd = math::ComputeThinSvd(step.low_rank);
  Factor(svd, kSmallSingular * std::max(r[0], svd.values[0]), &point.a, &point.b);
  Grow(LowRankOf(problem, gradient_at(x, 0.5 * alpha)), 1, kNewShare * r[0], &point.a, &point.b);
  double tolerance = 0.1 * gap, work = 0.0;
  for (int k = 0; k < kMaxGrowths; ++k) {
    LUTHIER_ASSIGN_OR_RETURN(point, MinimizeFactored(problem, &step, std::move(point), tolerance, stop));
    // Evaluates the dual function at these multipliers, whose sum may be at most alpha.
    VectorXd mu = point.multipliers.cwiseMax(0.0);
    double mu_cut = std::max(0.0, point.cut_multiplier);
    const double sum = mu.sum() + mu_cut;
    if (sum > alpha) {
      mu *= alpha / sum;
      mu_cut *= alpha / sum;
    }
    const VectorXd at = Joined(point.weights, point.a * point.b.transpose());
    const VectorXd gradient = gradient_at(at, mu_cut);
    const double length = 1.0 / (validation_curve + mu_cut * train_curve + rho);
    // Makes a proximal step, at whose end a subgradient of the Lagrangian, which is rho-convex, is known.
    const VectorXd end = ShrunkMatrix(problem, at - length * gradient, mu, length);
    const VectorXd subgradient = gradient_at(end, mu_cut) - gradient + (at - end) / length;
    const VectorXd slope = mu_cut * lower.gamma - mu;
    const VectorXd bounds = (r - slope / rho).cwiseMax(options_->least_bound);
    const double lagrangian = ValidationLoss(end) + mu_cut * (TrainLoss(end) - cut - lower.gamma.dot(r)) +
                              0.5 * rho * ((end - x).squaredNorm() + (bounds - r).squaredNorm()) +
                              mu.dot(Penalties(end)) + bounds.dot(slope);
    bound = std::max(bound, lagrangian - 0.5 * subgradient.squaredNorm() / rho);
    consider(at, point.r);
    consider(end, point.r);
    best.gap = RelativeGap(std::max(0.0, best.value - bound), best.value);
    mu_ = mu;
    mu_cut_ = mu_cut;
    if (best.gap <= gap) break;
    work += Work(problem, point.a.cols());
    if (work > most_work_) break;
    GrowOrRefine(problem, LowRankOf(problem, gradient), kNewShare * r[0], &point, &tolerance);
    if (tolerance < 1e-2 * gap) break;
  }
  return best;
}

}  // namespace luthier::bilevel
