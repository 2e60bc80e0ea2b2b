#include "lib/stopping/curve_stopper.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numbers>

#include "absl/strings/str_cat.h"

namespace luthier::stopping {
namespace {

constexpr size_t kFewestPoints = 4;
constexpr size_t kMostPoints = 64;
constexpr double kLate = 0.25;        // Share of the last step from which points are fitted.
constexpr double kPlausible = 4.0;    // Multiple of the best residual sum of squares.
constexpr double kDiscrepancy = 0.2;  // Share of the extrapolated distance.
constexpr double kExponents[] = {0.0, 0.25, 0.5, 1.0, 2.0};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Fit {
  double at_whole;
  double variance;  // Variance of the estimate and of one more result, in units of the residual variance.
  double residuals;
};

// Fits y = a + b x with b >= 0, at x = 0.
Fit FitLine(const std::vector<double>& x, const std::vector<double>& y) {
  const auto n = static_cast<double>(x.size());
  double mean_x = 0.0;
  double mean_y = 0.0;
  for (size_t i = 0; i < x.size(); ++i) {
    mean_x += x[i] / n;
    mean_y += y[i] / n;
  }
  double xx = 0.0;
  double xy = 0.0;
  for (size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  const double slope = xx > 0.0 ? std::max(0.0, xy / xx) : 0.0;
  Fit fit;
  fit.at_whole = mean_y - slope * mean_x;
  fit.variance = 1.0 + 1.0 / n + (xx > 0.0 ? mean_x * mean_x / xx : 0.0);
  fit.residuals = 0.0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double residual = y[i] - fit.at_whole - slope * x[i];
    fit.residuals += residual * residual;
  }
  return fit;
}

std::vector<StepLoss> LatePoints(const std::vector<StepLoss>& points) {
  const double from = kLate * points.back().step;
  auto first = std::find_if(points.begin(), points.end(), [&](const StepLoss& p) { return p.step >= from; });
  if (points.end() - first < static_cast<std::ptrdiff_t>(kFewestPoints)) {
    first = points.end() - static_cast<std::ptrdiff_t>(kFewestPoints);
  }
  const auto n = static_cast<size_t>(points.end() - first);
  if (n <= kMostPoints) return {first, points.end()};
  std::vector<StepLoss> thin;
  for (size_t i = 0; i < kMostPoints; ++i) {
    thin.push_back(first[static_cast<std::ptrdiff_t>(i * (n - 1) / (kMostPoints - 1))]);
  }
  return thin;
}

}  // namespace

double StudentQuantile(double p, int degrees) {
  // P(|T| <= sqrt(degrees) tan(angle)) by Abramowitz & Stegun 26.7.3 and 26.7.4, which ascends with the angle.
  const auto inside = [degrees](double angle) {
    const double cosine = std::cos(angle);
    const bool odd = degrees % 2 == 1;
    double term = odd ? cosine : 1.0;
    double sum = degrees == 1 ? 0.0 : term;
    for (int k = odd ? 3 : 2; k <= degrees - 2; k += 2) {
      term *= cosine * cosine * (k - 1.0) / k;
      sum += term;
    }
    return odd ? 2.0 / std::numbers::pi * (angle + std::sin(angle) * sum) : std::sin(angle) * sum;
  };
  double low = 0.0;
  double high = 0.5 * std::numbers::pi;
  for (int i = 0; i < 50; ++i) {
    const double middle = 0.5 * (low + high);
    (inside(middle) < 2.0 * p - 1.0 ? low : high) = middle;
  }
  return std::sqrt(degrees) * std::tan(low);
}

double LossBound(const std::vector<StepLoss>& points, double whole, double confidence) {
  if (points.size() < kFewestPoints || points.back().step >= whole) return -kInfinity;
  const std::vector<StepLoss> late = LatePoints(points);
  // Values are in units of the range, so that squares of the largest doubles stay finite; the range itself may not.
  double lowest = kInfinity;
  double highest = -kInfinity;
  for (const StepLoss& p : late) {
    lowest = std::min(lowest, p.loss);
    highest = std::max(highest, p.loss);
  }
  const double range = highest - lowest;
  if (!std::isfinite(range)) return -kInfinity;
  if (range == 0.0) return lowest;
  std::vector<double> y;
  for (const StepLoss& p : late) y.push_back((p.loss - lowest) / range);
  std::vector<Fit> fits;
  double best = kInfinity;
  for (const double c : kExponents) {
    std::vector<double> x;
    for (const StepLoss& p : late) {
      // Steps in units of the whole, so that powers stay in range: (t/whole)^-c - 1 is that of the header up to b.
      const double log_step = std::log(p.step / whole);
      x.push_back(c == 0.0 ? -log_step : std::expm1(-c * log_step) / c);
    }
    fits.push_back(FitLine(x, y));
    best = std::min(best, fits.back().residuals);
  }
  const double quantile = StudentQuantile(confidence, static_cast<int>(late.size()) - 2);
  double bound = kInfinity;
  for (const Fit& fit : fits) {
    // A fit without any residual is as good as rounding allows.
    if (fit.residuals > kPlausible * best + 1e-12) continue;
    const double noise = fit.residuals / static_cast<double>(late.size() - 2);
    const double way = kDiscrepancy * (y.back() - fit.at_whole);
    bound = std::min(bound, fit.at_whole - quantile * std::sqrt(noise * fit.variance + way * way));
  }
  return lowest + range * bound;
}

void CurveStopper::Report(int64_t trial, int64_t step, double value) {
  open_[trial][step] = std::isfinite(value) ? -study::Score(goal_, value) : kInfinity;
}

void CurveStopper::Finish(int64_t trial, study::TrialState state, std::optional<double> value) {
  open_.erase(trial);
  if (state != study::TrialState::kComplete || !value) return;
  ++complete_;
  const double loss = -study::Score(goal_, *value);
  if (!best_ || loss < *best_) best_ = loss;
}

Decision CurveStopper::Decide(int64_t trial, int64_t step) const {
  const auto found = open_.find(trial);
  if (found == open_.end() || step < rule_.warmup) return {};
  const std::map<int64_t, double>& curve = found->second;
  const auto mine = curve.find(step);
  if (mine == curve.end()) return {};
  const auto reports = std::distance(curve.begin(), mine) + 1;
  if (reports % rule_.interval != 0) return {};
  std::vector<StepLoss> points;
  double own_best = kInfinity;
  for (auto point = curve.begin(); point != std::next(mine); ++point) {
    own_best = std::min(own_best, point->second);
    if (point->first > 0 && std::isfinite(point->second)) {
      points.push_back({static_cast<double>(point->first), point->second});
    }
  }
  if (complete_ < rule_.min_trials || !best_ || own_best <= *best_) return {};
  if (!std::isfinite(own_best) && reports >= rule_.min_points) {
    return {Verdict::kStop, absl::StrCat("no finite value up to step ", step)};
  }
  if (static_cast<int64_t>(points.size()) < rule_.min_points) return {};
  const double bound = LossBound(points, whole_, rule_.confidence);
  if (bound <= *best_) return {};
  const auto value = [&](double loss) { return study::FormatDouble(study::Score(goal_, -loss)); };
  return {Verdict::kStop,
          absl::StrCat("its curve will not get beyond ", value(bound), " at step ", static_cast<int64_t>(whole_),
                       " (confidence ", rule_.confidence, "); the best value is ", value(*best_))};
}

}  // namespace luthier::stopping
