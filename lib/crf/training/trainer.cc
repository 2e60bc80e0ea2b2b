#include "lib/crf/training/trainer.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/crf/training/memory_plan.h"

namespace luthier::crf {

using Eigen::VectorXd;

absl::StatusOr<ChainTrainer> ChainTrainer::Create(const ChainData* data, double l2, const ChainTrainerOptions& options,
                                                  const Kernels& kernels) {
  LUTHIER_RETURN_IF_ERROR(CheckVectors(*data, options));
  ChainTrainer trainer(data, l2, options, kernels);
  LUTHIER_ASSIGN_OR_RETURN(trainer.solver_, MakeChainSolver(data, l2, options, kernels));
  return trainer;
}

ChainTrainer::ChainTrainer(const ChainData* data, double l2, const ChainTrainerOptions& options, const Kernels& kernels)
    : data_(data), l2_(l2), options_(options), loss_(std::make_unique<ChainLoss>(data, options.threads, kernels)) {}

absl::StatusOr<double> ChainTrainer::LargestEntry(const base::StopToken& stop) {
  LUTHIER_RETURN_IF_ERROR(ChainProblem(loss_.get(), l2_).Value(weights_, &gradient_, stop).status());
  return SmallestSubgradient(weights_, gradient_, options_.l1, data_->shape().stride());
}

absl::StatusOr<ChainOutcome> ChainTrainer::Advance(const base::StopToken& stop) {
  if (outcome_ != ChainOutcome::kRunning) return outcome_;
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  if (judged_) {
    if (solver_->iterations() >= target_) target_ = solver_->iterations() + solver_->iterations_per_pass();
    SolverState state = SolverState::kRunning;
    if (first_gradient_ && solver_->iterations() == first_iteration_) {
      // Several threads take whole blocks of sequences.
      LUTHIER_ASSIGN_OR_RETURN(state, solver_->Advance(options_.threads == 1 ? 1 : target_, stop));
      first_gradient_();
    }
    if (state == SolverState::kRunning) {
      LUTHIER_ASSIGN_OR_RETURN(state, solver_->Advance(target_ - solver_->iterations(), stop));
    }
    if (state == SolverState::kDiverged) return outcome_ = ChainOutcome::kDiverged;
    precise_ = state == SolverState::kPrecision;
    entry_ = -1.0;
    judged_ = false;
  }
  LUTHIER_ASSIGN_OR_RETURN(outcome_, Judge(stop));
  return outcome_;
}

absl::StatusOr<ChainOutcome> ChainTrainer::Judge(const base::StopToken& stop) {
  // Computed after the first pass, not before, so that training starts at once.
  if (zero_gradient_ < 0.0) {
    weights_.setZero(loss_->dim());
    LUTHIER_ASSIGN_OR_RETURN(zero_gradient_, LargestEntry(stop));
    extra_passes_ += 1.0;
  }
  // The estimate comes from old gradients, so the true gradient decides.
  const double tolerance = options_.tolerance * zero_gradient_;
  bool converged = solver_->GradientWithin(tolerance);
  if (converged && !solver_->estimate_is_exact()) {
    solver_->CopyWeights(&weights_);
    LUTHIER_ASSIGN_OR_RETURN(entry_, LargestEntry(stop));
    extra_passes_ += 1.0;
    converged = entry_ <= tolerance;
  }
  judged_ = true;
  if (converged) return ChainOutcome::kConverged;
  if (precise_) return ChainOutcome::kPrecision;
  return passes() >= options_.max_passes ? ChainOutcome::kPassLimit : ChainOutcome::kRunning;
}

absl::StatusOr<double> ChainTrainer::RelativeGradient(const base::StopToken& stop) {
  double entry = solver_->estimate_is_exact() ? solver_->GradientEstimate() : entry_;
  if (!(entry >= 0.0 && std::isfinite(entry))) {
    solver_->CopyWeights(&weights_);
    LUTHIER_ASSIGN_OR_RETURN(entry_, LargestEntry(stop));
    entry = entry_;
  }
  return entry == 0.0 ? 0.0 : entry / zero_gradient_;
}

void ChainTrainer::Save(base::CheckpointWriter* writer, absl::string_view identity) const {
  writer->Text(identity);
  writer->U64(static_cast<uint64_t>(outcome_));
  writer->F64(zero_gradient_);
  writer->F64(extra_passes_);
  writer->U64(static_cast<uint64_t>(target_));
  writer->U64((judged_ ? 1U : 0U) + (precise_ ? 2U : 0U));
  solver_->Save(writer);
}

absl::Status ChainTrainer::CheckIdentity(base::CheckpointReader* reader, absl::string_view identity) const {
  const std::string found = reader->Text();
  if (!reader->ok()) return absl::DataLossError("checkpoint: cut off");
  if (found == identity) return absl::OkStatus();
  return absl::FailedPreconditionError("checkpoint: made with other data, hyperparameters or options");
}

absl::Status ChainTrainer::Load(base::CheckpointReader* reader, absl::string_view identity) {
  LUTHIER_RETURN_IF_ERROR(CheckIdentity(reader, identity));
  const uint64_t outcome = reader->U64();
  zero_gradient_ = reader->F64();
  extra_passes_ = reader->F64();
  target_ = static_cast<int64_t>(reader->U64());
  const uint64_t flags = reader->U64();
  judged_ = (flags & 1) != 0;
  precise_ = (flags & 2) != 0;
  const bool fits =
      reader->ok() && flags < 4 && outcome <= static_cast<uint64_t>(ChainOutcome::kDiverged) && solver_->Load(reader);
  if (!fits) return absl::DataLossError("checkpoint: its contents do not fit this problem");
  outcome_ = static_cast<ChainOutcome>(outcome);
  return absl::OkStatus();
}

std::string ChainTrainer::ModelIdentity(absl::string_view identity) const {
  return absl::StrCat(identity, options_.l1.any() ? " l1" : "");
}

void ChainTrainer::SaveModel(base::CheckpointWriter* writer, absl::string_view identity) const {
  writer->Text(ModelIdentity(identity));
  writer->F64(zero_gradient_);
  solver_->SaveModel(writer);
}

absl::Status ChainTrainer::WarmStart(base::CheckpointReader* reader, absl::string_view identity,
                                     const Rescaling& rescaling) {
  LUTHIER_ASSIGN_OR_RETURN(const ChainMethod* method, FindChainMethod(options_.method));
  if (method->forgets_its_start) return absl::FailedPreconditionError("this method forgets where it started");
  LUTHIER_RETURN_IF_ERROR(CheckIdentity(reader, ModelIdentity(identity)));
  const double zero_gradient = reader->F64();
  if (!solver_->WarmStart(reader, rescaling)) return absl::DataLossError("model: it does not fit this problem");
  // The gradient at w = 0 is kept if it depends on the data alone; otherwise it is computed anew.
  if (!rescaling.any() && !options_.l1.any()) zero_gradient_ = zero_gradient;
  extra_passes_ = -solver_->passes();
  target_ = first_iteration_ = solver_->iterations();
  return absl::OkStatus();
}

}  // namespace luthier::crf
