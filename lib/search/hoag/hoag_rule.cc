#include "lib/search/hoag/hoag_rule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "lib/base/check.h"

namespace luthier::search {
namespace {

using Eigen::VectorXd;

constexpr double kLeastTolerance = 1e-12;
constexpr double kLongestStep = 2.0;  // In a coordinate: of logarithms, or of 1/24 of a linear range.
// L is divided by the first after a step that gained enough, and multiplied by the second otherwise.
constexpr double kShrinkStep = 1.05;
constexpr double kGrow = 2.0;
constexpr double kConstantM = 1.0;    // M of the test, as in the paper's code.
constexpr double kLipschitz = 1.1;    // Multiple of the local estimate of C.
constexpr double kReject = 0.2;       // Multiple of |g_{k-1}|: a value that rises by more is not accepted.
constexpr double kSufficient = 1e-4;  // Armijo's constant.
constexpr int kMostRejections = 30;   // In a row: the step is then 10^-9 of its first length.
// By curvature: the slope after a step, as a multiple of that before it, beyond which the step was too long, and the
// rise of the value, as a multiple of the gain promised. What a tolerance leaves open is this multiple of the first
// gain.
constexpr double kSlope = 0.8;
constexpr double kRise = 0.1;
constexpr double kShare = 0.1;  // The most that a tolerance is, of the gradient mapping over the largest one.

bool Curved(const VectorXd& s, const VectorXd& y) {
  constexpr double kLeast = 1e-6;  // Cosine of the angle between s and y.
  return s.dot(y) > kLeast * s.norm() * y.norm();
}

}  // namespace

bool CurvaturePairs::Add(const VectorXd& s, const VectorXd& y) {
  if (!Curved(s, y)) return false;
  if (pairs_.size() == kMost) pairs_.pop_front();
  pairs_.push_back({s, y});
  return true;
}

VectorXd CurvaturePairs::Direction(const VectorXd& p, const std::vector<bool>& free, double scale) const {
  LUTHIER_CHECK(free.size() == static_cast<size_t>(p.size()));
  VectorXd mask(p.size());
  for (size_t i = 0; i < free.size(); ++i) mask[static_cast<Eigen::Index>(i)] = free[i] ? 1.0 : 0.0;
  std::vector<Pair> used;
  for (const Pair& pair : pairs_) {
    VectorXd s = pair.s.cwiseProduct(mask), y = pair.y.cwiseProduct(mask);
    if (Curved(s, y)) used.push_back({std::move(s), std::move(y)});
  }
  if (!used.empty()) scale = used.back().s.dot(used.back().y) / used.back().y.squaredNorm();
  VectorXd q = p.cwiseProduct(mask);
  std::vector<double> alpha(used.size());
  for (size_t k = used.size(); k-- > 0;) {
    alpha[k] = used[k].s.dot(q) / used[k].s.dot(used[k].y);
    q -= alpha[k] * used[k].y;
  }
  q *= scale;
  for (size_t k = 0; k < used.size(); ++k) {
    q += (alpha[k] - used[k].y.dot(q) / used[k].s.dot(used[k].y)) * used[k].s;
  }
  return -q;
}

double HoagTolerance(study::HoagSequence sequence, double first, int k) {
  const double n = k;
  switch (sequence) {
    case study::HoagSequence::kExponential:
      return std::max(kLeastTolerance, first * std::pow(0.9, n - 1.0));
    case study::HoagSequence::kQuadratic:
      return std::max(kLeastTolerance, first / (n * n));
    case study::HoagSequence::kCubic:
      return std::max(kLeastTolerance, first / (n * n * n));
    case study::HoagSequence::kExact:
      return 0.0;
  }
  LUTHIER_CHECK(false);
}

HoagChain::HoagChain(const study::HoagOptions& options, VectorXd start, VectorXd lower, VectorXd upper,
                     HoagVersion version)
    : options_(options),
      version_(version),
      lower_(std::move(lower)),
      upper_(std::move(upper)),
      best_(std::numeric_limits<double>::infinity()) {
  point_ = Project(start);
}

VectorXd HoagChain::Project(const VectorXd& point) const {
  return point.cwiseMax(lower_).cwiseMin(upper_);
}

bool HoagChain::by_curvature() const {
  return version_ == HoagVersion::kCurvature && options_.step_rule != study::HoagStep::kBacktracking;
}

double HoagChain::tolerance() const {
  double planned = HoagTolerance(options_.sequence, options_.first_tolerance, k_);
  if (planned == 0.0) return 0.0;
  if (by_curvature() && any_) planned = std::min(planned, kShare * mapping_ / largest_mapping_);
  return std::max(kLeastTolerance, shrink_ * planned);
}

VectorXd HoagChain::Wanted() const {
  if (!by_curvature()) return -last_.gradient / inverse_step_;
  // Coordinates whose gradient leads out of the box stay.
  std::vector<bool> free(static_cast<size_t>(point_.size()));
  for (Eigen::Index i = 0; i < point_.size(); ++i) {
    const double p = last_.gradient[i];
    free[static_cast<size_t>(i)] = !(accepted_[i] <= lower_[i] && p > 0.0) && !(accepted_[i] >= upper_[i] && p < 0.0);
  }
  const VectorXd wanted = pairs_.Direction(last_.gradient, free, 1.0 / inverse_step_);
  // The projection on the box may turn a direction of descent.
  const bool descends = (Project(accepted_ + wanted) - accepted_).dot(last_.gradient) < 0.0;
  return descends && wanted.allFinite() ? wanted : VectorXd(-last_.gradient / inverse_step_);
}

void HoagChain::Step(double longest) {
  VectorXd move = Project(accepted_ + Wanted()) - accepted_;
  const double length = move.lpNorm<Eigen::Infinity>();
  if (length > longest) move *= longest / length;
  point_ = Project(accepted_ + move);
}

bool HoagChain::AdaptStepSize(const HoagResult& result) {
  if (options_.step_rule == study::HoagStep::kBacktracking) {
    // Armijo's condition along the projected step.
    if (!(result.value <= last_.value + kSufficient * last_.gradient.dot(point_ - accepted_))) return true;
    inverse_step_ /= kGrow;
    return false;
  }
  if (result.value - last_.value >= kReject * std::abs(last_.value)) {
    shrink_ *= 0.5;
    return true;
  }
  const double length = (point_ - accepted_).norm();
  const double c = kLipschitz * result.outer_gradient_norm;
  // This follows from equations 10 and 16 of the paper; its equation 3 prints another form.
  const double slack =
      c * result.tolerance + last_.tolerance * (c + kConstantM * length) - 0.5 * inverse_step_ * length * length;
  inverse_step_ = result.value <= last_.value + slack ? inverse_step_ / kShrinkStep : inverse_step_ * kGrow;
  return false;
}

bool HoagChain::AdaptCurvature(const HoagResult& result) {
  const VectorXd s = point_ - accepted_, y = result.gradient - last_.gradient;
  const double promised = -last_.gradient.dot(s), ahead = result.gradient.dot(s);
  const double open = kRise * (std::max(result.tolerance, last_.tolerance) * first_gain_ + promised);
  const bool curved = pairs_.Add(s, y);
  if (curved) inverse_step_ = s.dot(y) / s.squaredNorm();
  if (ahead > kSlope * promised || result.value > last_.value + open) {
    shrink_ *= 0.5;
    return true;
  }
  if (!curved) {
    pairs_.Clear();
    inverse_step_ = result.gradient.norm() / (kGrow * s.norm());
  }
  return false;
}

void HoagChain::Tell(const HoagResult& result) {
  LUTHIER_CHECK(!ended_ && result.gradient.size() == point_.size());
  best_ = std::min(best_, result.value);
  const bool first = !any_;
  if (!first && (by_curvature() ? AdaptCurvature(result) : AdaptStepSize(result))) return Reject();
  rejected_in_a_row_ = 0;
  last_ = result;
  accepted_ = point_;
  any_ = true;
  mapping_ = (Project(accepted_ - last_.gradient) - accepted_).lpNorm<Eigen::Infinity>();
  largest_mapping_ = std::max(largest_mapping_, mapping_);
  if (first) {
    first_mapping_ = mapping_;
    // The first step has length 1.
    inverse_step_ = first_gain_ = last_.gradient.norm();
  }
  ++k_;
  ended_ = !(inverse_step_ > 0.0) || mapping_ <= options_.stop * first_mapping_;
  if (!ended_) Step(kLongestStep);
  if (!ended_ && (point_ - accepted_).lpNorm<Eigen::Infinity>() < 1e-12) ended_ = true;
}

void HoagChain::Fail() {
  if (any_) return Reject();
  ended_ = true;
}

void HoagChain::Reject() {
  ++k_;
  ++rejected_;
  ended_ = ++rejected_in_a_row_ >= kMostRejections;
  if (by_curvature()) return Step(0.5 * (point_ - accepted_).lpNorm<Eigen::Infinity>());
  inverse_step_ *= kGrow;
  Step(kLongestStep);
}

}  // namespace luthier::search
