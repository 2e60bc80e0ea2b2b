#ifndef LUTHIER_LIB_CRF_SOLVERS_CHAIN_SOLVER_H_
#define LUTHIER_LIB_CRF_SOLVERS_CHAIN_SOLVER_H_

#include <cstdint>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/checkpoint.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/crf/solvers/rescaling.h"
#include "lib/linear/minimizer.h"

namespace luthier::crf {

enum class SolverState {
  kRunning,
  kPrecision,  // Rounding prevents further progress.
  kDiverged,   // A loss is not finite. The weights are those before that iteration.
};

// Something that trains a chain model iteration by iteration. Looking at it changes nothing. Not thread-safe.
class ChainSolver {
 public:
  virtual ~ChainSolver() = default;

  // `iterations` iterations, or fewer when it comes to an end. CANCELLED when stopped: `stop` is looked at before each
  // sequence, in iterations over many of them, too, and every few million operations within a long one. What it
  // interrupts is given up and done again from its beginning by the next call.
  virtual absl::StatusOr<SolverState> Advance(int64_t iterations, const base::StopToken& stop) = 0;
  virtual int64_t iterations() const = 0;
  // Iterations that cost about as much as a pass over the data; at least 1.
  virtual int64_t iterations_per_pass() const = 0;

  // w, into the caller's vector, whose memory is used again.
  virtual void CopyWeights(Eigen::VectorXd* w) const = 0;
  Eigen::VectorXd Weights() const {
    Eigen::VectorXd w;
    CopyWeights(&w);
    return w;
  }
  // Largest entry of what this knows of the gradient of h (of the smallest subgradient with an l1 penalty); infinite
  // where it knows nothing.
  virtual double GradientEstimate() const = 0;
  // True if GradientEstimate() <= `bound`. May end as soon as one entry is larger.
  virtual bool GradientWithin(double bound) const { return GradientEstimate() <= bound; }
  // True if the estimate is that of the gradient at Weights() itself.
  virtual bool estimate_is_exact() const { return false; }

  // Losses of one sequence each, with gradients or in line searches without, divided by the number of sequences: the
  // "effective passes" of Ahmed 2018. Products with Hessians count as gradients.
  virtual double passes() const = 0;

  // Saves what other solvers, made alike but for the penalty, can start from: the weights, and what this one knows of
  // the data.
  virtual void SaveModel(base::CheckpointWriter* writer) const { writer->Vector(Weights()); }
  // Before the first Advance: starts from what another one saved so, of sequences that `rescaling` makes those of this
  // one. iterations() and passes() may go on from the other's. False when the bytes do not fit: this is then of no use.
  virtual bool WarmStart(base::CheckpointReader* reader, const Rescaling& rescaling) = 0;

  // The whole state. One made alike that loads it goes on bit for bit as this one. False when the bytes do not fit: the
  // object is then of no use.
  virtual void Save(base::CheckpointWriter* writer) const = 0;
  virtual bool Load(base::CheckpointReader* reader) = 0;
};

// `iterations` times `step`, while it says kRunning. CANCELLED when stopped.
template <typename Step>
absl::StatusOr<SolverState> Repeat(int64_t iterations, const base::StopToken& stop, Step step) {
  for (int64_t k = 0; k < iterations; ++k) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    LUTHIER_ASSIGN_OR_RETURN(const SolverState state, step());
    if (state != SolverState::kRunning) return state;
  }
  return SolverState::kRunning;
}

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_SOLVERS_CHAIN_SOLVER_H_
