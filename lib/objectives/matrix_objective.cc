#include "lib/objectives/matrix_objective.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/bilevel/matrix_completion.h"
#include "lib/bilevel/vf_idca/matrix_vf_idca.h"
#include "lib/catalogue/matrix_info.h"
#include "lib/catalogue/settings.h"
#include "lib/data/nearest_column.h"
#include "lib/data/standardize.h"
#include "lib/math/svd.h"
#include "lib/objectives/column_groups.h"
#include "lib/objectives/kept_layouts.h"
#include "lib/objectives/regression_fold.h"
#include "lib/objectives/row_source.h"

namespace luthier::objectives {
namespace {

using bilevel::MatrixEntries;
using bilevel::MatrixProblem;
using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kLeastMatrixBound = 1e-4;  // Least bound of VF-iDCA, as a share of the least at the start.
// Largest gap of every convex problem on the way, for the search to count as converged.
constexpr double kMatrixGap = 1e-5;
constexpr int kMatrixPatience = 5;         // Steps without a better refit, beyond which it mostly overfits.
constexpr double kLeastMatrixGain = 2e-3;  // Share of the loss by which a refit must be better to count as such.
constexpr double kMostWork = 6e10;         // Operations for one problem, about half a minute.
constexpr size_t kShownStrengths = 20;     // Number of strengths in the note.
constexpr double kRankCutOff = 1e-6;       // Singular values below this share of the largest are rounding.

// The entries of a data set.
struct MatrixTable {
  RowSource source;
  std::vector<Index> row, col;  // Indices of the row and column of each entry.
  Index rows = 0, cols = 0;
  std::vector<Index> features;  // Columns of the data set.
  ColumnGroups groups;          // Groups of `features`, by position.
};

// One split of the entries, with values in units of the training values' deviation.
struct MatrixFold {
  MatrixProblem problem;
  MatrixEntries third;
  double deviation = 1.0;
  double validation_variance = 0.0, third_variance = 0.0;  // In units of the data.

  double square() const { return deviation * deviation; }
  double Loss(const MatrixEntries& entries, const VectorXd& x) const {
    return 2.0 * square() * bilevel::MatrixLoss(problem, entries, x);
  }
};

// Returns the column of the data set that option `name` names; `otherwise` if it is empty.
absl::StatusOr<Index> FindColumn(const data::Dataset& dataset, const std::string& name, const std::string& text,
                                 Index otherwise) {
  const auto error = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", dataset.name, " ", what));
  };
  if (text.empty()) {
    if (otherwise < dataset.x.cols) return otherwise;
    return error(absl::StrCat("has ", dataset.x.cols,
                              " columns beside the label, and the numbers of an entry's row and column take two"));
  }
  for (size_t j = 0; j < dataset.features.size(); ++j) {
    if (dataset.features[j] == text) return static_cast<Index>(j);
  }
  int64_t number = 0;
  if (absl::SimpleAtoi(text, &number) && number >= 1 && number <= dataset.x.cols) return number - 1;
  return error(absl::StrCat("has no column ", base::Quote(text), data::NearestColumn(text, dataset.features),
                            "; give a name or a number from 1 to ", dataset.x.cols));
}

// Numbers the distinct values of a column from 0 in *index; returns how many there are.
Index Number(const data::SparseMatrix& x, Index column, std::vector<Index>* index) {
  std::vector<double> values(static_cast<size_t>(x.rows), 0.0);
  for (int64_t i = 0; i < x.rows; ++i) {
    for (int64_t k = x.row_start[static_cast<size_t>(i)]; k < x.row_start[static_cast<size_t>(i) + 1]; ++k) {
      if (x.column[static_cast<size_t>(k)] == column) values[static_cast<size_t>(i)] = x.value[static_cast<size_t>(k)];
    }
  }
  std::map<double, Index> numbers;
  for (const double value : values) numbers.try_emplace(value, 0);
  Index next = 0;
  for (auto& [value, number] : numbers) number = next++;
  index->reserve(values.size());
  for (const double value : values) index->push_back(numbers.at(value));
  return next;
}

absl::StatusOr<MatrixTable> ReadTable(const catalogue::ObjectiveInfo& info, const study::BuiltinObjective& objective,
                                      const data::DataRoot* root, const data::DataCache* cache,
                                      const base::StopToken& stop) {
  MatrixTable table;
  study::Parameters unused;  // The values that trials bring are not known yet.
  for (const catalogue::ParameterInfo& p : info.parameters) {
    if (p.required() && !objective.options.contains(p.name)) unused[p.name] = p.suggested_min;
  }
  LUTHIER_ASSIGN_OR_RETURN(table.source, LoadRows(objective, data::Task::kRegression, root, cache, stop));
  LUTHIER_ASSIGN_OR_RETURN(const catalogue::Settings settings,
                           catalogue::Settings::Resolve(info, objective.options, unused));
  const data::Dataset& dataset = table.source.dataset;
  LUTHIER_ASSIGN_OR_RETURN(const Index row, FindColumn(dataset, "row", settings.Text("row"), 0));
  LUTHIER_ASSIGN_OR_RETURN(const Index col, FindColumn(dataset, "column", settings.Text("column"), row == 1 ? 0 : 1));
  if (row == col) {
    return absl::InvalidArgumentError(
        absl::StrCat(dataset.name, ": row and column are the same column, ", row + 1, "; give two"));
  }
  table.rows = Number(dataset.x, row, &table.row);
  table.cols = Number(dataset.x, col, &table.col);
  std::vector<std::string> names;
  for (Index j = 0; j < dataset.x.cols; ++j) {
    if (j == row || j == col) continue;
    table.features.push_back(j);
    if (!dataset.features.empty()) names.push_back(dataset.features[static_cast<size_t>(j)]);
  }
  LUTHIER_ASSIGN_OR_RETURN(table.groups,
                           GroupsFor(settings, {dataset.name, static_cast<int64_t>(table.features.size()), names}));
  return table;
}

absl::Status TooLarge(const MatrixTable& table, absl::string_view most, absl::string_view remedy) {
  return absl::InvalidArgumentError(absl::StrCat(table.source.dataset.name, ": the matrix has ", table.rows,
                                                 " rows and ", table.cols, " columns, and at most ", most, "; ",
                                                 remedy));
}

absl::StatusOr<MatrixFold> Lay(const MatrixTable& table, const data::Partition& partition, bool standardize,
                               bool intercept, const base::StopToken& stop) {
  const data::Dataset& dataset = table.source.dataset;
  LUTHIER_ASSIGN_OR_RETURN(const data::Standardization scaling,
                           ScalingOf(dataset, partition.train, standardize, intercept, stop));
  const double mean = intercept ? MeanTarget(dataset.target, partition.train) : 0.0;
  MatrixFold fold;
  fold.problem.rows = table.rows;
  fold.problem.cols = table.cols;
  fold.problem.groups = table.groups.columns;
  const auto lay = [&](const std::vector<int32_t>& some, MatrixEntries* entries) -> absl::Status {
    LUTHIER_ASSIGN_OR_RETURN(const MatrixXd all, data::DenseRows(dataset.x, some, scaling, stop));
    entries->features = all(Eigen::all, table.features);
    entries->value.resize(static_cast<Index>(some.size()));
    for (size_t e = 0; e < some.size(); ++e) {
      const auto at = static_cast<size_t>(some[e]);
      entries->row.push_back(table.row[at]);
      entries->col.push_back(table.col[at]);
      entries->value[static_cast<Index>(e)] = dataset.target[at] - mean;
    }
    return absl::OkStatus();
  };
  LUTHIER_RETURN_IF_ERROR(lay(partition.train, &fold.problem.train));
  LUTHIER_RETURN_IF_ERROR(lay(partition.validation, &fold.problem.validation));
  LUTHIER_RETURN_IF_ERROR(lay(partition.third, &fold.third));
  fold.validation_variance = Variance(fold.problem.validation.value);
  fold.third_variance = Variance(fold.third.value);
  const VectorXd& train = fold.problem.train.value;
  fold.deviation = std::sqrt(train.squaredNorm() / static_cast<double>(train.size()));
  if (!(fold.deviation > 0.0)) fold.deviation = 1.0;
  for (MatrixEntries* entries : {&fold.problem.train, &fold.problem.validation, &fold.third}) {
    entries->value /= fold.deviation;
  }
  return fold;
}

double Rank(const MatrixProblem& problem, const VectorXd& x) {
  const VectorXd values = math::SingularValues(bilevel::LowRankOf(problem, x));
  return static_cast<double>((values.array() > kRankCutOff * values[0]).count());
}

// Returns the factor from strengths beside sums over entries, in units of the data, to strengths beside means, in units
// of the deviation.
double PerMean(const MatrixFold& fold) {
  return 1.0 / (static_cast<double>(fold.problem.train.count()) * fold.deviation);
}

EvaluationResult Cancelled() {
  EvaluationResult result;
  result.outcome = EvaluationOutcome::kCancelled;
  return result;
}

using Layouts = KeptLayouts<std::pair<bool, bool>, std::vector<MatrixFold>>;  // By standardize and intercept.

absl::StatusOr<std::shared_ptr<const std::vector<MatrixFold>>> FoldsOf(const MatrixTable& table, Layouts& layouts,
                                                                       bool standardize, bool intercept,
                                                                       const base::StopToken& stop) {
  return layouts.Get({standardize, intercept}, stop, [&]() -> absl::StatusOr<std::vector<MatrixFold>> {
    std::vector<MatrixFold> folds;
    for (const data::Partition& partition : table.source.folds) {
      LUTHIER_ASSIGN_OR_RETURN(MatrixFold fold, Lay(table, partition, standardize, intercept, stop));
      folds.push_back(std::move(fold));
    }
    return folds;
  });
}

// Sums of squares over folds, for means over all their entries.
class MeanSquare {
 public:
  void Add(double loss, double variance, Index count) {
    loss_ += loss * static_cast<double>(count);
    variance_ += variance * static_cast<double>(count);
    count_ += static_cast<double>(count);
  }
  bool any() const { return count_ > 0.0; }
  double loss() const { return loss_ / count_; }
  double r2() const { return R2(loss_, variance_); }

 private:
  double loss_ = 0.0, variance_ = 0.0, count_ = 0.0;
};

class MatrixObjective final : public Objective {
 public:
  MatrixObjective(catalogue::ObjectiveInfo info, study::Parameters options, study::SearchSpace space, MatrixTable table)
      : info_(std::move(info)), options_(std::move(options)), space_(std::move(space)), table_(std::move(table)) {}

  const catalogue::ObjectiveInfo& info() const override { return info_; }

  absl::StatusOr<EvaluationResult> Evaluate(const EvaluationContext& context) const override {
    LUTHIER_RETURN_IF_ERROR(CheckComplete(space_, context.parameters));
    LUTHIER_ASSIGN_OR_RETURN(const catalogue::Settings settings,
                             catalogue::Settings::Resolve(info_, options_, context.parameters));
    const absl::StatusOr<study::Measurement> measurement = Measure(settings, context);
    if (absl::IsCancelled(measurement.status())) return Cancelled();
    LUTHIER_RETURN_IF_ERROR(measurement.status());
    return WithMeasurement(*measurement, {});
  }

 private:
  absl::StatusOr<study::Measurement> Measure(const catalogue::Settings& settings,
                                             const EvaluationContext& context) const {
    LUTHIER_ASSIGN_OR_RETURN(const auto folds, FoldsOf(table_, layouts_, settings.Bool("standardize"),
                                                       settings.Bool("intercept"), context.stop));
    if (context.started) context.started(false, 0);
    if (context.first_gradient) context.first_gradient();
    MeanSquare train, validation, third;
    bool converged = true;
    double rank = 0.0, worst_gap = 0.0;
    for (const MatrixFold& fold : *folds) {
      const MatrixProblem& problem = fold.problem;
      VectorXd strengths = VectorXd::Constant(1 + static_cast<Index>(problem.groups.size()), settings.Number("group"));
      strengths[0] = settings.Number("nuclear");
      LUTHIER_ASSIGN_OR_RETURN(
          const bilevel::MatrixTraining trained,
          bilevel::TrainMatrixCompletion(problem, PerMean(fold) * strengths, VectorXd::Zero(problem.variables()),
                                         settings.Number("tolerance"), static_cast<int>(settings.Int("max_iterations")),
                                         context.stop));
      converged = converged && trained.converged;
      worst_gap = std::max(worst_gap, trained.gap);
      rank += Rank(problem, trained.x) / static_cast<double>(folds->size());
      train.Add(fold.Loss(problem.train, trained.x), 0.0, problem.train.count());
      validation.Add(fold.Loss(problem.validation, trained.x), fold.validation_variance, problem.validation.count());
      third.Add(fold.Loss(fold.third, trained.x), fold.third_variance, fold.third.count());
    }
    study::Measurement out;
    out.metrics["train_loss"] = train.loss();
    out.metrics["validation_loss"] = validation.loss();
    out.metrics["validation_r2"] = validation.r2();
    if (third.any()) {
      out.metrics["third_loss"] = third.loss();
      out.metrics["third_r2"] = third.r2();
    }
    out.metrics["rank"] = rank;
    out.training.emplace().outcome = converged ? study::TrainingOutcome::kConverged : study::TrainingOutcome::kLimit;
    out.training->duality_gap = worst_gap;
    return out;
  }

  const catalogue::ObjectiveInfo info_;
  const study::Parameters options_;
  const study::SearchSpace space_;
  const MatrixTable table_;
  mutable Layouts layouts_;
};

class VfMatrixObjective final : public VfIdcaObjective {
 public:
  VfMatrixObjective(catalogue::ObjectiveInfo info, study::Parameters options, study::SearchSpace space,
                    MatrixTable table)
      : info_(std::move(info)), options_(std::move(options)), space_(std::move(space)), table_(std::move(table)) {}

  const catalogue::ObjectiveInfo& info() const override { return info_; }

  absl::StatusOr<EvaluationResult> Run(const EvaluationContext& context,
                                       std::vector<Strength>* strengths) const override {
    LUTHIER_RETURN_IF_ERROR(CheckComplete(space_, context.parameters));
    LUTHIER_ASSIGN_OR_RETURN(const catalogue::Settings settings,
                             catalogue::Settings::Resolve(info_, options_, context.parameters));
    EvaluationResult result;
    const absl::StatusOr<study::Measurement> measurement = Search(settings, context, strengths, &result);
    if (absl::IsCancelled(measurement.status())) return Cancelled();
    LUTHIER_RETURN_IF_ERROR(measurement.status());
    return WithMeasurement(*measurement, std::move(result));
  }

  absl::StatusOr<SparseModel> Train(const EvaluationContext&) const override {
    return absl::UnimplementedError("models of vf_matrix_completion cannot be stored");
  }

 private:
  absl::StatusOr<study::Measurement> Search(const catalogue::Settings& settings, const EvaluationContext& context,
                                            std::vector<Strength>* strengths, EvaluationResult* result) const;
  std::vector<Strength> StrengthsOf(const MatrixFold& fold, const VectorXd& gamma) const {
    std::vector<Strength> out;
    for (Index i = 0; i < gamma.size(); ++i) {
      out.push_back({i == 0 ? "nuclear" : absl::StrCat("group.", table_.groups.names[static_cast<size_t>(i) - 1]),
                     gamma[i] / PerMean(fold)});
    }
    return out;
  }

  const catalogue::ObjectiveInfo info_;
  const study::Parameters options_;
  const study::SearchSpace space_;
  const MatrixTable table_;
  mutable Layouts layouts_;
};

absl::StatusOr<study::Measurement> VfMatrixObjective::Search(const catalogue::Settings& settings,
                                                             const EvaluationContext& context,
                                                             std::vector<Strength>* strengths,
                                                             EvaluationResult* result) const {
  LUTHIER_ASSIGN_OR_RETURN(const auto folds, FoldsOf(table_, layouts_, settings.Bool("standardize"),
                                                     settings.Bool("intercept"), context.stop));
  const MatrixFold& fold = folds->front();
  const MatrixProblem& problem = fold.problem;
  if (context.started) context.started(false, 0);
  if (context.first_gradient) context.first_gradient();
  bilevel::VfIdcaOptions options = bilevel::MatrixVfOptions(problem);
  const double cells = static_cast<double>(problem.rows) * static_cast<double>(problem.cols);
  options.start[0] = settings.Number("start") * std::sqrt(cells);
  options.start.tail(options.start.size() - 1).setConstant(0.1 * options.start[0]);
  options.least_bound = kLeastMatrixBound * options.start.minCoeff();
  options.tolerance = settings.Number("tolerance");
  options.max_steps = static_cast<int>(settings.Int("max_steps"));
  options.patience = kMatrixPatience;
  options.least_gain = kLeastMatrixGain;
  bilevel::MatrixVfProblem solver(&problem, &options, kMostWork);
  study::Measurement last;
  bool stopped = false;
  LUTHIER_ASSIGN_OR_RETURN(const bilevel::VfIdcaResult found,
                           bilevel::RunVfIdca(
                               solver, options,
                               [&](const bilevel::VfIdcaStep& step) {
                                 study::Measurement point;
                                 point.step = last.step = step.number;
                                 point.metrics["validation_loss"] = 2.0 * fold.square() * step.refit_validation_loss;
                                 point.metrics["iterate_loss"] = 2.0 * fold.square() * step.validation_loss;
                                 point.metrics["violation"] = last.metrics["violation"] = step.violation;
                                 point.metrics["nuclear"] = step.gamma[0] / PerMean(fold);
                                 stopped = context.report && !context.report(point);
                                 return !stopped;
                               },
                               context.stop));
  if (stopped) result->outcome = EvaluationOutcome::kStopped;
  const bool bound = found.best_step >= 0;
  const VectorXd& refit = bound ? found.best_refit : found.refit;
  const VectorXd gamma = bound ? found.best_gamma : VectorXd::Zero(found.gamma.size());
  last.metrics["train_loss"] = fold.Loss(problem.train, refit);
  last.metrics["validation_loss"] = fold.Loss(problem.validation, refit);
  last.metrics["validation_r2"] = R2(last.metrics["validation_loss"], fold.validation_variance);
  last.metrics["iterate_loss"] = fold.Loss(problem.validation, found.x);
  if (fold.third.count() > 0) {
    last.metrics["third_loss"] = fold.Loss(fold.third, refit);
    last.metrics["third_r2"] = R2(last.metrics["third_loss"], fold.third_variance);
  }
  last.metrics["rank"] = Rank(problem, refit);
  std::vector<Strength> all = StrengthsOf(fold, gamma);
  last.metrics["nuclear"] = all[0].value;
  if (!bound) {
    result->note = "all strengths are 0: no penalty binds at any bounds found; lower start";
  } else if (all.size() > 1) {
    std::vector<std::string> shown;
    for (size_t k = 1; k < std::min(all.size(), kShownStrengths + 1); ++k) {
      shown.push_back(absl::StrFormat("%s %.4g", all[k].name, all[k].value));
    }
    result->note = absl::StrCat("strengths: ", absl::StrJoin(shown, ", "),
                                all.size() > kShownStrengths + 1 ? ", and more (luthier bilevel shows all)" : "");
  }
  const bool converged = (found.converged || !found.patient) && found.worst_gap <= kMatrixGap;
  last.training.emplace().outcome = converged ? study::TrainingOutcome::kConverged : study::TrainingOutcome::kLimit;
  last.training->duality_gap = found.worst_gap;
  if (strengths != nullptr) *strengths = std::move(all);
  return last;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Objective>> CreateMatrixObjective(const NewObjective& of, const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(MatrixTable table, ReadTable(of.info, of.spec, of.root, of.cache, stop));
  if (table.rows > catalogue::kMostMatrixCells / table.cols) {
    return TooLarge(table, absl::StrCat(catalogue::kMostMatrixCells, " cells"), "leave some rows or columns out");
  }
  return std::make_unique<MatrixObjective>(of.info, of.spec.options, of.space, std::move(table));
}

absl::StatusOr<std::unique_ptr<VfIdcaObjective>> CreateVfMatrixObjective(const NewObjective& of,
                                                                         const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(MatrixTable table, ReadTable(of.info, of.spec, of.root, of.cache, stop));
  if (table.rows + table.cols > catalogue::kMostMatrixSides) {
    return TooLarge(table, absl::StrCat(catalogue::kMostMatrixSides, " of both together are taken"),
                    "tune matrix_completion instead");
  }
  return std::make_unique<VfMatrixObjective>(of.info, of.spec.options, of.space, std::move(table));
}

}  // namespace luthier::objectives
