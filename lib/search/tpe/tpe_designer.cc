#include "lib/search/tpe/tpe_designer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/pace.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/pareto/dominance.h"
#include "lib/pareto/front_choice.h"
#include "lib/search/quasi_random/random_designer.h"
#include "lib/study/metrics.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr int32_t kMaxStartup = 10'000;
constexpr int32_t kMaxCandidates = 10'000;
constexpr int64_t kMaxGood = 25;
constexpr double kBelowWorst = -0.1;         // Reference point of volumes whose worst coordinates are 0.
constexpr int kLegalBatches = 8;             // Batches of candidates that are drawn in search of a legal one.
constexpr int64_t kOperationsOfADraw = 100;  // Operations of drawing a coordinate.

int64_t GoodCount(int64_t n) {
  const double x = static_cast<double>(n);
  return std::min<int64_t>(static_cast<int64_t>(std::ceil(0.1 * x)), kMaxGood);
}

// Returns for each parameter a number that it shares with the parameters that exist exactly when it does.
std::vector<int> ActivitySignatures(const study::SearchSpace& space) {
  std::vector<int> signature(static_cast<size_t>(space.size()), 0);
  std::map<std::pair<int, std::set<int64_t>>, int> known;  // Parent and its levels -> signature.
  for (const int i : space.topological_order()) {
    const int parent = space.parent(i);
    if (parent < 0) continue;
    std::set<int64_t> levels;
    for (const study::ParameterValue& value : space.parameters()[static_cast<size_t>(i)].condition->values) {
      levels.insert(space.LevelOf(parent, value));
    }
    if (static_cast<int64_t>(levels.size()) == space.Levels(parent)) {
      signature[static_cast<size_t>(i)] = signature[static_cast<size_t>(parent)];
    } else {
      const int next = static_cast<int>(known.size()) + 1;
      signature[static_cast<size_t>(i)] = known.try_emplace({parent, std::move(levels)}, next).first->second;
    }
  }
  return signature;
}

}  // namespace

absl::Status ValidateTpe(const study::StudySpec&, const study::TpeOptions& options) {
  base::Violations violations;
  if (options.startup_trials < 1 || options.startup_trials > kMaxStartup) {
    violations.Add("algorithm.tpe.startup_trials",
                   absl::StrCat(options.startup_trials, " is not between 1 and ", kMaxStartup));
  }
  if (options.candidates < 1 || options.candidates > kMaxCandidates) {
    violations.Add("algorithm.tpe.candidates",
                   absl::StrCat(options.candidates, " is not between 1 and ", kMaxCandidates));
  }
  return violations.ToStatus();
}

TpeDesigner::TpeDesigner(const study::StudySpec& spec, const study::TpeOptions& options)
    : spec_(spec),
      encoding_(spec.space, spec.constraints),
      goal_(spec.metric.goal),
      options_(options),
      seed_(spec.seed) {
  const std::vector<int> signature = ActivitySignatures(spec.space);
  std::map<int, int> group_of_signature;
  for (int c = 0; c < encoding_.compact_dim(); ++c) {
    columns_.emplace_back(encoding_, c);
    const auto parameter = static_cast<size_t>(encoding_.compact_parameter(c));
    const int next = static_cast<int>(groups_.size());
    const int key = options.multivariate ? signature[parameter] : c;
    const int group = group_of_signature.try_emplace(key, next).first->second;
    if (group == next) groups_.emplace_back();
    groups_[static_cast<size_t>(group)].push_back(c);
    group_of_.push_back(group);
  }
}

absl::StatusOr<std::optional<TpeDesigner::Split>> TpeDesigner::SplitTrials(const study::History& history,
                                                                           const base::StopToken& stop) const {
  const std::vector<study::HistoryTrial>& trials = history.trials();
  std::vector<double> violations;
  if (study::HasBounds(spec_)) violations = study::ViolationsOf(spec_, history);
  std::vector<Ranked> ranked;
  int64_t failed = 0;
  std::vector<bool> counts(trials.size(), true);
  for (size_t t = 0; t < trials.size(); ++t) {
    const study::HistoryTrial& trial = trials[t];
    const bool has_value = trial.value.has_value() && std::isfinite(*trial.value);
    if (trial.open()) continue;
    if (trial.state == study::TrialState::kComplete || trial.state == study::TrialState::kPruned) {
      const bool pruned = trial.state == study::TrialState::kPruned;
      if (has_value) {
        const double violation = violations.empty() ? 0.0 : violations[t];
        // Results that do not keep the bounds are compared by their violation alone.
        ranked.push_back({pruned, pruned ? -trial.step : 0, violation,
                          violation > 0.0 ? 0.0 : -study::Score(goal_, *trial.value), t});
      } else {
        ++failed;
      }
    } else {
      counts[t] = trial.state == study::TrialState::kFailed && trial.failure == study::FailureKind::kConfig;
      failed += counts[t] ? 1 : 0;
    }
  }
  const auto results = static_cast<int64_t>(ranked.size());
  if (results < options_.startup_trials) return std::nullopt;
  const int64_t good_count = std::min(GoodCount(results + failed), results);
  if (study::ObjectiveCount(spec_) > 1) {
    LUTHIER_RETURN_IF_ERROR(RankByLayers(history, good_count, &ranked, stop));
  }
  std::nth_element(ranked.begin(), ranked.begin() + (good_count - 1), ranked.end());
  std::vector<bool> good(trials.size(), false);
  for (int64_t k = 0; k < good_count; ++k) good[ranked[static_cast<size_t>(k)].trial] = true;
  Split split;
  for (size_t t = 0; t < trials.size(); ++t) {
    if (counts[t]) (good[t] ? split.good : split.rest).push_back(static_cast<int>(t));
  }
  return std::optional<Split>(std::move(split));
}

absl::Status TpeDesigner::RankByLayers(const study::History& history, int64_t count, std::vector<Ranked>* ranked,
                                       const base::StopToken& stop) const {
  std::vector<Ranked*> compared;
  for (Ranked& result : *ranked) {
    const bool complete = history.trials()[result.trial].values.size() == spec_.metrics.size();
    if (!result.pruned && result.violation == 0.0 && complete) compared.push_back(&result);
  }
  MatrixXd scores(static_cast<Index>(compared.size()), study::ObjectiveCount(spec_));
  for (size_t k = 0; k < compared.size(); ++k) {
    const std::vector<double> of_trial = study::ScoresOf(spec_, history.trials()[compared[k]->trial].values);
    for (size_t j = 0; j < of_trial.size(); ++j) scores(static_cast<Index>(k), static_cast<Index>(j)) = of_trial[j];
  }
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<int> layers, pareto::Layers(scores, stop));
  std::vector<std::vector<Index>> members;
  for (size_t k = 0; k < layers.size(); ++k) {
    const auto layer = static_cast<size_t>(layers[k]);
    if (members.size() <= layer) members.resize(layer + 1);
    members[layer].push_back(static_cast<Index>(k));
    compared[k]->loss = static_cast<double>(layers[k]);
  }
  int64_t left = count;
  for (const std::vector<Index>& layer : members) {
    const auto size = static_cast<int64_t>(layer.size());
    if (size < left) {
      left -= size;
      continue;
    }
    // In the layer that does not fit, those that are not chosen come half a place later. Volumes are of sides from 0
    // to 1.
    MatrixXd sides = scores(layer, Eigen::all);
    for (auto side : sides.colwise()) {
      const double low = side.minCoeff(), width = 0.5 * side.maxCoeff() - 0.5 * low;
      side = width > 0.0 ? ((0.5 * side.array() - 0.5 * low) / width).matrix() : VectorXd::Zero(side.size()).eval();
    }
    const VectorXd reference = VectorXd::Constant(sides.cols(), kBelowWorst);
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<Index> chosen, pareto::GreedySubset(sides, reference, left, stop));
    std::vector<bool> good(layer.size(), false);
    for (const Index row : chosen) good[static_cast<size_t>(row)] = true;
    for (size_t k = 0; k < layer.size(); ++k) {
      if (!good[k]) compared[static_cast<size_t>(layer[k])]->loss += 0.5;
    }
    break;
  }
  return absl::OkStatus();
}

void TpeDesigner::Forget(size_t first) {
  known_.settings.resize(first);
  known_.u.resize(first * static_cast<size_t>(encoding_.compact_dim()));
  known_.active.resize(first * groups_.size());
  for (auto& order : known_.order) {
    std::erase_if(order, [first](const auto& place) { return static_cast<size_t>(place.second) >= first; });
  }
}

absl::Status TpeDesigner::Remember(const std::vector<study::HistoryTrial>& trials, const base::StopToken& stop) {
  const auto d = static_cast<size_t>(encoding_.compact_dim());
  size_t same = 0;
  while (same < trials.size() && same < known_.settings.size() && known_.settings[same] == trials[same].setting) ++same;
  if (same < known_.settings.size()) Forget(same);  // Open trials have changed places, or it is another history.
  known_.order.resize(d);
  base::Pace pace(stop);
  for (size_t t = same; t < trials.size(); ++t) {
    if (absl::Status status = pace.Poll(base::kRandomAccess * static_cast<int64_t>(1 + 4 * d)); !status.ok()) {
      Forget(same);
      return status;
    }
    const VectorXd u = encoding_.ToCompact(trials[t].parameters);
    known_.settings.push_back(trials[t].setting);
    known_.u.insert(known_.u.end(), u.begin(), u.end());
    for (const std::vector<int>& group : groups_) {
      const int parameter = encoding_.compact_parameter(group.front());
      const std::string& name = encoding_.space().parameters()[static_cast<size_t>(parameter)].name;
      known_.active.push_back(trials[t].parameters.count(name) > 0);
    }
    for (size_t c = 0; c < d; ++c) known_.order[c].emplace_back(u(static_cast<Index>(c)), static_cast<int>(t));
  }
  for (auto& order : known_.order) {
    if (absl::Status status = pace.Poll(base::kRandomAccess * static_cast<int64_t>(order.size())); !status.ok()) {
      Forget(same);
      return status;
    }
    const auto fresh = std::find_if(order.begin(), order.end(),
                                    [same](const auto& place) { return static_cast<size_t>(place.second) >= same; });
    std::sort(fresh, order.end());
    std::inplace_merge(order.begin(), fresh, order.end());
  }
  return absl::OkStatus();
}

absl::StatusOr<ParzenMixture> TpeDesigner::Mixture(const std::vector<int>& trials, size_t group,
                                                   const base::StopToken& stop) const {
  const std::vector<int>& members = groups_[group];
  const auto d = static_cast<size_t>(encoding_.compact_dim());
  std::vector<study::CompactColumn> columns;
  for (const int c : members) columns.push_back(columns_[static_cast<size_t>(c)]);
  MatrixXd observations(static_cast<Index>(trials.size()), static_cast<Index>(members.size()));
  std::vector<int> row(known_.settings.size(), -1);
  int n = 0;
  base::Pace pace(stop);
  for (const int trial : trials) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(static_cast<int64_t>(1 + members.size())));
    const auto t = static_cast<size_t>(trial);
    if (!known_.active[t * groups_.size() + group]) continue;
    for (size_t j = 0; j < members.size(); ++j) {
      observations(n, static_cast<Index>(j)) = known_.u[t * d + static_cast<size_t>(members[j])];
    }
    row[t] = n++;
  }
  std::vector<std::vector<int>> ascending(members.size());
  for (size_t j = 0; j < members.size(); ++j) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(1 + 2 * static_cast<int64_t>(known_.settings.size())));
    ascending[j].reserve(static_cast<size_t>(n));
    for (const auto& [value, trial] : known_.order[static_cast<size_t>(members[j])]) {
      const int r = row[static_cast<size_t>(trial)];
      if (r >= 0) ascending[j].push_back(r);
    }
  }
  return ParzenMixture::Create(std::move(columns), observations.topRows(n), ascending, stop);
}

absl::StatusOr<double> TpeDesigner::Choose(const Split& split, size_t group, uint64_t ask_index, VectorXd* u,
                                           const base::StopToken& stop) const {
  const std::vector<int>& members = groups_[group];
  LUTHIER_ASSIGN_OR_RETURN(const ParzenMixture good, Mixture(split.good, group, stop));
  LUTHIER_ASSIGN_OR_RETURN(const ParzenMixture rest, Mixture(split.rest, group, stop));
  base::RandomStream random(seed_, "tpe", ask_index, static_cast<uint32_t>(group));
  MatrixXd candidates(options_.candidates, static_cast<Index>(members.size()));
  base::Pace pace(stop);
  for (Index k = 0; k < candidates.rows(); ++k) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kOperationsOfADraw * candidates.cols()));
    candidates.row(k) = good.Sample(random);
  }
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd of_good, good.LogDensity(candidates, stop));
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd of_rest, rest.LogDensity(candidates, stop));
  const VectorXd ratio = of_good - of_rest;
  Index best = 0;
  const double log_ratio = ratio.maxCoeff(&best);
  for (size_t j = 0; j < members.size(); ++j) (*u)(members[j]) = candidates(best, static_cast<Index>(j));
  return log_ratio;
}

absl::StatusOr<std::optional<std::pair<VectorXd, double>>> TpeDesigner::ChooseLegal(const Split& split,
                                                                                    uint64_t ask_index,
                                                                                    const base::StopToken& stop) const {
  std::vector<ParzenMixture> good, rest;
  std::vector<base::RandomStream> randoms;
  for (size_t group = 0; group < groups_.size(); ++group) {
    LUTHIER_ASSIGN_OR_RETURN(ParzenMixture of_good, Mixture(split.good, group, stop));
    LUTHIER_ASSIGN_OR_RETURN(ParzenMixture of_rest, Mixture(split.rest, group, stop));
    good.push_back(std::move(of_good));
    rest.push_back(std::move(of_rest));
    randoms.emplace_back(seed_, "tpe/legal", ask_index, static_cast<uint32_t>(group));
  }
  std::optional<std::pair<VectorXd, double>> best;
  base::Pace pace(stop);
  for (int batch = 0; batch < kLegalBatches && !best; ++batch) {
    MatrixXd points = MatrixXd::Constant(options_.candidates, encoding_.compact_dim(), 0.5);
    MatrixXd ratios(options_.candidates, static_cast<Index>(groups_.size()));
    for (size_t group = 0; group < groups_.size(); ++group) {
      const std::vector<int>& members = groups_[group];
      MatrixXd candidates(options_.candidates, static_cast<Index>(members.size()));
      for (Index k = 0; k < candidates.rows(); ++k) {
        LUTHIER_RETURN_IF_ERROR(pace.Poll(kOperationsOfADraw * candidates.cols()));
        candidates.row(k) = good[group].Sample(randoms[group]);
      }
      LUTHIER_ASSIGN_OR_RETURN(const VectorXd of_good, good[group].LogDensity(candidates, stop));
      LUTHIER_ASSIGN_OR_RETURN(const VectorXd of_rest, rest[group].LogDensity(candidates, stop));
      ratios.col(static_cast<Index>(group)) = of_good - of_rest;
      for (size_t j = 0; j < members.size(); ++j) points.col(members[j]) = candidates.col(static_cast<Index>(j));
    }
    for (Index k = 0; k < points.rows(); ++k) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(kOperationsOfADraw * points.cols()));
      const VectorXd u = points.row(k).transpose();
      if (!encoding_.IsLegalAt(u)) continue;
      const study::Parameters setting = encoding_.FromCompact(u);
      double log_ratio = 0.0;
      for (size_t group = 0; group < groups_.size(); ++group) {
        const int parameter = encoding_.compact_parameter(groups_[group].front());
        const std::string& name = encoding_.space().parameters()[static_cast<size_t>(parameter)].name;
        if (setting.contains(name)) log_ratio += ratios(k, static_cast<Index>(group));
      }
      if (!best || log_ratio > best->second) best.emplace(u, log_ratio);
    }
  }
  return best;
}

absl::StatusOr<Suggestion> TpeDesigner::Suggest(const study::History& history, uint64_t ask_index,
                                                const base::StopToken& stop) {
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  Suggestion suggestion;
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<Split> split, SplitTrials(history, stop));
  if (!split) {
    suggestion.parameters = ExplorationPoint(encoding_, seed_, ask_index);
    suggestion.origin = "random";
    return suggestion;
  }
  LUTHIER_RETURN_IF_ERROR(Remember(history.trials(), stop));
  const study::SearchSpace& space = encoding_.space();
  VectorXd u = VectorXd::Constant(encoding_.compact_dim(), 0.5);
  std::vector<bool> chosen(groups_.size(), false);
  double log_ratio = 0.0;
  for (const int i : space.topological_order()) {
    if (!space.IsActive(i, suggestion.parameters)) continue;
    study::ParameterValue& value = suggestion.parameters[space.parameters()[static_cast<size_t>(i)].name];
    const int first = encoding_.coordinate_of(i);
    const int end = first < 0 ? first : first + space.parameters()[static_cast<size_t>(i)].width();
    for (int c = first; c < end; ++c) {
      const auto group = static_cast<size_t>(group_of_[static_cast<size_t>(c)]);
      if (!chosen[group]) {
        LUTHIER_ASSIGN_OR_RETURN(const double of_group, Choose(*split, group, ask_index, &u, stop));
        log_ratio += of_group;
      }
      chosen[group] = true;
    }
    value = encoding_.DecodeParameter(i, u);
  }
  if (!encoding_.IsLegal(suggestion.parameters)) {
    LUTHIER_ASSIGN_OR_RETURN(const auto legal, ChooseLegal(*split, ask_index, stop));
    if (!legal) {
      suggestion.parameters = ExplorationPoint(encoding_, seed_, ask_index);
      suggestion.origin = "random";
      return suggestion;
    }
    suggestion.parameters = encoding_.FromCompact(legal->first);
    log_ratio = legal->second;
  }
  suggestion.origin = "tpe";
  suggestion.details = {{"above", static_cast<double>(split->rest.size())},
                        {"below", static_cast<double>(split->good.size())},
                        {"log_ratio", log_ratio}};
  return suggestion;
}

}  // namespace luthier::search
