#include "bench/search/wide_functions.h"

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "lib/base/random.h"

namespace luthier {
namespace {

using std::numbers::pi;

double Rosenbrock(const std::vector<double>& x) {
  double sum = 0.0;
  for (size_t i = 0; i + 1 < x.size(); ++i) {
    sum += 100.0 * std::pow(x[i + 1] - x[i] * x[i], 2) + std::pow(1.0 - x[i], 2);
  }
  return sum;
}

double Ackley(const std::vector<double>& x) {
  double squares = 0.0, cosines = 0.0;
  const double n = static_cast<double>(x.size());
  for (double v : x) {
    squares += v * v / n;
    cosines += std::cos(2.0 * pi * v) / n;
  }
  return -20.0 * std::exp(-0.2 * std::sqrt(squares)) - std::exp(cosines) + 20.0 + std::numbers::e;
}

double Levy(const std::vector<double>& x) {
  double sum = 0.0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double w = 1.0 + (x[i] - 1.0) / 4.0;
    if (i == 0) sum += std::pow(std::sin(pi * w), 2);
    const bool last = i + 1 == x.size();
    const double s = std::sin(last ? 2.0 * pi * w : pi * w + 1.0);
    sum += std::pow(w - 1.0, 2) * (1.0 + (last ? 1.0 : 10.0) * s * s);
  }
  return sum;
}

struct Wide {
  const char* name;
  int dim;
  double lower, upper;
  double shift;  // The box is moved by up to this along each axis.
  double (*f)(const std::vector<double>&);
  int active;  // Parameters that f sees: every fifth.
};

constexpr Wide kWide[] = {
    {"rosenbrock20", 20, -2.048, 2.048, 0.0, Rosenbrock, 20},
    {"ackley20", 20, -10.0, 10.0, 4.0, Ackley, 20},
    {"ackley50", 50, -10.0, 10.0, 4.0, Ackley, 50},
    {"levy20", 20, -10.0, 10.0, 4.0, Levy, 20},
    {"levy50", 50, -10.0, 10.0, 4.0, Levy, 50},
    {"sparse25", 25, -10.0, 10.0, 4.0, Levy, 5},
};

}  // namespace

std::optional<simulate::Problem> WideProblem(absl::string_view name) {
  for (const Wide& wide : kWide) {
    if (name != wide.name) continue;
    base::RandomStream random(1, "bench/wide");
    std::vector<study::ParameterSpec> parameters;
    std::vector<std::string> names;
    for (int i = 0; i < wide.dim; ++i) {
      const double offset = wide.shift * (2.0 * random.Uniform() - 1.0);
      study::ParameterSpec parameter;
      parameter.name = absl::StrFormat("x%02d", i + 1);
      parameter.domain =
          study::FloatRange{wide.lower + offset, wide.upper + offset, study::Scale::kLinear, std::nullopt};
      if (i % (wide.dim / wide.active) == 0) names.push_back(parameter.name);
      parameters.push_back(std::move(parameter));
    }
    absl::StatusOr<study::SearchSpace> space = study::SearchSpace::Create(std::move(parameters));
    if (!space.ok()) return std::nullopt;
    simulate::Problem problem;
    problem.name = wide.name;
    problem.space = *std::move(space);
    problem.optimum = 0.0;
    problem.evaluate = [names, f = wide.f](const study::Parameters& values) {
      std::vector<double> x;
      for (const std::string& parameter : names) x.push_back(std::get<double>(values.at(parameter)));
      return f(x);
    };
    return problem;
  }
  return std::nullopt;
}

}  // namespace luthier
