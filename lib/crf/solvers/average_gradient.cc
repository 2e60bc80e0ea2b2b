#include "lib/crf/solvers/average_gradient.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"

namespace luthier::crf {

using stochastic::Sampler;

absl::StatusOr<AverageGradient> AverageGradient::Create(const ChainData* data, double l2,
                                                        const AverageGradientOptions& options, const Kernels& kernels) {
  LUTHIER_CHECK(l2 >= 0.0 && std::isfinite(l2));
  if (options.search_remembered && options.memory != MemoryMode::kMixed && options.memory != MemoryMode::kMarginals) {
    return absl::InvalidArgumentError(
        absl::StrCat("a line search along the remembered gradient needs memory mixed or marginals; this is ",
                     MemoryModeNames()[static_cast<size_t>(options.memory)]));
  }
  LUTHIER_ASSIGN_OR_RETURN(GradientMemory memory,
                           GradientMemory::Create(options.memory, data, kernels, options.max_memory_bytes));
  return AverageGradient(data, l2, options, kernels, std::move(memory));
}

AverageGradient::AverageGradient(const ChainData* data, double l2, const AverageGradientOptions& options,
                                 const Kernels& kernels, GradientMemory memory)
    : AverageSolver(data, l2, options, kernels, std::move(memory)),
      chain_(data->labels(), data->longest(), kernels),
      zeros_(state_.v_transitions.size()),
      shared_constant_(options.first_constant) {
  if (!options.search_remembered || options.method == AverageMethod::kSag) return;
  remembered_tokens_ = AlignedDoubles(data->longest() * stride_);
  remembered_edges_ = AlignedDoubles(state_.v_transitions.size());
}

absl::StatusOr<double> AverageGradient::Evaluate(const Sequence& x, const base::StopToken& stop) {
  LUTHIER_RETURN_IF_ERROR(chain_.ByPieces(x.tokens, stop, [&](int64_t begin, int64_t count) {
    kernels_->gather_lazy(state_.rows.data(), state_.row_progress.data(), state_.progress, state_.beta,
                          data_->attribute.data(), data_->values(), x.token_start + begin, count, stride_, ahead_,
                          chain_.scores() + begin * stride_);
  }));
  chain_.Prepare();
  LUTHIER_ASSIGN_OR_RETURN(const double log_z, chain_.Forward(x.tokens, stop));
  const double loss = log_z - chain_.Score(x.label, x.tokens);
  if (!std::isfinite(loss)) return loss;
  LUTHIER_RETURN_IF_ERROR(chain_.Backward(stop));
  chain_.SubtractLabeling(x.label);
  return loss;
}

absl::StatusOr<double> AverageGradient::SearchConstant(const Sequence& x, const Sampler::Draw& draw, double loss,
                                                       const base::StopToken& stop) {
  ConstantSearch::Direction along = {chain_.marginals(), chain_.edge_sums()};
  if (remembered_tokens_.size() > 0) {
    memory_.Recall(x.index, remembered_tokens_.data(), remembered_edges_.data());
    along = {remembered_tokens_.data(), remembered_edges_.data()};
  }
  if (options_.shared_constant) return search_.Search(x, loss, shared_constant_, along, &chain_, stop);
  if (options_.skip_checks && search_.Skip(x.index)) return sampler_.constant(x.index);
  return search_.Search(x, loss, sampler_.StartConstant(draw), along, &chain_, stop);
}

// Returns the step of this iteration, whose constant is known. The shared constant then shrinks for the next one.
double AverageGradient::StepSize() {
  const bool port = options_.step == stochastic::StepRule::kPort;
  const double n = static_cast<double>(data_->sequences());
  const double l_max = options_.shared_constant || port ? shared_constant_ : sampler_.max_constant();
  const double l_mean = options_.shared_constant ? shared_constant_ : sampler_.mean_constant();
  if (options_.shared_constant || port) shared_constant_ *= std::exp2(-1.0 / n);
  return stochastic::StepSize(options_.step, options_.constant_step, l_max, l_mean, lambda_,
                              static_cast<double>(sampler_.seen()) / n);
}

// Adds the change to d in the sequence's rows.
void AverageGradient::AddToRows(const Sequence& x, const GradientChange& change) {
  if (change.tokens != nullptr) {
    kernels_->scatter(state_.rows.data() + stride_, 2 * stride_, 1.0, data_->attribute.data(), data_->values(),
                      x.token_start, x.tokens, stride_, ahead_, change.tokens);
  } else {
    for (size_t r = 0; r < change.rows.size(); ++r) {
      double* d = state_.rows.data() + int64_t{2} * change.rows[r] * stride_ + stride_;
      kernels_->add_scaled(d, 1.0, change.row_values.data() + static_cast<int64_t>(r) * stride_, stride_, d);
    }
  }
}

// Subtracts scale times the change from v in the sequence's rows and the transitions.
void AverageGradient::MoveAlong(const Sequence& x, const GradientChange& change, double scale) {
  if (change.tokens != nullptr) {
    kernels_->scatter(state_.rows.data(), 2 * stride_, -scale, data_->attribute.data(), data_->values(), x.token_start,
                      x.tokens, stride_, ahead_, change.tokens);
  } else {
    for (size_t r = 0; r < change.rows.size(); ++r) {
      double* v = state_.rows.data() + int64_t{2} * change.rows[r] * stride_;
      kernels_->add_scaled(v, -scale, change.row_values.data() + static_cast<int64_t>(r) * stride_, stride_, v);
    }
  }
  kernels_->add_scaled(state_.v_transitions.data(), -scale, change.edges, state_.v_transitions.size(),
                       state_.v_transitions.data());
}

// Moves the transitions, which are dense: d += change and v -= scale d at once, and w = beta v where inference reads
// it.
void AverageGradient::FollowTransitions(const double* change, double scale) {
  kernels_->follow(change, scale, state_.beta, state_.v_transitions.size(), state_.d_transitions.data(),
                   state_.v_transitions.data(), chain_.transitions());
}

void AverageGradient::CatchUp(const Sequence& x) {
  for (int64_t e = x.token_start[0]; e < x.token_start[x.tokens]; ++e) {
    const int64_t a = data_->attribute[static_cast<size_t>(e)];
    double& last = state_.row_progress.data()[a];
    if (last == state_.progress) continue;
    double* v = state_.rows.data() + 2 * a * stride_;
    kernels_->add_scaled(v, last - state_.progress, v + stride_, stride_, v);
    last = state_.progress;
  }
}

absl::StatusOr<SolverState> AverageGradient::Step(const base::StopToken& stop) {
  if (!moved_) {
    LUTHIER_ASSIGN_OR_RETURN(const SolverState state, Move(stop));
    if (state != SolverState::kRunning) return state;
  }
  if (RemembersSecond(options_.method)) {
    moved_ = true;
    LUTHIER_ASSIGN_OR_RETURN(const SolverState state, RememberSecond(stop));
    if (state != SolverState::kRunning) return state;
    moved_ = false;
  }
  ++iterations_;
  return SolverState::kRunning;
}

absl::StatusOr<SolverState> AverageGradient::Move(const base::StopToken& stop) {
  const Sampler::Draw draw = sampler_.Next();
  const Sequence x = data_->At(draw.index);
  memory_.Prefetch(x.index);
  const absl::StatusOr<double> loss = Evaluate(x, stop);
  absl::StatusOr<double> searched = loss;
  if (loss.ok() && std::isfinite(*loss)) searched = SearchConstant(x, draw, *loss, stop);
  if (!searched.ok()) {
    sampler_.PutBack(draw);
    return searched.status();
  }
  ++evaluations_;
  if (!std::isfinite(*loss)) return SolverState::kDiverged;
  const double constant = *searched;
  sampler_.SetConstant(x.index, constant);
  if (options_.shared_constant) shared_constant_ = constant;
  if (options_.step == stochastic::StepRule::kPort) shared_constant_ = std::max(shared_constant_, constant);
  const double step = StepSize();
  state_.beta *= 1.0 - step * lambda_;

  if (options_.method == AverageMethod::kSag) {
    const GradientChange& change = memory_.Exchange(x.index, chain_.marginals(), chain_.edge_sums(), chain_);
    AddToRows(x, change);
    MarkStored(x.index);
    const double scale = step / (static_cast<double>(stored_count_) * state_.beta);
    state_.progress += scale;
    FollowTransitions(change.edges, scale);
    return SolverState::kRunning;
  }

  // SAGA and SAGA2 step along g - g_i and the old d before the table changes. A sequence that is drawn rarely counts
  // more.
  const bool second = RemembersSecond(options_.method);
  double own = std::max(draw.scaled_probability, 0.05);
  double common = 1.0;
  if (IsLiteral(options_.method)) {
    own = common = constant / sampler_.mean_constant();
  }
  const GradientChange& change = second ? memory_.Difference(x.index, chain_.marginals(), chain_.edge_sums(), chain_)
                                        : memory_.Exchange(x.index, chain_.marginals(), chain_.edge_sums(), chain_);
  if (!second) MarkStored(x.index);
  MoveAlong(x, change, step / (own * state_.beta));
  const double scale = stored_count_ == 0 ? 0.0 : step / (common * InSum() * state_.beta);
  state_.progress += scale;
  FollowTransitions(zeros_.data(), scale);
  if (second) return SolverState::kRunning;
  CatchUp(x);
  AddToRows(x, change);
  kernels_->add_scaled(state_.d_transitions.data(), 1.0, change.edges, state_.d_transitions.size(),
                       state_.d_transitions.data());
  return SolverState::kRunning;
}

// SAGA2 remembers the gradient of another sequence, drawn uniformly.
absl::StatusOr<SolverState> AverageGradient::RememberSecond(const base::StopToken& stop) {
  base::RandomStream stream(options_.seed, "stochastic.second", static_cast<uint64_t>(iterations_ + 1));
  const Sequence y = data_->At(static_cast<int64_t>(stream.UniformInt(static_cast<uint64_t>(data_->sequences()))));
  LUTHIER_ASSIGN_OR_RETURN(const double loss, Evaluate(y, stop));
  ++evaluations_;
  if (!std::isfinite(loss)) return SolverState::kDiverged;
  const GradientChange& stored = memory_.Exchange(y.index, chain_.marginals(), chain_.edge_sums(), chain_);
  AddToRows(y, stored);
  kernels_->add_scaled(state_.d_transitions.data(), 1.0, stored.edges, state_.d_transitions.size(),
                       state_.d_transitions.data());
  MarkStored(y.index);
  return SolverState::kRunning;
}

absl::StatusOr<SolverState> AverageGradient::Advance(int64_t iterations, const base::StopToken& stop) {
  return Repeat(iterations, stop, [&]() -> absl::StatusOr<SolverState> {
    LUTHIER_ASSIGN_OR_RETURN(const SolverState state, Step(stop));
    if (state == SolverState::kRunning && state_.beta < LazyAverage::kMinBeta) state_.Flush();
    return state;
  });
}

void AverageGradient::Save(base::CheckpointWriter* writer) const {
  AverageSolver::Save(writer);
  writer->F64(shared_constant_);
  writer->U64(moved_ ? 1 : 0);
}

bool AverageGradient::Load(base::CheckpointReader* reader) {
  const bool fits = AverageSolver::Load(reader);
  shared_constant_ = reader->F64();
  moved_ = reader->U64() != 0;
  FollowTransitions(zeros_.data(), 0.0);
  return fits && reader->ok();
}

}  // namespace luthier::crf
