#include "lib/search/bo/acquisition/bounded_acquisition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "lib/base/random.h"
#include "lib/base/status_macros.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

// Deviation of noise in the outputs below which the bounds ignore it.
constexpr double kNegligibleNoise = 1e-4;
// A constant, in output deviations per side of the unit cube, from which on the bounds matter only at the results
// themselves, whatever the acquisition: settings nearer than 1e-12 are the same, and UCB is below 1e51.
constexpr double kUnbounded = 1e100;

AcquisitionKind KindOf(study::BoAcquisition acquisition) {
  switch (acquisition) {
    case study::BoAcquisition::kLogEi:
      return AcquisitionKind::kLogExpectedImprovement;
    case study::BoAcquisition::kEi:
      return AcquisitionKind::kExpectedImprovement;
    case study::BoAcquisition::kPi:
      return AcquisitionKind::kProbabilityOfImprovement;
    case study::BoAcquisition::kLogPi:
      return AcquisitionKind::kLogProbabilityOfImprovement;
    case study::BoAcquisition::kUcb:
    case study::BoAcquisition::kTs:
      return AcquisitionKind::kUpperConfidenceBound;
  }
  return AcquisitionKind::kLogExpectedImprovement;
}

BetaRule RuleOf(study::BoBeta schedule) {
  switch (schedule) {
    case study::BoBeta::kKandasamy15:
      return BetaRule::kKandasamy15;
    case study::BoBeta::kDragonfly:
      return BetaRule::kDragonfly;
    case study::BoBeta::kKandasamy17:
      return BetaRule::kK17Code;
    case study::BoBeta::kConstant:
      return BetaRule::kConstant;
  }
  return BetaRule::kKandasamy15;
}

}  // namespace

double RootBetaOf(const study::BoOptions& options, int coordinates, int64_t trials) {
  return RootBeta(RuleOf(options.beta_schedule), std::max(1, coordinates), trials + 1, options.beta);
}

std::optional<double> KnownConstant(const study::BoOptions& options, double unit) {
  if (options.growth == study::BoGrowth::kLinear) return std::nullopt;
  return options.lipschitz_constant * unit;
}

absl::StatusOr<SlopeBounds> BoundsFor(const study::BoOptions& options, const Observations& data,
                                      const OutputTransform& transform, double noise_deviation,
                                      const base::StopToken& stop) {
  const std::vector<Index> rows = data.CompleteRows();
  const MatrixXd u = Rows(data.observed, rows);
  VectorXd z(u.rows());
  double unit = 0.0;  // Largest slope of the transform, which keeps a user's constant valid.
  for (size_t k = 0; k < rows.size(); ++k) {
    z(static_cast<Index>(k)) = transform.Forward(data.scores(rows[k]));
    unit = std::max(unit, transform.Slope(data.scores(rows[k])));
  }
  const double noise = noise_deviation > kNegligibleNoise ? noise_deviation : 0.0;
  SlopeBounds result;
  SlopeEstimate estimate(u.cols(), noise);
  for (Index i = 0; i < z.size(); ++i) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll(i * u.cols()));
    estimate.Add(u.row(i).transpose(), z(i));
  }
  const double constant =
      LipschitzConstant(KnownConstant(options, unit), estimate.slope(), static_cast<int64_t>(rows.size()));
  if (constant <= kUnbounded) result.constant = constant;
  result.bounds = std::make_unique<LipschitzBounds>(u, z, result.constant, 2.0 * noise);
  return result;
}

absl::StatusOr<BoundedAcquisition> BoundedAcquisition::Create(const study::BoOptions& options, AcquisitionModels models,
                                                              const AskKey& key, const base::StopToken& stop) {
  const Observations& data = models.data;
  const OutputTransform& transform = models.transform;
  std::vector<ModelState>& states = models.states;
  BoundedAcquisition made;
  AcquisitionSettings settings;
  settings.kind = KindOf(options.acquisition);
  const bool probability =
      options.acquisition == study::BoAcquisition::kPi || options.acquisition == study::BoAcquisition::kLogPi;
  if (probability) settings.margin = options.improvement;
  if (options.acquisition == study::BoAcquisition::kUcb) {
    settings.root_beta = RootBetaOf(options, models.coordinates, data.scores.size() + data.pending.rows());
  }
  if (options.lipschitz != study::BoLipschitz::kOff) {
    double noise_variance = 0.0;
    for (const ModelState& state : states) noise_variance += state.regression->hyperparameters().noise_variance;
    const double noise = std::sqrt(noise_variance / static_cast<double>(states.size()));
    LUTHIER_ASSIGN_OR_RETURN(made.bounds_, BoundsFor(options, data, transform, noise, stop));
  }
  bool any = false;
  for (Index row : data.FeasibleRows()) {
    const double z = transform.Forward(data.scores(row));
    made.incumbent_ = any ? std::max(made.incumbent_, z) : z;
    any = true;
  }
  if (options.acquisition == study::BoAcquisition::kTs) {
    // Takes one of the states, with equal probabilities.
    base::RandomStream random = key.Stream("bo/ts");
    const gp::Regression& regression = *states[random.UniformInt(states.size())].regression;
    LUTHIER_ASSIGN_OR_RETURN(const std::optional<FunctionDraw> draw,
                             options.sampler == study::BoSampler::kFourier
                                 ? FunctionDraw::FourierFeatures(regression, kFourierFeatures, random, stop)
                                 : FunctionDraw::Pathwise(regression, kPathwiseFeatures, random, stop));
    if (!draw.has_value()) return made;
    made.base_ = std::make_unique<FunctionDraw>(*draw);
  } else if (made.bounds() != nullptr &&
             (options.lipschitz == study::BoLipschitz::kTruncate || options.lipschitz == study::BoLipschitz::kCap)) {
    made.truncated_ = std::make_unique<TruncatedAcquisition>(std::move(states), settings, made.bounds());
    made.top_ = made.truncated_.get();
    return made;
  } else if (!models.fantasies.empty()) {
    made.base_ = std::make_unique<FantasyAcquisition>(std::move(models.fantasies), settings);
  } else {
    made.base_ = std::make_unique<ModelAcquisition>(std::move(states), settings);
  }
  made.top_ = made.base_.get();
  if (made.bounds() != nullptr && options.lipschitz == study::BoLipschitz::kAcceptReject) {
    made.accept_ = std::make_unique<AcceptRejectAcquisition>(made.base_.get(), made.bounds());
    made.top_ = made.accept_.get();
  }
  return made;
}

BindCount BoundedAcquisition::bind_count() const {
  if (truncated_ != nullptr) return truncated_->bind_count();
  if (accept_ != nullptr) return accept_->bind_count();
  return BindCount();
}

}  // namespace luthier::search
