#ifndef LUTHIER_LIB_BILEVEL_MATRIX_COMPLETION_H_
#define LUTHIER_LIB_BILEVEL_MATRIX_COMPLETION_H_

#include <Eigen/Core>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"

// Low-rank matrix completion with side features. Some entries of a matrix are known; entry (i, j) is modelled as f'w +
// Gamma_ij, where f has the entry's features. The penalties P_i are, in this order, the nuclear norm of Gamma, and
// |w_(m)|_2 for each group m of features.
namespace luthier::bilevel {

// Known entries of one matrix.
struct MatrixEntries {
  std::vector<Eigen::Index> row, col;
  Eigen::VectorXd value;
  Eigen::MatrixXd features;  // One row for each entry; may have no columns.

  Eigen::Index count() const { return value.size(); }
};

struct MatrixProblem {
  Eigen::Index rows = 0, cols = 0;
  MatrixEntries train, validation;
  std::vector<std::vector<Eigen::Index>> groups;  // Disjoint; each feature is in one.

  Eigen::Index features() const { return train.features.cols(); }
  Eigen::Index variables() const { return features() + rows * cols; }
};

// A model is kept as one vector x = (w, Gamma by columns).
Eigen::VectorXd Joined(const Eigen::VectorXd& weights, const Eigen::MatrixXd& gamma);
Eigen::VectorXd WeightsOf(const MatrixProblem& problem, const Eigen::VectorXd& x);
Eigen::MatrixXd LowRankOf(const MatrixProblem& problem, const Eigen::VectorXd& x);

// Returns half the mean squared error of x on `entries`.
double MatrixLoss(const MatrixProblem& problem, const MatrixEntries& entries, const Eigen::VectorXd& x);

// Adds weight times the gradient of MatrixLoss to *gradient, which is laid out as x.
void AddMatrixGradient(const MatrixProblem& problem, const MatrixEntries& entries, const Eigen::VectorXd& x,
                       double weight, Eigen::VectorXd* gradient);

// Return all P_i(x), and their dual norms: the largest singular value of Gamma's part, and |g_(m)|_2 for each group.
Eigen::VectorXd MatrixPenalties(const MatrixProblem& problem, const Eigen::VectorXd& x);
Eigen::VectorXd MatrixDualNorms(const MatrixProblem& problem, const Eigen::VectorXd& gradient);

// Returns the minimiser of 1/2 |z - x|^2 + step * sum_i strengths_i P_i(z).
Eigen::VectorXd ShrunkMatrix(const MatrixProblem& problem, const Eigen::VectorXd& x, const Eigen::VectorXd& strengths,
                             double step);

struct MatrixTraining {
  Eigen::VectorXd x;
  double objective = 0.0;
  double gap = 0.0;  // Upper bound of the objective minus its minimum.
  int iterations = 0;
  bool converged = false;  // The gap is at most the tolerance times 1 + objective.
};

// Minimises half the mean squared error of the training entries plus sum_i strengths_i P_i(x), from x, by accelerated
// proximal steps with restarts: one singular value decomposition each. `strengths`: > 0. Returns CANCELLED when
// stopped.
absl::StatusOr<MatrixTraining> TrainMatrixCompletion(const MatrixProblem& problem, const Eigen::VectorXd& strengths,
                                                     const Eigen::VectorXd& x, double tolerance, int max_iterations,
                                                     const base::StopToken& stop);

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_MATRIX_COMPLETION_H_
