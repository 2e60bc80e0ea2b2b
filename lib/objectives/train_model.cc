#include "lib/objectives/train_model.h"

#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/base/version.h"
#include "lib/catalogue/chain_groups.h"
#include "lib/catalogue/objective_info.h"
#include "lib/catalogue/penalty_groups.h"
#include "lib/catalogue/registry.h"
#include "lib/catalogue/regression_info.h"
#include "lib/catalogue/settings.h"
#include "lib/catalogue/vf_idca_info.h"
#include "lib/crf/features/attribute_map.h"
#include "lib/crf/features/letters_reader.h"
#include "lib/data/attribute_text.h"
#include "lib/data/column_text.h"
#include "lib/linear/minimizer.h"
#include "lib/model/chain_model.h"
#include "lib/model/linear_model.h"
#include "lib/model/regression_model.h"
#include "lib/notation/templates.h"
#include "lib/objectives/chain_penalty.h"
#include "lib/objectives/chain_source.h"
#include "lib/objectives/crf_settings.h"
#include "lib/objectives/fold.h"
#include "lib/objectives/linear_objective.h"
#include "lib/objectives/regression_objective.h"
#include "lib/objectives/row_source.h"
#include "lib/objectives/vf_idca_objective.h"

namespace luthier::objectives {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

std::vector<int32_t> EveryRow(int64_t n) {
  std::vector<int32_t> rows(static_cast<size_t>(n));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

model::ModelInfo InfoOf(const TrainRequest& request, const catalogue::Settings& settings) {
  model::ModelInfo info;
  info.objective = request.objective.model;
  info.settings = settings.values();
  info.data = request.objective.data;
  info.study = request.study;
  info.trial = request.trial;
  info.version = base::kVersion;
  return info;
}

// Removes columns that were constant from predictions, whatever their values in other rows. `weights`: `each` of them a
// column, in order; null if there are none.
void DropConstants(const data::Standardization& scaling, VectorXd* weights, int each, VectorXd* deviation) {
  for (size_t j = 0; j < scaling.constant.size(); ++j) {
    if (!scaling.constant[j]) continue;
    const auto column = static_cast<Index>(j);
    if (weights != nullptr) weights->segment(column * each, each).setZero();
    (*deviation)[column] = std::numeric_limits<double>::infinity();
  }
}

absl::Status Diverged(const std::string& where) {
  return absl::FailedPreconditionError(
      absl::StrCat("training diverged ", where, ": there is no model; try another setting"));
}

absl::StatusOr<std::unique_ptr<model::Model>> TrainLinear(const TrainRequest& request,
                                                          const catalogue::ObjectiveInfo& info,
                                                          const std::vector<catalogue::PenaltyGroup>& groups,
                                                          const catalogue::Settings& settings,
                                                          const data::DataRoot* root, const base::StopToken& stop) {
  data::ReadOptions read = ParseReadOptions(request.objective.options);
  read.limits.stop = stop;
  read.key_column = KeyColumn(request.objective.split);
  LUTHIER_ASSIGN_OR_RETURN(const data::Dataset dataset, data::LoadDataset(request.objective.data, read, root));
  LUTHIER_RETURN_IF_ERROR(CheckClasses(info, request.objective, dataset));
  std::optional<int64_t> length;
  if (settings.IsVector("l2")) length = static_cast<int64_t>(settings.Vector("l2").size());
  LUTHIER_ASSIGN_OR_RETURN(const bilevel::ColumnPenalties columns,
                           PenaltiesFor(info, request.objective.options, groups, length, dataset));
  const LinearSettings linear = ParseLinearSettings(info, groups, settings);
  const auto layout = [&](const VectorXd& scales) {
    return MakeFoldData(&dataset, {.train = EveryRow(dataset.x.rows), .validation = {}}, linear.standardize,
                        linear.bias, columns, scales, stop);
  };
  LUTHIER_ASSIGN_OR_RETURN(std::shared_ptr<const FoldData> fold, layout(VectorXd()));
  const linear::SolverChoice choice = fold->Choose(linear);
  linear::LinearSolver solver = choice.solver;
  const bool chosen = linear.solver == "auto";
  if (!chosen) {
    LUTHIER_ASSIGN_OR_RETURN(solver, linear::ParseLinearSolver(linear.solver));
  }
  if (const VectorXd scales = ColumnScales(columns, linear, solver); scales.size() > 0) {
    LUTHIER_ASSIGN_OR_RETURN(fold, layout(scales));
  }
  LUTHIER_ASSIGN_OR_RETURN(const std::unique_ptr<FoldTraining> training, fold->Start(linear, solver));
  while (training->running()) {
    LUTHIER_RETURN_IF_ERROR(training->Advance(stop).status());
  }
  if (training->outcome() == linear::TrainOutcome::kDiverged) {
    return Diverged(absl::StrCat("at iteration ", training->iteration()));
  }
  model::LinearParts parts;
  parts.classes = dataset.classes;
  parts.features = dataset.features;
  parts.label_name = dataset.label_name;
  parts.cols = dataset.x.cols;
  parts.loss = linear.loss;
  parts.mean = fold->standardization().mean;
  parts.deviation = fold->standardization().deviation;
  const VectorXd w = training->Weights();
  const int scores = parts.scores();
  const Index features = static_cast<Index>(parts.cols) * scores;
  parts.weights = w.head(features);
  parts.bias = VectorXd::Zero(scores);
  // With more than two classes, the first one has no intercept.
  parts.bias.tail(w.size() - features) = w.tail(w.size() - features);
  model::ModelInfo about = InfoOf(request, settings);
  LUTHIER_ASSIGN_OR_RETURN(about.fingerprint, data::Fingerprint(dataset, stop));
  about.examples = dataset.x.rows;
  about.outcome = training->optimal() ? "converged" : "limit";
  if (chosen) about.note = NoteOf(choice, {training->changes()});
  LUTHIER_ASSIGN_OR_RETURN(const FoldTraining::Sums sums, training->Measure(stop));
  about.metrics["train_loss"] = sums.train_loss / sums.train_rows;
  about.metrics["iterations"] = static_cast<double>(training->iteration());
  if (!w.allFinite()) return Diverged("to weights that are not finite");
  return std::unique_ptr<model::Model>(std::make_unique<model::LinearModel>(std::move(about), std::move(parts)));
}

absl::StatusOr<std::unique_ptr<model::Model>> TrainRegression(const TrainRequest& request,
                                                              const catalogue::ObjectiveInfo& info,
                                                              const std::vector<catalogue::PenaltyGroup>& groups,
                                                              const catalogue::Settings& settings,
                                                              const data::DataRoot* root, const base::StopToken& stop) {
  if (request.objective.options.contains(catalogue::kTargetsOption)) {
    return absl::UnimplementedError(
        "a model has one target; train one for each, with option label and without targets");
  }
  data::ReadOptions read = ParseReadOptions(request.objective.options);
  read.limits.stop = stop;
  read.task = data::Task::kRegression;
  read.key_column = KeyColumn(request.objective.split);
  LUTHIER_ASSIGN_OR_RETURN(const data::Dataset dataset, data::LoadDataset(request.objective.data, read, root));
  const auto length = [&](const char* name) -> std::optional<int64_t> {
    if (info.FindParameter(name) == nullptr || !settings.IsVector(name)) return std::nullopt;
    return static_cast<int64_t>(settings.Vector(name).size());
  };
  LUTHIER_ASSIGN_OR_RETURN(
      const bilevel::ColumnPenalties columns,
      RegressionPenalties(info, request.objective.options, groups, length("l2"), length("gamma"), dataset));
  const RegressionSettings regression = ParseRegressionSettings(info, groups, settings);
  const data::Partition all = {.train = EveryRow(dataset.x.rows), .validation = {}};
  LUTHIER_ASSIGN_OR_RETURN(const std::shared_ptr<const RegressionFold> fold,
                           MakeRegressionFold(info, dataset, {}, all, regression, columns, stop));
  LUTHIER_ASSIGN_OR_RETURN(const RegressionFit fit, fold->Fit(regression, false, std::nullopt, stop));
  if (fit.singular || fit.diverged || !fit.weights.allFinite()) {
    return Diverged(fit.singular ? "(the kernel matrix plus l2 is singular)" : "to weights that are not finite");
  }
  model::RegressionParts parts;
  parts.features = dataset.features;
  parts.label_name = dataset.label_name;
  parts.cols = dataset.x.cols;
  parts.mean = fold->scaling().mean;
  parts.deviation = fold->scaling().deviation;
  parts.weights = fit.weights;
  parts.offset = fold->offset() + fit.intercept;
  parts.units = regression.units;
  if (info.model == "kernel_ridge") {
    parts.gamma = regression.gamma;
    LUTHIER_ASSIGN_OR_RETURN(parts.points, data::DenseRows(dataset.x, all.train, fold->scaling(), stop));
  }
  const bool kernel = info.model == "kernel_ridge";
  DropConstants(fold->scaling(), kernel ? nullptr : &parts.weights, std::max(regression.units, 1), &parts.deviation);
  model::ModelInfo about = InfoOf(request, settings);
  LUTHIER_ASSIGN_OR_RETURN(about.fingerprint, data::Fingerprint(dataset, stop));
  about.examples = dataset.x.rows;
  about.outcome = fit.outcome == linear::CgOutcome::kIterationLimit || fit.limited ? "limit" : "converged";
  about.metrics["train_loss"] = fit.train_sse / fit.train_rows;
  return std::unique_ptr<model::Model>(std::make_unique<model::RegressionModel>(std::move(about), std::move(parts)));
}

absl::StatusOr<std::unique_ptr<model::Model>> TrainChain(const TrainRequest& request,
                                                         const std::vector<catalogue::PenaltyGroup>& groups,
                                                         const catalogue::Settings& settings,
                                                         const data::DataRoot* root, const base::StopToken& stop) {
  const std::string& name = request.objective.data;
  LUTHIER_ASSIGN_OR_RETURN(data::LineReader lines, OpenChains(name, settings.Text("format"), root, stop));
  crf::ChainData data;
  model::ChainInput input;
  catalogue::ChainGroups parts;
  std::vector<int32_t> row_group;
  if (settings.Text("format") == "letters") {
    LUTHIER_ASSIGN_OR_RETURN(crf::Letters letters, crf::ReadLetters(lines));
    data = std::move(letters.data);
    LUTHIER_ASSIGN_OR_RETURN(parts, catalogue::FindChainGroups(groups, {"pixels"}, false, "the model"));
    row_group = GroupLetterRows(parts);
  } else if (settings.Text("format") == "attributes") {
    LUTHIER_ASSIGN_OR_RETURN(const data::AttributeText text, data::ReadAttributeText(lines));
    const std::vector<int32_t> rows = EveryRow(text.sequences());
    LUTHIER_ASSIGN_OR_RETURN(crf::AttributeMap map,
                             crf::AttributeMap::Fit(text, rows, settings.Int("min_count"), stop));
    LUTHIER_ASSIGN_OR_RETURN(data, map.Encode(text, rows, crf::FeatureMap::UnknownLabels::kError, stop));
    std::vector<std::string> names;
    for (int32_t a = 0; a < text.attributes.size(); ++a) names.push_back(text.attributes.text(a));
    LUTHIER_ASSIGN_OR_RETURN(parts, catalogue::FindChainGroups(groups, names, true, text.name));
    row_group = GroupRows(parts, map);
    input = std::move(map);
  } else {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<notation::Template> templates,
                             catalogue::ChainTemplates(settings.Text("templates"), settings.Text("columns")));
    LUTHIER_ASSIGN_OR_RETURN(const data::ColumnText text, data::ReadColumnText(lines));
    const std::vector<int32_t> rows = EveryRow(text.sequences());
    LUTHIER_ASSIGN_OR_RETURN(crf::FeatureMap map,
                             crf::FeatureMap::Fit(text, rows, ChainFeatureOptions(settings, templates), stop));
    LUTHIER_ASSIGN_OR_RETURN(data, map.Encode(text, rows, crf::FeatureMap::UnknownLabels::kError, stop));
    LUTHIER_ASSIGN_OR_RETURN(
        parts, catalogue::FindChainGroups(groups, catalogue::TemplateNames(templates), false, "the model"));
    LUTHIER_ASSIGN_OR_RETURN(row_group, GroupRows(parts, map));
    input = std::move(map);
  }
  LUTHIER_RETURN_IF_ERROR(crf::CheckChainData(data));
  crf::ChainTrainerOptions options = ChainTrainingOptions(settings, request.seed);
  const ChainPenalty penalty(row_group, parts.transitions, catalogue::PenaltiesOf(groups, settings),
                             catalogue::PenaltiesOf(groups, settings, "l1"));
  options.l1 = penalty.l1();
  crf::ChainData scaled;
  if (!penalty.uniform()) scaled = penalty.Scaled(data);
  LUTHIER_ASSIGN_OR_RETURN(crf::ChainTrainer trainer,
                           crf::ChainTrainer::Create(penalty.uniform() ? &data : &scaled, penalty.l2(), options));
  while (trainer.outcome() == crf::ChainOutcome::kRunning) {
    LUTHIER_RETURN_IF_ERROR(trainer.Advance(stop).status());
  }
  VectorXd w = trainer.Weights();
  penalty.Unscale(data.shape().stride(), &w);
  if (trainer.outcome() == crf::ChainOutcome::kDiverged || !w.allFinite()) {
    return Diverged(absl::StrCat("after ", static_cast<int64_t>(trainer.passes()), " passes"));
  }
  model::ModelInfo about = InfoOf(request, settings);
  LUTHIER_ASSIGN_OR_RETURN(about.fingerprint, crf::Fingerprint(data, stop));
  about.examples = data.sequences();
  about.outcome = trainer.outcome() == crf::ChainOutcome::kPassLimit ? "limit" : "converged";
  LUTHIER_ASSIGN_OR_RETURN(const double loss, crf::ChainLoss(&data).Value(w, nullptr, stop));
  about.metrics["train_loss"] = loss / static_cast<double>(data.tokens());
  about.metrics["passes"] = trainer.passes();
  return std::unique_ptr<model::Model>(
      std::make_unique<model::ChainModel>(std::move(about), std::move(input), data.label_names, std::move(w)));
}

absl::StatusOr<std::unique_ptr<model::Model>> TrainVfIdca(const TrainRequest& request,
                                                          const catalogue::ObjectiveInfo& info,
                                                          const catalogue::Settings& settings,
                                                          const data::DataRoot* root, const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(const std::unique_ptr<VfIdcaObjective> objective,
                           CreateVfIdcaObjective({info, request.objective, {}, {}, root}, stop));
  EvaluationContext context;
  context.parameters = request.parameters;
  context.stop = stop;
  LUTHIER_ASSIGN_OR_RETURN(SparseModel found, objective->Train(context));
  model::ModelInfo about = InfoOf(request, settings);
  about.fingerprint = std::move(found.fingerprint);
  about.examples = found.rows;
  about.outcome = found.converged ? "converged" : "limit";
  about.metrics["train_loss"] = found.train_loss;
  if (!found.classes.empty()) {
    model::LinearParts parts;
    parts.classes = std::move(found.classes);
    parts.features = std::move(found.features);
    parts.label_name = std::move(found.label_name);
    parts.cols = static_cast<int32_t>(found.weights.size());
    parts.loss.kind = linear::MarginLoss::Kind::kHuberizedHinge;
    parts.mean = found.scaling.mean;
    parts.deviation = found.scaling.deviation;
    parts.weights = std::move(found.weights);
    parts.bias = Eigen::VectorXd::Constant(1, found.offset);
    return std::unique_ptr<model::Model>(std::make_unique<model::LinearModel>(std::move(about), std::move(parts)));
  }
  model::RegressionParts parts;
  parts.features = std::move(found.features);
  parts.label_name = std::move(found.label_name);
  parts.cols = found.weights.size();
  parts.mean = found.scaling.mean;
  parts.deviation = found.scaling.deviation;
  parts.weights = std::move(found.weights);
  parts.offset = found.offset;
  DropConstants(found.scaling, &parts.weights, 1, &parts.deviation);
  return std::unique_ptr<model::Model>(std::make_unique<model::RegressionModel>(std::move(about), std::move(parts)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<model::Model>> TrainModel(const TrainRequest& request, const data::DataRoot* root,
                                                         const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(const catalogue::ObjectiveInfo* found, catalogue::FindObjective(request.objective.model));
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<catalogue::PenaltyGroup> groups,
                           catalogue::GroupsOf(request.objective.options));
  const catalogue::ObjectiveInfo info = catalogue::WithPenaltyGroups(*found, groups);
  LUTHIER_ASSIGN_OR_RETURN(const catalogue::Settings settings,
                           catalogue::Settings::Resolve(info, request.objective.options, request.parameters));
  if (info.model == "crf") return TrainChain(request, groups, settings, root, stop);
  if (info.model == "logistic" || info.model == "hsvm") {
    return TrainLinear(request, info, groups, settings, root, stop);
  }
  if (catalogue::IsRegression(info)) return TrainRegression(request, info, groups, settings, root, stop);
  if (catalogue::IsVfIdca(info)) return TrainVfIdca(request, info, settings, root, stop);
  return absl::InvalidArgumentError(absl::StrCat("objective ", info.model, " trains no model"));
}

}  // namespace luthier::objectives
