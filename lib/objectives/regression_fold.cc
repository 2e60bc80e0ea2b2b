#include "lib/objectives/regression_fold.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status_macros.h"
#include "lib/bilevel/elastic_net.h"
#include "lib/bilevel/elastic_net_path.h"
#include "lib/bilevel/kernel_ridge.h"
#include "lib/bilevel/mlp.h"
#include "lib/bilevel/ridge.h"
#include "lib/bilevel/ridge_targets.h"
#include "lib/linear/lbfgs_solver.h"

namespace luthier::objectives {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Numbers of columns up to which ridge is solved by Cholesky's factor of the Gram matrix, which costs p^3/3 a trial. If
// so few rows give the Gram matrix half its rank, conjugate gradients need fewer products than that.
constexpr Index kSmallGram = 500, kLargestGram = 3000;
constexpr double kLoosestTolerance = 0.1;  // Training tolerance that a search may ask for.

// Trains by `solve`, which returns a solution with outcome, products and relative_gradient, or by unrolled steps, and
// differentiates `outer`, unless it is null.
template <typename Solve>
absl::StatusOr<RegressionFit> FitInner(bilevel::InnerProblem& inner, bilevel::OuterLoss* outer,
                                       const RegressionSettings& settings, double mu, std::optional<double> tolerance,
                                       Solve solve, const base::StopToken& stop) {
  RegressionFit fit;
  if (settings.unroll.method) {
    bilevel::UnrolledDescent descent(&inner, *settings.unroll.method, settings.unroll.steps);
    while (descent.steps() < settings.unroll.steps) {
      LUTHIER_ASSIGN_OR_RETURN(const bool moved, descent.Advance(stop));
      if (!moved) break;
    }
    const double first = descent.first_gradient_norm();
    fit.limited = descent.steps() >= settings.unroll.steps;
    fit.diverged = !descent.finite();
    if (fit.diverged) return fit;
    fit.weights = descent.x();
    fit.products = descent.steps();
    fit.relative_gradient = first > 0.0 ? descent.gradient_norm() / first : 0.0;
    if (outer != nullptr) {
      LUTHIER_ASSIGN_OR_RETURN(const bilevel::UnrolledGradient unrolled, descent.Differentiate(*outer, stop));
      fit.gradient = AsImplicit(unrolled);
    }
    return fit;
  }
  const double loose = tolerance ? std::min(*tolerance, kLoosestTolerance) : 0.0;
  LUTHIER_ASSIGN_OR_RETURN(auto solution, solve(std::max(settings.tolerance, loose)));
  fit.outcome = solution.outcome;
  fit.products = solution.products;
  fit.relative_gradient = solution.relative_gradient;
  fit.weights = std::move(solution.weights);
  const bool solved = fit.outcome == linear::CgOutcome::kConverged || fit.outcome == linear::CgOutcome::kPrecision;
  if (outer != nullptr && solved && fit.weights.allFinite()) {
    LUTHIER_ASSIGN_OR_RETURN(fit.gradient, DifferentiateAt(inner, *outer, {true, mu}, {tolerance}, stop, &fit.weights));
  }
  return fit;
}

// The parts of a fold, of a regression that is linear in the columns.
struct LinearRows {
  absl::Status Lay(const data::Dataset& dataset, const data::Partition& partition, const data::Standardization& scaling,
                   double offset, const base::StopToken& stop) {
    const auto rows = [&](const std::vector<int32_t>& some) {
      return bilevel::LeastSquaresData::Create(dataset, some, scaling, offset, stop);
    };
    LUTHIER_ASSIGN_OR_RETURN(train, rows(partition.train));
    LUTHIER_ASSIGN_OR_RETURN(validation, rows(partition.validation));
    LUTHIER_ASSIGN_OR_RETURN(third, rows(partition.third));
    return absl::OkStatus();
  }

  // Measures the squared errors of the fit's weights.
  absl::Status Measure(const base::StopToken& stop, RegressionFit* fit) const {
    const auto measure = [&](const bilevel::LeastSquaresData& rows, double* sse, double* count) -> absl::Status {
      LUTHIER_ASSIGN_OR_RETURN(const VectorXd predicted, rows.Multiply(fit->weights, stop));
      *sse = ((predicted - rows.target()).array() + fit->intercept).square().sum();
      *count = static_cast<double>(rows.rows());
      return absl::OkStatus();
    };
    LUTHIER_RETURN_IF_ERROR(measure(validation, &fit->validation_sse, &fit->validation_rows));
    LUTHIER_RETURN_IF_ERROR(measure(train, &fit->train_sse, &fit->train_rows));
    return measure(third, &fit->third_sse, &fit->third_rows);
  }

  bilevel::LeastSquaresData train, validation, third;
};

class RidgeFold final : public RegressionFold {
 public:
  static absl::StatusOr<std::shared_ptr<const RegressionFold>> Make(const data::Dataset& dataset,
                                                                    const data::Partition& partition,
                                                                    const RegressionSettings& settings,
                                                                    const bilevel::ColumnPenalties& columns,
                                                                    const base::StopToken& stop) {
    auto fold = std::make_shared<RidgeFold>();
    fold->columns_ = columns;
    LUTHIER_ASSIGN_OR_RETURN(fold->scaling_,
                             ScalingOf(dataset, partition.train, settings.standardize, settings.intercept, stop));
    if (settings.intercept) fold->offset_ = MeanTarget(dataset.target, partition.train);
    LUTHIER_RETURN_IF_ERROR(fold->rows_.Lay(dataset, partition, fold->scaling_, fold->offset_, stop));
    const bilevel::LeastSquaresData& train = fold->rows_.train;
    const Index p = train.cols();
    if (settings.recency) {
      LUTHIER_RETURN_IF_ERROR(fold->LaySeries(dataset, partition, settings, stop));
      return std::shared_ptr<const RegressionFold>(std::move(fold));
    }
    // The Gram matrix is kept, and a trial adds its factor.
    const double bytes = 16.0 * static_cast<double>(p) * static_cast<double>(p);
    const bool fits = bytes <= static_cast<double>(settings.max_memory_bytes);
    const bool needed = settings.criterion != bilevel::RidgeCriterion::kHeldOut;
    const double n = static_cast<double>(train.rows());
    fold->rows_fit_ = n <= kLargestGram && 24.0 * n * n <= static_cast<double>(settings.max_memory_bytes);
    fold->by_rows_ = fold->rows_fit_ && train.rows() < p && !settings.unroll.method;
    if (fold->by_rows_) {
      if (columns.count == 1) {
        LUTHIER_ASSIGN_OR_RETURN(fold->kernel_, train.Kernel(VectorXd::Ones(p), stop));
      }
      return std::shared_ptr<const RegressionFold>(std::move(fold));
    }
    if (needed && (!fits || p > kLargestGram)) {
      return absl::ResourceExhaustedError(
          absl::StrCat(dataset.name, ": a criterion without held-out rows needs the factor of a matrix of ", p, " x ",
                       p, " entries, at most ", kLargestGram,
                       ", or as many rows, and within max_memory_mib; use criterion: validation"));
    }
    if (needed || (fits && (p <= kSmallGram || (p <= kLargestGram && p <= 2 * train.rows())))) {
      LUTHIER_ASSIGN_OR_RETURN(fold->gram_, bilevel::LeastSquaresGram::Create(train, stop));
    }
    return std::shared_ptr<const RegressionFold>(std::move(fold));
  }

  absl::StatusOr<RegressionFit> Fit(const RegressionSettings& settings, bool gradient, std::optional<double> tolerance,
                                    const base::StopToken& stop) const override {
    VectorXd l2(rows_.train.cols());
    for (Index j = 0; j < l2.size(); ++j) l2[j] = settings.l2[static_cast<size_t>(columns_.IndexOf(j, 1))];
    if (settings.recency) return FitSeries(settings, l2, gradient, stop);
    bilevel::RidgeInner inner(&rows_.train, gram_ ? &*gram_ : nullptr, columns_, l2);
    if (settings.criterion != bilevel::RidgeCriterion::kHeldOut && !settings.unroll.method) {
      return FitToCriterion(settings, l2, gradient, inner, stop);
    }
    if (by_rows_) {
      LUTHIER_ASSIGN_OR_RETURN(MatrixXd kernel, Kernel(l2, stop));
      inner.UseKernel(std::move(kernel));
    }
    bilevel::RidgeOuter outer(&rows_.validation);
    const auto solve = [&](double relative) { return inner.Solve(relative, settings.max_iterations, stop); };
    LUTHIER_ASSIGN_OR_RETURN(RegressionFit fit,
                             FitInner(inner, gradient && rows_.validation.rows() > 0 ? &outer : nullptr, settings,
                                      l2.minCoeff(), tolerance, solve, stop));
    if (fit.diverged) return fit;
    LUTHIER_RETURN_IF_ERROR(rows_.Measure(stop, &fit));
    return fit;
  }

 private:
  // Smallest pivot of the Gram matrix's factor, as a share of the largest, with which the criteria keep their digits.
  static constexpr double kLeastPivot = 1e-9;

  // Returns X~ diag(l2)^-1 X~' of the training rows.
  absl::StatusOr<MatrixXd> Kernel(const VectorXd& l2, const base::StopToken& stop) const {
    if (kernel_.size() > 0) return MatrixXd(kernel_ / l2[0]);
    return rows_.train.Kernel(l2.cwiseInverse(), stop);
  }

  // Trains on all rows but the third set's, and estimates the error on others.
  absl::StatusOr<RegressionFit> FitToCriterion(const RegressionSettings& settings, const VectorXd& l2, bool gradient,
                                               bilevel::RidgeInner& inner, const base::StopToken& stop) const {
    bool by_rows = by_rows_;
    RegressionFit fit;
    bilevel::RidgeCriterionValue error;
    const bilevel::RidgeProblem problem{rows_.train, l2, columns_, settings.intercept, gradient};
    if (!by_rows) {
      LUTHIER_ASSIGN_OR_RETURN(const bool factored, inner.PreparePreconditioner(stop));
      const VectorXd pivots = factored ? VectorXd(inner.factor().lower().diagonal().cwiseAbs2()) : VectorXd();
      const bool regular =
          factored && inner.factor().jitter() == 0.0 && pivots.minCoeff() > kLeastPivot * pivots.maxCoeff();
      by_rows = !regular && rows_fit_;
      fit.singular = !by_rows && (!factored || inner.factor().jitter() > 0.0);
      if (fit.singular) return fit;
    }
    if (by_rows) {
      LUTHIER_ASSIGN_OR_RETURN(MatrixXd kernel, Kernel(l2, stop));
      LUTHIER_ASSIGN_OR_RETURN(std::optional<bilevel::RidgeCriterionValue> found,
                               bilevel::EvaluateCriterionByRows(settings.criterion, problem, std::move(kernel), stop));
      fit.singular = !found.has_value();
      if (fit.singular) return fit;
      error = *std::move(found);
      fit.products = 1;
      fit.weights = std::move(error.weights);
      LUTHIER_ASSIGN_OR_RETURN(const VectorXd left, inner.ExactGradient(fit.weights, stop));
      LUTHIER_ASSIGN_OR_RETURN(const VectorXd first, inner.ExactGradient(VectorXd::Zero(l2.size()), stop));
      fit.relative_gradient = first.norm() > 0.0 ? left.norm() / first.norm() : 0.0;
    } else {
      LUTHIER_ASSIGN_OR_RETURN(bilevel::LinearSolution solution,
                               inner.Solve(settings.tolerance, settings.max_iterations, stop));
      fit.outcome = solution.outcome;
      fit.products = solution.products;
      fit.relative_gradient = solution.relative_gradient;
      fit.weights = std::move(solution.weights);
      LUTHIER_ASSIGN_OR_RETURN(
          error, bilevel::EvaluateCriterion(settings.criterion, problem, inner.factor(), fit.weights, stop));
    }
    LUTHIER_RETURN_IF_ERROR(rows_.Measure(stop, &fit));
    fit.validation_rows = static_cast<double>(rows_.train.rows());
    fit.validation_sse = error.value * fit.validation_rows;
    if (!gradient) return fit;
    bilevel::ImplicitGradient& part = fit.gradient.emplace();
    part.outer_value = error.value;
    part.gradient = std::move(error.gradient);
    part.error_bound = INFINITY;
    return fit;
  }

  // Lays out the data for weights of rows: the rows dense, and the times of the training rows in [0, 1].
  absl::Status LaySeries(const data::Dataset& dataset, const data::Partition& partition,
                         const RegressionSettings& settings, const base::StopToken& stop) {
    const double rows = static_cast<double>(partition.train.size() + partition.validation.size());
    const double cols = dataset.x.cols;
    const double bytes = 8.0 * (rows * cols + 2.0 * cols * cols);
    if (dataset.key.empty() || bytes > static_cast<double>(settings.max_memory_bytes) || cols > kLargestGram) {
      return absl::ResourceExhaustedError(absl::StrCat(
          dataset.name, ": recency needs a time_column, at most ", kLargestGram, " columns and about ",
          static_cast<int64_t>(bytes / (1 << 20)), " MiB; max_memory_mib is ", settings.max_memory_bytes >> 20));
    }
    train_points_ = rows_.train.Dense(0, rows_.train.rows());
    validation_points_ = rows_.validation.Dense(0, rows_.validation.rows());
    const auto at = [&](int32_t row) { return static_cast<double>(dataset.key[static_cast<size_t>(row)]); };
    double first = INFINITY, last = -INFINITY;
    for (const int32_t row : partition.train) {
      first = std::min(first, at(row));
      last = std::max(last, at(row));
    }
    time_.resize(static_cast<Index>(partition.train.size()));
    for (size_t i = 0; i < partition.train.size(); ++i) {
      time_[static_cast<Index>(i)] = last > first ? (at(partition.train[i]) - first) / (last - first) : 1.0;
    }
    return stop.Poll();
  }

  absl::StatusOr<RegressionFit> FitSeries(const RegressionSettings& settings, const VectorXd& l2, bool gradient,
                                          const base::StopToken& stop) const {
    const bilevel::WeightedRidge ridge(&train_points_, &rows_.train.target(), &time_, settings.intercept);
    const bool held_out = gradient && rows_.validation.rows() > 0;
    LUTHIER_ASSIGN_OR_RETURN(bilevel::WeightedRidgeFit found,
                             ridge.Fit(l2, *settings.recency, held_out ? &validation_points_ : nullptr,
                                       held_out ? &rows_.validation.target() : nullptr, stop));
    RegressionFit fit;
    fit.singular = found.singular;
    if (fit.singular) return fit;
    fit.products = 1;
    fit.weights = std::move(found.weights);
    fit.intercept = found.intercept;
    fit.relative_gradient = found.relative_gradient;
    LUTHIER_RETURN_IF_ERROR(rows_.Measure(stop, &fit));
    if (!held_out) return fit;
    // The derivatives by penalties come first, then the two of the weights of rows.
    const Index p = l2.size();
    bilevel::ImplicitGradient& part = fit.gradient.emplace();
    part.gradient.resize(columns_.count + 2);
    part.gradient.head(columns_.count) = columns_.Sums(found.gradient.head(p), 1);
    part.gradient.tail(2) = found.gradient.tail(2);
    part.error_bound = INFINITY;
    return fit;
  }

  bilevel::ColumnPenalties columns_;
  LinearRows rows_;
  MatrixXd train_points_, validation_points_;  // Used with recency.
  VectorXd time_;
  std::optional<bilevel::LeastSquaresGram> gram_;
  bool rows_fit_ = false;  // True if matrices of rows x rows are affordable.
  bool by_rows_ = false;   // True if these are used, since there are fewer rows than columns.
  MatrixXd kernel_;        // X~ X~', with a single penalty.
};

// Ridge of several targets.
class TargetsFold final : public RegressionFold {
 public:
  static absl::StatusOr<std::shared_ptr<const RegressionFold>> Make(
      const data::Dataset& dataset, const std::vector<std::vector<double>>& more_targets,
      const data::Partition& partition, const RegressionSettings& settings, const bilevel::ColumnPenalties& columns,
      const base::StopToken& stop) {
    auto fold = std::make_shared<TargetsFold>();
    fold->columns_ = columns;
    const double p = dataset.x.cols, targets = static_cast<double>(more_targets.size()) + 1.0;
    const double bytes = 8.0 * (3.0 * p * p + targets * static_cast<double>(dataset.x.rows));
    if (p > kLargestGram || bytes > static_cast<double>(settings.max_memory_bytes)) {
      return absl::ResourceExhaustedError(absl::StrCat(
          dataset.name, ": several targets need the factor of a matrix of ", dataset.x.cols, " x ", dataset.x.cols,
          " entries, at most ", kLargestGram, ", and about ", static_cast<int64_t>(bytes / (1 << 20)),
          " MiB; max_memory_mib is ", settings.max_memory_bytes >> 20, "; tune each target by itself"));
    }
    LUTHIER_ASSIGN_OR_RETURN(fold->scaling_,
                             ScalingOf(dataset, partition.train, settings.standardize, settings.intercept, stop));
    LUTHIER_RETURN_IF_ERROR(fold->rows_.Lay(dataset, partition, fold->scaling_, 0.0, stop));
    const auto lay = [&](Index t, const std::vector<double>& target) {
      const double offset = settings.intercept ? MeanTarget(target, partition.train) : 0.0;
      const auto take = [&](const std::vector<int32_t>& rows, MatrixXd* out) {
        out->conservativeResize(static_cast<Index>(rows.size()), t + 1);
        for (size_t i = 0; i < rows.size(); ++i) {
          (*out)(static_cast<Index>(i), t) = target[static_cast<size_t>(rows[i])] - offset;
        }
      };
      take(partition.train, &fold->train_);
      take(partition.validation, &fold->validation_);
      take(partition.third, &fold->third_);
    };
    lay(0, dataset.target);
    for (size_t t = 0; t < more_targets.size(); ++t) lay(static_cast<Index>(t) + 1, more_targets[t]);
    LUTHIER_ASSIGN_OR_RETURN(fold->gram_, fold->rows_.train.Gram(stop));
    LUTHIER_ASSIGN_OR_RETURN(fold->product_, bilevel::MultiplyTargetsTransposed(fold->rows_.train, fold->train_, stop));
    return std::shared_ptr<const RegressionFold>(std::move(fold));
  }

  absl::StatusOr<RegressionFit> Fit(const RegressionSettings& settings, bool gradient, std::optional<double>,
                                    const base::StopToken& stop) const override {
    VectorXd l2(gram_.rows());
    for (Index j = 0; j < l2.size(); ++j) l2[j] = settings.l2[static_cast<size_t>(columns_.IndexOf(j, 1))];
    const bool held_out = gradient && validation_.rows() > 0;
    LUTHIER_ASSIGN_OR_RETURN(bilevel::RidgeTargetsFit found,
                             bilevel::FitRidgeTargets(gram_, product_, l2, held_out ? &rows_.validation : nullptr,
                                                      held_out ? &validation_ : nullptr, stop));
    RegressionFit fit;
    fit.singular = found.singular;
    if (fit.singular) return fit;
    fit.products = 1;
    fit.relative_gradient = found.relative_gradient;
    const auto measure = [&](const bilevel::LeastSquaresData& rows, const MatrixXd& targets, double* sse,
                             double* count) -> absl::Status {
      LUTHIER_ASSIGN_OR_RETURN(const MatrixXd predicted, bilevel::MultiplyTargets(rows, found.weights, stop));
      *sse = (predicted - targets).squaredNorm();
      *count = static_cast<double>(targets.size());
      return absl::OkStatus();
    };
    LUTHIER_RETURN_IF_ERROR(measure(rows_.train, train_, &fit.train_sse, &fit.train_rows));
    LUTHIER_RETURN_IF_ERROR(measure(rows_.validation, validation_, &fit.validation_sse, &fit.validation_rows));
    LUTHIER_RETURN_IF_ERROR(measure(rows_.third, third_, &fit.third_sse, &fit.third_rows));
    fit.weights = found.weights.reshaped();
    if (!held_out) return fit;
    bilevel::ImplicitGradient& part = fit.gradient.emplace();
    part.outer_value = fit.validation_sse / fit.validation_rows;
    part.gradient = columns_.Sums(found.gradient, 1);
    part.error_bound = INFINITY;
    return fit;
  }

 private:
  bilevel::ColumnPenalties columns_;
  LinearRows rows_;                      // The targets in these rows are not used.
  MatrixXd train_, validation_, third_;  // A column for each target, minus its mean over the training rows.
  MatrixXd gram_, product_;
};

class KernelFold final : public RegressionFold {
 public:
  static absl::StatusOr<std::shared_ptr<const RegressionFold>> Make(const data::Dataset& dataset,
                                                                    const data::Partition& partition,
                                                                    const RegressionSettings& settings,
                                                                    const base::StopToken& stop) {
    auto fold = std::make_shared<KernelFold>();
    // Points, distances, the kernel, its derivative, the factor and a matrix in between.
    const double n = static_cast<double>(partition.train.size());
    const double held = static_cast<double>(partition.validation.size() + partition.third.size());
    const double bytes = 8.0 * ((n + held) * dataset.x.cols + 5.0 * n * n + 4.0 * n * held);
    if (bytes > static_cast<double>(settings.max_memory_bytes)) {
      return absl::ResourceExhaustedError(
          absl::StrCat(dataset.name, ": kernel_ridge takes about ", static_cast<int64_t>(bytes / (1 << 20)),
                       " MiB for ", partition.train.size(), " training rows, and max_memory_mib is ",
                       settings.max_memory_bytes >> 20, "; raise it, or train on fewer rows"));
    }
    LUTHIER_ASSIGN_OR_RETURN(fold->scaling_,
                             ScalingOf(dataset, partition.train, settings.standardize, settings.intercept, stop));
    if (settings.intercept) fold->offset_ = MeanTarget(dataset.target, partition.train);
    const auto lay_out = [&](const std::vector<int32_t>& rows, MatrixXd* points, VectorXd* target) -> absl::Status {
      LUTHIER_ASSIGN_OR_RETURN(*points, data::DenseRows(dataset.x, rows, fold->scaling_, stop));
      target->resize(static_cast<Index>(rows.size()));
      for (size_t i = 0; i < rows.size(); ++i) {
        (*target)[static_cast<Index>(i)] = dataset.target[static_cast<size_t>(rows[i])] - fold->offset_;
      }
      return absl::OkStatus();
    };
    LUTHIER_RETURN_IF_ERROR(lay_out(partition.train, &fold->train_, &fold->train_target_));
    LUTHIER_RETURN_IF_ERROR(lay_out(partition.validation, &fold->validation_, &fold->validation_target_));
    LUTHIER_RETURN_IF_ERROR(lay_out(partition.third, &fold->third_, &fold->third_target_));
    if (settings.gamma.size() == 1) {
      const VectorXd one = VectorXd::Ones(1);
      LUTHIER_ASSIGN_OR_RETURN(fold->distances_,
                               bilevel::WeightedSquaredDistances(fold->train_, fold->train_, one, stop));
      LUTHIER_ASSIGN_OR_RETURN(fold->validation_distances_,
                               bilevel::WeightedSquaredDistances(fold->validation_, fold->train_, one, stop));
    }
    return std::shared_ptr<const RegressionFold>(std::move(fold));
  }

  absl::StatusOr<RegressionFit> Fit(const RegressionSettings& settings, bool gradient, std::optional<double> tolerance,
                                    const base::StopToken& stop) const override {
    const double l2 = settings.l2[0];
    LUTHIER_ASSIGN_OR_RETURN(
        bilevel::KernelRidgeInner inner,
        bilevel::KernelRidgeInner::Create(&train_, &train_target_, distances_ ? &*distances_ : nullptr, settings.gamma,
                                          l2, stop));
    std::optional<bilevel::KernelRidgeOuter> outer;
    if (validation_.rows() > 0) {
      LUTHIER_ASSIGN_OR_RETURN(
          outer, bilevel::KernelRidgeOuter::Create(&train_, &validation_, &validation_target_,
                                                   validation_distances_ ? &*validation_distances_ : nullptr,
                                                   settings.gamma, stop));
    }
    const auto solve = [&](double relative) { return inner.Solve(relative, settings.max_iterations, stop); };
    LUTHIER_ASSIGN_OR_RETURN(RegressionFit fit, FitInner(inner, gradient && outer ? &*outer : nullptr, settings, l2,
                                                         tolerance, solve, stop));
    fit.singular = inner.singular();
    if (fit.diverged || fit.singular) return fit;
    if (outer) {
      fit.validation_sse = (outer->Predict(fit.weights) - validation_target_).squaredNorm();
      fit.validation_rows = static_cast<double>(validation_.rows());
    }
    LUTHIER_ASSIGN_OR_RETURN(const VectorXd product, inner.HessianVector(fit.weights, stop));
    fit.train_sse = (product - l2 * fit.weights - train_target_).squaredNorm();
    fit.train_rows = static_cast<double>(train_.rows());
    if (third_.rows() > 0) {
      LUTHIER_ASSIGN_OR_RETURN(
          const bilevel::KernelRidgeOuter third,
          bilevel::KernelRidgeOuter::Create(&train_, &third_, &third_target_, nullptr, settings.gamma, stop));
      fit.third_sse = (third.Predict(fit.weights) - third_target_).squaredNorm();
      fit.third_rows = static_cast<double>(third_.rows());
    }
    return fit;
  }

 private:
  MatrixXd train_, validation_, third_;  // Rows are points.
  VectorXd train_target_, validation_target_, third_target_;
  std::optional<MatrixXd> distances_, validation_distances_;  // Used with one gamma.
};

// Share of l1 by which a column must be away from a change of its weight to or from 0.
constexpr double kNearKink = 1e-3;

class ElasticNetFold final : public RegressionFold {
 public:
  static absl::StatusOr<std::shared_ptr<const RegressionFold>> Make(const data::Dataset& dataset,
                                                                    const data::Partition& partition,
                                                                    const RegressionSettings& settings,
                                                                    const base::StopToken& stop) {
    auto fold = std::make_shared<ElasticNetFold>();
    LUTHIER_ASSIGN_OR_RETURN(fold->scaling_,
                             ScalingOf(dataset, partition.train, settings.standardize, settings.intercept, stop));
    if (settings.intercept) fold->offset_ = MeanTarget(dataset.target, partition.train);
    LUTHIER_RETURN_IF_ERROR(fold->rows_.Lay(dataset, partition, fold->scaling_, fold->offset_, stop));
    const bilevel::LeastSquaresData& train = fold->rows_.train;
    if (bilevel::CenteredColumns::WorthCondensing(train)) {
      LUTHIER_ASSIGN_OR_RETURN(fold->columns_, bilevel::CenteredColumns::Condense(train, &fold->target_, stop));
    } else {
      LUTHIER_ASSIGN_OR_RETURN(fold->columns_,
                               bilevel::CenteredColumns::Create(train, settings.max_memory_bytes, stop));
      fold->target_ = train.target();
    }
    return std::shared_ptr<const RegressionFold>(std::move(fold));
  }

  absl::StatusOr<RegressionFit> Fit(const RegressionSettings& settings, bool gradient, std::optional<double> tolerance,
                                    const base::StopToken& stop) const override {
    bilevel::ElasticNetOptions options{.l1 = settings.l1, .l2 = settings.l2[0]};
    options.tolerance = std::max(settings.tolerance, tolerance ? std::min(*tolerance, kLoosestTolerance) : 0.0);
    options.max_sweeps = settings.max_iterations;
    VectorXd on_path;
    if (settings.path) {
      LUTHIER_ASSIGN_OR_RETURN(on_path, paths_.At(columns_, target_, options.l1, options.l2, stop));
      options.start = &on_path;
    }
    LUTHIER_ASSIGN_OR_RETURN(bilevel::ElasticNetFit trained,
                             bilevel::TrainElasticNet(columns_, target_, options, stop));
    RegressionFit fit;
    fit.outcome = trained.converged ? linear::CgOutcome::kConverged
                  : trained.exact   ? linear::CgOutcome::kPrecision
                                    : linear::CgOutcome::kIterationLimit;
    fit.products = trained.sweeps;
    fit.relative_gradient = trained.violation;
    fit.near_kink = trained.kink_margin < kNearKink;
    fit.weights = std::move(trained.weights);
    if (gradient && (trained.converged || trained.exact) && rows_.validation.rows() > 0) {
      LUTHIER_RETURN_IF_ERROR(Differentiate(options, tolerance, stop, &fit));
    }
    LUTHIER_RETURN_IF_ERROR(rows_.Measure(stop, &fit));
    return fit;
  }

 private:
  // Leaves the gradient absent if the weights' signs do not settle.
  absl::Status Differentiate(const bilevel::ElasticNetOptions& options, std::optional<double> tolerance,
                             const base::StopToken& stop, RegressionFit* fit) const {
    const std::vector<Index> support = bilevel::SupportOf(fit->weights);
    if (support.empty()) {
      // All weights stay 0 nearby.
      bilevel::ImplicitGradient& none = fit->gradient.emplace();
      none.gradient = VectorXd::Zero(2);
      none.adjoint = VectorXd::Zero(0);
      return absl::OkStatus();
    }
    VectorXd w = fit->weights(support);
    const VectorXd signs = w.cwiseSign();
    bilevel::ElasticNetInner inner(&columns_, &target_, support, signs, options.l1, options.l2);
    bilevel::ElasticNetOuter outer(&rows_.validation, support);
    LUTHIER_ASSIGN_OR_RETURN(bilevel::ImplicitGradient part, DifferentiateAt(inner, outer, {}, {tolerance}, stop, &w));
    if (w.cwiseSign() != signs) return absl::OkStatus();
    fit->weights(support) = w;
    fit->gradient = std::move(part);
    return absl::OkStatus();
  }

  LinearRows rows_;
  // Columns and targets of the training rows, or fewer entries that make the same problem.
  bilevel::CenteredColumns columns_;
  VectorXd target_;
  mutable bilevel::ElasticNetPaths paths_;
};

class MlpFold final : public RegressionFold {
 public:
  static absl::StatusOr<std::shared_ptr<const RegressionFold>> Make(const data::Dataset& dataset,
                                                                    const data::Partition& partition,
                                                                    const RegressionSettings& settings,
                                                                    const bilevel::ColumnPenalties& columns,
                                                                    const base::StopToken& stop) {
    auto fold = std::make_shared<MlpFold>();
    fold->columns_ = columns;
    const double rows = static_cast<double>(dataset.x.rows);
    const double bytes = 8.0 * rows * (dataset.x.cols + 3.0 * settings.units);
    if (bytes > static_cast<double>(settings.max_memory_bytes)) {
      return absl::ResourceExhaustedError(
          absl::StrCat(dataset.name, ": mlp takes about ", static_cast<int64_t>(bytes / (1 << 20)), " MiB for ",
                       dataset.x.rows, " rows of ", dataset.x.cols, " columns, and max_memory_mib is ",
                       settings.max_memory_bytes >> 20, "; raise it, or train on fewer rows"));
    }
    LUTHIER_ASSIGN_OR_RETURN(fold->scaling_,
                             ScalingOf(dataset, partition.train, settings.standardize, settings.intercept, stop));
    if (settings.intercept) fold->offset_ = MeanTarget(dataset.target, partition.train);
    LUTHIER_RETURN_IF_ERROR(fold->train_.Lay(dataset, partition.train, fold->scaling_, fold->offset_, stop));
    LUTHIER_RETURN_IF_ERROR(fold->validation_.Lay(dataset, partition.validation, fold->scaling_, fold->offset_, stop));
    LUTHIER_RETURN_IF_ERROR(fold->third_.Lay(dataset, partition.third, fold->scaling_, fold->offset_, stop));
    const double deviation = std::sqrt(fold->train_.target.squaredNorm() / static_cast<double>(partition.train.size()));
    if (deviation > 0.0 && std::isfinite(deviation)) fold->deviation_ = deviation;
    for (DenseRows* part : {&fold->train_, &fold->validation_, &fold->third_}) part->target /= fold->deviation_;
    return std::shared_ptr<const RegressionFold>(std::move(fold));
  }

  absl::StatusOr<RegressionFit> Fit(const RegressionSettings& settings, bool gradient, std::optional<double> tolerance,
                                    const base::StopToken& stop) const override {
    const bilevel::MlpShape shape{train_.points.cols(), settings.units};
    VectorXd l2(shape.inputs);
    // Targets, and so the output layer, are in units of their deviation. Divided by its square, h has l2 / deviation^2.
    const double square = deviation_ * deviation_;
    for (Index j = 0; j < l2.size(); ++j) {
      l2[j] = std::max(settings.l2[static_cast<size_t>(columns_.IndexOf(j, 1))] / square, kLeastPenalty);
    }
    bilevel::MlpInner inner(shape, &train_.points, &train_.target, columns_, l2, settings.l2_out);
    RegressionFit fit;
    LUTHIER_RETURN_IF_ERROR(Train(settings, shape, inner, stop, &fit));
    if (fit.diverged) return fit;
    const bool ended = fit.outcome == linear::CgOutcome::kConverged || fit.outcome == linear::CgOutcome::kPrecision;
    if (gradient && ended && validation_.points.rows() > 0) {
      bilevel::MlpOuter outer(shape, &validation_.points, &validation_.target);
      VectorXd w = fit.weights;
      LUTHIER_ASSIGN_OR_RETURN(bilevel::ImplicitGradient part,
                               DifferentiateAt(inner, outer, {}, {tolerance}, stop, &w));
      if (part.inner_gradient_norm <= kAtMinimum * fit.first_gradient) {
        part.outer_value *= square;
        part.gradient *= square;
        fit.weights = std::move(w);
        fit.gradient = std::move(part);
      }
    }
    LUTHIER_RETURN_IF_ERROR(Measure(train_, shape, stop, fit.weights, &fit.train_sse, &fit.train_rows));
    LUTHIER_RETURN_IF_ERROR(Measure(validation_, shape, stop, fit.weights, &fit.validation_sse, &fit.validation_rows));
    LUTHIER_RETURN_IF_ERROR(Measure(third_, shape, stop, fit.weights, &fit.third_sse, &fit.third_rows));
    fit.weights.tail(shape.dim() - shape.output()) *= deviation_;
    return fit;
  }

 private:
  // Share of the gradient's norm at the start that may remain if derivatives are to be those of a minimum. A search's
  // tolerance does not change it: elsewhere the Hessian has negative curvature as often as not.
  static constexpr double kAtMinimum = 1e-6;
  static constexpr double kLeastPenalty = 1e-300;
  static constexpr int kNewtonSteps = 12;

  struct DenseRows {
    absl::Status Lay(const data::Dataset& dataset, const std::vector<int32_t>& rows,
                     const data::Standardization& scaling, double offset, const base::StopToken& stop) {
      LUTHIER_ASSIGN_OR_RETURN(points, data::DenseRows(dataset.x, rows, scaling, stop));
      target.resize(static_cast<Index>(rows.size()));
      for (size_t i = 0; i < rows.size(); ++i) {
        target[static_cast<Index>(i)] = dataset.target[static_cast<size_t>(rows[i])] - offset;
      }
      return absl::OkStatus();
    }
    MatrixXd points;
    VectorXd target;
  };

  static absl::Status Train(const RegressionSettings& settings, const bilevel::MlpShape& shape,
                            bilevel::MlpInner& inner, const base::StopToken& stop, RegressionFit* fit) {
    const auto value = [&](const VectorXd& x, VectorXd* g) { return inner.Value(x, g, stop); };
    linear::LbfgsSolver solver;
    LUTHIER_ASSIGN_OR_RETURN(linear::SolveState state,
                             solver.Start(value, bilevel::StartMlp(shape, settings.init_seed)));
    const double first = solver.gradient().norm();
    const double relative = settings.tolerance;
    while (state == linear::SolveState::kRunning && solver.gradient().norm() > relative * first &&
           fit->products < settings.max_iterations) {
      LUTHIER_ASSIGN_OR_RETURN(state, solver.Step(value, stop));
      ++fit->products;
    }
    fit->diverged = state == linear::SolveState::kNonFinite;
    fit->first_gradient = first;
    fit->weights = solver.x();
    if (fit->diverged) return absl::OkStatus();
    double norm = solver.gradient().norm();
    if (norm > relative * first && fit->products < settings.max_iterations) {
      // Newton's steps take over where the solver's steps have become too short for rounding.
      LUTHIER_ASSIGN_OR_RETURN(norm,
                               bilevel::PolishInner(inner, 0.0, {kNewtonSteps}, stop, &fit->weights, relative * first));
    }
    fit->relative_gradient = first > 0.0 ? norm / first : 0.0;
    fit->outcome = norm <= relative * first                  ? linear::CgOutcome::kConverged
                   : state == linear::SolveState::kPrecision ? linear::CgOutcome::kPrecision
                                                             : linear::CgOutcome::kIterationLimit;
    return absl::OkStatus();
  }

  absl::Status Measure(const DenseRows& rows, const bilevel::MlpShape& shape, const base::StopToken& stop,
                       const VectorXd& weights, double* sse, double* count) const {
    LUTHIER_ASSIGN_OR_RETURN(const VectorXd predicted, bilevel::PredictMlp(shape, weights, rows.points, stop));
    *sse = (predicted - rows.target).squaredNorm() * deviation_ * deviation_;
    *count = static_cast<double>(rows.target.size());
    return absl::OkStatus();
  }

  bilevel::ColumnPenalties columns_;
  DenseRows train_, validation_, third_;  // Targets in units of deviation_.
  double deviation_ = 1.0;                // Root mean square of the training targets.
};

}  // namespace

double MeanTarget(const std::vector<double>& target, const std::vector<int32_t>& rows) {
  double mean = 0.0;
  for (size_t i = 0; i < rows.size(); ++i) {
    mean += (target[static_cast<size_t>(rows[i])] - mean) / static_cast<double>(i + 1);
  }
  return mean;
}

absl::StatusOr<data::Standardization> ScalingOf(const data::Dataset& dataset, const std::vector<int32_t>& rows,
                                                bool standardize, bool intercept, const base::StopToken& stop) {
  data::Standardization scaling;
  if (!standardize && !intercept) return scaling;
  LUTHIER_ASSIGN_OR_RETURN(scaling, data::FitStandardization(dataset.x, rows, stop));
  if (!standardize) {
    scaling.deviation.setOnes();
    scaling.constant.clear();
  }
  return scaling;
}

double R2(double errors, double variation) {
  if (variation > 0.0) return 1.0 - errors / variation;
  return errors > 0.0 ? 0.0 : 1.0;
}

RegressionSettings ParseRegressionSettings(const catalogue::ObjectiveInfo& info,
                                           const std::vector<catalogue::PenaltyGroup>& groups,
                                           const catalogue::Settings& settings) {
  RegressionSettings out;
  out.standardize = settings.Bool("standardize");
  out.intercept = settings.Bool("intercept");
  if (settings.IsVector("l2")) {
    out.l2 = settings.Vector("l2");
    out.l2.insert(out.l2.begin(), out.l2.back());  // Number 0 belongs to no column.
  } else {
    out.l2 = catalogue::PenaltiesOf(groups, settings);
  }
  if (info.model == "ridge") {
    const std::string& criterion = settings.Text("criterion");
    if (criterion == "leave_one_out") out.criterion = bilevel::RidgeCriterion::kLeaveOneOut;
    if (criterion == "gcv") out.criterion = bilevel::RidgeCriterion::kGcv;
    if (settings.given("recency")) {
      out.recency = bilevel::Recency{settings.Number("recency"), settings.Number("recency_center")};
    }
  }
  if (info.model == "elastic_net") out.l1 = settings.Number("l1");
  if (info.model == "mlp") {
    out.units = static_cast<int>(settings.Int("units"));
    out.l2_out = settings.Number("l2_out");
    out.init_seed = static_cast<uint64_t>(settings.Int("init_seed"));
  }
  if (info.model == "kernel_ridge") {
    if (settings.IsVector("gamma")) {
      const std::vector<double>& gamma = settings.Vector("gamma");
      out.gamma = Eigen::Map<const VectorXd>(gamma.data(), static_cast<Index>(gamma.size()));
    } else {
      out.gamma = VectorXd::Constant(1, settings.Number("gamma"));
    }
  }
  out.tolerance = settings.Number("tolerance");
  out.max_iterations = static_cast<int>(settings.Int("max_iterations"));
  out.max_memory_bytes = settings.Int("max_memory_mib") << 20;
  if (info.FindParameter("unroll") != nullptr) out.unroll = ParseUnroll(settings);
  return out;
}

namespace {

// Checks that the vectors of one weight a column fit into memory: those of the solver, the scaling, and the products of
// a gradient.
absl::Status CheckWidth(const data::Dataset& dataset, const RegressionSettings& settings) {
  constexpr double kVectorsOfWeights = 16.0;
  const double bytes = 8.0 * kVectorsOfWeights * static_cast<double>(dataset.x.cols);
  if (bytes <= static_cast<double>(settings.max_memory_bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(dataset.name, ": ", dataset.x.cols, " columns take about ", static_cast<int64_t>(bytes / (1 << 20)),
                   " MiB a fold, and max_memory_mib is ", settings.max_memory_bytes >> 20,
                   "; raise it, or number the columns of the file without gaps"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const RegressionFold>> MakeRegressionFold(
    const catalogue::ObjectiveInfo& info, const data::Dataset& dataset,
    const std::vector<std::vector<double>>& more_targets, const data::Partition& partition,
    const RegressionSettings& settings, const bilevel::ColumnPenalties& columns, const base::StopToken& stop) {
  if (info.model != "kernel_ridge" && info.model != "mlp") LUTHIER_RETURN_IF_ERROR(CheckWidth(dataset, settings));
  if (!more_targets.empty()) {
    return TargetsFold::Make(dataset, more_targets, partition, settings, columns, stop);
  }
  if (info.model == "ridge") return RidgeFold::Make(dataset, partition, settings, columns, stop);
  if (info.model == "elastic_net") return ElasticNetFold::Make(dataset, partition, settings, stop);
  if (info.model == "mlp") return MlpFold::Make(dataset, partition, settings, columns, stop);
  return KernelFold::Make(dataset, partition, settings, stop);
}

}  // namespace luthier::objectives
