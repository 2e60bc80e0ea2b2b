#include "lib/search/bo/turns/answer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/search/registry.h"
#include "lib/study/history.h"
#include "tests/lib/search/bo/bo_testing.h"

namespace luthier::search {
namespace {

using ::testing::HasSubstr;

// The held-out loss over the logarithms of penalties: overfitting on the left, underfitting on the right, and a dent.
class Valley {
 public:
  Valley(int dim, uint64_t seed) {
    base::RandomStream random(seed, "tests/valley", static_cast<uint64_t>(dim));
    for (int j = 0; j < dim; ++j) {
      Axis a;
      a.over = -5 + 3 * random.Uniform();
      a.under = -1 + 3 * random.Uniform();
      a.steep = 0.3 + random.Uniform();
      a.gentle = 0.3 + random.Uniform();
      a.height = 0.01 + 0.2 * random.Uniform();
      a.dent = 0.02 * random.Normal();
      a.place = -5 + 7 * random.Uniform();
      axes_.push_back(a);
      std::vector<double> values;
      for (int i = 0; i <= kGrid; ++i) values.push_back(At(a, -6 + 9.0 * i / kGrid));
      minimum_ += *std::min_element(values.begin(), values.end());
      std::nth_element(values.begin(), values.begin() + kGrid / 4, values.end());
      spread_ += values[kGrid / 4] - *std::min_element(values.begin(), values.end());
    }
  }

  double Value(const std::vector<double>& penalties) const {
    double sum = 0.0;
    for (size_t j = 0; j < axes_.size(); ++j) sum += At(axes_[j], std::log10(penalties[j]));
    return sum;
  }
  double minimum() const { return minimum_; }
  double spread() const { return spread_; }

 private:
  static constexpr int kGrid = 20000;
  struct Axis {
    double over, under, steep, gentle, height, dent, place;
  };
  static double Ramp(double x) { return x > 30 ? x : std::log1p(std::exp(x)); }
  static double At(const Axis& a, double x) {
    const double d = (x - a.place) / 0.7;
    return 0.1 + 0.1 * a.steep * Ramp((x - a.under) / a.steep) + a.height * a.gentle * Ramp(-(x - a.over) / a.gentle) +
           a.dent * std::exp(-0.5 * d * d);
  }
  std::vector<Axis> axes_;
  double minimum_ = 0.0, spread_ = 0.0;
};

study::StudySpec Penalties(int dim, uint64_t seed, study::AlgorithmSpec algorithm = study::AutoOptions{}) {
  std::vector<study::ParameterSpec> parameters;
  for (int j = 0; j < dim; ++j) {
    study::ParameterSpec p = Float("x" + std::to_string(j), 1e-6, 1e3);
    std::get<study::FloatRange>(p.domain).scale = study::Scale::kLog;
    parameters.push_back(std::move(p));
  }
  study::StudySpec spec = BoSpec(Space(std::move(parameters)), seed);
  spec.algorithm = std::move(algorithm);
  spec.budget.until_answered = true;
  return spec;
}

struct End {
  int64_t results = 0;
  double best = INFINITY;
  absl::Status status;
};

// Derivatives by the penalties themselves, by differences in their logarithms.
study::Gradient Differences(const std::function<double(const std::vector<double>&)>& f, const std::vector<double>& x) {
  constexpr double kStep = 1e-5;
  std::vector<double> slopes;
  for (size_t j = 0; j < x.size(); ++j) {
    std::vector<double> up = x, down = x;
    up[j] *= std::exp(kStep);
    down[j] *= std::exp(-kStep);
    slopes.push_back((f(up) - f(down)) / (2 * kStep * x[j]));
  }
  return FullGradient(std::move(slopes));
}

// Runs a study of one worker, with gradients, until its designer answers no more or has had `most` results. `error`:
// the standard error of every result; negative: none is reported.
End RunUntilAnswered(const study::StudySpec& spec, int64_t most, double error,
                     const std::function<double(const std::vector<double>&)>& f) {
  End end;
  study::History history;
  const std::unique_ptr<Designer> designer = CreateDesigner(spec);
  for (int64_t ask = 0; ask < most; ++ask) {
    absl::StatusOr<Suggestion> s = designer->Suggest(history, static_cast<uint64_t>(ask), base::StopToken());
    if (!s.ok()) {
      end.status = s.status();
      return end;
    }
    study::HistoryTrial trial;
    trial.number = ask + 1;
    trial.ask_index = static_cast<uint64_t>(ask);
    trial.parameters = s->parameters;
    trial.designer_state = s->designer_state;
    history.AddStored(trial);
    const double value = f(Point(s->parameters));
    history.Finish(ask + 1, study::TrialState::kComplete, value, Differences(f, Point(s->parameters)), std::nullopt);
    study::HistoryTrial result;
    if (error >= 0.0) result.standard_error = error;
    history.NoteMetrics(ask + 1, result);
    end.best = std::min(end.best, value);
    ++end.results;
  }
  return end;
}

TEST(Answer, AStudyEndsOnceLessThanAHundredthOfTheErrorIsLeftToGain) {
  const Valley valley(1, 3);
  const double error = 0.05 * valley.spread();
  const End end = RunUntilAnswered(Penalties(1, 3), 60, error, [&](const auto& x) { return valley.Value(x); });
  EXPECT_EQ(base::GetReason(end.status), base::reason::kAnswered) << end.status;
  EXPECT_THAT(end.status.message(), HasSubstr("a hundredth of its standard error"));
  EXPECT_GE(end.results, 6);
  EXPECT_LT(end.results, 40);
  EXPECT_LE(end.best - valley.minimum(), 0.01 * error);
}

TEST(Answer, WhatIsLeftToGainIsLessThanSaidInNineteenOfTwentyStudies) {
  int ended = 0, right = 0;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    const int dim = seed % 4 == 0 ? 2 : 1;
    const Valley valley(dim, seed);
    const double error = 0.1 * valley.spread();
    const End end = RunUntilAnswered(Penalties(dim, seed), 30, error, [&](const auto& x) { return valley.Value(x); });
    if (end.status.ok()) continue;
    ASSERT_EQ(base::GetReason(end.status), base::reason::kAnswered) << end.status;
    ++ended;
    right += end.best - valley.minimum() <= 0.01 * error ? 1 : 0;
  }
  EXPECT_GE(ended, 15);
  EXPECT_GE(right, 0.95 * ended) << right << " of " << ended;
}

TEST(Answer, WithoutErrorsAMillionthOfTheValueCounts) {
  const End end = RunUntilAnswered(Penalties(1, 1), 60, -1.0, [](const std::vector<double>& x) {
    const double t = std::log10(x[0]) + 2.0;
    return 1.0 + 0.01 * t * t;
  });
  EXPECT_EQ(base::GetReason(end.status), base::reason::kAnswered) << end.status;
  EXPECT_THAT(end.status.message(), HasSubstr("a millionth of its value"));
  EXPECT_LE(end.best, 1.0 + 1e-6);
}

TEST(Answer, ANoisyStudyGoesOn) {
  base::RandomStream noise(7, "tests/noise", 0);
  const Valley valley(1, 3);
  const double error = 0.05 * valley.spread();
  const End end = RunUntilAnswered(Penalties(1, 3), 30, error, [&](const std::vector<double>& x) {
    return valley.Value(x) + 0.2 * valley.spread() * noise.Normal();
  });
  EXPECT_TRUE(end.status.ok()) << end.status;
}

TEST(Answer, AMetricThatMovesInStepsGoesOn) {
  const Valley valley(1, 3);
  const double error = 0.05 * valley.spread(), step = valley.spread() / 60.0;
  const End end = RunUntilAnswered(Penalties(1, 3), 40, error, [&](const std::vector<double>& x) {
    return std::round(valley.Value(x) / step) * step;
  });
  EXPECT_TRUE(end.status.ok()) << end.status;
}

TEST(Answer, WhileATrialIsOpenTheStudyWaitsForIt) {
  const Valley valley(1, 3);
  const double error = 0.05 * valley.spread();
  study::StudySpec spec = Penalties(1, 3);
  const End end = RunUntilAnswered(spec, 60, error, [&](const auto& x) { return valley.Value(x); });
  ASSERT_EQ(base::GetReason(end.status), base::reason::kAnswered);
  // The same study again, but for a trial of a user's that is still open when it would be answered.
  study::History history;
  const std::unique_ptr<Designer> designer = CreateDesigner(spec);
  const auto f = [&](const std::vector<double>& x) { return valley.Value(x); };
  absl::Status last;
  for (int64_t ask = 0; last.ok() && ask < end.results + 10; ++ask) {
    const absl::StatusOr<Suggestion> s = designer->Suggest(history, static_cast<uint64_t>(ask), base::StopToken());
    last = s.status();
    if (!s.ok()) break;
    study::HistoryTrial trial;
    trial.number = static_cast<int64_t>(history.trials().size()) + 1;
    trial.ask_index = static_cast<uint64_t>(ask);
    trial.parameters = s->parameters;
    trial.designer_state = s->designer_state;
    history.AddStored(trial);
    if (ask >= end.results) continue;
    const std::vector<double> x = Point(s->parameters);
    history.Finish(trial.number, study::TrialState::kComplete, f(x), Differences(f, x), std::nullopt);
    study::HistoryTrial result;
    result.standard_error = error;
    history.NoteMetrics(trial.number, result);
    if (ask + 1 < end.results) continue;
    study::HistoryTrial open;
    open.number = trial.number + 1;
    open.parameters["x0"] = 30.0;
    history.AddStored(open);
  }
  EXPECT_EQ(base::GetReason(last), base::reason::kAwaitingResults) << last;
}

TEST(Answer, StudiesThatCanNotKnowAreRefusedByName) {
  const auto refused = [](const std::function<void(study::StudySpec*)>& change) {
    study::StudySpec spec = Penalties(1, 1);
    change(&spec);
    const absl::Status status = Validate(spec);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(status.message(), HasSubstr("budget.until_answered"));
    return std::string(status.message());
  };
  EXPECT_TRUE(Validate(Penalties(1, 1)).ok());
  EXPECT_TRUE(Validate(Penalties(1, 1, study::BoDefaults(study::BoPreset::kFobo))).ok());
  EXPECT_THAT(refused([](study::StudySpec* s) { s->algorithm = study::TpeOptions{}; }), HasSubstr("tpe has none"));
  EXPECT_THAT(refused([](study::StudySpec* s) { std::get<study::AutoOptions>(s->algorithm).noisy = true; }),
              HasSubstr("noisy"));
  EXPECT_THAT(refused([](study::StudySpec* s) { s->resource = study::Resource{1, 9, "epochs"}; }),
              HasSubstr("resource"));
  EXPECT_THAT(refused([](study::StudySpec* s) { s->stopping = study::MedianStopping{}; }), HasSubstr("stopped"));
  refused([](study::StudySpec* s) { s->open_space = true; });
  EXPECT_THAT(refused([](study::StudySpec* s) {
                study::BuiltinObjective objective;
                objective.model = "logistic";
                s->objective = objective;
                s->metric.name = "validation_accuracy";
              }),
              HasSubstr("steps"));
  refused([](study::StudySpec* s) { s->reproducible = true; });
}

}  // namespace
}  // namespace luthier::search
