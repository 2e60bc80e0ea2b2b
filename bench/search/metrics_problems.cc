#include "bench/search/metrics_problems.h"

#include <algorithm>
#include <cmath>

namespace luthier {
namespace {

using Values = std::vector<double>;
using Box = std::vector<std::pair<double, double>>;

Values BraninCurrin(const Values& u) {
  const double x = 15.0 * u[0] - 5.0, y = 15.0 * u[1];
  const double a = y - 5.1 * x * x / (4.0 * M_PI * M_PI) + 5.0 * x / M_PI - 6.0;
  const double p = u[0], rise = u[1] > 0.0 ? 1.0 - std::exp(-1.0 / (2.0 * u[1])) : 1.0;
  return {a * a + 10.0 * (1.0 - 1.0 / (8.0 * M_PI)) * std::cos(x) + 10.0,
          rise * (2300 * p * p * p + 1900 * p * p + 2092 * p + 60) / (100 * p * p * p + 500 * p * p + 4 * p + 20)};
}

Values VehicleSafety(const Values& v) {
  const double a = v[0], b = v[1], c = v[2], d = v[3], e = v[4];
  return {1640.2823 + 2.3573285 * a + 2.3220035 * b + 4.5688768 * c + 7.7213633 * d + 4.4559504 * e,
          6.5856 + 1.15 * a - 1.0427 * b + 0.9738 * c + 0.8364 * d - 0.3695 * a * d + 0.0861 * a * e + 0.3628 * b * d -
              0.1106 * a * a - 0.3437 * c * c + 0.1764 * d * d,
          -0.0551 + 0.0181 * a + 0.1024 * b + 0.0421 * c - 0.0073 * a * b + 0.024 * b * c - 0.0118 * b * d -
              0.0204 * c * d - 0.008 * c * e - 0.0241 * b * b + 0.0109 * d * d};
}

Values Dtlz2(const Values& v, size_t objectives) {
  double g = 0.0;
  for (size_t i = objectives - 1; i < v.size(); ++i) g += (v[i] - 0.5) * (v[i] - 0.5);
  Values values;
  for (size_t j = 0; j < objectives; ++j) {
    double value = 1.0 + g;
    for (size_t i = 0; i + j + 1 < objectives; ++i) value *= std::cos(0.5 * M_PI * v[i]);
    if (j > 0) value *= std::sin(0.5 * M_PI * v[objectives - 1 - j]);
    values.push_back(value);
  }
  return values;
}

Values TensionString(const Values& v) {
  const double a = v[0], b = v[1], c = v[2], a2 = a * a, a3 = a2 * a, a4 = a3 * a;
  return {a2 * b * (c + 2.0), 1.0 - b * b * b * c / (71785.0 * a4),
          (4.0 * b * b - a * b) / (12566.0 * (a3 * b - a4)) + 1.0 / (5108.0 * a2) - 1.0, 1.0 - 140.45 * a / (c * b * b),
          (a + b) / 1.5 - 1.0};
}

Values WeldedBeam(const Values& v) {
  constexpr double kLoad = 6000.0, kLength = 14.0, kElasticity = 30e6, kShear = 12e6;
  const double a = v[0], b = v[1], c = v[2], d = v[3];
  const double cost = 1.10471 * a * a * b + 0.04811 * c * d * (14.0 + b);
  const double moment = kLoad * (kLength + 0.5 * b), radius = std::sqrt(0.25 * (b * b + (a + c) * (a + c)));
  const double inertia = 2.0 * std::sqrt(2.0) * a * b * (b * b / 12.0 + 0.25 * (a + c) * (a + c));
  const double first = kLoad / (std::sqrt(2.0) * a * b), second = moment * radius / inertia;
  const double buckling = 4.013 * kElasticity * c * d * d * d / 6.0 / (kLength * kLength) *
                          (1.0 - 0.25 * c * std::sqrt(kElasticity / kShear) / kLength);
  return {cost,
          std::sqrt(first * first + first * second * b / radius + second * second) - 13600.0,
          6.0 * kLoad * kLength / (d * c * c) - 30000.0,
          a - d,
          0.10471 * a * a + 0.04811 * c * d * (14.0 + b) - 5.0,
          4.0 * kLoad * kLength * kLength * kLength / (kElasticity * c * c * c * d) - 0.25,
          kLoad - buckling};
}

Values SpeedReducer(const Values& v) {
  const double a = v[0], b = v[1], c = v[2], d = v[3], e = v[4], f = v[5], g = v[6];
  const double gear = a * b * b * c, f4 = f * f * f * f, g4 = g * g * g * g;
  const Values shafts = {b * c / 40.0 - 1.0, 5.0 - a / b, a / b - 12.0, (1.5 * f + 1.9) / d - 1.0,
                         (1.1 * g + 1.9) / e - 1.0};
  return {0.7854 * a * b * b * (3.3333 * c * c + 14.9334 * c - 43.0934) - 1.508 * a * (f * f + g * g) +
              7.4777 * (f * f * f + g * g * g) + 0.7854 * (d * f * f + e * g * g),
          27.0 / gear - 1.0,
          397.5 / (gear * c) - 1.0,
          1.93 * d * d * d / (b * c * f4) - 1.0,
          1.93 * e * e * e / (b * c * g4) - 1.0,
          std::sqrt(std::pow(745.0 * d / (b * c), 2) + 16.9e6) / (110.0 * f * f * f) - 1.0,
          std::sqrt(std::pow(745.0 * e / (b * c), 2) + 157.5e6) / (85.0 * g * g * g) - 1.0,
          *std::max_element(shafts.begin(), shafts.end())};
}

// Osyczka and Kundu, 1995: two objectives, the last two of its six constraints, which are not linear.
Values Osy(const Values& v) {
  const auto square = [](double x) { return x * x; };
  double sum = 0.0;
  for (const double x : v) sum += x * x;
  return {
      -(25.0 * square(v[0] - 2.0) + square(v[1] - 2.0) + square(v[2] - 1.0) + square(v[3] - 4.0) + square(v[4] - 1.0)),
      sum, square(v[2] - 3.0) + v[3] - 4.0, 4.0 - square(v[4] - 3.0) - v[5]};
}

}  // namespace

std::vector<MetricsProblem> MetricsProblems() {
  const Box unit(8, {0.0, 1.0});
  return {
      {"branin_currin", {unit.begin(), unit.begin() + 2}, 2, 0, {18.0, 6.0}, BraninCurrin},
      {"vehicle_safety", Box(5, {1.0, 3.0}), 3, 0, {1864.72022, 11.81993945, 0.2903999384}, VehicleSafety},
      {"dtlz2", {unit.begin(), unit.begin() + 6}, 3, 0, {1.1, 1.1, 1.1}, [](const Values& v) { return Dtlz2(v, 3); }},
      {"dtlz2_5", unit, 5, 0, Values(5, 1.1), [](const Values& v) { return Dtlz2(v, 5); }},
      {"osy", {{0.0, 10.0}, {0.0, 10.0}, {1.0, 5.0}, {0.0, 6.0}, {1.0, 5.0}, {0.0, 10.0}}, 2, 2, {-75.0, 75.0}, Osy},
      {"tension_string", {{0.01, 1.0}, {0.01, 1.0}, {0.01, 20.0}}, 1, 4, {}, TensionString},
      {"welded_beam", {{0.125, 10.0}, {0.1, 10.0}, {0.1, 10.0}, {0.1, 10.0}}, 1, 6, {}, WeldedBeam},
      {"speed_reducer",
       {{2.6, 3.6}, {0.7, 0.8}, {17.0, 28.0}, {7.3, 8.3}, {7.8, 8.3}, {2.9, 3.9}, {5.0, 5.5}},
       1,
       7,
       {},
       SpeedReducer},
  };
}

}  // namespace luthier
