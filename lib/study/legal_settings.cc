#include "lib/study/legal_settings.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lib/base/check.h"
#include "lib/base/random.h"
#include "lib/study/encoding.h"

namespace luthier::study {
namespace {

constexpr double kNoBound = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-12;  // Share of the sum of the terms' sizes.

std::string At(const std::string& field, const std::string& name) {
  return IsName(name) ? absl::StrCat(field, ".", name) : absl::StrCat(field, "[", base::Quote(name), "]");
}

// Returns the smallest and the largest number that a parameter can be; std::nullopt if it is no number.
std::optional<std::pair<double, double>> EndsOf(const ParameterSpec& parameter) {
  if (const auto* range = std::get_if<FloatRange>(&parameter.domain)) return std::make_pair(range->min, range->max);
  if (const auto* range = std::get_if<IntRange>(&parameter.domain)) {
    return std::make_pair(static_cast<double>(range->min), static_cast<double>(range->max));
  }
  return std::nullopt;
}

// Returns the parameter of that name; null, with a violation, if there is none.
const ParameterSpec* Named(const SearchSpace& space, const std::string& at, const std::string& name,
                           base::Violations* violations) {
  if (const std::optional<int> place = space.Find(name)) return &space.parameters()[static_cast<size_t>(*place)];
  std::vector<std::string> names;
  for (const ParameterSpec& parameter : space.parameters()) names.push_back(parameter.name);
  violations->Add(at, absl::StrCat("is no parameter of the study", base::DidYouMean(name, names)));
  return nullptr;
}

// Checks the bounds of a sum or of a range of values.
void CheckEnds(const std::string& at, const std::optional<double>& at_least, const std::optional<double>& at_most,
               base::Violations* violations) {
  if (at_least && !std::isfinite(*at_least)) violations->Add(at + ".at_least", "must be finite; leave it out for none");
  if (at_most && !std::isfinite(*at_most)) violations->Add(at + ".at_most", "must be finite; leave it out for none");
  if (at_least && at_most && *at_least > *at_most) {
    violations->Add(at + ".at_least", absl::StrCat(FormatDouble(*at_least), " is above at_most, ",
                                                   FormatDouble(*at_most), ", so no number keeps both"));
  }
}

void CheckSum(const SearchSpace& space, const ParameterConstraint& constraint, const std::string& at,
              base::Violations* violations) {
  for (const auto& [name, weight] : constraint.sum) {
    const std::string field = At(at + ".sum", name);
    const ParameterSpec* parameter = Named(space, field, name, violations);
    if (parameter != nullptr && !EndsOf(*parameter)) {
      violations->Add(field,
                      "is no number; sums are of float and int parameters, and forbid is for labels and switches");
    }
    if (!std::isfinite(weight) || weight == 0.0) {
      violations->Add(field, absl::StrCat("has weight ", FormatDouble(weight),
                                          ", which is not a finite number other than 0; leave the parameter out if "
                                          "it does not count"));
    }
  }
  if (!constraint.at_least && !constraint.at_most) {
    violations->Add(at, "bounds nothing; give at_most, at_least or both beside sum");
  }
  CheckEnds(at, constraint.at_least, constraint.at_most, violations);
}

void CheckRange(const ParameterSpec& parameter, const ForbiddenValues& forbidden, const std::string& field,
                base::Violations* violations) {
  const auto ends = EndsOf(parameter);
  if (!ends) return violations->Add(field, "has no ranges, as it is no number; list the values that are forbidden");
  base::Violations bounds;
  CheckEnds(field, forbidden.at_least, forbidden.at_most, &bounds);
  if (!bounds.empty()) return violations->AddAll("", bounds.ToStatus());
  if (forbidden.at_least.value_or(-kNoBound) > ends->second || forbidden.at_most.value_or(kNoBound) < ends->first) {
    violations->Add(field, absl::StrCat("names a range that has no value of the parameter, which goes from ",
                                        FormatDouble(ends->first), " to ", FormatDouble(ends->second)));
  }
}

void CheckForbidden(const ParameterSpec& parameter, const ForbiddenValues& forbidden, const std::string& field,
                    base::Violations* violations) {
  if (parameter.is_vector()) {
    return violations->Add(field, "is a vector; forbid is for single values, and sum counts each scalar of a vector");
  }
  const bool range = forbidden.at_least || forbidden.at_most;
  if (range && !forbidden.values.empty()) {
    return violations->Add(field, "has values and a range; write two constraints");
  }
  if (range) return CheckRange(parameter, forbidden, field, violations);
  if (forbidden.values.empty()) {
    return violations->Add(field, "names no value; give a value, a list of values, or {at_least: A, at_most: B}");
  }
  std::vector<ParameterValue> seen;
  for (const ParameterValue& value : forbidden.values) {
    absl::StatusOr<ParameterValue> canonical = CanonicalValue(parameter, value);
    if (!canonical.ok()) {
      violations->AddAll(field, canonical.status());
    } else if (std::find(seen.begin(), seen.end(), *canonical) != seen.end()) {
      violations->Add(field, absl::StrCat("names ", FormatValue(value), " twice"));
    } else {
      seen.push_back(*std::move(canonical));
    }
  }
}

void CheckOne(const SearchSpace& space, const ParameterConstraint& constraint, const std::string& at,
              base::Violations* violations) {
  if (constraint.sum.empty() == constraint.forbid.empty()) {
    return violations->Add(at, constraint.sum.empty() ? "is empty; give sum with at_most or at_least, or forbid"
                                                      : "has both sum and forbid; write two constraints");
  }
  if (!constraint.sum.empty()) return CheckSum(space, constraint, at, violations);
  if (constraint.at_least || constraint.at_most) {
    violations->Add(at, "has bounds beside forbid; bounds go with sum, or inside forbid as {at_least: A, at_most: B}");
  }
  for (const auto& [name, forbidden] : constraint.forbid) {
    const std::string field = At(at + ".forbid", name);
    const ParameterSpec* parameter = Named(space, field, name, violations);
    if (parameter != nullptr) CheckForbidden(*parameter, forbidden, field, violations);
  }
}

// Writes a number for people: 1,030.5.
std::string Grouped(double value) {
  std::string text = FormatDouble(value);
  if (absl::StrContains(text, "e") || !std::isfinite(value)) return text;
  const size_t point = std::min(text.find('.'), text.size());
  const size_t first = text[0] == '-' ? 1 : 0;
  for (size_t k = point; k > first + 3;) text.insert(k -= 3, ",");
  return text;
}

// Returns a sum without the digits that rounding made of it, unless these are all that is beyond the bound.
double Plain(double sum, double bound) {
  double plain = 0.0;
  if (!absl::SimpleAtod(absl::StrFormat("%.12g", sum), &plain)) return sum;
  return (sum > bound) == (plain > bound) && (sum < bound) == (plain < bound) ? plain : sum;
}

}  // namespace

void ValidateConstraints(const SearchSpace& space, const std::vector<ParameterConstraint>& constraints,
                         base::Violations* violations) {
  if (constraints.size() > static_cast<size_t>(kMaxConstraints)) {
    return violations->Add(
        "constraints", absl::StrCat("has ", constraints.size(), " entries; at most ", kMaxConstraints, " are allowed"));
  }
  for (size_t i = 0; i < constraints.size(); ++i) {
    const std::string at = absl::StrCat("constraints[", i, "]");
    CheckOne(space, constraints[i], at, violations);
    const auto same =
        std::find(constraints.begin(), constraints.begin() + static_cast<std::ptrdiff_t>(i), constraints[i]) -
        constraints.begin();
    if (static_cast<size_t>(same) < i) violations->Add(at, absl::StrCat("is the same as constraints[", same, "]"));
  }
}

LegalSettings::LegalSettings(const SearchSpace& space, const std::vector<ParameterConstraint>& constraints) {
  if (constraints.empty()) return;
  for (const ParameterSpec& parameter : space.parameters()) names_.push_back(parameter.name);
  std::vector<bool> decides(names_.size(), false);
  const auto place = [&](const std::string& name) {
    const std::optional<int> found = space.Find(name);
    LUTHIER_CHECK(found.has_value());
    for (int i = *found; i >= 0; i = space.parent(i)) decides[static_cast<size_t>(i)] = true;
    return *found;
  };
  for (size_t i = 0; i < constraints.size(); ++i) {
    const ParameterConstraint& constraint = constraints[i];
    if (!constraint.sum.empty()) {
      Row row{.constraint = static_cast<int>(i),
              .weights = {},
              .at_least = constraint.at_least.value_or(-kNoBound),
              .at_most = constraint.at_most.value_or(kNoBound)};
      for (const auto& [name, weight] : constraint.sum) {
        row.weights.emplace_back(place(name), weight);
        const ParameterSpec& parameter = space.parameters()[static_cast<size_t>(row.weights.back().first)];
        const auto ends = EndsOf(parameter);
        LUTHIER_CHECK(ends.has_value());
        row.range += std::abs(weight) * (ends->second - ends->first) * parameter.width();
      }
      if (!(row.range > 0.0)) row.range = 1.0;
      rows_.push_back(std::move(row));
      continue;
    }
    Combination combination{.constraint = static_cast<int>(i), .all = {}};
    for (const auto& [name, forbidden] : constraint.forbid) {
      Values values{.parameter = place(name),
                    .values = {},
                    .at_least = forbidden.at_least.value_or(-kNoBound),
                    .at_most = forbidden.at_most.value_or(kNoBound)};
      for (const ParameterValue& value : forbidden.values) {
        absl::StatusOr<ParameterValue> canonical =
            CanonicalValue(space.parameters()[static_cast<size_t>(values.parameter)], value);
        LUTHIER_CHECK(canonical.ok());
        values.values.push_back(*std::move(canonical));
      }
      combination.all.push_back(std::move(values));
    }
    combinations_.push_back(std::move(combination));
  }
  for (const int i : space.topological_order()) {
    if (decides[static_cast<size_t>(i)]) deciding_.push_back(i);
  }
}

double LegalSettings::SumOf(const Row& row, const Parameters& setting) const {
  double sum = 0.0;
  for (const auto& [parameter, weight] : row.weights) {
    const auto found = setting.find(NameOf(parameter));
    if (found == setting.end()) continue;
    if (const auto* vector = std::get_if<std::vector<double>>(&found->second)) {
      for (const double value : *vector) sum += weight * value;
    } else {
      sum += weight * std::get<double>(found->second);
    }
  }
  return sum;
}

double LegalSettings::Beyond(const Row& row, const Parameters& setting) const {
  const double sum = SumOf(row, setting);
  const double beyond = std::max(sum - row.at_most, row.at_least - sum);
  if (!(beyond > 0.0)) return 0.0;
  double size = 0.0;  // Size of the terms, which bounds what rounding adds.
  for (const auto& [parameter, weight] : row.weights) {
    const auto found = setting.find(NameOf(parameter));
    if (found == setting.end()) continue;
    if (const auto* vector = std::get_if<std::vector<double>>(&found->second)) {
      for (const double value : *vector) size += std::abs(weight * value);
    } else {
      size += std::abs(weight * std::get<double>(found->second));
    }
  }
  return beyond > kRounding * size ? beyond : 0.0;
}

bool LegalSettings::Has(const Combination& combination, const Parameters& setting) const {
  return std::all_of(combination.all.begin(), combination.all.end(), [&](const Values& forbidden) {
    const auto found = setting.find(NameOf(forbidden.parameter));
    if (found == setting.end()) return false;
    if (!forbidden.values.empty()) {
      return std::find(forbidden.values.begin(), forbidden.values.end(), found->second) != forbidden.values.end();
    }
    const double value = std::get<double>(found->second);
    return value >= forbidden.at_least && value <= forbidden.at_most;
  });
}

std::optional<int> LegalSettings::Broken(const Parameters& setting) const {
  std::optional<int> first;
  const auto note = [&](int constraint) {
    if (!first || constraint < *first) first = constraint;
  };
  for (const Row& row : rows_) {
    if (Beyond(row, setting) > 0.0) {
      note(row.constraint);
      break;  // Later rows are of later constraints.
    }
  }
  for (const Combination& combination : combinations_) {
    if (Has(combination, setting)) {
      note(combination.constraint);
      break;
    }
  }
  return first;
}

std::string LegalSettings::WhyNot(const Parameters& setting) const {
  const std::optional<int> broken = Broken(setting);
  if (!broken) return "";
  for (const Row& row : rows_) {
    if (row.constraint != *broken) continue;
    std::string terms;
    for (const auto& [parameter, weight] : row.weights) {
      const double size = std::abs(weight);
      absl::StrAppend(&terms, weight < 0.0 ? (terms.empty() ? "-" : " - ") : (terms.empty() ? "" : " + "),
                      size == 1.0 ? "" : absl::StrCat(Grouped(size), " "), NameOf(parameter));
    }
    const double sum = SumOf(row, setting);
    const bool above = sum > row.at_most;
    const double bound = above ? row.at_most : row.at_least;
    return absl::StrCat(terms, " is ", Grouped(Plain(sum, bound)), ", and constraints[", row.constraint, "] allows at ",
                        above ? "most " : "least ", Grouped(bound));
  }
  for (const Combination& combination : combinations_) {
    if (combination.constraint != *broken) continue;
    std::vector<std::string> parts;
    for (const Values& values : combination.all) {
      const std::string& name = NameOf(values.parameter);
      parts.push_back(absl::StrCat(name, " ", FormatValue(setting.at(name))));
    }
    return absl::StrCat("constraints[", combination.constraint, "] forbids ", absl::StrJoin(parts, " with "));
  }
  return "";
}

LegalShare LegalShareOf(const SearchSpace& space, const std::vector<ParameterConstraint>& constraints) {
  if (constraints.empty()) return {.legal = kLegalDraws, .draws = kLegalDraws};
  // Parameters that do not decide need not be drawn, so only those that do make a space of their own.
  const LegalSettings of_all(space, constraints);
  std::vector<ParameterSpec> deciding;
  for (const int i : of_all.deciding()) deciding.push_back(space.parameters()[static_cast<size_t>(i)]);
  absl::StatusOr<SearchSpace> part = SearchSpace::Create(std::move(deciding));
  LUTHIER_CHECK(part.ok());
  const LegalSettings legal(*part, constraints);
  const Encoding encoding(*std::move(part));
  LegalShare share;
  for (; share.draws < kLegalDraws; ++share.draws) {
    base::RandomStream random(0, "legal/share", static_cast<uint64_t>(share.draws));
    if (legal.Contains(encoding.Sample(random))) ++share.legal;
  }
  return share;
}

}  // namespace luthier::study
