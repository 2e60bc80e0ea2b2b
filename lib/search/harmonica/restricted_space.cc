#include "lib/search/harmonica/restricted_space.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/base/check.h"

namespace luthier::search {
namespace {

std::string SelectorName(size_t stage) {
  return absl::StrCat("s", stage);
}

std::vector<std::string> Counting(size_t count) {
  std::vector<std::string> labels;
  for (size_t k = 0; k < count; ++k) labels.push_back(absl::StrCat(k));
  return labels;
}

}  // namespace

std::vector<std::vector<RestrictedSpace::Fixed>> RestrictedSpace::FixedBy(const spectral::BitEncoding& bits,
                                                                          const HarmonicaStage& stage) {
  const std::vector<int> variables = Variables(stage.polynomial);
  std::vector<std::vector<Fixed>> restrictions;
  for (const spectral::Assignment& restriction : stage.restrictions) {
    std::vector<Fixed> groups(bits.groups().size());
    for (size_t k = 0; k < variables.size(); ++k) {
      const spectral::BitGroup& group = bits.GroupOf(variables[k]);
      Fixed& fixed = groups[static_cast<size_t>(&group - bits.groups().data())];
      const int place = 1 << (group.count - 1 - (variables[k] - group.begin));
      fixed.mask |= place;
      if ((restriction.code >> k) & 1) fixed.code |= place;
    }
    restrictions.push_back(std::move(groups));
  }
  return restrictions;
}

RestrictedSpace::RestrictedSpace(const spectral::BitEncoding& bits, const std::vector<HarmonicaStage>& stages)
    : bits_(bits) {
  const study::SearchSpace& full = bits.encoding().space();
  std::vector<study::ParameterSpec> parameters;
  for (const HarmonicaStage& stage : stages) {
    if (stage.restrictions.empty()) continue;
    std::vector<std::vector<Fixed>> restrictions = FixedBy(bits, stage);
    parameters.push_back({SelectorName(fixing_.size()), study::CategoricalLabels{Counting(restrictions.size())},
                          std::nullopt, std::nullopt});
    fixing_.push_back(std::move(restrictions));
  }
  LUTHIER_CHECK(!fixing_.empty());

  columns_.resize(static_cast<size_t>(full.size()));
  for (const spectral::BitGroup& group : bits.groups()) columns_[static_cast<size_t>(group.parameter)].group = &group;
  for (int i = 0; i < full.size(); ++i) {
    Column& column = columns_[static_cast<size_t>(i)];
    column.parameter = i;
    column.name = absl::StrCat("p", i);
    // The bits that a stage fixes are the same in all its restrictions.
    const Fixed any = column.group ? FixedOf(*column.group, std::vector<int>(fixing_.size(), 0)) : Fixed();
    column.original = any.mask == 0;
    if (column.original || column.group->levels == 0 || any.mask == (1 << column.group->count) - 1) continue;
    // The column has as many levels as the least restrictive combination leaves.
    std::vector<Fixed> combined = {Fixed()};
    const auto g = static_cast<size_t>(column.group - bits.groups().data());
    for (const auto& restrictions : fixing_) {
      std::set<int> codes;
      for (const auto& groups : restrictions) codes.insert(groups[g].code);
      std::vector<Fixed> next;
      for (const Fixed& before : combined) {
        for (const int code : codes) next.push_back({before.mask | restrictions[0][g].mask, before.code | code});
      }
      combined = std::move(next);
    }
    for (const Fixed& fixed : combined) {
      column.size = std::max(column.size, static_cast<int>(Left(*column.group, fixed).size()));
    }
  }
  // A condition stays if its parent is unchanged.
  for (int i = 0; i < full.size(); ++i) {
    const Column& column = columns_[static_cast<size_t>(i)];
    const study::ParameterSpec& original = full.parameters()[static_cast<size_t>(i)];
    study::ParameterSpec parameter;
    if (column.original) {
      parameter = original;
      if (original.condition) {
        if (columns_[static_cast<size_t>(full.parent(i))].original) {
          parameter.condition->parent = columns_[static_cast<size_t>(full.parent(i))].name;
        } else {
          parameter.condition.reset();
        }
      }
    } else if (column.group->levels == 0) {
      parameter.domain = study::FloatRange{};
    } else if (column.size >= 1) {
      parameter.domain =
          column.group->unordered
              ? study::ParameterDomain(study::CategoricalLabels{Counting(static_cast<size_t>(column.size))})
              : study::ParameterDomain(study::IntRange{.min = 0, .max = column.size - 1});
    } else {
      continue;
    }
    parameter.name = column.name;
    parameters.push_back(std::move(parameter));
  }
  absl::StatusOr<study::SearchSpace> space = study::SearchSpace::Create(std::move(parameters));
  LUTHIER_CHECK(space.ok());
  space_ = *std::move(space);
}

RestrictedSpace::Fixed RestrictedSpace::FixedOf(const spectral::BitGroup& group,
                                                const std::vector<int>& selection) const {
  const auto g = static_cast<size_t>(&group - bits_.groups().data());
  Fixed fixed;
  for (size_t q = 0; q < selection.size(); ++q) {
    const Fixed& more = fixing_[q][static_cast<size_t>(selection[q])][g];
    fixed.mask |= more.mask;
    fixed.code |= more.code;
  }
  return fixed;
}

std::vector<int> RestrictedSpace::Left(const spectral::BitGroup& group, const Fixed& fixed) {
  std::vector<int> left;
  for (int code = 0; code < (1 << group.count); ++code) {
    if ((code & fixed.mask) == fixed.code) left.push_back(group.level_of_code[static_cast<size_t>(code)]);
  }
  std::sort(left.begin(), left.end());
  left.erase(std::unique(left.begin(), left.end()), left.end());
  return left;
}

std::vector<int> RestrictedSpace::SelectionOf(const study::Parameters& restricted) const {
  std::vector<int> selection;
  for (size_t q = 0; q < fixing_.size(); ++q) {
    int chosen = 0;
    LUTHIER_CHECK(absl::SimpleAtoi(std::get<std::string>(restricted.at(SelectorName(q))), &chosen));
    selection.push_back(chosen);
  }
  return selection;
}

study::Parameters RestrictedSpace::Embed(const study::Parameters& restricted) const {
  const study::SearchSpace& full = bits_.encoding().space();
  const std::vector<int> selection = SelectionOf(restricted);
  study::Parameters values;
  for (const int i : full.topological_order()) {
    const Column& column = columns_[static_cast<size_t>(i)];
    const std::string& name = full.parameters()[static_cast<size_t>(i)].name;
    if (!full.IsActive(i, values)) continue;
    const auto given = restricted.find(column.name);
    if (column.original) {
      if (given != restricted.end()) values[name] = given->second;
      continue;
    }
    const std::vector<int> left = Left(*column.group, FixedOf(*column.group, selection));
    const auto count = static_cast<int>(left.size());
    if (column.group->levels == 0) {
      const double v = std::get<double>(given->second) * count;
      const int rank = std::clamp(static_cast<int>(std::floor(v)), 0, count - 1);
      const double cells = static_cast<double>(1 << column.group->count);
      values[name] = bits_.encoding().DecodeCoordinate(column.group->coordinate,
                                                       (left[static_cast<size_t>(rank)] + v - rank) / cells);
      continue;
    }
    int index = 0;
    if (given != restricted.end()) {
      if (const auto* label = std::get_if<std::string>(&given->second)) {
        LUTHIER_CHECK(absl::SimpleAtoi(*label, &index));
      } else {
        index = static_cast<int>(std::get<double>(given->second));
      }
    }
    const int rank = column.size > 0 ? index * count / column.size : 0;
    values[name] = full.LevelValue(i, left[static_cast<size_t>(rank)]);
  }
  return values;
}

std::optional<std::vector<int>> RestrictedSpace::Agreeing(const study::Parameters& full) const {
  const study::SearchSpace& space = bits_.encoding().space();
  std::vector<std::optional<int>> levels;  // By group; std::nullopt if it is inactive.
  for (const spectral::BitGroup& group : bits_.groups()) {
    const auto value = full.find(space.parameters()[static_cast<size_t>(group.parameter)].name);
    levels.push_back(value == full.end() ? std::nullopt : std::optional<int>(bits_.LevelOf(group, value->second)));
  }
  std::vector<int> selection;
  for (const auto& restrictions : fixing_) {
    selection.push_back(0);
    bool agrees = false;
    for (; selection.back() < static_cast<int>(restrictions.size()); ++selection.back()) {
      agrees = true;
      for (size_t g = 0; g < levels.size() && agrees; ++g) {
        const Fixed fixed = FixedOf(bits_.groups()[g], selection);
        if (!levels[g] || fixed.mask == 0) continue;
        const std::vector<int> left = Left(bits_.groups()[g], fixed);
        agrees = std::binary_search(left.begin(), left.end(), *levels[g]);
      }
      if (agrees) break;
    }
    if (!agrees) return std::nullopt;
  }
  return selection;
}

std::optional<study::Parameters> RestrictedSpace::Project(const study::Parameters& full,
                                                          const std::optional<std::vector<int>>& selection) const {
  const std::optional<std::vector<int>> chosen = selection ? selection : Agreeing(full);
  if (!chosen || chosen->size() != fixing_.size()) return std::nullopt;
  study::Parameters given;
  for (size_t q = 0; q < fixing_.size(); ++q) {
    const int choice = (*chosen)[q];
    if (choice < 0 || choice >= static_cast<int>(fixing_[q].size())) return std::nullopt;
    given[SelectorName(q)] = absl::StrCat(choice);
  }
  for (const Column& column : columns_) {
    const auto value = full.find(bits_.encoding().space().parameters()[static_cast<size_t>(column.parameter)].name);
    if (value == full.end()) continue;
    if (column.original) {
      given[column.name] = value->second;
      continue;
    }
    if (column.group->levels > 0 && column.size == 0) continue;
    const std::vector<int> left = Left(*column.group, FixedOf(*column.group, *chosen));
    const int level = bits_.LevelOf(*column.group, value->second);
    // Takes the closest level that is left, since rounding may have moved a whole number out of its cell.
    auto at = std::lower_bound(left.begin(), left.end(), level);
    if (at == left.end() || (at != left.begin() && level - *(at - 1) < *at - level)) --at;
    const auto rank = static_cast<int>(at - left.begin());
    const auto count = static_cast<int>(left.size());
    if (column.group->levels == 0) {
      const double cells = static_cast<double>(1 << column.group->count);
      const study::Parameters one = {{value->first, value->second}};
      const double u = bits_.encoding().ToCompact(one)[column.group->coordinate];
      given[column.name] = std::clamp((rank + std::clamp(u * cells - *at, 0.0, 1.0)) / count, 0.0, 1.0);
      continue;
    }
    const int index = (rank * column.size + count - 1) / count;
    given[column.name] = column.group->unordered ? study::ParameterValue(absl::StrCat(index))
                                                 : study::ParameterValue(static_cast<double>(index));
  }
  absl::StatusOr<study::Parameters> complete = space_.Complete(given);
  if (!complete.ok()) return std::nullopt;
  return *std::move(complete);
}

}  // namespace luthier::search
