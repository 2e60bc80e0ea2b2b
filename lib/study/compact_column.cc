#include "lib/study/compact_column.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <variant>

namespace luthier::study {

CompactColumn::CompactColumn(const Encoding& encoding, int c) {
  const std::optional<int64_t> levels = encoding.Levels(c);
  if (!levels) return;
  levels_ = static_cast<double>(*levels);
  const ParameterDomain& domain =
      encoding.space().parameters()[static_cast<size_t>(encoding.compact_parameter(c))].domain;
  if (encoding.IsCategorical(c) || std::holds_alternative<BoolSwitch>(domain)) {
    kind_ = Kind::kUnordered;
    return;
  }
  kind_ = Kind::kOrdered;
  const auto* range = std::get_if<IntRange>(&domain);
  if (range == nullptr || range->scale != Scale::kLog) return;
  min_ = static_cast<double>(range->min);
  max_ = static_cast<double>(range->max);
  low_ = std::log(min_ - 0.5);
  width_ = std::log(max_ + 0.5) - low_;
}

double CompactColumn::LevelOf(double u) const {
  return std::clamp(std::floor(u * levels_), 0.0, levels_ - 1.0);
}

double CompactColumn::Canonical(double u) const {
  if (kind_ == Kind::kContinuous) return u;
  if (width_ > 0.0) {
    return (std::log(std::clamp(std::round(std::exp(low_ + u * width_)), min_, max_)) - low_) / width_;
  }
  return (LevelOf(u) + 0.5) / levels_;
}

CompactColumn::Cell CompactColumn::CellOf(double u) const {
  if (width_ > 0.0) {
    const double x = std::clamp(std::round(std::exp(low_ + u * width_)), min_, max_);
    return {x == min_ ? 0.0 : (std::log(x - 0.5) - low_) / width_,
            x == max_ ? 1.0 : (std::log(x + 0.5) - low_) / width_};
  }
  const double level = LevelOf(u);
  return {level / levels_, (level + 1.0) / levels_};
}

int CompactColumn::LabelOf(double u) const {
  return static_cast<int>(LevelOf(u));
}

bool AnyUnordered(const Encoding& encoding) {
  for (int c = 0; c < encoding.compact_dim(); ++c) {
    if (CompactColumn(encoding, c).kind() == CompactColumn::Kind::kUnordered) return true;
  }
  return false;
}

}  // namespace luthier::study
