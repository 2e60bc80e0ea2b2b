#include "lib/spectral/recovery.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "Eigen/QR"
#include "lib/base/check.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"

namespace luthier::spectral {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int kFolds = 5;

// y = mean + scale * unit with mean(unit) = 0 and mean(unit^2) = 1. scale 0: all equal.
struct Standardized {
  double mean = 0.0;
  double scale = 0.0;
  VectorXd unit;
};

Standardized Standardize(const VectorXd& y) {
  Standardized s;
  const double largest = y.cwiseAbs().maxCoeff();
  if (!(largest > 0.0)) return s;
  // Multiples of the largest value have squares that do not overflow.
  const VectorXd small = y / largest;
  const double mean = small.mean();
  const double deviation = std::sqrt((small.array() - mean).square().mean());
  s.mean = mean * largest;
  if (deviation <= 1e-12) return s;
  s.scale = deviation * largest;
  s.unit = (small.array() - mean).matrix() / deviation;
  return s;
}

// Returns sqrt(2 ln `count` / `samples`): the largest of `count` correlations with noise of unit deviation.
double LargestOfNoise(int64_t count, Index samples) {
  return std::sqrt(2.0 * std::log(std::max(2.0, static_cast<double>(count))) / static_cast<double>(samples));
}

// Refits the s terms that stand out most, with an intercept. In units of `unit`; intercept included.
Polynomial Refit(const ParityLasso& lasso, const VectorXd& unit, std::vector<Term> terms, int s) {
  VectorXd residual = unit;
  for (const Term& term : terms) residual -= term.weight * lasso.Column(KeyOf(term.bits)).cast<double>();
  const double deviation = std::sqrt(residual.squaredNorm() / static_cast<double>(unit.size()));
  const auto above_noise = [&](const Term& term) {
    const int64_t alike = lasso.FeaturesOfDegree(static_cast<int>(term.bits.size()));
    return std::abs(term.weight) - deviation * LargestOfNoise(alike, unit.size());
  };
  std::stable_sort(terms.begin(), terms.end(),
                   [&](const Term& a, const Term& b) { return above_noise(a) > above_noise(b); });
  if (static_cast<int>(terms.size()) > s) terms.resize(static_cast<size_t>(s));
  Polynomial polynomial;
  if (terms.empty()) return polynomial;
  MatrixXd columns(unit.size(), static_cast<Index>(terms.size()) + 1);
  columns.col(0).setOnes();
  for (size_t k = 0; k < terms.size(); ++k) {
    columns.col(static_cast<Index>(k) + 1) = lasso.Column(KeyOf(terms[k].bits)).cast<double>();
  }
  // The solution has the least norm if columns coincide on few samples.
  const VectorXd weights = columns.completeOrthogonalDecomposition().solve(unit);
  polynomial.intercept = weights[0];
  for (size_t k = 0; k < terms.size(); ++k) terms[k].weight = weights[static_cast<Index>(k) + 1];
  std::stable_sort(terms.begin(), terms.end(),
                   [](const Term& a, const Term& b) { return std::abs(a.weight) > std::abs(b.weight); });
  polynomial.terms = std::move(terms);
  return polynomial;
}

double NoiseLevel(const ParityLasso& lasso) {
  return LargestOfNoise(lasso.features(), lasso.samples());
}

struct Penalized {
  LassoFit fit;
  double lambda = 0.0;
};

// Fits samples in units of their standard deviation.
absl::StatusOr<Penalized> FitPenalized(const ParityLasso& lasso, const Standardized& s, const RecoveryOptions& options,
                                       const std::vector<FeatureKey>& start, const base::StopToken& stop) {
  Penalized p;
  // Correlations are at most 1: for a larger lambda all weights are 0 anyway.
  p.lambda = std::clamp(options.factor * NoiseLevel(lasso), 1e-6, 2.0);
  LUTHIER_ASSIGN_OR_RETURN(p.fit, lasso.Fit(s.unit, p.lambda, start, stop));
  return p;
}

std::vector<FeatureKey> Keys(const std::vector<Term>& terms) {
  std::vector<FeatureKey> keys;
  for (const Term& term : terms) keys.push_back(KeyOf(term.bits));
  return keys;
}

void ToLossUnits(const Standardized& s, Polynomial* polynomial) {
  polynomial->intercept = s.mean + s.scale * polynomial->intercept;
  for (Term& term : polynomial->terms) term.weight *= s.scale;
}

// Returns the mean squared error, in units of the variance of all, of folds predicted by fits to the others.
absl::StatusOr<double> CrossValidatedR2(const BitMatrix& x, const Standardized& all, const std::vector<int>& free,
                                        const RecoveryOptions& options, const std::vector<Term>& start,
                                        const base::StopToken& stop) {
  const std::vector<FeatureKey> keys = Keys(start);
  double error = 0.0;
  for (int fold = 0; fold < kFolds; ++fold) {
    std::vector<Index> inside;
    std::vector<Index> outside;
    for (Index i = 0; i < x.rows(); ++i) (i % kFolds == fold ? outside : inside).push_back(i);
    const BitMatrix train = x(inside, Eigen::all);
    const VectorXd y = all.unit(inside);
    Standardized s = Standardize(y);
    Polynomial g;
    if (s.scale > 0.0) {
      const ParityLasso lasso(train, free, options.degree);
      LUTHIER_ASSIGN_OR_RETURN(Penalized penalized, FitPenalized(lasso, s, options, keys, stop));
      g = Refit(lasso, s.unit, std::move(penalized.fit.terms), options.terms);
    }
    ToLossUnits(s, &g);
    for (const Index i : outside) {
      const Bits row = x.row(i).transpose();
      const double miss = all.unit[i] - Evaluate(g, row);
      error += miss * miss;
    }
  }
  return 1.0 - error / static_cast<double>(x.rows());
}

absl::StatusOr<Recovery> Run(const BitMatrix& x, const VectorXd& y, const std::vector<int>& free,
                             const RecoveryOptions& options, bool validate, const base::StopToken& stop) {
  LUTHIER_CHECK(x.rows() == y.size());
  Recovery recovery;
  if (y.size() < kFolds || free.empty()) {
    if (y.size() > 0) recovery.polynomial.intercept = Standardize(y).mean;
    return recovery;
  }
  const Standardized s = Standardize(y);
  recovery.polynomial.intercept = s.mean;
  const ParityLasso lasso(x, free, options.degree);
  recovery.features = lasso.features();
  recovery.variance = s.scale * s.scale;
  if (s.scale == 0.0) return recovery;
  LUTHIER_ASSIGN_OR_RETURN(const Penalized penalized, FitPenalized(lasso, s, options, {}, stop));
  recovery.lambda = penalized.lambda;
  recovery.factor = penalized.lambda / NoiseLevel(lasso);
  recovery.nonzero = static_cast<int>(penalized.fit.terms.size());
  recovery.passes = penalized.fit.passes;
  recovery.polynomial = Refit(lasso, s.unit, penalized.fit.terms, options.terms);
  if (recovery.polynomial.terms.empty()) {
    recovery.polynomial.intercept = s.mean;
    return recovery;
  }
  recovery.r2 = 1.0 - (s.unit - EvaluateRows(recovery.polynomial, x)).squaredNorm() / static_cast<double>(y.size());
  if (validate) {
    LUTHIER_ASSIGN_OR_RETURN(recovery.cv_r2, CrossValidatedR2(x, s, free, options, penalized.fit.terms, stop));
    recovery.believed = recovery.cv_r2 > options.gate;
  }
  ToLossUnits(s, &recovery.polynomial);
  return recovery;
}

}  // namespace

absl::StatusOr<Recovery> Recover(const BitMatrix& x, const VectorXd& y, const std::vector<int>& free,
                                 const RecoveryOptions& options, const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(const Recovery first, Run(x, y, free, options, /*validate=*/true, stop));
  if (first.believed || first.variance == 0.0) return first;
  RecoveryOptions lower = options;
  for (lower.degree = options.degree - 1; lower.degree >= 1; --lower.degree) {
    LUTHIER_ASSIGN_OR_RETURN(const Recovery recovery, Run(x, y, free, lower, /*validate=*/true, stop));
    if (recovery.believed) return recovery;
  }
  return first;
}

absl::StatusOr<Recovery> RecoverUngated(const BitMatrix& x, const VectorXd& y, const std::vector<int>& free,
                                        const RecoveryOptions& options, const base::StopToken& stop) {
  return Run(x, y, free, options, /*validate=*/false, stop);
}

absl::StatusOr<std::vector<double>> BootstrapFrequencies(const BitMatrix& x, const VectorXd& y,
                                                         const std::vector<int>& free, const RecoveryOptions& options,
                                                         const std::vector<Term>& terms, const Resampling& resampling,
                                                         const base::StopToken& stop) {
  std::vector<double> found(terms.size(), 0.0);
  const auto kept = static_cast<size_t>(std::max<Index>(1, y.size() * 4 / 5));
  for (int resample = 0; resample < resampling.count; ++resample) {
    base::RandomStream random(resampling.seed, "spectral/bootstrap", static_cast<uint64_t>(resample));
    std::vector<Index> rows(static_cast<size_t>(y.size()));
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<Index>(i);
    random.Shuffle(rows);
    rows.resize(kept);
    std::sort(rows.begin(), rows.end());
    LUTHIER_ASSIGN_OR_RETURN(const Recovery again, RecoverUngated(x(rows, Eigen::all), y(rows), free, options, stop));
    for (size_t k = 0; k < terms.size(); ++k) {
      for (const Term& term : again.polynomial.terms) {
        if (term.bits == terms[k].bits) found[k] += 1.0;
      }
    }
  }
  for (double& share : found) share /= std::max(resampling.count, 1);
  return found;
}

void Winsorize(VectorXd* losses) {
  if (losses->size() == 0) return;
  const auto median = [](std::vector<double> v) {
    const size_t middle = v.size() / 2;
    std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(middle), v.end());
    return v[middle];
  };
  const double centre = median({losses->data(), losses->data() + losses->size()});
  std::vector<double> distances;
  for (const double loss : *losses) distances.push_back(std::abs(loss / 2.0 - centre / 2.0));
  const double mad = 2.0 * median(distances);
  const double limit = centre + 5.0 * 1.4826 * mad;
  if (mad > 0.0 && std::isfinite(limit)) *losses = losses->cwiseMin(limit);
}

}  // namespace luthier::spectral
