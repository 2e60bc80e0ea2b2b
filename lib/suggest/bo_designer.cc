#include "lib/suggest/bo_designer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/gp/hyperparameters.h"
#include "lib/suggest/acquisition.h"
#include "lib/suggest/random_designer.h"
#include "lib/suggest/trust_region_step.h"

namespace luthier::suggest {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr int kMinObservations = 2;   // Fewer carry no information about the function's shape.
constexpr double kFoundNoise = 1e-4;  // Above it an objective counts as noisy whatever was declared.
constexpr int kRandomTries = 100;
constexpr double kMaxTableWork = 2e9;  // Settings times n^2 up to which all settings of a finite space are evaluated.
constexpr int32_t kMaxInitialPoints = 10'000;
constexpr int kMaxColumns = 5'000;

int InitialPoints(const study::BoOptions& options, int compact_dim) {
  return options.initial_points > 0 ? options.initial_points : std::max(4, std::min(compact_dim + 1, 20));
}

SurrogateOptions ModelChoices(const study::Encoding& encoding, const study::BoOptions& options) {
  using kernels::Family;
  using kernels::Structure;
  SurrogateOptions result;
  result.noisy = options.noisy;
  const std::vector<int> groups = encoding.ModelGroups();
  std::vector<std::pair<Family, Structure>> kernels;
  switch (options.kernel) {
    case study::BoKernel::kAuto:
      kernels = {{Family::kMatern52, Structure::kJoint},
                 {Family::kMatern52, Structure::kAdditive},
                 {Family::kSquaredExponential, Structure::kPairwise}};
      break;
    case study::BoKernel::kMatern52:
      kernels = {{Family::kMatern52, Structure::kJoint}};
      break;
    case study::BoKernel::kMatern32:
      kernels = {{Family::kMatern32, Structure::kJoint}};
      break;
    case study::BoKernel::kMatern12:
      kernels = {{Family::kMatern12, Structure::kJoint}};
      break;
    case study::BoKernel::kSe:
      kernels = {{Family::kSquaredExponential, Structure::kJoint}};
      break;
    case study::BoKernel::kRq:
      kernels = {{Family::kRationalQuadratic, Structure::kJoint}};
      break;
    case study::BoKernel::kAdditive:
      kernels = {{Family::kMatern52, Structure::kAdditive}};
      break;
    case study::BoKernel::kPairwise:
      kernels = {{Family::kSquaredExponential, Structure::kPairwise}};
      break;
  }
  std::vector<Warp> warps;
  switch (options.warp) {
    case study::BoWarp::kAuto:
      warps = {Warp::kNone, Warp::kYeoJohnson, Warp::kLog};
      break;
    case study::BoWarp::kNone:
      warps = {Warp::kNone};
      break;
    case study::BoWarp::kYeoJohnson:
      warps = {Warp::kNone, Warp::kYeoJohnson};
      break;
    case study::BoWarp::kLog:
      warps = {Warp::kNone, Warp::kLog};
      break;
  }
  for (const auto& [family, structure] : kernels) {
    // With one parameter there is nothing to add up: the structures are the same.
    const Structure used = encoding.compact_dim() < 2 ? Structure::kJoint : structure;
    if (kernels.size() > 1 && used != structure) continue;
    for (Warp warp : warps) {
      // A logarithm turns sums into products: the joint kernel's business.
      if (warp == Warp::kLog && structure != Structure::kJoint && kernels.size() > 1) continue;
      result.choices.push_back({kernels::GroupedShape(family, groups, used), warp});
    }
  }
  return result;
}

absl::Status ExhaustedError() {
  return base::MakeError(absl::StatusCode::kOutOfRange, base::reason::kSpaceExhausted,
                         "every setting of the search space has been tried; widen the space, or set "
                         "algorithm.bo.noisy if repeating a setting gives new information");
}

}  // namespace

absl::Status ValidateBo(const study::StudySpec& spec, const study::BoOptions& options) {
  base::Violations violations;
  if (options.initial_points < 0 || options.initial_points > kMaxInitialPoints) {
    violations.Add(
        "algorithm.bo.initial_points",
        absl::StrCat(options.initial_points, " is not between 0 (chosen from the dimension) and ", kMaxInitialPoints));
  }
  const int columns = study::Encoding(spec.space).model_dim();
  if (columns > kMaxColumns) {
    violations.Add("algorithm.bo", absl::StrCat("the model would have ", columns,
                                                " coordinates (a categorical parameter has one a label); at most ",
                                                kMaxColumns, " are allowed: use fewer labels, or another algorithm"));
  }
  return violations.ToStatus();
}

BoDesigner::BoDesigner(const study::StudySpec& spec, const study::BoOptions& options)
    : encoding_(spec.space),
      goal_(spec.metric.goal),
      seed_(spec.seed),
      options_(options),
      initial_points_(InitialPoints(options, encoding_.compact_dim())),
      design_(encoding_.compact_dim(), spec.seed, "bo/init"),
      surrogate_(ModelChoices(encoding_, options)),
      table_(SettingTable::Create(encoding_)) {
  for (int c = 0; c < encoding_.compact_dim(); ++c) {
    (encoding_.Levels(c).has_value() ? discrete_ : continuous_).push_back(c);
  }
}

std::optional<BoDesigner::Model> BoDesigner::FitModel(const Observations& data, const std::string& carried_text,
                                                      uint64_t ask_index) const {
  const std::optional<SurrogateCarry> carried = ParseCarry(carried_text, surrogate_.choices);
  std::optional<Surrogate> surrogate =
      FitSurrogate(surrogate_, data.observed, data.scores, carried, seed_, ask_index);
  if (!surrogate.has_value()) return std::nullopt;
  gp::Regression& regression = surrogate->regression;
  const Index n = data.scores.size();
  const VectorXd z = surrogate->transform.Forward(data.scores);
  // The record to beat: what was measured; under noise, declared or found, what the model makes of it.
  const bool noisy = options_.noisy || regression.hyperparameters().noise_variance > kFoundNoise;
  const VectorXd level = noisy ? regression.PredictMean(data.observed) : z;
  double best = -std::numeric_limits<double>::infinity();
  for (Index i = 0; i < n; ++i) {
    if (data.complete[static_cast<size_t>(i)]) best = std::max(best, level(i));
  }
  for (Index i = 0; i < data.pending.rows(); ++i) {
    // Believing: the mean stays as it is, the variance shrinks around points under way. Where a record is expected, the
    // next proposal has to beat that: else the same point would look best again.
    const double believed = regression.PredictMean(data.pending.row(i))(0);
    if (regression.Append(data.pending.row(i).transpose(), believed)) best = std::max(best, believed);
  }
  return Model{*std::move(surrogate), best};
}

std::optional<MaximizeCandidate> BoDesigner::Propose(const Model& model, const Observations& data, uint64_t ask_index) const {
  static const double xi = getenv("LXI") ? atof(getenv("LXI")) : 0.0;
  const ImprovementAcquisition acquisition(&model.surrogate.regression, model.best + xi,
                                           options_.acquisition == study::BoAcquisition::kLogEi);
  const double n = static_cast<double>(model.surrogate.regression.size());
  if (table_.has_value() && table_->size() * n * n <= kMaxTableWork) {
    std::vector<bool> excluded = data.excluded;
    if (Exhausted(data)) excluded.assign(excluded.size(), false);  // Only a noisy study comes here then.
    return MaximizeOverTable(acquisition, *table_, excluded);
  }
  MaximizeOptions options;
  if (data.scores.size() > 128) options.screen_points = 512;
  MaximizeResult result =
      Maximize(acquisition, encoding_, data.known, model.surrogate.regression.hyperparameters().lengthscales, seed_, ask_index, options);
  if (result.candidates.empty()) return std::nullopt;
  // In a finite space the best ends may well be settings that were tried; the next best is then better than a random
  // one.
  for (size_t k = 1; table_.has_value() && k < result.candidates.size() && IsTried(data, result.candidates[0].u); ++k) {
    std::swap(result.candidates[0], result.candidates[k]);
  }
  return result.candidates.front();
}

bool BoDesigner::Exhausted(const Observations& data) const {
  return table_.has_value() && std::all_of(data.excluded.begin(), data.excluded.end(), [](bool b) { return b; });
}

Suggestion BoDesigner::Initial(uint64_t ask_index) const {
  Suggestion suggestion;
  suggestion.origin = "init";
  constexpr uint64_t kPoints = uint64_t{1} << math::SobolSequence::kIndexBits;
  suggestion.parameters =
      ask_index == 0 ? encoding_.space().Default() : encoding_.FromCompact(design_.Point((ask_index - 1) % kPoints));
  return suggestion;
}

absl::StatusOr<Suggestion> BoDesigner::OnlySetting(const study::History& history) const {
  if (!history.trials().empty() && !options_.noisy) return ExhaustedError();
  Suggestion suggestion;
  suggestion.origin = history.trials().empty() ? "init" : "repeat";
  suggestion.parameters = encoding_.space().Default();
  return suggestion;
}

absl::StatusOr<Suggestion> BoDesigner::Untried(const Observations& data, uint64_t ask_index, const std::string& origin) const {
  Suggestion suggestion;
  suggestion.origin = origin;
  base::RandomStream random(seed_, "bo/random", ask_index);
  for (int attempt = 0; attempt < kRandomTries; ++attempt) {
    suggestion.parameters = encoding_.Sample(random);
    if (!IsTried(data, encoding_.ToModel(suggestion.parameters))) return suggestion;
  }
  if (table_.has_value()) {
    std::vector<int> free;
    for (int i = 0; i < table_->size(); ++i) {
      if (!data.excluded[static_cast<size_t>(i)]) free.push_back(i);
    }
    if (!free.empty()) {
      suggestion.parameters = table_->Setting(free[random.UniformInt(free.size())]);
      return suggestion;
    }
  }
  // A large space of which a hundred random settings were all tried is as good as exhausted.
  if (!options_.noisy) return ExhaustedError();
  suggestion.origin = "repeat";
  return suggestion;
}

void BoDesigner::Describe(const Model& model, const MaximizeCandidate& candidate, const Observations& data,
                          Suggestion* suggestion) const {
  const gp::Posterior posterior = model.surrogate.regression.Predict(candidate.u.transpose());
  const double mean = posterior.mean(0), deviation = std::sqrt(posterior.variance(0));
  auto add = [&](const char* name, double value) {
    if (std::isfinite(value)) suggestion->details[name] = value;
  };
  const double middle = model.surrogate.transform.Inverse(mean);
  // Score is its own inverse.
  add("predicted_mean", study::Score(goal_, middle));
  add("predicted_sd",
      0.5 * model.surrogate.transform.Inverse(mean + deviation) - 0.5 * model.surrogate.transform.Inverse(mean - deviation));
  add("acquisition", candidate.value);
  add("observations", static_cast<double>(data.scores.size()));
  if (data.pending.rows() > 0) add("pending", static_cast<double>(data.pending.rows()));
  if (model.surrogate.transform.warp() == Warp::kYeoJohnson) add("warp_lambda", model.surrogate.transform.lambda());
  if (model.surrogate.regression.jitter() > 0.0) add("jitter", model.surrogate.regression.jitter());
}

std::string BoDesigner::Format(const Carry& carry) {
  return absl::StrCat(std::string(1, carry.kind), carry.exploration, "|", carry.site, " ",
                      absl::StrJoin(carry.solved, " "), "|", carry.trust_region, "|", carry.surrogate);
}

BoDesigner::Carry BoDesigner::Parse(const std::string& text) {
  Carry carry;
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('|', 3));
  if (parts.size() != 4 || parts[0].size() < 2 || !absl::SimpleAtoi(parts[0].substr(1), &carry.exploration)) {
    return Carry();
  }
  carry.kind = parts[0][0];
  std::vector<std::string> sites = absl::StrSplit(parts[1], ' ', absl::SkipEmpty());
  for (size_t k = 0; k < sites.size(); ++k) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(sites[k], &number)) return Carry();
    if (k == 0) {
      carry.site = number;
    } else {
      carry.solved.push_back(number);
    }
  }
  carry.trust_region = parts[2];
  carry.surrogate = parts[3];
  return carry;
}

std::optional<uint64_t> BoDesigner::ExplorationTurn(const study::History& history, const Observations& data) const {
  if (options_.explore_every == 0) return std::nullopt;
  // Trials beyond the initial design that count: cancelled ones, and those that failed for no fault of their own, are
  // made up for. An exploration whose point had been tried before it came up cost nothing and counts as done.
  uint64_t next = 0, lost = 0, counted = 0;
  for (const study::HistoryTrial& trial : history.trials()) {
    if (!trial.ask_index.has_value()) continue;
    const Carry carry = Parse(trial.carry);
    if (carry.kind == 'i') continue;
    const bool void_trial = trial.state == study::TrialState::kCancelled ||
                            (trial.state == study::TrialState::kFailed && trial.failure != study::FailureKind::kConfig);
    if (!void_trial) ++counted;
    if (carry.kind != 'x') continue;
    next = std::max(next, carry.exploration + 1);
    if (void_trial) ++lost;
  }
  const uint64_t due = (counted + 1) / static_cast<uint64_t>(options_.explore_every);
  while (next - lost < due) {
    const study::Parameters point = ExplorationPoint(encoding_, seed_, next);
    if (options_.noisy || !IsTried(data, encoding_.ToModel(point))) return next;
    ++next;
  }
  return std::nullopt;
}

std::optional<Suggestion> BoDesigner::LocalStep(const study::History& history, const Observations& data,
                                                Carry* carry) const {
  if (options_.noisy || options_.trust_region == study::BoTrustRegion::kOff || continuous_.empty()) return std::nullopt;
  static const int period = getenv("LTR") ? atoi(getenv("LTR")) : 3;
  if (period == 0) return std::nullopt;
  int since = 0;  // Asks since the last step.
  const std::vector<study::HistoryTrial>& trials = history.trials();
  for (size_t t = trials.size(); t > 0 && since < period; --t) {
    if (!trials[t - 1].ask_index.has_value()) continue;
    if (Parse(trials[t - 1].carry).kind == 't') break;
    ++since;
  }
  if (since + 1 < period) return std::nullopt;
  std::map<int64_t, int64_t> climbs;  // Trial to site.
  for (const study::HistoryTrial& trial : trials) {
    const Carry c = Parse(trial.carry);
    climbs[trial.number] = c.kind == 't' ? c.site : trial.number;
  }
  const std::vector<Index> rows = data.CompleteRows();
  if (rows.size() < 2) return std::nullopt;
  std::vector<VectorXd> compact;
  for (Index i : rows) compact.push_back(encoding_.ToCompact(encoding_.FromModel(data.observed.row(i).transpose())));
  const size_t n = rows.size();
  auto score = [&](size_t k) { return data.scores(rows[k]); };
  auto site_of = [&](size_t k) { return climbs[data.number[static_cast<size_t>(rows[k])]]; };
  auto best_of = [&](int64_t site) {
    int best = -1;
    for (size_t k = 0; k < n; ++k) {
      if (site_of(k) == site && (best < 0 || score(k) > score(static_cast<size_t>(best)))) best = static_cast<int>(k);
    }
    return best;
  };
  auto solved = [&](int64_t site) {
    return std::find(carry->solved.begin(), carry->solved.end(), site) != carry->solved.end();
  };
  auto distance = [&](size_t a, size_t b) { return (compact[a] - compact[b]).norm(); };
  static const double kMerge = getenv("LMERGE") ? atof(getenv("LMERGE")) : 0.02;
  static const double kApart = getenv("LAPART") ? atof(getenv("LAPART")) : 0.15;
  static const int kSites = getenv("LSITES") ? atoi(getenv("LSITES")) : 1;
  const double unit = std::sqrt(static_cast<double>(continuous_.size()));
  auto near_solved = [&](size_t k) {
    for (int64_t site : carry->solved) {
      const int best = best_of(site);
      if (best >= 0 && distance(k, static_cast<size_t>(best)) < kMerge * unit) return true;
    }
    return false;
  };
  for (int attempt = 0; attempt < 4; ++attempt) {
    size_t top = 0;
    for (size_t k = 1; k < n; ++k) {
      if (score(k) > score(top)) top = k;
    }
    int64_t site = -1;
    if (!solved(site_of(top)) && !near_solved(top)) {
      site = site_of(top);
    } else if (!kSites) {
      return std::nullopt;
    } else if (carry->site > 0 && !solved(carry->site) && best_of(carry->site) >= 0 &&
               !near_solved(static_cast<size_t>(best_of(carry->site)))) {
      site = carry->site;
    } else {
      if (carry->site > 0 && !solved(carry->site)) carry->solved.push_back(carry->site);
      int start = -1;
      for (size_t k = 0; k < n; ++k) {
        if (solved(site_of(k)) || near_solved(k)) continue;
        if (start >= 0 && score(k) <= score(static_cast<size_t>(start))) continue;
        bool peak = true;
        for (size_t m = 0; m < n && peak; ++m) peak = !(score(m) > score(k) && distance(k, m) < kApart * unit);
        if (peak) start = static_cast<int>(k);
      }
      if (start < 0) return std::nullopt;
      site = site_of(static_cast<size_t>(start));
    }
    const size_t centre = static_cast<size_t>(best_of(site));
    const VectorXd home = compact[centre];
    auto same = [&](const VectorXd& u) {
      return std::all_of(discrete_.begin(), discrete_.end(), [&](int c) { return u(c) == home(c); });
    };
    auto continuous = [&](const VectorXd& u) {
      VectorXd v(static_cast<Index>(continuous_.size()));
      for (size_t k = 0; k < continuous_.size(); ++k) v(static_cast<Index>(k)) = u(continuous_[k]);
      return v;
    };
    TrustRegionData local;
    std::vector<VectorXd> points, pending;
    std::vector<double> scores;
    for (size_t k = 0; k < n; ++k) {
      if (!same(compact[k]) || score(k) > score(centre)) continue;
      points.push_back(continuous(compact[k]));
      scores.push_back(score(k));
    }
    for (Index i = 0; i < data.pending.rows(); ++i) {
      const VectorXd u = encoding_.ToCompact(encoding_.FromModel(data.pending.row(i).transpose()));
      if (same(u)) pending.push_back(continuous(u));
    }
    const Index d = static_cast<Index>(continuous_.size());
    local.points.resize(static_cast<Index>(points.size()), d);
    local.scores.resize(static_cast<Index>(points.size()));
    local.pending.resize(static_cast<Index>(pending.size()), d);
    for (size_t k = 0; k < points.size(); ++k) {
      local.points.row(static_cast<Index>(k)) = points[k];
      local.scores(static_cast<Index>(k)) = scores[k];
    }
    for (size_t k = 0; k < pending.size(); ++k) local.pending.row(static_cast<Index>(k)) = pending[k];
    std::vector<double> numbers;
    if (site == carry->site) {
      for (absl::string_view word : absl::StrSplit(carry->trust_region, ' ', absl::SkipEmpty())) {
        double x = 0.0;
        if (!absl::SimpleAtod(word, &x)) numbers.clear();
        numbers.push_back(x);
      }
    }
    const std::optional<TrustRegionState> state = TrustRegionState::Unpack(numbers, d);
    const std::optional<TrustRegionStep> step = SuggestTrustRegionStep(local, state.value_or(TrustRegionState()));
    if (!step.has_value()) return std::nullopt;
    VectorXd u = home;
    for (size_t k = 0; k < continuous_.size(); ++k) u(continuous_[k]) = step->point(static_cast<Index>(k));
    Suggestion suggestion;
    suggestion.origin = "trust_region";
    suggestion.parameters = encoding_.FromCompact(u);
    if (step->kind == TrustRegionStepKind::kConverged || IsTried(data, encoding_.ToModel(suggestion.parameters))) {
      carry->solved.push_back(site);
      continue;
    }
    carry->kind = 't';
    carry->site = site;
    carry->trust_region.clear();
    for (double x : step->next.Pack()) absl::StrAppendFormat(&carry->trust_region, " %.17g", x);
    suggestion.details["predicted_gain"] = step->predicted_gain;
    suggestion.details["radius"] = step->next.radius;
    suggestion.carry = Format(*carry);
    if (getenv("LDBG")) fprintf(stderr, "  TR site %ld best %.4g (top %.4g) gain %.3g kind %d radius %.2g\n", (long)site, score(centre), score(top), step->predicted_gain, (int)step->kind, step->next.radius);
    return suggestion;
  }
  return std::nullopt;
}

absl::StatusOr<Suggestion> BoDesigner::Suggest(const study::History& history, uint64_t ask_index) {
  if (encoding_.compact_dim() == 0) return OnlySetting(history);
  const Observations all = Collect(history, encoding_, goal_, table_.has_value() ? &*table_ : nullptr);
  const study::HistoryTrial* last = history.LastAskBefore(ask_index);
  Carry carry;
  if (last != nullptr) {
    carry = Parse(last->carry);
    carry.kind = 'a';
    carry.exploration = 0;
  }
  auto replace = [&](const std::string& origin) -> absl::StatusOr<Suggestion> {
    absl::StatusOr<Suggestion> suggestion = Untried(all, ask_index, origin);
    if (suggestion.ok()) suggestion->carry = Format(carry);
    return suggestion;
  };
  if (Exhausted(all) && !options_.noisy) return replace("stuck_random");

  if (ask_index < static_cast<uint64_t>(initial_points_) || all.scores.size() < kMinObservations) {
    carry.kind = 'i';
    Suggestion suggestion = Initial(ask_index);
    suggestion.carry = Format(carry);
    if (IsTried(all, encoding_.ToModel(suggestion.parameters))) return replace("init");
    return suggestion;
  }
  if (const std::optional<uint64_t> index = ExplorationTurn(history, all); index.has_value()) {
    carry.kind = 'x';
    carry.exploration = *index;
    Suggestion suggestion;
    suggestion.origin = "explore";
    suggestion.parameters = ExplorationPoint(encoding_, seed_, *index);
    suggestion.carry = Format(carry);
    return suggestion;
  }
  if (std::optional<Suggestion> step = LocalStep(history, all, &carry); step.has_value()) return *std::move(step);
  const Observations data = Thin(all, seed_, ask_index);
  const std::optional<Model> model = FitModel(data, carry.surrogate, ask_index);
  if (!model.has_value()) return replace("gp_failed");
  const std::optional<MaximizeCandidate> candidate = Propose(*model, data, ask_index);
  if (!candidate.has_value()) return replace("all_random");

  if (getenv("LDBG")) {
    const gp::Posterior q = model->surrogate.regression.Predict(candidate->u.transpose());
    Index b = 0;
    data.scores.maxCoeff(&b);
    fprintf(stderr, "ask %d n %d choice %s %s acq %.3g mean %.3g sd %.3g best %.3g dist %.3g noise %.2g l", (int)ask_index, (int)data.scores.size(),
            kernels::ShapeName(model->surrogate.regression.kernel().shape()).c_str(), WarpName(model->surrogate.transform.warp()).c_str(),
            candidate->value, q.mean(0), std::sqrt(q.variance(0)), model->best, (candidate->u - data.observed.row(b).transpose()).norm(), model->surrogate.regression.hyperparameters().noise_variance);
    for (double l : model->surrogate.regression.hyperparameters().lengthscales) fprintf(stderr, " %.2g", l);
    fprintf(stderr, "\n");
  }
  Suggestion suggestion;
  suggestion.origin = "acq";
  suggestion.parameters = candidate->parameters;
  if (IsTried(all, candidate->u)) {
    if (Exhausted(all)) {
      suggestion.origin = "repeat";  // Noisy: measuring the most promising setting again is the point.
    } else {
      LUTHIER_ASSIGN_OR_RETURN(suggestion, Untried(all, ask_index, "stuck_random"));
    }
  }
  if (suggestion.origin != "stuck_random") Describe(*model, *candidate, data, &suggestion);
  carry.surrogate = FormatCarry(model->surrogate.carry);
  suggestion.carry = Format(carry);
  return suggestion;
}

}  // namespace luthier::suggest
