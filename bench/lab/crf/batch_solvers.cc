#include "bench/lab/crf/batch_solvers.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/crf/solvers/lbfgs.h"

namespace luthier::crf::lab {

using Eigen::VectorXd;
using linear::SolveState;

namespace {

constexpr double kNotYetKnown = std::numeric_limits<double>::infinity();

double PerSequence(double x, const ChainLoss& loss) {
  return x / static_cast<double>(loss.data().sequences());
}

}  // namespace

ChainHybrid::ChainHybrid(const ChainData* data, double l2, uint64_t seed, const Kernels& kernels)
    : loss_(data, 1, kernels),
      order_(static_cast<size_t>(data->sequences())),
      solver_(loss_.dim(), data->sequences(), PerSequence(l2, loss_)) {
  std::iota(order_.begin(), order_.end(), 0);
  base::RandomStream(seed, "crf.hybrid").Shuffle(order_);
}

absl::StatusOr<SolverState> ChainHybrid::Advance(int64_t iterations, const base::StopToken& stop) {
  const auto sum = [&](const VectorXd& w, int64_t first, int64_t last, VectorXd* gradient) {
    return loss_.AddSubset(order_.data() + first, last - first, w, gradient, stop);
  };
  for (int64_t k = 0; k < iterations; ++k) {
    LUTHIER_ASSIGN_OR_RETURN(const SolveState state, solver_.Step(sum, stop));
    ++iterations_;
    if (ToSolverState(state) != SolverState::kRunning) return ToSolverState(state);
  }
  return SolverState::kRunning;
}

int64_t ChainHybrid::iterations_per_pass() const {
  const int64_t n = loss_.data().sequences();
  int64_t batch = solver_.batch(), evaluations = 0, iterations = 0;
  if (batch == 0 && !solver_.x().isZero(0.0)) batch = n;  // True after WarmStart.
  for (; evaluations < n; ++iterations) {
    evaluations += std::max<int64_t>(1, batch);
    batch = solver_.NextBatch(batch);
  }
  return iterations;
}

double ChainHybrid::GradientEstimate() const {
  const int64_t n = loss_.data().sequences();
  if (solver_.batch() < n) return kNotYetKnown;
  return static_cast<double>(n) * solver_.Gradient().lpNorm<Eigen::Infinity>();
}

double ChainHybrid::passes() const {
  return PerSequence(static_cast<double>(solver_.evaluations()), loss_);
}

void ChainHybrid::Save(base::CheckpointWriter* writer) const {
  writer->U64(static_cast<uint64_t>(iterations_));
  solver_.Save(writer);
}

bool ChainHybrid::Load(base::CheckpointReader* reader) {
  iterations_ = static_cast<int64_t>(reader->U64());
  return reader->ok() && solver_.Load(reader);
}

bool ChainHybrid::WarmStart(base::CheckpointReader* reader, const Rescaling& rescaling) {
  std::optional<VectorXd> w = LoadWeights(reader, loss_.data().shape(), rescaling);
  if (w) solver_.StartAt(*std::move(w));
  return w.has_value();
}

ChainMetaDescent::ChainMetaDescent(const ChainData* data, double l2, const MetaDescent::Options& options, uint64_t seed,
                                   const Kernels& kernels)
    : loss_(data, 1, kernels), lambda_(PerSequence(l2, loss_)), seed_(seed), solver_(loss_.dim(), options) {}

absl::StatusOr<SolverState> ChainMetaDescent::Advance(int64_t iterations, const base::StopToken& stop) {
  const auto n = static_cast<uint64_t>(loss_.data().sequences());
  std::vector<int32_t> rows(static_cast<size_t>(kBatch));
  const double weight = 1.0 / static_cast<double>(kBatch);
  const auto gradient = [&](const VectorXd& w, VectorXd* g) {
    *g = VectorXd::Zero(w.size());
    const absl::StatusOr<double> value = loss_.AddSubset(rows.data(), kBatch, w, g, stop);
    *g = weight * *g + lambda_ * w;
    return value;
  };
  const auto product = [&](const VectorXd& w, const VectorXd& v) -> absl::StatusOr<VectorXd> {
    LUTHIER_ASSIGN_OR_RETURN(const VectorXd sum, loss_.SubsetHessianVector(rows.data(), kBatch, w, v, stop));
    return VectorXd(weight * sum + lambda_ * v);
  };
  for (int64_t k = 0; k < iterations; ++k) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    base::RandomStream stream(seed_, "crf.smd", static_cast<uint64_t>(iterations_));
    for (int32_t& row : rows) row = static_cast<int32_t>(stream.UniformInt(n));
    LUTHIER_ASSIGN_OR_RETURN(const bool finite, solver_.Step(gradient, product));
    if (!finite) return SolverState::kDiverged;
    ++iterations_;
  }
  return SolverState::kRunning;
}

int64_t ChainMetaDescent::iterations_per_pass() const {
  return std::max<int64_t>(1, loss_.data().sequences() / (2 * kBatch));
}

double ChainMetaDescent::GradientEstimate() const {
  return kNotYetKnown;
}

double ChainMetaDescent::passes() const {
  return PerSequence(static_cast<double>(2 * kBatch * iterations_), loss_);
}

void ChainMetaDescent::Save(base::CheckpointWriter* writer) const {
  writer->U64(static_cast<uint64_t>(iterations_));
  solver_.Save(writer);
}

bool ChainMetaDescent::Load(base::CheckpointReader* reader) {
  iterations_ = static_cast<int64_t>(reader->U64());
  return reader->ok() && solver_.Load(reader);
}

bool ChainMetaDescent::WarmStart(base::CheckpointReader* reader, const Rescaling& rescaling) {
  std::optional<VectorXd> w = LoadWeights(reader, loss_.data().shape(), rescaling);
  if (w) solver_.StartAt(*std::move(w));
  return w.has_value();
}

}  // namespace luthier::crf::lab
