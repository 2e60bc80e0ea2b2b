#ifndef LUTHIER_LIB_BILEVEL_VF_IDCA_SVM_VF_IDCA_H_
#define LUTHIER_LIB_BILEVEL_VF_IDCA_SVM_VF_IDCA_H_

#include <Eigen/Core>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/vf_idca/vf_idca.h"

// VF-iDCA (vf_idca.h) for linear support vector machines whose weights are bounded one by one, over one or more folds
// with a model (w_k, c_k) each; the decision is x'w - c. L is the mean over folds of the mean hinge loss of held-out
// rows, l the sum over folds of that of training rows. Penalties, in this order:
//   max_k 1/2 |w_k|^2,    max_k |w_kj| for each column j
// so that one bound of the norm and one of each weight hold for all folds.
namespace luthier::bilevel {

struct SvmRows {
  Eigen::MatrixXd x;
  Eigen::VectorXd y;  // 1 or -1

  Eigen::Index count() const { return y.size(); }
};

struct SvmFold {
  SvmRows train, validation;
};

struct SvmProblem {
  std::vector<SvmFold> folds;

  Eigen::Index columns() const { return folds.front().train.x.cols(); }
  // Returns the length of x = (w_1, c_1, w_2, c_2, ...).
  Eigen::Index variables() const { return static_cast<Eigen::Index>(folds.size()) * (columns() + 1); }
};

// Return the mean hinge loss, and the share of rows on the wrong side, of (w, c) = `model`.
double MeanHinge(const SvmRows& rows, const Eigen::VectorXd& model);
double ErrorRate(const SvmRows& rows, const Eigen::VectorXd& model);

// The largest g'w over 1/2 |w|^2 <= r_0, |w_j| <= r_j, and its multipliers, which are its slopes as a concave function
// of r.
struct BoxBallSupport {
  double value = 0.0;
  Eigen::VectorXd multipliers;  // One for each bound.
};
BoxBallSupport SupportOfBoxBall(const Eigen::VectorXd& g, const Eigen::VectorXd& r);

// The constants of the authors' code: weights are bounded by 1e-6 at first, and by 10 at most.
VfIdcaOptions SvmVfOptions(Eigen::Index columns);
inline constexpr double kMostWeight = 10.0;

// Minimises the mean hinge loss of `rows` over 1/2 |w|^2 <= r_0, |w_j| <= r_j. `gamma` is that of `rows` alone.
// Interior-point steps of O(n p^2 + p^3). Returns CANCELLED when stopped.
absl::StatusOr<VfLower> TrainBoundedSvm(const SvmRows& rows, const Eigen::VectorXd& r, double tolerance,
                                        const base::StopToken& stop);

// Solves the problems of VF-iDCA for `problem`, which must outlive it, as must `options`.
class SvmVfProblem final : public VfIdcaProblem {
 public:
  SvmVfProblem(const SvmProblem* problem, const VfIdcaOptions* options) : problem_(problem), options_(options) {}

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
  // Returns model k of x.
  Eigen::VectorXd ModelOf(const Eigen::VectorXd& x, size_t k) const;

  const SvmProblem* const problem_;
  const VfIdcaOptions* const options_;
};

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_VF_IDCA_SVM_VF_IDCA_H_
