#include "lib/crf/solvers/average_solver.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/crf/solvers/checkpoint_arrays.h"

namespace luthier::crf {

const std::vector<std::string>& AverageMethodNames() {
  static const std::vector<std::string>& names =
      *new std::vector<std::string>{"sag", "saga", "saga_literal", "saga2", "saga2_literal"};
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

AverageSolver::AverageSolver(const ChainData* data, double l2, const AverageGradientOptions& options,
                             const Kernels& kernels, GradientMemory memory)
    : data_(data),
      options_(options),
      kernels_(&kernels),
      lambda_(l2 / static_cast<double>(data->sequences())),
      stride_(data->shape().stride()),
      ahead_(Ahead(int64_t{16} * data->attributes * stride_)),
      sampler_(options.sampling, data->sequences(), options.seed, options.first_constant, lambda_),
      memory_(std::move(memory)),
      search_(data, kernels),
      state_(data),
      stored_(static_cast<size_t>(data->sequences()), 0) {
  LUTHIER_CHECK(l2 >= 0.0 && std::isfinite(l2));
  if (stochastic::SearchesAlways(options.sampling) || options.search_remembered) options_.skip_checks = false;
}

void AverageSolver::MarkStored(int64_t i) {
  if (stored_[static_cast<size_t>(i)] != 0) return;
  stored_[static_cast<size_t>(i)] = 1;
  ++stored_count_;
}

int64_t AverageSolver::iterations_per_pass() const {
  return std::max<int64_t>(1, data_->sequences() / (RemembersSecond(options_.method) ? 2 : 1));
}

double AverageSolver::GradientEstimate() const {
  if (stored_count_ < data_->sequences()) return std::numeric_limits<double>::infinity();
  return state_.LargestGradientEntry(lambda_ * static_cast<double>(data_->sequences()));
}

bool AverageSolver::GradientWithin(double bound) const {
  if (stored_count_ < data_->sequences()) return false;
  return state_.GradientWithin(lambda_ * static_cast<double>(data_->sequences()), bound);
}

double AverageSolver::passes() const {
  return static_cast<double>(evaluations_ + forwards()) / static_cast<double>(data_->sequences());
}

bool AverageSolver::WarmStart(base::CheckpointReader* reader, const Rescaling& rescaling) {
  const double lambda = lambda_;
  if (!Load(reader)) return false;
  lambda_ = lambda;
  sampler_.SetPenalty(lambda);
  if (!rescaling.any()) return true;
  state_.Flush();
  rescaling.ToWeights(stride_, 2 * stride_, state_.rows.data());
  memory_.Rescale(rescaling, 2 * stride_, state_.rows.data() + stride_);
  rescaling.ToConstants(*data_, &sampler_);
  search_.DemandAll();
  return true;
}

void AverageSolver::Save(base::CheckpointWriter* writer) const {
  sampler_.Save(writer);
  SaveArray(memory_.table(), writer);
  state_.Save(writer);
  search_.Save(writer);
  SaveArray(stored_, writer);
  writer->F64(lambda_);
  for (const int64_t x : {iterations_, evaluations_}) writer->U64(static_cast<uint64_t>(x));
}

bool AverageSolver::Load(base::CheckpointReader* reader) {
  const bool fits = sampler_.Load(reader) && LoadArray(reader, &memory_.table()) && state_.Load(reader) &&
                    search_.Load(reader) && LoadArray(reader, &stored_);
  lambda_ = reader->F64();
  sampler_.SetPenalty(lambda_);
  for (int64_t* x : {&iterations_, &evaluations_}) *x = static_cast<int64_t>(reader->U64());
  stored_count_ = std::count_if(stored_.begin(), stored_.end(), [](uint8_t s) { return s != 0; });
  return fits && reader->ok();
}

}  // namespace luthier::crf
