#include "lib/study/measurement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "tests/testing/violations.h"

namespace luthier::study {
namespace {

using luthier::testing::Fields;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Training, NamesOfOutcomesReadBack) {
  for (int i = 0; i < kTrainingOutcomeCount; ++i) {
    const auto outcome = static_cast<TrainingOutcome>(i);
    EXPECT_EQ(ParseTrainingOutcome(TrainingOutcomeName(outcome)).value(), outcome);
  }
  const absl::Status unknown = ParseTrainingOutcome("limits").status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("converged, precision, target, limit, diverged"));
  EXPECT_FALSE(ParseTrainingOutcome("").ok());
}

TEST(Training, NumbersAreFiniteAndNotNegative) {
  EXPECT_TRUE(ValidateTraining({}).ok());
  EXPECT_TRUE(ValidateTraining({TrainingOutcome::kDiverged, 0.0, 1e300}).ok());
  EXPECT_THAT(Fields(ValidateTraining({TrainingOutcome::kLimit, -1e-9, std::nullopt})), ElementsAre("gradient_norm"));
  EXPECT_THAT(Fields(ValidateTraining({TrainingOutcome::kLimit, 1.0, kNan})), ElementsAre("duality_gap"));
  EXPECT_THAT(Fields(ValidateTraining({TrainingOutcome::kLimit, kInf, kInf})),
              ElementsAre("gradient_norm", "duality_gap"));
}

TEST(Training, SecondsAreFiniteAndNotNegative) {
  EXPECT_TRUE(ValidateSeconds(0.0, "elapsed_seconds").ok());
  EXPECT_TRUE(ValidateSeconds(1e9, "elapsed_seconds").ok());
  for (const double bad : {-1.0, kNan, kInf}) {
    EXPECT_THAT(Fields(ValidateSeconds(bad, "gradient_seconds")), ElementsAre("gradient_seconds"));
  }
}

TEST(Training, TheWorstOfSeveralCounts) {
  const TrainingReport good = {TrainingOutcome::kConverged, 1e-9, 1e-3};
  const TrainingReport bad = {TrainingOutcome::kLimit, 1e-2, std::nullopt};
  for (const auto& [a, b] : {std::pair(good, bad), std::pair(bad, good)}) {
    EXPECT_EQ(Worse(a, b), (TrainingReport{TrainingOutcome::kLimit, 1e-2, std::nullopt}));
  }
  // From best to worst.
  for (int i = 1; i < kTrainingOutcomeCount; ++i) {
    const TrainingReport better = {static_cast<TrainingOutcome>(i - 1), {}, {}};
    EXPECT_EQ(Worse(better, {static_cast<TrainingOutcome>(i), {}, {}}).outcome, static_cast<TrainingOutcome>(i));
  }
}

TEST(GradientUse, HasAName) {
  EXPECT_EQ(GradientUseName(GradientUse::kNone), "none");
  EXPECT_EQ(GradientUseName(GradientUse::kFull), "full");
  EXPECT_EQ(GradientUseName(GradientUse::kDirectional), "directional");
}

}  // namespace
}  // namespace luthier::study
