#include "bench/search/gradient_problems.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "Eigen/Cholesky"
#include "Eigen/Core"
#include "absl/strings/str_cat.h"
#include "bench/search/wide_functions.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"

namespace luthier {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using study::Parameters;
using study::ParameterSpec;

constexpr double kStep = 1e-6;  // Of central differences, as a share of a range.

ParameterSpec Float(std::string name, double min, double max, study::Scale scale = study::Scale::kLinear) {
  return {std::move(name), study::FloatRange{min, max, scale, std::nullopt}, std::nullopt, std::nullopt};
}

double Get(const Parameters& values, const std::string& name) {
  return std::get<double>(values.at(name));
}

double Square(double x) {
  return x * x;
}

double Branin(double x, double y) {
  const double a = y - 5.1 * x * x / (4 * M_PI * M_PI) + 5 * x / M_PI - 6;
  return a * a + 10 * (1 - 1 / (8 * M_PI)) * std::cos(x) + 10;
}

// Mean squared error on 60 fresh rows of ridge regression on 60 rows of 12 columns; only the first four matter much.
std::function<double(const Parameters&)> Ridge() {
  base::RandomStream random(1, "bench/ridge");
  const Index rows = 60, columns = 12;
  const auto normals = [&](Index n, Index d) {
    MatrixXd m(n, d);
    for (double& v : m.reshaped()) v = random.Normal();
    return m;
  };
  VectorXd truth(columns);
  for (Index j = 0; j < columns; ++j) truth(j) = (j < 4 ? 1.0 : j < 8 ? 0.3 : 0.0) * random.Normal();
  const MatrixXd a = normals(rows, columns), b = normals(rows, columns);
  const VectorXd y = a * truth + normals(rows, 1), z = b * truth + normals(rows, 1);
  return [=](const Parameters& values) {
    MatrixXd c = a.transpose() * a;
    for (Index j = 0; j < columns; ++j) c(j, j) += Get(values, absl::StrCat("l2_", j / 4));
    const VectorXd weights = c.llt().solve(a.transpose() * y);
    return (b * weights - z).squaredNorm() / static_cast<double>(rows);
  };
}

double Kinks(const Parameters& values) {
  double sum = 0.0, before = 0.5;
  for (int i = 0; i < 4; ++i) {
    const double x = Get(values, absl::StrCat("x", i));
    sum += (1.0 + i) * std::abs(x - 0.2 - 0.17 * i) + Square(x - before);
    before = x;
  }
  return sum;
}

double Branches(const Parameters& values) {
  const double x = Get(values, "x");
  double value = Square(x - 0.3);
  if (std::get<std::string>(values.at("kind")) == "a") return value + 0.5;
  return value + Square(Get(values, "y") - x) + 0.3 * Square(std::sin(5.0 * Get(values, "z")));
}

std::vector<double> Differences(const simulate::Problem& problem, const Parameters& values) {
  std::vector<double> gradient;
  for (const study::Scalar& scalar : problem.space.differentiable()) {  // None of these spaces has vectors.
    const ParameterSpec& parameter = problem.space.parameters()[static_cast<size_t>(scalar.parameter)];
    gradient.push_back(0.0);
    const auto at = values.find(parameter.name);
    if (at == values.end()) continue;
    const auto& range = std::get<study::FloatRange>(parameter.domain);
    const double x = std::get<double>(at->second);
    // Past the bounds, which the functions do not know of.
    const double step = kStep * (range.scale == study::Scale::kLinear ? range.max - range.min : x);
    Parameters moved = values;
    moved[parameter.name] = x + step;
    const double above = problem.evaluate(moved);
    moved[parameter.name] = x - step;
    gradient.back() = (above - problem.evaluate(moved)) / (2.0 * step);
  }
  return gradient;
}

struct Parts {
  std::vector<ParameterSpec> parameters;
  std::function<double(const Parameters&)> evaluate;
};

std::optional<Parts> OddProblem(absl::string_view name) {
  if (name == "idle3") {
    return Parts{{Float("x", -5, 10), Float("y", 0, 15), Float("z", 0, 1)},
                 [](const Parameters& p) { return Branin(Get(p, "x"), Get(p, "y")); }};
  }
  if (name == "ramp3") {
    return Parts{{Float("x", -1, 2), Float("y", -1, 2), Float("z", 0, 1)}, [](const Parameters& p) {
                   return Square(Get(p, "x") - 0.3) + 2.0 * Square(Get(p, "y") + 0.2 * Get(p, "x")) +
                          5.0 * Square(std::max(0.0, Get(p, "z") - 0.6));
                 }};
  }
  if (name == "kinks4") {
    return Parts{{Float("x0", 0, 1), Float("x1", 0, 1), Float("x2", 0, 1), Float("x3", 0, 1)}, Kinks};
  }
  if (name == "valley_kink3") {
    return Parts{{Float("x", -2, 2), Float("y", -2, 2), Float("z", -2, 2)}, [](const Parameters& p) {
                   const double x = Get(p, "x"), y = Get(p, "y");
                   return 3.0 * std::abs(y - x * x) + Square(x - 1.0) + std::abs(Get(p, "z") - y);
                 }};
  }
  if (name == "ridge3") {
    return Parts{{Float("l2_0", 1e-3, 1e4, study::Scale::kLog), Float("l2_1", 1e-3, 1e4, study::Scale::kLog),
                  Float("l2_2", 1e-3, 1e4, study::Scale::kLog)},
                 Ridge()};
  }
  if (name == "rates4") {
    Parts parts;
    for (int i = 0; i < 4; ++i) {
      parts.parameters.push_back(Float(absl::StrCat("r", i), 1e-6, 1.0, study::Scale::kLog));
    }
    parts.evaluate = [](const Parameters& p) {
      double sum = 0.0;
      for (int i = 0; i < 4; ++i) {
        const double u = std::log10(Get(p, absl::StrCat("r", i))) / 6.0 + 0.3 + 0.1 * i;
        sum += (i == 0 ? 1e-12 : 1.0) * (u * u + 0.2 * u * u * u);
      }
      return sum;
    };
    return parts;
  }
  if (name == "branches") {
    ParameterSpec kind{"kind", study::CategoricalLabels{{"a", "b"}}, std::nullopt, std::nullopt};
    ParameterSpec y = Float("y", 0, 1), z = Float("z", 0, 1);
    y.condition = z.condition = study::Condition{"kind", {std::string("b")}};
    return Parts{{Float("x", 0, 1), kind, y, z}, Branches};
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<simulate::Problem> GradientProblem(absl::string_view name, std::optional<uint64_t> shift) {
  simulate::Problem problem;
  if (std::optional<Parts> parts = OddProblem(name)) {
    problem.name = std::string(name);
    LUTHIER_ASSIGN_OR_RETURN(problem.space, study::SearchSpace::Create(std::move(parts->parameters)));
    problem.evaluate = std::move(parts->evaluate);
  } else {
    LUTHIER_ASSIGN_OR_RETURN(problem, BenchProblem(name, shift));
  }
  if (!problem.gradient) {
    problem.gradient = [plain = problem](const Parameters& values) { return Differences(plain, values); };
  }
  return problem;
}

}  // namespace luthier
