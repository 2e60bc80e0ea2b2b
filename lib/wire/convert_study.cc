#include <google/protobuf/util/field_mask_util.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/metrics.h"
#include "lib/wire/convert.h"
#include "lib/wire/convert_algorithm.h"
#include "lib/wire/old_options.h"
#include "lib/wire/text.h"

namespace luthier::wire {
namespace {

constexpr int64_t kBytesPerMb = int64_t{1} << 20;

using StringMap = google::protobuf::Map<std::string, std::string>;

void ToMap(const std::map<std::string, std::string>& from, StringMap* to) {
  for (const auto& [key, value] : from) (*to)[ValidUtf8(key)] = ValidUtf8(value);
}

std::map<std::string, std::string> FromMap(const StringMap& from) {
  return {from.begin(), from.end()};
}

// --- Scale and goal ---

v1::Scale ScaleTo(study::Scale scale) {
  switch (scale) {
    case study::Scale::kLinear:
      return v1::LINEAR;
    case study::Scale::kLog:
      return v1::LOG;
    case study::Scale::kLogit:
      return v1::LOGIT;
  }
  return v1::LINEAR;
}

study::Scale ScaleFrom(v1::Scale scale, const std::string& field, base::Violations* violations) {
  switch (scale) {
    case v1::SCALE_UNSPECIFIED:
    case v1::LINEAR:
      return study::Scale::kLinear;
    case v1::LOG:
      return study::Scale::kLog;
    case v1::LOGIT:
      return study::Scale::kLogit;
    default:
      break;
  }
  violations->Add(field, absl::StrCat("has the unknown value ", static_cast<int>(scale), "; use LINEAR, LOG or LOGIT"));
  return study::Scale::kLinear;
}

// --- Parameter domains ---

void SetDomain(const study::FloatRange& range, v1::ParameterSpec* proto) {
  v1::FloatRange* out = proto->mutable_float_();
  out->set_min(range.min);
  out->set_max(range.max);
  out->set_scale(ScaleTo(range.scale));
  if (range.step) out->set_step(*range.step);
}

void SetDomain(const study::IntRange& range, v1::ParameterSpec* proto) {
  v1::IntRange* out = proto->mutable_int_();
  out->set_min(range.min);
  out->set_max(range.max);
  out->set_scale(ScaleTo(range.scale));
  out->set_step(range.step);
}

void SetLabels(const std::vector<std::string>& labels, v1::Labels* out) {
  for (const std::string& label : labels) out->add_values(ValidUtf8(label));
}

void SetDomain(const study::OrdinalLabels& d, v1::ParameterSpec* proto) {
  SetLabels(d.labels, proto->mutable_ordinal());
}
void SetDomain(const study::CategoricalLabels& d, v1::ParameterSpec* proto) {
  SetLabels(d.labels, proto->mutable_categorical());
}
void SetDomain(const study::BoolSwitch&, v1::ParameterSpec* proto) {
  proto->mutable_bool_();
}

template <typename Range>
void RequireBounds(const Range& range, const char* at, base::Violations* violations) {
  if (!range.has_min()) violations->Add(absl::StrCat(at, ".min"), "is required");
  if (!range.has_max()) violations->Add(absl::StrCat(at, ".max"), "is required");
}

study::ParameterDomain DomainFrom(const v1::ParameterSpec& proto, base::Violations* violations) {
  switch (proto.kind_case()) {
    case v1::ParameterSpec::kFloat: {
      const v1::FloatRange& range = proto.float_();
      RequireBounds(range, "float", violations);
      study::FloatRange result{.min = range.min(), .max = range.max(), .scale = {}, .step = {}};
      result.scale = ScaleFrom(range.scale(), "float.scale", violations);
      if (range.has_step()) result.step = range.step();
      return result;
    }
    case v1::ParameterSpec::kInt: {
      const v1::IntRange& range = proto.int_();
      RequireBounds(range, "int", violations);
      study::IntRange result{.min = range.min(), .max = range.max(), .step = 1, .scale = {}};
      result.scale = ScaleFrom(range.scale(), "int.scale", violations);
      if (range.has_step()) result.step = range.step();
      return result;
    }
    case v1::ParameterSpec::kOrdinal:
      return study::OrdinalLabels{{proto.ordinal().values().begin(), proto.ordinal().values().end()}};
    case v1::ParameterSpec::kCategorical:
      return study::CategoricalLabels{{proto.categorical().values().begin(), proto.categorical().values().end()}};
    case v1::ParameterSpec::kBool:
      return study::BoolSwitch{};
    case v1::ParameterSpec::KIND_NOT_SET:
      break;
  }
  violations->Add("", "has no kind; give one of float, int, ordinal, categorical, bool");
  return study::BoolSwitch{};
}

// Everything about a parameter that needs no other one. On violations the result is what could be read.
study::ParameterSpec ParameterFrom(const v1::ParameterSpec& proto, base::Violations* violations) {
  study::ParameterSpec result;
  result.name = proto.name();
  result.domain = DomainFrom(proto, violations);
  if (proto.has_count()) result.count = proto.count();
  result.display_name = proto.display_name();
  if (proto.has_condition()) {
    study::Condition condition;
    condition.parent = proto.condition().parent();
    for (int i = 0; i < proto.condition().values_size(); ++i) {
      absl::StatusOr<study::ParameterValue> value = FromProto(proto.condition().values(i));
      if (!value.ok())
        violations->AddAll(absl::StrCat("condition.values[", i, "]"), value.status());
      else
        condition.values.push_back(*std::move(value));
    }
    result.condition = std::move(condition);
  }
  if (proto.has_default_value()) {
    absl::StatusOr<study::ParameterValue> value = FromProto(proto.default_value());
    if (!value.ok())
      violations->AddAll("default_value", value.status());
    else
      result.default_value = *std::move(value);
  }
  return result;
}

// The space with every violation of its parameters and between them. On violations: some space that is not empty and
// has the names given, so that what is checked next does not complain that they are missing.
study::SearchSpace SpaceFrom(const google::protobuf::RepeatedPtrField<v1::ParameterSpec>& protos,
                             base::Violations* violations) {
  if (protos.size() > study::kMaxParameters) {
    // Said before a million parameters are converted. The text is the space's own.
    violations->AddAll("space", study::SearchSpace::Create(std::vector<study::ParameterSpec>(protos.size())).status());
  } else {
    std::vector<study::ParameterSpec> parameters;
    std::set<std::string> broken;
    for (int i = 0; i < protos.size(); ++i) {
      base::Violations own;
      study::ParameterSpec parameter = ParameterFrom(protos[i], &own);
      if (!own.empty()) {
        // A field that could not be read must not cause a second complaint below.
        broken.insert(parameter.name);
        parameter.domain = study::BoolSwitch{};
        parameter.condition.reset();
        parameter.default_value.reset();
        parameter.count.reset();
        violations->AddAll(absl::StrCat("space[", i, "]"), own.ToStatus());
      }
      parameters.push_back(std::move(parameter));
    }
    for (study::ParameterSpec& parameter : parameters) {
      if (parameter.condition && broken.count(parameter.condition->parent) > 0) parameter.condition.reset();
    }
    std::map<std::string, study::ParameterSpec> named;
    for (const study::ParameterSpec& parameter : parameters) {
      study::ParameterSpec& same = named[parameter.name];
      same.name = parameter.name;
      same.domain = study::BoolSwitch{};
      if (!study::SearchSpace::Create({same}).ok()) named.erase(parameter.name);  // Not a name.
    }
    absl::StatusOr<study::SearchSpace> space = study::SearchSpace::Create(std::move(parameters));
    if (space.ok()) return *std::move(space);
    violations->AddAll("space", space.status());
    std::vector<study::ParameterSpec> switches;
    for (auto& [name, parameter] : named) switches.push_back(std::move(parameter));
    if (!switches.empty()) {
      absl::StatusOr<study::SearchSpace> names = study::SearchSpace::Create(std::move(switches));
      if (names.ok()) return *std::move(names);
    }
  }
  absl::StatusOr<study::SearchSpace> some =
      study::SearchSpace::Create({{.name = "x", .domain = study::BoolSwitch{}, .condition = {}, .default_value = {}}});
  LUTHIER_CHECK(some.ok());
  return *std::move(some);
}

// --- Metric ---

// `at`: the field of the metric.
study::MetricSpec MetricFrom(const v1::MetricSpec& proto, const std::string& at, base::Violations* violations) {
  study::MetricSpec result;
  result.name = proto.name();
  if (proto.has_at_least()) result.at_least = proto.at_least();
  if (proto.has_at_most()) result.at_most = proto.at_most();
  if (proto.has_reference()) result.reference = proto.reference();
  switch (proto.goal()) {
    case v1::MINIMIZE:
      result.goal = study::Goal::kMinimize;
      break;
    case v1::MAXIMIZE:
      result.goal = study::Goal::kMaximize;
      break;
    case v1::GOAL_UNSPECIFIED:
      result.objective = false;
      break;
    default:
      violations->Add(at + ".goal", absl::StrCat("has the unknown value ", static_cast<int>(proto.goal()),
                                                 "; use MINIMIZE or MAXIMIZE"));
  }
  return result;
}

void MetricsFrom(const v1::StudySpec& proto, study::StudySpec* spec, base::Violations* violations) {
  if (proto.metrics().empty()) {
    const study::MetricSpec metric = MetricFrom(proto.metric(), "metric", violations);
    if (!metric.objective) violations->Add("metric.goal", "is required: MINIMIZE or MAXIMIZE");
    const char* const bound = metric.at_least ? "at_least" : metric.at_most ? "at_most" : nullptr;
    if (const char* const field = metric.reference ? "reference" : bound; field != nullptr) {
      violations->Add(absl::StrCat("metric.", field),
                      "is for the entries of metrics; write metrics: [{name: ..., goal: ..., at_most: ...}] in place "
                      "of metric");
    }
    spec->metric = {proto.metric().name(), metric.goal};
    return;
  }
  const int count = std::min(proto.metrics_size(), static_cast<int>(study::kMaxMetrics));
  if (count < proto.metrics_size()) {
    violations->Add("metrics", absl::StrCat("has ", proto.metrics_size(), " entries; at most ", count, " are allowed"));
  }
  std::vector<study::MetricSpec> metrics;
  for (int i = 0; i < count; ++i) {
    metrics.push_back(MetricFrom(proto.metrics(i), absl::StrCat("metrics[", i, "]"), violations));
  }
  study::SetMetrics(std::move(metrics), spec);
  if (!proto.has_metric()) return;
  // Programs that know one metric only are told the first objective beside the list, and may send it back.
  const study::MetricSpec metric = MetricFrom(proto.metric(), "metric", violations);
  if (metric != study::MetricSpec{spec->metric.name, spec->metric.goal}) {
    violations->Add("metric", "is not the first objective of metrics; leave metric out");
  }
}

v1::MetricSpec MetricToProto(const study::MetricSpec& metric) {
  v1::MetricSpec proto;
  proto.set_name(ValidUtf8(metric.name));
  if (metric.objective) proto.set_goal(metric.goal == study::Goal::kMaximize ? v1::MAXIMIZE : v1::MINIMIZE);
  if (metric.at_least) proto.set_at_least(*metric.at_least);
  if (metric.at_most) proto.set_at_most(*metric.at_most);
  if (metric.reference) proto.set_reference(*metric.reference);
  return proto;
}

// --- Objective ---

void SetObjective(const study::ExternalObjective&, v1::Objective* proto) {
  proto->mutable_external();
}

void SetObjective(const study::BuiltinObjective& builtin, v1::Objective* proto) {
  v1::Objective::Builtin* out = proto->mutable_builtin();
  out->set_model(ValidUtf8(builtin.model));
  out->set_data(ValidUtf8(builtin.data));
  out->mutable_split()->set_validation(builtin.split.validation);
  out->mutable_split()->set_folds(builtin.split.folds);
  out->mutable_split()->set_seed(builtin.split.seed);
  out->mutable_split()->set_third(builtin.split.third);
  if (builtin.split.stratify) out->mutable_split()->set_stratify(*builtin.split.stratify);
  out->mutable_split()->set_group_column(ValidUtf8(builtin.split.group_column));
  out->mutable_split()->set_time_column(ValidUtf8(builtin.split.time_column));
  out->mutable_split()->set_validation_data(ValidUtf8(builtin.split.validation_data));
  for (const auto& [name, value] : builtin.options) (*out->mutable_options())[ValidUtf8(name)] = ToProto(value);
}

void SetObjective(const study::CommandObjective& command, v1::Objective* proto) {
  v1::Objective::Command* out = proto->mutable_command();
  for (const std::string& argument : command.argv) out->add_argv(ValidUtf8(argument));
  ToMap(command.environment, out->mutable_environment());
  if (command.timeout != absl::InfiniteDuration()) *out->mutable_timeout() = ToProto(command.timeout);
  // The limit is rounded up, so that it never becomes none.
  out->set_memory_limit_mb(command.memory_limit_bytes / kBytesPerMb + (command.memory_limit_bytes % kBytesPerMb > 0));
  ToMap(command.stdout_patterns, out->mutable_stdout_patterns());
}

study::BuiltinObjective BuiltinFrom(const v1::Objective::Builtin& proto, base::Violations* violations) {
  study::BuiltinObjective result;
  result.model = proto.model();
  result.data = proto.data();
  if (proto.split().has_validation()) result.split.validation = proto.split().validation();
  result.split.folds = proto.split().folds();
  result.split.seed = proto.split().seed();
  result.split.third = proto.split().third();
  if (proto.split().has_stratify()) result.split.stratify = proto.split().stratify();
  result.split.group_column = proto.split().group_column();
  result.split.time_column = proto.split().time_column();
  result.split.validation_data = proto.split().validation_data();
  std::vector<std::string> names;
  for (const auto& [name, value] : proto.options()) names.push_back(name);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    if (!study::IsName(name)) {
      violations->Add(absl::StrCat("objective.builtin.options[", base::Quote(name), "]"),
                      "is not the name of an option");
      continue;
    }
    absl::StatusOr<study::ParameterValue> value = FromProto(proto.options().at(name));
    if (!value.ok())
      violations->AddAll("objective.builtin.options." + name, value.status());
    else
      result.options[name] = *std::move(value);
  }
  return result;
}

study::CommandObjective CommandFrom(const v1::Objective::Command& proto, base::Violations* violations) {
  study::CommandObjective result;
  result.argv.assign(proto.argv().begin(), proto.argv().end());
  result.environment = FromMap(proto.environment());
  if (proto.has_timeout()) {
    const absl::StatusOr<absl::Duration> timeout = FromProto(proto.timeout());
    if (!timeout.ok())
      violations->AddAll("objective.command.timeout", timeout.status());
    else
      result.timeout = *timeout;
  }
  if (__builtin_mul_overflow(proto.memory_limit_mb(), kBytesPerMb, &result.memory_limit_bytes)) {
    violations->Add("objective.command.memory_limit_mb",
                    absl::StrCat(proto.memory_limit_mb(), " is not between 0 (no limit) and 2^43"));
    result.memory_limit_bytes = 0;
  }
  result.stdout_patterns = FromMap(proto.stdout_patterns());
  return result;
}

study::ObjectiveSpec ObjectiveFrom(const v1::Objective& proto, base::Violations* violations) {
  switch (proto.kind_case()) {
    case v1::Objective::kBuiltin:
      return BuiltinFrom(proto.builtin(), violations);
    case v1::Objective::kCommand:
      return CommandFrom(proto.command(), violations);
    case v1::Objective::kExternal:
    case v1::Objective::KIND_NOT_SET:
      break;
  }
  return study::ExternalObjective{};
}

// --- Budget, lease ---

study::Budget BudgetFrom(const v1::Budget& proto, base::Violations* violations) {
  study::Budget result;
  if (proto.has_max_trials()) result.max_trials = proto.max_trials();
  result.max_parallel = proto.max_parallel();
  result.max_failed_trials = proto.max_failed_trials();
  if (proto.has_target_value()) result.target_value = proto.target_value();
  result.patience = proto.patience();
  if (proto.has_max_wall()) {
    const absl::StatusOr<absl::Duration> max_wall = FromProto(proto.max_wall());
    if (max_wall.ok())
      result.max_wall = *max_wall;
    else
      violations->AddAll("budget.max_wall", max_wall.status());
  }
  if (proto.has_until_answered()) result.until_answered = proto.until_answered();
  return result;
}

study::LeaseOptions LeaseFrom(const v1::LeaseOptions& proto, base::Violations* violations) {
  study::LeaseOptions result;
  if (proto.has_ttl()) {
    const absl::StatusOr<absl::Duration> ttl = FromProto(proto.ttl());
    if (!ttl.ok())
      violations->AddAll("lease.ttl", ttl.status());
    else
      result.ttl = *ttl;
  }
  if (proto.has_max_attempts()) result.max_attempts = proto.max_attempts();
  return result;
}

// --- Constraints on parameters ---

google::protobuf::Value ForbiddenToProto(const study::ForbiddenValues& forbidden) {
  google::protobuf::Value proto;
  if (forbidden.values.size() == 1) return ToProto(forbidden.values.front());
  for (const study::ParameterValue& value : forbidden.values)
    *proto.mutable_list_value()->add_values() = ToProto(value);
  if (!forbidden.values.empty()) return proto;
  auto& fields = *proto.mutable_struct_value()->mutable_fields();
  if (forbidden.at_least) fields["at_least"].set_number_value(*forbidden.at_least);
  if (forbidden.at_most) fields["at_most"].set_number_value(*forbidden.at_most);
  return proto;
}

v1::ParameterConstraint ConstraintToProto(const study::ParameterConstraint& constraint) {
  v1::ParameterConstraint proto;
  for (const auto& [name, weight] : constraint.sum) (*proto.mutable_sum())[ValidUtf8(name)] = weight;
  if (constraint.at_least) proto.set_at_least(*constraint.at_least);
  if (constraint.at_most) proto.set_at_most(*constraint.at_most);
  for (const auto& [name, values] : constraint.forbid) {
    (*proto.mutable_forbid())[ValidUtf8(name)] = ForbiddenToProto(values);
  }
  return proto;
}

// Adds a value that is forbidden to `values`.
void AddForbidden(const google::protobuf::Value& proto, const std::string& at,
                  std::vector<study::ParameterValue>* values, base::Violations* violations) {
  const absl::StatusOr<study::ParameterValue> value = FromProto(proto);
  if (!value.ok()) {
    violations->AddAll(at, value.status());
  } else if (std::holds_alternative<std::vector<double>>(*value)) {
    violations->Add(at, "is a list within a list; list single values");
  } else {
    values->push_back(*value);
  }
}

study::ForbiddenValues ForbiddenFrom(const google::protobuf::Value& proto, const std::string& at,
                                     base::Violations* violations) {
  study::ForbiddenValues forbidden;
  if (proto.has_list_value()) {
    for (int i = 0; i < proto.list_value().values_size(); ++i) {
      AddForbidden(proto.list_value().values(i), absl::StrCat(at, "[", i, "]"), &forbidden.values, violations);
    }
    return forbidden;
  }
  if (!proto.has_struct_value()) {
    AddForbidden(proto, at, &forbidden.values, violations);
    return forbidden;
  }
  for (const auto& [name, end] : std::map<std::string, google::protobuf::Value>(proto.struct_value().fields().begin(),
                                                                                proto.struct_value().fields().end())) {
    if (name != "at_least" && name != "at_most") {
      violations->Add(at, absl::StrCat("has no field ", base::Quote(name), "; a range is {at_least: A, at_most: B}"));
    } else if (!end.has_number_value()) {
      violations->Add(absl::StrCat(at, ".", name), "must be a number");
    } else {
      (name == "at_least" ? forbidden.at_least : forbidden.at_most) = end.number_value();
    }
  }
  return forbidden;
}

std::vector<study::ParameterConstraint> ConstraintsFrom(
    const google::protobuf::RepeatedPtrField<v1::ParameterConstraint>& protos, base::Violations* violations) {
  std::vector<study::ParameterConstraint> constraints;
  for (int i = 0; i < protos.size(); ++i) {
    const v1::ParameterConstraint& proto = protos[i];
    study::ParameterConstraint constraint;
    constraint.sum.insert(proto.sum().begin(), proto.sum().end());
    if (proto.has_at_least()) constraint.at_least = proto.at_least();
    if (proto.has_at_most()) constraint.at_most = proto.at_most();
    for (const auto& [name, value] :
         std::map<std::string, google::protobuf::Value>(proto.forbid().begin(), proto.forbid().end())) {
      const std::string at = absl::StrCat("constraints[", i, "].forbid");
      constraint.forbid[name] = ForbiddenFrom(
          value, study::IsName(name) ? absl::StrCat(at, ".", name) : absl::StrCat(at, "[", base::Quote(name), "]"),
          violations);
    }
    constraints.push_back(std::move(constraint));
  }
  return constraints;
}

// --- Algorithm ---

// Reads an algorithm that a program of the past may have written. Options that are no more are violations.
study::AlgorithmSpec CurrentAlgorithm(v1::Algorithm proto, base::Violations* violations) {
  for (const RemovedOption& option : MoveOldOptions("algorithm", &proto)) {
    violations->Add(option.field, absl::StrCat(option.value, " is no option any more; ", option.hint));
  }
  return AlgorithmFromProto(proto, violations);
}

// --- Resource, stopping ---

void SetCommon(const study::MedianStopping& rule, v1::Stopping::Median* out) {
  out->set_running_mean(rule.running_mean);
}
void SetCommon(const study::PercentileStopping& rule, v1::Stopping::Percentile* out) {
  out->set_running_mean(rule.running_mean);
  out->set_percentile(rule.percentile);
}
void SetCommon(const study::CurveStopping& rule, v1::Stopping::Curve* out) {
  out->set_confidence(rule.confidence);
  out->set_min_points(rule.min_points);
}

template <typename Rule, typename Proto>
void SetRule(const Rule& rule, Proto* out) {
  out->set_warmup(rule.warmup);
  out->set_min_trials(rule.min_trials);
  out->set_interval(rule.interval);
  SetCommon(rule, out);
}

void SetStopping(const study::MedianStopping& rule, v1::Stopping* proto) {
  SetRule(rule, proto->mutable_median());
}
void SetStopping(const study::PercentileStopping& rule, v1::Stopping* proto) {
  SetRule(rule, proto->mutable_percentile());
}
void SetStopping(const study::CurveStopping& rule, v1::Stopping* proto) {
  SetRule(rule, proto->mutable_curve());
}

template <typename Rule, typename Proto>
Rule RuleFrom(const Proto& proto) {
  Rule rule;
  rule.warmup = proto.warmup();
  if (proto.has_min_trials()) rule.min_trials = proto.min_trials();
  if (proto.has_interval()) rule.interval = proto.interval();
  return rule;
}

std::optional<study::StoppingRule> StoppingFrom(const v1::Stopping& proto, base::Violations* violations) {
  switch (proto.rule_case()) {
    case v1::Stopping::kMedian: {
      auto rule = RuleFrom<study::MedianStopping>(proto.median());
      rule.running_mean = proto.median().running_mean();
      return rule;
    }
    case v1::Stopping::kPercentile: {
      auto rule = RuleFrom<study::PercentileStopping>(proto.percentile());
      rule.running_mean = proto.percentile().running_mean();
      if (proto.percentile().has_percentile()) rule.percentile = proto.percentile().percentile();
      return rule;
    }
    case v1::Stopping::kCurve: {
      auto rule = RuleFrom<study::CurveStopping>(proto.curve());
      if (proto.curve().has_confidence()) rule.confidence = proto.curve().confidence();
      if (proto.curve().has_min_points()) rule.min_points = proto.curve().min_points();
      return rule;
    }
    case v1::Stopping::RULE_NOT_SET:
      break;
  }
  violations->Add("stopping", "names no rule; give median, percentile or curve, or leave it out");
  return std::nullopt;
}

}  // namespace

v1::ParameterSpec ToProto(const study::ParameterSpec& parameter) {
  v1::ParameterSpec proto;
  proto.set_name(ValidUtf8(parameter.name));
  std::visit([&](const auto& domain) { SetDomain(domain, &proto); }, parameter.domain);
  if (parameter.condition) {
    proto.mutable_condition()->set_parent(ValidUtf8(parameter.condition->parent));
    for (const study::ParameterValue& value : parameter.condition->values) {
      *proto.mutable_condition()->add_values() = ToProto(value);
    }
  }
  if (parameter.default_value) *proto.mutable_default_value() = ToProto(*parameter.default_value);
  if (parameter.count) proto.set_count(*parameter.count);
  if (!parameter.display_name.empty()) proto.set_display_name(ValidUtf8(parameter.display_name));
  return proto;
}

absl::StatusOr<study::ParameterSpec> FromProto(const v1::ParameterSpec& parameter) {
  base::Violations violations;
  study::ParameterSpec result = ParameterFrom(parameter, &violations);
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  return result;
}

v1::StudySpec ToProto(const study::StudySpec& spec) {
  v1::StudySpec proto;
  proto.set_display_name(ValidUtf8(spec.display_name));
  proto.set_description(ValidUtf8(spec.description));
  for (const study::ParameterSpec& parameter : spec.space.parameters()) *proto.add_space() = ToProto(parameter);
  *proto.mutable_metric() = MetricToProto({spec.metric.name, spec.metric.goal});
  for (const study::MetricSpec& metric : spec.metrics) *proto.add_metrics() = MetricToProto(metric);
  *proto.mutable_algorithm() = AlgorithmToProto(spec.algorithm);
  std::visit([&](const auto& objective) { SetObjective(objective, proto.mutable_objective()); }, spec.objective);
  v1::Budget* budget = proto.mutable_budget();
  budget->set_max_trials(spec.budget.max_trials);
  budget->set_max_parallel(spec.budget.max_parallel);
  budget->set_max_failed_trials(spec.budget.max_failed_trials);
  if (spec.budget.target_value) budget->set_target_value(*spec.budget.target_value);
  budget->set_patience(spec.budget.patience);
  if (spec.budget.max_wall) *budget->mutable_max_wall() = ToProto(*spec.budget.max_wall);
  if (spec.budget.until_answered) budget->set_until_answered(*spec.budget.until_answered);
  *proto.mutable_lease()->mutable_ttl() = ToProto(spec.lease.ttl);
  proto.mutable_lease()->set_max_attempts(spec.lease.max_attempts);
  proto.set_seed(spec.seed);
  proto.set_reproducible(spec.reproducible);
  ToMap(spec.labels, proto.mutable_labels());
  if (spec.resource) {
    proto.mutable_resource()->set_min(spec.resource->min);
    proto.mutable_resource()->set_max(spec.resource->max);
    proto.mutable_resource()->set_unit(ValidUtf8(spec.resource->unit));
  }
  if (spec.stopping) {
    std::visit([&](const auto& rule) { SetStopping(rule, proto.mutable_stopping()); }, *spec.stopping);
  }
  proto.set_weight(spec.weight);
  proto.set_open_space(spec.open_space);
  if (spec.pool != study::kDefaultPool) proto.set_pool(spec.pool);
  for (const std::string& option : spec.removed_options) proto.add_removed_options(ValidUtf8(option));
  for (const study::ParameterConstraint& constraint : spec.constraints) {
    *proto.add_constraints() = ConstraintToProto(constraint);
  }
  return proto;
}

absl::StatusOr<study::StudySpec> FromProto(const v1::StudySpec& spec) {
  base::Violations violations;
  study::StudySpec result;
  result.display_name = spec.display_name();
  result.description = spec.description();
  if (spec.space().empty()) {
    // Left empty: study::ValidateSpec says so.
  } else {
    result.space = SpaceFrom(spec.space(), &violations);
  }
  const bool has_space = violations.empty();
  MetricsFrom(spec, &result, &violations);
  result.algorithm = CurrentAlgorithm(spec.algorithm(), &violations);
  result.objective = ObjectiveFrom(spec.objective(), &violations);
  result.budget = BudgetFrom(spec.budget(), &violations);
  result.lease = LeaseFrom(spec.lease(), &violations);
  result.seed = spec.seed();
  result.reproducible = spec.reproducible();
  result.labels = FromMap(spec.labels());
  if (spec.has_resource()) {
    result.resource = study::Resource{.min = 1, .max = spec.resource().max(), .unit = spec.resource().unit()};
    if (spec.resource().has_min()) result.resource->min = spec.resource().min();
  }
  if (spec.has_stopping()) result.stopping = StoppingFrom(spec.stopping(), &violations);
  if (spec.has_weight()) result.weight = spec.weight();
  result.open_space = spec.open_space();
  if (!spec.pool().empty()) result.pool = spec.pool();
  result.removed_options.assign(spec.removed_options().begin(), spec.removed_options().end());
  base::Violations unread;
  result.constraints = ConstraintsFrom(spec.constraints(), &unread);
  // Nothing is checked further that could not be read, or is about parameters that could not be read.
  if (!unread.empty() || !has_space) result.constraints.clear();
  violations.AddAll("", unread.ToStatus());
  violations.AddAll("", study::ValidateSpec(result));
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  return result;
}

absl::StatusOr<study::SpecChange> FromProto(const v1::StudySpec& spec, const google::protobuf::FieldMask& mask) {
  base::Violations violations;
  study::SpecChange change;
  base::Violations wrong_budget;
  const study::Budget budget = BudgetFrom(spec.budget(), &wrong_budget);
  violations.AddAll("spec", wrong_budget.ToStatus());
  const auto parameters = [&] {
    change.parameters.emplace();
    for (int i = 0; i < spec.space_size(); ++i) {
      absl::StatusOr<study::ParameterSpec> parameter = FromProto(spec.space(i));
      if (parameter.ok()) {
        change.parameters->push_back(*std::move(parameter));
      } else {
        violations.AddAll(absl::StrCat("spec.space[", i, "]"), parameter.status());
      }
    }
  };
  const auto command = [&] {
    base::Violations wrong;
    const study::ObjectiveSpec objective = ObjectiveFrom(spec.objective(), &wrong);
    violations.AddAll("spec", wrong.ToStatus());
    if (const auto* given = std::get_if<study::CommandObjective>(&objective)) {
      change.command = *given;
    } else if (wrong.empty()) {
      violations.Add("spec.objective.command", "is named in update_mask, and missing");
    }
  };
  const std::vector<std::pair<std::string, std::function<void()>>> fields = {
      {"display_name", [&] { change.display_name = spec.display_name(); }},
      {"description", [&] { change.description = spec.description(); }},
      {"labels", [&] { change.labels = FromMap(spec.labels()); }},
      {"budget.max_trials", [&] { change.max_trials = budget.max_trials; }},
      {"budget.max_parallel", [&] { change.max_parallel = budget.max_parallel; }},
      {"budget.patience", [&] { change.patience = budget.patience; }},
      {"budget.target_value", [&] { change.target_value = budget.target_value; }},
      {"budget.max_wall", [&] { change.max_wall = budget.max_wall; }},
      {"budget.until_answered", [&] { change.until_answered = budget.until_answered; }},
      {"weight", [&] { change.weight = spec.has_weight() ? spec.weight() : 1.0; }},
      {"space", parameters},
      {"objective.command", command},
  };
  std::vector<std::string> names;
  for (const auto& [name, take] : fields) names.push_back(name);
  for (int i = 0; i < mask.paths_size(); ++i) {
    const std::string& path = mask.paths(i);
    const auto field = std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f.first == path; });
    if (field != fields.end()) {
      field->second();
      continue;
    }
    const bool known = google::protobuf::util::FieldMaskUtil::IsValidPath<v1::StudySpec>(path);
    violations.Add(absl::StrCat("update_mask.paths[", i, "]"),
                   absl::StrCat(base::Quote(path),
                                known ? " of a study can't be changed; start another study. What can be: "
                                      : absl::StrCat(" is no field of a study", base::DidYouMean(path, names),
                                                     "; what can be changed: "),
                                absl::StrJoin(names, ", ")));
  }
  if (mask.paths().empty()) {
    violations.Add("update_mask", absl::StrCat("is required: the fields to change, of ", absl::StrJoin(names, ", ")));
  }
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  return change;
}

v1::Algorithm ToProto(const study::AlgorithmSpec& algorithm) {
  return AlgorithmToProto(algorithm);
}

absl::StatusOr<study::AlgorithmSpec> FromProto(const v1::Algorithm& algorithm) {
  base::Violations violations;
  study::AlgorithmSpec result = CurrentAlgorithm(algorithm, &violations);
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  return result;
}

absl::StatusOr<study::StoppingRule> FromProto(const v1::Stopping& stopping) {
  base::Violations violations;
  const std::optional<study::StoppingRule> rule = StoppingFrom(stopping, &violations);
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  return *rule;
}

v1::Study::State ToProto(study::StudyState state) {
  switch (state) {
    case study::StudyState::kActive:
      return v1::Study::ACTIVE;
    case study::StudyState::kPaused:
      return v1::Study::PAUSED;
    case study::StudyState::kStopped:
      return v1::Study::STOPPED;
    case study::StudyState::kCancelled:
      return v1::Study::CANCELLED;
    case study::StudyState::kCompleted:
      return v1::Study::COMPLETED;
  }
  return v1::Study::STATE_UNSPECIFIED;
}

absl::StatusOr<study::StudyState> FromProto(v1::Study::State state) {
  switch (state) {
    case v1::Study::ACTIVE:
      return study::StudyState::kActive;
    case v1::Study::PAUSED:
      return study::StudyState::kPaused;
    case v1::Study::STOPPED:
      return study::StudyState::kStopped;
    case v1::Study::CANCELLED:
      return study::StudyState::kCancelled;
    case v1::Study::COMPLETED:
      return study::StudyState::kCompleted;
    default:
      return base::BadField("state", absl::StrCat(static_cast<int>(state), " is not a state of a study"));
  }
}

}  // namespace luthier::wire
