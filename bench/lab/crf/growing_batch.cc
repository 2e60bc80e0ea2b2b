#include "bench/lab/crf/growing_batch.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"

namespace luthier::crf::lab {

using Eigen::VectorXd;
using linear::SolveState;

namespace {

constexpr size_t kMemory = 10;
constexpr double kArmijo = 1e-4;
constexpr int kMaxTrials = 30;
constexpr double kValueNoise = 1e-13;  // Relative rounding error of f that the condition must tolerate.

}  // namespace

GrowingBatch::GrowingBatch(Eigen::Index dim, int64_t n, double lambda)
    : n_(n), lambda_(lambda), x_(VectorXd::Zero(dim)), gradient_(VectorXd::Zero(dim)) {
  LUTHIER_CHECK(n >= 1 && lambda >= 0.0);
}

void GrowingBatch::StartAt(VectorXd x) {
  LUTHIER_CHECK(batch_ == 0 && x.size() == x_.size());
  x_ = std::move(x);
}

double GrowingBatch::Value(const VectorXd& x, double loss) const {
  return loss / static_cast<double>(batch_) + 0.5 * lambda_ * x.squaredNorm();
}

int64_t GrowingBatch::NextBatch(int64_t batch) const {
  return std::min(n_, static_cast<int64_t>(std::ceil(1.1 * static_cast<double>(batch) + 1.0)));
}

VectorXd GrowingBatch::Gradient() const {
  return gradient_ / static_cast<double>(std::max<int64_t>(batch_, 1)) + lambda_ * x_;
}

absl::StatusOr<VectorXd> GrowingBatch::Direction(const VectorXd& gradient, bool pairs,
                                                 const base::StopToken& stop) const {
  VectorXd q = -gradient;
  if (!pairs || pairs_.empty()) return VectorXd(q * std::min(1.0, 1.0 / gradient.lpNorm<1>()));
  std::vector<double> alpha(pairs_.size());
  for (size_t k = pairs_.size(); k-- > 0;) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    alpha[k] = pairs_[k].rho * pairs_[k].s.dot(q);
    q -= alpha[k] * pairs_[k].y;
  }
  q *= 1.0 / (pairs_.back().rho * pairs_.back().y.squaredNorm());
  for (size_t k = 0; k < pairs_.size(); ++k) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    q += (alpha[k] - pairs_[k].rho * pairs_[k].y.dot(q)) * pairs_[k].s;
  }
  return q;
}

absl::StatusOr<SolveState> GrowingBatch::Step(PartialSum sum, const base::StopToken& stop) {
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  if (batch_ == 0) {
    const int64_t count = x_.isZero(0.0) ? 1 : n_;
    VectorXd first = VectorXd::Zero(x_.size());
    LUTHIER_ASSIGN_OR_RETURN(loss_, sum(x_, 0, count, &first));
    gradient_ = std::move(first);
    batch_ = count;
    evaluations_ += count;
  }
  const VectorXd gradient = Gradient();
  const double value = Value(x_, loss_);
  if (!std::isfinite(value) || !gradient.allFinite()) return SolveState::kNonFinite;
  // Result of the iteration; nothing changes before its end.
  VectorXd x = x_, sums = gradient_;
  bool forget = false;        // True if the pairs so far are to be dropped.
  std::optional<Pair> added;  // The pair of this iteration.
  double loss = loss_;
  int64_t evaluations = 0;
  bool moved = gradient.isZero(0.0);
  for (int attempt = 0; attempt < 2 && !moved; ++attempt) {
    forget = attempt == 1;
    LUTHIER_ASSIGN_OR_RETURN(const VectorXd direction, Direction(gradient, !forget, stop));
    const double slope = direction.dot(gradient);
    if (!(slope < 0.0)) continue;
    double step = 1.0;
    for (int trial = 0; trial < kMaxTrials && !moved; ++trial) {
      LUTHIER_RETURN_IF_ERROR(stop.Poll());
      VectorXd trial_x = x_ + step * direction;
      VectorXd trial_sums = VectorXd::Zero(x.size());
      LUTHIER_ASSIGN_OR_RETURN(const double trial_loss, sum(trial_x, 0, batch_, &trial_sums));
      evaluations += batch_;
      const double there = Value(trial_x, trial_loss);
      if (!(there <= value + kArmijo * step * slope + kValueNoise * std::abs(value)) || !trial_sums.allFinite()) {
        // Curvature of the parabola through both values, times step^2.
        const double curvature = there - value - step * slope;
        const double shorter = -0.5 * step * slope / curvature;
        step *= std::isfinite(there) && curvature > 0.0 ? std::clamp(shorter, 0.1, 0.5) : 0.1;
        continue;
      }
      Pair pair = {trial_x - x_, (trial_sums - gradient_) / static_cast<double>(batch_) + lambda_ * (trial_x - x_),
                   0.0};
      const double product = pair.s.dot(pair.y);
      if (product > 1e-10 * pair.s.norm() * pair.y.norm()) {
        pair.rho = 1.0 / product;
        added = std::move(pair);
      }
      x = std::move(trial_x);
      sums = std::move(trial_sums);
      loss = trial_loss;
      moved = true;
    }
  }
  const bool whole = batch_ == n_;
  const int64_t next = NextBatch(batch_);
  if (!whole) {
    LUTHIER_ASSIGN_OR_RETURN(const double further, sum(x, batch_, next, &sums));
    loss += further;
    evaluations += next - batch_;
  }
  if (forget) pairs_.clear();
  if (added) pairs_.push_back(*std::move(added));
  if (pairs_.size() > kMemory) pairs_.pop_front();
  x_ = std::move(x);
  gradient_ = std::move(sums);
  loss_ = loss;
  batch_ = next;
  evaluations_ += evaluations;
  return whole && !moved ? SolveState::kPrecision : SolveState::kRunning;
}

void GrowingBatch::Save(base::CheckpointWriter* writer) const {
  writer->Vector(x_);
  writer->F64(loss_);
  writer->Vector(gradient_);
  writer->U64(static_cast<uint64_t>(batch_));
  writer->U64(static_cast<uint64_t>(evaluations_));
  writer->U64(pairs_.size());
  for (const Pair& pair : pairs_) {
    writer->Vector(pair.s);
    writer->Vector(pair.y);
    writer->F64(pair.rho);
  }
}

bool GrowingBatch::Load(base::CheckpointReader* reader) {
  const Eigen::Index dim = x_.size();
  x_ = reader->Vector();
  loss_ = reader->F64();
  gradient_ = reader->Vector();
  batch_ = static_cast<int64_t>(reader->U64());
  evaluations_ = static_cast<int64_t>(reader->U64());
  const uint64_t pairs = reader->U64();
  bool fits =
      reader->ok() && pairs <= kMemory && batch_ >= 0 && batch_ <= n_ && x_.size() == dim && gradient_.size() == dim;
  pairs_.clear();
  for (uint64_t k = 0; fits && k < pairs; ++k) {
    Pair pair = {reader->Vector(), reader->Vector(), reader->F64()};
    fits = reader->ok() && pair.s.size() == dim && pair.y.size() == dim;
    pairs_.push_back(std::move(pair));
  }
  return fits;
}

}  // namespace luthier::crf::lab
