#include "lib/spectral/bit_encoding.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace luthier::spectral {
namespace {

// Returns true if equal levels of the parameter are not equally wide in its coordinate.
bool IsLog(const study::ParameterDomain& domain) {
  const auto* range = std::get_if<study::IntRange>(&domain);
  return range != nullptr && range->scale == study::Scale::kLog;
}

int CeilLog2(int64_t k) {
  int bits = 0;
  while ((int64_t{1} << bits) < k) ++bits;
  return bits;
}

}  // namespace

BitEncoding::BitEncoding(const study::SearchSpace& space, int float_bits, uint64_t seed) : encoding_(space) {
  const int cell_bits = float_bits > 0 ? float_bits : encoding_.compact_dim() <= 4 ? 3 : 2;
  for (int c = 0; c < encoding_.compact_dim(); ++c) {
    BitGroup group;
    group.parameter = encoding_.compact_parameter(c);
    group.coordinate = c;
    group.begin = bits_;
    group.unordered = encoding_.IsCategorical(c);
    const study::ParameterSpec& parameter = space.parameters()[static_cast<size_t>(group.parameter)];
    const int64_t levels = encoding_.Levels(c).value_or(0);
    const bool exact = group.unordered || (levels > 0 && levels <= kMaxOrderedLevels && !IsLog(parameter.domain));
    group.levels = exact ? levels : 0;
    group.count = exact ? CeilLog2(levels) : cell_bits;
    const int codes = 1 << group.count;
    std::vector<int> permutation;
    if (group.unordered) {
      for (int level = 0; level < levels; ++level) permutation.push_back(level);
      base::RandomStream random(seed, "spectral/labels", static_cast<uint64_t>(group.parameter));
      random.Shuffle(permutation);
      if (parameter.default_value) {
        const auto level = static_cast<int>(space.LevelOf(group.parameter, *parameter.default_value));
        const auto at = std::find(permutation.begin(), permutation.end(), level);
        std::rotate(permutation.begin(), at, at + 1);
      }
    }
    for (int code = 0; code < codes; ++code) {
      group.level_of_code.push_back(group.unordered    ? permutation[static_cast<size_t>(code) % permutation.size()]
                                    : group.levels > 0 ? static_cast<int>(code * levels / codes)
                                                       : code);
    }
    group_of_bit_.insert(group_of_bit_.end(), static_cast<size_t>(group.count), static_cast<int>(groups_.size()));
    bits_ += group.count;
    groups_.push_back(std::move(group));
  }
}

int BitEncoding::Code(const BitGroup& group, const Bits& x) const {
  int code = 0;
  for (int j = 0; j < group.count; ++j) code = 2 * code + (x[group.begin + j] < 0.0f ? 1 : 0);
  return code;
}

study::Parameters BitEncoding::Decode(const Bits& x, base::RandomStream& random) const {
  Eigen::VectorXd u(encoding_.compact_dim());
  for (const BitGroup& group : groups_) {
    const double position = random.Uniform();
    const int level = group.level_of_code[static_cast<size_t>(Code(group, x))];
    u[group.coordinate] = group.levels > 0 ? (level + 0.5) / static_cast<double>(group.levels)
                                           : (level + position) / static_cast<double>(1 << group.count);
  }
  return encoding_.FromCompact(u);
}

int BitEncoding::LevelOf(const BitGroup& group, const study::ParameterValue& value) const {
  if (group.levels > 0) return static_cast<int>(encoding_.space().LevelOf(group.parameter, value));
  const study::Parameters one = {{encoding_.space().parameters()[static_cast<size_t>(group.parameter)].name, value}};
  const int cells = 1 << group.count;
  return std::clamp(static_cast<int>(std::floor(encoding_.ToCompact(one)[group.coordinate] * cells)), 0, cells - 1);
}

std::string BitEncoding::BitName(int bit) const {
  const BitGroup& group = GroupOf(bit);
  const std::string& name = encoding_.space().parameters()[static_cast<size_t>(group.parameter)].name;
  if (group.count == 1) return name;
  const int j = bit - group.begin;
  return absl::StrCat(name, ":bit", j + 1, j == 0 && !group.unordered ? "(high half)" : "");
}

std::string BitEncoding::Describe(const BitGroup& group, int mask, int code) const {
  std::set<int> levels;
  for (int c = 0; c < (1 << group.count); ++c) {
    if ((c & mask) == (code & mask)) levels.insert(group.level_of_code[static_cast<size_t>(c)]);
  }
  std::vector<std::string> parts;
  if (group.levels > 0) {
    for (const int level : levels) {
      parts.push_back(study::FormatValue(encoding_.space().LevelValue(group.parameter, level)));
    }
    return absl::StrJoin(parts, " or ");
  }
  const double cells = static_cast<double>(1 << group.count);
  for (auto it = levels.begin(); it != levels.end();) {
    const int first = *it;
    int last = first;
    while (++it != levels.end() && *it == last + 1) last = *it;
    const auto value = [&](double u) {
      const study::ParameterValue end = encoding_.DecodeCoordinate(group.coordinate, u);
      const double* number = std::get_if<double>(&end);
      return number != nullptr ? absl::StrCat(*number) : study::FormatValue(end);
    };
    parts.push_back(absl::StrCat(value(first / cells), " to ", value((last + 1) / cells)));
  }
  return absl::StrJoin(parts, " or ");
}

}  // namespace luthier::spectral
