#include "client/cli/commands/exchange.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/show.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/parameters.h"
#include "lib/wire/json.h"
#include "lib/wire/yaml_spec.h"

namespace luthier::cli {
namespace {

using Json = nlohmann::ordered_json;
using Record = std::vector<std::string>;

constexpr char kMark[] = "luthier";

absl::Status At(absl::string_view source, size_t line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(source, ":", line, ": ", what));
}

bool HasResult(const v1::Trial& trial) {
  return trial.state() == v1::Trial::COMPLETE || trial.state() == v1::Trial::PRUNED ||
         (trial.state() == v1::Trial::FAILED && trial.retried_by() == 0);
}

absl::Status ParseHeader(const Json& line, absl::string_view source, ImportFile* file) {
  if (!line.contains("spec")) return At(source, 1, "the line of the study has no \"spec\"");
  file->id = line.value("id", "");
  file->spec = line["spec"].dump();
  return absl::OkStatus();
}

absl::StatusOr<ImportFile> ParseJsonl(absl::string_view text, absl::string_view source) {
  ImportFile file;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // A newer program may say more.
  size_t number = 0;
  for (const absl::string_view raw : absl::StrSplit(text, '\n')) {
    ++number;
    const absl::string_view line = absl::StripAsciiWhitespace(raw);
    if (line.empty()) continue;
    if (file.trials.empty() && !file.spec && file.open == 0 && absl::StrContains(line.substr(0, 20), kMark)) {
      const Json header = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!header.is_object()) return At(source, number, "is no JSON object");
      LUTHIER_RETURN_IF_ERROR(ParseHeader(header, source, &file));
      continue;
    }
    v1::Trial trial;
    const auto parsed = google::protobuf::util::JsonStringToMessage(std::string(line), &trial, options);
    if (!parsed.ok()) return At(source, number, absl::StrCat("is no trial: ", std::string(parsed.message())));
    if (HasResult(trial)) {
      file.trials.push_back(std::move(trial));
    } else {
      ++file.open;
    }
  }
  if (file.trials.empty() && !file.spec) return At(source, number, "there are no trials");
  return file;
}

// The value of a parameter as the service takes it: labels stay text, also where they look like numbers.
google::protobuf::Value ValueOf(const v1::ParameterSpec& parameter, const std::string& text) {
  google::protobuf::Value value;
  if (parameter.has_categorical() || parameter.has_ordinal()) {
    value.set_string_value(text);
    return value;
  }
  const study::ParameterValue parsed = wire::ParseValue(text);
  if (const double* number = std::get_if<double>(&parsed)) {
    if (parameter.has_bool_() && (*number == 0.0 || *number == 1.0)) {
      value.set_bool_value(*number == 1.0);
    } else {
      value.set_number_value(*number);
    }
  } else if (const bool* flag = std::get_if<bool>(&parsed)) {
    value.set_bool_value(*flag);
  } else if (parameter.has_bool_() && absl::EqualsIgnoreCase(text, "true")) {
    value.set_bool_value(true);
  } else if (parameter.has_bool_() && absl::EqualsIgnoreCase(text, "false")) {
    value.set_bool_value(false);
  } else {
    value.set_string_value(text);
  }
  return value;
}

// What the columns of a CSV file mean to a study.
struct Columns {
  std::vector<const v1::ParameterSpec*> parameter;  // Null for others.
  std::vector<bool> metric;
  int state = -1, step = -1;
};

absl::StatusOr<Columns> ColumnsOf(const Record& header, absl::string_view source, const v1::StudySpec& spec,
                                  std::vector<std::string>* ignored) {
  Columns columns;
  bool found = false;
  std::set<std::string> seen;
  for (size_t j = 0; j < header.size(); ++j) {
    const std::string& name = header[j];
    if (!seen.insert(name).second) return At(source, 1, absl::StrCat("column ", base::Quote(name), " is there twice"));
    const auto parameter = std::find_if(spec.space().begin(), spec.space().end(),
                                        [&](const v1::ParameterSpec& p) { return p.name() == name; });
    columns.parameter.push_back(parameter == spec.space().end() ? nullptr : &*parameter);
    columns.metric.push_back(name == spec.metric().name());
    found = found || columns.metric.back();
    if (columns.parameter.back() != nullptr || columns.metric.back()) continue;
    if (name == "state") {
      columns.state = static_cast<int>(j);
    } else if (name == "step") {
      columns.step = static_cast<int>(j);
    } else {
      ignored->push_back(name);
    }
  }
  if (found) return columns;
  return At(source, 1,
            absl::StrCat("no column has the study's metric ", base::Quote(spec.metric().name()),
                         base::DidYouMean(spec.metric().name(), header)));
}

absl::StatusOr<v1::Trial> RowTrial(const Record& row, const Columns& columns, absl::string_view source, size_t line,
                                   const v1::StudySpec& spec) {
  v1::Trial trial;
  trial.set_state(v1::Trial::COMPLETE);
  if (columns.state >= 0 && !row[static_cast<size_t>(columns.state)].empty()) {
    v1::Trial::State state = v1::Trial::STATE_UNSPECIFIED;
    const std::string name = absl::AsciiStrToUpper(row[static_cast<size_t>(columns.state)]);
    if (!v1::Trial::State_Parse(name, &state)) {
      return At(source, line, absl::StrCat(base::Quote(name), " is no state: COMPLETE, PRUNED or FAILED"));
    }
    trial.set_state(state);
  }
  v1::Measurement measurement;
  for (size_t j = 0; j < row.size(); ++j) {
    if (columns.parameter[j] != nullptr) {
      if (!row[j].empty()) {
        (*trial.mutable_parameters()->mutable_fields())[columns.parameter[j]->name()] =
            ValueOf(*columns.parameter[j], row[j]);
      }
    } else if (columns.metric[j]) {
      const std::string& text = row[j];
      const study::ParameterValue value = wire::ParseValue(text);
      const double* number = std::get_if<double>(&value);
      if (absl::EqualsIgnoreCase(text, "nan")) {
        (*measurement.mutable_metrics())[spec.metric().name()] = std::nan("");
      } else if (number != nullptr && std::isfinite(*number)) {
        (*measurement.mutable_metrics())[spec.metric().name()] = *number;
      } else if (!text.empty()) {
        return At(source, line, absl::StrCat(base::Quote(text), " is no value of ", spec.metric().name()));
      }
    } else if (static_cast<int>(j) == columns.step && !row[j].empty()) {
      const study::ParameterValue step = wire::ParseValue(row[j]);
      const double* number = std::get_if<double>(&step);
      if (number == nullptr || *number < 0.0 || *number > 1e15 || std::floor(*number) != *number) {
        return At(source, line, absl::StrCat(base::Quote(row[j]), " is no step"));
      }
      measurement.set_step(static_cast<int64_t>(*number));
    }
  }
  if (!measurement.metrics().empty() && trial.state() != v1::Trial::FAILED) {
    *trial.mutable_final_measurement() = std::move(measurement);
  } else if (trial.state() == v1::Trial::COMPLETE) {
    return At(source, line,
              absl::StrCat("has no value of ", spec.metric().name(),
                           "; give it one, or a column state with FAILED or PRUNED"));
  }
  return trial;
}

absl::StatusOr<ImportFile> ParseTable(absl::string_view text, absl::string_view source, const v1::StudySpec& spec) {
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<Record> records, ParseCsv(text, source));
  if (records.size() < 2) return At(source, 1, "a table has a header and at least one row");
  ImportFile file;
  LUTHIER_ASSIGN_OR_RETURN(const Columns columns, ColumnsOf(records[0], source, spec, &file.ignored));
  for (size_t i = 1; i < records.size(); ++i) {
    if (records[i].size() != records[0].size()) {
      return At(source, i + 1,
                absl::StrCat("has ", records[i].size(), " fields, and the header has ", records[0].size()));
    }
    LUTHIER_ASSIGN_OR_RETURN(v1::Trial trial, RowTrial(records[i], columns, source, i + 1, spec));
    if (HasResult(trial)) {
      file.trials.push_back(std::move(trial));
    } else {
      ++file.open;
    }
  }
  return file;
}

// A parameter for the texts of a column.
v1::ParameterSpec GuessParameter(const std::string& name, const std::set<std::string>& texts) {
  v1::ParameterSpec parameter;
  parameter.set_name(name);
  double least = HUGE_VAL, largest = -HUGE_VAL;
  bool numbers = true, whole = true, flags = true;
  for (const std::string& text : texts) {
    const study::ParameterValue value = wire::ParseValue(text);
    const double* number = std::get_if<double>(&value);
    numbers = numbers && number != nullptr && std::isfinite(*number);
    flags = flags && (absl::EqualsIgnoreCase(text, "true") || absl::EqualsIgnoreCase(text, "false"));
    if (number == nullptr) continue;
    least = std::min(least, *number);
    largest = std::max(largest, *number);
    whole = whole && std::floor(*number) == *number && std::abs(*number) < 1e15 && !absl::StrContains(text, '.');
  }
  if (flags) {
    parameter.mutable_bool_();
  } else if (!numbers) {
    for (const std::string& text : texts) parameter.mutable_categorical()->add_values(text);
  } else if (whole) {
    parameter.mutable_int_()->set_min(static_cast<int64_t>(least));
    parameter.mutable_int_()->set_max(static_cast<int64_t>(largest));
  } else {
    parameter.mutable_float_()->set_min(least);
    parameter.mutable_float_()->set_max(largest);
    // Over so many powers of ten it was surely searched by its logarithm.
    if (least > 0.0 && largest > 100.0 * least) parameter.mutable_float_()->set_scale(v1::LOG);
  }
  return parameter;
}

}  // namespace

absl::StatusOr<std::vector<Record>> ParseCsv(absl::string_view text, absl::string_view source) {
  std::vector<Record> records;
  Record record;
  std::string field;
  bool quoted = false, was_quoted = false;
  size_t line = 1;
  if (absl::StartsWith(text, "\xEF\xBB\xBF")) text.remove_prefix(3);
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
    } else if (c == '\n') {
      end_record();
    } else if (c != '\r') {
      field += c;
    }
  }
  if (quoted) return At(source, line, "a quoted field is not closed");
  if (!field.empty() || !record.empty()) end_record();
  return records;
}

absl::StatusOr<ImportFile> ParseImport(absl::string_view text, absl::string_view source, const v1::StudySpec* spec) {
  const absl::string_view begin = absl::StripLeadingAsciiWhitespace(text);
  if (absl::StartsWith(begin, "{")) return ParseJsonl(text, source);
  if (spec == nullptr) return At(source, 1, "is no JSONL; of a CSV file say with --metric which column is the result");
  return ParseTable(text, source, *spec);
}

std::string StudyLine(const v1::Study& study) {
  Json line = Json::object();
  line[kMark] = 1;
  line["id"] = IdOf(study);
  line["spec"] = wire::ToJson(study.spec());
  return JsonText(line);
}

std::string TrialLine(const v1::Trial& trial) {
  return JsonText(wire::ToJson(trial));
}

std::string SomeColumns(const std::vector<std::string>& names) {
  constexpr size_t kShown = 10;
  const std::vector<std::string> first(names.begin(), names.begin() + std::min(names.size(), kShown));
  const std::string quoted = absl::StrJoin(
      first, ", ", [](std::string* out, const std::string& name) { absl::StrAppend(out, base::Quote(name)); });
  return absl::StrCat(quoted, names.size() > kShown ? absl::StrCat(" and ", names.size() - kShown, " more") : "");
}

absl::StatusOr<v1::StudySpec> GuessSpec(absl::string_view text, absl::string_view source, const std::string& metric,
                                        bool maximize, const std::vector<std::string>& ignored) {
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<Record> records, ParseCsv(text, source));
  if (records.size() < 2) return At(source, 1, "a table has a header and at least one row");
  const Record& header = records[0];
  if (std::find(header.begin(), header.end(), metric) == header.end()) {
    return At(source, 1,
              absl::StrCat("there is no column ", base::Quote(metric), base::DidYouMean(metric, header), "; it has ",
                           SomeColumns(header)));
  }
  v1::StudySpec spec;
  spec.mutable_metric()->set_name(metric);
  spec.mutable_metric()->set_goal(maximize ? v1::MAXIMIZE : v1::MINIMIZE);
  spec.mutable_objective()->mutable_external();
  for (size_t j = 0; j < header.size(); ++j) {
    const std::string& name = header[j];
    const bool known = name == metric || name == "state" || name == "step" || name == "number";
    if (known || std::find(ignored.begin(), ignored.end(), name) != ignored.end()) continue;
    std::set<std::string> texts;
    for (size_t i = 1; i < records.size(); ++i) {
      if (j < records[i].size() && !records[i][j].empty()) texts.insert(records[i][j]);
    }
    if (!texts.empty()) *spec.add_space() = GuessParameter(name, texts);
  }
  return spec;
}

}  // namespace luthier::cli
