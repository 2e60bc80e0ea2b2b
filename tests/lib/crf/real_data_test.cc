#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/crf/problem.h"
#include "tests/lib/crf/crf_testing.h"

namespace luthier::crf {
namespace {

#define OPEN_OR_SKIP(lines, file)                                                            \
  const std::optional<learn::DataRoot> root = testing::RealData();                           \
  if (!root || !root->OpenFile(file).ok()) GTEST_SKIP() << file << " is not there: skipped"; \
  learn::LineReader lines(learn::OpenBytes(root->OpenFile(file).value(), file).value(), file)

FeatureOptions Chunking(int64_t min_count) {
  FeatureOptions options;
  options.templates = ParseTemplates("chunking").value();
  options.min_count = min_count;
  return options;
}

TEST(RealDataTest, Conll2000HasTheDimensionOfTheThesis) {
  OPEN_OR_SKIP(lines, "conll2000/train.txt.xz");
  const ColumnText text = ReadColumnText(lines).value();
  EXPECT_EQ(text.sequences(), 8936);
  EXPECT_EQ(text.tokens(), 211727);
  const std::vector<int32_t> rows = testing::AllRows(text.sequences());
  const FeatureMap map = FeatureMap::Fit(text, rows, Chunking(3)).value();
  const ChainData data = map.Encode(text, rows).value();
  EXPECT_TRUE(CheckChainData(data).ok()) << CheckChainData(data);
  EXPECT_EQ(data.labels(), 22);
  EXPECT_EQ(data.attributes, 74658 + 3);
  EXPECT_EQ(data.shape().parameters(), 1643026);

  // Counts of attributes with case kept, by the other policies for what is outside of a sentence, without any cut-off
  // and with 3 occurrences: training-algorithms.md, checked there with another program.
  struct Case {
    Boundary boundary;
    int64_t min_count;
    int32_t attributes;
  };
  for (const Case& c : {Case{Boundary::kNumbered, 3, 76328}, Case{Boundary::kSkip, 1, 335672}}) {
    FeatureOptions options = Chunking(c.min_count);
    options.boundary = c.boundary;
    options.lower_words = false;
    options.bias = options.ends = false;
    EXPECT_EQ(FeatureMap::Fit(text, rows, options).value().attributes(), c.attributes);
  }
}

TEST(RealDataTest, LettersHaveTheDimensionOfTheThesis) {
  OPEN_OR_SKIP(lines, "ocr-letters/letters.tsv.xz");
  const Letters letters = ReadLetters(lines).value();
  EXPECT_EQ(letters.data.sequences(), 6877);
  EXPECT_EQ(letters.data.tokens(), 52152);
  EXPECT_EQ(letters.data.labels(), 26);
  EXPECT_EQ(letters.data.shape().parameters(), 4082);
  EXPECT_EQ(std::count(letters.fold.begin(), letters.fold.end(), "test"), 6251);
  // Weights of zero: every labeling is as probable as any other.
  ChainLoss loss(&letters.data);
  const Eigen::VectorXd zero = Eigen::VectorXd::Zero(loss.dim());
  EXPECT_NEAR(loss.Value(zero, nullptr), 52152.0 * std::log(26.0), 1e-6);
}

TEST(RealDataTest, DutchNamesAreReadWithTheirDocumentMarks) {
  OPEN_OR_SKIP(lines, "conll2002-ned/ned.train.xz");
  const ColumnText text = ReadColumnText(lines).value();
  EXPECT_EQ(text.sequences(), 15806);
  EXPECT_EQ(text.label_names.size(), 9);
}

}  // namespace
}  // namespace luthier::crf
