#include "lib/search/bo/turns/model_turn.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/math/pieces.h"
#include "lib/math/sobol.h"
#include "lib/search/bo/acquisition/bounded_acquisition.h"
#include "lib/search/bo/acquisition/pending_information.h"
#include "lib/search/bo/turns/bo_state.h"
#include "lib/search/bo/turns/exploration_points.h"
#include "lib/study/compact_column.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

// Noise variance above which an objective counts as noisy, even if it was not declared so.
constexpr double kFoundNoise = 1e-4;
constexpr double kMaxTableWork = 2e9;  // Settings times n^2 up to which all settings of a finite space are evaluated.
// Smallest gain that the acquisition looks for, in output deviations, while local steps refine the incumbent.
constexpr double kWorthwhileGain = 1e-3;
// The same with labels or switches. A step is then made only if it gains more than the model's proposal
// (bo_designer.cc), and it sees the results of one combination of labels, whereas the model shares what it knows about
// numbers among labels. So the model refines more digits itself.
constexpr double kWorthwhileUnordered = 1e-4;
constexpr double kWorthwhileNoise = 1.0;  // In deviations of the noise, for an objective declared noisy.
constexpr Index kFullRows = 700;          // Values and slopes up to which whole gradients are used,
constexpr Index kMaxSlopeRows = 1500;     //   and slopes at all: see observations.cc.
constexpr Index kCertificatePoints = 1024;
// ln EI below which a basin counts as known: 5e-5 deviations of all outputs, or 2.5e-3 deviations of the outputs
// elsewhere, where less accuracy is needed.
constexpr double kLogEiKnown = -10.0, kLogEiKnownElsewhere = -6.0;
constexpr size_t kMaxBasins = 8;
constexpr Index kAllowedDraws = 256;
constexpr int kStartsOfOthers = 4;
constexpr int kBasinsPerAsk = 2;  // Acquisitions of other basins that one ask maximises.

// Returns the number of asks in a row that search other basins, given that the improvement on the incumbent is
// e^log_ei. Then the model of all results has its turn, since it may know better where to search than the model of the
// other basins. Its turns get rarer as the improvement that it finds gets smaller.
int Turns(double log_ei) {
  return static_cast<int>(std::clamp(-log_ei / 3.0 - 2.0, 1.0, 8.0));
}

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

}  // namespace

gp::Slopes ModelTurn::SlopesOf(const Observations& data) const {
  return ModelSlopes(data.slopes, data.scores, data.observed.cols(), one_slope_each_, kFullRows, kMaxSlopeRows);
}

absl::StatusOr<std::optional<BoModel>> ModelTurn::Fit(const Observations& data,
                                                      const std::optional<SurrogateState>& last,
                                                      const BasinsState& basins, uint64_t ask_index,
                                                      const base::StopToken& stop) const {
  const bool renew = !basins.away || basins.turns >= Turns(basins.log_ei);
  LUTHIER_ASSIGN_OR_RETURN(
      std::optional<Surrogate> surrogate,
      FitSurrogate(*models_, data.observed, data.scores, last, seed_, ask_index, SlopesOf(data), renew, stop));
  if (!surrogate.has_value()) return std::nullopt;
  const Index n = data.scores.size();
  const VectorXd z = surrogate->transform.Forward(data.scores);
  const bool liar = options_.pending == study::BoPending::kLiarMin || options_.pending == study::BoPending::kLiarMean ||
                    options_.pending == study::BoPending::kLiarMax;
  const double lie = options_.pending == study::BoPending::kLiarMin    ? z.minCoeff()
                     : options_.pending == study::BoPending::kLiarMean ? z.mean()
                                                                       : z.maxCoeff();
  const bool draw = options_.acquisition == study::BoAcquisition::kTs;
  const bool fantasize = Fantasizes(options_);
  std::vector<double> incumbents, information;
  std::vector<Fantasies> fantasies;
  for (gp::Regression& regression : surrogate->states) {
    // The value to beat is the best measured one; under noise, declared or found, it is the best posterior mean.
    const bool noisy = options_.noisy || regression.hyperparameters().noise_variance > kFoundNoise;
    VectorXd level = z;
    if (noisy) {
      LUTHIER_ASSIGN_OR_RETURN(level, math::EvaluateInPieces(data.observed, stop, [&](const MatrixXd& points) {
                                 return regression.PredictMean(points);
                               }));
    }
    double best = -std::numeric_limits<double>::infinity();
    for (Index i = 0; i < n; ++i) {
      if (data.complete[static_cast<size_t>(i)]) best = std::max(best, level(i));
    }
    // A function drawn given drawn outcomes of the pending trials has the same distribution as one drawn without them.
    const Index open = fantasize && draw ? 0 : data.pending.rows();
    if (fantasize && !draw && options_.acquisition != study::BoAcquisition::kUcb && open > 0) {
      const MatrixXd contenders = Rows(data.observed, data.CompleteRows());
      LUTHIER_ASSIGN_OR_RETURN(std::optional<Fantasies> drawn,
                               Fantasize(&regression, data.pending, {best, noisy ? &contenders : nullptr}, kFantasies,
                                         seed_, ask_index, static_cast<uint32_t>(incumbents.size()), stop));
      if (!drawn.has_value()) return std::nullopt;
      incumbents.push_back(best);
      fantasies.push_back(*std::move(drawn));
      continue;
    }
    if (open > 0 && (draw || options_.acquisition == study::BoAcquisition::kUcb)) {
      information.push_back(
          LeastInformation(regression, data.pending, RootBetaOf(options_, encoding_->compact_dim(), n + open), noisy));
    }
    for (Index i = 0; i < open; ++i) {
      // Each pending trial is assumed to give the predicted mean, or the liar's value. With the predicted mean the
      // posterior mean stays as it is and the variance shrinks. The next proposal has to beat this value; otherwise the
      // same point would look best again.
      const double taken = liar ? lie : regression.PredictMean(data.pending.row(i))(0);
      LUTHIER_ASSIGN_OR_RETURN(const bool appended, regression.Append(data.pending.row(i).transpose(), taken, stop));
      if (appended) best = std::max(best, taken);
    }
    incumbents.push_back(best);
  }
  // Moving the surrogate keeps its regressions at their addresses.
  return std::optional<BoModel>(
      BoModel{*std::move(surrogate), std::move(incumbents), std::move(fantasies), std::move(information)});
}

absl::StatusOr<MaximizeResult> ModelTurn::MaximizeOverBasins(
    const BoModel& model, const Observations& data, const BoundedAcquisition& bounded,
    const AcquisitionFunction& acquisition, const FeasibilityModel* feasible, Maximizer maximize, uint64_t ask_index,
    BasinsState* basins, Suggestion* suggestion, const base::StopToken& stop) const {
  const gp::Regression& regression = model.surrogate.states.front();
  const std::vector<Index> rows = data.CompleteRows();
  if (rows.empty()) return maximize(acquisition, model.surrogate.next.theta.lengthscales);
  const VectorXd z = model.surrogate.transform.Forward(data.scores);
  const bool logarithm = options_.acquisition == study::BoAcquisition::kLogEi;
  const auto log_ei_of = [&](const MaximizeResult& result) {
    if (result.candidates.empty()) return -std::numeric_limits<double>::infinity();
    const double value = result.candidates.front().value;
    return logarithm ? value : std::log(value);
  };
  std::vector<Index> maxima;
  for (const int64_t number : basins->maxima) {
    const auto at = std::find(data.number.begin(), data.number.end(), number);
    if (at != data.number.end()) maxima.push_back(at - data.number.begin());
  }
  const auto add = [&](Index top) {
    maxima.push_back(top);
    basins->maxima.push_back(data.number[static_cast<size_t>(top)]);
  };
  Index incumbent = rows.front();
  for (const Index row : rows) {
    if (z(row) > z(incumbent)) incumbent = row;
  }
  LUTHIER_ASSIGN_OR_RETURN(Index best, BestInOtherBasins(regression, data.observed, z, rows, maxima, stop));
  MaximizeResult result;
  basins->away = best != incumbent;
  if (!basins->away || basins->turns >= Turns(basins->log_ei)) {
    LUTHIER_ASSIGN_OR_RETURN(result, maximize(acquisition, model.surrogate.next.theta.lengthscales));
    basins->log_ei = log_ei_of(result);
    basins->turns = 0;
    if (basins->away || basins->log_ei > kLogEiKnown) return result;
    basins->away = true;
    add(incumbent);
    LUTHIER_ASSIGN_OR_RETURN(best, BestInOtherBasins(regression, data.observed, z, rows, maxima, stop));
  }
  ++basins->turns;
  for (int attempt = 0; attempt < kBasinsPerAsk; ++attempt) {
    if (maxima.size() > kMaxBasins) {  // The search of basins starts anew.
      *basins = {};
      if (!result.candidates.empty()) return result;
      return maximize(acquisition, model.surrogate.next.theta.lengthscales);
    }
    basins->best_other = best >= 0 ? data.number[static_cast<size_t>(best)] : 0;
    const ModelChoice& choice = models_->choices.front();
    LUTHIER_ASSIGN_OR_RETURN(const std::optional<OtherBasinsModel> elsewhere,
                             FitOtherBasins(choice.shape, InferenceFor(choice, *models_), data.observed, z,
                                            best >= 0 ? z(best) : z.minCoeff(), data.pending, basins,
                                            base::RandomStream(seed_, "bo/elsewhere", ask_index), stop));
    if (!elsewhere.has_value()) break;
    const OtherBasinsAcquisition other(&regression, &*elsewhere, Rows(data.observed, maxima), kWorthwhileGain,
                                       logarithm, bounded.bounds(), bounded.incumbent());
    std::optional<FeasibleAcquisition> weighted;
    if (feasible != nullptr) weighted.emplace(&other, feasible, options_.acquisition, 0.0);
    const AcquisitionFunction* used = &other;
    if (weighted.has_value()) used = &*weighted;
    LUTHIER_ASSIGN_OR_RETURN(MaximizeResult found, maximize(*used, basins->theta->lengthscales));
    if (found.candidates.empty()) break;
    result = std::move(found);
    suggestion->details["known_hills"] = static_cast<double>(maxima.size());
    if (best < 0 || log_ei_of(result) > kLogEiKnownElsewhere) break;
    add(best);
    LUTHIER_ASSIGN_OR_RETURN(best, BestInOtherBasins(regression, data.observed, z, rows, maxima, stop));
  }
  if (result.candidates.empty()) return maximize(acquisition, model.surrogate.next.theta.lengthscales);
  return result;
}

absl::StatusOr<MaximizeCandidate> ModelTurn::BestAllowed(const std::vector<ModelState>& states,
                                                         const OutputBounds& bounds, double incumbent,
                                                         const Observations& data, uint64_t ask_index,
                                                         const base::StopToken& stop) const {
  MatrixXd u(kAllowedDraws, encoding_->model_dim());
  for (Index i = 0; i < u.rows(); ++i) {
    base::RandomStream random(seed_, "bo/allowed", ask_index, static_cast<uint32_t>(i));
    u.row(i) = encoding_->ToModel(encoding_->Sample(random)).transpose();
  }
  VectorXd lower, upper, mean = VectorXd::Zero(u.rows());
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  bounds.Evaluate(u, &lower, &upper);
  for (const ModelState& state : states) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    mean += state.regression->PredictMean(u);
  }
  MaximizeCandidate candidate;
  Index best = -1;
  for (Index i = 0; i < u.rows(); ++i) {
    if (upper(i) < incumbent || !std::isfinite(mean(i)) || (best >= 0 && mean(i) <= mean(best))) continue;
    if (!IsTried(data, u.row(i).transpose())) best = i;
  }
  if (best >= 0) {
    candidate.parameters = encoding_->FromModel(u.row(best).transpose());
  } else {
    LUTHIER_ASSIGN_OR_RETURN(candidate.parameters, LipoPoint(*encoding_, bounds, incumbent, seed_,
                                                             static_cast<uint64_t>(kExplorations) + ask_index, stop));
  }
  candidate.u = encoding_->ToModel(candidate.parameters);
  return candidate;
}

bool ModelTurn::Polished() const {
  return !options_.noisy && options_.trust_region != study::BoTrustRegion::kOff && table_ == nullptr;
}

double ModelTurn::Margin(const gp::Regression& state) const {
  // A gain that the noise hides is no reason to stay at the incumbent.
  if (options_.noisy) return kWorthwhileNoise * std::sqrt(state.hyperparameters().noise_variance);
  if (!Polished()) return 0.0;
  return study::AnyUnordered(*encoding_) ? kWorthwhileUnordered : kWorthwhileGain;
}

absl::StatusOr<std::optional<MaximizeCandidate>> ModelTurn::MaximumOf(const AcquisitionFunction& acquisition,
                                                                      const Search& search, BasinsState* basins,
                                                                      Suggestion* suggestion,
                                                                      const base::StopToken& stop) const {
  const gp::Regression& regression = search.model.surrogate.states.front();
  const Observations& data = search.data;
  const double n = static_cast<double>(regression.rows());
  // Work of one prediction.
  const double prediction = n * n * static_cast<double>(search.model.surrogate.states.size());
  if (search.finite != nullptr) return MaximizeOverCandidates(acquisition, *search.finite, stop);
  if (table_ != nullptr && table_->size() * prediction <= kMaxTableWork) {
    return MaximizeOverTable(acquisition, *table_, search.excluded, stop);
  }
  MaximizeOptions options;
  if (regression.rows() > 128) options.screen_points = 512;
  options.box = search.box;
  const auto maximize = [&](const AcquisitionFunction& function, const VectorXd& scale) {
    if (&function != &acquisition) {  // Other basins cost more, and need no last digits.
      options.screen_points = 512;
      options.starts = kStartsOfOthers;
    }
    return options_.maximizer == study::BoMaximizer::kDirect
               ? MaximizeByDirect(function, *encoding_, stop)
               : Maximize(function, *encoding_, data.known, scale, seed_, search.ask_index, options, stop);
  };
  // Only expected improvement tells when nothing is left to gain. With whole gradients climbs are short, and their
  // starts reach the basins.
  const bool improvement =
      options_.acquisition == study::BoAcquisition::kLogEi || options_.acquisition == study::BoAcquisition::kEi;
  const bool has_basins = Polished() && improvement && search.model.surrogate.states.size() == 1 &&
                          search.model.fantasies.empty() && search.box == nullptr && data.slopes.empty() &&
                          regression.hyperparameters().noise_variance <= kFoundNoise;
  LUTHIER_ASSIGN_OR_RETURN(MaximizeResult result,
                           has_basins
                               ? MaximizeOverBasins(search.model, data, search.bounded, acquisition, search.feasible,
                                                    maximize, search.ask_index, basins, suggestion, stop)
                               : maximize(acquisition, search.model.surrogate.next.theta.lengthscales));
  // In a finite space the best ends of searches may have been tried; the next best untried one is then better than a
  // random one.
  for (size_t k = 1; table_ != nullptr && k < result.candidates.size() && IsTried(data, result.candidates[0].u); ++k) {
    std::swap(result.candidates[0], result.candidates[k]);
  }
  if (result.candidates.empty()) return std::nullopt;
  return std::optional<MaximizeCandidate>(std::move(result.candidates.front()));
}

absl::StatusOr<std::optional<MaximizeCandidate>> ModelTurn::Propose(const BoModel& model, const Observations& data,
                                                                    const FeasibilityModel* feasible,
                                                                    const TrustBoxRun* run, uint64_t ask_index,
                                                                    BasinsState* basins, Suggestion* suggestion,
                                                                    const base::StopToken& stop) const {
  std::vector<ModelState> states;
  std::vector<Fantasies> fantasies = model.fantasies;
  for (size_t s = 0; s < model.best.size(); ++s) {
    const double margin = Margin(model.surrogate.states[s]);
    states.push_back({&model.surrogate.states[s], model.best[s] + margin});
    if (!fantasies.empty()) fantasies[s].best.array() += margin;
  }
  std::optional<TrustBox> box;
  if (run != nullptr && run->centre.size() > 0) {
    box = BoxOf(*run, model.surrogate.next.theta.lengthscales, *encoding_);
  }
  const TrustBox* inside = box.has_value() ? &*box : nullptr;
  std::vector<bool> excluded = data.excluded;
  if (Exhausted(data)) excluded.assign(excluded.size(), false);  // Only a noisy study comes here.
  const bool drawn_finite =
      options_.acquisition == study::BoAcquisition::kTs && options_.sampler == study::BoSampler::kFinite;
  FiniteSet finite;
  if (drawn_finite) finite = FiniteCandidates(*encoding_, table_, excluded, data.known, inside, seed_, ask_index);
  LUTHIER_ASSIGN_OR_RETURN(
      const BoundedAcquisition bounded,
      BoundedAcquisition::Create(options_, states, data, model.surrogate.transform, encoding_->compact_dim(), seed_,
                                 ask_index, std::move(fantasies), finite.points, stop));
  if (bounded.acquisition() == nullptr) return std::nullopt;
  const AcquisitionFunction* acquisition = bounded.acquisition();
  std::optional<FeasibleAcquisition> weighted;
  if (feasible != nullptr) {
    weighted.emplace(acquisition, feasible, options_.acquisition,
                     FailureValue(model.surrogate.transform.Forward(data.scores)));
    acquisition = &*weighted;
  }
  if (inside != nullptr) suggestion->details["box_side"] = run->side;
  const Search search = {model, data, bounded, feasible, inside, drawn_finite ? &finite : nullptr, excluded, ask_index};
  std::optional<MaximizeCandidate> best;
  if (!model.information.empty()) {
    std::vector<InformationLevel> levels;
    for (size_t s = 0; s < states.size(); ++s) levels.push_back({states[s].regression, model.information[s]});
    const PendingInformation information(acquisition, std::move(levels));
    LUTHIER_ASSIGN_OR_RETURN(best, MaximumOf(information, search, basins, suggestion, stop));
  }
  // If no setting is informative, as in a finite space that is nearly used up, all settings may be proposed.
  if (!best.has_value()) {
    LUTHIER_ASSIGN_OR_RETURN(best, MaximumOf(*acquisition, search, basins, suggestion, stop));
  }
  if (bounded.bounds() != nullptr && bounded.bounds()->active()) {
    suggestion->details["bind_rate"] = bounded.bind_count().rate();
    if (std::isfinite(bounded.lipschitz())) suggestion->details["lipschitz"] = bounded.lipschitz();
    // Reports the share of the space that cannot hold an improvement if the bounds are right.
    MatrixXd sample(kCertificatePoints, encoding_->model_dim());
    const math::SobolSequence sobol(encoding_->compact_dim(), seed_, "bo/certificate");
    for (Index i = 0; i < sample.rows(); ++i) {
      sample.row(i) = encoding_->CompactToModel(sobol.Point(static_cast<uint64_t>(i)));
    }
    LUTHIER_ASSIGN_OR_RETURN(const ExclusionShare excluded_share,
                             ExcludedShare(*bounded.bounds(), sample, bounded.incumbent(), 0.0, stop));
    suggestion->details["excluded_share"] = excluded_share.share;
  }
  if (!best.has_value() && bounded.bounds() != nullptr) {
    // The bounds reject every candidate.
    suggestion->origin = "ar_empty";
    LUTHIER_ASSIGN_OR_RETURN(best, BestAllowed(states, *bounded.bounds(), bounded.incumbent(), data, ask_index, stop));
  }
  return best;
}

absl::StatusOr<std::vector<Alternative>> ModelTurn::AlternativesTo(const BoModel& model, const Observations& data,
                                                                   const base::StopToken& stop) const {
  return FitAlternatives(*models_, data.observed, data.scores, model.surrogate.next, SlopesOf(data), data.pending,
                         stop);
}

Prediction ModelTurn::PredictAt(const BoModel& model, const std::vector<Alternative>& alternatives, study::Goal goal,
                                const Eigen::VectorXd& u) {
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
  const auto part_of = [](double weight, const OutputTransform& transform, double m, double v) {
    const double d = std::sqrt(v);
    return Part{weight, transform.Inverse(m), 0.5 * transform.Inverse(m + d) - 0.5 * transform.Inverse(m - d)};
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

absl::Status ModelTurn::Describe(const BoModel& model, const MaximizeCandidate& candidate, const Observations& data,
                                 Suggestion* suggestion, const base::StopToken& stop) const {
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<Alternative> alternatives, AlternativesTo(model, data, stop));
  const Prediction prediction = PredictAt(model, alternatives, goal_, candidate.u);
  double jitter = 0.0;
  for (const gp::Regression& regression : model.surrogate.states) jitter = std::max(jitter, regression.jitter());
  auto add = [&](const char* name, double value) {
    if (std::isfinite(value)) suggestion->details[name] = value;
  };
  add("predicted_mean", prediction.mean);
  add("predicted_sd", prediction.sd);
  if (prediction.models > 1) add("models", static_cast<double>(prediction.models));
  add("acquisition", candidate.value);
  add("observations", static_cast<double>(data.scores.size()));
  if (data.pending.rows() > 0) add("pending", static_cast<double>(data.pending.rows()));
  if (model.surrogate.transform.warp() == Warp::kYeoJohnson) add("warp_lambda", model.surrogate.transform.lambda());
  if (jitter > 0.0) add("jitter", jitter);
  if (options_.hyperparameters == study::BoHyperparameters::kMcmc) {
    add("states", static_cast<double>(model.surrogate.states.size()));
    add("likelihoods", model.surrogate.likelihoods);
  }
  return absl::OkStatus();
}

}  // namespace luthier::search
