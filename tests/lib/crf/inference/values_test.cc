// Attributes with values: every solver, and CRFsuite's files. The loss and its derivatives: problem_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lib/crf/features/attribute_map.h"
#include "lib/crf/inference/token_gram.h"
#include "lib/crf/solvers/lbfgs.h"
#include "lib/crf/solvers/problem.h"
#include "lib/crf/training/trainer.h"
#include "lib/data/attribute_text.h"
#include "tests/lib/crf/crf_testing.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::crf {
namespace {

using Eigen::VectorXd;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::RandomChains;
using testing::WithValues;

// Short sequences, which are counted, and long ones, which are not.
TEST(ValuesTest, OverlapsAreProductsOfTokens) {
  for (const bool valued : {false, true}) {
    ChainData data = RandomChains(7, 3, 30, 250, 40, 0.1);
    if (valued) data = WithValues(std::move(data), 3);
    EXPECT_GT(data.longest(), TokenGram::kMaxCounted);
    const Kernels& kernels = BestKernels();
    TokenGram token_gram(&data, kernels);
    TokenGram::Scratch scratch(&data, kernels), other_scratch(&data, kernels);
    base::RandomStream random(5, "test.residuals");
    for (int64_t i = 0; i < data.sequences(); ++i) {
      const Sequence x = data.At(i);
      Eigen::MatrixXd dense = Eigen::MatrixXd::Zero(x.tokens, data.attributes);
      for (int64_t t = 0; t < x.tokens; ++t) {
        for (int64_t e = x.token_start[t]; e < x.token_start[t + 1]; ++e) {
          dense(t, data.attribute[static_cast<size_t>(e)]) = data.Value(static_cast<size_t>(e));
        }
      }
      using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
      RowMajor r = RowMajor::Zero(x.tokens, 8);
      for (Eigen::Index k = 0; k < r.size(); ++k) r.data()[k] = random.Normal();
      const RowMajor expected = dense * (dense.transpose() * r);
      for (TokenGram::Scratch* one : {&scratch, &other_scratch}) {
        RowMajor d = RowMajor::Constant(x.tokens, 8, 7.0);
        ASSERT_TRUE(token_gram.Times(x, r.data(), one, d.data()).ok());
        EXPECT_LT((d - expected).lpNorm<Eigen::Infinity>(), 1e-5 * (1.0 + expected.lpNorm<Eigen::Infinity>()));
      }
    }
  }
}

TEST(ValuesTest, ValuesOfOneChangeNothing) {
  const ChainData plain = RandomChains(8, 4, 30, 7, 12);
  ChainData valued = plain;
  valued.value.assign(plain.attribute.size(), 1.0);
  for (const std::string& method : testing::AllMethods()) {
    ChainTrainerOptions options;
    options.method = method;
    std::vector<VectorXd> weights;
    for (const ChainData* data : {&plain, static_cast<const ChainData*>(&valued)}) {
      ChainTrainer trainer = ChainTrainer::Create(data, 1.0, options).value();
      for (int k = 0; k < 5; ++k) trainer.Advance({}).value();
      weights.push_back(trainer.Weights());
    }
    EXPECT_EQ(weights[0], weights[1]);
  }
}

TEST(ValuesTest, SolversAgree) {
  const ChainData data = WithValues(RandomChains(9, 4, 50, 8, 15), 4);
  const auto objective = [&](const VectorXd& w) {
    ChainLoss loss(&data);
    return ChainProblem(&loss, 2.0).Value(w, nullptr).value();
  };
  ChainLbfgs reference(&data, 2.0, 1);
  while (reference.GradientEstimate() > 1e-9 && reference.Advance(1, {}).value() == SolverState::kRunning) continue;
  const double optimum = objective(reference.Weights());
  for (const MemoryMode memory :
       {MemoryMode::kMixed, MemoryMode::kMarginals, MemoryMode::kSparse, MemoryMode::kAbsolute}) {
    for (const std::string method : {"sag", "saga"}) {
      ChainTrainerOptions options;
      options.method = method;
      options.average.memory = memory;
      options.average.step = stochastic::StepRule::kLmax;
      options.tolerance = 1e-8;
      options.max_passes = 5000.0;
      ChainTrainer trainer = ChainTrainer::Create(&data, 2.0, options).value();
      while (trainer.Advance({}).value() == ChainOutcome::kRunning) continue;
      EXPECT_NEAR(objective(trainer.Weights()), optimum, 1e-8 * optimum) << method;
    }
  }
}

class AttributeTextTest : public ::testing::Test {
 protected:
  absl::StatusOr<data::AttributeText> Read(const std::string& text) {
    dir_.Write("x.crfsuite", text);
    const data::DataRoot root = data::DataRoot::Open(dir_.path()).value();
    data::LineReader lines(data::OpenBytes(root.OpenFile("x.crfsuite").value(), "x.crfsuite").value(), "x.crfsuite");
    return data::ReadAttributeText(lines);
  }
  std::string Error(const std::string& text) { return std::string(Read(text).status().message()); }
  luthier::testing::TemporaryDirectory dir_;
};

TEST_F(AttributeTextTest, ReadsNamesValuesAndEscapes) {
  const data::AttributeText text =
      Read("B\tw=a\tx:0.5\ty:-2e1\nO\tw=a\\:b:3\tc\\\\\tx\tx:2\n\n\nO\n\nB\tw=a\t\n").value();
  EXPECT_THAT(text.sequence_start, ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(text.token_start, ElementsAre(0, 3, 6, 6, 7));
  EXPECT_THAT(text.attribute, ElementsAre(0, 1, 2, 3, 4, 1, 0));
  EXPECT_THAT(text.value, ElementsAre(1.0, 0.5, -20.0, 3.0, 1.0, 3.0, 1.0));
  EXPECT_EQ(text.attributes.text(3), "w=a:b");
  EXPECT_EQ(text.attributes.text(4), "c\\");
  EXPECT_THAT(text.line, ElementsAre(1, 2, 5, 7));
  EXPECT_EQ(text.label_names.text(0), "B");
}

// Attributes of a token are told apart without looking through all that it has.
TEST_F(AttributeTextTest, ATokenMayHaveManyAttributes) {
  std::string line = "A";
  for (int a = 0; a < 200'000; ++a) line += "\ta" + std::to_string(a);
  const data::AttributeText text = Read(line + "\ta7:2\nB\ta7\ta7\n").value();
  EXPECT_EQ(text.token_start[1], 200'000);
  EXPECT_EQ(text.value[7], 3.0);
  EXPECT_EQ(text.value.back(), 2.0);
}

TEST_F(AttributeTextTest, ErrorsSayWhere) {
  EXPECT_THAT(Error(""), HasSubstr("x.crfsuite: has no tokens"));
  EXPECT_THAT(Error("B\ta\nO\tx:ten\n"), HasSubstr("x.crfsuite:2: attribute 1 has a value that"));
  EXPECT_THAT(Error("B\tx:inf\n"), HasSubstr("not a finite number"));
  EXPECT_THAT(Error("B\tx:nan\n"), HasSubstr("not a finite number"));
  EXPECT_THAT(Error("B\t:3\n"), HasSubstr("attribute 1 has no name"));
  EXPECT_THAT(Error("B\ta\t\tb\n"), HasSubstr("attribute 2 has no name"));
  EXPECT_THAT(Error("\ta\n"), HasSubstr("no label"));
  EXPECT_THAT(Error("B\tx:1e308\tx:1e308\n"), HasSubstr("too large"));
}

TEST_F(AttributeTextTest, MapsDropWhatIsRareOrUnknown) {
  const data::AttributeText text = Read("B\ta:2\tb\nO\ta\tc\n\nO\ta:2\tc:0.5\n\nZ\ta\td\n").value();
  const AttributeMap map = AttributeMap::Fit(text, {0, 1}, 2).value();
  EXPECT_EQ(map.attributes(), 2);  // a, c
  const ChainData train = map.Encode(text, {0, 1}).value();
  EXPECT_TRUE(CheckChainData(train).ok());
  EXPECT_THAT(train.label_names, ElementsAre("B", "O"));
  EXPECT_THAT(train.attribute, ElementsAre(0, 0, 1, 0, 1));
  EXPECT_THAT(train.value, ElementsAre(2.0, 1.0, 1.0, 2.0, 0.5));
  EXPECT_THAT(std::string(map.Encode(text, {2}).status().message()), HasSubstr("x.crfsuite:6: its label"));
  const ChainData other = map.Encode(text, {2}, FeatureMap::UnknownLabels::kKeep).value();
  EXPECT_THAT(other.unknown_names, ElementsAre("Z"));
  EXPECT_THAT(other.attribute, ElementsAre(0));
  EXPECT_TRUE(other.value.empty());  // All 1.
  EXPECT_THAT(std::string(AttributeMap::Fit(text, {1}, 1).status().message()), HasSubstr("nothing is to be learned"));
  EXPECT_THAT(std::string(AttributeMap::Fit(text, {}, 1).status().message()), HasSubstr("no sequences"));
}

}  // namespace
}  // namespace luthier::crf
