#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/learn/readers.h"

namespace luthier::learn {
namespace {

struct Field {
  std::string text;
  size_t column;  // Of its first byte in the record, from 1.
};

struct Record {
  int64_t line = 0;  // Of its first line.
  std::vector<Field> fields;
};

absl::Status At(const LineReader& lines, int64_t line, size_t column, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(lines.name(), ":", line, ":", column, ": ", what));
}

char GuessDelimiter(absl::string_view line) {
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
  explicit CsvRecords(LineReader& lines) : lines_(lines) {}

  // False at the end. Blank lines between records are skipped.
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
    while (true) {
      const size_t quote = text->find('"', *at);
      if (quote == std::string::npos) {
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
        ++*at;
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
  char delimiter_ = 0;
};

bool Missing(const std::string& text) {
  const std::string lower = absl::AsciiStrToLower(text);
  return lower.empty() || lower == "?" || lower == "na" || lower == "n/a" || lower == "null" || lower == "none";
}

std::string ColumnName(const Dataset& d, size_t feature, size_t field) {
  return d.features.empty() ? absl::StrCat(field + 1) : base::Quote(d.features[feature]);
}

absl::StatusOr<double> ParseFeature(const LineReader& lines, const Dataset& d, const Record& record, size_t field,
                                    size_t feature) {
  const Field& f = record.fields[field];
  double value = 0.0;
  const bool number = ParseNumber(f.text, &value);
  if (number && std::isfinite(value)) return value;
  const std::string column = ColumnName(d, feature, field);
  if (number) {
    return At(lines, record.line, f.column, absl::StrCat("column ", column, " is ", f.text, "; remove or impute it"));
  }
  if (Missing(f.text)) {
    return At(lines, record.line, f.column,
              absl::StrCat("column ", column, " is missing (", base::Quote(f.text), "); remove or impute it"));
  }
  return At(lines, record.line, f.column,
            absl::StrCat("column ", column, ": ", base::Quote(f.text),
                         " is not a number; encode categories as numbers first"));
}

}  // namespace

absl::StatusOr<Dataset> ReadCsv(LineReader& lines, const ReadOptions& options) {
  Dataset dataset;
  dataset.name = lines.name();
  CsvRecords records(lines);
  Record record;
  LUTHIER_ASSIGN_OR_RETURN(bool more, records.Next(&record));
  if (!more) return absl::InvalidArgumentError(absl::StrCat(lines.name(), ": is empty"));
  const size_t width = record.fields.size();
  if (width < 2) {
    return At(lines, record.line, 1,
              "there is one field only; a label and at least one feature are needed, separated by , ; or tab");
  }
  size_t label = width - 1;
  bool header = options.header == Header::kYes || !options.label.empty();
  if (!options.label.empty() && options.header == Header::kNo) {
    return absl::InvalidArgumentError(absl::StrCat(lines.name(), ": label column ", base::Quote(options.label),
                                                   " needs a header, but header is \"no\""));
  }
  if (options.header == Header::kAuto && !header) {
    for (size_t k = 0; k + 1 < width && !header; ++k) {
      double value = 0.0;
      header = !Missing(record.fields[k].text) && !ParseNumber(record.fields[k].text, &value);
    }
  }
  if (header) {
    std::vector<std::string> names;
    std::set<std::string> seen;
    for (const Field& f : record.fields) {
      if (!seen.insert(f.text).second) {
        return At(lines, record.line, f.column, absl::StrCat("column name ", base::Quote(f.text), " is there twice"));
      }
      names.push_back(f.text);
    }
    if (!options.label.empty()) {
      const auto found = std::find(names.begin(), names.end(), options.label);
      if (found == names.end()) {
        return absl::InvalidArgumentError(absl::StrCat(lines.name(), ":", record.line, ": there is no column ",
                                                       base::Quote(options.label),
                                                       base::DidYouMean(options.label, names)));
      }
      label = static_cast<size_t>(found - names.begin());
    }
    names.erase(names.begin() + static_cast<ptrdiff_t>(label));
    dataset.features = std::move(names);
    LUTHIER_ASSIGN_OR_RETURN(more, records.Next(&record));
  }
  dataset.x.cols = static_cast<int32_t>(width - 1);
  std::vector<std::string> labels;
  while (more) {
    if (record.fields.size() != width) {
      return absl::InvalidArgumentError(absl::StrCat(lines.name(), ":", record.line, ": the row has ",
                                                     record.fields.size(), " fields; the first one has ", width));
    }
    for (size_t k = 0; k < width; ++k) {
      if (k == label) continue;
      const size_t feature = k < label ? k : k - 1;
      LUTHIER_ASSIGN_OR_RETURN(const double value, ParseFeature(lines, dataset, record, k, feature));
      if (value == 0.0) continue;
      dataset.x.column.push_back(static_cast<int32_t>(feature));
      dataset.x.value.push_back(value);
    }
    const Field& f = record.fields[label];
    if (Missing(f.text)) {
      return At(lines, record.line, f.column, absl::StrCat("the label is missing (", base::Quote(f.text), ")"));
    }
    double number = 0.0;
    if (ParseNumber(f.text, &number) && !std::isfinite(number)) {
      return At(lines, record.line, f.column, absl::StrCat("the label is ", f.text));
    }
    labels.push_back(f.text);
    dataset.x.row_start.push_back(dataset.x.nonzeros());
    if (static_cast<int64_t>(labels.size()) >= kMaxRows) {
      return absl::InvalidArgumentError(absl::StrCat(lines.name(), ": has more than ", kMaxRows - 1, " rows"));
    }
    LUTHIER_ASSIGN_OR_RETURN(more, records.Next(&record));
  }
  dataset.x.rows = static_cast<int64_t>(labels.size());
  LUTHIER_RETURN_IF_ERROR(AssignClasses(labels, &dataset));
  return dataset;
}

}  // namespace luthier::learn
