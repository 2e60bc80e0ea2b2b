#include "lib/objectives/logistic_objective.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "lib/base/mutex.h"
#include "lib/base/status_macros.h"
#include "lib/bilevel/implicit_gradient.h"
#include "lib/bilevel/logistic_inner.h"
#include "lib/bilevel/units.h"
#include "lib/learn/checkpoint.h"
#include "lib/learn/readers.h"
#include "lib/learn/split.h"
#include "lib/learn/trainer.h"
#include "lib/objectives/parameter_info.h"
#include "lib/objectives/settings.h"

namespace luthier::objectives {
namespace {

using Eigen::VectorXd;
using learn::LogisticData;
using learn::TrainOutcome;

constexpr char kCheckpointKind[] = "objective.logistic/1";
constexpr int kPolishSteps = 4;

// One fold's training, its parts kept alive together. Not movable: the parts point at each other.
struct FoldRun {
  FoldRun(const learn::Dataset* dataset, const learn::Partition& partition,
          const learn::Standardization& standardization, const Settings& settings, const learn::TrainOptions& options)
      : train(dataset, partition.train, standardization, settings.Bool("intercept")),
        validation(dataset, partition.validation, standardization, settings.Bool("intercept")),
        problem(&train, settings.Number("l2")),
        trainer(&problem, options),
        w(trainer.w()) {}
  FoldRun(const FoldRun&) = delete;
  FoldRun& operator=(const FoldRun&) = delete;

  bool running() const {
    return trainer.outcome() == TrainOutcome::kRunning || trainer.outcome() == TrainOutcome::kStopped;
  }
  // The optimum was reached as well as asked for, so the implicit gradient exists.
  bool optimal() const {
    return trainer.outcome() == TrainOutcome::kConverged || trainer.outcome() == TrainOutcome::kPrecision;
  }

  LogisticData train;
  LogisticData validation;
  learn::LogisticProblem problem;
  learn::LogisticTrainer trainer;
  VectorXd w;  // The weights that metrics are computed from.
};

using Runs = std::vector<std::unique_ptr<FoldRun>>;

class LogisticObjective final : public Objective {
 public:
  LogisticObjective(const ObjectiveInfo& info, study::Parameters options, study::SearchSpace space,
                    study::MetricSpec metric, learn::Dataset dataset, std::vector<learn::Partition> folds,
                    std::string identity)
      : info_(info),
        options_(std::move(options)),
        space_(std::move(space)),
        metric_(std::move(metric)),
        dataset_(std::move(dataset)),
        folds_(std::move(folds)),
        identity_(std::move(identity)),
        standardization_(folds_.size()) {}

  const ObjectiveInfo& info() const override { return info_; }
  absl::StatusOr<EvaluationResult> Evaluate(const EvaluationContext& context) const override;

 private:
  Runs MakeRuns(const Settings& settings) const;
  const learn::Standardization& StandardizationOf(size_t fold) const;
  // What a checkpoint belongs to: data, split and every setting that the iterates depend on.
  std::string Identity(const Settings& settings) const;
  std::string Save(const Runs& runs, int64_t round, const std::string& identity) const;
  // Whether `bytes` fitted; the runs are untouched otherwise.
  bool Load(const std::string& bytes, const Settings& settings, Runs* runs, int64_t* round) const;
  study::Measurement Measure(const Runs& runs, int64_t step) const;
  std::optional<study::Gradient> MakeGradient(const Settings& settings, Runs& runs,
                                              const std::atomic<bool>* stop) const;

  const ObjectiveInfo& info_;
  const study::Parameters options_;
  const study::SearchSpace space_;
  const study::MetricSpec metric_;
  const learn::Dataset dataset_;
  const std::vector<learn::Partition> folds_;
  const std::string identity_;

  mutable base::Mutex mutex_;
  // Of each fold, once needed; never replaced after that.
  mutable std::vector<std::unique_ptr<learn::Standardization>> standardization_ ABSL_GUARDED_BY(mutex_);
};

const learn::Standardization& LogisticObjective::StandardizationOf(size_t fold) const {
  base::MutexLock lock(&mutex_);
  std::unique_ptr<learn::Standardization>& slot = standardization_[fold];
  if (slot == nullptr) {
    slot = std::make_unique<learn::Standardization>(learn::FitStandardization(dataset_.x, folds_[fold].train));
  }
  return *slot;
}

Runs LogisticObjective::MakeRuns(const Settings& settings) const {
  learn::TrainOptions options;
  options.solver = settings.Text("solver") == "newton_cg" ? learn::Solver::kNewtonCg : learn::Solver::kLbfgs;
  options.max_iterations = settings.Int("max_iterations");
  options.tolerance = settings.Number("tolerance");
  Runs runs;
  for (size_t k = 0; k < folds_.size(); ++k) {
    const learn::Standardization s = settings.Bool("standardize") ? StandardizationOf(k) : learn::Standardization();
    runs.push_back(std::make_unique<FoldRun>(&dataset_, folds_[k], s, settings, options));
  }
  return runs;
}

std::string LogisticObjective::Identity(const Settings& settings) const {
  study::Parameters relevant;
  for (const char* name : {"l2", "intercept", "standardize", "solver", "max_iterations", "tolerance"}) {
    relevant[name] = settings.values().at(name);
  }
  return absl::StrCat(identity_, " ", study::FormatParameters(relevant));
}

std::string LogisticObjective::Save(const Runs& runs, int64_t round, const std::string& identity) const {
  learn::CheckpointWriter writer(kCheckpointKind);
  writer.U64(static_cast<uint64_t>(round));
  writer.U64(runs.size());
  for (size_t k = 0; k < runs.size(); ++k) runs[k]->trainer.Save(&writer, absl::StrCat(identity, " fold ", k));
  return std::move(writer).Finish();
}

bool LogisticObjective::Load(const std::string& bytes, const Settings& settings, Runs* runs, int64_t* round) const {
  if (bytes.empty()) return false;
  absl::StatusOr<learn::CheckpointReader> reader = learn::CheckpointReader::Open(bytes, kCheckpointKind);
  if (!reader.ok()) return false;
  const std::string identity = Identity(settings);
  const int64_t saved_round = static_cast<int64_t>(reader->U64());
  if (reader->U64() != runs->size()) return false;
  Runs fresh = MakeRuns(settings);
  for (size_t k = 0; k < fresh.size(); ++k) {
    if (!fresh[k]->trainer.Load(&*reader, absl::StrCat(identity, " fold ", k)).ok()) return false;
    fresh[k]->w = fresh[k]->trainer.w();
  }
  if (!reader->Done() || saved_round < 0) return false;
  *runs = std::move(fresh);
  *round = saved_round;
  return true;
}

// Folds weigh by their rows, so the losses are means over all held-out (or training) rows.
study::Measurement LogisticObjective::Measure(const Runs& runs, int64_t step) const {
  double validation_loss = 0.0;
  double correct = 0.0;
  double train_loss = 0.0;
  double validation_rows = 0.0;
  double train_rows = 0.0;
  for (const std::unique_ptr<FoldRun>& run : runs) {
    validation_loss += run->validation.Loss(run->w, nullptr);
    correct += static_cast<double>(run->validation.CountCorrect(run->w));
    train_loss += run->train.Loss(run->w, nullptr);
    validation_rows += static_cast<double>(run->validation.rows());
    train_rows += static_cast<double>(run->train.rows());
  }
  study::Measurement m;
  m.step = step;
  m.metrics["validation_loss"] = validation_loss / validation_rows;
  m.metrics["validation_accuracy"] = correct / validation_rows;
  m.metrics["train_loss"] = train_loss / train_rows;
  return m;
}

// Moves each fold's weights to the optimum as exactly as rounding allows, then differentiates. Nothing when it is not
// wanted, not defined, or the flag was seen.
std::optional<study::Gradient> LogisticObjective::MakeGradient(const Settings& settings, Runs& runs,
                                                               const std::atomic<bool>* stop) const {
  const MetricInfo* metric = info_.FindMetric(metric_.name);
  if (metric == nullptr || !metric->gradient || !settings.Bool("gradient") || space_.differentiable().empty()) {
    return std::nullopt;
  }
  for (const std::unique_ptr<FoldRun>& run : runs) {
    if (!run->optimal()) return std::nullopt;
  }
  std::vector<bilevel::ImplicitGradient> parts;
  std::vector<double> weights;
  for (const std::unique_ptr<FoldRun>& run : runs) {
    bilevel::LogisticInner inner(&run->problem);
    bilevel::LogisticOuter outer(&run->validation);
    bilevel::PolishInner(inner, 0.0, kPolishSteps, stop, &run->w);
    bilevel::ImplicitGradientOptions options;
    options.relative_tolerance = 1e-13;  // A few more products; the proven bound divides the residual by l2.
    options.error_bound = !settings.Bool("intercept");  // Else it is an estimate, which is not reported.
    options.stop = stop;
    parts.push_back(bilevel::ComputeImplicitGradient(inner, outer, run->w, VectorXd(), options));
    weights.push_back(static_cast<double>(run->validation.rows()));
    const learn::CgOutcome outcome = parts.back().outcome;
    if (outcome != learn::CgOutcome::kConverged && outcome != learn::CgOutcome::kPrecision) return std::nullopt;
    if (!parts.back().gradient.allFinite()) return std::nullopt;
  }
  const bilevel::ImplicitGradient mean = bilevel::AverageFolds(parts, weights);
  const double l2 = settings.Number("l2");
  study::Gradient gradient;
  // l2 is the only differentiable parameter, so the space has it as its only differentiable one.
  gradient.values = {bilevel::UserUnitDerivative(mean.gradient[0], l2, bilevel::Coordinate::kLog)};
  if (mean.certified) {
    gradient.error_bound = bilevel::UserUnitDerivative(mean.error_bound, l2, bilevel::Coordinate::kLog);
  }
  return gradient;
}

absl::StatusOr<EvaluationResult> LogisticObjective::Evaluate(const EvaluationContext& context) const {
  LUTHIER_ASSIGN_OR_RETURN(const Settings settings, Settings::Resolve(info_, options_, context.parameters));
  const std::atomic<bool>* stop = context.cancellation == nullptr ? nullptr : &context.cancellation->flag();
  const int64_t report_every = settings.Int("report_every");
  const int64_t checkpoint_every = settings.Int("checkpoint_every");
  const std::string identity = Identity(settings);
  EvaluationResult result;
  Runs runs = MakeRuns(settings);
  // All folds advance side by side, one iteration a round, so the curve is that of the whole cross-validation.
  int64_t round = 0;
  result.resumed = Load(context.checkpoint, settings, &runs, &round);
  // `round` is the next iteration.
  if (context.started) context.started(result.resumed, std::max<int64_t>(0, round - 1));
  const auto cancelled = [&] {
    if (context.save_checkpoint) context.save_checkpoint(Save(runs, round, identity));
    result.outcome = EvaluationOutcome::kCancelled;
    return result;
  };
  while (true) {
    bool any_running = false;
    for (const std::unique_ptr<FoldRun>& run : runs) {
      // After a cancellation in mid-round some folds are one iteration ahead: they wait.
      const int64_t calls = run->trainer.started() ? run->trainer.iteration() + 1 : 0;
      if (run->running() && calls <= round) {
        if (run->trainer.Advance(stop) == TrainOutcome::kStopped) return cancelled();
        run->w = run->trainer.w();
      }
      if (run->trainer.outcome() == TrainOutcome::kDiverged) {
        result.outcome = EvaluationOutcome::kFailed;
        result.failure = study::Failure{
            study::FailureKind::kConfig, study::failure::kDiverged,
            absl::StrCat("training loss or gradient is not finite at iteration ", run->trainer.iteration(),
                         settings.Bool("standardize") ? "" : "; features may be too large: set standardize")};
        return result;
      }
      any_running = any_running || run->running();
    }
    if (!any_running) break;
    const bool pause = context.target > 0 && round >= context.target;
    if (pause || (context.report && round % report_every == 0)) {
      study::Measurement point = Measure(runs, round);
      const bool go_on = !context.report || context.report(point);
      if (!go_on || pause) {
        result.outcome = go_on ? EvaluationOutcome::kPaused : EvaluationOutcome::kStopped;
        result.measurement = std::move(point);
      }
      if (!go_on) return result;
    }
    ++round;
    if (context.save_checkpoint && (pause || round % checkpoint_every == 0)) {
      context.save_checkpoint(Save(runs, round, identity));
    }
    if (pause) return result;
  }
  std::optional<study::Gradient> gradient = MakeGradient(settings, runs, stop);
  if (learn::StopRequested(stop)) return cancelled();
  int64_t iterations = 0;
  for (const std::unique_ptr<FoldRun>& run : runs) iterations = std::max(iterations, run->trainer.iteration());
  study::Measurement last = Measure(runs, iterations);
  if (gradient && !context.direction.empty()) gradient = study::Along(*gradient, context.direction);
  last.gradient = std::move(gradient);
  for (const auto& [name, value] : last.metrics) {
    if (std::isfinite(value)) continue;
    result.outcome = EvaluationOutcome::kFailed;
    result.failure = study::Failure{study::FailureKind::kConfig, study::failure::kNonFinite,
                                    absl::StrCat(name, " is ", study::FormatDouble(value))};
    return result;
  }
  result.measurement = std::move(last);
  return result;
}

}  // namespace

ObjectiveInfo LogisticInfo() {
  ObjectiveInfo info;
  info.model = "logistic";
  info.description = "L2 logistic regression (two or more classes): tunes its strength on held-out rows or over folds";
  info.details =
      "Minimises the sum over training rows of the logistic loss plus l2/2 times the squared norm of the weights "
      "(intercepts excluded), and scores the result on rows it has not seen: one split, or the rows of all folds. The "
      "sum, "
      "not the mean: l2 is 1/C of scikit-learn and LIBLINEAR. The derivative of validation_loss with respect to l2 "
      "comes "
      "with the result; it is exact (implicit differentiation), per unit of l2 itself, also when the study searches l2 "
      "on a "
      "log scale. Intermediate reports count iterations of the solver.";
  ParameterInfo l2 = MakeNumber("l2", ParameterKind::kFloat, "Strength of the L2 penalty. Search it on a log scale.",
                                1.0, true, 1e-10, 1e10);
  l2.default_value.reset();
  l2.suggested_min = 1e-4;
  l2.suggested_max = 1e4;
  l2.suggested_scale = study::Scale::kLog;
  l2.differentiable = true;
  l2.units = "nats per squared weight";
  info.parameters.push_back(std::move(l2));
  info.parameters.push_back(Make("intercept", ParameterKind::kBool,
                                 "Adds a constant term, not penalised. Without it the gradient carries a proven error "
                                 "bound.",
                                 true, true));
  info.parameters.push_back(Make("standardize", ParameterKind::kBool,
                                 "Scales features to mean 0 and deviation 1, computed from training rows only.", true,
                                 true));
  info.parameters.push_back(
      MakeChoice("solver", "Training algorithm; both find the same optimum.", {"lbfgs", "newton_cg"}, true));
  info.parameters.push_back(
      MakeNumber("max_iterations", ParameterKind::kInt,
                 "Training ends after so many iterations even if not converged; the result then has "
                 "no gradient.",
                 1000.0, true, 1.0, 1e6));
  info.parameters.back().suggested_min = 10.0;
  info.parameters.back().suggested_max = 1000.0;
  info.parameters.back().suggested_scale = study::Scale::kLog;
  info.parameters.push_back(
      MakeNumber("tolerance", ParameterKind::kFloat,
                 "Training has converged when the largest gradient entry is at most this times the "
                 "one at zero weights.",
                 1e-8, false, 0.0, 0.1));
  info.parameters.push_back(Make("gradient", ParameterKind::kBool,
                                 "Whether to compute the derivative of validation_loss (10 to 50 more passes).", true,
                                 false));
  info.parameters.push_back(MakeNumber("report_every", ParameterKind::kInt, "Iterations between intermediate reports.",
                                       5.0, false, 1.0, 1e6));
  info.parameters.push_back(
      MakeNumber("checkpoint_every", ParameterKind::kInt, "Iterations between checkpoints.", 25.0, false, 1.0, 1e6));
  info.parameters.push_back(MakeChoice("format", "Format of the data file; auto: by extension, then by content.",
                                       {"auto", "csv", "libsvm"}, false));
  info.parameters.push_back(
      MakeChoice("header", "CSV: whether the first line names the columns; auto: when a feature in it is not a number.",
                 {"auto", "yes", "no"}, false));
  info.parameters.push_back(Make("label", ParameterKind::kText,
                                 "CSV: name of the column with the classes; empty: the last column.", std::string(),
                                 false));
  info.metrics.push_back({"validation_loss", study::Goal::kMinimize,
                          "Mean logistic loss (nats) of held-out rows; over all folds' rows with folds.", true});
  info.metrics.push_back(
      {"validation_accuracy", study::Goal::kMaximize, "Share of held-out rows classified right.", false});
  info.metrics.push_back({"train_loss", study::Goal::kMinimize,
                          "Mean logistic loss (nats) of the training rows, penalty excluded.", false});
  info.needs_data = true;
  return info;
}

absl::StatusOr<std::unique_ptr<Objective>> CreateLogisticObjective(const ObjectiveInfo& info,
                                                                   const study::BuiltinObjective& objective,
                                                                   study::SearchSpace space, study::MetricSpec metric,
                                                                   const learn::DataRoot* root) {
  learn::ReadOptions read;
  const auto text = [&](const char* name) {
    const auto found = objective.options.find(name);
    return found == objective.options.end() ? std::string() : std::get<std::string>(found->second);
  };
  const std::string format = text("format");
  if (format == "csv") read.format = learn::Format::kCsv;
  if (format == "libsvm") read.format = learn::Format::kLibsvm;
  const std::string header = text("header");
  if (header == "yes") read.header = learn::Header::kYes;
  if (header == "no") read.header = learn::Header::kNo;
  read.label = text("label");
  LUTHIER_ASSIGN_OR_RETURN(learn::Dataset dataset, learn::LoadDataset(objective.data, read, root));

  const study::Split& split = objective.split;
  std::vector<learn::Partition> folds;
  if (split.folds > 0) {
    LUTHIER_ASSIGN_OR_RETURN(folds, learn::SplitFolds(dataset.label, dataset.num_classes(), split.folds, split.seed));
  } else {
    LUTHIER_ASSIGN_OR_RETURN(learn::Partition one, learn::SplitValidation(dataset.label, dataset.num_classes(),
                                                                          split.validation, split.seed));
    folds.push_back(std::move(one));
  }
  std::string identity = absl::StrCat(learn::Fingerprint(dataset), " validation ",
                                      study::FormatDouble(split.folds > 0 ? 0.0 : split.validation), " folds ",
                                      split.folds, " seed ", split.seed);
  return std::unique_ptr<Objective>(std::make_unique<LogisticObjective>(info, objective.options, std::move(space),
                                                                        std::move(metric), std::move(dataset),
                                                                        std::move(folds), std::move(identity)));
}

}  // namespace luthier::objectives
