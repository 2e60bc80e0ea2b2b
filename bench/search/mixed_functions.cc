#include "bench/search/mixed_functions.h"

#include <cmath>
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

// Each switch moves the best value of one number and has its price, which depends on the next switch.
Parts Switches(base::RandomStream& random) {
  constexpr size_t kSwitches = 4;
  const std::vector<double> off = Uniforms(random, kSwitches), on = Uniforms(random, kSwitches);
  std::vector<double> price(2 * kSwitches);
  for (double& p : price) p = 0.6 * random.Uniform();
  std::vector<bool> best(kSwitches);
  for (size_t k = 0; k < kSwitches; ++k) best[k] = random.Uniform() < 0.5;
  Parts parts;
  for (size_t k = 0; k < kSwitches; ++k) {
    parts.parameters.push_back({absl::StrCat("b", k), study::BoolSwitch(), std::nullopt, std::nullopt});
    parts.parameters.push_back(Float(absl::StrCat("x", k)));
  }
  parts.evaluate = [=](const Parameters& p) {
    double sum = 0.0;
    for (size_t k = 0; k < kSwitches; ++k) {
      const auto wrong = [&](size_t j) { return std::get<bool>(p.at(absl::StrCat("b", j))) != best[j]; };
      if (wrong(k)) sum += 0.1 + price[2 * k + (wrong((k + 1) % kSwitches) ? 1 : 0)];
      sum += 4.0 * Square(std::get<double>(p.at(absl::StrCat("x", k))) - (wrong(k) != best[k] ? on : off)[k]);
    }
    return sum;
  };
  return parts;
}

// Two labels, which together move the best values of four integers and cost what their pair costs.
Parts Integers(base::RandomStream& random) {
  std::vector<double> costs(12);
  for (double& cost : costs) cost = 0.1 + 0.9 * random.Uniform();
  costs[random.UniformInt(costs.size())] = 0.0;
  std::vector<double> centres, moves;  // Of each integer, by either label.
  for (size_t k = 0; k < 4 * 4; ++k) centres.push_back(static_cast<double>(random.UniformInt(21)));
  for (size_t k = 0; k < 3 * 4; ++k) moves.push_back(static_cast<double>(random.UniformInt(11)));
  const std::vector<double> x = Uniforms(random, 3);
  return {{Labels("c", 4), Labels("d", 3), Int("i0", 30), Int("i1", 30), Int("i2", 30), Int("i3", 30), Float("x")},
          [=](const Parameters& p) {
            const size_t c = LabelOf(p, "c"), d = LabelOf(p, "d");
            double sum = costs[3 * c + d] + 4.0 * Square(std::get<double>(p.at("x")) - x[d]);
            for (size_t k = 0; k < 4; ++k) {
              const double best = centres[4 * c + k] + moves[4 * d + k];
              sum += Square((std::get<double>(p.at(absl::StrCat("i", k))) - best) / 10.0);
            }
            return sum;
          }};
}

// For each label a curved valley of its own in two of the numbers, and ripples in the third.
Parts Valleys(base::RandomStream& random) {
  const std::vector<double> costs = Costs(random, 4);
  std::vector<std::vector<double>> x;
  for (int label = 0; label < 4; ++label) x.push_back(Uniforms(random, 3));
  return {{Labels("c", 4), Float("x0"), Float("x1"), Float("x2")}, [=](const Parameters& p) {
            const size_t label = LabelOf(p, "c");
            double z[3];
            for (size_t k = 0; k < 3; ++k) z[k] = std::get<double>(p.at(absl::StrCat("x", k))) - x[label][k];
            const double ripples = 1.0 - std::cos(4.0 * M_PI * z[2]);
            return costs[label] + 4.0 * Square(z[0]) + 20.0 * Square(z[1] - 2.0 * Square(z[0])) + 4.0 * Square(z[2]) +
                   0.1 * ripples;
          }};
}

// Four labels, each pair of neighbours with a price of its own beside each label's; the first two move two numbers.
Parts LabelPairs(base::RandomStream& random) {
  const std::vector<size_t> counts = {5, 4, 3, 6};
  std::vector<size_t> best;
  std::vector<std::vector<double>> single, pair;
  for (size_t k = 0; k < counts.size(); ++k) {
    best.push_back(random.UniformInt(counts[k]));
    single.push_back(Uniforms(random, counts[k]));
    single[k][best[k]] = 0.0;
  }
  for (size_t k = 0; k + 1 < counts.size(); ++k) {
    pair.push_back(Uniforms(random, counts[k] * counts[k + 1]));
    pair[k][best[k] * counts[k + 1] + best[k + 1]] = 0.0;
  }
  const std::vector<double> x = Uniforms(random, 5), y = Uniforms(random, 4);
  Parts parts;
  for (size_t k = 0; k < counts.size(); ++k) {
    parts.parameters.push_back(Labels(absl::StrCat("c", k), static_cast<int>(counts[k])));
  }
  parts.parameters.push_back(Float("x"));
  parts.parameters.push_back(Float("y"));
  parts.evaluate = [=](const Parameters& p) {
    std::vector<size_t> at;
    double sum = 0.0;
    for (size_t k = 0; k < counts.size(); ++k) {
      at.push_back(LabelOf(p, absl::StrCat("c", k)));
      sum += 0.5 * single[k][at[k]];
      if (k > 0) sum += 0.5 * pair[k - 1][at[k - 1] * counts[k] + at[k]];
    }
    return sum + 4.0 * Square(std::get<double>(p.at("x")) - x[at[0]]) +
           4.0 * Square(std::get<double>(p.at("y")) - y[at[1]]);
  };
  return parts;
}

// Three labels, each combination of which has a price that says nothing about any other's: where no model helps.
Parts Table(base::RandomStream& random) {
  std::vector<double> price(6 * 5 * 4);
  for (double& p : price) p = 0.05 + 0.95 * random.Uniform();
  price[random.UniformInt(price.size())] = 0.0;
  const std::vector<double> x = Uniforms(random, 2);
  return {{Labels("c", 6), Labels("d", 5), Labels("e", 4), Float("x0"), Float("x1")}, [=](const Parameters& p) {
            const size_t row = (5 * LabelOf(p, "c") + LabelOf(p, "d")) * 4 + LabelOf(p, "e");
            double sum = price[row];
            for (size_t k = 0; k < 2; ++k) sum += Square(std::get<double>(p.at(absl::StrCat("x", k))) - x[k]);
            return sum;
          }};
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
  } else if (name == "mixed_switches") {
    parts = Switches(random);
  } else if (name == "mixed_integers") {
    parts = Integers(random);
  } else if (name == "mixed_valleys") {
    parts = Valleys(random);
  } else if (name == "mixed_labels") {
    parts = LabelPairs(random);
  } else if (name == "mixed_table") {
    parts = Table(random);
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
