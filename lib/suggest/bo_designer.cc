#include "lib/suggest/bo_designer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/pace.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/suggest/bo_options.h"
#include "lib/suggest/bounded_acquisition.h"
#include "lib/suggest/compact_column.h"
#include "lib/suggest/exploration.h"
#include "lib/suggest/gradient_check.h"
#include "lib/suggest/hills.h"
#include "lib/suggest/local_search.h"
#include "lib/suggest/random_designer.h"

namespace luthier::suggest {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr int kMinObservations = 2;  // Fewer carry no information about the function's shape.
constexpr int kRandomTries = 100;
constexpr size_t kTriesEach = 4;  // Of those that open a conditional parameter, where the others were all tried.
constexpr double kUnknownLengthscale = 0.3;  // Before any model was fitted.
// Results for each coordinate (and one) before climbing begins. Climbs from the first results start in whichever basin
// came first: half of the runs on Hartmann-6 then ended in its second-best one, with 2 to 4 few did.
constexpr int kResultsToClimb = 4;
// Local steps between two proposals of the model: so many, and further ones after a step that gave a record. With whole
// gradients steps are better.
constexpr int kSteps = 1, kGradientSteps = 2;
constexpr int kStepsAfterRecord = 3;
// Each record that a step gives while the model gives none earns one more, up to so many.
constexpr int kMaxSteps = 5, kMaxGradientSteps = 6;
constexpr int64_t kMinCheck = 5;  // Results before slopes are held against values.
// A local step that is a gamble is not made: its climb goes on as though it had failed, with a smaller step, at most so
// many times.
constexpr int kRetreats = 6;
// Where steps are weighed against the model's proposals. While the model looks for other hills than the record's, whose
// promise is not one of a record, a step of at least so many output deviations is made, and a smaller one every fourth
// time: proposals that it waits for between two.
constexpr double kStepWorthwhile = 5e-5;
constexpr int kStepWaits = 3;
constexpr int64_t kReadingATrial = 100;  // Operations.

absl::Status ExhaustedError() {
  return base::MakeError(absl::StatusCode::kOutOfRange, base::reason::kSpaceExhausted,
                         "every setting of the search space has been tried; widen the space, or set the algorithm's "
                         "option noisy if repeating a setting gives new information");
}

}  // namespace

BoDesigner::BoDesigner(const study::StudySpec& spec, const study::BoOptions& options)
    : encoding_(spec.space),
      goal_(spec.metric.goal),
      seed_(spec.seed),
      options_(options),
      initial_points_(InitialPoints(options, encoding_.compact_dim())),
      weighs_steps_(AnyUnordered(encoding_) && (options.acquisition == study::BoAcquisition::kLogEi ||
                                                options.acquisition == study::BoAcquisition::kEi)),
      explores_first_(options.explore_every > 0 && options.exploration != study::BoExploration::kFarthest),
      design_(encoding_.compact_dim(), spec.seed, "bo/init"),
      surrogate_(ModelsFor(encoding_, options)),
      units_(encoding_, spec.metric.goal),
      table_(SettingTable::Create(encoding_)),
      model_turn_(&encoding_, table_.has_value() ? &*table_ : nullptr, &surrogate_, options, goal_, seed_) {}

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

absl::StatusOr<Suggestion> BoDesigner::Untried(const Observations& data, uint64_t ask_index, const std::string& origin,
                                               const FeasibilityModel* feasible, const base::StopToken& stop) const {
  Suggestion suggestion;
  suggestion.origin = origin;
  base::RandomStream random(seed_, "bo/random", ask_index);
  for (int attempt = 0; attempt < kRandomTries; ++attempt) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    suggestion.parameters = encoding_.Sample(random);
    const VectorXd u = encoding_.ToModel(suggestion.parameters);
    // Half of the tries for one that is likely to succeed.
    if (feasible != nullptr && attempt < kRandomTries / 2 && feasible->Probability(u) < feasible->doubtful()) continue;
    if (!IsTried(data, u)) return suggestion;
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
  // Conditions may leave nearly all of random search to a few settings: one parameter after the other is opened.
  const study::SearchSpace& space = encoding_.space();
  std::vector<int> conditional;
  for (int i = 0; i < space.size(); ++i) {
    if (space.parent(i) >= 0) conditional.push_back(i);
  }
  const size_t tries = conditional.empty() ? 0 : std::max<size_t>(kRandomTries, kTriesEach * conditional.size());
  for (size_t attempt = 0; attempt < tries; ++attempt) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    suggestion.parameters = SampleWith(encoding_, conditional[attempt % conditional.size()], random);
    if (!IsTried(data, encoding_.ToModel(suggestion.parameters))) return suggestion;
  }
  // A large space of which so many random settings were all tried is as good as exhausted.
  if (!options_.noisy) return ExhaustedError();
  suggestion.origin = "repeat";
  return suggestion;
}

absl::StatusOr<std::optional<int64_t>> BoDesigner::ExplorationTurn(const study::History& history,
                                                                   const Observations& data, bool design,
                                                                   const base::StopToken& stop) const {
  if (options_.explore_every == 0) return std::nullopt;
  // Trials that count: cancelled ones, and those that failed for no fault of their own, are made up for; points of an
  // initial design that are none of random search's do not count. An exploration whose point had been tried before it
  // came up cost nothing and counts as done.
  int64_t next = 0, lost = 0, counted = 0;
  std::vector<const study::Parameters*> done;
  base::Pace pace(stop);
  for (const study::HistoryTrial& trial : history.trials()) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kReadingATrial));
    const bool nothing = trial.state == study::TrialState::kCancelled ||
                         (trial.state == study::TrialState::kFailed && trial.failure != study::FailureKind::kConfig);
    if (!nothing) done.push_back(&trial.parameters);
    if (!trial.ask_index.has_value()) continue;
    const BoCarry carry = ParseBoCarryHead(trial.carry);
    if (carry.kind == 'i' && !explores_first_) continue;
    if (!nothing) ++counted;
    if (carry.kind != 'x') continue;
    next = std::max(next, carry.index + 1);
    if (nothing) ++lost;
  }
  const auto before = [](const study::Parameters* a, const study::Parameters* b) { return *a < *b; };
  const int64_t due = design ? next - lost + kRandomTries : (counted + 1) / options_.explore_every;
  bool sorted = false;
  while (next - lost < due) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    if (options_.exploration == study::BoExploration::kFarthest) return next;  // Its points are its own.
    const study::Parameters point = ExplorationPoint(encoding_, seed_, static_cast<uint64_t>(next));
    if (options_.noisy) return next;
    if (!sorted) {
      // Almost always the first point is new, and nothing needs sorting.
      if (!IsTried(data, encoding_.ToModel(point))) return next;
      std::sort(done.begin(), done.end(), before);
      sorted = true;
    }
    if (!std::binary_search(done.begin(), done.end(), &point, before)) return next;
    ++next;
  }
  return std::nullopt;
}

absl::StatusOr<Suggestion> BoDesigner::Explore(const Observations& data, int64_t exploration,
                                               const base::StopToken& stop) const {
  const uint64_t index = static_cast<uint64_t>(exploration);
  Suggestion suggestion;
  suggestion.origin = "explore";
  if (options_.exploration == study::BoExploration::kFarthest) {
    LUTHIER_ASSIGN_OR_RETURN(suggestion.parameters, FarthestPoint(encoding_, data, seed_, index, stop));
    if (!IsTried(data, encoding_.ToModel(suggestion.parameters))) return suggestion;
  } else if (options_.exploration == study::BoExploration::kLipo && !data.CompleteRows().empty()) {
    const OutputTransform plain = OutputTransform::Standard(data.scores);
    LUTHIER_ASSIGN_OR_RETURN(const SlopeBounds slopes, BoundsFor(options_, data, plain, 0.0, stop));
    double record = -std::numeric_limits<double>::infinity();
    for (Index row : data.CompleteRows()) record = std::max(record, plain.Forward(data.scores(row)));
    LUTHIER_ASSIGN_OR_RETURN(suggestion.parameters, LipoPoint(encoding_, *slopes.bounds, record, seed_, index, stop));
    if (options_.noisy || !IsTried(data, encoding_.ToModel(suggestion.parameters))) return suggestion;
  }
  suggestion.parameters = ExplorationPoint(encoding_, seed_, index);
  return suggestion;
}

absl::StatusOr<std::optional<BoDesigner::LocalMove>> BoDesigner::LocalTurn(const Ask& ask) const {
  const Observations& data = ask.data;
  const FeasibilityModel* const feasible = ask.Feasible();
  BoCarry* const carry = ask.carry;
  const base::StopToken& stop = ask.stop;
  if (options_.noisy || options_.trust_region == study::BoTrustRegion::kOff || table_.has_value()) return std::nullopt;
  // Whole gradients count as further results, and make better steps.
  Index facts = data.scores.size();
  for (const ScoreSlopes& slopes : data.slopes) facts += static_cast<Index>(slopes.axes.size());
  const bool gradients = facts > data.scores.size();
  if (facts < kResultsToClimb * (encoding_.compact_dim() + 1)) return std::nullopt;
  std::map<int64_t, int64_t> climbs;
  int run = 0;          // Steps since the last ask that was neither a step nor explored.
  int earned = 0;       // Records of steps since the model's last one.
  bool record = false;  // Whether the last step gave one.
  double best = -std::numeric_limits<double>::infinity();
  base::Pace pace(stop);
  for (const study::HistoryTrial& trial : ask.history.trials()) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kReadingATrial));
    bool better = false;
    if (trial.state == study::TrialState::kComplete) {
      const double score = study::Score(goal_, *trial.value);
      better = score > best;
      best = std::max(best, score);
    }
    if (!trial.ask_index.has_value()) continue;
    const BoCarry past = ParseBoCarryHead(trial.carry);
    if (past.kind == 't') {
      ++run;
      record = better;
      if (better) ++earned;
      climbs[trial.number] = past.index;
    } else if (past.kind != 'x') {
      run = 0;
      if (better && past.kind == 'a') earned = 0;
    }
  }
  const HillsCarry hills = ParseHillsCarry(carry->hills, surrogate_.choices.front().shape.groups);
  std::optional<int64_t> elsewhere;
  if (hills.away) elsewhere = hills.elsewhere;
  const int steps = gradients ? kGradientSteps : kSteps, most = gradients ? kMaxGradientSteps : kMaxSteps;
  int allowed = steps;
  if (!hills.away) allowed = std::min(most, steps + earned);
  if (record) allowed = std::max(allowed, gradients ? kMaxGradientSteps : kStepsAfterRecord);
  if (run >= allowed) return std::nullopt;
  LocalSearchCarry local = ParseLocalSearchCarry(carry->local);
  const std::optional<SurrogateCarry> model = ParseCarry(carry->surrogate, surrogate_.choices);
  const VectorXd lengthscales =
      model.has_value() ? model->theta.lengthscales : VectorXd::Constant(encoding_.compact_dim(), kUnknownLengthscale);
  LUTHIER_ASSIGN_OR_RETURN(std::optional<LocalStep> step,
                           SuggestLocalStep(data, climbs, encoding_, lengthscales, &local, elsewhere, stop));
  double chance = 1.0;
  if (feasible != nullptr) {
    for (int retreat = 0; step.has_value(); ++retreat) {
      chance = feasible->Probability(encoding_.ToModel(step->parameters));
      if (chance >= feasible->doubtful()) break;
      local = step->next;
      step.reset();
      if (retreat == kRetreats) break;
      LUTHIER_ASSIGN_OR_RETURN(step, SuggestLocalStep(data, climbs, encoding_, lengthscales, &local, elsewhere, stop));
    }
  }
  if (!step.has_value()) {
    carry->local = FormatCarry(local);
    return std::nullopt;
  }
  LocalMove move;
  move.predicted_end = step->next.last().state.anchor + step->predicted_gain;
  move.carry = *carry;
  move.carry.kind = 't';
  move.carry.index = step->next.last().site;
  move.carry.local = FormatCarry(step->next);
  Suggestion& suggestion = move.suggestion;
  suggestion.origin = "trust_region";
  suggestion.parameters = step->parameters;
  suggestion.details["predicted_gain"] = step->predicted_gain;
  suggestion.details["radius"] = step->next.last().state.radius;
  suggestion.details["site"] = static_cast<double>(step->next.last().site);
  if (feasible != nullptr) suggestion.details["p_feasible"] = chance;
  return std::optional<LocalMove>(std::move(move));
}

bool BoDesigner::PrefersStep(const Ask& ask, const LocalMove& move, const BoModel& model,
                             const MaximizeCandidate& candidate, bool away) const {
  double record = -std::numeric_limits<double>::infinity();
  for (const Index row : ask.data.CompleteRows()) record = std::max(record, ask.data.scores(row));
  const double end = move.predicted_end;
  const OutputTransform& transform = model.surrogate.transform;
  const double worth = end > record ? transform.Forward(end) - transform.Forward(record) : 0.0;
  if (!away) {
    const bool logarithm = options_.acquisition == study::BoAcquisition::kLogEi;
    return worth > (logarithm ? std::exp(candidate.value) : candidate.value);
  }
  if (worth > kStepWorthwhile) return true;
  int waited = 0;
  for (const study::HistoryTrial& trial : ask.history.trials()) {
    if (!trial.ask_index.has_value()) continue;
    const char kind = ParseBoCarryHead(trial.carry).kind;
    waited = kind == 't' ? 0 : waited + (kind == 'a' ? 1 : 0);
  }
  return waited >= kStepWaits;
}

absl::Status BoDesigner::TakeSlopes(const study::History& history, Observations* data, BoCarry* carry,
                                    uint64_t ask_index, const base::StopToken& stop) const {
  std::vector<int32_t> reporters;
  bool any = false;
  data->slopes.clear();
  base::Pace pace(stop);
  for (size_t i = 0; i < data->number.size(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess * (1 + encoding_.model_dim())));
    const study::HistoryTrial& trial = history.trials()[static_cast<size_t>(data->number[i] - 1)];
    data->slopes.emplace_back();
    if (data->complete[i] && trial.gradient) data->slopes.back() = units_.FromUser(*trial.gradient, trial.parameters);
    reporters.push_back(trial.reporter);
    any = any || !data->slopes.back().empty();
  }
  if (!any) {
    data->slopes.clear();
    return absl::OkStatus();
  }
  const int64_t n = static_cast<int64_t>(history.finished().size());
  if (n >= kMinCheck && n >= carry->checked + std::max<int64_t>(1, carry->checked / 20)) {
    LUTHIER_ASSIGN_OR_RETURN(carry->set_aside, ContradictingReporters(*data, reporters, surrogate_, carry->set_aside,
                                                                      seed_, ask_index, stop));
    carry->checked = n;
  }
  any = false;
  for (size_t i = 0; i < reporters.size(); ++i) {
    if (std::binary_search(carry->set_aside.begin(), carry->set_aside.end(), reporters[i])) data->slopes[i] = {};
    any = any || !data->slopes[i].empty();
  }
  if (!any) data->slopes.clear();
  return absl::OkStatus();
}

absl::Status BoDesigner::AddGradients(const study::History& history, const BoCarry& carry, uint64_t ask_index,
                                      Suggestion* suggestion, const base::StopToken& stop) const {
  if (options_.gradients == study::BoGradients::kDirectional) {
    LUTHIER_ASSIGN_OR_RETURN(suggestion->direction,
                             units_.RandomDirection(suggestion->parameters, seed_, ask_index, stop));
  }
  if (carry.set_aside.empty()) return absl::OkStatus();
  for (const study::HistoryTrial& trial : history.trials()) {
    if (trial.state == study::TrialState::kComplete && trial.gradient &&
        std::binary_search(carry.set_aside.begin(), carry.set_aside.end(), trial.reporter)) {
      suggestion->set_aside.push_back(trial.number);
    }
  }
  suggestion->details["gradients_set_aside"] = static_cast<double>(suggestion->set_aside.size());
  return absl::OkStatus();
}

absl::StatusOr<Suggestion> BoDesigner::Suggest(const study::History& history, uint64_t ask_index,
                                               const base::StopToken& stop) {
  if (encoding_.compact_dim() == 0) return OnlySetting(history);
  BoCarry carry;
  if (const study::HistoryTrial* last = history.LastAskBefore(ask_index); last != nullptr) {
    carry = ParseBoCarry(last->carry);
    carry.kind = 'a';
    carry.index = 0;
  }
  LUTHIER_ASSIGN_OR_RETURN(Suggestion suggestion, Choose(history, ask_index, &carry, stop));
  suggestion.carry = FormatCarry(carry);
  if (options_.gradients != study::BoGradients::kOff) {
    LUTHIER_RETURN_IF_ERROR(AddGradients(history, carry, ask_index, &suggestion, stop));
  }
  return suggestion;
}

absl::StatusOr<Suggestion> BoDesigner::Choose(const study::History& history, uint64_t ask_index, BoCarry* carry,
                                              const base::StopToken& stop) {
  Ask ask{.history = history, .index = ask_index, .carry = carry, .stop = stop};
  LUTHIER_RETURN_IF_ERROR(CollectResults(&ask));
  if (Exhausted(ask.all) && !options_.noisy) return Replacement(ask, "stuck_random");
  LUTHIER_RETURN_IF_ERROR(TakeData(&ask));
  LUTHIER_ASSIGN_OR_RETURN(std::optional<Suggestion> planned, PlannedTurn(ask));
  if (planned.has_value()) return *std::move(planned);
  LUTHIER_RETURN_IF_ERROR(FitFeasibility(&ask));
  LUTHIER_ASSIGN_OR_RETURN(std::optional<LocalMove> move, LocalTurn(ask));
  if (move.has_value() && !weighs_steps_) {
    *carry = std::move(move->carry);
    return std::move(move->suggestion);
  }
  LUTHIER_ASSIGN_OR_RETURN(std::optional<Suggestion> restart, BoxTurn(&ask));
  if (restart.has_value()) return *std::move(restart);
  return Propose(ask, std::move(move));
}

absl::Status BoDesigner::CollectResults(Ask* ask) const {
  ask->failures = options_.feasibility == study::BoFeasibility::kAuto && AnyFailed(ask->history);
  const SettingTable* const table = table_.has_value() ? &*table_ : nullptr;
  LUTHIER_ASSIGN_OR_RETURN(ask->all, Collect(ask->history, encoding_, goal_, table, !ask->failures, ask->stop));
  return absl::OkStatus();
}

absl::Status BoDesigner::TakeData(Ask* ask) const {
  ask->data = Thin(ask->all, seed_, ask->index);
  if (options_.gradients == study::BoGradients::kOff) return absl::OkStatus();
  return TakeSlopes(ask->history, &ask->data, ask->carry, ask->index, ask->stop);
}

absl::StatusOr<Suggestion> BoDesigner::Replacement(const Ask& ask, const std::string& origin) const {
  return Untried(ask.all, ask.index, origin, nullptr, ask.stop);
}

absl::StatusOr<Suggestion> BoDesigner::InitialOr(const Ask& ask, const std::string& origin) const {
  Suggestion suggestion = Initial(ask.index);
  suggestion.origin = origin;
  if (IsTried(ask.all, encoding_.ToModel(suggestion.parameters))) return Replacement(ask, origin);
  return suggestion;
}

absl::StatusOr<std::optional<Suggestion>> BoDesigner::PlannedTurn(const Ask& ask) const {
  const bool design = ask.index < static_cast<uint64_t>(initial_points_) || ask.all.scores.size() < kMinObservations;
  std::optional<int64_t> index;
  if (explores_first_ || !design) {
    LUTHIER_ASSIGN_OR_RETURN(index, ExplorationTurn(ask.history, ask.data, design && ask.index > 0, ask.stop));
  }
  if (index.has_value()) {
    ask.carry->kind = 'x';
    ask.carry->index = *index;
    LUTHIER_ASSIGN_OR_RETURN(Suggestion suggestion, Explore(ask.data, *index, ask.stop));
    // Of a large finite space little is left when the farthest setting was tried.
    if (options_.exploration == study::BoExploration::kFarthest && !options_.noisy &&
        IsTried(ask.all, encoding_.ToModel(suggestion.parameters))) {
      return Replacement(ask, "explore");
    }
    return std::optional<Suggestion>(std::move(suggestion));
  }
  if (!design) return std::nullopt;
  ask.carry->kind = 'i';
  return InitialOr(ask, "init");
}

absl::Status BoDesigner::FitFeasibility(Ask* ask) const {
  if (!ask->failures) return absl::OkStatus();
  LUTHIER_ASSIGN_OR_RETURN(const FeasibilityData outcomes, CollectFeasibility(ask->history, encoding_, ask->stop));
  LUTHIER_ASSIGN_OR_RETURN(ask->feasible,
                           FeasibilityModel::Fit(outcomes, encoding_, ask->carry->feasibility, ask->stop));
  if (ask->feasible.has_value()) ask->carry->feasibility = ask->feasible->carry();
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Suggestion>> BoDesigner::BoxTurn(Ask* ask) const {
  if (table_.has_value() || !UsesTrustBox(options_, encoding_)) return std::nullopt;
  int64_t first = 1;
  if (!absl::SimpleAtoi(ask->carry->box, &first) || first < 1) first = 1;
  const int64_t now = static_cast<int64_t>(ask->history.trials().size()) + 1;
  ask->box = FollowTrustBox(ask->history, encoding_, goal_, first);
  if (ask->box->ended) ask->box = FollowTrustBox(ask->history, encoding_, goal_, now);
  ask->carry->box = absl::StrCat(ask->box->first);
  if (ask->box->first == 1 || now - ask->box->first >= initial_points_) return std::nullopt;
  // A new box begins where the best of some new points is.
  return InitialOr(*ask, "restart");
}

absl::StatusOr<Suggestion> BoDesigner::Propose(const Ask& ask, std::optional<LocalMove> move) {
  BoCarry* const carry = ask.carry;
  HillsCarry hills = ParseHillsCarry(carry->hills, surrogate_.choices.front().shape.groups);
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<BoModel> model,
                           model_turn_.Fit(ask.data, carry->surrogate, hills, ask.index, ask.stop));
  const auto make_move = [&] {
    *carry = std::move(move->carry);
    if (model.has_value()) carry->surrogate = FormatCarry(model->surrogate.carry);
    return std::move(move->suggestion);
  };
  if (!model.has_value()) return move.has_value() ? make_move() : Replacement(ask, "gp_failed");
  Suggestion suggestion;
  suggestion.origin = "acq";
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<MaximizeCandidate> candidate,
                           model_turn_.Propose(*model, ask.data, ask.Feasible(), ask.box ? &*ask.box : nullptr,
                                               ask.index, &hills, &suggestion, ask.stop));
  if (move.has_value() && (!candidate.has_value() || IsTried(ask.all, candidate->u) ||
                           PrefersStep(ask, *move, *model, *candidate, hills.away))) {
    return make_move();
  }
  carry->hills = FormatCarry(hills);
  if (!candidate.has_value()) return Replacement(ask, "all_random");
  LUTHIER_RETURN_IF_ERROR(Settle(ask, *model, *candidate, &suggestion));
  carry->surrogate = FormatCarry(model->surrogate.carry);
  return suggestion;
}

absl::Status BoDesigner::Settle(const Ask& ask, const BoModel& model, const MaximizeCandidate& candidate,
                                Suggestion* suggestion) const {
  suggestion->parameters = candidate.parameters;
  const bool tried = IsTried(ask.all, candidate.u), exhausted = tried && Exhausted(ask.all);
  // Noisy: measuring the most promising setting again is the point.
  if (exhausted) suggestion->origin = "repeat";
  if (tried && !exhausted) {
    LUTHIER_ASSIGN_OR_RETURN(Suggestion other, Untried(ask.all, ask.index, "stuck_random", ask.Feasible(), ask.stop));
    other.details = std::move(suggestion->details);  // What the bounds said of the space still holds.
    *suggestion = std::move(other);
  }
  if (suggestion->origin != "stuck_random") {
    LUTHIER_RETURN_IF_ERROR(model_turn_.Describe(model, candidate, ask.data, suggestion, ask.stop));
  }
  if (const FeasibilityModel* const feasible = ask.Feasible(); feasible != nullptr) {
    suggestion->details["p_feasible"] = feasible->Probability(encoding_.ToModel(suggestion->parameters));
  }
  return absl::OkStatus();
}

}  // namespace luthier::suggest
