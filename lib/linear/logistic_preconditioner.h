#ifndef LUTHIER_LIB_LINEAR_LOGISTIC_PRECONDITIONER_H_
#define LUTHIER_LIB_LINEAR_LOGISTIC_PRECONDITIONER_H_

#include <Eigen/Core>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/linear/logistic.h"

namespace luthier::linear {

// Cholesky's factor of a matrix near the Hessian of multinomial logistic regression, for conjugate gradients:
//   M = n/s sum over s sampled rows of (diag(q_i) - q_i q_i') kron a_i a_i'  +  diag(penalty),   q_i class
//   probabilities
// The sample is every (n/s)-th row; with few rows it is all of them, and M the Hessian. Immutable; any thread.
class LogisticPreconditioner {
 public:
  // `penalty` has data.dim() entries, 0 for intercepts. Returns std::nullopt where M costs more than it saves: with too
  // many weights, with a Hessian that the penalty dominates, or if M cannot be factored. Returns CANCELLED when
  // stopped.
  static absl::StatusOr<std::optional<LogisticPreconditioner>> Make(const LogisticData& data,
                                                                    const LogisticData::Curvature& curvature,
                                                                    const Eigen::VectorXd& penalty,
                                                                    const base::StopToken& stop);
  // Returns the cost of Make in passes over the rows; infinity where these data get none.
  static double Passes(const LogisticData& data);

  // Returns M^-1 r.
  Eigen::VectorXd Solve(const Eigen::VectorXd& r) const;

 private:
  explicit LogisticPreconditioner(Eigen::MatrixXd factor) : factor_(std::move(factor)) {}

  Eigen::MatrixXd factor_;  // The lower triangle counts.
};

}  // namespace luthier::linear

#endif  // LUTHIER_LIB_LINEAR_LOGISTIC_PRECONDITIONER_H_
