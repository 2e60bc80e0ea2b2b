#include "lib/search/bo/turns/noise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "Eigen/Cholesky"
#include "Eigen/Core"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/gp/regression.h"
#include "lib/math/cholesky.h"
#include "lib/search/bo/model/output_transform.h"
#include "lib/study/study_spec.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

// A smaller difference of two results of one setting is the order of floating-point sums: in deviations of the results,
// and as a multiple of the value.
constexpr double kLeastNoise = 1e-6;
constexpr double kRoundOff = 1e-13;
constexpr int64_t kResultsToReach = 2;  // Results of the setting that reaches the target.

bool IsResult(const study::HistoryTrial& trial) {
  return trial.state == study::TrialState::kComplete && trial.value && std::isfinite(*trial.value);
}

// Returns the standard deviation of the results' values.
double SpreadOf(const study::History& history) {
  double count = 0.0, mean = 0.0, squares = 0.0;  // Welford's sums.
  for (const int index : history.finished()) {
    const study::HistoryTrial& trial = history.trials()[static_cast<size_t>(index)];
    if (!IsResult(trial)) continue;
    count += 1.0;
    const double apart = *trial.value - mean;
    mean += apart / count;
    squares += apart * (*trial.value - mean);
  }
  return count < 2.0 ? 0.0 : std::sqrt(squares / count);
}

// The results of one setting.
struct SettingResults {
  std::vector<Index> rows;  // Rows of the ask's data.
  double mean = 0.0;        // Mean of their outputs.
  double without = 0.0;     // Prediction of the model without them.
  double estimate = 0.0;
};

// Groups the complete rows by setting, in order of their first rows.
std::vector<SettingResults> GroupBySetting(const Ask& ask, const std::vector<Index>& rows, const VectorXd& outputs) {
  std::vector<SettingResults> groups;
  std::unordered_map<uint64_t, size_t> known;
  for (const Index row : rows) {
    const int64_t number = ask.data.number[static_cast<size_t>(row)];
    const uint64_t setting = ask.history.trials()[static_cast<size_t>(number - 1)].setting;
    const auto [at, fresh] = known.try_emplace(setting, groups.size());
    if (fresh) groups.emplace_back();
    groups[at->second].rows.push_back(row);
  }
  for (SettingResults& group : groups) {
    for (const Index row : group.rows) group.mean += outputs(row) / static_cast<double>(group.rows.size());
  }
  return groups;
}

// Fills in SettingResults::estimate, and returns t^2 of RecommendFrom.
double Shrink(double noise_variance, std::vector<SettingResults>* groups) {
  double off = 0.0;
  for (const SettingResults& group : *groups) {
    const double apart = group.mean - group.without;
    off += apart * apart - noise_variance / static_cast<double>(group.rows.size());
  }
  off = std::max(0.0, off / static_cast<double>(groups->size()));
  if (off == 0.0) return off;
  for (SettingResults& group : *groups) {
    const double known = static_cast<double>(group.rows.size()) / noise_variance;
    group.estimate = (known * group.mean + group.without / off) / (known + 1.0 / off);
  }
  return off;
}

bool KeptBounds(const Ask& ask, Index row) {
  return ask.data.violations.size() == 0 || ask.data.violations(row) == 0.0;
}

// Returns true if fewer than half of the setting's results kept the bounds. A model that smooths a metric takes what
// was measured barely beyond a bound for something within it.
bool MostlyBeyond(const Ask& ask, const SettingResults& group) {
  const auto kept =
      std::count_if(group.rows.begin(), group.rows.end(), [&](Index row) { return KeptBounds(ask, row); });
  return 2 * static_cast<size_t>(kept) < group.rows.size();
}

// Returns the complete rows whose settings probably keep the bounds.
std::vector<Index> Candidates(const Ask& ask, const BoModel& model) {
  const std::vector<Index> complete = ask.data.CompleteRows();
  if (model.bounds.empty() || complete.empty()) return ask.data.FeasibleRows();
  const VectorXd within = LogProbabilitiesWithin(model.bounds, Rows(ask.data.observed, complete));
  std::vector<Index> likely;
  for (size_t k = 0; k < complete.size(); ++k) {
    if (within(static_cast<Index>(k)) >= kLikelyWithin) likely.push_back(complete[k]);
  }
  return likely;
}

}  // namespace

int64_t NoiseShownBy(const study::History& history) {
  std::unordered_map<uint64_t, double> known;  // The first value of each setting.
  std::optional<double> limit;
  for (const int index : history.finished()) {
    const study::HistoryTrial& trial = history.trials()[static_cast<size_t>(index)];
    if (!IsResult(trial)) continue;
    const auto [at, fresh] = known.try_emplace(trial.setting, *trial.value);
    const double apart = std::abs(*trial.value - at->second);
    if (fresh || apart == 0.0) continue;
    if (!limit) limit = kLeastNoise * SpreadOf(history);
    if (apart > std::max(*limit, kRoundOff * std::abs(at->second))) return trial.number;
  }
  return 0;
}

void LeaveOutProbes(Ask* ask) {
  std::set<int64_t> probes;
  for (const PastAsk& past : ask->past) {
    if (past.asked && past.head.kind == AskKind::kProbe) probes.insert(past.trial->number);
  }
  if (probes.empty()) return;
  Observations& all = ask->all;
  std::vector<Index> keep;
  for (size_t i = 0; i < all.number.size(); ++i) {
    if (!probes.contains(all.number[i])) keep.push_back(static_cast<Index>(i));
  }
  std::vector<VectorXd> pending;
  for (size_t t = 0; t < ask->past.size(); ++t) {
    const PastAsk& past = ask->past[t];
    const bool probe = past.asked && past.head.kind == AskKind::kProbe;
    if (past.trial->open() && !probe) pending.push_back(all.tried.row(static_cast<Index>(t)));
  }
  all.pending = Stack(pending, all.tried.cols());
  if (keep.size() == all.number.size()) return;
  const MatrixXd observed = Rows(all.observed, keep);
  const VectorXd scores = all.scores(keep);
  if (all.violations.size() > 0) all.violations = VectorXd(all.violations(keep));
  std::vector<bool> complete;
  std::vector<int64_t> number;
  for (const Index row : keep) {
    complete.push_back(all.complete[static_cast<size_t>(row)]);
    number.push_back(all.number[static_cast<size_t>(row)]);
  }
  all.observed = observed;
  all.scores = scores;
  all.complete = std::move(complete);
  all.number = std::move(number);
}

std::optional<Suggestion> ProbeTurn(const BoStudy& study, const Ask& ask) {
  if (!study.finds_noise) return std::nullopt;
  std::set<uint64_t> tried;
  const study::HistoryTrial* best = nullptr;
  for (size_t i = 0; i < ask.past.size(); ++i) {
    const PastAsk& past = ask.past[i];
    const study::HistoryTrial& trial = *past.trial;
    if (past.asked && past.head.kind == AskKind::kProbe && trial.open()) return std::nullopt;
    if (!IsResult(trial)) continue;
    if (!tried.insert(trial.setting).second) return std::nullopt;  // This setting's results were equal.
    if (!ask.violations.empty() && ask.violations[i] > 0.0) continue;
    const auto score = [&](const study::HistoryTrial& of) { return study::Score(study.goal, *of.value); };
    if (best == nullptr || score(trial) > score(*best)) best = &trial;
  }
  if (best == nullptr) return std::nullopt;
  ask.state->kind = AskKind::kProbe;
  ask.state->index = best->number;
  Suggestion probe;
  probe.origin = "probe";
  probe.parameters = best->parameters;
  probe.details["repeats"] = static_cast<double>(best->number);
  return probe;
}

absl::StatusOr<VectorXd> PredictWithout(const gp::Regression& regression, const std::vector<std::vector<Index>>& groups,
                                        const base::StopToken& stop) {
  const Index rows = regression.rows(), values = regression.size();
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  MatrixXd root = MatrixXd::Identity(rows, rows);
  regression.factor().SolveLowerInPlace(root);  // L^-1, so that C^-1 = L^-T L^-1.
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  VectorXd centred = regression.Targets();
  centred.head(values).array() -= regression.hyperparameters().mean;
  const VectorXd weights = regression.SolveCovariance(centred);
  VectorXd predicted(static_cast<Index>(groups.size()));
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto m = static_cast<Index>(groups[g].size());
    MatrixXd part(m, m);
    VectorXd of_group(m);
    double mean = 0.0;
    for (Index i = 0; i < m; ++i) {
      const Index row = groups[g][static_cast<size_t>(i)];
      of_group(i) = weights(row);
      mean += regression.outputs()(row) / static_cast<double>(m);
      for (Index j = 0; j < m; ++j) part(i, j) = root.col(row).dot(root.col(groups[g][static_cast<size_t>(j)]));
    }
    predicted(static_cast<Index>(g)) = mean - part.ldlt().solve(of_group).mean();
  }
  return predicted;
}

absl::StatusOr<std::optional<Recommendation>> RecommendFrom(const BoStudy& study, const Ask& ask, const BoModel& model,
                                                            int64_t found_by) {
  const std::vector<Index> rows = Candidates(ask, model);
  if (rows.empty()) return std::nullopt;
  const OutputTransform& transform = model.surrogate.transform;
  gp::Regression regression = model.surrogate.states.front();
  regression.PopBack(static_cast<int>(regression.size() - ask.data.scores.size()));  // Pending trials.
  const double noise = regression.hyperparameters().noise_variance;
  std::vector<SettingResults> groups = GroupBySetting(ask, rows, transform.Forward(ask.data.scores));
  const bool by_results = study.options.rules >= 3;
  if (by_results) std::erase_if(groups, [&](const SettingResults& group) { return MostlyBeyond(ask, group); });
  if (groups.empty()) return std::nullopt;
  std::vector<std::vector<Index>> of_groups;
  for (const SettingResults& group : groups) of_groups.push_back(group.rows);
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd without, PredictWithout(regression, of_groups, ask.stop));
  for (size_t g = 0; g < groups.size(); ++g) groups[g].without = without(static_cast<Index>(g));
  const double off = without.allFinite() ? Shrink(noise, &groups) : 0.0;
  const SettingResults* best = nullptr;
  for (SettingResults& group : groups) {
    if (off == 0.0) group.estimate = regression.PredictMean(ask.data.observed.row(group.rows.front()))(0);
    const bool better = best == nullptr || group.estimate > best->estimate ||
                        (group.estimate == best->estimate && group.rows.size() > best->rows.size());
    if (better) best = &group;
  }
  Recommendation out;
  out.trial = std::numeric_limits<int64_t>::max();
  out.results = static_cast<int64_t>(best->rows.size());
  for (const Index row : best->rows) {
    if (by_results && !KeptBounds(ask, row)) continue;
    out.trial = std::min(out.trial, ask.data.number[static_cast<size_t>(row)]);
  }
  const double variance = off > 0.0 ? 1.0 / (static_cast<double>(out.results) / noise + 1.0 / off)
                                    : regression.Predict(ask.data.observed.row(best->rows.front())).variance(0);
  const auto half = [&](double deviation) {
    return 0.5 *
           (transform.InverseWithin(best->estimate + deviation) - transform.InverseWithin(best->estimate - deviation));
  };
  out.mean = study::Score(study.goal, transform.InverseWithin(best->estimate));
  out.sd = half(std::sqrt(variance));
  out.noise_sd = half(std::sqrt(noise));
  if (found_by > 0) out.found_by = found_by;
  if (!std::isfinite(out.mean) || !std::isfinite(out.sd) || !std::isfinite(out.noise_sd)) return std::nullopt;
  return std::optional<Recommendation>(out);
}

namespace {

// Returns true if the recommended mean is beyond the target by its deviation: the largest of many estimates is a lucky
// one in part.
bool ReachesTarget(const BoStudy& study, const Recommendation& recommended) {
  const std::optional<double>& target = study.spec.budget.target_value;
  return target && study::Score(study.goal, recommended.mean) - recommended.sd >= study::Score(study.goal, *target);
}

}  // namespace

std::optional<Suggestion> ConfirmTurn(const BoStudy& study, const Ask& ask, const Recommendation& recommended) {
  if (recommended.results >= kResultsToReach || !ReachesTarget(study, recommended)) return std::nullopt;
  const study::HistoryTrial& trial = ask.history.trials()[static_cast<size_t>(recommended.trial - 1)];
  for (const study::HistoryTrial& other : ask.history.trials()) {
    if (other.open() && other.setting == trial.setting) return std::nullopt;
  }
  Suggestion again;
  again.origin = "probe";
  again.parameters = trial.parameters;
  again.details["repeats"] = static_cast<double>(recommended.trial);
  return again;
}

absl::Status CheckRecommended(const BoStudy& study, const Ask& ask, const Recommendation& recommended) {
  const study::Budget& budget = study.spec.budget;
  const auto answered = [](const std::string& why) {
    return base::MakeError(absl::StatusCode::kOutOfRange, base::reason::kAnswered, why);
  };
  if (recommended.results >= kResultsToReach && ReachesTarget(study, recommended)) {
    return answered(absl::StrFormat("target_value reached by trial %d, whose setting is expected to give %.6g ± %.2g",
                                    recommended.trial, recommended.mean, recommended.sd));
  }
  if (budget.patience <= 0) return absl::OkStatus();
  int64_t since = 0;
  bool there = false;
  for (const int index : ask.history.finished()) {
    const study::HistoryTrial& trial = ask.history.trials()[static_cast<size_t>(index)];
    if (trial.number == recommended.trial) {
      there = true;
    } else if (there && trial.state != study::TrialState::kCancelled && trial.feasible) {
      ++since;
    }
  }
  if (since < budget.patience) return absl::OkStatus();
  return answered(absl::StrCat("no trial in ", since, " is expected to be better than trial ", recommended.trial));
}

}  // namespace luthier::search
