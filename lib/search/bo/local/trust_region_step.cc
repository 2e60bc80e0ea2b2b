#include "lib/search/bo/local/trust_region_step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/math/monomials.h"
#include "lib/math/taylor_model.h"
#include "lib/search/bo/local/step_radius.h"

namespace luthier::search {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kRounding = 4e-16;  // Relative error of a score.
constexpr int kMaxFacts = 120;

double NextRadius(const TrustRegionData& data, Index incumbent, const TrustRegionState& state,
                  const TrustRegionOptions& options) {
  if (state.radius <= 0.0) return options.initial_radius;
  double radius = state.radius;
  const Index row = FindRow(data.points, state.step);
  const double length = MaxNorm(state.step - state.centre);
  if (row >= 0 || FindRow(data.pending, state.step) < 0) {
    const double gain = row < 0 ? -std::numeric_limits<double>::infinity() : data.scores(row) - state.anchor;
    radius = RadiusAfter(radius, length, gain, state.predicted_gain, state.at_boundary);
  }
  const VectorXd centre = data.points.row(incumbent).transpose();
  if (incumbent != row) radius = std::max(radius, std::min(MaxNorm(centre - state.centre), options.initial_radius));
  return std::clamp(radius, options.min_radius, options.max_radius);
}

// Returns the rows of the points nearest the incumbent, nearest first, without it and its duplicates.
std::vector<Index> Nearest(const TrustRegionData& data, Index incumbent) {
  std::vector<std::pair<double, Index>> by_distance;
  for (Index i = 0; i < data.points.rows(); ++i) {
    const VectorXd offset = (data.points.row(i) - data.points.row(incumbent)).transpose();
    if (MaxNorm(offset) >= kSamePlace) by_distance.emplace_back(offset.squaredNorm(), i);
  }
  std::sort(by_distance.begin(), by_distance.end());
  std::vector<Index> rows;
  for (const auto& [distance, row] : by_distance) rows.push_back(row);
  return rows;
}

// Returns values and slopes of the nearest points, at most as many as the model can use. They are negated, because the
// model is minimised.
math::TaylorData CollectFacts(const TrustRegionData& data, Index incumbent, int quadratic_terms) {
  const Index d = data.points.cols(), n = data.points.rows();
  std::vector<std::vector<const SlopeObservation*>> slopes(static_cast<size_t>(n));
  for (const SlopeObservation& s : data.slopes) slopes[static_cast<size_t>(s.point)].push_back(&s);
  const std::vector<Index> nearest = Nearest(data, incumbent);
  const size_t limit = static_cast<size_t>(std::min(kMaxFacts, std::max(90, quadratic_terms * 3 / 2)));
  const VectorXd centre = data.points.row(incumbent).transpose();

  std::vector<Index> used;
  std::vector<const SlopeObservation*> used_slopes = slopes[static_cast<size_t>(incumbent)];
  double largest = std::abs(data.scores(incumbent));
  for (const Index row : nearest) {
    const auto& here = slopes[static_cast<size_t>(row)];
    if (used.size() + used_slopes.size() + 1 + here.size() > limit && !used.empty()) break;
    used.push_back(row);
    used_slopes.insert(used_slopes.end(), here.begin(), here.end());
  }
  math::TaylorData facts;
  facts.offsets.resize(static_cast<Index>(used.size()), d);
  facts.rises.resize(facts.offsets.rows());
  for (Index i = 0; i < facts.rises.size(); ++i) {
    const Index row = used[static_cast<size_t>(i)];
    facts.offsets.row(i) = data.points.row(row) - data.points.row(incumbent);
    facts.rises(i) = data.scores(incumbent) - data.scores(row);
  }
  facts.value_error = kRounding * largest;
  const Index k = static_cast<Index>(used_slopes.size());
  facts.slope_offsets.resize(k, d);
  facts.slope_directions.resize(k, d);
  facts.slopes.resize(k);
  for (Index i = 0; i < k; ++i) {
    const SlopeObservation& s = *used_slopes[static_cast<size_t>(i)];
    facts.slope_offsets.row(i) = data.points.row(s.point) - data.points.row(incumbent);
    facts.slope_directions.row(i) = s.direction.transpose();
    facts.slopes(i) = -s.slope;
  }
  return facts;
}

// Returns the model that assumes pending points to have the values it predicts: its mean stays, its variance shrinks.
std::optional<math::TaylorModel> WithPending(const math::TaylorModel& model,
                                             std::shared_ptr<const math::ScaledMonomials> basis, math::TaylorData facts,
                                             const MatrixXd& pending, const VectorXd& centre) {
  const Index m = facts.rises.size();
  std::vector<Index> rows;
  for (Index i = 0; i < pending.rows(); ++i) {
    if (MaxNorm(pending.row(i).transpose() - centre) >= kSamePlace) rows.push_back(i);
  }
  facts.offsets.conservativeResize(m + static_cast<Index>(rows.size()), Eigen::NoChange);
  facts.rises.conservativeResize(facts.offsets.rows());
  for (size_t i = 0; i < rows.size(); ++i) {
    const VectorXd z = pending.row(rows[i]).transpose() - centre;
    facts.offsets.row(m + static_cast<Index>(i)) = z.transpose();
    facts.rises(m + static_cast<Index>(i)) = model.Value(z, nullptr);
  }
  return math::TaylorModel::Fit(std::move(basis), facts, model.lengths(), model.slope_error(), model.scale());
}

}  // namespace

absl::StatusOr<std::optional<TrustRegionStep>> SuggestTrustRegionStep(const TrustRegionData& data,
                                                                      const TrustRegionState& state,
                                                                      const TrustRegionOptions& options,
                                                                      const base::StopToken& stop) {
  const Index n = data.points.rows(), d = data.points.cols();
  LUTHIER_CHECK(data.scores.size() == n && (data.pending.rows() == 0 || data.pending.cols() == d));
  LUTHIER_CHECK(state.radius <= 0.0 || (state.step.size() == d && state.centre.size() == d));
  LUTHIER_CHECK(options.max_degree >= 2);
  if (n < 1 || d == 0) return std::nullopt;
  TrustRegionStep step;
  Index incumbent = 0;
  data.scores.maxCoeff(&incumbent);
  const VectorXd centre = data.points.row(incumbent).transpose();
  step.incumbent = static_cast<int>(incumbent);

  const int dim = static_cast<int>(d);
  const int quadratic_terms = math::ScaledMonomials::Count(dim, 2, 2000);
  step.degree =
      math::ScaledMonomials::LargestDegree(dim, std::max(options.max_terms, quadratic_terms), options.max_degree);
  const auto basis = std::make_shared<const math::ScaledMonomials>(dim, step.degree);
  const math::TaylorData facts = CollectFacts(data, incumbent, quadratic_terms);
  if (facts.rows() == 0) return std::nullopt;
  step.points_used = static_cast<int>(facts.rises.size());
  math::TaylorFitOptions fit_options;
  fit_options.max_work = options.max_work;
  fit_options.first_coordinate = static_cast<uint64_t>(n);
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<math::TaylorModel> model,
                           math::FitTaylorModel(basis, facts, state.lengths, state.slope_error, fit_options, stop));
  if (!model.has_value()) return std::nullopt;
  step.gradient = -model->GradientAtCentre();
  step.hessian = -model->HessianAtCentre();

  const double radius = NextRadius(data, incumbent, state, options);
  const VectorXd lower = (-centre).cwiseMax(-radius), upper = (VectorXd::Ones(d) - centre).cwiseMin(radius);
  const auto to_cube = [&](const VectorXd& z) { return VectorXd((centre + z).cwiseMax(0.0).cwiseMin(1.0)); };
  LUTHIER_ASSIGN_OR_RETURN(VectorXd z, math::MinimizeInBox(*model, lower, upper, MatrixXd(0, d), stop));
  step.predicted_gain = std::max(0.0, -model->Value(z, nullptr));
  step.deviation = std::sqrt(model->Variance(z, nullptr));
  step.point = to_cube(z);

  const double rounding = std::max(facts.value_error, std::numeric_limits<double>::min());
  const bool nothing_to_gain = !(step.predicted_gain > 0.25 * rounding) || FindRow(data.points, step.point) >= 0;
  bool under_way = false;
  for (Index i = 0; i < data.pending.rows(); ++i) {
    under_way |= MaxNorm(data.pending.row(i).transpose() - step.point) < 0.1 * MaxNorm(z) + kSamePlace;
  }
  if (nothing_to_gain || under_way) {
    const std::optional<math::TaylorModel> with_pending = WithPending(*model, basis, facts, data.pending, centre);
    const math::TaylorModel& known = with_pending.has_value() ? *with_pending : *model;
    LUTHIER_ASSIGN_OR_RETURN(z, math::LeastKnownInBox(known, lower, upper, stop));
    step.kind = TrustRegionStepKind::kLearn;
    step.point = to_cube(z);
    step.predicted_gain = 0.0;
    step.deviation = std::sqrt(known.Variance(z, nullptr));
    const bool known_point = FindRow(data.points, step.point) >= 0 || FindRow(data.pending, step.point) >= 0;
    if (!(step.deviation > rounding) || radius <= options.min_radius || known_point) {
      step.kind = TrustRegionStepKind::kConverged;
    }
  }
  step.well_poised = step.deviation <= step.predicted_gain;
  step.next = {
      radius,     data.scores(incumbent), step.predicted_gain, MaxNorm(z) > 0.99 * radius, model->slope_error(), centre,
      step.point, model->lengths()};
  return std::optional<TrustRegionStep>(std::move(step));
}

}  // namespace luthier::search
