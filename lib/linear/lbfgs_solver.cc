#include "lib/linear/lbfgs_solver.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"

namespace luthier::linear {
namespace {

using Eigen::VectorXd;

constexpr size_t kMemory = 10;
constexpr double kC1 = 1e-4;
constexpr double kC2 = 0.9;
constexpr int kMaxTrials = 20;
constexpr int64_t kStallWindow = 20;

// One end of the line search's interval.
struct End {
  double step;
  double value;
  double slope;
};

// Returns a trial strictly between the ends: the secant zero of the slopes if they bracket one, else the minimum of the
// parabola through (value, slope) at `low` and the value at `high`, kept away from both ends.
double Interpolate(const End& low, const End& high) {
  const double width = high.step - low.step;
  double t = 0.5;
  if (std::isfinite(high.slope) && high.slope > 0.0 && low.slope < 0.0) {
    t = -low.slope / (high.slope - low.slope);
  } else if (std::isfinite(high.value)) {
    const double curvature = high.value - low.value - low.slope * width;
    if (curvature > 0.0) t = -0.5 * low.slope * width / curvature;
  }
  if (!(t == t)) t = 0.5;
  return low.step + std::clamp(t, 0.1, 0.9) * width;
}

}  // namespace

absl::StatusOr<SolveState> LbfgsSolver::Start(ValueAndGradient f, VectorXd x0) {
  x_ = std::move(x0);
  pairs_.clear();
  iteration_ = 0;
  LUTHIER_ASSIGN_OR_RETURN(value_, f(x_, &gradient_));
  ++evaluations_;
  reference_value_ = value_;
  reference_gradient_ = LargestEntry(gradient_, scale_);
  if (!std::isfinite(value_) || !gradient_.allFinite()) return SolveState::kNonFinite;
  return reference_gradient_ <= tolerance_ ? SolveState::kConverged : SolveState::kRunning;
}

VectorXd LbfgsSolver::Steepest(const VectorXd& gradient) const {
  return diagonal_.size() == 0 ? gradient : VectorXd(gradient.cwiseQuotient(diagonal_));
}

absl::StatusOr<VectorXd> LbfgsSolver::Direction(const base::StopToken& stop) const {
  if (pairs_.empty()) return VectorXd(-Steepest(gradient_));
  VectorXd q = -gradient_;
  std::vector<double> alpha(pairs_.size());
  for (size_t k = pairs_.size(); k-- > 0;) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    alpha[k] = pairs_[k].rho * pairs_[k].s.dot(q);
    q -= alpha[k] * pairs_[k].y;
  }
  const Pair& newest = pairs_.back();
  const double square = diagonal_.size() == 0 ? newest.y.squaredNorm() : newest.y.dot(Steepest(newest.y));
  q = (1.0 / (newest.rho * square)) * Steepest(q);
  for (size_t k = 0; k < pairs_.size(); ++k) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    const double beta = pairs_[k].rho * pairs_[k].y.dot(q);
    q += (alpha[k] - beta) * pairs_[k].s;
  }
  return q;
}

absl::StatusOr<LbfgsSolver::Search> LbfgsSolver::LineSearch(ValueAndGradient f, const VectorXd& direction, double first,
                                                            const base::StopToken& stop, Point* point) const {
  auto& [x, value, gradient, evaluations] = *point;
  const double slope0 = direction.dot(gradient_);
  if (!(slope0 < 0.0) || !std::isfinite(slope0)) return Search::kFailed;
  End low = {0.0, value_, slope0};
  End high = {INFINITY, NAN, NAN};
  double step = first;
  bool any_finite = false;
  for (int trial = 0; trial < kMaxTrials; ++trial) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    x = x_ + step * direction;
    LUTHIER_ASSIGN_OR_RETURN(value, f(x, &gradient));
    ++evaluations;
    const double slope = gradient.dot(direction);
    if (!std::isfinite(value) || !std::isfinite(slope)) {
      high = {step, NAN, NAN};
      step = low.step + 0.1 * (step - low.step);
      continue;
    }
    any_finite = true;
    const bool decreased = value <= value_ + kC1 * step * slope0 ||
                           (value <= value_ + kValueNoise * std::abs(value_) && slope <= (2.0 * kC1 - 1.0) * slope0);
    if (!decreased) {
      high = {step, value, slope};
    } else if (slope < kC2 * slope0) {
      low = {step, value, slope};
    } else if (slope > -kC2 * slope0) {
      high = {step, value, slope};
    } else {
      return Search::kFound;
    }
    if (std::isfinite(high.step)) {
      step = Interpolate(low, high);
      if (step == low.step || step == high.step) break;
    } else {
      step *= 4.0;
    }
  }
  // The lower end fulfils the decrease condition, which is progress, but not the curvature condition.
  if (low.step > 0.0) {
    x = x_ + low.step * direction;
    LUTHIER_ASSIGN_OR_RETURN(value, f(x, &gradient));
    ++evaluations;
    return Search::kFound;
  }
  return any_finite ? Search::kFailed : Search::kNonFinite;
}

bool LbfgsSolver::Stalled() {
  if (iteration_ % kStallWindow != 0) return false;
  const double now = LargestEntry(gradient_, scale_);
  const bool stalled =
      value_ >= reference_value_ - kValueNoise * std::abs(reference_value_) && now >= 0.5 * reference_gradient_;
  reference_value_ = value_;
  reference_gradient_ = now;
  return stalled;
}

absl::StatusOr<SolveState> LbfgsSolver::Step(ValueAndGradient f, const base::StopToken& stop) {
  if (!std::isfinite(value_) || !gradient_.allFinite()) return SolveState::kNonFinite;
  if (LargestEntry(gradient_, scale_) <= tolerance_) return SolveState::kConverged;
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  Point point;
  bool fresh = pairs_.empty();
  const double cautious = first_step_ > 0.0 ? first_step_ : std::min(1.0, 1.0 / gradient_.lpNorm<1>());
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd direction, Direction(stop));
  LUTHIER_ASSIGN_OR_RETURN(Search search, LineSearch(f, direction, fresh ? cautious : 1.0, stop, &point));
  if (!fresh && (search == Search::kFailed || search == Search::kNonFinite)) {
    fresh = true;
    LUTHIER_ASSIGN_OR_RETURN(search, LineSearch(f, -Steepest(gradient_), cautious, stop, &point));
    if (search == Search::kFound) pairs_.clear();
  }
  auto& [x, value, gradient, evaluations] = point;
  evaluations_ += evaluations;
  switch (search) {
    case Search::kFailed:
      return SolveState::kPrecision;
    case Search::kNonFinite:
      return SolveState::kNonFinite;
    case Search::kFound:
      break;
  }
  Pair pair = {x - x_, gradient - gradient_, 0.0};
  const double sy = pair.s.dot(pair.y);
  if (sy > 1e-10 * pair.s.norm() * pair.y.norm()) {
    pair.rho = 1.0 / sy;
    pairs_.push_back(std::move(pair));
    if (pairs_.size() > kMemory) pairs_.pop_front();
  }
  x_ = std::move(x);
  value_ = value;
  gradient_ = std::move(gradient);
  ++iteration_;
  if (!gradient_.allFinite()) return SolveState::kNonFinite;
  if (LargestEntry(gradient_, scale_) <= tolerance_) return SolveState::kConverged;
  return Stalled() ? SolveState::kPrecision : SolveState::kRunning;
}

void LbfgsSolver::Save(base::CheckpointWriter* writer) const {
  writer->Vector(x_);
  writer->F64(value_);
  writer->Vector(gradient_);
  writer->U64(pairs_.size());
  for (const Pair& pair : pairs_) {
    writer->Vector(pair.s);
    writer->Vector(pair.y);
    writer->F64(pair.rho);
  }
  writer->U64(static_cast<uint64_t>(iteration_));
  writer->U64(static_cast<uint64_t>(evaluations_));
  writer->F64(reference_value_);
  writer->F64(reference_gradient_);
  writer->Vector(diagonal_);
  writer->F64(first_step_);
}

bool LbfgsSolver::Load(base::CheckpointReader* reader, Eigen::Index dim) {
  x_ = reader->Vector();
  value_ = reader->F64();
  gradient_ = reader->Vector();
  const uint64_t count = reader->U64();
  bool fits = reader->ok() && x_.size() == dim && gradient_.size() == dim && count <= kMemory;
  pairs_.clear();
  for (uint64_t k = 0; fits && k < count; ++k) {
    Pair pair;
    pair.s = reader->Vector();
    pair.y = reader->Vector();
    pair.rho = reader->F64();
    fits = pair.s.size() == dim && pair.y.size() == dim;
    pairs_.push_back(std::move(pair));
  }
  iteration_ = static_cast<int64_t>(reader->U64());
  evaluations_ = static_cast<int64_t>(reader->U64());
  reference_value_ = reader->F64();
  reference_gradient_ = reader->F64();
  diagonal_ = reader->Vector();
  first_step_ = reader->F64();
  return fits && reader->ok() && (diagonal_.size() == 0 || diagonal_.size() == dim);
}

}  // namespace luthier::linear
