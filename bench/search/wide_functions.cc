#include "bench/search/wide_functions.h"

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "Eigen/Core"
#include "Eigen/QR"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "bench/search/mixed_functions.h"
#include "lib/base/random.h"
#include "lib/catalogue/test_functions.h"

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

double Rastrigin(const std::vector<double>& x) {
  double sum = 0.0;
  for (double v : x) sum += v * v + 10.0 * (1.0 - std::cos(2.0 * pi * v));
  return sum;
}

double Griewank(const std::vector<double>& x) {
  double squares = 0.0, cosines = 1.0;
  for (size_t i = 0; i < x.size(); ++i) {
    squares += x[i] * x[i] / 4000.0;
    cosines *= std::cos(x[i] / std::sqrt(static_cast<double>(i + 1)));
  }
  return squares - cosines + 1.0;
}

// Its minimum is made 0.
double StyblinskiTang(const std::vector<double>& x) {
  double sum = 0.0;
  for (double v : x) sum += 0.5 * (v * v * v * v - 16.0 * v * v + 5.0 * v) + 39.166165703771419;
  return sum;
}

struct Wide {
  const char* name;
  double lower, upper;
  double shift;      // The box is moved by up to this along each axis.
  double minimizer;  // Each parameter's value at the minimum.
  double (*f)(const std::vector<double>&);
};

constexpr Wide kWide[] = {
    {"ackley", -10.0, 10.0, 4.0, 0.0, Ackley},
    {"griewank", -50.0, 50.0, 20.0, 0.0, Griewank},
    {"levy", -10.0, 10.0, 4.0, 1.0, Levy},
    {"rastrigin", -5.12, 5.12, 2.0, 0.0, Rastrigin},
    {"rosenbrock", -2.048, 2.048, 0.0, 1.0, Rosenbrock},
    {"styblinski_tang", -5.0, 5.0, 1.0, -2.9035340276896057, StyblinskiTang},
};
constexpr int kMaxDim = 100;

// Orthogonal, its columns from a normal matrix.
Eigen::MatrixXd Rotation(int d, uint64_t seed) {
  base::RandomStream random(seed, "bench/rotation");
  Eigen::MatrixXd normal(d, d);
  for (double& v : normal.reshaped()) v = random.Normal();
  return Eigen::HouseholderQR<Eigen::MatrixXd>(normal).householderQ();
}

}  // namespace

std::optional<simulate::Problem> WideProblem(absl::string_view name, std::optional<uint64_t> shift) {
  if (catalogue::FindTestFunction(name).ok()) return std::nullopt;
  const std::string label = absl::StrCat(name, shift.has_value() ? "+shift" : "");
  const bool rotated = absl::ConsumeSuffix(&name, "_rotated");
  const bool sparse = name == "sparse25";
  if (sparse) name = "levy25";
  for (const Wide& wide : kWide) {
    int dim = 0;
    if (!absl::StartsWith(name, wide.name) || !absl::SimpleAtoi(absl::StripPrefix(name, wide.name), &dim)) continue;
    if (dim < 2 || dim > kMaxDim) return std::nullopt;
    base::RandomStream random(shift.value_or(1), "bench/wide");
    std::vector<study::ParameterSpec> parameters;
    std::vector<std::string> names;
    for (int i = 0; i < dim; ++i) {
      const double offset = wide.shift * (2.0 * random.Uniform() - 1.0);
      study::ParameterSpec parameter;
      parameter.name = absl::StrFormat("x%02d", i + 1);
      parameter.domain =
          study::FloatRange{wide.lower + offset, wide.upper + offset, study::Scale::kLinear, std::nullopt};
      if (!sparse || i % 5 == 0) names.push_back(parameter.name);
      parameters.push_back(std::move(parameter));
    }
    absl::StatusOr<study::SearchSpace> space = study::SearchSpace::Create(std::move(parameters));
    if (!space.ok()) return std::nullopt;
    simulate::Problem problem;
    problem.name = label;
    problem.space = *std::move(space);
    problem.optimum = 0.0;
    Eigen::MatrixXd rotation;
    if (rotated) rotation = Rotation(static_cast<int>(names.size()), shift.value_or(1));
    problem.evaluate = [names, rotation, &wide](const study::Parameters& values) {
      std::vector<double> x;
      for (const std::string& parameter : names) x.push_back(std::get<double>(values.at(parameter)));
      if (rotation.size() > 0) {
        Eigen::Map<Eigen::VectorXd> point(x.data(), rotation.rows());
        point = (rotation * (point.array() - wide.minimizer).matrix()).array() + wide.minimizer;
      }
      return wide.f(x);
    };
    return problem;
  }
  return std::nullopt;
}

absl::StatusOr<simulate::Problem> BenchProblem(absl::string_view name, std::optional<uint64_t> shift) {
  if (std::optional<simulate::Problem> wide = WideProblem(name, shift)) return *std::move(wide);
  if (std::optional<simulate::Problem> mixed = MixedProblem(name, shift)) return *std::move(mixed);
  return simulate::TestProblem(name, shift);
}

}  // namespace luthier
