#include "client/cli/table.h"

#include <algorithm>
#include <numeric>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/cli/csv.h"
#include "lib/base/check.h"

namespace luthier::cli {
namespace {

struct CodeRange {
  char32_t first, last;
};

template <size_t n>
bool IsIn(const CodeRange (&ranges)[n], char32_t code) {
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [&](const CodeRange& range) { return range.first <= code && code <= range.last; });
}

// Combining marks of the scripts in use, and characters that join or select forms.
constexpr CodeRange kNoColumns[] = {{0x300, 0x36F},   {0x483, 0x489},   {0x591, 0x5BD},   {0x610, 0x61A},
                                    {0x64B, 0x65F},   {0x93C, 0x93C},   {0x941, 0x948},   {0xE31, 0xE31},
                                    {0xE34, 0xE3A},   {0xE47, 0xE4E},   {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF},
                                    {0x200B, 0x200F}, {0x202A, 0x202E}, {0x2060, 0x206F}, {0x20D0, 0x20FF},
                                    {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}, {0xE0100, 0xE01EF}};
// East Asian wide and full-width characters, and emoji (Unicode's EastAsianWidth W and F).
constexpr CodeRange kTwoColumns[] = {
    {0x1100, 0x115F},   {0x231A, 0x231B},   {0x23E9, 0x23EC},   {0x2614, 0x2615},  {0x26A1, 0x26A1}, {0x2705, 0x2705},
    {0x274C, 0x274C},   {0x2E80, 0x303E},   {0x3041, 0x33FF},   {0x3400, 0x4DBF},  {0x4E00, 0x9FFF}, {0xA000, 0xA4CF},
    {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE4F},   {0xFF00, 0xFF60},  {0xFFE0, 0xFFE6}, {0x1F300, 0x1F64F},
    {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x1FA70, 0x1FAFF}, {0x20000, 0x3FFFD}};

const char* EscapeOf(Tone tone) {
  switch (tone) {
    case Tone::kPlain:
      break;
    case Tone::kTitle:
      return "\033[1m";
    case Tone::kGood:
      return "\033[32m";
    case Tone::kBad:
      return "\033[31m";
    case Tone::kBusy:
      return "\033[36m";
    case Tone::kFaint:
      return "\033[2m";
  }
  return "";
}

constexpr char kReset[] = "\033[0m";
constexpr size_t kGap = 2;
// No column of words becomes narrower than this.
constexpr size_t kLeastWords = 24;

// Returns the blanks before the first word of `text`, which are repeated before each further line of it.
std::string Indentation(absl::string_view text) {
  return std::string(text.substr(0, std::min(text.find_first_not_of(' '), text.size())));
}

// Returns `text` in lines of at most `width`, broken at spaces alone.
std::vector<std::string> Lines(const std::string& text, size_t width) {
  if (ShownWidth(text) <= width) return {text};
  const std::string indentation = Indentation(text);
  std::vector<std::string> lines;
  std::string line;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    const bool begins = line.empty();
    if (!begins && ShownWidth(line) + 1 + ShownWidth(word) > width) {
      lines.push_back(std::move(line));
      line.clear();
    }
    absl::StrAppend(&line, line.empty() ? indentation : " ", word);
  }
  lines.push_back(std::move(line));
  return lines;
}

// Returns the width below which a line of `text` would break a word.
size_t LeastWidth(const std::string& text) {
  size_t least = 0;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    least = std::max(least, ShownWidth(word));
  }
  return least + Indentation(text).size();
}

std::string CsvCell(const Cell& cell) {
  return CsvField(cell.number ? cell.exact : MarkedFormula(cell.exact));
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

Cell Cell::State(absl::string_view name) {
  Cell cell = Text(name);
  if (name == "COMPLETE" || name == "COMPLETED") cell.tone = Tone::kGood;
  if (name == "FAILED" || name == "CANCELLED") cell.tone = Tone::kBad;
  if (name == "RUNNING" || name == "ACTIVE") cell.tone = Tone::kBusy;
  if (name == "PRUNED" || name == "STOPPED" || name == "PENDING" || name == "PAUSED") cell.tone = Tone::kFaint;
  return cell;
}

std::string Painted(absl::string_view text, Tone tone) {
  const char* escape = EscapeOf(tone);
  return absl::StrCat(escape, text, *escape != '\0' ? kReset : "");
}

size_t ShownWidth(absl::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    const base::Utf8Character c = base::FirstCharacter(text);
    width += c.code < 0x300 ? 1 : IsIn(kNoColumns, c.code) ? 0 : IsIn(kTwoColumns, c.code) ? 2 : 1;
    text.remove_prefix(c.bytes);
  }
  return width;
}

void Table::Add(std::vector<Cell> row, absl::string_view name) {
  LUTHIER_CHECK(row.size() == columns_.size());
  for (Cell& cell : row) cell.shown = Printable(cell.shown);
  rows_.push_back(std::move(row));
  names_.emplace_back(name);
}

TableShape Table::Fit(const TableRoom& room) const {
  TableShape shape;
  std::vector<size_t> least;
  for (size_t c = 0; c < columns_.size(); ++c) {
    if (columns_[c].internal && !room.internals) continue;
    size_t width = ShownWidth(columns_[c].name);
    size_t words = width;
    bool numbers = !rows_.empty();
    bool filled = room.keep_empty || !columns_[c].if_filled;
    for (const std::vector<Cell>& row : rows_) {
      width = std::max(width, ShownWidth(row[c].shown));
      words = std::max(words, LeastWidth(row[c].shown));
      numbers = numbers && (row[c].number || row[c].shown.empty());
      filled = filled || !row[c].shown.empty();
    }
    if (!filled) continue;
    shape.columns.push_back(c);
    shape.widths.push_back(width);
    shape.right.push_back(numbers);
    least.push_back(std::min(width, std::max(words, kLeastWords)));
  }
  if (room.width == 0 || shape.columns.empty()) return shape;
  const auto total = [](const std::vector<size_t>& widths) {
    return std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1));
  };
  std::vector<size_t> dropped;
  while (total(least) > room.width) {
    size_t last = 0;
    for (size_t i = 0; i < shape.columns.size(); ++i) {
      if (columns_[shape.columns[i]].rank >= columns_[shape.columns[last]].rank) last = i;
    }
    if (columns_[shape.columns[last]].rank == 0) break;
    dropped.push_back(shape.columns[last]);
    const auto at = static_cast<std::ptrdiff_t>(last);
    shape.columns.erase(shape.columns.begin() + at);
    shape.widths.erase(shape.widths.begin() + at);
    shape.right.erase(shape.right.begin() + at);
    least.erase(least.begin() + at);
  }
  std::sort(dropped.begin(), dropped.end());
  for (const size_t c : dropped) shape.left_out.push_back(columns_[c].name);
  // The excess is taken from the widest column of words.
  for (size_t excess = total(shape.widths); excess > room.width; excess = total(shape.widths)) {
    size_t widest = shape.widths.size();
    for (size_t i = 0; i < shape.widths.size(); ++i) {
      if (shape.widths[i] == least[i]) continue;
      if (widest == shape.widths.size() || shape.widths[i] > shape.widths[widest]) widest = i;
    }
    if (widest == shape.widths.size()) break;
    const size_t rest = shape.widths[widest] - std::min(shape.widths[widest], excess - room.width);
    shape.widths[widest] = std::max(least[widest], rest);
  }
  return shape;
}

void Table::PrintAligned(std::ostream& out) const {
  PrintAligned(out, Fit({}), /*colour=*/false);
}

namespace {

// Prints cells side by side in the columns of `shape`.
void PrintLine(std::ostream& out, const TableShape& shape, const std::vector<Cell>& cells, bool colour) {
  std::vector<std::vector<std::string>> lines;
  size_t height = 1;
  for (size_t i = 0; i < cells.size(); ++i) {
    lines.push_back(Lines(cells[i].shown, shape.widths[i]));
    height = std::max(height, lines.back().size());
  }
  for (size_t k = 0; k < height; ++k) {
    std::string text;
    size_t owed = 0;  // Spaces that are printed only if more follows.
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string cell = k < lines[i].size() ? lines[i][k] : "";
      const size_t width = ShownWidth(cell);
      const size_t pad = shape.widths[i] - std::min(width, shape.widths[i]);
      if (!cell.empty()) {
        text.append(owed + (shape.right[i] ? pad : 0), ' ');
        owed = 0;
        text += colour ? Painted(cell, cells[i].tone) : cell;
      }
      owed += kGap + (cell.empty() ? shape.widths[i] : shape.right[i] ? 0 : pad);
    }
    out << text << "\n";
  }
}

}  // namespace

void Table::PrintAligned(std::ostream& out, const TableShape& shape, bool colour) const {
  std::vector<Cell> titles;
  for (const size_t c : shape.columns) {
    titles.push_back(Cell::Text(Printable(columns_[c].name)));
    titles.back().tone = Tone::kTitle;
  }
  PrintLine(out, shape, titles, colour);
  PrintAlignedRows(out, shape, colour);
}

void Table::PrintAlignedRows(std::ostream& out, const TableShape& shape, bool colour) const {
  for (const std::vector<Cell>& row : rows_) {
    std::vector<Cell> cells;
    for (const size_t c : shape.columns) cells.push_back(row[c]);
    PrintLine(out, shape, cells, colour);
  }
}

void Table::PrintCsv(std::ostream& out) const {
  for (size_t c = 0; c < columns_.size(); ++c) out << (c == 0 ? "" : ",") << CsvCell(Cell::Text(columns_[c].name));
  out << "\n";
  PrintCsvRows(out);
}

void Table::PrintCsvRows(std::ostream& out) const {
  for (const std::vector<Cell>& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) out << (c == 0 ? "" : ",") << CsvCell(row[c]);
    out << "\n";
  }
}

void Table::PrintNames(std::ostream& out) const {
  for (size_t i = 0; i < rows_.size(); ++i) out << (names_[i].empty() ? rows_[i][0].shown : names_[i]) << "\n";
}

}  // namespace luthier::cli
