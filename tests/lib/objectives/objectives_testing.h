#ifndef LUTHIER_TESTS_LIB_OBJECTIVES_OBJECTIVES_TESTING_H_
#define LUTHIER_TESTS_LIB_OBJECTIVES_OBJECTIVES_TESTING_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/objectives/create.h"
#include "tests/lib/catalogue/catalogue_testing.h"

// What the tests of objectives share.
namespace luthier::objectives {

using catalogue::Float;
using catalogue::kLoss;
using catalogue::kValue;
using catalogue::L2Space;
using catalogue::Logistic;
using catalogue::Space;
using study::BuiltinObjective;
using study::FloatRange;
using study::Measurement;
using study::MetricSpec;
using study::ParameterSpec;
using study::SearchSpace;

inline std::unique_ptr<Objective> Make(const BuiltinObjective& objective, const SearchSpace& space,
                                       const MetricSpec& metric) {
  absl::StatusOr<std::unique_ptr<Objective>> made = CreateObjective(objective, space, metric, nullptr);
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

inline EvaluationContext At(study::Parameters parameters) {
  EvaluationContext context;
  context.parameters = std::move(parameters);
  return context;
}

// Runs with a pause at each of `targets`, each run from the checkpoint of the one before; the last runs to the end.
// Appends the points to `curve`. A pause is at the first point that is not below its target.
inline EvaluationResult RunPaused(const Objective& objective, const study::Parameters& parameters,
                                  const std::vector<int64_t>& targets, std::vector<Measurement>* curve) {
  std::string saved;
  int64_t paused_at = 0;
  for (size_t k = 0;; ++k) {
    EvaluationContext context = At(parameters);
    context.attempt = static_cast<int32_t>(k) + 1;
    context.target = k < targets.size() ? targets[k] : 0;
    context.checkpoint = saved;
    int64_t started = -1;
    context.started = [&](bool resumed, int64_t step) {
      EXPECT_EQ(resumed, k > 0);
      started = step;
    };
    context.report = [&](const Measurement& m) {
      curve->push_back(m);
      return true;
    };
    context.save_checkpoint = [&](std::string bytes) { saved = std::move(bytes); };
    const EvaluationResult result = objective.Evaluate(context).value();
    EXPECT_EQ(started, paused_at);
    EXPECT_EQ(result.resumed, k > 0);
    if (k == targets.size()) return result;
    EXPECT_EQ(result.outcome, EvaluationOutcome::kPaused);
    EXPECT_GE(result.measurement->step, targets[k]);
    const int64_t before = curve->size() < 2 ? 0 : (*curve)[curve->size() - 2].step;
    EXPECT_TRUE(before < targets[k] || before == paused_at);
    Measurement point = *result.measurement;
    point.training.reset();  // The curve does not say that it ended there.
    EXPECT_EQ(point, curve->back());
    paused_at = result.measurement->step;
  }
}

}  // namespace luthier::objectives

#endif  // LUTHIER_TESTS_LIB_OBJECTIVES_OBJECTIVES_TESTING_H_
