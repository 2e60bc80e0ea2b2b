#include "worker/objectives/result_line.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/notation/number.h"
#include "lib/study/parameters.h"

namespace luthier::worker {
namespace {

using Json = nlohmann::json;

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(what);
}

constexpr char kTraining[] = "training";
constexpr char kReplacement[] = "\xEF\xBF\xBD";  // U+FFFD in UTF-8.
constexpr char kGradientSeconds[] = "gradient_seconds";
constexpr char kGradients[] = "gradients";

// True if a key of the flat form is not a metric. Programs from before `training`, `gradient_seconds` and `gradients`
// had a meaning may use these names for metrics.
bool IsReserved(const std::string& key, const Json& value, const std::string& metric) {
  if (key == kTraining) return key != metric && !value.is_number();
  if (key == kGradientSeconds) return key != metric;
  if (key == kGradients) return key != metric && !value.is_number();
  for (const char* name : {"metrics", "step", "gradient", "error_bound", "checkpoint", "final", "pruned",
                           "elapsed_seconds", "start_step"}) {
    if (key == name) return true;
  }
  return false;
}

// Returns the number at the head of `text`, if it overflows a double; else empty.
absl::string_view Overflowing(absl::string_view text) {
  const absl::string_view number = text.substr(0, text.find_first_not_of("0123456789+-.eE"));
  double value = 0.0;
  return absl::SimpleAtod(number, &value) && std::isinf(value) ? number : absl::string_view();
}

// Quotes non-finite numbers. JSON has no NaN and no infinity, but many programs write them: such words outside of
// strings get quotes, and numbers beyond the largest double become such words.
std::string QuoteNonFinite(absl::string_view line) {
  std::string out;
  bool in_string = false;
  char before = ':';  // The last character outside of strings that is not blank.
  for (size_t i = 0; i < line.size();) {
    const bool value_begins = !in_string && (before == ':' || before == ',' || before == '[');
    if (value_begins && !absl::ascii_isspace(static_cast<unsigned char>(line[i]))) {
      const absl::string_view rest = line.substr(i);
      const absl::string_view word = rest.substr(0, rest.find_first_of(" \t\r\n\f\v,:]}\"{["));
      if (notation::ParseNonFinite(word)) {
        absl::StrAppend(&out, "\"", word, "\"");
        before = '"';
        i += word.size();
        continue;
      }
      if (const absl::string_view number = Overflowing(rest); !number.empty()) {
        out += number[0] == '-' ? "\"-Infinity\"" : "\"Infinity\"";
        before = '"';
        i += number.size();
        continue;
      }
    }
    if (in_string && line[i] == '\\' && i + 1 < line.size())
      out += line[i++];
    else if (line[i] == '"')
      in_string = !in_string;
    if (!in_string && !absl::ascii_isspace(static_cast<unsigned char>(line[i]))) before = line[i];
    out += line[i++];
  }
  return out;
}

// Returns the end of the word that begins at `text[at]`; `at` if none does.
size_t EndOfWord(absl::string_view text, size_t at) {
  const auto in_word = [&](size_t i) {
    return i < text.size() &&
           (absl::ascii_isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_' || text[i] == '.');
  };
  while (in_word(at)) ++at;
  return at;
}

// Calls found(key, depth) for everything that looks like an object's key, in quotes of either kind or in none; the text
// need not be JSON. `depth` is 1 on the top level. Returns true as soon as `found` does.
bool AnyKey(absl::string_view text, absl::FunctionRef<bool(absl::string_view, int)> found) {
  int depth = 0;
  char before = '\0';  // The last character that is not blank.
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (absl::ascii_isspace(static_cast<unsigned char>(c))) continue;
    size_t begin = i, end = i;
    if (c == '"' || c == '\'') {
      begin = end = i + 1;
      while (end < text.size() && text[end] != c) end += text[end] == '\\' ? 2 : 1;
      if (end >= text.size()) return false;
      i = end;
    } else if (before == '{' || before == ',') {
      end = EndOfWord(text, i);
      if (end > i) i = end - 1;
    }
    if (end > begin || c == '"' || c == '\'') {
      const size_t next = text.find_first_not_of(" \t\r\n", i + 1);
      const bool key = next != absl::string_view::npos && text[next] == ':';
      if (key && found(text.substr(begin, end - begin), depth)) return true;
    }
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    before = c;
  }
  return false;
}

// True if text that is not a JSON object has the metric nevertheless, on its top level or in "metrics" there.
bool NamesMetric(absl::string_view text, const std::string& metric) {
  bool in_metrics = false;
  return AnyKey(text, [&](absl::string_view key, int depth) {
    if (depth == 1) in_metrics = key == "metrics";
    return key == metric && (depth == 1 || (depth == 2 && in_metrics));
  });
}

// The number that stands for the metric in text that is no JSON object, such as a dictionary of Python's.
std::optional<double> NumberOfMetric(absl::string_view text, const std::string& metric) {
  std::optional<double> number;
  bool in_metrics = false;
  AnyKey(text, [&](absl::string_view key, int depth) {
    if (depth == 1) in_metrics = key == "metrics";
    if (key != metric || !(depth == 1 || (depth == 2 && in_metrics))) return false;
    const absl::string_view behind = text.substr(static_cast<size_t>(key.data() + key.size() - text.data()));
    const absl::string_view value = absl::StripLeadingAsciiWhitespace(behind.substr(behind.find(':') + 1));
    number = ParseNumber(value.substr(0, value.find_first_of(" \t\r\n,}])")));
    return true;
  });
  return number;
}

// The keys that JSON text has twice: on its top level and in "metrics" there.
std::set<std::string> TwiceNamed(absl::string_view text) {
  std::set<std::string> seen, in_metrics, twice;
  bool metrics = false;
  AnyKey(text, [&](absl::string_view key, int depth) {
    if (depth == 1) metrics = key == "metrics";
    const bool first = depth == 1              ? seen.emplace(key).second
                       : depth == 2 && metrics ? in_metrics.emplace(key).second
                                               : true;
    if (!first) twice.emplace(key);
    return false;
  });
  return twice;
}

// Replaces bytes that are not UTF-8, which JSON does not allow.
std::string Printable(absl::string_view line) {
  const std::string dumped = Json(line).dump(-1, ' ', false, Json::error_handler_t::replace);
  return Json::parse(dumped).get<std::string>();
}

// A line as JSON.
struct Object {
  Json json;
  std::set<std::string> twice;  // Keys that it has twice.
  bool damaged = false;         // True if bytes that are not UTF-8 were replaced.
};

absl::StatusOr<Object> ParseObject(absl::string_view line) {
  // Most lines are valid JSON.
  const auto parse = [](absl::string_view text) {
    return Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  };
  Object object;
  object.json = parse(line);
  if (object.json.is_discarded()) object.json = parse(QuoteNonFinite(line));
  if (object.json.is_discarded()) {
    object.json = parse(QuoteNonFinite(Printable(line)));
    object.damaged = true;
  }
  if (object.json.is_discarded()) {
    const absl::string_view text = absl::StripAsciiWhitespace(line);
    if (absl::StartsWith(text, "{") && !absl::EndsWith(text, "}"))
      return Bad("is not JSON: it does not end with its object");
    if (absl::StartsWith(text, "{'")) return Bad("is not JSON, whose names are in double quotes: use json.dumps");
    return Bad("is not JSON");
  }
  if (!object.json.is_object()) return Bad("is not a JSON object");
  object.twice = TwiceNamed(line);
  return object;
}

std::optional<double> ToNumber(const Json& json) {
  if (json.is_number()) {
    const double value = json.get<double>();
    return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
  }
  if (json.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!json.is_string()) return std::nullopt;
  // Only non-finite words are read from strings: "0.5" in quotes is a mistake that the user should hear about.
  const std::optional<double> value = ParseNumber(json.get_ref<const std::string&>());
  return value && !std::isfinite(*value) ? value : std::nullopt;
}

absl::StatusOr<std::vector<double>> ToVector(const Json& json, const char* field) {
  if (!json.is_array()) return Bad(absl::StrCat(field, ": is not a list of numbers"));
  std::vector<double> out;
  out.reserve(json.size());
  for (const Json& entry : json) {
    const std::optional<double> value = ToNumber(entry);
    if (!value) return Bad(absl::StrCat(field, "[", out.size(), "]: is not a number"));
    out.push_back(*value);
  }
  return out;
}

absl::StatusOr<study::Gradient> ToGradient(const Json& json) {
  study::Gradient gradient;
  if (json.is_array()) {
    LUTHIER_ASSIGN_OR_RETURN(gradient.values, ToVector(json, "gradient"));
    return gradient;
  }
  const char* form =
      "gradient: must be a list, {\"full\": list}, {\"by_name\": {name: number}}, {\"direction\": list, \"slope\": "
      "number} or, "
      "along the direction asked for, {\"slope\": number}";
  if (!json.is_object()) return Bad(form);
  for (const auto& [key, value] : json.items()) {
    if (key != "full" && key != "by_name" && key != "direction" && key != "slope" && key != "error_bound") {
      return Bad(absl::StrCat("gradient: unknown key ", base::Quote(key)));
    }
  }
  if (json.contains("full") && json.contains("direction")) return Bad(form);
  if (json.contains("by_name")) {
    if (json.contains("full") || json.contains("direction") || json.contains("slope")) return Bad(form);
    const Json& names = json["by_name"];
    if (!names.is_object() || names.empty()) return Bad(form);
    for (const auto& [name, value] : names.items()) {
      const std::optional<double> number = ToNumber(value);
      if (!number) return Bad(absl::StrCat("gradient.by_name: ", base::Quote(name), " is not a number"));
      gradient.by_name[name] = *number;
    }
    return gradient;
  }
  if (json.contains("full")) {
    if (json.contains("slope")) return Bad(form);
    LUTHIER_ASSIGN_OR_RETURN(gradient.values, ToVector(json["full"], "gradient.full"));
    return gradient;
  }
  if (json.contains("direction")) {
    LUTHIER_ASSIGN_OR_RETURN(gradient.direction, ToVector(json["direction"], "gradient.direction"));
    if (gradient.direction.empty()) return Bad("gradient.direction: is empty");
  } else if (!json.contains("slope")) {
    return Bad(form);
  }
  const std::optional<double> slope = json.contains("slope") ? ToNumber(json["slope"]) : std::nullopt;
  if (!slope) return Bad("gradient.slope: is missing or no number");
  gradient.slope = *slope;
  return gradient;
}

absl::StatusOr<std::optional<int64_t>> ReadStep(const Json& object, const char* key) {
  if (!object.contains(key)) return std::nullopt;
  constexpr double kMaxStep = 9007199254740992.0;  // 2^53
  const std::optional<double> step = ToNumber(object[key]);
  if (!step || !(*step >= 0.0 && *step <= kMaxStep) || *step != std::floor(*step)) {
    return Bad(absl::StrCat(key, ": is not a whole number of at least 0"));
  }
  return std::optional<int64_t>(static_cast<int64_t>(*step));
}

absl::Status ReadNotNegative(const Json& object, const char* key, std::optional<double>* out) {
  if (!object.contains(key)) return absl::OkStatus();
  *out = ToNumber(object[key]);
  if (*out && **out >= 0.0 && !std::isinf(**out)) return absl::OkStatus();
  return Bad(absl::StrCat(key, ": is not a number of at least 0"));
}

// Reads "limit", or {"outcome": "limit", "gradient_norm": 1e-3, "duality_gap": 2e-4}.
absl::StatusOr<study::TrainingReport> ToTraining(const Json& json) {
  const bool whole = json.is_object();
  const Json& outcome = whole && json.contains("outcome") ? json["outcome"] : json;
  if (!outcome.is_string())
    return Bad("must be an outcome, or {\"outcome\": \"converged\", \"gradient_norm\": number}");
  study::TrainingReport training;
  LUTHIER_ASSIGN_OR_RETURN(training.outcome,
                           study::ParseTrainingOutcome(absl::AsciiStrToLower(outcome.get_ref<const std::string&>())));
  if (!whole) return training;
  for (const auto& [key, value] : json.items()) {
    if (key != "outcome" && key != "gradient_norm" && key != "duality_gap") {
      return Bad(absl::StrCat("unknown key ", base::Quote(key)));
    }
  }
  LUTHIER_RETURN_IF_ERROR(ReadNotNegative(json, "gradient_norm", &training.gradient_norm));
  LUTHIER_RETURN_IF_ERROR(ReadNotNegative(json, "duality_gap", &training.duality_gap));
  return training;
}

// Reads the training. Malformed parts are left out with a note: the metrics are worth more.
void ReadTraining(const Json& object, const std::string& metric, ResultLine* out) {
  if (object.contains(kTraining) && IsReserved(kTraining, object[kTraining], metric) && !object[kTraining].is_null()) {
    const absl::StatusOr<study::TrainingReport> training = ToTraining(object[kTraining]);
    if (training.ok()) {
      out->measurement.training = *training;
    } else {
      out->notes.push_back(absl::StrCat("training is left out: ", std::string(training.status().message())));
    }
  }
  if (!object.contains(kGradientSeconds) || !IsReserved(kGradientSeconds, object[kGradientSeconds], metric)) return;
  std::optional<double>& seconds = out->measurement.gradient_seconds;
  if (ReadNotNegative(object, kGradientSeconds, &seconds).ok()) return;
  seconds.reset();
  out->notes.push_back(absl::StrCat(kGradientSeconds, " is left out: it is not a number of at least 0"));
}

absl::Status ReadFlag(const Json& object, const char* key, bool* flag) {
  if (!object.contains(key)) return absl::OkStatus();
  if (!object[key].is_boolean()) return Bad(absl::StrCat(key, ": is not true or false"));
  *flag = object[key].get<bool>();
  return absl::OkStatus();
}

void AddMetric(const std::string& key, double value, const std::string& metric, ResultLine* out) {
  if (!study::IsName(key)) {
    out->notes.push_back(absl::StrCat("metric ", base::Quote(key),
                                      " is left out: a name has letters, digits, '_' and '.' only, at most 64"));
    return;
  }
  // The study's own metric always has a place.
  auto& metrics = out->measurement.metrics;
  const int limit = metrics.count(metric) != 0 || key == metric ? kMaxMetrics : kMaxMetrics - 1;
  if (static_cast<int>(metrics.size()) >= limit) {
    out->notes.push_back(absl::StrCat("metric ", base::Quote(key), " is left out: a line has at most ", kMaxMetrics));
    return;
  }
  metrics[key] = value;
}

// Adds a metric beside the study's, which it never replaces.
void AddExtra(const std::string& key, const Json& json, const std::string& metric, ResultLine* out) {
  // Null is Python's None, which nobody measured.
  const std::optional<double> value = json.is_null() ? std::nullopt : ToNumber(json);
  if (value) {
    AddMetric(key, *value, metric, out);
  } else {
    out->notes.push_back(absl::StrCat(base::Quote(key), " is left out: it is not a number"));
    out->no_numbers.insert(key);
  }
}

// Returns the study's metric, from "metrics" or from the top level; null if it is not there.
const Json* FindMetric(const Json& object, const std::string& metric, bool in_metrics) {
  if (in_metrics) {
    const auto metrics = object.find("metrics");
    if (metrics == object.end() || !metrics->is_object()) return nullptr;
    const auto it = metrics->find(metric);
    return it == metrics->end() ? nullptr : &*it;
  }
  const auto it = object.find(metric);
  return it == object.end() || IsReserved(metric, *it, metric) ? nullptr : &*it;
}

absl::Status ReadMetrics(const Json& object, const std::string& metric, ResultLine* out) {
  const Json* const inner = FindMetric(object, metric, true);
  const Json* const outer = FindMetric(object, metric, false);
  if (inner != nullptr && outer != nullptr && *inner != *outer) {
    return Bad(absl::StrCat(metric, ": is there twice, with two values"));
  }
  if (const Json* const own = inner != nullptr ? inner : outer; own != nullptr) {
    const std::optional<double> value = ToNumber(*own);
    if (!value) return Bad(absl::StrCat(inner != nullptr ? "metrics." : "", metric, ": is not a number"));
    AddMetric(metric, *value, metric, out);
  }
  const bool nested = object.contains("metrics");
  const bool listed = nested && object["metrics"].is_object();
  if (nested && !listed) {
    if (outer == nullptr) return Bad("metrics: is not an object of numbers");
    out->notes.push_back("\"metrics\" is left out: it is not an object of numbers");
  }
  for (const auto& [key, json] : (listed ? object["metrics"] : object).items()) {
    if (key != metric && (listed || !IsReserved(key, json, metric))) AddExtra(key, json, metric, out);
  }
  const bool nothing = out->measurement.metrics.empty();
  if (out->measurement.metrics.count(metric) != 0 || (nothing && !nested && object.contains("checkpoint"))) {
    return absl::OkStatus();
  }
  std::vector<std::string> names;
  for (const auto& [name, value] : out->measurement.metrics) names.push_back(name);
  return Bad(absl::StrCat("has no number ", base::Quote(metric), ", the study's metric",
                          nothing ? "" : absl::StrCat("; it has ", base::Quote(names.front()))));
}

// Refuses keys that must not be there twice, since their values may differ: the metric, and those that decide the
// meaning of the line.
absl::Status ReadTwice(const Object& object, const std::string& metric, ResultLine* out) {
  for (const std::string& key : object.twice) {
    const bool extra = key == kTraining || key == kGradientSeconds || key == kGradients || key == "elapsed_seconds";
    const bool counts = key == metric || (!extra && IsReserved(key, Json(), metric));
    if (counts) return Bad(absl::StrCat(key, ": is there twice"));
    out->notes.push_back(absl::StrCat(base::Quote(key), " is there twice; the last one counts"));
  }
  return absl::OkStatus();
}

absl::Status ReadGradient(const Json& object, ResultLine* out) {
  if (!object.contains("gradient") || object["gradient"].is_null()) return absl::OkStatus();
  study::Measurement& m = out->measurement;
  LUTHIER_ASSIGN_OR_RETURN(m.gradient, ToGradient(object["gradient"]));
  const Json& gradient = object["gradient"];
  out->along_asked = gradient.is_object() && !gradient.contains("full") && !gradient.contains("direction") &&
                     !gradient.contains("by_name");
  const bool inside = gradient.is_object() && gradient.contains("error_bound");
  if (inside || object.contains("error_bound")) {
    m.gradient->error_bound = ToNumber(inside ? gradient["error_bound"] : object["error_bound"]);
    if (!m.gradient->error_bound) return Bad("error_bound: is not a number");
  }
  return absl::OkStatus();
}

// Reads {"METRIC": gradient, …}. Malformed ones are left out with a note.
void ReadGradients(const Json& object, const std::string& metric, ResultLine* out) {
  const auto found = object.find(kGradients);
  if (found == object.end() || found->is_null() || !IsReserved(kGradients, *found, metric)) return;
  if (!found->is_object()) {
    out->notes.push_back("gradients are left out: they are not an object with a gradient for each metric");
    return;
  }
  for (const auto& [name, json] : found->items()) {
    absl::StatusOr<study::Gradient> gradient = ToGradient(json);
    const bool along_asked = json.is_object() && json.contains("slope") && !json.contains("direction");
    if (gradient.ok() && along_asked) gradient = Bad("gradient.direction: is missing");
    if (gradient.ok() && json.is_object() && json.contains("error_bound")) {
      gradient->error_bound = ToNumber(json["error_bound"]);
      if (!gradient->error_bound) gradient = Bad("error_bound: is not a number");
    }
    if (gradient.ok()) {
      out->measurement.gradients.emplace(name, *std::move(gradient));
    } else {
      out->notes.push_back(
          absl::StrCat("gradients[", base::Quote(name), "] is left out: ", std::string(gradient.status().message())));
    }
  }
}

absl::Status ReadCheckpoint(const Object& line, ResultLine* out) {
  const Json& object = line.json;
  if (!object.contains("checkpoint") || object["checkpoint"].is_null()) return absl::OkStatus();
  const Json& checkpoint = object["checkpoint"];
  if (!checkpoint.is_string()) return Bad("checkpoint: is not a string");
  out->checkpoint = checkpoint.get<std::string>();
  if (out->checkpoint.size() > kMaxCheckpointBytes) {
    return Bad(absl::StrCat("checkpoint: has ", out->checkpoint.size(), " bytes; at most ", kMaxCheckpointBytes,
                            " are allowed: it is a reference, such as a path"));
  }
  if (out->checkpoint.find('\0') != std::string::npos) return Bad("checkpoint: contains a zero byte");
  if (line.damaged && absl::StrContains(out->checkpoint, kReplacement)) return Bad("checkpoint: is not UTF-8");
  return absl::OkStatus();
}

absl::StatusOr<ResultLine> ReadObject(const Object& line, const std::string& metric) {
  const Json& object = line.json;
  ResultLine out;
  LUTHIER_RETURN_IF_ERROR(ReadTwice(line, metric, &out));
  LUTHIER_RETURN_IF_ERROR(ReadMetrics(object, metric, &out));
  study::Measurement& m = out.measurement;
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<int64_t> step, ReadStep(object, "step"));
  m.step = step.value_or(0);
  out.has_step = step.has_value();
  LUTHIER_ASSIGN_OR_RETURN(out.start_step, ReadStep(object, "start_step"));
  // Any other value is a metric of that name.
  out.complete = object.contains("complete") && object["complete"] == true;
  if (!ReadNotNegative(object, "elapsed_seconds", &m.elapsed_seconds).ok()) {
    m.elapsed_seconds.reset();
    out.notes.push_back("elapsed_seconds is left out: it is not a number of at least 0");
  }
  ReadTraining(object, metric, &out);
  LUTHIER_RETURN_IF_ERROR(ReadGradient(object, &out));
  ReadGradients(object, metric, &out);
  LUTHIER_RETURN_IF_ERROR(ReadCheckpoint(line, &out));
  LUTHIER_RETURN_IF_ERROR(ReadFlag(object, "final", &out.final));
  LUTHIER_RETURN_IF_ERROR(ReadFlag(object, "pruned", &out.pruned));
  if (out.pruned) out.final = true;
  if (out.final && m.metrics.empty()) return Bad(absl::StrCat("is final but has no number ", base::Quote(metric)));
  if (line.damaged) out.notes.push_back("bytes of a result that are not UTF-8 are replaced");
  return out;
}

// Removes from the ends of a line what a terminal would not show: blanks, a byte-order mark, backspaces, and sequences
// that set colours.
absl::string_view Shown(absl::string_view text) {
  while (true) {
    const absl::string_view before = text;
    text = absl::StripAsciiWhitespace(text);
    absl::ConsumePrefix(&text, "\xEF\xBB\xBF");
    while (absl::ConsumePrefix(&text, "\b")) continue;
    constexpr char kEscape[] = "\x1B[";
    constexpr char kParameters[] = "0123456789;";
    if (absl::StartsWith(text, kEscape)) {
      const size_t end = text.find_first_not_of(kParameters, 2);
      if (end != absl::string_view::npos) text.remove_prefix(end + 1);
    }
    if (const size_t last = text.rfind(kEscape); last != absl::string_view::npos) {
      const size_t end = text.find_first_not_of(kParameters, last + 2);
      if (end != absl::string_view::npos && end + 1 == text.size()) text.remove_suffix(text.size() - last);
    }
    if (text == before) return text;
  }
}

bool SaysFinal(const Json& object) {
  const auto is_true = [&](const char* key) { return object.contains(key) && object[key] == true; };
  return is_true("final") || is_true("pruned");
}

LineContent Malformed(absl::string_view why) {
  LineContent out;
  out.kind = LineContent::Kind::kMalformed;
  out.why = std::string(why);
  return out;
}

// Reads text that begins with a brace.
LineContent OfObject(absl::string_view text, const std::string& metric, bool behind_text) {
  LineContent out;
  const absl::StatusOr<Object> object = ParseObject(text);
  if (!object.ok() && !behind_text) return NamesMetric(text, metric) ? Malformed(object.status().message()) : out;
  const Json* own = object.ok() ? FindMetric(object->json, metric, true) : nullptr;
  if (own == nullptr && object.ok()) own = FindMetric(object->json, metric, false);
  if (behind_text) {
    const std::optional<double> value = own != nullptr ? ToNumber(*own)
                                        : object.ok()  ? std::nullopt
                                                       : NumberOfMetric(text, metric);
    if (!value) return out;
    out.kind = LineContent::Kind::kAside;
    out.value = *value;
    out.why = "has a result behind other text; print the object on a line of its own";
    return out;
  }
  absl::StatusOr<ResultLine> line = ReadObject(*object, metric);
  if (own == nullptr) {
    if (!object->json.contains("metrics")) return out;
    out.kind = LineContent::Kind::kOther;
    out.why = std::string(line.status().message());
  } else if (line.ok()) {
    out.kind = LineContent::Kind::kResult;
    out.line = *std::move(line);
  } else {
    out = Malformed(line.status().message());
    out.final = SaysFinal(object->json);
  }
  return out;
}

// True if text is a JSON list whose last entry is an object with the metric.
bool IsListOfResults(absl::string_view text, const std::string& metric) {
  const Json list = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  return list.is_array() && !list.empty() && list.back().is_object() &&
         (FindMetric(list.back(), metric, true) != nullptr || FindMetric(list.back(), metric, false) != nullptr);
}

constexpr size_t kMaxLinesOfObject = 8 << 20;  // Most bytes of an object on several lines; a line has the same limit.

// Returns the number of open brackets behind `text`, if `depth` are open before it; 0 as soon as all are closed,
// whatever follows.
int DepthBehind(absl::string_view text, int depth) {
  char quote = '\0';
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != '\0') {
      if (c == '\\') {
        ++i;
      } else if (c == quote) {
        quote = '\0';
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth <= 0) {
      return 0;
    }
  }
  return depth;
}

}  // namespace

absl::StatusOr<ResultLine> ParseResultLine(absl::string_view line, const std::string& metric) {
  LUTHIER_ASSIGN_OR_RETURN(const Object object, ParseObject(line));
  return ReadObject(object, metric);
}

LineContent ResultFinder::Add(const TextLine& line) {
  LineContent found = OfLine(line);
  if (found.kind == LineContent::Kind::kText) return OfLines(line);
  object_.clear();
  return found;
}

LineContent ResultFinder::OfLine(const TextLine& line) const {
  const absl::string_view text = Shown(line.text);
  const size_t brace = text.find('{');
  if (brace == absl::string_view::npos) return {};
  const bool behind_text = brace > 0 && !line.overwrites;
  if (line.cut) return behind_text ? LineContent() : Malformed("");
  const bool may = absl::StrContains(text, metric_) || absl::StrContains(text, "\"metrics\"");
  if (may && text[0] == '[' && IsListOfResults(text, metric_)) return Malformed("is a list; a result is one object");
  LineContent found = may ? OfObject(text.substr(brace), metric_, behind_text) : LineContent();
  if (found.kind != LineContent::Kind::kText) return found;
  const bool begun = absl::StartsWith(text, "{\"") && !absl::EndsWith(text, "}");
  return !line.ended && begun ? Malformed("is not JSON: it does not end with its object") : found;
}

LineContent ResultFinder::OfLines(const TextLine& line) {
  const absl::string_view text = Shown(line.text);
  if (object_.empty() || line.text == "{") {  // "{" alone begins a new object, even if another is open.
    object_.clear();
    const size_t begin = text == "[" ? 0 : text.find('{');
    if (begin == absl::string_view::npos) return {};
    depth_ = DepthBehind(text.substr(begin), 0);
    if (depth_ == 0) return {};
    behind_text_ = begin > 0 && !line.overwrites;
    object_ = std::string(text.substr(begin));
    return {};
  }
  absl::StrAppend(&object_, "\n", text);
  depth_ = DepthBehind(text, depth_);
  if (depth_ > 0 && object_.size() <= kMaxLinesOfObject) return {};
  return End();
}

LineContent ResultFinder::End() {
  if (object_.empty()) return {};
  const std::string whole = std::exchange(object_, "");
  if (whole[0] != '[') return OfObject(whole, metric_, behind_text_);
  return IsListOfResults(whole, metric_) ? Malformed("is a list; a result is one object") : LineContent();
}

std::optional<double> ParseNumber(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (const std::optional<double> value = notation::ParseNonFinite(text)) return value;
  double value = 0.0;
  if (!absl::SimpleAtod(text, &value)) return std::nullopt;
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

}  // namespace luthier::worker
