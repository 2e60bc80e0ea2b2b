#include "lib/bilevel/matrix_completion.h"

#include <gtest/gtest.h>

#include <Eigen/SVD>
#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "lib/base/random.h"
#include "tests/lib/bilevel/matrix_problem.h"

namespace luthier::bilevel {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

TEST(MatrixLoss, GradientEqualsDifferences) {
  const MatrixProblem problem = RandomMatrixProblem(6, 5, 4, 1);
  base::RandomStream random(2, "x");
  VectorXd x(problem.variables());
  for (double& v : x) v = random.Normal();
  VectorXd gradient = VectorXd::Zero(x.size());
  AddMatrixGradient(problem, problem.train, x, 1.0, &gradient);
  for (Index i = 0; i < x.size(); ++i) {
    VectorXd up = x, down = x;
    up[i] += 1e-5;
    down[i] -= 1e-5;
    const double slope = (MatrixLoss(problem, problem.train, up) - MatrixLoss(problem, problem.train, down)) / 2e-5;
    EXPECT_NEAR(gradient[i], slope, 1e-8) << i;
  }
}

TEST(ShrunkMatrix, IsTheMinimum) {
  const MatrixProblem problem = RandomMatrixProblem(6, 5, 4, 3);
  base::RandomStream random(4, "x");
  VectorXd x(problem.variables());
  for (double& v : x) v = random.Normal();
  const VectorXd strengths = Eigen::Vector3d(0.8, 0.5, 3.0);
  const auto value = [&](const VectorXd& z) {
    return 0.5 * (z - x).squaredNorm() + 0.7 * strengths.dot(MatrixPenalties(problem, z));
  };
  const VectorXd z = ShrunkMatrix(problem, x, strengths, 0.7);
  for (int k = 0; k < 200; ++k) {
    VectorXd other = z;
    for (double& v : other) v += std::pow(10.0, -random.Uniform() * 4.0) * random.Normal();
    EXPECT_GE(value(other), value(z));
  }
}

// Each entry known once, no features: the minimum is known, singular values shrunk by strength times the entries.
TEST(TrainMatrixCompletion, FullMatrixHasAClosedForm) {
  MatrixProblem problem = RandomMatrixProblem(7, 5, 0, 5);
  base::RandomStream random(6, "y");
  MatrixXd y(7, 5);
  problem.train = {};
  problem.train.value.resize(35);
  problem.train.features.resize(35, 0);
  for (Index i = 0; i < 7; ++i) {
    for (Index j = 0; j < 5; ++j) {
      y(i, j) = random.Normal();
      problem.train.value[static_cast<Index>(problem.train.row.size())] = y(i, j);
      problem.train.row.push_back(i);
      problem.train.col.push_back(j);
    }
  }
  const double strength = 0.03;
  const auto trained = TrainMatrixCompletion(problem, VectorXd::Constant(1, strength),
                                             VectorXd::Zero(problem.variables()), 1e-10, 5000, {});
  ASSERT_TRUE(trained.ok());
  EXPECT_TRUE(trained->converged);
  const Eigen::JacobiSVD<MatrixXd> svd(y, Eigen::ComputeThinU | Eigen::ComputeThinV);
  const VectorXd values = (svd.singularValues().array() - strength * 35.0).cwiseMax(0.0);
  const MatrixXd expected = svd.matrixU() * values.asDiagonal() * svd.matrixV().transpose();
  EXPECT_GT(values[0], 0.0);
  EXPECT_EQ(values[4], 0.0);
  EXPECT_LT((LowRankOf(problem, trained->x) - expected).cwiseAbs().maxCoeff(), 1e-4);
}

TEST(TrainMatrixCompletion, GapIsABoundFromAnyStart) {
  const MatrixProblem problem = RandomMatrixProblem(12, 9, 4, 7);
  const VectorXd strengths = Eigen::Vector3d(0.02, 0.03, 0.05);
  base::RandomStream random(8, "x");
  double least = 1e300;
  for (int k = 0; k < 4; ++k) {
    VectorXd x(problem.variables());
    for (double& v : x) v = k * random.Normal();
    const auto trained = TrainMatrixCompletion(problem, strengths, x, 1e-7, 20000, {});
    ASSERT_TRUE(trained.ok());
    EXPECT_TRUE(trained->converged);
    EXPECT_LE(trained->gap, 1e-7 * (1.0 + trained->objective));
    if (k > 0) {
      EXPECT_GE(trained->objective, least - 2e-7 * (1.0 + least));
    }
    least = std::min(least, trained->objective);
    // An early end says how far it may be off.
    const auto early = TrainMatrixCompletion(problem, strengths, x, 1e-12, 3, {});
    ASSERT_TRUE(early.ok());
    EXPECT_FALSE(early->converged);
    EXPECT_GE(early->gap, early->objective - least - 1e-6);
  }
}

TEST(TrainMatrixCompletion, StopEndsIt) {
  const MatrixProblem problem = RandomMatrixProblem(6, 5, 4, 9);
  const auto stopped = TrainMatrixCompletion(problem, Eigen::Vector3d(0.1, 0.1, 0.1),
                                             VectorXd::Zero(problem.variables()), 1e-9, 1000, Stopped());
  EXPECT_TRUE(absl::IsCancelled(stopped.status()));
}

}  // namespace
}  // namespace luthier::bilevel
