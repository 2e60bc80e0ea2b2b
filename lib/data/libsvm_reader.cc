#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/data/growth.h"
#include "lib/data/number_words.h"
#include "lib/data/readers.h"
#include "lib/notation/number.h"

namespace luthier::data {
namespace {

constexpr int64_t kWordWork = 64;  // Operations of parsing an entry, for Pace.

bool Blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

// Returns the next word from *at on, or "" at the end. *at moves past it; *column is where it begins, from 1.
absl::string_view NextWord(absl::string_view line, size_t* at, size_t* column) {
  while (*at < line.size() && Blank(line[*at])) ++*at;
  const size_t begin = *at;
  while (*at < line.size() && !Blank(line[*at])) ++*at;
  *column = begin + 1;
  return line.substr(begin, *at - begin);
}

absl::Status At(const LineReader& lines, size_t column, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(lines.name(), ":", lines.line_number(), ":", column, ": ", what));
}

using Entry = std::pair<int32_t, double>;

absl::StatusOr<Entry> ParseEntry(const LineReader& lines, absl::string_view word, size_t column) {
  const size_t colon = word.find(':');
  if (colon == absl::string_view::npos) {
    return At(lines, column, "what is here is not index:value");
  }
  const absl::string_view index_text = word.substr(0, colon);
  const absl::string_view value_text = word.substr(colon + 1);
  if (index_text == "qid") {
    return At(lines, column, "query ids (qid:) belong to ranking data; remove them to classify");
  }
  int64_t index = 0;
  if (index_text.empty() || Blank(index_text[0]) || !absl::SimpleAtoi(index_text, &index)) {
    return At(lines, column, "what is before the colon is not a feature index");
  }
  if (index < 1) return At(lines, column, "the feature index is below 1; indices count from 1");
  if (index > kMaxColumns) {
    return At(lines, column, absl::StrCat("the feature index is above ", kMaxColumns));
  }
  double value = 0.0;
  if (!notation::ParseNumber(value_text, &value)) {
    return At(lines, column + colon + 1,
              HasDecimalComma(value_text) ? "the value is written with a decimal comma; export with a point"
                                          : "the value is not a number");
  }
  if (!std::isfinite(value)) {
    return At(lines, column + colon + 1, "the value is not finite; remove or impute it");
  }
  return Entry(static_cast<int32_t>(index - 1), value);
}

// Sorts the entries of a row by index. Returns INVALID_ARGUMENT if an index is there twice.
absl::Status Sort(const LineReader& lines, std::vector<Entry>* row) {
  std::sort(row->begin(), row->end(), [](const Entry& a, const Entry& b) { return a.first < b.first; });
  for (size_t k = 1; k < row->size(); ++k) {
    if ((*row)[k].first != (*row)[k - 1].first) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(lines.name(), ":", lines.line_number(), ": a feature index is there twice"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RawRows> ReadLibsvm(LineReader& lines, const WantedColumns* wanted) {
  RawRows out;
  out.name = lines.name();
  std::vector<Entry> row;
  int64_t unlabelled = 0;
  const base::StopToken& stop = lines.limits().stop;
  base::Pace pace(stop);
  while (true) {
    LUTHIER_ASSIGN_OR_RETURN(const std::optional<absl::string_view> next, lines.Next());
    if (!next) break;
    absl::string_view line = *next;
    line = line.substr(0, line.find('#'));
    size_t at = 0;
    size_t column = 0;
    absl::string_view label = NextWord(line, &at, &column);
    if (label.empty()) continue;
    if (label.find(':') != absl::string_view::npos) {
      if (wanted == nullptr) {
        return At(lines, column, "the line begins with index:value instead of a label");
      }
      at = 0;
      label = "";
      ++unlabelled;
    }
    double number = 0.0;
    if (!label.empty() && (!notation::ParseNumber(label, &number) || !std::isfinite(number))) {
      return At(
          lines, column,
          absl::StrCat("the label is not a finite number",
                       label.find(',') == absl::string_view::npos ? "" : "; several labels a row are not supported"));
    }
    row.clear();
    bool sorted = true;
    while (true) {
      const absl::string_view word = NextWord(line, &at, &column);
      if (word.empty()) break;
      LUTHIER_RETURN_IF_ERROR(pace.Poll(kWordWork));
      LUTHIER_ASSIGN_OR_RETURN(const Entry entry, ParseEntry(lines, word, column));
      sorted = sorted && (row.empty() || row.back().first < entry.first);
      row.push_back(entry);
    }
    if (!sorted) LUTHIER_RETURN_IF_ERROR(Sort(lines, &row));
    LUTHIER_RETURN_IF_ERROR(GrowBy(row.size(), stop, &out.x.column));
    LUTHIER_RETURN_IF_ERROR(GrowBy(row.size(), stop, &out.x.value));
    LUTHIER_RETURN_IF_ERROR(GrowBy(1, stop, &out.x.row_start));
    LUTHIER_RETURN_IF_ERROR(base::MakeRoom(1, stop, &out.label));
    for (const auto& [index, value] : row) {
      if (wanted != nullptr && index >= wanted->cols) {
        ++out.beyond;
        continue;
      }
      out.x.cols = std::max(out.x.cols, index + 1);
      if (value == 0.0) continue;
      out.x.column.push_back(index);
      out.x.value.push_back(value);
    }
    out.x.row_start.push_back(out.x.nonzeros());
    out.label.emplace_back(label);
    if (static_cast<int64_t>(out.label.size()) >= kMaxRows) {
      return absl::InvalidArgumentError(absl::StrCat(lines.name(), ": has more than ", kMaxRows - 1, " rows"));
    }
  }
  out.x.rows = static_cast<int64_t>(out.label.size());
  out.open_columns = true;
  if (wanted != nullptr) {
    out.x.cols = wanted->cols;
    if (unlabelled > 0 && unlabelled < out.x.rows) {
      return absl::InvalidArgumentError(absl::StrCat(lines.name(), ": ", unlabelled, " of ", out.x.rows,
                                                     " rows have no label; give all of them one, or none"));
    }
    if (unlabelled > 0) out.label.clear();
  } else if (!out.label.empty() && out.x.cols == 0) {
    return absl::InvalidArgumentError(absl::StrCat(lines.name(), ": no row has a feature (index:value)"));
  }
  return out;
}

}  // namespace luthier::data
