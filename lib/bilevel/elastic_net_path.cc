#include "lib/bilevel/elastic_net_path.h"

#include <Eigen/Jacobi>
#include <algorithm>
#include <cmath>

#include "absl/time/time.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"

namespace luthier::bilevel {

using Eigen::Index;
using Eigen::VectorXd;

namespace {

constexpr double kLeastPivot = 1e-10;  // Share of a column's square that must be new for it to join.
constexpr double kLeastShare = 1e-10;  // The share of the first l1 at which the path ends.
constexpr double kStanding = 1e-14;    // Share of l1 that counts as no step.
constexpr int kMostStanding = 20;
constexpr int64_t kExactEvery = 32;  // Knots after which the correlations are computed anew.
constexpr double kMostWork = 1e10;   // Multiplications of a whole path.
constexpr int64_t kMostBytes = int64_t{64} << 20;

}  // namespace

ElasticNetPath::ElasticNetPath(const CenteredColumns* x, const VectorXd* target, double l2)
    : x_(x), target_(target), l2_(l2), place_(static_cast<size_t>(x->cols()), Place::kOut) {}

absl::Status ElasticNetPath::Begin(const base::StopToken& stop) {
  r_ = CenteredColumns::From(*target_);
  LUTHIER_ASSIGN_OR_RETURN(c_, x_->DotAll(r_, stop));
  for (Index j = 0; j < c_.size(); ++j) {
    if (!(x_->square(j) > 0.0)) place_[static_cast<size_t>(j)] = Place::kTied;
  }
  Index first = -1;
  l1_ = top_ = c_.size() > 0 ? c_.cwiseAbs().maxCoeff(&first) : 0.0;
  begun_ = true;
  Keep();
  ended_ = !(top_ > 0.0) || !std::isfinite(top_) || !c_.allFinite();
  if (ended_) return absl::OkStatus();
  const absl::Status joined = Join(first, stop);
  if (!joined.ok()) begun_ = false;
  return joined;
}

bool ElasticNetPath::AppendToFactor(const VectorXd& cross, double diagonal) {
  const Index k = cross.size();
  VectorXd row = cross;
  factor_.topLeftCorner(k, k).triangularView<Eigen::Lower>().solveInPlace(row);
  const double pivot = diagonal - row.squaredNorm();
  if (!(pivot > kLeastPivot * diagonal)) return false;
  if (factor_.rows() == k) {
    const Index size = std::max<Index>(16, 2 * k);
    Eigen::MatrixXd larger = Eigen::MatrixXd::Zero(size, size);
    larger.topLeftCorner(k, k) = factor_;
    factor_ = std::move(larger);
  }
  factor_.row(k).head(k) = row.transpose();
  factor_(k, k) = std::sqrt(pivot);
  return true;
}

void ElasticNetPath::RemoveFromFactor(Index place) {
  const Index k = static_cast<Index>(active_.size());
  for (Index i = place + 1; i < k; ++i) factor_.row(i - 1).head(i + 1) = factor_.row(i).head(i + 1).eval();
  // Each row is one entry too long; rotations of neighbouring columns take it away.
  for (Index i = place; i + 1 < k; ++i) {
    Eigen::JacobiRotation<double> rotation;
    double length = 0.0;
    rotation.makeGivens(factor_(i, i), factor_(i, i + 1), &length);
    factor_.block(i, 0, k - 1 - i, factor_.cols()).applyOnTheRight(i, i + 1, rotation);
    if (factor_(i, i) < 0.0) factor_.col(i).segment(i, k - 1 - i) *= -1.0;
    factor_(i, i + 1) = 0.0;
  }
}

VectorXd ElasticNetPath::Solve(VectorXd b) const {
  const auto lower = factor_.topLeftCorner(b.size(), b.size()).triangularView<Eigen::Lower>();
  lower.solveInPlace(b);
  lower.transpose().solveInPlace(b);
  return b;
}

absl::Status ElasticNetPath::Join(Index column, const base::StopToken& stop) {
  CenteredColumns::Residual values = CenteredColumns::From(VectorXd::Zero(x_->rows()));
  x_->Add(column, 1.0, &values);
  VectorXd cross(static_cast<Index>(active_.size()));
  base::Pace pace(stop);
  for (size_t i = 0; i < active_.size(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(x_->cost(active_[i])));
    cross[static_cast<Index>(i)] = x_->Dot(active_[i], values);
  }
  if (!AppendToFactor(cross, x_->square(column) + l2_)) {
    place_[static_cast<size_t>(column)] = Place::kTied;
    return absl::OkStatus();
  }
  place_[static_cast<size_t>(column)] = Place::kActive;
  active_.push_back(column);
  weight_.push_back(0.0);
  sign_.push_back(c_[column] > 0.0 ? 1.0 : -1.0);
  return absl::OkStatus();
}

void ElasticNetPath::Leave(Index place) {
  RemoveFromFactor(place);
  left_last_ = active_[static_cast<size_t>(place)];
  place_[static_cast<size_t>(left_last_)] = Place::kOut;
  active_.erase(active_.begin() + place);
  weight_.erase(weight_.begin() + place);
  sign_.erase(sign_.begin() + place);
  // Without this column others may be independent again.
  for (size_t j = 0; j < place_.size(); ++j) {
    if (place_[j] == Place::kTied && x_->square(static_cast<Index>(j)) > 0.0) place_[j] = Place::kOut;
  }
}

void ElasticNetPath::Keep() {
  Knot knot{l1_, {}};
  for (size_t i = 0; i < active_.size(); ++i) {
    if (weight_[i] != 0.0) knot.weights.emplace_back(static_cast<int32_t>(active_[i]), weight_[i]);
  }
  bytes_ += static_cast<int64_t>(sizeof(Knot) + knot.weights.size() * sizeof(knot.weights[0]));
  knots_.push_back(std::move(knot));
}

ElasticNetPath::Event ElasticNetPath::Next(const VectorXd& direction, const VectorXd& slope) const {
  Event next{.length = l1_};
  for (Index j = 0; j < c_.size(); ++j) {
    if (place_[static_cast<size_t>(j)] != Place::kOut) continue;
    for (const double side : {1.0, -1.0}) {
      // The column that has just left is at this bound, and moves away from it.
      if (j == left_last_ && side * c_[j] > 0.0) continue;
      const double closing = 1.0 - side * slope[j];
      if (!(closing > 1e-12)) continue;
      const double length = std::max(0.0, (l1_ - side * c_[j]) / closing);
      if (length < next.length) next = {.length = length, .joins = j};
    }
  }
  for (size_t i = 0; i < active_.size(); ++i) {
    const double d = direction[static_cast<Index>(i)];
    const double length = weight_[i] == 0.0 ? (d * sign_[i] < 0.0 ? 0.0 : INFINITY) : -weight_[i] / d;
    if (length >= 0.0 && length < next.length) next = {.length = length, .leaves = static_cast<Index>(i)};
  }
  return next;
}

absl::Status ElasticNetPath::Step(const base::StopToken& stop) {
  const Index size = static_cast<Index>(active_.size());
  const VectorXd direction = Solve(Eigen::Map<const VectorXd>(sign_.data(), size));
  CenteredColumns::Residual u = CenteredColumns::From(VectorXd::Zero(x_->rows()));
  base::Pace pace(stop);
  for (Index i = 0; i < size; ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(x_->cost(active_[static_cast<size_t>(i)])));
    x_->Add(active_[static_cast<size_t>(i)], direction[i], &u);
  }
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd slope, x_->DotAll(u, stop));
  const Event event = Next(direction, slope);
  CenteredColumns::Residual r = r_;
  r.value -= event.length * u.value;
  r.shift -= event.length * u.shift;
  r.sum -= event.length * u.sum;
  VectorXd c = c_ - event.length * slope;
  if (knots() % kExactEvery == 0) {
    LUTHIER_ASSIGN_OR_RETURN(c, x_->DotAll(r, stop));
  }
  // A stop changes nothing up to here; joining is done again from the same state.
  const double l1 = l1_ - event.length;
  if (event.joins >= 0) {
    std::swap(c_, c);
    const absl::Status joined = Join(event.joins, stop);
    if (!joined.ok()) {
      std::swap(c_, c);
      return joined;
    }
  } else {
    c_ = std::move(c);
  }
  for (Index i = 0; i < size; ++i) weight_[static_cast<size_t>(i)] += event.length * direction[i];
  standing_ = event.length <= kStanding * l1_ ? standing_ + 1 : 0;
  r_ = std::move(r);
  l1_ = l1;
  left_last_ = -1;
  if (event.leaves >= 0) {
    weight_[static_cast<size_t>(event.leaves)] = 0.0;
    Leave(event.leaves);
  }
  Keep();
  double entries = 0.0;
  for (const Index j : active_) entries += static_cast<double>(x_->cost(j));
  work_ += 2.0 * entries + static_cast<double>(x_->total_cost()) +
           2.0 * static_cast<double>(size) * static_cast<double>(size);
  ended_ = active_.empty() || standing_ > kMostStanding || l1_ <= kLeastShare * top_ || bytes_ > kMostBytes ||
           work_ > kMostWork;
  return absl::OkStatus();
}

absl::StatusOr<VectorXd> ElasticNetPath::At(double l1, const base::StopToken& stop) {
  if (!begun_) LUTHIER_RETURN_IF_ERROR(Begin(stop));
  while (!ended_ && l1_ > l1) LUTHIER_RETURN_IF_ERROR(Step(stop));
  VectorXd w = VectorXd::Zero(x_->cols());
  const auto add = [&](const Knot& knot, double share) {
    for (const auto& [j, weight] : knot.weights) w[j] += share * weight;
  };
  if (l1 <= knots_.back().l1) {
    add(knots_.back(), 1.0);
    return w;
  }
  // The first knot with a smaller l1; the one before it has l1 or more.
  const auto below = std::partition_point(knots_.begin(), knots_.end(), [&](const Knot& k) { return k.l1 >= l1; });
  if (below == knots_.begin()) return w;
  const Knot& above = *(below - 1);
  const double share = (above.l1 - l1) / (above.l1 - below->l1);
  add(above, 1.0 - share);
  add(*below, share);
  return w;
}

absl::StatusOr<VectorXd> ElasticNetPaths::At(const CenteredColumns& x, const VectorXd& target, double l1, double l2,
                                             const base::StopToken& stop) {
  {
    const base::MutexLock lock(&mutex_);
    while (busy_) {
      LUTHIER_RETURN_IF_ERROR(stop.Poll());
      free_.WaitFor(&mutex_, absl::Milliseconds(10));
    }
    busy_ = true;
  }
  const struct Release {
    ~Release() {
      const base::MutexLock lock(&paths->mutex_);
      paths->busy_ = false;
      paths->free_.SignalAll();
    }
    ElasticNetPaths* paths;
  } release{this};
  auto found = std::find_if(paths_.begin(), paths_.end(), [&](const auto& path) { return path->l2() == l2; });
  if (found == paths_.end()) {
    paths_.push_back(std::make_unique<ElasticNetPath>(&x, &target, l2));
    found = paths_.end() - 1;
  }
  ElasticNetPath& path = **found;
  LUTHIER_ASSIGN_OR_RETURN(VectorXd w, path.At(l1, stop));
  int64_t bytes = 0;
  for (const auto& each : paths_) bytes += each->bytes();
  while (bytes > kMostBytes && paths_.front().get() != &path) {
    bytes -= paths_.front()->bytes();
    paths_.pop_front();
  }
  return w;
}

}  // namespace luthier::bilevel
