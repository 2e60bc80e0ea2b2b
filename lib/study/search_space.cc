#include "lib/study/search_space.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"

namespace luthier::study {
namespace {

using base::Quote;

constexpr int64_t kMaxInteger = int64_t{1} << 53;
constexpr double kSnapTolerance = 1e-9;
constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

void CheckDomain(const FloatRange& range, const std::string& at, base::Violations* violations) {
  if (!std::isfinite(range.min)) violations->Add(at + ".min", absl::StrCat(FormatDouble(range.min), " is not finite"));
  if (!std::isfinite(range.max)) violations->Add(at + ".max", absl::StrCat(FormatDouble(range.max), " is not finite"));
  if (!std::isfinite(range.min) || !std::isfinite(range.max)) return;
  if (range.min > range.max) {
    violations->Add(at + ".max", absl::StrCat(FormatDouble(range.max), " is below min ", FormatDouble(range.min),
                                              "; swap the bounds"));
    return;
  }
  if (range.scale == Scale::kLog && !(range.min > 0.0)) {
    violations->Add(at + ".min", absl::StrCat(FormatDouble(range.min),
                                              " is not above 0, as scale LOG needs; raise it or use scale LINEAR"));
  }
  if (range.scale == Scale::kLogit && !(range.min > 0.0 && range.max < 1.0)) {
    violations->Add(at, absl::StrCat("[", FormatDouble(range.min), ", ", FormatDouble(range.max),
                                     "] is not inside (0, 1), as scale LOGIT needs"));
  }
  if (range.scale == Scale::kLinear && !std::isfinite(range.max - range.min)) {
    violations->Add(at, "is wider than the largest double; narrow it or use scale LOG");
  }
  if (range.step) {
    if (!(std::isfinite(*range.step) && *range.step > 0.0)) {
      violations->Add(at + ".step", absl::StrCat(FormatDouble(*range.step), " is not a finite number above 0"));
    } else if (range.scale != Scale::kLinear) {
      violations->Add(at + ".step", "is only possible with scale LINEAR; leave one of the two out");
    } else if (StepCount(range) > static_cast<double>(kMaxInteger)) {
      violations->Add(at + ".step", "divides the range into more than 2^53 levels; leave it out");
    }
  }
}

void CheckDomain(const IntRange& range, const std::string& at, base::Violations* violations) {
  if (range.min < -kMaxInteger || range.min > kMaxInteger) {
    violations->Add(at + ".min", absl::StrCat(range.min, " is beyond ±2^53"));
  }
  if (range.max < -kMaxInteger || range.max > kMaxInteger) {
    violations->Add(at + ".max", absl::StrCat(range.max, " is beyond ±2^53"));
  }
  if (range.min > range.max) {
    violations->Add(at + ".max", absl::StrCat(range.max, " is below min ", range.min, "; swap the bounds"));
  }
  if (range.step < 1) violations->Add(at + ".step", absl::StrCat(range.step, " is not at least 1"));
  if (range.scale == Scale::kLog && range.min < 1) {
    violations->Add(at + ".min", absl::StrCat(range.min, " is below 1, as scale LOG needs; raise it or use LINEAR"));
  }
  if (range.scale == Scale::kLog && range.step != 1) {
    violations->Add(at + ".step", "is only possible with scale LINEAR; leave one of the two out");
  }
  if (range.scale == Scale::kLogit) violations->Add(at + ".scale", "LOGIT is for float parameters");
}

void CheckLabels(const std::vector<std::string>& labels, const std::string& at, base::Violations* violations) {
  if (labels.empty()) violations->Add(at + ".values", "is empty; give at least one label");
  if (labels.size() > kMaxLabels) {
    violations->Add(at + ".values",
                    absl::StrCat("has ", labels.size(), " labels; at most ", kMaxLabels, " are allowed"));
    return;
  }
  std::set<std::string> seen;
  for (size_t i = 0; i < labels.size(); ++i) {
    const std::string field = absl::StrCat(at, ".values[", i, "]");
    if (labels[i].empty()) violations->Add(field, "is empty");
    if (labels[i].size() > kMaxLabelBytes)
      violations->Add(field, absl::StrCat("is longer than ", kMaxLabelBytes, " bytes"));
    for (const char c : labels[i]) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
        violations->Add(field, "contains a control character");
        break;
      }
    }
    if (!seen.insert(labels[i]).second) violations->Add(field, absl::StrCat(Quote(labels[i]), " is there twice"));
  }
}

void CheckDomain(const OrdinalLabels& d, const std::string& at, base::Violations* v) {
  CheckLabels(d.labels, at, v);
}
void CheckDomain(const CategoricalLabels& d, const std::string& at, base::Violations* v) {
  CheckLabels(d.labels, at, v);
}
void CheckDomain(const BoolSwitch&, const std::string&, base::Violations*) {}

void CheckCount(const ParameterSpec& p, const std::string& at, base::Violations* violations) {
  if (*p.count < 1 || *p.count > kMaxScalars) {
    violations->Add(at + ".count", absl::StrCat(*p.count, " is not between 1 and ", kMaxScalars));
  }
  const auto* range = std::get_if<FloatRange>(&p.domain);
  if (range == nullptr || range->step) {
    violations->Add(at + ".count", "is for float parameters without a step; declare the others one by one");
  }
}

const char* KindName(const ParameterDomain& domain) {
  static constexpr const char* kNames[] = {"float", "int", "ordinal", "categorical", "bool"};
  return kNames[domain.index()];
}

absl::Status Wrong(absl::string_view text) {
  return base::BadField("", text);
}

absl::StatusOr<ParameterValue> CanonicalIn(const FloatRange& range, double x) {
  if (!std::isfinite(x)) return Wrong(absl::StrCat(FormatDouble(x), " is not finite"));
  double slack_below = kSnapTolerance * (range.max - range.min);
  double slack_above = slack_below;
  if (range.scale != Scale::kLinear) {
    // The slack is relative to the bound: an absolute one would let 0 into [1e-8, 1e4].
    slack_below = kSnapTolerance * range.min;
    slack_above = kSnapTolerance * (range.scale == Scale::kLog ? range.max : 1.0 - range.max);
  }
  if (x < range.min - slack_below || x > range.max + slack_above) {
    return Wrong(absl::StrCat(FormatDouble(x), " is outside [", FormatDouble(range.min), ", ", FormatDouble(range.max),
                              "]; give a value within these bounds"));
  }
  x = std::clamp(x, range.min, range.max);
  if (range.step) {
    const double last = StepCount(range) - 1.0;
    const double level = std::clamp(std::round((x - range.min) / *range.step), 0.0, last);
    const double snapped = StepValue(range, level);
    // The tolerance is the loss by ten printed digits, but never so large that a number between two steps passes.
    const double tolerance = std::min(kSnapTolerance * std::max(std::abs(x), *range.step), 0.01 * *range.step) +
                             4.0 * kEpsilon * std::abs(x);
    if (std::abs(snapped - x) > tolerance) {
      return Wrong(absl::StrCat(FormatDouble(x), " is not on a step; the nearest is ", FormatDouble(snapped)));
    }
    x = snapped;
  }
  return x == 0.0 ? 0.0 : x;  // No negative zero.
}

absl::StatusOr<ParameterValue> CanonicalIn(const IntRange& range, double x) {
  const double rounded = std::round(x);
  if (!(std::abs(rounded - x) <= std::min(kSnapTolerance * std::max(1.0, std::abs(x)), 0.01))) {
    return Wrong(absl::StrCat(FormatDouble(x), " is not a whole number"));
  }
  if (rounded < static_cast<double>(range.min) || rounded > static_cast<double>(range.max)) {
    return Wrong(absl::StrCat(FormatDouble(rounded), " is outside [", range.min, ", ", range.max,
                              "]; give a value within these bounds"));
  }
  const auto value = static_cast<int64_t>(rounded);
  if ((value - range.min) % range.step != 0) {
    return Wrong(absl::StrCat(value, " is not min + a multiple of step ", range.step));
  }
  return static_cast<double>(value);
}

// "a, b, c", with an end.
std::string SomeOf(const std::vector<std::string>& names) {
  constexpr size_t kShown = 10;
  const std::vector<std::string> first(names.begin(), names.begin() + std::min(names.size(), kShown));
  return absl::StrCat(absl::StrJoin(first, ", "),
                      names.size() > kShown ? absl::StrCat(" and ", names.size() - kShown, " more") : "");
}

absl::StatusOr<ParameterValue> CanonicalLabel(const std::vector<std::string>& labels, const ParameterValue& value) {
  const std::string* label = std::get_if<std::string>(&value);
  // A label that looks like a number may have been read as one.
  const std::string text = label ? *label : FormatValue(value);
  if (std::find(labels.begin(), labels.end(), text) != labels.end()) return text;
  // The number 1 is the label 1.0 where that is the only label of its value.
  if (const double* number = std::get_if<double>(&value)) {
    const auto is_it = [number](const std::string& one) {
      double known = 0.0;
      return absl::SimpleAtod(one, &known) && known == *number;
    };
    const auto found = std::find_if(labels.begin(), labels.end(), is_it);
    if (found != labels.end() && std::find_if(found + 1, labels.end(), is_it) == labels.end()) return *found;
  }
  return Wrong(
      absl::StrCat(Quote(text), " is not one of its labels", base::DidYouMean(text, labels), ": ", SomeOf(labels)));
}

// Returns `value` as a value of `p`: for a vector, as all its scalars.
ParameterValue Filled(const ParameterSpec& p, double value) {
  if (!p.is_vector()) return value;
  return std::vector<double>(static_cast<size_t>(*p.count), value);
}

absl::StatusOr<ParameterValue> Spread(const ParameterSpec& p, double value) {
  LUTHIER_ASSIGN_OR_RETURN(const ParameterValue canonical, CanonicalIn(std::get<FloatRange>(p.domain), value));
  return Filled(p, std::get<double>(canonical));
}

}  // namespace

double StepCount(const FloatRange& range) {
  // The 1e-9 admits a `max` that round-off leaves just short of a step.
  return std::floor((range.max - range.min) / *range.step + 1e-9) + 1.0;
}

double StepValue(const FloatRange& range, double level) {
  const double x = range.min + level * *range.step;
  char text[32];
  const std::to_chars_result end = std::to_chars(text, text + sizeof(text), x, std::chars_format::general, 15);
  double rounded = x;
  std::from_chars(text, end.ptr, rounded);
  const double round_off = 4.0 * kEpsilon * std::max(std::abs(range.min), std::abs(x));
  return std::clamp(std::abs(rounded - x) <= round_off ? rounded : x, range.min, range.max) + 0.0;
}

absl::StatusOr<ParameterValue> CanonicalValue(const ParameterDomain& domain, const ParameterValue& value) {
  if (const auto* d = std::get_if<OrdinalLabels>(&domain)) return CanonicalLabel(d->labels, value);
  if (const auto* d = std::get_if<CategoricalLabels>(&domain)) return CanonicalLabel(d->labels, value);
  if (std::holds_alternative<BoolSwitch>(domain)) {
    if (std::holds_alternative<bool>(value)) return value;
    if (const auto* s = std::get_if<std::string>(&value); s && (*s == "true" || *s == "false")) return *s == "true";
    return Wrong(absl::StrCat(Quote(FormatValue(value)), " is not true or false"));
  }
  const double* number = std::get_if<double>(&value);
  if (number == nullptr) {
    const bool list = std::holds_alternative<std::vector<double>>(value);
    return Wrong(absl::StrCat(list ? "a list" : Quote(FormatValue(value)), " is not a number, as a parameter of kind ",
                              KindName(domain), " needs"));
  }
  if (const auto* d = std::get_if<FloatRange>(&domain)) return CanonicalIn(*d, *number);
  return CanonicalIn(std::get<IntRange>(domain), *number);
}

absl::StatusOr<ParameterValue> CanonicalValue(const ParameterSpec& parameter, const ParameterValue& value) {
  if (!parameter.is_vector()) return CanonicalValue(parameter.domain, value);
  const auto* given = std::get_if<std::vector<double>>(&value);
  if (given == nullptr) {
    return Wrong(
        absl::StrCat("is a vector of ", *parameter.count, " numbers; give a list, not ", Quote(FormatValue(value))));
  }
  if (given->size() != static_cast<size_t>(*parameter.count)) {
    return Wrong(absl::StrCat("has ", given->size(), " numbers; the vector has ", *parameter.count));
  }
  std::vector<double> canonical;
  canonical.reserve(given->size());
  for (size_t k = 0; k < given->size(); ++k) {
    const absl::StatusOr<ParameterValue> element = CanonicalIn(std::get<FloatRange>(parameter.domain), (*given)[k]);
    if (!element.ok()) {
      base::Violations violations;
      violations.AddAll(absl::StrCat("[", k, "]"), element.status());
      return violations.ToStatus();
    }
    canonical.push_back(std::get<double>(*element));
  }
  return canonical;
}

namespace {

using base::Violations;

// Checks the i-th parameter's name, and notes it in *index.
void CheckName(const ParameterSpec& p, size_t i, std::map<std::string, int>* index, Violations* violations) {
  const std::string at = absl::StrCat("[", i, "].name");
  if (!IsName(p.name)) {
    violations->Add(at, p.name.empty() ? std::string("is required")
                                       : absl::StrCat(Quote(p.name),
                                                      " is not a name: letters, digits, '_' and '.', not "
                                                      "starting with a digit, at most 64"));
  } else if (p.name.rfind("luthier.", 0) == 0) {
    violations->Add(at, absl::StrCat(Quote(p.name), " begins with \"luthier.\", which is reserved"));
  } else if (!index->emplace(p.name, static_cast<int>(i)).second) {
    violations->Add(at, absl::StrCat(Quote(p.name), " is used twice; names must differ"));
  }
}

// Checks the domain, and makes the default value canonical.
void CheckValues(const std::string& at, ParameterSpec* p, Violations* violations) {
  const std::string kind_at = absl::StrCat(at, ".", KindName(p->domain));
  Violations of_domain;
  std::visit([&](const auto& domain) { CheckDomain(domain, kind_at, &of_domain); }, p->domain);
  if (p->count) CheckCount(*p, at, &of_domain);
  if (of_domain.empty() && p->default_value) {
    const bool spread = p->count && std::holds_alternative<double>(*p->default_value);
    const absl::StatusOr<ParameterValue> value =
        spread ? Spread(*p, std::get<double>(*p->default_value)) : CanonicalValue(*p, *p->default_value);
    if (!value.ok())
      violations->AddAll(at + ".default_value", value.status());
    else
      p->default_value = *value;
  }
  violations->AddAll("", of_domain.ToStatus());
}

// Makes the values of a condition on `parent` canonical.
void CheckCondition(const ParameterSpec& parent, const std::string& at, Condition* condition, Violations* violations) {
  if (condition->values.empty()) violations->Add(at + ".values", "is empty; give the parent's values");
  if (const auto* range = std::get_if<FloatRange>(&parent.domain); range && !range->step) {
    violations->Add(at + ".parent",
                    absl::StrCat(Quote(condition->parent), " is continuous; conditions need a parent with levels"));
    return;
  }
  if (!violations->empty()) return;  // The parent's domain may be broken.
  for (size_t k = 0; k < condition->values.size(); ++k) {
    const absl::StatusOr<ParameterValue> value = CanonicalValue(parent.domain, condition->values[k]);
    if (!value.ok())
      violations->AddAll(absl::StrCat(at, ".values[", k, "]"), value.status());
    else
      condition->values[k] = *value;
  }
}

// Returns the parameters in topological order, parents first, otherwise by index. Cycles are violations.
std::vector<int> OrderParentsFirst(const std::vector<int>& parents, Violations* violations) {
  std::vector<int> order;
  std::vector<bool> placed(parents.size(), false);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t i = 0; i < parents.size(); ++i) {
      if (placed[i] || (parents[i] >= 0 && !placed[static_cast<size_t>(parents[i])])) continue;
      placed[i] = moved = true;
      order.push_back(static_cast<int>(i));
    }
  }
  for (size_t i = 0; i < parents.size(); ++i) {
    if (!placed[i]) violations->Add(absl::StrCat("[", i, "].condition.parent"), "is part of a cycle of conditions");
  }
  return order;
}

}  // namespace

absl::StatusOr<SearchSpace> SearchSpace::Create(std::vector<ParameterSpec> parameters) {
  Violations violations;
  if (parameters.size() > kMaxParameters) {
    return base::BadField(
        "", absl::StrCat("has ", parameters.size(), " parameters; at most ", kMaxParameters, " are allowed"));
  }
  std::map<std::string, int> index;
  std::vector<std::string> names;
  int64_t scalars = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    ParameterSpec& p = parameters[i];
    CheckName(p, i, &index, &violations);
    names.push_back(p.name);
    scalars += p.count ? std::clamp<int64_t>(*p.count, 0, kMaxScalars) : 1;
    CheckValues(absl::StrCat("[", i, "]"), &p, &violations);
  }
  if (scalars > kMaxScalars) {
    violations.Add("", absl::StrCat("has ", scalars, " scalars in its vectors and other parameters; at most ",
                                    kMaxScalars, " are allowed"));
  }
  std::vector<int> parents(parameters.size(), -1);
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].condition) continue;
    Condition& condition = *parameters[i].condition;
    const std::string at = absl::StrCat("[", i, "].condition");
    const auto parent = index.find(condition.parent);
    if (parent == index.end()) {
      violations.Add(at + ".parent", absl::StrCat(Quote(condition.parent), " is not a parameter of the space",
                                                  base::DidYouMean(condition.parent, names)));
      continue;
    }
    parents[i] = parent->second;
    CheckCondition(parameters[static_cast<size_t>(parent->second)], at, &condition, &violations);
  }
  std::vector<int> order = OrderParentsFirst(parents, &violations);
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());

  SearchSpace space;
  space.parameters_ = std::move(parameters);
  space.order_ = std::move(order);
  space.parents_ = std::move(parents);
  for (int i = 0; i < space.size(); ++i) {
    const int width = space.parameters_[i].width();
    space.scalars_ += width;
    const auto* range = std::get_if<FloatRange>(&space.parameters_[i].domain);
    if (!range || range->step) continue;
    for (int element = 0; element < width; ++element) space.differentiable_.push_back({i, element});
  }
  return space;
}

std::string SearchSpace::ScalarName(const Scalar& scalar) const {
  const ParameterSpec& p = parameters_[scalar.parameter];
  return p.is_vector() ? absl::StrCat(p.name, "[", scalar.element, "]") : p.name;
}

std::optional<int> SearchSpace::Find(absl::string_view name) const {
  for (int i = 0; i < size(); ++i) {
    if (parameters_[i].name == name) return i;
  }
  return std::nullopt;
}

bool SearchSpace::IsActive(int i, const Parameters& values) const {
  const std::optional<Condition>& condition = parameters_[i].condition;
  if (!condition) return true;
  const auto parent = values.find(condition->parent);
  if (parent == values.end()) return false;
  return std::find(condition->values.begin(), condition->values.end(), parent->second) != condition->values.end();
}

bool SearchSpace::IsConstant(int i) const {
  if (const auto* range = std::get_if<FloatRange>(&parameters_[i].domain); range && range->min == range->max)
    return true;
  const std::optional<int64_t> levels = Levels(i);
  return levels && *levels == 1;
}

std::optional<int64_t> SearchSpace::Levels(int i) const {
  const ParameterDomain& domain = parameters_[i].domain;
  if (const auto* d = std::get_if<FloatRange>(&domain)) {
    if (d->min == d->max) return 1;
    if (!d->step) return std::nullopt;
    return static_cast<int64_t>(StepCount(*d));
  }
  if (const auto* d = std::get_if<IntRange>(&domain)) return (d->max - d->min) / d->step + 1;
  if (const auto* d = std::get_if<OrdinalLabels>(&domain)) return static_cast<int64_t>(d->labels.size());
  if (const auto* d = std::get_if<CategoricalLabels>(&domain)) return static_cast<int64_t>(d->labels.size());
  return 2;
}

ParameterValue SearchSpace::LevelValue(int i, int64_t level) const {
  const ParameterDomain& domain = parameters_[i].domain;
  if (const auto* d = std::get_if<FloatRange>(&domain)) {
    if (d->min == d->max) return Filled(parameters_[i], d->min + 0.0);
    LUTHIER_CHECK(d->step.has_value());
    return StepValue(*d, static_cast<double>(level));
  }
  if (const auto* d = std::get_if<IntRange>(&domain)) return static_cast<double>(d->min + level * d->step);
  if (const auto* d = std::get_if<OrdinalLabels>(&domain)) return d->labels[static_cast<size_t>(level)];
  if (const auto* d = std::get_if<CategoricalLabels>(&domain)) return d->labels[static_cast<size_t>(level)];
  return level == 1;
}

int64_t SearchSpace::LevelOf(int i, const ParameterValue& value) const {
  const ParameterDomain& domain = parameters_[i].domain;
  if (const auto* d = std::get_if<FloatRange>(&domain)) {
    if (d->min == d->max) return 0;
    LUTHIER_CHECK(d->step.has_value());
    return static_cast<int64_t>(std::round((std::get<double>(value) - d->min) / *d->step));
  }
  if (const auto* d = std::get_if<IntRange>(&domain)) {
    return (static_cast<int64_t>(std::get<double>(value)) - d->min) / d->step;
  }
  if (std::holds_alternative<BoolSwitch>(domain)) return std::get<bool>(value) ? 1 : 0;
  const auto* ordinal = std::get_if<OrdinalLabels>(&domain);
  const std::vector<std::string>& labels = ordinal ? ordinal->labels : std::get<CategoricalLabels>(domain).labels;
  return std::find(labels.begin(), labels.end(), std::get<std::string>(value)) - labels.begin();
}

std::optional<int64_t> SearchSpace::Cardinality() const {
  int64_t product = 1;
  for (int i = 0; i < size(); ++i) {
    const std::optional<int64_t> levels = Levels(i);  // A vector has one level, or none.
    if (!levels || __builtin_mul_overflow(product, *levels, &product)) return std::nullopt;
  }
  return product;
}

absl::StatusOr<Parameters> SearchSpace::Canonical(const Parameters& values) const {
  base::Violations violations;
  std::vector<std::string> names;
  for (const ParameterSpec& p : parameters_) names.push_back(p.name);
  Parameters result;
  for (const int i : order_) {
    const ParameterSpec& p = parameters_[i];
    const auto given = values.find(p.name);
    if (!IsActive(i, result)) {
      if (given != values.end()) {
        violations.Add(p.name, absl::StrCat("is inactive here (its condition on ", Quote(p.condition->parent),
                                            " does not hold); leave it out"));
      }
      continue;
    }
    if (given == values.end()) {
      violations.Add(p.name, "is missing; give a value for it");
      continue;
    }
    absl::StatusOr<ParameterValue> value = CanonicalValue(p, given->second);
    if (!value.ok())
      violations.AddAll(p.name, value.status());
    else
      result[p.name] = *std::move(value);
  }
  for (const auto& [name, value] : values) {
    if (Find(name)) continue;
    violations.Add(IsName(name) ? name : Quote(name),
                   absl::StrCat("is not a parameter of the study", base::DidYouMean(name, names),
                                names.empty() ? ", which has none yet" : absl::StrCat("; it has ", SomeOf(names))));
  }
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  return result;
}

absl::Status SearchSpace::Validate(const Parameters& values) const {
  return Canonical(values).status();
}

namespace {

// Returns the middle of a domain, for parameters without a default.
ParameterValue Middle(const ParameterDomain& domain) {
  if (const auto* d = std::get_if<FloatRange>(&domain)) {
    double middle = d->min / 2 + d->max / 2;
    if (d->scale == Scale::kLog) middle = std::exp(std::log(d->min) / 2 + std::log(d->max) / 2);
    if (d->scale == Scale::kLogit) {
      const auto logit = [](double x) { return std::log(x) - std::log1p(-x); };
      const double odds = std::exp(-std::abs(logit(d->min) / 2 + logit(d->max) / 2));
      middle = (logit(d->min) + logit(d->max) < 0.0 ? odds : 1.0) / (1.0 + odds);
    }
    if (d->step) middle = StepValue(*d, std::floor((StepCount(*d) - 1.0) / 2));
    return std::clamp(middle, d->min, d->max);
  }
  if (const auto* d = std::get_if<IntRange>(&domain)) {
    if (d->scale == Scale::kLog) {
      const double middle = std::sqrt(static_cast<double>(d->min)) * std::sqrt(static_cast<double>(d->max));
      return std::clamp(std::round(middle), static_cast<double>(d->min), static_cast<double>(d->max));
    }
    return static_cast<double>(d->min + (d->max - d->min) / d->step / 2 * d->step);
  }
  if (const auto* d = std::get_if<OrdinalLabels>(&domain)) return d->labels[(d->labels.size() - 1) / 2];
  if (const auto* d = std::get_if<CategoricalLabels>(&domain)) return d->labels.front();
  return false;
}

ParameterValue Middle(const ParameterSpec& p) {
  const ParameterValue middle = Middle(p.domain);
  return p.is_vector() ? Filled(p, std::get<double>(middle)) : middle;
}

}  // namespace

absl::StatusOr<Parameters> SearchSpace::Complete(const Parameters& given) const {
  Parameters completed = given;
  for (const int i : order_) {
    const ParameterSpec& p = parameters_[i];
    const auto found = completed.find(p.name);
    if (found != completed.end()) {
      // The value is snapped now, or the conditions of its children would compare it with their values too strictly.
      const absl::StatusOr<ParameterValue> canonical = CanonicalValue(p, found->second);
      if (canonical.ok()) found->second = *canonical;
    } else if (IsActive(i, completed)) {
      completed[p.name] = p.default_value ? *p.default_value : Middle(p);
    }
  }
  return Canonical(completed);
}

Parameters SearchSpace::Default() const {
  absl::StatusOr<Parameters> defaults = Complete({});
  LUTHIER_CHECK(defaults.ok());
  return *std::move(defaults);
}

absl::StatusOr<Gradient> FromNames(const SearchSpace& space, const Parameters& setting, const Gradient& gradient) {
  base::Violations violations;
  const std::vector<Scalar>& coordinates = space.differentiable();
  std::map<std::string, size_t> places;
  std::vector<std::string> names;
  for (size_t k = 0; k < coordinates.size(); ++k) {
    const ParameterSpec& p = space.parameters()[static_cast<size_t>(coordinates[k].parameter)];
    if (p.is_vector() || setting.count(p.name) == 0) continue;
    places.emplace(p.name, k);
    names.push_back(p.name);
  }
  std::vector<double> values(coordinates.size(), 0.0);
  size_t given = 0;
  for (const auto& [name, value] : gradient.by_name) {
    const std::string at = absl::StrCat("by_name.values[", Quote(name), "]");
    const auto place = places.find(name);
    if (place == places.end()) {
      violations.Add(at, absl::StrCat("is no active float parameter without step", base::DidYouMean(name, names),
                                      "; leave it out"));
    } else if (!std::isfinite(value)) {
      violations.Add(at, "is not finite; leave it out");
    } else {
      values[place->second] = value;
      ++given;
    }
  }
  if (given == 0 && violations.empty()) violations.Add("by_name.values", "is empty; leave the gradient out");
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  Gradient result = gradient;
  result.by_name.clear();
  const bool vectors = std::any_of(coordinates.begin(), coordinates.end(), [&](const Scalar& scalar) {
    const ParameterSpec& p = space.parameters()[static_cast<size_t>(scalar.parameter)];
    return p.is_vector() && setting.count(p.name) > 0;
  });
  if (given == places.size() && !vectors) {
    result.values = std::move(values);
    return result;
  }
  // The known part of the gradient g is its part v in some coordinates. Along v the slope is g·v = v·v, exactly.
  result.solve.reset();
  result.direction.assign(coordinates.size(), 0.0);
  double largest = 0.0;
  for (const double v : values) largest = std::max(largest, std::abs(v));
  for (const auto& [name, value] : gradient.by_name) {
    const size_t k = places.at(name);
    result.direction[k] = largest > 0.0 ? value / largest : 1.0;
    result.slope += result.direction[k] * value;
  }
  if (result.error_bound) {
    double length = 0.0;
    for (const double d : result.direction) length = std::hypot(length, d);
    *result.error_bound *= length;
  }
  return result;
}

}  // namespace luthier::study
