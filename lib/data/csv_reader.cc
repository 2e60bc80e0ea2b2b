#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/error.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/data/growth.h"
#include "lib/data/nearest_column.h"
#include "lib/data/number_words.h"
#include "lib/data/readers.h"
#include "lib/notation/number.h"

namespace luthier::data {
namespace {

constexpr int64_t kFieldWork = 128;  // Operations of splitting or parsing a field, for Pace.

struct Field {
  std::string text;
  size_t column;  // Column of the field's first byte in the record, from 1.
};

struct Record {
  int64_t line = 0;  // Number of the record's first line.
  std::vector<Field> fields;
};

absl::Status At(const LineReader& lines, int64_t line, size_t column, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(lines.name(), ":", line, ":", column, ": ", what));
}

// Returns true if the line consists of numbers with decimal commas, `delimiter` between them.
bool IsInDecimalCommas(absl::string_view line, char delimiter) {
  size_t fields = 0, commas = 0;
  for (const absl::string_view field : absl::StrSplit(line, delimiter)) {
    const absl::string_view text = absl::StripAsciiWhitespace(field);
    double value = 0.0;
    ++fields;
    if (HasDecimalComma(text)) {
      ++commas;
    } else if (!notation::ParseNumber(text, &value)) {
      return false;
    }
  }
  return fields > 1 && commas > 0;
}

char GuessDelimiter(absl::string_view line) {
  for (const char candidate : {';', '\t'}) {
    if (IsInDecimalCommas(line, candidate)) return candidate;
  }
  size_t best = 0;
  char delimiter = ',';
  for (const char candidate : {',', ';', '\t'}) {
    size_t count = 0;
    bool quoted = false;
    for (const char c : line) {
      if (c == '"') quoted = !quoted;
      count += !quoted && c == candidate ? 1 : 0;
    }
    if (count > best) {
      best = count;
      delimiter = candidate;
    }
  }
  return delimiter;
}

// Splits records; a quoted field may hold delimiters, doubled quotes and line ends.
class CsvRecords {
 public:
  explicit CsvRecords(LineReader& lines) : lines_(lines), pace_(lines.limits().stop) {}

  char delimiter() const { return delimiter_; }
  // Returns false at the end. Blank lines between records are skipped.
  absl::StatusOr<bool> Next(Record* record) {
    std::string text;
    do {
      LUTHIER_ASSIGN_OR_RETURN(const std::optional<absl::string_view> line, lines_.Next());
      if (!line) return false;
      text = std::string(*line);
    } while (absl::StripAsciiWhitespace(text).empty());
    record->line = lines_.line_number();
    record->fields.clear();
    if (delimiter_ == 0) delimiter_ = GuessDelimiter(text);
    size_t at = 0;
    while (true) {
      LUTHIER_RETURN_IF_ERROR(pace_.Poll(kFieldWork));
      Field field;
      while (at < text.size() && (text[at] == ' ' || (text[at] == '\t' && delimiter_ != '\t'))) ++at;
      field.column = at + 1;
      if (at < text.size() && text[at] == '"') {
        LUTHIER_RETURN_IF_ERROR(Quoted(record->line, &text, &at, &field));
      } else {
        const size_t end = std::min(text.find(delimiter_, at), text.size());
        field.text = std::string(absl::StripTrailingAsciiWhitespace(text.substr(at, end - at)));
        at = end;
      }
      record->fields.push_back(std::move(field));
      if (at >= text.size()) return true;
      ++at;  // The delimiter.
      if (record->fields.size() > static_cast<size_t>(kMaxColumns)) {
        return At(lines_, record->line, at, absl::StrCat("the row has more than ", kMaxColumns, " fields"));
      }
    }
  }

 private:
  // text[*at] is the opening quote; afterwards *at is at the delimiter or the end.
  absl::Status Quoted(int64_t line, std::string* text, size_t* at, Field* field) {
    ++*at;
    size_t searched = *at;
    while (true) {
      const size_t quote = text->find('"', searched);
      if (quote == std::string::npos) {
        searched = text->size();
        LUTHIER_ASSIGN_OR_RETURN(const std::optional<absl::string_view> more, lines_.Next());
        if (!more) return At(lines_, line, field->column, "the quote is never closed");
        absl::StrAppend(text, "\n", *more);
        if (static_cast<int64_t>(text->size()) > lines_.limits().max_line_bytes) {
          return At(lines_, line, field->column,
                    absl::StrCat("the quoted field is longer than ", lines_.limits().max_line_bytes,
                                 " bytes; is a quote missing?"));
        }
        continue;
      }
      field->text.append(*text, *at, quote - *at);
      *at = quote + 1;
      if (*at < text->size() && (*text)[*at] == '"') {
        field->text.push_back('"');
        searched = ++*at;
        continue;
      }
      while (*at < text->size() && (*text)[*at] != delimiter_ && absl::ascii_isspace((*text)[*at])) ++*at;
      if (*at < text->size() && (*text)[*at] != delimiter_) {
        return At(lines_, line, *at + 1, "there is text after the closing quote; write \"\" for a quote inside");
      }
      return absl::OkStatus();
    }
  }

  LineReader& lines_;
  base::Pace pace_;
  char delimiter_ = 0;  // 0: no record was read.
};

bool IsUnnamed(absl::string_view name) {
  return name.empty() || name == "Unnamed: 0";
}

bool Missing(const std::string& text) {
  const std::string lower = absl::AsciiStrToLower(text);
  return lower.empty() || lower == "?" || lower == "na" || lower == "n/a" || lower == "null" || lower == "none";
}

// Messages have places, not contents: they go to the coordinator, and to all who may see the study.
absl::StatusOr<double> ParseFeature(const LineReader& lines, const Record& record, size_t field) {
  const Field& f = record.fields[field];
  double value = 0.0;
  const bool number = notation::ParseNumber(f.text, &value);
  if (number && std::isfinite(value)) return value;
  const char* const what = number            ? "is not finite; remove or impute it"
                           : Missing(f.text) ? "is missing; remove or impute it"
                                             : WhyNoNumber(f.text);
  return At(lines, record.line, f.column, absl::StrCat("column ", field + 1, " ", what));
}

// Finds out whether the first column numbers the rows: pandas writes its index so, without a name, and read again it is
// "Unnamed: 0". Rows may have been shuffled, or some left out.
class RowNumbers {
 public:
  explicit RowNumbers(bool unnamed) : possible_(unnamed) {}

  absl::Status Add(double value, const base::StopToken& stop) {
    possible_ = possible_ && value >= 0.0 && value == std::floor(value) && value < 1e15;
    if (!possible_) return absl::OkStatus();
    LUTHIER_RETURN_IF_ERROR(base::MakeRoom(1, stop, &seen_));
    seen_.push_back(value);
    return absl::OkStatus();
  }
  // Returns true if all rows have whole numbers there, and no two the same one. A few rows may have such numbers by
  // chance.
  bool Found() {
    constexpr size_t kFewest = 8;
    if (!possible_ || seen_.size() < kFewest) return false;
    std::sort(seen_.begin(), seen_.end());
    return std::adjacent_find(seen_.begin(), seen_.end()) == seen_.end();
  }

 private:
  bool possible_;
  std::vector<double> seen_;
};

// The meaning of each field of a row.
struct Layout {
  static constexpr int64_t kIgnored = -1;
  std::vector<int64_t> feature;  // Column of the matrix, or kIgnored.
  size_t label = 0;              // Index of a field, or kNoLabel.
  static constexpr size_t kNoLabel = SIZE_MAX;
  size_t key = kNoLabel;  // Index of a field, or kNoLabel.
};

// Returns true if the first record names the columns.
bool HasHeader(const Record& first, const ReadOptions& options, const WantedColumns* wanted) {
  if (options.header != Header::kAuto) return options.header == Header::kYes;
  if (!options.label.empty() || !options.key_column.empty()) return true;
  if (wanted != nullptr && !wanted->features.empty()) {
    // If columns are called by numbers, a row of data may hold some of their names; hardly all of them.
    std::set<std::string> missing(wanted->features.begin(), wanted->features.end());
    bool named = false;
    for (const Field& field : first.fields) {
      double value = 0.0;
      named = (missing.erase(field.text) > 0 && !notation::ParseNumber(field.text, &value)) || named;
    }
    if (named || missing.empty()) return true;
  }
  for (size_t k = 0; k + 1 < first.fields.size(); ++k) {
    double value = 0.0;
    if (!Missing(first.fields[k].text) && !notation::ParseNumber(first.fields[k].text, &value)) return true;
  }
  return false;
}

absl::StatusOr<Layout> LayoutByName(const LineReader& lines, const Record& header, const ReadOptions& options,
                                    const WantedColumns& wanted, RawRows* out) {
  Layout layout;
  layout.label = Layout::kNoLabel;
  layout.feature.assign(header.fields.size(), Layout::kIgnored);
  std::vector<std::string> missing = wanted.features;
  const std::string& label = options.label.empty() ? wanted.label : options.label;
  for (size_t k = 0; k < header.fields.size(); ++k) {
    const std::string& name = header.fields[k].text;
    const auto found = std::find(wanted.features.begin(), wanted.features.end(), name);
    if (found != wanted.features.end()) {
      layout.feature[k] = found - wanted.features.begin();
      std::erase(missing, name);
    } else if (name == label) {
      layout.label = k;
      out->label_name = name;
    } else {
      out->ignored.push_back(name);
    }
  }
  if (!missing.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        lines.name(), ":", header.line, ": lacks ", missing.size() == 1 ? "column " : "columns ",
        base::Quote(missing[0]), missing.size() > 1 ? absl::StrCat(" and ", missing.size() - 1, " more") : "",
        ", which the model was trained on", base::DidYouMean(missing[0], out->ignored)));
  }
  return layout;
}

absl::StatusOr<Layout> LayoutByPosition(const LineReader& lines, const Record& first, const WantedColumns& wanted) {
  Layout layout;
  const auto width = static_cast<int64_t>(first.fields.size());
  if (width != wanted.cols && width != int64_t{wanted.cols} + 1) {
    return absl::InvalidArgumentError(absl::StrCat(lines.name(), ":", first.line, ": has ", width,
                                                   " fields; the model takes ", wanted.cols,
                                                   " features, and a label behind them if there is one"));
  }
  for (int64_t k = 0; k < width; ++k) layout.feature.push_back(k < wanted.cols ? k : Layout::kIgnored);
  layout.label = width > wanted.cols ? static_cast<size_t>(width) - 1 : Layout::kNoLabel;
  return layout;
}

// Returns the names of all fields, of which no two are alike and none is missing that the options name.
absl::StatusOr<std::vector<std::string>> ReadNames(const LineReader& lines, const Record& header,
                                                   const ReadOptions& options, const WantedColumns* wanted) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const Field& f : header.fields) {
    if (!seen.insert(f.text).second) {
      return At(lines, header.line, f.column, absl::StrCat("the name of column ", names.size() + 1, " is there twice"));
    }
    names.push_back(f.text);
  }
  for (const std::string& name : {options.label, wanted == nullptr ? options.key_column : std::string()}) {
    if (!name.empty() && !seen.contains(name)) {
      return absl::InvalidArgumentError(absl::StrCat(lines.name(), ":", header.line, ": there is no column ",
                                                     base::Quote(name), NearestColumn(name, names)));
    }
  }
  return names;
}

// Returns the layout of rows to train on. `names` is empty without a header.
absl::StatusOr<Layout> LayoutToTrainOn(const LineReader& lines, const Record& first, const ReadOptions& options,
                                       const std::vector<std::string>& names, RawRows* out) {
  Layout layout;
  const size_t width = first.fields.size();
  const auto field = [&](const std::string& name) {
    return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  };
  layout.label = options.label.empty() ? width - 1 : field(options.label);
  if (!options.key_column.empty()) {
    layout.key = field(options.key_column);
    if (layout.key == layout.label) {
      return absl::InvalidArgumentError(absl::StrCat(lines.name(), ": column ", base::Quote(options.key_column),
                                                     " is the label; name another one, or set label"));
    }
  }
  for (size_t k = 0; k < width; ++k) {
    const bool feature = k != layout.label && k != layout.key;
    layout.feature.push_back(feature ? int64_t{out->x.cols++} : Layout::kIgnored);
    if (!names.empty() && feature) out->features.push_back(names[k]);
  }
  if (!names.empty()) out->label_name = names[layout.label];
  if (out->x.cols == 0) return At(lines, first.line, 1, "there is no column left that is a feature");
  return layout;
}

// Adds the key and the label of a row. A label may be missing where the model is there already.
absl::Status AddKeyAndLabel(const LineReader& lines, const Record& record, const Layout& layout,
                            const ReadOptions& options, bool may_lack_label, RawRows* out) {
  const base::StopToken& stop = lines.limits().stop;
  if (layout.key != Layout::kNoLabel) {
    const Field& f = record.fields[layout.key];
    if (Missing(f.text)) {
      return At(lines, record.line, f.column, absl::StrCat("column ", base::Quote(options.key_column), " is missing"));
    }
    LUTHIER_RETURN_IF_ERROR(base::MakeRoom(1, stop, &out->key));
    out->key.push_back(f.text);
  }
  if (layout.label == Layout::kNoLabel) return absl::OkStatus();
  const Field& f = record.fields[layout.label];
  if (Missing(f.text) && !may_lack_label) return At(lines, record.line, f.column, "the label is missing");
  double number = 0.0;
  if (notation::ParseNumber(f.text, &number) && !std::isfinite(number)) {
    return At(lines, record.line, f.column, "the label is not finite");
  }
  LUTHIER_RETURN_IF_ERROR(base::MakeRoom(1, stop, &out->label));
  out->label.push_back(f.text);
  return absl::OkStatus();
}

// Returns the layout of all rows by the first record, which `names` repeats if it is a header.
absl::StatusOr<Layout> LayoutOf(const LineReader& lines, const Record& first, const std::vector<std::string>& names,
                                const ReadOptions& options, const WantedColumns* wanted, RawRows* out) {
  if (wanted == nullptr) return LayoutToTrainOn(lines, first, options, names, out);
  out->features = wanted->features;
  out->x.cols = wanted->cols;
  if (!names.empty() && !wanted->features.empty()) return LayoutByName(lines, first, options, *wanted, out);
  return LayoutByPosition(lines, first, *wanted);
}

}  // namespace

absl::StatusOr<RawRows> ReadCsv(LineReader& lines, const ReadOptions& options, const WantedColumns* wanted) {
  RawRows out;
  out.name = lines.name();
  CsvRecords records(lines);
  Record record;
  LUTHIER_ASSIGN_OR_RETURN(bool more, records.Next(&record));
  if (!more) return absl::InvalidArgumentError(absl::StrCat(lines.name(), ": is empty"));
  const size_t width = record.fields.size();
  if (width < 2 && wanted == nullptr) {
    return At(lines, record.line, 1,
              "there is one field only; a label and at least one feature are needed, separated by , ; or tab");
  }
  for (const std::string& name : {options.label, options.key_column}) {
    if (!name.empty() && options.header == Header::kNo) {
      return absl::InvalidArgumentError(
          absl::StrCat(lines.name(), ": column ", base::Quote(name), " needs a header, but header is \"no\""));
    }
  }
  const bool header = HasHeader(record, options, wanted);
  std::vector<std::string> names;  // Names of all fields.
  if (header) {
    LUTHIER_ASSIGN_OR_RETURN(names, ReadNames(lines, record, options, wanted));
  }
  LUTHIER_ASSIGN_OR_RETURN(const Layout layout, LayoutOf(lines, record, names, options, wanted, &out));
  if (header) {
    LUTHIER_ASSIGN_OR_RETURN(more, records.Next(&record));
  }
  // Fields in the order of their columns: entries of a row ascend.
  std::vector<size_t> order;
  for (size_t k = 0; k < width; ++k) {
    if (layout.feature[k] != Layout::kIgnored) order.push_back(k);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return layout.feature[a] < layout.feature[b]; });
  const base::StopToken& stop = lines.limits().stop;
  base::Pace pace(stop);
  const bool unnamed = wanted == nullptr && header && layout.feature[0] == 0 && IsUnnamed(names[0]);
  RowNumbers row_numbers(unnamed);
  while (more) {
    if (record.fields.size() != width) {
      const bool commas = record.fields.size() > width && records.delimiter() == ',';
      return absl::InvalidArgumentError(absl::StrCat(
          lines.name(), ":", record.line, ": the row has ", record.fields.size(), " fields; the first one has ", width,
          commas ? "; export numbers with a decimal point, and put texts with commas in quotes" : ""));
    }
    LUTHIER_RETURN_IF_ERROR(GrowBy(width, stop, &out.x.column));
    LUTHIER_RETURN_IF_ERROR(GrowBy(width, stop, &out.x.value));
    LUTHIER_RETURN_IF_ERROR(GrowBy(1, stop, &out.x.row_start));
    for (const size_t k : order) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(kFieldWork));
      const auto feature = static_cast<size_t>(layout.feature[k]);
      LUTHIER_ASSIGN_OR_RETURN(const double value, ParseFeature(lines, record, k));
      if (unnamed && k == 0) LUTHIER_RETURN_IF_ERROR(row_numbers.Add(value, stop));
      if (value == 0.0) continue;
      out.x.column.push_back(static_cast<int32_t>(feature));
      out.x.value.push_back(value);
    }
    LUTHIER_RETURN_IF_ERROR(AddKeyAndLabel(lines, record, layout, options, wanted != nullptr, &out));
    out.x.row_start.push_back(out.x.nonzeros());
    if (static_cast<int64_t>(out.x.row_start.size()) > kMaxRows) {
      return absl::InvalidArgumentError(absl::StrCat(lines.name(), ": has more than ", kMaxRows - 1, " rows"));
    }
    LUTHIER_ASSIGN_OR_RETURN(more, records.Next(&record));
  }
  if (row_numbers.Found()) {
    return absl::InvalidArgumentError(
        absl::StrCat(lines.name(),
                     ": the first column has no name and numbers the rows, as an index of pandas does; write "
                     "the file without it, to_csv(index=False), or give it a name if it is a feature"));
  }
  out.x.rows = static_cast<int64_t>(out.x.row_start.size()) - 1;
  return out;
}

}  // namespace luthier::data
