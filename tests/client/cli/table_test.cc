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

std::string Fitted(const Table& table, size_t width) {
  std::ostringstream out;
  const TableShape shape = table.Fit({width});
  table.PrintAligned(out, shape, /*colour=*/false);
  for (const std::string& name : shape.left_out) out << "-" << name;
  return out.str();
}

TEST(Table, NarrowRoomWrapsWordsThenLeavesOutRankedColumns) {
  Table table({"id", {"x", 2}, {"y", 2}, {"z", 1}, "what"});
  table.Add({Cell::Text("first"), Cell::Number(-1.5), Cell::Number(2), Cell::Number(3),
             Cell::Text("twelve words that go on for much longer than a line")});
  EXPECT_EQ(Fitted(table, 0), Aligned(table)) << "no limit";
  EXPECT_EQ(Fitted(table, 50),
            "id        x  y  z  what\n"
            "first  -1.5  2  3  twelve words that go on for\n"
            "                   much longer than a line\n");
  EXPECT_EQ(Fitted(table, 39),
            "id     z  what\n"
            "first  3  twelve words that go on for\n"
            "          much longer than a line\n-x-y");
  EXPECT_EQ(Fitted(table, 1),
            "id     what\n"
            "first  twelve words that go on\n"
            "       for much longer than a\n"
            "       line\n-x-y-z")
      << "words stay whole, and what has no rank stays";
}

TEST(Table, InternalAndEmptyColumnsAreForThoseWhoAsk) {
  std::vector<Column> columns = {"id", "worker", "note"};
  columns[1].internal = true;
  columns[2].if_filled = true;
  Table table(columns);
  table.Add({Cell::Text("a"), Cell::Text("w"), Cell::Empty()}, "things/a");
  EXPECT_EQ(Aligned(table), "id\na\n");
  std::ostringstream out;
  TableRoom room;
  room.internals = room.keep_empty = true;
  table.PrintAligned(out, table.Fit(room), /*colour=*/false);
  EXPECT_EQ(out.str(), "id  worker  note\na   w\n");
  EXPECT_EQ(Csv(table), "id,worker,note\na,w,\n");
  std::ostringstream names;
  table.PrintNames(names);
  EXPECT_EQ(names.str(), "things/a\n");
}

TEST(Table, WidthsAreThoseOfTerminals) {
  EXPECT_EQ(ShownWidth("abc"), 3u);
  EXPECT_EQ(ShownWidth("é"), 1u);
  EXPECT_EQ(ShownWidth("e\u0301"), 1u) << "a combining accent";
  EXPECT_EQ(ShownWidth("日本"), 4u);
  EXPECT_EQ(ShownWidth("😀"), 2u);
  EXPECT_EQ(ShownWidth("\xff\xfe"), 2u) << "no UTF-8";
}

TEST(Table, ColourIsAroundCellsAndTakesNoRoom) {
  Table table({"state", "n"});
  table.Add({Cell::State("FAILED"), Cell::Integer(1)});
  std::ostringstream out;
  table.PrintAligned(out, table.Fit({}), /*colour=*/true);
  EXPECT_EQ(out.str(), "\x1b[1mstate\x1b[0m   \x1b[1mn\x1b[0m\n\x1b[31mFAILED\x1b[0m  1\n");
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

TEST(Table, BytesThatAreNoUtf8AreShown) {
  EXPECT_EQ(Printable("a\xff\xc3(\xed\xa0\x80\xf0\x9f\x98\x80\xe2\x82"),
            "a\\xff\\xc3(\\xed\\xa0\\x80\xf0\x9f\x98\x80\\xe2\\x82");
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
