#include "lib/search/bo/local/quasi_newton.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "lib/base/check.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/math/infinity.h"
#include "lib/math/lbfgs.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::VectorXd;

namespace {

using math::kInfinity;
constexpr double kFirstStep = 0.1;   // Length of the first step, in sides of the cube: no curvature is known yet.
constexpr double kTolerance = 1e-6;  // Slope at which a climb ends, in deviations of the results per side.
constexpr double kPendingSteps[] = {2.0, 0.5, 4.0, 0.25};
// Evaluations beyond the number of trials: line searches may ask for a point again.
constexpr int kMoreEvaluations = 100;

std::vector<int> ActiveColumns(const study::Encoding& encoding, const study::Parameters& parameters) {
  std::vector<int> active;
  for (int c = 0; c < encoding.compact_dim(); ++c) {
    if (encoding.Levels(c).has_value()) continue;
    const auto& name = encoding.space().parameters()[static_cast<size_t>(encoding.compact_parameter(c))].name;
    if (parameters.contains(name)) active.push_back(c);
  }
  return active;
}

// Hash and comparison of settings by value, without copies.
struct SettingHash {
  size_t operator()(const study::Parameters* setting) const { return study::HashOf(*setting); }
};
struct SameSetting {
  bool operator()(const study::Parameters* a, const study::Parameters* b) const { return *a == *b; }
};

// One climb, replayed.
class Replay {
 public:
  Replay(const QuasiNewtonLog& log, const base::StopToken& stop) : log_(log), stop_(stop) {}

  absl::StatusOr<QuasiNewtonAnswer> Run(int64_t site) {
    LUTHIER_RETURN_IF_ERROR(Read());
    const study::HistoryTrial& first = log_.history.trials()[static_cast<size_t>(site - 1)];
    home_ = log_.encoding.ToCompact(first.parameters);
    active_ = ActiveColumns(log_.encoding, first.parameters);
    const Index d = static_cast<Index>(active_.size());
    VectorXd start(d);
    place_.assign(static_cast<size_t>(log_.encoding.model_dim()), -1);
    for (Index k = 0; k < d; ++k) {
      const int column = active_[static_cast<size_t>(k)];
      start(k) = home_(column);
      place_[static_cast<size_t>(log_.encoding.model_begin(column))] = k;
    }
    // The first point is the trial's own setting, even if its coordinates decode to another one.
    start_ = SettingAt(start);
    settings_[&start_] = &first;
    math::LbfgsOptions options;
    options.first_step = kFirstStep;
    options.gradient_tolerance = kTolerance * deviation_;
    options.max_evaluations = static_cast<int>(
        std::min<size_t>(log_.history.trials().size() + kMoreEvaluations, std::numeric_limits<int>::max()));
    options.max_iterations = options.max_evaluations;
    const auto evaluate = [this](const VectorXd& x, VectorXd* gradient) { return Evaluate(x, gradient); };
    const absl::StatusOr<math::LbfgsResult> result =
        math::MinimizeLbfgs(evaluate, start, VectorXd::Zero(d), VectorXd::Ones(d), options, stop_);
    if (!unanswered_) {
      if (!result.ok()) return result.status();
      return QuasiNewtonAnswer{ClimbOutcome::kEnded, std::nullopt};
    }
    return AnswerAt(next_);
  }

 private:
  absl::Status Read() {
    base::Pace pace(stop_);
    double sum = 0.0, squares = 0.0;
    int64_t results = 0;
    for (const study::HistoryTrial& trial : log_.history.trials()) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess * static_cast<int64_t>(10 + trial.parameters.size())));
      if (trial.state == study::TrialState::kCancelled) continue;
      const study::HistoryTrial*& known = settings_[&trial.parameters];
      if (known == nullptr || (!HasWholeGradient(log_, *known) && HasWholeGradient(log_, trial))) known = &trial;
      if (trial.state != study::TrialState::kComplete) continue;
      ++results;
      sum += *trial.value;
      squares += *trial.value * *trial.value;
    }
    const double mean = results > 0 ? sum / static_cast<double>(results) : 0.0;
    const double variance = results > 0 ? squares / static_cast<double>(results) - mean * mean : 0.0;
    if (std::isfinite(variance) && variance > 0.0) deviation_ = std::sqrt(variance);
    return absl::OkStatus();
  }

  study::Parameters SettingAt(const VectorXd& x) const {
    VectorXd u = home_;
    for (Index k = 0; k < x.size(); ++k) u(active_[static_cast<size_t>(k)]) = x(k);
    return log_.encoding.FromCompact(u);
  }

  // Returns the negated score at x, from the log. Returns ABORTED, with `next_` set, if the log does not have it.
  absl::StatusOr<double> Evaluate(const VectorXd& x, VectorXd* gradient) {
    const study::Parameters setting = SettingAt(x);
    if (!log_.encoding.IsLegal(setting)) return kInfinity;  // The line search goes back.
    const auto known = settings_.find(&setting);
    if (known == settings_.end() || known->second->open()) {
      unanswered_ = true;
      next_ = x;
      return absl::AbortedError("the log does not know the point");
    }
    const study::HistoryTrial& trial = *known->second;
    if (!HasWholeGradient(log_, trial)) return kInfinity;
    const ScoreSlopes slopes = log_.units.FromUser(*trial.gradient, trial.parameters);
    VectorXd by_x = VectorXd::Zero(x.size());
    for (size_t i = 0; i < slopes.axes.size(); ++i) {
      const Index k = place_[static_cast<size_t>(slopes.axes[i])];
      if (k >= 0) by_x(k) = -slopes.values(static_cast<Index>(i));
    }
    const double value = -study::Score(log_.goal, *trial.value);
    if (gradient != nullptr) *gradient = by_x;
    if (best_.size() == 0 || value < best_value_) {
      best_ = x;
      best_value_ = value;
      best_gradient_ = by_x;
    }
    return value;
  }

  QuasiNewtonAnswer AnswerAt(const VectorXd& x) const {
    std::vector<VectorXd> points = {x};
    for (const double step : kPendingSteps) {
      if (best_.size() > 0) points.push_back((best_ + step * (x - best_)).cwiseMax(0.0).cwiseMin(1.0));
    }
    for (const VectorXd& point : points) {
      study::Parameters parameters = SettingAt(point);
      if (settings_.contains(&parameters) || !log_.encoding.IsLegal(parameters)) continue;
      QuasiNewtonStep step;
      step.parameters = std::move(parameters);
      step.best = -best_value_;
      if (best_.size() > 0) {
        step.predicted_gain = std::max(0.0, -best_gradient_.dot(point - best_));
        step.length = (point - best_).lpNorm<Eigen::Infinity>();
      }
      return {ClimbOutcome::kStep, std::move(step)};
    }
    return {ClimbOutcome::kPending, std::nullopt};
  }

  const QuasiNewtonLog& log_;
  const base::StopToken& stop_;
  // The trial of each setting; of several trials, one that can serve as an evaluation.
  std::unordered_map<const study::Parameters*, const study::HistoryTrial*, SettingHash, SameSetting> settings_;
  study::Parameters start_;
  double deviation_ = 1.0;    // Deviation of the results.
  VectorXd home_;             // Compact point that the climb began at.
  std::vector<int> active_;   // Compact columns that change.
  std::vector<Index> place_;  // Place of each model coordinate in active_; -1: it does not change.
  bool unanswered_ = false;
  VectorXd next_;
  VectorXd best_, best_gradient_;  // Best point that the log knows.
  double best_value_ = kInfinity;
};

}  // namespace

int ActiveContinuous(const study::Encoding& encoding, const study::Parameters& parameters) {
  return static_cast<int>(ActiveColumns(encoding, parameters).size());
}

bool HasWholeGradient(const QuasiNewtonLog& log, const study::HistoryTrial& trial) {
  if (trial.state != study::TrialState::kComplete || !trial.gradient || !trial.value) return false;
  if (!std::isfinite(*trial.value) || !trial.gradient->direction.empty()) return false;
  if (std::binary_search(log.set_aside.begin(), log.set_aside.end(), trial.reporter)) return false;
  const ScoreSlopes slopes = log.units.FromUser(*trial.gradient, trial.parameters);
  return static_cast<int>(slopes.axes.size()) == ActiveContinuous(log.encoding, trial.parameters);
}

absl::StatusOr<QuasiNewtonAnswer> SuggestQuasiNewton(const QuasiNewtonLog& log, int64_t site,
                                                     const base::StopToken& stop) {
  LUTHIER_CHECK(site >= 1 && site <= static_cast<int64_t>(log.history.trials().size()));
  return Replay(log, stop).Run(site);
}

}  // namespace luthier::search
