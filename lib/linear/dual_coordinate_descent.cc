#include "lib/linear/dual_coordinate_descent.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/status/statusor.h"
#include "lib/base/check.h"
#include "lib/base/pace.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/linear/blocked_sum.h"

namespace luthier::linear {
namespace {

using Eigen::VectorXd;

constexpr uint64_t kRebuildEvery = 16;  // Number of epochs between recomputations of w, against drift.
constexpr double kFirstTau = -20.0;     // Logit of the dual variables at the start without w0.
constexpr int kMaxNewton = 30;
// Reduction of |F| by the Newton steps of one visit; more would be wasted, since w moves on.
constexpr double kInnerReduction = 0.05;
// Least weight of a free bias, and how much its curvature is to be that of its penalty.
constexpr double kLeastWeight = 1e-3, kFreeCurvature = 40.0;
constexpr double kRestShare = 0.02;  // In units of the mean gap of a row.
constexpr int kLongestStreak = 5;

double StableSigmoid(double x) {
  const double e = std::exp(-std::abs(x));
  return (x > 0.0 ? 1.0 : e) / (1.0 + e);
}

}  // namespace

DualCoordinateDescent::DualCoordinateDescent(const LinearProblem* problem, uint64_t seed)
    : problem_(problem),
      data_(problem->data()),
      seed_(seed),
      u_(VectorXd::Zero(static_cast<Eigen::Index>(data_.features()))) {
  LUTHIER_CHECK(problem->l2() > 0.0);
  if (data_.bias() == Bias::kNone) weight_ = 0.0;
  if (data_.bias() != Bias::kFree) return;
  // The bias weighs about as much as the features; or more if these are dominated by the penalty, which does not count
  // for the bias.
  const double curvature = problem->loss().smoothness() * static_cast<double>(std::max<int64_t>(1, data_.rows()));
  weight_ = std::max({kLeastWeight, data_.mean_norm2() - 1.0, kFreeCurvature * problem->l2() / curvature});
}

absl::Status DualCoordinateDescent::Allocate(const base::StopToken& stop) {
  const auto n = static_cast<size_t>(data_.rows());
  const bool logistic = problem_->loss().kind == MarginLoss::Kind::kLogistic;
  LUTHIER_RETURN_IF_ERROR(base::FillInPieces(n, logistic ? StableSigmoid(kFirstTau) : 0.0, stop, &alpha_));
  if (logistic) {
    LUTHIER_RETURN_IF_ERROR(base::FillInPieces(n, kFirstTau, stop, &tau_));
  }
  LUTHIER_RETURN_IF_ERROR(base::FillInPieces(n, uint8_t{0}, stop, &streak_));
  return base::FillInPieces(n, 0, stop, &awake_);
}

absl::StatusOr<SolveState> DualCoordinateDescent::Start(const VectorXd* w0, const base::StopToken& stop) {
  if (!std::isfinite(data_.max_norm2()) || !std::isfinite(data_.max_norm2() / problem_->l2())) {
    return SolveState::kNonFinite;
  }
  LUTHIER_RETURN_IF_ERROR(Allocate(stop));
  if (w0 != nullptr) {
    LUTHIER_ASSIGN_OR_RETURN(const VectorXd scores, data_.Scores(*w0, stop));
    if (!scores.allFinite()) return SolveState::kNonFinite;
    if (data_.bias() == Bias::kFree) bias_ = (*w0)[w0->size() - 1];
    LUTHIER_RETURN_IF_ERROR(base::InPieces(data_.rows(), LinearData::kRowWork, stop, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const double t = data_.sign(i) * scores[i];
        if (!tau_.empty()) tau_[i] = -t;
        alpha_[i] = -problem_->loss().Slope(t);
      }
    }));
  }
  LUTHIER_RETURN_IF_ERROR(Rebuild(stop));
  return SolveState::kRunning;
}

absl::Status DualCoordinateDescent::Rebuild(const base::StopToken& stop) {
  VectorXd u = VectorXd::Zero(u_.size());
  BlockedSum total;
  const double inverse = 1.0 / problem_->l2();
  base::Pace pace(stop);
  for (int64_t i = 0; i < data_.rows(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(data_.work(i)));
    const double c = alpha_[i] * data_.sign(i) * inverse;
    total.Add(c);
    if (c != 0.0) data_.AddTo(i, c, u.data());
  }
  u_ = std::move(u);
  sigma_ = total.Total();
  if (data_.centered()) center_dot_ = data_.center().dot(u_);
  return absl::OkStatus();
}

int64_t DualCoordinateDescent::rebuilds() const {
  return epoch_ == 0 ? 0 : static_cast<int64_t>((epoch_ - 1) / kRebuildEvery);
}

absl::Status DualCoordinateDescent::BeginEpoch(const base::StopToken& stop) {
  if (epoch_ > 0 && epoch_ % kRebuildEvery == 0) {
    LUTHIER_RETURN_IF_ERROR(Rebuild(stop));
  }
  std::vector<int32_t> order;
  order.reserve(static_cast<size_t>(data_.rows()));
  LUTHIER_RETURN_IF_ERROR(base::InPieces(data_.rows(), 1, stop, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (awake_[i] <= static_cast<int64_t>(epoch_)) order.push_back(static_cast<int32_t>(i));
    }
  }));
  base::RandomStream random(seed_, "dual coordinate descent", epoch_);
  LUTHIER_RETURN_IF_ERROR(base::ShuffleInPieces(stop, random, &order));
  order_ = std::move(order);
  gap_sum_ = 0.0;
  return absl::OkStatus();
}

double DualCoordinateDescent::Solve(int64_t i, double t, double q) {
  const double a = alpha_[i];
  const MarginLoss& loss = problem_->loss();
  if (loss.kind == MarginLoss::Kind::kSquaredHinge) return std::max(0.0, a - (t - 1.0 + 0.5 * a) / (q + 0.5));
  if (loss.kind == MarginLoss::Kind::kHuberizedHinge) {
    const double width = 2.0 * loss.epsilon;
    return std::clamp(a - (t - (1.0 + loss.epsilon) + width * a) / (q + width), 0.0, 1.0);
  }
  double tau = tau_[i];
  double low = std::min(tau, -t);
  double high = std::max(tau, -t);
  double s = a;
  double f = tau + t;
  const double enough = kInnerReduction * std::abs(f);
  for (int k = 0; k < kMaxNewton && f != 0.0; ++k) {
    (f > 0.0 ? high : low) = tau;
    double next = tau - f / (1.0 + q * s * (1.0 - s));
    if (!(next > low && next < high)) next = 0.5 * (low + high);
    if (next == tau) break;
    tau = next;
    s = StableSigmoid(tau);
    f = tau + t + q * (s - a);
    if (std::abs(f) <= enough) break;
  }
  tau_[i] = tau;
  return s;
}

bool DualCoordinateDescent::Step(int64_t i) {
  const double sign = data_.sign(i);
  double score = data_.Dot(i, u_.data());
  if (data_.centered()) score += sigma_ * (data_.center_norm2() - data_.center_dot(i)) - center_dot_;
  score += bias_ + weight_ * sigma_;
  const double t = sign * score;
  const double old = alpha_[i];
  const double old_tau = tau_.empty() ? 0.0 : tau_[i];
  const double q = (data_.norm2(i) + (data_.bias() == Bias::kNone ? 0.0 : weight_ - 1.0)) / problem_->l2();
  const double now = Solve(i, t, q);
  const double change = now - old;
  if (!std::isfinite(change)) return false;
  // Computes the row's part of the duality gap, loss(t) + loss*(-alpha) + alpha t >= 0, to second order.
  double gap = 0.0;
  if (!tau_.empty()) {
    const double s = 0.5 * (old_tau + tau_[i]);
    const double far = std::exp(-std::abs(s));
    gap = 0.5 * far * (old_tau + t) * (old_tau + t);
  } else {
    const double target = -problem_->loss().Slope(t);
    gap = 0.5 * (old - target) * (old - target) / problem_->loss().smoothness();
  }
  gap_sum_ += gap;
  if (gap < rest_level_) {
    if (streak_[i] < kLongestStreak) ++streak_[i];
    awake_[i] = static_cast<int32_t>(epoch_) + (1 << (streak_[i] - 1));
  } else {
    streak_[i] = 0;
  }
  if (change == 0.0) return true;
  alpha_[i] = now;
  const double c = change * sign / problem_->l2();
  data_.AddTo(i, c, u_.data());
  sigma_ += c;
  if (data_.centered()) center_dot_ += c * data_.center_dot(i);
  return true;
}

absl::StatusOr<SolveState> DualCoordinateDescent::Advance(const base::StopToken& stop) {
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  if (order_.empty()) {
    LUTHIER_RETURN_IF_ERROR(BeginEpoch(stop));
  }
  const int64_t count = static_cast<int64_t>(order_.size());
  base::Pace pace(stop);
  for (; position_ < count; ++position_) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(2 * data_.work(order_[position_])));
    if (position_ + 4 < count) data_.Prefetch(order_[position_ + 4]);
    if (!Step(order_[position_])) return SolveState::kNonFinite;
    ++steps_;
  }
  gap_estimate_ = gap_sum_;
  rest_level_ = kRestShare * gap_sum_ / static_cast<double>(data_.rows());
  if (data_.bias() == Bias::kFree) bias_ += weight_ * sigma_;
  ++epoch_;
  position_ = 0;
  order_.clear();
  return std::isfinite(sigma_) && u_.allFinite() ? SolveState::kRunning : SolveState::kNonFinite;
}

VectorXd DualCoordinateDescent::Weights() const {
  VectorXd w(data_.dim());
  w.head(u_.size()) = u_;
  if (data_.centered()) w.head(u_.size()) -= sigma_ * data_.center();
  if (data_.bias() == Bias::kPenalized) w[u_.size()] = sigma_;
  if (data_.bias() == Bias::kFree) w[u_.size()] = bias_;
  return w;
}

double DualCoordinateDescent::DualValue() const {
  BlockedSum total;
  for (const double a : alpha_) total.Add(-problem_->loss().Conjugate(a));
  return total.Total() - 0.5 * problem_->l2() * Weights().squaredNorm();
}

void DualCoordinateDescent::Save(base::CheckpointWriter* writer) const {
  const auto doubles = [&](const std::vector<double>& v) {
    writer->Vector(Eigen::Map<const VectorXd>(v.data(), static_cast<Eigen::Index>(v.size())));
  };
  doubles(alpha_);
  doubles(tau_);
  writer->Vector(u_);
  writer->F64(sigma_);
  writer->F64(bias_);
  writer->F64(center_dot_);
  writer->U64(epoch_);
  writer->U64(static_cast<uint64_t>(position_));
  // In mid-epoch, rows that were visited already may rest by now, so the order cannot be derived anew.
  VectorXd order(static_cast<Eigen::Index>(order_.size()));
  for (size_t k = 0; k < order_.size(); ++k) order[static_cast<Eigen::Index>(k)] = order_[k];
  writer->Vector(order);
  VectorXd rest(static_cast<Eigen::Index>(2 * streak_.size()));
  for (size_t i = 0; i < streak_.size(); ++i) {
    rest[static_cast<Eigen::Index>(2 * i)] = streak_[i];
    rest[static_cast<Eigen::Index>(2 * i + 1)] = awake_[i];
  }
  writer->Vector(rest);
  writer->F64(gap_sum_);
  writer->F64(gap_estimate_);
  writer->F64(rest_level_);
  writer->U64(static_cast<uint64_t>(steps_));
}

bool DualCoordinateDescent::Load(base::CheckpointReader* reader) {
  LUTHIER_CHECK(Allocate({}).ok());
  const auto doubles = [&](std::vector<double>* v) {
    const VectorXd read = reader->Vector();
    if (!reader->ok() || read.size() != static_cast<Eigen::Index>(v->size())) return false;
    std::copy(read.data(), read.data() + read.size(), v->begin());
    return true;
  };
  if (!doubles(&alpha_) || !doubles(&tau_)) return false;
  const Eigen::Index p = u_.size();
  u_ = reader->Vector();
  sigma_ = reader->F64();
  bias_ = reader->F64();
  center_dot_ = reader->F64();
  epoch_ = reader->U64();
  position_ = static_cast<int64_t>(reader->U64());
  const VectorXd order = reader->Vector();
  const VectorXd rest = reader->Vector();
  gap_sum_ = reader->F64();
  gap_estimate_ = reader->F64();
  rest_level_ = reader->F64();
  steps_ = static_cast<int64_t>(reader->U64());
  const double n = static_cast<double>(data_.rows());
  if (!reader->ok() || u_.size() != p || rest.size() != static_cast<Eigen::Index>(2 * streak_.size()) ||
      position_ < 0 || position_ > order.size()) {
    return false;
  }
  order_.clear();
  for (const double i : order) {
    if (!(i >= 0.0 && i < n)) return false;
    order_.push_back(static_cast<int32_t>(i));
  }
  for (size_t i = 0; i < streak_.size(); ++i) {
    const double streak = rest[static_cast<Eigen::Index>(2 * i)];
    const double awake = rest[static_cast<Eigen::Index>(2 * i + 1)];
    if (!(streak >= 0.0 && streak <= kLongestStreak && awake >= 0.0 && awake < 2e9)) return false;
    streak_[i] = static_cast<uint8_t>(streak);
    awake_[i] = static_cast<int32_t>(awake);
  }
  return true;
}

}  // namespace luthier::linear
