#ifndef LUTHIER_LIB_BILEVEL_ELASTIC_NET_H_
#define LUTHIER_LIB_BILEVEL_ELASTIC_NET_H_

#include <Eigen/Core>
#include <Eigen/SparseCore>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/inner_problem.h"
#include "lib/bilevel/ridge.h"
#include "lib/math/cholesky.h"

// The elastic net (Zou & Hastie 2005), its training by coordinate descent and active sets, and the derivatives of an
// outer loss by its two penalties:
//   h(w) = 1/2 |X~ w - y|^2 + l1 |w|_1 + l2/2 |w|^2
//
//   symbol   meaning                                     shape
//   S        support: columns whose weight is not 0      |S|
//   s        signs of the weights there                  |S|
//   c        X~'(y - X~ w)                               p
// At the optimum c_j - l2 w_j = l1 s_j on S, and |c_j| <= l1 elsewhere.
namespace luthier::bilevel {

// Access to the columns of X~ one by one. Mostly dense data are copied densely if that fits; otherwise the entries stay
// sparse, and products subtract the means. Immutable; any thread.
class CenteredColumns {
 public:
  CenteredColumns() = default;  // No columns.
  // A dense copy takes at most `max_bytes`. Returns CANCELLED when stopped.
  static absl::StatusOr<CenteredColumns> Create(const LeastSquaresData& data, int64_t max_bytes,
                                                const base::StopToken& stop);

  // Columns of p + 1 entries that make the same problem as the n rows of `data`: with the QR factorization
  //   [X~ y] = Q [R z; 0 rho; 0 0]
  // |X~ w - y|^2 = |R w - z|^2 + rho^2 for every w, and all products of columns with each other and with y are the
  // same. Householder reflections of strips of rows (Golub & Van Loan 2013, 5.2.2) lose no digits to products of
  // columns. Sets *target to (z, rho). O(n p^2). Returns CANCELLED when stopped.
  static absl::StatusOr<CenteredColumns> Condense(const LeastSquaresData& data, Eigen::VectorXd* target,
                                                  const base::StopToken& stop);
  // Returns true if Condense saves memory and is no dearer than a few seconds: many more rows than columns, mostly
  // stored.
  static bool WorthCondensing(const LeastSquaresData& data);

  // A vector of n entries, value + shift. Sparse columns leave their means in the shift.
  struct Residual {
    Eigen::VectorXd value;
    double shift = 0.0;
    double sum = 0.0;  // The sum of all entries.
  };
  static Residual From(Eigen::VectorXd value);

  Eigen::Index rows() const { return rows_; }
  Eigen::Index cols() const { return squares_.size(); }
  // Returns the squared norm of column j.
  double square(Eigen::Index j) const { return squares_[j]; }
  // Returns the number of multiplications that a product with column j takes.
  int64_t cost(Eigen::Index j) const;
  // Returns the sum of the costs of all columns.
  int64_t total_cost() const { return cols() + (dense_.size() > 0 ? dense_.size() : sparse_.nonZeros()); }
  // Returns X~_j' r.
  double Dot(Eigen::Index j, const Residual& r) const;
  // r += factor X~_j.
  void Add(Eigen::Index j, double factor, Residual* r) const;
  // Returns X~' r, p entries.
  absl::StatusOr<Eigen::VectorXd> DotAll(const Residual& r, const base::StopToken& stop) const;
  // Returns the Gram matrix of some columns, or std::nullopt if it would take more than about a second.
  absl::StatusOr<std::optional<Eigen::MatrixXd>> Gram(const std::vector<Eigen::Index>& columns,
                                                      const base::StopToken& stop) const;

 private:
  using Sparse = Eigen::SparseMatrix<double, Eigen::ColMajor, int64_t>;
  static absl::Status ByColumns(const LeastSquaresData& data, const base::StopToken& stop, Sparse* out);

  Eigen::Index rows_ = 0;
  Eigen::MatrixXd dense_;  // n x p, or empty.
  Sparse sparse_;
  Eigen::VectorXd mean_, scale_, sums_;  // p numbers each, with sparse columns; sums_: column sums of X.
  Eigen::VectorXd squares_;
};

struct ElasticNetOptions {
  double l1 = 0.0, l2 = 0.0;  // >= 0
  double tolerance = 1e-10;   // Training has converged when the duality gap is at most this times h(0).
  int max_sweeps = 10000;     // Limit of passes of coordinate descent over its columns.
  // Weights to begin with, p entries; null: 0. They change the work, and the result within the tolerance.
  const Eigen::VectorXd* start = nullptr;
};

struct ElasticNetFit {
  Eigen::VectorXd weights;  // p
  double objective = 0.0;   // h
  double gap = 0.0;         // An upper bound on h - min h, up to rounding.
  bool converged = false;
  // True if rounding prevents a smaller gap: the conditions hold as exactly as products with columns can be computed.
  bool exact = false;
  int sweeps = 0;
  // Largest violation of the conditions above, as a multiple of |X~'y|_inf.
  double violation = 0.0;
  // Distance to the nearest kink, as a share of l1: the change of c at which a column enters S, or at which a weight,
  // moved alone, becomes 0. The derivatives jump there.
  double kink_margin = 1.0;
};

// Minimises h. `target`: y, n entries. Deterministic. Returns CANCELLED when stopped.
absl::StatusOr<ElasticNetFit> TrainElasticNet(const CenteredColumns& x, const Eigen::VectorXd& target,
                                              const ElasticNetOptions& options, const base::StopToken& stop);

// The inner problem on a support with fixed signs, where h is a quadratic; hyperparameters ln l1 and ln l2:
//   H = X~_S'X~_S + l2 I,    D = [l1 s, l2 w_S]
// The derivatives hold where the support does not change nearby, so its constants are never `certified`.
class ElasticNetInner final : public InnerProblem {
 public:
  // `x` and `target` must outlive this. `support`: at least one column.
  ElasticNetInner(const CenteredColumns* x, const Eigen::VectorXd* target, std::vector<Eigen::Index> support,
                  Eigen::VectorXd signs, double l1, double l2);

  Eigen::Index dim() const override { return signs_.size(); }
  Eigen::Index hyper_dim() const override { return 2; }
  absl::StatusOr<double> Value(const Eigen::VectorXd& w, Eigen::VectorXd* gradient,
                               const base::StopToken& stop) override;
  absl::Status SetPoint(const Eigen::VectorXd& w, const base::StopToken& stop) override;
  absl::StatusOr<Eigen::VectorXd> HessianVector(const Eigen::VectorXd& v, const base::StopToken& stop) override;
  absl::StatusOr<Eigen::VectorXd> HessianDiagonal(const base::StopToken& stop) override;
  // Makes Cholesky's factor of H, if its Gram matrix is affordable and H is not singular.
  absl::StatusOr<bool> PreparePreconditioner(const base::StopToken& stop) override;
  Eigen::VectorXd Precondition(const Eigen::VectorXd& r) override;
  Eigen::VectorXd CrossTransposeVector(const Eigen::VectorXd& q) override;
  double CrossNorm() override;
  absl::StatusOr<InnerConstants> Constants(const base::StopToken& stop) override;

 private:
  absl::StatusOr<Eigen::VectorXd> TransposedOnSupport(const CenteredColumns::Residual& r,
                                                      const base::StopToken& stop) const;
  absl::StatusOr<CenteredColumns::Residual> ProductOnSupport(const Eigen::VectorXd& v, Eigen::VectorXd start,
                                                             const base::StopToken& stop) const;

  const CenteredColumns* const x_;
  const Eigen::VectorXd* const target_;
  const std::vector<Eigen::Index> support_;
  const Eigen::VectorXd signs_;
  const double l1_, l2_;
  std::optional<math::Cholesky> factor_;
  bool prepared_ = false;
  Eigen::VectorXd w_;
};

// Mean squared error over held-out rows, of weights on a support. `data` must outlive this.
class ElasticNetOuter final : public OuterLoss {
 public:
  ElasticNetOuter(const LeastSquaresData* data, std::vector<Eigen::Index> support);
  absl::StatusOr<double> Value(const Eigen::VectorXd& w, Eigen::VectorXd* gradient,
                               const base::StopToken& stop) override;
  double GradientLipschitz() override { return all_.GradientLipschitz(); }

 private:
  const Eigen::Index cols_;
  RidgeOuter all_;
  const std::vector<Eigen::Index> support_;
};

// Returns the columns whose weights are not 0.
std::vector<Eigen::Index> SupportOf(const Eigen::VectorXd& weights);

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_ELASTIC_NET_H_
