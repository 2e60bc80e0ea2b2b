#include "lib/crf/solvers/gradient_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/check.h"
#include "lib/base/error.h"

namespace luthier::crf {
namespace {

constexpr int64_t kSlack = 8;

std::vector<int64_t> Starts(MemoryMode mode, const ChainData& data) {
  const int64_t K = data.labels();
  std::vector<int64_t> distinct;
  if (mode == MemoryMode::kSparse) distinct = CountDistinct(data);
  std::vector<int64_t> start = {0};
  for (int64_t i = 0; i < data.sequences(); ++i) {
    const int64_t T = data.length(i);
    int64_t size = data.shape().parameters();
    if (mode == MemoryMode::kMixed) size = T * K + K * K;
    if (mode == MemoryMode::kMarginals) size = T * K + (T - 1) * K * K;
    if (mode == MemoryMode::kSparse) size = distinct[static_cast<size_t>(i)] * K + K * K;
    start.push_back(start.back() + size);
  }
  return start;
}

}  // namespace

const std::vector<std::string>& MemoryModeNames() {
  static const std::vector<std::string>& names =
      *new std::vector<std::string>{"mixed", "marginals", "sparse", "absolute"};
  return names;
}

absl::StatusOr<MemoryMode> ParseMemoryMode(absl::string_view name) {
  const std::vector<std::string>& names = MemoryModeNames();
  for (size_t k = 0; k < names.size(); ++k) {
    if (names[k] == name) return static_cast<MemoryMode>(k);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no memory mode ", base::Quote(name), "; there are ", absl::StrJoin(names, ", ")));
}

int64_t PlanMemory(MemoryMode mode, const ChainData& data) {
  return Starts(mode, data).back();
}

absl::StatusOr<GradientMemory> GradientMemory::Create(MemoryMode mode, const ChainData* data, const Kernels& kernels,
                                                      int64_t max_bytes) {
  const auto bytes = [&](MemoryMode m) { return PlanMemory(m, *data) * static_cast<int64_t>(sizeof(float)); };
  if (bytes(mode) > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the gradients that are remembered, one of each sequence, would need ",
                     (bytes(mode) + (1 << 20) - 1) >> 20, " MiB, and the limit is ", max_bytes >> 20,
                     " MiB; raise max_memory_mib, or take solver lbfgs, which keeps none"));
  }
  return GradientMemory(mode, data, kernels);
}

GradientMemory::GradientMemory(MemoryMode mode, const ChainData* data, const Kernels& kernels)
    : mode_(mode),
      data_(data),
      kernels_(&kernels),
      labels_(data->labels()),
      stride_(data->shape().stride()),
      start_(Starts(mode, *data)),
      table_(static_cast<size_t>(start_.back() + kSlack), 0.0F),
      tokens_(data->longest() * stride_),
      edges_(int64_t{labels_} * stride_) {
  if (mode == MemoryMode::kMarginals) edge_marginals_ = AlignedDoubles(2 * int64_t{labels_} * stride_);
  if (mode == MemoryMode::kSparse || mode == MemoryMode::kAbsolute) {
    row_sums_ = std::make_unique<RowSums>(data, kernels);
    int64_t most = 0;
    for (const int64_t count : CountDistinct(*data)) most = std::max(most, count);
    change_.row_values = AlignedDoubles(most * stride_);
  }
}

void GradientMemory::Prefetch(int64_t i) const {
  constexpr int64_t kLine = 16, kLines = 160;  // Floats of a cache line; number of lines that are worth a prefetch.
  const int64_t begin = start_[static_cast<size_t>(i)];
  const int64_t end = std::min(start_[static_cast<size_t>(i) + 1], begin + kLine * kLines);
  for (int64_t k = begin; k < end; k += kLine) __builtin_prefetch(table_.data() + k, 1);
}

const GradientChange& GradientMemory::Exchange(int64_t i, const double* residuals, const double* edges,
                                               const ChainInference& chain) {
  const Kernels& k = *kernels_;
  const int64_t tokens = data_->length(i);
  float* memory = table_.data() + start_[static_cast<size_t>(i)];
  if (mode_ == MemoryMode::kMixed || mode_ == MemoryMode::kMarginals) {
    k.exchange(residuals, tokens, labels_, stride_, memory, tokens_.data());
    memory += tokens * labels_;
    change_.tokens = tokens_.data();
  } else {
    const Sequence x = data_->At(i);
    change_.rows = row_sums_->Collect(x);
    const double* sums = row_sums_->Sum(x, residuals).value();
    change_.tokens = nullptr;
    for (size_t r = 0; r < change_.rows.size(); ++r) {
      float* place = memory + (mode_ == MemoryMode::kSparse ? static_cast<int64_t>(r) : change_.rows[r]) * labels_;
      const int64_t row = static_cast<int64_t>(r) * stride_;
      k.exchange(sums + row, 1, labels_, stride_, place, change_.row_values.data() + row);
    }
    memory += (mode_ == MemoryMode::kSparse ? static_cast<int64_t>(change_.rows.size()) : data_->attributes) *
              int64_t{labels_};
  }
  change_.edges = edges_.data();
  ExchangeEdges(i, edges, chain, memory, edges_.data(), edge_marginals_.data());
  return change_;
}

void GradientMemory::ExchangeEdges(int64_t i, const double* edges, const ChainInference& chain, float* memory,
                                   double* change, double* scratch) const {
  const Kernels& k = *kernels_;
  if (mode_ != MemoryMode::kMarginals) {
    k.exchange(edges, labels_, labels_, stride_, memory, change);
    return;
  }
  const int64_t square = int64_t{labels_} * stride_;
  std::fill_n(change, square, 0.0);
  const int32_t* label = data_->label.data() + data_->sequence_start[static_cast<size_t>(i)];
  double* marginals = scratch;
  double* difference = scratch + square;
  for (int64_t t = 1; t < data_->length(i); ++t) {
    chain.EdgeMarginals(t, marginals);
    marginals[label[t - 1] * stride_ + label[t]] -= 1.0;
    k.exchange(marginals, labels_, labels_, stride_, memory, difference);
    k.add_scaled(change, 1.0, difference, square, change);
    memory += labels_ * labels_;
  }
}

void GradientMemory::Prepare(int64_t i, const double* residuals, const double* edges, const ChainInference& chain,
                             const Prepared& to) const {
  LUTHIER_CHECK(mode_ == MemoryMode::kMixed || mode_ == MemoryMode::kMarginals);
  const int64_t length = data_->length(i);
  std::copy_n(table_.data() + start_[static_cast<size_t>(i)], Size(i) - kSlack, to.remembered);
  kernels_->exchange(residuals, length, labels_, stride_, to.remembered, to.tokens);
  ExchangeEdges(i, edges, chain, to.remembered + length * labels_, to.edge_change, to.scratch);
}

void GradientMemory::Recall(int64_t i, double* residuals, double* edges) const {
  LUTHIER_CHECK(mode_ == MemoryMode::kMixed || mode_ == MemoryMode::kMarginals);
  const float* memory = table_.data() + start_[static_cast<size_t>(i)];
  const int64_t length = data_->length(i);
  std::fill_n(residuals, length * stride_, 0.0);
  for (int64_t t = 0; t < length; ++t, memory += labels_) std::copy_n(memory, labels_, residuals + t * stride_);
  std::fill_n(edges, int64_t{labels_} * stride_, 0.0);
  for (int64_t part = mode_ == MemoryMode::kMixed ? 1 : length - 1; part > 0; --part) {
    for (int a = 0; a < labels_; ++a) {
      for (int b = 0; b < labels_; ++b) edges[a * stride_ + b] += *memory++;
    }
  }
}

void GradientMemory::Rescale(const Rescaling& rescaling, int64_t apart, double* sums) {
  if (mode_ == MemoryMode::kMixed || mode_ == MemoryMode::kMarginals) {
    // The table has gradients by tokens and edges, which do not depend on the attributes' values.
    rescaling.ToGradients(stride_, apart, sums);
    return;
  }
  // The numbers are rounded anew, so their sums are computed anew.
  for (int32_t a = 0; a < data_->attributes; ++a) std::fill_n(sums + a * apart, stride_, 0.0);
  for (int64_t i = 0; i < data_->sequences(); ++i) {
    float* memory = table_.data() + start_[static_cast<size_t>(i)];
    const std::vector<int32_t>& rows = row_sums_->Collect(data_->At(i));
    for (size_t r = 0; r < rows.size(); ++r) {
      const int32_t a = rows[r];
      float* place = memory + (mode_ == MemoryMode::kSparse ? static_cast<int64_t>(r) : a) * labels_;
      const double ratio = rescaling.Of(a);
      for (int k = 0; k < labels_; ++k) {
        place[k] = static_cast<float>(ratio * place[k]);
        sums[a * apart + k] += place[k];
      }
    }
  }
}

int64_t GradientMemory::Size(int64_t i) const {
  return start_[static_cast<size_t>(i) + 1] - start_[static_cast<size_t>(i)] + kSlack;
}

void GradientMemory::Remember(int64_t i, const float* remembered) {
  std::copy_n(remembered, Size(i) - kSlack, table_.data() + start_[static_cast<size_t>(i)]);
}

const GradientChange& GradientMemory::Difference(int64_t i, const double* residuals, const double* edges,
                                                 const ChainInference& chain) {
  const auto begin = table_.begin() + start_[static_cast<size_t>(i)];
  const auto end = table_.begin() + start_[static_cast<size_t>(i) + 1];
  saved_.assign(begin, end);
  Exchange(i, residuals, edges, chain);
  std::copy(saved_.begin(), saved_.end(), begin);
  return change_;
}

}  // namespace luthier::crf
