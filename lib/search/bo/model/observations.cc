#include "lib/search/bo/model/observations.h"

#include <algorithm>
#include <cmath>

#include "lib/base/pace.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr double kSamePoint = 1e-12;  // Euclidean, model coordinates.
constexpr int kKnownPoints = 5;       // Best observations that a maximiser starts from.
constexpr Index kMaxPending = 200;    // Number of pending trials that are kept, the newest.

// Returns the row of the best observation: of the least violation, then of the largest score. There is at least one.
Index BestRow(const Observations& data) {
  Index best = 0;
  const auto violation = [&](Index i) { return data.violations.size() > 0 ? data.violations(i) : 0.0; };
  for (Index i = 1; i < data.scores.size(); ++i) {
    if (violation(i) < violation(best) || (violation(i) == violation(best) && data.scores(i) > data.scores(best))) {
      best = i;
    }
  }
  return best;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : 0.5 * values[n / 2 - 1] + 0.5 * values[n / 2];
}

}  // namespace

MatrixXd Stack(const std::vector<VectorXd>& points, Index columns) {
  MatrixXd out(static_cast<Index>(points.size()), columns);
  for (size_t k = 0; k < points.size(); ++k) out.row(static_cast<Index>(k)) = points[k];
  return out;
}

MatrixXd Rows(const MatrixXd& m, const std::vector<Index>& rows) {
  MatrixXd out(static_cast<Index>(rows.size()), m.cols());
  for (size_t k = 0; k < rows.size(); ++k) out.row(static_cast<Index>(k)) = m.row(rows[k]);
  return out;
}

void SortByScore(const VectorXd& scores, std::vector<Index>* rows) {
  std::sort(rows->begin(), rows->end(),
            [&](Index a, Index b) { return scores(a) != scores(b) ? scores(a) > scores(b) : a < b; });
}

std::vector<Index> Observations::CompleteRows() const {
  std::vector<Index> rows;
  for (size_t i = 0; i < complete.size(); ++i) {
    if (complete[i]) rows.push_back(static_cast<Index>(i));
  }
  return rows;
}

std::vector<Index> Observations::FeasibleRows() const {
  std::vector<Index> rows = CompleteRows();
  if (violations.size() > 0) std::erase_if(rows, [&](Index row) { return violations(row) > 0.0; });
  return rows;
}

bool Exhausted(const Observations& data) {
  return !data.excluded.empty() && std::all_of(data.excluded.begin(), data.excluded.end(), [](bool b) { return b; });
}

bool IsTried(const Observations& data, const VectorXd& u) {
  for (Index i = 0; i < data.tried.rows(); ++i) {
    if ((data.tried.row(i).transpose() - u).squaredNorm() < kSamePoint * kSamePoint) return true;
  }
  return false;
}

absl::StatusOr<Observations> Collect(const study::History& history, const study::Encoding& encoding, study::Goal goal,
                                     const SettingTable* table, bool failures, const base::StopToken& stop,
                                     const std::vector<double>& violations) {
  const std::vector<study::HistoryTrial>& trials = history.trials();
  Observations data;
  if (table != nullptr) data.excluded.assign(static_cast<size_t>(table->size()), false);
  std::vector<VectorXd> tried, pending;
  base::Pace pace(stop);
  for (const study::HistoryTrial& trial : trials) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess * (1 + encoding.model_dim())));
    tried.push_back(encoding.ToModel(trial.parameters));
    if (trial.open()) pending.push_back(tried.back());
    if (table == nullptr) continue;
    const int row = table->Find(trial.parameters);
    if (row >= 0) data.excluded[static_cast<size_t>(row)] = true;
  }
  data.tried = Stack(tried, encoding.model_dim());
  data.pending = Stack(pending, encoding.model_dim());
  LUTHIER_RETURN_IF_ERROR(stop.Poll());

  std::vector<double> complete;
  for (int t : history.finished()) {
    const study::HistoryTrial& trial = trials[static_cast<size_t>(t)];
    if (trial.state != study::TrialState::kComplete || !trial.value || !std::isfinite(*trial.value)) continue;
    complete.push_back(study::Score(goal, *trial.value));
  }
  if (complete.empty()) return data;
  const double worst = *std::min_element(complete.begin(), complete.end());
  const double median = Median(complete);
  std::vector<int> rows;
  std::vector<double> scores;
  for (int t : history.finished()) {
    const study::HistoryTrial& trial = trials[static_cast<size_t>(t)];
    const bool has_value = trial.value && std::isfinite(*trial.value);
    double score = 0.0;
    if (trial.state == study::TrialState::kComplete && has_value) {
      score = study::Score(goal, *trial.value);
    } else if (trial.state == study::TrialState::kPruned && has_value) {
      // The trial was worse than the median at its step, so its unfinished value must not become the incumbent.
      score = std::min(study::Score(goal, *trial.value), median);
    } else if (failures && trial.state == study::TrialState::kFailed && trial.failure == study::FailureKind::kConfig) {
      score = worst;
    } else {
      // The trial was cancelled, pruned without a value, or failed for reasons that say nothing about the setting.
      continue;
    }
    rows.push_back(t);
    scores.push_back(score);
    data.complete.push_back(trial.state == study::TrialState::kComplete);
    data.number.push_back(trial.number);
  }
  const Index n = static_cast<Index>(rows.size());
  data.observed.resize(n, encoding.model_dim());
  data.scores.resize(n);
  for (Index i = 0; i < n; ++i) {
    data.observed.row(i) = data.tried.row(rows[static_cast<size_t>(i)]);
    data.scores(i) = scores[static_cast<size_t>(i)];
  }
  if (std::any_of(violations.begin(), violations.end(), [](double v) { return v > 0.0; })) {
    data.violations.resize(n);
    for (Index i = 0; i < n; ++i) data.violations(i) = violations[static_cast<size_t>(rows[static_cast<size_t>(i)])];
  }
  std::vector<Index> order;
  for (Index i = 0; i < n; ++i) {
    if (data.complete[static_cast<size_t>(i)]) order.push_back(i);
  }
  SortByScore(data.scores, &order);
  if (data.violations.size() > 0) {
    std::stable_sort(order.begin(), order.end(),
                     [&](Index a, Index b) { return data.violations(a) < data.violations(b); });
  }
  if (order.size() > kKnownPoints) order.resize(kKnownPoints);
  data.known.resize(static_cast<Index>(order.size()), encoding.compact_dim());
  for (size_t k = 0; k < order.size(); ++k) {
    const int trial = rows[static_cast<size_t>(order[k])];
    data.known.row(static_cast<Index>(k)) = encoding.ToCompact(trials[static_cast<size_t>(trial)].parameters);
  }
  return data;
}

void LiftPruned(const study::History& history, Observations* data) {
  std::vector<double> complete;
  for (const Index row : data->CompleteRows()) complete.push_back(data->scores(row));
  if (complete.empty() || complete.size() == data->complete.size()) return;
  const size_t quarter = (complete.size() - 1) / 4;
  std::nth_element(complete.begin(), complete.begin() + static_cast<std::ptrdiff_t>(quarter), complete.end());
  for (size_t i = 0; i < data->number.size(); ++i) {
    const study::HistoryTrial& trial = history.trials()[static_cast<size_t>(data->number[i] - 1)];
    double& score = data->scores(static_cast<Index>(i));
    if (trial.state == study::TrialState::kPruned) score = std::max(score, complete[quarter]);
  }
}

Observations Thin(const Observations& data, const ThinParts& parts, uint64_t seed, uint64_t ask_index,
                  const VectorXd* worth, const VectorXd& lengthscales) {
  const Index n = data.scores.size();
  Observations thin = data;
  if (data.pending.rows() > kMaxPending) thin.pending = data.pending.bottomRows(kMaxPending);
  if (n <= parts.rows()) return thin;
  std::vector<Index> rest, keep;
  for (Index i = 0; i < n - parts.newest; ++i) rest.push_back(i);
  const auto take = [&](Index count) {
    keep.insert(keep.end(), rest.begin(), rest.begin() + count);
    rest.erase(rest.begin(), rest.begin() + count);
  };
  SortByScore(worth != nullptr ? *worth : data.scores, &rest);
  take(parts.best);
  if (parts.nearest > 0) {
    const Eigen::RowVectorXd centre = data.observed.row(BestRow(data));
    const VectorXd far = -((data.observed.rowwise() - centre).array().rowwise() / lengthscales.transpose().array())
                              .square()
                              .rowwise()
                              .sum();
    std::sort(rest.begin(), rest.end());
    SortByScore(far, &rest);
    take(parts.nearest);
    std::sort(rest.begin(), rest.end());
  }
  base::RandomStream random(seed, "bo/thin", ask_index);
  random.Shuffle(rest);
  take(parts.random);
  for (Index i = n - parts.newest; i < n; ++i) keep.push_back(i);
  std::sort(keep.begin(), keep.end());
  thin.observed = Rows(data.observed, keep);
  thin.scores = data.scores(keep);
  if (data.violations.size() > 0) thin.violations = data.violations(keep);
  thin.complete.clear();
  thin.number.clear();
  for (const Index i : keep) {
    thin.complete.push_back(data.complete[static_cast<size_t>(i)]);
    thin.number.push_back(data.number[static_cast<size_t>(i)]);
  }
  return thin;
}

}  // namespace luthier::search
