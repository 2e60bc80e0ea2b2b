#include "lib/search/bo/local/border_step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "Eigen/Dense"
#include "absl/functional/function_ref.h"
#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/math/lbfgs.h"
#include "lib/math/monomials.h"
#include "lib/math/sobol.h"
#include "lib/math/taylor_model.h"
#include "lib/search/bo/local/step_radius.h"

namespace luthier::search {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kUnitError = 4e-16;  // Relative error of a value.
constexpr int kMostPoints = 120;
constexpr size_t kMostSlopes = 120;
constexpr double kFirstRadius = 0.2, kLargestRadius = 0.5, kLeastRadius = 1e-9;
constexpr int kLargestDegree = 8, kMostTerms = 130;
constexpr double kWork = 4e7;    // Multiplications in search of the lengths of all models.
constexpr int kRounds = 12;      // Rounds of the augmented Lagrangian,
constexpr int kRoundCalls = 60;  //   and evaluations in each.
constexpr double kFirstWeight = 10.0, kMoreWeight = 10.0, kMostWeight = 1e8;
constexpr double kKept = 1e-11;          // Scaled excess from which on a round has kept the bounds.
constexpr double kActive = 1e-6;         // Scaled distance from a bound below which a step ends on it.
constexpr double kStandBack = 1.0;       // Deviations of a metric's model from its bound.
constexpr double kMostStandBack = 0.25;  // The most of a metric's change over the box that a step stands back.
constexpr int kPolishes = 4;
constexpr double kInside = 1e-13;   // Share of a face's range that a step stands back from it.
constexpr double kDecades = 10.0;   // Times the median distance from its bound from which on a metric may be bent.
constexpr double kMissed = 0.01;    // Changes over the box by which a step may have missed a bound by little.
constexpr double kOvershoot = 0.1;  // Part of the way that a step may end beyond a bound.
// A penalty as a multiple of its multiplier, and its limits in units of the changes over the box.
constexpr double kPenalty = 2.0, kLeastPenalty = 1.0, kMostPenalty = 100.0;

double ExcessOf(const BorderMetric& metric, double value) {
  return std::max(value - metric.upper, metric.lower - value);
}

// One bound of a metric: sign * (value - limit) <= 0.
struct OneBound {
  size_t metric = 0;
  double sign = 1.0;
  double limit = 0.0;

  double Excess(double value) const { return sign * (value - limit); }
};

std::vector<OneBound> BoundsOf(const BorderData& data) {
  std::vector<OneBound> bounds;
  for (size_t j = 0; j < data.metrics.size(); ++j) {
    if (std::isfinite(data.metrics[j].upper)) bounds.push_back({j, 1.0, data.metrics[j].upper});
    if (std::isfinite(data.metrics[j].lower)) bounds.push_back({j, -1.0, data.metrics[j].lower});
  }
  return bounds;
}

// Returns the row of the best point.
Index BestRow(const BorderData& data, const VectorXd& violations) {
  Index best = 0;
  for (Index i = 1; i < violations.size(); ++i) {
    const bool better =
        violations(i) < violations(best) || (violations(i) == violations(best) && data.scores(i) > data.scores(best));
    if (better) best = i;
  }
  return best;
}

// Polynomials around a centre: of the negated score, which is minimised, and of the metrics.
struct BorderModels {
  VectorXd centre;
  VectorXd at_centre;                     // Values of the metrics there.
  std::vector<math::TaylorModel> models;  // The objective's, then the metrics'.
  std::vector<OneBound> bounds;
  VectorXd back;  // For each bound, how far the step stands back from it.

  const math::TaylorModel& objective() const { return models.front(); }
  const math::TaylorModel& metric(size_t j) const { return models[j + 1]; }
  // Returns by how much the bound is exceeded at `z`, standing back included.
  double Excess(size_t k, const VectorXd& z, VectorXd* gradient) const {
    const OneBound& bound = bounds[k];
    const double rise = metric(bound.metric).Value(z, gradient);
    if (gradient != nullptr) *gradient *= bound.sign;
    const double value = at_centre(static_cast<Index>(bound.metric)) + rise;
    return bound.sign * (value - bound.limit) + back(static_cast<Index>(k));
  }
};

// Returns rows of the points nearest the centre, nearest first, without duplicates of it.
std::vector<Index> NearestTo(const MatrixXd& points, Index centre) {
  std::vector<std::pair<double, Index>> by_distance;
  for (Index i = 0; i < points.rows(); ++i) {
    const VectorXd offset = (points.row(i) - points.row(centre)).transpose();
    if (MaxNorm(offset) >= kSamePlace) by_distance.emplace_back(offset.squaredNorm(), i);
  }
  std::sort(by_distance.begin(), by_distance.end());
  std::vector<Index> rows;
  for (const auto& [distance, row] : by_distance) rows.push_back(row);
  if (rows.size() > kMostPoints) rows.resize(kMostPoints);
  return rows;
}

// Returns the facts about a function with these values in all rows, without slopes.
math::TaylorData FactsAbout(const VectorXd& values, const MatrixXd& points, const std::vector<Index>& rows,
                            Index centre) {
  const Index d = points.cols();
  math::TaylorData facts;
  facts.offsets.resize(static_cast<Index>(rows.size()), d);
  facts.rises.resize(facts.offsets.rows());
  double largest = std::abs(values(centre));
  for (Index i = 0; i < facts.rises.size(); ++i) {
    const Index row = rows[static_cast<size_t>(i)];
    facts.offsets.row(i) = points.row(row) - points.row(centre);
    facts.rises(i) = values(row) - values(centre);
    largest = std::max(largest, std::abs(values(row)));
  }
  facts.value_error = kUnitError * largest;
  facts.slope_offsets.resize(0, d);
  facts.slope_directions.resize(0, d);
  facts.slopes.resize(0);
  return facts;
}

// Adds the slopes of the score at the centre and these rows, negated, up to a number of facts.
void AddSlopes(const BorderData& data, const std::vector<Index>& rows, Index centre, math::TaylorData* facts) {
  std::vector<const SlopeObservation*> used;
  const auto take = [&](Index row) {
    for (const SlopeObservation& slope : data.slopes) {
      if (slope.point == row && used.size() < kMostSlopes) used.push_back(&slope);
    }
  };
  if (!data.slopes.empty()) {
    take(centre);
    for (const Index row : rows) take(row);
  }
  const Index k = static_cast<Index>(used.size());
  facts->slope_offsets.resize(k, data.points.cols());
  facts->slope_directions.resize(k, data.points.cols());
  facts->slopes.resize(k);
  for (Index i = 0; i < k; ++i) {
    const SlopeObservation& slope = *used[static_cast<size_t>(i)];
    facts->slope_offsets.row(i) = data.points.row(slope.point) - data.points.row(centre);
    facts->slope_directions.row(i) = slope.direction.transpose();
    facts->slopes(i) = -slope.slope;
  }
}

// Minimises the objective's model within the bounds' models and a box around the centre.
class BorderProblem {
 public:
  BorderProblem(const BorderData& data, const BorderModels& models, VectorXd lower, VectorXd upper)
      : data_(data), models_(models), lower_(std::move(lower)), upper_(std::move(upper)) {
    size_ = std::max(upper_.maxCoeff(), -lower_.minCoeff());
    bounds_ = static_cast<Index>(models_.bounds.size()) + data_.face_count;
    unit_ = Change([&](const VectorXd& z, VectorXd* gradient) { return models_.objective().Value(z, gradient); });
    units_.resize(bounds_);
    for (Index k = 0; k < bounds_; ++k) {
      units_(k) = Change([&](const VectorXd& z, VectorXd* gradient) { return Excess(k, z, gradient); });
    }
  }

  // Returns the penalties of excess over each bound.
  VectorXd Penalties() const {
    const auto scaled = (kPenalty * multipliers_.array()).max(kLeastPenalty).min(kMostPenalty);
    return (scaled * unit_ / units_.array()).matrix().head(static_cast<Index>(models_.bounds.size()));
  }
  // The change of each bound's metric over the box, about.
  const VectorXd& units() const { return units_; }

  // Returns the best of the minima from the points in `starts`: one that keeps the bounds, else that of least excess.
  absl::StatusOr<VectorXd> Solve(const std::vector<VectorXd>& starts, const base::StopToken& stop) {
    VectorXd best = VectorXd::Zero(lower_.size());
    VectorXd multipliers = VectorXd::Zero(units_.size());
    double least = std::numeric_limits<double>::infinity();
    for (const VectorXd& start : starts) {
      LUTHIER_ASSIGN_OR_RETURN(const VectorXd z, SolveFrom(start, stop));
      const double merit = models_.objective().Value(z, nullptr) / unit_ +
                           (multipliers_.sum() + 1.0) * kMoreWeight * std::max(0.0, LargestExcess(z) - kActive);
      if (!(merit < least)) continue;
      least = merit;
      best = z;
      multipliers = multipliers_;
    }
    multipliers_ = multipliers;
    return best;
  }
  // Returns the number of bounds on which z lies, about.
  int Active(const VectorXd& z) const {
    int active = 0;
    for (Index k = 0; k < bounds_; ++k) active += std::abs(Scaled(k, z, nullptr)) < kActive ? 1 : 0;
    return active;
  }

 private:
  // Returns about how much the function changes over the box, above 0.
  double Change(absl::FunctionRef<double(const VectorXd& z, VectorXd* gradient)> f) const {
    VectorXd z = VectorXd::Zero(lower_.size()), gradient(lower_.size());
    const double at_centre = f(z, &gradient);
    double change = size_ * gradient.lpNorm<1>();
    for (Index i = 0; i < z.size(); ++i) {
      for (const double end : {lower_(i), upper_(i)}) {
        z(i) = end;
        change = std::max(change, std::abs(f(z, nullptr) - at_centre));
      }
      z(i) = 0.0;
    }
    return std::max({change, 1e-12 * std::abs(at_centre), std::numeric_limits<double>::min()});
  }
  // Returns by how much bound k is exceeded: those of the metrics, then the faces.
  double Excess(Index k, const VectorXd& z, VectorXd* gradient) const {
    const Index metrics = static_cast<Index>(models_.bounds.size());
    if (k < metrics) return models_.Excess(static_cast<size_t>(k), z, gradient);
    if (faces_at_.size() == 0 || faces_at_ != z) {
      data_.faces(models_.centre + z, &face_excess_, &face_slopes_);
      faces_at_ = z;
    }
    if (gradient != nullptr) *gradient = face_slopes_.row(k - metrics).transpose();
    return face_excess_(k - metrics) + kInside;
  }
  double Scaled(Index k, const VectorXd& z, VectorXd* gradient) const {
    const double excess = Excess(k, z, gradient) / units_(k);
    if (gradient != nullptr) *gradient /= units_(k);
    return excess;
  }
  double LargestExcess(const VectorXd& z) const {
    double largest = 0.0;
    for (Index k = 0; k < bounds_; ++k) largest = std::max(largest, Scaled(k, z, nullptr));
    return largest;
  }

  absl::StatusOr<VectorXd> SolveFrom(const VectorXd& start, const base::StopToken& stop) {
    multipliers_ = VectorXd::Zero(units_.size());
    double weight = kFirstWeight, last = std::numeric_limits<double>::infinity();
    math::LbfgsOptions options;
    options.max_iterations = options.max_evaluations = kRoundCalls;
    options.gradient_tolerance = 1e-10;
    VectorXd y = start / size_, gradient(start.size());
    for (int round = 0; round < kRounds; ++round) {
      const auto lagrangian = [&](const VectorXd& at, VectorXd* by) {
        const VectorXd z = size_ * at;
        double sum = models_.objective().Value(z, by) / unit_;
        if (by != nullptr) *by *= size_ / unit_;
        for (Index k = 0; k < bounds_; ++k) {
          const double shifted = Scaled(k, z, by == nullptr ? nullptr : &gradient) + multipliers_(k) / weight;
          if (shifted <= 0.0) continue;
          sum += 0.5 * weight * shifted * shifted;
          if (by != nullptr) *by += weight * shifted * size_ * gradient;
        }
        return sum;
      };
      LUTHIER_ASSIGN_OR_RETURN(const math::LbfgsResult result,
                               math::MinimizeLbfgs(lagrangian, y, lower_ / size_, upper_ / size_, options, stop));
      y = result.x;
      double largest = 0.0, change = 0.0;
      for (Index k = 0; k < bounds_; ++k) {
        const double excess = Scaled(k, size_ * y, nullptr);
        const double next = std::max(0.0, multipliers_(k) + weight * excess);
        change = std::max(change, std::abs(next - multipliers_(k)) / weight);
        multipliers_(k) = next;
        largest = std::max(largest, excess);
      }
      if (largest < kKept && change < kKept) break;
      if (largest > 0.25 * last) weight = std::min(kMoreWeight * weight, kMostWeight);
      last = largest;
    }
    return Polished((size_ * y).cwiseMax(lower_).cwiseMin(upper_));
  }

  // Returns the point moved onto the bounds with multipliers by Newton's method, in the coordinates that are free.
  VectorXd Polished(VectorXd z) const {
    std::vector<Index> held;
    for (Index k = 0; k < bounds_; ++k) {
      if (multipliers_(k) > kActive) held.push_back(k);
    }
    std::vector<Index> free;
    for (Index i = 0; i < z.size(); ++i) {
      if (z(i) > lower_(i) && z(i) < upper_(i)) free.push_back(i);
    }
    if (held.empty() || held.size() > free.size()) return z;
    MatrixXd jacobian(static_cast<Index>(held.size()), static_cast<Index>(free.size()));
    VectorXd excess(jacobian.rows()), gradient(z.size());
    for (int polish = 0; polish < kPolishes; ++polish) {
      for (size_t k = 0; k < held.size(); ++k) {
        excess(static_cast<Index>(k)) = Scaled(held[k], z, &gradient);
        for (size_t i = 0; i < free.size(); ++i) {
          jacobian(static_cast<Index>(k), static_cast<Index>(i)) = size_ * gradient(free[i]);
        }
      }
      if (MaxNorm(excess) > 1e-3) return z;  // Too far from the bounds: they can't all be kept.
      const VectorXd move = jacobian.completeOrthogonalDecomposition().solve(-excess);
      if (!move.allFinite() || MaxNorm(move) > 0.01) return z;
      for (size_t i = 0; i < free.size(); ++i) z(free[i]) += size_ * move(static_cast<Index>(i));
      z = z.cwiseMax(lower_).cwiseMin(upper_);
    }
    return z;
  }

  const BorderData& data_;
  const BorderModels& models_;
  const VectorXd lower_, upper_;
  Index bounds_ = 0;
  double size_ = 0.0;     // The unit of z,
  double unit_ = 1.0;     //   of the objective,
  VectorXd units_;        //   and of each bound's metric: about its change over the box.
  VectorXd multipliers_;  // Multipliers of the bounds, in these units, at the last solution.
  // The faces at the point that was looked at last.
  mutable VectorXd faces_at_, face_excess_;
  mutable MatrixXd face_slopes_;
};

// A metric bent around its bound by s(v) = q asinh((v - bound)/q), where q is the median distance from it: values of
// many decades, such as those of a division, come near to a polynomial, and the bound stays what it is.
struct BentMetric {
  BorderMetric metric;
  VectorXd log_slopes;  // Logarithms of the derivative of s at the values.
};

// Returns std::nullopt if the metric has two bounds, or values that do not differ much.
std::optional<BentMetric> BendMetric(BorderMetric metric) {
  if (std::isfinite(metric.lower) == std::isfinite(metric.upper)) return std::nullopt;
  const bool above = std::isfinite(metric.lower);
  const double bound = above ? metric.lower : metric.upper;
  std::vector<double> distances;
  for (const double value : metric.values) {
    if (value != bound) distances.push_back(std::abs(value - bound));
  }
  std::sort(distances.begin(), distances.end());
  if (distances.empty()) return std::nullopt;
  const double q = distances[distances.size() / 2];
  if (!(distances.back() > kDecades * q)) return std::nullopt;
  const Eigen::ArrayXd scaled = (metric.values.array() - bound) / q;
  const VectorXd log_slopes = -0.5 * (scaled * scaled).log1p();
  metric.values = q * scaled.asinh();
  (above ? metric.lower : metric.upper) = 0.0;
  return BentMetric{std::move(metric), log_slopes};
}

// The whole of one step.
class BorderStepper {
 public:
  BorderStepper(const BorderData& data, const BorderState& state)
      : data_(data), state_(state), violations_(BorderViolations(data)), best_(BestRow(data_, violations_)) {}

  absl::StatusOr<std::optional<BorderStep>> Step(const base::StopToken& stop) {
    const Index d = data_.points.cols();
    LUTHIER_ASSIGN_OR_RETURN(const bool fitted, Fit(stop));
    if (!fitted) return std::nullopt;
    BorderStep step;
    step.centre = static_cast<int>(best_);
    const double radius = Radius();
    const VectorXd lower = (-models_.centre).cwiseMax(-radius);
    const VectorXd upper = (VectorXd::Ones(d) - models_.centre).cwiseMin(radius);
    BorderProblem problem(data_, models_, lower, upper);
    LUTHIER_ASSIGN_OR_RETURN(VectorXd z, problem.Solve(Starts(lower, upper), stop));
    StandBack(z, problem.units());
    LUTHIER_ASSIGN_OR_RETURN(z, problem.Solve({z, VectorXd::Zero(d)}, stop));
    const VectorXd penalties = problem.Penalties();
    step.active = problem.Active(z);
    step.predicted_gain = std::max(0.0, Gain(z, penalties));
    step.point = Clipped(z);
    bool under_way = false;
    for (Index i = 0; i < data_.pending.rows(); ++i) {
      under_way |= MaxNorm(data_.pending.row(i).transpose() - step.point) < 0.1 * MaxNorm(z) + kSamePlace;
    }
    const double rounding =
        std::max(kUnitError * data_.scores.cwiseAbs().maxCoeff(), std::numeric_limits<double>::min());
    if (!(step.predicted_gain > 0.25 * rounding) || FindRow(data_.points, step.point) >= 0 || under_way) {
      LUTHIER_ASSIGN_OR_RETURN(z, Learn(lower, upper, problem.units(), stop));
      step.kind = TrustRegionStepKind::kLearn;
      step.predicted_gain = 0.0;
      step.point = Clipped(z);
      const bool known = FindRow(data_.points, step.point) >= 0 || FindRow(data_.pending, step.point) >= 0;
      if (!learnable_ || radius <= kLeastRadius || known) step.kind = TrustRegionStepKind::kConverged;
    }
    step.next = {radius, step.predicted_gain, MaxNorm(z) > 0.99 * radius, models_.centre, step.point, penalties, {}};
    for (const math::TaylorModel& model : models_.models) step.next.lengths.push_back(model.lengths());
    return std::optional<BorderStep>(std::move(step));
  }

 private:
  VectorXd Clipped(const VectorXd& z) const { return (models_.centre + z).cwiseMax(0.0).cwiseMin(1.0); }

  // Fits all models. Returns false if there are no facts or one model is not finite.
  absl::StatusOr<bool> Fit(const base::StopToken& stop) {
    const int dim = static_cast<int>(data_.points.cols());
    const int quadratic = math::ScaledMonomials::Count(dim, 2, 2000);
    const int degree = math::ScaledMonomials::LargestDegree(dim, std::max(kMostTerms, quadratic), kLargestDegree);
    const auto basis = std::make_shared<const math::ScaledMonomials>(dim, degree);
    const std::vector<Index> rows = NearestTo(data_.points, best_);
    if (rows.empty()) return false;
    models_.centre = data_.points.row(best_).transpose();
    models_.at_centre.resize(static_cast<Index>(data_.metrics.size()));
    math::TaylorFitOptions options;
    options.max_work = kWork / static_cast<double>(1 + data_.metrics.size());
    options.first_coordinate = static_cast<uint64_t>(data_.points.rows());
    const bool carried = state_.lengths.size() == 1 + data_.metrics.size();
    for (size_t j = 0; j <= data_.metrics.size(); ++j) {
      const VectorXd lengths = carried ? state_.lengths[j] : VectorXd();
      const auto fit = [&](const VectorXd& values) {
        math::TaylorData facts = FactsAbout(values, data_.points, rows, best_);
        if (j == 0) AddSlopes(data_, rows, best_, &facts);
        return math::FitTaylorModel(basis, facts, lengths, 0.0, options, stop);
      };
      LUTHIER_ASSIGN_OR_RETURN(std::optional<math::TaylorModel> model,
                               fit(j == 0 ? VectorXd(-data_.scores) : data_.metrics[j - 1].values));
      if (j > 0) {
        if (std::optional<BentMetric> bent = BendMetric(data_.metrics[j - 1]); bent.has_value()) {
          LUTHIER_ASSIGN_OR_RETURN(std::optional<math::TaylorModel> other, fit(bent->metric.values));
          double slopes = 0.0;
          for (const Index row : rows) slopes += bent->log_slopes(row);
          if (other.has_value() && (!model.has_value() || other->log_likelihood() + slopes > model->log_likelihood())) {
            model = std::move(other);
            data_.metrics[j - 1] = std::move(bent->metric);
          }
        }
        models_.at_centre(static_cast<Index>(j - 1)) = data_.metrics[j - 1].values(best_);
      }
      if (!model.has_value()) return false;
      models_.models.push_back(*std::move(model));
    }
    models_.bounds = BoundsOf(data_);
    models_.back = VectorXd::Zero(static_cast<Index>(models_.bounds.size()));
    return true;
  }

  double Radius() const {
    if (state_.radius <= 0.0) return kFirstRadius;
    double radius = state_.radius;
    const Index row = FindRow(data_.points, state_.step), from = FindRow(data_.points, state_.centre);
    const double length = MaxNorm(state_.step - state_.centre);
    if (row >= 0 || FindRow(data_.pending, state_.step) < 0) {
      const bool lost = row < 0 || from < 0 || Left(row, from);
      const double gain = lost ? -std::numeric_limits<double>::infinity() : Merit(row) - Merit(from);
      radius = RadiusAfter(radius, length, gain, state_.predicted_gain, state_.at_boundary);
    }
    if (best_ != row) radius = std::max(radius, std::min(MaxNorm(models_.centre - state_.centre), kFirstRadius));
    return std::clamp(radius, kLeastRadius, kLargestRadius);
  }

  // Returns the centre and the point of a Sobol set that promises most.
  std::vector<VectorXd> Starts(const VectorXd& lower, const VectorXd& upper) const {
    const int d = static_cast<int>(lower.size());
    const math::SobolSequence sobol(d);
    std::vector<VectorXd> starts = {VectorXd::Zero(d)};
    const VectorXd penalties =
        state_.penalties.size() == static_cast<Index>(models_.bounds.size()) ? state_.penalties : VectorXd();
    double most = 0.0;
    for (int i = 0; i < 16 + 8 * d; ++i) {
      const VectorXd z = lower + sobol.Point(static_cast<uint64_t>(i) + 1).cwiseProduct(upper - lower);
      const double gain = Gain(z, penalties);
      if (!(gain > most)) continue;
      most = gain;
      starts.resize(1);
      starts.push_back(z);
    }
    return starts;
  }

  // Returns true if the step left bounds that its start kept by more than a part of the way.
  bool Left(Index row, Index from) const {
    if (violations_(from) > 0.0) return false;
    for (const OneBound& bound : models_.bounds) {
      const VectorXd& values = data_.metrics[bound.metric].values;
      if (bound.Excess(values(row)) > kOvershoot * std::abs(values(row) - values(from))) return true;
    }
    return false;
  }
  double Merit(Index row) const {
    double merit = data_.scores(row);
    for (size_t k = 0;
         k < models_.bounds.size() && state_.penalties.size() == static_cast<Index>(models_.bounds.size()); ++k) {
      const double value = data_.metrics[models_.bounds[k].metric].values(row);
      merit -= state_.penalties(static_cast<Index>(k)) * std::max(0.0, models_.bounds[k].Excess(value));
    }
    return merit;
  }
  // Returns the models' gain of merit at z.
  double Gain(const VectorXd& z, const VectorXd& penalties) const {
    double gain = -models_.objective().Value(z, nullptr);
    for (size_t k = 0; k < models_.bounds.size() && penalties.size() > 0; ++k) {
      const OneBound& bound = models_.bounds[k];
      const double before = models_.at_centre(static_cast<Index>(bound.metric));
      const double after = before + models_.metric(bound.metric).Value(z, nullptr);
      gain -=
          penalties(static_cast<Index>(k)) * (std::max(0.0, bound.Excess(after)) - std::max(0.0, bound.Excess(before)));
    }
    return gain;
  }

  void StandBack(const VectorXd& z, const VectorXd& units) {
    for (size_t k = 0; k < models_.bounds.size(); ++k) {
      const size_t j = models_.bounds[k].metric;
      const double deviation = std::sqrt(std::max(0.0, models_.metric(j).Variance(z, nullptr)));
      const double rounding = 4.0 * kUnitError * data_.metrics[j].values.cwiseAbs().maxCoeff();
      const Index i = static_cast<Index>(k);
      models_.back(i) =
          std::max({rounding, std::min(kStandBack * deviation, kMostStandBack * units(i)), Missed(k, units(i))});
    }
  }

  // Returns twice the excess over the bound at which the last step ended, if that was little: its model was that wrong.
  double Missed(size_t k, double unit) const {
    const Index row = state_.radius > 0.0 ? FindRow(data_.points, state_.step) : -1;
    if (row < 0) return 0.0;
    const double excess = models_.bounds[k].Excess(data_.metrics[models_.bounds[k].metric].values(row));
    return excess > 0.0 && excess < kMissed * unit ? 2.0 * excess : 0.0;
  }

  // Returns the point where the model knows least that knows least for its size. Sets learnable_.
  absl::StatusOr<VectorXd> Learn(const VectorXd& lower, const VectorXd& upper, const VectorXd& units,
                                 const base::StopToken& stop) {
    VectorXd farthest = VectorXd::Zero(lower.size());
    double most = 0.0;
    for (size_t j = 0; j < models_.models.size(); ++j) {
      if (j > 0 && !Near(j - 1, units)) continue;
      LUTHIER_ASSIGN_OR_RETURN(const VectorXd z, math::LeastKnownInBox(models_.models[j], lower, upper, stop));
      const double deviation = std::sqrt(std::max(0.0, models_.models[j].Variance(z, nullptr)));
      const VectorXd& values = j == 0 ? data_.scores : data_.metrics[j - 1].values;
      const double rounding = kUnitError * values.cwiseAbs().maxCoeff();
      if (!(deviation > rounding)) continue;
      learnable_ = true;
      const double share = deviation / (values.maxCoeff() - values.minCoeff());
      if (!(share > most)) continue;
      most = share;
      farthest = z;
    }
    return farthest;
  }
  // Returns true if a bound of the metric is within reach of the box.
  bool Near(size_t j, const VectorXd& units) const {
    for (size_t k = 0; k < models_.bounds.size(); ++k) {
      const Index i = static_cast<Index>(k);
      if (models_.bounds[k].metric == j &&
          models_.Excess(k, VectorXd::Zero(models_.centre.size()), nullptr) > -units(i)) {
        return true;
      }
    }
    return false;
  }

  BorderData data_;  // With metrics bent where they are modelled so.
  const BorderState& state_;
  const VectorXd violations_;
  const Index best_;
  BorderModels models_;
  bool learnable_ = false;  // True if some model is not exact within the box.
};

}  // namespace

VectorXd BorderViolations(const BorderData& data) {
  VectorXd violations = VectorXd::Zero(data.points.rows());
  for (const BorderMetric& metric : data.metrics) {
    for (Index i = 0; i < violations.size(); ++i) {
      violations(i) += std::max(0.0, ExcessOf(metric, metric.values(i))) / metric.spread;
    }
  }
  return violations;
}

absl::StatusOr<std::optional<BorderStep>> SuggestBorderStep(const BorderData& data, const BorderState& state,
                                                            const base::StopToken& stop) {
  const Index n = data.points.rows(), d = data.points.cols();
  LUTHIER_CHECK(data.scores.size() == n && (data.pending.rows() == 0 || data.pending.cols() == d));
  LUTHIER_CHECK(state.radius <= 0.0 || (state.step.size() == d && state.centre.size() == d));
  for (const BorderMetric& metric : data.metrics) LUTHIER_CHECK(metric.values.size() == n && metric.spread > 0.0);
  if (n < 2 || d == 0) return std::nullopt;
  return BorderStepper(data, state).Step(stop);
}

}  // namespace luthier::search
