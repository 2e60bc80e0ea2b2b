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

// Trains a chain model iteration by iteration. Const methods do not affect the training. Not
// thread-safe.
class ChainSolver {
 public:
  virtual ~ChainSolver() = default;

  // Runs `iterations` iterations, or fewer if training ends. Polls `stop` before each sequence,
  // also in iterations over many of them, and every few million operations within a long one.
  // Returns CANCELLED when stopped. The next call repeats what was interrupted from its beginning.
  virtual absl::StatusOr<SolverState> Advance(int64_t iterations, const base::StopToken& stop) = 0;
  virtual int64_t iterations() const = 0;
  // Returns the number of iterations that cost about as much as a pass over the data; at least 1.
  virtual int64_t iterations_per_pass() const = 0;

  // Copies w into the caller's vector, whose memory is used again.
  virtual void CopyWeights(Eigen::VectorXd* w) const = 0;
  Eigen::VectorXd Weights() const {
    Eigen::VectorXd w;
    CopyWeights(&w);
    return w;
  }
  // Returns the largest entry of this solver's estimate of the gradient of h (with an l1 penalty,
  // of the smallest subgradient). Infinite if it has no estimate.
  virtual double GradientEstimate() const = 0;
  // Returns true if GradientEstimate() <= `bound`. May stop at the first larger entry.
  virtual bool GradientWithin(double bound) const { return GradientEstimate() <= bound; }
  // Returns true if the estimate is the gradient at Weights() itself.
  virtual bool estimate_is_exact() const { return false; }

  // Returns the "effective passes" of Ahmed 2018: the losses of one sequence, with gradients or
  // without (in line searches), divided by the number of sequences. Products with Hessians count as
  // gradients.
  virtual double passes() const = 0;

  // Saves data from which solvers with the same arguments but another penalty can start: the
  // weights, and state that depends on the data alone.
  virtual void SaveModel(base::CheckpointWriter* writer) const { writer->Vector(Weights()); }
  // Starts from what another solver saved by SaveModel. `rescaling` converts that solver's
  // sequences to those of this one. To be called before the first Advance. iterations() and
  // passes() may go on from the other's. Returns false if the bytes do not fit; this must then not
  // be used.
  virtual bool WarmStart(base::CheckpointReader* reader, const Rescaling& rescaling) = 0;

  // Saves the whole state. A solver with the same arguments that loads it continues bit for bit.
  // Load returns false if the bytes do not fit; the object must then not be used.
  virtual void Save(base::CheckpointWriter* writer) const = 0;
  virtual bool Load(base::CheckpointReader* reader) = 0;
};

// Calls `step` `iterations` times, as long as it returns kRunning. Returns CANCELLED when stopped.
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
