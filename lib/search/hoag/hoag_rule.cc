#include "lib/search/hoag/hoag_rule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

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

}  // namespace

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

HoagChain::HoagChain(const study::HoagOptions& options, VectorXd start, VectorXd lower, VectorXd upper)
    : options_(options),
      lower_(std::move(lower)),
      upper_(std::move(upper)),
      best_(std::numeric_limits<double>::infinity()) {
  point_ = Project(start);
}

VectorXd HoagChain::Project(const VectorXd& point) const {
  return point.cwiseMax(lower_).cwiseMin(upper_);
}

double HoagChain::tolerance() const {
  const double planned = HoagTolerance(options_.sequence, options_.first_tolerance, k_);
  return planned == 0.0 ? 0.0 : std::max(kLeastTolerance, shrink_ * planned);
}

void HoagChain::Step() {
  // The step is at most kLongestStep in every coordinate.
  VectorXd move = Project(accepted_ - last_.gradient / inverse_step_) - accepted_;
  const double longest = move.lpNorm<Eigen::Infinity>();
  if (longest > kLongestStep) move *= kLongestStep / longest;
  point_ = Project(accepted_ + move);
}

void HoagChain::Tell(const HoagResult& result) {
  LUTHIER_CHECK(!ended_ && result.gradient.size() == point_.size());
  best_ = std::min(best_, result.value);
  const bool first = !any_;
  if (!first && options_.step_rule == study::HoagStep::kBacktracking) {
    // Armijo's condition along the projected step.
    if (!(result.value <= last_.value + kSufficient * last_.gradient.dot(point_ - accepted_))) return Reject();
    inverse_step_ /= kGrow;
  } else if (!first) {
    if (result.value - last_.value >= kReject * std::abs(last_.value)) {
      shrink_ *= 0.5;
      return Reject();
    }
    const double length = (point_ - accepted_).norm();
    const double c = kLipschitz * result.outer_gradient_norm;
    // This follows from equations 10 and 16 of the paper; its equation 3 prints another form.
    const double slack =
        c * result.tolerance + last_.tolerance * (c + kConstantM * length) - 0.5 * inverse_step_ * length * length;
    inverse_step_ = result.value <= last_.value + slack ? inverse_step_ / kShrinkStep : inverse_step_ * kGrow;
  }
  rejected_in_a_row_ = 0;
  last_ = result;
  accepted_ = point_;
  any_ = true;
  mapping_ = (Project(accepted_ - last_.gradient) - accepted_).lpNorm<Eigen::Infinity>();
  if (first) {
    first_mapping_ = mapping_;
    // The first step has length 1.
    inverse_step_ = last_.gradient.norm();
  }
  ++k_;
  ended_ = !(inverse_step_ > 0.0) || mapping_ <= options_.stop * first_mapping_;
  if (!ended_) Step();
  if (!ended_ && (point_ - accepted_).lpNorm<Eigen::Infinity>() < 1e-12) ended_ = true;
}

void HoagChain::Fail() {
  if (any_) return Reject();
  ended_ = true;
}

void HoagChain::Reject() {
  ++k_;
  inverse_step_ *= kGrow;
  ++rejected_;
  ended_ = ++rejected_in_a_row_ >= kMostRejections;
  Step();
}

}  // namespace luthier::search
