#include "lib/objectives/hsvm_objective.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/learn/checkpoint.h"
#include "lib/learn/conjugate_gradient.h"
#include "lib/learn/linear_trainer.h"
#include "lib/learn/readers.h"
#include "lib/learn/split.h"
#include "lib/objectives/logistic_objective.h"
#include "lib/objectives/settings.h"

namespace luthier::objectives {
namespace {

using Eigen::VectorXd;
using learn::LinearSolver;
using learn::TrainOutcome;

constexpr char kCheckpointKind[] = "objective.hsvm/1";

// One fold's training, its parts kept alive together.
struct FoldRun {
  FoldRun(const learn::Dataset& dataset, const learn::Partition& partition, const Settings& settings)
      : standardization(settings.Bool("standardize") ? learn::FitStandardization(dataset.x, partition.train)
                                                     : learn::Standardization()),
        bias(settings.Bool("intercept") ? learn::Bias::kPenalized : learn::Bias::kNone),
        loss{learn::MarginLoss::Kind::kHuberizedHinge, settings.Number("epsilon")},
        train(dataset, partition.train, standardization, bias),
        validation(dataset, partition.validation, standardization, bias),
        problem(&train, loss, settings.Number("l2")),
        held_out(&validation, loss, 0.0) {}
  FoldRun(const FoldRun&) = delete;
  FoldRun& operator=(const FoldRun&) = delete;

  bool running() const {
    return trainer->outcome() == TrainOutcome::kRunning || trainer->outcome() == TrainOutcome::kStopped;
  }

  learn::Standardization standardization;
  learn::Bias bias;
  learn::MarginLoss loss;
  learn::LinearData train, validation;
  learn::LinearProblem problem, held_out;
  std::unique_ptr<learn::LinearTrainer> trainer;
};

using Runs = std::vector<std::unique_ptr<FoldRun>>;

class HsvmObjective final : public Objective {
 public:
  HsvmObjective(const ObjectiveInfo& info, study::Parameters options, study::SearchSpace space,
                study::MetricSpec metric, learn::Dataset dataset, std::vector<learn::Partition> folds,
                std::string identity)
      : info_(info),
        options_(std::move(options)),
        space_(std::move(space)),
        metric_(std::move(metric)),
        dataset_(std::move(dataset)),
        folds_(std::move(folds)),
        identity_(std::move(identity)) {}

  const ObjectiveInfo& info() const override { return info_; }
  absl::StatusOr<EvaluationResult> Evaluate(const EvaluationContext& context) const override;

 private:
  absl::StatusOr<Runs> MakeRuns(const Settings& settings) const;
  std::string Identity(const Settings& settings) const;
  bool Load(const std::string& bytes, const std::string& identity, Runs* runs, int64_t* round) const;
  study::Measurement Measure(const Runs& runs, int64_t step) const;
  std::optional<study::Gradient> MakeGradient(const Settings& settings, const Runs& runs,
                                              const std::atomic<bool>* stop) const;

  const ObjectiveInfo& info_;
  const study::Parameters options_;
  const study::SearchSpace space_;
  const study::MetricSpec metric_;
  const learn::Dataset dataset_;
  const std::vector<learn::Partition> folds_;
  const std::string identity_;
};

absl::StatusOr<Runs> HsvmObjective::MakeRuns(const Settings& settings) const {
  Runs runs;
  for (const learn::Partition& fold : folds_) {
    runs.push_back(std::make_unique<FoldRun>(dataset_, fold, settings));
    FoldRun& run = *runs.back();
    learn::LinearTrainOptions options;
    options.max_iterations = settings.Int("max_iterations");
    options.tolerance = settings.Number("tolerance");
    const std::string& name = settings.Text("solver");
    if (name == "auto") {
      options.solver = learn::ChooseSolver(run.problem).solver;
    } else {
      LUTHIER_ASSIGN_OR_RETURN(options.solver, learn::ParseLinearSolver(name));
    }
    LUTHIER_ASSIGN_OR_RETURN(learn::LinearTrainer trainer, learn::LinearTrainer::Create(&run.problem, options));
    run.trainer = std::make_unique<learn::LinearTrainer>(std::move(trainer));
  }
  return runs;
}

std::string HsvmObjective::Identity(const Settings& settings) const {
  study::Parameters relevant;
  for (const char* name : {"l2", "epsilon", "intercept", "standardize", "solver", "max_iterations", "tolerance"}) {
    relevant[name] = settings.values().at(name);
  }
  return absl::StrCat(identity_, " ", study::FormatParameters(relevant));
}

std::string Save(const Runs& runs, int64_t round, const std::string& identity) {
  learn::CheckpointWriter writer(kCheckpointKind);
  writer.U64(static_cast<uint64_t>(round));
  writer.U64(runs.size());
  for (size_t k = 0; k < runs.size(); ++k) runs[k]->trainer->Save(&writer, absl::StrCat(identity, " fold ", k));
  return std::move(writer).Finish();
}

// Into trainers that have not started; false leaves them useless.
bool HsvmObjective::Load(const std::string& bytes, const std::string& identity, Runs* runs, int64_t* round) const {
  absl::StatusOr<learn::CheckpointReader> reader = learn::CheckpointReader::Open(bytes, kCheckpointKind);
  if (!reader.ok()) return false;
  *round = static_cast<int64_t>(reader->U64());
  if (reader->U64() != runs->size()) return false;
  for (size_t k = 0; k < runs->size(); ++k) {
    if (!(*runs)[k]->trainer->Load(&*reader, absl::StrCat(identity, " fold ", k)).ok()) return false;
  }
  return reader->Done() && *round >= 0;
}

study::Measurement HsvmObjective::Measure(const Runs& runs, int64_t step) const {
  double validation_loss = 0.0, correct = 0.0, train_loss = 0.0, validation_rows = 0.0, train_rows = 0.0;
  for (const std::unique_ptr<FoldRun>& run : runs) {
    const VectorXd w = run->trainer->Weights();
    validation_loss += run->held_out.Value(w, nullptr);
    correct += static_cast<double>(run->validation.CountCorrect(w));
    train_loss += learn::LinearProblem(&run->train, run->loss, 0.0).Value(w, nullptr);
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

// dE/dl2 = -w'q with H q = grad E, at the optimum polished by Newton steps: where no training margin is at a corner of
// the loss's slope, the weights are a smooth function of l2 and this is exact.
std::optional<study::Gradient> HsvmObjective::MakeGradient(const Settings& settings, const Runs& runs,
                                                           const std::atomic<bool>* stop) const {
  const MetricInfo* metric = info_.FindMetric(metric_.name);
  if (metric == nullptr || !metric->gradient || !settings.Bool("gradient") || space_.differentiable().empty()) {
    return std::nullopt;
  }
  double total = 0.0, rows = 0.0;
  for (const std::unique_ptr<FoldRun>& run : runs) {
    const TrainOutcome outcome = run->trainer->outcome();
    if (outcome != TrainOutcome::kConverged && outcome != TrainOutcome::kPrecision) return std::nullopt;
    learn::LinearTrainOptions options;
    options.solver = LinearSolver::kNewtonCg;
    options.tolerance = 0.0;
    options.max_iterations = 6;
    absl::StatusOr<learn::LinearTrainer> polish = learn::LinearTrainer::Create(&run->problem, options);
    if (!polish.ok()) return std::nullopt;
    polish->WarmStart(run->trainer->Weights());
    while (polish->Advance(stop) == TrainOutcome::kRunning) {
    }
    if (polish->outcome() == TrainOutcome::kStopped) return std::nullopt;
    const VectorXd w = polish->Weights();
    VectorXd b, gradient, curvature;
    run->held_out.Value(w, &b);
    run->problem.Value(w, &gradient, &curvature);
    learn::CgOptions cg;
    cg.tolerance = 1e-13 * b.norm();
    cg.stop = stop;
    const learn::CgResult solved =
        learn::SolveCg([&](const VectorXd& v) { return run->problem.HessianVector(curvature, v); }, b,
                       run->problem.HessianDiagonal(curvature), VectorXd(), cg);
    if (solved.outcome != learn::CgOutcome::kConverged && solved.outcome != learn::CgOutcome::kPrecision) {
      return std::nullopt;
    }
    total -= w.dot(solved.x);  // b is of the sum over held-out rows.
    rows += static_cast<double>(run->validation.rows());
  }
  if (!std::isfinite(total)) return std::nullopt;
  study::Gradient result;
  result.values = {total / rows};
  return result;
}

absl::StatusOr<EvaluationResult> HsvmObjective::Evaluate(const EvaluationContext& context) const {
  LUTHIER_ASSIGN_OR_RETURN(const Settings settings, Settings::Resolve(info_, options_, context.parameters));
  const std::atomic<bool>* stop = context.cancellation == nullptr ? nullptr : &context.cancellation->flag();
  const int64_t report_every = settings.Int("report_every");
  const int64_t checkpoint_every = settings.Int("checkpoint_every");
  const std::string identity = Identity(settings);
  EvaluationResult result;
  LUTHIER_ASSIGN_OR_RETURN(Runs runs, MakeRuns(settings));
  int64_t round = 0;
  if (!context.checkpoint.empty()) {
    result.resumed = Load(context.checkpoint, identity, &runs, &round);
    if (!result.resumed) {
      round = 0;
      LUTHIER_ASSIGN_OR_RETURN(runs, MakeRuns(settings));
    }
  }
  const auto cancelled = [&] {
    if (context.save_checkpoint) context.save_checkpoint(Save(runs, round, identity));
    result.outcome = EvaluationOutcome::kCancelled;
    return result;
  };
  while (true) {
    bool any_running = false;
    for (const std::unique_ptr<FoldRun>& run : runs) {
      // After a cancellation in mid-round some folds are one iteration ahead: they wait.
      const int64_t calls = run->trainer->started() ? run->trainer->iteration() + 1 : 0;
      if (run->running() && calls <= round && run->trainer->Advance(stop) == TrainOutcome::kStopped) {
        return cancelled();
      }
      if (run->trainer->outcome() == TrainOutcome::kDiverged) {
        result.outcome = EvaluationOutcome::kFailed;
        result.failure = study::Failure{
            study::FailureKind::kConfig, study::failure::kDiverged,
            absl::StrCat("training loss or gradient is not finite at iteration ", run->trainer->iteration(),
                         settings.Bool("standardize") ? "" : "; features may be too large: set standardize")};
        return result;
      }
      any_running = any_running || run->running();
    }
    if (!any_running) break;
    if (context.report && round % report_every == 0) {
      study::Measurement point = Measure(runs, round);
      if (!context.report(point)) {
        result.outcome = EvaluationOutcome::kStopped;
        result.measurement = std::move(point);
        return result;
      }
    }
    ++round;
    if (context.save_checkpoint && round % checkpoint_every == 0) {
      context.save_checkpoint(Save(runs, round, identity));
    }
  }
  std::optional<study::Gradient> gradient = MakeGradient(settings, runs, stop);
  if (learn::StopRequested(stop)) return cancelled();
  int64_t iterations = 0;
  for (const std::unique_ptr<FoldRun>& run : runs) iterations = std::max(iterations, run->trainer->iteration());
  study::Measurement last = Measure(runs, iterations);
  if (gradient && !context.direction.empty()) gradient = study::Along(*gradient, context.direction);
  last.gradient = std::move(gradient);
  result.measurement = std::move(last);
  return result;
}

}  // namespace

ObjectiveInfo HsvmInfo() {
  ObjectiveInfo info = LogisticInfo();  // Data, split, strength, limits and metrics are the same.
  info.model = "hsvm";
  info.description = "Support vector machine with the Huberized hinge loss (two classes): tunes its strength";
  info.details =
      "Minimises the sum over training rows of the Huberized hinge loss plus l2/2 times the squared norm of weights "
      "and "
      "intercept, and scores the result on rows it has not seen. The derivative of validation_loss with respect to l2 "
      "comes with the result, exact wherever the weights are a smooth function of l2. Intermediate reports count "
      "iterations: passes over the rows for dual and svrg, else iterations of the solver.";
  for (ParameterInfo& p : info.parameters) {
    if (p.name == "intercept") p.description = "Adds a constant feature 1, penalised like the others.";
    if (p.name == "solver") {
      p.description =
          "Training algorithm; all find the same optimum. auto: by rows, columns, density, spread of norms.";
      p.labels = {"auto", "dual", "svrg", "lbfgs", "newton_cg", "newton_cholesky"};
      p.default_value = "auto";
    }
  }
  ParameterInfo epsilon;
  epsilon.name = "epsilon";
  epsilon.kind = ParameterKind::kFloat;
  epsilon.description = "Half the width of the loss's quadratic part.";
  epsilon.min = epsilon.suggested_min = 1e-3;
  epsilon.max = epsilon.suggested_max = 10.0;
  epsilon.suggested_scale = study::Scale::kLog;
  epsilon.default_value = 0.5;
  epsilon.tunable = false;
  info.parameters.insert(info.parameters.begin() + 1, epsilon);
  for (MetricInfo& m : info.metrics) {
    if (m.name == "validation_loss") m.description = "Mean Huberized hinge loss of held-out rows, of all folds.";
    if (m.name == "train_loss") m.description = "Mean Huberized hinge loss of the training rows, penalty excluded.";
  }
  return info;
}

absl::StatusOr<std::unique_ptr<Objective>> CreateHsvmObjective(const ObjectiveInfo& info,
                                                               const study::BuiltinObjective& objective,
                                                               study::SearchSpace space, study::MetricSpec metric,
                                                               const learn::DataRoot* root) {
  learn::ReadOptions read;
  const auto text = [&](const char* name) {
    const auto found = objective.options.find(name);
    return found == objective.options.end() ? std::string() : std::get<std::string>(found->second);
  };
  if (text("format") == "csv") read.format = learn::Format::kCsv;
  if (text("format") == "libsvm") read.format = learn::Format::kLibsvm;
  if (text("header") == "yes") read.header = learn::Header::kYes;
  if (text("header") == "no") read.header = learn::Header::kNo;
  read.label = text("label");
  LUTHIER_ASSIGN_OR_RETURN(learn::Dataset dataset, learn::LoadDataset(objective.data, read, root));
  if (dataset.num_classes() != 2) {
    return absl::InvalidArgumentError(absl::StrCat(dataset.name, ": objective hsvm is for two classes, not ",
                                                   dataset.num_classes(), "; use logistic"));
  }
  const study::Split& split = objective.split;
  std::vector<learn::Partition> folds;
  if (split.folds > 0) {
    LUTHIER_ASSIGN_OR_RETURN(folds, learn::SplitFolds(dataset.label, 2, split.folds, split.seed));
  } else {
    LUTHIER_ASSIGN_OR_RETURN(learn::Partition one,
                             learn::SplitValidation(dataset.label, 2, split.validation, split.seed));
    folds.push_back(std::move(one));
  }
  std::string identity = absl::StrCat(learn::Fingerprint(dataset), " validation ",
                                      study::FormatDouble(split.folds > 0 ? 0.0 : split.validation), " folds ",
                                      split.folds, " seed ", split.seed);
  return std::unique_ptr<Objective>(std::make_unique<HsvmObjective>(info, objective.options, std::move(space),
                                                                    std::move(metric), std::move(dataset),
                                                                    std::move(folds), std::move(identity)));
}

}  // namespace luthier::objectives
