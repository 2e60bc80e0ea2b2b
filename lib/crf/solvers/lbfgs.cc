#include "lib/crf/solvers/lbfgs.h"

#include <limits>
#include <optional>
#include <utility>

#include "lib/base/status_macros.h"
#include "lib/linear/minimizer.h"

namespace luthier::crf {

using Eigen::VectorXd;
using linear::SolveState;

SolverState ToSolverState(SolveState state) {
  switch (state) {
    case SolveState::kPrecision:
      return SolverState::kPrecision;
    case SolveState::kNonFinite:
      return SolverState::kDiverged;
    case SolveState::kRunning:
    case SolveState::kConverged:
      break;
  }
  return SolverState::kRunning;
}

ChainLbfgs::ChainLbfgs(const ChainData* data, double l2, int threads, const Kernels& kernels)
    : loss_(data, threads, kernels), l2_(l2) {}

absl::StatusOr<SolverState> ChainLbfgs::Advance(int64_t iterations, const base::StopToken& stop) {
  const ChainProblem h(&loss_, l2_);
  const auto f = [&](const VectorXd& w, VectorXd* gradient) { return h.Value(w, gradient, stop); };
  for (int64_t k = 0; k < iterations; ++k) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    LUTHIER_ASSIGN_OR_RETURN(const SolveState state,
                             iterations_ == 0 ? solver_.Start(f, Weights()) : solver_.Step(f, stop));
    ++iterations_;
    start_.resize(0);
    if (ToSolverState(state) != SolverState::kRunning) return ToSolverState(state);
  }
  return SolverState::kRunning;
}

void ChainLbfgs::CopyWeights(VectorXd* w) const {
  if (iterations_ > 0) {
    *w = solver_.x();
  } else if (start_.size() > 0) {
    *w = start_;
  } else {
    w->setZero(loss_.dim());
  }
}

double ChainLbfgs::GradientEstimate() const {
  return iterations_ > 0 ? solver_.gradient().lpNorm<Eigen::Infinity>() : std::numeric_limits<double>::infinity();
}

void ChainLbfgs::Save(base::CheckpointWriter* writer) const {
  writer->U64(static_cast<uint64_t>(iterations_));
  if (iterations_ > 0) {
    solver_.Save(writer);
  } else {
    writer->Vector(start_);
  }
}

bool ChainLbfgs::Load(base::CheckpointReader* reader) {
  iterations_ = static_cast<int64_t>(reader->U64());
  if (!reader->ok()) return false;
  if (iterations_ > 0) return solver_.Load(reader, loss_.dim());
  start_ = reader->Vector();
  return reader->ok() && (start_.size() == 0 || start_.size() == loss_.dim());
}

bool ChainLbfgs::WarmStart(base::CheckpointReader* reader, const Rescaling& rescaling) {
  std::optional<VectorXd> w = LoadWeights(reader, loss_.data().shape(), rescaling);
  if (w) start_ = *std::move(w);
  return w.has_value();
}

}  // namespace luthier::crf
