#include "lib/crf/trainer.h"

#include <algorithm>
#include <utility>

#include "lib/base/status_macros.h"

namespace luthier::crf {

using Eigen::VectorXd;

absl::StatusOr<ChainTrainer> ChainTrainer::Create(const ChainData* data, double l2,
                                                  const ChainTrainerOptions& options) {
  ChainTrainer trainer(data, l2, options);
  if (!options.lbfgs) {
    LUTHIER_ASSIGN_OR_RETURN(AverageGradient average, AverageGradient::Create(data, l2, options.average));
    trainer.average_ = std::make_unique<AverageGradient>(std::move(average));
  }
  return trainer;
}

ChainTrainer::ChainTrainer(const ChainData* data, double l2, const ChainTrainerOptions& options)
    : data_(data), l2_(l2), options_(options), loss_(std::make_unique<ChainLoss>(data, options.threads)) {}

VectorXd ChainTrainer::Weights() const {
  if (average_) return average_->Weights();
  return started_ ? lbfgs_.x() : VectorXd::Zero(loss_->dim());
}

double ChainTrainer::passes() const {
  return extra_passes_ + (average_ ? average_->passes() : static_cast<double>(lbfgs_.evaluations()));
}

ChainOutcome ChainTrainer::Advance(const std::atomic<bool>* stop) {
  if (outcome_ != ChainOutcome::kRunning && outcome_ != ChainOutcome::kStopped) return outcome_;
  if (learn::StopRequested(stop)) return outcome_ = ChainOutcome::kStopped;
  outcome_ = ChainOutcome::kRunning;
  const ChainProblem h(loss_.get(), l2_);
  const auto f = [&h](const VectorXd& w, VectorXd* gradient) { return h.Value(w, gradient); };
  if (!started_) {
    VectorXd gradient;
    h.Value(VectorXd::Zero(loss_->dim()), &gradient);
    zero_gradient_ = gradient.lpNorm<Eigen::Infinity>();
    extra_passes_ += 1.0;
  }
  const double tolerance = options_.tolerance * zero_gradient_;
  if (average_) {
    const bool pairs = options_.average.method == AverageMethod::kSaga2;
    const int64_t quantum = std::max<int64_t>(1, data_->sequences() / (pairs ? 2 : 1));
    if (average_->iterations() >= target_) target_ = average_->iterations() + quantum;
    started_ = true;
    switch (average_->Advance(target_ - average_->iterations(), stop)) {
      case AverageState::kRunning:
        break;
      case AverageState::kStopped:
        return outcome_ = ChainOutcome::kStopped;
      case AverageState::kDiverged:
        return outcome_ = ChainOutcome::kDiverged;
    }
    if (average_->GradientEstimate() <= tolerance) {
      // The estimate is of old gradients: the true one decides.
      VectorXd gradient;
      h.Value(average_->Weights(), &gradient);
      extra_passes_ += 1.0;
      if (gradient.lpNorm<Eigen::Infinity>() <= tolerance) outcome_ = ChainOutcome::kConverged;
    }
  } else {
    lbfgs_.set_tolerance(tolerance);
    const learn::SolveState state = started_ ? lbfgs_.Step(f, stop) : lbfgs_.Start(f, VectorXd::Zero(loss_->dim()));
    started_ = true;
    switch (state) {
      case learn::SolveState::kRunning:
        break;
      case learn::SolveState::kConverged:
        outcome_ = ChainOutcome::kConverged;
        break;
      case learn::SolveState::kPrecision:
        outcome_ = ChainOutcome::kPrecision;
        break;
      case learn::SolveState::kNonFinite:
        outcome_ = ChainOutcome::kDiverged;
        break;
      case learn::SolveState::kStopped:
        return outcome_ = ChainOutcome::kStopped;
    }
  }
  if (outcome_ == ChainOutcome::kRunning && passes() >= options_.max_passes) outcome_ = ChainOutcome::kPassLimit;
  return outcome_;
}

void ChainTrainer::Save(learn::CheckpointWriter* writer, absl::string_view identity) const {
  writer->Text(identity);
  writer->U64(static_cast<uint64_t>(outcome_ == ChainOutcome::kStopped ? ChainOutcome::kRunning : outcome_));
  writer->U64(started_ ? 1 : 0);
  writer->F64(zero_gradient_);
  writer->F64(extra_passes_);
  writer->U64(static_cast<uint64_t>(target_));
  if (average_) {
    average_->Save(writer);
  } else if (started_) {
    lbfgs_.Save(writer);
  }
}

absl::Status ChainTrainer::Load(learn::CheckpointReader* reader, absl::string_view identity) {
  const std::string found = reader->Text();
  if (!reader->ok()) return absl::DataLossError("checkpoint: cut off");
  if (found != identity) {
    return absl::FailedPreconditionError("checkpoint: made with other data, hyperparameters or options");
  }
  const uint64_t outcome = reader->U64();
  started_ = reader->U64() != 0;
  zero_gradient_ = reader->F64();
  extra_passes_ = reader->F64();
  target_ = static_cast<int64_t>(reader->U64());
  bool fits = reader->ok() && outcome <= static_cast<uint64_t>(ChainOutcome::kDiverged);
  if (fits && average_) {
    fits = average_->Load(reader);
  } else if (fits && started_) {
    fits = lbfgs_.Load(reader, loss_->dim());
  }
  if (!fits) return absl::DataLossError("checkpoint: its contents do not fit this problem");
  outcome_ = static_cast<ChainOutcome>(outcome);
  return absl::OkStatus();
}

}  // namespace luthier::crf
