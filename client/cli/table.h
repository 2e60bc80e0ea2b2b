#ifndef LUTHIER_CLIENT_CLI_TABLE_H_
#define LUTHIER_CLIENT_CLI_TABLE_H_

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "lib/study/parameters.h"

namespace luthier::cli {

// A cell has two faces: short for the eye, exact for programs.
struct Cell {
  std::string shown;
  std::string exact;
  bool number = false;  // To the right, and exempt from the guard of CSV text.

  static Cell Text(absl::string_view text) { return {std::string(text), std::string(text), false}; }
  static Cell Integer(int64_t value) { return {std::to_string(value), std::to_string(value), true}; }
  // Six digits for the eye.
  static Cell Number(double value);
  static Cell Value(const study::ParameterValue& value);
  static Cell Empty() { return {}; }
};

class Table {
 public:
  explicit Table(std::vector<std::string> columns) : columns_(std::move(columns)) {}
  // As many cells as columns.
  void Add(std::vector<Cell> row);
  bool empty() const { return rows_.empty(); }

  // Aligned columns under their names. Control characters are escaped: text of others must not steer a terminal.
  void PrintAligned(std::ostream& out) const;
  // RFC 4180 with \n; text beginning with = + - @, tab or CR gets a leading ', or a spreadsheet would run it.
  void PrintCsv(std::ostream& out) const;
  // Without the line of column names.
  void PrintCsvRows(std::ostream& out) const;

 private:
  std::vector<std::string> columns_;
  std::vector<std::vector<Cell>> rows_;
};

// Six significant digits.
std::string ShortNumber(double value);
// Control characters as \xNN.
std::string Printable(absl::string_view text);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_TABLE_H_
