#include "lib/suggest/tpe_designer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/suggest/random_designer.h"

namespace luthier::suggest {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr int32_t kMaxStartup = 10'000;
constexpr int32_t kMaxCandidates = 10'000;
constexpr int64_t kMaxGood = 25;

int64_t GoodCount(study::TpeGamma gamma, int64_t n) {
  const double x = static_cast<double>(n);
  const double count = gamma == study::TpeGamma::kLinear ? std::ceil(0.1 * x) : std::ceil(0.25 * std::sqrt(x));
  return std::min<int64_t>(static_cast<int64_t>(count), kMaxGood);
}

// For each parameter a number that it shares with the parameters that exist exactly when it does.
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
    : encoding_(spec.space),
      goal_(spec.metric.goal),
      options_(options),
      seed_(spec.seed),
      coordinate_of_(static_cast<size_t>(spec.space.size()), -1) {
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
    coordinate_of_[parameter] = c;
  }
}

TpeDesigner::Encoded TpeDesigner::Encode(const study::Parameters& parameters) const {
  Encoded encoded{parameters, encoding_.ToCompact(parameters), std::vector<bool>(groups_.size())};
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int parameter = encoding_.compact_parameter(groups_[g].front());
    encoded.active[g] = parameters.count(encoding_.space().parameters()[static_cast<size_t>(parameter)].name) > 0;
  }
  return encoded;
}

bool TpeDesigner::SplitTrials(const study::History& history, std::vector<Encoded>* open, Split* split) {
  const std::vector<study::HistoryTrial>& trials = history.trials();
  // Whether pruned, minus the last step, loss, place: small is good.
  std::vector<std::tuple<bool, int64_t, double, size_t>> ranked;
  int64_t failed = 0;
  std::vector<bool> counts(trials.size(), true);
  for (size_t t = 0; t < trials.size(); ++t) {
    const study::HistoryTrial& trial = trials[t];
    const bool has_value = trial.value.has_value() && std::isfinite(*trial.value);
    if (trial.open()) continue;
    if (trial.state == study::TrialState::kComplete || trial.state == study::TrialState::kPruned) {
      const bool pruned = trial.state == study::TrialState::kPruned;
      if (has_value) {
        ranked.emplace_back(pruned, pruned ? -trial.step : 0, -study::Score(goal_, *trial.value), t);
      } else {
        ++failed;
      }
    } else {
      counts[t] = trial.state == study::TrialState::kFailed && trial.failure == study::FailureKind::kConfig;
      failed += counts[t] ? 1 : 0;
    }
  }
  const auto results = static_cast<int64_t>(ranked.size());
  if (results < options_.startup_trials) return false;
  const int64_t good_count = std::min(GoodCount(options_.gamma, results + failed), results);
  std::nth_element(ranked.begin(), ranked.begin() + (good_count - 1), ranked.end());
  std::vector<bool> good(trials.size(), false);
  for (int64_t k = 0; k < good_count; ++k) good[std::get<3>(ranked[static_cast<size_t>(k)])] = true;

  // No vector may grow while pointers into it are held.
  size_t stored = trials.size();
  while (stored > 0 && trials[stored - 1].number == 0) --stored;
  for (size_t t = 0; t < stored; ++t) {
    if (t == encoded_.size()) {
      encoded_.push_back(Encode(trials[t].parameters));
    } else if (encoded_[t].parameters != trials[t].parameters) {
      encoded_[t] = Encode(trials[t].parameters);
    }
  }
  for (size_t t = stored; t < trials.size(); ++t) open->push_back(Encode(trials[t].parameters));
  for (size_t t = 0; t < trials.size(); ++t) {
    if (counts[t]) (good[t] ? split->good : split->rest).push_back(t < stored ? &encoded_[t] : &(*open)[t - stored]);
  }
  return true;
}

double TpeDesigner::Choose(const Split& split, size_t group, uint64_t ask_index, VectorXd* u) const {
  const std::vector<int>& members = groups_[group];
  const auto d = static_cast<Index>(members.size());
  std::vector<CompactColumn> columns;
  for (const int c : members) columns.push_back(columns_[static_cast<size_t>(c)]);
  const ParzenBandwidth bandwidth =
      options_.bandwidth == study::TpeBandwidth::kNeighbours ? ParzenBandwidth::kNeighbours : ParzenBandwidth::kFixed;
  const auto mixture = [&](const std::vector<const Encoded*>& trials) {
    MatrixXd observations(static_cast<Index>(trials.size()), d);
    Index n = 0;
    for (const Encoded* trial : trials) {
      if (!trial->active[group]) continue;
      for (Index j = 0; j < d; ++j) observations(n, j) = trial->u(members[static_cast<size_t>(j)]);
      ++n;
    }
    return ParzenMixture(columns, observations.topRows(n), bandwidth);
  };
  const ParzenMixture good = mixture(split.good), rest = mixture(split.rest);
  base::RandomStream random(seed_, "tpe", ask_index, static_cast<uint32_t>(group));
  MatrixXd candidates(options_.candidates, d);
  for (Index k = 0; k < candidates.rows(); ++k) candidates.row(k) = good.Sample(random);
  const VectorXd ratio = good.LogDensity(candidates) - rest.LogDensity(candidates);
  Index best = 0;
  const double log_ratio = ratio.maxCoeff(&best);
  for (Index j = 0; j < d; ++j) (*u)(members[static_cast<size_t>(j)]) = candidates(best, j);
  return log_ratio;
}

absl::StatusOr<Suggestion> TpeDesigner::Suggest(const study::History& history, uint64_t ask_index) {
  Suggestion suggestion;
  std::vector<Encoded> open;
  Split split;
  if (!SplitTrials(history, &open, &split)) {
    suggestion.parameters = ExplorationPoint(encoding_, seed_, ask_index);
    suggestion.origin = "random";
    return suggestion;
  }
  const study::SearchSpace& space = encoding_.space();
  VectorXd u = VectorXd::Constant(encoding_.compact_dim(), 0.5);
  std::vector<bool> chosen(groups_.size(), false);
  double log_ratio = 0.0;
  for (const int i : space.topological_order()) {
    if (!space.IsActive(i, suggestion.parameters)) continue;
    study::ParameterValue& value = suggestion.parameters[space.parameters()[static_cast<size_t>(i)].name];
    const int c = coordinate_of_[static_cast<size_t>(i)];
    if (c < 0) {
      value = space.LevelValue(i, 0);
      continue;
    }
    const auto group = static_cast<size_t>(group_of_[static_cast<size_t>(c)]);
    if (!chosen[group]) log_ratio += Choose(split, group, ask_index, &u);
    chosen[group] = true;
    value = encoding_.DecodeCoordinate(c, u(c));
  }
  suggestion.origin = "tpe";
  suggestion.details = {{"above", static_cast<double>(split.rest.size())},
                        {"below", static_cast<double>(split.good.size())},
                        {"log_ratio", log_ratio}};
  return suggestion;
}

}  // namespace luthier::suggest
