#include "lib/math/lbfgs.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/math/infinity.h"

namespace luthier::math {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

constexpr double kArmijo = 1e-4;
constexpr double kCurvature = 0.9;
constexpr int kMaxLineSearch = 25;

struct Pair {
  VectorXd s;
  VectorXd y;
};

struct Point {
  VectorXd x;
  double f = kInfinity;
  VectorXd g;
  bool finite = false;
};

// Minimum of the cubic through values and slopes at a and b, kept away from both ends by a tenth of the interval.
double SafeguardedCubic(double a, double fa, double da, double b, double fb, double db) {
  const double low = std::min(a, b);
  const double high = std::max(a, b);
  const double margin = 0.1 * (high - low);
  double t = 0.5 * (a + b);
  if (std::isfinite(fb) && std::isfinite(db)) {
    const double theta = 3.0 * (fa - fb) / (b - a) + da + db;
    const double discriminant = theta * theta - da * db;
    if (discriminant >= 0.0) {
      const double gamma = (b > a ? 1.0 : -1.0) * std::sqrt(discriminant);
      const double candidate = b - (b - a) * (db + gamma - theta) / (db - da + 2.0 * gamma);
      if (std::isfinite(candidate)) t = candidate;
    }
  } else {
    t = a + 0.2 * (b - a);  // Outside the domain at b: stay well on the side that is known to be good.
  }
  return std::clamp(t, low + margin, high - margin);
}

class Minimizer {
 public:
  Minimizer(DifferentiableFunction f, const VectorXd& lower, const VectorXd& upper, const LbfgsOptions& options,
            const base::StopToken& stop)
      : f_(f), lower_(lower), upper_(upper), options_(options), stop_(stop) {}

  absl::StatusOr<LbfgsResult> Run(const VectorXd& start) {
    LUTHIER_ASSIGN_OR_RETURN(Point current, Evaluate(start.cwiseMax(lower_).cwiseMin(upper_)));
    LbfgsResult result;
    if (!current.finite) {
      result.outcome = LbfgsOutcome::kNotFiniteAtStart;
      result.x = current.x;
      result.value = kInfinity;
      result.projected_gradient = kInfinity;
      result.evaluations = evaluations_;
      return result;
    }
    int iterations = 0;
    while (true) {
      result.projected_gradient = ProjectedGradient(current);
      if (result.projected_gradient <= options_.gradient_tolerance) {
        result.outcome = LbfgsOutcome::kConverged;
        break;
      }
      if (iterations >= options_.max_iterations || evaluations_ >= options_.max_evaluations) {
        result.outcome = LbfgsOutcome::kLimit;
        break;
      }
      const VectorXd direction = Direction(current);
      Point next;
      LUTHIER_ASSIGN_OR_RETURN(const bool lower, Search(current, direction, &next));
      if (!lower) {
        if (evaluations_ >= options_.max_evaluations) {
          result.outcome = LbfgsOutcome::kLimit;
          break;
        }
        if (pairs_.empty()) {
          result.outcome = LbfgsOutcome::kNoDescent;
          break;
        }
        pairs_.clear();  // The curvature was misleading: the search goes once more along the projected gradient.
        continue;
      }
      ++iterations;
      Remember(current, next);
      const double decrease = current.f - next.f;
      const double scale = std::max(1.0, std::abs(current.f));
      current = std::move(next);
      if (options_.value_tolerance > 0.0 && decrease <= options_.value_tolerance * scale) {
        result.projected_gradient = ProjectedGradient(current);
        result.outcome = LbfgsOutcome::kSmallDecrease;
        break;
      }
    }
    result.x = current.x;
    result.value = current.f;
    result.iterations = iterations;
    result.evaluations = evaluations_;
    return result;
  }

 private:
  absl::StatusOr<Point> Evaluate(VectorXd x) {
    LUTHIER_RETURN_IF_ERROR(stop_.Poll());
    Point point;
    point.g = VectorXd::Zero(x.size());
    LUTHIER_ASSIGN_OR_RETURN(point.f, f_(x, &point.g));
    ++evaluations_;
    point.finite = std::isfinite(point.f) && point.g.allFinite();
    point.x = std::move(x);
    return point;
  }

  double ProjectedGradient(const Point& p) const {
    double norm = 0.0;
    for (Index j = 0; j < p.x.size(); ++j) {
      norm = std::max(norm, std::abs(std::clamp(p.x(j) - p.g(j), lower_(j), upper_(j)) - p.x(j)));
    }
    return norm;
  }

  bool IsFree(const Point& p, Index j) const {
    if (lower_(j) >= upper_(j)) return false;
    if (p.x(j) <= lower_(j) && p.g(j) > 0.0) return false;
    return !(p.x(j) >= upper_(j) && p.g(j) < 0.0);
  }

  // -H g on the free coordinates, 0 elsewhere; the two-loop recursion with inner products over free coordinates.
  VectorXd Direction(const Point& p) const {
    const Index n = p.x.size();
    VectorXd mask(n);
    for (Index j = 0; j < n; ++j) mask(j) = IsFree(p, j) ? 1.0 : 0.0;
    VectorXd q = p.g.cwiseProduct(mask);
    const VectorXd masked_gradient = q;
    const size_t m = pairs_.size();
    std::vector<double> alpha(m, 0.0), rho(m, 0.0);
    double gamma = 1.0;
    bool scaled = false;
    for (size_t k = m; k-- > 0;) {
      const VectorXd s = pairs_[k].s.cwiseProduct(mask);
      const VectorXd y = pairs_[k].y.cwiseProduct(mask);
      const double sy = s.dot(y);
      const double yy = y.squaredNorm();
      if (!(sy > 1e-14 * yy) || !(yy > 0.0)) continue;  // Restricted to the face, the pair may lose its curvature.
      rho[k] = 1.0 / sy;
      if (!scaled) {
        gamma = sy / yy;
        scaled = true;
      }
      alpha[k] = rho[k] * s.dot(q);
      q -= alpha[k] * y;
    }
    VectorXd d = gamma * q;
    for (size_t k = 0; k < m; ++k) {
      if (rho[k] == 0.0) continue;
      const VectorXd s = pairs_[k].s.cwiseProduct(mask);
      const VectorXd y = pairs_[k].y.cwiseProduct(mask);
      d += (alpha[k] - rho[k] * y.dot(d)) * s;
    }
    d = -d;
    const double slope = d.dot(masked_gradient);
    if (!d.allFinite() || !(slope < -1e-12 * d.norm() * masked_gradient.norm())) return -masked_gradient;
    return d;
  }

  // Finds a point along P(x + t d) with sufficient decrease and, if it can, a flat enough slope.
  absl::StatusOr<bool> Search(const Point& from, const VectorXd& d, Point* found) {
    const double slope0 = from.g.dot(d);
    if (!(slope0 < 0.0)) return false;
    double step = 1.0;
    if (pairs_.empty()) step = std::min(1.0, options_.first_step / d.lpNorm<Eigen::Infinity>());
    double low = 0.0, f_low = from.f, slope_low = slope0;
    double high = kInfinity, f_high = kInfinity, slope_high = kInfinity;
    bool have_low = false;
    for (int trial = 0; trial < kMaxLineSearch && evaluations_ < options_.max_evaluations; ++trial) {
      const VectorXd x = (from.x + step * d).cwiseMax(lower_).cwiseMin(upper_);
      if (x == from.x || (have_low && x == found->x)) break;  // Round-off, or everything is clipped already.
      LUTHIER_ASSIGN_OR_RETURN(Point next, Evaluate(x));
      double slope = 0.0;  // Slope of the arc: clipped coordinates no longer move.
      for (Index j = 0; j < x.size(); ++j) {
        const bool clipped = (x(j) <= lower_(j) && d(j) < 0.0) || (x(j) >= upper_(j) && d(j) > 0.0);
        if (!clipped) slope += next.g(j) * d(j);
      }
      const double limit = from.f + kArmijo * std::min(0.0, from.g.dot(next.x - from.x));
      if (!next.finite || !(next.f <= limit) || !(next.f < from.f)) {
        high = step;
        f_high = next.finite ? next.f : kInfinity;
        slope_high = next.finite ? slope : kInfinity;
      } else {
        const bool better = !have_low || next.f <= found->f;
        low = step;
        f_low = next.f;
        slope_low = slope;
        if (better) *found = std::move(next);
        have_low = true;
        if (slope >= kCurvature * slope0) return true;
      }
      if (high == kInfinity) {
        step *= 4.0;
        if (!std::isfinite(step)) break;
      } else {
        if (high - low <= 1e-12 * high) break;
        step = SafeguardedCubic(low, f_low, slope_low, high, f_high, slope_high);
      }
    }
    return have_low;
  }

  void Remember(const Point& from, const Point& to) {
    Pair pair{to.x - from.x, to.g - from.g};
    const double sy = pair.s.dot(pair.y);
    if (!(sy > 1e-14 * pair.y.squaredNorm()) || !(sy > 0.0)) return;
    if (static_cast<int>(pairs_.size()) == options_.memory) pairs_.erase(pairs_.begin());
    pairs_.push_back(std::move(pair));
  }

  DifferentiableFunction f_;
  const VectorXd& lower_;
  const VectorXd& upper_;
  const LbfgsOptions& options_;
  const base::StopToken& stop_;
  std::vector<Pair> pairs_;  // Oldest first.
  int evaluations_ = 0;
};

}  // namespace

absl::StatusOr<LbfgsResult> MinimizeLbfgs(DifferentiableFunction f, const VectorXd& start, const VectorXd& lower,
                                          const VectorXd& upper, const LbfgsOptions& options,
                                          const base::StopToken& stop) {
  LUTHIER_CHECK(start.size() == lower.size() && start.size() == upper.size());
  LUTHIER_CHECK(options.memory >= 1 && options.max_evaluations >= 1 && options.max_iterations >= 0);
  return Minimizer(f, lower, upper, options, stop).Run(start);
}

}  // namespace luthier::math
