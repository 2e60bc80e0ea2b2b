#ifndef LUTHIER_LIB_BILEVEL_VF_IDCA_SPARSE_VF_IDCA_H_
#define LUTHIER_LIB_BILEVEL_VF_IDCA_SPARSE_VF_IDCA_H_

#include <Eigen/Core>
#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/vf_idca/sparse_penalties.h"
#include "lib/bilevel/vf_idca/vf_idca.h"
#include "lib/math/cholesky.h"

// VF-iDCA (vf_idca.h) for sparse linear regression: L and l are half the mean squared errors of the rows.
namespace luthier::bilevel {

// X'X and X'y of the rows, each divided by their number, and y'y / (2 n).
struct SparseVfRows {
  Eigen::MatrixXd gram;
  Eigen::VectorXd product;
  double half_square = 0.0;
  // Returns half the mean squared error of weights x.
  double Loss(const Eigen::VectorXd& x) const;
};

struct SparseVfProblem {
  SparseVfRows train, validation;
  SparsePenalties penalties;
};

// Return the constants of the authors' code.
VfIdcaOptions ElasticNetVfOptions();
VfIdcaOptions SparseGroupLassoVfOptions(Eigen::Index penalties);

// Returns bounds to start from. They are the P_i of a penalised model of the training rows; its L1 strength is `share`
// of the least one that leaves no weight, and its other strengths are a tenth of that. Each bound is at least a tenth
// of the largest, since a bound of 0 would keep a group without weights. Returns CANCELLED when stopped.
absl::StatusOr<Eigen::VectorXd> StartingBounds(const SparseVfProblem& problem, double share,
                                               const base::StopToken& stop);

// Solves lower problems at one r after another. `problem` must outlive it. Not thread-safe.
class SparseLowerSolver {
 public:
  explicit SparseLowerSolver(const SparseVfProblem* problem) : problem_(problem) {}
  // Starts from `x` and `gamma`, which may be any. Ends at a gap, relative to 1 + value, of `tolerance`. Returns
  // CANCELLED when stopped.
  absl::StatusOr<VfLower> Solve(const Eigen::VectorXd& r, const Eigen::VectorXd& x, const Eigen::VectorXd& gamma,
                                double tolerance, const base::StopToken& stop);

 private:
  // Looks for weights with a loss of at most `enough`, by alternating projections on the rows' hyperplanes and the
  // penalties' bounds. Starts at `x`, whose loss is `loss`.
  absl::StatusOr<Eigen::VectorXd> Interpolate(const Eigen::VectorXd& r, Eigen::VectorXd x, double loss, double enough,
                                              const base::StopToken& stop);

  const SparseVfProblem* const problem_;
  Eigen::VectorXd warm_;                  // The end of the last penalised problem.
  Eigen::VectorXd last_;                  // The last solution.
  std::optional<math::Cholesky> ridged_;  // Factor of the training Gram matrix plus a tiny ridge.
};

// Runs the algorithm from x = 0. Calls `report`, unless it is empty, after each step, and ends if it returns false.
// Returns CANCELLED when stopped.
absl::StatusOr<VfIdcaResult> RunSparseVfIdca(const SparseVfProblem& problem, const VfIdcaOptions& options,
                                             const std::function<bool(const VfIdcaStep&)>& report,
                                             const base::StopToken& stop);

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_VF_IDCA_SPARSE_VF_IDCA_H_
