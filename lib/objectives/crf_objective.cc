#include "lib/objectives/crf_objective.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/chain_inner.h"
#include "lib/bilevel/implicit_gradient.h"
#include "lib/bilevel/units.h"
#include "lib/catalogue/crf_info.h"
#include "lib/catalogue/objective_info.h"
#include "lib/catalogue/penalty_groups.h"
#include "lib/catalogue/settings.h"
#include "lib/crf/features/segments.h"
#include "lib/crf/solvers/problem.h"
#include "lib/crf/training/trainer.h"
#include "lib/linear/minimizer.h"
#include "lib/objectives/chain_penalty.h"
#include "lib/objectives/chain_source.h"
#include "lib/objectives/crf_settings.h"
#include "lib/objectives/epoch_axis.h"
#include "lib/objectives/fold_errors.h"
#include "lib/objectives/training_evaluation.h"
#include "lib/study/measurement.h"
#include "lib/study/warm_start.h"

namespace luthier::objectives {
namespace {

using crf::ChainOutcome;

constexpr char kChainCheckpointKind[] = "objective.crf/6";
constexpr char kChainModelKind[] = "objective.crf.model/3";
constexpr char kF1[] = "validation_f1";

// One fold's training.
struct ChainRun {
  const ChainFold* fold;
  ChainPenalty penalty;
  std::unique_ptr<const crf::ChainData> scaled;  // The training data; null: fold->train as it is.
  crf::ChainTrainer trainer;
  std::unique_ptr<crf::ChainLoss> held_out;
  double passes = 0.0;       // Passes of finished calls of Advance.
  Eigen::VectorXd polished;  // Weights that the gradient belongs to. Empty: the trainer's.
  Eigen::VectorXd adjoint;   // Start of the gradient's linear system, and then its solution. Empty: the start is 0.

  // Returns false, without a change, if it does not fit.
  bool SetAdjoint(Eigen::VectorXd other) {
    if (other.size() > 0 && (other.size() != fold->train.shape().dim() || !other.allFinite())) return false;
    adjoint = std::move(other);
    return true;
  }
  void CopyWeights(Eigen::VectorXd* w) const {
    if (polished.size() > 0) {
      *w = polished;
      return;
    }
    trainer.CopyWeights(w);
    penalty.Unscale(fold->train.shape().stride(), w);
  }

  bool running() const { return trainer.outcome() == ChainOutcome::kRunning; }
};

class CrfObjective final : public Objective {
 public:
  CrfObjective(catalogue::ObjectiveInfo info, study::Parameters options, study::SearchSpace space,
               study::MetricSpec metric, std::vector<catalogue::PenaltyGroup> groups,
               std::unique_ptr<const ChainSource> source, const crf::Kernels& kernels)
      : info_(std::move(info)),
        options_(std::move(options)),
        space_(std::move(space)),
        metric_(std::move(metric)),
        groups_(std::move(groups)),
        source_(std::move(source)),
        kernels_(kernels) {}

  const catalogue::ObjectiveInfo& info() const override { return info_; }
  absl::StatusOr<EvaluationResult> Evaluate(const EvaluationContext& context) const override;

 private:
  class Evaluation;
  struct GradientPlan {
    bool compute = false;
    std::string note;  // Reason, for people, if there is no gradient where they would expect one.
  };
  // Decides whether a gradient is wanted and defined at the end of `runs`: see option `gradient` in the catalogue.
  GradientPlan PlanGradient(const catalogue::Settings& settings, const EvaluationContext& context,
                            const std::vector<ChainRun>& runs, const std::vector<double>& l2,
                            const std::vector<double>& l1) const;
  // Returns the index of a parameter among the strengths, 0 for l2, then the groups; std::nullopt for other parameters.
  std::optional<size_t> PenaltyIndex(const std::string& name) const;

  const catalogue::ObjectiveInfo info_;
  const study::Parameters options_;
  const study::SearchSpace space_;
  const study::MetricSpec metric_;
  const std::vector<catalogue::PenaltyGroup> groups_;
  const std::unique_ptr<const ChainSource> source_;
  const crf::Kernels kernels_;
};

// True if the labels are those of segments, of which F1 is a measure.
bool HasSegments(const EncodedChains& data) {
  return std::any_of(data.folds.begin(), data.folds.end(),
                     [](const ChainFold& fold) { return crf::SegmentScorer(fold.train.label_names).has_segments(); });
}

// Measures all folds' held-out tokens and segments. `w`: scratch.
absl::StatusOr<study::Measurement> MeasureRuns(const std::vector<ChainRun>& runs, bool has_segments, int64_t step,
                                               const base::StopToken& stop, Eigen::VectorXd* w) {
  double loss = 0.0, known = 0.0, right = 0.0, tokens = 0.0;
  crf::SegmentCounts segments;
  FoldErrors errors;
  for (const ChainRun& run : runs) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    run.CopyWeights(w);
    LUTHIER_ASSIGN_OR_RETURN(const crf::ChainLoss::Metrics m, run.held_out->Evaluate(*w, nullptr, stop));
    loss += m.loss_nats * static_cast<double>(m.known_tokens);
    known += static_cast<double>(m.known_tokens);
    right += m.accuracy * static_cast<double>(m.tokens);
    tokens += static_cast<double>(m.tokens);
    errors.Add("validation_loss", m.loss_nats * static_cast<double>(m.known_tokens),
               static_cast<double>(m.known_tokens));
    errors.Add("validation_accuracy", m.accuracy * static_cast<double>(m.tokens), static_cast<double>(m.tokens));
    segments.found += m.segments.all.found;
    segments.gold += m.segments.all.gold;
    segments.correct += m.segments.all.correct;
  }
  study::Measurement point;
  point.step = step;
  point.metrics["validation_loss"] = loss / std::max(known, 1.0);
  point.metrics["validation_accuracy"] = right / tokens;
  if (has_segments) point.metrics[kF1] = segments.f1();
  errors.WriteTo(&point);
  return point;
}

// Returns how a training ended that goes no further, with kPaused if it still runs. `limited`: the outcome to report if
// the limit of passes ended it.
study::TrainingOutcome OutcomeOf(const crf::ChainTrainer& trainer, study::TrainingOutcome limited) {
  switch (trainer.outcome()) {
    case ChainOutcome::kConverged:
      return study::TrainingOutcome::kConverged;
    case ChainOutcome::kPrecision:
      return study::TrainingOutcome::kPrecision;
    case ChainOutcome::kPassLimit:
      return limited;
    case ChainOutcome::kDiverged:
      return study::TrainingOutcome::kDiverged;
    case ChainOutcome::kRunning:
      return study::TrainingOutcome::kTarget;
  }
  LUTHIER_CHECK(false);
}

// Reports on the training of all folds. A pause goes without gradient_norm, which may cost a pass over the data.
absl::StatusOr<study::TrainingReport> Report(std::vector<ChainRun>* runs, study::TrainingOutcome limited, bool paused,
                                             const base::StopToken& stop) {
  std::optional<study::TrainingReport> worst;
  for (ChainRun& run : *runs) {
    study::TrainingReport report;
    report.outcome = OutcomeOf(run.trainer, limited);
    if (!paused) {
      LUTHIER_ASSIGN_OR_RETURN(const double norm, run.trainer.RelativeGradient(stop));
      if (std::isfinite(norm)) report.gradient_norm = norm;
    }
    worst = worst ? study::Worse(*worst, report) : report;
  }
  return *worst;
}

// `l2`, `l1`: results of PenaltiesOf.
absl::StatusOr<std::vector<ChainRun>> MakeRuns(const EncodedChains& data, int32_t transitions_group,
                                               const std::vector<double>& l2, const std::vector<double>& l1,
                                               crf::ChainTrainerOptions options, const crf::Kernels& kernels) {
  std::vector<ChainRun> runs;
  for (const ChainFold& fold : data.folds) {
    ChainPenalty penalty(fold.row_group, transitions_group, l2, l1);
    options.l1 = penalty.l1();
    std::unique_ptr<const crf::ChainData> scaled;
    if (!penalty.uniform()) scaled = std::make_unique<crf::ChainData>(penalty.Scaled(fold.train));
    LUTHIER_ASSIGN_OR_RETURN(
        crf::ChainTrainer trainer,
        crf::ChainTrainer::Create(scaled == nullptr ? &fold.train : scaled.get(), penalty.l2(), options, kernels));
    runs.push_back({&fold, std::move(penalty), std::move(scaled), std::move(trainer),
                    std::make_unique<crf::ChainLoss>(&fold.validation, 1, kernels), 0.0, Eigen::VectorXd(),
                    Eigen::VectorXd()});
  }
  return runs;
}

// Newton's steps end with a step that promised a share this small of h: beyond, losses change by less than searches
// see.
constexpr double kChainPolishGain = 1e-11;
constexpr int kChainPolishSteps = 8;
constexpr double kChainAdjointTolerance = 1e-7;
// Vectors of weights that a gradient needs at once.
constexpr double kGradientVectors = 12.0;

// Computes the derivatives of the mean validation loss by ln l2 of each group. Moves the runs' weights to the optimum
// first. Returns std::nullopt if conjugate gradients do not get there.
absl::StatusOr<std::optional<Eigen::VectorXd>> Differentiate(std::vector<ChainRun>* runs, int32_t transitions_group,
                                                             const std::vector<double>& l2,
                                                             std::optional<double> tolerance,
                                                             const crf::Kernels& kernels, study::ImplicitSolve* solve,
                                                             const base::StopToken& stop) {
  solve->tolerance = tolerance.value_or(0.0);
  solve->strong_convexity = *std::min_element(l2.begin(), l2.end());
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(l2.size()));
  double tokens = 0.0;
  std::vector<Eigen::VectorXd> polished;
  for (ChainRun& run : *runs) {
    bilevel::ChainInner inner(&run.fold->train, run.fold->row_group, transitions_group, l2, kernels);
    bilevel::ChainOuter outer(&run.fold->validation, kernels);
    Eigen::VectorXd w;
    run.CopyWeights(&w);
    LUTHIER_RETURN_IF_ERROR(bilevel::PolishInner(inner, tolerance ? 0.0 : kChainPolishGain, {kChainPolishSteps}, stop,
                                                 &w, tolerance.value_or(0.0) * solve->strong_convexity)
                                .status());
    bilevel::ImplicitGradientOptions options;
    options.relative_tolerance = tolerance.value_or(kChainAdjointTolerance);
    options.error_bound = false;
    options.stop = stop;
    LUTHIER_ASSIGN_OR_RETURN(const bilevel::ImplicitGradient gradient,
                             bilevel::ComputeImplicitGradient(inner, outer, w, run.adjoint, options));
    const bool solved =
        gradient.outcome == linear::CgOutcome::kConverged || gradient.outcome == linear::CgOutcome::kPrecision;
    if (!solved || !gradient.gradient.allFinite()) return std::nullopt;
    solve->inner_gradient_norm = std::max(solve->inner_gradient_norm, gradient.inner_gradient_norm);
    solve->outer_gradient_norm = std::max(solve->outer_gradient_norm, gradient.outer_gradient_norm);
    solve->residual = std::max(solve->residual, gradient.cg_residual);
    sum += static_cast<double>(outer.known_tokens()) * gradient.gradient;
    tokens += static_cast<double>(outer.known_tokens());
    run.adjoint = gradient.adjoint;
    polished.push_back(std::move(w));
  }
  for (size_t k = 0; k < runs->size(); ++k) (*runs)[k].polished = std::move(polished[k]);
  return Eigen::VectorXd(sum / std::max(tokens, 1.0));
}

std::string SaveRuns(const EpochAxis& axis, bool warm, const std::vector<ChainRun>& runs, const std::string& identity) {
  base::CheckpointWriter writer(kChainCheckpointKind);
  writer.U64(static_cast<uint64_t>(axis.goal()));
  writer.U64(warm ? 1 : 0);
  for (size_t k = 0; k < runs.size(); ++k) {
    writer.F64(runs[k].passes);
    writer.Vector(runs[k].adjoint);
    runs[k].trainer.Save(&writer, absl::StrCat(identity, " fold ", k));
  }
  return std::move(writer).Finish();
}

// Returns false if `bytes` do not fit; axis and runs are of no use then.
bool LoadRuns(const std::string& bytes, const std::string& identity, EpochAxis* axis, bool* warm,
              std::vector<ChainRun>* runs) {
  absl::StatusOr<base::CheckpointReader> reader = base::CheckpointReader::Open(bytes, kChainCheckpointKind);
  if (!reader.ok()) return false;
  const auto goal = static_cast<int64_t>(reader->U64());
  if (goal < 1) return false;
  axis->Resume(goal);
  *warm = reader->U64() != 0;
  for (size_t k = 0; k < runs->size(); ++k) {
    ChainRun& run = (*runs)[k];
    run.passes = reader->F64();
    if (!run.SetAdjoint(reader->Vector())) return false;
    if (!run.trainer.Load(&*reader, absl::StrCat(identity, " fold ", k)).ok()) return false;
  }
  return reader->Done();
}

// Saves the state that later trials can start from. `structure`: the settings that they must share; `l2`: from
// PenaltiesOf.
std::string SaveModel(const std::vector<ChainRun>& runs, const std::string& structure, const std::vector<double>& l2) {
  base::CheckpointWriter writer(kChainModelKind);
  writer.Array(l2);
  for (const ChainRun& run : runs) {
    run.trainer.SaveModel(&writer, structure);
    writer.Vector(run.adjoint);
  }
  return std::move(writer).Finish();
}

// Returns true if all runs start from the model; otherwise they are of no use.
bool LoadModel(const std::string& bytes, const std::string& structure, int32_t transitions_group, size_t penalties,
               std::vector<ChainRun>* runs) {
  absl::StatusOr<base::CheckpointReader> reader = base::CheckpointReader::Open(bytes, kChainModelKind);
  if (!reader.ok()) return false;
  const auto l2 = reader->Array<double>();
  if (l2.size() != penalties) return false;
  for (ChainRun& run : *runs) {
    const ChainPenalty other(run.fold->row_group, transitions_group, l2, std::vector<double>(penalties, 0.0));
    if (!run.trainer.WarmStart(&*reader, structure, run.penalty.From(other)).ok()) return false;
    if (!run.SetAdjoint(reader->Vector())) return false;
  }
  return reader->Done();
}

std::optional<size_t> CrfObjective::PenaltyIndex(const std::string& name) const {
  if (name == "l2") return 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (name == catalogue::PenaltyName(groups_[g])) return g + 1;
  }
  return std::nullopt;
}

CrfObjective::GradientPlan CrfObjective::PlanGradient(const catalogue::Settings& settings,
                                                      const EvaluationContext& context,
                                                      const std::vector<ChainRun>& runs, const std::vector<double>& l2,
                                                      const std::vector<double>& l1) const {
  const catalogue::MetricInfo* metric = info_.FindMetric(metric_.name);
  const size_t strengths = space_.differentiable().size();
  const bool wanted = settings.given("gradient")
                          ? settings.Bool("gradient")
                          : context.gradient != GradientUse::kNone &&
                                (context.by_gradients_alone || strengths >= catalogue::kFewestChainStrengths);
  if (!wanted || metric == nullptr || !metric->gradient || strengths == 0) return {};
  for (const study::Scalar& scalar : space_.differentiable()) {
    if (!PenaltyIndex(space_.parameters()[static_cast<size_t>(scalar.parameter)].name)) return {};
  }
  if (std::any_of(l1.begin(), l1.end(), [](double x) { return x > 0.0; })) return {};
  if (!std::all_of(l2.begin(), l2.end(), [](double x) { return x > 0.0; })) return {};
  double bytes = 0.0;
  for (const ChainRun& run : runs) {
    const ChainOutcome outcome = run.trainer.outcome();
    if (outcome != ChainOutcome::kConverged && outcome != ChainOutcome::kPrecision) return {};
    bytes = std::max(bytes, kGradientVectors * 8.0 * static_cast<double>(run.fold->train.shape().dim()));
  }
  const double mib = bytes / (1 << 20);
  if (mib > settings.Number("max_memory_mib")) {
    return {false, absl::StrCat("no gradient: it needs ", static_cast<int64_t>(std::ceil(mib)),
                                " MiB, and max_memory_mib is ", settings.Int("max_memory_mib"))};
  }
  return {true, ""};
}

class CrfObjective::Evaluation final : public TrainingEvaluation {
 public:
  Evaluation(const CrfObjective* objective, const EvaluationContext* context, catalogue::Settings settings,
             std::shared_ptr<const EncodedChains> data);
  absl::StatusOr<EvaluationResult> Run();

 private:
  absl::Status MakeRuns() {
    LUTHIER_ASSIGN_OR_RETURN(
        runs_, objectives::MakeRuns(*data_, transitions_group_, l2_, l1_, options_, objective_->kernels_));
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Begin();
  bool ComputeGradient();
  bool Finish();

  bool Advance(double goal, double* least) override;
  absl::StatusOr<study::Measurement> Measure(int64_t step) override {
    return MeasureRuns(runs_, has_segments_, step, stop_, &w_);
  }
  absl::StatusOr<study::TrainingReport> ReportPaused() override { return Report(&runs_, limited_, true, stop_); }
  std::string Save() const override { return SaveRuns(axis_, warm_, runs_, identity_); }

  const CrfObjective* objective_;
  const catalogue::Settings settings_;
  const std::shared_ptr<const EncodedChains> data_;
  const int32_t transitions_group_;
  const crf::ChainTrainerOptions options_;
  const std::vector<double> l2_, l1_;
  const bool has_segments_;
  const study::TrainingOutcome limited_;  // Outcome of a training that the limit of passes ended.
  std::string identity_;                  // Text that a checkpoint and this evaluation must have in common.
  std::string structure_;                 // Text that a model must have in common with it to be a start.
  std::vector<ChainRun> runs_;
  bool warm_ = false;  // The trainings began where those of another trial ended.
  Eigen::VectorXd w_;  // Scratch.
  std::optional<study::Gradient> gradient_;
  std::optional<double> gradient_seconds_;
};

CrfObjective::Evaluation::Evaluation(const CrfObjective* objective, const EvaluationContext* context,
                                     catalogue::Settings settings, std::shared_ptr<const EncodedChains> data)
    : TrainingEvaluation(context,
                         EpochAxis(settings.Int("report_every"), settings.Int("checkpoint_every"), context->target)),
      objective_(objective),
      settings_(std::move(settings)),
      data_(std::move(data)),
      transitions_group_(objective->source_->transitions_group()),
      options_(ChainTrainingOptions(settings_, context->seed)),
      l2_(catalogue::PenaltiesOf(objective->groups_, settings_)),
      l1_(catalogue::PenaltiesOf(objective->groups_, settings_, "l1")),
      has_segments_(HasSegments(*data_)),
      limited_(settings_.given("max_passes") ? study::TrainingOutcome::kTarget : study::TrainingOutcome::kLimit) {
  fresh_.Resume(1);  // There is no point before the first pass.
  study::Parameters relevant = settings_.values();
  for (const char* name : {"report_every", "checkpoint_every", "max_memory_mib"}) relevant.erase(name);
  identity_ = absl::StrCat(data_->identity, " seed ", context->seed, " ", study::FormatParameters(relevant));
  for (const char* penalty : {"l2", "l1"}) {
    relevant.erase(penalty);
    for (const catalogue::PenaltyGroup& group : objective->groups_) {
      relevant.erase(catalogue::PenaltyName(group, penalty));
    }
  }
  structure_ = absl::StrCat(data_->identity, " ", study::FormatParameters(relevant));
}

absl::StatusOr<EvaluationResult> CrfObjective::Evaluation::Run() {
  LUTHIER_ASSIGN_OR_RETURN(bool goes_on, Begin());
  if (goes_on) {
    LUTHIER_ASSIGN_OR_RETURN(goes_on, Train());
  }
  if (goes_on && ComputeGradient()) Finish();
  return std::move(result_);
}

absl::StatusOr<bool> CrfObjective::Evaluation::Begin() {
  if (!has_segments_ && objective_->metric_.name == kF1) {
    return Fail(
        study::failure::kBadObjective,
        absl::StrCat(kF1, " is that of segments, and no label has the form B-X or I-X; use validation_accuracy"));
  }
  const absl::Status made = MakeRuns();
  if (!made.ok()) return Fail(study::failure::kBadObjective, std::string(made.message()));
  axis_ = fresh_;
  if (!context_.checkpoint.empty()) {
    result_.resumed = LoadRuns(context_.checkpoint, identity_, &axis_, &warm_, &runs_);
    if (!result_.resumed) {
      LUTHIER_RETURN_IF_ERROR(MakeRuns());
      axis_ = fresh_;
      warm_ = false;
    }
  }
  if (!result_.resumed && settings_.Bool(study::kWarmStartOption) && !context_.warm_start.empty()) {
    warm_ = LoadModel(context_.warm_start, structure_, transitions_group_, l2_.size(), &runs_);
    if (!warm_) {
      LUTHIER_RETURN_IF_ERROR(MakeRuns());
    }
  }
  result_.warm_started = warm_;
  if (context_.started) context_.started(result_.resumed, axis_.done());
  if (context_.first_gradient) runs_[0].trainer.OnFirstGradient(context_.first_gradient);
  return true;
}

bool CrfObjective::Evaluation::Advance(double goal, double* least) {
  for (ChainRun& run : runs_) {
    while (run.running() && run.passes < goal) {
      const absl::StatusOr<ChainOutcome> outcome = run.trainer.Advance(stop_);
      if (!outcome.ok()) return Cancel();
      if (*outcome == ChainOutcome::kDiverged) {
        return Fail(study::failure::kDiverged,
                    absl::StrCat("a loss is not finite after ", static_cast<int64_t>(run.trainer.passes()),
                                 " passes; raise l2, or take solver lbfgs"));
      }
      run.passes = run.trainer.passes();
    }
    if (run.running()) *least = std::min(*least, run.passes);
  }
  return true;
}

bool CrfObjective::Evaluation::ComputeGradient() {
  const GradientPlan plan = objective_->PlanGradient(settings_, context_, runs_, l2_, l1_);
  result_.note = plan.note;
  if (!plan.compute) return true;
  const absl::Duration begin = context_.clock == nullptr ? absl::ZeroDuration() : context_.clock->Monotonic();
  study::ImplicitSolve solve;
  const absl::StatusOr<std::optional<Eigen::VectorXd>> by_log =
      Differentiate(&runs_, transitions_group_, l2_, context_.tolerance, objective_->kernels_, &solve, stop_);
  if (!by_log.ok()) return Cancel();
  if (!*by_log) return true;
  gradient_.emplace();
  gradient_->solve = solve;
  const study::SearchSpace& space = objective_->space_;
  for (const study::Scalar& scalar : space.differentiable()) {
    const size_t k = *objective_->PenaltyIndex(space.parameters()[static_cast<size_t>(scalar.parameter)].name);
    gradient_->values.push_back(
        bilevel::UserUnitDerivative((**by_log)[static_cast<Eigen::Index>(k)], l2_[k], bilevel::Coordinate::kLog));
  }
  if (!context_.direction.empty()) gradient_ = study::Along(*gradient_, context_.direction);
  if (context_.clock != nullptr) gradient_seconds_ = absl::ToDoubleSeconds(context_.clock->Monotonic() - begin);
  return true;
}

bool CrfObjective::Evaluation::Finish() {
  double most = 0.0;
  for (const ChainRun& run : runs_) most = std::max(most, run.passes);
  absl::StatusOr<study::Measurement> last = Measure(axis_.LastStep(most));
  if (!last.ok()) return Cancel();
  double train_loss = 0.0, train_tokens = 0.0, active = 0.0;
  for (const ChainRun& run : runs_) {
    run.CopyWeights(&w_);
    const absl::StatusOr<double> loss =
        crf::ChainLoss(&run.fold->train, 1, objective_->kernels_).Value(w_, nullptr, stop_);
    if (!loss.ok()) return Cancel();
    train_loss += *loss;
    train_tokens += static_cast<double>(run.fold->train.tokens());
    active += static_cast<double>((w_.array() != 0.0).count()) / static_cast<double>(runs_.size());
  }
  absl::StatusOr<study::TrainingReport> report = Report(&runs_, limited_, false, stop_);
  if (!report.ok() || stop_.stop_requested()) return Cancel();  // The last sequences may have passed without a look.
  last->training = *std::move(report);
  last->gradient = std::move(gradient_);
  last->gradient_seconds = gradient_seconds_;
  last->metrics["train_loss"] = train_loss / train_tokens;
  last->metrics["active_weights"] = active;
  if (!CheckFinite(*last)) return false;
  if (settings_.Bool(study::kWarmStartOption) && context_.save_model)
    context_.save_model(SaveModel(runs_, structure_, l2_));
  result_.measurement = *std::move(last);
  return true;
}

absl::StatusOr<EvaluationResult> CrfObjective::Evaluate(const EvaluationContext& context) const {
  LUTHIER_ASSIGN_OR_RETURN(catalogue::Settings settings,
                           catalogue::Settings::Resolve(info_, options_, context.parameters));
  absl::StatusOr<std::shared_ptr<const EncodedChains>> encoded = source_->Encode(settings, context.stop);
  if (absl::IsCancelled(encoded.status())) {
    EvaluationResult result;
    result.outcome = EvaluationOutcome::kCancelled;
    return result;
  }
  LUTHIER_RETURN_IF_ERROR(encoded.status());
  return Evaluation(this, &context, std::move(settings), *std::move(encoded)).Run();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Objective>> CreateCrfObjective(const NewObjective& of, const base::StopToken& stop,
                                                              const crf::Kernels& kernels) {
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<catalogue::PenaltyGroup> groups, catalogue::GroupsOf(of.spec.options));
  LUTHIER_ASSIGN_OR_RETURN(std::unique_ptr<const ChainSource> source,
                           ChainSource::Open(of.spec, of.root, of.cache, stop));
  return std::unique_ptr<Objective>(std::make_unique<CrfObjective>(catalogue::WithPenaltyGroups(of.info, groups),
                                                                   of.spec.options, of.space, of.metric, groups,
                                                                   std::move(source), kernels));
}

}  // namespace luthier::objectives
