#ifndef LUTHIER_TESTS_CONTRACT_OBJECTIVE_CONTRACT_H_
#define LUTHIER_TESTS_CONTRACT_OBJECTIVE_CONTRACT_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/stop_token.h"
#include "lib/catalogue/registry.h"
#include "tests/lib/objectives/objectives_testing.h"

// Checks what every builtin objective promises (lib/objectives/objective.h), as it is set in each case:
//   INSTANTIATE_TEST_SUITE_P(Mine, ObjectiveContract, ::testing::ValuesIn(cases), ObjectiveContract::Name);
namespace luthier::objectives {

// A setting whose training reports at least four points before its result, without a clock; or none (`curve`).
struct ObjectiveCase {
  std::string name;
  BuiltinObjective objective;
  SearchSpace space;
  MetricSpec metric;
  study::Parameters at;   // A setting of the space, all of whose parameters are numbers.
  bool gradient = false;  // The result has one at `at`.
  bool trains = true;     // Says when it has its first gradient.
  bool curve = true;      // Reports points, and can be paused and resumed at them.
  bool path = false;      // Without `curve`: reports points all the same, which are not for comparing trials.
};

inline void PrintTo(const ObjectiveCase& c, std::ostream* out) {
  *out << c.name;
}

class ObjectiveContract : public ::testing::TestWithParam<ObjectiveCase> {
 public:
  static std::string Name(const ::testing::TestParamInfo<ObjectiveCase>& info) { return info.param.name; }

 protected:
  using Curve = std::vector<Measurement>;

  static std::unique_ptr<Objective> NewObjective() {
    return Make(GetParam().objective, GetParam().space, GetParam().metric);
  }
  static EvaluationContext Context() {
    EvaluationContext context = At(GetParam().at);
    context.seed = 7;
    return context;
  }
  static EvaluationContext Recording(Curve* curve) {
    EvaluationContext context = Context();
    context.report = [curve](const Measurement& m) {
      curve->push_back(m);
      return true;
    };
    return context;
  }
  EvaluationResult Evaluate(const EvaluationContext& context) const {
    absl::StatusOr<EvaluationResult> result = objective_->Evaluate(context);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *std::move(result) : EvaluationResult();
  }
  // The whole training: its points, and its result.
  std::pair<Curve, Measurement> Whole() const {
    Curve curve;
    const EvaluationResult result = Evaluate(Recording(&curve));
    EXPECT_EQ(result.outcome, EvaluationOutcome::kComplete);
    if (GetParam().curve) {
      EXPECT_GE(curve.size(), 4u);
    } else if (!GetParam().path) {
      EXPECT_EQ(curve.size(), 0u);
    }
    return {std::move(curve), result.measurement.value_or(Measurement())};
  }
  // What it saves when it is asked to end at point `at` of its curve.
  std::string CancelledAt(size_t at, Curve* curve) const {
    base::StopSource source;
    EvaluationContext context = Context();
    std::string saved;
    context.stop = source.token();
    context.save_checkpoint = [&](std::string bytes) { saved = std::move(bytes); };
    context.report = [&](const Measurement& m) {
      if (curve->size() == at) source.RequestStop();
      curve->push_back(m);
      return true;
    };
    EXPECT_EQ(Evaluate(context).outcome, EvaluationOutcome::kCancelled);
    return saved;
  }

  const std::unique_ptr<Objective> objective_ = NewObjective();
};

TEST_P(ObjectiveContract, TheSameContextGivesTheSameBits) {
  const auto [curve, result] = Whole();
  EXPECT_EQ(Whole(), std::pair(curve, result));
  Curve again;
  EXPECT_EQ(NewObjective()->Evaluate(Recording(&again))->measurement, result) << "of another process";
  EXPECT_EQ(again, curve);
}

TEST_P(ObjectiveContract, ThreadsMayShareIt) {
  std::vector<std::optional<Measurement>> results(3);
  std::vector<std::thread> threads;
  threads.reserve(results.size());
  for (std::optional<Measurement>& result : results) {
    threads.emplace_back([&] { result = objective_->Evaluate(Context())->measurement; });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::optional<Measurement>& result : results) EXPECT_EQ(result, results[0]);
}

TEST_P(ObjectiveContract, MeasurementsAreWhatItSaysOfItself) {
  const auto [curve, result] = Whole();
  ASSERT_EQ(result.metrics.count(GetParam().metric.name), 1u);
  std::vector<const Measurement*> points = {&result};
  if (!curve.empty()) points.insert(points.end(), {&curve.front(), &curve.back()});
  for (const Measurement* m : points) {
    for (const auto& [metric, value] : m->metrics) {
      EXPECT_NE(objective_->info().FindMetric(metric), nullptr) << metric;
      EXPECT_TRUE(std::isfinite(value)) << metric;
    }
  }
}

TEST_P(ObjectiveContract, StepsAscendAndReportsChangeNothing) {
  const auto [curve, result] = Whole();
  EXPECT_EQ(Evaluate(Context()).measurement, result);
  if (curve.empty()) return;
  EXPECT_GE(curve.front().step, 0);
  for (size_t k = 1; k < curve.size(); ++k) EXPECT_GT(curve[k].step, curve[k - 1].step);
  EXPECT_GE(result.step, curve.back().step);
}

TEST_P(ObjectiveContract, AReportThatSaysStopIsTheResult) {
  if (!GetParam().curve) return;
  const Curve whole = Whole().first;
  for (const size_t at : {size_t{0}, whole.size() / 2, whole.size() - 1}) {
    EvaluationContext context = Context();
    size_t seen = 0;
    context.report = [&](const Measurement&) { return seen++ < at; };
    const EvaluationResult stopped = Evaluate(context);
    EXPECT_EQ(stopped.outcome, EvaluationOutcome::kStopped);
    EXPECT_EQ(seen, at + 1);
    EXPECT_EQ(stopped.measurement->step, whole[at].step);
    EXPECT_EQ(stopped.measurement->metrics, whole[at].metrics);
  }
}

TEST_P(ObjectiveContract, TheFirstGradientIsToldOnceAndBeforeAnyReportOfIt) {
  const Measurement result = Whole().second;
  EvaluationContext context = Context();
  int told = 0;
  context.first_gradient = [&] { ++told; };
  EXPECT_EQ(Evaluate(context).measurement, result);
  EXPECT_EQ(told, GetParam().trains ? 1 : 0);
}

// --- Going on ---

TEST_P(ObjectiveContract, CancelledAtAnyPointItGoesOnToTheSameBits) {
  if (!GetParam().curve) return;
  const auto [whole, result] = Whole();
  for (const size_t at : {size_t{0}, size_t{1}, whole.size() / 2, whole.size() - 1}) {
    Curve curve;
    const std::string saved = CancelledAt(at, &curve);
    ASSERT_EQ(curve.size(), at + 1) << "it went on after it was asked to end";
    EvaluationContext context = Recording(&curve);
    context.attempt = 2;
    context.checkpoint = saved;
    const EvaluationResult resumed = Evaluate(context);
    EXPECT_TRUE(resumed.resumed) << at;
    EXPECT_EQ(resumed.measurement, result) << at;
    EXPECT_EQ(curve, whole) << at;
  }
}

TEST_P(ObjectiveContract, CancelledBeforehandItDoesNothing) {
  base::StopSource source;
  source.RequestStop();
  Curve curve;
  EvaluationContext context = Recording(&curve);
  context.stop = source.token();
  EXPECT_EQ(Evaluate(context).outcome, EvaluationOutcome::kCancelled);
  EXPECT_THAT(curve, ::testing::IsEmpty());
}

TEST_P(ObjectiveContract, PausedAndResumedGivesTheSameBits) {
  if (!GetParam().curve) return;
  Curve whole, parts;
  const EvaluationResult straight = RunPaused(*objective_, GetParam().at, {}, &whole);
  ASSERT_GE(whole.size(), 4u);
  std::vector<int64_t> targets;
  for (const size_t k : {size_t{0}, size_t{1}, whole.size() - 1}) {
    if (whole[k].step > 0) targets.push_back(whole[k].step);
  }
  EXPECT_EQ(RunPaused(*objective_, GetParam().at, targets, &parts).measurement, straight.measurement);
  EXPECT_EQ(parts, whole);
}

TEST_P(ObjectiveContract, ATargetThatIsNotReachedIsNoPause) {
  EvaluationContext context = Context();
  context.target = Whole().second.step + 1'000'000;
  EXPECT_EQ(Evaluate(context).outcome, EvaluationOutcome::kComplete);
}

TEST_P(ObjectiveContract, ACheckpointThatDoesNotFitIsIgnored) {
  if (!GetParam().curve) return;
  const Measurement result = Whole().second;
  Curve curve;
  const std::string saved = CancelledAt(1, &curve);
  ASSERT_NE(saved, "");
  std::string flipped = saved;
  flipped[saved.size() / 2] = static_cast<char>(~flipped[saved.size() / 2]);
  for (const std::string& damaged : {flipped, saved.substr(0, saved.size() - 1), saved + "x", std::string("none")}) {
    EvaluationContext context = Context();
    context.checkpoint = damaged;
    std::vector<std::pair<bool, int64_t>> started;
    context.started = [&](bool used, int64_t step) { started.emplace_back(used, step); };
    const EvaluationResult fresh = Evaluate(context);
    EXPECT_FALSE(fresh.resumed);
    EXPECT_THAT(started, ::testing::ElementsAre(std::pair(false, int64_t{0})));
    EXPECT_EQ(fresh.measurement, result);
  }
  EvaluationContext elsewhere = Context();
  elsewhere.checkpoint = saved;
  double& moved = std::get<double>(elsewhere.parameters.begin()->second);
  moved *= 1.25;
  EXPECT_FALSE(Evaluate(elsewhere).resumed) << "the checkpoint of another setting";
}

// --- Derivatives ---

TEST_P(ObjectiveContract, TheGradientIsComputedWhereItIsRead) {
  EvaluationContext context = Context();
  const Measurement full = *Evaluate(context).measurement;
  ASSERT_EQ(full.gradient.has_value(), GetParam().gradient);
  if (full.gradient) {
    const auto dimension = static_cast<int>(GetParam().space.differentiable().size());
    EXPECT_TRUE(study::ValidateGradient(*full.gradient, dimension).ok());
    EXPECT_TRUE(full.gradient->full());
  }
  context.gradient = GradientUse::kNone;
  const Measurement none = *Evaluate(context).measurement;
  // Objectives without this option give what costs them nothing.
  if (objective_->info().FindParameter("gradient") != nullptr) {
    EXPECT_FALSE(none.gradient);
  }
  EXPECT_EQ(none.step, full.step);
  ASSERT_EQ(none.metrics.size(), full.metrics.size());
  // Weights are polished before they are differentiated, by as much as training leaves.
  for (const auto& [metric, value] : full.metrics) {
    EXPECT_NEAR(none.metrics.at(metric), value, 1e-6 * (1.0 + std::abs(value))) << metric;
  }
}

TEST_P(ObjectiveContract, ADirectionIsAnsweredByItsSlope) {
  if (!GetParam().gradient) return;
  EvaluationContext context = Context();
  const std::optional<study::Gradient> full = Evaluate(context).measurement->gradient;
  ASSERT_TRUE(full);
  double slope = 0.0, size = 0.0;
  for (size_t j = 0; j < full->values.size(); ++j) {
    context.direction.push_back(0.5 - static_cast<double>(j));
    slope += context.direction[j] * full->values[j];
    size += std::abs(context.direction[j] * full->values[j]);
  }
  const std::optional<study::Gradient> along = Evaluate(context).measurement->gradient;
  ASSERT_TRUE(along);
  EXPECT_EQ(along->direction, context.direction);
  EXPECT_THAT(along->values, ::testing::IsEmpty());
  EXPECT_NEAR(along->slope, slope, 1e-13 * size);
}

// --- What it refuses ---

TEST_P(ObjectiveContract, ParametersThatDoNotFitAreRefused) {
  const std::string first = GetParam().at.begin()->first;
  const auto refused = [&](const std::string& name, const std::optional<study::ParameterValue>& value) {
    EvaluationContext context = Context();
    context.parameters.erase(name);
    if (value) context.parameters[name] = *value;
    EXPECT_EQ(objective_->Evaluate(context).status().code(), absl::StatusCode::kInvalidArgument)
        << name << " " << (value ? study::FormatValue(*value) : "absent");
  };
  refused(first, std::nullopt);
  refused(first, std::numeric_limits<double>::quiet_NaN());
  refused(first, true);
  refused(first, std::string("much"));
  refused("unknown", 1.0);
}

TEST_P(ObjectiveContract, OptionsThatDoNotFitAreRefusedBeforeAnythingIsRead) {
  const auto refused = [](const std::string& name, const study::ParameterValue& value) {
    BuiltinObjective objective = GetParam().objective;
    objective.options[name] = value;
    const absl::Status status = catalogue::Validate(objective, GetParam().space, GetParam().metric);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name << " " << study::FormatValue(value);
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(name));
  };
  refused("unknown", 1.0);
  for (const catalogue::ParameterInfo& p : objective_->info().parameters) {
    if (GetParam().space.Find(p.name).has_value()) continue;
    const bool number = p.kind == catalogue::ParameterKind::kFloat || p.kind == catalogue::ParameterKind::kInt;
    if (number) {
      refused(p.name, std::numeric_limits<double>::quiet_NaN());
      refused(p.name, std::string("much"));
      if (std::isfinite(2.0 * p.max + 1.0)) refused(p.name, 2.0 * std::abs(p.max) + 1.0);
    } else if (p.kind == catalogue::ParameterKind::kCategorical) {
      refused(p.name, std::string("none of these"));
    } else if (p.kind == catalogue::ParameterKind::kBool) {
      refused(p.name, 0.5);
    }
  }
}

}  // namespace luthier::objectives

#endif  // LUTHIER_TESTS_CONTRACT_OBJECTIVE_CONTRACT_H_
