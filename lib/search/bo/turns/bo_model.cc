#include "lib/search/bo/turns/bo_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "lib/base/status_macros.h"
#include "lib/math/pieces.h"
#include "lib/search/bo/acquisition/basins.h"
#include "lib/search/bo/acquisition/bounded_acquisition.h"
#include "lib/search/bo/acquisition/pending_information.h"
#include "lib/search/bo/model/gradients.h"
#include "lib/search/expectations.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr Index kFullRows = 700;       // Values and slopes up to which whole gradients are used,
constexpr Index kMaxSlopeRows = 1500;  //   and slopes at all: see observations.cc.

// Returns true if improvements are averaged over drawn outcomes of pending trials. By default probabilities of
// improvement are: with believed outcomes each promising trial would raise the value to beat, and a batch would follow
// one slope, whereas drawn outcomes ask for points that beat all pending trials however they end. Truncated
// acquisitions are not, because their bands limit the prediction of one posterior.
bool Fantasizes(const study::BoOptions& options) {
  if (options.pending == study::BoPending::kFantasies) return true;
  const bool probability =
      options.acquisition == study::BoAcquisition::kPi || options.acquisition == study::BoAcquisition::kLogPi;
  return options.pending == study::BoPending::kAuto && probability &&
         options.lipschitz != study::BoLipschitz::kTruncate;
}

// Returns the derivatives that models use.
gp::Slopes SlopesOf(const BoStudy& study, const Observations& data) {
  return ModelSlopes(data.slopes, data.scores, data.observed.cols(), study.one_slope_each, kFullRows, kMaxSlopeRows);
}

// Returns the derivatives that the model of the metric at `position` uses: those that the results in `rows` report of
// it, whatever its scores are bent by. `scores`: bent, one a row. Without gradient use, or if none is reported, there
// are none.
gp::Slopes SlopesOfMetric(const BoStudy& study, const Ask& ask, const std::vector<Index>& rows, size_t position,
                          const Bend& bend, const VectorXd& scores) {
  if (study.options.gradients != study::BoGradients::kFull) return {};
  const study::MetricSpec& metric = study.spec.metrics[position];
  const GradientUnits units(study.encoding, GoalOf(metric));
  std::vector<ScoreSlopes> known(rows.size());
  bool any = false;
  for (size_t k = 0; k < rows.size(); ++k) {
    const int64_t number = ask.data.number[static_cast<size_t>(rows[k])];
    const study::HistoryTrial& trial = ask.history.trials()[static_cast<size_t>(number - 1)];
    const std::vector<int32_t>& set_aside = ask.state->set_aside;
    // A worker whose gradients of one metric are wrong is not believed in the others.
    if (std::binary_search(set_aside.begin(), set_aside.end(), trial.reporter)) continue;
    if (position >= trial.gradients.size() || !trial.gradients[position]) continue;
    known[k] = units.FromUser(*trial.gradients[position], trial.parameters);
    const double slope = bend.Slope(study::Score(GoalOf(metric), trial.values[position]));
    known[k].values *= slope;
    known[k].variances *= slope * slope;
    any = any || !known[k].empty();
  }
  if (!any) return {};
  return ModelSlopes(known, scores, ask.data.observed.cols(), study.one_slope_each, kFullRows, kMaxSlopeRows);
}

// Returns the rows of results that keep the bounds: as they report, or, if `noisy`, as the models expect.
std::vector<Index> Contenders(const Observations& data, const BoModel& model, bool noisy) {
  if (model.bounds.empty() || !noisy) return data.FeasibleRows();
  std::vector<Index> rows = data.CompleteRows();
  const VectorXd within = LogProbabilitiesWithin(model.bounds, Rows(data.observed, rows));
  std::vector<Index> likely;
  for (size_t k = 0; k < rows.size(); ++k) {
    if (within(static_cast<Index>(k)) >= kLikelyWithin) likely.push_back(rows[k]);
  }
  return likely;
}

// Fits the models of the metrics whose bounds are in doubt. Returns false if a covariance could not be factored.
absl::StatusOr<bool> FitBoundedMetrics(const BoStudy& study, const Ask& ask, BoModel* model) {
  const std::vector<Index> rows = MeasuredRows(study, ask);
  if (rows.empty()) return true;
  for (const size_t position : ask.in_doubt) {
    const study::MetricSpec& metric = study.spec.metrics[position];
    if (position == study.objectives.front()) {
      model->bounds.push_back(
          BoundOf(metric, Bend(), model->surrogate.transform, ask.data.scores, &model->surrogate.states.front()));
      continue;
    }
    LUTHIER_ASSIGN_OR_RETURN(std::optional<MetricModel> fit,
                             FitMetricModel(study, ask, rows, position, /*believe=*/true));
    if (!fit.has_value()) return false;
    model->bounds.push_back(fit->Bound(study));
    model->metrics.push_back(*std::move(fit));  // Its regression stays where it is.
  }
  return true;
}

// Adds the pending trials to `regression`, a state of the model of `outputs`, and to `model` what it is to beat.
// Returns false if their outcomes were to be drawn and could not be.
absl::StatusOr<bool> TakePending(const BoStudy& study, const Ask& ask, const VectorXd& outputs,
                                 gp::Regression* regression, BoModel* model) {
  const Observations& data = ask.data;
  const bool draw = study.options.acquisition == study::BoAcquisition::kTs;
  const bool bound = study.options.acquisition == study::BoAcquisition::kUcb;
  const bool fantasize = Fantasizes(study.options);
  // The value to beat is the best measured one; under noise, declared or found, it is the best posterior mean.
  const bool noisy = study.options.SaidNoisy() || regression->hyperparameters().noise_variance > kFoundNoise;
  VectorXd level = outputs;
  if (noisy) {
    LUTHIER_ASSIGN_OR_RETURN(level, math::EvaluateInPieces(data.observed, ask.stop, [&](const MatrixXd& points) {
                               return regression->PredictMean(points);
                             }));
  }
  double best = -std::numeric_limits<double>::infinity();
  const std::vector<Index> candidates = Contenders(data, *model, noisy);
  for (const Index row : candidates) best = std::max(best, level(row));
  // A function drawn given drawn outcomes of the pending trials has the same distribution as one drawn without them.
  const Index open = fantasize && draw ? 0 : data.pending.rows();
  if (fantasize && !draw && !bound && open > 0) {
    const MatrixXd contenders = Rows(data.observed, candidates);
    const FantasyRecord incumbent{best, noisy ? &contenders : nullptr};
    LUTHIER_ASSIGN_OR_RETURN(std::optional<Fantasies> drawn,
                             Fantasize(regression, data.pending, incumbent, kFantasies, KeyOf(study, ask),
                                       static_cast<uint32_t>(model->best.size()), ask.stop));
    if (!drawn.has_value()) return false;
    model->best.push_back(best);
    model->fantasies.push_back(*std::move(drawn));
    return true;
  }
  if (open > 0 && (draw || bound)) {
    const double root_beta = RootBetaOf(study.options, study.encoding.compact_dim(), outputs.size() + open);
    model->information.push_back(LeastInformation(*regression, data.pending, root_beta, noisy));
  }
  for (Index i = 0; i < open; ++i) {
    // Each pending trial is assumed to give the predicted mean: the posterior mean stays as it is and the variance
    // shrinks. The next proposal has to beat this value; otherwise the same point would look best again.
    const double taken = regression->PredictMean(data.pending.row(i))(0);
    LUTHIER_ASSIGN_OR_RETURN(const bool appended, regression->Append(data.pending.row(i).transpose(), taken, ask.stop));
    if (appended &&
        (model->bounds.empty() || LogProbabilitiesWithin(model->bounds, data.pending.row(i))(0) >= kLikelyWithin)) {
      best = std::max(best, taken);
    }
  }
  model->best.push_back(best);
  return true;
}

}  // namespace

bool BoModel::HasIncumbent() const {
  return bounds.empty() || std::all_of(best.begin(), best.end(), [](double value) { return std::isfinite(value); });
}

std::vector<Index> MeasuredRows(const BoStudy& study, const Ask& ask) {
  std::vector<Index> rows = ask.data.CompleteRows();
  std::erase_if(rows, [&](Index row) {
    const int64_t number = ask.data.number[static_cast<size_t>(row)];
    return ask.history.trials()[static_cast<size_t>(number - 1)].values.size() != study.spec.metrics.size();
  });
  return rows;
}

absl::StatusOr<std::optional<MetricModel>> FitMetricModel(const BoStudy& study, const Ask& ask,
                                                          const std::vector<Index>& rows, size_t position,
                                                          bool believe) {
  const study::MetricSpec& metric = study.spec.metrics[position];
  VectorXd scores(static_cast<Index>(rows.size()));
  for (size_t k = 0; k < rows.size(); ++k) {
    const int64_t number = ask.data.number[static_cast<size_t>(rows[k])];
    const double value = ask.history.trials()[static_cast<size_t>(number - 1)].values[position];
    scores(static_cast<Index>(k)) = study::Score(GoalOf(metric), value);
  }
  Bend bend;
  if (!metric.objective) {
    bend = Bend::Around(metric, scores);
    for (double& score : scores) score = bend.Forward(score);
  }
  const auto& states = ask.state->metrics;
  const MatrixXd x = Rows(ask.data.observed, rows);
  const gp::Slopes slopes = SlopesOfMetric(study, ask, rows, position, bend, scores);
  LUTHIER_ASSIGN_OR_RETURN(
      std::optional<Surrogate> surrogate,
      FitMetric(study.surrogate, {x, scores, slopes}, position < states.size() ? states[position] : std::nullopt,
                KeyOf(study, ask), ask.stop));
  if (!surrogate.has_value()) return std::nullopt;
  gp::Regression& regression = surrogate->states.front();
  for (Index i = 0; believe && i < ask.data.pending.rows(); ++i) {
    const double taken = regression.PredictMean(ask.data.pending.row(i))(0);
    LUTHIER_RETURN_IF_ERROR(regression.Append(ask.data.pending.row(i).transpose(), taken, ask.stop).status());
  }
  return MetricModel{position, bend, std::move(scores), *std::move(surrogate)};  // The regression stays where it is.
}

void AddExpectation(const BoStudy& study, const MetricModel& metric, const VectorXd& u,
                    std::map<std::string, double>* details) {
  const study::MetricSpec& spec = study.spec.metrics[metric.position];
  const gp::Posterior p = metric.surrogate.states.front().Predict(u.transpose());
  const double sd = std::sqrt(p.variance(0));
  const auto score = [&](double output) { return metric.bend.Inverse(metric.surrogate.transform.Inverse(output)); };
  const auto add = [&](const char* what, double value) {
    if (std::isfinite(value)) (*details)[DetailOfMetric(what, spec.name)] = value;
  };
  add("mean", study::Score(GoalOf(spec), score(p.mean(0))));
  add("sd", 0.5 * score(p.mean(0) + sd) - 0.5 * score(p.mean(0) - sd));
}

void AddBoundKept(const BoStudy& study, size_t position, const OutcomeBound& bound, const VectorXd& u,
                  std::map<std::string, double>* details) {
  const gp::Posterior p = bound.regression->Predict(u.transpose());
  const double kept = std::exp(LogProbabilityWithin(bound, p.mean(0), std::sqrt(p.variance(0))).value);
  if (std::isfinite(kept)) (*details)[DetailOfMetric("kept", study.spec.metrics[position].name)] = kept;
}

void KeepMetrics(const std::vector<MetricModel>& models, BoState* state) {
  for (const MetricModel& model : models) {
    if (state->metrics.size() <= model.position) state->metrics.resize(model.position + 1);
    state->metrics[model.position] = model.surrogate.next;
  }
}

void KeepModels(const BoModel& model, BoState* state) {
  state->surrogate = model.surrogate.next;
  KeepMetrics(model.metrics, state);
}

absl::StatusOr<std::optional<BoModel>> FitBoModel(const BoStudy& study, const Ask& ask) {
  const gp::Slopes slopes = SlopesOf(study, ask.data);
  SurrogateOptions options = study.surrogate;
  // A logarithm promises decades where only the bounds keep the objective from them.
  options.logarithm = ask.in_doubt.empty();
  LUTHIER_ASSIGN_OR_RETURN(std::optional<Surrogate> surrogate,
                           FitSurrogate(options, {ask.data.observed, ask.data.scores, slopes}, ask.state->surrogate,
                                        KeyOf(study, ask), WholeSpaceIsDue(ask.state->basins), ask.stop));
  if (!surrogate.has_value()) return std::nullopt;
  const VectorXd outputs = surrogate->transform.Forward(ask.data.scores);
  BoModel model{*std::move(surrogate)};
  LUTHIER_ASSIGN_OR_RETURN(const bool bounded, FitBoundedMetrics(study, ask, &model));
  if (!bounded) return std::nullopt;
  for (gp::Regression& regression : model.surrogate.states) {
    LUTHIER_ASSIGN_OR_RETURN(const bool taken, TakePending(study, ask, outputs, &regression, &model));
    if (!taken) return std::nullopt;
  }
  // Moving the surrogate keeps its regressions at their addresses.
  return std::optional<BoModel>(std::move(model));
}

absl::StatusOr<std::vector<Alternative>> AlternativesTo(const BoStudy& study, const Ask& ask, const BoModel& model) {
  const gp::Slopes slopes = SlopesOf(study, ask.data);
  return FitAlternatives(study.surrogate, {ask.data.observed, ask.data.scores, slopes}, model.surrogate.next,
                         ask.data.pending, ask.stop);
}

Prediction PredictAt(const BoModel& model, const std::vector<Alternative>& alternatives, study::Goal goal,
                     const VectorXd& u, Extrapolation beyond) {
  // Computes mean and deviation of the states' mixture.
  const double states = static_cast<double>(model.surrogate.states.size());
  std::vector<gp::Posterior> posteriors;
  double mean = 0.0, variance = 0.0;
  for (const gp::Regression& regression : model.surrogate.states) {
    posteriors.push_back(regression.Predict(u.transpose()));
    mean += posteriors.back().mean(0) / states;
  }
  for (const gp::Posterior& posterior : posteriors) {
    const double apart = posterior.mean(0) - mean;
    variance += (posterior.variance(0) + apart * apart) / states;
  }
  // A component of the mixture with other kernels and warps, in units of scores.
  struct Part {
    double weight, mean, deviation;
  };
  const auto part_of = [beyond](double weight, const OutputTransform& transform, double m, double v) {
    const double d = std::sqrt(v);
    if (beyond == Extrapolation::kAny) {
      return Part{weight, transform.Inverse(m), 0.5 * transform.Inverse(m + d) - 0.5 * transform.Inverse(m - d)};
    }
    Part part{weight, transform.InverseWithin(m),
              0.5 * transform.InverseWithin(m + d) - 0.5 * transform.InverseWithin(m - d)};
    if (part.mean != transform.Inverse(m)) part.deviation = std::max(part.deviation, transform.range());
    return part;
  };
  std::vector<Part> parts = {part_of(1.0, model.surrogate.transform, mean, variance)};
  for (const Alternative& other : alternatives) {
    const gp::Posterior posterior = other.regression.Predict(u.transpose());
    const Part part = part_of(other.weight, other.transform, posterior.mean(0), posterior.variance(0));
    if (std::isfinite(part.mean) && std::isfinite(part.deviation)) parts.push_back(part);
  }
  double weights = 0.0, average = 0.0, scale = 0.0, squares = 0.0;
  for (const Part& part : parts) weights += part.weight;
  for (const Part& part : parts) average += part.weight / weights * part.mean;
  for (const Part& part : parts) scale = std::max({scale, part.deviation, std::abs(part.mean - average)});
  // Computed in units of the largest part, because scores may be near the largest double.
  for (const Part& part : parts) {
    if (!(scale > 0.0)) break;
    const double within = part.deviation / scale, apart = (part.mean - average) / scale;
    squares += part.weight / weights * (within * within + apart * apart);
  }
  Prediction prediction;
  prediction.mean = study::Score(goal, average);  // Score is its own inverse.
  prediction.sd = parts.size() == 1 ? parts[0].deviation : scale * std::sqrt(squares);
  prediction.models = static_cast<int>(parts.size());
  return prediction;
}

}  // namespace luthier::search
