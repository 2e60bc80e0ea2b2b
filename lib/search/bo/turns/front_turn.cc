#include "lib/search/bo/turns/front_turn.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/math/sobol.h"
#include "lib/pareto/dominance.h"
#include "lib/pareto/front_choice.h"
#include "lib/search/bo/acquisition/feasible_acquisition.h"
#include "lib/search/bo/acquisition/hypervolume_acquisition.h"
#include "lib/search/bo/acquisition/hypervolume_improvement.h"
#include "lib/search/bo/acquisition/maximize.h"
#include "lib/search/bo/acquisition/scalarized_draw.h"
#include "lib/search/bo/acquisition/thompson.h"
#include "lib/search/bo/model/metric_models.h"
#include "lib/search/bo/turns/bo_model.h"
#include "lib/search/bo/turns/initial.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr Index kFrontDraws = 8;        // Draws of pending trials and noisy results.
constexpr int kMarginalDraws = 64;      // Draws that tell which settings are likely to be on the front,
constexpr size_t kMostContenders = 64;  // and the most settings that are then drawn together.
constexpr Index kFrontStarts = 5;       // Points of the front that the maximiser starts from.
// Shares of the front's extent by which the reference lies below it, in turns.
constexpr double kBelowFront = 0.1, kFarBelowFront = 1.0;
constexpr int kScreened = 512, kScreenedUnderDraws = 256;
constexpr int kClimbs = 4;
constexpr int kClimbUnderDraws = 30;    // Most evaluations of one climb.
constexpr double kMostTableWork = 2e9;  // As in proposal.cc.

// The models of a study's metrics, and what is known of the front. Outputs have a column an objective.
struct FrontModel {
  std::vector<MetricModel> objectives;  // In order of BoStudy::objectives.
  std::vector<MetricModel> others;      // Models of metrics without a goal whose bounds are in doubt.
  std::vector<OutcomeBound> bounds;     // The bounds in doubt of both.
  std::vector<Index> rows;              // The results, rows of the ask's data.
  bool noisy = false;
  MatrixXd x;        // Points that may be on the front, which are likely to keep the bounds, and their outputs:
  MatrixXd outputs;  //   as reported, or, if the objectives are noisy, as expected.
  VectorXd reference;
};

// Returns the outputs of all results, of the models.
MatrixXd OutputsOf(const FrontModel& model) {
  MatrixXd outputs(static_cast<Index>(model.rows.size()), static_cast<Index>(model.objectives.size()));
  for (size_t j = 0; j < model.objectives.size(); ++j) {
    const MetricModel& metric = model.objectives[j];
    outputs.col(static_cast<Index>(j)) = metric.surrogate.transform.Forward(metric.scores);
  }
  return outputs;
}

// Returns the reference point (front_turn.h), given the outputs of all results and of those that may be on the front.
VectorXd ReferenceOf(const BoStudy& study, const Ask& ask, const FrontModel& model, const MatrixXd& all) {
  const MatrixXd front = model.outputs(pareto::Front(model.outputs), Eigen::all);
  VectorXd reference(all.cols());
  for (Index j = 0; j < all.cols(); ++j) {
    const MetricModel& metric = model.objectives[static_cast<size_t>(j)];
    const study::MetricSpec& spec = study.spec.metrics[metric.position];
    if (spec.reference.has_value()) {
      reference(j) = metric.surrogate.transform.Forward(study::Score(spec.goal, *spec.reference));
      continue;
    }
    const double low = front.rows() > 0 ? front.col(j).minCoeff() : all.col(j).maxCoeff();
    const double extent = front.rows() > 0 ? front.col(j).maxCoeff() - low : 0.0;
    std::vector<double> sorted(all.col(j).begin(), all.col(j).end());
    std::sort(sorted.begin(), sorted.end());
    // Nearly all results are on a front of many objectives, so that its extent says nothing.
    if (all.cols() > static_cast<Index>(kMostExactObjectives)) {
      reference(j) = sorted[(sorted.size() - 1) / 10];
      continue;
    }
    const double quartile = sorted[(sorted.size() - 1) / 4];
    const double below = ask.index % 2 == 0 ? kFarBelowFront : kBelowFront;
    reference(j) = extent > 0.0 ? low - below * extent : std::min(quartile, low - kBelowFront);
  }
  return reference;
}

// Fills in `x` and `outputs`.
void TakeContenders(const Ask& ask, const MatrixXd& all, FrontModel* model) {
  const MatrixXd points = Rows(ask.data.observed, model->rows);
  MatrixXd outputs = all;
  std::vector<Index> kept;
  if (model->noisy) {
    for (size_t j = 0; j < model->objectives.size(); ++j) {
      outputs.col(static_cast<Index>(j)) = model->objectives[j].surrogate.states.front().PredictMean(points);
    }
  }
  const VectorXd within = LogProbabilitiesWithin(model->bounds, points);
  for (Index i = 0; i < points.rows(); ++i) {
    const Index row = model->rows[static_cast<size_t>(i)];
    const bool feasible =
        model->noisy ? within(i) >= kLikelyWithin : ask.data.violations.size() == 0 || ask.data.violations(row) == 0.0;
    if (feasible) kept.push_back(i);
  }
  model->x = points(kept, Eigen::all);
  model->outputs = outputs(kept, Eigen::all);
}

// Fits all models. Returns std::nullopt if there are too few results or a covariance could not be factored.
absl::StatusOr<std::optional<FrontModel>> FitFrontModel(const BoStudy& study, const Ask& ask) {
  FrontModel model;
  model.rows = MeasuredRows(study, ask);
  if (model.rows.size() < 2) return std::nullopt;
  const auto in_doubt = [&](size_t position) {
    return std::find(ask.in_doubt.begin(), ask.in_doubt.end(), position) != ask.in_doubt.end();
  };
  const bool believe = study.objectives.size() > kMostExactObjectives;
  for (size_t position = 0; position < study.spec.metrics.size(); ++position) {
    const study::MetricSpec& metric = study.spec.metrics[position];
    if (!metric.objective && !in_doubt(position)) continue;
    LUTHIER_ASSIGN_OR_RETURN(std::optional<MetricModel> fit, FitMetricModel(study, ask, model.rows, position,
                                                                            /*believe=*/believe || !metric.objective));
    if (!fit.has_value()) return std::nullopt;
    const double noise = fit->surrogate.states.front().hyperparameters().noise_variance;
    model.noisy = model.noisy || (metric.objective && (study.options.SaidNoisy() || noise > kFoundNoise));
    (metric.objective ? model.objectives : model.others).push_back(*std::move(fit));
  }
  for (const std::vector<MetricModel>* models : {&model.objectives, &model.others}) {
    for (const MetricModel& fit : *models) {
      if (in_doubt(fit.position)) model.bounds.push_back(fit.Bound(study));
    }
  }
  const MatrixXd all = OutputsOf(model);
  TakeContenders(ask, all, &model);
  model.reference = ReferenceOf(study, ask, model, all);
  return std::optional<FrontModel>(std::move(model));
}

// Returns the rows of model.x that are most often on the front of draws of each objective at each of them.
std::vector<Index> LikelyOnFront(const BoStudy& study, const Ask& ask, const FrontModel& model) {
  const Index n = model.x.rows(), m = static_cast<Index>(model.objectives.size());
  MatrixXd deviations(n, m);
  for (Index j = 0; j < m; ++j) {
    deviations.col(j) =
        model.objectives[static_cast<size_t>(j)].surrogate.states.front().Predict(model.x).variance.cwiseSqrt();
  }
  base::RandomStream random = KeyOf(study, ask).Stream("bo/front");
  std::vector<int> count(static_cast<size_t>(n), 0);
  for (int draw = 0; draw < kMarginalDraws; ++draw) {
    MatrixXd drawn = model.outputs;
    for (double *z = drawn.data(), *d = deviations.data(); z != drawn.data() + drawn.size(); ++z, ++d) {
      *z += *d * random.Normal();
    }
    for (const Index row : pareto::Front(drawn)) ++count[static_cast<size_t>(row)];
  }
  std::vector<Index> order;
  for (Index i = 0; i < n; ++i) {
    if (count[static_cast<size_t>(i)] > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](Index a, Index b) { return count[static_cast<size_t>(a)] > count[static_cast<size_t>(b)]; });
  if (order.size() > kMostContenders) order.resize(kMostContenders);
  return order;
}

// Returns the improvement over a front of some of these points, so few that it can be computed.
absl::StatusOr<HypervolumeImprovement> ImprovementOver(const MatrixXd& points, const VectorXd& reference,
                                                       const base::StopToken& stop) {
  MatrixXd front = points(pareto::Front(points), Eigen::all);
  for (Index most = kMostFrontPoints;; most /= 2) {
    if (front.rows() > most) {
      LUTHIER_ASSIGN_OR_RETURN(const std::vector<Index> kept, pareto::GreedySubset(front, reference, most, stop));
      front = front(kept, Eigen::all).eval();
    }
    std::optional<HypervolumeImprovement> improvement = HypervolumeImprovement::Create(front, reference);
    if (improvement.has_value()) return *std::move(improvement);
  }
}

// Returns the expected improvement of the hypervolume; null if values could not be drawn.
absl::StatusOr<std::unique_ptr<AcquisitionFunction>> ExactAcquisition(const BoStudy& study, const Ask& ask,
                                                                      const FrontModel& model) {
  const MatrixXd& pending = ask.data.pending;
  std::vector<Index> contenders;
  if (model.noisy) contenders = LikelyOnFront(study, ask, model);
  const Index drawn = static_cast<Index>(contenders.size()), points = drawn + pending.rows();
  std::vector<MetricPosterior> posteriors;
  std::vector<HypervolumeImprovement> improvements;
  if (points == 0) {
    for (const MetricModel& metric : model.objectives) posteriors.emplace_back(&metric.surrogate.states.front());
    LUTHIER_ASSIGN_OR_RETURN(HypervolumeImprovement improvement,
                             ImprovementOver(model.outputs, model.reference, ask.stop));
    improvements.push_back(std::move(improvement));
    return std::make_unique<HypervolumeAcquisition>(std::move(posteriors), std::move(improvements));
  }
  MatrixXd x(points, study.encoding.model_dim());
  x << model.x(contenders, Eigen::all), pending;
  const Index m = static_cast<Index>(model.objectives.size());
  base::RandomStream random = KeyOf(study, ask).Stream("bo/fantasies");
  const math::SobolSequence sobol(static_cast<int>(points * m), random.NextU64(), "bo/fantasies/sobol");
  const MatrixXd uniforms = sobol.Points(0, static_cast<int>(kFrontDraws)).transpose();
  for (Index j = 0; j < m; ++j) {
    const MatrixXd normals = uniforms.middleRows(j * points, points).unaryExpr([](double u) {
      return base::NormalQuantile(std::clamp(u, 1e-300, 1.0 - 1e-16));
    });
    LUTHIER_ASSIGN_OR_RETURN(std::optional<MetricPosterior> posterior,
                             MetricPosterior::Draw(&model.objectives[static_cast<size_t>(j)].surrogate.states.front(),
                                                   x, normals, ask.stop));
    if (!posterior.has_value()) return nullptr;
    posteriors.push_back(*std::move(posterior));
  }
  // Pending trials are on the front only if they are likely to keep the bounds.
  std::vector<Index> rows;
  const VectorXd within = LogProbabilitiesWithin(model.bounds, x);
  for (Index i = 0; i < points; ++i) {
    if (i < drawn || within(i) >= kLikelyWithin) rows.push_back(i);
  }
  const Index known = model.noisy ? 0 : model.outputs.rows();
  for (Index f = 0; f < kFrontDraws; ++f) {
    MatrixXd front(known + static_cast<Index>(rows.size()), m);
    front.topRows(known) = model.outputs.topRows(known);
    for (Index j = 0; j < m; ++j) {
      front.col(j).tail(static_cast<Index>(rows.size())) = posteriors[static_cast<size_t>(j)].values().col(f)(rows);
    }
    LUTHIER_ASSIGN_OR_RETURN(HypervolumeImprovement improvement, ImprovementOver(front, model.reference, ask.stop));
    improvements.push_back(std::move(improvement));
  }
  return std::make_unique<HypervolumeAcquisition>(std::move(posteriors), std::move(improvements));
}

// Returns the distance from the reference of drawn functions; null if none could be drawn.
absl::StatusOr<std::unique_ptr<AcquisitionFunction>> DrawnAcquisition(const BoStudy& study, const Ask& ask,
                                                                      const FrontModel& model) {
  std::vector<FunctionDraw> functions;
  for (size_t j = 0; j < model.objectives.size(); ++j) {
    LUTHIER_ASSIGN_OR_RETURN(
        std::optional<FunctionDraw> function,
        FunctionDraw::Pathwise(model.objectives[j].surrogate.states.front(), kPathwiseFeatures,
                               KeyOf(study, ask).Stream("bo/ts", static_cast<uint32_t>(j)), ask.stop));
    if (!function.has_value()) return nullptr;
    functions.push_back(*std::move(function));
  }
  return std::make_unique<ScalarizedDraw>(
      std::move(functions), model.reference,
      PositiveDirection(static_cast<Index>(model.objectives.size()), KeyOf(study, ask).Stream("bo/direction")));
}

// Returns the compact points that the search starts from: those that are the front's largest part, or, while none keeps
// the bounds, those that violate them least.
absl::StatusOr<MatrixXd> StartsOf(const BoStudy& study, const Ask& ask, const FrontModel& model) {
  if (model.x.rows() == 0) return ask.data.known;
  const std::vector<Index> front = pareto::Front(model.outputs);
  LUTHIER_ASSIGN_OR_RETURN(
      const std::vector<Index> chosen,
      pareto::GreedySubset(model.outputs(front, Eigen::all), model.reference, kFrontStarts, ask.stop));
  MatrixXd starts(static_cast<Index>(chosen.size()), study.encoding.compact_dim());
  for (size_t k = 0; k < chosen.size(); ++k) {
    const Index row = front[static_cast<size_t>(chosen[k])];
    starts.row(static_cast<Index>(k)) =
        study.encoding.ToCompact(study.encoding.FromModel(model.x.row(row).transpose()));
  }
  return starts;
}

// Returns the setting with the largest acquisition; std::nullopt if no value is finite.
absl::StatusOr<std::optional<MaximizeCandidate>> MaximumOf(const BoStudy& study, const Ask& ask,
                                                           const FrontModel& model,
                                                           const AcquisitionFunction& acquisition, bool drawn) {
  const double n = static_cast<double>(model.rows.size() + static_cast<size_t>(ask.data.pending.rows()));
  const double work = n * n * static_cast<double>(model.objectives.size() + model.others.size());
  if (const SettingTable* const table = study.Table(); table != nullptr && table->size() * work <= kMostTableWork) {
    std::vector<bool> excluded = ask.data.excluded;
    if (Exhausted(ask.data)) excluded.assign(excluded.size(), false);  // Only a noisy study comes here.
    return MaximizeOverTable(acquisition, *table, excluded, ask.stop);
  }
  VectorXd lengthscales = model.objectives.front().surrogate.next.theta.lengthscales;
  for (const std::vector<MetricModel>* models : {&model.objectives, &model.others}) {
    for (const MetricModel& metric : *models) {
      lengthscales = lengthscales.cwiseMin(metric.surrogate.next.theta.lengthscales);
    }
  }
  MaximizeOptions options;
  options.screen_points = drawn ? kScreenedUnderDraws : kScreened;
  options.starts = kClimbs;
  options.swept_starts = 1;
  if (drawn) options.max_evaluations = kClimbUnderDraws;
  LUTHIER_ASSIGN_OR_RETURN(const MatrixXd starts, StartsOf(study, ask, model));
  LUTHIER_ASSIGN_OR_RETURN(MaximizeResult result, study.options.maximizer == study::BoMaximizer::kDirect
                                                      ? MaximizeByDirect(acquisition, study.encoding, ask.stop)
                                                      : Maximize(acquisition, study.encoding, starts, lengthscales,
                                                                 KeyOf(study, ask), options, ask.stop));
  for (MaximizeCandidate& end : result.candidates) {
    if (!IsTried(ask.data, end.u)) return std::move(end);
  }
  if (result.candidates.empty()) return std::nullopt;
  return std::move(result.candidates.front());
}

// Adds what the models expect at the suggested setting.
void AddExpectations(const BoStudy& study, const Ask& ask, const FrontModel& model, const MaximizeCandidate& candidate,
                     Suggestion* suggestion) {
  const auto add = [&](const std::string& name, double value) {
    if (std::isfinite(value)) suggestion->details[name] = value;
  };
  for (const std::vector<MetricModel>* models : {&model.objectives, &model.others}) {
    for (const MetricModel& metric : *models) {
      AddExpectation(study, metric, candidate.u, &suggestion->details);
      if (std::find(ask.in_doubt.begin(), ask.in_doubt.end(), metric.position) == ask.in_doubt.end()) continue;
      AddBoundKept(study, metric.position, metric.Bound(study), candidate.u, &suggestion->details);
    }
  }
  if (!model.bounds.empty()) {
    add("p_within_bounds", std::exp(LogProbabilitiesWithin(model.bounds, candidate.u.transpose())(0)));
  }
  add("acquisition", candidate.value);
  add("front", static_cast<double>(pareto::Front(model.outputs).size()));
  add("observations", static_cast<double>(model.rows.size()));
  if (ask.data.pending.rows() > 0) add("pending", static_cast<double>(ask.data.pending.rows()));
}

}  // namespace

absl::StatusOr<Suggestion> FrontTurn(const BoStudy& study, const Ask& ask) {
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<FrontModel> model, FitFrontModel(study, ask));
  if (!model.has_value()) return Replacement(study, ask, "gp_failed");
  std::unique_ptr<AcquisitionFunction> improvement;
  if (model->x.rows() > 0) {
    const bool exact = model->objectives.size() <= kMostExactObjectives;
    LUTHIER_ASSIGN_OR_RETURN(improvement,
                             exact ? ExactAcquisition(study, ask, *model) : DrawnAcquisition(study, ask, *model));
    if (improvement == nullptr) return Replacement(study, ask, "gp_failed");
  }
  const AcquisitionFunction* acquisition = improvement.get();
  std::optional<FeasibleAcquisition> weighted;
  if (acquisition == nullptr || ask.Feasible() != nullptr || !model->bounds.empty()) {
    weighted.emplace(acquisition, ask.Feasible(), study::BoAcquisition::kLogEi, 0.0,
                     acquisition == nullptr ? Attainable(model->bounds) : model->bounds);
    acquisition = &*weighted;
  }
  const bool drawn = model->noisy || ask.data.pending.rows() > 0;
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<MaximizeCandidate> candidate,
                           MaximumOf(study, ask, *model, *acquisition, drawn));
  if (!candidate.has_value()) return Replacement(study, ask, "all_random");
  KeepMetrics(model->objectives, ask.state);
  KeepMetrics(model->others, ask.state);
  Suggestion suggestion;
  suggestion.origin = "acq";
  suggestion.parameters = candidate->parameters;
  if (IsTried(ask.all, candidate->u)) {
    if (!Exhausted(ask.all)) return Replacement(study, ask, "stuck_random", ask.Feasible());
    suggestion.origin = "repeat";
  }
  AddExpectations(study, ask, *model, *candidate, &suggestion);
  if (const FeasibilityModel* const feasible = ask.Feasible(); feasible != nullptr) {
    suggestion.details["p_feasible"] = feasible->Probability(study.encoding.ToModel(suggestion.parameters));
  }
  return suggestion;
}

}  // namespace luthier::search
