// The optima and test errors of the two problems of Ahmed 2018, chapter 2, that are there in full.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/crf/solvers/average_gradient.h"
#include "lib/crf/solvers/problem.h"
#include "lib/notation/templates.h"
#include "tests/lib/crf/crf_testing.h"

namespace luthier::crf {
namespace {

using Eigen::VectorXd;

std::optional<data::LineReader> Open(const std::string& name) {
  const std::optional<data::DataRoot> root = testing::RealData();
  if (!root) return std::nullopt;
  absl::StatusOr<data::UniqueFd> fd = root->OpenFile(name);
  if (!fd.ok()) return std::nullopt;
  return data::LineReader(data::OpenBytes(std::move(*fd), name).value(), name);
}

// Trains until the sum form is within 1e-3 of `optimum`; returns the share of wrong test tokens.
double ErrorAtTheOptimum(const ChainData& train, const ChainData& test, double optimum) {
  ChainLoss loss(&train);
  const ChainProblem h(&loss, 1.0);
  AverageGradient solver = AverageGradient::Create(&train, 1.0, {}).value();
  double value = INFINITY;
  while (value > optimum + 1e-3 && solver.passes() < 250.0) {
    EXPECT_EQ(solver.Advance(5 * train.sequences(), {}).value(), SolverState::kRunning);
    value = h.Value(solver.Weights(), nullptr).value();
  }
  EXPECT_NEAR(value, optimum, 1e-3) << "after " << solver.passes() << " passes";
  EXPECT_LT(solver.passes(), 120.0);
  // At l2 = 1 the weights are minus the sum of the gradients. Directions of large curvature settle last.
  EXPECT_EQ(solver.Advance(30 * train.sequences(), {}).value(), SolverState::kRunning);
  VectorXd gradient;
  loss.Value(solver.Weights(), &gradient).value();
  EXPECT_LT((gradient + solver.Weights()).lpNorm<Eigen::Infinity>(), 0.05);
  return 1.0 - ChainLoss(&test).Evaluate(solver.Weights()).value().accuracy;
}

TEST(OptimumTest, Conll2000) {
  std::optional<data::LineReader> train_lines = Open("conll2000/train.txt.xz");
  std::optional<data::LineReader> test_lines = Open("conll2000/test.txt.xz");
  if (!train_lines || !test_lines) GTEST_SKIP() << "conll2000/ is not there: skipped";
  const data::ColumnText train = data::ReadColumnText(*train_lines).value();
  const data::ColumnText test = data::ReadColumnText(*test_lines).value();
  FeatureOptions options;
  options.templates = notation::ParseTemplates("chunking").value();
  options.min_count = 3;
  const std::vector<int32_t> rows = testing::AllRows(train.sequences());
  const FeatureMap map = FeatureMap::Fit(train, rows, options).value();
  const ChainData encoded = map.Encode(train, rows).value();
  EXPECT_EQ(PlanMemory(MemoryMode::kMixed, encoded) * 4, (211727 * 22 + 8936 * 22 * 22) * 4);
  const double error = ErrorAtTheOptimum(
      encoded, map.Encode(test, testing::AllRows(test.sequences()), FeatureMap::UnknownLabels::kKeep).value(),
      8852.1238);
  EXPECT_NEAR(error, 0.0397, 0.0005);
}

TEST(OptimumTest, Letters) {
  std::optional<data::LineReader> lines = Open("ocr-letters/letters.tsv.xz");
  if (!lines) GTEST_SKIP() << "ocr-letters/ is not there: skipped";
  const Letters letters = ReadLetters(*lines).value();
  std::vector<int32_t> train, test;
  for (size_t i = 0; i < letters.fold.size(); ++i) {
    (letters.fold[i] == "test" ? train : test).push_back(static_cast<int32_t>(i));
  }
  const double error = ErrorAtTheOptimum(Select(letters.data, train), Select(letters.data, test), 15251.9075);
  EXPECT_NEAR(error, 0.1176, 0.0015);
}

}  // namespace
}  // namespace luthier::crf
