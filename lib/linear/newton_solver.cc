#include "lib/linear/newton_solver.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/linear/conjugate_gradient.h"

namespace luthier::linear {
namespace {

using Eigen::VectorXd;

constexpr double kSufficientDecrease = 1e-4;
constexpr int kMaxHalvings = 40;
constexpr double kSteep = 0.3;  // Share of the first slope that is left at the full step if that is far too short.
// Limits with the factor of an earlier point: residual of the direction, and number of products.
constexpr double kKeptForcing = 0.1;
constexpr int kMostKept = 12;
// A minimum with a ridge is accurate enough if the gradient of f plus ridge is below this share of that of f.
constexpr double kRidgeAccuracy = 0.3;
// Factors by which the ridge falls after up to 2, up to 4, and more steps.
constexpr double kRidgeFalls[] = {0.001, 0.03, 0.2};

}  // namespace

absl::StatusOr<SolveState> NewtonSolver::Start(SecondOrderFunction& f, VectorXd x0, const base::StopToken& stop) {
  x_ = std::move(x0);
  LUTHIER_ASSIGN_OR_RETURN(value_, f.Value(x_, &gradient_, stop));
  ++evaluations_;
  first_gradient_ = gradient_.norm();
  ridge_.resize(0);
  ridge_share_ = 1.0;
  ridge_steps_ = 0;
  if (path_) {
    ridge_ = f.Ridge(1.0);
    // x0 is about the minimum with the ridge whose gradient is as large as that of f.
    const double pull =
        LargestEntry(ridge_.cwiseProduct(x_.head(ridge_.size())), scale_.head(ridge_.size() > 0 ? scale_.size() : 0));
    if (pull > 0.0) {
      ridge_share_ = std::min(1.0, LargestEntry(gradient_, scale_) / pull);
      ridge_ = f.Ridge(ridge_share_);
    }
  }
  if (!std::isfinite(value_) || !gradient_.allFinite()) return SolveState::kNonFinite;
  return LargestEntry(gradient_, scale_) <= tolerance_ ? SolveState::kConverged : SolveState::kRunning;
}

VectorXd NewtonSolver::WithRidge(const VectorXd& x, const VectorXd& gradient) const {
  return ridge_.size() == 0 ? gradient : VectorXd(gradient + ridge_.cwiseProduct(x));
}

double NewtonSolver::RidgeValue(const VectorXd& x) const {
  return ridge_.size() == 0 ? 0.0 : 0.5 * ridge_.dot(x.cwiseAbs2());
}

absl::Status NewtonSolver::Direction(SecondOrderFunction& f, double floor, const VectorXd& gradient,
                                     const base::StopToken& stop, Cost* cost, VectorXd* direction,
                                     VectorXd* factor_point) const {
  f.SetFloor(floor);
  f.SetRidge(ridge_);
  const bool keeps = f.keeps_factor() && floor == 0.0 && ridge_.size() == 0;
  bool kept = keeps && factor_point_.size() > 0;
  if (kept && !f.HasFactorOf(factor_point_)) {  // This happens after Load, or after a step that was given up.
    LUTHIER_RETURN_IF_ERROR(f.SetPoint(factor_point_, stop));
    LUTHIER_ASSIGN_OR_RETURN(kept, f.MakeFactor(stop));
  }
  LUTHIER_RETURN_IF_ERROR(f.SetPoint(x_, stop));
  const double norm = gradient.norm();
  cost->others += f.point_passes() + (kept ? 0.0 : f.factor_passes());
  direction->resize(0);
  const std::function<VectorXd(const VectorXd&)> precondition = [&f](const VectorXd& r) { return f.Precondition(r); };
  const auto multiply = [&](const VectorXd& v) { return f.HessianVector(v, stop); };
  factor_point->resize(0);
  if (kept) {
    CgOptions options;
    options.tolerance = std::min(kKeptForcing, std::sqrt(norm / first_gradient_)) * norm;
    options.max_iterations = kMostKept;
    options.verify = false;
    options.stop = stop;
    options.precondition = &precondition;
    LUTHIER_ASSIGN_OR_RETURN(CgResult cg, SolveCg(multiply, -gradient, VectorXd(), VectorXd(), options));
    cost->products += cg.iterations;
    // The factor is kept if it needed no more products than a new one costs.
    if (cg.outcome == CgOutcome::kConverged && static_cast<double>(cg.iterations) <= f.factor_passes()) {
      *factor_point = factor_point_;
    }
    *direction = std::move(cg.x);
  } else if (f.direct()) {
    LUTHIER_ASSIGN_OR_RETURN(*direction, f.SolveHessian(-gradient, stop));
    if (keeps && direction->size() > 0) *factor_point = x_;
  }
  VectorXd diagonal;
  if (direction->size() == 0) {
    // A saturated row may have no curvature left; the preconditioner must stay positive.
    LUTHIER_ASSIGN_OR_RETURN(diagonal, f.HessianDiagonal(stop));
    diagonal = diagonal.cwiseMax(1e-300);
    cost->others += 1.0;
    CgOptions options;
    options.tolerance = std::min(forcing_, std::sqrt(norm / first_gradient_)) * norm;
    options.verify = false;
    options.stop = stop;
    LUTHIER_ASSIGN_OR_RETURN(const bool prepared, f.PreparePreconditioner(stop));
    if (prepared) options.precondition = &precondition;
    LUTHIER_ASSIGN_OR_RETURN(CgResult cg, SolveCg(multiply, -gradient, diagonal, VectorXd(), options));
    *direction = std::move(cg.x);
    cost->products += cg.iterations;
  }
  const auto descends = [&] { return direction->allFinite() && direction->dot(gradient) < 0.0; };
  if (!descends() && diagonal.size() > 0) *direction = -gradient.cwiseQuotient(diagonal);
  if (!descends()) *direction = -gradient;
  return absl::OkStatus();
}

absl::StatusOr<NewtonSolver::Search> NewtonSolver::LineSearch(SecondOrderFunction& f, const VectorXd& gradient,
                                                              const VectorXd& direction, const base::StopToken& stop,
                                                              Cost* cost, Point* found) const {
  const double slope = direction.dot(gradient);
  const double norm = gradient.norm();
  const double value = value_ + RidgeValue(x_);
  bool any_finite = false;
  // Evaluates the point at `step`. Returns true if it is good enough.
  const auto look = [&](double step, Point* point) -> absl::StatusOr<bool> {
    point->step = step;
    point->x = x_ + step * direction;
    LUTHIER_ASSIGN_OR_RETURN(point->value, f.Value(point->x, &point->gradient, stop));
    ++cost->evaluations;
    if (!std::isfinite(point->value) || !point->gradient.allFinite()) return false;
    any_finite = true;
    const double now = point->value + RidgeValue(point->x);
    // Within the rounding of f, the gradient decides.
    return now <= value + kSufficientDecrease * step * slope ||
           (now <= value + kValueNoise * std::abs(value) && WithRidge(point->x, point->gradient).norm() < norm);
  };
  LUTHIER_ASSIGN_OR_RETURN(const bool full, look(1.0, found));
  if (full && !(WithRidge(found->x, found->gradient).dot(direction) < kSteep * slope)) return Search::kFound;
  double passes = 0.0;
  LUTHIER_ASSIGN_OR_RETURN(double step, f.LineMinimum(x_, direction, stop, &passes));
  cost->others += passes;
  if (full) {  // f still falls steeply at the full step.
    if (step > 1.0) {
      Point farther;
      LUTHIER_ASSIGN_OR_RETURN(const bool good, look(step, &farther));
      if (good && farther.value < found->value) *found = std::move(farther);
    }
    return Search::kFound;
  }
  if (!(step > 0.0)) step = 0.5;
  for (int k = 0; k < kMaxHalvings; ++k, step *= 0.5) {
    LUTHIER_ASSIGN_OR_RETURN(const bool good, look(step, found));
    if (good) return Search::kFound;
  }
  return any_finite ? Search::kFailed : Search::kNonFinite;
}

void NewtonSolver::LowerRidge(const SecondOrderFunction& f) {
  // The ridge falls far if the minima with the last two ridges were close to each other.
  ridge_share_ *= ridge_steps_ <= 2 ? kRidgeFalls[0] : ridge_steps_ <= 4 ? kRidgeFalls[1] : kRidgeFalls[2];
  ridge_steps_ = 0;
  ridge_ = f.Ridge(ridge_share_);
}

absl::StatusOr<SolveState> NewtonSolver::Step(SecondOrderFunction& f, const base::StopToken& stop) {
  if (!std::isfinite(value_) || !gradient_.allFinite()) return SolveState::kNonFinite;
  if (LargestEntry(gradient_, scale_) <= tolerance_) return SolveState::kConverged;
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  const VectorXd gradient = WithRidge(x_, gradient_);
  const double norm = gradient.norm();
  double floor = 0.0;
  Cost cost;
  while (true) {
    VectorXd direction, factor_point;
    LUTHIER_RETURN_IF_ERROR(Direction(f, floor, gradient, stop, &cost, &direction, &factor_point));
    const double promised = -0.5 * direction.dot(gradient);
    Point found;
    LUTHIER_ASSIGN_OR_RETURN(const Search search, LineSearch(f, gradient, direction, stop, &cost, &found));
    // Near the optimum a step should square the error; if neither f nor the gradient falls, rounding prevents progress.
    const double value = value_ + RidgeValue(x_);
    const bool stuck =
        search != Search::kFound || (found.value + RidgeValue(found.x) >= value - kValueNoise * std::abs(value) &&
                                     WithRidge(found.x, found.gradient).norm() >= 0.7 * norm);
    if (stuck && search != Search::kNonFinite && f.has_floor() && floor == 0.0 && ridge_.size() == 0) {
      floor = 1.0;  // The next step cannot fail.
      continue;
    }
    factor_point_ = std::move(factor_point);
    evaluations_ += cost.evaluations;
    products_ += cost.products;
    other_passes_ += cost.others;
    if (search == Search::kNonFinite) return SolveState::kNonFinite;
    if (search == Search::kFound) {
      promised_ = floor == 0.0 && ridge_.size() == 0 ? promised : INFINITY;
      x_ = std::move(found.x);
      value_ = found.value;
      gradient_ = std::move(found.gradient);
      if (LargestEntry(gradient_, scale_) <= tolerance_) return SolveState::kConverged;
    }
    if (ridge_.size() > 0) {
      ++ridge_steps_;
      const double left = LargestEntry(WithRidge(x_, gradient_), scale_);
      if (stuck || left <= kRidgeAccuracy * LargestEntry(gradient_, scale_)) LowerRidge(f);
      return SolveState::kRunning;
    }
    return stuck ? SolveState::kPrecision : SolveState::kRunning;
  }
}

void NewtonSolver::Save(base::CheckpointWriter* writer) const {
  writer->Vector(x_);
  writer->F64(value_);
  writer->Vector(gradient_);
  writer->F64(first_gradient_);
  writer->F64(promised_);
  writer->Vector(factor_point_);
  writer->Vector(ridge_);
  writer->F64(ridge_share_);
  writer->U64(static_cast<uint64_t>(ridge_steps_));
  writer->U64(static_cast<uint64_t>(evaluations_));
  writer->U64(static_cast<uint64_t>(products_));
  writer->F64(other_passes_);
}

bool NewtonSolver::Load(base::CheckpointReader* reader, Eigen::Index dim) {
  x_ = reader->Vector();
  value_ = reader->F64();
  gradient_ = reader->Vector();
  first_gradient_ = reader->F64();
  promised_ = reader->F64();
  factor_point_ = reader->Vector();
  ridge_ = reader->Vector();
  ridge_share_ = reader->F64();
  ridge_steps_ = static_cast<int64_t>(reader->U64());
  evaluations_ = static_cast<int64_t>(reader->U64());
  products_ = static_cast<int64_t>(reader->U64());
  other_passes_ = reader->F64();
  return reader->ok() && x_.size() == dim && gradient_.size() == dim && (ridge_.size() == 0 || ridge_.size() == dim) &&
         (factor_point_.size() == 0 || factor_point_.size() == dim);
}

}  // namespace luthier::linear
