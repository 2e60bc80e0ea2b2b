#include "bench/lab/crf/exponentiated_gradient.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/crf/solvers/checkpoint_arrays.h"
#include "lib/linear/blocked_sum.h"
#include "lib/linear/minimizer.h"

namespace luthier::crf::lab {
namespace {

using Eigen::VectorXd;

constexpr double kGrow = 1.05;
constexpr double kMinRate = 1e-9;    // Smallest rate that is tried.
constexpr double kRounding = 1e-12;  // Relative rounding error that a comparison of dual values must tolerate.

}  // namespace

absl::StatusOr<ExponentiatedGradient> ExponentiatedGradient::Create(const ChainData* data, double l2,
                                                                    const ExponentiatedGradientOptions& options,
                                                                    const Kernels& kernels) {
  LUTHIER_CHECK(options.first_potential >= 0.0 && options.first_rate > 0.0 && options.first_rate <= 1.0);
  if (!(l2 > 0.0 && std::isfinite(l2))) {
    return absl::InvalidArgumentError("oeg, which solves the dual problem, needs l2 > 0");
  }
  const int64_t numbers = 2 * (data->tokens() + data->sequences() * data->labels()) * int64_t{data->shape().stride()};
  if (numbers > options.max_memory_bytes / 8) {
    return absl::ResourceExhaustedError(absl::StrCat("oeg would need ", numbers >> 17,
                                                     " MiB for its dual variables, more than ",
                                                     options.max_memory_bytes >> 20, " MiB"));
  }
  return ExponentiatedGradient(data, l2, options, kernels);
}

ExponentiatedGradient::ExponentiatedGradient(const ChainData* data, double l2,
                                             const ExponentiatedGradientOptions& options, const Kernels& kernels)
    : data_(data),
      l2_(l2),
      options_(options),
      kernels_(&kernels),
      stride_(data->shape().stride()),
      square_(int64_t{data->labels()} * stride_),
      ahead_(Ahead(8 * data->shape().dim())),
      token_gram_(data, kernels),
      gram_scratch_(data, kernels),
      sampler_(stochastic::WithoutConstants(options.sampling), data->sequences(), options.seed),
      chain_(data->labels(), data->longest(), kernels),
      start_({0}),
      entropy_(static_cast<size_t>(data->sequences()), 0.0),
      rate_(static_cast<size_t>(data->sequences()), options.first_rate),
      w_(data->shape().dim()),
      scores_(data->longest() * stride_),
      change_(data->longest() * stride_ + square_),
      image_(data->longest() * stride_) {
  for (int64_t i = 0; i < data->sequences(); ++i) start_.push_back(start_.back() + data->length(i) * stride_ + square_);
  potentials_ = AlignedDoubles(start_.back());
  marginals_ = AlignedDoubles(start_.back());
}

void ExponentiatedGradient::AddToWeights(const Sequence& x, double scale, const double* tokens, const double* edges) {
  kernels_->scatter(w_.data(), stride_, scale, data_->attribute.data(), data_->values(), x.token_start, x.tokens,
                    stride_, ahead_, tokens);
  double* transitions = w_.data() + data_->shape().transitions();
  kernels_->add_scaled(transitions, scale, edges, square_, transitions);
}

// Starts with independent tokens: each has exp c for the true label and 1 for the others, divided by their sum.
absl::Status ExponentiatedGradient::Start(const base::StopToken& stop) {
  const int K = data_->labels();
  const double total = 1.0 + (K - 1) * std::exp(-options_.first_potential);
  const double right = 1.0 / total;
  const double wrong = std::exp(-options_.first_potential) / total;
  const double token_entropy = std::log(total) + (1.0 - right) * options_.first_potential;
  for (; started_ < data_->sequences(); ++started_) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    const int64_t i = started_;
    const Sequence x = data_->At(i);
    entropy_[static_cast<size_t>(i)] = static_cast<double>(x.tokens) * token_entropy;
    double* theta = potentials_.data() + Offset(i);
    double* q = marginals_.data() + Offset(i);
    double* g = q + x.tokens * stride_;
    for (int64_t t = 0; t < x.tokens; ++t) {
      theta[t * stride_ + x.label[t]] = options_.first_potential;
      for (int k = 0; k < K; ++k) q[t * stride_ + k] = k == x.label[t] ? right : wrong;
      for (int j = 0; t > 0 && j < K; ++j) {
        for (int k = 0; k < K; ++k) g[j * stride_ + k] += q[(t - 1) * stride_ + j] * q[t * stride_ + k];
      }
    }
    // Computes F(x_i, y_i) - E F.
    std::copy_n(q, x.tokens * stride_ + square_, change_.data());
    double* edges = change_.data() + x.tokens * stride_;
    for (int64_t t = 0; t < x.tokens; ++t) change_.data()[t * stride_ + x.label[t]] -= 1.0;
    for (int64_t t = 1; t < x.tokens; ++t) edges[x.label[t - 1] * stride_ + x.label[t]] -= 1.0;
    AddToWeights(x, -1.0 / l2_, change_.data(), edges);
  }
  return absl::OkStatus();
}

absl::StatusOr<SolverState> ExponentiatedGradient::Step(const base::StopToken& stop) {
  const stochastic::Sampler::Draw draw = sampler_.Next();
  const absl::StatusOr<SolverState> state = Move(data_->At(draw.index), stop);
  if (!state.ok()) sampler_.PutBack(draw);
  return state;
}

// Moves alpha_i. Rates that were too long stay halved, so a stop gives up one trial only.
absl::StatusOr<SolverState> ExponentiatedGradient::Move(const Sequence& x, const base::StopToken& stop) {
  const auto i = static_cast<size_t>(x.index);
  const int64_t part = x.tokens * stride_;
  double* theta = potentials_.data() + start_[i];
  double* mu = marginals_.data() + start_[i];
  const double* transitions = w_.data() + data_->shape().transitions();
  LUTHIER_RETURN_IF_ERROR(chain_.ByPieces(x.tokens, stop, [&](int64_t begin, int64_t count) {
    kernels_->gather(w_.data(), stride_, data_->attribute.data(), data_->values(), x.token_start + begin, count,
                     stride_, ahead_, scores_.data() + begin * stride_);
  }));
  double* change = change_.data();
  for (; rate_[i] >= kMinRate; rate_[i] *= 0.5) {
    const double eta = rate_[i];
    for (int64_t k = 0; k < part; ++k) chain_.scores()[k] = (1.0 - eta) * theta[k] + eta * scores_.data()[k];
    for (int64_t k = 0; k < square_; ++k) {
      chain_.transitions()[k] = (1.0 - eta) * theta[part + k] + eta * transitions[k];
    }
    chain_.Prepare();
    LUTHIER_ASSIGN_OR_RETURN(const double log_z, chain_.Forward(x.tokens, stop));
    if (!std::isfinite(log_z)) return SolverState::kDiverged;
    LUTHIER_RETURN_IF_ERROR(chain_.Backward(stop));
    const double entropy = log_z - kernels_->dot(chain_.scores(), chain_.marginals(), part) -
                           kernels_->dot(chain_.transitions(), chain_.edge_sums(), square_);
    kernels_->add_scaled(chain_.marginals(), -1.0, mu, part, change);
    kernels_->add_scaled(chain_.edge_sums(), -1.0, mu + part, square_, change + part);
    LUTHIER_RETURN_IF_ERROR(token_gram_.Times(x, change, &gram_scratch_, image_.data(), stop));
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    ++evaluations_;
    const double curvature =
        (kernels_->dot(change, image_.data(), part) + kernels_->dot(change + part, change + part, square_)) / l2_;
    const double slope =
        kernels_->dot(scores_.data(), change, part) + kernels_->dot(transitions, change + part, square_);
    const double gain = entropy - entropy_[i] + slope - 0.5 * curvature;
    const double noise = kRounding * (1.0 + std::abs(log_z) + std::abs(entropy) + std::abs(slope));
    if (!(gain >= -noise)) continue;
    std::copy_n(chain_.scores(), part, theta);
    std::copy_n(chain_.transitions(), square_, theta + part);
    std::copy_n(chain_.marginals(), part, mu);
    std::copy_n(chain_.edge_sums(), square_, mu + part);
    entropy_[i] = entropy;
    AddToWeights(x, -1.0 / l2_, change, change + part);
    rate_[i] = std::min(1.0, kGrow * eta);
    break;
  }
  rate_[i] = std::max(rate_[i], kMinRate);
  ++iterations_;
  return SolverState::kRunning;
}

absl::StatusOr<SolverState> ExponentiatedGradient::Advance(int64_t iterations, const base::StopToken& stop) {
  LUTHIER_RETURN_IF_ERROR(Start(stop));
  return Repeat(iterations, stop, [&] { return Step(stop); });
}

double ExponentiatedGradient::DualValue() const {
  linear::BlockedSum entropy;
  for (const double e : entropy_) entropy.Add(e);
  return entropy.Total() - 0.5 * l2_ * Weights().squaredNorm();
}

void ExponentiatedGradient::CopyWeights(VectorXd* w) const {
  *w = Eigen::Map<const VectorXd>(w_.data(), w_.size());
}

double ExponentiatedGradient::GradientEstimate() const {
  return std::numeric_limits<double>::infinity();
}

double ExponentiatedGradient::passes() const {
  return static_cast<double>(evaluations_) / static_cast<double>(data_->sequences());
}

void ExponentiatedGradient::Save(base::CheckpointWriter* writer) const {
  sampler_.Save(writer);
  // A start that was interrupted begins anew.
  const bool started = started_ == data_->sequences();
  writer->U64(started ? 1 : 0);
  if (!started) return;
  for (const AlignedDoubles* x : {&potentials_, &marginals_, &w_}) SaveArray(*x, writer);
  SaveArray(entropy_, writer);
  SaveArray(rate_, writer);
  writer->U64(static_cast<uint64_t>(iterations_));
  writer->U64(static_cast<uint64_t>(evaluations_));
}

bool ExponentiatedGradient::Load(base::CheckpointReader* reader) {
  bool fits = sampler_.Load(reader);
  if (reader->U64() == 0) return fits && reader->ok() && started_ == 0;
  started_ = data_->sequences();
  for (AlignedDoubles* x : {&potentials_, &marginals_, &w_}) fits = fits && LoadArray(reader, x);
  fits = fits && LoadArray(reader, &entropy_) && LoadArray(reader, &rate_);
  iterations_ = static_cast<int64_t>(reader->U64());
  evaluations_ = static_cast<int64_t>(reader->U64());
  return fits && reader->ok();
}

void ExponentiatedGradient::SaveModel(base::CheckpointWriter* writer) const {
  Save(writer);
  writer->F64(l2_);
}

bool ExponentiatedGradient::WarmStart(base::CheckpointReader* reader, const Rescaling& rescaling) {
  if (!Load(reader)) return false;
  const double l2 = reader->F64();
  if (!reader->ok() || !(l2 > 0.0)) return false;
  // l2 w(alpha) is a sum of features, so with other values it changes as gradients do.
  rescaling.ToGradients(stride_, stride_, w_.data());
  for (int64_t k = 0; k < w_.size(); ++k) w_.data()[k] *= l2 / l2_;
  rate_.assign(rate_.size(), options_.first_rate);
  return true;
}

}  // namespace luthier::crf::lab
