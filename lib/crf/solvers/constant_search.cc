#include "lib/crf/solvers/constant_search.h"

#include <algorithm>
#include <cmath>

#include "absl/status/statusor.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/crf/solvers/checkpoint_arrays.h"
#include "lib/linear/minimizer.h"

namespace luthier::crf {
namespace {

constexpr double kMinNorm2 = 1e-8;  // Least squared norm of a gradient whose constant is searched.
constexpr double kMinConstant = 1e-10;
constexpr int kMaxDoublings = 60;
constexpr double kLossRounding = 1e-13;  // Relative rounding error that a comparison of losses must tolerate.
constexpr int kMaxStreak = 5;

}  // namespace

ConstantSearch::Scratch::Scratch(const ChainData* data, const Kernels& kernels)
    : trial_(data->labels(), data->longest(), kernels),
      change_(data->longest() * data->shape().stride()),
      token_gram_(data, kernels) {}

ConstantSearch::ConstantSearch(const ChainData* data, const Kernels& kernels)
    : kernels_(&kernels),
      token_gram_(data, kernels),
      scratch_(data, kernels),
      streak_(static_cast<size_t>(data->sequences()), 0),
      skip_(static_cast<size_t>(data->sequences()), 0) {}

bool ConstantSearch::Skip(int64_t i) {
  int32_t& skip = skip_[static_cast<size_t>(i)];
  if (skip == 0) return false;
  --skip;
  return true;
}

void ConstantSearch::DemandAll() {
  std::fill(streak_.begin(), streak_.end(), 0);
  std::fill(skip_.begin(), skip_.end(), 0);
}

absl::StatusOr<double> ConstantSearch::Search(const Sequence& x, double loss, double start, const Direction& along,
                                              ChainInference* chain, const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(const Found found, Look(x, loss, start, along, chain, &scratch_, stop));
  Record(x.index, found);
  return found.constant;
}

absl::StatusOr<ConstantSearch::Found> ConstantSearch::Look(const Sequence& x, double loss, double start,
                                                           const Direction& along, ChainInference* chain,
                                                           Scratch* scratch, const base::StopToken& stop) {
  const int stride = chain->stride();
  const int64_t part = x.tokens * stride;
  const int64_t square = int64_t{chain->labels()} * stride;
  const auto& [residuals, edges] = along;
  Found found = {std::max(start, kMinConstant), 0};
  ChainInference& trial = scratch->trial_;
  double* change = scratch->change_.data();
  LUTHIER_RETURN_IF_ERROR(token_gram_.Times(x, residuals, &scratch->token_gram_, change, stop));
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  const double norm2 = kernels_->dot(residuals, change, part) + kernels_->dot(edges, edges, square);
  if (!(norm2 > kMinNorm2)) return found;
  for (int doublings = 0; doublings < kMaxDoublings; ++doublings) {
    kernels_->add_scaled(chain->scores(), -1.0 / found.constant, change, part, trial.scores());
    kernels_->add_scaled(chain->transitions(), -1.0 / found.constant, edges, square, trial.transitions());
    trial.PrepareForward();
    LUTHIER_ASSIGN_OR_RETURN(const double log_z, trial.Forward(x.tokens, stop));
    const double there = log_z - trial.Score(x.label, x.tokens);
    ++found.forwards;
    if (there <= loss - 0.5 * norm2 / found.constant + kLossRounding * (1.0 + std::abs(loss))) break;
    found.constant *= 2.0;
  }
  return found;
}

void ConstantSearch::Record(int64_t i, const Found& found) {
  if (found.forwards == 0) return;
  const auto k = static_cast<size_t>(i);
  forwards_ += found.forwards;
  streak_[k] = found.forwards > 1 ? 0 : static_cast<uint8_t>(std::min<int>(streak_[k] + 1, kMaxStreak));
  if (found.forwards == 1) skip_[k] = (1 << streak_[k]) - 1;
}

void ConstantSearch::Save(base::CheckpointWriter* writer) const {
  SaveArray(streak_, writer);
  SaveArray(skip_, writer);
  writer->U64(static_cast<uint64_t>(forwards_));
}

bool ConstantSearch::Load(base::CheckpointReader* reader) {
  bool fits = LoadArray(reader, &streak_) && LoadArray(reader, &skip_);
  forwards_ = static_cast<int64_t>(reader->U64());
  for (const uint8_t s : streak_) fits = fits && s <= kMaxStreak;
  return fits && reader->ok();
}

}  // namespace luthier::crf
