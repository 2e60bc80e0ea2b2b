#include "lib/suggest/feasibility.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/check.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/suggest/observations.h"

namespace luthier::suggest {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr size_t kMaxRows = 1500;
constexpr size_t kSearchRows = 300;
constexpr int kSearchEvaluations = 25;
constexpr double kNothing = -14.0;  // Logarithm of an improvement that is none.
constexpr double kTiny = 1e-300;
constexpr double kDoubtful = 0.7, kDoubtWeight = 20.0;

// The newest `limit` rows (ascending), but of neither class fewer than half while it has more.
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

struct Carried {
  int64_t trials = 0;
  gp::Hyperparameters theta;
};

std::optional<Carried> Parse(absl::string_view text, int groups) {
  const std::vector<std::string> words = absl::StrSplit(text, absl::MaxSplits(' ', 1));
  Carried carried;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &carried.trials) || carried.trials < 1) return std::nullopt;
  std::optional<gp::Hyperparameters> theta = gp::ParseHyperparameters(words[1], groups);
  if (!theta.has_value()) return std::nullopt;
  carried.theta = *std::move(theta);
  return carried;
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
  const std::vector<Index> rows = Newest(success, kMaxRows);
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
                                                                      absl::string_view carried,
                                                                      const base::StopToken& stop) {
  const Index n = data.labels.size();
  if (n == 0 || data.labels.minCoeff() > 0.0) return std::nullopt;
  const kernels::KernelShape shape =
      kernels::GroupedShape(kernels::Family::kMatern52, encoding.ModelGroups(), kernels::Structure::kJoint);
  std::optional<Carried> known = Parse(carried, shape.groups);
  const bool search = !known.has_value() || n < known->trials ||
                      n >= known->trials + std::max<Index>(1, static_cast<Index>(known->trials) / 20);
  if (search) {
    std::vector<bool> success;
    for (Index i = 0; i < n; ++i) success.push_back(data.labels(i) > 0.0);
    const std::vector<Index> rows = Newest(success, kSearchRows);
    VectorXd labels(static_cast<Index>(rows.size()));
    for (Index i = 0; i < labels.size(); ++i) labels(i) = data.labels(rows[static_cast<size_t>(i)]);
    const std::optional<gp::Hyperparameters> start =
        known.has_value() ? std::optional<gp::Hyperparameters>(known->theta) : std::nullopt;
    LUTHIER_ASSIGN_OR_RETURN(
        gp::Hyperparameters theta,
        gp::FitClassifierHyperparameters(shape, Rows(data.points, rows), labels, start, kSearchEvaluations, {}, stop));
    known = Carried{n, std::move(theta)};
  }
  LUTHIER_ASSIGN_OR_RETURN(std::optional<gp::Classifier> classifier,
                           gp::Classifier::Fit(shape, known->theta, data.points, data.labels, {}, nullptr, stop));
  if (!classifier.has_value()) return std::nullopt;
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd logs, EvaluateInPieces(data.points, stop, [&](const MatrixXd& points) {
                             return classifier->LogProbabilities(points);
                           }));
  double top = std::log(0.5);
  for (Index i = 0; i < data.labels.size(); ++i) {
    if (data.labels(i) > 0.0) top = std::max(top, logs(i));
  }
  return std::optional<FeasibilityModel>(FeasibilityModel(
      *std::move(classifier), absl::StrCat(known->trials, " ", gp::FormatHyperparameters(known->theta)),
      kDoubtful * std::exp(top)));
}

double FeasibilityModel::Probability(const VectorXd& u) const {
  return std::exp(classifier_.LogProbability(u, nullptr));
}

FeasibleAcquisition::FeasibleAcquisition(const AcquisitionFunction* a, const FeasibilityModel* model,
                                         study::BoAcquisition kind, double failure_value)
    : a_(a),
      model_(model),
      logarithm_(kind == study::BoAcquisition::kLogEi || kind == study::BoAcquisition::kLogPi),
      bound_(kind == study::BoAcquisition::kUcb || kind == study::BoAcquisition::kTs),
      failure_value_(failure_value) {}

namespace {

// c(t) of the header, and its slope.
double Compress(double t, double* slope) {
  *slope = 1.0;
  if (t >= kNothing) return t;
  *slope = 1.0 / (1.0 + kNothing - t);
  return kNothing - std::log1p(kNothing - t);
}

}  // namespace

double FeasibleAcquisition::Combine(double a, double log, double* by_a, double* by_log) const {
  if (bound_) {
    const double p = std::exp(log);
    *by_a = p;
    *by_log = p * (a - failure_value_);
    return failure_value_ + p * (a - failure_value_);
  }
  const double doubtful = std::log(model_->doubtful());
  const double weight = log < doubtful ? kDoubtWeight : 1.0;
  if (weight > 1.0) log += (weight - 1.0) * (log - doubtful);
  if (logarithm_) {
    *by_log = weight;
    return Compress(a, by_a) + log;
  }
  const double floored = std::max(a, kTiny);  // EI may underflow.
  const double value = std::exp(Compress(std::log(floored), by_a) + log);
  *by_a = a > kTiny ? value * *by_a / a : 0.0;
  *by_log = value * weight;
  return value;
}

VectorXd FeasibleAcquisition::Values(const Eigen::Ref<const MatrixXd>& u) const {
  VectorXd values = a_->Values(u);
  const VectorXd logs = model_->classifier().LogProbabilities(u);
  double by_a = 0.0, by_log = 0.0;
  for (Index i = 0; i < values.size(); ++i) {
    if (std::isfinite(values(i))) values(i) = Combine(values(i), logs(i), &by_a, &by_log);
  }
  return values;
}

double FeasibleAcquisition::Value(const VectorXd& u, VectorXd* gradient) const {
  if (gradient == nullptr) return Values(u.transpose())(0);
  const double a = a_->Value(u, gradient);
  if (!std::isfinite(a)) return a;
  VectorXd slope;
  const double log = model_->classifier().LogProbability(u, &slope);
  double by_a = 0.0, by_log = 0.0;
  const double value = Combine(a, log, &by_a, &by_log);
  *gradient = by_a * *gradient + by_log * slope;
  return value;
}

double FailureValue(VectorXd outputs) {
  LUTHIER_CHECK(outputs.size() >= 1);
  std::sort(outputs.data(), outputs.data() + outputs.size());
  return outputs((outputs.size() - 1) / 4);
}

}  // namespace luthier::suggest
