#include "lib/data/column_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lib/data/data_root.h"
#include "tests/testing/compress.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using luthier::testing::Gzip;
using luthier::testing::Xz;

class ColumnTextTest : public ::testing::Test {
 protected:
  LineReader Lines(const std::string& bytes, TextLimits limits = {}) {
    dir_.Write("f", bytes);
    return LineReader(OpenBytes(root_.OpenFile("f").value(), "f").value(), "f", limits);
  }
  absl::StatusOr<ColumnText> Columns(const std::string& bytes, TextLimits limits = {}) {
    LineReader lines = Lines(bytes, limits);
    return ReadColumnText(lines);
  }
  std::string ColumnError(const std::string& bytes, TextLimits limits = {}) {
    return std::string(Columns(bytes, limits).status().message());
  }

  luthier::testing::TemporaryDirectory dir_;
  DataRoot root_ = DataRoot::Open(dir_.path()).value();
};

constexpr char kColumns[] = "The DT B-NP\ndog  NN\tI-NP\r\n\n\n-DOCSTART- x O\n\nruns VBZ B-VP";

TEST_F(ColumnTextTest, ColumnsSequencesAndLabels) {
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

TEST_F(ColumnTextTest, ANoBreakSpaceIsPartOfAWord) {
  EXPECT_EQ(Columns("a\xa0z N O\n").value().columns, 2);
}

TEST_F(ColumnTextTest, ErrorsOfColumnsSayWhere) {
  EXPECT_THAT(ColumnError(""), HasSubstr("f: has no tokens"));
  EXPECT_THAT(ColumnError("\n \n\t\n"), HasSubstr("f: has no tokens"));
  EXPECT_THAT(ColumnError("word\n"), AllOf(HasSubstr("f:1: "), HasSubstr("at least two columns")));
  EXPECT_THAT(ColumnError("a b c\n\nd e\n"), AllOf(HasSubstr("f:3: has 2 columns"), HasSubstr("line 1 has 3")));
  TextLimits limits;
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

}  // namespace
}  // namespace luthier::data
