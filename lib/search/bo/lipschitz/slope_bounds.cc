#include "lib/search/bo/lipschitz/slope_bounds.h"

#include <algorithm>
#include <cmath>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/math/infinity.h"
#include "lib/math/sobol.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

using math::kInfinity;
constexpr double kSameSite = 1e-12;
constexpr Index kPairChunk = 256;

// |rows of u - point|^2 into r2; one pass per column keeps it in vector registers.
template <typename Points, typename Point>
void SquaredDistances(const Points& u, const Point& point, Eigen::ArrayXd* r2) {
  r2->setZero(u.rows());
  for (Index j = 0; j < u.cols(); ++j) *r2 += (u.col(j).array() - point(j)).square();
}

}  // namespace

SlopeEstimate::SlopeEstimate(Index columns, double noise_deviation)
    : slack_(2.0 * std::sqrt(2.0) * noise_deviation),
      min_distance_(noise_deviation > 0.0 ? 1e-3 * std::sqrt(static_cast<double>(columns)) : 0.0),
      u_(0, columns) {
  LUTHIER_CHECK(columns >= 0 && noise_deviation >= 0.0 && std::isfinite(noise_deviation));
}

bool SlopeEstimate::Add(const Eigen::Ref<const VectorXd>& u, double y) {
  LUTHIER_CHECK(u.size() == u_.cols());
  if (!u.allFinite() || !std::isfinite(y)) return false;
  Eigen::ArrayXd r2;
  SquaredDistances(u_.topRows(size_), u, &r2);
  for (Index i = 0; i < size_; ++i) {
    const double distance = std::sqrt(r2(i));
    if (min_distance_ == 0.0 && distance < kSameSite) continue;
    const double rise = std::abs(y - y_(i)) - slack_;
    if (rise > 0.0) slope_ = std::max(slope_, rise / std::max(distance, min_distance_));
  }
  if (size_ == u_.rows()) {
    const Index capacity = std::max<Index>(16, 2 * size_);
    u_.conservativeResize(capacity, Eigen::NoChange);
    y_.conservativeResize(capacity);
  }
  u_.row(size_) = u.transpose();
  y_(size_) = y;
  ++size_;
  return true;
}

double SteepestSlope(const Eigen::Ref<const MatrixXd>& u, const Eigen::Ref<const VectorXd>& y, double noise_deviation) {
  LUTHIER_CHECK(u.rows() == y.size());
  SlopeEstimate estimate(u.cols(), noise_deviation);
  for (Index i = 0; i < y.size(); ++i) estimate.Add(u.row(i).transpose(), y(i));
  return estimate.slope();
}

double LipschitzConstant(std::optional<double> known, double slope, int64_t t) {
  constexpr double kFactor = 10.0;
  LUTHIER_CHECK(t >= 0);
  if (known.has_value()) {
    LUTHIER_CHECK(*known > 0.0);
    return std::max(*known, slope);
  }
  if (!(slope > 0.0) || !std::isfinite(slope)) return kInfinity;
  return kFactor * static_cast<double>(std::max<int64_t>(t, 1)) * slope;
}

LipschitzBounds::LipschitzBounds(const Eigen::Ref<const MatrixXd>& u, const Eigen::Ref<const VectorXd>& y,
                                 double constant, double slack)
    : u_(u), y_(y), constant_(constant), slack_(slack), active_(y.size() > 0 && std::isfinite(constant)) {
  LUTHIER_CHECK(u.rows() == y.size() && constant >= 0.0 && slack >= 0.0);
  LUTHIER_CHECK(u.allFinite() && y.allFinite() && std::isfinite(slack));
}

void LipschitzBounds::Evaluate(const Eigen::Ref<const MatrixXd>& u, VectorXd* lower, VectorXd* upper) const {
  LUTHIER_CHECK(u.cols() == u_.cols());
  lower->setConstant(u.rows(), -kInfinity);
  upper->setConstant(u.rows(), kInfinity);
  if (!active_) return;
  Eigen::ArrayXd reach;
  for (Index i = 0; i < u.rows(); ++i) {
    SquaredDistances(u_, u.row(i), &reach);
    reach = constant_ * reach.sqrt();
    (*lower)(i) = (y_.array() - reach).maxCoeff<Eigen::PropagateNaN>() - slack_;
    (*upper)(i) = (y_.array() + reach).minCoeff<Eigen::PropagateNaN>() + slack_;
  }
}

PointBounds LipschitzBounds::At(const Eigen::Ref<const VectorXd>& u) const {
  LUTHIER_CHECK(u.size() == u_.cols());
  PointBounds bounds{-kInfinity, kInfinity, VectorXd::Zero(u.size()), VectorXd::Zero(u.size())};
  if (!active_) return bounds;
  Eigen::ArrayXd reach;
  SquaredDistances(u_, u, &reach);
  reach = constant_ * reach.sqrt();
  Index low = 0, high = 0;
  bounds.lower = (y_.array() - reach).maxCoeff(&low) - slack_;
  bounds.upper = (y_.array() + reach).minCoeff(&high) + slack_;
  const VectorXd from_low = u - u_.row(low).transpose(), from_high = u - u_.row(high).transpose();
  if (from_low.norm() > 0.0) bounds.lower_gradient = (-constant_ / from_low.norm()) * from_low;
  if (from_high.norm() > 0.0) bounds.upper_gradient = (constant_ / from_high.norm()) * from_high;
  return bounds;
}

absl::StatusOr<ExclusionShare> ExcludedShare(const OutputBounds& bounds, const Eigen::Ref<const MatrixXd>& u,
                                             double incumbent, double epsilon, const base::StopToken& stop) {
  LUTHIER_CHECK(u.rows() >= 1);
  ExclusionShare result;
  result.points = static_cast<int>(u.rows());
  result.largest_upper = -kInfinity;
  Index excluded = 0;
  VectorXd lower, upper;
  for (Index begin = 0; begin < u.rows(); begin += kPairChunk) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    bounds.Evaluate(u.middleRows(begin, std::min(kPairChunk, u.rows() - begin)), &lower, &upper);
    for (Index i = 0; i < upper.size(); ++i) {
      if (upper(i) <= incumbent + epsilon) ++excluded;
      result.largest_upper = std::max(result.largest_upper, upper(i));
    }
  }
  const double n = static_cast<double>(result.points);
  result.share = static_cast<double>(excluded) / n;
  result.standard_error = std::sqrt(result.share * (1.0 - result.share) / n);
  return result;
}

ExclusionShare ExcludedShareOfCube(const OutputBounds& bounds, int d, double incumbent, double epsilon, uint64_t seed,
                                   int points) {
  const math::SobolSequence sobol(d, seed, "lipschitz/certificate");
  return *ExcludedShare(bounds, sobol.Points(0, points), incumbent, epsilon, base::StopToken());
}

absl::StatusOr<LipoProposal> ProposeLipo(const OutputBounds& bounds, double incumbent,
                                         absl::FunctionRef<VectorXd(uint32_t)> draw, const LipoOptions& options,
                                         base::RandomStream coin, const base::StopToken& stop) {
  LUTHIER_CHECK(options.max_draws >= 1 && options.unfiltered >= 0.0 && options.unfiltered <= 1.0);
  const bool unfiltered = options.unfiltered > 0.0 && coin.Uniform() < options.unfiltered;
  LipoProposal proposal;
  VectorXd lower, upper;
  for (int i = 0; i < options.max_draws; ++i) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    VectorXd u = draw(static_cast<uint32_t>(i));
    bounds.Evaluate(u.transpose(), &lower, &upper);
    ++proposal.draws;
    const bool accepted = unfiltered || upper(0) >= incumbent;
    if (i == 0 || accepted || upper(0) > proposal.upper) {
      proposal.draw = static_cast<uint32_t>(i);
      proposal.u = std::move(u);
      proposal.upper = upper(0);
      proposal.accepted = accepted;
    }
    if (accepted) break;
  }
  return proposal;
}

}  // namespace luthier::search
