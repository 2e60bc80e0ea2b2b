#ifndef LUTHIER_LIB_LINEAR_PROBLEM_H_
#define LUTHIER_LIB_LINEAR_PROBLEM_H_

#include <Eigen/Core>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/base/team.h"
#include "lib/data/dataset.h"
#include "lib/data/standardize.h"
#include "lib/linear/line_minimum.h"
#include "lib/linear/margin_loss.h"
#include "lib/linear/newton_solver.h"
#include "lib/linear/penalized_problem.h"

// Linear classifiers of two classes, laid out for fast training.
//
//   symbol   meaning                                                   shape   name in code
//   n, p     rows, features                                                    rows(), features()
//   a_i      row i divided by the deviations; sparse                   p       row_start, column, value
//   m        means divided by the deviations: the model sees the row   p       center
//            a_i - m, which is dense and never formed
//   s_i      +1 for the second class, -1 for the first                         sign
//   w, b     weights and bias                                          p, 1    one vector, b last
//   t_i      margin s_i ((a_i - m)'w + b)
//   h(w, b)  sum_i loss(t_i) + l2/2 (|w|^2 + b^2); without b^2 for Bias::kFree
//            or with a penalty for each weight: sum_i loss(t_i) + 1/2 sum_j l2_j w_j^2
//
// h is a sum over rows, as in logistic.h. A penalised bias is the weight of a constant feature 1,
// as in LIBLINEAR.
namespace luthier::linear {

enum class Bias { kNone, kPenalized, kFree };

// Some rows of a data set: a copy, which is the fastest to go over, or, if they have many entries,
// a view of the data set's own, so that folds share them. Immutable. Functions that go over its
// rows poll `stop` at the pace of lib/base/pace.h, and return CANCELLED when stopped.
class LinearData {
  struct Row {
    int64_t count;
    const int32_t* column;
    const double* value;  // Null: all 1.
    const double* scale;  // Null: none. Else the factor of each column, as many as there are features.
  };
  Row At(int64_t i) const {
    const int64_t count = row_start_[i + 1] - row_start_[i];
    if (view_ != nullptr) {
      const int64_t begin = begin_[i];
      return {count, view_->column.data() + begin, view_->value.data() + begin,
              inverse_.size() > 0 ? inverse_.data() : nullptr};
    }
    return {count, column_.data() + row_start_[i], value_.empty() ? nullptr : value_.data() + row_start_[i], nullptr};
  }
  // Returns f(value), where value(e) is the value of entry e of the row.
  template <typename F>
  static auto WithValues(const Row& row, F&& f) {
    if (row.value == nullptr) return f([](int64_t) { return 1.0; });
    if (row.scale == nullptr) return f([a = row.value](int64_t e) { return a[e]; });
    return f([&row](int64_t e) { return row.value[e] * row.scale[row.column[e]]; });
  }
  // Does what Dot does for a row of which all entries are stored. The sums are the same, four at once.
  static double DotFull(const Row& row, const double* x) {
    using Map = Eigen::Map<const Eigen::Array4d>;
    Eigen::Array4d sum = Eigen::Array4d::Zero();
    int64_t e = 0;
    if (row.scale == nullptr) {
      for (; e + 4 <= row.count; e += 4) sum += Map(row.value + e) * Map(x + e);
    } else {
      for (; e + 4 <= row.count; e += 4) sum += (Map(row.value + e) * Map(row.scale + e)) * Map(x + e);
    }
    for (; e < row.count; ++e) sum[0] += (row.scale == nullptr ? row.value[e] : row.value[e] * row.scale[e]) * x[e];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }

 public:
  // Number of entries from which on rows are not copied, 48 MiB with their columns. Rows whose
  // values are all 1 always are, without the values.
  static constexpr int64_t kViewed = int64_t{1} << 22;

  // `dataset` has two classes; `rows` are in [0, dataset.x.rows). Columns that the standardization
  // calls constant are left out, so their weights stay 0: centred, they hold nothing but rounding
  // errors. `dataset` must outlive the result if its rows have `viewed` entries or more.
  static absl::StatusOr<LinearData> Create(const data::Dataset& dataset, const std::vector<int32_t>& rows,
                                           const data::Standardization& standardization, Bias bias,
                                           const base::StopToken& stop = {}, int64_t viewed = kViewed);

  int64_t rows() const { return static_cast<int64_t>(sign_.size()); }
  int64_t features() const { return features_; }
  int64_t nonzeros() const { return row_start_.back(); }
  bool ones() const { return view_ == nullptr && value_.empty(); }  // All entries are 1: no values are kept.
  Bias bias() const { return bias_; }
  Eigen::Index dim() const { return static_cast<Eigen::Index>(features_) + (bias_ == Bias::kNone ? 0 : 1); }
  bool centered() const { return center_.size() > 0; }
  const Eigen::VectorXd& center() const { return center_; }      // m; empty: 0.
  double center_norm2() const { return center_norm2_; }          // |m|^2
  double center_dot(int64_t i) const { return center_dot_[i]; }  // a_i'm. Only when centered.
  double sign(int64_t i) const { return sign_[i]; }
  const double* signs() const { return sign_.data(); }
  double norm2(int64_t i) const { return norm2_[i]; }  // |a_i - m|^2, plus 1 with a bias.
  double max_norm2() const { return max_norm2_; }
  double mean_norm2() const { return mean_norm2_; }
  // Returns the root mean square of each column as the model sees it, the bias' column of ones
  // last: dim() entries, all > 0. Columns of zeros have 1. A gradient divided by it does not depend
  // on the units of the columns.
  const Eigen::VectorXd& column_scale() const { return column_scale_; }

  // Returns sum_e value_e x[kStride column_e] over the entries of row i. Data whose values are all
  // 1, such as categorical data, are stored without values, which takes a third of the memory.
  template <int kStride = 1>
  double Dot(int64_t i, const double* x) const {
    const Row row = At(i);
    if constexpr (kStride == 1) {
      if (row.count == features_ && row.value != nullptr) return DotFull(row, x);
    }
    return WithValues(row, [&](auto value) {
      const int32_t* c = row.column;
      double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
      int64_t e = 0;
      for (; e + 4 <= row.count; e += 4) {
        s0 += value(e) * x[int64_t{c[e]} * kStride];
        s1 += value(e + 1) * x[int64_t{c[e + 1]} * kStride];
        s2 += value(e + 2) * x[int64_t{c[e + 2]} * kStride];
        s3 += value(e + 3) * x[int64_t{c[e + 3]} * kStride];
      }
      for (; e < row.count; ++e) s0 += value(e) * x[int64_t{c[e]} * kStride];
      return (s0 + s1) + (s2 + s3);
    });
  }

  // Returns (sum_e value_e x[2 column_e], sum_e value_e x[2 column_e + 1]), the products with two
  // interleaved vectors. `x` is 16-byte aligned.
  Eigen::Array2d DotPairs(int64_t i, const double* x) const {
    const Row row = At(i);
    return WithValues(row, [&](auto value) {
      const int32_t* c = row.column;
      const auto at = [&](int64_t e) {
        return Eigen::Map<const Eigen::Array2d, Eigen::Aligned16>(x + 2 * int64_t{c[e]});
      };
      Eigen::Array2d s0(0.0, 0.0), s1(0.0, 0.0), s2(0.0, 0.0), s3(0.0, 0.0);
      int64_t e = 0;
      for (; e + 4 <= row.count; e += 4) {
        s0 += value(e) * at(e);
        s1 += value(e + 1) * at(e + 1);
        s2 += value(e + 2) * at(e + 2);
        s3 += value(e + 3) * at(e + 3);
      }
      for (; e < row.count; ++e) s0 += value(e) * at(e);
      return Eigen::Array2d((s0 + s1) + (s2 + s3));
    });
  }

  // Returns true if at least a quarter of all entries is stored: products of many columns are then
  // made densely.
  bool dense() const {
    return 4.0 * static_cast<double>(nonzeros()) >= static_cast<double>(rows()) * static_cast<double>(features_);
  }
  int64_t entries(int64_t i) const { return row_start_[i + 1] - row_start_[i]; }
  // Returns the operations of going over row i once, its loss included, for Pace.
  int64_t work(int64_t i) const { return entries(i) + kRowWork; }
  static constexpr int64_t kRowWork = 16;
  // Returns the end of the block of rows from `begin` on that Pace allows between two polls, at
  // least one row. It is for loops in which a poll for each row would cost time. Writes the
  // operations of the block to *operations.
  int64_t BlockEnd(int64_t begin, int64_t* operations) const;

  // Calls f(column, value) for each entry of row i, in order.
  template <typename F>
  void ForEach(int64_t i, F&& f) const {
    const Row row = At(i);
    WithValues(row, [&](auto value) {
      for (int64_t e = 0; e < row.count; ++e) f(row.column[e], value(e));
      return 0;
    });
  }

  // x[kStride j] += scale a_ij
  template <int kStride = 1>
  void AddTo(int64_t i, double scale, double* x) const {
    const Row row = At(i);
    if constexpr (kStride == 1) {
      if (row.count == features_ && row.value != nullptr) {
        WithValues(row, [&](auto value) {
          // The columns are 0, 1, ... in order, which the compiler can make use of.
          for (int64_t e = 0; e < row.count; ++e) x[e] += scale * value(e);
          return 0;
        });
        return;
      }
    }
    WithValues(row, [&](auto value) {
      for (int64_t e = 0; e < row.count; ++e) x[int64_t{row.column[e]} * kStride] += scale * value(e);
      return 0;
    });
  }

  // Tells the processor that row i comes soon.
  void Prefetch(int64_t i) const {
    const Row row = At(i);
    __builtin_prefetch(row.column);
    __builtin_prefetch(row.column + row.count);
    if (row.value != nullptr) __builtin_prefetch(row.value);
  }

  // Sums over the rows of large data are sums of parts, consecutive rows with about as many entries
  // each, whoever computes them: so threads change no bit. The number of parts depends on the
  // counts of entries and columns alone; part k is [PartBegin(k), PartBegin(k + 1)).
  int64_t parts() const;
  int64_t PartBegin(int64_t part) const;

  // Returns b - m'w, the term that all scores of w have in common.
  double Offset(const Eigen::VectorXd& w) const;
  // Returns all scores (a_i - m)'w + b. The work is shared by `team`, if there is one; here and below.
  absl::StatusOr<Eigen::VectorXd> Scores(const Eigen::VectorXd& w, const base::StopToken& stop = {},
                                         base::Team* team = nullptr) const;
  // Returns sum_i r_i (a_i - m, 1): dim() entries.
  absl::StatusOr<Eigen::VectorXd> Combine(const Eigen::VectorXd& r, const base::StopToken& stop = {},
                                          base::Team* team = nullptr) const;

  // Returns the number of rows on the side of their class. A score of 0 counts for the first class.
  absl::StatusOr<int64_t> CountCorrect(const Eigen::VectorXd& w, const base::StopToken& stop = {}) const;

 private:
  LinearData(int64_t features, Bias bias) : features_(features), bias_(bias) {}
  absl::Status SetRows(const data::Dataset& dataset, const std::vector<int32_t>& rows,
                       const data::Standardization& standardization, int64_t viewed, const base::StopToken& stop);
  absl::Status ViewRows(const data::Dataset& dataset, const std::vector<int32_t>& rows,
                        const data::Standardization& standardization, const base::StopToken& stop);
  absl::Status SetNorms(const base::StopToken& stop);
  absl::Status SetColumnScale(const base::StopToken& stop);

  const int64_t features_;
  const Bias bias_;
  std::vector<int64_t> row_start_ = {0};      // Numbers of entries before each row.
  const data::SparseMatrix* view_ = nullptr;  // Null: entries are copied.
  std::vector<int64_t> begin_;                // With a view: where each row begins there.
  Eigen::VectorXd inverse_;                   // With a view: factor of each column, 0 for constant ones; empty: all 1.
  std::vector<int32_t> column_;
  std::vector<double> value_;  // Empty: all 1.
  std::vector<double> sign_, norm2_, center_dot_;
  Eigen::VectorXd center_;
  double center_norm2_ = 0.0;
  double max_norm2_ = 0.0;
  double mean_norm2_ = 0.0;
  Eigen::VectorXd column_scale_;
};

// The training problem h. `data` must outlive it. It is immutable and may be used by any thread.
class LinearProblem final : public PenalizedProblem {
 public:
  // l2 >= 0, finite.
  LinearProblem(const LinearData* data, const MarginLoss& loss, double l2);
  // `l2` holds the penalty of each penalised weight.
  LinearProblem(const LinearData* data, const MarginLoss& loss, Eigen::VectorXd l2);

  // Lets `team` share the work of sums over rows; null: the caller does it all. The results are the
  // same. With a team, one thread at a time may use this. `team` must outlive it.
  void ShareWith(base::Team* team) { team_ = team; }

  const LinearData& data() const { return *data_; }
  const MarginLoss& loss() const { return loss_; }
  double l2() const override { return l2_; }
  double largest_l2() const { return penalties_.size() == 0 ? l2_ : penalties_.maxCoeff(); }
  bool one_penalty() const override { return penalties_.size() == 0; }
  // Returns l2_j w_j for each penalised weight: the gradient of the penalty at w, and also its
  // Hessian times w.
  Eigen::VectorXd Penalize(const Eigen::VectorXd& w) const override;
  Eigen::Index dim() const override { return data_->dim(); }
  Eigen::Index penalized() const override { return dim() - (data_->bias() == Bias::kFree ? 1 : 0); }

  int64_t rows() const override { return data_->rows(); }
  const Eigen::VectorXd& column_scale() const override { return data_->column_scale(); }
  double largest_row_norm() const override { return std::sqrt(data_->max_norm2()); }
  absl::StatusOr<double> Evaluate(const Eigen::VectorXd& w, Eigen::VectorXd* gradient,
                                  const base::StopToken& stop) const override {
    return Value(w, gradient, nullptr, stop);
  }
  Eigen::VectorXd BoundDiagonal() const override;
  absl::StatusOr<Eigen::VectorXd> BoundVector(const Eigen::VectorXd& v, const base::StopToken& stop) const override;
  std::unique_ptr<SecondOrderFunction> MakeFunction(bool direct) const override;
  SolverCosts Costs() const override;
  std::string Describe() const override;
  const LinearProblem* two_classes() const override { return this; }

  // Returns h(w). Unless null, fills in its gradient, the curvatures loss''(t_i) and the scores s_i
  // t_i. Returns CANCELLED when stopped, here and below.
  absl::StatusOr<double> Value(const Eigen::VectorXd& w, Eigen::VectorXd* gradient,
                               Eigen::VectorXd* curvature = nullptr, const base::StopToken& stop = {},
                               Eigen::VectorXd* scores = nullptr) const;
  // Returns a bound on h(w) - min h, by duality. A free bias b is first moved to the minimum along
  // it, b*. The bound is
  //   h(w, b) - h(w, b*) + sum_j g_j^2 / (2 l2_j),   g the gradient in the weights at (w, b*),
  // which is h(w, b) - D(alpha) for the dual variables alpha_i = -loss'(t_i). Infinite if a weight
  // has no penalty. Costs about a pass over the entries.
  absl::StatusOr<double> DualityGap(const Eigen::VectorXd& w, const base::StopToken& stop = {}) const override;

  // Returns the step a in (0, kMostStep] at which h(w + a d) is least, to a slope of a tenth of the
  // one at a = 0, which is negative. Returns 0 if nothing is finite. `scores` are those of w
  // (Value). Unless `ridge` is empty, 1/2 sum_j ridge_j w_j^2 is added to h. Takes one product with
  // the rows and sums over them; writes their cost in passes over the entries to *passes.
  absl::StatusOr<double> LineMinimum(const Eigen::VectorXd& w, const Eigen::VectorXd& scores, const Eigen::VectorXd& d,
                                     const Eigen::VectorXd& ridge, const base::StopToken& stop, double* passes) const;

  // Return the Hessian times v, its diagonal, and the Hessian itself (lower triangle; O(sum_i
  // nnz_i^2)), at the point of `curvature`. For losses with kinks it is an element of the
  // generalised Hessian. With `every` above 1, Hessian estimates it from every so many rows, each
  // counted `every` times.
  absl::StatusOr<Eigen::VectorXd> HessianVector(const Eigen::VectorXd& curvature, const Eigen::VectorXd& v,
                                                const base::StopToken& stop = {}) const;
  absl::StatusOr<Eigen::VectorXd> HessianDiagonal(const Eigen::VectorXd& curvature,
                                                  const base::StopToken& stop = {}) const;
  absl::StatusOr<Eigen::MatrixXd> Hessian(const Eigen::VectorXd& curvature, const base::StopToken& stop,
                                          int64_t every = 1) const;

 private:
  // Sums of a Hessian, over some rows.
  struct HessianSums {
    Eigen::MatrixXd matrix;  // sum_i d_i a_i a_i', the lower triangle
    Eigen::VectorXd firsts;  // sum_i d_i a_i
    double total = 0.0;      // sum_i d_i
  };
  // Add the sums with d_i = every curvature_i over every so many of the rows [begin, end).
  absl::Status AddSparseRows(const Eigen::VectorXd& curvature, int64_t every, int64_t begin, int64_t end,
                             const base::StopToken& stop, HessianSums* sums) const;
  absl::Status AddDenseRows(const Eigen::VectorXd& curvature, int64_t every, int64_t begin, int64_t end,
                            const base::StopToken& stop, HessianSums* sums) const;

  const LinearData* const data_;
  const MarginLoss loss_;
  const Eigen::VectorXd penalties_;  // Empty: all are l2_.
  const double l2_;
  base::Team* team_ = nullptr;
};

// Returns the `every` of a sample of rows for a preconditioner of Newton systems. The sample has
// ten times as many rows as columns; its Hessian, times `every`, has the true one's eigenvalues
// within a factor of two or so. Returns 0 if there are too few rows, or more than
// kMaxSampledColumns columns.
inline constexpr int64_t kMaxSampledColumns = 1500;
int64_t SampleEvery(const LinearData& data);

// Returns the cost of Cholesky's factorisation of a Hessian, in passes over the entries.
double FactorPasses(const LinearData& data);

// A LinearProblem as a SecondOrderFunction. With `direct`, Newton systems are solved by Cholesky
// (dim() up to a few thousand), else by conjugate gradients. If there are many more rows than
// columns, these are preconditioned by the Cholesky factor of a sample's Hessian, which depends on
// the point alone. `problem` must outlive it.
class LinearFunction final : public SecondOrderFunction {
 public:
  explicit LinearFunction(const LinearProblem* problem, bool direct = false);
  absl::StatusOr<double> Value(const Eigen::VectorXd& x, Eigen::VectorXd* gradient,
                               const base::StopToken& stop) override;
  absl::Status SetPoint(const Eigen::VectorXd& x, const base::StopToken& stop) override;
  absl::StatusOr<Eigen::VectorXd> HessianVector(const Eigen::VectorXd& v, const base::StopToken& stop) override;
  absl::StatusOr<Eigen::VectorXd> HessianDiagonal(const base::StopToken& stop) override;
  // Returns the cost by multiplications: a pass has two an entry, and the Hessian z (z + 1) / 2 for
  // a row of z entries; FactorPasses is added. Known after SetPoint.
  double factor_passes() const override { return factor_passes_; }
  absl::StatusOr<bool> PreparePreconditioner(const base::StopToken& stop) override;
  Eigen::VectorXd Precondition(const Eigen::VectorXd& r) override;
  bool direct() const override { return direct_; }
  bool keeps_factor() const override { return direct_ && problem_->loss().kind == MarginLoss::Kind::kLogistic; }
  bool HasFactorOf(const Eigen::VectorXd& x) const override {
    return factor_point_.size() == x.size() && factor_point_ == x;
  }
  absl::StatusOr<bool> MakeFactor(const base::StopToken& stop) override { return Factor(1, stop); }
  void SetFloor(double share) override { floor_ = share; }
  bool has_floor() const override { return true; }
  void SetRidge(const Eigen::VectorXd& ridge) override { ridge_ = ridge; }
  Eigen::VectorXd Ridge(double share) const override;
  absl::StatusOr<double> LineMinimum(const Eigen::VectorXd& x, const Eigen::VectorXd& d, const base::StopToken& stop,
                                     double* passes) override;
  absl::StatusOr<Eigen::VectorXd> SolveHessian(const Eigen::VectorXd& b, const base::StopToken& stop) override;

 private:
  absl::Status CountFactor(const base::StopToken& stop);
  // Returns a curvature to add along a free bias if the losses have next to none there: hinges are
  // straight far from their corners. It bounds the steps, and is 0 near an optimum.
  double BiasRidge() const;
  // Computes Cholesky's factor of the (sample's) Hessian, plus a ridge if necessary. Returns false
  // if that failed.
  absl::StatusOr<bool> Factor(int64_t every, const base::StopToken& stop);
  Eigen::VectorXd Solve(const Eigen::VectorXd& b) const;

  const LinearProblem* const problem_;
  const bool direct_;
  const int64_t sample_every_;
  double factor_passes_ = -1.0;  // Negative until counted.
  double floor_ = 0.0;           // Set by SetFloor.
  Eigen::VectorXd ridge_;        // Set by SetRidge.
  Eigen::VectorXd x_;            // Point of scores_ and losses_; empty if these are not valid.
  Eigen::VectorXd scores_;
  Eigen::VectorXd losses_;  // Curvatures of the losses.
  // Curvatures, raised to the floor, and scores at the point of the last SetPoint.
  Eigen::VectorXd curvature_;
  Eigen::VectorXd point_scores_;
  Eigen::MatrixXd factor_;
  Eigen::VectorXd factor_point_;  // Point of factor_; empty with a floor, ridge or sample.
};

}  // namespace luthier::linear

#endif  // LUTHIER_LIB_LINEAR_PROBLEM_H_
