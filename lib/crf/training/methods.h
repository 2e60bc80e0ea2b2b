#ifndef LUTHIER_LIB_CRF_TRAINING_METHODS_H_
#define LUTHIER_LIB_CRF_TRAINING_METHODS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/crf/features/chain_data.h"
#include "lib/crf/inference/kernel.h"
#include "lib/crf/solvers/average_solver.h"
#include "lib/crf/solvers/chain_solver.h"
#include "lib/crf/solvers/l1_penalty.h"

namespace luthier::crf {

struct ChainTrainerOptions {
  // Name of a registered method: "sag", "saga" or "lbfgs", unless other libraries register more.
  std::string method = "sag";
  // Settings of the average gradient methods; `average.method` and `average.threads` are set by the method that is
  // chosen above. All methods use sampling, seed and max_memory_bytes.
  AverageGradientOptions average;
  L1Penalty l1;       // Must be 0 except with sag and saga (ProximalAverage).
  double rate = 0.1;  // Step of methods that neither search nor compute one; none of the three does. > 0.
  // Training has converged when the largest entry of the gradient of h (with l1: of the smallest
  // subgradient) is at most this times the largest one at w = 0. >= 0. Methods without an estimate
  // of the gradient go on to max_passes.
  double tolerance = 1e-5;
  double max_passes = 100.0;  // > 0
  // Number of threads, 1 ... 256, for L-BFGS, and for the average gradient methods without l1. The other methods use
  // one. The result of L-BFGS depends on the number. For the others, above 1 means BlockAverage, and all numbers above
  // 1 give the same bits.
  int threads = 1;
};

// A training method, made of the solver that runs it.
struct ChainMethod {
  // Returns the solver, its errors, or INVALID_ARGUMENT if the method needs l2 > 0. options.l1 is 0.
  std::function<absl::StatusOr<std::unique_ptr<ChainSolver>>(
      const ChainData* data, double l2, const ChainTrainerOptions& options, const Kernels& kernels)>
      make;
  // Returns the number of vectors of all weights that the solver holds at once.
  std::function<int64_t(const ChainTrainerOptions& options)> vectors;
  // True if the method cannot use a start other than 0.
  bool forgets_its_start = false;
};

// Adds a method under a name that no other has. Not thread-safe: to be called before the first training.
void RegisterChainMethod(absl::string_view name, ChainMethod method);

// Returns the names in the order in which they were registered, "sag", "saga" and "lbfgs" first.
std::vector<std::string> ChainMethodNames();

// Returns the method, which stays valid until another is registered, or INVALID_ARGUMENT with the names that there are.
absl::StatusOr<const ChainMethod*> FindChainMethod(absl::string_view name);

// Returns the solver of an average gradient method: AverageGradient, and with several threads BlockAverage.
absl::StatusOr<std::unique_ptr<ChainSolver>> MakeAverageSolver(const ChainData* data, double l2, AverageMethod method,
                                                               const ChainTrainerOptions& options,
                                                               const Kernels& kernels);

// Returns the solver alone, or the errors of the method, or INVALID_ARGUMENT if the method cannot be used with l1 > 0.
absl::StatusOr<std::unique_ptr<ChainSolver>> MakeChainSolver(const ChainData* data, double l2,
                                                             const ChainTrainerOptions& options,
                                                             const Kernels& kernels = BestKernels());

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_TRAINING_METHODS_H_
