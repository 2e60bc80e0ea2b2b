#ifndef LUTHIER_LIB_LINEAR_MARGIN_LOSS_H_
#define LUTHIER_LIB_LINEAR_MARGIN_LOSS_H_

#include <cmath>

namespace luthier::linear {

// Convex losses of a margin t = s (a'w + b), s = +-1, once differentiable, and their convex conjugates.
//
//   kLogistic         log(1 + e^-t)
//   kSquaredHinge     max(0, 1 - t)^2
//   kHuberizedHinge   0 for t > 1 + eps; 1 - t for t < 1 - eps; (1 + eps - t)^2 / (4 eps) between (Ahmed 2018, 3.3)
struct MarginLoss {
  enum class Kind { kLogistic, kSquaredHinge, kHuberizedHinge };
  Kind kind = Kind::kLogistic;
  double epsilon = 0.5;  // Half the width of the quadratic part of kHuberizedHinge. > 0.

  double Value(double t) const {
    switch (kind) {
      case Kind::kLogistic:
        return t > 0.0 ? std::log1p(std::exp(-t)) : -t + std::log1p(std::exp(t));
      case Kind::kSquaredHinge:
        return t < 1.0 ? (1.0 - t) * (1.0 - t) : 0.0;
      case Kind::kHuberizedHinge:
        break;
    }
    if (t >= 1.0 + epsilon) return 0.0;
    if (t < 1.0 - epsilon) return 1.0 - t;
    return (1.0 + epsilon - t) * (1.0 + epsilon - t) / (4.0 * epsilon);
  }

  // Returns the derivative, <= 0.
  double Slope(double t) const {
    switch (kind) {
      case Kind::kLogistic:  // No branch: solvers that take row by row spend a good part of their time here.
        return -1.0 / (1.0 + std::exp(t));
      case Kind::kSquaredHinge:
        return t < 1.0 ? 2.0 * (t - 1.0) : 0.0;
      case Kind::kHuberizedHinge:
        break;
    }
    if (t >= 1.0 + epsilon) return 0.0;
    if (t < 1.0 - epsilon) return -1.0;
    return (t - 1.0 - epsilon) / (2.0 * epsilon);
  }

  // Returns the second derivative, >= 0; at a kink of the slope, the larger of both sides.
  double Curvature(double t) const {
    switch (kind) {
      case Kind::kLogistic: {
        const double e = std::exp(-std::abs(t));
        return e / ((1.0 + e) * (1.0 + e));
      }
      case Kind::kSquaredHinge:
        return t <= 1.0 ? 2.0 : 0.0;
      case Kind::kHuberizedHinge:
        break;
    }
    return std::abs(t - 1.0) <= epsilon ? 1.0 / (2.0 * epsilon) : 0.0;
  }

  // Returns the convex conjugate sup_t (-a t - Value(t)). It is finite for a in [0, 1], for the squared hinge for all a
  // >= 0.
  double Conjugate(double a) const {
    switch (kind) {
      case Kind::kLogistic: {
        const double left = a > 0.0 ? a * std::log(a) : 0.0;
        return left + (a < 1.0 ? (1.0 - a) * std::log1p(-a) : 0.0);
      }
      case Kind::kSquaredHinge:
        return a * (0.25 * a - 1.0);
      case Kind::kHuberizedHinge:
        break;
    }
    return a * (epsilon * a - (1.0 + epsilon));
  }

  // Returns the largest curvature, which is the Lipschitz constant of the slope.
  double smoothness() const {
    switch (kind) {
      case Kind::kLogistic:
        return 0.25;
      case Kind::kSquaredHinge:
        return 2.0;
      case Kind::kHuberizedHinge:
        break;
    }
    return 1.0 / (2.0 * epsilon);
  }
};

}  // namespace luthier::linear

#endif  // LUTHIER_LIB_LINEAR_MARGIN_LOSS_H_
