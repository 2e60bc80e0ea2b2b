#include "lib/crf/solvers/proximal_average.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/crf/solvers/checkpoint_arrays.h"
#include "lib/crf/solvers/problem.h"

namespace luthier::crf {
namespace {

using Eigen::VectorXd;

constexpr double kMinKeep = 1e-6;

double Soft(double z, double threshold) {
  return z > threshold ? z - threshold : z < -threshold ? z + threshold : 0.0;
}

}  // namespace

absl::StatusOr<ProximalAverage> ProximalAverage::Create(const ChainData* data, const L1Penalty& l1, double l2,
                                                        const ProximalOptions& options, const Kernels& kernels) {
  LUTHIER_CHECK(l2 >= 0.0 && std::isfinite(l2));
  LUTHIER_CHECK(options.average.method == AverageMethod::kSag || options.average.method == AverageMethod::kSaga);
  LUTHIER_CHECK(options.average.step != stochastic::StepRule::kPort && !options.average.search_remembered);
  LUTHIER_ASSIGN_OR_RETURN(GradientMemory memory, GradientMemory::Create(options.average.memory, data, kernels,
                                                                         options.average.max_memory_bytes));
  return ProximalAverage(data, l1, l2, options, kernels, std::move(memory));
}

ProximalAverage::ProximalAverage(const ChainData* data, const L1Penalty& l1, double l2, const ProximalOptions& options,
                                 const Kernels& kernels, GradientMemory memory)
    : data_(data),
      options_(options),
      kernels_(&kernels),
      lambda_(l2 / static_cast<double>(data->sequences())),
      l1_(l1),
      stride_(data->shape().stride()),
      ahead_(Ahead(int64_t{16} * data->attributes * stride_)),
      sampler_(options.average.sampling, data->sequences(), options.average.seed, options.average.first_constant,
               lambda_),
      memory_(std::move(memory)),
      chain_(data->labels(), data->longest(), kernels),
      search_(data, kernels),
      row_sums_(data, kernels),
      rows_(int64_t{2} * data->attributes * stride_),
      transitions_(int64_t{data->labels()} * stride_),
      d_transitions_(transitions_.size()),
      current_(static_cast<size_t>(data->attributes), 0),
      history_(1),
      stored_(static_cast<size_t>(data->sequences()), 0) {
  if (stochastic::SearchesAlways(options.average.sampling)) options_.average.skip_checks = false;
  if (options_.flush_every <= 0) options_.flush_every = data->sequences();
  LUTHIER_CHECK(options_.flush_every < INT32_MAX);
}

double ProximalAverage::OneStep(double w, double direction, double mu, double step) const {
  return Soft((1.0 - step * lambda_) * w - step * direction, step * mu);
}

double ProximalAverage::Move(double w, double d, double mu, size_t from) const {
  const size_t last = history_.size() - 1;
  while (from < last) {
    if (w == 0.0) {
      // m never falls, so a weight that stays at zero once stays there.
      const Moment& next = history_[++from];
      if (std::abs(d) * next.share <= mu) return 0.0;
      w = OneStep(0.0, d * next.share, mu, next.step);
      continue;
    }
    const double side = w > 0.0 ? 1.0 : -1.0;
    const Moment& start = history_[from];
    const auto at = [&](size_t t) {
      const Moment& moment = history_[t];
      return moment.keep *
             (w / start.keep - d * (moment.drift - start.drift) - side * mu * (moment.threshold - start.threshold));
    };
    const double end = at(last);
    if (side * end > 0.0) return end;
    size_t inside = from, beyond = last;  // At `inside` the weight is on the same side of zero, at `beyond` it is not.
    while (beyond - inside > 1) {
      const size_t middle = inside + (beyond - inside) / 2;
      (side * at(middle) > 0.0 ? inside : beyond) = middle;
    }
    w = OneStep(inside == from ? w : at(inside), d * history_[beyond].share, mu, history_[beyond].step);
    from = beyond;
  }
  return w;
}

void ProximalAverage::MoveRow(double* w, const double* d, double mu, size_t from) const {
  const Moment& start = history_[from];
  const Moment& end = history_.back();
  if (from + 1 == history_.size()) return;
  const double keep = end.keep / start.keep;
  const double drift = end.keep * (end.drift - start.drift);
  const double threshold = end.keep * mu * (end.threshold - start.threshold);
  const double still = mu / history_[from + 1].share;
  for (int k = 0; k < stride_; ++k) {
    if (w[k] == 0.0) {
      if (std::abs(d[k]) > still) w[k] = Move(0.0, d[k], mu, from);
      continue;
    }
    const double side = w[k] > 0.0 ? 1.0 : -1.0;
    const double there = keep * w[k] - drift * d[k] - side * threshold;
    w[k] = side * there > 0.0 ? there : Move(w[k], d[k], mu, from);
  }
}

void ProximalAverage::Flush() {
  for (int64_t a = 0; a < data_->attributes; ++a) {
    double* w = rows_.data() + 2 * a * stride_;
    MoveRow(w, w + stride_, Mu(a), static_cast<size_t>(current_[static_cast<size_t>(a)]));
    current_[static_cast<size_t>(a)] = 0;
  }
  history_.assign(1, Moment());
}

absl::StatusOr<double> ProximalAverage::Evaluate(const Sequence& x, const base::StopToken& stop) {
  LUTHIER_RETURN_IF_ERROR(chain_.ByPieces(x.tokens, stop, [&](int64_t begin, int64_t count) {
    kernels_->gather(rows_.data(), 2 * stride_, data_->attribute.data(), data_->values(), x.token_start + begin, count,
                     stride_, ahead_, chain_.scores() + begin * stride_);
  }));
  chain_.SetTransitions(transitions_.data());
  LUTHIER_ASSIGN_OR_RETURN(const double log_z, chain_.Forward(x.tokens, stop));
  const double loss = log_z - chain_.Score(x.label, x.tokens);
  if (!std::isfinite(loss)) return loss;
  LUTHIER_RETURN_IF_ERROR(chain_.Backward(stop));
  chain_.SubtractLabeling(x.label);
  return loss;
}

absl::StatusOr<SolverState> ProximalAverage::Step(const base::StopToken& stop) {
  const stochastic::Sampler::Draw draw = sampler_.Next();
  const Sequence x = data_->At(draw.index);
  memory_.Prefetch(x.index);
  const std::vector<int32_t>& touched = row_sums_.Collect(x);
  const auto now = static_cast<int32_t>(history_.size() - 1);
  for (const int32_t a : touched) {
    double* w = rows_.data() + int64_t{2} * a * stride_;
    MoveRow(w, w + stride_, Mu(a), static_cast<size_t>(current_[static_cast<size_t>(a)]));
    current_[static_cast<size_t>(a)] = now;
  }
  const absl::StatusOr<double> loss = Evaluate(x, stop);
  if (loss.ok() && !std::isfinite(*loss)) return SolverState::kDiverged;
  absl::StatusOr<double> constant = loss;
  if (loss.ok()) {
    if (options_.average.skip_checks && search_.Skip(x.index)) {
      constant = sampler_.constant(x.index);
    } else {
      constant = search_.Search(x, *loss, sampler_.StartConstant(draw), {chain_.marginals(), chain_.edge_sums()},
                                &chain_, stop);
    }
  }
  if (!constant.ok()) {
    sampler_.PutBack(draw);
    return constant.status();
  }
  sampler_.SetConstant(x.index, *constant);
  const double step = stochastic::StepSize(options_.average.step, options_.average.constant_step,
                                           sampler_.max_constant(), sampler_.mean_constant(), lambda_);
  ++iterations_;
  if (stored_[static_cast<size_t>(x.index)] == 0) {
    stored_[static_cast<size_t>(x.index)] = 1;
    ++stored_count_;
  }
  const double share = 1.0 / static_cast<double>(stored_count_);
  const bool saga = options_.average.method == AverageMethod::kSaga;
  const double own = 1.0 / std::max(draw.scaled_probability, 0.05);
  const GradientChange& change = memory_.Exchange(x.index, chain_.marginals(), chain_.edge_sums(), chain_);
  // SAGA takes its step here, where g - g_i is known. SAG takes it when the row is needed next, because its step
  // depends on d alone.
  const double* sums = change.tokens == nullptr ? change.row_values.data() : row_sums_.Sum(x, change.tokens).value();
  for (size_t r = 0; r < touched.size(); ++r) {
    double* w = rows_.data() + int64_t{2} * touched[r] * stride_;
    double* d = w + stride_;
    const double* c = sums + static_cast<int64_t>(r) * stride_;
    const double mu = Mu(touched[r]);
    for (int k = 0; k < stride_; ++k) {
      if (saga) w[k] = OneStep(w[k], own * c[k] + share * d[k], mu, step);
      d[k] += c[k];
    }
    if (saga) current_[static_cast<size_t>(touched[r])] = now + 1;
  }
  const double mu = Mu(data_->attributes);
  for (int64_t k = 0; k < transitions_.size(); ++k) {
    double& d = d_transitions_.data()[k];
    double& w = transitions_.data()[k];
    const double c = change.edges[k];
    w = OneStep(w, saga ? own * c + share * d : share * (d + c), mu, step);
    d += c;
  }
  Moment next = history_.back();
  next.keep *= 1.0 - step * lambda_;
  next.drift += step * share / next.keep;
  next.threshold += step / next.keep;
  next.step = step;
  next.share = share;
  history_.push_back(next);
  if (static_cast<int64_t>(history_.size()) > options_.flush_every || next.keep < kMinKeep) Flush();
  return SolverState::kRunning;
}

absl::StatusOr<SolverState> ProximalAverage::Advance(int64_t iterations, const base::StopToken& stop) {
  return Repeat(iterations, stop, [&] { return Step(stop); });
}

void ProximalAverage::CopyWeights(VectorXd* w) const {
  const Shape shape = data_->shape();
  w->resize(shape.dim());
  for (int64_t a = 0; a < shape.attributes; ++a) {
    const double* row = rows_.data() + 2 * a * stride_;
    std::copy_n(row, stride_, w->data() + a * stride_);
    MoveRow(w->data() + a * stride_, row + stride_, Mu(a), static_cast<size_t>(current_[static_cast<size_t>(a)]));
  }
  std::copy_n(transitions_.data(), transitions_.size(), w->data() + shape.transitions());
}

double ProximalAverage::GradientEstimate() const {
  if (stored_count_ < data_->sequences()) return std::numeric_limits<double>::infinity();
  const auto n = static_cast<double>(data_->sequences());
  const VectorXd w = Weights();
  VectorXd gradient = n * lambda_ * w;
  for (int64_t a = 0; a < data_->attributes; ++a) {
    const double* d = rows_.data() + 2 * a * stride_ + stride_;
    for (int k = 0; k < stride_; ++k) gradient[a * stride_ + k] += d[k];
  }
  for (int64_t k = 0; k < d_transitions_.size(); ++k) {
    gradient[data_->shape().transitions() + k] += d_transitions_.data()[k];
  }
  return SmallestSubgradient(w, gradient, l1_, stride_);
}

double ProximalAverage::passes() const {
  return static_cast<double>(iterations_ + search_.forwards()) / static_cast<double>(data_->sequences());
}

void ProximalAverage::SaveWith(const AlignedDoubles& rows, const std::vector<int32_t>& current,
                               const std::vector<Moment>& history, base::CheckpointWriter* writer) const {
  sampler_.Save(writer);
  SaveArray(memory_.table(), writer);
  for (const AlignedDoubles* x : {&rows, &transitions_, &d_transitions_}) SaveArray(*x, writer);
  SaveArray(current, writer);
  writer->U64(history.size());
  SaveArray(history, writer);
  search_.Save(writer);
  SaveArray(stored_, writer);
  writer->U64(static_cast<uint64_t>(iterations_));
}

void ProximalAverage::Save(base::CheckpointWriter* writer) const {
  SaveWith(rows_, current_, history_, writer);
}

void ProximalAverage::SaveModel(base::CheckpointWriter* writer) const {
  AlignedDoubles rows(rows_.size());
  std::copy_n(rows_.data(), rows_.size(), rows.data());
  for (int64_t a = 0; a < data_->attributes; ++a) {
    double* w = rows.data() + 2 * a * stride_;
    MoveRow(w, w + stride_, Mu(a), static_cast<size_t>(current_[static_cast<size_t>(a)]));
  }
  SaveWith(rows, std::vector<int32_t>(current_.size(), 0), {Moment()}, writer);
}

bool ProximalAverage::WarmStart(base::CheckpointReader* reader, const Rescaling& rescaling) {
  if (!Load(reader)) return false;
  if (!rescaling.any()) return true;
  rescaling.ToWeights(stride_, 2 * stride_, rows_.data());
  memory_.Rescale(rescaling, 2 * stride_, rows_.data() + stride_);
  rescaling.ToConstants(*data_, &sampler_);
  search_.DemandAll();
  return true;
}

bool ProximalAverage::Load(base::CheckpointReader* reader) {
  bool fits = sampler_.Load(reader) && LoadArray(reader, &memory_.table());
  for (AlignedDoubles* x : {&rows_, &transitions_, &d_transitions_}) fits = fits && LoadArray(reader, x);
  fits = fits && LoadArray(reader, &current_);
  const uint64_t moments = fits ? reader->U64() : 0;
  if (!fits || moments < 1 || moments > static_cast<uint64_t>(options_.flush_every)) return false;
  history_.resize(static_cast<size_t>(moments));
  fits = LoadArray(reader, &history_) && search_.Load(reader) && LoadArray(reader, &stored_);
  for (const int32_t c : current_) fits = fits && c >= 0 && static_cast<uint64_t>(c) < moments;
  iterations_ = static_cast<int64_t>(reader->U64());
  stored_count_ = std::count_if(stored_.begin(), stored_.end(), [](uint8_t s) { return s != 0; });
  return fits && reader->ok();
}

}  // namespace luthier::crf
