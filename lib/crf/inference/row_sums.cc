#include "lib/crf/inference/row_sums.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/linear/minimizer.h"

namespace luthier::crf {

std::vector<int64_t> CountDistinct(const ChainData& data) {
  std::vector<int64_t> last(static_cast<size_t>(data.attributes), -1);
  std::vector<int64_t> count(static_cast<size_t>(data.sequences()), 0);
  for (int64_t i = 0; i < data.sequences(); ++i) {
    const Sequence x = data.At(i);
    for (int64_t e = x.token_start[0]; e < x.token_start[x.tokens]; ++e) {
      int64_t& seen = last[static_cast<size_t>(data.attribute[static_cast<size_t>(e)])];
      if (seen != i) ++count[static_cast<size_t>(i)];
      seen = i;
    }
  }
  return count;
}

RowSums::RowSums(const ChainData* data, const Kernels& kernels)
    : data_(data),
      kernels_(&kernels),
      stride_(data->shape().stride()),
      slot_(static_cast<size_t>(data->attributes), -1) {
  int64_t most = 0;
  for (const int64_t count : CountDistinct(*data)) most = std::max(most, count);
  sums_ = AlignedDoubles(most * stride_);
}

const std::vector<int32_t>& RowSums::Collect(const Sequence& x) {
  rows_.clear();
  entries_.clear();
  for (int64_t e = x.token_start[0]; e < x.token_start[x.tokens]; ++e) {
    const int32_t a = data_->attribute[static_cast<size_t>(e)];
    int32_t& slot = slot_[static_cast<size_t>(a)];
    if (slot < 0) {
      slot = static_cast<int32_t>(rows_.size());
      rows_.push_back(a);
    }
    entries_.push_back(slot);
  }
  for (const int32_t a : rows_) slot_[static_cast<size_t>(a)] = -1;
  return rows_;
}

absl::StatusOr<const double*> RowSums::Sum(const Sequence& x, const double* tokens, const base::StopToken& stop) {
  std::fill_n(sums_.data(), static_cast<int64_t>(rows_.size()) * stride_, 0.0);
  size_t entry = 0;
  for (int64_t t = 0; t < x.tokens; ++t) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    for (int64_t e = x.token_start[t]; e < x.token_start[t + 1]; ++e) {
      double* row = sums_.data() + int64_t{entries_[entry++]} * stride_;
      kernels_->add_scaled(row, data_->Value(static_cast<size_t>(e)), tokens + t * stride_, stride_, row);
    }
  }
  return sums_.data();
}

absl::Status RowSums::Spread(const Sequence& x, double* tokens, const base::StopToken& stop) const {
  std::fill_n(tokens, x.tokens * stride_, 0.0);
  size_t entry = 0;
  for (int64_t t = 0; t < x.tokens; ++t) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    double* token = tokens + t * stride_;
    for (int64_t e = x.token_start[t]; e < x.token_start[t + 1]; ++e) {
      const double* row = sums_.data() + int64_t{entries_[entry++]} * stride_;
      kernels_->add_scaled(token, data_->Value(static_cast<size_t>(e)), row, stride_, token);
    }
  }
  return absl::OkStatus();
}

}  // namespace luthier::crf
