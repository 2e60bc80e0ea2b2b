#ifndef LUTHIER_TESTS_LIB_SEARCH_METRICS_TESTING_H_
#define LUTHIER_TESTS_LIB_SEARCH_METRICS_TESTING_H_

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "Eigen/Core"
#include "gtest/gtest.h"
#include "lib/pareto/hypervolume.h"
#include "lib/search/registry.h"
#include "lib/study/history.h"
#include "lib/study/metrics.h"
#include "lib/study/study_spec.h"
#include "tests/lib/search/bo/bo_testing.h"

// Studies of several metrics, run in memory.
namespace luthier::search {

inline study::MetricSpec Objective(std::string name, study::Goal goal = study::Goal::kMinimize,
                                   std::optional<double> reference = std::nullopt) {
  return {.name = std::move(name), .goal = goal, .reference = reference};
}
inline study::MetricSpec AtMost(std::string name, double bound) {
  return {.name = std::move(name), .objective = false, .at_most = bound};
}
inline study::MetricSpec AtLeast(std::string name, double bound) {
  return {.name = std::move(name), .objective = false, .at_least = bound};
}

inline study::StudySpec MetricsSpec(study::SearchSpace space, std::vector<study::MetricSpec> metrics, uint64_t seed,
                                    study::AlgorithmSpec algorithm) {
  study::StudySpec spec;
  spec.space = std::move(space);
  study::SetMetrics(std::move(metrics), &spec);
  spec.algorithm = std::move(algorithm);
  spec.seed = seed;
  EXPECT_TRUE(Validate(spec).ok()) << Validate(spec);
  return spec;
}

// Values of all metrics at a setting.
using MetricsFunction = std::function<std::vector<double>(const study::Parameters&)>;

class MetricsStudy {
 public:
  MetricsStudy(study::StudySpec spec, MetricsFunction f)
      : spec_(std::move(spec)), f_(std::move(f)), designer_(CreateDesigner(spec_)) {}

  const study::StudySpec& spec() const { return spec_; }
  const study::History& history() const { return history_; }
  int64_t newest() const { return static_cast<int64_t>(history_.trials().size()); }
  // What a designer that knows nothing of the past answers next.
  absl::StatusOr<Suggestion> AskAnew() const {
    return CreateDesigner(spec_)->Suggest(history_, next_ask_, base::StopToken());
  }

  // Suggests and stores a trial.
  absl::StatusOr<Suggestion> Ask() {
    absl::StatusOr<Suggestion> s = designer_->Suggest(history_, next_ask_, base::StopToken());
    if (!s.ok()) return s;
    EXPECT_TRUE(spec_.space.Validate(s->parameters).ok()) << study::FormatParameters(s->parameters);
    EXPECT_LE(s->designer_state.size(), 16384u);
    for (const auto& [name, value] : s->details) {
      EXPECT_TRUE(std::isfinite(value)) << name;
      EXPECT_TRUE(study::IsName(name)) << name;
    }
    study::HistoryTrial trial;
    trial.number = newest() + 1;
    trial.ask_index = next_ask_++;
    trial.parameters = s->parameters;
    trial.designer_state = s->designer_state;
    history_.AddStored(trial);
    return s;
  }
  void Complete(int64_t number) { Complete(number, f_(history_.trials()[static_cast<size_t>(number - 1)].parameters)); }
  // `gradients`: of all metrics, or none.
  void Complete(int64_t number, const std::vector<double>& values,
                std::vector<std::optional<study::Gradient>> gradients = {}) {
    double first = values.front();
    study::HistoryTrial result;
    result.values = values;
    result.gradients = std::move(gradients);
    const auto metrics = study::MetricsOf(spec_);
    for (size_t j = metrics.size(); j-- > 0;) {
      if (metrics[j].objective) first = values[j];
    }
    result.feasible = study::IsFeasible(metrics, values);
    const std::optional<study::Gradient> of_first = result.gradients.empty() ? std::nullopt : result.gradients.front();
    history_.Finish(number, study::TrialState::kComplete, first, of_first, std::nullopt);
    if (!spec_.metrics.empty()) history_.NoteMetrics(number, result);
  }
  void Fail(int64_t number, study::FailureKind kind) {
    history_.Finish(number, study::TrialState::kFailed, std::nullopt, std::nullopt, kind);
  }
  // Asks and completes n times.
  void Run(int n) {
    for (int i = 0; i < n; ++i) {
      const absl::StatusOr<Suggestion> s = Ask();
      ASSERT_TRUE(s.ok()) << s.status();
      Complete(newest());
    }
  }

  // Returns the values of the COMPLETE results that keep the bounds.
  std::vector<std::vector<double>> Feasible() const {
    std::vector<std::vector<double>> results;
    for (const study::HistoryTrial& trial : history_.trials()) {
      if (trial.state == study::TrialState::kComplete && trial.feasible) results.push_back(trial.values);
    }
    return results;
  }

 private:
  study::StudySpec spec_;
  MetricsFunction f_;
  std::unique_ptr<Designer> designer_;
  study::History history_;
  uint64_t next_ask_ = 0;
};

// How good a set of results is: the best score of those that keep the bounds, or their hypervolume above the scores
// `reference` (one an objective) where there are several objectives. It only grows when results are added.
inline double Worth(const study::StudySpec& spec, const std::vector<std::vector<double>>& feasible,
                    const Eigen::VectorXd& reference) {
  const int objectives = study::ObjectiveCount(spec);
  Eigen::MatrixXd scores(static_cast<Eigen::Index>(feasible.size()), objectives);
  for (size_t i = 0; i < feasible.size(); ++i) {
    Eigen::Index column = 0;
    for (size_t j = 0; j < spec.metrics.size(); ++j) {
      if (!spec.metrics[j].objective) continue;
      scores(static_cast<Eigen::Index>(i), column++) = study::Score(spec.metrics[j].goal, feasible[i][j]);
    }
  }
  if (objectives > 1) return *pareto::Hypervolume(scores, reference);
  return scores.size() > 0 ? scores.maxCoeff() : -std::numeric_limits<double>::infinity();
}

inline study::SearchSpace Square() {
  return Space({Float("x0", 0, 1), Float("x1", 0, 1)});
}

// Branin and Currin's functions of the unit square; both are minimized. Belakaria, Deshwal & Doppa 2019.
inline std::vector<double> BraninCurrin(const study::Parameters& p) {
  const double x = Number(p, "x0"), y = Number(p, "x1");
  const double currin = (y > 0.0 ? 1.0 - std::exp(-1.0 / (2.0 * y)) : 1.0) *
                        (2300 * x * x * x + 1900 * x * x + 2092 * x + 60) /
                        (100 * x * x * x + 500 * x * x + 4 * x + 20);
  return {Branin({15.0 * x - 5.0, 15.0 * y}), currin};
}
// Scores below which they are worth nothing. At most 59.36 of hypervolume is above them.
inline const Eigen::VectorXd kBraninCurrinReference = (Eigen::VectorXd(2) << -18.0, -6.0).finished();

// The sum of two coordinates outside the unit circle's quarter: the least is 1, at two corners.
inline std::vector<double> OutsideCircle(const study::Parameters& p) {
  const double x = Number(p, "x0"), y = Number(p, "x1");
  return {x + y, 1.0 - x * x - y * y};
}

}  // namespace luthier::search

#endif  // LUTHIER_TESTS_LIB_SEARCH_METRICS_TESTING_H_
