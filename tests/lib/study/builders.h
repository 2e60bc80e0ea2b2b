#ifndef LUTHIER_TESTS_LIB_STUDY_BUILDERS_H_
#define LUTHIER_TESTS_LIB_STUDY_BUILDERS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/random.h"
#include "lib/study/search_space.h"

// Short ways to write search spaces in tests, and random ones.
namespace luthier::study {

inline ParameterSpec Float(std::string name, double min, double max, Scale scale = Scale::kLinear,
                           std::optional<double> step = std::nullopt) {
  return {std::move(name), FloatRange{min, max, scale, step}, std::nullopt, std::nullopt};
}
inline ParameterSpec Vector(std::string name, double min, double max, int count, Scale scale = Scale::kLinear) {
  ParameterSpec p = Float(std::move(name), min, max, scale);
  p.count = count;
  return p;
}
inline ParameterSpec Int(std::string name, int64_t min, int64_t max, int64_t step = 1, Scale scale = Scale::kLinear) {
  return {std::move(name), IntRange{min, max, step, scale}, std::nullopt, std::nullopt};
}
inline ParameterSpec Ordinal(std::string name, std::vector<std::string> labels) {
  return {std::move(name), OrdinalLabels{std::move(labels)}, std::nullopt, std::nullopt};
}
inline ParameterSpec Categorical(std::string name, std::vector<std::string> labels) {
  return {std::move(name), CategoricalLabels{std::move(labels)}, std::nullopt, std::nullopt};
}
inline ParameterSpec Bool(std::string name) {
  return {std::move(name), BoolSwitch{}, std::nullopt, std::nullopt};
}
inline ParameterSpec When(std::string parent, std::vector<ParameterValue> values, ParameterSpec child) {
  child.condition = Condition{std::move(parent), std::move(values)};
  return child;
}
inline ParameterSpec WithDefault(ParameterValue value, ParameterSpec p) {
  p.default_value = std::move(value);
  return p;
}

inline std::vector<std::string> Labels(int count) {
  std::vector<std::string> labels;
  for (int i = 0; i < count; ++i) labels.push_back(absl::StrCat("v", i));
  return labels;
}

// The space, or a failed check with the reason.
inline SearchSpace Space(std::vector<ParameterSpec> parameters) {
  absl::StatusOr<SearchSpace> space = SearchSpace::Create(std::move(parameters));
  if (!space.ok()) ADD_FAILURE() << space.status();
  return space.ok() ? *std::move(space) : SearchSpace();
}

// A valid space of 1 … 8 parameters of all kinds, scales and conditions, in which parents may follow their children.
inline SearchSpace RandomSpace(base::RandomStream& random) {
  std::vector<ParameterSpec> parameters;
  const int count = 1 + static_cast<int>(random.UniformInt(8));
  for (int i = 0; i < count; ++i) {
    const std::string name = absl::StrCat("p", i);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random.UniformInt(static_cast<uint64_t>(n))); };
    switch (random.UniformInt(9)) {
      case 8: {
        const double min = std::exp(3.0 * random.Normal());
        parameters.push_back(Vector(name, min, min * (1.0 + std::exp(3.0 * random.Normal())),
                                    1 + static_cast<int>(below(4)), below(2) == 0 ? Scale::kLog : Scale::kLinear));
        break;
      }
      case 0: {
        const double min = random.Normal() * std::pow(10.0, random.Normal());
        parameters.push_back(Float(name, min, min + std::exp(3.0 * random.Normal())));
        break;
      }
      case 1: {
        const double min = std::exp(10.0 * random.Normal());
        parameters.push_back(Float(name, min, min * (1.0 + std::exp(5.0 * random.Normal())), Scale::kLog));
        break;
      }
      case 2: {
        const double a = random.UniformOpen(), b = random.UniformOpen();
        parameters.push_back(Float(name, std::min(a, b), std::max(a, b), Scale::kLogit));
        break;
      }
      case 3: {
        const double min = static_cast<double>(below(100)) / 10.0 - 5.0;
        const double step = static_cast<double>(1 + below(20)) / 10.0;
        parameters.push_back(
            Float(name, min, min + step * static_cast<double>(below(12)) + step / 3, Scale::kLinear, step));
        break;
      }
      case 4: {
        const int64_t min = below(200) - 100;
        const int64_t step = 1 + below(4);
        parameters.push_back(Int(name, min, min + below(30), step));
        break;
      }
      case 5: {
        const int64_t min = 1 + below(10);
        parameters.push_back(Int(name, min, min + below(1000), 1, Scale::kLog));
        break;
      }
      case 6: {
        const auto labels = Labels(1 + static_cast<int>(below(6)));
        parameters.push_back(below(2) == 0 ? Ordinal(name, labels) : Categorical(name, labels));
        break;
      }
      default:
        parameters.push_back(Bool(name));
    }
  }
  // Conditions on parameters of smaller index make a forest; the shuffle hides the order.
  const SearchSpace plain = Space(parameters);
  for (int i = 1; i < count; ++i) {
    if (random.UniformInt(2) == 0) continue;
    const int parent = static_cast<int>(random.UniformInt(static_cast<uint64_t>(i)));
    const std::optional<int64_t> levels = plain.Levels(parent);
    if (!levels) continue;
    std::vector<ParameterValue> values;
    for (uint64_t k = 0; k < 1 + random.UniformInt(2); ++k) {
      values.push_back(
          plain.LevelValue(parent, static_cast<int64_t>(random.UniformInt(static_cast<uint64_t>(*levels)))));
    }
    parameters[i] = When(absl::StrCat("p", parent), values, parameters[i]);
  }
  random.Shuffle(parameters);
  return Space(parameters);
}

}  // namespace luthier::study

#endif  // LUTHIER_TESTS_LIB_STUDY_BUILDERS_H_
