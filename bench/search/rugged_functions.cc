#include "bench/search/rugged_functions.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "Eigen/Dense"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/catalogue/test_functions.h"
#include "lib/study/search_space.h"

namespace luthier {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kPi = std::numbers::pi;
constexpr int kPeaks = 101;

// What a seed draws for one function.
struct Instance {
  VectorXd optimum;  // In [-4, 4]^d.
  MatrixXd rotation, other;
  MatrixXd peaks;       // kPeaks x d.
  MatrixXd conditions;  // kPeaks x d, diagonals.
};

MatrixXd Rotation(base::RandomStream* random, Index d) {
  MatrixXd m(d, d);
  for (Index i = 0; i < d; ++i) {
    for (Index j = 0; j < d; ++j) m(i, j) = random->Normal();
  }
  return MatrixXd(Eigen::HouseholderQR<MatrixXd>(m).householderQ());
}

double Exponent(Index i, Index d) {
  return d > 1 ? static_cast<double>(i) / static_cast<double>(d - 1) : 0.0;
}

// T_osz and T_asy of the suite, and the diagonal with the given condition.
double Oscillate(double x) {
  if (x == 0.0) return 0.0;
  const double log = std::log(std::abs(x)), c1 = x > 0 ? 10.0 : 5.5, c2 = x > 0 ? 7.9 : 3.1;
  return std::copysign(std::exp(log + 0.049 * (std::sin(c1 * log) + std::sin(c2 * log))), x);
}
VectorXd Oscillate(VectorXd x) {
  for (double& entry : x) entry = Oscillate(entry);
  return x;
}
VectorXd Bend(VectorXd x, double beta) {
  for (Index i = 0; i < x.size(); ++i) {
    if (x(i) > 0) x(i) = std::pow(x(i), 1.0 + beta * Exponent(i, x.size()) * std::sqrt(x(i)));
  }
  return x;
}
VectorXd Stretch(VectorXd x, double condition) {
  for (Index i = 0; i < x.size(); ++i) x(i) *= std::pow(condition, 0.5 * Exponent(i, x.size()));
  return x;
}
double Outside(const VectorXd& x) {
  double sum = 0.0;
  for (const double entry : x) sum += std::pow(std::max(0.0, std::abs(entry) - 5.0), 2);
  return sum;
}

double Sector(const Instance& at, const VectorXd& x) {
  const VectorXd z = at.other * Stretch(at.rotation * (x - at.optimum), 10.0);
  double sum = 0.0;
  for (Index i = 0; i < z.size(); ++i) sum += std::pow((z(i) * at.optimum(i) > 0 ? 100.0 : 1.0) * z(i), 2);
  return std::pow(Oscillate(sum), 0.9);
}

double Rosenbrock(const Instance& at, const VectorXd& x) {
  const double d = static_cast<double>(x.size());
  const VectorXd z = (std::max(1.0, std::sqrt(d) / 8.0) * (x - at.optimum)).array() + 1.0;
  double sum = 0.0;
  for (Index i = 0; i + 1 < z.size(); ++i) {
    sum += 100.0 * std::pow(z(i) * z(i) - z(i + 1), 2) + std::pow(z(i) - 1.0, 2);
  }
  return sum;
}

double Rastrigin(const Instance& at, const VectorXd& x) {
  const VectorXd bent = Bend(Oscillate(at.rotation * (x - at.optimum)), 0.2);
  const VectorXd z = at.rotation * Stretch(at.other * bent, 10.0);
  const double d = static_cast<double>(x.size());
  return 10.0 * (d - (2.0 * kPi * z.array()).cos().sum()) + z.squaredNorm();
}

double Weierstrass(const Instance& at, const VectorXd& x) {
  const VectorXd z = at.rotation * Stretch(at.other * Oscillate(at.rotation * (x - at.optimum)), 0.01);
  double sum = 0.0, least = 0.0;
  for (int k = 0; k < 12; ++k) {
    const double half = std::pow(0.5, k), third = std::pow(3.0, k);
    least += half * std::cos(kPi * third);
    sum += half * (2.0 * kPi * third * (z.array() + 0.5)).cos().sum();
  }
  const double d = static_cast<double>(x.size());
  return 10.0 * std::pow(sum / d - least, 3) + 10.0 / d * Outside(x);
}

double Schaffer(const Instance& at, const VectorXd& x, double condition) {
  const VectorXd z = Stretch(at.other * Bend(at.rotation * (x - at.optimum), 0.5), condition);
  double sum = 0.0;
  for (Index i = 0; i + 1 < z.size(); ++i) {
    const double s = std::hypot(z(i), z(i + 1));
    sum += std::sqrt(s) + std::sqrt(s) * std::pow(std::sin(50.0 * std::pow(s, 0.2)), 2);
  }
  return std::pow(sum / static_cast<double>(x.size() - 1), 2) + 10.0 * Outside(x);
}

double Peaks(const Instance& at, const VectorXd& x) {
  double most = 0.0;
  for (int k = 0; k < kPeaks; ++k) {
    const VectorXd z = at.rotation * (x - at.peaks.row(k).transpose());
    const double weight = k == 0 ? 10.0 : 1.1 + 8.0 * (k - 1) / (kPeaks - 2);
    const double square = (z.array().square() * at.conditions.row(k).transpose().array()).sum();
    most = std::max(most, weight * std::exp(-square / (2.0 * static_cast<double>(x.size()))));
  }
  return std::pow(Oscillate(10.0 - most), 2) + Outside(x);
}

double Katsuura(const Instance& at, const VectorXd& x) {
  const VectorXd z = at.other * Stretch(at.rotation * (x - at.optimum), 100.0);
  const double d = static_cast<double>(x.size());
  double product = 1.0;
  for (Index i = 0; i < z.size(); ++i) {
    double sum = 0.0;
    for (int j = 1; j <= 32; ++j) {
      const double power = std::exp2(j);
      sum += std::abs(power * z(i) - std::round(power * z(i))) / power;
    }
    product *= std::pow(1.0 + static_cast<double>(i + 1) * sum, 10.0 / std::pow(d, 1.2));
  }
  return 10.0 / (d * d) * (product - 1.0) + Outside(x);
}

double Lunacek(const Instance& at, const VectorXd& x) {
  const double d = static_cast<double>(x.size()), mu0 = 2.5, s = 1.0 - 1.0 / (2.0 * std::sqrt(d + 20.0) - 8.2);
  const double mu1 = -std::sqrt((mu0 * mu0 - 1.0) / s);
  VectorXd y = 2.0 * x;
  for (Index i = 0; i < y.size(); ++i) y(i) = std::copysign(y(i), y(i) * at.optimum(i));
  const VectorXd z = at.other * Stretch(at.rotation * (y.array() - mu0).matrix(), 100.0);
  const double first = (y.array() - mu0).square().sum(), second = d + s * (y.array() - mu1).square().sum();
  return std::min(first, second) + 10.0 * (d - (2.0 * kPi * z.array()).cos().sum()) + 1e4 * Outside(x);
}

Instance Draw(absl::string_view name, Index d, uint64_t seed) {
  base::RandomStream random(seed, absl::StrCat("bench/rugged/", name), static_cast<uint64_t>(d));
  Instance at;
  at.optimum.resize(d);
  for (double& entry : at.optimum) entry = 8.0 * random.Uniform() - 4.0;
  at.rotation = Rotation(&random, d);
  at.other = Rotation(&random, d);
  if (name == "f8") at.optimum *= 0.75;
  if (name == "f24") {
    for (double& entry : at.optimum) entry = std::copysign(1.25, entry);
  }
  if (name != "f21") return at;
  at.peaks.resize(kPeaks, d);
  at.conditions.resize(kPeaks, d);
  for (int k = 0; k < kPeaks; ++k) {
    const double alpha = k == 0 ? 1000.0 : std::pow(1000.0, 2.0 * random.Uniform());
    std::vector<Index> order;
    for (Index i = 0; i < d; ++i) order.push_back(i);
    random.Shuffle(order);
    for (Index i = 0; i < d; ++i) {
      const double reach = k == 0 ? 4.0 : 5.0;
      at.peaks(k, i) = reach * (2.0 * random.Uniform() - 1.0);
      at.conditions(k, i) = std::pow(alpha, 0.5 * Exponent(order[static_cast<size_t>(i)], d)) / std::pow(alpha, 0.25);
    }
  }
  return at;
}

double Evaluate(absl::string_view name, const Instance& at, const VectorXd& x) {
  if (name == "f1") return (x - at.optimum).squaredNorm();
  if (name == "f6") return Sector(at, x);
  if (name == "f8") return Rosenbrock(at, x);
  if (name == "f15") return Rastrigin(at, x);
  if (name == "f16") return Weierstrass(at, x);
  if (name == "f17") return Schaffer(at, x, 10.0);
  if (name == "f18") return Schaffer(at, x, 1000.0);
  if (name == "f21") return Peaks(at, x);
  if (name == "f23") return Katsuura(at, x);
  return Lunacek(at, x);
}

}  // namespace

std::vector<std::string> RuggedFunctions() {
  return {"f1", "f6", "f8", "f15", "f16", "f17", "f18", "f21", "f23", "f24"};
}

absl::StatusOr<simulate::Problem> RuggedProblem(absl::string_view name, uint64_t seed) {
  const std::vector<std::string> parts = absl::StrSplit(name, "/d");
  const std::vector<std::string> known = RuggedFunctions();
  int d = 0;
  const bool good = parts.size() == 2 && absl::SimpleAtoi(parts[1], &d) && d >= 2 && d <= 40 &&
                    std::find(known.begin(), known.end(), parts[0]) != known.end();
  if (!good) return absl::NotFoundError(absl::StrCat(name, " is none of f1/d2, f17/d5, …"));
  std::vector<study::ParameterSpec> parameters;
  std::vector<std::string> names;
  for (int i = 0; i < d; ++i) {
    study::ParameterSpec parameter;
    parameter.name = absl::StrCat("x", i + 1);
    parameter.domain = study::FloatRange{-5.0, 5.0, study::Scale::kLinear, std::nullopt};
    names.push_back(parameter.name);
    parameters.push_back(std::move(parameter));
  }
  simulate::Problem problem;
  problem.name = std::string(name);
  LUTHIER_ASSIGN_OR_RETURN(problem.space, study::SearchSpace::Create(std::move(parameters)));
  problem.optimum = 0.0;
  problem.evaluate = [name = parts[0], names, at = Draw(parts[0], d, seed)](const study::Parameters& values) {
    VectorXd x(static_cast<Index>(names.size()));
    for (Index i = 0; i < x.size(); ++i) x(i) = std::get<double>(values.at(names[static_cast<size_t>(i)]));
    return Evaluate(name, at, x);
  };
  return problem;
}

}  // namespace luthier
