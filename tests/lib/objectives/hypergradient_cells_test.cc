#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/objectives/fold.h"
#include "tests/lib/linear/strength_cells.h"

// The derivative of the validation loss by ln l2 beside differences of the loss, wherever a training says that it has
// converged.
namespace luthier::objectives {
namespace {

using linear::Bias;
using Kind = linear::MarginLoss::Kind;

struct Outcome {
  linear::TrainOutcome ended = linear::TrainOutcome::kRunning;
  double loss = 0.0;  // Mean over the validation rows.
  double slope = 0.0;
  bool solved = false;
};

// Trains at exp(log_l2), then differentiates, which moves the weights to the optimum as exactly as rounding allows.
Outcome Evaluate(const FoldData& fold, const LinearSettings& base, double log_l2) {
  LinearSettings settings = base;
  settings.l2 = std::exp(log_l2);
  settings.penalties = {settings.l2};
  auto training = fold.Start(settings, fold.Choose(settings).solver).value();
  while (training->running()) training->Advance({}).value();
  Outcome outcome;
  outcome.ended = training->outcome();
  if (!training->optimal()) return outcome;
  const bilevel::ImplicitGradient gradient = training->Differentiate({}, {}).value();
  // Else the Hessian is singular for floating point, and objectives report no gradient.
  outcome.solved =
      gradient.outcome == linear::CgOutcome::kConverged || gradient.outcome == linear::CgOutcome::kPrecision;
  if (!outcome.solved) return outcome;
  outcome.slope = gradient.gradient[0];
  const FoldTraining::Sums sums = training->Measure({}).value();
  outcome.loss = sums.validation_loss / sums.validation_rows;
  return outcome;
}

TEST(HypergradientCellsTest, AgreesWithDifferencesWhereverTrainingConverged) {
  int compared = 0, kinks = 0, not_converged = 0, unsolved = 0;
  for (const linear::Shape& shape : linear::HardShapes(21)) {
    data::Partition partition;
    for (int32_t i = 0; i < shape.dataset.x.rows; ++i)
      (i % 5 == 2 ? partition.validation : partition.train).push_back(i);
    for (const Kind kind : {Kind::kLogistic, Kind::kHuberizedHinge}) {
      for (const Bias bias : {Bias::kFree, Bias::kPenalized}) {
        if (kind == Kind::kHuberizedHinge && bias == Bias::kFree) continue;  // No objective has it.
        LinearSettings settings;
        settings.loss = {kind};
        settings.bias = bias;
        settings.standardize = shape.standardize;
        settings.solver = "auto";
        const bilevel::ColumnPenalties groups;
        const auto fold = MakeFoldData(&shape.dataset, partition, settings.standardize, bias, groups, {}, {}).value();
        for (int e = -10; e <= 10; e += 2) {
          const double at = e * std::log(10.0);
          const std::string name =
              absl::StrCat(shape.name, " ", static_cast<int>(kind), static_cast<int>(bias), " 1e", e);
          const Outcome here = Evaluate(*fold, settings, at);
          if (here.ended != linear::TrainOutcome::kConverged) {
            ++not_converged;
            continue;
          }
          if (!here.solved) {
            EXPECT_LE(e, -8) << name;
            ++unsolved;
            continue;
          }
          // Fourth order; both widths agree where there is no kink between.
          const auto slope = [&](double h) {
            const auto loss = [&](double x) { return Evaluate(*fold, settings, x).loss; };
            return (8.0 * (loss(at + h) - loss(at - h)) - (loss(at + 2.0 * h) - loss(at - 2.0 * h))) / (12.0 * h);
          };
          const double numeric = slope(2e-3), narrow = slope(5e-4);
          const double scale = std::abs(numeric) + 1e-5 * std::abs(here.loss);
          if (kind == Kind::kHuberizedHinge && std::abs(numeric - narrow) > 1e-6 * scale) {
            ++kinks;
            continue;
          }
          ++compared;
          EXPECT_NEAR(here.slope, numeric, 1e-5 * scale) << name << ", loss " << here.loss;
        }
      }
    }
  }
  EXPECT_LE(not_converged, 5);
  EXPECT_LE(unsolved, 5);
  EXPECT_LE(kinks, 40);
  EXPECT_GE(compared, 210);
  RecordProperty("compared", compared);
}

}  // namespace
}  // namespace luthier::objectives
