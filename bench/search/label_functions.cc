#include "bench/search/label_functions.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"

namespace luthier {
namespace {

using study::Parameters;
using study::ParameterSpec;

ParameterSpec Labels(const std::string& name, size_t count) {
  study::CategoricalLabels labels;
  for (size_t i = 0; i < count; ++i) labels.labels.push_back(absl::StrCat("l", i));
  return {name, std::move(labels), std::nullopt, std::nullopt};
}

ParameterSpec Number(std::string name, const std::vector<size_t>& of_labels = {}) {
  ParameterSpec spec{std::move(name), study::FloatRange{0.0, 1.0, study::Scale::kLinear, std::nullopt}, std::nullopt,
                     std::nullopt};
  if (of_labels.empty()) return spec;
  study::Condition condition{"label", {}};
  for (const size_t label : of_labels) condition.values.push_back(absl::StrCat("l", label));
  spec.condition = std::move(condition);
  return spec;
}

size_t LabelOf(const Parameters& values) {
  return static_cast<size_t>(std::get<std::string>(values.at("label"))[1] - '0');
}

// A valley of one label: guessing far away, `least` at its centre.
struct Valley {
  std::vector<std::string> names;  // Of its numbers.
  std::vector<double> centre, width;
  double turn = 0.0;  // The first two numbers are turned by so much.
  double least = 0.0;
};

double DepthOf(const Valley& valley, const Parameters& values) {
  std::vector<double> z;
  for (size_t k = 0; k < valley.names.size(); ++k) {
    z.push_back(std::get<double>(values.at(valley.names[k])) - valley.centre[k]);
  }
  if (z.size() >= 2) {
    const double a = std::cos(valley.turn) * z[0] + std::sin(valley.turn) * z[1];
    z[1] = std::cos(valley.turn) * z[1] - std::sin(valley.turn) * z[0];
    z[0] = a;
  }
  double square = 0.0;
  for (size_t k = 0; k < z.size(); ++k) square += std::pow(z[k] / valley.width[k], 2);
  return std::exp(-0.5 * square);
}

struct Parts {
  std::vector<ParameterSpec> parameters;
  size_t best = 0;
  std::function<double(const Parameters&)> value;
};

Parts Valleys(std::vector<ParameterSpec> parameters, size_t best, std::vector<Valley> valleys, double guessing) {
  return {std::move(parameters), best, [=](const Parameters& values) {
            const Valley& valley = valleys[LabelOf(values)];
            const double tilt = 0.02 * std::get<double>(values.at("x"));
            const double depth = DepthOf(valley, values);
            return valley.least + (guessing + tilt - valley.least) * (1.0 - depth);
          }};
}

double Place(base::RandomStream& random) {
  return 0.15 + 0.7 * random.Uniform();
}

// The kernels' order is drawn: linear has x, radial x and y, sigmoid x, y, z, polynomial all four.
Parts Svm(base::RandomStream& random) {
  std::vector<size_t> order = {0, 1, 2, 3};
  random.Shuffle(order);
  const size_t linear = order[0], radial = order[1], sigmoid = order[2], polynomial = order[3];
  ParameterSpec degree{"degree", study::IntRange{2, 5, 1, study::Scale::kLinear}, std::nullopt, std::nullopt};
  degree.condition = study::Condition{"label", {absl::StrCat("l", polynomial)}};
  std::vector<Valley> valleys(4);
  valleys[linear] = {{"x"}, {Place(random)}, {0.35}, 0.0, 0.1 + 0.1 * random.Uniform()};
  valleys[radial] = {{"x", "y"}, {Place(random), Place(random)}, {0.25, 0.07}, random.Uniform() * M_PI, 0.0};
  valleys[sigmoid] = {{"x", "y", "z"},
                      {Place(random), Place(random), Place(random)},
                      {0.25, 0.2, 0.4},
                      random.Uniform() * M_PI,
                      0.05 + 0.15 * random.Uniform()};
  valleys[polynomial] = {{"x", "y", "z", "degree"},
                         {Place(random), Place(random), Place(random), 2.0 + 3.0 * random.Uniform()},
                         {0.3, 0.2, 0.4, 2.0},
                         random.Uniform() * M_PI,
                         0.05 + 0.1 * random.Uniform()};
  return Valleys({Labels("label", 4), Number("x"), Number("y", {radial, sigmoid, polynomial}),
                  Number("z", {sigmoid, polynomial}), std::move(degree)},
                 radial, std::move(valleys), 0.5);
}

Parts Cash(base::RandomStream& random) {
  const size_t best = random.UniformInt(3);
  std::vector<ParameterSpec> parameters = {Labels("label", 3), Number("x")};
  std::vector<Valley> valleys(3);
  for (size_t label = 0; label < 3; ++label) {
    Valley& valley = valleys[label];
    valley.least = label == best ? 0.0 : 0.1 + 0.2 * random.Uniform();
    for (int k = 0; k < 3; ++k) {
      parameters.push_back(Number(absl::StrCat("y", label, k), {label}));
      valley.names.push_back(parameters.back().name);
      valley.centre.push_back(Place(random));
      valley.width.push_back(label == best ? 0.18 : 0.35);
    }
    valley.names.push_back("x");
    valley.centre.push_back(Place(random));
    valley.width.push_back(0.5);
    valley.turn = random.Uniform() * M_PI;
  }
  return Valleys(std::move(parameters), best, std::move(valleys), 1.0);
}

Parts Bad(base::RandomStream& random) {
  const size_t best = random.UniformInt(5), second = (best + 1 + random.UniformInt(4)) % 5;
  std::vector<double> price(5), centre;
  for (double& p : price) p = 2.0 + 2.0 * random.Uniform();
  price[best] = 0.0;
  price[second] = 0.1;
  std::vector<ParameterSpec> parameters = {Labels("label", 5)};
  for (int k = 0; k < 4; ++k) {
    parameters.push_back(Number(absl::StrCat("x", k)));
    centre.push_back(Place(random));
  }
  return {std::move(parameters), best, [=](const Parameters& values) {
            const size_t label = LabelOf(values);
            double sum = price[label];
            for (size_t k = 0; k < 4; ++k) {
              const double shift = 0.05 * std::cos(static_cast<double>(label + k));
              sum += 2.0 * std::pow(std::get<double>(values.at(absl::StrCat("x", k))) - centre[k] - shift, 2);
            }
            return sum;
          }};
}

Parts Close(base::RandomStream& random) {
  const size_t best = random.UniformInt(4);
  std::vector<ParameterSpec> parameters = {Labels("label", 4), Number("x"), Number("y")};
  std::vector<Valley> valleys(4);
  for (size_t label = 0; label < 4; ++label) {
    valleys[label] = {{"x", "y"},
                      {Place(random), Place(random)},
                      {0.3, 0.15},
                      random.Uniform() * M_PI,
                      label == best ? 0.0 : 0.02 + 0.06 * random.Uniform()};
  }
  return Valleys(std::move(parameters), best, std::move(valleys), 0.5);
}

}  // namespace

absl::StatusOr<LabelProblem> MakeLabelProblem(absl::string_view name, uint64_t seed) {
  base::RandomStream random(seed, absl::StrCat("bench/labels/", name));
  Parts parts;
  if (name == "svm") {
    parts = Svm(random);
  } else if (name == "cash") {
    parts = Cash(random);
  } else if (name == "bad") {
    parts = Bad(random);
  } else if (name == "close") {
    parts = Close(random);
  } else {
    return absl::NotFoundError(absl::StrCat(name, " is none of svm, cash, bad, close"));
  }
  LabelProblem problem;
  LUTHIER_ASSIGN_OR_RETURN(problem.space, study::SearchSpace::Create(std::move(parts.parameters)));
  problem.parameter = "label";
  problem.best = absl::StrCat("l", parts.best);
  problem.value = parts.value;
  problem.curve = [best = parts.best, value = parts.value](const Parameters& values, int64_t step) {
    const double whole = static_cast<double>(kLabelSteps), power = LabelOf(values) == best ? 0.9 : 1.2;
    const double left = std::pow(static_cast<double>(step) / whole, -power) - 1.0;
    return value(values) + left / (std::pow(whole, power) - 1.0);
  };
  return problem;
}

}  // namespace luthier
