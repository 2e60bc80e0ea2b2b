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
  std::unique_ptr<const crf::ChainData> scaled;  // What is trained on; null: fold->train as it is.
  crf::ChainTrainer trainer;
  std::unique_ptr<crf::ChainLoss> held_out;
  double passes = 0.0;       // Of finished calls of Advance.
  Eigen::VectorXd polished;  // Weights that the gradient belongs to. Empty: the trainer's.
  Eigen::VectorXd adjoint;   // Where the gradient's linear system starts, and its solution. Empty: from 0.

  // False, and nothing is changed, if it does not fit.
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
  struct GradientPlan {
    bool compute = false;
    std::string note;  // For people: why not, where they would expect one.
  };
  // Whether a gradient is wanted and defined at the end of `runs`: see option `gradient` in the catalogue.
  GradientPlan PlanGradient(const catalogue::Settings& settings, const EvaluationContext& context,
                            const std::vector<ChainRun>& runs, const std::vector<double>& l2,
                            const std::vector<double>& l1) const;
  // Index of a parameter among the strengths: 0 for l2, then the groups; absent for other parameters.
  std::optional<size_t> PenaltyIndex(const std::string& name) const;

  const catalogue::ObjectiveInfo info_;
  const study::Parameters options_;
  const study::SearchSpace space_;
  const study::MetricSpec metric_;
  const std::vector<catalogue::PenaltyGroup> groups_;
  const std::unique_ptr<const ChainSource> source_;
  const crf::Kernels kernels_;
};

// Where a trial is.
struct Progress {
  std::vector<ChainRun> runs;
  EpochAxis axis;
  bool warm = false;  // It began where another trial ended.
};

// Whether labels are such that F1, which is that of segments, means something.
bool HasSegments(const EncodedChains& data) {
  return std::any_of(data.folds.begin(), data.folds.end(),
                     [](const ChainFold& fold) { return crf::SegmentScorer(fold.train.label_names).has_segments(); });
}

// Over all folds' held-out tokens and segments. `w`: scratch.
absl::StatusOr<study::Measurement> Measure(const std::vector<ChainRun>& runs, bool has_segments, int64_t step,
                                           const base::StopToken& stop, Eigen::VectorXd* w) {
  double loss = 0.0, known = 0.0, right = 0.0, tokens = 0.0;
  crf::SegmentCounts segments;
  for (const ChainRun& run : runs) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    run.CopyWeights(w);
    LUTHIER_ASSIGN_OR_RETURN(const crf::ChainLoss::Metrics m, run.held_out->Evaluate(*w, nullptr, stop));
    loss += m.loss_nats * static_cast<double>(m.known_tokens);
    known += static_cast<double>(m.known_tokens);
    right += m.accuracy * static_cast<double>(m.tokens);
    tokens += static_cast<double>(m.tokens);
    segments.found += m.segments.all.found;
    segments.gold += m.segments.all.gold;
    segments.correct += m.segments.all.correct;
  }
  study::Measurement point;
  point.step = step;
  point.metrics["validation_loss"] = loss / std::max(known, 1.0);
  point.metrics["validation_accuracy"] = right / tokens;
  if (has_segments) point.metrics[kF1] = segments.f1();
  return point;
}

// How a training ended that is to go no further: at a pause while it runs. `limited`: what the limit of passes is when
// it ended it.
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

// Of all folds. A pause goes without gradient_norm, which may cost a pass over the data.
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

// `l2`, `l1`: of PenaltiesOf.
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

// Newton's steps end with one that promised so little of h: beyond, losses change by less than searches see.
constexpr double kChainPolishGain = 1e-11;
constexpr int kChainPolishSteps = 8;
constexpr double kChainAdjointTolerance = 1e-7;
// Vectors of weights that a gradient needs at once.
constexpr double kGradientVectors = 12.0;

// Derivatives of the mean validation loss by ln l2 of each group. Moves the runs' weights to the optimum first. Absent
// where conjugate gradients do not get there.
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

std::string Save(const Progress& progress, const std::string& identity) {
  base::CheckpointWriter writer(kChainCheckpointKind);
  writer.U64(static_cast<uint64_t>(progress.axis.goal()));
  writer.U64(progress.warm ? 1 : 0);
  for (size_t k = 0; k < progress.runs.size(); ++k) {
    writer.F64(progress.runs[k].passes);
    writer.Vector(progress.runs[k].adjoint);
    progress.runs[k].trainer.Save(&writer, absl::StrCat(identity, " fold ", k));
  }
  return std::move(writer).Finish();
}

// Whether `bytes` fitted; else the runs are of no use.
bool Load(const std::string& bytes, const std::string& identity, Progress* progress) {
  absl::StatusOr<base::CheckpointReader> reader = base::CheckpointReader::Open(bytes, kChainCheckpointKind);
  if (!reader.ok()) return false;
  const auto goal = static_cast<int64_t>(reader->U64());
  if (goal < 1) return false;
  progress->axis.Resume(goal);
  progress->warm = reader->U64() != 0;
  for (size_t k = 0; k < progress->runs.size(); ++k) {
    ChainRun& run = progress->runs[k];
    run.passes = reader->F64();
    if (!run.SetAdjoint(reader->Vector())) return false;
    if (!run.trainer.Load(&*reader, absl::StrCat(identity, " fold ", k)).ok()) return false;
  }
  return reader->Done();
}

// What later trials can start from. `structure`: what they must have in common; `l2`: of PenaltiesOf.
std::string SaveModel(const std::vector<ChainRun>& runs, const std::string& structure, const std::vector<double>& l2) {
  base::CheckpointWriter writer(kChainModelKind);
  writer.Array(l2);
  for (const ChainRun& run : runs) {
    run.trainer.SaveModel(&writer, structure);
    writer.Vector(run.adjoint);
  }
  return std::move(writer).Finish();
}

// Whether all start from there; else they are of no use.
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

absl::StatusOr<EvaluationResult> CrfObjective::Evaluate(const EvaluationContext& context) const {
  LUTHIER_ASSIGN_OR_RETURN(const catalogue::Settings settings,
                           catalogue::Settings::Resolve(info_, options_, context.parameters));
  const base::StopToken& stop = context.stop;
  const absl::StatusOr<std::shared_ptr<const EncodedChains>> encoded = source_->Encode(settings, stop);
  EvaluationResult result;
  if (absl::IsCancelled(encoded.status())) {
    result.outcome = EvaluationOutcome::kCancelled;
    return result;
  }
  LUTHIER_RETURN_IF_ERROR(encoded.status());
  const EncodedChains& data = **encoded;
  const crf::ChainTrainerOptions options = ChainTrainingOptions(settings, context.seed);
  const std::vector<double> l2 = catalogue::PenaltiesOf(groups_, settings),
                            l1 = catalogue::PenaltiesOf(groups_, settings, "l1");
  EpochAxis fresh(settings.Int("report_every"), settings.Int("checkpoint_every"), context.target);
  fresh.Resume(1);  // There is no point before the first pass.
  study::Parameters relevant = settings.values();
  for (const char* name : {"report_every", "checkpoint_every", "max_memory_mib"}) relevant.erase(name);
  const std::string identity =
      absl::StrCat(data.identity, " seed ", context.seed, " ", study::FormatParameters(relevant));
  for (const char* penalty : {"l2", "l1"}) {
    relevant.erase(penalty);
    for (const catalogue::PenaltyGroup& group : groups_) relevant.erase(catalogue::PenaltyName(group, penalty));
  }
  const std::string structure = absl::StrCat(data.identity, " ", study::FormatParameters(relevant));
  const bool warm = settings.Bool(study::kWarmStartOption);
  const study::TrainingOutcome limited =
      settings.given("max_passes") ? study::TrainingOutcome::kTarget : study::TrainingOutcome::kLimit;

  const auto fail = [&](const char* reason, const std::string& message) {
    result.outcome = EvaluationOutcome::kFailed;
    result.failure = study::Failure{study::FailureKind::kConfig, reason, message};
    return result;
  };
  const bool has_segments = HasSegments(data);
  if (!has_segments && metric_.name == kF1) {
    return fail(
        study::failure::kBadObjective,
        absl::StrCat(kF1, " is that of segments, and no label has the form B-X or I-X; use validation_accuracy"));
  }
  const auto make = [&] { return MakeRuns(data, source_->transitions_group(), l2, l1, options, kernels_); };
  absl::StatusOr<std::vector<ChainRun>> made = make();
  if (!made.ok()) return fail(study::failure::kBadObjective, std::string(made.status().message()));
  Progress progress = {*std::move(made), fresh, false};
  if (!context.checkpoint.empty()) {
    result.resumed = Load(context.checkpoint, identity, &progress);
    if (!result.resumed) {
      LUTHIER_ASSIGN_OR_RETURN(progress.runs, make());
      progress.axis = fresh;
      progress.warm = false;
    }
  }
  if (!result.resumed && warm && !context.warm_start.empty()) {
    progress.warm = LoadModel(context.warm_start, structure, source_->transitions_group(), l2.size(), &progress.runs);
    if (!progress.warm) {
      LUTHIER_ASSIGN_OR_RETURN(progress.runs, make());
    }
  }
  result.warm_started = progress.warm;
  std::vector<ChainRun>& runs = progress.runs;
  Eigen::VectorXd w;
  if (context.started) context.started(result.resumed, progress.axis.done());
  const auto save = [&] {
    if (context.save_checkpoint) context.save_checkpoint(Save(progress, identity));
  };
  const auto cancelled = [&] {
    save();
    result.outcome = EvaluationOutcome::kCancelled;
    return result;
  };
  if (context.first_gradient) runs[0].trainer.OnFirstGradient(context.first_gradient);
  while (true) {
    double least = INFINITY;  // Passes of those that run.
    for (ChainRun& run : runs) {
      while (run.running() && run.passes < static_cast<double>(progress.axis.goal())) {
        const absl::StatusOr<ChainOutcome> outcome = run.trainer.Advance(stop);
        if (!outcome.ok()) return cancelled();
        if (*outcome == ChainOutcome::kDiverged) {
          return fail(study::failure::kDiverged,
                      absl::StrCat("a loss is not finite after ", static_cast<int64_t>(run.trainer.passes()),
                                   " passes; raise l2, or take solver lbfgs"));
        }
        run.passes = run.trainer.passes();
      }
      if (run.running()) least = std::min(least, run.passes);
    }
    if (std::isinf(least)) break;
    const EpochAxis::Point at = progress.axis.At(least);
    if (at.pause || (context.report && at.report)) {
      absl::StatusOr<study::Measurement> point = Measure(runs, has_segments, at.step, stop, &w);
      if (!point.ok()) return cancelled();
      const bool go_on = !context.report || context.report(*point);
      if (!go_on || at.pause) {
        result.outcome = go_on ? EvaluationOutcome::kPaused : EvaluationOutcome::kStopped;
        if (go_on) {
          LUTHIER_ASSIGN_OR_RETURN(point->training, Report(&runs, limited, true, stop));
        }
        result.measurement = *std::move(point);
      }
      if (!go_on) return result;
    }
    progress.axis.MoveOn(at);
    if (at.pause || at.checkpoint) save();
    if (at.pause) return result;
  }
  std::optional<study::Gradient> gradient;
  std::optional<double> gradient_seconds;
  const GradientPlan plan = PlanGradient(settings, context, runs, l2, l1);
  result.note = plan.note;
  if (plan.compute) {
    const absl::Duration begin = context.clock == nullptr ? absl::ZeroDuration() : context.clock->Monotonic();
    study::ImplicitSolve solve;
    const absl::StatusOr<std::optional<Eigen::VectorXd>> by_log =
        Differentiate(&runs, source_->transitions_group(), l2, context.tolerance, kernels_, &solve, stop);
    if (!by_log.ok()) return cancelled();
    if (*by_log) {
      gradient.emplace();
      gradient->solve = solve;
      for (const study::Scalar& scalar : space_.differentiable()) {
        const size_t k = *PenaltyIndex(space_.parameters()[static_cast<size_t>(scalar.parameter)].name);
        gradient->values.push_back(
            bilevel::UserUnitDerivative((**by_log)[static_cast<Eigen::Index>(k)], l2[k], bilevel::Coordinate::kLog));
      }
      if (!context.direction.empty()) gradient = study::Along(*gradient, context.direction);
      if (context.clock != nullptr) gradient_seconds = absl::ToDoubleSeconds(context.clock->Monotonic() - begin);
    }
  }
  double most = 0.0;
  for (const ChainRun& run : runs) most = std::max(most, run.passes);
  absl::StatusOr<study::Measurement> last = Measure(runs, has_segments, progress.axis.LastStep(most), stop, &w);
  if (!last.ok()) return cancelled();
  double train_loss = 0.0, train_tokens = 0.0, active = 0.0;
  for (const ChainRun& run : runs) {
    run.CopyWeights(&w);
    const absl::StatusOr<double> loss = crf::ChainLoss(&run.fold->train, 1, kernels_).Value(w, nullptr, stop);
    if (!loss.ok()) return cancelled();
    train_loss += *loss;
    train_tokens += static_cast<double>(run.fold->train.tokens());
    active += static_cast<double>((w.array() != 0.0).count()) / static_cast<double>(runs.size());
  }
  absl::StatusOr<study::TrainingReport> report = Report(&runs, limited, false, stop);
  if (!report.ok() || stop.stop_requested()) return cancelled();  // The last sequences may have passed without a look.
  last->training = *std::move(report);
  last->gradient = std::move(gradient);
  last->gradient_seconds = gradient_seconds;
  last->metrics["train_loss"] = train_loss / train_tokens;
  last->metrics["active_weights"] = active;
  for (const auto& [name, value] : last->metrics) {
    if (!std::isfinite(value)) {
      return fail(study::failure::kNonFinite, absl::StrCat(name, " is ", study::FormatDouble(value)));
    }
  }
  if (warm && context.save_model) context.save_model(SaveModel(runs, structure, l2));
  result.measurement = *std::move(last);
  return result;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Objective>> CreateCrfObjective(const catalogue::ObjectiveInfo& info,
                                                              const study::BuiltinObjective& objective,
                                                              study::SearchSpace space, study::MetricSpec metric,
                                                              const data::DataRoot* root, const data::DataCache* cache,
                                                              const base::StopToken& stop,
                                                              const crf::Kernels& kernels) {
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<catalogue::PenaltyGroup> groups, catalogue::GroupsOf(objective.options));
  LUTHIER_ASSIGN_OR_RETURN(std::unique_ptr<const ChainSource> source, ChainSource::Open(objective, root, cache, stop));
  return std::unique_ptr<Objective>(
      std::make_unique<CrfObjective>(catalogue::WithPenaltyGroups(info, groups), objective.options, std::move(space),
                                     std::move(metric), groups, std::move(source), kernels));
}

}  // namespace luthier::objectives
