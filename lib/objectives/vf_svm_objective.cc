#include "lib/objectives/vf_svm_objective.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lib/base/status_macros.h"
#include "lib/bilevel/vf_idca/svm_vf_idca.h"
#include "lib/catalogue/settings.h"
#include "lib/data/standardize.h"
#include "lib/objectives/kept_layouts.h"
#include "lib/objectives/regression_fold.h"
#include "lib/objectives/row_source.h"

namespace luthier::objectives {
namespace {

using bilevel::SvmFold;
using bilevel::SvmProblem;
using bilevel::SvmRows;
using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Largest size of the matrices that steps factor, with one row for each column of each fold and of the bounds: about .2
// s each.
constexpr int64_t kMostSize = 1600;
// Largest gap of every convex problem on the way, for the search to count as converged.
constexpr double kSvmGap = 1e-5;
constexpr int kSvmPatience = 5;         // Steps without a better refit, beyond which it mostly overfits.
constexpr double kLeastGain = 1e-3;     // Share of the loss by which a refit must be better to count as such.
constexpr size_t kShownColumns = 20;    // Number of columns in the note.
constexpr double kNonzeroShare = 1e-3;  // Smaller bounds, as a share of the largest, leave a column out.
constexpr double kModelGap = 1e-7;

// The folds of a data set.
struct SvmLayout {
  SvmProblem problem;
  std::vector<SvmRows> third;  // One for each fold, or none.
};

class SvmObjective final : public VfIdcaObjective {
 public:
  SvmObjective(catalogue::ObjectiveInfo info, study::Parameters options, study::SearchSpace space, RowSource source)
      : info_(std::move(info)), options_(std::move(options)), space_(std::move(space)), source_(std::move(source)) {}

  const catalogue::ObjectiveInfo& info() const override { return info_; }

  absl::StatusOr<EvaluationResult> Run(const EvaluationContext& context,
                                       std::vector<Strength>* strengths) const override;
  absl::StatusOr<SparseModel> Train(const EvaluationContext& context) const override;

 private:
  absl::StatusOr<SvmRows> Rows(const std::vector<int32_t>& some, const data::Standardization& scaling,
                               const base::StopToken& stop) const;
  absl::StatusOr<SvmLayout> Lay(bool standardize, const base::StopToken& stop) const;
  absl::StatusOr<study::Measurement> Search(const catalogue::Settings& settings, const EvaluationContext& context,
                                            std::vector<Strength>* strengths, EvaluationResult* result) const;
  std::string ColumnName(Index j) const {
    const std::vector<std::string>& names = source_.dataset.features;
    return names.empty() ? absl::StrCat(j + 1) : names[static_cast<size_t>(j)];
  }

  const catalogue::ObjectiveInfo info_;
  const study::Parameters options_;
  const study::SearchSpace space_;
  const RowSource source_;
  mutable KeptLayouts<bool, SvmLayout> layouts_;  // By standardize.
};

absl::StatusOr<SvmRows> SvmObjective::Rows(const std::vector<int32_t>& some, const data::Standardization& scaling,
                                           const base::StopToken& stop) const {
  SvmRows rows;
  LUTHIER_ASSIGN_OR_RETURN(rows.x, data::DenseRows(source_.dataset.x, some, scaling, stop));
  rows.y.resize(static_cast<Index>(some.size()));
  for (size_t i = 0; i < some.size(); ++i) {
    rows.y[static_cast<Index>(i)] = source_.dataset.label[static_cast<size_t>(some[i])] == 1 ? 1.0 : -1.0;
  }
  return rows;
}

absl::StatusOr<SvmLayout> SvmObjective::Lay(bool standardize, const base::StopToken& stop) const {
  SvmLayout out;
  for (const data::Partition& partition : source_.folds) {
    LUTHIER_ASSIGN_OR_RETURN(const data::Standardization scaling,
                             ScalingOf(source_.dataset, partition.train, standardize, /*intercept=*/true, stop));
    SvmFold fold;
    LUTHIER_ASSIGN_OR_RETURN(fold.train, Rows(partition.train, scaling, stop));
    LUTHIER_ASSIGN_OR_RETURN(fold.validation, Rows(partition.validation, scaling, stop));
    out.problem.folds.push_back(std::move(fold));
    if (partition.third.empty()) continue;
    LUTHIER_ASSIGN_OR_RETURN(SvmRows third, Rows(partition.third, scaling, stop));
    out.third.push_back(std::move(third));
  }
  return out;
}

absl::StatusOr<EvaluationResult> SvmObjective::Run(const EvaluationContext& context,
                                                   std::vector<Strength>* strengths) const {
  LUTHIER_RETURN_IF_ERROR(CheckComplete(space_, context.parameters));
  LUTHIER_ASSIGN_OR_RETURN(const catalogue::Settings settings,
                           catalogue::Settings::Resolve(info_, options_, context.parameters));
  EvaluationResult result;
  absl::StatusOr<study::Measurement> measurement = Search(settings, context, strengths, &result);
  if (absl::IsCancelled(measurement.status())) {
    result.outcome = EvaluationOutcome::kCancelled;
    return result;
  }
  LUTHIER_RETURN_IF_ERROR(measurement.status());
  return WithMeasurement(*std::move(measurement), std::move(result));
}

absl::StatusOr<study::Measurement> SvmObjective::Search(const catalogue::Settings& settings,
                                                        const EvaluationContext& context,
                                                        std::vector<Strength>* strengths,
                                                        EvaluationResult* result) const {
  const bool standardize = settings.Bool("standardize");
  LUTHIER_ASSIGN_OR_RETURN(const auto layout,
                           layouts_.Get(standardize, context.stop, [&] { return Lay(standardize, context.stop); }));
  const SvmProblem& problem = layout->problem;
  const Index p = problem.columns();
  if (context.started) context.started(false, 0);
  if (context.first_gradient) context.first_gradient();
  bilevel::VfIdcaOptions options = bilevel::SvmVfOptions(p);
  options.tolerance = settings.Number("tolerance");
  options.max_steps = static_cast<int>(settings.Int("max_steps"));
  options.patience = kSvmPatience;
  options.least_gain = kLeastGain;
  bilevel::SvmVfProblem solver(&problem, &options);
  // The multiplier of the norm's bound is a sum over folds.
  const double folds = static_cast<double>(problem.folds.size());
  study::Measurement last;
  bool stopped = false;
  const auto report = [&](const bilevel::VfIdcaStep& step) {
    study::Measurement point;
    point.step = ++last.step;
    point.metrics["validation_loss"] = step.refit_validation_loss;
    point.metrics["iterate_loss"] = step.validation_loss;
    point.metrics["violation"] = last.metrics["violation"] = step.violation;
    point.metrics["l2"] = step.gamma[0] / folds;
    stopped = context.report && !context.report(point);
    return !stopped;
  };
  const auto starts = static_cast<int>(settings.Int("starts"));
  const double least = settings.Number("start");
  bilevel::VfIdcaResult found;
  bool converged = true;
  double worst_gap = 0.0;
  for (int k = 0; k < starts && !stopped; ++k) {
    // The starts ascend from `start` to 1, evenly on a log scale; a single one is `start`.
    const double share = starts == 1 ? 0.0 : static_cast<double>(k) / (starts - 1);
    options.start.tail(p).setConstant(std::pow(least, 1.0 - share));
    LUTHIER_ASSIGN_OR_RETURN(bilevel::VfIdcaResult next, bilevel::RunVfIdca(solver, options, report, context.stop));
    converged = converged && (next.converged || !next.patient) && next.worst_gap <= kSvmGap;
    worst_gap = std::max(worst_gap, next.worst_gap);
    if (k == 0 || next.best_loss < found.best_loss) found = std::move(next);
  }
  if (stopped) result->outcome = EvaluationOutcome::kStopped;
  const bool bound = found.best_step >= 0;
  const VectorXd& refit = bound ? found.best_refit : found.refit;
  const VectorXd& r = bound ? found.best_r : found.r;
  const double l2 = bound ? found.best_gamma[0] / folds : 0.0;
  double correct = 0.0, third_loss = 0.0, third_correct = 0.0;
  for (size_t k = 0; k < problem.folds.size(); ++k) {
    const VectorXd model = refit.segment(static_cast<Index>(k) * (p + 1), p + 1);
    correct += (1.0 - bilevel::ErrorRate(problem.folds[k].validation, model)) / folds;
    if (layout->third.empty()) continue;
    third_loss += bilevel::MeanHinge(layout->third[k], model) / folds;
    third_correct += (1.0 - bilevel::ErrorRate(layout->third[k], model)) / folds;
  }
  last.metrics["validation_loss"] = solver.ValidationLoss(refit);
  last.metrics["validation_accuracy"] = correct;
  last.metrics["train_loss"] = solver.TrainLoss(refit) / folds;
  last.metrics["iterate_loss"] = solver.ValidationLoss(found.x);
  if (!layout->third.empty()) {
    last.metrics["third_loss"] = third_loss;
    last.metrics["third_accuracy"] = third_correct;
  }
  last.metrics["l2"] = l2;
  const VectorXd bounds = r.tail(p);
  last.metrics["nonzero"] = static_cast<double>((bounds.array() >= kNonzeroShare * bounds.maxCoeff()).count());
  std::vector<Strength> all = {{"l2", l2}, {"norm", std::sqrt(2.0 * r[0])}};
  std::vector<std::string> shown;
  for (Index j = 0; j < p; ++j) {
    all.push_back({absl::StrCat("bound.", ColumnName(j)), bounds[j]});
    if (static_cast<size_t>(j) < kShownColumns) shown.push_back(absl::StrFormat("%s %.4g", ColumnName(j), bounds[j]));
  }
  result->note = absl::StrCat("bounds: ", absl::StrJoin(shown, ", "),
                              static_cast<size_t>(p) > kShownColumns ? ", and more (luthier bilevel shows all)" : "");
  last.training.emplace().outcome = converged ? study::TrainingOutcome::kConverged : study::TrainingOutcome::kLimit;
  last.training->duality_gap = worst_gap;
  if (strengths != nullptr) *strengths = std::move(all);
  return last;
}

absl::StatusOr<SparseModel> SvmObjective::Train(const EvaluationContext& context) const {
  std::vector<Strength> strengths;
  LUTHIER_ASSIGN_OR_RETURN(const EvaluationResult found, Run(context, &strengths));
  LUTHIER_RETURN_IF_ERROR(context.stop.Poll());
  if (!found.measurement) {
    return absl::FailedPreconditionError(
        absl::StrCat("no bounds were found: ", found.failure ? found.failure->message : "stopped"));
  }
  LUTHIER_ASSIGN_OR_RETURN(const catalogue::Settings settings,
                           catalogue::Settings::Resolve(info_, options_, context.parameters));
  // Rows of split.validation_data are another file's.
  const int64_t own = source_.dataset.x.rows - source_.dataset.appended;
  std::vector<int32_t> rows;
  for (int64_t i = 0; i < own; ++i) rows.push_back(static_cast<int32_t>(i));
  SparseModel model;
  LUTHIER_ASSIGN_OR_RETURN(
      model.scaling, ScalingOf(source_.dataset, rows, settings.Bool("standardize"), /*intercept=*/true, context.stop));
  LUTHIER_ASSIGN_OR_RETURN(const SvmRows all, Rows(rows, model.scaling, context.stop));
  const auto p = static_cast<Index>(strengths.size()) - 2;
  VectorXd r(p + 1);
  r[0] = std::max(1e-12, 0.5 * strengths[1].value * strengths[1].value);
  for (Index j = 0; j < p; ++j) r[j + 1] = strengths[static_cast<size_t>(j) + 2].value;
  LUTHIER_ASSIGN_OR_RETURN(const bilevel::VfLower trained, bilevel::TrainBoundedSvm(all, r, kModelGap, context.stop));
  model.weights = trained.x.head(p);
  model.offset = -trained.x[p];
  LUTHIER_ASSIGN_OR_RETURN(model.fingerprint, data::Fingerprint(source_.dataset, context.stop));
  model.rows = own;
  model.train_loss = trained.value;
  model.converged = bilevel::RelativeGap(trained.gap, trained.value) <= kSvmGap &&
                    found.measurement->training->outcome == study::TrainingOutcome::kConverged;
  model.features = source_.dataset.features;
  model.label_name = source_.dataset.label_name;
  model.classes = source_.dataset.classes;
  return model;
}

}  // namespace

absl::StatusOr<std::unique_ptr<VfIdcaObjective>> CreateVfSvmObjective(const NewObjective& of,
                                                                      const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(RowSource source, LoadRows(of.spec, data::Task::kClassification, of.root, of.cache, stop));
  const data::Dataset& dataset = source.dataset;
  if (dataset.num_classes() != 2) {
    return absl::InvalidArgumentError(absl::StrCat(dataset.name, ": vf_svm tells two classes apart, and there are ",
                                                   dataset.num_classes(), "; use hsvm"));
  }
  const auto folds = static_cast<int64_t>(source.folds.size());
  if (dataset.x.cols * (folds + 1) > kMostSize) {
    return absl::InvalidArgumentError(absl::StrCat(
        dataset.name, ": vf_svm takes at most ", kMostSize / (folds + 1), " columns with ", folds,
        folds == 1 ? " split" : " folds", ", and there are ", dataset.x.cols, "; use hsvm, or leave columns out"));
  }
  return std::make_unique<SvmObjective>(of.info, of.spec.options, of.space, std::move(source));
}

}  // namespace luthier::objectives
