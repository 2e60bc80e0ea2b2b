#include "lib/objectives/fold_errors.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace luthier::objectives {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(FoldErrors, EqualFoldsGiveTheDeviationOfTheirMeansOverTheRootOfTheirNumber) {
  FoldErrors errors;
  const double means[] = {0.30, 0.35, 0.32, 0.41};
  double mean = 0.0, squares = 0.0;
  for (const double m : means) {
    errors.Add("validation_loss", m * 50, 50);
    mean += m / 4;
  }
  for (const double m : means) squares += (m - mean) * (m - mean);
  study::Measurement measurement;
  errors.WriteTo(&measurement);
  ASSERT_EQ(measurement.standard_errors.size(), 1u);
  EXPECT_NEAR(measurement.standard_errors["validation_loss"], std::sqrt(squares / 3 / 4), 1e-15);
}

TEST(FoldErrors, AFoldCountsByItsRows) {
  FoldErrors errors;
  errors.Add("a", 1.0 * 30, 30);
  errors.Add("a", 2.0 * 10, 10);
  errors.Add("a", 0.0, 0.0);  // A fold without rows.
  study::Measurement measurement;
  errors.WriteTo(&measurement);
  // The mean is 1.25; the weighted squares are .75 * .0625 + .25 * .5625.
  EXPECT_THAT(measurement.standard_errors, ElementsAre(Pair("a", ::testing::DoubleNear(std::sqrt(0.1875), 1e-15))));
}

TEST(FoldErrors, OneFoldOrAnInfiniteLossHasNone) {
  FoldErrors errors;
  errors.Add("one", 3.0, 10);
  errors.Add("infinite", INFINITY, 10);
  errors.Add("infinite", 1.0, 10);
  study::Measurement measurement;
  errors.WriteTo(&measurement);
  EXPECT_THAT(measurement.standard_errors, IsEmpty());
}

}  // namespace
}  // namespace luthier::objectives
