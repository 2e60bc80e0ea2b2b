#include "lib/catalogue/registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/catalogue/chain_groups.h"
#include "lib/catalogue/crf_info.h"
#include "lib/catalogue/function_info.h"
#include "lib/catalogue/linear_info.h"
#include "lib/catalogue/matrix_info.h"
#include "lib/catalogue/penalty_groups.h"
#include "lib/catalogue/regression_info.h"
#include "lib/catalogue/settings.h"
#include "lib/catalogue/test_functions.h"
#include "lib/catalogue/vf_idca_info.h"
#include "lib/notation/synth_specs.h"
#include "lib/notation/synth_uri.h"
#include "lib/study/metrics.h"
#include "lib/study/warm_start.h"

namespace luthier::catalogue {
namespace {

using base::Quote;
using study::FormatDouble;

constexpr char kAt[] = "objective.builtin";

std::string Name(const char* kind) {
  return absl::StrCat(".", kind);
}

// Checks the parameter's range in the space against the objective's legal range.
void CheckRange(const ParameterInfo& info, double min, double max, const std::string& at,
                base::Violations* violations) {
  for (const auto& [end, value] : {std::pair<const char*, double>{"min", min}, {"max", max}}) {
    if (value >= info.min && value <= info.max) continue;
    violations->Add(absl::StrCat(at, ".", end),
                    absl::StrCat(FormatDouble(value), " is not in [", FormatDouble(info.min), ", ",
                                 FormatDouble(info.max), "], the legal range of ", info.name));
  }
}

void CheckDomain(const ParameterInfo& info, const study::ParameterDomain& domain, const std::string& at,
                 base::Violations* violations) {
  const auto wrong_kind = [&](const char* kind) {
    violations->Add(at + Name(kind), absl::StrCat(info.name, " is a ", std::string(ParameterKindName(info.kind)),
                                                  " parameter, not ", kind));
  };
  const bool number = info.kind == ParameterKind::kFloat || info.kind == ParameterKind::kInt;
  if (const auto* range = std::get_if<study::FloatRange>(&domain)) {
    if (info.kind != ParameterKind::kFloat) return wrong_kind("float");
    CheckRange(info, range->min, range->max, at + ".float", violations);
  } else if (const auto* ints = std::get_if<study::IntRange>(&domain)) {
    if (!number) return wrong_kind("int");
    CheckRange(info, static_cast<double>(ints->min), static_cast<double>(ints->max), at + ".int", violations);
  } else if (std::holds_alternative<study::BoolSwitch>(domain)) {
    if (info.kind != ParameterKind::kBool) return wrong_kind("bool");
  } else {
    const auto* ordinal = std::get_if<study::OrdinalLabels>(&domain);
    const char* kind = ordinal != nullptr ? "ordinal" : "categorical";
    if (info.kind != ParameterKind::kCategorical) return wrong_kind(kind);
    const std::vector<std::string>& labels =
        ordinal != nullptr ? ordinal->labels : std::get<study::CategoricalLabels>(domain).labels;
    for (size_t i = 0; i < labels.size(); ++i) {
      const absl::Status status = CheckValue(info, labels[i], absl::StrCat(at, ".", kind, ".values[", i, "]"));
      violations->AddAll("", status);
    }
  }
}

std::vector<std::string> ParameterNames(const ObjectiveInfo& info, bool tunable_only) {
  std::vector<std::string> names;
  for (const ParameterInfo& p : info.parameters) {
    if (p.tunable || !tunable_only) names.push_back(p.name);
  }
  return names;
}

bool PredictsNumbers(const ObjectiveInfo& info) {
  return IsRegression(info) || (IsVfIdca(info) && info.model != "vf_svm") || info.model == "matrix_completion";
}

std::string Joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) absl::StrAppend(&text, text.empty() ? "" : ", ", name);
  return text;
}

void CheckSpace(const ObjectiveInfo& info, const study::BuiltinObjective& objective, const study::SearchSpace& space,
                base::Violations* violations) {
  for (int i = 0; i < space.size(); ++i) {
    const study::ParameterSpec& spec = space.parameters()[i];
    const std::string at = absl::StrCat("space[", i, "]");
    const ParameterInfo* p = info.FindParameter(spec.name);
    if (p == nullptr) {
      const std::vector<std::string> names = ParameterNames(info, true);
      const bool group = (absl::StartsWith(spec.name, "l2.") || absl::StartsWith(spec.name, "l1.")) &&
                         info.FindParameter(kGroupsOption) != nullptr;
      violations->Add(at + ".name",
                      absl::StrCat("objective ", info.model, " has no parameter ", Quote(spec.name),
                                   base::DidYouMean(spec.name, names), "; it takes ", Joined(names),
                                   group ? absl::StrCat(" (groups are named in ", kAt, ".options.", kGroupsOption, ")")
                                         : std::string()));
      continue;
    }
    if (!p->tunable) {
      violations->Add(at + ".name", absl::StrCat(spec.name, " cannot be tuned; set it in ", kAt, ".options"));
      continue;
    }
    if (objective.options.contains(spec.name)) {
      violations->Add(at + ".name",
                      absl::StrCat(spec.name, " is held fixed in ", kAt, ".options; remove one of the two"));
    }
    if (spec.is_vector() && !p->vector) {
      violations->Add(at + ".count",
                      absl::StrCat(spec.name, " of objective ", info.model, " is one number; remove count"));
    }
    if (spec.condition && p->required()) {
      violations->Add(at + ".condition", absl::StrCat(spec.name, " is needed in every trial; remove the condition"));
    }
    CheckDomain(*p, spec.domain, at, violations);
  }
  for (const ParameterInfo& p : info.parameters) {
    if (!p.required() || objective.options.contains(p.name) || space.Find(p.name)) continue;
    violations->Add("space", absl::StrCat("lacks ", p.name, ", which objective ", info.model,
                                          " needs; add it, or hold it fixed in ", kAt, ".options"));
  }
}

void CheckData(const ObjectiveInfo& info, const study::BuiltinObjective& objective, base::Violations* violations) {
  const std::string field = absl::StrCat(kAt, ".data");
  if (!info.needs_data) {
    if (!objective.data.empty())
      violations->Add(field, absl::StrCat("objective ", info.model, " takes no data; remove it"));
    return;
  }
  if (objective.data.empty()) {
    violations->Add(field, absl::StrCat("is required: a path below the worker's data root, or ", info.data_example));
  } else if (notation::IsSynth(objective.data)) {
    const auto format = objective.options.find("format");
    const auto* text = format == objective.options.end() ? nullptr : std::get_if<std::string>(&format->second);
    const absl::Status status = info.model == "crf"
                                    ? notation::CheckSynthChains(objective.data, text == nullptr ? "" : *text)
                                    : notation::CheckSynthRows(objective.data, PredictsNumbers(info));
    if (!status.ok()) violations->Add(field, std::string(status.message()));
  } else if (objective.data[0] == '/') {
    violations->Add(field, "is an absolute path; give one relative to the worker's data root");
  }
}

void CheckListL2(const ObjectiveInfo& info, const study::BuiltinObjective& objective, const study::SearchSpace& space,
                 base::Violations* violations) {
  const ParameterInfo* l2 = info.FindParameter("l2");
  if (l2 == nullptr || !l2->vector) return;
  if (!LengthOf("l2", objective.options, space)) {
    if (objective.options.contains("l2_per")) {
      violations->Add(absl::StrCat(kAt, ".options.l2_per"),
                      "is for a list l2; give parameter l2 a count, or remove l2_per");
    }
    return;
  }
  if (objective.options.contains(kGroupsOption)) {
    violations->Add(absl::StrCat(kAt, ".options.", kGroupsOption),
                    "and a list l2 exclude each other: the list has a strength for each column; remove one of the two");
  }
}

// Checks for fields of `split` that the objective cannot have.
void CheckSplit(const ObjectiveInfo& info, const study::BuiltinObjective& objective, base::Violations* violations) {
  const study::Split& split = objective.split;
  const bool rows = info.needs_data && info.model != "crf";
  for (const auto& [name, given] : {std::pair<const char*, bool>{"third", split.third > 0.0},
                                    {"stratify", split.stratify.has_value()},
                                    {"group_column", !split.group_column.empty()},
                                    {"time_column", !split.time_column.empty()},
                                    {"validation_data", !split.validation_data.empty()}}) {
    if (!given || rows) continue;
    const bool named = info.model == "crf" && std::string(name) == "validation_data";
    violations->Add(absl::StrCat(kAt, ".split.", name),
                    named ? absl::StrCat("is option validation_data of crf; move it to ", kAt, ".options")
                          : absl::StrCat("is not for objective ", info.model, "; remove it"));
  }
  if (!rows) return;
  const bool numbers = PredictsNumbers(info);
  if (IsVfIdca(info) && numbers && split.folds > 0) {
    violations->Add(absl::StrCat(kAt, ".split.folds"),
                    absl::StrCat("is not for ", info.model, ", which holds out rows once; give split.validation"));
  }
  if (split.stratify.value_or(false) && numbers) {
    violations->Add(absl::StrCat(kAt, ".split.stratify"),
                    absl::StrCat("is for classes, and ", info.model, " predicts numbers; remove it"));
  }
  if (JudgesTrainingRows(objective.options)) {
    for (const auto& [name, given] : {std::pair<const char*, bool>{"folds", split.folds > 0},
                                      {"group_column", !split.group_column.empty()},
                                      {"time_column", !split.time_column.empty()},
                                      {"validation_data", !split.validation_data.empty()}}) {
      if (!given) continue;
      violations->Add(absl::StrCat(kAt, ".split.", name),
                      absl::StrCat("holds out rows, and option ", kCriterionOption,
                                   " judges by the training rows; remove one of the two"));
    }
    if (objective.options.contains("unroll")) {
      violations->Add(absl::StrCat(kAt, ".options.unroll"),
                      absl::StrCat("and ", kCriterionOption, " exclude each other; remove one of the two"));
    }
  }
  if (split.validation_data.empty()) return;
  const std::string field = absl::StrCat(kAt, ".split.validation_data");
  if (notation::IsSynth(split.validation_data)) {
    const absl::Status status = notation::CheckSynthRows(split.validation_data, numbers);
    if (!status.ok()) violations->Add(field, std::string(status.message()));
  } else if (split.validation_data[0] == '/') {
    violations->Add(field, "is an absolute path; give one relative to the worker's data root");
  }
}

// Checks the weights of rows by their time, a setting of ridge.
void CheckRecency(const ObjectiveInfo& info, const study::BuiltinObjective& objective, const study::SearchSpace& space,
                  base::Violations* violations) {
  if (info.FindParameter(kRecencyOption) == nullptr) return;
  const auto given = [&](const char* name) { return objective.options.contains(name) || space.Find(name); };
  if (!given(kRecencyOption)) {
    if (given("recency_center")) {
      violations->Add(absl::StrCat(kAt, ".options.recency_center"),
                      "is of use with recency alone; give recency, too, or remove it");
    }
    return;
  }
  if (objective.split.time_column.empty()) {
    violations->Add(absl::StrCat(kAt, ".split.time_column"), "is required with recency: it orders the rows");
  }
  for (const char* other : {"unroll", kCriterionOption}) {
    if (!objective.options.contains(other)) continue;
    violations->Add(absl::StrCat(kAt, ".options.", other), "and recency exclude each other; remove one of the two");
  }
}

// Checks the use of several targets, a setting of ridge.
void CheckTargets(const study::BuiltinObjective& objective, const study::SearchSpace& space,
                  base::Violations* violations) {
  if (!objective.options.contains(kTargetsOption)) return;
  for (const char* other : {"unroll", kCriterionOption, kRecencyOption}) {
    if (!objective.options.contains(other) && !space.Find(other)) continue;
    violations->Add(absl::StrCat(kAt, ".options.", other), "and targets exclude each other; remove one of the two");
  }
  if (notation::IsSynth(objective.data)) {
    violations->Add(absl::StrCat(kAt, ".options.targets"),
                    "goes by names of columns, and generated data have one target; give a CSV file with a header");
  }
}

void CheckMetric(const ObjectiveInfo& info, const study::MetricSpec& metric, absl::string_view at,
                 base::Violations* violations) {
  const MetricInfo* m = info.FindMetric(metric.name);
  if (m == nullptr) {
    std::vector<std::string> names;
    for (const MetricInfo& known : info.metrics) names.push_back(known.name);
    violations->Add(absl::StrCat(at, ".name"),
                    absl::StrCat("objective ", info.model, " has no metric ", Quote(metric.name),
                                 base::DidYouMean(metric.name, names), "; it reports ", Joined(names)));
  } else if (metric.objective && m->goal != metric.goal) {
    violations->Add(
        absl::StrCat(at, ".goal"),
        absl::StrCat(metric.name, " is to be ",
                     m->goal == study::Goal::kMinimize ? "minimised; write MINIMIZE" : "maximised; write MAXIMIZE"));
  }
}

}  // namespace

const std::vector<ObjectiveInfo>& Objectives() {
  static const std::vector<ObjectiveInfo>& table = *[] {
    auto* list = new std::vector<ObjectiveInfo>;
    for (const TestFunction& f : TestFunctions()) list->push_back(FunctionInfo(f));
    list->push_back(LogisticInfo());
    list->push_back(CrfInfo());
    list->push_back(ElasticNetInfo());
    list->push_back(HsvmInfo());
    list->push_back(KernelRidgeInfo());
    list->push_back(MatrixCompletionInfo());
    list->push_back(MlpInfo());
    list->push_back(RidgeInfo());
    list->push_back(VfElasticNetInfo());
    list->push_back(VfMatrixCompletionInfo());
    list->push_back(VfSparseGroupLassoInfo());
    list->push_back(VfSvmInfo());
    return list;
  }();
  return table;
}

absl::StatusOr<const ObjectiveInfo*> FindObjective(absl::string_view model) {
  std::vector<std::string> names;
  for (const ObjectiveInfo& info : Objectives()) {
    if (info.model == model) return &info;
    names.push_back(info.model);
  }
  std::string hint = base::DidYouMean(model, names);
  if (hint.empty()) {  // "branin" for "function:branin"
    for (const std::string& name : names) {
      if (name == absl::StrCat(kFunctionPrefix, model)) hint = absl::StrCat(" (did you mean \"", name, "\"?)");
    }
  }
  return base::MakeError(
      absl::StatusCode::kNotFound, base::reason::kNotFound,
      absl::StrCat("there is no objective ", Quote(model), hint, "; `luthier objectives` lists them"));
}

absl::Status Validate(const study::BuiltinObjective& objective, const study::SearchSpace& space,
                      const study::MetricSpec& metric, absl::string_view metric_field) {
  base::Violations violations;
  const absl::StatusOr<const ObjectiveInfo*> found = FindObjective(objective.model);
  if (!found.ok()) {
    violations.Add(absl::StrCat(kAt, ".model"), std::string(found.status().message()));
    return violations.ToStatus();
  }
  const absl::StatusOr<std::vector<PenaltyGroup>> groups = GroupsOf(objective.options);
  const bool grouped = (*found)->FindParameter(kGroupsOption) != nullptr;
  if (grouped && !groups.ok()) {
    violations.AddAll(absl::StrCat(kAt, ".options"), groups.status());
    return violations.ToStatus();  // Without valid groups the meaning of l2.NAME is unknown.
  }
  const ObjectiveInfo info = grouped ? WithPenaltyGroups(**found, *groups) : **found;
  CheckData(info, objective, &violations);
  if (info.model == "crf") {
    violations.AddAll(absl::StrCat(kAt, ".options"), CheckChainGroups(objective));
  }
  for (const auto& [name, value] : objective.options) {
    const std::string field = absl::StrCat(kAt, ".options.", name);
    const ParameterInfo* p = info.FindParameter(name);
    if (p == nullptr) {
      const std::vector<std::string> names = ParameterNames(info, false);
      violations.Add(absl::StrCat(kAt, ".options"),
                     absl::StrCat("objective ", info.model, " has no option ", Quote(name),
                                  base::DidYouMean(name, names), "; it takes ", Joined(names)));
      continue;
    }
    violations.AddAll("", CheckValue(*p, value, field));
  }
  CheckSpace(info, objective, space, &violations);
  CheckListL2(info, objective, space, &violations);
  CheckSplit(info, objective, &violations);
  CheckRecency(info, objective, space, &violations);
  CheckTargets(objective, space, &violations);
  CheckMetric(info, metric, metric_field, &violations);
  return violations.ToStatus();
}

namespace {

bool GoesByGradientsAlone(const study::StudySpec& spec) {
  return std::holds_alternative<study::HoagOptions>(spec.algorithm);
}

}  // namespace

bool AreDifferentiable(const ObjectiveInfo& info, const study::SearchSpace& space) {
  for (const study::Scalar& scalar : space.differentiable()) {
    const ParameterInfo* p = info.FindParameter(space.parameters()[static_cast<size_t>(scalar.parameter)].name);
    if (p == nullptr || !p->differentiable) return false;
  }
  return true;
}

bool MayDifferentiate(const study::StudySpec& spec) {
  const auto* builtin = std::get_if<study::BuiltinObjective>(&spec.objective);
  if (builtin == nullptr) return true;
  const absl::StatusOr<const ObjectiveInfo*> info = FindObjective(builtin->model);
  if (!info.ok()) return true;  // The model belongs to a newer program.
  const MetricInfo* metric = (*info)->FindMetric(spec.metric.name);
  if (metric == nullptr || !metric->gradient) return false;
  const auto option = builtin->options.find("gradient");
  const bool* wanted = option == builtin->options.end() ? nullptr : std::get_if<bool>(&option->second);
  if (wanted != nullptr && !*wanted) return false;
  // Every entry of a gradient must be known.
  const absl::StatusOr<std::vector<PenaltyGroup>> groups = GroupsOf(builtin->options);
  if (!groups.ok() || !AreDifferentiable(WithPenaltyGroups(**info, *groups), spec.space)) return false;
  if (builtin->model != "crf") return true;
  // An l1 penalty has none.
  for (const auto& [name, value] : builtin->options) {
    const double* number = std::get_if<double>(&value);
    if ((name == "l1" || absl::StartsWith(name, "l1.")) && number != nullptr && *number > 0.0) return false;
  }
  return wanted != nullptr || GoesByGradientsAlone(spec) || spec.space.differentiable().size() >= kFewestChainStrengths;
}

namespace {

absl::Status CheckCurve(const study::StudySpec& spec) {
  const auto* objective = std::get_if<study::BuiltinObjective>(&spec.objective);
  if (objective == nullptr || !(spec.resource || spec.stopping)) return absl::OkStatus();
  const absl::StatusOr<const ObjectiveInfo*> info = FindObjective(objective->model);
  if (info.ok() && PredictsNumbers(**info)) {
    const char* field = spec.resource ? "resource" : "stopping";
    return base::BadField(field, absl::StrCat("needs a learning curve, and ", objective->model,
                                              " has none that trials could be compared by; remove it"));
  }
  // All others but functions report each iteration or pass.
  if (!absl::StartsWith(objective->model, kFunctionPrefix)) return absl::OkStatus();
  const auto steps = objective->options.find("steps");
  if (steps != objective->options.end() && steps->second != study::ParameterValue(0.0)) return absl::OkStatus();
  const char* what = spec.resource ? "resource" : "stopping";
  return base::BadField(
      absl::StrCat(kAt, ".options.steps"),
      absl::StrCat("is 0, so ", objective->model, " reports no learning curve, which `", what, "` needs: set it to ",
                   spec.resource ? absl::StrCat(spec.resource->max, ", the resource's max") : "at least 1",
                   ", or leave `", what, "` out"));
}

absl::Status CheckGradients(const study::StudySpec& spec) {
  const auto* objective = std::get_if<study::BuiltinObjective>(&spec.objective);
  if (objective == nullptr || !GoesByGradientsAlone(spec) || MayDifferentiate(spec)) return absl::OkStatus();
  const absl::StatusOr<const ObjectiveInfo*> info = FindObjective(objective->model);
  if (!info.ok()) return absl::OkStatus();
  std::vector<std::string> with;
  for (const MetricInfo& metric : (*info)->metrics) {
    if (metric.gradient) with.push_back(metric.name);
  }
  const bool known = std::find(with.begin(), with.end(), spec.metric.name) != with.end();
  return base::BadField(
      "algorithm",
      absl::StrCat(study::AlgorithmName(spec.algorithm), " goes by gradients alone, and objective ", objective->model,
                   known ? " reports none with these options and parameters"
                         : absl::StrCat(" reports none of ", spec.metric.name),
                   known || with.empty() ? ": " : absl::StrCat("; minimise ", Joined(with), ", or "),
                   "use another algorithm, such as auto"));
}

absl::Status CheckWarmStart(const study::StudySpec& spec) {
  if (!study::WarmStarts(spec)) return absl::OkStatus();
  const char* what = spec.resource       ? "resource"
                     : spec.stopping     ? "stopping"
                     : spec.reproducible ? "reproducible"
                                         : nullptr;
  if (what == nullptr) return absl::OkStatus();
  return base::BadField(absl::StrCat(kAt, ".options.", study::kWarmStartOption),
                        absl::StrCat("does not go with `", what, "`: ",
                                     spec.reproducible && !spec.resource && !spec.stopping
                                         ? "results depend on which earlier model a worker can have"
                                         : "curves that start at other models cannot be compared",
                                     "; leave one of the two out"));
}

// Checks the metrics besides that of Validate.
absl::Status CheckOtherMetrics(const study::StudySpec& spec) {
  const auto* builtin = std::get_if<study::BuiltinObjective>(&spec.objective);
  if (builtin == nullptr) return absl::OkStatus();
  const absl::StatusOr<const ObjectiveInfo*> info = FindObjective(builtin->model);
  base::Violations violations;
  for (size_t i = 0; info.ok() && i < spec.metrics.size(); ++i) {
    const std::string at = absl::StrCat("metrics[", i, "]");
    if (at != study::ObjectiveField(spec)) CheckMetric(**info, spec.metrics[i], at, &violations);
  }
  return violations.ToStatus();
}

}  // namespace

absl::Status ValidateUse(const study::StudySpec& spec) {
  base::Violations violations;
  violations.AddAll("", CheckCurve(spec));
  violations.AddAll("", CheckGradients(spec));
  violations.AddAll("", CheckWarmStart(spec));
  violations.AddAll("", CheckOtherMetrics(spec));
  return violations.ToStatus();
}

}  // namespace luthier::catalogue
