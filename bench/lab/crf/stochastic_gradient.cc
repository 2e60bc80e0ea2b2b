#include "bench/lab/crf/stochastic_gradient.h"

#include <cmath>
#include <limits>
#include <optional>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/crf/solvers/checkpoint_arrays.h"

namespace luthier::crf::lab {
namespace {

using Eigen::VectorXd;

constexpr double kMinShrink = 1e-6;  // Below it, or above its inverse, products with s would lose digits.

}  // namespace

StochasticGradient::StochasticGradient(const ChainData* data, double l2, const StochasticGradientOptions& options,
                                       const Kernels& kernels)
    : data_(data),
      options_(options),
      kernels_(&kernels),
      lambda_(l2 / static_cast<double>(data->sequences())),
      stride_(data->shape().stride()),
      width_(averages() || adaptive() ? 2 * stride_ : stride_),
      ahead_(Ahead(int64_t{8} * data->attributes * width_)),
      sampler_(stochastic::WithoutConstants(options.sampling), data->sequences(), options.seed),
      chain_(data->labels(), data->longest(), kernels),
      row_sums_(data, kernels),
      rows_((int64_t{data->attributes} + data->labels()) * width_),
      current_(adaptive() ? static_cast<size_t>(data->attributes) : 0, 0) {
  LUTHIER_CHECK(l2 >= 0.0 && std::isfinite(l2) && options.rate > 0.0);
  LUTHIER_CHECK(options.rule != GradientRule::kPegasos || l2 > 0.0);
}

void StochasticGradient::Shrink(double* row, int64_t behind) const {
  if (behind == 0 || lambda_ == 0.0) return;
  const double* squares = row + stride_;
  const auto times = static_cast<double>(behind);
  // No rate is above options_.rate. If this bounds the shrinking closely enough, series accurate to 1e-13 replace exp
  // and log1p, and the compiler vectorises them.
  const double most = options_.rate * lambda_;
  if (most < 1e-3 && most * times < 0.25) {
    for (int k = 0; k < stride_; ++k) {
      const double x = options_.rate / (1.0 + std::sqrt(squares[k])) * lambda_;
      const double log1p = x * (1.0 - x * (1.0 / 2.0 - x * (1.0 / 3.0 - x * (1.0 / 4.0 - x * (1.0 / 5.0)))));
      const double y = times * log1p;
      const double tail =
          1.0 - y * (1.0 / 7.0) * (1.0 - y * (1.0 / 8.0) * (1.0 - y * (1.0 / 9.0) * (1.0 - y * (1.0 / 10.0))));
      const double head = 1.0 - y * (1.0 / 4.0) * (1.0 - y * (1.0 / 5.0) * (1.0 - y * (1.0 / 6.0) * tail));
      row[k] *= 1.0 - y * (1.0 - y * (1.0 / 2.0) * (1.0 - y * (1.0 / 3.0) * head));
    }
    return;
  }
  for (int k = 0; k < stride_; ++k) {
    if (row[k] == 0.0) continue;
    const double rate = options_.rate / (1.0 + std::sqrt(squares[k]));
    row[k] *= std::exp(-times * std::log1p(rate * lambda_));
  }
}

// Moves the rows: v -= step / s g, u += c step / s g, with s after the shrinking of this iteration.
void StochasticGradient::MoveConstant(const Sequence& x, double step) {
  const double shrunk = shrink_ * (1.0 - step * lambda_);
  if (std::abs(shrunk) < kMinShrink || std::abs(shrunk) > 1.0 / kMinShrink) {
    // Pegasos' first step forgets all weights: s = 0.
    Flush();
    for (int64_t r = 0; r < rows_.size(); r += width_) {
      for (int k = 0; k < stride_; ++k) rows_.data()[r + k] *= 1.0 - step * lambda_;
    }
  } else {
    shrink_ = shrunk;
  }
  double* transitions = rows_.data() + int64_t{data_->attributes} * width_;
  const double* edges = chain_.edge_sums();
  for (int half = 0; half * stride_ < width_; ++half) {
    const double scale = half == 0 ? -step / shrink_ : shrink_sum_ * step / shrink_;
    kernels_->scatter(rows_.data() + half * stride_, width_, scale, data_->attribute.data(), data_->values(),
                      x.token_start, x.tokens, stride_, ahead_, chain_.marginals());
    for (int j = 0; j < data_->labels(); ++j) {
      double* row = transitions + j * width_ + half * stride_;
      kernels_->add_scaled(row, scale, edges + j * stride_, stride_, row);
    }
  }
  shrink_sum_ += shrink_;
}

void StochasticGradient::MoveAdaGrad(const Sequence& x) {
  const auto move = [&](double* __restrict row, const double* __restrict g) {
    double* __restrict squares = row + stride_;
    for (int k = 0; k < stride_; ++k) {
      squares[k] += g[k] * g[k];
      const double rate = options_.rate / (1.0 + std::sqrt(squares[k]));
      row[k] = (row[k] - rate * g[k]) / (1.0 + rate * lambda_);
    }
  };
  const double* sums = row_sums_.Sum(x, chain_.marginals()).value();
  for (size_t r = 0; r < row_sums_.rows().size(); ++r) {
    const int64_t a = row_sums_.rows()[r];
    move(rows_.data() + a * width_, sums + static_cast<int64_t>(r) * stride_);
    current_[static_cast<size_t>(a)] = iterations_ + 1;
  }
  for (int j = 0; j < data_->labels(); ++j) {
    move(rows_.data() + (int64_t{data_->attributes} + j) * width_, chain_.edge_sums() + j * stride_);
  }
}

absl::StatusOr<double> StochasticGradient::Evaluate(const Sequence& x, const base::StopToken& stop) {
  LUTHIER_RETURN_IF_ERROR(chain_.ByPieces(x.tokens, stop, [&](int64_t begin, int64_t count) {
    double* scores = chain_.scores() + begin * stride_;
    kernels_->gather(rows_.data(), width_, data_->attribute.data(), data_->values(), x.token_start + begin, count,
                     stride_, ahead_, scores);
    for (int64_t k = 0; k < count * stride_; ++k) scores[k] *= shrink_;
  }));
  for (int j = 0; j < data_->labels(); ++j) {
    const double* row = rows_.data() + (int64_t{data_->attributes} + j) * width_;
    for (int k = 0; k < stride_; ++k) chain_.transitions()[j * stride_ + k] = shrink_ * row[k];
  }
  chain_.Prepare();
  LUTHIER_ASSIGN_OR_RETURN(const double log_z, chain_.Forward(x.tokens, stop));
  const double loss = log_z - chain_.Score(x.label, x.tokens);
  if (!std::isfinite(loss)) return loss;
  LUTHIER_RETURN_IF_ERROR(chain_.Backward(stop));
  chain_.SubtractLabeling(x.label);
  return loss;
}

absl::StatusOr<SolverState> StochasticGradient::Step(const base::StopToken& stop) {
  const stochastic::Sampler::Draw draw = sampler_.Next();
  const Sequence x = data_->At(draw.index);
  if (adaptive()) {
    for (const int32_t a : row_sums_.Collect(x)) {
      int64_t& current = current_[static_cast<size_t>(a)];
      Shrink(rows_.data() + int64_t{a} * width_, iterations_ - current);
      current = iterations_;
    }
  }
  const absl::StatusOr<double> loss = Evaluate(x, stop);
  if (!loss.ok()) {
    sampler_.PutBack(draw);
    return loss.status();
  }
  if (!std::isfinite(*loss)) return SolverState::kDiverged;
  if (adaptive()) {
    MoveAdaGrad(x);
  } else {
    const bool pegasos = options_.rule == GradientRule::kPegasos;
    MoveConstant(x, pegasos ? options_.rate / (lambda_ * static_cast<double>(iterations_ + 1)) : options_.rate);
  }
  ++iterations_;
  return SolverState::kRunning;
}

// Sets s = 1 and c = 0 without changing w.
void StochasticGradient::Flush() {
  for (int64_t r = 0; r < rows_.size(); r += width_) {
    double* v = rows_.data() + r;
    for (int k = 0; k < stride_; ++k) {
      if (averages()) v[stride_ + k] += shrink_sum_ * v[k];
      v[k] *= shrink_;
    }
  }
  shrink_ = 1.0;
  shrink_sum_ = 0.0;
}

absl::StatusOr<SolverState> StochasticGradient::Advance(int64_t iterations, const base::StopToken& stop) {
  return Repeat(iterations, stop, [&] { return Step(stop); });
}

void StochasticGradient::CopyWeights(VectorXd* w) const {
  const Shape shape = data_->shape();
  w->resize(shape.dim());
  std::vector<double> row(static_cast<size_t>(width_));
  for (int64_t r = 0; r < int64_t{shape.attributes} + shape.labels; ++r) {
    std::copy_n(rows_.data() + r * width_, width_, row.data());
    if (adaptive() && r < shape.attributes) Shrink(row.data(), iterations_ - current_[static_cast<size_t>(r)]);
    for (int k = 0; k < stride_; ++k) {
      const auto j = static_cast<size_t>(k);
      double value = shrink_ * row[j];
      if (averages() && iterations_ > 0) {
        value = (shrink_sum_ * row[j] + row[j + static_cast<size_t>(stride_)]) / static_cast<double>(iterations_);
      }
      (*w)[r * stride_ + k] = value;
    }
  }
}

double StochasticGradient::GradientEstimate() const {
  return std::numeric_limits<double>::infinity();
}

double StochasticGradient::passes() const {
  return static_cast<double>(iterations_) / static_cast<double>(data_->sequences());
}

void StochasticGradient::Save(base::CheckpointWriter* writer) const {
  sampler_.Save(writer);
  SaveArray(rows_, writer);
  SaveArray(current_, writer);
  writer->F64(shrink_);
  writer->F64(shrink_sum_);
  writer->U64(static_cast<uint64_t>(iterations_));
}

bool StochasticGradient::Load(base::CheckpointReader* reader) {
  const bool fits = sampler_.Load(reader) && LoadArray(reader, &rows_) && LoadArray(reader, &current_);
  shrink_ = reader->F64();
  shrink_sum_ = reader->F64();
  iterations_ = static_cast<int64_t>(reader->U64());
  return fits && reader->ok();
}

bool StochasticGradient::WarmStart(base::CheckpointReader* reader, const Rescaling& rescaling) {
  const std::optional<VectorXd> w = LoadWeights(reader, data_->shape(), rescaling);
  if (!w) return false;
  for (int64_t r = 0; r * stride_ < w->size(); ++r) {
    std::copy_n(w->data() + r * stride_, stride_, rows_.data() + r * width_);
  }
  return true;
}

}  // namespace luthier::crf::lab
