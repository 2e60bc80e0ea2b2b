#include "lib/bilevel/vf_idca/sparse_penalties.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/check.h"

namespace luthier::bilevel {

using Eigen::Index;
using Eigen::VectorXd;

namespace {

// Calls f(coordinates, radius) for each ball of MinimizeLinear.
template <typename F>
void ForEachBall(const SparsePenalties& penalties, const VectorXd& r, F&& f) {
  if (penalties.ridge) {
    f(static_cast<const std::vector<Index>*>(nullptr), std::sqrt(2.0 * r[penalties.l2()]));
    return;
  }
  for (Index m = 0; m < penalties.group_count(); ++m) f(&penalties.groups[static_cast<size_t>(m)], r[m]);
}

// Returns |soft(g_m, tau)|, and unless null sets `slope` to minus its derivative by tau.
double SoftNorm(const VectorXd& g, const std::vector<Index>* group, double tau, double* slope) {
  double squares = 0.0, sum = 0.0;
  const auto add = [&](double v) {
    const double left = std::abs(v) - tau;
    if (left <= 0.0) return;
    squares += left * left;
    sum += left;
  };
  if (group == nullptr) {
    for (const double v : g) add(v);
  } else {
    for (const Index j : *group) add(g[j]);
  }
  const double norm = std::sqrt(squares);
  if (slope != nullptr) *slope = norm > 0.0 ? sum / norm : 0.0;
  return norm;
}

}  // namespace

VectorXd SparsePenalties::Values(const VectorXd& x) const {
  VectorXd values(count());
  for (Index m = 0; m < group_count(); ++m) {
    double squares = 0.0;
    for (const Index j : groups[static_cast<size_t>(m)]) squares += x[j] * x[j];
    values[m] = std::sqrt(squares);
  }
  values[l1()] = x.lpNorm<1>();
  if (ridge) values[l2()] = 0.5 * x.squaredNorm();
  return values;
}

LinearBound MinimizeLinear(const SparsePenalties& penalties, const VectorXd& g, const VectorXd& r) {
  LUTHIER_CHECK(r.size() == penalties.count() && !(penalties.ridge && penalties.group_count() > 0));
  const auto falls = [&](double tau) {
    double slope = r[penalties.l1()];
    ForEachBall(penalties, r, [&](const std::vector<Index>* group, double radius) {
      double one = 0.0;
      SoftNorm(g, group, tau, &one);
      slope -= radius * one;
    });
    return slope < 0.0;
  };
  // phi is convex, so its slope changes sign once. Without balls the best tau is the largest |g_j|.
  double low = 0.0, high = g.lpNorm<Eigen::Infinity>();
  if (penalties.ridge || penalties.group_count() > 0) {
    if (!falls(0.0)) high = 0.0;
    for (int k = 0; k < 100 && high - low > 1e-15 * high; ++k) {
      const double middle = 0.5 * (low + high);
      (falls(middle) ? low : high) = middle;
    }
  }
  LinearBound bound;
  bound.multipliers = VectorXd::Zero(penalties.count());
  bound.multipliers[penalties.l1()] = high;
  bound.value = -high * r[penalties.l1()];
  Index m = 0;
  ForEachBall(penalties, r, [&](const std::vector<Index>* group, double radius) {
    const double norm = SoftNorm(g, group, high, nullptr);
    bound.value -= radius * norm;
    // The radius sqrt(2 r) is concave in r, so its tangent bounds it.
    bound.multipliers[penalties.ridge ? penalties.l2() : m++] = penalties.ridge ? norm / radius : norm;
  });
  return bound;
}

VectorXd ScaledInto(const SparsePenalties& penalties, const VectorXd& x, const VectorXd& r) {
  VectorXd out = x;
  // The groups are disjoint, so each is shrunk alone.
  for (Index m = 0; m < penalties.group_count(); ++m) {
    const std::vector<Index>& group = penalties.groups[static_cast<size_t>(m)];
    double squares = 0.0;
    for (const Index j : group) squares += x[j] * x[j];
    const double norm = std::sqrt(squares);
    if (norm <= r[m]) continue;
    for (const Index j : group) out[j] *= r[m] / norm;
  }
  double scale = 1.0;
  const double l1 = out.lpNorm<1>();
  if (l1 > r[penalties.l1()]) scale = r[penalties.l1()] / l1;
  if (penalties.ridge) {
    const double l2 = 0.5 * scale * scale * out.squaredNorm();
    if (l2 > r[penalties.l2()]) scale *= std::sqrt(r[penalties.l2()] / l2);
  }
  return scale * out;
}

VectorXd ProjectedInto(const SparsePenalties& penalties, const VectorXd& x, const VectorXd& r) {
  // tau is the multiplier of |x|_1: entries are soft thresholded, then each ball's part is shrunk into it.
  const auto at = [&](double tau) {
    VectorXd out = x.unaryExpr([tau](double v) { return Soft(v, tau); });
    ForEachBall(penalties, r, [&](const std::vector<Index>* group, double radius) {
      double squares = 0.0;
      if (group == nullptr) {
        squares = out.squaredNorm();
      } else {
        for (const Index j : *group) squares += out[j] * out[j];
      }
      const double norm = std::sqrt(squares);
      if (norm <= radius) return;
      if (group == nullptr) {
        out *= radius / norm;
      } else {
        for (const Index j : *group) out[j] *= radius / norm;
      }
    });
    return out;
  };
  const double bound = r[penalties.l1()];
  VectorXd out = at(0.0);
  if (out.lpNorm<1>() <= bound) return out;
  double low = 0.0, high = x.lpNorm<Eigen::Infinity>();
  for (int k = 0; k < 60 && high - low > 1e-14 * high; ++k) {
    const double middle = 0.5 * (low + high);
    (at(middle).lpNorm<1>() > bound ? low : high) = middle;
  }
  return at(high);
}

}  // namespace luthier::bilevel
