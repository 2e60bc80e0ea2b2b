#include "lib/data/readers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include "absl/status/statusor.h"
#include "lib/base/random.h"
#include "lib/base/stop_token.h"
#include "tests/testing/compress.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Gzip;
using ::testing::HasSubstr;
using testing::Xz;

class ReadersTest : public ::testing::Test {
 protected:
  absl::StatusOr<Dataset> Read(const std::string& name, const std::string& bytes, const ReadOptions& options = {}) {
    dir_.Write(name, bytes);
    return LoadDataset(name, options, &root_);
  }
  std::string Error(const std::string& name, const std::string& bytes, const ReadOptions& options = {}) {
    const absl::StatusOr<Dataset> dataset = Read(name, bytes, options);
    return dataset.ok() ? "no error" : std::string(dataset.status().message());
  }
  // What files of this name hold, and a part of the error that this is.
  void ExpectErrors(const std::string& name, const std::vector<std::pair<std::string, std::string>>& cases) {
    for (const auto& [bytes, message] : cases) EXPECT_THAT(Error(name, bytes), HasSubstr(message)) << bytes;
  }

  testing::TemporaryDirectory dir_;
  DataRoot root_ = DataRoot::Open(dir_.path()).value();
};

constexpr char kLibsvm[] = "+1 1:0.5 3:-2 # first\n-1 2:1e-1\n\n# only a comment\n+1\n";

TEST_F(ReadersTest, LibsvmRowsLabelsAndComments) {
  const Dataset d = Read("a.libsvm", kLibsvm).value();
  EXPECT_EQ(d.x.rows, 3);
  EXPECT_EQ(d.x.cols, 3);
  EXPECT_THAT(d.x.row_start, ElementsAre(0, 2, 3, 3));
  EXPECT_THAT(d.x.column, ElementsAre(0, 2, 1));
  EXPECT_THAT(d.x.value, ElementsAre(0.5, -2.0, 0.1));
  EXPECT_THAT(d.classes, ElementsAre("-1", "1"));
  EXPECT_THAT(d.label, ElementsAre(1, 0, 1));
}

TEST_F(ReadersTest, CompressionChangesNothing) {
  const Dataset plain = Read("a", kLibsvm).value();
  for (const std::string& bytes : {Gzip(kLibsvm), Xz(kLibsvm), Gzip("+1 1:0.5 3:-2\n") + Gzip("-1 2:1e-1\n+1\n"),
                                   Xz("+1 1:0.5 3:-2\n") + Xz("-1 2:1e-1\n+1\n")}) {
    const Dataset d = Read("b", bytes).value();
    EXPECT_EQ(d.x, plain.x);
    EXPECT_EQ(Fingerprint(d).value(), Fingerprint(plain).value());
  }
}

TEST_F(ReadersTest, LargeCompressedFileCrossesBuffers) {
  std::string text;
  base::RandomStream random(5, "test");
  for (int i = 0; i < 20000; ++i) {
    text += std::to_string(i % 2) + " 1:" + std::to_string(random.Normal()) + " 2:" + std::to_string(i) + "\n";
  }
  const Dataset plain = Read("p.svm", text).value();
  EXPECT_EQ(plain.x.rows, 20000);
  EXPECT_EQ(Fingerprint(Read("p.svm.gz", Gzip(text)).value()).value(), Fingerprint(plain).value());
  EXPECT_EQ(Fingerprint(Read("p.svm.xz", Xz(text)).value()).value(), Fingerprint(plain).value());
}

TEST_F(ReadersTest, CutOffOrDamagedCompressedDataAreDataLoss) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += std::to_string(i % 2) + " 1:" + std::to_string(i * 7919 % 1000) + "\n";
  for (const std::string& whole : {Gzip(text), Xz(text)}) {
    for (const size_t keep : {whole.size() - 1, whole.size() / 2, size_t{12}}) {
      const absl::Status status = Read("cut.svm", whole.substr(0, keep)).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("cut.svm"));
    }
    std::string damaged = whole;
    damaged[whole.size() / 2] = static_cast<char>(~damaged[whole.size() / 2]);
    EXPECT_EQ(Read("cut.svm", damaged).status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST_F(ReadersTest, LibsvmUnsortedIndicesAreSorted) {
  EXPECT_EQ(Read("a.svm", "0 3:3 1:1\n1 2:2\n").value().x, Read("b.svm", "0 1:1 3:3\n1 2:2\n").value().x);
}

TEST_F(ReadersTest, LibsvmErrorsNameLineAndColumn) {
  ExpectErrors("a.svm",
               {
                   {"0 1:1\n1 0:2\n", "a.svm:2:3: the feature index is below 1"},
                   {"0 1:1\n1 -4:2\n", "a.svm:2:3: the feature index is below 1"},
                   {"0 1:1 1:2\n1 1:1\n", "a.svm:1: a feature index is there twice"},
                   {"0 2:1 1:1 2:2\n1 1:1\n", "a feature index is there twice"},
                   {"0 1:nan\n1 1:2\n", "a.svm:1:5: the value is not finite"},
                   {"0 1:-inf\n1 1:2\n", "the value is not finite"},
                   {"0 1:abc\n1 1:2\n", "a.svm:1:5: the value is not a number"},
                   {"0 1:0x10\n1 1:2\n", "is not a number"},
                   {"0 1:1e999\n1 1:2\n", "is not a number"},
                   {"0 1\n1 1:2\n", "a.svm:1:3: what is here is not index:value"},
                   {"0 99999999999999999999:1\n", "a.svm:1:3: what is before the colon is not a feature index"},
                   {"0 2147483647:1\n", "is above"},
                   {"0 qid:3 1:1\n", "ranking"},
                   {"1,2 1:1\n", "several labels"},
                   {"1:1 2:1\n", "instead of a label"},
                   {"nan 1:1\n", "label"},
                   {"1 1:1\n1.0 1:2\n", "all rows have the same label"},
                   {"1\n0\n", "no row has a feature"},
                   {"# nothing\n\n", "no rows"},
                   {"", "no rows"},
               });
  ReadOptions label;
  label.label = "y";
  EXPECT_THAT(Error("a.svm", kLibsvm, label), HasSubstr("begin with their label"));
}

TEST_F(ReadersTest, CsvHeaderLabelByNameAndQuotes) {
  ReadOptions options;
  options.label = "kind, \"of\"";
  const Dataset d =
      Read("a.csv", "x,\"kind, \"\"of\"\"\",\"y\nz\"\r\n1, b ,2\r\n\"3\",\"a\"\"b\",0\n-1e-2,b,+.5\n", options).value();
  EXPECT_THAT(d.features, ElementsAre("x", "y\nz"));
  EXPECT_THAT(d.classes, ElementsAre("a\"b", "b"));
  EXPECT_THAT(d.label, ElementsAre(1, 0, 1));
  EXPECT_THAT(d.x.value, ElementsAre(1.0, 2.0, 3.0, -0.01, 0.5));
  EXPECT_THAT(d.x.column, ElementsAre(0, 1, 0, 0, 1));
}

TEST_F(ReadersTest, CsvHeaderIsFoundAndDelimiterGuessed) {
  const Dataset with = Read("a.csv", "\xEF\xBB\xBFu;v;label\n1;2;yes\n3;4;no\n").value();
  EXPECT_THAT(with.features, ElementsAre("u", "v"));
  EXPECT_EQ(with.x.rows, 2);
  EXPECT_THAT(with.classes, ElementsAre("no", "yes"));
  const Dataset without = Read("b.tsv", "1\t2\tyes\n3\t4\tno").value();
  EXPECT_TRUE(without.features.empty());
  EXPECT_EQ(without.x, with.x);
  EXPECT_EQ(Fingerprint(without).value(), Fingerprint(with).value());
  ReadOptions numeric_header;
  numeric_header.header = Header::kYes;
  EXPECT_THAT(Read("c.csv", "1,2,3\n1,2,0\n3,4,1\n", numeric_header).value().features, ElementsAre("1", "2"));
}

TEST_F(ReadersTest, NumericLabelsSortAsNumbersAndTextAsText) {
  EXPECT_THAT(Read("a.csv", "1,10\n2,9\n3,-0\n4,1e1\n5,0.0\n").value().classes, ElementsAre("0", "9", "10"));
  EXPECT_THAT(Read("a.csv", "1,10\n2,9\n3,x\n").value().classes, ElementsAre("10", "9", "x"));
}

TEST_F(ReadersTest, CsvErrorsNameLineAndColumn) {
  ExpectErrors("a.csv", {
                            {"", "a.csv: is empty"},
                            {"x,y\n", "no rows"},
                            {"x,y\n1,0\n1,2,3\n", "a.csv:3: the row has 3 fields; the first one has 2"},
                            {"x,y\n1,0\n1\n", "has 1 fields"},
                            {"x,w,y\n1,2,0\n1,abc,1\n", "a.csv:3:3: column 2 is not a number; encode"},
                            {"1,2,0\n1,abc,1\n", "a.csv:2:3: column 2 is not a number"},
                            {"x,y\nNaN,0\n1,1\n", "a.csv:2:1: column 1 is not finite"},
                            {"x,y\n-inf,0\n1,1\n", "column 1 is not finite"},
                            {"x,y\n,0\n1,1\n", "a.csv:2:1: column 1 is missing"},
                            {"x,y\n1,\n1,1\n", "label is missing"},
                            {"x,y\n1,7\n2,7\n", "all rows have the same label"},
                            {"x,x,y\n1,1,7\n", "a.csv:1:3: the name of column 2 is there twice"},
                            {"x,y\n\"1,7\n2,8\n", "a.csv:2:1: the quote is never closed"},
                            {"x,y\n\"1\"2,7\n", "after the closing quote"},
                            {"justone\n", "one field only"},
                        });
  ReadOptions label;
  label.label = "tagret";
  EXPECT_THAT(Error("a.csv", "x,target\n1,0\n", label), HasSubstr("(name number 2 is close to it)"));
  label.header = Header::kNo;
  EXPECT_THAT(Error("a.csv", "1,0\n", label), HasSubstr("needs a header"));
  std::string many;
  for (int i = 0; i < 1500; ++i) many += "1," + std::to_string(i) + ".5\n";
  EXPECT_THAT(Error("a.csv", many), HasSubstr("more than 1000 different values"));
}

// What spreadsheets write of numbers in other ways than programs do; the right remedy is named.
TEST_F(ReadersTest, NonNumericCellsAreNamedByTheirKind) {
  const std::pair<const char*, const char*> cases[] = {
      {"0,7555", "is written with a decimal comma; export with a point"},
      {"-12,5", "is written with a decimal comma; export with a point"},
      {"0,125", "is written with a decimal comma; export with a point"},
      {"1,5e-3", "is written with a decimal comma; export with a point"},
      {"1,234", "has a comma, for decimals or for thousands"},
      {"1,234.5", "has thousands separators"},
      {"1,234,567", "has thousands separators"},
      {"1.234,5", "has thousands separators"},
      {"1.234.567", "has thousands separators"},
      {"1'234.5", "has thousands separators"},
      {"1 234 567", "has thousands separators"},
      {"1\xC2\xA0"
       "234",
       "has thousands separators"},
      {"2024-03-12", "is a date; a date orders rows: split.time_column"},
      {"2024-03-12T10:11:12Z", "is a date; a date orders rows: split.time_column"},
      {"2024/03/12 10:11", "is a date; a date orders rows: split.time_column"},
      {"12.03.2024", "is a date; a date orders rows: write it year first"},
      {"3/12/24", "is a date; a date orders rows: write it year first"},
      {"10:11:12", "is a time; a time orders rows: split.time_column"},
      {"12%", "is a percentage; export the number alone"},
      {"TRUE", "is true or false; export 1 or 0"},
      {"$3.50", "has a unit; export the number alone"},
      {"12 kg", "has a unit; export the number alone"},
      {"#N/A", "is missing; remove or impute it"},
      {"-", "is missing; remove or impute it"},
      {"red", "is not a number; encode categories as numbers first"},
      {"a1", "is not a number; encode categories as numbers first"},
      {"1.2.3", "is not a number"},
      {"1,2,3", "is not a number"},
  };
  for (const auto& [cell, message] : cases) {
    EXPECT_THAT(Error("a.csv", std::string("x;y;label\n1;") + cell + ";0\n2;3;1\n"),
                HasSubstr(std::string("a.csv:2:3: column 2 ") + message))
        << cell;
  }
  ReadOptions regression;
  regression.task = Task::kRegression;
  EXPECT_THAT(Error("a.csv", "x;y\n1;0,5\n2;1,5\n", regression),
              HasSubstr("the target is written with a decimal comma"));
  EXPECT_THAT(Error("a.svm", "0 1:0,5\n1 1:2\n"), HasSubstr("a.svm:1:5: the value is written with a decimal comma"));
  // Without a header, where there are as many commas as semicolons.
  EXPECT_THAT(Error("a.csv", "0,7555;1,7521;0\n0,1;0,2;1\n"), HasSubstr("is written with a decimal comma"));
  EXPECT_THAT(Error("a.csv", "x,y,label\n0,75,1,5,0\n"), HasSubstr("export numbers with a decimal point"));
  EXPECT_THAT(Read("a.csv", "x,label\n1,-\n2,+\n").value().classes, ElementsAre("+", "-")) << "labels are any text";
}

TEST_F(ReadersTest, CarriageReturnsAloneEndLinesToo) {
  const Dataset csv = Read("r.csv", "1,-2,no\n3,0,yes\n").value();
  for (const char* text : {"1,-2,no\r3,0,yes\r", "1,-2,no\r3,0,yes",
                           "\xEF\xBB\xBF"
                           "1,-2,no\r\r3,0,yes"}) {
    const absl::StatusOr<Dataset> odd = Read("odd.csv", text);
    ASSERT_TRUE(odd.ok()) << odd.status();
    EXPECT_EQ(Fingerprint(*odd).value(), Fingerprint(csv).value()) << text;
  }
  EXPECT_THAT(Error("odd.csv", "x,y\r1,0\rabc,1\r"), HasSubstr("odd.csv:3:1: column 1 is not a number"));
}

TEST_F(ReadersTest, AnUnnamedColumnThatNumbersTheRowsIsNoFeature) {
  const auto table = [](const std::string& header, const std::vector<int>& numbers) {
    std::string text = header + "\n";
    for (const int n : numbers)
      text += std::to_string(n) + "," + std::to_string(n % 3) + "," + std::to_string(n % 2) + "\n";
    return text;
  };
  const std::vector<int> counted = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, shuffled = {17, 3, 40, 9, 2, 28, 11, 5, 0},
                         twice = {1, 1, 2, 3, 4, 5, 6, 7, 8, 9}, few = {0, 1, 2};
  for (const char* header : {",x,label", "Unnamed: 0,x,label", "\"\",\"x\",\"label\""}) {
    for (const auto& numbers : {counted, shuffled}) {
      EXPECT_THAT(Error("a.csv", table(header, numbers)),
                  HasSubstr("a.csv: the first column has no name and numbers the rows"))
          << header;
    }
    EXPECT_EQ(Read("a.csv", table(header, twice)).value().x.cols, 2) << "numbers that are there twice number no rows";
    EXPECT_EQ(Read("a.csv", table(header, few)).value().x.cols, 2);
  }
  EXPECT_EQ(Read("a.csv", table("id,x,label", counted)).value().x.cols, 2) << "with a name it is a feature";
  ReadOptions group;
  group.key_column = "";
  group.label = "x";
  EXPECT_THAT(Error("a.csv", table(",x,label", counted), group), HasSubstr("numbers the rows"));
}

// Whatever editors, spreadsheets and other programs make of the same table.
TEST_F(ReadersTest, OddButLegalTablesAreTheSameTable) {
  const Dataset csv = Read("r.csv", "1,-2,no\n3,0,yes\n0.5,1,no\n").value();
  for (const std::string& text :
       std::vector<std::string>{"1,-2,no\r\n3,0,yes\r\n0.5,1,no\r\n",  // Windows
                                "\xEF\xBB\xBF"
                                "1,-2,no\n3,0,yes\n0.5,1,no\n",              // a byte-order mark
                                "1,-2,no\n3,0,yes\n0.5,1,no",                // no end of the last line
                                "\n1,-2,no\n\n  \n3,0,yes\n0.5,1,no\n\n\n",  // blank lines
                                "1;-2;no\n3;0;yes\n0.5;1;no\n",              // other delimiters
                                "1\t-2\tno\n3\t0\tyes\n0.5\t1\tno\n",
                                " 1 , -2,  no \n3 ,\t0,yes\t\n0.5,1 , no\n",  // blanks
                                "\"1\",\"-2\",\"no\"\n\"3\",\"0\",\"yes\"\n\"0.5\",\"1\",\"no\"\n",
                                "+1.0,-2e0,no\n30e-1,-0,yes\n.5,1.,no\n"}) {
    const absl::StatusOr<Dataset> odd = Read("odd.csv", text);
    ASSERT_TRUE(odd.ok()) << odd.status() << " for " << text;
    EXPECT_EQ(Fingerprint(*odd).value(), Fingerprint(csv).value()) << text;
  }
  const Dataset svm = Read("r.svm", "-1 1:1 3:-2\n1 2:3\n-1 1:0.5 2:1\n").value();
  for (const std::string& text : std::vector<std::string>{
           "-1 1:1 3:-2\r\n1 2:3\r\n-1 1:0.5 2:1\r\n", "\xEF\xBB\xBF-1 1:1 3:-2\n1 2:3\n-1 1:0.5 2:1",
           "-1\t1:1\t3:-2\n+1   2:3  \n\n -1 1:0.5 2:1\n",
           "# made by hand\n-1 1:1 3:-2 # one\n1 2:3#two\n-1 1:0.5 2:1\n", "-1 3:-2 1:1\n1 2:3\n-1 2:1 1:0.5\n",
           "-1 1:1 2:0 3:-2\n1.0 1:0 2:3\n-1.0 1:.5 2:1e0\n"}) {
    const absl::StatusOr<Dataset> odd = Read("odd.svm", text);
    ASSERT_TRUE(odd.ok()) << odd.status() << " for " << text;
    EXPECT_EQ(Fingerprint(*odd).value(), Fingerprint(svm).value()) << text;
  }
  // The second class is the larger number, whatever the numbers are.
  EXPECT_EQ(Read("zero_one.svm", "0 1:1 3:-2\n1 2:3\n0 1:0.5 2:1\n")->label, svm.label);
  EXPECT_EQ(Read("one_two.svm", "1 1:1 3:-2\n2 2:3\n1 1:0.5 2:1\n")->label, svm.label);
}

// A quote that is never closed in a file of many lines: found out in one look at them, not one a line.
TEST_F(ReadersTest, ALongQuotedFieldIsReadOnce) {
  const std::string lines(size_t{1} << 21, '\n');
  EXPECT_THAT(Error("q.csv", "x,y\n1,\"" + lines), HasSubstr("q.csv:2:3: the quote is never closed"));
  const Dataset d = Read("q.csv", "x,y\n1,\"" + lines + "\"\n2,b\n").value();
  EXPECT_THAT(d.classes, ElementsAre(lines, "b"));
}

TEST_F(ReadersTest, FormatIsToldByContentWithoutExtension) {
  EXPECT_EQ(Read("data", "1 3:4\n0 1:1\n").value().x.cols, 3);
  EXPECT_EQ(Read("data", "1,0\n2,1\n").value().x.cols, 1);
  EXPECT_EQ(Read("data.txt.gz", Gzip("1 3:4\n0 1:1\n")).value().x.cols, 3);
  EXPECT_THAT(Error("data", ""), HasSubstr("is empty"));
}

TEST_F(ReadersTest, BinaryAndEndlessLinesAreRefused) {
  EXPECT_THAT(Error("a.csv", std::string("1,2\n\x01\0\x02", 7)), HasSubstr("a.csv:2:1: byte 0x01 is not text"));
  EXPECT_THAT(Error("a.svm", std::string("\x7f"
                                         "ELF\0\0",
                                         6)),
              HasSubstr("is not text"));
  base::RandomStream random(1, "garbage");
  for (int round = 0; round < 200; ++round) {
    std::string bytes;
    for (int i = 0; i < 300; ++i) bytes.push_back(static_cast<char>(random.UniformInt(256)));
    EXPECT_FALSE(Read("g", bytes).ok()) << "seed 1, round " << round;
  }
  ReadOptions small;
  small.limits.max_line_bytes = 1000;
  EXPECT_THAT(Error("a.csv", "1,2\n" + std::string(100000, '1'), small),
              HasSubstr("a.csv:2: the line is longer than 1000 bytes"));
  EXPECT_THAT(Error("a.csv", "1,\"" + std::string(100, '\n') + std::string(2000, '\n'), small), HasSubstr("quoted"));
  // One compressed line of a gigabyte: refused after 64 MiB, not swallowed.
  z_stream s = {};
  ASSERT_EQ(deflateInit2(&s, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string bomb;
  const std::string megabyte(1 << 20, '7');
  std::string chunk(1 << 16, '\0');
  for (int i = 0; i < 128; ++i) {
    s.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(megabyte.data()));
    s.avail_in = static_cast<uInt>(megabyte.size());
    do {
      s.next_out = reinterpret_cast<Bytef*>(chunk.data());
      s.avail_out = static_cast<uInt>(chunk.size());
      deflate(&s, i == 127 ? Z_FINISH : Z_NO_FLUSH);
      bomb.append(chunk, 0, chunk.size() - s.avail_out);
    } while (s.avail_out == 0);
  }
  deflateEnd(&s);
  EXPECT_THAT(Error("bomb.csv.gz", bomb), HasSubstr("longer than 67108864 bytes"));
  EXPECT_THAT(Error("one.csv.gz", Gzip(std::string(16 << 20, '1'))), HasSubstr("more than 1000 times their size"));
  EXPECT_THAT(Error("bomb.csv.xz", Xz(std::string(16 << 20, '1'))), HasSubstr("more than 1000 times their size"));
  EXPECT_THAT(Error("line.csv", std::string((64 << 20) + 1, '1')), HasSubstr("longer than 67108864 bytes"));
  ReadOptions total;
  total.limits.max_total_bytes = 100000;
  EXPECT_THAT(Error(
                  "a.csv",
                  [] {
                    std::string text;
                    for (int i = 0; i < 50000; ++i) text += i % 2 == 0 ? "1,0\n" : "2,1\n";
                    return text;
                  }(),
                  total),
              HasSubstr("more than 100000 bytes"));
}

// A gigabyte without an end of line is not read to its end.
TEST_F(ReadersTest, AnEndlessLineIsRefusedAtTheLimit) {
  class Endless final : public ByteSource {
   public:
    explicit Endless(int64_t* given) : given_(given) {}
    absl::StatusOr<bool> Append(std::string* out) override {
      constexpr size_t kPiece = size_t{1} << 16;
      if (*given_ >= int64_t{1} << 30) return false;
      out->append(kPiece, '7');
      *given_ += kPiece;
      return true;
    }

   private:
    int64_t* given_;
  };
  int64_t given = 0;
  LineReader lines(std::make_unique<Endless>(&given), "g");
  EXPECT_THAT(std::string(lines.Next().status().message()), HasSubstr("g:1: the line is longer than 67108864 bytes"));
  EXPECT_LE(given, (int64_t{64} << 20) + (int64_t{1} << 17));
}

TEST_F(ReadersTest, NothingOutsideTheRootIsOpened) {
  testing::TemporaryDirectory outside;
  outside.Write("secret.csv", "1,0\n2,1\n");
  dir_.Write("sub/inner.csv", "1,0\n2,1\n");
  ASSERT_EQ(symlink((outside.path() + "/secret.csv").c_str(), (dir_.path() + "/link.csv").c_str()), 0);
  ASSERT_EQ(symlink(outside.path().c_str(), (dir_.path() + "/dirlink").c_str()), 0);
  ASSERT_EQ(symlink("sub/inner.csv", (dir_.path() + "/good.csv").c_str()), 0);
  for (const std::string& name :
       {outside.path() + "/secret.csv", std::string("link.csv"), std::string("dirlink/secret.csv"),
        std::string("../") + outside.path().substr(5) + "/secret.csv", std::string("sub/../../x"),
        std::string("/proc/self/cmdline"), std::string(""), std::string("a\0b", 3), std::string(5000, 'a')}) {
    const absl::Status status = LoadDataset(name, {}, &root_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name << ": " << status;
  }
  EXPECT_TRUE(LoadDataset("sub/inner.csv", {}, &root_).ok());
  EXPECT_TRUE(LoadDataset("sub/../sub/inner.csv", {}, &root_).ok());
  EXPECT_TRUE(LoadDataset("good.csv", {}, &root_).ok());
}

TEST_F(ReadersTest, MissingFilesFoldersAndPipes) {
  dir_.Write("sub/breast.csv", "1,0\n2,1\n");
  dir_.Write("iris.csv.xz", Xz("1,0\n2,1\n"));
  ASSERT_EQ(mkfifo((dir_.path() + "/pipe").c_str(), 0600), 0);
  const absl::Status missing = LoadDataset("sub/braest.csv", {}, &root_).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("did you mean \"breast.csv\"?"));
  EXPECT_THAT(std::string(LoadDataset("iris.csv", {}, &root_).status().message()), HasSubstr("\"iris.csv.xz\"?"));
  EXPECT_THAT(std::string(LoadDataset("sub", {}, &root_).status().message()), HasSubstr("a folder"));
  EXPECT_THAT(std::string(LoadDataset("pipe", {}, &root_).status().message()), HasSubstr("not a regular file"));
  EXPECT_EQ(LoadDataset("x.csv", {}, nullptr).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(DataRoot::Open(dir_.path() + "/none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(DataRoot::Open(dir_.path() + "/sub/breast.csv").ok());
}

TEST_F(ReadersTest, FingerprintSeesEveryPart) {
  const Dataset d = Read("a.csv", "1,0\n2,1\n").value();
  EXPECT_EQ(Fingerprint(d).value().size(), 64u);
  EXPECT_NE(Fingerprint(Read("a.csv", "1,1\n2,0\n").value()).value(), Fingerprint(d).value());
  EXPECT_NE(Fingerprint(Read("a.csv", "1,0\n3,1\n").value()).value(), Fingerprint(d).value());
  EXPECT_NE(Fingerprint(Read("a.csv", "1,a\n2,b\n").value()).value(), Fingerprint(d).value());
  EXPECT_NE(Fingerprint(Read("a.csv", "1,0,0\n2,0,1\n").value()).value(), Fingerprint(d).value());
}

// An IDX file: dimensions, then bytes.
std::string IdxFile(const std::vector<uint8_t>& sizes, const std::string& bytes, char type = 0x08) {
  std::string out{0, 0, type, static_cast<char>(sizes.size())};
  for (const uint8_t size : sizes) out += std::string(3, '\0') + static_cast<char>(size);
  return out + bytes;
}

TEST_F(ReadersTest, ImagesAndTheirLabels) {
  const std::string images = IdxFile({3, 1, 2}, std::string("\0\xff\x33\0\0\0", 6));
  dir_.Write("t-labels-idx1-ubyte", IdxFile({3}, std::string("\x07\0\x07", 3)));
  dir_.Write("other.labels", IdxFile({3}, std::string("\0\x01\0", 3)));
  for (const std::string& packed : {images, Gzip(images), Xz(images)}) {
    const Dataset d = Read("t-images-idx3-ubyte", packed).value();
    EXPECT_EQ(d.x.cols, 2);
    EXPECT_THAT(d.x.row_start, ElementsAre(0, 1, 2, 2));
    EXPECT_THAT(d.x.value, ElementsAre(1.0, 0.2));
    EXPECT_THAT(d.x.column, ElementsAre(1, 0));
    EXPECT_THAT(d.classes, ElementsAre("0", "7"));
    EXPECT_THAT(d.label, ElementsAre(1, 0, 1));
  }
  ReadOptions other;
  other.labels_file = "other.labels";
  EXPECT_THAT(Read("t-images-idx3-ubyte", images, other)->label, ElementsAre(0, 1, 0));
  other.format = Format::kIdx;
  EXPECT_THAT(Read("pixels", images, other)->label, ElementsAre(0, 1, 0));
}

TEST_F(ReadersTest, ErrorsOfImagesSayWhat) {
  const std::string good = IdxFile({2, 1, 2}, "abcd");
  const std::string name = "t-images-idx3-ubyte";
  EXPECT_THAT(Error(name, good), HasSubstr("there is no data set \"t-labels-idx1-ubyte\""));
  dir_.Write("t-labels-idx1-ubyte", IdxFile({2}, "\x01\x02"));
  EXPECT_THAT(Error(name, good), HasSubstr("no error"));
  EXPECT_THAT(Error(name, ""), HasSubstr("is empty"));
  EXPECT_THAT(Error(name, "1,2,3\n4,5,6\n"), HasSubstr("is no IDX file: it begins with the bytes 31 2c"));
  EXPECT_THAT(Error(name, IdxFile({2, 1, 2}, "abcd", 0x0d)), HasSubstr("type 0x0d; only unsigned bytes"));
  EXPECT_THAT(Error(name, IdxFile({2}, "ab")), HasSubstr("has 1 dimensions, not 3"));
  EXPECT_THAT(Error(name, good + "e"), HasSubstr("is longer than the 20 bytes that its header tells of"));
  for (size_t length = 1; length < good.size(); ++length) {
    const absl::Status status = Read(name, good.substr(0, length)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << length;
  }
  EXPECT_THAT(Error(name, IdxFile({0, 1, 2}, "")), HasSubstr("has no images"));
  EXPECT_THAT(Error(name, IdxFile({3, 1, 2}, "abcdef")), HasSubstr("has 2 labels, but t-images-idx3-ubyte has 3"));
  std::string huge = IdxFile({2, 1, 2}, "abcd");
  for (size_t k = 4; k < 16; ++k) huge[k] = '\x7f';
  EXPECT_THAT(Error(name, huge), HasSubstr("claims to hold more than"));
  ReadOptions idx;
  idx.format = Format::kIdx;
  EXPECT_THAT(Error("pixels", good, idx), HasSubstr("where are its labels?"));
}

TEST_F(ReadersTest, TruncatedTextIsFoundAtEveryLength) {
  // What is left of a table that was cut off in a line is an error or a smaller table, never another one.
  const std::string text = "a,b,y\n1,2,0\n3,4,1\n5,6,0\n";
  const Dataset whole = Read("cut.csv", text).value();
  for (size_t length = 0; length < text.size(); ++length) {
    const absl::StatusOr<Dataset> cut = Read("cut.csv", text.substr(0, length));
    if (!cut.ok()) continue;
    ASSERT_LE(cut->x.rows, whole.x.rows);
    for (size_t e = 0; e < cut->x.value.size(); ++e) EXPECT_EQ(cut->x.value[e], whole.x.value[e]) << length;
  }
}

// Gives a byte at a time, and asks to stop with byte number `at`.
class StoppingSource final : public ByteSource {
 public:
  StoppingSource(std::string bytes, size_t at, base::StopSource stop)
      : bytes_(std::move(bytes)), at_(at), stop_(std::move(stop)) {}
  absl::StatusOr<bool> Append(std::string* out) override {
    if (given_ == at_) stop_.RequestStop();
    if (given_ == bytes_.size()) return false;
    *out += bytes_[given_++];
    return true;
  }
  size_t given() const { return given_; }

 private:
  const std::string bytes_;
  const size_t at_;
  const base::StopSource stop_;
  size_t given_ = 0;
};

TEST_F(ReadersTest, ReadingOfImagesEndsAtAStop) {
  std::string images("\0\0\x08\x03\0\0\0\x05\0\0\0\x02\0\0\0\x02", 16);
  images += std::string(20, '\x07');
  for (const size_t at : {0u, 3u, 16u, 25u, 35u}) {
    const base::StopSource stop;
    StoppingSource source(images, at, stop);
    const absl::StatusOr<RawRows> rows = ReadIdx(source, "a.idx", nullptr, "", stop.token());
    EXPECT_EQ(rows.status().code(), absl::StatusCode::kCancelled) << at;
    EXPECT_LE(source.given(), at + 1);
  }
  const base::StopSource stop;
  StoppingSource source(images, images.size() + 1, stop);
  EXPECT_EQ(ReadIdx(source, "a.idx", nullptr, "", stop.token())->x.rows, 5);
}

}  // namespace
}  // namespace luthier::data
