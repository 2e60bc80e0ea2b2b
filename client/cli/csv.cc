#include "client/cli/csv.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "lib/wire/text.h"
#include "lib/wire/yaml_spec.h"

namespace luthier::cli {
namespace {

using Record = std::vector<std::string>;

absl::string_view WithoutMarks(absl::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of('\''), text.size()));
  return text;
}

// True for a number, a switch, or a text that begins like a list of them.
bool LooksLikeValue(absl::string_view text) {
  return !std::holds_alternative<std::string>(wire::ParseValue(text)) || absl::StartsWith(text, "[") ||
         absl::EqualsIgnoreCase(text, "true") || absl::EqualsIgnoreCase(text, "false") ||
         absl::EqualsIgnoreCase(text, "nan");
}

absl::Status At(absl::string_view source, size_t line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(source, ":", line, ": ", what));
}

// Refuses a header of one field that other separators would split.
absl::Status CheckDialect(const Record& header, absl::string_view source) {
  if (header.size() != 1) return absl::OkStatus();
  for (const auto& [separator, name] : {std::pair<char, const char*>{';', "semicolons"}, {'\t', "tabs"}}) {
    if (!absl::StrContains(header[0], separator)) continue;
    return At(source, 1,
              absl::StrCat("its fields are separated by ", name,
                           "; save it as CSV with commas between the fields, and with points in the numbers"));
  }
  return absl::OkStatus();
}

}  // namespace

bool LooksLikeFormula(absl::string_view text) {
  if (text.empty() || !absl::StrContains("=+-@\t\r", text.substr(0, 1))) return false;
  double number = 0.0;
  return text.find_first_not_of("0123456789.eE+-") != absl::string_view::npos || !absl::SimpleAtod(text, &number);
}

std::string MarkedFormula(absl::string_view text) {
  const absl::string_view rest = WithoutMarks(text);
  const bool mark = LooksLikeFormula(rest) || (rest.size() < text.size() && LooksLikeValue(rest));
  return absl::StrCat(mark ? "'" : "", text);
}

std::string MarkedText(absl::string_view text) {
  return LooksLikeValue(text) ? absl::StrCat("'", text) : MarkedFormula(text);
}

std::string Unmarked(absl::string_view field, bool* marked) {
  const absl::string_view rest = WithoutMarks(field);
  const bool mark = rest.size() < field.size() && (LooksLikeFormula(rest) || LooksLikeValue(rest));
  if (marked != nullptr) *marked = mark;
  return std::string(mark ? field.substr(1) : field);
}

std::string CsvField(absl::string_view text) {
  const bool blank = !text.empty() && (absl::ascii_isspace(static_cast<unsigned char>(text.front())) ||
                                       absl::ascii_isspace(static_cast<unsigned char>(text.back())));
  if (!blank && text.find_first_of(",\"\n\r") == absl::string_view::npos) return std::string(text);
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

absl::StatusOr<std::vector<Record>> ParseCsv(absl::string_view text, absl::string_view source) {
  std::vector<Record> records;
  Record record;
  std::string field;
  bool quoted = false, was_quoted = false;
  size_t line = 1;
  if (absl::StartsWith(text, "\xFF\xFE") || absl::StartsWith(text, "\xFE\xFF")) {
    return At(source, 1, "is in UTF-16; save it as UTF-8");
  }
  if (absl::StartsWith(text, "\xEF\xBB\xBF")) text.remove_prefix(3);
  if (const size_t at = wire::InvalidUtf8At(text); at < text.size()) {
    const auto before =
        static_cast<size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    return At(source, 1 + before, "is not in UTF-8; save it as UTF-8");
  }
  const auto end_field = [&] {
    record.push_back(was_quoted ? field : std::string(absl::StripAsciiWhitespace(field)));
    field.clear();
    was_quoted = false;
  };
  const auto end_record = [&] {
    end_field();
    if (record.size() > 1 || !record[0].empty()) records.push_back(std::move(record));
    record = Record();
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (quoted) {
      if (c != '"') {
        field += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        field += '"';
        ++i;
      } else {
        quoted = false;
      }
    } else if (c == '"' && absl::StripAsciiWhitespace(field).empty()) {
      field.clear();
      quoted = was_quoted = true;
    } else if (c == ',') {
      end_field();
    } else if (c == '\n' || (c == '\r' && (i + 1 == text.size() || text[i + 1] != '\n'))) {
      end_record();
    } else if (c != '\r') {
      field += c;
    }
  }
  if (quoted) return At(source, line, "a quoted field is not closed");
  if (!field.empty() || was_quoted || !record.empty()) end_record();
  if (!records.empty()) {
    if (const absl::Status dialect = CheckDialect(records[0], source); !dialect.ok()) return dialect;
  }
  return records;
}

}  // namespace luthier::cli
