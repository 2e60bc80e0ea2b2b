#include "lib/learn/newton_solver.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "lib/learn/conjugate_gradient.h"

namespace luthier::learn {
namespace {

using Eigen::VectorXd;

constexpr double kC1 = 1e-4;
constexpr double kValueNoise = 1e-13;
constexpr int kMaxHalvings = 40;

double LargestEntry(const VectorXd& v) {
  return v.size() == 0 ? 0.0 : v.cwiseAbs().maxCoeff<Eigen::PropagateNaN>();
}

}  // namespace

SolveState NewtonSolver::Start(SecondOrderFunction& f, VectorXd x0, const std::atomic<bool>* stop) {
  x_ = std::move(x0);
  value_ = f.Value(x_, &gradient_, stop);
  if (StopRequested(stop)) return SolveState::kStopped;
  ++evaluations_;
  first_gradient_ = gradient_.norm();
  if (!std::isfinite(value_) || !gradient_.allFinite()) return SolveState::kNonFinite;
  return LargestEntry(gradient_) <= tolerance_ ? SolveState::kConverged : SolveState::kRunning;
}

SolveState NewtonSolver::Step(SecondOrderFunction& f, const std::atomic<bool>* stop) {
  if (!std::isfinite(value_) || !gradient_.allFinite()) return SolveState::kNonFinite;
  const double largest = LargestEntry(gradient_);
  if (largest <= tolerance_) return SolveState::kConverged;
  if (StopRequested(stop)) return SolveState::kStopped;
  f.SetPoint(x_, stop);
  if (StopRequested(stop)) return SolveState::kStopped;
  const double norm = gradient_.norm();
  int64_t products = 0;
  VectorXd diagonal;
  VectorXd direction;
  double others = f.point_passes() + f.factor_passes();
  if (f.direct()) direction = f.SolveHessian(-gradient_, stop);
  if (StopRequested(stop)) return SolveState::kStopped;
  if (direction.size() == 0) {
    // A saturated row may have no curvature left; the preconditioner must stay positive.
    diagonal = f.HessianDiagonal(stop).cwiseMax(1e-300);
    if (StopRequested(stop)) return SolveState::kStopped;
    others += 1.0;
    CgOptions options;
    options.tolerance = std::min(forcing_, std::sqrt(norm / first_gradient_)) * norm;
    options.stop = stop;
    const std::function<VectorXd(const VectorXd&)> precondition = [&f](const VectorXd& r) { return f.Precondition(r); };
    if (f.PreparePreconditioner(stop)) options.precondition = &precondition;
    if (StopRequested(stop)) return SolveState::kStopped;
    CgResult cg =
        SolveCg([&](const VectorXd& v) { return f.HessianVector(v, stop); }, -gradient_, diagonal, VectorXd(), options);
    if (cg.outcome == CgOutcome::kStopped) return SolveState::kStopped;
    direction = std::move(cg.x);
    products = cg.iterations;
  }
  double slope = direction.dot(gradient_);
  if (!(slope < 0.0) || !direction.allFinite()) {
    direction = diagonal.size() == 0 ? VectorXd(-gradient_) : VectorXd(-gradient_.cwiseQuotient(diagonal));
    slope = direction.dot(gradient_);
    if (!(slope < 0.0) || !direction.allFinite()) {
      direction = -gradient_;
      slope = -norm * norm;
    }
  }
  int64_t evaluations = 0;
  bool any_finite = false;
  double step = 1.0;
  for (int k = 0; k < kMaxHalvings; ++k, step *= 0.5) {
    if (StopRequested(stop)) return SolveState::kStopped;
    VectorXd x = x_ + step * direction;
    VectorXd gradient;
    const double value = f.Value(x, &gradient, stop);
    if (StopRequested(stop)) return SolveState::kStopped;
    ++evaluations;
    if (!std::isfinite(value) || !gradient.allFinite()) continue;
    any_finite = true;
    // Within the rounding of f the gradient decides.
    const bool decreased = value <= value_ + kC1 * step * slope ||
                           (value <= value_ + kValueNoise * std::abs(value_) && gradient.norm() < norm);
    if (!decreased) continue;
    Count(evaluations, products, others);
    // Near the optimum a step should square the error; where neither f nor the gradient falls, rounding has taken over.
    const bool stuck = value >= value_ - kValueNoise * std::abs(value_) && gradient.norm() >= 0.7 * norm;
    x_ = std::move(x);
    value_ = value;
    gradient_ = std::move(gradient);
    if (LargestEntry(gradient_) <= tolerance_) return SolveState::kConverged;
    return stuck ? SolveState::kPrecision : SolveState::kRunning;
  }
  Count(evaluations, products, others);
  return any_finite ? SolveState::kPrecision : SolveState::kNonFinite;
}

void NewtonSolver::Count(int64_t evaluations, int64_t products, double others) {
  evaluations_ += evaluations;
  products_ += products;
  other_passes_ += others;
}

void NewtonSolver::Save(CheckpointWriter* writer) const {
  writer->Vector(x_);
  writer->F64(value_);
  writer->Vector(gradient_);
  writer->F64(first_gradient_);
  writer->U64(static_cast<uint64_t>(evaluations_));
  writer->U64(static_cast<uint64_t>(products_));
  writer->F64(other_passes_);
}

bool NewtonSolver::Load(CheckpointReader* reader, Eigen::Index dim) {
  x_ = reader->Vector();
  value_ = reader->F64();
  gradient_ = reader->Vector();
  first_gradient_ = reader->F64();
  evaluations_ = static_cast<int64_t>(reader->U64());
  products_ = static_cast<int64_t>(reader->U64());
  other_passes_ = reader->F64();
  return reader->ok() && x_.size() == dim && gradient_.size() == dim;
}

}  // namespace luthier::learn
