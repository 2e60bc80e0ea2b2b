#include "lib/objectives/linear_objective.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/column_penalties.h"
#include "lib/catalogue/objective_info.h"
#include "lib/catalogue/penalty_groups.h"
#include "lib/catalogue/settings.h"
#include "lib/data/split.h"
#include "lib/objectives/differentiate.h"
#include "lib/objectives/epoch_axis.h"
#include "lib/objectives/fold.h"
#include "lib/objectives/fold_errors.h"
#include "lib/objectives/kept_layouts.h"
#include "lib/objectives/row_source.h"
#include "lib/objectives/training_evaluation.h"
#include "lib/study/warm_start.h"

namespace luthier::objectives {
namespace {

using linear::TrainOutcome;

constexpr char kFoldsCheckpointKind[] = "objective.folds/5";
constexpr char kFoldsModelKind[] = "objective.folds.model/2";
// Number of passes over the rows that a gradient may always take, and the number that stands for no limit.
constexpr double kAlwaysPaid = 50.0, kLimitless = 1e9;
constexpr double kLoosest = 0.1;  // Largest training tolerance that a search may ask for; options have the same limit.

// The trainings of all folds, and their solver.
struct Runs {
  std::vector<std::unique_ptr<FoldTraining>> folds;
  std::optional<linear::SolverChoice> choice;  // Set if the objective chose the solver.
  bool warm = false;                           // True if they started from another trial's weights.
};

class LinearObjective final : public Objective {
 public:
  LinearObjective(catalogue::ObjectiveInfo info, study::Parameters options, study::SearchSpace space,
                  study::MetricSpec metric, data::Dataset dataset, std::vector<data::Partition> folds,
                  std::string identity, std::vector<catalogue::PenaltyGroup> groups, bilevel::ColumnPenalties columns)
      : info_(std::move(info)),
        options_(std::move(options)),
        space_(std::move(space)),
        metric_(std::move(metric)),
        dataset_(std::move(dataset)),
        folds_(std::move(folds)),
        identity_(std::move(identity)),
        groups_(std::move(groups)),
        columns_(std::move(columns)) {}

  const catalogue::ObjectiveInfo& info() const override { return info_; }
  absl::StatusOr<EvaluationResult> Evaluate(const EvaluationContext& context) const override;

 private:
  class Evaluation;
  using Layout = std::vector<std::shared_ptr<const FoldData>>;

  // Returns CANCELLED when stopped, also while another trial makes the layout that this one waits for.
  absl::StatusOr<Layout> MakeLayout(const LinearSettings& settings, const Eigen::VectorXd& scales,
                                    const base::StopToken& stop) const;
  absl::StatusOr<Layout> LayoutFor(const LinearSettings& settings, const base::StopToken& stop) const;
  absl::StatusOr<Runs> MakeRuns(const LinearSettings& settings, const base::StopToken& stop) const;
  // Identifies the run that a checkpoint belongs to: data, split and every setting that the iterates depend on.
  std::string Identity(const catalogue::Settings& settings) const;
  // Identifies the settings that trials must share so that one may start from the model of another.
  std::string Structure(const catalogue::Settings& settings) const;
  // Starts from the model in `context`, if that is wanted and it fits.
  absl::StatusOr<Runs> StartRuns(const LinearSettings& linear, const catalogue::Settings& settings,
                                 const EvaluationContext& context, const base::StopToken& stop) const;
  absl::StatusOr<study::Measurement> Measure(const Runs& runs, int64_t step, const base::StopToken& stop) const;
  enum class Wish { kNo, kWhereItPays, kAlways };
  // Returns no gradient if none is wanted or defined. If the gradient must be worth its cost, a fold's may take as many
  // passes as that fold's training, times the number of its entries: a gradient of d entries says as much as d further
  // values. Adds the passes that it takes to *passes.
  absl::StatusOr<std::optional<study::Gradient>> MakeGradient(Wish wish, std::optional<double> tolerance,
                                                              const std::vector<double>& penalties, const Runs& runs,
                                                              std::string* why, double* passes,
                                                              const base::StopToken& stop) const;
  // Returns the index among the penalties: 0 for l2, then the groups; for a list l2, its entries behind the
  // intercept's.
  size_t PenaltyIndex(const study::Scalar& scalar) const;

  const catalogue::ObjectiveInfo info_;
  const study::Parameters options_;
  const study::SearchSpace space_;
  const study::MetricSpec metric_;
  const data::Dataset dataset_;
  const std::vector<data::Partition> folds_;
  const std::string identity_;
  const std::vector<catalogue::PenaltyGroup> groups_;
  const bilevel::ColumnPenalties columns_;

  // A study that tunes standardize and intercept has at most four.
  mutable KeptLayouts<std::pair<bool, linear::Bias>, Layout> layouts_;
};

absl::StatusOr<LinearObjective::Layout> LinearObjective::MakeLayout(const LinearSettings& settings,
                                                                    const Eigen::VectorXd& scales,
                                                                    const base::StopToken& stop) const {
  Layout layout;
  for (const data::Partition& fold : folds_) {
    LUTHIER_ASSIGN_OR_RETURN(std::shared_ptr<const FoldData> data, MakeFoldData(&dataset_, fold, settings.standardize,
                                                                                settings.bias, columns_, scales, stop));
    layout.push_back(std::move(data));
  }
  return layout;
}

absl::StatusOr<LinearObjective::Layout> LinearObjective::LayoutFor(const LinearSettings& settings,
                                                                   const base::StopToken& stop) const {
  LUTHIER_ASSIGN_OR_RETURN(const std::shared_ptr<const Layout> layout,
                           layouts_.Get({settings.standardize, settings.bias}, stop,
                                        [&] { return MakeLayout(settings, Eigen::VectorXd(), stop); }));
  return *layout;
}

absl::StatusOr<Runs> LinearObjective::MakeRuns(const LinearSettings& settings, const base::StopToken& stop) const {
  Runs runs;
  linear::LinearSolver solver = linear::LinearSolver::kLbfgs;
  if (settings.unroll.method) {
    // The solver has no part in it; any that takes several penalties will do.
  } else if (settings.solver == "auto") {
    // All folds have the same solver: their iterations are compared and averaged.
    LUTHIER_ASSIGN_OR_RETURN(const Layout plain, LayoutFor(settings, stop));
    const linear::SolverChoice choice = plain[0]->Choose(settings);
    solver = choice.solver;
    runs.choice = choice;
  } else {
    LUTHIER_ASSIGN_OR_RETURN(solver, linear::ParseLinearSolver(settings.solver));
  }
  // A layout with scales serves these penalties alone, and is not kept.
  const Eigen::VectorXd scales = ColumnScales(columns_, settings, solver);
  LUTHIER_ASSIGN_OR_RETURN(const Layout layout,
                           scales.size() == 0 ? LayoutFor(settings, stop) : MakeLayout(settings, scales, stop));
  for (const std::shared_ptr<const FoldData>& fold : layout) {
    LUTHIER_ASSIGN_OR_RETURN(std::unique_ptr<FoldTraining> training, fold->Start(settings, solver));
    runs.folds.push_back(std::move(training));
  }
  return runs;
}

// Returns the settings that the iterates depend on.
study::Parameters RelevantValues(const catalogue::Settings& settings) {
  study::Parameters relevant = settings.values();
  for (const char* name :
       {"format", "header", "label", "labels_file", "gradient", "report_every", "checkpoint_every", "max_memory_mib"}) {
    relevant.erase(name);
  }
  return relevant;
}

std::string LinearObjective::Identity(const catalogue::Settings& settings) const {
  return absl::StrCat(info_.model, " ", identity_, " ", study::FormatParameters(RelevantValues(settings)));
}

std::string LinearObjective::Structure(const catalogue::Settings& settings) const {
  study::Parameters relevant = RelevantValues(settings);
  relevant.erase("l2");
  for (const catalogue::PenaltyGroup& group : groups_) relevant.erase(catalogue::PenaltyName(group));
  return absl::StrCat(info_.model, " ", identity_, " ", study::FormatParameters(relevant));
}

std::string SaveRuns(const Runs& runs, const EpochAxis& axis, const std::string& identity) {
  base::CheckpointWriter writer(kFoldsCheckpointKind);
  writer.U64(static_cast<uint64_t>(axis.goal()));
  writer.U64(runs.warm ? 1 : 0);
  writer.U64(runs.folds.size());
  for (size_t k = 0; k < runs.folds.size(); ++k) runs.folds[k]->Save(&writer, absl::StrCat(identity, " fold ", k));
  return std::move(writer).Finish();
}

// Loads into trainings that have not started; false leaves them useless.
bool Load(const std::string& bytes, const std::string& identity, Runs* runs, EpochAxis* axis) {
  absl::StatusOr<base::CheckpointReader> reader = base::CheckpointReader::Open(bytes, kFoldsCheckpointKind);
  if (!reader.ok()) return false;
  const auto goal = static_cast<int64_t>(reader->U64());
  runs->warm = reader->U64() != 0;
  if (goal < 0 || reader->U64() != runs->folds.size()) return false;
  for (size_t k = 0; k < runs->folds.size(); ++k) {
    if (!runs->folds[k]->Load(&*reader, absl::StrCat(identity, " fold ", k)).ok()) return false;
  }
  axis->Resume(goal);
  return reader->Done();
}

// Saves the state that later trials can start from. `structure`: from Structure.
std::string SaveModel(const Runs& runs, const std::string& structure) {
  base::CheckpointWriter writer(kFoldsModelKind);
  writer.Text(structure);
  for (const std::unique_ptr<FoldTraining>& fold : runs.folds) {
    writer.Vector(fold->Weights());
    writer.Vector(fold->Adjoint());
  }
  return std::move(writer).Finish();
}

// Returns true if all folds start from the model. Trainings must not have started; false leaves them useless.
bool LoadModel(const std::string& bytes, const std::string& structure, Runs* runs) {
  absl::StatusOr<base::CheckpointReader> reader = base::CheckpointReader::Open(bytes, kFoldsModelKind);
  if (!reader.ok() || reader->Text() != structure) return false;
  for (const std::unique_ptr<FoldTraining>& fold : runs->folds) {
    const Eigen::VectorXd weights = reader->Vector();
    if (!fold->WarmStart(weights, reader->Vector())) return false;
  }
  runs->warm = true;
  return reader->Done();
}

// Folds weigh by their rows, so the losses are means over all held-out (or training) rows.
absl::StatusOr<study::Measurement> LinearObjective::Measure(const Runs& runs, int64_t step,
                                                            const base::StopToken& stop) const {
  FoldTraining::Sums all;
  FoldErrors errors;
  for (const std::unique_ptr<FoldTraining>& fold : runs.folds) {
    LUTHIER_ASSIGN_OR_RETURN(const FoldTraining::Sums sums, fold->Measure(stop));
    all.validation_loss += sums.validation_loss;
    all.validation_correct += sums.validation_correct;
    all.validation_rows += sums.validation_rows;
    all.train_loss += sums.train_loss;
    all.train_rows += sums.train_rows;
    all.third_loss += sums.third_loss;
    all.third_correct += sums.third_correct;
    all.third_rows += sums.third_rows;
    errors.Add("validation_loss", sums.validation_loss, sums.validation_rows);
    errors.Add("validation_accuracy", sums.validation_correct, sums.validation_rows);
  }
  study::Measurement m;
  m.step = step;
  m.metrics["validation_loss"] = all.validation_loss / all.validation_rows;
  m.metrics["validation_accuracy"] = all.validation_correct / all.validation_rows;
  m.metrics["train_loss"] = all.train_loss / all.train_rows;
  if (all.third_rows > 0.0) {
    m.metrics["third_loss"] = all.third_loss / all.third_rows;
    m.metrics["third_accuracy"] = all.third_correct / all.third_rows;
  }
  errors.WriteTo(&m);
  return m;
}

// `chosen`: true if the limit of iterations is the user's, or tuned.
study::TrainingReport ReportOf(const Runs& runs, bool chosen) {
  std::optional<study::TrainingReport> all;
  for (const std::unique_ptr<FoldTraining>& fold : runs.folds) {
    study::TrainingReport one;
    switch (fold->outcome()) {
      case TrainOutcome::kConverged:
        one.outcome = study::TrainingOutcome::kConverged;
        break;
      case TrainOutcome::kPrecision:
        one.outcome = study::TrainingOutcome::kPrecision;
        break;
      case TrainOutcome::kIterationLimit:
        one.outcome = chosen ? study::TrainingOutcome::kTarget : study::TrainingOutcome::kLimit;
        break;
      case TrainOutcome::kDiverged:
        one.outcome = study::TrainingOutcome::kDiverged;
        break;
      case TrainOutcome::kRunning:  // At a rung.
        one.outcome = study::TrainingOutcome::kTarget;
        break;
    }
    if (std::isfinite(fold->relative_gradient())) one.gradient_norm = fold->relative_gradient();
    if (std::isfinite(fold->relative_gap())) one.duality_gap = fold->relative_gap();
    all = all ? study::Worse(*all, one) : one;
  }
  return *all;
}

size_t LinearObjective::PenaltyIndex(const study::Scalar& scalar) const {
  const study::ParameterSpec& parameter = space_.parameters()[static_cast<size_t>(scalar.parameter)];
  const std::string& name = parameter.name;
  if (parameter.is_vector()) {
    const int index = scalar.element + 1;
    return static_cast<size_t>(index < columns_.count ? index : 0);
  }
  if (name == "l2") return 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (name == catalogue::PenaltyName(groups_[g])) return g + 1;
  }
  LUTHIER_CHECK(false);  // Nothing else is differentiable.
}

absl::StatusOr<std::optional<study::Gradient>> LinearObjective::MakeGradient(Wish wish, std::optional<double> tolerance,
                                                                             const std::vector<double>& penalties,
                                                                             const Runs& runs, std::string* why,
                                                                             double* passes,
                                                                             const base::StopToken& stop) const {
  const catalogue::MetricInfo* metric = info_.FindMetric(metric_.name);
  if (metric == nullptr || !metric->gradient || wish == Wish::kNo || space_.differentiable().empty())
    return std::nullopt;
  for (const std::unique_ptr<FoldTraining>& fold : runs.folds) {
    if (!fold->differentiable()) {
      *why = kNotAtMinimum;
      return std::nullopt;
    }
  }
  std::vector<bilevel::ImplicitGradient> parts;
  std::vector<double> weights;
  for (size_t k = 0; k < runs.folds.size(); ++k) {
    GradientEffort effort;
    effort.tolerance = tolerance;
    if (wish == Wish::kWhereItPays) {
      const double trainings = static_cast<double>(space_.differentiable().size()) * runs.folds[k]->passes();
      effort.most_passes = static_cast<int>(std::clamp(trainings, kAlwaysPaid, kLimitless));
    }
    LUTHIER_ASSIGN_OR_RETURN(bilevel::ImplicitGradient part, runs.folds[k]->Differentiate(effort, stop));
    *passes += part.passes;
    if (effort.most_passes > 0 && part.outcome == linear::CgOutcome::kIterationLimit) {
      *why = kDearerThanTraining;
      return std::nullopt;
    }
    parts.push_back(std::move(part));
    weights.push_back(static_cast<double>(folds_[k].validation.size()));
  }
  std::vector<Derivative> derivatives;
  for (const study::Scalar& scalar : space_.differentiable()) {
    const size_t k = PenaltyIndex(scalar);
    derivatives.push_back({static_cast<Eigen::Index>(k), penalties[k]});
  }
  return MeanGradient(parts, weights, derivatives, tolerance, why);
}

absl::StatusOr<Runs> LinearObjective::StartRuns(const LinearSettings& linear, const catalogue::Settings& settings,
                                                const EvaluationContext& context, const base::StopToken& stop) const {
  LUTHIER_ASSIGN_OR_RETURN(Runs runs, MakeRuns(linear, stop));
  if (!settings.Bool(study::kWarmStartOption) || context.warm_start.empty()) return runs;
  if (LoadModel(context.warm_start, Structure(settings), &runs)) return runs;
  return MakeRuns(linear, stop);
}

class LinearObjective::Evaluation final : public TrainingEvaluation {
 public:
  Evaluation(const LinearObjective* objective, const EvaluationContext* context, catalogue::Settings settings);
  absl::StatusOr<EvaluationResult> Run();

 private:
  // Fills in `runs_` and `axis_`; CANCELLED when stopped.
  absl::Status Begin();
  bool ComputeGradient();
  bool Finish();
  void NoteChoice();

  bool Advance(double goal, double* least) override;
  absl::StatusOr<study::Measurement> Measure(int64_t step) override { return objective_->Measure(runs_, step, stop_); }
  absl::StatusOr<study::TrainingReport> ReportPaused() override { return ReportOf(runs_, chosen_); }
  std::string Save() const override { return SaveRuns(runs_, axis_, identity_); }

  const LinearObjective* objective_;
  const catalogue::Settings settings_;
  LinearSettings linear_;
  Wish wish_ = Wish::kNo;
  std::optional<double> tolerance_;  // The gradient's, where the search asks for less than all digits.
  bool loose_ = false;               // Trainings stop earlier than they would without it.
  const bool chosen_;                // The limit of iterations is the user's, or tuned.
  const std::string identity_;
  Runs runs_;
  absl::Duration gradient_begin_;
  std::optional<study::Gradient> gradient_;
};

LinearObjective::Evaluation::Evaluation(const LinearObjective* objective, const EvaluationContext* context,
                                        catalogue::Settings settings)
    : TrainingEvaluation(context,
                         EpochAxis(settings.Int("report_every"), settings.Int("checkpoint_every"), context->target)),
      objective_(objective),
      settings_(std::move(settings)),
      linear_(ParseLinearSettings(objective->info_, objective->groups_, settings_)),
      chosen_(settings_.given("max_iterations") || settings_.given("unroll")),
      identity_(objective->Identity(settings_)) {
  const bool told = settings_.given("gradient");
  const bool wanted = told ? settings_.Bool("gradient") : context->gradient != GradientUse::kNone;
  if (wanted) wish_ = told || context->by_gradients_alone ? Wish::kAlways : Wish::kWhereItPays;
  // Less than all digits are of use to a gradient only.
  const catalogue::MetricInfo* metric = objective->info_.FindMetric(objective->metric_.name);
  if (!wanted || metric == nullptr || !metric->gradient || objective->space_.differentiable().empty()) return;
  tolerance_ = context->tolerance;
  if (!tolerance_) return;
  loose_ = *tolerance_ > linear_.train.tolerance;
  const double loosest = std::min(*tolerance_, kLoosest);
  linear_.train.tolerance = std::max(linear_.train.tolerance, loosest);
  linear_.train.gap_share = std::max(linear_.train.gap_share, loosest * loosest);
}

absl::StatusOr<EvaluationResult> LinearObjective::Evaluation::Run() {
  const absl::Status begun = Begin();
  if (absl::IsCancelled(begun)) {
    result_.outcome = EvaluationOutcome::kCancelled;
    return std::move(result_);
  }
  LUTHIER_RETURN_IF_ERROR(begun);
  NoteChoice();
  result_.warm_started = runs_.warm;
  if (context_.started) context_.started(result_.resumed, axis_.done());
  LUTHIER_ASSIGN_OR_RETURN(const bool trained, Train());
  if (trained) {
    NoteChoice();
    if (ComputeGradient()) Finish();
  }
  return std::move(result_);
}

absl::Status LinearObjective::Evaluation::Begin() {
  if (!context_.checkpoint.empty()) {
    LUTHIER_ASSIGN_OR_RETURN(runs_, objective_->MakeRuns(linear_, stop_));
    result_.resumed = Load(context_.checkpoint, identity_, &runs_, &axis_);
    if (result_.resumed) return absl::OkStatus();
  }
  axis_ = fresh_;
  LUTHIER_ASSIGN_OR_RETURN(runs_, objective_->StartRuns(linear_, settings_, context_, stop_));
  return absl::OkStatus();
}

void LinearObjective::Evaluation::NoteChoice() {
  if (!runs_.choice) return;
  std::vector<std::string> changes;
  for (const std::unique_ptr<FoldTraining>& fold : runs_.folds) changes.push_back(fold->changes());
  result_.note = NoteOf(*runs_.choice, changes);
}

bool LinearObjective::Evaluation::Advance(double goal, double* least) {
  for (const std::unique_ptr<FoldTraining>& fold : runs_.folds) {
    while (fold->running() && !(fold->started() && fold->passes() >= goal)) {
      const bool first = fold == runs_.folds[0] && !fold->started();
      if (!fold->Advance(stop_).ok()) return Cancel();
      if (first && context_.first_gradient) context_.first_gradient();
    }
    if (fold->outcome() == TrainOutcome::kDiverged) {
      return Fail(study::failure::kDiverged,
                  absl::StrCat("training loss or gradient is not finite at iteration ", fold->iteration(),
                               linear_.standardize ? "" : "; features may be too large: set standardize"));
    }
    if (fold->running()) *least = std::min(*least, fold->passes());
  }
  return true;
}

bool LinearObjective::Evaluation::ComputeGradient() {
  gradient_begin_ = context_.clock == nullptr ? absl::ZeroDuration() : context_.clock->Monotonic();
  std::string why;  // There is no gradient.
  absl::StatusOr<std::optional<study::Gradient>> gradient =
      objective_->MakeGradient(wish_, tolerance_, linear_.penalties, runs_, &why, &result_.passes, stop_);
  if (!gradient.ok()) return Cancel();
  if (!why.empty()) absl::StrAppend(&result_.note, result_.note.empty() ? "" : "; ", why);
  gradient_ = *std::move(gradient);
  return true;
}

bool LinearObjective::Evaluation::Finish() {
  double most = 0.0;
  for (const std::unique_ptr<FoldTraining>& fold : runs_.folds) {
    most = std::max(most, fold->passes());
    result_.passes += fold->passes();
  }
  absl::StatusOr<study::Measurement> measured = Measure(axis_.LastStep(most));
  if (!measured.ok()) return Cancel();
  study::Measurement last = *std::move(measured);
  if (gradient_ && !context_.direction.empty()) gradient_ = study::Along(*gradient_, context_.direction);
  if (gradient_ && context_.clock != nullptr) {
    last.gradient_seconds = absl::ToDoubleSeconds(context_.clock->Monotonic() - gradient_begin_);
  }
  last.gradient = std::move(gradient_);
  last.training = ReportOf(runs_, chosen_);
  // It went as far as the search asked for, and no further.
  if (loose_ && last.training->outcome == study::TrainingOutcome::kConverged) {
    last.training->outcome = study::TrainingOutcome::kTarget;
  }
  if (!CheckFinite(last)) return false;
  if (settings_.Bool(study::kWarmStartOption) && context_.save_model) {
    context_.save_model(SaveModel(runs_, objective_->Structure(settings_)));
  }
  result_.measurement = std::move(last);
  return true;
}

absl::StatusOr<EvaluationResult> LinearObjective::Evaluate(const EvaluationContext& context) const {
  LUTHIER_ASSIGN_OR_RETURN(catalogue::Settings settings,
                           catalogue::Settings::Resolve(info_, options_, context.parameters));
  return Evaluation(this, &context, std::move(settings)).Run();
}

}  // namespace

bool MayPenalizeIntercept(const catalogue::ObjectiveInfo& info, const study::Parameters& options) {
  const auto is = [&](const char* name, bool otherwise) {
    const auto found = options.find(name);
    return found == options.end() ? otherwise : std::get<bool>(found->second);
  };
  return is("intercept", true) && (info.model == "hsvm" || is("penalize_intercept", false));
}

absl::Status CheckClasses(const catalogue::ObjectiveInfo& info, const study::BuiltinObjective& objective,
                          const data::Dataset& dataset) {
  const int classes = dataset.num_classes();
  if (classes > 2 && info.model == "hsvm") {
    return absl::InvalidArgumentError(
        absl::StrCat(dataset.name, ": objective hsvm is for two classes, not ", classes, "; use logistic"));
  }
  const auto penalize = objective.options.find("penalize_intercept");
  if (classes > 2 && penalize != objective.options.end() && std::get<bool>(penalize->second)) {
    return absl::InvalidArgumentError(
        absl::StrCat(dataset.name, ": penalize_intercept is for two classes, not ", classes, "; remove it"));
  }
  const auto threads = objective.options.find("threads");
  if (classes > 2 && threads != objective.options.end() && std::get<double>(threads->second) > 1.0) {
    return absl::InvalidArgumentError(
        absl::StrCat(dataset.name, ": threads above 1 is for two classes, not ", classes, "; remove it"));
  }
  return absl::OkStatus();
}

absl::StatusOr<bilevel::ColumnPenalties> PenaltiesFor(const catalogue::ObjectiveInfo& info,
                                                      const study::Parameters& options,
                                                      const std::vector<catalogue::PenaltyGroup>& groups,
                                                      std::optional<int64_t> length, const data::Dataset& dataset) {
  bilevel::ColumnPenalties penalties;
  const bool bias = MayPenalizeIntercept(info, options);
  if (!length) {
    LUTHIER_ASSIGN_OR_RETURN(penalties.column,
                             catalogue::GroupColumns(groups, {dataset.name, dataset.x.cols, dataset.features}, bias));
    penalties.count = static_cast<int>(groups.size()) + 1;
    return penalties;
  }
  const std::string per = catalogue::L2Per(options);
  const int64_t columns = dataset.x.cols;
  const int classes = dataset.num_classes();
  if (per != "column" && classes == 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        dataset.name, ": l2_per ", per, " is for more than two classes; two share one weight a column: use column"));
  }
  const int64_t weights = columns * classes;
  const int64_t own = per == "column" ? columns : per == "class" ? classes : weights;
  const bool with_bias = per == "column" && bias;
  if (*length != own + (with_bias ? 1 : 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        dataset.name, ": l2 has ", *length, " strengths, and ", own + (with_bias ? 1 : 0), " are needed: one for each ",
        per, with_bias ? absl::StrCat(" (", own, "), and the intercept's") : std::string()));
  }
  // Number 0 is the intercept's.
  penalties.count = static_cast<int>(own) + 1;
  if (per == "column") {
    penalties.column.resize(static_cast<size_t>(own));
    std::iota(penalties.column.begin(), penalties.column.end(), 1);
  } else {
    penalties.weight.resize(static_cast<size_t>(weights));
    for (int64_t i = 0; i < weights; ++i) {
      penalties.weight[static_cast<size_t>(i)] = static_cast<int32_t>(1 + (per == "class" ? i % classes : i));
    }
  }
  return penalties;
}

absl::StatusOr<std::unique_ptr<Objective>> CreateLinearObjective(const NewObjective& of, const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(RowSource source, LoadRows(of.spec, data::Task::kClassification, of.root, of.cache, stop));
  LUTHIER_RETURN_IF_ERROR(CheckClasses(of.info, of.spec, source.dataset));
  LUTHIER_ASSIGN_OR_RETURN(std::vector<catalogue::PenaltyGroup> groups, catalogue::GroupsOf(of.spec.options));
  LUTHIER_ASSIGN_OR_RETURN(const bilevel::ColumnPenalties columns,
                           PenaltiesFor(of.info, of.spec.options, groups,
                                        catalogue::LengthOf("l2", of.spec.options, of.space), source.dataset));
  catalogue::ObjectiveInfo with_groups = catalogue::WithPenaltyGroups(of.info, groups);
  return std::unique_ptr<Objective>(std::make_unique<LinearObjective>(
      std::move(with_groups), of.spec.options, of.space, of.metric, std::move(source.dataset), std::move(source.folds),
      std::move(source.identity), std::move(groups), columns));
}

}  // namespace luthier::objectives
