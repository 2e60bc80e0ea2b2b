#ifndef LUTHIER_CLIENT_CLI_TABLE_H_
#define LUTHIER_CLIENT_CLI_TABLE_H_

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "lib/base/printable.h"
#include "lib/study/parameters.h"

namespace luthier::cli {

// Appearance of a cell in a terminal that has colours.
enum class Tone { kPlain, kTitle, kGood, kBad, kBusy, kFaint };

// A cell has two texts: a short one for people, an exact one for programs.
struct Cell {
  std::string shown;
  std::string exact;
  bool number = false;  // Aligned to the right, and not marked as text in CSV.
  Tone tone = Tone::kPlain;

  static Cell Text(absl::string_view text) { return {std::string(text), std::string(text), false}; }
  static Cell Integer(int64_t value) { return {std::to_string(value), std::to_string(value), true}; }
  // Makes a cell that people see with six digits.
  static Cell Number(double value);
  static Cell Value(const study::ParameterValue& value);
  static Cell Empty() { return {}; }
  // Makes a cell with the state of a study or a trial, in the tone that says whether that is good.
  static Cell State(absl::string_view name);
};

// A column, and when people do not see it. CSV always has all columns.
struct Column {
  Column(const char* title) : name(title) {}             // NOLINT(google-explicit-constructor)
  Column(std::string title) : name(std::move(title)) {}  // NOLINT(google-explicit-constructor)
  Column(std::string title, int column_rank) : name(std::move(title)), rank(column_rank) {}

  std::string name;
  // 0: always shown. In too narrow a terminal the column of the largest rank is left out first, of equal ones the last.
  int rank = 0;
  bool internal = false;   // Shown only if internals are asked for.
  bool if_filled = false;  // Shown only if some cell has text.
};

// The columns of a table that are shown, and their widths.
struct TableShape {
  std::vector<size_t> columns;        // Indices of the table's columns.
  std::vector<size_t> widths;         // A width for each of `columns`.
  std::vector<bool> right;            // True for columns of numbers.
  std::vector<std::string> left_out;  // The names of columns for which there was no room.
};

// The width that a table may have, and the columns that are wanted.
struct TableRoom {
  size_t width = 0;         // Columns of the terminal; 0: no limit.
  bool internals = false;   // True shows internal columns.
  bool keep_empty = false;  // True shows columns that are shown only if filled: rows will follow.
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // Adds a row with as many cells as columns. `name` is that of the resource that the row is about, if there is one.
  void Add(std::vector<Cell> row, absl::string_view name = "");
  bool empty() const { return rows_.empty(); }

  // Returns the shape in which the table fits into `room`. First texts of several words are given several lines, then
  // columns that have a rank are left out. If it is still too wide, it stays so: words and numbers are never broken.
  TableShape Fit(const TableRoom& room) const;

  // Prints aligned columns under their names. Control characters are escaped: texts of others must not control a
  // terminal.
  void PrintAligned(std::ostream& out) const;
  // Prints in a shape; `colour`: with the escape sequences of a terminal.
  void PrintAligned(std::ostream& out, const TableShape& shape, bool colour) const;
  // Prints rows without the line of column names.
  void PrintAlignedRows(std::ostream& out, const TableShape& shape, bool colour) const;
  // Prints CSV, RFC 4180 with \n. Text beginning with = + - @, tab or CR gets a leading ', or a spreadsheet would run
  // it.
  void PrintCsv(std::ostream& out) const;
  // Prints rows without the line of column names.
  void PrintCsvRows(std::ostream& out) const;
  // Prints the names of the rows' resources, one a line; for a row without one its first cell.
  void PrintNames(std::ostream& out) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
  std::vector<std::string> names_;
};

// Returns the value with six significant digits.
std::string ShortNumber(double value);
using base::Printable;
// Returns `text` with the escape sequences of `tone` around it.
std::string Painted(absl::string_view text, Tone tone);
// Returns the columns of a terminal that `text` takes: none for combining marks, two for wide characters.
size_t ShownWidth(absl::string_view text);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_TABLE_H_
