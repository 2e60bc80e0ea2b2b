#ifndef LUTHIER_LIB_CRF_SOLVERS_AVERAGE_SOLVER_H_
#define LUTHIER_LIB_CRF_SOLVERS_AVERAGE_SOLVER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/checkpoint.h"
#include "lib/crf/features/chain_data.h"
#include "lib/crf/solvers/chain_solver.h"
#include "lib/crf/solvers/constant_search.h"
#include "lib/crf/solvers/gradient_memory.h"
#include "lib/crf/solvers/lazy_average.h"
#include "lib/stochastic/sampler.h"
#include "lib/stochastic/step_rule.h"

namespace luthier::crf {

enum class AverageMethod { kSag, kSaga, kSagaLiteral, kSaga2, kSaga2Literal };
inline bool RemembersSecond(AverageMethod method) {
  return method == AverageMethod::kSaga2 || method == AverageMethod::kSaga2Literal;
}
inline bool IsLiteral(AverageMethod method) {
  return method == AverageMethod::kSagaLiteral || method == AverageMethod::kSaga2Literal;
}
// "sag", "saga", "saga_literal", "saga2", "saga2_literal", in the order of the enum.
const std::vector<std::string>& AverageMethodNames();
absl::StatusOr<AverageMethod> ParseAverageMethod(absl::string_view name);

struct AverageGradientOptions {
  AverageMethod method = AverageMethod::kSag;
  stochastic::Sampling sampling = stochastic::Sampling::kMixed;
  stochastic::StepRule step = stochastic::StepRule::kHedge;
  double constant_step = 0.1;    // StepRule::kConstant. > 0.
  double first_constant = 1.0;   // L of the first example. > 0.
  bool shared_constant = false;  // One L for all examples, which shrinks by 2^(-1/n) an iteration (algorithm 1).
  bool skip_checks = true;       // Ignored with samplings of SearchesAlways.
  // Makes the line search test and step along the remembered g_i instead of the fresh gradient, at
  // every visit, as algorithms 3 and 4 print it. No effect for SAG, whose algorithm has replaced
  // g_i by then. For one thread, and memory modes mixed and marginals.
  bool search_remembered = false;
  MemoryMode memory = MemoryMode::kMixed;
  int64_t max_memory_bytes = int64_t{4} << 30;
  uint64_t seed = 0;
  // BlockAverage alone reads the two settings below.
  int threads = 1;  // Number of threads, 1 ... 256. The result does not depend on it.
  // Most sequences of a block. 0 means, with sag, the lesser of 64 and a hundredth of all
  // sequences; with other methods, the lesser of 8 and an 800th of all.
  int64_t block = 0;
};

// The state of AverageGradient and BlockAverage: the order of the sequences, their constants and
// remembered gradients, the iterate, and the cost so far. The derived classes run the iterations.
// Names as in average_gradient.h.
class AverageSolver : public ChainSolver {
 public:
  // An iteration of SAGA2 has two evaluations.
  int64_t iterations_per_pass() const final;
  int64_t iterations() const final { return iterations_; }
  void CopyWeights(Eigen::VectorXd* w) const final { state_.CopyWeights(w); }
  // Returns the largest entry of d + l2 w, which converges to the gradient of h. Infinite while an
  // example is unseen.
  double GradientEstimate() const final;
  bool GradientWithin(double bound) const final;

  int64_t evaluations() const { return evaluations_; }     // Losses with gradients of one sequence.
  int64_t forwards() const { return search_.forwards(); }  // Losses alone, in line searches.
  // Returns (evaluations + forwards) / n. A loss counts as much as loss and gradient.
  double passes() const final;
  int64_t memory_bytes() const { return memory_.bytes(); }
  double max_constant() const { return sampler_.max_constant(); }
  double mean_constant() const { return sampler_.mean_constant(); }

  // Saves the whole state: remembered gradients, their sum and the constants do not depend on the
  // penalty.
  void SaveModel(base::CheckpointWriter* writer) const final { Save(writer); }
  bool WarmStart(base::CheckpointReader* reader, const Rescaling& rescaling) final;
  void Save(base::CheckpointWriter* writer) const override;
  bool Load(base::CheckpointReader* reader) override;

 protected:
  AverageSolver(const ChainData* data, double l2, const AverageGradientOptions& options, const Kernels& kernels,
                GradientMemory memory);
  // Notes that the gradient of example i is in d from now on.
  void MarkStored(int64_t i);
  // Returns m, by which d is divided. In kSaga2Literal it counts the examples that were drawn, as
  // algorithm 4 prints it, not those whose gradients are in d.
  double InSum() const {
    return static_cast<double>(options_.method == AverageMethod::kSaga2Literal ? sampler_.seen() : stored_count_);
  }

  const ChainData* data_;
  AverageGradientOptions options_;
  const Kernels* kernels_;
  double lambda_;
  int stride_;
  int64_t ahead_;
  stochastic::Sampler sampler_;
  GradientMemory memory_;
  ConstantSearch search_;
  LazyAverage state_;
  std::vector<uint8_t> stored_;
  int64_t stored_count_ = 0;
  int64_t iterations_ = 0;
  int64_t evaluations_ = 0;
};

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_SOLVERS_AVERAGE_SOLVER_H_
