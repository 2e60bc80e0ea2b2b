#ifndef LUTHIER_LIB_SPECTRAL_RECOVERY_H_
#define LUTHIER_LIB_SPECTRAL_RECOVERY_H_

#include <cstdint>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/spectral/parity.h"
#include "lib/spectral/parity_lasso.h"

namespace luthier::spectral {

struct RecoveryOptions {
  int degree = 3;  // D: 1 … kMaxDegree.
  int terms = 5;   // s: 1 ….
  // The weight of the Lasso's penalty in units of u, and so of the losses' standard deviation. u = sqrt(2 ln N / T) is
  // the size that the largest of N correlations with pure noise has.
  double factor = 0.35;
  // The least cross-validated R^2 of a polynomial worth believing. With pure noise it is negative, though the in-sample
  // R^2 looks good whatever the noise.
  double gate = 0.02;
};

struct Recovery {
  // Terms by falling |weight|, weights and intercept in units of the loss. No terms: nothing was found.
  Polynomial polynomial;
  bool believed = false;  // True if the gate is open: cross-validated R^2 above options.gate.
  double r2 = 0.0;        // In-sample R^2 of the polynomial; 0 without terms.
  // 1 - sum (y_i - g_{-f(i)}(x_i))^2 / sum (y_i - mean)^2 over five folds, in each of which everything is fitted anew.
  double cv_r2 = 0.0;
  double variance = 0.0;  // Variance of the losses.
  double lambda = 0.0;    // The penalty used, in units of their standard deviation,
  double factor = 0.0;    // and in units of u.
  int64_t features = 0;   // N.
  int nonzero = 0;        // Terms of the Lasso, of which the s largest were taken.
  int passes = 0;         // Over all features, of the one fit on all data.
};

// Polynomial sparse recovery (Hazan, Klivans, Yuan 2018, "Hyperparameter optimization: a spectral approach", procedure
// PSR): the Lasso over all parities of degree <= D of the bits `free`, of which the s that stand out most are kept and
// refitted by least squares, which takes the shrinkage away. Standing out:
//   |weight| - sd(residual of the Lasso) sqrt(2 ln N_k / T),   N_k features of the same degree k,
// by how much a weight is above the largest that its kind has by noise (ties: lower degree, then lexicographic). The
// source compares weights alone; then single bits drown in the noise of ten thousands of triples. Where the gate stays
// closed lower degrees are tried, down to 1; when none opens it, the answer is that of degree D. x: T x b. y: T finite
// losses. All equal, T < 5, or no free bits: no terms. Deterministic. Here and below the functions return CANCELLED if
// `stop` was raised.
absl::StatusOr<Recovery> Recover(const BitMatrix& x, const Eigen::VectorXd& y, const std::vector<int>& free,
                                 const RecoveryOptions& options, const base::StopToken& stop);

// Fits without the gate.
absl::StatusOr<Recovery> RecoverUngated(const BitMatrix& x, const Eigen::VectorXd& y, const std::vector<int>& free,
                                        const RecoveryOptions& options, const base::StopToken& stop);

struct Resampling {
  int count = 0;
  uint64_t seed = 0;  // Subset k is drawn from RandomStream(seed, "spectral/bootstrap", k).
};
// Returns for each term the share of random subsets of 80 % of the samples in which recovery selects it too.
absl::StatusOr<std::vector<double>> BootstrapFrequencies(const BitMatrix& x, const Eigen::VectorXd& y,
                                                         const std::vector<int>& free, const RecoveryOptions& options,
                                                         const std::vector<Term>& terms, const Resampling& resampling,
                                                         const base::StopToken& stop);

// Replaces losses that would dominate a least-squares fit: a loss above median + 5 * 1.4826 MAD (the bad side only)
// becomes that bound. With MAD 0, as if most are equal, nothing is changed.
void Winsorize(Eigen::VectorXd* losses);

}  // namespace luthier::spectral

#endif  // LUTHIER_LIB_SPECTRAL_RECOVERY_H_
