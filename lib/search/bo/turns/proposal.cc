#include "lib/search/bo/turns/proposal.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/status_macros.h"
#include "lib/math/sobol.h"
#include "lib/search/bo/acquisition/bounded_acquisition.h"
#include "lib/search/bo/acquisition/feasible_acquisition.h"
#include "lib/search/bo/acquisition/pending_information.h"
#include "lib/search/bo/lipschitz/slope_bounds.h"
#include "lib/search/bo/turns/basin_search.h"
#include "lib/search/bo/turns/exploration_points.h"
#include "lib/search/bo/turns/label_detail.h"
#include "lib/study/compact_column.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr double kMaxTableWork = 2e9;  // Settings times n^2 up to which all settings of a finite space are evaluated.
// kWorthwhileGain with labels or switches. A step is then made only if it gains more than the model's proposal
// (bo_designer.cc), and it sees the results of one combination of labels, whereas the model shares what it knows about
// numbers among labels. So the model refines more digits itself.
constexpr double kWorthwhileUnordered = 1e-4;
constexpr double kWorthwhileNoise = 1.0;  // In deviations of the noise, for an objective declared noisy.
// A proposal repeats a tried setting if each model coordinate is this near to it, and the logarithm of the improvement
// that is expected of it, in output deviations, is below the other.
constexpr double kSameSetting = 1e-3, kLogEiOfNothing = -30.0;
constexpr Index kCertificatePoints = 1024;
constexpr Index kAllowedDraws = 256;
constexpr int kStartsOfOthers = 4;

// One search for a proposal: the acquisition that `bounded` holds, and the part of the space. Null pointers stand for
// what there is none of.
struct ProposalSearch {
  const BoStudy& study;
  const Ask& ask;
  const BoModel& model;
  const std::vector<ModelState>& states;
  const BoundedAcquisition* bounded;  // Null if no result keeps the metrics' bounds.
  const TrustBox* box;                // Null for the whole space.
  const std::vector<bool>& excluded;  // True for each row of the table that must not be proposed.
};

// Returns true if local steps refine the incumbent, so that the model need not.
bool Polished(const BoStudy& study, const Ask& ask) {
  return !study.options.SaidNoisy() && study.options.trust_region != study::BoTrustRegion::kOff &&
         !study.table.has_value() && ask.in_doubt.empty();
}

// Returns the smallest improvement on the incumbent that counts, in output deviations.
double Margin(const BoStudy& study, const Ask& ask, const gp::Regression& state) {
  // Under the first rules a gain had to exceed what the noise hides, which explores too much where noise is large.
  if (study.options.SaidNoisy()) {
    return study.options.rules >= 1 ? 0.0 : kWorthwhileNoise * std::sqrt(state.hyperparameters().noise_variance);
  }
  if (!Polished(study, ask)) return 0.0;
  return study::AnyUnordered(study.encoding) ? kWorthwhileUnordered : kWorthwhileGain;
}

// Returns the model's states, and the values that a proposal must exceed under them.
std::vector<ModelState> StatesOf(const BoStudy& study, const Ask& ask, const BoModel& model) {
  std::vector<ModelState> states;
  for (size_t s = 0; s < model.best.size(); ++s) {
    const gp::Regression& state = model.surrogate.states[s];
    states.push_back({&state, model.best[s] + Margin(study, ask, state)});
  }
  return states;
}

absl::StatusOr<BoundedAcquisition> BoundedOf(const BoStudy& study, const Ask& ask, const BoModel& model,
                                             const std::vector<ModelState>& states) {
  std::vector<Fantasies> fantasies = model.fantasies;
  for (size_t s = 0; s < fantasies.size(); ++s) fantasies[s].best.array() += Margin(study, ask, *states[s].regression);
  return BoundedAcquisition::Create(study.options,
                                    {.data = ask.data,
                                     .transform = model.surrogate.transform,
                                     .coordinates = study.encoding.compact_dim(),
                                     .states = states,
                                     .fantasies = std::move(fantasies)},
                                    KeyOf(study, ask), ask.stop);
}

// Returns true if the search may go on to other basins. Only expected improvement tells when nothing is left to gain.
// With whole gradients climbs are short, and their starts reach the basins.
bool HasBasins(const ProposalSearch& search) {
  const study::BoOptions& options = search.study.options;
  const bool improvement =
      options.acquisition == study::BoAcquisition::kLogEi || options.acquisition == study::BoAcquisition::kEi;
  const std::vector<gp::Regression>& states = search.model.surrogate.states;
  return Polished(search.study, search.ask) && improvement && states.size() == 1 && search.model.fantasies.empty() &&
         search.box == nullptr && search.ask.data.slopes.empty() &&
         states.front().hyperparameters().noise_variance <= kFoundNoise;
}

// Returns the maximum of `acquisition` over a space that is not enumerated.
absl::StatusOr<MaximizeResult> MaximizeOverSpace(const ProposalSearch& search, const AcquisitionFunction& acquisition,
                                                 Proposal* proposal) {
  const BoStudy& study = search.study;
  const base::StopToken& stop = search.ask.stop;
  MaximizeOptions options;
  if (search.model.surrogate.states.front().rows() > 128) options.screen_points = 512;
  options.box = search.box;
  const auto maximize = [&](const AcquisitionFunction& function, const VectorXd& scale) {
    if (&function != &acquisition) {  // Other basins cost more, and need no last digits.
      options.screen_points = 512;
      options.starts = kStartsOfOthers;
    }
    return study.options.maximizer == study::BoMaximizer::kDirect
               ? MaximizeByDirect(function, study.encoding, stop)
               : Maximize(function, study.encoding, search.ask.data.known, scale, KeyOf(study, search.ask), options,
                          stop);
  };
  if (!HasBasins(search)) return maximize(acquisition, search.model.surrogate.next.theta.lengthscales);
  BasinSearch basins(study, search.ask, search.model, *search.bounded, &proposal->basins);
  LUTHIER_ASSIGN_OR_RETURN(MaximizeResult result, basins.Run(acquisition, maximize));
  if (basins.basins_left_out() > 0) {
    proposal->details["known_hills"] = static_cast<double>(basins.basins_left_out());
  }
  return result;
}

// Sets proposal->candidate to the setting that maximises `acquisition`: a small finite space is enumerated; otherwise
// a search maximises it. Leaves it out if no value is finite.
absl::Status TakeMaximum(const ProposalSearch& search, const AcquisitionFunction& acquisition, Proposal* proposal) {
  const base::StopToken& stop = search.ask.stop;
  std::optional<MaximizeCandidate>& candidate = proposal->candidate;
  const std::vector<gp::Regression>& states = search.model.surrogate.states;
  const double n = static_cast<double>(states.front().rows());
  const double prediction = n * n * static_cast<double>(states.size());  // Work of one prediction.
  const SettingTable* const table = search.study.Table();
  if (table != nullptr && table->size() * prediction <= kMaxTableWork) {
    LUTHIER_ASSIGN_OR_RETURN(candidate, MaximizeOverTable(acquisition, *table, search.excluded, stop));
    return absl::OkStatus();
  }
  LUTHIER_ASSIGN_OR_RETURN(MaximizeResult result, MaximizeOverSpace(search, acquisition, proposal));
  // In a finite space the best ends of searches may have been tried; the next best untried one is then better than a
  // random one.
  std::vector<MaximizeCandidate>& ends = result.candidates;
  for (size_t k = 1; table != nullptr && k < ends.size() && IsTried(search.ask.data, ends[0].u); ++k) {
    std::swap(ends[0], ends[k]);
  }
  if (!ends.empty()) candidate = std::move(ends.front());
  return absl::OkStatus();
}

// Does what TakeMaximum does. Where information about pending trials counts, only settings that give some are
// candidates, unless there is none, as in a finite space that is nearly used up.
absl::Status TakeInformative(const ProposalSearch& search, const AcquisitionFunction& acquisition, Proposal* proposal) {
  if (!search.model.information.empty()) {
    std::vector<InformationLevel> levels;
    for (size_t s = 0; s < search.states.size(); ++s) {
      levels.push_back({search.states[s].regression, search.model.information[s]});
    }
    LUTHIER_RETURN_IF_ERROR(TakeMaximum(search, PendingInformation(&acquisition, std::move(levels)), proposal));
  }
  return proposal->candidate.has_value() ? absl::OkStatus() : TakeMaximum(search, acquisition, proposal);
}

// Adds how often the bounds mattered, and the share of the space that cannot hold an improvement if they are right.
absl::Status AddBoundDetails(const ProposalSearch& search, Proposal* proposal) {
  if (search.bounded == nullptr) return absl::OkStatus();
  const BoundedAcquisition& bounded = *search.bounded;
  if (bounded.bounds() == nullptr || !bounded.bounds()->active()) return absl::OkStatus();
  const study::Encoding& encoding = search.study.encoding;
  proposal->details["bind_rate"] = bounded.bind_count().rate();
  if (std::isfinite(bounded.lipschitz())) proposal->details["lipschitz"] = bounded.lipschitz();
  MatrixXd sample(kCertificatePoints, encoding.model_dim());
  const math::SobolSequence sobol(encoding.compact_dim(), search.study.seed, "bo/certificate");
  for (Index i = 0; i < sample.rows(); ++i) {
    sample.row(i) = encoding.CompactToModel(sobol.Point(static_cast<uint64_t>(i)));
  }
  LUTHIER_ASSIGN_OR_RETURN(const ExclusionShare share,
                           ExcludedShare(*bounded.bounds(), sample, bounded.incumbent(), 0.0, search.ask.stop));
  proposal->details["excluded_share"] = share.share;
  return absl::OkStatus();
}

// Returns true if the search has rules against repetitions, and the candidate is one. A study that ends once it is
// answered soon has no use for settings elsewhere.
bool Repeats(const ProposalSearch& search, const MaximizeCandidate& candidate) {
  const study::BoOptions& options = search.study.options;
  const bool logarithm = options.acquisition == study::BoAcquisition::kLogEi;
  if (options.rules < 2 || search.study.until_answered ||
      !(logarithm || options.acquisition == study::BoAcquisition::kEi))
    return false;
  if (!Polished(search.study, search.ask) || search.states.size() != 1 || search.box != nullptr) return false;
  if ((logarithm ? candidate.value : std::log(candidate.value)) >= kLogEiOfNothing) return false;
  const MatrixXd& tried = search.ask.all.tried;
  if (tried.rows() == 0) return false;
  return (tried.rowwise() - candidate.u.transpose()).cwiseAbs().rowwise().maxCoeff().minCoeff() < kSameSetting;
}

// Puts a setting far from all tried ones in the place of a repetition, unless there is none.
absl::Status Spread(const ProposalSearch& search, Proposal* proposal) {
  const study::Encoding& encoding = search.study.encoding;
  LUTHIER_ASSIGN_OR_RETURN(study::Parameters setting, FarthestPoint(encoding, search.ask.all, search.study.seed,
                                                                    search.ask.index, search.ask.stop));
  VectorXd u = encoding.ToModel(setting);
  if (IsTried(search.ask.all, u)) return absl::OkStatus();
  proposal->candidate->parameters = std::move(setting);
  proposal->candidate->u = std::move(u);
  proposal->origin = "spread";
  return absl::OkStatus();
}

// Returns the candidate where bounds reject all others (Propose).
absl::StatusOr<MaximizeCandidate> BestAllowed(const ProposalSearch& search) {
  const study::Encoding& encoding = search.study.encoding;
  const OutputBounds& bounds = *search.bounded->bounds();
  const double incumbent = search.bounded->incumbent();
  const AskKey key = KeyOf(search.study, search.ask);
  const base::StopToken& stop = search.ask.stop;
  MatrixXd u(kAllowedDraws, encoding.model_dim());
  for (Index i = 0; i < u.rows(); ++i) {
    base::RandomStream random = key.Stream("bo/allowed", static_cast<uint32_t>(i));
    u.row(i) = encoding.ToModel(encoding.Sample(random)).transpose();
  }
  VectorXd lower, upper, mean = VectorXd::Zero(u.rows());
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  bounds.Evaluate(u, &lower, &upper);
  for (const ModelState& state : search.states) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    mean += state.regression->PredictMean(u);
  }
  MaximizeCandidate candidate;
  Index best = -1;
  for (Index i = 0; i < u.rows(); ++i) {
    if (upper(i) < incumbent || !std::isfinite(mean(i)) || (best >= 0 && mean(i) <= mean(best))) continue;
    if (!IsTried(search.ask.data, u.row(i).transpose())) best = i;
  }
  if (best >= 0) {
    candidate.parameters = encoding.FromModel(u.row(best).transpose());
  } else {
    LUTHIER_ASSIGN_OR_RETURN(candidate.parameters, LipoPoint(encoding, bounds, incumbent, key.seed,
                                                             static_cast<uint64_t>(kExplorations) + key.index, stop));
  }
  candidate.u = encoding.ToModel(candidate.parameters);
  return candidate;
}

}  // namespace

absl::StatusOr<Proposal> Propose(const BoStudy& study, const Ask& ask, const BoModel& model) {
  Proposal proposal;
  proposal.basins = ask.state->basins;
  std::optional<TrustBox> box;
  if (ask.box.has_value() && ask.box->centre.size() > 0) {
    box = BoxOf(*ask.box, model.surrogate.next.theta.lengthscales, study.encoding);
  }
  const TrustBox* const inside = box.has_value() ? &*box : nullptr;
  std::vector<bool> excluded = ask.data.excluded;
  if (Exhausted(ask.data)) excluded.assign(excluded.size(), false);  // Only a noisy study comes here.
  const std::vector<ModelState> states = StatesOf(study, ask, model);
  std::optional<BoundedAcquisition> bounded;
  if (model.HasIncumbent()) {
    LUTHIER_ASSIGN_OR_RETURN(bounded, BoundedOf(study, ask, model, states));
    if (bounded->acquisition() == nullptr) return proposal;
  }
  const AcquisitionFunction* acquisition = bounded.has_value() ? bounded->acquisition() : nullptr;
  std::optional<FeasibleAcquisition> weighted;
  if (ask.Feasible() != nullptr || !model.bounds.empty()) {
    weighted.emplace(acquisition, ask.Feasible(), study.options.acquisition,
                     FailureValue(model.surrogate.transform.Forward(ask.data.scores)),
                     acquisition == nullptr ? Attainable(model.bounds) : model.bounds);
    acquisition = &*weighted;
  }
  if (inside != nullptr) proposal.details["box_side"] = ask.box->side;
  const ProposalSearch search{study, ask, model, states, bounded.has_value() ? &*bounded : nullptr, inside, excluded};
  LUTHIER_RETURN_IF_ERROR(TakeInformative(search, *acquisition, &proposal));
  LUTHIER_RETURN_IF_ERROR(AddBoundDetails(search, &proposal));
  if (!proposal.candidate.has_value() && bounded.has_value() && bounded->bounds() != nullptr) {
    proposal.origin = "ar_empty";
    LUTHIER_ASSIGN_OR_RETURN(proposal.candidate, BestAllowed(search));
  }
  if (proposal.candidate.has_value() && Repeats(search, *proposal.candidate)) {
    LUTHIER_RETURN_IF_ERROR(Spread(search, &proposal));
  }
  return proposal;
}

absl::StatusOr<Proposal> ProposeLabel(const BoStudy& study, const Ask& ask, const BoModel& model, const DueLabel& due) {
  Proposal proposal;
  proposal.origin = "label";
  proposal.basins = ask.state->basins;
  std::vector<ModelState> states = StatesOf(study, ask, model);
  if (due.best.has_value()) {
    const double best = model.surrogate.transform.Forward(*due.best);
    for (ModelState& state : states) state.best = std::min(state.best, best);
  } else {
    // Nothing is known of the label: what most results give is to be beaten.
    VectorXd outputs = model.surrogate.transform.Forward(ask.data.scores);
    std::nth_element(outputs.begin(), outputs.begin() + outputs.size() / 2, outputs.end());
    for (ModelState& state : states) state.best = std::min(state.best, outputs(outputs.size() / 2));
  }
  std::optional<BoundedAcquisition> bounded;
  if (model.HasIncumbent()) {
    LUTHIER_ASSIGN_OR_RETURN(bounded, BoundedOf(study, ask, model, states));
    if (bounded->acquisition() == nullptr) return proposal;
  }
  const AcquisitionFunction* acquisition = bounded.has_value() ? bounded->acquisition() : nullptr;
  std::optional<FeasibleAcquisition> weighted;
  if (ask.Feasible() != nullptr || !model.bounds.empty()) {
    weighted.emplace(acquisition, ask.Feasible(), study.options.acquisition,
                     FailureValue(model.surrogate.transform.Forward(ask.data.scores)),
                     acquisition == nullptr ? Attainable(model.bounds) : model.bounds);
    acquisition = &*weighted;
  }
  std::vector<bool> excluded = ask.data.excluded;
  const int parameter = study.encoding.compact_parameter(due.coordinate);
  const std::string& name = study.encoding.space().parameters()[static_cast<size_t>(parameter)].name;
  for (size_t i = 0; i < excluded.size(); ++i) {
    const study::Parameters setting = study.Table()->Setting(static_cast<int>(i));
    const auto at = setting.find(name);
    excluded[i] =
        excluded[i] || at == setting.end() || study.encoding.space().LevelOf(parameter, at->second) != due.level;
  }
  const ProposalSearch search{study,     ask,     model, states, bounded.has_value() ? &*bounded : nullptr,
                              &due.held, excluded};
  LUTHIER_RETURN_IF_ERROR(TakeMaximum(search, *acquisition, &proposal));
  if (proposal.candidate.has_value() && IsTried(ask.all, proposal.candidate->u)) proposal.candidate.reset();
  proposal.details[absl::StrCat(kLabelDetail, name)] = due.trials;
  return proposal;
}

absl::Status Describe(const BoStudy& study, const Ask& ask, const BoModel& model, const MaximizeCandidate& candidate,
                      Suggestion* suggestion) {
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<Alternative> alternatives, AlternativesTo(study, ask, model));
  const Prediction prediction = PredictAt(model, alternatives, study.goal, candidate.u, Extrapolation::kAny);
  double jitter = 0.0;
  for (const gp::Regression& regression : model.surrogate.states) jitter = std::max(jitter, regression.jitter());
  auto add = [&](const char* name, double value) {
    if (std::isfinite(value)) suggestion->details[name] = value;
  };
  add("predicted_mean", prediction.mean);
  add("predicted_sd", prediction.sd);
  if (prediction.models > 1) add("models", static_cast<double>(prediction.models));
  add("acquisition", candidate.value);
  if (!model.bounds.empty()) {
    add("p_within_bounds", std::exp(LogProbabilitiesWithin(model.bounds, candidate.u.transpose())(0)));
  }
  for (const MetricModel& metric : model.metrics) AddExpectation(study, metric, candidate.u, &suggestion->details);
  for (size_t k = 0; k < model.bounds.size(); ++k) {
    AddBoundKept(study, ask.in_doubt[k], model.bounds[k], candidate.u, &suggestion->details);
  }
  add("observations", static_cast<double>(ask.data.scores.size()));
  if (ask.data.pending.rows() > 0) add("pending", static_cast<double>(ask.data.pending.rows()));
  if (model.surrogate.transform.warp() == Warp::kYeoJohnson) add("warp_lambda", model.surrogate.transform.lambda());
  if (jitter > 0.0) add("jitter", jitter);
  if (study.options.hyperparameters == study::BoHyperparameters::kMcmc) {
    add("states", static_cast<double>(model.surrogate.states.size()));
    add("likelihoods", model.surrogate.likelihoods);
  }
  return absl::OkStatus();
}

}  // namespace luthier::search
