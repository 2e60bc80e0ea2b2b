#include "lib/search/bo/acquisition/hypervolume_improvement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "lib/math/finite_difference.h"
#include "lib/math/sobol.h"
#include "lib/math/special_functions.h"
#include "lib/pareto/hypervolume.h"
#include "lib/search/bo/acquisition/acquisition.h"

namespace luthier::search {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// A front, and the distribution of a new result.
struct NewResult {
  MatrixXd front;
  VectorXd reference, mean, deviation;

  double Log() const {
    return HypervolumeImprovement::Create(front, reference)->Log(mean, deviation, nullptr, nullptr);
  }
};

NewResult RandomResult(Index objectives, base::RandomStream& random) {
  NewResult result;
  result.front.resize(1 + static_cast<Index>(random.UniformInt(6)), objectives);
  for (double& x : result.front.reshaped()) x = random.Normal();
  result.reference = VectorXd::Constant(objectives, -1.5);
  result.mean.resize(objectives);
  for (double& x : result.mean) x = 0.7 * random.Normal();
  result.deviation.resize(objectives);
  for (double& x : result.deviation) x = 0.1 + random.Uniform();
  return result;
}

// The table's cases, by mpmath with 90 digits over all cells of the grid that the coordinates make.
struct TableRow {
  Index objectives;
  std::vector<double> front, reference, mean, deviation;
  double log_improvement;
};
const std::vector<TableRow> kTable = {
#include "tests/lib/search/bo/acquisition/hypervolume_table.inc"
};

TEST(HypervolumeImprovement, IsAccurateFarFromTheFront) {
  for (const TableRow& row : kTable) {
    const auto vector = [](const std::vector<double>& v) {
      return VectorXd(Eigen::Map<const VectorXd>(v.data(), static_cast<Index>(v.size())));
    };
    const NewResult result{vector(row.front).reshaped<Eigen::RowMajor>(
                               static_cast<Index>(row.front.size()) / row.objectives, row.objectives),
                           vector(row.reference), vector(row.mean), vector(row.deviation)};
    EXPECT_NEAR(result.Log(), row.log_improvement, 1e-12 * std::max(1.0, std::abs(row.log_improvement)))
        << row.objectives << " objectives, mean " << result.mean.transpose() << ", front\n"
        << result.front;
  }
}

TEST(HypervolumeImprovement, OfOneObjectiveIsTheExpectedImprovement) {
  for (double mean = -60.0; mean < 3.0; mean += 0.37) {
    const MatrixXd front = (MatrixXd(2, 1) << 0.25, -1.0).finished();
    const auto improvement = HypervolumeImprovement::Create(front, VectorXd::Constant(1, -2.0));
    VectorXd by_mean, by_deviation;
    const double value =
        improvement->Log(VectorXd::Constant(1, mean), VectorXd::Constant(1, 0.7), &by_mean, &by_deviation);
    const AcquisitionTerm ei = LogExpectedImprovement(mean, 0.7, 0.25);
    EXPECT_NEAR(value, ei.value, 1e-12 * std::max(1.0, std::abs(ei.value)));
    EXPECT_NEAR(by_mean(0), ei.by_mean, 1e-11 * std::abs(ei.by_mean));
    EXPECT_NEAR(by_deviation(0), ei.by_deviation, 1e-11 * std::max(1.0, std::abs(ei.by_deviation)));
  }
}

// Nodes and weights of E g(z), z ~ N(mean, deviation^2), for a g that is smooth between the levels: five Gauss-Legendre
// nodes (Abramowitz & Stegun, table 25.4) in each of many pieces.
std::vector<std::pair<double, double>> Quadrature(std::vector<double> levels, double mean, double deviation) {
  constexpr int kPieces = 80;
  constexpr double kReach = 9.0;
  constexpr double kNodes[] = {0.0, 0.53846931010568309, -0.53846931010568309, 0.90617984593866399,
                               -0.90617984593866399};
  constexpr double kWeights[] = {0.56888888888888889, 0.47862867049936647, 0.47862867049936647, 0.23692688505618909,
                                 0.23692688505618909};
  for (int i = 0; i <= kPieces; ++i) levels.push_back(mean + kReach * deviation * (2.0 * i / kPieces - 1.0));
  std::sort(levels.begin(), levels.end());
  std::vector<std::pair<double, double>> rule;
  for (size_t i = 0; i + 1 < levels.size(); ++i) {
    const double middle = 0.5 * (levels[i] + levels[i + 1]), half = 0.5 * (levels[i + 1] - levels[i]);
    if (std::abs(middle - mean) > kReach * deviation || !(half > 0.0)) continue;
    for (int k = 0; k < 5; ++k) {
      const double z = middle + half * kNodes[k];
      rule.emplace_back(z, half * kWeights[k] * math::NormalDensity((z - mean) / deviation) / deviation);
    }
  }
  return rule;
}

TEST(HypervolumeImprovement, OfTwoObjectivesAgreesWithQuadrature) {
  base::RandomStream random(1, "test/quadrature");
  for (int round = 0; round < 6; ++round) {
    const NewResult result = RandomResult(2, random);
    std::vector<std::vector<std::pair<double, double>>> rules;
    for (Index j = 0; j < 2; ++j) {
      std::vector<double> levels = {result.reference(j)};
      for (Index i = 0; i < result.front.rows(); ++i) levels.push_back(result.front(i, j));
      rules.push_back(Quadrature(levels, result.mean(j), result.deviation(j)));
    }
    double sum = 0.0;
    for (const auto& [x, of_x] : rules[0]) {
      for (const auto& [y, of_y] : rules[1]) {
        const VectorXd point = (VectorXd(2) << x, y).finished();
        sum += of_x * of_y * *pareto::HypervolumeGain(result.front, result.reference, point);
      }
    }
    EXPECT_NEAR(std::exp(result.Log()), sum, 1e-10 * std::max(1.0, sum)) << result.front;
  }
}

TEST(HypervolumeImprovement, OfThreeAndFourObjectivesAgreesWithSampling) {
  constexpr int kSamples = 1 << 16;
  base::RandomStream random(2, "test/sampling");
  for (int round = 0; round < 6; ++round) {
    const Index m = 3 + round % 2;
    const NewResult result = RandomResult(m, random);
    const math::SobolSequence sobol(static_cast<int>(m), 5, "test/sobol");
    double sum = 0.0;
    for (int i = 0; i < kSamples; ++i) {
      VectorXd point = sobol.Point(static_cast<uint64_t>(i));
      for (Index j = 0; j < m; ++j) point(j) = result.mean(j) + result.deviation(j) * base::NormalQuantile(point(j));
      sum += *pareto::HypervolumeGain(result.front, result.reference, point) / kSamples;
    }
    EXPECT_NEAR(std::exp(result.Log()) / sum, 1.0, 1e-3) << result.front;
  }
}

TEST(HypervolumeImprovement, GradientsAgreeWithDifferences) {
  base::RandomStream random(3, "test/differences");
  for (int round = 0; round < 80; ++round) {
    const Index m = 1 + round % 4;
    NewResult result = RandomResult(m, random);
    if (round >= 40) result.mean.array() -= 30.0;  // Where the plain form underflows.
    const auto improvement = HypervolumeImprovement::Create(result.front, result.reference);
    VectorXd by_mean, by_deviation;
    const double value = improvement->Log(result.mean, result.deviation, &by_mean, &by_deviation);
    EXPECT_NEAR(value, result.Log(), 1e-12 * std::abs(value));
    const VectorXd numeric_by_mean = math::CentralDifference(
        [&](const VectorXd& mean) { return improvement->Log(mean, result.deviation, nullptr, nullptr); }, result.mean);
    const VectorXd numeric_by_deviation = math::CentralDifference(
        [&](const VectorXd& deviation) { return improvement->Log(result.mean, deviation, nullptr, nullptr); },
        result.deviation);
    EXPECT_LE((by_mean - numeric_by_mean).norm(), 1e-6 * (1.0 + by_mean.norm()));
    EXPECT_LE((by_deviation - numeric_by_deviation).norm(), 1e-6 * (1.0 + by_deviation.norm()));
  }
}

TEST(HypervolumeImprovement, DoesNotDependOnTheOrderOfObjectivesNorOnTheirUnits) {
  base::RandomStream random(4, "test/invariance");
  for (int round = 0; round < 40; ++round) {
    const Index m = 2 + round % 3;
    NewResult result = RandomResult(m, random);
    if (round % 2 == 1) result.mean.array() -= 25.0;
    const double value = result.Log(), tolerance = 1e-11 * std::max(1.0, std::abs(value));
    const NewResult reversed{result.front.rowwise().reverse(), result.reference.reverse(), result.mean.reverse(),
                             result.deviation.reverse()};
    EXPECT_NEAR(reversed.Log(), value, tolerance);
    // y -> 1024 y + 3 multiplies volumes by 1024.
    NewResult scaled = result;
    scaled.front.col(0).array() = 1024.0 * scaled.front.col(0).array() + 3.0;
    scaled.reference(0) = 1024.0 * scaled.reference(0) + 3.0;
    scaled.mean(0) = 1024.0 * scaled.mean(0) + 3.0;
    scaled.deviation(0) *= 1024.0;
    EXPECT_NEAR(scaled.Log() - std::log(1024.0), value, tolerance);
  }
}

TEST(HypervolumeImprovement, ThePlainAndTheLogarithmicFormMeet) {
  // The switch is where the improvement is 1e-250; values on both sides of it lie on one smooth curve.
  base::RandomStream random(5, "test/switch");
  for (int round = 0; round < 10; ++round) {
    NewResult result = RandomResult(2 + round % 3, random);
    result.deviation.setConstant(0.25);
    const VectorXd at = result.mean;
    double previous = 0.0, difference = 0.0;
    for (int i = 0; i < 2000; ++i) {
      result.mean = at.array() - 0.005 * i;
      const double value = result.Log();
      if (i > 1) {
        ASSERT_LT(std::abs((value - previous) - difference), 0.05) << "step " << i << ", ln EHVI " << value;
      }
      difference = value - previous;
      previous = value;
    }
    EXPECT_LT(previous, -576.0) << "the switch was passed";
  }
}

TEST(HypervolumeImprovement, TooManyBoxesAreRefused) {
  base::RandomStream random(6, "test/many");
  MatrixXd front(1000, 4);
  for (double& x : front.reshaped()) x = std::abs(random.Normal());
  front.rowwise().normalize();
  EXPECT_FALSE(HypervolumeImprovement::Create(front, VectorXd::Zero(4)).has_value());
  EXPECT_TRUE(HypervolumeImprovement::Create(front.topRows(kMostFrontPoints), VectorXd::Zero(4)).has_value());
}

}  // namespace
}  // namespace luthier::search
