#include "lib/search/bo/model/output_transform.h"

#include <cmath>

#include "gtest/gtest.h"
#include "lib/base/random.h"

namespace luthier::search {
namespace {

using Eigen::VectorXd;

VectorXd Normals(uint64_t seed, int n) {
  base::RandomStream stream(seed, "transform");
  VectorXd v(n);
  for (int i = 0; i < n; ++i) v(i) = stream.Normal();
  return v;
}

OutputTransform Warped(const VectorXd& scores) {
  const std::optional<OutputTransform> transform = OutputTransform::Create(Warp::kYeoJohnson, scores);
  return transform.value_or(OutputTransform::Standard(scores));
}

void ExpectStandard(const VectorXd& z) {
  EXPECT_NEAR(z.mean(), 0.0, 1e-12);
  EXPECT_NEAR(z.squaredNorm() / static_cast<double>(z.size()), 1.0, 1e-12);
}

TEST(OutputTransform, StandardisesKeepsOrderAndInverts) {
  const VectorXd losses = Normals(1, 60).array().exp().pow(1.5);
  for (const OutputTransform& t :
       {OutputTransform::Standard(-losses), Warped(-losses), *OutputTransform::Create(Warp::kLog, -losses)}) {
    const VectorXd z = t.Forward(VectorXd(-losses));
    ExpectStandard(z);
    for (int i = 0; i < 60; ++i) {
      for (int j = 0; j < 60; ++j) EXPECT_EQ(z(i) < z(j), -losses(i) < -losses(j));
      EXPECT_NEAR(t.Inverse(z(i)), -losses(i), 1e-9 * losses.maxCoeff());
    }
  }
}

TEST(OutputTransform, WarpFindsTheShapeOfTheTail) {
  EXPECT_NEAR(Warped(Normals(2, 400)).lambda(), 1.0, 0.2);
  EXPECT_GT(Warped(-Normals(3, 400).array().exp().matrix()).lambda(), 1.5);  // Bad values far off.
  EXPECT_LT(Warped(Normals(3, 400).array().exp().matrix()).lambda(), 0.5);
}

TEST(OutputTransform, JacobianMatchesDifferences) {
  const VectorXd scores = -Normals(4, 25).array().exp().matrix();
  for (const OutputTransform& t :
       {OutputTransform::Standard(scores), Warped(scores), *OutputTransform::Create(Warp::kLog, scores)}) {
    double expected = 0.0;
    for (int i = 0; i < 25; ++i) {
      const double slope = (t.Forward(scores(i) + 1e-6) - t.Forward(scores(i) - 1e-6)) / 2e-6;
      EXPECT_NEAR(t.Slope(scores(i)), slope, 1e-6 * slope);
      expected += std::log(slope);
    }
    EXPECT_NEAR(t.LogJacobian(), expected, 1e-6);
  }
}

TEST(OutputTransform, DoesNotDependOnTheUnit) {
  const VectorXd scores = Normals(5, 30);
  const VectorXd z = Warped(scores).Forward(scores);
  const VectorXd scaled = 1024.0 * scores;
  EXPECT_EQ(Warped(scaled).Forward(scaled), z);
  const VectorXd moved = 3.0 * scores.array() + 70.0;
  EXPECT_LT((Warped(moved).Forward(moved) - z).cwiseAbs().maxCoeff(), 1e-9);
}

TEST(OutputTransform, DegenerateAndExtremeScores) {
  for (double value : {0.0, -3.0, 1e300, -1.7e308, 1e-320}) {
    for (int n : {1, 2, 7}) {
      const VectorXd same = VectorXd::Constant(n, value);
      for (const OutputTransform& t : {OutputTransform::Standard(same), Warped(same)}) {
        EXPECT_EQ(t.Forward(same), VectorXd::Zero(n)) << value;
        EXPECT_TRUE(std::isfinite(t.LogJacobian()));
        EXPECT_TRUE(std::isfinite(t.Inverse(0.5)));
      }
    }
  }
  for (double scale : {1e-310, 1e-100, 1e300}) {
    const VectorXd scores = scale * VectorXd::LinSpaced(9, -1.0, 1.0);
    const OutputTransform t = Warped(scores);
    const VectorXd z = t.Forward(scores);
    ExpectStandard(z);
    for (int i = 0; i < 9; ++i) EXPECT_NEAR(t.Inverse(z(i)) / scale, scores(i) / scale, 1e-6);
    EXPECT_TRUE(std::isfinite(t.Inverse(1e6)));
    EXPECT_TRUE(std::isfinite(t.Inverse(-1e6)));
  }
}

TEST(OutputTransform, ForPeopleAWarpEndsARangeBeyondTheScores) {
  VectorXd scores(12);
  for (int i = 0; i < 12; ++i) scores(i) = -std::pow(10.0, -i);
  for (const Warp warp : {Warp::kYeoJohnson, Warp::kLog}) {
    const std::optional<OutputTransform> t = OutputTransform::Create(warp, scores);
    ASSERT_TRUE(t.has_value());
    for (int i = 0; i < 12; ++i) {
      const double z = t->Forward(scores(i));
      EXPECT_EQ(t->InverseWithin(z), t->Inverse(z)) << WarpName(warp);
    }
    EXPECT_LT(t->Inverse(-9.0), -1e3) << WarpName(warp);
    EXPECT_NEAR(t->InverseWithin(-9.0), -2.0, 1e-9) << WarpName(warp);
  }
  const OutputTransform plain = OutputTransform::Standard(scores);
  EXPECT_EQ(plain.InverseWithin(-9.0), plain.Inverse(-9.0));
}

TEST(OutputTransform, OneAbsurdLossDoesNotFlattenTheRest) {
  VectorXd scores = VectorXd::LinSpaced(20, -1.0, 0.0);
  scores(7) = -1e30;
  const VectorXd z = OutputTransform::Standard(scores).Forward(scores);
  EXPECT_GT(z(19) - z(0), 0.1);
  EXPECT_EQ(z.minCoeff(), z(7));
}

}  // namespace
}  // namespace luthier::search
