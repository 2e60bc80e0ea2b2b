#include "lib/study/legal_settings.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <unordered_map>

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
constexpr size_t kLongSum = 400;  // Bytes of a sum that are shown, and parameters of a combination.
constexpr size_t kMostNamed = 20;
constexpr double kLargestSum = 1e300;
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

// Places of a space's parameters by name. SearchSpace::Find looks through all of them, and constraints may name many.
std::unordered_map<std::string, int> PlacesOf(const SearchSpace& space) {
  std::unordered_map<std::string, int> places;
  for (const ParameterSpec& parameter : space.parameters()) {
    places.emplace(parameter.name, static_cast<int>(places.size()));
  }
  return places;
}

struct NamedSpace {
  const SearchSpace& space;
  const std::unordered_map<std::string, int> places = PlacesOf(space);
};

// Returns the parameter of that name; null, with a violation, if there is none.
const ParameterSpec* Named(const NamedSpace& in, const std::string& at, const std::string& name,
                           base::Violations* violations) {
  const auto found = in.places.find(name);
  if (found != in.places.end()) return &in.space.parameters()[static_cast<size_t>(found->second)];
  std::vector<std::string> names;
  for (const ParameterSpec& parameter : in.space.parameters()) names.push_back(parameter.name);
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

void CheckSum(const NamedSpace& space, const ParameterConstraint& constraint, const std::string& at,
              base::Violations* violations) {
  double largest = 0.0;  // Sum of the sizes of all terms.
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
    } else if (parameter != nullptr && EndsOf(*parameter)) {
      const auto [low, high] = *EndsOf(*parameter);
      largest += std::abs(weight) * std::max(std::abs(low), std::abs(high)) * parameter->width();
    }
  }
  // Larger sums would be rounded to infinity, and so would what they may be beyond a bound by rounding.
  if (!(largest <= kLargestSum)) {
    violations->Add(at + ".sum",
                    absl::StrCat("can be as large as ", FormatDouble(largest), "; at most ", FormatDouble(kLargestSum),
                                 " is allowed: smaller weights and bounds, "
                                 "all in the same proportion, say the same"));
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

void CheckOne(const NamedSpace& space, const ParameterConstraint& constraint, const std::string& at,
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
  const NamedSpace in{space};
  std::set<std::string> named;
  for (const ParameterConstraint& constraint : constraints) {
    for (const auto& [name, weight] : constraint.sum) named.insert(name);
    for (const auto& [name, values] : constraint.forbid) named.insert(name);
  }
  int scalars = 0;
  for (const ParameterSpec& parameter : space.parameters())
    scalars += named.contains(parameter.name) ? parameter.width() : 0;
  if (scalars > kMaxDecidingScalars) {
    return violations->Add("constraints", absl::StrCat("are about ", scalars, " scalars together; at most ",
                                                       kMaxDecidingScalars, " are allowed"));
  }
  for (size_t i = 0; i < constraints.size(); ++i) {
    const std::string at = absl::StrCat("constraints[", i, "]");
    CheckOne(in, constraints[i], at, violations);
    const auto same =
        std::find(constraints.begin(), constraints.begin() + static_cast<std::ptrdiff_t>(i), constraints[i]) -
        constraints.begin();
    if (static_cast<size_t>(same) < i) violations->Add(at, absl::StrCat("is the same as constraints[", same, "]"));
  }
}

LegalSettings::LegalSettings(const SearchSpace& space, const std::vector<ParameterConstraint>& constraints) {
  if (constraints.empty()) return;
  std::vector<bool> decides(static_cast<size_t>(space.size()), false);
  const std::unordered_map<std::string, int> places = PlacesOf(space);
  const auto place = [&](const std::string& name) { return places.at(name); };
  const auto note = [&](const auto& named) {
    for (const auto& [name, value] : named) {
      for (int i = place(name); i >= 0; i = space.parent(i)) decides[static_cast<size_t>(i)] = true;
    }
  };
  for (const ParameterConstraint& constraint : constraints) {
    note(constraint.sum);
    note(constraint.forbid);
  }
  AddDeciders(space, decides);
  std::unordered_map<std::string, int> decider_of;
  for (size_t k = 0; k < deciders_.size(); ++k) decider_of.emplace(deciders_[k].name, static_cast<int>(k));
  const auto decider = [&](const std::string& name) { return decider_of.at(name); };
  for (size_t i = 0; i < constraints.size(); ++i) {
    const ParameterConstraint& constraint = constraints[i];
    if (!constraint.sum.empty()) {
      Row row{.constraint = static_cast<int>(i),
              .weights = {},
              .at_least = constraint.at_least.value_or(-kNoBound),
              .at_most = constraint.at_most.value_or(kNoBound)};
      for (const auto& [name, weight] : constraint.sum) {
        row.weights.emplace_back(decider(name), weight);
        const ParameterSpec& parameter = space.parameters()[static_cast<size_t>(place(name))];
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
      Values values{.place = decider(name),
                    .values = {},
                    .at_least = forbidden.at_least.value_or(-kNoBound),
                    .at_most = forbidden.at_most.value_or(kNoBound)};
      for (const ParameterValue& value : forbidden.values) {
        const absl::StatusOr<ParameterValue> canonical =
            CanonicalValue(space.parameters()[static_cast<size_t>(place(name))], value);
        LUTHIER_CHECK(canonical.ok());
        values.values.push_back(NumberOf(deciders_[static_cast<size_t>(values.place)], *canonical));
      }
      std::sort(values.values.begin(), values.values.end());
      combination.all.push_back(std::move(values));
    }
    combinations_.push_back(std::move(combination));
  }
}

void LegalSettings::AddDeciders(const SearchSpace& space, const std::vector<bool>& decides) {
  std::vector<int> places(decides.size(), -1);
  for (const int i : space.topological_order()) {
    if (!decides[static_cast<size_t>(i)]) continue;
    const ParameterSpec& parameter = space.parameters()[static_cast<size_t>(i)];
    Decider decider;
    decider.name = parameter.name;
    const auto* ordinal = std::get_if<OrdinalLabels>(&parameter.domain);
    const auto* categorical = std::get_if<CategoricalLabels>(&parameter.domain);
    if (ordinal != nullptr || categorical != nullptr) {
      const std::vector<std::string>& labels = ordinal != nullptr ? ordinal->labels : categorical->labels;
      for (size_t k = 0; k < labels.size(); ++k) decider.places.emplace(labels[k], static_cast<double>(k));
    }
    if (space.parent(i) >= 0) {
      decider.parent = places[static_cast<size_t>(space.parent(i))];
      for (const ParameterValue& value : parameter.condition->values) {
        decider.exists_at.push_back(NumberOf(deciders_[static_cast<size_t>(decider.parent)], value));
      }
      std::sort(decider.exists_at.begin(), decider.exists_at.end());
    }
    places[static_cast<size_t>(i)] = static_cast<int>(deciders_.size());
    deciding_.push_back(i);
    deciders_.push_back(std::move(decider));
  }
}

double LegalSettings::NumberOf(const Decider& decider, const ParameterValue& value) {
  if (const double* number = std::get_if<double>(&value)) return *number;
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? 1.0 : 0.0;
  if (const auto* vector = std::get_if<std::vector<double>>(&value)) {
    return std::accumulate(vector->begin(), vector->end(), 0.0);
  }
  const auto found = decider.places.find(std::get<std::string>(value));
  return found == decider.places.end() ? std::nan("") : found->second;
}

std::vector<double> LegalSettings::ValuesOf(const Parameters& setting) const {
  std::vector<double> values(deciders_.size(), std::nan(""));
  for (size_t k = 0; k < deciders_.size(); ++k) {
    const auto found = setting.find(deciders_[k].name);
    if (found != setting.end()) values[k] = NumberOf(deciders_[k], found->second);
  }
  return values;
}

bool LegalSettings::Exists(size_t k, const std::vector<double>& values) const {
  const Decider& decider = deciders_[k];
  if (decider.parent < 0) return true;
  const double parent = values[static_cast<size_t>(decider.parent)];
  return !std::isnan(parent) && std::binary_search(decider.exists_at.begin(), decider.exists_at.end(), parent);
}

double LegalSettings::SumOf(const Row& row, const std::vector<double>& values) const {
  double sum = 0.0;
  for (const auto& [place, weight] : row.weights) {
    const double value = values[static_cast<size_t>(place)];
    if (!std::isnan(value)) sum += weight * value;
  }
  return sum;
}

bool LegalSettings::IsBeyond(const Row& row, const std::vector<double>& values) const {
  const double sum = SumOf(row, values);
  const double beyond = std::max(sum - row.at_most, row.at_least - sum);
  if (!(beyond > 0.0)) return false;
  double size = 0.0;  // Size of the terms, which bounds what rounding adds.
  for (const auto& [place, weight] : row.weights) {
    const double value = values[static_cast<size_t>(place)];
    if (!std::isnan(value)) size += std::abs(weight * value);
  }
  return beyond > kRounding * size;
}

bool LegalSettings::Has(const Combination& combination, const std::vector<double>& values) {
  return std::all_of(combination.all.begin(), combination.all.end(), [&](const Values& forbidden) {
    const double value = values[static_cast<size_t>(forbidden.place)];
    if (std::isnan(value)) return false;
    if (!forbidden.values.empty()) {
      return std::binary_search(forbidden.values.begin(), forbidden.values.end(), value);
    }
    return value >= forbidden.at_least && value <= forbidden.at_most;
  });
}

std::optional<int> LegalSettings::Broken(const std::vector<double>& values) const {
  std::optional<int> first;
  const auto note = [&](int constraint) {
    if (!first || constraint < *first) first = constraint;
  };
  for (const Row& row : rows_) {
    if (IsBeyond(row, values)) {
      note(row.constraint);
      break;  // Later rows are of later constraints.
    }
  }
  for (const Combination& combination : combinations_) {
    if (Has(combination, values)) {
      note(combination.constraint);
      break;
    }
  }
  return first;
}

std::string LegalSettings::WhyNot(const Parameters& setting) const {
  const std::vector<double> values = ValuesOf(setting);
  const std::optional<int> broken = Broken(values);
  if (!broken) return "";
  const auto name_of = [&](int place) { return deciders_[static_cast<size_t>(place)].name; };
  for (const Row& row : rows_) {
    if (row.constraint != *broken) continue;
    std::string terms;
    for (const auto& [place, weight] : row.weights) {
      const double size = std::abs(weight);
      absl::StrAppend(&terms, weight < 0.0 ? (terms.empty() ? "-" : " - ") : (terms.empty() ? "" : " + "),
                      size == 1.0 ? "" : absl::StrCat(Grouped(size), " "), name_of(place));
      if (terms.size() > kLongSum) {
        absl::StrAppend(&terms, " + …");
        break;
      }
    }
    const double sum = SumOf(row, values);
    const bool above = sum > row.at_most;
    const double bound = above ? row.at_most : row.at_least;
    return absl::StrCat(terms, " is ", Grouped(Plain(sum, bound)), ", and constraints[", row.constraint, "] allows at ",
                        above ? "most " : "least ", Grouped(bound));
  }
  for (const Combination& combination : combinations_) {
    if (combination.constraint != *broken) continue;
    std::vector<std::string> parts;
    for (const Values& forbidden : combination.all) {
      const std::string name = name_of(forbidden.place);
      parts.push_back(absl::StrCat(name, " ", FormatValue(setting.at(name))));
      if (parts.size() == kMostNamed && combination.all.size() > kMostNamed) {
        parts.push_back("…");
        break;
      }
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
  const Encoding encoding(*std::move(part), constraints);
  Eigen::VectorXd u(encoding.compact_dim());
  LegalShare share;
  for (; share.draws < kLegalDraws; ++share.draws) {
    base::RandomStream random(0, "legal/share", static_cast<uint64_t>(share.draws));
    for (double& x : u) x = random.Uniform();
    if (encoding.IsLegalAt(u)) ++share.legal;
  }
  return share;
}

}  // namespace luthier::study
