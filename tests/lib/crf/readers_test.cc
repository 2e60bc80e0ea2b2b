#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "lib/crf/synth_chains.h"
#include "lib/notation/synth_specs.h"
#include "tests/lib/crf/crf_testing.h"
#include "tests/testing/compress.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::crf {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using luthier::testing::Gzip;
using luthier::testing::Xz;

class ChainReadersTest : public ::testing::Test {
 protected:
  learn::LineReader Lines(const std::string& bytes, learn::TextLimits limits = {}) {
    dir_.Write("f", bytes);
    return learn::LineReader(learn::OpenBytes(root_.OpenFile("f").value(), "f").value(), "f", limits);
  }
  absl::StatusOr<ColumnText> Columns(const std::string& bytes, learn::TextLimits limits = {}) {
    learn::LineReader lines = Lines(bytes, limits);
    return ReadColumnText(lines);
  }
  std::string ColumnError(const std::string& bytes, learn::TextLimits limits = {}) {
    return std::string(Columns(bytes, limits).status().message());
  }
  absl::StatusOr<Letters> Words(const std::string& bytes) {
    learn::LineReader lines = Lines(bytes);
    return ReadLetters(lines);
  }
  std::string WordError(const std::string& bytes) { return std::string(Words(bytes).status().message()); }

  luthier::testing::TemporaryDirectory dir_;
  learn::DataRoot root_ = learn::DataRoot::Open(dir_.path()).value();
};

constexpr char kColumns[] = "The DT B-NP\ndog  NN\tI-NP\r\n\n\n-DOCSTART- x O\n\nruns VBZ B-VP";

TEST_F(ChainReadersTest, ColumnsSequencesAndLabels) {
  for (const std::string& bytes : {std::string(kColumns), Gzip(kColumns), Xz(kColumns)}) {
    const ColumnText text = Columns(bytes).value();
    EXPECT_EQ(text.columns, 2);
    EXPECT_THAT(text.sequence_start, ElementsAre(0, 2, 3, 4));
    EXPECT_THAT(text.label, ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(text.line, ElementsAre(1, 2, 5, 7));
    EXPECT_EQ(text.strings.text(text.cell[2]), "dog");
    EXPECT_EQ(text.strings.text(text.cell[3]), "NN");
    EXPECT_EQ(text.label_names.text(3), "B-VP");
  }
}

TEST_F(ChainReadersTest, ANoBreakSpaceIsPartOfAWord) {
  EXPECT_EQ(Columns("a\xa0z N O\n").value().columns, 2);
}

TEST_F(ChainReadersTest, ErrorsOfColumnsSayWhere) {
  EXPECT_THAT(ColumnError(""), HasSubstr("f: has no tokens"));
  EXPECT_THAT(ColumnError("\n \n\t\n"), HasSubstr("f: has no tokens"));
  EXPECT_THAT(ColumnError("word\n"), AllOf(HasSubstr("f:1: "), HasSubstr("at least two columns")));
  EXPECT_THAT(ColumnError("a b c\n\nd e\n"), AllOf(HasSubstr("f:3: has 2 columns"), HasSubstr("line 1 has 3")));
  learn::TextLimits limits;
  limits.max_line_bytes = 10;
  EXPECT_THAT(ColumnError("a b\n" + std::string(20, 'x') + " y\n", limits), HasSubstr("f:2: the line is longer"));
  EXPECT_THAT(ColumnError(std::string("a b\n\0 c\n", 8)), HasSubstr("f:2:1: byte 0x00"));
  std::string many;
  for (int t = 0; t <= kMaxSequenceTokens; ++t) many += "a O\n";
  EXPECT_THAT(ColumnError(many), AllOf(HasSubstr(":16385: "), HasSubstr("blank lines between sequences missing?")));
  std::string labels;
  for (int t = 0; t <= kMaxLabels; ++t) labels += "a " + std::to_string(t) + "\n\n";
  EXPECT_THAT(ColumnError(labels), AllOf(HasSubstr(":2001: "), HasSubstr("is the label in the last column?")));
  std::string long_text;
  for (int t = 0; t < 20000; ++t) long_text += "w" + std::to_string(t * 7919 % 10007) + " O\n\n";
  for (const std::string& packed : {Gzip(long_text), Xz(long_text)}) {
    EXPECT_THAT(ColumnError(packed.substr(0, packed.size() / 2)), HasSubstr("cut off"));
    std::string damaged = packed;
    for (size_t k = packed.size() / 2; k < packed.size() / 2 + 40; ++k) damaged[k] = static_cast<char>(damaged[k] ^ 85);
    EXPECT_FALSE(Columns(damaged).ok());
  }
}

std::string PixelLine(int id, char letter, int next, int word, int fold, int on) {
  std::string line = std::to_string(id) + "\t" + letter + "\t" + std::to_string(next) + "\t" + std::to_string(word) +
                     "\t1\t" + std::to_string(fold);
  for (int p = 0; p < kLetterPixels; ++p) line += p == on ? "\t1" : "\t0";
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
    learn::LineReader lines(learn::BytesOf(SynthesizeSequences(notation::ParseSynthSequences(uri).value()).value()),
                            uri);
    return ReadColumnText(lines).value();
  };
  const ColumnText text = columns("synth:sequences?sentences=300&length=9&types=4&words=50&seed=2");
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
      Words(SynthesizeLetters(notation::ParseSynthLetters("synth:letters?words=50&letters=4").value()).value()).value();
  EXPECT_EQ(letters.data.sequences(), 50);
  EXPECT_EQ(letters.data.labels(), 4);
  EXPECT_EQ(letters.fold[13], "3");
  // The smallest of each still has two labels.
  for (int seed = 0; seed < 20; ++seed) {
    const std::string end = absl::StrCat("&length=1&seed=", seed);
    EXPECT_GE(columns("synth:sequences?sentences=4&types=1&words=2" + end).label_names.size(), 2) << seed;
    EXPECT_TRUE(
        Words(SynthesizeLetters(notation::ParseSynthLetters("synth:letters?words=4&letters=2" + end).value()).value())
            .ok());
  }
  EXPECT_EQ(SynthesizeSequences({}).value(), SynthesizeSequences({}).value());
}

TEST_F(ChainReadersTest, ErrorsOfLettersSayWhere) {
  const std::string good = "0\t0\t0\tb\t" + std::string(32, '0') + "\n";
  EXPECT_THAT(WordError(""), HasSubstr("f: has no letters"));
  EXPECT_THAT(WordError("a b c\n"), AllOf(HasSubstr("f:1:1: has 1 fields"), HasSubstr("letter.data")));
  EXPECT_THAT(WordError(good + "0\t0\t1\n"), HasSubstr("f:2:1: has 3 fields"));
  EXPECT_THAT(WordError(good + "0\t0\t1\ta\t" + std::string(31, '0') + "g\n"),
              HasSubstr("f:2:40: \"g\" is not a hexadecimal digit"));
  EXPECT_THAT(WordError(good + "0\t0\t1\ta\t00\n"), HasSubstr("f:2:9: the bitmap has 2 digits"));
  EXPECT_THAT(WordError(good + "0\t0\t1\t\t" + std::string(32, '0') + "\n"), HasSubstr("letter is missing"));
  EXPECT_THAT(WordError(good), HasSubstr("fewer than two labels"));
  EXPECT_THAT(WordError(PixelLine(1, 'b', 2, 1, 0, 0)), HasSubstr("the last word is cut off"));
  std::string bad = PixelLine(1, 'b', -1, 1, 0, 0);
  bad[bad.size() - 3] = '2';
  EXPECT_THAT(WordError(bad), HasSubstr("pixel 127 is \"2\", not 0 or 1"));
}

}  // namespace
}  // namespace luthier::crf
