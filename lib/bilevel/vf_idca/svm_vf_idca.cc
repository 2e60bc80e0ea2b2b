#include "lib/bilevel/vf_idca/svm_vf_idca.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/bilevel/vf_idca/hinge_program.h"
#include "lib/bilevel/vf_idca/sparse_penalties.h"

namespace luthier::bilevel {

using Eigen::Index;
using Eigen::VectorXd;

namespace {

constexpr int kBisections = 100;
// Share of the gap asked for to which complementarity is reduced at first; it is divided by 100 if that proves too
// little.
constexpr double kShare = 0.3;
constexpr int kTries = 3;

VectorXd Margins(const SvmRows& rows, const VectorXd& model) {
  const Index p = rows.x.cols();
  return rows.y.array() * ((rows.x * model.head(p)).array() - model[p]);
}

// Adds the constraints 1/2 |w|^2 <= r_0 and |w_j| <= r_j of the model at z[at]. If `bounds` >= 0, they are <= r_0 + t
// and <= r_j + t with the variables r and t at z[bounds ...].
void AddBounds(Index at, Index columns, const VectorXd& r, Index bounds, std::vector<ProgramConstraint>* out) {
  ProgramConstraint ball;
  ball.factor = 1.0;
  ball.at = at;
  ball.count = columns;
  const auto close = [&](Index i, ProgramConstraint constraint) {
    if (bounds < 0) {
      constraint.bound = r[i];
    } else {
      constraint.linear.emplace_back(bounds + i, -1.0);
      constraint.linear.emplace_back(bounds + columns + 1, -1.0);
    }
    out->push_back(std::move(constraint));
  };
  close(0, ball);
  for (Index j = 0; j < columns; ++j) {
    for (const double sign : {1.0, -1.0}) {
      ProgramConstraint side;
      side.linear = {{at + j, sign}};
      close(j + 1, std::move(side));
    }
  }
}

}  // namespace

double MeanHinge(const SvmRows& rows, const VectorXd& model) {
  if (rows.count() == 0) return 0.0;
  return (1.0 - Margins(rows, model).array()).max(0.0).mean();
}

double ErrorRate(const SvmRows& rows, const VectorXd& model) {
  if (rows.count() == 0) return 0.0;
  return (Margins(rows, model).array() <= 0.0).cast<double>().mean();
}

BoxBallSupport SupportOfBoxBall(const VectorXd& g, const VectorXd& r) {
  const Index p = g.size();
  // Returns w(nu), the best w for a multiplier nu of the ball.
  const auto best = [&](double nu) {
    VectorXd w(p);
    for (Index j = 0; j < p; ++j) {
      w[j] = std::abs(g[j]) >= nu * r[j + 1] ? std::copysign(g[j] == 0.0 ? 0.0 : r[j + 1], g[j]) : g[j] / nu;
    }
    return w;
  };
  double nu = 0.0;
  if (0.5 * best(0.0).squaredNorm() > r[0]) {
    double low = 0.0, high = g.norm() / std::sqrt(2.0 * r[0]);  // At `high` w is inside even without a box.
    for (int k = 0; k < kBisections; ++k) {
      nu = 0.5 * (low + high);
      (0.5 * best(nu).squaredNorm() > r[0] ? low : high) = nu;
    }
    nu = high;
  }
  BoxBallSupport out;
  out.multipliers = VectorXd::Zero(p + 1);
  out.multipliers[0] = nu;
  out.value = nu * r[0];
  for (Index j = 0; j < p; ++j) {
    const double size = std::abs(g[j]);
    if (size > nu * r[j + 1]) {
      out.value += size * r[j + 1] - 0.5 * nu * r[j + 1] * r[j + 1];
      out.multipliers[j + 1] = size - nu * r[j + 1];
    } else if (nu > 0.0) {
      out.value += 0.5 * g[j] * g[j] / nu;
    }
  }
  return out;
}

VfIdcaOptions SvmVfOptions(Index columns) {
  VfIdcaOptions options;
  options.start = VectorXd::Constant(columns + 1, 1e-6);
  options.start[0] = 10.0;
  options.least_bound = 1e-6;
  options.alpha_share = 1.0;
  options.alpha_step = 1.0;
  options.tolerance = 0.1;
  return options;
}

absl::StatusOr<VfLower> TrainBoundedSvm(const SvmRows& rows, const VectorXd& r, double tolerance,
                                        const base::StopToken& stop) {
  const Index p = rows.x.cols();
  const double cost = 1.0 / static_cast<double>(rows.count());
  HingeProgram program;
  program.size = p + 1;
  program.terms.push_back({&rows, 0, cost, 0.0});
  AddBounds(0, p, r, -1, &program.constraints);
  program.weight = program.center = program.linear = VectorXd::Zero(p + 1);
  VfLower best;
  best.gap = std::numeric_limits<double>::infinity();
  double aim = kShare * tolerance;
  for (int k = 0; k < kTries; ++k, aim *= 1e-2) {
    LUTHIER_ASSIGN_OR_RETURN(const HingeSolution found, SolveHingeProgram(program, VectorXd::Zero(p + 1), aim, stop));
    VectorXd x = found.z;
    for (Index j = 0; j < p; ++j) x[j] = std::clamp(x[j], -r[j + 1], r[j + 1]);
    const double half = 0.5 * x.head(p).squaredNorm();
    if (half > r[0]) x.head(p) *= std::sqrt(r[0] / half);
    // Makes a feasible point of the dual: multipliers in [0, cost] whose sums over the two classes are equal.
    VectorXd a = found.hinge.front().cwiseMax(0.0).cwiseMin(cost);
    const double up = a.dot((rows.y.array() > 0.0).cast<double>().matrix()), down = a.sum() - up;
    for (Index e = 0; e < a.size(); ++e) {
      if (rows.y[e] > 0.0 && up > down) a[e] *= down / up;
      if (rows.y[e] < 0.0 && down > up) a[e] *= up / down;
    }
    const BoxBallSupport support = SupportOfBoxBall(rows.x.transpose() * a.cwiseProduct(rows.y), r);
    const double value = MeanHinge(rows, x);
    double gap = std::max(0.0, value - (a.sum() - support.value));
    VectorXd gamma = support.multipliers;
    if (value < gap) {  // No loss is below 0, at any r.
      gap = value;
      gamma.setZero();
    }
    if (gap < best.gap) best = {std::move(x), value, gap, std::move(gamma)};
    if (RelativeGap(best.gap, best.value) <= tolerance) break;
  }
  return best;
}

VectorXd SvmVfProblem::ModelOf(const VectorXd& x, size_t k) const {
  const Index length = problem_->columns() + 1;
  return x.segment(static_cast<Index>(k) * length, length);
}

VectorXd SvmVfProblem::Penalties(const VectorXd& x) const {
  const Index p = problem_->columns();
  VectorXd out = VectorXd::Zero(p + 1);
  for (size_t k = 0; k < problem_->folds.size(); ++k) {
    const VectorXd w = ModelOf(x, k).head(p);
    out[0] = std::max(out[0], 0.5 * w.squaredNorm());
    out.tail(p) = out.tail(p).cwiseMax(w.cwiseAbs());
  }
  return out;
}

double SvmVfProblem::TrainLoss(const VectorXd& x) const {
  double sum = 0.0;
  for (size_t k = 0; k < problem_->folds.size(); ++k) sum += MeanHinge(problem_->folds[k].train, ModelOf(x, k));
  return sum;
}

double SvmVfProblem::ValidationLoss(const VectorXd& x) const {
  double sum = 0.0;
  for (size_t k = 0; k < problem_->folds.size(); ++k) sum += MeanHinge(problem_->folds[k].validation, ModelOf(x, k));
  return sum / static_cast<double>(problem_->folds.size());
}

absl::StatusOr<VectorXd> SvmVfProblem::Refit(const VfLower& lower, const base::StopToken&) {
  return lower.x;
}

absl::StatusOr<VfLower> SvmVfProblem::SolveLower(const VectorXd& r, const VectorXd&, const VectorXd&, double gap,
                                                 const base::StopToken& stop) {
  const Index length = problem_->columns() + 1;
  VfLower out;
  out.x.resize(problem_->variables());
  out.gamma = VectorXd::Zero(r.size());
  const double share = gap / static_cast<double>(problem_->folds.size());
  for (size_t k = 0; k < problem_->folds.size(); ++k) {
    LUTHIER_ASSIGN_OR_RETURN(const VfLower fold, TrainBoundedSvm(problem_->folds[k].train, r, share, stop));
    out.x.segment(static_cast<Index>(k) * length, length) = fold.x;
    out.value += fold.value;
    out.gap += fold.gap;
    out.gamma += fold.gamma;
  }
  return out;
}

absl::StatusOr<VfUpper> SvmVfProblem::SolveUpper(const VectorXd& x, const VectorXd& r, const VfLower& lower,
                                                 double alpha, double gap, const base::StopToken& stop) {
  LUTHIER_CHECK(options_->violation_weight == 1.0);
  const Index p = problem_->columns(), models = problem_->variables();
  const auto folds = static_cast<double>(problem_->folds.size());
  const double rho = options_->rho, f = lower.value - lower.gap;
  HingeProgram program;  // In (x, r, t).
  program.size = models + p + 2;
  const Index t = models + p + 1;
  program.weight = VectorXd::Constant(program.size, rho);
  program.weight[t] = 0.0;
  program.center.resize(program.size);
  program.center << x, r, 0.0;
  program.linear = VectorXd::Zero(program.size);
  program.linear[t] = alpha;
  program.has_cut = true;
  program.cut_linear = VectorXd::Zero(program.size);
  program.cut_linear.segment(models, p + 1) = lower.gamma;
  program.cut_linear[t] = -1.0;
  program.cut_bound = f + lower.gamma.dot(r);
  for (size_t k = 0; k < problem_->folds.size(); ++k) {
    const SvmFold& fold = problem_->folds[k];
    const Index at = static_cast<Index>(k) * (p + 1);
    program.terms.push_back({&fold.validation, at, 1.0 / (folds * static_cast<double>(fold.validation.count())), 0.0});
    program.terms.push_back({&fold.train, at, 0.0, 1.0 / static_cast<double>(fold.train.count())});
    AddBounds(at, p, r, models, &program.constraints);
  }
  const Index others = static_cast<Index>(program.constraints.size());
  const auto bound = [&](Index i, double slope, double value) {
    ProgramConstraint constraint;
    constraint.linear = {{i, slope}};
    constraint.bound = value;
    program.constraints.push_back(std::move(constraint));
  };
  bound(t, -1.0, 0.0);
  for (Index i = 0; i <= p; ++i) bound(models + i, -1.0, -options_->least_bound);
  for (Index i = 1; i <= p; ++i) bound(models + i, 1.0, kMostWeight);

  VfUpper best;
  best.value = std::numeric_limits<double>::infinity();
  const auto consider = [&](const VectorXd& at, const VectorXd& bounds) {
    const double violation =
        std::max({0.0, TrainLoss(at) - f + lower.gamma.dot(bounds - r), (Penalties(at) - bounds).maxCoeff()});
    const double value =
        ValidationLoss(at) + 0.5 * rho * ((at - x).squaredNorm() + (bounds - r).squaredNorm()) + alpha * violation;
    if (value < best.value) best = {at, bounds, value, 0.0};
  };
  consider(x, r);
  double dual = -std::numeric_limits<double>::infinity();
  double aim = kShare * gap;
  VectorXd start = program.center;
  start[t] = 1.0;
  for (int tries = 0; tries < kTries; ++tries, aim *= 1e-2) {
    LUTHIER_ASSIGN_OR_RETURN(const HingeSolution found, SolveHingeProgram(program, start, aim, stop));
    VectorXd bounds = found.z.segment(models, p + 1).cwiseMax(options_->least_bound);
    bounds.tail(p) = bounds.tail(p).cwiseMin(kMostWeight);
    consider(found.z.head(models), bounds);
    // Evaluates the dual function: each multiplier is in its range, and those of one violation are at most alpha
    // together.
    VectorXd mu = VectorXd::Zero(p + 1);
    const VectorXd lambda = found.multipliers.head(others).cwiseMax(0.0);
    double cut = std::max(0.0, found.cut_multiplier);
    const double scale = std::min(1.0, alpha / (lambda.sum() + cut));
    cut *= scale;
    double value = 0.0;
    Index c = 0;
    for (size_t k = 0; k < problem_->folds.size(); ++k) {
      const HingeTerm &validation = program.terms[2 * k], &train = program.terms[2 * k + 1];
      const VectorXd a = found.hinge[2 * k].cwiseMax(0.0).cwiseMin(validation.cost);
      const VectorXd b = found.hinge[2 * k + 1].cwiseMax(0.0).cwiseMin(cut * train.cut);
      value += a.sum() + b.sum();
      const VectorXd ay = a.cwiseProduct(validation.rows->y), by = b.cwiseProduct(train.rows->y);
      const VectorXd g = validation.rows->x.transpose() * ay + train.rows->x.transpose() * by;
      const double sum = ay.sum() + by.sum();
      const double nu = scale * lambda[c++];
      mu[0] += nu;
      for (Index j = 0; j < p; ++j) {
        const double beta = scale * (lambda[c] + lambda[c + 1]);
        c += 2;
        mu[j + 1] += beta;
        const double w0 = x[validation.at + j], w = Soft(rho * w0 + g[j], beta) / (rho + nu);
        value += 0.5 * rho * (w - w0) * (w - w0) + 0.5 * nu * w * w + beta * std::abs(w) - g[j] * w;
      }
      const double c0 = x[validation.at + p], shift = -sum / rho;  // The constant term.
      value += 0.5 * rho * shift * shift + sum * (c0 + shift);
    }
    value -= cut * program.cut_bound;
    for (Index i = 0; i <= p; ++i) {
      const double slope = cut * lower.gamma[i] - mu[i];
      double bound_i = std::max(options_->least_bound, r[i] - slope / rho);
      if (i > 0) bound_i = std::min(bound_i, kMostWeight);
      value += slope * bound_i + 0.5 * rho * (bound_i - r[i]) * (bound_i - r[i]);
    }
    dual = std::max(dual, value);
    best.gap = RelativeGap(std::max(0.0, best.value - dual), best.value);
    if (best.gap <= gap) break;
  }
  return best;
}

}  // namespace luthier::bilevel
