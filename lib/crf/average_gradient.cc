#include "lib/crf/average_gradient.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/crf/checkpoint_arrays.h"
#include "lib/learn/minimizer.h"

namespace luthier::crf {

using stochastic::Sampler;

const std::vector<std::string>& AverageMethodNames() {
  static const std::vector<std::string>& names = *new std::vector<std::string>{"sag", "saga", "saga_literal", "saga2"};
  return names;
}

absl::StatusOr<AverageMethod> ParseAverageMethod(absl::string_view name) {
  const std::vector<std::string>& names = AverageMethodNames();
  for (size_t k = 0; k < names.size(); ++k) {
    if (names[k] == name) return static_cast<AverageMethod>(k);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no method ", base::Quote(name), "; there are ", absl::StrJoin(names, ", ")));
}

absl::StatusOr<AverageGradient> AverageGradient::Create(const ChainData* data, double l2,
                                                        const AverageGradientOptions& options, const Kernels& kernels) {
  LUTHIER_CHECK(l2 >= 0.0 && std::isfinite(l2));
  LUTHIER_ASSIGN_OR_RETURN(GradientMemory memory,
                           GradientMemory::Create(options.memory, data, kernels, options.max_memory_bytes));
  return AverageGradient(data, l2, options, kernels, std::move(memory));
}

AverageGradient::AverageGradient(const ChainData* data, double l2, const AverageGradientOptions& options,
                                 const Kernels& kernels, GradientMemory memory)
    : data_(data),
      options_(options),
      kernels_(&kernels),
      lambda_(l2 / static_cast<double>(data->sequences())),
      stride_(data->shape().stride()),
      ahead_(Ahead(int64_t{16} * data->attributes * stride_)),
      sampler_(options.sampling, data->sequences(), options.seed, options.first_constant),
      memory_(std::move(memory)),
      chain_(data->labels(), data->longest(), kernels),
      search_(data, kernels),
      state_(data),
      zeros_(state_.v_transitions.size()),
      shared_constant_(options.first_constant),
      stored_(static_cast<size_t>(data->sequences()), 0) {}

bool AverageGradient::Evaluate(const Sequence& x, double* loss) {
  kernels_->gather_lazy(state_.rows.data(), state_.row_progress.data(), state_.progress, state_.beta,
                        data_->attribute.data(), data_->values(), x.token_start, x.tokens, stride_, ahead_,
                        chain_.scores());
  chain_.Prepare();
  *loss = chain_.Forward(x.tokens) - chain_.Score(x.label, x.tokens);
  ++evaluations_;
  if (!std::isfinite(*loss)) return false;
  chain_.Backward();
  chain_.SubtractLabeling(x.label);
  return true;
}

double AverageGradient::SearchConstant(const Sequence& x, const Sampler::Draw& draw, double loss) {
  if (options_.shared_constant) return search_.Search(x, loss, shared_constant_, &chain_);
  if (options_.skip_checks && search_.Skip(x.index)) return sampler_.constant(x.index);
  return search_.Search(x, loss, sampler_.StartConstant(draw), &chain_);
}

double AverageGradient::StepSize() const {
  const double l_max = options_.shared_constant ? shared_constant_ : sampler_.max_constant();
  const double l_mean = options_.shared_constant ? shared_constant_ : sampler_.mean_constant();
  return stochastic::StepSize(options_.step, options_.constant_step, l_max, l_mean, lambda_);
}

// d of the sequence's rows += the change.
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

// v of the sequence's rows and of the transitions -= scale * the change.
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

// The transitions are dense: their d += change and v -= scale d at once, and w = beta v is where inference looks.
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

void AverageGradient::MarkStored(int64_t i) {
  if (stored_[static_cast<size_t>(i)] != 0) return;
  stored_[static_cast<size_t>(i)] = 1;
  ++stored_count_;
}

bool AverageGradient::Step() {
  const double n = static_cast<double>(data_->sequences());
  const Sampler::Draw draw = sampler_.Next();
  const Sequence x = data_->At(draw.index);
  memory_.Prefetch(x.index);
  double loss = 0.0;
  if (!Evaluate(x, &loss)) return false;
  const double constant = SearchConstant(x, draw, loss);
  sampler_.SetConstant(x.index, constant);
  if (options_.shared_constant) shared_constant_ = constant;
  const double step = StepSize();
  if (options_.shared_constant) shared_constant_ *= std::exp2(-1.0 / n);
  ++iterations_;
  state_.beta *= 1.0 - step * lambda_;

  if (options_.method == AverageMethod::kSag) {
    const GradientChange& change = memory_.Exchange(x.index, chain_.marginals(), chain_.edge_sums(), chain_);
    AddToRows(x, change);
    MarkStored(x.index);
    const double scale = step / (static_cast<double>(stored_count_) * state_.beta);
    state_.progress += scale;
    FollowTransitions(change.edges, scale);
    return true;
  }

  // SAGA and SAGA2: along g - g_i and the old d, then the table changes. What is drawn rarely counts more.
  const bool second = options_.method == AverageMethod::kSaga2;
  double own = std::max(draw.scaled_probability, 0.05);
  double common = 1.0;
  if (options_.method == AverageMethod::kSagaLiteral) {
    own = common = constant / sampler_.mean_constant();
  }
  const GradientChange& change = second ? memory_.Difference(x.index, chain_.marginals(), chain_.edge_sums(), chain_)
                                        : memory_.Exchange(x.index, chain_.marginals(), chain_.edge_sums(), chain_);
  if (!second) MarkStored(x.index);
  MoveAlong(x, change, step / (own * state_.beta));
  const double scale = stored_count_ == 0 ? 0.0 : step / (common * static_cast<double>(stored_count_) * state_.beta);
  state_.progress += scale;
  FollowTransitions(zeros_.data(), scale);
  if (!second) {
    CatchUp(x);
    AddToRows(x, change);
    kernels_->add_scaled(state_.d_transitions.data(), 1.0, change.edges, state_.d_transitions.size(),
                         state_.d_transitions.data());
    return true;
  }
  base::RandomStream stream(options_.seed, "stochastic.second", static_cast<uint64_t>(iterations_));
  const Sequence y = data_->At(static_cast<int64_t>(stream.UniformInt(static_cast<uint64_t>(data_->sequences()))));
  if (!Evaluate(y, &loss)) return false;
  const GradientChange& stored = memory_.Exchange(y.index, chain_.marginals(), chain_.edge_sums(), chain_);
  AddToRows(y, stored);
  kernels_->add_scaled(state_.d_transitions.data(), 1.0, stored.edges, state_.d_transitions.size(),
                       state_.d_transitions.data());
  MarkStored(y.index);
  return true;
}

SolverState AverageGradient::Advance(int64_t iterations, const std::atomic<bool>* stop) {
  for (int64_t k = 0; k < iterations; ++k) {
    if (learn::StopRequested(stop)) return SolverState::kStopped;
    if (!Step()) return SolverState::kDiverged;
    if (state_.beta < LazyAverage::kMinBeta) state_.Flush();
  }
  return SolverState::kRunning;
}

int64_t AverageGradient::iterations_per_pass() const {
  return std::max<int64_t>(1, data_->sequences() / (options_.method == AverageMethod::kSaga2 ? 2 : 1));
}

double AverageGradient::GradientEstimate() const {
  if (stored_count_ < data_->sequences()) return std::numeric_limits<double>::infinity();
  return state_.LargestGradientEntry(lambda_ * static_cast<double>(data_->sequences()));
}

void AverageGradient::SetPenalty(double l2) {
  LUTHIER_CHECK(l2 >= 0.0 && std::isfinite(l2));
  lambda_ = l2 / static_cast<double>(data_->sequences());
}

double AverageGradient::passes() const {
  return static_cast<double>(evaluations_ + forwards()) / static_cast<double>(data_->sequences());
}

void AverageGradient::Save(learn::CheckpointWriter* writer) const {
  sampler_.Save(writer);
  SaveArray(memory_.table(), writer);
  state_.Save(writer);
  search_.Save(writer);
  SaveArray(stored_, writer);
  for (const double x : {lambda_, shared_constant_}) writer->F64(x);
  for (const int64_t x : {iterations_, evaluations_}) writer->U64(static_cast<uint64_t>(x));
}

bool AverageGradient::Load(learn::CheckpointReader* reader) {
  const bool fits = sampler_.Load(reader) && LoadArray(reader, &memory_.table()) && state_.Load(reader) &&
                    search_.Load(reader) && LoadArray(reader, &stored_);
  for (double* x : {&lambda_, &shared_constant_}) *x = reader->F64();
  for (int64_t* x : {&iterations_, &evaluations_}) *x = static_cast<int64_t>(reader->U64());
  stored_count_ = std::count_if(stored_.begin(), stored_.end(), [](uint8_t s) { return s != 0; });
  FollowTransitions(zeros_.data(), 0.0);
  return fits && reader->ok();
}

}  // namespace luthier::crf
