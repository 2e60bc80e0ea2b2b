#include "client/cli/table.h"

#include <gtest/gtest.h>

#include <sstream>

namespace luthier::cli {
namespace {

std::string Aligned(const Table& table) {
  std::ostringstream out;
  table.PrintAligned(out);
  return out.str();
}

std::string Csv(const Table& table) {
  std::ostringstream out;
  table.PrintCsv(out);
  return out.str();
}

TEST(Table, AlignsTextLeftAndNumbersRight) {
  Table table({"id", "loss", "note"});
  table.Add({Cell::Text("é"), Cell::Number(0.1234567), Cell::Text("x")});
  table.Add({Cell::Text("longer"), Cell::Empty(), Cell::Empty()});
  table.Add({Cell::Text("b"), Cell::Integer(12), Cell::Text("y z")});
  EXPECT_EQ(Aligned(table),
            "id          loss  note\n"
            "é       0.123457  x\n"
            "longer\n"
            "b             12  y z\n");
}

TEST(Table, CsvKeepsEveryDigitAndQuotes) {
  Table table({"a", "b"});
  table.Add({Cell::Number(0.1 + 0.2), Cell::Text("say \"hi\", you")});
  table.Add({Cell::Number(-1e-300), Cell::Text("two\nlines")});
  EXPECT_EQ(Csv(table),
            "a,b\n"
            "0.30000000000000004,\"say \"\"hi\"\", you\"\n"
            "-1e-300,\"two\nlines\"\n");
}

TEST(Table, CsvTextIsNoFormula) {
  Table table({"=x"});
  for (const char* text : {"=1+1", "-1+1", "+a", "-", "-1", "+1.5e-3", "@a", "\ta", "\ra", "a=b", ""})
    table.Add({Cell::Text(text)});
  table.Add({Cell::Number(-1.5)});
  EXPECT_EQ(Csv(table), "'=x\n'=1+1\n'-1+1\n'+a\n'-\n-1\n+1.5e-3\n'@a\n'\ta\n\"'\ra\"\na=b\n\n-1.5\n");
}

TEST(Table, TextCannotSteerTheTerminal) {
  Table table({"a"});
  table.Add(
      {Cell::Text("\x1b[2J\n\x7f\xC2\x9B"
                  "31m é")});
  EXPECT_EQ(Aligned(table), "a\n\\x1b[2J\\x0a\\x7f\\x9b31m é\n");
}

}  // namespace
}  // namespace luthier::cli
