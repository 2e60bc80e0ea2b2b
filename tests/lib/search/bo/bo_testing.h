#ifndef LUTHIER_TESTS_LIB_SEARCH_BO_BO_TESTING_H_
#define LUTHIER_TESTS_LIB_SEARCH_BO_BO_TESTING_H_

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "lib/search/registry.h"
#include "lib/study/study_spec.h"
#include "tests/lib/study/builders.h"

// Test functions with known minima, and a study run in memory.
namespace luthier::search {

struct TestFunction {
  std::string name;
  std::vector<std::pair<double, double>> box;
  double minimum;
  std::function<double(const std::vector<double>&)> f;
};

inline double Branin(const std::vector<double>& x) {
  const double a = x[1] - 5.1 * x[0] * x[0] / (4 * M_PI * M_PI) + 5 * x[0] / M_PI - 6;
  return a * a + 10 * (1 - 1 / (8 * M_PI)) * std::cos(x[0]) + 10;
}

// Branin, six-hump camel, Goldstein-Price, Michalewicz, Rosenbrock (all 2-D), Hartmann 3-D.
inline std::vector<TestFunction> SixFunctions() {
  std::vector<TestFunction> functions;
  functions.push_back({"branin", {{-5, 10}, {0, 15}}, 0.39788735772973816, Branin});
  functions.push_back({"camel", {{-3, 3}, {-2, 2}}, -1.0316284534898774, [](const std::vector<double>& x) {
                         const double a = x[0] * x[0], b = x[1] * x[1];
                         return (4 - 2.1 * a + a * a / 3) * a + x[0] * x[1] + (4 * b - 4) * b;
                       }});
  functions.push_back({"goldstein", {{-2, 2}, {-2, 2}}, 3.0, [](const std::vector<double>& x) {
                         const double a = x[0], b = x[1];
                         const double s = a + b + 1, t = 2 * a - 3 * b;
                         return (1 + s * s * (19 - 14 * a + 3 * a * a - 14 * b + 6 * a * b + 3 * b * b)) *
                                (30 + t * t * (18 - 32 * a + 12 * a * a + 48 * b - 36 * a * b + 27 * b * b));
                       }});
  functions.push_back({"michalewicz2", {{0, M_PI}, {0, M_PI}}, -1.8013034100985537, [](const std::vector<double>& x) {
                         return -std::sin(x[0]) * std::pow(std::sin(x[0] * x[0] / M_PI), 20) -
                                std::sin(x[1]) * std::pow(std::sin(2 * x[1] * x[1] / M_PI), 20);
                       }});
  functions.push_back({"rosenbrock2", {{-2.048, 2.048}, {-2.048, 2.048}}, 0.0, [](const std::vector<double>& x) {
                         const double a = x[1] - x[0] * x[0];
                         return 100 * a * a + (1 - x[0]) * (1 - x[0]);
                       }});
  functions.push_back({"hartmann3", {{0, 1}, {0, 1}, {0, 1}}, -3.8627797869493365, [](const std::vector<double>& x) {
                         const double alpha[4] = {1, 1.2, 3, 3.2};
                         const double a[4][3] = {{3, 10, 30}, {.1, 10, 35}, {3, 10, 30}, {.1, 10, 35}};
                         const double p[4][3] = {
                             {3689, 1170, 2673}, {4699, 4387, 7470}, {1091, 8732, 5547}, {381, 5743, 8828}};
                         double sum = 0;
                         for (int i = 0; i < 4; ++i) {
                           double exponent = 0;
                           for (int j = 0; j < 3; ++j) exponent += a[i][j] * std::pow(x[j] - 1e-4 * p[i][j], 2);
                           sum -= alpha[i] * std::exp(-exponent);
                         }
                         return sum;
                       }});
  return functions;
}

using study::Categorical;
using study::Float;
using study::Int;
using study::Space;
using study::When;

// Unless the options say otherwise, results are said to repeat exactly, so that no probe comes between the suggestions.
inline study::StudySpec BoSpec(study::SearchSpace space, uint64_t seed = 1, study::BoOptions options = {}) {
  if (!options.noisy.has_value()) options.noisy = false;
  study::StudySpec spec;
  spec.space = std::move(space);
  spec.metric.name = "loss";
  spec.algorithm = options;
  spec.seed = seed;
  return spec;
}

inline study::StudySpec FunctionSpec(const TestFunction& function, uint64_t seed, study::AlgorithmSpec algorithm) {
  std::vector<study::ParameterSpec> parameters;
  for (size_t j = 0; j < function.box.size(); ++j) {
    parameters.push_back(Float("x" + std::to_string(j), function.box[j].first, function.box[j].second));
  }
  study::StudySpec spec = BoSpec(Space(std::move(parameters)), seed);
  spec.algorithm = std::move(algorithm);
  return spec;
}

inline study::Gradient FullGradient(std::vector<double> values, std::optional<double> error_bound = std::nullopt) {
  study::Gradient gradient;
  gradient.values = std::move(values);
  gradient.error_bound = error_bound;
  return gradient;
}
inline study::Gradient SlopeAlong(std::vector<double> direction, double slope,
                                  std::optional<double> error_bound = std::nullopt) {
  study::Gradient gradient;
  gradient.direction = std::move(direction);
  gradient.slope = slope;
  gradient.error_bound = error_bound;
  return gradient;
}

inline double Number(const study::Parameters& p, const std::string& name) {
  return std::get<double>(p.at(name));
}

inline std::vector<double> Point(const study::Parameters& p) {
  std::vector<double> x;
  for (const auto& [name, value] : p) x.push_back(std::get<double>(value));  // x0, x1, … in order of name.
  return x;
}

// A study in memory: asks, stores, finishes.
class MemoryStudy {
 public:
  explicit MemoryStudy(study::StudySpec spec) : spec_(std::move(spec)), designer_(CreateDesigner(spec_)) {}

  const study::StudySpec& spec() const { return spec_; }
  const study::History& history() const { return history_; }
  // A designer that knows nothing of the past.
  void Restart() { designer_ = CreateDesigner(spec_); }

  absl::StatusOr<Suggestion> TryAsk(int32_t reporter = 0) {
    absl::StatusOr<Suggestion> s = designer_->Suggest(history_, next_ask_, base::StopToken());
    if (!s.ok()) return s;
    EXPECT_TRUE(spec_.space.Validate(s->parameters).ok()) << study::FormatParameters(s->parameters);
    for (const auto& [name, value] : s->details) EXPECT_TRUE(std::isfinite(value)) << name;
    study::HistoryTrial trial;
    trial.number = static_cast<int64_t>(history_.trials().size()) + 1;
    trial.ask_index = next_ask_++;
    trial.parameters = s->parameters;
    trial.designer_state = s->designer_state;
    trial.reporter = reporter;
    history_.AddStored(trial);
    return s;
  }
  // Suggests and stores trial number history().trials().size(), which `reporter` will report.
  Suggestion Ask(int32_t reporter = 0) {
    absl::StatusOr<Suggestion> s = TryAsk(reporter);
    EXPECT_TRUE(s.ok()) << s.status();
    return s.ok() ? *std::move(s) : Suggestion{};
  }
  // A user's own trial; returns its number.
  int64_t Enqueue(study::Parameters parameters) {
    study::HistoryTrial trial;
    trial.number = static_cast<int64_t>(history_.trials().size()) + 1;
    trial.parameters = std::move(parameters);
    history_.AddStored(trial);
    return trial.number;
  }
  int64_t newest() const { return static_cast<int64_t>(history_.trials().size()); }
  void Complete(int64_t number, double value, std::optional<study::Gradient> gradient = std::nullopt) {
    history_.Finish(number, study::TrialState::kComplete, value, std::move(gradient), std::nullopt);
  }
  void Fail(int64_t number, study::FailureKind kind) {
    history_.Finish(number, study::TrialState::kFailed, std::nullopt, std::nullopt, kind);
  }
  void Prune(int64_t number, std::optional<double> value) {
    history_.Finish(number, study::TrialState::kPruned, value, std::nullopt, std::nullopt);
  }
  void Cancel(int64_t number) {
    history_.Finish(number, study::TrialState::kCancelled, std::nullopt, std::nullopt, std::nullopt);
  }
  // Asks and completes n times.
  void Run(int n, const std::function<double(const study::Parameters&)>& f) {
    for (int i = 0; i < n; ++i) {
      const Suggestion s = Ask();
      Complete(newest(), f(s.parameters));
    }
  }

 private:
  study::StudySpec spec_;
  std::unique_ptr<Designer> designer_;
  study::History history_;
  uint64_t next_ask_ = 0;
};

// Lowest value above the known minimum after n evaluations.
inline double Regret(const TestFunction& function, uint64_t seed, study::AlgorithmSpec algorithm, int n) {
  MemoryStudy study(FunctionSpec(function, seed, std::move(algorithm)));
  double best = INFINITY;
  study.Run(n, [&](const study::Parameters& p) {
    const double value = function.f(Point(p));
    best = std::min(best, value);
    return value;
  });
  return std::max(0.0, best - function.minimum);
}

}  // namespace luthier::search

#endif  // LUTHIER_TESTS_LIB_SEARCH_BO_BO_TESTING_H_
