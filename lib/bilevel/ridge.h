#ifndef LUTHIER_LIB_BILEVEL_RIDGE_H_
#define LUTHIER_LIB_BILEVEL_RIDGE_H_

#include <Eigen/Core>
#include <Eigen/SparseCore>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/column_penalties.h"
#include "lib/bilevel/inner_problem.h"
#include "lib/data/dataset.h"
#include "lib/data/standardize.h"
#include "lib/linear/conjugate_gradient.h"
#include "lib/math/cholesky.h"

// Ridge regression: the rows of a regression data set, and the inner and outer problem of tuning its penalties.
namespace luthier::bilevel {

// Rows of a data set for least squares: the n x p matrix X~ with entries (x_ij - mean_j) / deviation_j, and n targets
// minus an offset. It reads the data set's own entries, which are shared by all folds, and holds numbers of rows,
// targets and a map of the columns, which is applied inside products: sparse data stay sparse. The data set must
// outlive it. Immutable; any thread. Functions with a `stop` return CANCELLED once it is raised.
class LeastSquaresData {
 public:
  LeastSquaresData() = default;  // No rows.
  // `scaling`: the map of the columns, or none (identity()). Columns that are `constant` there become 0.
  static absl::StatusOr<LeastSquaresData> Create(const data::Dataset& dataset, const std::vector<int32_t>& rows,
                                                 const data::Standardization& scaling, double offset,
                                                 const base::StopToken& stop);

  Eigen::Index rows() const { return static_cast<Eigen::Index>(rows_.size()); }
  Eigen::Index cols() const { return mean_.size(); }
  const Eigen::VectorXd& target() const { return target_; }
  // Returns X~ v, n entries.
  absl::StatusOr<Eigen::VectorXd> Multiply(const Eigen::VectorXd& v, const base::StopToken& stop) const;
  // Returns X~' r, p entries.
  absl::StatusOr<Eigen::VectorXd> MultiplyTransposed(const Eigen::VectorXd& r, const base::StopToken& stop) const;
  // Returns `count` rows of X~ from row `begin` on, count x p.
  Eigen::MatrixXd Dense(Eigen::Index begin, Eigen::Index count) const;
  // Returns X~' X~ (p x p). O(p * entries).
  absl::StatusOr<Eigen::MatrixXd> Gram(const base::StopToken& stop) const;
  // Returns X~ diag(weight) X~' (n x n). `weight` has p entries. O(n * entries), or O(n^2 p) if most entries are
  // stored.
  absl::StatusOr<Eigen::MatrixXd> Kernel(const Eigen::VectorXd& weight, const base::StopToken& stop) const;
  // Returns the squared norms of the columns of X~.
  const Eigen::VectorXd& column_squares() const { return column_squares_; }

  // The parts of X~ = (X - 1 mean') diag(scale): the stored entries of X, n x p, and p numbers each.
  struct Entries {
    int64_t count = 0;
    const int32_t* column = nullptr;
    const double* value = nullptr;
  };
  // Returns the entries of row i; columns ascend.
  Entries row(Eigen::Index i) const {
    const auto at = static_cast<size_t>(rows_[static_cast<size_t>(i)]);
    const int64_t begin = x_->row_start[at];
    return {x_->row_start[at + 1] - begin, x_->column.data() + begin, x_->value.data() + begin};
  }
  int64_t nonzeros() const { return nonzeros_; }
  const Eigen::VectorXd& mean() const { return mean_; }
  const Eigen::VectorXd& scale() const { return scale_; }

 private:
  // Calls f(column, value) for each entry of row i, in order.
  template <typename F>
  void ForEach(Eigen::Index i, F&& f) const {
    const Entries entries = row(i);
    for (int64_t e = 0; e < entries.count; ++e) f(Eigen::Index{entries.column[e]}, entries.value[e]);
  }
  // Returns the entries of row i, in order, if all are stored; else null.
  const double* FullRow(Eigen::Index i) const {
    const Entries entries = row(i);
    return entries.count == cols() ? entries.value : nullptr;
  }

  const data::SparseMatrix* x_ = nullptr;
  std::vector<int32_t> rows_;
  int64_t nonzeros_ = 0;
  Eigen::VectorXd mean_, scale_;  // p: X~ = (X - 1 mean') diag(scale).
  Eigen::VectorXd target_;
  Eigen::VectorXd column_squares_;
};

// Sums over the rows of a LeastSquaresData, from which its normal equations are made.
struct LeastSquaresGram {
  static absl::StatusOr<LeastSquaresGram> Create(const LeastSquaresData& data, const base::StopToken& stop);

  Eigen::MatrixXd matrix;    // X~'X~, p x p
  Eigen::VectorXd product;   // X~'y, p
  double half_square = 0.0;  // 1/2 y'y
};

// Ridge regression with one hyperparameter lambda_g = ln l2_g for each penalty (column_penalties.h):
//   h(w, lambda) = 1/2 |X~ w - y|^2 + 1/2 sum_j l2_j w_j^2,    H = X~'X~ + diag(l2),    D_g = l2_g w restricted to g
// mu = min l2 and the other constants are true bounds.
class RidgeInner final : public InnerProblem {
 public:
  // `data` and `gram` must outlive this. `gram` has X~'X~ and X~'y; if it is null, everything is done by products with
  // X~. `l2` has the penalty of each column, p entries > 0.
  RidgeInner(const LeastSquaresData* data, const LeastSquaresGram* gram, ColumnPenalties groups, Eigen::VectorXd l2);

  // Makes everything that takes a factor take that of G + I, G = X~ diag(l2)^-1 X~' = `kernel` (n x n), which is
  // smaller than H if there are fewer rows than columns, and better conditioned if penalties are small:
  //   X(lambda) = diag(l2)^-1 X~' (G + I)^-1 y,    H^-1 = diag(l2)^-1 (I - X~' (G + I)^-1 X~ diag(l2)^-1)
  void UseKernel(Eigen::MatrixXd kernel) { kernel_ = std::move(kernel); }

  // Returns X(lambda): with a kernel by the formula above, else by SolveQuadratic, with a Gram matrix by Cholesky's
  // factor.
  absl::StatusOr<LinearSolution> Solve(double tolerance, int max_iterations, const base::StopToken& stop);

  Eigen::Index dim() const override { return data_->cols(); }
  Eigen::Index hyper_dim() const override { return groups_.count; }
  absl::StatusOr<double> Value(const Eigen::VectorXd& x, Eigen::VectorXd* gradient,
                               const base::StopToken& stop) override;
  // Uses the rows, because the Gram matrix has lost digits if columns are large or nearly dependent.
  absl::StatusOr<Eigen::VectorXd> ExactGradient(const Eigen::VectorXd& x, const base::StopToken& stop) override;
  absl::Status SetPoint(const Eigen::VectorXd& x, const base::StopToken& stop) override;
  absl::StatusOr<Eigen::VectorXd> HessianVector(const Eigen::VectorXd& v, const base::StopToken& stop) override;
  absl::StatusOr<Eigen::VectorXd> HessianDiagonal(const base::StopToken& stop) override;
  // Makes Cholesky's factor of H, if there is a Gram matrix, or of G + I.
  absl::StatusOr<bool> PreparePreconditioner(const base::StopToken& stop) override;
  Eigen::VectorXd Precondition(const Eigen::VectorXd& r) override;
  // Returns the factor that PreparePreconditioner made.
  const math::Cholesky& factor() const { return *factor_; }
  Eigen::VectorXd CrossTransposeVector(const Eigen::VectorXd& q) override;
  double CrossNorm() override;
  absl::StatusOr<InnerConstants> Constants(const base::StopToken& stop) override;

 private:
  const LeastSquaresData* const data_;
  const LeastSquaresGram* const gram_;
  const ColumnPenalties groups_;
  const Eigen::VectorXd l2_;
  Eigen::MatrixXd kernel_;  // Empty: none.
  std::optional<math::Cholesky> factor_;
  Eigen::VectorXd x_;
};

// Mean squared error over held-out rows, at least one. `data` must outlive this.
class RidgeOuter final : public OuterLoss {
 public:
  explicit RidgeOuter(const LeastSquaresData* data) : data_(data) {}
  absl::StatusOr<double> Value(const Eigen::VectorXd& x, Eigen::VectorXd* gradient,
                               const base::StopToken& stop) override;
  double GradientLipschitz() override;

 private:
  const LeastSquaresData* const data_;
};

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_RIDGE_H_
