#include "lib/search/bo/model/feasibility.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "lib/base/check.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/math/pieces.h"
#include "lib/search/bo/model/observations.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr size_t kMostOutcomes = 1500;
constexpr size_t kSearchOutcomes = 300;
constexpr int kSearchEvaluations = 25;
constexpr double kDoubtful = 0.7;

// Returns the newest `limit` rows (ascending). Each class keeps at least half of them, or all of its rows if it has
// fewer.
std::vector<Index> Newest(const std::vector<bool>& success, size_t limit) {
  const size_t n = success.size();
  const size_t good = static_cast<size_t>(std::count(success.begin(), success.end(), true));
  size_t bad_left = std::min(n - good, std::max(limit / 2, limit - std::min(limit, good)));
  size_t good_left = std::min(good, limit - std::min(limit, bad_left));
  std::vector<Index> rows;
  for (size_t i = n; i-- > 0;) {
    size_t& left = success[i] ? good_left : bad_left;
    if (left == 0) continue;
    --left;
    rows.push_back(static_cast<Index>(i));
  }
  std::reverse(rows.begin(), rows.end());
  return rows;
}

bool IsBadSetting(const study::HistoryTrial& trial) {
  return trial.state == study::TrialState::kFailed && trial.failure == study::FailureKind::kConfig;
}

}  // namespace

bool AnyFailed(const study::History& history) {
  return std::any_of(history.trials().begin(), history.trials().end(), IsBadSetting);
}

absl::StatusOr<FeasibilityData> CollectFeasibility(const study::History& history, const study::Encoding& encoding,
                                                   const base::StopToken& stop) {
  std::vector<int> trials;
  std::vector<bool> success;
  for (int t : history.finished()) {
    const study::HistoryTrial& trial = history.trials()[static_cast<size_t>(t)];
    const bool failed = IsBadSetting(trial);
    const bool good = trial.state == study::TrialState::kComplete || trial.state == study::TrialState::kPruned;
    if (!failed && !good) continue;
    trials.push_back(t);
    success.push_back(good);
  }
  FeasibilityData data;
  const std::vector<Index> rows = Newest(success, kMostOutcomes);
  data.points.resize(static_cast<Index>(rows.size()), encoding.model_dim());
  data.labels.resize(data.points.rows());
  base::Pace pace(stop);
  for (Index i = 0; i < data.labels.size(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess * (1 + data.points.cols())));
    const size_t row = static_cast<size_t>(rows[static_cast<size_t>(i)]);
    data.points.row(i) = encoding.ToModel(history.trials()[static_cast<size_t>(trials[row])].parameters);
    data.labels(i) = success[row] ? 1.0 : -1.0;
  }
  return data;
}

absl::StatusOr<std::optional<FeasibilityModel>> FeasibilityModel::Fit(const FeasibilityData& data,
                                                                      const study::Encoding& encoding,
                                                                      const std::optional<FeasibilityState>& last,
                                                                      const base::StopToken& stop) {
  const Index n = data.labels.size();
  if (n == 0 || data.labels.minCoeff() > 0.0) return std::nullopt;
  const kernels::KernelShape shape =
      kernels::GroupedShape(kernels::Family::kMatern52, encoding.ModelGroups(), kernels::Structure::kJoint);
  std::optional<FeasibilityState> known = last;
  const bool search = !known.has_value() || n < known->trials ||
                      n >= known->trials + std::max<Index>(1, static_cast<Index>(known->trials) / 20);
  if (search) {
    std::vector<bool> success;
    for (Index i = 0; i < n; ++i) success.push_back(data.labels(i) > 0.0);
    const std::vector<Index> rows = Newest(success, kSearchOutcomes);
    VectorXd labels(static_cast<Index>(rows.size()));
    for (Index i = 0; i < labels.size(); ++i) labels(i) = data.labels(rows[static_cast<size_t>(i)]);
    const std::optional<gp::Hyperparameters> start =
        known.has_value() ? std::optional<gp::Hyperparameters>(known->theta) : std::nullopt;
    LUTHIER_ASSIGN_OR_RETURN(
        gp::Hyperparameters theta,
        gp::FitClassifierHyperparameters(shape, Rows(data.points, rows), labels, start, kSearchEvaluations, {}, stop));
    known = FeasibilityState{n, std::move(theta)};
  }
  LUTHIER_ASSIGN_OR_RETURN(std::optional<gp::Classifier> classifier,
                           gp::Classifier::Fit(shape, known->theta, data.points, data.labels, {}, nullptr, stop));
  if (!classifier.has_value()) return std::nullopt;
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd logs, math::EvaluateInPieces(data.points, stop, [&](const MatrixXd& points) {
                             return classifier->LogProbabilities(points);
                           }));
  double top = std::log(0.5);
  for (Index i = 0; i < data.labels.size(); ++i) {
    if (data.labels(i) > 0.0) top = std::max(top, logs(i));
  }
  return std::optional<FeasibilityModel>(
      FeasibilityModel(*std::move(classifier), *std::move(known), kDoubtful * std::exp(top)));
}

double FeasibilityModel::Probability(const VectorXd& u) const {
  return std::exp(classifier_.LogProbability(u, nullptr));
}

}  // namespace luthier::search
