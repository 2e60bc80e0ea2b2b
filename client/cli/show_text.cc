#include "client/cli/show_text.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "lib/base/printable.h"
#include "lib/wire/convert.h"
#include "lib/wire/json.h"

namespace luthier::cli {

std::string ShortTime(const google::protobuf::Timestamp& timestamp) {
  const absl::StatusOr<absl::Time> time = wire::FromProto(timestamp);
  return time.ok() ? absl::FormatTime("%Y-%m-%d %H:%M:%S", *time, absl::UTCTimeZone()) : "";
}

Cell ValueCell(const google::protobuf::Value& value) {
  const absl::StatusOr<study::ParameterValue> parsed = wire::FromProto(value);
  return parsed.ok() ? Cell::Value(*parsed) : Cell::Text(wire::ToJson(value).dump());
}

double MedianOf(std::vector<double> values) {
  const size_t half = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(half), values.end());
  if (values.size() % 2 == 1) return values[half];
  return (*std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(half)) + values[half]) / 2;
}

std::string OutcomeText(const v1::Training& training) {
  return absl::AsciiStrToLower(v1::Training::Outcome_Name(training.outcome()));
}

std::string Note(const v1::Trial& trial) {
  if (!trial.has_failure()) return "";
  return absl::StrCat(v1::Failure::Kind_Name(trial.failure().kind()), " ", trial.failure().reason());
}

std::string Indented(absl::string_view text) {
  return absl::StrCat("  ", absl::StrReplaceAll(absl::StripTrailingAsciiWhitespace(text), {{"\n", "\n  "}}));
}

void PrintMap(std::ostream& out, const char* title, const std::map<std::string, double>& values, bool exact) {
  if (values.empty()) return;
  out << title << ":\n";
  for (const auto& [name, value] : values) {
    out << "  " << Printable(name) << " = " << (exact ? study::FormatDouble(value) : ShortNumber(value)) << "\n";
  }
}

std::string UnitOf(const v1::StudySpec& spec) {
  return spec.resource().unit().empty() ? "steps" : Printable(spec.resource().unit());
}

std::vector<std::string> ParameterNames(const v1::StudySpec& spec, const std::vector<const v1::Trial*>& trials) {
  std::vector<std::string> names;
  std::set<std::string> known;
  for (const v1::ParameterSpec& p : spec.space()) {
    names.push_back(p.name());
    known.insert(p.name());
  }
  std::set<std::string> others;
  for (const v1::Trial* trial : trials) {
    for (const auto& [name, value] : trial->parameters().fields()) {
      if (known.count(name) == 0) others.insert(name);
    }
  }
  names.insert(names.end(), others.begin(), others.end());
  return names;
}

}  // namespace luthier::cli
