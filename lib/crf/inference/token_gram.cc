#include "lib/crf/inference/token_gram.h"

#include <algorithm>

#include "absl/status/status.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"

namespace luthier::crf {

TokenGram::TokenGram(const ChainData* data, const Kernels& kernels)
    : data_(data), kernels_(&kernels), start_({0}), counted_(static_cast<size_t>(data->sequences()), 0) {
  for (int64_t i = 0; i < data->sequences(); ++i) {
    const int64_t length = data->length(i);
    start_.push_back(start_.back() + (length <= kMaxCounted ? length * length : 0));
  }
  count_ = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(start_.back()));
}

TokenGram::Scratch::Scratch(const ChainData* data, const Kernels& kernels) {
  if (data->longest() > kMaxCounted) row_sums_ = std::make_unique<RowSums>(data, kernels);
  last_.assign(static_cast<size_t>(data->attributes), -1);
}

absl::Status TokenGram::Times(const Sequence& x, const double* r, Scratch* scratch, double* d,
                              const base::StopToken& stop) {
  if (x.tokens > kMaxCounted) {
    scratch->row_sums_->Collect(x);
    LUTHIER_RETURN_IF_ERROR(scratch->row_sums_->Sum(x, r, stop).status());
    return scratch->row_sums_->Spread(x, d, stop);
  }
  uint8_t& counted = counted_[static_cast<size_t>(x.index)];
  if (counted == 0) Count(x, scratch);
  counted = 1;
  kernels_->overlap_times(count_.get() + start_[static_cast<size_t>(x.index)], r, x.tokens, data_->shape().stride(), d);
  return absl::OkStatus();
}

void TokenGram::Count(const Sequence& x, Scratch* scratch) {
  float* count = count_.get() + start_[static_cast<size_t>(x.index)];
  std::fill_n(count, x.tokens * x.tokens, 0.0F);
  std::vector<Scratch::Occurrence>& occurrences = scratch->occurrences_;
  occurrences.clear();
  for (int64_t t = 0; t < x.tokens; ++t) {
    for (int64_t e = x.token_start[t]; e < x.token_start[t + 1]; ++e) {
      const double value = data_->Value(static_cast<size_t>(e));
      int32_t& head = scratch->last_[static_cast<size_t>(data_->attribute[static_cast<size_t>(e)])];
      for (int32_t o = head; o >= 0; o = occurrences[static_cast<size_t>(o)].before) {
        const Scratch::Occurrence& other = occurrences[static_cast<size_t>(o)];
        count[t * x.tokens + other.token] += static_cast<float>(value * other.value);
      }
      count[t * x.tokens + t] += static_cast<float>(value * value);
      occurrences.push_back({static_cast<int32_t>(t), head, value});
      head = static_cast<int32_t>(occurrences.size()) - 1;
    }
  }
  for (int64_t t = 0; t < x.tokens; ++t) {
    for (int64_t s = 0; s < t; ++s) count[s * x.tokens + t] = count[t * x.tokens + s];
  }
  for (int64_t e = x.token_start[0]; e < x.token_start[x.tokens]; ++e) {
    scratch->last_[static_cast<size_t>(data_->attribute[static_cast<size_t>(e)])] = -1;
  }
}

}  // namespace luthier::crf
