#include "lib/bilevel/vf_idca/penalized_quadratic.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/bilevel/null_space.h"

namespace luthier::bilevel {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

// Largest violation of the conditions of the minimum, relative to the largest entry of c.
constexpr double kAllDigits = 1e-11;
constexpr int kNewtonSteps = 30;
constexpr int kDrops = 50;         // Limit of weights dropped in a row.
constexpr int kSweepPatience = 4;  // Rounds of sweeps after which Newton's steps are tried in any case.
constexpr int kInnerSweeps = 10;   // Sweeps over blocks that are not 0, between two sweeps over all.

class QuadraticDescent {
 public:
  QuadraticDescent(Quadratic quadratic, const SparsePenalties& penalties, const VectorXd& mu, const VectorXd& x)
      : q_(std::move(quadratic)), penalties_(penalties), mu_(mu), l1_(mu[penalties.l1()]), x_(x) {
    if (penalties.ridge) q_.shift += mu[penalties.l2()];
    g_ = q_.Multiply(x_) - q_.c;
    tolerance_ = kAllDigits * std::max(q_.c.lpNorm<Eigen::Infinity>(), 1e-300);
    for (const std::vector<Index>& group : penalties.groups) {
      // The trace bounds the block's largest eigenvalue; Frobenius' norm is often less.
      double trace = 0.0, squares = 0.0;
      for (const Index i : group) {
        trace += q_.Entry(i, i);
        for (const Index j : group) squares += std::pow(q_.Entry(i, j), 2);
      }
      curvature_.push_back(std::max(std::min(trace, std::sqrt(squares)), 1e-300));
    }
  }

  absl::StatusOr<PenalizedMinimum> Run(int max_sweeps, const base::StopToken& stop) {
    PenalizedMinimum out;
    int sweeps = 0;
    std::vector<char> signs;
    for (int round = 0;; ++round) {
      LUTHIER_RETURN_IF_ERROR(stop.Poll(x_.size() * x_.size()));
      // Newton's steps pay if the sweeps before them have not changed the signs.
      const bool settled = signs == Signs();
      if (settled || round % kSweepPatience == 0 || sweeps >= max_sweeps) {
        LUTHIER_ASSIGN_OR_RETURN(const bool minimum, Polish(stop, &out));
        if (minimum) {
          g_ = q_.Multiply(x_) - q_.c;
          if (Violation() <= tolerance_) {
            out.exact = true;
            break;
          }
        }
        if (sweeps >= max_sweeps) break;
      }
      signs = Signs();
      const double most = Sweep(false);
      for (int k = 0; k < kInnerSweeps && Sweep(true) > 0.1 * most; ++k) {
      }
      sweeps += 1 + kInnerSweeps;
    }
    out.x = x_;
    const double strong = q_.shift;
    const double distance = SubgradientSquared();
    out.bound = Value();
    if (!out.exact) {
      out.bound = strong > 0.0 ? out.bound - distance / (2.0 * strong) : -std::numeric_limits<double>::infinity();
    }
    return out;
  }

 private:
  bool grouped() const { return !penalties_.groups.empty(); }

  double Value() const {
    double value = 0.5 * x_.dot(g_ - q_.c) + l1_ * x_.lpNorm<1>();
    for (size_t m = 0; m < penalties_.groups.size(); ++m) value += mu_[static_cast<Index>(m)] * Norm(m);
    return value;
  }
  double Norm(size_t m) const {
    double squares = 0.0;
    for (const Index j : penalties_.groups[m]) squares += x_[j] * x_[j];
    return std::sqrt(squares);
  }

  std::vector<char> Signs() const {
    std::vector<char> signs(static_cast<size_t>(x_.size()));
    for (Index j = 0; j < x_.size(); ++j) {
      signs[static_cast<size_t>(j)] = static_cast<char>((x_[j] > 0.0) - (x_[j] < 0.0));
    }
    return signs;
  }

  void Move(Index j, double to) {
    const double delta = to - x_[j];
    if (delta == 0.0) return;
    q_.AddColumn(j, delta, &g_);
    x_[j] = to;
  }

  // Makes a sweep. Returns the largest change of the gradient that a block asked for.
  double Sweep(bool active) {
    double most = 0.0;
    if (!grouped()) {
      for (Index j = 0; j < x_.size(); ++j) {
        if (active && x_[j] == 0.0) continue;
        const double curvature = std::max(q_.Entry(j, j), 1e-300);
        const double to = Soft(x_[j] - g_[j] / curvature, l1_ / curvature);
        most = std::max(most, curvature * std::abs(to - x_[j]));
        Move(j, to);
      }
      return most;
    }
    for (size_t m = 0; m < penalties_.groups.size(); ++m) {
      const std::vector<Index>& group = penalties_.groups[m];
      const double norm = Norm(m);
      if (active && norm == 0.0) continue;
      const double curvature = curvature_[m], weight = mu_[static_cast<Index>(m)];
      // Most groups stay 0.
      double squares = 0.0;
      for (const Index j : group) squares += std::pow(Soft(x_[j] - g_[j] / curvature, l1_ / curvature), 2);
      const double length = std::sqrt(squares);
      const double shrink = length * curvature > weight ? 1.0 - weight / (curvature * length) : 0.0;
      if (shrink == 0.0 && norm == 0.0) continue;
      const VectorXd g = g_;  // All coordinates of the block move at once.
      for (const Index j : group) {
        const double to = shrink * Soft(x_[j] - g[j] / curvature, l1_ / curvature);
        most = std::max(most, curvature * std::abs(to - x_[j]));
        Move(j, to);
      }
    }
    return most;
  }

  // Moves to the minimum over the weights that are not 0, and drops those that would change their sign. Returns false
  // if that took too many steps.
  absl::StatusOr<bool> Polish(const base::StopToken& stop, PenalizedMinimum* out) {
    for (int k = 0; k < kDrops; ++k) {
      LUTHIER_RETURN_IF_ERROR(stop.Poll(x_.size()));
      switch (PolishOnce(out)) {
        case Polished::kMinimum:
          return true;
        case Polished::kDropped:
          continue;
        case Polished::kFailed:
          return false;
      }
    }
    return false;
  }

  enum class Polished { kMinimum, kDropped, kFailed };

  // Runs Newton's method on the weights that are not 0.
  Polished PolishOnce(PenalizedMinimum* out) {
    std::vector<Index>& support = out->support;
    support.clear();
    std::vector<Index> group_of(static_cast<size_t>(x_.size()), -1);
    for (size_t m = 0; m < penalties_.groups.size(); ++m) {
      for (const Index j : penalties_.groups[m]) group_of[static_cast<size_t>(j)] = static_cast<Index>(m);
    }
    for (Index j = 0; j < x_.size(); ++j) {
      if (x_[j] != 0.0) support.push_back(j);
    }
    const auto size = static_cast<Index>(support.size());
    out->factored = false;
    if (size == 0) return Polished::kMinimum;
    MatrixXd q(size, size);
    for (Index i = 0; i < size; ++i) {
      for (Index k = i; k < size; ++k) {
        q(k, i) = q_.Entry(support[static_cast<size_t>(k)], support[static_cast<size_t>(i)]);
      }
    }
    q.triangularView<Eigen::StrictlyUpper>() = q.transpose();
    VectorXd w = x_(support);
    const VectorXd signs = w.cwiseSign();
    const VectorXd c = q_.c(support);
    // Positions in the support of each group that has any.
    std::vector<std::vector<Index>> members;
    std::vector<double> weights;
    for (size_t m = 0; m < penalties_.groups.size(); ++m) {
      if (mu_[static_cast<Index>(m)] == 0.0) continue;
      std::vector<Index> positions;
      for (Index i = 0; i < size; ++i) {
        const Index group = group_of[static_cast<size_t>(support[static_cast<size_t>(i)])];
        if (group == static_cast<Index>(m)) positions.push_back(i);
      }
      if (positions.empty()) continue;
      members.push_back(std::move(positions));
      weights.push_back(mu_[static_cast<Index>(m)]);
    }
    const auto value = [&](const VectorXd& at) {
      double v = 0.5 * at.dot(q * at) - c.dot(at) + l1_ * signs.dot(at);
      for (size_t m = 0; m < members.size(); ++m) v += weights[m] * at(members[m]).norm();
      return v;
    };
    for (int step = 0; step < kNewtonSteps; ++step) {
      VectorXd gradient = q * w - c + l1_ * signs;
      MatrixXd hessian = q;
      for (size_t m = 0; m < members.size(); ++m) {
        const VectorXd part = w(members[m]);
        const double norm = part.norm();
        if (norm == 0.0) return Polished::kFailed;
        for (size_t i = 0; i < members[m].size(); ++i) {
          const auto at = static_cast<Index>(i);
          gradient[members[m][i]] += weights[m] * part[at] / norm;
          for (size_t k = 0; k < members[m].size(); ++k) {
            const double same = i == k ? 1.0 : 0.0;
            hessian(members[m][i], members[m][k]) +=
                weights[m] / norm * (same - part[at] * part[static_cast<Index>(k)] / (norm * norm));
          }
        }
      }
      out->factor.compute(hessian);
      out->factored = out->factor.info() == Eigen::Success;
      if (out->factored && members.empty()) {
        const auto pivots = out->factor.matrixLLT().diagonal().array().square();
        out->factored = pivots.minCoeff() > kDependent * pivots.maxCoeff();
      }
      if (!out->factored) {
        if (!members.empty() || !DropDependent(q, signs, &w)) return Polished::kFailed;
        x_(support) = w;
        g_ = q_.Multiply(x_) - q_.c;
        return Polished::kDropped;
      }
      const bool done = gradient.lpNorm<Eigen::Infinity>() <= 0.1 * tolerance_;
      if (done) break;
      const VectorXd d = -out->factor.solve(gradient);
      double length = 1.0;
      if (!members.empty()) {
        const double at = value(w), slope = gradient.dot(d);
        const double noise = 1e-15 * std::abs(at);
        while (length > 1e-4 && !(value(w + length * d) <= at + 0.1 * length * slope + noise)) length *= 0.5;
      }
      const VectorXd next = w + length * d;
      if (!next.allFinite()) return Polished::kFailed;
      const bool rounding = (next - w).norm() <= 1e-15 * w.norm();
      w = next;
      if (rounding) break;
    }
    if (w.cwiseSign() == signs) {
      x_(support) = w;
      return Polished::kMinimum;
    }
    // Moves towards it up to the first sign that changes. That weight becomes 0, and sweeps decide whether it stays so.
    const VectorXd start = x_(support);
    double length = 1.0;
    Index first = -1;
    for (Index i = 0; i < size; ++i) {
      if (w[i] * signs[i] > 0.0) continue;
      const double here = start[i] / (start[i] - w[i]);
      if (here <= length) {
        length = here;
        first = i;
      }
    }
    x_(support) = start + length * (w - start);
    if (first >= 0) x_[support[static_cast<size_t>(first)]] = 0.0;
    g_ = q_.Multiply(x_) - q_.c;
    return Polished::kDropped;
  }

  // Returns the largest violation of a condition of the minimum.
  double Violation() const {
    double most = 0.0;
    if (!grouped()) {
      for (Index j = 0; j < x_.size(); ++j) {
        const double v = x_[j] != 0.0 ? std::abs(g_[j] + l1_ * (x_[j] > 0.0 ? 1.0 : -1.0)) : std::abs(Soft(g_[j], l1_));
        most = std::max(most, v);
      }
      return most;
    }
    for (size_t m = 0; m < penalties_.groups.size(); ++m) most = std::max(most, std::sqrt(GroupSubgradient(m)));
    return most;
  }

  // Returns the squared norm of the least subgradient in group m.
  double GroupSubgradient(size_t m) const {
    const double norm = Norm(m), weight = mu_[static_cast<Index>(m)];
    double squares = 0.0;
    for (const Index j : penalties_.groups[m]) {
      double v = Soft(g_[j], l1_);
      if (norm > 0.0) {
        const double smooth = g_[j] + weight * x_[j] / norm;
        v = x_[j] != 0.0 ? smooth + l1_ * (x_[j] > 0.0 ? 1.0 : -1.0) : Soft(smooth, l1_);
      }
      squares += v * v;
    }
    if (norm > 0.0) return squares;
    const double left = std::max(0.0, std::sqrt(squares) - weight);
    return left * left;
  }

  double SubgradientSquared() const {
    double squares = 0.0;
    if (!grouped()) {
      for (Index j = 0; j < x_.size(); ++j) {
        const double v = x_[j] != 0.0 ? g_[j] + l1_ * (x_[j] > 0.0 ? 1.0 : -1.0) : Soft(g_[j], l1_);
        squares += v * v;
      }
      return squares;
    }
    for (size_t m = 0; m < penalties_.groups.size(); ++m) squares += GroupSubgradient(m);
    return squares;
  }

  Quadratic q_;
  const SparsePenalties& penalties_;
  const VectorXd& mu_;
  const double l1_;
  VectorXd x_, g_;  // g = Qx - c.
  double tolerance_ = 0.0;
  std::vector<double> curvature_;  // Upper bound of the curvature of each group's block.
};

}  // namespace

void Quadratic::AddColumn(Index j, double delta, VectorXd* g) const {
  g->noalias() += (delta * first) * a->col(j);
  if (b != nullptr) g->noalias() += (delta * second) * b->col(j);
  (*g)[j] += delta * shift;
}

VectorXd Quadratic::Multiply(const VectorXd& x) const {
  VectorXd out = shift * x;
  // Most entries are 0.
  for (Index j = 0; j < x.size(); ++j) {
    if (x[j] == 0.0) continue;
    out.noalias() += (x[j] * first) * a->col(j);
    if (b != nullptr) out.noalias() += (x[j] * second) * b->col(j);
  }
  return out;
}

absl::StatusOr<PenalizedMinimum> MinimizePenalized(const Quadratic& quadratic, const SparsePenalties& penalties,
                                                   const VectorXd& mu, const VectorXd& x, int max_sweeps,
                                                   const base::StopToken& stop) {
  LUTHIER_CHECK(mu.size() == penalties.count() && x.size() == quadratic.c.size());
  return QuadraticDescent(quadratic, penalties, mu, x).Run(max_sweeps, stop);
}

}  // namespace luthier::bilevel
