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
  bool skip_checks = true;       // Not with samplings of SearchesAlways.
  // The line search tests and steps along the remembered g_i instead of the fresh gradient, as algorithms 3 and 4 print
  // it: at every visit, of no effect for SAG, whose algorithm has replaced g_i by then. For one thread, and memory
  // modes mixed and marginals.
  bool search_remembered = false;
  MemoryMode memory = MemoryMode::kMixed;
  int64_t max_memory_bytes = int64_t{4} << 30;
  uint64_t seed = 0;
  // BlockAverage alone reads the two settings below.
  int threads = 1;    // 1 ... 256; changes no bit of the result.
  int64_t block = 0;  // Most sequences of a block; 0: 64 (sag) or 8, or a hundredth or an 800th of all if that is less.
};

// The books of AverageGradient and BlockAverage: which sequence comes next, its constant, its remembered gradient, the
// iterate, and what all of that cost. How they go on from one iteration to the next is up to them. Names as in
// average_gradient.h.
class AverageSolver : public ChainSolver {
 public:
  // An iteration of SAGA2 has two evaluations.
  int64_t iterations_per_pass() const final;
  int64_t iterations() const final { return iterations_; }
  void CopyWeights(Eigen::VectorXd* w) const final { state_.CopyWeights(w); }
  // Largest entry of d + l2 w, which goes to the gradient of h; infinite while an example is unseen.
  double GradientEstimate() const final;
  bool GradientWithin(double bound) const final;

  int64_t evaluations() const { return evaluations_; }     // Losses with gradients, of one sequence each.
  int64_t forwards() const { return search_.forwards(); }  // Losses alone, in line searches.
  // (evaluations + forwards) / n: a loss counts as much as loss and gradient.
  double passes() const final;
  int64_t memory_bytes() const { return memory_.bytes(); }
  double max_constant() const { return sampler_.max_constant(); }
  double mean_constant() const { return sampler_.mean_constant(); }

  // The whole state: remembered gradients, their sum and the constants are of the data alone.
  void SaveModel(base::CheckpointWriter* writer) const final { Save(writer); }
  bool WarmStart(base::CheckpointReader* reader, const Rescaling& rescaling) final;
  void Save(base::CheckpointWriter* writer) const override;
  bool Load(base::CheckpointReader* reader) override;

 protected:
  AverageSolver(const ChainData* data, double l2, const AverageGradientOptions& options, const Kernels& kernels,
                GradientMemory memory);
  // The gradient of example i is in d from now on.
  void MarkStored(int64_t i);
  // m, of which d is divided. As algorithm 4 prints it, those that were drawn, not those whose gradients are in d.
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
