#ifndef LUTHIER_LIB_CRF_CHAIN_SOLVER_H_
#define LUTHIER_LIB_CRF_CHAIN_SOLVER_H_

#include <atomic>
#include <cstdint>

#include "Eigen/Core"
#include "lib/crf/rescaling.h"
#include "lib/learn/checkpoint.h"
#include "lib/learn/minimizer.h"

namespace luthier::crf {

enum class SolverState {
  kRunning,
  kPrecision,  // Rounding prevents further progress.
  kDiverged,   // A loss is not finite. The weights are those before that iteration.
  kStopped,    // The stop flag was seen; Advance may be called again and goes on as if nothing had been.
};

// Something that trains a chain model iteration by iteration. Looking at it changes nothing. Not thread-safe.
class ChainSolver {
 public:
  virtual ~ChainSolver() = default;

  // `iterations` iterations, or fewer: `stop` (may be null) is looked at before each sequence, in iterations over many
  // of them, too, and every few million operations within a long one. What it interrupts is given up and done again
  // from its beginning by the next call.
  virtual SolverState Advance(int64_t iterations, const std::atomic<bool>* stop) = 0;
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
  // Whether that is at most `bound`: the same, but done as soon as an entry is larger.
  virtual bool GradientWithin(double bound) const { return GradientEstimate() <= bound; }
  // Whether that is the gradient at Weights() itself.
  virtual bool estimate_is_exact() const { return false; }

  // Losses of one sequence each, with gradients or in line searches without, divided by the number of sequences: the
  // "effective passes" of Ahmed 2018. Products with Hessians count as gradients.
  virtual double passes() const = 0;

  // What others that are made alike but for the penalty can start from: their weights, and what they know of the data.
  virtual void SaveModel(learn::CheckpointWriter* writer) const { writer->Vector(Weights()); }
  // Before the first Advance: starts from what another one saved so, of sequences that `rescaling` makes those of this
  // one. iterations() and passes() may go on from the other's. False when the bytes do not fit: this is then of no use.
  virtual bool WarmStart(learn::CheckpointReader* reader, const Rescaling& rescaling) = 0;

  // The whole state. One made alike that loads it goes on bit for bit as this one. False when the bytes do not fit: the
  // object is then of no use.
  virtual void Save(learn::CheckpointWriter* writer) const = 0;
  virtual bool Load(learn::CheckpointReader* reader) = 0;
};

// `iterations` times `step`, while it says kRunning and nobody asks to stop.
template <typename Step>
SolverState Repeat(int64_t iterations, const std::atomic<bool>* stop, Step step) {
  for (int64_t k = 0; k < iterations; ++k) {
    if (learn::StopRequested(stop)) return SolverState::kStopped;
    const SolverState state = step();
    if (state != SolverState::kRunning) return state;
  }
  return SolverState::kRunning;
}

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_CHAIN_SOLVER_H_
