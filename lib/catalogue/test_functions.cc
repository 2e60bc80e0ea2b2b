#include "lib/catalogue/test_functions.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/random.h"

namespace luthier::catalogue {
namespace {

using Eigen::Index;
using Eigen::VectorXd;
using std::numbers::pi;

double Square(double v) {
  return v * v;
}

double Branin(const VectorXd& x, VectorXd* gradient) {
  constexpr double b = 5.1 / (4.0 * pi * pi);
  constexpr double c = 5.0 / pi;
  constexpr double t = 10.0 * (1.0 - 1.0 / (8.0 * pi));
  const double a = x[1] - b * x[0] * x[0] + c * x[0] - 6.0;
  if (gradient != nullptr) {
    gradient->resize(2);
    *gradient << 2.0 * a * (c - 2.0 * b * x[0]) - t * std::sin(x[0]), 2.0 * a;
  }
  return a * a + t * std::cos(x[0]) + 10.0;
}

double Camel(const VectorXd& x, VectorXd* gradient) {
  const double u = x[0] * x[0];
  const double v = x[1] * x[1];
  if (gradient != nullptr) {
    gradient->resize(2);
    *gradient << x[0] * (8.0 - 8.4 * u + 2.0 * u * u) + x[1], x[0] + x[1] * (16.0 * v - 8.0);
  }
  return (4.0 - 2.1 * u + u * u / 3.0) * u + x[0] * x[1] + (4.0 * v - 4.0) * v;
}

double GoldsteinPrice(const VectorXd& z, VectorXd* gradient) {
  const double x = z[0];
  const double y = z[1];
  const double u = x + y + 1.0;
  const double p = 19.0 - 14.0 * x + 3.0 * x * x - 14.0 * y + 6.0 * x * y + 3.0 * y * y;
  const double v = 2.0 * x - 3.0 * y;
  const double q = 18.0 - 32.0 * x + 12.0 * x * x + 48.0 * y - 36.0 * x * y + 27.0 * y * y;
  const double first = 1.0 + u * u * p;
  const double second = 30.0 + v * v * q;
  if (gradient != nullptr) {
    const double dp = -14.0 + 6.0 * x + 6.0 * y;  // Both partial derivatives of p.
    const double d_first = 2.0 * u * p + u * u * dp;
    const double d_second_x = 4.0 * v * q + v * v * (-32.0 + 24.0 * x - 36.0 * y);
    const double d_second_y = -6.0 * v * q + v * v * (48.0 - 36.0 * x + 54.0 * y);
    gradient->resize(2);
    *gradient << d_first * second + first * d_second_x, d_first * second + first * d_second_y;
  }
  return first * second;
}

double Michalewicz(const VectorXd& x, VectorXd* gradient) {
  if (gradient != nullptr) gradient->resize(x.size());
  double sum = 0.0;
  for (Index j = 0; j < x.size(); ++j) {
    const double i = static_cast<double>(j + 1);
    const double angle = i * x[j] * x[j] / pi;
    const double s = std::sin(angle);
    const double s2 = s * s;
    const double s4 = s2 * s2;
    const double s8 = s4 * s4;
    const double s19 = s8 * s8 * s2 * s;
    sum += std::sin(x[j]) * s19 * s;
    if (gradient != nullptr) {
      (*gradient)[j] =
          -(std::cos(x[j]) * s19 * s + std::sin(x[j]) * 20.0 * s19 * std::cos(angle) * 2.0 * i * x[j] / pi);
    }
  }
  return -sum;
}

double Rosenbrock(const VectorXd& x, VectorXd* gradient) {
  if (gradient != nullptr) *gradient = VectorXd::Zero(x.size());
  double sum = 0.0;
  for (Index j = 0; j + 1 < x.size(); ++j) {
    const double a = x[j + 1] - x[j] * x[j];
    const double b = 1.0 - x[j];
    sum += 100.0 * a * a + b * b;
    if (gradient != nullptr) {
      (*gradient)[j] += -400.0 * a * x[j] - 2.0 * b;
      (*gradient)[j + 1] += 200.0 * a;
    }
  }
  return sum;
}

constexpr double kAlpha[4] = {1.0, 1.2, 3.0, 3.2};

template <int d>
double Hartmann(const double (&A)[4][d], const double (&P)[4][d], const VectorXd& x, VectorXd* gradient) {
  if (gradient != nullptr) *gradient = VectorXd::Zero(d);
  double sum = 0.0;
  for (int i = 0; i < 4; ++i) {
    double exponent = 0.0;
    for (int j = 0; j < d; ++j) exponent += A[i][j] * Square(x[j] - 1e-4 * P[i][j]);
    const double term = kAlpha[i] * std::exp(-exponent);
    sum += term;
    if (gradient == nullptr) continue;
    for (int j = 0; j < d; ++j) (*gradient)[j] += term * 2.0 * A[i][j] * (x[j] - 1e-4 * P[i][j]);
  }
  return -sum;
}

double Hartmann3(const VectorXd& x, VectorXd* gradient) {
  constexpr double A[4][3] = {{3, 10, 30}, {0.1, 10, 35}, {3, 10, 30}, {0.1, 10, 35}};
  constexpr double P[4][3] = {{3689, 1170, 2673}, {4699, 4387, 7470}, {1091, 8732, 5547}, {381, 5743, 8828}};
  return Hartmann<3>(A, P, x, gradient);
}

double Hartmann6(const VectorXd& x, VectorXd* gradient) {
  constexpr double A[4][6] = {
      {10, 3, 17, 3.5, 1.7, 8}, {0.05, 10, 17, 0.1, 8, 14}, {3, 3.5, 1.7, 10, 17, 8}, {17, 8, 0.05, 10, 0.1, 14}};
  constexpr double P[4][6] = {{1312, 1696, 5569, 124, 8283, 5886},
                              {2329, 4135, 8307, 3736, 1004, 9991},
                              {2348, 1451, 3522, 2883, 3047, 6650},
                              {4047, 8828, 8732, 5743, 1091, 381}};
  return Hartmann<6>(A, P, x, gradient);
}

VectorXd Vector(std::initializer_list<double> values) {
  VectorXd v(static_cast<Index>(values.size()));
  std::copy(values.begin(), values.end(), v.data());
  return v;
}

TestFunction MakeMichalewicz(int d, double minimum, double lipschitz, double deviation) {
  const VectorXd all =
      Vector({2.20291, 1.57080, 1.28499, 1.92306, 1.72047, 1.57080, 1.45441, 1.75609, 1.65572, 1.57080});
  return {absl::StrCat("michalewicz", d),
          absl::StrCat("Michalewicz, ", d, "-D: steep valleys in flat ground; only a small part of the box has slope"),
          VectorXd::Zero(d),
          VectorXd::Constant(d, pi),
          minimum,
          {VectorXd(all.head(d))},
          lipschitz,
          deviation,
          &Michalewicz};
}

TestFunction MakeRosenbrock(int d, double lipschitz, double deviation) {
  return {absl::StrCat("rosenbrock", d),
          absl::StrCat("Rosenbrock, ", d, "-D: a curved valley that is easy to find and hard to follow"),
          VectorXd::Constant(d, -2.048),
          VectorXd::Constant(d, 2.048),
          0.0,
          {VectorXd(VectorXd::Ones(d))},
          lipschitz,
          deviation,
          &Rosenbrock};
}

std::vector<TestFunction> MakeTable() {
  std::vector<TestFunction> table;
  table.push_back({"branin",
                   "Branin, 2-D: smooth, three equal minima",
                   Vector({-5, 0}),
                   Vector({10, 15}),
                   0.39788735772973816,
                   {Vector({-pi, 12.275}), Vector({pi, 2.275}), Vector({3.0 * pi, 2.475})},
                   1705.0,
                   50.8,
                   &Branin});
  table.push_back({"camel",
                   "Six-hump camel, 2-D: six local minima, two of them global",
                   Vector({-3, -2}),
                   Vector({3, 2}),
                   -1.0316284534898774,
                   {Vector({0.0898420, -0.7126564}), Vector({-0.0898420, 0.7126564})},
                   1772.0,
                   26.2,
                   &Camel});
  table.push_back({"goldstein_price",
                   "Goldstein-Price, 2-D: values from 3 to a million",
                   Vector({-2, -2}),
                   Vector({2, 2}),
                   3.0,
                   {Vector({0, -1})},
                   8.9e6,
                   1.27e5,
                   &GoldsteinPrice});
  table.push_back({"hartmann3",
                   "Hartmann, 3-D: four local minima",
                   VectorXd::Zero(3),
                   VectorXd::Ones(3),
                   -3.8627797873326625,
                   {Vector({0.114589, 0.555649, 0.852547})},
                   18.3,
                   0.96,
                   &Hartmann3});
  table.push_back({"hartmann6",
                   "Hartmann, 6-D: six local minima",
                   VectorXd::Zero(6),
                   VectorXd::Ones(6),
                   -3.3223680114155148,
                   {Vector({0.2016895, 0.1500107, 0.4768740, 0.2753324, 0.3116516, 0.6573005})},
                   11.3,
                   0.39,
                   &Hartmann6});
  table.push_back(MakeMichalewicz(10, -9.6601517156413414, 197.0, 0.72));
  table.push_back(MakeMichalewicz(2, -1.8013034100985525, 21.3, 0.32));
  table.push_back(MakeMichalewicz(5, -4.6876581790881463, 73.7, 0.51));
  table.push_back(MakeRosenbrock(2, 2.16e4, 663.0));
  table.push_back(MakeRosenbrock(3, 3.39e4, 988.0));
  table.push_back(MakeRosenbrock(4, 4.27e4, 1236.0));
  table.push_back(MakeRosenbrock(5, 5.01e4, 1451.0));
  std::sort(table.begin(), table.end(), [](const TestFunction& a, const TestFunction& b) { return a.name < b.name; });
  return table;
}

}  // namespace

const std::vector<TestFunction>& TestFunctions() {
  static const std::vector<TestFunction>& table = *new std::vector<TestFunction>(MakeTable());
  return table;
}

absl::StatusOr<const TestFunction*> FindTestFunction(absl::string_view name) {
  std::vector<std::string> names;
  for (const TestFunction& f : TestFunctions()) {
    if (f.name == name) return &f;
    names.push_back(f.name);
  }
  return absl::NotFoundError(
      absl::StrCat("there is no test function ", base::Quote(name), base::DidYouMean(name, names)));
}

std::pair<VectorXd, VectorXd> ShiftedBounds(const TestFunction& function, uint64_t seed) {
  base::RandomStream random(seed, "function.shift");
  VectorXd lower = function.lower;
  VectorXd upper = function.upper;
  const VectorXd& inside = function.minimizers[0];
  for (Index j = 0; j < function.dim(); ++j) {
    const double width = upper[j] - lower[j];
    // Offsets in [low, high] keep lower + offset <= x* <= upper + offset.
    const double low = std::max(-0.2 * width, inside[j] - upper[j]);
    const double high = std::min(0.2 * width, inside[j] - lower[j]);
    const double offset = low + (high - low) * random.Uniform();
    lower[j] += offset;
    upper[j] += offset;
  }
  return {lower, upper};
}

}  // namespace luthier::catalogue
