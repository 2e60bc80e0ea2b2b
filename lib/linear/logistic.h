#ifndef LUTHIER_LIB_LINEAR_LOGISTIC_H_
#define LUTHIER_LIB_LINEAR_LOGISTIC_H_

#include <Eigen/Core>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/data/dataset.h"
#include "lib/data/standardize.h"
#include "lib/linear/penalized_problem.h"

// Logistic regression, binary and multinomial, with one L2 penalty, or one for each feature.
//
//   symbol   meaning                                             shape    name in code
//   n, p     rows, features                                               rows(), features()
//   K        score functions: 1 for two classes, else the number          scores()
//            of classes
//   a_i      row i, standardized, with a 1 appended for the      p (+1)
//            intercept
//   W        weights                                             K x p    w[j*K + k]
//   b        intercepts; for K > 1 the first class has none: a     1 or   w[K*p + ...]
//            common shift of all scores changes nothing          K-1
//   psi      loss of a row in nats: K = 1: log(1 + exp(-s a'w)), s = +1 for the second class, -1 for the first;
//            K > 1: log(sum_k exp(z_k)) - z_y, z = W a + b
//   h(w)     sum_i psi_i + l2/2 |W|^2, or sum_i psi_i + 1/2 sum_j l2_j |W_j|^2; intercepts are not penalised
//
// h is strongly convex in W; its modulus is the least l2. It is the sum over rows, not the mean, so
// l2 = 1/C of LIBLINEAR and scikit-learn.
namespace luthier::linear {

// Some rows of a data set, standardized. It copies the row numbers alone, so `dataset` must outlive
// it. Functions that go over the rows poll `stop` at the pace of lib/base/pace.h, and return
// CANCELLED when stopped.
class LogisticData {
 public:
  // `rows` has the numbers of the rows, in [0, dataset.x.rows). `standardization` may be the
  // identity.
  static absl::StatusOr<LogisticData> Create(const data::Dataset* dataset, std::vector<int32_t> rows,
                                             data::Standardization standardization, bool intercept,
                                             const base::StopToken& stop = {});

  int64_t rows() const { return static_cast<int64_t>(rows_.size()); }
  int64_t features() const { return features_; }
  int scores() const { return scores_; }
  bool intercept() const { return intercept_; }
  // Number of all weights, and of the penalised ones, which come first.
  Eigen::Index dim() const { return dim_; }
  Eigen::Index penalized() const { return static_cast<Eigen::Index>(features_) * scores_; }

  // Returns sum_i psi_i(w), and its gradient (dim) unless null. NaN or infinite if scores overflow.
  absl::StatusOr<double> Loss(const Eigen::VectorXd& w, Eigen::VectorXd* gradient,
                              const base::StopToken& stop = {}) const;

  // Returns the number of rows whose most probable class is their label. Ties go to the first
  // class.
  absl::StatusOr<int64_t> CountCorrect(const Eigen::VectorXd& w, const base::StopToken& stop = {}) const;

  // Returns all scores, K x rows.
  absl::StatusOr<Eigen::MatrixXd> AllScores(const Eigen::VectorXd& w, const base::StopToken& stop = {}) const;

  // Class probabilities (K x rows), which products with the Hessian of Loss at `w` need, and a factor of that Hessian.
  struct Curvature {
    Eigen::MatrixXd probability;
    double factor = 1.0;
  };
  absl::StatusOr<Curvature> CurvatureAt(const Eigen::VectorXd& w, const base::StopToken& stop = {}) const;
  // Returns the curvature of a matrix that is at least as large as the Hessian everywhere (Boehning 1992): psi'' <=
  // (I - 11'/K) / 2, which is K/2 times psi'' at equal probabilities; with one score 1/4.
  Curvature LargestCurvature() const;
  // Returns (sum_i psi_i''(w)) v. O(K * entries).
  absl::StatusOr<Eigen::VectorXd> HessianVector(const Curvature& curvature, const Eigen::VectorXd& v,
                                                const base::StopToken& stop = {}) const;
  // Returns the diagonal of sum_i psi_i''(w), >= 0.
  absl::StatusOr<Eigen::VectorXd> HessianDiagonal(const Curvature& curvature, const base::StopToken& stop = {}) const;

  // Returns rows `rows` (numbers below rows()) as the model sees them, dense: rows.size() x p, with a column of ones
  // behind if there is an intercept.
  absl::StatusOr<Eigen::MatrixXd> DenseRows(const std::vector<int64_t>& rows, const base::StopToken& stop) const;
  // Returns the mean number of stored entries of a row.
  double mean_entries() const;
  // Returns the root mean square of each weight's column as the model sees it: dim() entries, all > 0. Columns of zeros
  // have 1.
  const Eigen::VectorXd& column_scale() const { return column_scale_; }
  double largest_row_norm() const { return largest_row_norm_; }
  // Returns sum_i psi_i at scores (K x rows) to which `shift` is added.
  double LossAt(const Eigen::MatrixXd& scores, const Eigen::VectorXd& shift) const;
  // Returns intercepts to add (dim() - penalized() entries) at which the losses of these scores are least, or an empty
  // vector if none was found. O(rows K^2) a step.
  absl::StatusOr<Eigen::VectorXd> MinimizeIntercepts(const Eigen::MatrixXd& scores, const base::StopToken& stop) const;
  // Returns the slope of the losses along scores + step * direction (both K x rows), and their curvature.
  double SlopeAlong(const Eigen::MatrixXd& scores, const Eigen::MatrixXd& direction, double step,
                    double* curvature) const;

  // Bounds that hold for every w, for error estimates (S = sum_i |a_i|^2 >= the squared spectral norm of the rows):
  //   |psi_i'(w) - psi_i'(v)| summed <= gradient_lipschitz |w - v|, binary S/4, multinomial S/2;
  //   the same for the Hessian: hessian_lipschitz = c max|a_i| S, c = 1/(6 sqrt 3) binary, 1/sqrt 2 multinomial.
  // The constants are the extremes of sigma', sigma'' and of the softmax's variance and third moment.
  double gradient_lipschitz() const { return gradient_lipschitz_; }
  double hessian_lipschitz() const { return hessian_lipschitz_; }

 private:
  // Weights with the standardization worked in: score_k of row i = sum_e value_e v[column_e*stride + k] + offset_k. The
  // entries k >= K of a column are 0.
  struct Scorer {
    const double* v;
    Eigen::VectorXd scaled;  // Storage for v where it is not w itself.
    Eigen::VectorXd offset;  // stride
  };
  Scorer MakeScorer(const Eigen::VectorXd& w) const;
  // Sets z (stride entries).
  void Scores(const Scorer& scorer, int64_t i, double* z) const;
  // Computes A' R: Scatter adds row i's part for residuals r (stride entries, those from K on 0) to `sums` (features x
  // stride); Finish applies the standardization, given the sums of the residuals over all rows, and returns dim()
  // entries.
  void Scatter(int64_t i, const double* r, Eigen::VectorXd* sums) const;
  Eigen::VectorXd FinishScatter(const Eigen::VectorXd& residual_sum, const Eigen::VectorXd& sums) const;
  // Returns true if FinishScatter looks at the sums of the residuals.
  bool NeedsSums() const { return intercept_ || !standardization_.identity(); }
  LogisticData(const data::Dataset* dataset, std::vector<int32_t> rows, data::Standardization standardization,
               bool intercept);
  absl::Status ComputeLipschitz(const base::StopToken& stop);
  absl::Status ComputeColumnScale(const base::StopToken& stop);
  // Operations of going over row i once, for Pace.
  int64_t Work(int64_t i) const {
    const int32_t row = rows_[i];
    return (dataset_->x.row_start[row + 1] - dataset_->x.row_start[row] + 16) * scores_;
  }

  const data::Dataset* const dataset_;
  std::vector<int32_t> rows_;
  data::Standardization standardization_;
  Eigen::VectorXd inverse_;  // 1 / deviation, 0 for constant columns; empty without a standardization.
  const bool intercept_;
  const int64_t features_;
  const int scores_;
  const int stride_;  // scores_, for several classes rounded up to a multiple of 4.
  const Eigen::Index dim_;
  double gradient_lipschitz_ = 0.0;
  double hessian_lipschitz_ = 0.0;
  double largest_row_norm_ = 0.0;
  Eigen::VectorXd column_scale_;
};

// The training problem h. `data` must outlive it. It is immutable and may be used by any thread.
class LogisticProblem final : public PenalizedProblem {
 public:
  // l2 >= 0, finite.
  LogisticProblem(const LogisticData* data, double l2);
  // `l2` holds the penalty of each feature, or of each penalised weight.
  LogisticProblem(const LogisticData* data, const Eigen::VectorXd& l2);

  const LogisticData& data() const { return *data_; }
  double l2() const override { return l2_; }
  double largest_l2() const { return penalties_.size() == 0 ? l2_ : penalties_.maxCoeff(); }
  // Returns l2_j w_j for each penalised weight: the gradient of the penalty at w, and also its
  // Hessian times w.
  Eigen::VectorXd Penalize(const Eigen::VectorXd& w) const override;
  // Returns the penalty of each of the dim() weights, 0 for intercepts.
  Eigen::VectorXd PenaltyOfWeights() const;
  Eigen::Index dim() const override { return data_->dim(); }
  Eigen::Index penalized() const override { return data_->penalized(); }
  int64_t rows() const override { return data_->rows(); }
  bool one_penalty() const override { return penalties_.size() == 0; }
  const Eigen::VectorXd& column_scale() const override { return data_->column_scale(); }
  double largest_row_norm() const override { return data_->largest_row_norm(); }
  absl::StatusOr<double> Evaluate(const Eigen::VectorXd& w, Eigen::VectorXd* gradient,
                                  const base::StopToken& stop) const override {
    return Value(w, gradient, stop);
  }
  // Intercepts first move to the minimum along them, as a free bias does in LinearProblem::DualityGap: the bound is
  //   h(w, b) - h(w, b*) + sum_j g_j^2 / (2 l2_j),   g the gradient in the weights at (w, b*).
  // Infinite if a weight has no penalty, or if b* was not found.
  absl::StatusOr<double> DualityGap(const Eigen::VectorXd& w, const base::StopToken& stop) const override;
  Eigen::VectorXd BoundDiagonal() const override;
  absl::StatusOr<Eigen::VectorXd> BoundVector(const Eigen::VectorXd& v, const base::StopToken& stop) const override;
  std::unique_ptr<SecondOrderFunction> MakeFunction(bool direct) const override;
  SolverCosts Costs() const override;
  std::string Describe() const override;

  // Returns h(w), and its gradient unless null. Returns CANCELLED when stopped, here and below.
  absl::StatusOr<double> Value(const Eigen::VectorXd& w, Eigen::VectorXd* gradient,
                               const base::StopToken& stop = {}) const;
  absl::StatusOr<Eigen::VectorXd> HessianVector(const LogisticData::Curvature& curvature, const Eigen::VectorXd& v,
                                                const base::StopToken& stop = {}) const;
  absl::StatusOr<Eigen::VectorXd> HessianDiagonal(const LogisticData::Curvature& curvature,
                                                  const base::StopToken& stop = {}) const;

 private:
  const LogisticData* const data_;
  Eigen::VectorXd penalties_;  // Penalty of each penalised weight; empty: all are l2_.
  double l2_;
};

// Mean logistic loss in nats and share of right answers.
struct Metrics {
  double loss = 0.0;
  double accuracy = 0.0;
};
Metrics EvaluateMetrics(const LogisticData& data, const Eigen::VectorXd& w);

}  // namespace luthier::linear

#endif  // LUTHIER_LIB_LINEAR_LOGISTIC_H_
