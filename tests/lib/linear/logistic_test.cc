#include "lib/linear/logistic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <cmath>
#include <numeric>

#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/data/split.h"
#include "lib/data/synth.h"
#include "lib/linear/trainer.h"
#include "lib/math/finite_difference.h"
#include "lib/notation/synth_specs.h"

namespace luthier::linear {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Trains until the end, or until `limit` iterations are made.
absl::StatusOr<TrainOutcome> Train(LinearTrainer& trainer, const base::StopToken& stop = {}, int64_t limit = 1 << 20) {
  while (true) {
    LUTHIER_ASSIGN_OR_RETURN(const TrainOutcome outcome, trainer.Advance(stop));
    if (outcome != TrainOutcome::kRunning || trainer.iteration() >= limit) return outcome;
  }
}

LinearTrainer MakeTrainer(const LogisticProblem& problem, const LinearTrainOptions& options) {
  return LinearTrainer::Create(&problem, options).value();
}

LinearTrainOptions Within(double tolerance) {
  LinearTrainOptions options;
  options.tolerance = tolerance;
  return options;
}

struct LogisticCase {
  int classes;
  bool standardize;
  bool intercept;
  double density;
};

std::vector<LogisticCase> LogisticCases() {
  std::vector<LogisticCase> cases;
  for (const int classes : {2, 3}) {
    for (const bool standardize : {false, true}) {
      for (const bool intercept : {false, true}) {
        for (const double density : {1.0, 0.3}) cases.push_back({classes, standardize, intercept, density});
      }
    }
  }
  return cases;
}

class LogisticTest : public testing::TestWithParam<LogisticCase> {
 protected:
  LogisticTest() {
    notation::SynthSpec spec;
    spec.rows = 80;
    spec.cols = 6;
    spec.classes = GetParam().classes;
    spec.density = GetParam().density;
    spec.noise = 0.2;
    spec.seed = 11;
    dataset_ = data::Synthesize(spec).value();
    rows_ = data::SplitValidation(dataset_.label, spec.classes, 0.3, 1)->train;
    if (GetParam().standardize) standardization_ = data::FitStandardization(dataset_.x, rows_).value();
  }
  LogisticData Data() const {
    return LogisticData::Create(&dataset_, rows_, standardization_, GetParam().intercept).value();
  }

  // The model written out densely, straight from its definition: scores of all classes for rows of `data`.
  MatrixXd DenseScores(const VectorXd& w) const {
    MatrixXd x = MatrixXd::Zero(static_cast<Index>(rows_.size()), dataset_.x.cols);
    for (size_t i = 0; i < rows_.size(); ++i) {
      for (int64_t e = dataset_.x.row_start[rows_[i]]; e < dataset_.x.row_start[rows_[i] + 1]; ++e) {
        x(static_cast<Index>(i), dataset_.x.column[e]) = dataset_.x.value[e];
      }
    }
    if (GetParam().standardize) {
      for (Index j = 0; j < x.cols(); ++j) {
        const double mean = x.col(j).mean();
        const double sd = std::sqrt((x.col(j).array() - mean).square().mean());
        x.col(j) = (x.col(j).array() - mean) / sd;
      }
    }
    const int classes = GetParam().classes;
    const int K = classes == 2 ? 1 : classes;
    MatrixXd scores = MatrixXd::Zero(x.rows(), classes);
    for (int k = 0; k < K; ++k) {
      const int column = classes == 2 ? 1 : k;
      for (Index j = 0; j < x.cols(); ++j) scores.col(column) += x.col(j) * w[j * K + k];
      if (!GetParam().intercept) continue;
      if (K == 1) scores.col(column).array() += w[x.cols()];
      if (K > 1 && k > 0) scores.col(column).array() += w[x.cols() * K + k - 1];
    }
    return scores;
  }
  double DenseLoss(const VectorXd& w) const {
    const MatrixXd scores = DenseScores(w);
    double loss = 0.0;
    for (Index i = 0; i < scores.rows(); ++i) {
      loss += std::log(scores.row(i).array().exp().sum()) - scores(i, dataset_.label[rows_[i]]);
    }
    return loss;
  }

  VectorXd RandomWeights(uint64_t seed, Index dim) const {
    base::RandomStream random(seed, "weights");
    VectorXd w(dim);
    for (Index j = 0; j < dim; ++j) w[j] = random.Normal();
    return w;
  }

  data::Dataset dataset_;
  std::vector<int32_t> rows_;
  data::Standardization standardization_;
};

TEST_P(LogisticTest, LossMatchesTheDefinition) {
  const LogisticData data = Data();
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const VectorXd w = RandomWeights(seed, data.dim());
    EXPECT_NEAR(data.Loss(w, nullptr).value(), DenseLoss(w), 1e-11 * DenseLoss(w));
    const MatrixXd scores = DenseScores(w);
    int64_t correct = 0;
    for (Index i = 0; i < scores.rows(); ++i) {
      Index best = 0;
      scores.row(i).maxCoeff(&best);
      correct += best == dataset_.label[rows_[i]] ? 1 : 0;
    }
    EXPECT_EQ(data.CountCorrect(w).value(), correct);
  }
}

TEST_P(LogisticTest, DerivativesMatchDifferences) {
  const LogisticData data = Data();
  // Of each feature.
  const LogisticProblem problem(&data, VectorXd(VectorXd::LinSpaced(data.features(), 0.1, 2.0)));
  const VectorXd w = RandomWeights(3, data.dim());
  VectorXd gradient;
  double penalty = problem.Value(w, &gradient).value() - data.Loss(w, nullptr).value();
  for (Index j = 0; j < data.penalized(); ++j) {
    const double feature = static_cast<double>(j / data.scores());
    penalty -= 0.5 * (0.1 + 1.9 * feature / static_cast<double>(data.features() - 1)) * w[j] * w[j];
  }
  EXPECT_NEAR(penalty, 0.0, 1e-10);
  const math::GradientCheck check =
      math::CheckGradient([&](const VectorXd& v) { return problem.Value(v, nullptr).value(); }, w, gradient);
  EXPECT_LT(check.error, 1e-7) << check.Summary();
  const MatrixXd hessian = math::CentralJacobian(
      [&](const VectorXd& v) {
        VectorXd g;
        problem.Value(v, &g).value();
        return g;
      },
      w);
  const LogisticData::Curvature curvature = data.CurvatureAt(w).value();
  for (Index j = 0; j < data.dim(); ++j) {
    const VectorXd column = problem.HessianVector(curvature, VectorXd::Unit(data.dim(), j)).value();
    EXPECT_LT((column - hessian.col(j)).norm(), 1e-6 * (1.0 + hessian.col(j).norm()));
    EXPECT_NEAR(problem.HessianDiagonal(curvature).value()[j], column[j], 1e-10 * (1.0 + column[j]));
  }
}

TEST_P(LogisticTest, LipschitzConstantsBoundWhatIsSeen) {
  const LogisticData data = Data();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const VectorXd w = RandomWeights(2 * seed, data.dim());
    const VectorXd v = w + 0.1 * RandomWeights(2 * seed + 1, data.dim());
    const VectorXd d = RandomWeights(seed + 1000, data.dim()).normalized();
    VectorXd gw;
    VectorXd gv;
    data.Loss(w, &gw).value();
    data.Loss(v, &gv).value();
    EXPECT_LE((gw - gv).norm(), data.gradient_lipschitz() * (w - v).norm());
    const VectorXd hd = data.HessianVector(data.CurvatureAt(w).value(), d).value() -
                        data.HessianVector(data.CurvatureAt(v).value(), d).value();
    EXPECT_LE(hd.norm(), data.hessian_lipschitz() * (w - v).norm());
  }
}

TEST_P(LogisticTest, BothSolversFindTheOptimumOfDenseNewton) {
  const LogisticData data = Data();
  const LogisticProblem problem(&data, 0.5);
  VectorXd w = VectorXd::Zero(data.dim());
  for (int k = 0; k < 30; ++k) {
    VectorXd g;
    problem.Value(w, &g).value();
    const LogisticData::Curvature curvature = data.CurvatureAt(w).value();
    MatrixXd h(data.dim(), data.dim());
    for (Index j = 0; j < data.dim(); ++j)
      h.col(j) = problem.HessianVector(curvature, VectorXd::Unit(data.dim(), j)).value();
    w -= h.ldlt().solve(g);
  }
  for (const LinearSolver solver : {LinearSolver::kLbfgs, LinearSolver::kNewtonCg, LinearSolver::kNewtonCholesky}) {
    LinearTrainOptions options;
    options.solver = solver;
    options.tolerance = 1e-12;
    LinearTrainer trainer = MakeTrainer(problem, options);
    const TrainOutcome outcome = Train(trainer).value();
    EXPECT_TRUE(outcome == TrainOutcome::kConverged || outcome == TrainOutcome::kPrecision);
    EXPECT_LT((trainer.Weights() - w).norm(), 1e-9 * (1.0 + w.norm()));
    EXPECT_LT(trainer.passes(), 300.0);
  }
}

TEST_P(LogisticTest, ResumeIsBitExactAndReportsChangeNothing) {
  const LogisticData data = Data();
  const LogisticProblem problem(&data, 0.01);
  for (const LinearSolver solver : {LinearSolver::kLbfgs, LinearSolver::kNewtonCg, LinearSolver::kNewtonCholesky}) {
    LinearTrainOptions options;
    options.solver = solver;
    LinearTrainer plain = MakeTrainer(problem, options);
    Train(plain).value();
    for (const int cut : {0, 1, 2, 5}) {
      LinearTrainer first = MakeTrainer(problem, options);
      do {
        first.Advance({}).value();
        EvaluateMetrics(data, first.Weights());
      } while (first.outcome() == TrainOutcome::kRunning && first.iteration() < cut);
      base::CheckpointWriter writer("test");
      first.Save(&writer, "id");
      const std::string bytes = std::move(writer).Finish();
      base::CheckpointReader reader = base::CheckpointReader::Open(bytes, "test").value();
      LinearTrainer second = MakeTrainer(problem, options);
      ASSERT_TRUE(second.Load(&reader, "id").ok());
      EXPECT_EQ(second.iteration(), first.iteration());
      Train(second).value();
      EXPECT_EQ(second.Weights(), plain.Weights());
      EXPECT_EQ(second.iteration(), plain.iteration());
      EXPECT_EQ(second.outcome(), plain.outcome());

      base::CheckpointReader wrong = base::CheckpointReader::Open(bytes, "test").value();
      LinearTrainer third = MakeTrainer(problem, options);
      EXPECT_EQ(third.Load(&wrong, "other").code(), absl::StatusCode::kFailedPrecondition);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, LogisticTest, testing::ValuesIn(LogisticCases()), [](const auto& test) {
  const LogisticCase& c = test.param;
  return std::string(c.classes == 2 ? "Binary" : "Multinomial") + (c.standardize ? "Standardized" : "Raw") +
         (c.intercept ? "Intercept" : "") + (c.density < 1.0 ? "Sparse" : "Dense");
});

data::Dataset TwoPoints(double a, double b) {
  data::Dataset d;
  d.name = "two";
  d.x.rows = 2;
  d.x.cols = 1;
  d.x.row_start = {0, 1, 2};
  d.x.column = {0, 0};
  d.x.value = {a, b};
  d.label = {0, 1};
  d.classes = {"0", "1"};
  return d;
}

TEST(SoftmaxTrainerTest, ClosedFormOptimum) {
  // Points -1 (class 0) and 1 (class 1): h = 2 log(1 + e^-w) + l2 w^2 / 2, so l2 w = 2 / (1 + e^w).
  const data::Dataset d = TwoPoints(-1.0, 1.0);
  const LogisticData data = LogisticData::Create(&d, {0, 1}, {}, false).value();
  const double w = 1.5;
  const LogisticProblem problem(&data, 2.0 / (1.0 + std::exp(w)) / w);
  LinearTrainer trainer = MakeTrainer(problem, Within(1e-14));
  Train(trainer).value();
  EXPECT_NEAR(trainer.Weights()[0], w, 1e-12);
  EXPECT_EQ(EvaluateMetrics(data, trainer.Weights()).accuracy, 1.0);
  EXPECT_NEAR(EvaluateMetrics(data, trainer.Weights()).loss, std::log1p(std::exp(-w)), 1e-13);
}

TEST(SoftmaxTrainerTest, ExtremeScoresStayFiniteAndInfiniteOnesAreDivergence) {
  const data::Dataset big = TwoPoints(-1e4, 1e4);
  const LogisticData data = LogisticData::Create(&big, {0, 1}, {}, false).value();
  VectorXd g;
  EXPECT_EQ(data.Loss(VectorXd::Constant(1, -1.0), &g).value(), 2e4);
  EXPECT_EQ(data.Loss(VectorXd::Constant(1, 1.0), &g).value(), 0.0);
  const data::Dataset huge = TwoPoints(-1e308, 1e308);
  const LogisticData overflow =
      LogisticData::Create(&huge, {0, 1}, data::FitStandardization(huge.x, {0, 1}).value(), false).value();
  const LogisticProblem problem(&overflow, 1.0);
  LinearTrainer trainer = MakeTrainer(problem, {});
  trainer.WarmStart(VectorXd::Constant(1, 1e10));
  const TrainOutcome outcome = Train(trainer).value();
  EXPECT_NE(outcome, TrainOutcome::kRunning);
}

TEST(SoftmaxTrainerTest, StopsAndLimits) {
  notation::SynthSpec spec;
  const data::Dataset d = data::Synthesize(spec).value();
  std::vector<int32_t> rows(500);
  std::iota(rows.begin(), rows.end(), 0);
  const LogisticData data = LogisticData::Create(&d, rows, {}, true).value();
  const LogisticProblem problem(&data, 1.0);
  LinearTrainOptions few;
  few.max_iterations = 3;
  LinearTrainer limited = MakeTrainer(problem, few);
  EXPECT_EQ(Train(limited).value(), TrainOutcome::kIterationLimit);
  EXPECT_EQ(limited.iteration(), 3);
  const base::StopSource source;
  source.RequestStop();
  LinearTrainer stopped = MakeTrainer(problem, {});
  EXPECT_EQ(Train(stopped, source.token()).status(), base::StoppedError());
  EXPECT_EQ(stopped.outcome(), TrainOutcome::kRunning);
  LinearTrainer reference = MakeTrainer(problem, {});
  Train(reference).value();
  Train(stopped).value();
  EXPECT_EQ(stopped.Weights(), reference.Weights());
  EXPECT_EQ(stopped.outcome(), TrainOutcome::kConverged);
}

TEST(SoftmaxTrainerTest, WarmStartReachesTheSameOptimumInFewerPasses) {
  notation::SynthSpec spec;
  spec.noise = 0.1;
  const data::Dataset d = data::Synthesize(spec).value();
  std::vector<int32_t> rows(500);
  std::iota(rows.begin(), rows.end(), 0);
  const LogisticData data = LogisticData::Create(&d, rows, {}, true).value();
  const LogisticProblem near(&data, 1.0);
  const LogisticProblem problem(&data, 1.01);
  LinearTrainer first = MakeTrainer(near, Within(1e-10));
  Train(first).value();
  LinearTrainer cold = MakeTrainer(problem, Within(1e-10));
  Train(cold).value();
  LinearTrainer warm = MakeTrainer(problem, Within(1e-10));
  warm.WarmStart(first.Weights());
  Train(warm).value();
  EXPECT_LT((warm.Weights() - cold.Weights()).norm(), 1e-8);
  EXPECT_LT(warm.passes(), cold.passes());
}

}  // namespace
}  // namespace luthier::linear
