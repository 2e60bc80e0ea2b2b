#include "lib/objectives/vf_idca_objective.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lib/base/status_macros.h"
#include "lib/bilevel/ridge.h"
#include "lib/bilevel/vf_idca/penalized_quadratic.h"
#include "lib/bilevel/vf_idca/sparse_vf_idca.h"
#include "lib/catalogue/settings.h"
#include "lib/data/standardize.h"
#include "lib/objectives/column_groups.h"
#include "lib/objectives/kept_layouts.h"
#include "lib/objectives/matrix_objective.h"
#include "lib/objectives/regression_fold.h"
#include "lib/objectives/row_source.h"
#include "lib/objectives/vf_svm_objective.h"

namespace luthier::objectives {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr size_t kShownGroups = 20;  // Number of groups in the note.
// Bounds of the first of several starts. The elastic net's multiplier of a tiny squared norm would be huge.
constexpr double kMostPenalisedGroups = 0.7, kMostPenalisedNet = 0.4;
constexpr double kLeastBound = 0.01;  // Least bound, as a share of the least bound at the start.
// Largest gap of every convex problem on the way, for training to count as converged.
constexpr double kProvenGap = 1e-5;
constexpr int32_t kMostColumns = 4000;  // Factorizations of that size take about a second.
constexpr int kModelSweeps = 5000;
constexpr int kIdleStarts = 2;  // Starts in a row without a better refit, after which the others are left out.
constexpr int kPatience = 5;    // Steps of a start without a better refit, beyond which it mostly overfits.

// The rows of one split, with targets in units of the training targets' deviation.
struct Rows {
  bilevel::SparseVfProblem problem;
  bilevel::SparseVfRows third;
  double deviation = 1.0;  // Deviation of the training targets.
  double train_rows = 0.0, third_rows = 0.0;
  double validation_variance = 0.0, third_variance = 0.0;  // Variances of their targets, in user units.
  data::Standardization scaling;
  double offset = 0.0;
};

absl::StatusOr<bilevel::SparseVfRows> Normalised(const bilevel::LeastSquaresData& rows, double deviation,
                                                 const base::StopToken& stop) {
  bilevel::SparseVfRows out;
  if (rows.rows() == 0) return out;
  const double n = static_cast<double>(rows.rows());
  LUTHIER_ASSIGN_OR_RETURN(out.gram, rows.Gram(stop));
  out.gram /= n;
  LUTHIER_ASSIGN_OR_RETURN(out.product, rows.MultiplyTransposed(rows.target(), stop));
  out.product /= n * deviation;
  out.half_square = 0.5 * rows.target().squaredNorm() / (n * deviation * deviation);
  return out;
}

class SparseObjective final : public VfIdcaObjective {
 public:
  SparseObjective(catalogue::ObjectiveInfo info, study::Parameters options, study::SearchSpace space, RowSource source,
                  ColumnGroups groups)
      : info_(std::move(info)),
        options_(std::move(options)),
        space_(std::move(space)),
        source_(std::move(source)),
        groups_(std::move(groups)) {}

  const catalogue::ObjectiveInfo& info() const override { return info_; }
  absl::StatusOr<EvaluationResult> Run(const EvaluationContext& context,
                                       std::vector<Strength>* strengths) const override;
  absl::StatusOr<SparseModel> Train(const EvaluationContext& context) const override;

 private:
  bool grouped() const { return !groups_.columns.empty(); }
  absl::StatusOr<Rows> Lay(const data::Partition& partition, bool standardize, bool intercept,
                           const base::StopToken& stop) const;
  // Returns the strengths for gamma, beside sums over rows and in user units.
  std::vector<Strength> Strengths(const Rows& rows, const VectorXd& gamma) const;

  const catalogue::ObjectiveInfo info_;
  const study::Parameters options_;
  const study::SearchSpace space_;
  const RowSource source_;
  const ColumnGroups groups_;
  mutable KeptLayouts<std::pair<bool, bool>, Rows> layouts_;  // By standardize and intercept.
};

absl::StatusOr<Rows> SparseObjective::Lay(const data::Partition& partition, bool standardize, bool intercept,
                                          const base::StopToken& stop) const {
  const data::Dataset& dataset = source_.dataset;
  LUTHIER_ASSIGN_OR_RETURN(data::Standardization scaling,
                           ScalingOf(dataset, partition.train, standardize, intercept, stop));
  const double mean = intercept ? MeanTarget(dataset.target, partition.train) : 0.0;
  const auto lay = [&](const std::vector<int32_t>& some) {
    return bilevel::LeastSquaresData::Create(dataset, some, scaling, mean, stop);
  };
  LUTHIER_ASSIGN_OR_RETURN(const bilevel::LeastSquaresData train, lay(partition.train));
  LUTHIER_ASSIGN_OR_RETURN(const bilevel::LeastSquaresData validation, lay(partition.validation));
  LUTHIER_ASSIGN_OR_RETURN(const bilevel::LeastSquaresData third, lay(partition.third));
  Rows rows;
  rows.deviation = std::sqrt(train.target().squaredNorm() / static_cast<double>(train.rows()));
  if (!(rows.deviation > 0.0)) rows.deviation = 1.0;
  rows.train_rows = static_cast<double>(train.rows());
  rows.third_rows = static_cast<double>(third.rows());
  rows.validation_variance = Variance(validation.target());
  rows.third_variance = Variance(third.target());
  rows.scaling = std::move(scaling);
  rows.offset = mean;
  LUTHIER_ASSIGN_OR_RETURN(rows.problem.train, Normalised(train, rows.deviation, stop));
  LUTHIER_ASSIGN_OR_RETURN(rows.problem.validation, Normalised(validation, rows.deviation, stop));
  LUTHIER_ASSIGN_OR_RETURN(rows.third, Normalised(third, rows.deviation, stop));
  rows.problem.penalties.groups = groups_.columns;
  rows.problem.penalties.ridge = !grouped();
  return rows;
}

std::vector<Strength> SparseObjective::Strengths(const Rows& rows, const VectorXd& gamma) const {
  // With y = s y' and w = s w' the mean of squares has s^2, norms have s, and the squared norm s^2.
  const bilevel::SparsePenalties& penalties = rows.problem.penalties;
  const double norms = rows.train_rows * rows.deviation;
  std::vector<Strength> out = {{"l1", gamma[penalties.l1()] * norms}};
  if (penalties.ridge) out.push_back({"l2", gamma[penalties.l2()] * rows.train_rows});
  for (Index m = 0; m < penalties.group_count(); ++m) {
    out.push_back({absl::StrCat("group.", groups_.names[static_cast<size_t>(m)]), gamma[m] * norms});
  }
  return out;
}

absl::StatusOr<SparseModel> SparseObjective::Train(const EvaluationContext& context) const {
  std::vector<Strength> strengths;
  LUTHIER_ASSIGN_OR_RETURN(const EvaluationResult found, Run(context, &strengths));
  LUTHIER_RETURN_IF_ERROR(context.stop.Poll());
  if (!found.measurement) {
    return absl::FailedPreconditionError(
        absl::StrCat("no strengths were found: ", found.failure ? found.failure->message : "stopped"));
  }
  LUTHIER_ASSIGN_OR_RETURN(const catalogue::Settings settings,
                           catalogue::Settings::Resolve(info_, options_, context.parameters));
  data::Partition all;
  // Rows of split.validation_data are another file's.
  const int64_t own = source_.dataset.x.rows - source_.dataset.appended;
  for (int64_t i = 0; i < own; ++i) all.train.push_back(static_cast<int32_t>(i));
  LUTHIER_ASSIGN_OR_RETURN(const Rows rows,
                           Lay(all, settings.Bool("standardize"), settings.Bool("intercept"), context.stop));
  const bilevel::SparsePenalties& penalties = rows.problem.penalties;
  // This is the reverse of Strengths.
  VectorXd mu(penalties.count());
  for (size_t k = 0; k < strengths.size(); ++k) {
    const bool squared = strengths[k].name == "l2";
    const Index i = k == 0 ? penalties.l1() : squared ? penalties.l2() : static_cast<Index>(k) - 1;
    mu[i] = strengths[k].value / (rows.train_rows * (squared ? 1.0 : rows.deviation));
  }
  bilevel::Quadratic quadratic;
  quadratic.a = &rows.problem.train.gram;
  quadratic.c = rows.problem.train.product;
  LUTHIER_ASSIGN_OR_RETURN(
      const bilevel::PenalizedMinimum minimum,
      MinimizePenalized(quadratic, penalties, mu, VectorXd::Zero(quadratic.c.size()), kModelSweeps, context.stop));
  SparseModel model;
  model.weights = rows.deviation * minimum.x;
  model.offset = rows.offset;
  model.scaling = rows.scaling;
  LUTHIER_ASSIGN_OR_RETURN(model.fingerprint, data::Fingerprint(source_.dataset, context.stop));
  model.rows = own;
  model.train_loss = 2.0 * rows.deviation * rows.deviation * rows.problem.train.Loss(minimum.x);
  model.converged = minimum.exact && found.measurement->training->outcome == study::TrainingOutcome::kConverged;
  model.features = source_.dataset.features;
  model.label_name = source_.dataset.label_name;
  return model;
}

absl::StatusOr<EvaluationResult> SparseObjective::Run(const EvaluationContext& context,
                                                      std::vector<Strength>* strengths) const {
  LUTHIER_ASSIGN_OR_RETURN(const catalogue::Settings settings,
                           catalogue::Settings::Resolve(info_, options_, context.parameters));
  LUTHIER_RETURN_IF_ERROR(CheckComplete(space_, context.parameters));
  EvaluationResult result;
  const base::StopToken& stop = context.stop;
  const bool standardize = settings.Bool("standardize"), intercept = settings.Bool("intercept");
  study::Measurement last;
  const auto run = [&]() -> absl::Status {
    LUTHIER_ASSIGN_OR_RETURN(const std::shared_ptr<const Rows> rows, layouts_.Get({standardize, intercept}, stop, [&] {
      return Lay(source_.folds.front(), standardize, intercept, stop);
    }));
    if (context.started) context.started(false, 0);
    if (context.first_gradient) context.first_gradient();
    const bilevel::SparseVfProblem& problem = rows->problem;
    bilevel::VfIdcaOptions options =
        grouped() ? bilevel::SparseGroupLassoVfOptions(problem.penalties.count()) : bilevel::ElasticNetVfOptions();
    options.tolerance = settings.Number("tolerance");
    options.patience = kPatience;
    options.max_steps = static_cast<int>(settings.Int("max_steps"));
    const double square = rows->deviation * rows->deviation;
    const auto report = [&](const bilevel::VfIdcaStep& step) {
      if (!context.report) return true;
      study::Measurement point;
      point.step = last.step;
      point.metrics["validation_loss"] = 2.0 * square * step.refit_validation_loss;
      point.metrics["iterate_loss"] = 2.0 * square * step.validation_loss;
      point.metrics["violation"] = step.violation;
      point.metrics["l1"] = Strengths(*rows, step.gamma).front().value;
      return context.report(point);
    };
    bool stopped = false, converged = true;
    double worst_gap = 0.0;
    std::optional<bilevel::VfIdcaResult> best;
    const auto starts = static_cast<int>(settings.Int("starts"));
    const double least = settings.Number("start");
    int idle = 0;  // Number of starts since the last better refit.
    for (int k = 0; k < starts && !stopped && idle < kIdleStarts; ++k) {
      ++idle;
      // The starts descend from kMostPenalised, evenly on a log scale; a single start is the least.
      const double share = starts == 1 ? 1.0 : static_cast<double>(k) / (starts - 1);
      const double from = std::max(grouped() ? kMostPenalisedGroups : kMostPenalisedNet, least);
      const double strength = from * std::pow(least / from, share);
      LUTHIER_ASSIGN_OR_RETURN(options.start, bilevel::StartingBounds(problem, strength, stop));
      options.least_bound = kLeastBound * options.start.minCoeff();
      double violation = 0.0;
      LUTHIER_ASSIGN_OR_RETURN(bilevel::VfIdcaResult found, bilevel::RunSparseVfIdca(
                                                                problem, options,
                                                                [&](const bilevel::VfIdcaStep& step) {
                                                                  ++last.step;
                                                                  violation = step.violation;
                                                                  stopped = !report(step);
                                                                  return !stopped;
                                                                },
                                                                stop));
      converged = converged && (found.converged || !found.patient) && found.worst_gap <= kProvenGap;
      worst_gap = std::max(worst_gap, found.worst_gap);
      if (found.best_step < 0) {  // No penalty was ever active.
        found.best_refit = found.refit;
        found.best_gamma = VectorXd::Zero(problem.penalties.count());
      }
      if (best && found.best_loss >= best->best_loss) continue;
      best = std::move(found);
      idle = 0;
      last.metrics["violation"] = violation;
    }
    if (stopped) result.outcome = EvaluationOutcome::kStopped;
    const double validation = 2.0 * square * problem.validation.Loss(best->best_refit);
    last.metrics["validation_loss"] = validation;
    last.metrics["validation_r2"] = R2(validation, rows->validation_variance);
    last.metrics["train_loss"] = 2.0 * square * problem.train.Loss(best->best_refit);
    last.metrics["iterate_loss"] = 2.0 * square * problem.validation.Loss(best->x);
    last.metrics["nonzero"] = static_cast<double>((best->best_refit.array() != 0.0).count());
    if (rows->third_rows > 0.0) {
      const double third = 2.0 * square * rows->third.Loss(best->best_refit);
      last.metrics["third_loss"] = third;
      last.metrics["third_r2"] = R2(third, rows->third_variance);
    }
    std::vector<Strength> all = Strengths(*rows, best->best_gamma);
    last.metrics["l1"] = all[0].value;
    if (!grouped()) {
      last.metrics["l2"] = all[1].value;
    } else {
      std::vector<std::string> shown;
      for (size_t k = 1; k < std::min(all.size(), kShownGroups + 1); ++k) {
        shown.push_back(absl::StrFormat("%s %.4g", all[k].name, all[k].value));
      }
      result.note = absl::StrCat("strengths: ", absl::StrJoin(shown, ", "),
                                 all.size() > kShownGroups + 1 ? ", and more (luthier bilevel shows all)" : "");
    }
    last.training.emplace().outcome = converged ? study::TrainingOutcome::kConverged : study::TrainingOutcome::kLimit;
    last.training->duality_gap = worst_gap;
    if (best->best_gamma.maxCoeff() == 0.0) {
      result.note =
          "all strengths are 0: no penalty binds at any bounds found. With more columns than training rows the refit "
          "is one of many that fit them exactly, and its validation_loss means nothing; use more starts, or raise "
          "start";
    }
    if (strengths != nullptr) *strengths = std::move(all);
    return absl::OkStatus();
  };
  const absl::Status status = run();
  if (absl::IsCancelled(status)) {
    result.outcome = EvaluationOutcome::kCancelled;
    return result;
  }
  LUTHIER_RETURN_IF_ERROR(status);
  return WithMeasurement(std::move(last), std::move(result));
}

}  // namespace

double Variance(const VectorXd& y) {
  return y.size() == 0 ? 0.0 : (y.array() - y.mean()).square().mean();
}

absl::Status CheckComplete(const study::SearchSpace& space, const study::Parameters& parameters) {
  for (const study::ParameterSpec& p : space.parameters()) {
    if (!parameters.contains(p.name)) return absl::InvalidArgumentError(absl::StrCat(p.name, " is missing"));
  }
  return absl::OkStatus();
}

EvaluationResult WithMeasurement(study::Measurement measurement, EvaluationResult result) {
  for (const auto& [name, value] : measurement.metrics) {
    if (std::isfinite(value)) continue;
    result.outcome = EvaluationOutcome::kFailed;
    result.failure = study::Failure{study::FailureKind::kConfig, study::failure::kNonFinite,
                                    absl::StrCat(name, " is ", study::FormatDouble(value))};
    return result;
  }
  result.measurement = std::move(measurement);
  return result;
}

absl::StatusOr<std::unique_ptr<VfIdcaObjective>> CreateVfIdcaObjective(const NewObjective& of,
                                                                       const base::StopToken& stop) {
  if (of.info.model == "vf_svm") return CreateVfSvmObjective(of, stop);
  if (of.info.model == "vf_matrix_completion") return CreateVfMatrixObjective(of, stop);
  LUTHIER_ASSIGN_OR_RETURN(RowSource source, LoadRows(of.spec, data::Task::kRegression, of.root, of.cache, stop));
  LUTHIER_ASSIGN_OR_RETURN(const catalogue::Settings settings,
                           catalogue::Settings::Resolve(of.info, of.spec.options, {}));
  // Gram matrices of training and validation rows, a factor and a copy.
  const double cols = source.dataset.x.cols;
  const double bytes = 8.0 * 4.0 * cols * cols;
  const int64_t most = settings.Int("max_memory_mib");
  if (source.dataset.x.cols > kMostColumns) {
    return absl::InvalidArgumentError(absl::StrCat(source.dataset.name, ": ", of.info.model, " takes at most ",
                                                   kMostColumns, " columns, and there are ", source.dataset.x.cols,
                                                   "; use elastic_net, or leave columns out"));
  }
  if (bytes > static_cast<double>(most << 20)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        source.dataset.name, ": ", of.info.model, " takes about ", static_cast<int64_t>(bytes / (1 << 20)), " MiB for ",
        source.dataset.x.cols, " columns, and max_memory_mib is ", most, "; raise it, or leave columns out"));
  }
  ColumnGroups groups;
  if (of.info.FindParameter("groups") != nullptr) {
    const data::Dataset& dataset = source.dataset;
    LUTHIER_ASSIGN_OR_RETURN(groups, GroupsFor(settings, {dataset.name, dataset.x.cols, dataset.features}));
  }
  return std::make_unique<SparseObjective>(of.info, of.spec.options, of.space, std::move(source), std::move(groups));
}

}  // namespace luthier::objectives
