#include "client/cli/table.h"

#include <algorithm>
#include <ostream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "lib/base/check.h"

namespace luthier::cli {
namespace {

// Characters, not bytes; wide ones count one.
size_t Width(absl::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// What a spreadsheet would take for a formula. A number is none, also where it is a name, such as that of the class -1.
bool LooksLikeFormula(const std::string& text) {
  if (text.empty() || !absl::StrContains("=+-@\t\r", text.substr(0, 1))) return false;
  double number = 0.0;
  return text.find_first_not_of("0123456789.eE+-") != std::string::npos || !absl::SimpleAtod(text, &number);
}

std::string CsvCell(const Cell& cell) {
  std::string text = cell.exact;
  if (!cell.number && LooksLikeFormula(text)) text = absl::StrCat("'", text);
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

}  // namespace

std::string ShortNumber(double value) {
  return absl::StrFormat("%.6g", value);
}

Cell Cell::Number(double value) {
  return {ShortNumber(value), study::FormatDouble(value), true};
}

Cell Cell::Value(const study::ParameterValue& value) {
  if (const double* number = std::get_if<double>(&value)) return Number(*number);
  return Text(study::FormatValue(value));
}

std::string Printable(absl::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    // C1 controls are two bytes in UTF-8, and terminals obey some of them.
    const bool c1 = c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c < 0x20 || c == 0x7F || c1) {
      absl::StrAppendFormat(&out, "\\x%02x", c1 ? static_cast<unsigned char>(text[++i]) : c);
    } else {
      out += text[i];
    }
  }
  return out;
}

void Table::Add(std::vector<Cell> row) {
  LUTHIER_CHECK(row.size() == columns_.size());
  for (Cell& cell : row) cell.shown = Printable(cell.shown);
  rows_.push_back(std::move(row));
}

void Table::PrintAligned(std::ostream& out) const {
  std::vector<size_t> widths;
  std::vector<bool> right;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t width = Width(columns_[c]);
    bool numbers = !rows_.empty();
    for (const std::vector<Cell>& row : rows_) {
      width = std::max(width, Width(row[c].shown));
      numbers = numbers && (row[c].number || row[c].shown.empty());
    }
    widths.push_back(width);
    right.push_back(numbers);
  }
  const auto line = [&](const auto& text_of) {
    std::string text;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const std::string cell = text_of(c);
      const std::string pad(widths[c] - Width(cell), ' ');
      text += c == 0 ? "" : "  ";
      text += right[c] ? pad + cell : cell + pad;
    }
    out << absl::StripTrailingAsciiWhitespace(text) << "\n";
  };
  line([&](size_t c) { return columns_[c]; });
  for (const std::vector<Cell>& row : rows_) line([&](size_t c) { return row[c].shown; });
}

void Table::PrintCsv(std::ostream& out) const {
  for (size_t c = 0; c < columns_.size(); ++c) out << (c == 0 ? "" : ",") << CsvCell(Cell::Text(columns_[c]));
  out << "\n";
  PrintCsvRows(out);
}

void Table::PrintCsvRows(std::ostream& out) const {
  for (const std::vector<Cell>& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) out << (c == 0 ? "" : ",") << CsvCell(row[c]);
    out << "\n";
  }
}

}  // namespace luthier::cli
