#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/random.h"
#include "lib/crf/features/segments.h"
#include "lib/crf/solvers/problem.h"
#include "lib/notation/templates.h"
#include "tests/lib/crf/crf_testing.h"

namespace luthier::crf {
namespace {

#define OPEN_OR_SKIP(lines, file)                                                            \
  const std::optional<data::DataRoot> root = testing::RealData();                            \
  if (!root || !root->OpenFile(file).ok()) GTEST_SKIP() << file << " is not there: skipped"; \
  data::LineReader lines(data::OpenBytes(root->OpenFile(file).value(), file).value(), file)

FeatureOptions Chunking(int64_t min_count) {
  FeatureOptions options;
  options.templates = notation::ParseTemplates("chunking").value();
  options.min_count = min_count;
  return options;
}

TEST(RealDataTest, Conll2000HasTheDimensionOfTheThesis) {
  OPEN_OR_SKIP(lines, "conll2000/train.txt.xz");
  const data::ColumnText text = data::ReadColumnText(lines).value();
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
  EXPECT_NEAR(loss.Value(zero, nullptr).value(), 52152.0 * std::log(26.0), 1e-6);
}

// conlleval.pl, its startOfChunk and endOfChunk written out condition by condition, as an oracle of its own.
struct Conlleval {
  int64_t found = 0, gold = 0, correct = 0;
  static bool Ends(char before, char now, const std::string& type_before, const std::string& type) {
    bool ends = false;
    if (before == 'B' && now == 'B') ends = true;
    if (before == 'B' && now == 'O') ends = true;
    if (before == 'I' && now == 'B') ends = true;
    if (before == 'I' && now == 'O') ends = true;
    if (before != 'O' && before != '.' && type_before != type) ends = true;
    return ends;
  }
  static bool Starts(char before, char now, const std::string& type_before, const std::string& type) {
    bool starts = false;
    if (before == 'B' && now == 'B') starts = true;
    if (before == 'I' && now == 'B') starts = true;
    if (before == 'O' && now == 'B') starts = true;
    if (before == 'O' && now == 'I') starts = true;
    if (now != 'O' && now != '.' && type_before != type) starts = true;
    return starts;
  }
  void Add(const std::vector<std::string>& right, const std::vector<std::string>& guess) {
    const auto split = [](const std::string& label, char* tag, std::string* type) {
      *tag = label[0];
      *type = label.size() > 2 ? label.substr(2) : "";
    };
    char last_right = 'O', last_guess = 'O';
    std::string last_right_type, last_guess_type;
    bool in_correct = false;
    for (size_t t = 0; t <= right.size(); ++t) {
      char r = 'O', g = 'O';
      std::string r_type, g_type;
      if (t < right.size()) {
        split(right[t], &r, &r_type);
        split(guess[t], &g, &g_type);
      }
      if (in_correct) {
        const bool right_ends = Ends(last_right, r, last_right_type, r_type);
        const bool guess_ends = Ends(last_guess, g, last_guess_type, g_type);
        if (right_ends && guess_ends && last_guess_type == last_right_type) {
          in_correct = false;
          ++correct;
        } else if (right_ends != guess_ends || g_type != r_type) {
          in_correct = false;
        }
      }
      const bool right_starts = Starts(last_right, r, last_right_type, r_type);
      const bool guess_starts = Starts(last_guess, g, last_guess_type, g_type);
      if (right_starts && guess_starts && g_type == r_type) in_correct = true;
      gold += right_starts ? 1 : 0;
      found += guess_starts ? 1 : 0;
      last_right = r, last_guess = g, last_right_type = r_type, last_guess_type = g_type;
    }
  }
};

TEST(RealDataTest, SegmentsOfTheChunkingTestFileAreThoseOfConlleval) {
  OPEN_OR_SKIP(lines, "conll2000/test.txt.xz");
  const data::ColumnText text = data::ReadColumnText(lines).value();
  std::vector<std::string> names;
  for (int32_t k = 0; k < text.label_names.size(); ++k) names.push_back(text.label_names.text(k));
  base::RandomStream random(1, "test.conlleval");
  for (const double wrong : {0.0, 0.02, 0.3, 1.0}) {
    SegmentScorer scorer(names);
    Conlleval oracle;
    for (int64_t i = 0; i < text.sequences(); ++i) {
      std::vector<int32_t> right, guess;
      std::vector<std::string> right_names, guess_names;
      for (int64_t t = text.sequence_start[static_cast<size_t>(i)]; t < text.sequence_start[static_cast<size_t>(i) + 1];
           ++t) {
        right.push_back(text.label[static_cast<size_t>(t)]);
        const bool change = random.Uniform() < wrong;
        guess.push_back(change ? static_cast<int32_t>(random.UniformInt(names.size())) : right.back());
        right_names.push_back(names[static_cast<size_t>(right.back())]);
        guess_names.push_back(names[static_cast<size_t>(guess.back())]);
      }
      scorer.Add(right.data(), guess.data(), static_cast<int64_t>(right.size()));
      oracle.Add(right_names, guess_names);
    }
    EXPECT_EQ(scorer.scores().all.gold, 23852);  // As conlleval says of this file.
    EXPECT_EQ(scorer.scores().all.gold, oracle.gold);
    EXPECT_EQ(scorer.scores().all.found, oracle.found);
    EXPECT_EQ(scorer.scores().all.correct, oracle.correct);
    if (wrong == 0.0) {
      EXPECT_EQ(oracle.correct, 23852);
    }
  }
}

TEST(RealDataTest, DutchNamesAreReadWithTheirDocumentMarks) {
  OPEN_OR_SKIP(lines, "conll2002-ned/ned.train.xz");
  const data::ColumnText text = data::ReadColumnText(lines).value();
  EXPECT_EQ(text.sequences(), 15806);
  EXPECT_EQ(text.label_names.size(), 9);
}

}  // namespace
}  // namespace luthier::crf
