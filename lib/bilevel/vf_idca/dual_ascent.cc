#include "lib/bilevel/vf_idca/dual_ascent.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "lib/base/status_macros.h"

namespace luthier::bilevel {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr int kPatience = 20;  // Number of evaluations in which the gap must halve.

}  // namespace

VectorXd MinimizeOverSimplex(const MatrixXd& b, const VectorXd& h, double most, VectorXd y) {
  const Index n = y.size();
  std::vector<char> at_zero(static_cast<size_t>(n));
  for (Index i = 0; i < n; ++i) at_zero[static_cast<size_t>(i)] = y[i] <= 0.0;
  bool tight = y.sum() >= most * (1.0 - 1e-14);
  const double scale = std::max(h.lpNorm<Eigen::Infinity>(), 1e-300);
  for (Index round = 0; round < 10 * n + 20; ++round) {
    std::vector<Index> free;
    for (Index i = 0; i < n; ++i) {
      if (!at_zero[static_cast<size_t>(i)]) free.push_back(i);
    }
    VectorXd target = VectorXd::Zero(n);
    double nu = 0.0;  // Multiplier of the sum.
    if (!free.empty()) {
      const Eigen::LLT<MatrixXd> factor(b(free, free));
      VectorXd solution = factor.solve(h(free));
      if (tight) {
        const VectorXd ones = factor.solve(VectorXd::Ones(static_cast<Index>(free.size())));
        nu = (solution.sum() - most) / ones.sum();
        solution -= nu * ones;
      }
      target(free) = solution;
    } else if (tight) {
      tight = false;
      continue;
    }
    // Computes the share of the way to the target that is feasible.
    const VectorXd d = target - y;
    double length = 1.0;
    Index blocking = -1;
    for (const Index i : free) {
      if (d[i] < 0.0 && -y[i] / d[i] < length) {
        length = std::max(0.0, -y[i] / d[i]);
        blocking = i;
      }
    }
    const double sum = d.sum();
    bool blocked_by_sum = false;
    if (!tight && sum > 0.0 && (most - y.sum()) / sum < length) {
      length = std::max(0.0, (most - y.sum()) / sum);
      blocked_by_sum = true;
    }
    y += length * d;
    if (blocked_by_sum) {
      tight = true;
      continue;
    }
    if (blocking >= 0) {
      y[blocking] = 0.0;
      at_zero[static_cast<size_t>(blocking)] = 1;
      continue;
    }
    if (tight && nu < -1e-12 * scale) {
      tight = false;
      continue;
    }
    // Finds the constraint whose release helps most.
    const VectorXd gradient = b * y - h;
    Index worst = -1;
    double least = -1e-12 * scale;
    for (Index i = 0; i < n; ++i) {
      const double multiplier = gradient[i] + (tight ? nu : 0.0);
      if (at_zero[static_cast<size_t>(i)] && multiplier < least) {
        least = multiplier;
        worst = i;
      }
    }
    if (worst < 0) break;
    at_zero[static_cast<size_t>(worst)] = 0;
  }
  return y.cwiseMax(0.0);
}

absl::StatusOr<DualAscent> MaximizeDual(absl::FunctionRef<absl::StatusOr<DualPoint>(const VectorXd& mu)> evaluate,
                                        const VectorXd& mu, const DualAscentOptions& options) {
  DualAscent out;
  out.mu = mu.cwiseMax(0.0);
  if (out.mu.sum() > options.most) out.mu *= options.most / out.mu.sum();
  LUTHIER_ASSIGN_OR_RETURN(out.point, evaluate(out.mu));
  out.evaluations = 1;
  double damping = 1e-12, half = out.point.gap;
  int halved = 1;  // Number of evaluations when the gap was last halved.
  while (true) {
    if (out.point.gap <= 0.5 * half) {
      half = out.point.gap;
      halved = out.evaluations;
    }
    out.converged = out.point.gap <= options.tolerance;
    if (out.converged || out.evaluations >= options.max_evaluations || out.evaluations >= halved + kPatience) break;
    MatrixXd b = out.point.curvature;
    const double trace = std::max(b.trace() / static_cast<double>(b.rows()), 1e-300);
    b.diagonal().array() += damping * trace;
    VectorXd next = MinimizeOverSimplex(b, out.point.gradient + b * out.mu, options.most, out.mu);
    const double scale = 0.01 * out.mu.maxCoeff();
    for (const Index i : options.cautious) {
      if (scale > 0.0) next[i] = std::clamp(next[i], 0.1 * out.mu[i], 10.0 * std::max(out.mu[i], scale));
    }
    const VectorXd d = next - out.mu;
    const double slope = out.point.gradient.dot(d);
    if (!(slope > 0.0)) break;  // Rounding prevents further progress.
    bool moved = false;
    double length = 1.0;
    for (int k = 0; k < 12 && out.evaluations < options.max_evaluations; ++k, length *= 0.3) {
      const VectorXd mu_there = out.mu + length * d;
      LUTHIER_ASSIGN_OR_RETURN(DualPoint point, evaluate(mu_there));
      ++out.evaluations;
      out.point.gap = point.gap;
      if (point.gap <= options.tolerance) break;
      const double noise = 1e-14 * std::abs(out.point.value);
      if (!(point.value >= out.point.value + 1e-4 * length * slope - noise)) continue;
      out.mu = mu_there;
      out.point = std::move(point);
      moved = true;
      break;
    }
    if (out.point.gap <= options.tolerance) continue;
    if (!moved) {
      if (damping >= 1.0) break;
      damping = std::max(1e-8, damping * 100.0);
    } else if (length == 1.0) {
      damping = std::max(1e-12, damping * 0.1);
    }
  }
  return out;
}

}  // namespace luthier::bilevel
