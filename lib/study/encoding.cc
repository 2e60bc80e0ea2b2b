#include "lib/study/encoding.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/check.h"

namespace luthier::study {
namespace {

double Logit(double x) {
  return std::log(x) - std::log1p(-x);
}
// Logistic function that does not overflow at either end.
double Logistic(double t) {
  const double odds = std::exp(-std::abs(t));
  return (t < 0.0 ? odds : 1.0) / (1.0 + odds);
}

// Returns true if the range is so narrow that the difference of its transformed ends has lost its digits.
bool UseLinear(const FloatRange& d) {
  if (d.scale == Scale::kLog) return d.max / d.min - 1.0 < 1e-9;
  return d.scale == Scale::kLinear || (d.max - d.min) / (d.min * (1.0 - d.max)) < 1e-9;
}

double LevelToUnit(double level, double levels) {
  return (level + 0.5) / levels;
}
double UnitToLevel(double u, double levels) {
  return std::min(std::floor(u * levels), levels - 1.0);
}

struct Encode {
  const ParameterValue& value;
  double operator()(const FloatRange& d) const {
    const double x = std::get<double>(value);
    if (d.step) {
      return LevelToUnit(std::round((x - d.min) / *d.step), StepCount(d));
    }
    if (x <= d.min) return 0.0;
    if (x >= d.max) return 1.0;
    if (UseLinear(d)) return (x - d.min) / (d.max - d.min);
    if (d.scale == Scale::kLog) return (std::log(x) - std::log(d.min)) / (std::log(d.max) - std::log(d.min));
    return (Logit(x) - Logit(d.min)) / (Logit(d.max) - Logit(d.min));
  }
  double operator()(const IntRange& d) const {
    const double x = std::get<double>(value);
    if (d.scale == Scale::kLog) {
      const double low = std::log(static_cast<double>(d.min) - 0.5);
      return (std::log(x) - low) / (std::log(static_cast<double>(d.max) + 0.5) - low);
    }
    const double step = static_cast<double>(d.step);
    return LevelToUnit((x - static_cast<double>(d.min)) / step, static_cast<double>((d.max - d.min) / d.step + 1));
  }
  static double Label(const std::vector<std::string>& labels, const ParameterValue& value) {
    const auto found = std::find(labels.begin(), labels.end(), std::get<std::string>(value));
    return LevelToUnit(static_cast<double>(found - labels.begin()), static_cast<double>(labels.size()));
  }
  double operator()(const OrdinalLabels& d) const { return Label(d.labels, value); }
  double operator()(const CategoricalLabels& d) const { return Label(d.labels, value); }
  double operator()(const BoolSwitch&) const { return std::get<bool>(value) ? 0.75 : 0.25; }
};

struct Decode {
  double u;
  ParameterValue operator()(const FloatRange& d) const {
    if (d.min == d.max) return d.min;
    if (d.step) {
      return StepValue(d, UnitToLevel(u, StepCount(d)));
    }
    // The ends are exact, whatever exp and log round to.
    if (u <= 0.0) return d.min + 0.0;
    if (u >= 1.0) return d.max + 0.0;
    double x = 0.0;
    if (UseLinear(d)) {
      x = d.min + u * (d.max - d.min);
    } else if (d.scale == Scale::kLog) {
      const double low = std::log(d.min);
      x = std::exp(low + u * (std::log(d.max) - low));
    } else {
      const double low = Logit(d.min);
      x = Logistic(low + u * (Logit(d.max) - low));
    }
    return std::clamp(x, d.min, d.max) + 0.0;
  }
  ParameterValue operator()(const IntRange& d) const {
    const int64_t last = (d.max - d.min) / d.step;
    if (u <= 0.0) return static_cast<double>(d.min);
    if (u >= 1.0) return static_cast<double>(d.min + last * d.step);
    if (d.scale == Scale::kLog) {
      const double low = std::log(static_cast<double>(d.min) - 0.5);
      const double high = std::log(static_cast<double>(d.max) + 0.5);
      return std::clamp(std::round(std::exp(low + u * (high - low))), static_cast<double>(d.min),
                        static_cast<double>(d.max));
    }
    // Beyond 2^53 levels the double of their number may have been rounded up: clamp in integers too.
    const auto level = static_cast<int64_t>(UnitToLevel(u, static_cast<double>(last + 1)));
    return static_cast<double>(d.min + std::min(level, last) * d.step);
  }
  ParameterValue Label(const std::vector<std::string>& labels) const {
    return labels[static_cast<size_t>(UnitToLevel(u, static_cast<double>(labels.size())))];
  }
  ParameterValue operator()(const OrdinalLabels& d) const { return Label(d.labels); }
  ParameterValue operator()(const CategoricalLabels& d) const { return Label(d.labels); }
  ParameterValue operator()(const BoolSwitch&) const { return u >= 0.5; }
};

double Clean(double u) {
  return std::isnan(u) ? 0.5 : std::clamp(u, 0.0, 1.0);
}

}  // namespace

Encoding::Encoding(SearchSpace space, const std::vector<ParameterConstraint>& constraints)
    : space_(std::move(space)), coordinate_of_(space_.size(), -1) {
  if (!constraints.empty()) legal_ = std::make_shared<const LegalSettings>(space_, constraints);
  for (int i = 0; i < space_.size(); ++i) {
    if (space_.IsConstant(i)) continue;
    coordinate_of_[i] = compact_dim();
    const auto* labels = std::get_if<CategoricalLabels>(&space_.parameters()[i].domain);
    for (int element = 0; element < space_.parameters()[i].width(); ++element) {
      compact_scalar_.push_back({i, element});
      model_begin_.push_back(model_dim_);
      categorical_.push_back(labels != nullptr);
      model_dim_ += labels ? static_cast<int>(labels->labels.size()) : 1;
    }
  }
  model_begin_.push_back(model_dim_);
}

std::vector<int> Encoding::ModelGroups() const {
  std::vector<int> groups;
  for (int c = 0; c < compact_dim(); ++c) groups.insert(groups.end(), model_end(c) - model_begin(c), c);
  return groups;
}

double Encoding::EncodeOne(int parameter, const ParameterValue& value) const {
  return std::visit(Encode{value}, space_.parameters()[parameter].domain);
}

ParameterValue Encoding::DecodeOne(int parameter, double u) const {
  return std::visit(Decode{Clean(u)}, space_.parameters()[parameter].domain);
}

ParameterValue Encoding::DecodeParameter(int parameter, const Eigen::Ref<const Eigen::VectorXd>& u) const {
  const ParameterSpec& p = space_.parameters()[parameter];
  const int first = coordinate_of_[parameter];
  if (first < 0) return space_.LevelValue(parameter, 0);
  if (!p.is_vector()) return DecodeOne(parameter, u[first]);
  std::vector<double> value(static_cast<size_t>(p.width()));
  for (int element = 0; element < p.width(); ++element) {
    value[static_cast<size_t>(element)] = std::get<double>(DecodeOne(parameter, u[first + element]));
  }
  return value;
}

Eigen::VectorXd Encoding::ToCompact(const Parameters& values) const {
  Eigen::VectorXd u = Eigen::VectorXd::Constant(compact_dim(), 0.5);
  for (int i = 0; i < space_.size(); ++i) {
    const int first = coordinate_of_[i];
    if (first < 0) continue;
    const auto found = values.find(space_.parameters()[i].name);
    if (found == values.end()) continue;
    if (const auto* vector = std::get_if<std::vector<double>>(&found->second)) {
      for (size_t k = 0; k < vector->size(); ++k) u[first + static_cast<int>(k)] = EncodeOne(i, (*vector)[k]);
    } else {
      u[first] = EncodeOne(i, found->second);
    }
  }
  return u;
}

Parameters Encoding::FromCompact(const Eigen::Ref<const Eigen::VectorXd>& u) const {
  LUTHIER_CHECK(u.size() == compact_dim());
  Parameters values;
  for (const int i : space_.topological_order()) {
    if (!space_.IsActive(i, values)) continue;
    values[space_.parameters()[i].name] = DecodeParameter(i, u);
  }
  return values;
}

Eigen::VectorXd Encoding::ToModel(const Parameters& values) const {
  Eigen::VectorXd u = Eigen::VectorXd::Constant(model_dim_, 0.5);
  for (int i = 0; i < space_.size(); ++i) {
    const int c = coordinate_of_[i];
    if (c < 0) continue;
    const auto found = values.find(space_.parameters()[i].name);
    if (categorical_[c]) {
      u.segment(model_begin_[c], model_begin_[c + 1] - model_begin_[c]).setZero();
      if (found != values.end()) {
        const auto levels = static_cast<double>(model_begin_[c + 1] - model_begin_[c]);
        const auto label = static_cast<Eigen::Index>(UnitToLevel(EncodeOne(i, found->second), levels));
        u[model_begin_[c] + label] = 1.0 / std::sqrt(2.0);
      }
    } else if (found != values.end()) {
      if (const auto* vector = std::get_if<std::vector<double>>(&found->second)) {
        for (size_t k = 0; k < vector->size(); ++k) {
          u[model_begin_[c] + static_cast<int>(k)] = EncodeOne(i, (*vector)[k]);
        }
        continue;
      }
      const bool* flag = std::get_if<bool>(&found->second);
      u[model_begin_[c]] = flag ? (*flag ? 1.0 : 0.0) : EncodeOne(i, found->second);
    }
  }
  return u;
}

Parameters Encoding::FromModel(const Eigen::Ref<const Eigen::VectorXd>& u) const {
  LUTHIER_CHECK(u.size() == model_dim_);
  Eigen::VectorXd compact(compact_dim());
  for (int c = 0; c < compact_dim(); ++c) {
    compact[c] = u[model_begin_[c]];
    if (!categorical_[c]) continue;
    int best = model_begin_[c];
    for (int k = best + 1; k < model_begin_[c + 1]; ++k) {
      if (u[k] > u[best]) best = k;
    }
    compact[c] = LevelToUnit(best - model_begin_[c], model_begin_[c + 1] - model_begin_[c]);
  }
  return FromCompact(compact);
}

bool Encoding::IsLegalAt(const Eigen::Ref<const Eigen::VectorXd>& u) const {
  if (legal_ == nullptr) return true;
  const std::vector<int>& deciding = legal_->deciding();
  std::vector<double> values(deciding.size(), std::nan(""));
  for (size_t k = 0; k < deciding.size(); ++k) {
    if (legal_->Exists(k, values)) values[k] = NumberAt(deciding[k], u);
  }
  return !legal_->Broken(values).has_value();
}

double Encoding::NumberAt(int parameter, const Eigen::Ref<const Eigen::VectorXd>& u) const {
  const ParameterSpec& p = space_.parameters()[parameter];
  const int first = coordinate_of_[parameter];
  const bool number = std::holds_alternative<FloatRange>(p.domain) || std::holds_alternative<IntRange>(p.domain);
  if (!number) {
    if (first < 0) return 0.0;
    if (std::holds_alternative<BoolSwitch>(p.domain)) return Clean(u[first]) >= 0.5 ? 1.0 : 0.0;
    return UnitToLevel(Clean(u[first]), static_cast<double>(*space_.Levels(parameter)));
  }
  double sum = 0.0;
  for (int element = 0; element < p.width(); ++element) {
    if (first < 0 && p.is_vector()) {
      sum += std::get<FloatRange>(p.domain).min;
    } else {
      sum += std::get<double>(first < 0 ? space_.LevelValue(parameter, 0) : DecodeOne(parameter, u[first + element]));
    }
  }
  return sum;
}

Parameters Encoding::Sample(base::RandomStream& random) const {
  Eigen::VectorXd u(compact_dim());
  for (int draw = 0; draw < kMostDraws; ++draw) {
    for (Eigen::Index c = 0; c < u.size(); ++c) u[c] = random.Uniform();
    if (IsLegalAt(u)) break;
  }
  return FromCompact(u);
}

double Encoding::UserPerUnit(int k, const Parameters& values) const {
  const auto [i, element] = space_.differentiable()[k];
  const ParameterSpec& p = space_.parameters()[i];
  const auto found = values.find(p.name);
  if (found == values.end() || coordinate_of_[i] < 0) return 0.0;
  const auto& d = std::get<FloatRange>(p.domain);
  const auto* vector = std::get_if<std::vector<double>>(&found->second);
  const double x = vector ? (*vector)[static_cast<size_t>(element)] : std::get<double>(found->second);
  if (UseLinear(d)) return d.max - d.min;
  if (d.scale == Scale::kLog) return x * (std::log(d.max) - std::log(d.min));
  return x * (1.0 - x) * (Logit(d.max) - Logit(d.min));
}

}  // namespace luthier::study
