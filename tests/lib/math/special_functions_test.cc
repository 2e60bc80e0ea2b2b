#include "lib/math/special_functions.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/math/infinity.h"

namespace luthier::math {
namespace {

#include "tests/lib/math/special_functions_table.inc"

double RelativeError(double value, double reference) {
  return reference == 0.0 ? std::abs(value) : std::abs(value / reference - 1.0);
}

TEST(SpecialFunctions, NormalCdfAndItsLogarithmMatchTheTable) {
  for (const NormalRow& row : kNormalRows) {
    // libm's erfc carries the argument's rounding, which its derivative multiplies by z^2.
    EXPECT_LT(RelativeError(NormalCdf(row.z), row.cdf), 4e-16 * (1.0 + row.z * row.z)) << row.z;
    EXPECT_LT(RelativeError(LogNormalCdf(row.z), row.log_cdf), row.z > 5.0 ? 4e-16 * row.z * row.z : 1e-14) << row.z;
  }
}

TEST(SpecialFunctions, LogHIsAccurateAcrossItsSwitches) {
  for (const NormalRow& row : kNormalRows) {
    const LogHValue h = LogH(row.z);
    if (row.z > -1000.0) {
      EXPECT_NEAR(h.value, row.log_h, 1e-12) << row.z;
    } else {
      EXPECT_LT(RelativeError(h.value, row.log_h), 1e-13) << row.z;
    }
    EXPECT_LT(RelativeError(h.slope, row.h_slope), 1e-12) << row.z;
  }
}

TEST(SpecialFunctions, LogHIsContinuousAndIncreasing) {
  double previous = LogH(-200.0).value;
  for (double z = -199.99; z < 8.0; z += 0.01) {
    const double value = LogH(z).value;
    ASSERT_GT(value, previous) << z;
    previous = value;
  }
}

TEST(SpecialFunctions, LogHSlopeIsTheDerivative) {
  for (double z = -80.0; z < 6.0; z += 0.37) {
    const double step = 1e-5;
    const double numeric = (LogH(z + step).value - LogH(z - step).value) / (2.0 * step);
    EXPECT_LT(RelativeError(LogH(z).slope, numeric), 1e-6) << z;
  }
}

TEST(SpecialFunctions, ErfcxMatchesTheTable) {
  for (const PairRow& row : kErfcxRows) EXPECT_LT(RelativeError(Erfcx(row.x), row.value), 1e-14) << row.x;
}

TEST(SpecialFunctions, Log1mExpMatchesTheTable) {
  for (const PairRow& row : kLog1mExpRows) EXPECT_LT(RelativeError(Log1mExp(row.x), row.value), 1e-15) << row.x;
  EXPECT_EQ(Log1mExp(0.0), -kInfinity);
  EXPECT_TRUE(std::isnan(Log1mExp(1e-3)));
}

TEST(SpecialFunctions, CdfDifferencesKeepTheirDigits) {
  for (const DifferenceRow& row : kCdfDifferenceRows) {
    // The difference of nearby points is as accurate as their distance: a few ulp of an argument over |a - b|.
    const double conditioning =
        4e-16 * std::max(1.0, std::abs(row.a)) * (1.0 + std::abs(row.a)) / std::abs(row.a - row.b);
    EXPECT_LT(RelativeError(NormalCdfDifference(row.a, row.b), row.value), 1e-13 + conditioning)
        << row.a << " " << row.b;
    EXPECT_EQ(NormalCdfDifference(row.b, row.a), -NormalCdfDifference(row.a, row.b));
  }
}

TEST(SpecialFunctions, InverseMillsIsTheDerivativeOfTheLogarithm) {
  for (const NormalRow& row : kNormalRows) {
    // h'/h = Phi/(phi + z Phi), so phi/Phi = 1/(h'/h) - z; exact enough where the two do not cancel.
    if (row.z > -1.0 && row.z < 3.0) {
      EXPECT_LT(RelativeError(InverseMills(row.z), 1.0 / row.h_slope - row.z), 1e-13) << row.z;
    }
    if (row.z < -100.0) {
      EXPECT_LT(RelativeError(InverseMills(row.z), -row.z - 1.0 / row.z), 1e-7) << row.z;
    }
  }
  for (double z = -30.0; z < 5.0; z += 0.31) {
    const double numeric = (LogNormalCdf(z + 1e-5) - LogNormalCdf(z - 1e-5)) / 2e-5;
    EXPECT_LT(std::abs(InverseMills(z) - numeric), 1e-6 * std::max(1.0, numeric)) << z;
  }
}

TEST(SpecialFunctions, LogCdfDifferencesMatchTheTable) {
  for (const LogDifferenceRow& row : kLogCdfDifferenceRows) {
    const LogCdfDifferenceValue v = LogNormalCdfDifference(row.a, row.b);
    const double conditioning = 4e-16 * (1.0 + std::abs(row.a)) * (1.0 + std::abs(row.a)) +
                                4e-16 * std::max(std::abs(row.a), std::abs(row.b)) / (row.a - row.b);
    EXPECT_NEAR(v.value, row.value, 1e-12 * std::max(1.0, std::abs(row.value)) + conditioning) << row.a << " " << row.b;
    EXPECT_LT(RelativeError(v.by_a, row.by_a), 1e-11 + 10.0 * conditioning) << row.a << " " << row.b;
    EXPECT_LT(RelativeError(v.by_b, row.by_b), 1e-11 + 10.0 * conditioning) << row.a << " " << row.b;
  }
}

TEST(SpecialFunctions, ASliceIsADifferenceOfItsEnds) {
  for (const double middle : {-30.0, -3.0, -0.1, 0.0, 1.0, 8.0}) {
    for (const double width : {1e-6, 1e-4, 0.9e-2 / (1.0 + std::abs(middle))}) {
      const LogNormalSliceValue slice = LogNormalSlice(middle, width);
      const LogCdfDifferenceValue ends = LogNormalCdfDifference(middle + 0.5 * width, middle - 0.5 * width);
      // What rounding the ends does to their distance.
      const double rounding = 1e-12 + 4e-16 * (1.0 + std::abs(middle)) / width;
      EXPECT_NEAR(slice.value, ends.value, 1e-13 * std::abs(ends.value) + rounding) << middle << " " << width;
      EXPECT_NEAR(slice.by_width * width, 0.5 * (ends.by_a - ends.by_b) * width, rounding) << middle << " " << width;
      EXPECT_NEAR(slice.by_middle * width, (ends.by_a + ends.by_b) * width, rounding) << middle << " " << width;
    }
    // Narrower than its ends can say: phi(m) w.
    EXPECT_NEAR(LogNormalSlice(middle, 1e-300).value, LogNormalDensity(middle) + std::log(1e-300), 1e-12);
    EXPECT_NEAR(LogNormalSlice(middle, 1e-300).by_middle, -middle, 1e-14 * std::abs(middle));
  }
}

TEST(SpecialFunctions, LogPartialMomentMatchesTheTable) {
  for (const PartialMomentRow& row : kPartialMomentRows) {
    const LogPartialMomentValue v = LogPartialMoment(row.z, row.q);
    EXPECT_NEAR(v.value, row.value, 1e-13 * std::max(10.0, std::abs(row.value))) << row.z << " " << row.q;
    EXPECT_NEAR(v.by_z, row.by_z, 1e-12 * (1.0 + std::abs(row.z)) + 1e-10 * std::abs(row.by_z))
        << row.z << " " << row.q;
    EXPECT_NEAR(v.by_q, row.by_q, 1e-11 * std::abs(row.by_q) + 1e-300) << row.z << " " << row.q;
  }
}

TEST(SpecialFunctions, LogPartialMomentJoinsLogH) {
  for (double z = -100.0; z < 30.0; z += 0.37) {
    EXPECT_NEAR(LogPartialMoment(z, std::max(0.0, z) + 45.0).value, LogH(z).value,
                2e-12 * std::max(1.0, std::abs(LogH(z).value) * 0.1))
        << z;
    EXPECT_EQ(LogPartialMoment(z, kInfinity).value, LogH(z).value);
    EXPECT_EQ(LogPartialMoment(z, kInfinity).by_z, LogH(z).slope);
  }
  EXPECT_EQ(LogPartialMoment(-1.0, 0.0).value, -kInfinity);
  EXPECT_EQ(LogPartialMoment(-1.0, -2.0).value, -kInfinity);
}

TEST(SpecialFunctions, LogarithmsOfSumsAndDifferences) {
  EXPECT_NEAR(LogSumExp(std::log(2.0), std::log(3.0)), std::log(5.0), 1e-15);
  EXPECT_NEAR(LogSumExp(-1e4, -1e4), -1e4 + std::log(2.0), 1e-12);
  EXPECT_EQ(LogSumExp(-kInfinity, -kInfinity), -kInfinity);
  EXPECT_EQ(LogSumExp(-kInfinity, 3.0), 3.0);
  EXPECT_NEAR(LogDiffExp(std::log(5.0), std::log(3.0)), std::log(2.0), 1e-15);
  EXPECT_EQ(LogDiffExp(2.0, 2.0), -kInfinity);
  EXPECT_EQ(LogDiffExp(2.0, -kInfinity), 2.0);
}

TEST(SpecialFunctions, ExtremesAndNanNeitherTrapNorLie) {
  EXPECT_EQ(NormalCdf(kInfinity), 1.0);
  EXPECT_EQ(NormalCdf(-kInfinity), 0.0);
  EXPECT_EQ(LogNormalCdf(-kInfinity), -kInfinity);
  EXPECT_EQ(LogNormalCdf(kInfinity), 0.0);
  EXPECT_EQ(LogH(-kInfinity).value, -kInfinity);
  EXPECT_EQ(LogH(kInfinity).value, kInfinity);
  EXPECT_EQ(LogH(-1e200).value, -kInfinity);
  EXPECT_EQ(LogNormalCdfDifference(kInfinity, -kInfinity).value, 0.0);
  EXPECT_EQ(LogNormalCdfDifference(1.0, 1.0).value, -kInfinity);
  EXPECT_EQ(LogNormalCdfDifference(kInfinity, 1.0).value, LogNormalCdf(-1.0));
  EXPECT_EQ(LogPartialMoment(-1e200, 1.0).value, -kInfinity);
  EXPECT_EQ(LogPartialMoment(1e200, 1.0).value, -kInfinity);
  EXPECT_EQ(LogPartialMoment(1e200, 1e201).value, LogH(1e200).value);
  EXPECT_TRUE(std::isfinite(LogPartialMoment(-1e7, 1e-300).value));
  EXPECT_TRUE(std::isfinite(LogPartialMoment(1e7, 1e8).by_z));
  EXPECT_EQ(Erfcx(kInfinity), 0.0);
  EXPECT_EQ(Erfcx(-kInfinity), kInfinity);
  for (double value :
       {NormalCdf(NAN), LogNormalCdf(NAN), LogH(NAN).value, LogH(NAN).slope, Erfcx(NAN), Log1mExp(NAN),
        LogSumExp(NAN, 0.0), NormalCdfDifference(NAN, 0.0), InverseMills(NAN), LogNormalCdfDifference(NAN, 0.0).value,
        LogNormalCdfDifference(0.0, 1.0).value, LogPartialMoment(NAN, 1.0).value, LogPartialMoment(1.0, NAN).value}) {
    EXPECT_TRUE(std::isnan(value));
  }
}

}  // namespace
}  // namespace luthier::math
