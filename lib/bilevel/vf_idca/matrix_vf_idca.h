#ifndef LUTHIER_LIB_BILEVEL_VF_IDCA_MATRIX_VF_IDCA_H_
#define LUTHIER_LIB_BILEVEL_VF_IDCA_MATRIX_VF_IDCA_H_

#include <Eigen/Core>
#include <limits>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/matrix_completion.h"
#include "lib/bilevel/vf_idca/vf_idca.h"

// VF-iDCA (vf_idca.h) for low-rank matrix completion (matrix_completion.h): L and l are half the mean squared errors of
// the held-out and the training entries.
namespace luthier::bilevel {

// Returns the constants of the authors' code.
VfIdcaOptions MatrixVfOptions(const MatrixProblem& problem);

// Solves the problems of VF-iDCA for `problem`, which must outlive it, as must `options`. Gamma is kept as a product of
// two factors whose rank grows until the solution is proven, and each problem is solved by a primal-dual interior-point
// method: O((rank (rows + cols))^3) a step.
class MatrixVfProblem final : public VfIdcaProblem {
 public:
  // `most_work` is about the number of operations after which a problem is given up at the gap reached, which is
  // reported. If no penalty binds, a solution can have any rank, and a proof takes long.
  MatrixVfProblem(const MatrixProblem* problem, const VfIdcaOptions* options,
                  double most_work = std::numeric_limits<double>::infinity())
      : problem_(problem), options_(options), most_work_(most_work) {}

  Eigen::Index variables() const override { return problem_->variables(); }
  Eigen::VectorXd Penalties(const Eigen::VectorXd& x) const override;
  double TrainLoss(const Eigen::VectorXd& x) const override;
  double ValidationLoss(const Eigen::VectorXd& x) const override;
  absl::StatusOr<VfLower> SolveLower(const Eigen::VectorXd& r, const Eigen::VectorXd& x, const Eigen::VectorXd& gamma,
                                     double gap, const base::StopToken& stop) override;
  absl::StatusOr<VfUpper> SolveUpper(const Eigen::VectorXd& x, const Eigen::VectorXd& r, const VfLower& lower,
                                     double alpha, double gap, const base::StopToken& stop) override;
  // Returns the lower problem's solution.
  absl::StatusOr<Eigen::VectorXd> Refit(const VfLower& lower, const base::StopToken& stop) override;

 private:
  const MatrixProblem* const problem_;
  const VfIdcaOptions* const options_;
  const double most_work_;
  // Multipliers of the last step.
  Eigen::VectorXd mu_;
  double mu_cut_ = 0.0;
};

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_VF_IDCA_MATRIX_VF_IDCA_H_
