#include "lib/linear/problem.h"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <cmath>
#include <numeric>

#include "lib/base/random.h"
#include "lib/base/stop_token.h"
#include "lib/base/team.h"
#include "lib/linear/logistic.h"
#include "lib/linear/margin_loss.h"
#include "lib/linear/trainer.h"
#include "tests/lib/linear/linear_testing.h"

namespace luthier::linear {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;
using Kind = MarginLoss::Kind;

TEST(MarginLossTest, DerivativesAgreeWithDifferences) {
  for (const MarginLoss loss : {MarginLoss{Kind::kLogistic}, MarginLoss{Kind::kSquaredHinge},
                                MarginLoss{Kind::kHuberizedHinge, 0.5}, MarginLoss{Kind::kHuberizedHinge, 0.01}}) {
    for (double t = -3.0; t < 3.0; t += 0.0371) {
      const double h = 1e-6;
      EXPECT_NEAR(loss.Slope(t), (loss.Value(t + h) - loss.Value(t - h)) / (2 * h), 1e-4) << t;
      // Away from the kinks of the slope.
      const double kink = loss.kind == Kind::kLogistic       ? INFINITY
                          : loss.kind == Kind::kSquaredHinge ? std::abs(t - 1.0)
                                                             : std::abs(std::abs(t - 1.0) - loss.epsilon);
      if (kink > 2 * h) {
        EXPECT_NEAR(loss.Curvature(t), (loss.Slope(t + h) - loss.Slope(t - h)) / (2 * h), 1e-5) << t;
      }
      EXPECT_LE(loss.Curvature(t), loss.smoothness() * (1 + 1e-15));
    }
  }
}

TEST(MarginLossTest, HuberizedHingeJoinsSmoothly) {
  const MarginLoss loss{Kind::kHuberizedHinge, 0.3};
  EXPECT_DOUBLE_EQ(loss.Value(0.7), 0.3);  // Ahmed 2018: value eps and slope -1 at 1 - eps, 0 and 0 at 1 + eps.
  EXPECT_DOUBLE_EQ(loss.Slope(0.7), -1.0);
  EXPECT_DOUBLE_EQ(loss.Value(0.7 - 1e-12), loss.Value(0.7) + 1e-12);
  EXPECT_EQ(loss.Value(1.3), 0.0);
  EXPECT_EQ(loss.Slope(1.3), 0.0);
  EXPECT_EQ(loss.Slope(1.3 + 1e-12), 0.0);
}

TEST(MarginLossTest, ConjugateIsTheSupremum) {
  for (const MarginLoss loss :
       {MarginLoss{Kind::kLogistic}, MarginLoss{Kind::kSquaredHinge}, MarginLoss{Kind::kHuberizedHinge, 0.4}}) {
    for (const double a : {0.0, 0.05, 0.3, 0.5, 0.9, 1.0}) {
      double best = -INFINITY;
      for (double t = -60.0; t < 60.0; t += 1e-3) best = std::max(best, -a * t - loss.Value(t));
      EXPECT_NEAR(loss.Conjugate(a), best, 1e-5) << a;
    }
  }
  EXPECT_NEAR(MarginLoss{Kind::kSquaredHinge}.Conjugate(7.0), 7.0 * 7.0 / 4.0 - 7.0, 1e-12);
}

TEST(MarginLossTest, FarMarginsAreFinite) {
  const MarginLoss loss;
  EXPECT_EQ(loss.Value(-1e300), 1e300);
  EXPECT_EQ(loss.Value(1e300), 0.0);
  EXPECT_EQ(loss.Slope(-1e300), -1.0);
  EXPECT_EQ(loss.Slope(1e300), 0.0);
  EXPECT_TRUE(std::isnan(loss.Value(NAN)));
  EXPECT_TRUE(std::isnan(loss.Slope(NAN)));
}

// h written down from its definition, on dense rows.
double Plain(const data::Dataset& dataset, const std::vector<int32_t>& rows, const data::Standardization& s, Bias bias,
             const MarginLoss& loss, double l2, const VectorXd& w) {
  const Eigen::Index p = dataset.x.cols;
  double sum = 0.0;
  for (const int32_t row : rows) {
    VectorXd a = VectorXd::Zero(p);
    for (int64_t e = dataset.x.row_start[row]; e < dataset.x.row_start[row + 1]; ++e) {
      a[dataset.x.column[e]] = dataset.x.value[e];
    }
    if (!s.identity()) a = (a - s.mean).cwiseQuotient(s.deviation).eval();
    const double score = a.dot(w.head(p)) + (bias == Bias::kNone ? 0.0 : w[p]);
    sum += loss.Value(dataset.label[row] == 1 ? score : -score);
  }
  return sum + 0.5 * l2 * (bias == Bias::kFree ? w.head(p) : w).squaredNorm();
}

// `viewed`: 0 for rows that are read where the data set has them.
void ExpectTheDefinition(double density, int64_t viewed) {
  const data::Dataset dataset = MakeData(60, 7, density, 11);
  std::vector<int32_t> rows;
  for (int32_t i = 0; i < 60; i += (i % 3) + 1) rows.push_back(i);
  base::RandomStream random(5, "point");
  for (const bool standardize : {false, true}) {
    const data::Standardization s =
        standardize ? data::FitStandardization(dataset.x, rows).value() : data::Standardization();
    for (const Bias bias : {Bias::kNone, Bias::kPenalized, Bias::kFree}) {
      const LinearData data = LinearData::Create(dataset, rows, s, bias, {}, viewed).value();
      for (const Kind kind : {Kind::kLogistic, Kind::kSquaredHinge, Kind::kHuberizedHinge}) {
        const LinearProblem problem(&data, MarginLoss{kind, 0.5}, 0.3);
        VectorXd w(problem.dim());
        for (double& x : w) x = 0.5 * random.Normal();
        VectorXd gradient, curvature;
        const double value = problem.Value(w, &gradient, &curvature).value();
        const auto plain = [&](const VectorXd& x) {
          return Plain(dataset, rows, s, bias, problem.loss(), problem.l2(), x);
        };
        EXPECT_NEAR(value, plain(w), 1e-12 * value);
        const MatrixXd lower = problem.Hessian(curvature, {}).value();
        const MatrixXd hessian = lower.selfadjointView<Eigen::Lower>();
        EXPECT_LT((hessian.diagonal() - problem.HessianDiagonal(curvature).value()).norm(), 1e-10 * hessian.norm());
        for (Eigen::Index j = 0; j < w.size(); ++j) {
          const double h = 1e-6 * (1.0 + std::abs(w[j]));
          VectorXd up = w, down = w, up_gradient, down_gradient;
          up[j] += h;
          down[j] -= h;
          EXPECT_NEAR(gradient[j], (plain(up) - plain(down)) / (2 * h), 1e-6 * (1.0 + std::abs(gradient[j])));
          problem.Value(up, &up_gradient).value();
          problem.Value(down, &down_gradient).value();
          const VectorXd column = (up_gradient - down_gradient) / (2 * h);
          EXPECT_LT((problem.HessianVector(curvature, VectorXd::Unit(w.size(), j)).value() - column).norm(),
                    1e-5 * (1.0 + column.norm()));
          EXPECT_LT((hessian.col(j) - column).norm(), 1e-5 * (1.0 + column.norm()));
        }
      }
    }
  }
}

TEST(LinearProblemTest, ValueAndDerivativesAgreeWithTheDefinition) {
  for (const double density : {0.15, 0.5, 1.0}) ExpectTheDefinition(density, LinearData::kViewed);
}

TEST(LinearProblemTest, RowsThatAreNotCopiedAgreeWithTheDefinition) {
  for (const double density : {0.15, 0.5, 1.0}) ExpectTheDefinition(density, 0);
}

TEST(LinearProblemTest, RowsThatAreNotCopiedAreThoseThatAre) {
  // The third column is constant over the rows that are taken, so it has no weight, whatever it is elsewhere.
  for (const double density : {0.2, 1.0}) {
    data::Dataset dataset = MakeData(300, 140, density, 13);
    for (int64_t i = 0; i < 200; ++i) {
      for (int64_t e = dataset.x.row_start[i]; e < dataset.x.row_start[i + 1]; ++e) {
        if (dataset.x.column[e] == 2) dataset.x.value[e] = density == 1.0 ? 4.0 : 0.0;
      }
    }
    std::vector<int32_t> rows;
    for (int32_t i = 199; i > 2; i -= 2) rows.push_back(i);
    const data::Standardization s = data::FitStandardization(dataset.x, rows).value();
    std::vector<int32_t> others = {299, 250, 201};
    for (const std::vector<int32_t>& some : {rows, others}) {
      const LinearData copied = LinearData::Create(dataset, some, s, Bias::kFree).value();
      const LinearData viewed = LinearData::Create(dataset, some, s, Bias::kFree, {}, 0).value();
      base::RandomStream random(3, "vectors");
      VectorXd w(copied.dim()), r(copied.rows());
      for (double& x : w) x = random.Normal();
      for (double& x : r) x = random.Normal();
      const auto near = [](const VectorXd& a, const VectorXd& b) { return (a - b).norm() <= 1e-12 * a.norm(); };
      EXPECT_TRUE(near(copied.Scores(w).value(), viewed.Scores(w).value()));
      EXPECT_TRUE(near(copied.Combine(r).value(), viewed.Combine(r).value()));
      EXPECT_TRUE(near(copied.column_scale(), viewed.column_scale()));
      EXPECT_NEAR(copied.max_norm2(), viewed.max_norm2(), 1e-12 * copied.max_norm2());
      VectorXd pairs(2 * copied.dim()), sums = VectorXd::Zero(2 * copied.dim());
      for (double& x : pairs) x = random.Normal();
      for (int64_t i = 0; i < copied.rows(); ++i) {
        const Eigen::Array2d a = copied.DotPairs(i, pairs.data()), b = viewed.DotPairs(i, pairs.data());
        EXPECT_LT((a - b).abs().maxCoeff(), 1e-12 * (1.0 + a.abs().maxCoeff()));
        copied.AddTo<2>(i, r[i], sums.data());
        viewed.AddTo<2>(i, -r[i], sums.data());
        EXPECT_EQ(copied.sign(i), viewed.sign(i));
      }
      EXPECT_LT(sums.norm(), 1e-10);
      const LinearProblem a(&copied, MarginLoss(), 0.3), b(&viewed, MarginLoss(), 0.3);
      const VectorXd curvature = r.cwiseAbs2();
      const MatrixXd first = a.Hessian(curvature, {}).value().triangularView<Eigen::Lower>();
      const MatrixXd second = b.Hessian(curvature, {}).value().triangularView<Eigen::Lower>();
      EXPECT_LT((first - second).norm(), 1e-12 * first.norm());
      // Every column of the Hessian, in blocks or row by row, is its product with a unit vector.
      for (Eigen::Index j = 0; j < a.dim(); j += 27) {
        const VectorXd column = a.HessianVector(curvature, VectorXd::Unit(a.dim(), j)).value();
        EXPECT_LT((first.col(j) - column).tail(a.dim() - j).norm(), 1e-11 * (1.0 + column.norm())) << j;
      }
    }
  }
}

TEST(LinearProblemTest, ThreadsChangeNoBit) {
  for (const double density : {0.2, 1.0}) {
    const data::Dataset dataset = MakeData(density == 1.0 ? 9000 : 45000, 100, density, 14);
    const std::vector<int32_t> rows = AllRows(dataset);
    const data::Standardization s = data::FitStandardization(dataset.x, rows).value();
    for (const int64_t viewed : {LinearData::kViewed, int64_t{0}}) {
      const LinearData data = LinearData::Create(dataset, rows, s, Bias::kFree, {}, viewed).value();
      ASSERT_GT(data.parts(), 2);
      int64_t before = 0;
      for (int64_t k = 0; k < data.parts(); ++k) {
        EXPECT_EQ(data.PartBegin(k), before);
        before = data.PartBegin(k + 1);
        EXPECT_GT(before, data.PartBegin(k));
      }
      EXPECT_EQ(before, data.rows());
      LinearProblem problem(&data, MarginLoss(), 0.3);
      base::RandomStream random(6, "point");
      VectorXd w(problem.dim()), v(problem.dim());
      for (double& x : w) x = 0.3 * random.Normal();
      for (double& x : v) x = random.Normal();
      VectorXd gradient, curvature, scores;
      const double value = problem.Value(w, &gradient, &curvature, {}, &scores).value();
      EXPECT_NEAR(value, Plain(dataset, rows, s, Bias::kFree, problem.loss(), problem.l2(), w), 1e-11 * value);
      VectorXd expected = VectorXd::Zero(w.size());
      for (int64_t i = 0; i < data.rows(); ++i) {
        const double slope = -data.sign(i) / (1.0 + std::exp(data.sign(i) * scores[i]));
        data.ForEach(i, [&](int32_t j, double a) { expected[j] += slope * a; });
        expected.head(100) -= slope * data.center();
        expected[100] += slope;
      }
      expected.head(100) += problem.Penalize(w);
      EXPECT_LT((gradient - expected).norm(), 1e-10 * (1.0 + expected.norm()));
      const VectorXd product = problem.HessianVector(curvature, v).value();
      const MatrixXd hessian = problem.Hessian(curvature, {}).value();
      for (const int threads : {1, 2, 3, 8}) {
        base::Team team(threads);
        problem.ShareWith(&team);
        VectorXd other_gradient, other_curvature;
        EXPECT_EQ(problem.Value(w, &other_gradient, &other_curvature).value(), value);
        EXPECT_EQ(other_gradient, gradient);
        EXPECT_EQ(other_curvature, curvature);
        EXPECT_EQ(problem.HessianVector(curvature, v).value(), product);
        EXPECT_EQ(MatrixXd(problem.Hessian(curvature, {}).value().triangularView<Eigen::Lower>()),
                  MatrixXd(hessian.triangularView<Eigen::Lower>()));
        base::StopSource source;
        source.RequestStop();
        EXPECT_EQ(problem.Value(w, nullptr, nullptr, source.token()).status().code(), absl::StatusCode::kCancelled);
        problem.ShareWith(nullptr);
      }
    }
  }
}

TEST(LinearProblemTest, StrengthsOfEachWeightAddADiagonal) {
  const data::Dataset dataset = MakeData(40, 5, 0.6, 12);
  std::vector<int32_t> rows(40);
  for (int32_t i = 0; i < 40; ++i) rows[i] = i;
  for (const Bias bias : {Bias::kNone, Bias::kPenalized, Bias::kFree}) {
    const LinearData data =
        LinearData::Create(dataset, rows, data::FitStandardization(dataset.x, rows).value(), bias).value();
    const LinearProblem without(&data, MarginLoss(), 0.0);
    VectorXd penalties(without.penalized()), w(data.dim());
    for (Eigen::Index j = 0; j < penalties.size(); ++j) penalties[j] = 0.1 * static_cast<double>(j * j) + 0.03;
    for (Eigen::Index j = 0; j < w.size(); ++j) w[j] = 0.4 - 0.3 * static_cast<double>(j);
    const LinearProblem problem(&data, MarginLoss(), penalties);
    VectorXd diagonal = VectorXd::Zero(data.dim());
    diagonal.head(penalties.size()) = penalties;
    VectorXd gradient, gradient0, curvature;
    const double value = problem.Value(w, &gradient, &curvature).value();
    EXPECT_NEAR(value, without.Value(w, &gradient0).value() + 0.5 * w.dot(diagonal.asDiagonal() * w), 1e-12 * value);
    EXPECT_LT((gradient - gradient0 - diagonal.cwiseProduct(w)).norm(), 1e-12);
    const VectorXd product = problem.HessianVector(curvature, w).value() - without.HessianVector(curvature, w).value();
    EXPECT_LT((product - diagonal.cwiseProduct(w)).norm(), 1e-12);
    EXPECT_LT(
        (problem.HessianDiagonal(curvature).value() - without.HessianDiagonal(curvature).value() - diagonal).norm(),
        1e-12);
    const MatrixXd added = problem.Hessian(curvature, {}).value() - without.Hessian(curvature, {}).value();
    EXPECT_LT((added - MatrixXd(diagonal.asDiagonal())).norm(), 1e-12);
    EXPECT_EQ(problem.l2(), 0.03);
    EXPECT_EQ(problem.largest_l2(), penalties[penalties.size() - 1]);
    for (const LinearSolver solver : {LinearSolver::kDual, LinearSolver::kSvrg}) {
      LinearTrainOptions options;
      options.solver = solver;
      EXPECT_NE(LinearTrainer::Create(&problem, options).status().message().find("is for a single strength"),
                absl::string_view::npos);
    }
  }
}

TEST(LinearProblemTest, IsLogisticRegression) {
  const data::Dataset dataset = MakeData(80, 6, 0.7, 3);
  std::vector<int32_t> rows(80);
  std::iota(rows.begin(), rows.end(), 0);
  const data::Standardization s = data::FitStandardization(dataset.x, rows).value();
  const LogisticData reference_data = LogisticData::Create(&dataset, rows, s, true).value();
  const LogisticProblem reference(&reference_data, 2.0);
  const LinearData data = LinearData::Create(dataset, rows, s, Bias::kFree).value();
  const LinearProblem problem(&data, MarginLoss{}, 2.0);
  base::RandomStream random(6, "point");
  VectorXd w(problem.dim());
  for (double& x : w) x = random.Normal();
  VectorXd expected, gradient;
  EXPECT_NEAR(problem.Value(w, &gradient).value(), reference.Value(w, &expected).value(), 1e-10);
  EXPECT_LT((gradient - expected).norm(), 1e-10);
  EXPECT_EQ(data.CountCorrect(w).value(), reference_data.CountCorrect(w).value());
}

TEST(LinearDataTest, ConstantColumnsCentreToNothing) {
  data::Dataset dataset = MakeData(30, 3, 1.0, 9);
  for (int64_t i = 0; i < 30; ++i) dataset.x.value[3 * i + 1] = 1e8 + 0.1;
  std::vector<int32_t> rows(30);
  std::iota(rows.begin(), rows.end(), 0);
  const LinearData data =
      LinearData::Create(dataset, rows, data::FitStandardization(dataset.x, rows).value(), Bias::kNone).value();
  EXPECT_EQ(data.nonzeros(), 60);
  EXPECT_EQ(data.Combine(VectorXd::Ones(30)).value()[1], 0.0);
  EXPECT_LT(data.max_norm2(), 60.0);
}

// A row alone is constant in every column; what the model saw decides.
TEST(LinearDataTest, ColumnsThatAreConstantElsewhereOnlyStillCount) {
  const data::Dataset dataset = MakeData(30, 4, 0.6, 12);
  std::vector<int32_t> rows(29);
  std::iota(rows.begin(), rows.end(), 0);
  const data::Standardization s = data::FitStandardization(dataset.x, rows).value();
  const LinearData held_out = LinearData::Create(dataset, {29}, s, Bias::kPenalized).value();
  const VectorXd w = VectorXd::LinSpaced(5, -1.0, 2.0);
  const double expected = Plain(dataset, {29}, s, Bias::kPenalized, MarginLoss{}, 0.0, w);
  EXPECT_NEAR(LinearProblem(&held_out, MarginLoss{}, 0.0).Value(w, nullptr).value(), expected, 1e-12);
}

TEST(LinearDataTest, AllOnesStoreNoValues) {
  data::Dataset dataset = MakeData(40, 5, 0.5, 10);
  data::Dataset ones = dataset;
  std::fill(ones.x.value.begin(), ones.x.value.end(), 1.0);
  data::Dataset twos = ones;
  std::fill(twos.x.value.begin(), twos.x.value.end(), 2.0);
  std::vector<int32_t> rows(40);
  std::iota(rows.begin(), rows.end(), 0);
  const LinearData one = LinearData::Create(ones, rows, {}, Bias::kPenalized).value();
  const LinearData two = LinearData::Create(twos, rows, {}, Bias::kPenalized).value();
  const VectorXd w = VectorXd::LinSpaced(6, -1.0, 1.0);
  VectorXd half = 0.5 * w;
  half[5] = w[5];
  EXPECT_LT((one.Scores(w).value() - two.Scores(half).value()).norm(), 1e-14);
  VectorXd r = VectorXd::LinSpaced(40, -1.0, 2.0);
  EXPECT_LT((2.0 * one.Combine(r).value().head(5) - two.Combine(r).value().head(5)).norm(), 1e-13);
}

}  // namespace
}  // namespace luthier::linear
