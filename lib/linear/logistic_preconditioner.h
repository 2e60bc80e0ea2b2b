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
  // Returns the factor of the whole Hessian, of all rows; std::nullopt if it cannot be factored. Takes dim^2 numbers.
  static absl::StatusOr<std::optional<LogisticPreconditioner>> MakeExact(const LogisticData& data,
                                                                         const LogisticData::Curvature& curvature,
                                                                         const Eigen::VectorXd& penalty,
                                                                         const base::StopToken& stop);
  // Return the costs of Make and MakeExact in passes over the rows; that of Make is infinite where these data get none.
  static double Passes(const LogisticData& data);
  static double ExactPasses(const LogisticData& data);

  // Returns M^-1 r.
  Eigen::VectorXd Solve(const Eigen::VectorXd& r) const;

 private:
  // Weights in the order of the factor: all columns of the first class, then of the next, each with its intercept
  // behind. The first of several classes has none: its place is kept by a one on the diagonal.
  struct Order {
    explicit Order(const LogisticData& data)
        : scores(data.scores()), features(data.features()), block(features + (data.intercept() ? 1 : 0)) {}
    Eigen::Index size() const { return scores * block; }
    bool dummy() const { return block > features && scores > 1; }
    Eigen::VectorXd To(const Eigen::VectorXd& w, double at_dummy) const;
    Eigen::VectorXd From(const Eigen::VectorXd& v) const;
    Eigen::Index scores, features, block;
  };
  LogisticPreconditioner(Order order, Eigen::MatrixXd factor) : order_(order), factor_(std::move(factor)) {}
  // Returns the Hessian of the losses (lower triangle), estimated from `sample` rows, in this order.
  static absl::StatusOr<Eigen::MatrixXd> Hessian(const LogisticData& data, const LogisticData::Curvature& curvature,
                                                 int64_t sample, const base::StopToken& stop);

  Order order_;
  Eigen::MatrixXd factor_;  // The lower triangle counts.
};

}  // namespace luthier::linear

#endif  // LUTHIER_LIB_LINEAR_LOGISTIC_PRECONDITIONER_H_
