#include "worker/objectives/result_line.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/parameters.h"

namespace luthier::worker {
namespace {

using Json = nlohmann::json;

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(what);
}

constexpr char kTraining[] = "training";
constexpr char kGradientSeconds[] = "gradient_seconds";

// Whether a key of the flat form is no metric. Programs from before the last two had a meaning may give them another.
bool IsReserved(const std::string& key, const Json& value, const std::string& metric) {
  if (key == kTraining) return key != metric && !value.is_number();
  if (key == kGradientSeconds) return key != metric;
  for (const char* name : {"metrics", "step", "gradient", "error_bound", "checkpoint", "final", "pruned",
                           "elapsed_seconds", "start_step"}) {
    if (key == name) return true;
  }
  return false;
}

// The number at the head of `text`, when it is one that no double holds; else empty.
absl::string_view Overflowing(absl::string_view text) {
  const absl::string_view number = text.substr(0, text.find_first_not_of("0123456789+-.eE"));
  double value = 0.0;
  return absl::SimpleAtod(number, &value) && std::isinf(value) ? number : absl::string_view();
}

// JSON has no NaN, but Python's json module writes it: such words outside of strings get quotes, and numbers beyond the
// largest double become such words.
std::string QuoteNonFinite(absl::string_view line) {
  std::string out;
  bool in_string = false;
  for (size_t i = 0; i < line.size();) {
    if (!in_string && (line[i] == 'N' || line[i] == 'I' || line[i] == '-')) {
      bool found = false;
      for (const absl::string_view word : {"NaN", "Infinity", "-Infinity", "-NaN"}) {
        if (!absl::StartsWith(line.substr(i), word)) continue;
        absl::StrAppend(&out, "\"", word, "\"");
        i += word.size();
        found = true;
        break;
      }
      if (found) continue;
    }
    const bool new_number = out.empty() || absl::StrContains(" \t:,[", out.substr(out.size() - 1));
    if (!in_string && new_number && (absl::ascii_isdigit(line[i]) || line[i] == '-')) {
      if (const absl::string_view number = Overflowing(line.substr(i)); !number.empty()) {
        out += number[0] == '-' ? "\"-Infinity\"" : "\"Infinity\"";
        i += number.size();
        continue;
      }
    }
    if (in_string && line[i] == '\\' && i + 1 < line.size())
      out += line[i++];
    else if (line[i] == '"')
      in_string = !in_string;
    out += line[i++];
  }
  return out;
}

absl::StatusOr<Json> ParseObject(absl::string_view line) {
  // Most lines are JSON as it should be.
  Json plain = Json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  if (plain.is_object()) return plain;
  const std::string text = QuoteNonFinite(line);
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Bad("is not JSON");
  if (!json.is_object()) return Bad("is not a JSON object");
  return json;
}

std::optional<double> ToNumber(const Json& json) {
  if (json.is_number()) {
    const double value = json.get<double>();
    return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
  }
  if (json.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!json.is_string()) return std::nullopt;
  // Only the non-finite words, as strings: "0.5" in quotes is a mistake worth hearing about.
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
      "gradient: must be a list, {\"full\": list}, {\"by_name\": {name: number}}, {\"direction\": list, \"slope\": number} or, "
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

// "limit", or {"outcome": "limit", "gradient_norm": 1e-3, "duality_gap": 2e-4}.
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

// What is malformed here is left out with a note: the metrics are worth more.
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

absl::Status ReadMetrics(const Json& object, const std::string& metric, ResultLine* out) {
  const bool nested = object.contains("metrics");
  const Json& source = nested ? object["metrics"] : object;
  if (!source.is_object()) return Bad("metrics: is not an object of numbers");
  for (const auto& [key, json] : source.items()) {
    if (!nested && IsReserved(key, json, metric)) continue;
    const std::optional<double> value = ToNumber(json);
    if (value) {
      AddMetric(key, *value, metric, out);
    } else if (nested || key == metric) {
      return Bad(absl::StrCat(nested ? "metrics." : "", key, ": is not a number"));
    }
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

}  // namespace

absl::StatusOr<ResultLine> ParseResultLine(absl::string_view line, const std::string& metric) {
  LUTHIER_ASSIGN_OR_RETURN(const Json object, ParseObject(line));
  ResultLine out;
  LUTHIER_RETURN_IF_ERROR(ReadMetrics(object, metric, &out));
  study::Measurement& m = out.measurement;
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<int64_t> step, ReadStep(object, "step"));
  m.step = step.value_or(0);
  out.has_step = step.has_value();
  LUTHIER_ASSIGN_OR_RETURN(out.start_step, ReadStep(object, "start_step"));
  // Any other value is a metric of that name.
  out.complete = object.contains("complete") && object["complete"] == true;
  LUTHIER_RETURN_IF_ERROR(ReadNotNegative(object, "elapsed_seconds", &m.elapsed_seconds));
  ReadTraining(object, metric, &out);
  if (object.contains("gradient") && !object["gradient"].is_null()) {
    LUTHIER_ASSIGN_OR_RETURN(m.gradient, ToGradient(object["gradient"]));
    const Json& gradient = object["gradient"];
    out.along_asked = gradient.is_object() && !gradient.contains("full") && !gradient.contains("direction") &&
                      !gradient.contains("by_name");
    const bool inside = gradient.is_object() && gradient.contains("error_bound");
    if (inside || object.contains("error_bound")) {
      m.gradient->error_bound = ToNumber(inside ? gradient["error_bound"] : object["error_bound"]);
      if (!m.gradient->error_bound) return Bad("error_bound: is not a number");
    }
  }
  if (object.contains("checkpoint") && !object["checkpoint"].is_null()) {
    const Json& checkpoint = object["checkpoint"];
    if (!checkpoint.is_string()) return Bad("checkpoint: is not a string");
    out.checkpoint = checkpoint.get<std::string>();
    if (out.checkpoint.size() > kMaxCheckpointBytes) {
      return Bad(absl::StrCat("checkpoint: has ", out.checkpoint.size(), " bytes; at most ", kMaxCheckpointBytes,
                              " are allowed: it is a reference, such as a path"));
    }
    if (out.checkpoint.find('\0') != std::string::npos) return Bad("checkpoint: contains a zero byte");
  }
  LUTHIER_RETURN_IF_ERROR(ReadFlag(object, "final", &out.final));
  LUTHIER_RETURN_IF_ERROR(ReadFlag(object, "pruned", &out.pruned));
  if (out.pruned) out.final = true;
  if (out.final && m.metrics.empty()) return Bad(absl::StrCat("is final but has no number ", base::Quote(metric)));
  return out;
}

bool LooksLikeResult(absl::string_view line, const std::string& metric) {
  const absl::string_view text = absl::StripAsciiWhitespace(line);
  if (!absl::StartsWith(text, "{") || !absl::EndsWith(text, "}")) return false;
  if (!absl::StrContains(text, absl::StrCat("\"", metric, "\"")) && !absl::StrContains(text, "\"metrics\""))
    return false;
  const absl::StatusOr<Json> object = ParseObject(text);
  return object.ok() && (object->contains(metric) || object->contains("metrics"));
}

std::optional<double> ParseNumber(absl::string_view text) {
  double value = 0.0;
  if (!absl::SimpleAtod(text, &value)) return std::nullopt;
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

}  // namespace luthier::worker
