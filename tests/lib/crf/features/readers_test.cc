#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "lib/data/synth_chains.h"
#include "lib/notation/synth_specs.h"
#include "tests/lib/crf/crf_testing.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::crf {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ChainReadersTest : public ::testing::Test {
 protected:
  data::LineReader Lines(const std::string& bytes, data::TextLimits limits = {}) {
    dir_.Write("f", bytes);
    return data::LineReader(data::OpenBytes(root_.OpenFile("f").value(), "f").value(), "f", limits);
  }
  absl::StatusOr<Letters> Words(const std::string& bytes) {
    data::LineReader lines = Lines(bytes);
    return ReadLetters(lines);
  }
  std::string WordError(const std::string& bytes) { return std::string(Words(bytes).status().message()); }

  luthier::testing::TemporaryDirectory dir_;
  data::DataRoot root_ = data::DataRoot::Open(dir_.path()).value();
};

std::string PixelLine(int id, char letter, int next, int word, int fold, int on) {
  std::string line = std::to_string(id) + "\t" + letter + "\t" + std::to_string(next) + "\t" + std::to_string(word) +
                     "\t1\t" + std::to_string(fold);
  for (int p = 0; p < data::kLetterPixels; ++p) line += p == on ? "\t1" : "\t0";
  return line + "\t\n";
}

TEST_F(ChainReadersTest, LettersInBothForms) {
  const Letters pixels =
      Words(PixelLine(1, 'b', 2, 1, 0, 0) + PixelLine(2, 'a', -1, 1, 0, 127) + PixelLine(3, 'b', -1, 2, 7, 9)).value();
  const std::string zeros(31, '0');
  const Letters bitmaps =
      Words("0\t0\t0\tb\t8" + zeros + "\n0\t0\t1\ta\t" + zeros + "1\n7\t0\t0\tb\t0040" + std::string(28, '0') + "\n")
          .value();
  for (const Letters& letters : {pixels, bitmaps}) {
    EXPECT_THAT(letters.data.label_names, ElementsAre("a", "b"));
    EXPECT_THAT(letters.data.sequence_start, ElementsAre(0, 2, 3));
    EXPECT_THAT(letters.data.label, ElementsAre(1, 0, 1));
    EXPECT_THAT(letters.data.attribute, ElementsAre(0, 128, 129, 127, 128, 130, 9, 128, 129, 130));
    EXPECT_THAT(letters.data.token_start, ElementsAre(0, 3, 6, 10));
    EXPECT_THAT(letters.fold, ElementsAre("0", "7"));
  }
  EXPECT_EQ(Fingerprint(pixels.data).value(), Fingerprint(bitmaps.data).value());
}

TEST_F(ChainReadersTest, GeneratedTextIsReadLikeAFile) {
  const auto columns = [](const std::string& uri) {
    data::LineReader lines(data::BytesOf(data::SynthesizeSequences(notation::ParseSynthSequences(uri).value()).value()),
                           uri);
    return data::ReadColumnText(lines).value();
  };
  const data::ColumnText text = columns("synth:sequences?sentences=300&length=9&types=4&words=50&seed=2");
  EXPECT_EQ(text.sequences(), 300);
  EXPECT_EQ(text.columns, 2);
  EXPECT_EQ(text.label_names.size(), 9);
  EXPECT_NEAR(static_cast<double>(text.tokens()) / 300.0, 9.0, 0.5);
  // I-Tk only behind B-Tk or I-Tk.
  for (int64_t i = 0; i < text.sequences(); ++i) {
    std::string before = "O";
    for (auto t = static_cast<size_t>(text.sequence_start[i]); t < static_cast<size_t>(text.sequence_start[i + 1]);
         ++t) {
      const std::string& label = text.label_names.text(text.label[t]);
      if (label[0] == 'I') {
        EXPECT_EQ(before.substr(1), label.substr(1));
      }
      before = label;
    }
  }
  const Letters letters =
      Words(data::SynthesizeLetters(notation::ParseSynthLetters("synth:letters?words=50&letters=4").value()).value())
          .value();
  EXPECT_EQ(letters.data.sequences(), 50);
  EXPECT_EQ(letters.data.labels(), 4);
  EXPECT_EQ(letters.fold[13], "3");
  // The smallest of each still has two labels.
  for (int seed = 0; seed < 20; ++seed) {
    const std::string end = absl::StrCat("&length=1&seed=", seed);
    EXPECT_GE(columns("synth:sequences?sentences=4&types=1&words=2" + end).label_names.size(), 2) << seed;
    EXPECT_TRUE(
        Words(data::SynthesizeLetters(notation::ParseSynthLetters("synth:letters?words=4&letters=2" + end).value())
                  .value())
            .ok());
  }
  EXPECT_EQ(data::SynthesizeSequences({}).value(), data::SynthesizeSequences({}).value());
}

TEST_F(ChainReadersTest, ErrorsOfLettersSayWhere) {
  const std::string good = "0\t0\t0\tb\t" + std::string(32, '0') + "\n";
  EXPECT_THAT(WordError(""), HasSubstr("f: has no letters"));
  EXPECT_THAT(WordError("a b c\n"), AllOf(HasSubstr("f:1:1: has 1 fields"), HasSubstr("letter.data")));
  EXPECT_THAT(WordError(good + "0\t0\t1\n"), HasSubstr("f:2:1: has 3 fields"));
  EXPECT_THAT(WordError(good + "0\t0\t1\ta\t" + std::string(31, '0') + "g\n"),
              HasSubstr("f:2:40: what is here is not a hexadecimal digit"));
  EXPECT_THAT(WordError(good + "0\t0\t1\ta\t00\n"), HasSubstr("f:2:9: the bitmap has 2 digits"));
  EXPECT_THAT(WordError(good + "0\t0\t1\t\t" + std::string(32, '0') + "\n"), HasSubstr("letter is missing"));
  EXPECT_THAT(WordError(good), HasSubstr("fewer than two labels"));
  EXPECT_THAT(WordError(PixelLine(1, 'b', 2, 1, 0, 0)), HasSubstr("the last word is cut off"));
  std::string bad = PixelLine(1, 'b', -1, 1, 0, 0);
  bad[bad.size() - 3] = '2';
  EXPECT_THAT(WordError(bad), HasSubstr("pixel 127 is not 0 or 1"));
}

}  // namespace
}  // namespace luthier::crf
