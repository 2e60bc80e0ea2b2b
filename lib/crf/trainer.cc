#include "lib/crf/trainer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/crf/batch_solvers.h"
#include "lib/crf/exponentiated_gradient.h"
#include "lib/crf/proximal_average.h"
#include "lib/crf/stochastic_gradient.h"

namespace luthier::crf {

using Eigen::VectorXd;

const std::vector<std::string>& ChainMethodNames() {
  static const std::vector<std::string>& names = *new std::vector<std::string>{
      "sag", "saga", "saga2", "saga_literal", "lbfgs", "hybrid", "sg", "asg", "pegasos", "adagrad", "smd", "oeg"};
  return names;
}

absl::StatusOr<ChainMethod> ParseChainMethod(absl::string_view name) {
  const std::vector<std::string>& names = ChainMethodNames();
  for (size_t k = 0; k < names.size(); ++k) {
    if (names[k] == name) return static_cast<ChainMethod>(k);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no method ", base::Quote(name), "; there are ", absl::StrJoin(names, ", ")));
}

namespace {

absl::StatusOr<std::unique_ptr<ChainSolver>> MakeAverage(const ChainData* data, double l2, AverageMethod method,
                                                         const ChainTrainerOptions& options) {
  AverageGradientOptions average = options.average;
  average.method = method;
  LUTHIER_ASSIGN_OR_RETURN(AverageGradient solver, AverageGradient::Create(data, l2, average));
  return std::unique_ptr<ChainSolver>(std::make_unique<AverageGradient>(std::move(solver)));
}

std::unique_ptr<ChainSolver> MakeStochastic(const ChainData* data, double l2, GradientRule rule,
                                            const ChainTrainerOptions& options) {
  StochasticGradientOptions stochastic;
  stochastic.rule = rule;
  stochastic.rate = options.rate;
  stochastic.sampling = options.average.sampling;
  stochastic.seed = options.average.seed;
  return std::make_unique<StochasticGradient>(data, l2, stochastic);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChainSolver>> MakeChainSolver(const ChainData* data, double l2,
                                                             const ChainTrainerOptions& options) {
  if (options.l1 > 0.0) {
    ProximalOptions proximal;
    proximal.average = options.average;
    if (options.method != ChainMethod::kSag && options.method != ChainMethod::kSaga) {
      return absl::InvalidArgumentError(absl::StrCat("l1 > 0 needs solver sag or saga; this is ",
                                                     ChainMethodNames()[static_cast<size_t>(options.method)]));
    }
    proximal.average.method = options.method == ChainMethod::kSag ? AverageMethod::kSag : AverageMethod::kSaga;
    LUTHIER_ASSIGN_OR_RETURN(ProximalAverage solver, ProximalAverage::Create(data, options.l1, l2, proximal));
    return std::unique_ptr<ChainSolver>(std::make_unique<ProximalAverage>(std::move(solver)));
  }
  switch (options.method) {
    case ChainMethod::kSag:
      return MakeAverage(data, l2, AverageMethod::kSag, options);
    case ChainMethod::kSaga:
      return MakeAverage(data, l2, AverageMethod::kSaga, options);
    case ChainMethod::kSaga2:
      return MakeAverage(data, l2, AverageMethod::kSaga2, options);
    case ChainMethod::kSagaLiteral:
      return MakeAverage(data, l2, AverageMethod::kSagaLiteral, options);
    case ChainMethod::kLbfgs:
      return std::make_unique<ChainLbfgs>(data, l2, options.threads);
    case ChainMethod::kHybrid:
      return std::make_unique<ChainHybrid>(data, l2, options.average.seed);
    case ChainMethod::kConstant:
      return MakeStochastic(data, l2, GradientRule::kConstant, options);
    case ChainMethod::kAveraged:
      return MakeStochastic(data, l2, GradientRule::kAveraged, options);
    case ChainMethod::kPegasos:
      if (!(l2 > 0.0)) return absl::InvalidArgumentError("pegasos, whose step is rate / (lambda t), needs l2 > 0");
      return MakeStochastic(data, l2, GradientRule::kPegasos, options);
    case ChainMethod::kAdaGrad:
      return MakeStochastic(data, l2, GradientRule::kAdaGrad, options);
    case ChainMethod::kMetaDescent: {
      stochastic::MetaDescent::Options descent;
      descent.rate = options.rate;
      return std::make_unique<ChainMetaDescent>(data, l2, descent, options.average.seed);
    }
    case ChainMethod::kExponentiated: {
      ExponentiatedGradientOptions exponentiated;
      exponentiated.sampling = options.average.sampling;
      exponentiated.seed = options.average.seed;
      exponentiated.max_memory_bytes = options.average.max_memory_bytes;
      LUTHIER_ASSIGN_OR_RETURN(ExponentiatedGradient solver, ExponentiatedGradient::Create(data, l2, exponentiated));
      return std::unique_ptr<ChainSolver>(std::make_unique<ExponentiatedGradient>(std::move(solver)));
    }
  }
  return absl::InternalError("no such method");
}

absl::StatusOr<ChainTrainer> ChainTrainer::Create(const ChainData* data, double l2,
                                                  const ChainTrainerOptions& options) {
  ChainTrainer trainer(data, l2, options);
  LUTHIER_ASSIGN_OR_RETURN(trainer.solver_, MakeChainSolver(data, l2, options));
  return trainer;
}

ChainTrainer::ChainTrainer(const ChainData* data, double l2, const ChainTrainerOptions& options)
    : data_(data), l2_(l2), options_(options), loss_(std::make_unique<ChainLoss>(data, options.threads)) {}

ChainOutcome ChainTrainer::Advance(const std::atomic<bool>* stop) {
  if (outcome_ != ChainOutcome::kRunning && outcome_ != ChainOutcome::kStopped) return outcome_;
  if (learn::StopRequested(stop)) return outcome_ = ChainOutcome::kStopped;
  outcome_ = ChainOutcome::kRunning;
  const auto largest_entry = [this](const VectorXd& w) {
    VectorXd gradient;
    ChainProblem(loss_.get(), l2_).Value(w, &gradient);
    extra_passes_ += 1.0;
    return SmallestSubgradient(w, gradient, options_.l1);
  };
  if (zero_gradient_ < 0.0) zero_gradient_ = largest_entry(VectorXd::Zero(loss_->dim()));
  const double tolerance = options_.tolerance * zero_gradient_;
  if (solver_->iterations() >= target_) target_ = solver_->iterations() + solver_->iterations_per_pass();
  switch (solver_->Advance(target_ - solver_->iterations(), stop)) {
    case SolverState::kRunning:
      break;
    case SolverState::kPrecision:
      outcome_ = ChainOutcome::kPrecision;
      break;
    case SolverState::kDiverged:
      return outcome_ = ChainOutcome::kDiverged;
    case SolverState::kStopped:
      return outcome_ = ChainOutcome::kStopped;
  }
  // An estimate is of old gradients: the true one decides.
  if (solver_->GradientEstimate() <= tolerance &&
      (solver_->estimate_is_exact() || largest_entry(solver_->Weights()) <= tolerance)) {
    outcome_ = ChainOutcome::kConverged;
  }
  if (outcome_ == ChainOutcome::kRunning && passes() >= options_.max_passes) outcome_ = ChainOutcome::kPassLimit;
  return outcome_;
}

void ChainTrainer::Save(learn::CheckpointWriter* writer, absl::string_view identity) const {
  writer->Text(identity);
  writer->U64(static_cast<uint64_t>(outcome_ == ChainOutcome::kStopped ? ChainOutcome::kRunning : outcome_));
  writer->F64(zero_gradient_);
  writer->F64(extra_passes_);
  writer->U64(static_cast<uint64_t>(target_));
  solver_->Save(writer);
}

absl::Status ChainTrainer::Load(learn::CheckpointReader* reader, absl::string_view identity) {
  const std::string found = reader->Text();
  if (!reader->ok()) return absl::DataLossError("checkpoint: cut off");
  if (found != identity) {
    return absl::FailedPreconditionError("checkpoint: made with other data, hyperparameters or options");
  }
  const uint64_t outcome = reader->U64();
  zero_gradient_ = reader->F64();
  extra_passes_ = reader->F64();
  target_ = static_cast<int64_t>(reader->U64());
  const bool fits = reader->ok() && outcome <= static_cast<uint64_t>(ChainOutcome::kDiverged) && solver_->Load(reader);
  if (!fits) return absl::DataLossError("checkpoint: its contents do not fit this problem");
  outcome_ = static_cast<ChainOutcome>(outcome);
  return absl::OkStatus();
}

}  // namespace luthier::crf
