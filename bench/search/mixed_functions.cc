#include "bench/search/mixed_functions.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/random.h"

namespace luthier {
namespace {

using study::CategoricalLabels;
using study::FloatRange;
using study::IntRange;
using study::Parameters;
using study::ParameterSpec;

ParameterSpec Float(std::string name) {
  return {std::move(name), FloatRange{0.0, 1.0, study::Scale::kLinear, std::nullopt}, std::nullopt, std::nullopt};
}

ParameterSpec Int(std::string name, int64_t max) {
  return {std::move(name), IntRange{0, max, 1, study::Scale::kLinear}, std::nullopt, std::nullopt};
}

ParameterSpec Labels(std::string name, int count) {
  CategoricalLabels labels;
  for (int i = 0; i < count; ++i) labels.labels.push_back(absl::StrCat("l", i));
  return {std::move(name), std::move(labels), std::nullopt, std::nullopt};
}

size_t LabelOf(const Parameters& values, const std::string& name) {
  return static_cast<size_t>(std::get<std::string>(values.at(name))[1] - '0');
}

double Square(double x) {
  return x * x;
}

// What each of so many labels costs: 0 for one of them, up to 1 for the others.
std::vector<double> Costs(base::RandomStream& random, size_t count) {
  std::vector<double> costs(count);
  for (double& cost : costs) cost = 0.1 + 0.9 * random.Uniform();
  costs[random.UniformInt(count)] = 0.0;
  return costs;
}

std::vector<double> Uniforms(base::RandomStream& random, size_t count) {
  std::vector<double> values(count);
  for (double& value : values) value = 0.1 + 0.8 * random.Uniform();
  return values;
}

struct Parts {
  std::vector<ParameterSpec> parameters;
  std::function<double(const Parameters&)> evaluate;
};

Parts Additive(base::RandomStream& random) {
  const std::vector<double> first = Costs(random, 6), second = Costs(random, 4);
  const std::vector<double> x = Uniforms(random, 3);
  const auto i = static_cast<double>(random.UniformInt(21)), j = static_cast<double>(random.UniformInt(21));
  return {{Labels("c", 6),
           Labels("d", 4),
           {"b", study::BoolSwitch(), std::nullopt, std::nullopt},
           Int("i", 20),
           Int("j", 20),
           Float("x0"),
           Float("x1"),
           Float("x2")},
          [=](const Parameters& p) {
            double sum = first[LabelOf(p, "c")] + second[LabelOf(p, "d")] + (std::get<bool>(p.at("b")) ? 0.5 : 0.0);
            sum += Square((std::get<double>(p.at("i")) - i) / 10.0);
            sum += Square((std::get<double>(p.at("j")) - j) / 10.0);
            for (size_t k = 0; k < 3; ++k) sum += 4.0 * Square(std::get<double>(p.at(absl::StrCat("x", k))) - x[k]);
            return sum;
          }};
}

Parts Interacting(base::RandomStream& random) {
  const std::vector<double> costs = Costs(random, 5);
  std::vector<std::vector<double>> x;
  std::vector<double> i;
  for (int label = 0; label < 5; ++label) {
    x.push_back(Uniforms(random, 4));
    i.push_back(static_cast<double>(random.UniformInt(17)));
  }
  return {{Labels("c", 5),
           {"b", study::BoolSwitch(), std::nullopt, std::nullopt},
           Int("i", 16),
           Float("x0"),
           Float("x1"),
           Float("x2"),
           Float("x3")},
          [=](const Parameters& p) {
            const size_t label = LabelOf(p, "c");
            double sum = costs[label] + (std::get<bool>(p.at("b")) == (label % 2 == 0) ? 0.5 : 0.0);
            sum += Square((std::get<double>(p.at("i")) - i[label]) / 8.0);
            for (size_t k = 0; k < 4; ++k) {
              sum += 4.0 * Square(std::get<double>(p.at(absl::StrCat("x", k))) - x[label][k]);
            }
            return sum;
          }};
}

Parts Conditional(base::RandomStream& random) {
  const std::vector<double> costs = Costs(random, 4), x = Uniforms(random, 9);
  Parts parts;
  parts.parameters = {Labels("model", 4), Float("x8")};
  for (int label = 0; label < 4; ++label) {
    for (int k = 0; k < 2; ++k) {
      parts.parameters.push_back(Float(absl::StrCat("x", 2 * label + k)));
      parts.parameters.back().condition = study::Condition{"model", {absl::StrCat("l", label)}};
    }
  }
  parts.evaluate = [=](const Parameters& p) {
    const size_t label = LabelOf(p, "model");
    double sum = costs[label];
    for (const size_t k : {2 * label, 2 * label + 1, size_t{8}}) {
      sum += 4.0 * Square(std::get<double>(p.at(absl::StrCat("x", k))) - x[k]);
    }
    return sum;
  };
  return parts;
}

}  // namespace

std::optional<simulate::Problem> MixedProblem(absl::string_view name, std::optional<uint64_t> shift) {
  base::RandomStream random(shift.value_or(1), "bench/mixed");
  Parts parts;
  if (name == "mixed_additive") {
    parts = Additive(random);
  } else if (name == "mixed_interacting") {
    parts = Interacting(random);
  } else if (name == "mixed_conditional") {
    parts = Conditional(random);
  } else {
    return std::nullopt;
  }
  absl::StatusOr<study::SearchSpace> space = study::SearchSpace::Create(std::move(parts.parameters));
  if (!space.ok()) return std::nullopt;
  simulate::Problem problem;
  problem.name = absl::StrCat(name, shift.has_value() ? "+shift" : "");
  problem.space = *std::move(space);
  problem.optimum = 0.0;
  problem.evaluate = std::move(parts.evaluate);
  return problem;
}

}  // namespace luthier
