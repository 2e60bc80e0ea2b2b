#include "lib/linear/svrg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "lib/base/random.h"
#include "tests/lib/linear/linear_testing.h"

namespace luthier::linear {
namespace {

using Eigen::VectorXd;
using Kind = MarginLoss::Kind;

// SVRG as it is written down: dense, without laziness, tricks for centring, kept slopes or a list of support vectors.
VectorXd TextbookSvrg(const Eigen::MatrixXd& z, const VectorXd& sign, const MarginLoss& loss, double l2,
                      const SvrgOptions& options, int epochs) {
  const int64_t n = z.rows();
  const double lambda = l2 / static_cast<double>(n);
  const double eta = options.step_scale / (loss.smoothness() * z.rowwise().squaredNorm().maxCoeff() + lambda);
  VectorXd snapshot = VectorXd::Zero(z.cols());
  std::vector<int64_t> zeros(static_cast<size_t>(n), 0), rest(zeros);  // ps and sk of the source.
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const int64_t size = options.batch == SvrgOptions::Batch::kFull ? n : std::min(n, int64_t{1} << epoch);
    std::vector<int64_t> ids(static_cast<size_t>(n));
    std::iota(ids.begin(), ids.end(), 0);
    if (size < n) {
      base::RandomStream random(options.seed, "svrg batch", static_cast<uint64_t>(epoch));
      for (int64_t k = 0; k < size; ++k) {
        std::swap(ids[k], ids[k + static_cast<int64_t>(random.UniformInt(static_cast<uint64_t>(n - k)))]);
      }
    }
    const auto slope = [&](int64_t i, const VectorXd& x) {
      if (options.skip != SvrgOptions::Skip::kNone && rest[i] > 0) {
        --rest[i];
        return 0.0;
      }
      const double found = sign[i] * loss.Slope(sign[i] * z.row(i).dot(x));
      zeros[i] = found == 0.0 ? zeros[i] + 1 : 0;
      const int64_t first = options.skip == SvrgOptions::Skip::kLiteral ? 1 : 3;
      if (zeros[i] >= first) rest[i] = std::min<int64_t>(int64_t{1} << std::max<int64_t>(0, zeros[i] - 2), 8 * n);
      return found;
    };
    VectorXd mu = VectorXd::Zero(z.cols());
    std::vector<bool> in_batch(static_cast<size_t>(n), false);
    std::sort(ids.begin(), ids.begin() + size);
    for (int64_t k = 0; k < size; ++k) {
      mu += slope(ids[k], snapshot) * z.row(ids[k]).transpose() / static_cast<double>(size);
      in_batch[ids[k]] = true;
    }
    base::RandomStream pick(options.seed, "svrg pick", static_cast<uint64_t>(epoch));
    const auto last =
        options.random_iterate ? 1 + static_cast<int64_t>(pick.UniformInt(static_cast<uint64_t>(size))) : size;
    VectorXd x = snapshot, picked;
    for (int64_t t = 0; t < size; ++t) {
      base::RandomStream random(options.seed, "svrg row", static_cast<uint64_t>(epoch), static_cast<uint32_t>(t / 512));
      int64_t i = 0;
      for (int64_t k = 0; k <= t % 512; ++k) i = static_cast<int64_t>(random.UniformInt(static_cast<uint64_t>(n)));
      VectorXd step = slope(i, x) * z.row(i).transpose() + lambda * x;
      if (options.batch != SvrgOptions::Batch::kMixed || in_batch[i]) {
        step += mu - slope(i, snapshot) * z.row(i).transpose();
      }
      x -= eta * step;
      if (t + 1 == last) picked = x;
    }
    snapshot = picked;
  }
  return snapshot;
}

TEST(SvrgTest, IsTheTextbookAlgorithm) {
  const data::Dataset dataset = MakeData(90, 6, 0.5, 25);
  const std::vector<int32_t> rows = AllRows(dataset);
  for (const bool standardize : {false, true}) {
    const data::Standardization s =
        standardize ? data::FitStandardization(dataset.x, rows).value() : data::Standardization();
    const LinearData data = LinearData::Create(dataset, rows, s, Bias::kPenalized).value();
    Eigen::MatrixXd z(90, 7);
    VectorXd sign(90);
    for (int64_t i = 0; i < 90; ++i) {
      z.row(i) = data.Combine(VectorXd::Unit(90, i)).value().transpose();
      sign[i] = data.sign(i);
    }
    for (const Kind kind : {Kind::kLogistic, Kind::kHuberizedHinge}) {
      const LinearProblem problem(&data, MarginLoss{kind, 0.5}, 1.0);
      for (int form = 0; form < 3 * 3 * 2; ++form) {
        SvrgOptions options;
        options.batch = static_cast<SvrgOptions::Batch>(form % 3);
        options.skip = static_cast<SvrgOptions::Skip>(form / 3 % 3);
        options.random_iterate = form >= 9;
        // With them a row's slope at the snapshot is not looked at in a step, nor skipped.
        options.keep_slopes = options.support_list = options.skip == SvrgOptions::Skip::kNone;
        options.step = SvrgOptions::Step::kLargest;
        options.seed = 77;
        Svrg svrg(&problem, options);
        ASSERT_EQ(svrg.Start(VectorXd::Zero(7)).value(), SolveState::kRunning);
        for (int epoch = 1; epoch <= 10; ++epoch) {
          svrg.AdvanceEpoch({}).value();
          const VectorXd expected = TextbookSvrg(z, sign, problem.loss(), problem.l2(), options, epoch);
          EXPECT_LT((svrg.Weights() - expected).norm(), 1e-11 * (1.0 + expected.norm()))
              << "epoch " << epoch << " form " << form;
        }
      }
    }
  }
}

// Draws by the rows' norms: an epoch of two steps over three rows, and so nine ways it can have gone. A step of row i
// counts 1 / (n P_i) of itself, P_i = 1 / (2n) + |z_i|^2 / (2 sum |z|^2).
TEST(SvrgTest, RowsDrawnRarelyCountMore) {
  data::Dataset dataset;
  dataset.x.rows = 3;
  dataset.x.cols = 3;
  dataset.x.row_start = {0, 1, 3, 6};
  dataset.x.column = {0, 0, 1, 0, 1, 2};
  dataset.x.value = {0.5, 1.0, -1.0, 2.0, 1.0, 0.5};
  dataset.label = {0, 1, 1};
  dataset.classes = {"0", "1"};
  const LinearData data = LinearData::Create(dataset, {0, 1, 2}, {}, Bias::kNone).value();
  const LinearProblem problem(&data, MarginLoss(), 1.0);
  Eigen::Matrix3d z;
  z << 0.5, 0.0, 0.0, 1.0, -1.0, 0.0, 2.0, 1.0, 0.5;
  const Eigen::Vector3d sign(-1.0, 1.0, 1.0);
  const double lambda = 1.0 / 3.0, norms = z.squaredNorm();
  Eigen::Vector3d probability;
  for (int i = 0; i < 3; ++i) probability[i] = 1.0 / 6.0 + z.row(i).squaredNorm() / (2.0 * norms);
  const auto slope = [&](int i, const VectorXd& x) { return sign[i] * MarginLoss().Slope(sign[i] * z.row(i).dot(x)); };
  Eigen::Matrix3d seen = Eigen::Matrix3d::Zero();
  constexpr int kRuns = 4000;
  for (int run = 0; run < kRuns; ++run) {
    SvrgOptions options;
    options.batch = SvrgOptions::Batch::kFull;
    options.sampling = SvrgOptions::Sampling::kLipschitz;
    options.step = SvrgOptions::Step::kLargest;
    options.seed = static_cast<uint64_t>(run);
    Svrg svrg(&problem, options);
    ASSERT_EQ(svrg.Start(VectorXd::Zero(3)).value(), SolveState::kRunning);
    svrg.AdvanceEpoch({}).value();
    VectorXd mu = VectorXd::Zero(3);
    for (int i = 0; i < 3; ++i) mu += slope(i, VectorXd::Zero(3)) * z.row(i).transpose() / 3.0;
    const double eta = svrg.step();
    // The first step is along mu whatever is drawn; the others are of a row each.
    const VectorXd first = -eta * mu;
    int matches = 0;
    for (int i = 0; i < 3; ++i) {
      const auto after = [&](int row, const VectorXd& x) -> VectorXd {
        const double change = (slope(row, x) - slope(row, VectorXd::Zero(3))) / (3.0 * probability[row]);
        return (1.0 - eta * lambda) * x - eta * (change * z.row(row).transpose() + mu);
      };
      const VectorXd second = after(i, first);
      for (int j = 0; j < 3; ++j) {
        if ((after(j, second) - svrg.Weights()).norm() > 1e-12) continue;
        ++matches;
        seen(i, j) += 1.0;
      }
    }
    ASSERT_EQ(matches, 1) << "seed " << run;
  }
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      const double expected = probability[i] * probability[j];  // Four standard deviations, at the most.
      EXPECT_NEAR(seen(i, j) / kRuns, expected, 4.0 * std::sqrt(expected / kRuns)) << i << " " << j;
    }
  }
}

TEST(SvrgTest, SupportListAndKeptSlopesChangeCountsOnly) {
  const data::Dataset dataset = MakeData(400, 8, 0.5, 26);
  const std::vector<int32_t> rows = AllRows(dataset);
  const LinearData data = LinearData::Create(dataset, rows, {}, Bias::kPenalized).value();
  const LinearProblem problem(&data, MarginLoss{Kind::kHuberizedHinge, 0.5}, 1.0);
  std::vector<std::vector<VectorXd>> runs;
  std::vector<int64_t> evaluations;
  for (const bool list : {false, true}) {
    for (const bool keep : {false, true}) {
      SvrgOptions options;
      options.support_list = list;
      options.keep_slopes = keep;
      Svrg svrg(&problem, options);
      svrg.Start(VectorXd::Zero(problem.dim())).value();
      // The snapshot of each epoch: quanta end at other places.
      std::vector<VectorXd> snapshots;
      while (svrg.epochs() < 14) {
        svrg.AdvanceEpoch({}).value();
        snapshots.push_back(svrg.Weights());
      }
      runs.push_back(snapshots);
      evaluations.push_back(svrg.evaluations());
    }
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_EQ(runs[0], runs[2]);
  EXPECT_EQ(runs[0], runs[3]);
  EXPECT_EQ(evaluations[0], evaluations[1]);
  EXPECT_EQ(evaluations[2], evaluations[3]);
  EXPECT_LT(evaluations[2], evaluations[0]);
}

}  // namespace
}  // namespace luthier::linear
