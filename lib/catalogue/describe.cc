#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/check.h"
#include "lib/catalogue/registry.h"

namespace luthier::catalogue {
namespace {

using study::FormatDouble;

constexpr size_t kWidth = 100;

// Words of `text` in lines of at most kWidth characters, each behind `indent`.
std::string Wrap(const std::string& text, const std::string& indent) {
  std::string out;
  std::string line = indent;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (line.size() > indent.size() && line.size() + 1 + word.size() > kWidth) {
      absl::StrAppend(&out, line, "\n");
      line = indent;
    }
    absl::StrAppend(&line, line.size() > indent.size() ? " " : "", word);
  }
  return absl::StrCat(out, line, "\n");
}

std::string Facts(const ParameterInfo& p) {
  std::vector<std::string> facts = {std::string(ParameterKindName(p.kind))};
  if (p.kind == ParameterKind::kFloat || p.kind == ParameterKind::kInt) {
    facts.push_back(absl::StrCat(FormatDouble(p.min), " to ", FormatDouble(p.max)));
  }
  if (p.kind == ParameterKind::kCategorical) facts.push_back(absl::StrJoin(p.labels, " | "));
  if (!p.units.empty()) facts.push_back(p.units);
  if (p.required()) {
    facts.push_back("required");
  } else if (p.optional) {
    facts.push_back("optional");
  } else {
    const std::string text = study::FormatValue(*p.default_value);
    facts.push_back(absl::StrCat("default ", text.empty() ? "empty" : text));
  }
  if (p.tunable && (p.kind == ParameterKind::kFloat || p.kind == ParameterKind::kInt)) {
    facts.push_back(absl::StrCat("search ", FormatDouble(p.suggested_min), " to ", FormatDouble(p.suggested_max),
                                 p.suggested_scale == study::Scale::kLog ? " LOG" : ""));
  }
  if (p.differentiable) facts.push_back("gradient");
  return absl::StrJoin(facts, ", ");
}

void AppendParameters(const ObjectiveInfo& info, bool tunable, const char* title, std::string* out) {
  bool first = true;
  for (const ParameterInfo& p : info.parameters) {
    if (p.tunable != tunable) continue;
    if (first) absl::StrAppend(out, "\n", title, "\n");
    first = false;
    absl::StrAppend(out, "  ", p.name, " (", Facts(p), ")\n", Wrap(p.description, "      "));
  }
}

// Returns the parameters that a first study searches: those that have no default, or else the first one that can be
// searched, since a study has at least one.
std::vector<const ParameterInfo*> Searched(const ObjectiveInfo& info) {
  std::vector<const ParameterInfo*> searched;
  for (const ParameterInfo& p : info.parameters) {
    if (p.required()) searched.push_back(&p);
  }
  if (!searched.empty()) return searched;
  const auto first = std::find_if(info.parameters.begin(), info.parameters.end(),
                                  [](const ParameterInfo& p) { return p.tunable && p.kind == ParameterKind::kFloat; });
  if (first != info.parameters.end()) searched.push_back(&*first);
  return searched;
}

void AppendExample(const ObjectiveInfo& info, std::string* out) {
  absl::StrAppend(out, "\nExample\n  space:\n");
  bool needed = false;
  for (const ParameterInfo* p : Searched(info)) {
    needed = needed || p->required();
    absl::StrAppend(out, "    - {name: ", p->name, ", float: {min: ", FormatDouble(p->suggested_min),
                    ", max: ", FormatDouble(p->suggested_max),
                    p->suggested_scale == study::Scale::kLog ? ", scale: LOG" : "", "}}\n");
  }
  const MetricInfo& metric = info.metrics[0];
  absl::StrAppend(
      out, "  objective: {builtin: {model: \"", info.model, "\"",
      info.needs_data ? absl::StrCat(", data: \"", info.data_example, "\", split: {validation: 0.25, seed: 1}") : "",
      "}}\n  metric: {name: ", metric.name, ", goal: ", metric.goal == study::Goal::kMinimize ? "MINIMIZE" : "MAXIMIZE",
      "}\n");
  // A trial of such an objective chooses the strengths itself.
  if (!needed) absl::StrAppend(out, "  budget: {max_trials: 2}\n");
}

}  // namespace

std::string DescribeShort(const ObjectiveInfo& info) {
  return absl::StrFormat("%-24s %s", info.model, info.description);
}

std::string Describe(const ObjectiveInfo& info) {
  std::string out = absl::StrCat(info.model, "\n", Wrap(info.description, "  "), "\n", Wrap(info.details, "  "));
  AppendParameters(info, true, "Parameters (in the search space, or fixed in options)", &out);
  AppendParameters(info, false, "Options", &out);
  absl::StrAppend(&out, "\nMetrics\n");
  for (const MetricInfo& m : info.metrics) {
    absl::StrAppend(&out, "  ", m.name, " (", m.goal == study::Goal::kMinimize ? "MINIMIZE" : "MAXIMIZE",
                    m.gradient ? ", with gradient" : "", ")\n", Wrap(m.description, "      "));
  }
  if (info.needs_data) absl::StrAppend(&out, "\nData\n", Wrap(info.data_formats, "  "));
  AppendExample(info, &out);
  return out;
}

study::SearchSpace SuggestedSpace(const ObjectiveInfo& info) {
  std::vector<study::ParameterSpec> specs;
  for (const ParameterInfo* p : Searched(info)) {
    LUTHIER_CHECK(p->kind == ParameterKind::kFloat && p->tunable);
    study::FloatRange range;
    range.min = p->suggested_min;
    range.max = p->suggested_max;
    range.scale = p->suggested_scale;
    study::ParameterSpec spec;
    spec.name = p->name;
    spec.domain = range;
    specs.push_back(std::move(spec));
  }
  absl::StatusOr<study::SearchSpace> space = study::SearchSpace::Create(std::move(specs));
  LUTHIER_CHECK(space.ok());
  return *std::move(space);
}

}  // namespace luthier::catalogue
