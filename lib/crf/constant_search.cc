#include "lib/crf/constant_search.h"

#include <algorithm>
#include <cmath>

#include "lib/crf/checkpoint_arrays.h"

namespace luthier::crf {
namespace {

constexpr double kMinNorm2 = 1e-8;  // Of gradients whose constant is searched.
constexpr double kMinConstant = 1e-10;
constexpr int kMaxDoublings = 60;
constexpr double kLossRounding = 1e-13;  // Relative; what a comparison of losses must tolerate.
constexpr int kMaxStreak = 5;

}  // namespace

ConstantSearch::ConstantSearch(const ChainData* data, const Kernels& kernels)
    : kernels_(&kernels),
      overlaps_(CountOverlaps(*data)),
      trial_(data->labels(), data->longest(), kernels),
      change_(data->longest() * data->shape().stride()),
      streak_(static_cast<size_t>(data->sequences()), 0),
      skip_(static_cast<size_t>(data->sequences()), 0) {}

bool ConstantSearch::Skip(int64_t i) {
  int32_t& skip = skip_[static_cast<size_t>(i)];
  if (skip == 0) return false;
  --skip;
  return true;
}

double ConstantSearch::Search(const Sequence& x, double loss, double start, ChainInference* chain) {
  const auto i = static_cast<size_t>(x.index);
  const int stride = chain->stride();
  const int64_t part = x.tokens * stride;
  const int64_t square = int64_t{chain->labels()} * stride;
  const double* residuals = chain->marginals();
  const double* edges = chain->edge_sums();
  double constant = std::max(start, kMinConstant);
  kernels_->overlap_times(overlaps_.count.data() + overlaps_.start[i], residuals, x.tokens, stride, change_.data());
  const double norm2 = kernels_->dot(residuals, change_.data(), part) + kernels_->dot(edges, edges, square);
  if (!(norm2 > kMinNorm2)) return constant;
  int doublings = 0;
  for (; doublings < kMaxDoublings; ++doublings) {
    kernels_->add_scaled(chain->scores(), -1.0 / constant, change_.data(), part, trial_.scores());
    kernels_->add_scaled(chain->transitions(), -1.0 / constant, edges, square, trial_.transitions());
    trial_.PrepareForward();
    const double trial = trial_.Forward(x.tokens) - trial_.Score(x.label, x.tokens);
    ++forwards_;
    if (trial <= loss - 0.5 * norm2 / constant + kLossRounding * (1.0 + std::abs(loss))) break;
    constant *= 2.0;
  }
  if (doublings == 0) {
    streak_[i] = static_cast<uint8_t>(std::min<int>(streak_[i] + 1, kMaxStreak));
    skip_[i] = (1 << streak_[i]) - 1;
  } else {
    streak_[i] = 0;
  }
  return constant;
}

void ConstantSearch::Save(learn::CheckpointWriter* writer) const {
  SaveArray(streak_, writer);
  SaveArray(skip_, writer);
  writer->U64(static_cast<uint64_t>(forwards_));
}

bool ConstantSearch::Load(learn::CheckpointReader* reader) {
  bool fits = LoadArray(reader, &streak_) && LoadArray(reader, &skip_);
  forwards_ = static_cast<int64_t>(reader->U64());
  for (const uint8_t s : streak_) fits = fits && s <= kMaxStreak;
  return fits && reader->ok();
}

}  // namespace luthier::crf
