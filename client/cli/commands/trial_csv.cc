#include "client/cli/commands/trial_csv.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/cli/csv.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/status_macros.h"
#include "lib/notation/number.h"
#include "lib/study/parameters.h"
#include "lib/wire/yaml_spec.h"

namespace luthier::cli {
namespace {

using PlainJson = nlohmann::json;
using Record = std::vector<std::string>;

constexpr absl::string_view kParams = "params_";
constexpr absl::string_view kMetrics = "metrics_";
constexpr char kNull[] = "null";
constexpr char kFeasible[] = "feasible";
constexpr double kMaxInteger = 9007199254740992.0;  // 2^53; the service's bound.

absl::Status At(absl::string_view source, size_t line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(source, ":", line, ": ", what));
}

bool HasBounds(const v1::StudySpec& spec) {
  const auto has = [](const v1::MetricSpec& metric) { return metric.has_at_least() || metric.has_at_most(); };
  return has(spec.metric()) || std::any_of(spec.metrics().begin(), spec.metrics().end(), has);
}

bool IsReserved(const std::string& name) {
  const std::vector<std::string>& names = ReservedColumns();
  if (std::find(names.begin(), names.end(), name) != names.end()) return true;
  return std::any_of(ReservedPrefixes().begin(), ReservedPrefixes().end(),
                     [&](const std::string& prefix) { return absl::StartsWith(name, prefix); });
}

// True for "0,5": a number with a decimal comma.
bool HasDecimalComma(absl::string_view text) {
  const size_t comma = text.find(',');
  if (comma == absl::string_view::npos || comma == 0) return false;
  const std::string number = absl::StrCat(text.substr(0, comma), ".", text.substr(comma + 1));
  return std::holds_alternative<double>(wire::ParseValue(number));
}

bool IsWhole(absl::string_view text) {
  if (absl::StartsWith(text, "-") || absl::StartsWith(text, "+")) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == absl::string_view::npos;
}

// True for a whole number that a double may have rounded.
bool IsRounded(absl::string_view text) {
  int64_t value = 0;
  return IsWhole(text) && (!absl::SimpleAtoi(text, &value) || std::abs(static_cast<double>(value)) > kMaxInteger ||
                           static_cast<int64_t>(static_cast<double>(value)) != value);
}

// Returns a parameter's name for people, which its column has.
const std::string& ShownName(const v1::ParameterSpec& parameter) {
  return parameter.display_name().empty() ? parameter.name() : parameter.display_name();
}

absl::StatusOr<google::protobuf::Value> VectorOf(const std::string& text) {
  const PlainJson list = PlainJson::parse(text, nullptr, /*allow_exceptions=*/false);
  google::protobuf::Value value;
  if (!list.is_array()) return absl::InvalidArgumentError("is no list of numbers, as in [0.1,0.2]");
  for (const PlainJson& entry : list) {
    if (!entry.is_number()) return absl::InvalidArgumentError("is no list of numbers, as in [0.1,0.2]");
    value.mutable_list_value()->add_values()->set_number_value(entry.get<double>());
  }
  return value;
}

// Converts the value of a parameter for the service: labels stay text, even if they look like numbers.
absl::StatusOr<google::protobuf::Value> ValueOf(const v1::ParameterSpec& parameter, const std::string& field) {
  google::protobuf::Value value;
  const std::string text = Unmarked(field);
  if (parameter.has_categorical() || parameter.has_ordinal()) {
    value.set_string_value(text);
    return value;
  }
  if (parameter.has_count()) return VectorOf(text);
  if (parameter.has_int_() && IsRounded(text)) {
    return absl::InvalidArgumentError("is beyond ±2^53, the largest integers of a parameter");
  }
  const study::ParameterValue parsed = wire::ParseValue(text);
  const double* number = std::get_if<double>(&parsed);
  if (parameter.has_bool_()) {
    if (absl::EqualsIgnoreCase(text, "true") || (number != nullptr && *number == 1.0)) {
      value.set_bool_value(true);
    } else if (absl::EqualsIgnoreCase(text, "false") || (number != nullptr && *number == 0.0)) {
      value.set_bool_value(false);
    } else {
      return absl::InvalidArgumentError("is neither true nor false");
    }
  } else if (number != nullptr && std::isfinite(*number)) {
    value.set_number_value(*number);
  } else {
    return absl::InvalidArgumentError(HasDecimalComma(text) ? "is written with a decimal comma; write a point"
                                                            : "is no number");
  }
  return value;
}

// True if a parameter has the label that stands for Python's None, which tables have as an empty cell.
bool HasNull(const v1::ParameterSpec& parameter) {
  const auto& labels = parameter.categorical().values();
  return std::find(labels.begin(), labels.end(), kNull) != labels.end();
}

// Meanings of the columns of a table.
struct Columns {
  std::vector<const v1::ParameterSpec*> parameter;  // Null for columns of other kinds.
  std::vector<std::string> metric;                  // "" for others.
  std::vector<std::string> attribute;
  int state = -1, step = -1, result = -1;
};

int Find(const Record& header, absl::string_view name) {
  const auto found = std::find(header.begin(), header.end(), name);
  return found == header.end() ? -1 : static_cast<int>(found - header.begin());
}

// Returns the index of the column of the study's metric; -1: there is none.
int MetricColumn(const Record& header, const std::string& metric) {
  for (const std::string& name : {absl::StrCat(kMetrics, metric), metric, std::string("value")}) {
    if (const int found = Find(header, name); found >= 0) return found;
  }
  return -1;
}

absl::Status CheckNames(const Record& header, absl::string_view source, const std::string& metric) {
  std::set<std::string> seen;
  for (const std::string& name : header) {
    if (!seen.insert(name).second) return At(source, 1, absl::StrCat("column ", base::Quote(name), " is there twice"));
  }
  if (MetricColumn(header, metric) >= 0) return absl::OkStatus();
  return At(source, 1,
            absl::StrCat("no column has the metric ", base::Quote(metric), base::DidYouMean(metric, header),
                         "; it has ", SomeColumns(header)));
}

// Reads the records. Names of columns lose their marks.
absl::StatusOr<std::vector<Record>> Records(absl::string_view text, absl::string_view source) {
  LUTHIER_ASSIGN_OR_RETURN(std::vector<Record> records, ParseCsv(text, source));
  if (records.size() < 2) return At(source, 1, "a table has a header and at least one row");
  for (std::string& name : records[0]) name = Unmarked(name);
  for (size_t i = 1; i < records.size(); ++i) {
    if (records[i].size() == records[0].size()) continue;
    return At(source, i + 1,
              absl::StrCat("has ", records[i].size(), " fields, and the header has ", records[0].size()));
  }
  return records;
}

absl::StatusOr<Columns> ColumnsOf(const Record& header, absl::string_view source, const v1::StudySpec& spec,
                                  std::vector<std::string>* ignored) {
  LUTHIER_RETURN_IF_ERROR(CheckNames(header, source, spec.metric().name()));
  Columns columns;
  columns.parameter.resize(header.size());
  columns.metric.resize(header.size());
  columns.attribute.resize(header.size());
  columns.result = MetricColumn(header, spec.metric().name());
  columns.metric[static_cast<size_t>(columns.result)] = spec.metric().name();
  const auto take = [&](absl::string_view name, const v1::ParameterSpec& parameter) {
    const int found = Find(header, name);
    if (found < 0 || found == columns.result || columns.parameter[static_cast<size_t>(found)] != nullptr) return false;
    columns.parameter[static_cast<size_t>(found)] = &parameter;
    return true;
  };
  for (const v1::ParameterSpec& p : spec.space()) {  // A column with a mark takes precedence.
    (void)(take(absl::StrCat(kParams, ShownName(p)), p) || take(absl::StrCat(kParams, p.name()), p) ||
           take(ShownName(p), p) || take(p.name(), p));
  }
  for (const v1::MetricSpec& metric : spec.metrics()) {
    if (Find(header, absl::StrCat(kMetrics, metric.name())) >= 0) continue;
    const int found = Find(header, metric.name());
    if (found >= 0 && columns.parameter[static_cast<size_t>(found)] == nullptr) {
      columns.metric[static_cast<size_t>(found)] = metric.name();
    }
  }
  for (size_t j = 0; j < header.size(); ++j) {
    absl::string_view name = header[j];
    if (columns.parameter[j] != nullptr || !columns.metric[j].empty()) continue;
    if (name == "state") {
      columns.state = static_cast<int>(j);
    } else if (name == "step") {
      columns.step = static_cast<int>(j);
    } else if (absl::ConsumePrefix(&name, kMetrics)) {
      columns.metric[j] = std::string(name);
    } else if (absl::ConsumePrefix(&name, "attrs_") || absl::ConsumePrefix(&name, "user_attrs_")) {
      columns.attribute[j] = std::string(name);
    } else if (name != "number" && name != kFeasible && !name.empty()) {
      ignored->push_back(header[j]);
    }
  }
  return columns;
}

// Reads COMPLETE, PRUNED, FAILED; all states without a result are PENDING.
absl::StatusOr<v1::Trial::State> StateOf(absl::string_view field, absl::string_view source, size_t line) {
  if (field.empty()) return v1::Trial::COMPLETE;
  std::string name = absl::AsciiStrToUpper(field.substr(field.rfind('.') + 1));
  if (name == "FAIL") name = "FAILED";
  if (name == "WAITING") name = "PENDING";
  v1::Trial::State state = v1::Trial::STATE_UNSPECIFIED;
  if (v1::Trial::State_Parse(name, &state) && state != v1::Trial::STATE_UNSPECIFIED) return state;
  return At(source, line, absl::StrCat(base::Quote(field), " is no state: COMPLETE, PRUNED or FAILED"));
}

absl::Status ReadMetric(const std::string& name, const std::string& text, v1::Measurement* measurement) {
  if (text.empty()) return absl::OkStatus();
  const study::ParameterValue value = wire::ParseValue(text);
  const double* number = std::get_if<double>(&value);
  if (const std::optional<double> non_finite = notation::ParseNonFinite(text)) {
    (*measurement->mutable_metrics())[name] = *non_finite;
  } else if (number != nullptr && std::isfinite(*number)) {
    (*measurement->mutable_metrics())[name] = *number;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat(base::Quote(text), " is no value of ", name,
                     HasDecimalComma(text) ? ": it is written with a decimal comma; write a point" : ""));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Trial> RowTrial(const Record& row, const Columns& columns, absl::string_view source, size_t line,
                                   const v1::StudySpec& spec) {
  v1::Trial trial;
  const std::string state = columns.state < 0 ? "" : row[static_cast<size_t>(columns.state)];
  LUTHIER_ASSIGN_OR_RETURN(const v1::Trial::State read, StateOf(state, source, line));
  trial.set_state(read);
  const bool failed = read == v1::Trial::FAILED;
  v1::Measurement measurement;
  for (size_t j = 0; j < row.size(); ++j) {
    if (row[j].empty()) {
      const v1::ParameterSpec* const p = columns.parameter[j];
      if (p == nullptr || p->has_condition() || spec.open_space() || !HasNull(*p)) continue;
      (*trial.mutable_parameters()->mutable_fields())[p->name()].set_string_value(kNull);
    } else if (columns.parameter[j] != nullptr) {
      absl::StatusOr<google::protobuf::Value> value = ValueOf(*columns.parameter[j], row[j]);
      if (!value.ok()) {
        return At(source, line,
                  absl::StrCat(base::Quote(row[j]), ", of ", ShownName(*columns.parameter[j]), ", ",
                               value.status().message()));
      }
      (*trial.mutable_parameters()->mutable_fields())[columns.parameter[j]->name()] = *std::move(value);
    } else if (!columns.metric[j].empty() && !failed) {
      const absl::Status metric = ReadMetric(columns.metric[j], row[j], &measurement);
      if (!metric.ok()) return At(source, line, metric.message());
    } else if (!columns.attribute[j].empty()) {
      (*trial.mutable_attributes())[columns.attribute[j]] = Unmarked(row[j]);
    } else if (static_cast<int>(j) == columns.step) {
      const study::ParameterValue step = wire::ParseValue(row[j]);
      const double* number = std::get_if<double>(&step);
      if (number == nullptr || !(*number >= 0.0 && *number <= 1e15) || std::floor(*number) != *number) {
        return At(source, line, absl::StrCat(base::Quote(row[j]), " is no step"));
      }
      measurement.set_step(static_cast<int64_t>(*number));
    }
  }
  if (measurement.metrics().count(spec.metric().name()) > 0) {
    *trial.mutable_final_measurement() = std::move(measurement);
  } else if (read == v1::Trial::COMPLETE) {
    return At(source, line,
              absl::StrCat("has no value of ", spec.metric().name(),
                           "; give it one, or a column state with FAILED or PRUNED"));
  }
  return trial;
}

bool SameValue(const google::protobuf::Value& a, const google::protobuf::Value& b) {
  if (a.kind_case() != b.kind_case()) return false;
  return a.has_string_value() ? a.string_value() == b.string_value()
         : a.has_bool_value() ? a.bool_value() == b.bool_value()
                              : a.number_value() == b.number_value();
}

// Returns true if a trial has every parameter that exists at its setting.
bool IsWholeSetting(const v1::StudySpec& spec, const v1::Trial& trial) {
  const auto& given = trial.parameters().fields();
  return std::all_of(spec.space().begin(), spec.space().end(), [&](const v1::ParameterSpec& p) {
    if (given.count(p.name()) > 0 || spec.open_space()) return true;
    if (!p.has_condition()) return false;
    const auto parent = given.find(p.condition().parent());
    return parent == given.end() ||
           std::none_of(p.condition().values().begin(), p.condition().values().end(),
                        [&](const google::protobuf::Value& v) { return SameValue(v, parent->second); });
  });
}

// --- A spec for a table ---

// A column that becomes a parameter, and its cells.
struct Guess {
  std::string name;
  std::vector<std::string> fields;  // A cell for each row; "" for none.
  v1::ParameterSpec spec;
};

// Makes a name that the service accepts, as Python's `legal_name` does.
std::string LegalName(const std::string& name) {
  const auto legal = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  const bool begins = legal(name[0]) && !absl::ascii_isdigit(static_cast<unsigned char>(name[0]));
  const bool whole = std::all_of(name.begin(), name.end(), [&](char c) { return legal(c) || c == '.'; });
  if (begins && whole && name.size() <= 64 && !absl::StartsWith(name, "luthier.")) return name;
  std::string plain;
  for (const char c : name) {
    const bool goes_on = (static_cast<unsigned char>(c) & 0xC0) == 0x80;  // Inside a character.
    if (!goes_on) plain += legal(c) ? c : '_';
  }
  return absl::StrCat("p_", plain.substr(0, 48), "_", base::Sha256Hex(name).substr(0, 8));
}

// True if pandas wrote the table from a data frame of Optuna or of the Python package.
bool IsOfPandas(const Record& header) {
  return Find(header, "datetime_start") >= 0 || Find(header, "started") >= 0;
}

// True if the cells are integers that pandas wrote as floats, "3.0", as it does if some are missing.
bool AreWholeWithGaps(const Record& header, const std::vector<std::string>& fields) {
  if (!IsOfPandas(header) || std::count(fields.begin(), fields.end(), "") == 0) return false;
  return std::all_of(fields.begin(), fields.end(), [](absl::string_view field) {
    return field.empty() || (absl::ConsumeSuffix(&field, ".0") && IsWhole(field) && !IsRounded(field));
  });
}

// Sets the domain that a column's values suggest.
void GuessDomain(const Record& header, Guess* guess) {
  std::vector<std::string> texts;
  bool marked = false, numbers = true, whole = true, flags = true, vectors = true;
  const bool gaps = AreWholeWithGaps(header, guess->fields);
  double least = HUGE_VAL, largest = -HUGE_VAL;
  size_t count = 0;
  std::set<std::string> seen;
  for (const std::string& field : guess->fields) {
    bool mark = false;
    const std::string text = Unmarked(field, &mark);
    if (field.empty() || !seen.insert(text).second) continue;
    texts.push_back(text);
    marked = marked || mark;
    flags = flags && (absl::EqualsIgnoreCase(text, "true") || absl::EqualsIgnoreCase(text, "false"));
    const auto vector = VectorOf(text);
    vectors = vectors && vector.ok() && vector->list_value().values_size() > 0;
    std::vector<double> scalars;
    if (vectors) {
      for (const auto& entry : vector->list_value().values()) scalars.push_back(entry.number_value());
      vectors = texts.size() == 1 || scalars.size() == count;
      count = scalars.size();
    }
    const study::ParameterValue value = wire::ParseValue(text);
    const double* number = std::get_if<double>(&value);
    numbers = numbers && number != nullptr && std::isfinite(*number) && !IsRounded(text);
    if (number != nullptr) scalars = {*number};
    for (const double scalar : scalars) {
      least = std::min(least, scalar);
      largest = std::max(largest, scalar);
    }
    whole = whole && (gaps || IsWhole(text));
  }
  v1::ParameterSpec& parameter = guess->spec;
  parameter.set_name(LegalName(guess->name));
  if (parameter.name() != guess->name) parameter.set_display_name(guess->name);
  if (flags && !marked) {
    parameter.mutable_bool_();
  } else if (numbers && whole && !marked) {
    parameter.mutable_int_()->set_min(static_cast<int64_t>(least));
    parameter.mutable_int_()->set_max(static_cast<int64_t>(largest));
  } else if ((numbers || vectors) && !marked) {
    parameter.mutable_float_()->set_min(least);
    parameter.mutable_float_()->set_max(largest);
    // A parameter that spans so many powers of ten was surely searched by its logarithm.
    if (least > 0.0 && largest > 100.0 * least) parameter.mutable_float_()->set_scale(v1::LOG);
    if (!numbers) parameter.set_count(static_cast<int32_t>(count));
  } else {
    for (const std::string& text : texts) parameter.mutable_categorical()->add_values(text);
  }
}

// Finds another parameter that tells where this one exists: its values in the rows with this one differ from those in
// the rows without it.
bool GuessCondition(const std::vector<Guess>& guesses, const std::vector<bool>& counts, Guess* guess) {
  for (const Guess& parent : guesses) {
    if (parent.name == guess->name || parent.spec.has_float_()) continue;
    std::set<std::string> with, without;
    for (size_t i = 0; i < guess->fields.size(); ++i) {
      if (counts[i]) (guess->fields[i].empty() ? without : with).insert(parent.fields[i]);
    }
    const bool apart = std::none_of(with.begin(), with.end(), [&](const auto& v) { return without.count(v) > 0; });
    // A parent that is missing, too, tells nothing. So no two parameters are each other's parent.
    if (!apart || with.count("") > 0 || (without.size() == 1 && without.count("") > 0)) continue;
    guess->spec.mutable_condition()->set_parent(parent.spec.name());
    for (const std::string& field : with) *guess->spec.mutable_condition()->add_values() = *ValueOf(parent.spec, field);
    return true;
  }
  return false;
}

// Makes labels of a column of a data frame in which None was a choice, if nothing else explains its empty cells. False:
// it has too many values to be choices.
bool GuessNull(const Record& header, Guess* guess) {
  constexpr size_t kMostChoices = 16;
  std::vector<std::string> labels;
  for (const std::string& field : guess->fields) {
    const std::string text = field.empty() ? kNull : Unmarked(field);
    if (std::find(labels.begin(), labels.end(), text) == labels.end()) labels.push_back(text);
  }
  if (!IsOfPandas(header) || labels.size() > kMostChoices) return false;
  guess->spec.mutable_categorical()->clear_values();
  for (const std::string& label : labels) guess->spec.mutable_categorical()->add_values(label);
  return true;
}

// True for the header of exports before parameters were marked by params_: number, state, metrics, parameters, …, note.
// It does not say which of the columns between are metrics; `step` is a parameter.
bool IsOlderExport(const Record& header) {
  const Record last = {"attempts", "origin", "worker", "note"};
  return header.size() > 7 && header[0] == "number" && header[1] == "state" &&
         std::equal(last.begin(), last.end(), header.end() - 4);
}

// Returns the columns that become parameters.
std::vector<size_t> ParameterColumns(const std::vector<Record>& records, const std::string& metric,
                                     const std::vector<std::string>& ignored) {
  const Record& header = records[0];
  const bool older = IsOlderExport(header);
  const bool marked =
      std::any_of(header.begin(), header.end(), [](const auto& name) { return absl::StartsWith(name, kParams); });
  std::vector<size_t> columns;
  for (size_t j = 0; j < header.size(); ++j) {
    const std::string name(absl::StripPrefix(header[j], kParams));
    const bool is_marked = name != header[j];
    if (static_cast<int>(j) == MetricColumn(header, metric)) continue;
    if (marked ? !is_marked : IsReserved(header[j]) && !(older && header[j] == "step")) continue;
    const auto named = [&](const std::string& one) { return one == name || one == header[j]; };
    if (std::any_of(ignored.begin(), ignored.end(), named)) continue;
    std::set<std::string> values;
    for (size_t i = 1; i < records.size(); ++i) values.insert(records[i][j]);
    values.erase("");
    // In an older export a column of one value may be a metric, and can't be tuned anyway.
    if (values.size() > (older ? 1U : 0U)) columns.push_back(j);
  }
  return columns;
}

absl::Status CheckDecimals(const Guess& guess, absl::string_view source) {
  bool any = false;
  for (const std::string& field : guess.fields) {
    if (!field.empty() && !HasDecimalComma(field) && !IsWhole(field)) return absl::OkStatus();
    any = any || HasDecimalComma(field);
  }
  if (!any) return absl::OkStatus();
  return At(
      source, 1,
      absl::StrCat("column ", base::Quote(guess.name), " has numbers with decimal commas; write them with points"));
}

std::string FieldOf(const google::protobuf::Value& value, bool fraction) {
  if (value.has_bool_value()) return value.bool_value() ? "true" : "false";
  if (value.has_string_value()) return MarkedText(value.string_value());
  if (value.has_list_value()) {
    return absl::StrCat("[",
                        absl::StrJoin(value.list_value().values(), ",",
                                      [](std::string* out, const auto& entry) {
                                        absl::StrAppend(out, study::FormatDouble(entry.number_value()));
                                      }),
                        "]");
  }
  std::string text = study::FormatDouble(value.number_value());
  if (fraction && IsWhole(text)) text += ".0";  // It stays a float.
  return text;
}

}  // namespace

const std::vector<std::string>& ReservedColumns() {
  static const auto* const names =
      new std::vector<std::string>({"", "number", "state", "step", "value", "started", "ended", "seconds", "duration",
                                    "attempts", "origin", "worker", "designer", "training", "note"});
  return *names;
}

const std::vector<std::string>& ReservedPrefixes() {
  static const auto* const prefixes = new std::vector<std::string>(
      {"metrics_", "metric.", "attrs_", "user_attrs_", "system_attrs_", "datetime_", "Unnamed: "});
  return *prefixes;
}

std::string SomeColumns(const std::vector<std::string>& names) {
  constexpr size_t kShown = 10;
  const std::vector<std::string> first(names.begin(), names.begin() + std::min(names.size(), kShown));
  const std::string quoted = absl::StrJoin(
      first, ", ", [](std::string* out, const std::string& name) { absl::StrAppend(out, base::Quote(name)); });
  return absl::StrCat(quoted, names.size() > kShown ? absl::StrCat(" and ", names.size() - kShown, " more") : "");
}

void WriteTrialsCsv(const v1::StudySpec& spec, const std::vector<v1::Trial>& trials, std::ostream& out) {
  const std::string& metric = spec.metric().name();
  const bool bounded = HasBounds(spec);
  const bool taken = (IsReserved(metric) && metric != "value") || absl::StartsWith(metric, kParams) ||
                     (bounded && metric == kFeasible);
  std::set<std::string> others, notes;
  for (const v1::Trial& trial : trials) {
    for (const auto& [name, value] : trial.final_measurement().metrics()) others.insert(name);
    for (const auto& [key, value] : trial.attributes()) notes.insert(key);
  }
  others.erase(metric);
  Record header = {"number", "state", taken ? absl::StrCat(kMetrics, metric) : metric};
  for (const v1::ParameterSpec& p : spec.space()) header.push_back(absl::StrCat(kParams, ShownName(p)));
  for (const std::string& name : others) header.push_back(absl::StrCat(kMetrics, name));
  if (bounded) header.push_back(kFeasible);
  header.insert(header.end(), {"step", "attempts", "origin", "worker"});
  for (const std::string& key : notes) header.push_back(absl::StrCat("attrs_", key));
  const auto line = [&](const Record& fields) {
    out << absl::StrJoin(fields, ",", [](std::string* to, const auto& field) { *to += CsvField(field); }) << "\n";
  };
  for (std::string& name : header) name = MarkedFormula(name);
  line(header);
  for (const v1::Trial& trial : trials) {
    const v1::Measurement& last = trial.final_measurement();
    const auto metric_field = [&](const std::string& name) {
      const auto found = last.metrics().find(name);
      return found == last.metrics().end() ? std::string() : study::FormatDouble(found->second);
    };
    Record row = {absl::StrCat(trial.number()), v1::Trial::State_Name(trial.state()), metric_field(metric)};
    for (const v1::ParameterSpec& p : spec.space()) {
      const auto found = trial.parameters().fields().find(p.name());
      row.push_back(found == trial.parameters().fields().end() ? "" : FieldOf(found->second, p.has_float_()));
    }
    for (const std::string& name : others) row.push_back(metric_field(name));
    if (bounded) row.push_back(!trial.has_feasible() ? "" : trial.feasible() ? "true" : "false");
    row.push_back(last.step() == 0 ? "" : absl::StrCat(last.step()));
    row.push_back(absl::StrCat(trial.attempts_size()));
    row.push_back(trial.provenance().origin());
    row.push_back(trial.attempts().empty() ? "" : MarkedFormula(trial.attempts().rbegin()->worker()));
    for (const std::string& key : notes) {
      const auto found = trial.attributes().find(key);
      row.push_back(found == trial.attributes().end() ? "" : MarkedFormula(found->second));
    }
    line(row);
  }
}

absl::StatusOr<TableTrials> ReadTrialsCsv(absl::string_view text, absl::string_view source, const v1::StudySpec& spec) {
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<Record> records, Records(text, source));
  TableTrials table;
  LUTHIER_ASSIGN_OR_RETURN(const Columns columns, ColumnsOf(records[0], source, spec, &table.ignored));
  const int feasible = HasBounds(spec) ? -1 : Find(records[0], kFeasible);
  for (size_t i = 1; i < records.size(); ++i) {
    LUTHIER_ASSIGN_OR_RETURN(v1::Trial trial, RowTrial(records[i], columns, source, i + 1, spec));
    if (trial.state() != v1::Trial::COMPLETE && trial.state() != v1::Trial::PRUNED &&
        trial.state() != v1::Trial::FAILED) {
      ++table.open;
    } else if (trial.state() == v1::Trial::FAILED && !IsWholeSetting(spec, trial)) {
      ++table.incomplete;
    } else {
      if (feasible >= 0 && columns.parameter[static_cast<size_t>(feasible)] == nullptr &&
          absl::EqualsIgnoreCase(records[i][static_cast<size_t>(feasible)], "false")) {
        ++table.beyond;
      }
      table.trials.push_back(std::move(trial));
    }
  }
  return table;
}

absl::StatusOr<v1::StudySpec> GuessSpec(absl::string_view text, absl::string_view source, const std::string& metric,
                                        bool maximize, const std::vector<std::string>& ignored) {
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<Record> records, Records(text, source));
  LUTHIER_RETURN_IF_ERROR(CheckNames(records[0], source, metric));
  v1::StudySpec spec;
  spec.mutable_metric()->set_name(metric);
  spec.mutable_metric()->set_goal(maximize ? v1::MAXIMIZE : v1::MINIMIZE);
  spec.mutable_objective()->mutable_external();
  std::vector<Guess> guesses;
  for (const size_t j : ParameterColumns(records, metric, ignored)) {
    guesses.push_back({std::string(absl::StripPrefix(records[0][j], kParams)), {}, {}});
    for (size_t i = 1; i < records.size(); ++i) guesses.back().fields.push_back(records[i][j]);
    LUTHIER_RETURN_IF_ERROR(CheckDecimals(guesses.back(), source));
    GuessDomain(records[0], &guesses.back());
  }
  // Rows whose empty cells have a meaning: in other tools a FAILED trial may lack parameters that it had not reached.
  const int state = Find(records[0], "state");
  std::vector<bool> counts;
  for (size_t i = 1; i < records.size(); ++i) {
    const auto read = StateOf(state < 0 ? "" : records[i][static_cast<size_t>(state)], source, i + 1);
    counts.push_back(read.ok() && (*read == v1::Trial::COMPLETE || *read == v1::Trial::PRUNED));
  }
  for (Guess& guess : guesses) {
    size_t empty = 0;
    while (empty < counts.size() && !(counts[empty] && guess.fields[empty].empty())) ++empty;
    if (empty == counts.size() || GuessCondition(guesses, counts, &guess) || GuessNull(records[0], &guess)) continue;
    return At(source, empty + 2,
              absl::StrCat("has no value of ", base::Quote(guess.name),
                           ", and no other column tells when there is one; fill the cell, or leave the column out: "
                           "--ignore ",
                           guess.name));
  }
  for (Guess& guess : guesses) *spec.add_space() = std::move(guess.spec);
  return spec;
}

}  // namespace luthier::cli
