#ifndef LUTHIER_LIB_GP_PAIR_CHECK_H_
#define LUTHIER_LIB_GP_PAIR_CHECK_H_

#include "Eigen/Core"
#include "lib/gp/hyperparameters.h"
#include "lib/gp/slopes.h"
#include "lib/kernels/stationary.h"

// Checks reported slopes against the differences of the values of close points. This needs no model of the function.
namespace luthier::gp {

// Result of comparing one reporter's slopes with its own values. It reveals a wrong factor or order, which CheckSlopes
// (slope_check.h) takes for a model that is off.
struct PairCheck {
  int pairs = 0;
  double lower_quartile = 0.0;  // Lower quartile of the pairs' misfits; 0 without pairs.
  // True if there are at least 5 pairs, and three quarters of them are above 0.4.
  bool contradicts = false;
};

// By the trapezoid rule f_j - f_i = (g_i + g_j) . h/2 + O(|h|^3) along h = x_j - x_i, whatever the function is, if it
// is smooth over h. A pair's misfit is
//     |f_j - f_i - (g_i + g_j) . h/2| / max(|f_j - f_i|, (|g_i . h| + |g_j . h|)/2),
// for exact slopes almost 0, for slopes s times too large |1 - s|/max(1, s), 1 to 2 for a wrong sign.
//
// x: n x d points of the cube; y: n standardised outputs; slopes and value_error in these units.
//
// The pairs are the ten closest, by theta's lengthscales (from the values alone) at most a tenth apart, with no point
// in more than two pairs; both points have all slopes along the axes in which they differ. A pair is left out as
// inconclusive if its differences are below five deviations of theta's noise, below a hundred times `value_error`, the
// values' rounding error, or below ten deviations of the slopes' own errors. A direction of slopes that is no axis is
// not used.
//
// For right slopes in 36 searches on twelve test functions (896 checks) the largest lower quartile was 0.2: theta's
// lengthscales can be ten times too long.
PairCheck CheckPairs(const kernels::KernelShape& shape, const Hyperparameters& theta,
                     const Eigen::Ref<const Eigen::MatrixXd>& x, const Eigen::Ref<const Eigen::VectorXd>& y,
                     const Slopes& slopes, double value_error);

// Tells whether one reporter's slopes fit the values worse than those of the others, its peers. This finds a worker
// that differs from the rest and has few close pairs of its own.
struct PeerCheck {
  int points = 0, misses = 0;            // The reporter's points that could be compared, and those that do not fit.
  int peer_points = 0, peer_misses = 0;  // The peers'.
  // Probability that the reporter has at least so many misses if the misses are spread over all these points by chance;
  // 1 unless three quarters of its points miss and at most a tenth of the peers' do.
  double chance = 1.0;
  bool contradicts = false;
};

// By the trapezoid rule, as above, the slope at x_i along h = x_j - x_i to a close point is
//     g_i . h = 2 (f_j - f_i) - g_j . h + O(|h|^3).
// A pair's misfit is the difference of the two sides over the larger of them: |1 - s|/max(1, s) for slopes s times too
// large beside right ones. A point misses if the lower median of its misfits with the nearest three points is above
// 0.4. Points of the reporter are compared with points of its own and of its peers, peers' with each other, no point
// more than twice. Left out are the pairs that CheckPairs leaves out, and pairs whose slope at i is below a fifth of
// the difference or of the slope at j, as the error of both would swamp it.
//
// The peers show up to which distance the function is smooth: of the reaches 0.05, 0.1, 0.2, 0.4 and 0.8 lengthscales,
// those count at which at most a tenth of the peers' points miss. The reporter contradicts if three quarters of its
// points miss, and so many misses have a probability of at most 3e-4 (reach 0.4: 1e-4; 0.8: 1e-5) under exchangeable
// labels, that is if all slopes are right and only chance decides whose points miss. Peers that are wrong themselves
// miss, too, so that nothing follows. With two reporters, the one whose slopes disagree with the values is found out.
//
// For right slopes in 120 searches on twelve test functions, three reporters in turn, and in 120 with 30 % noise of
// each component, the smallest probabilities were 4e-3 to a reach of 0.2, 1e-3 (0.4) and 2e-4 (0.8).
PeerCheck CheckAgainstPeers(const kernels::KernelShape& shape, const Hyperparameters& theta,
                            const Eigen::Ref<const Eigen::MatrixXd>& x, const Eigen::Ref<const Eigen::VectorXd>& y,
                            const Slopes& slopes, const Slopes& peers, double value_error);

// Returns the probability that `marked` or more of `drawn` are marked, if `drawn` of `all` are drawn without
// replacement and `all_marked` of all are marked (Fisher's exact test, one-sided). 0 <= marked <= drawn <= all,
// all_marked <= all.
double HypergeometricTail(int marked, int drawn, int all_marked, int all);

}  // namespace luthier::gp

#endif  // LUTHIER_LIB_GP_PAIR_CHECK_H_
