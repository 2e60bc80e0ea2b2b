#include "lib/crf/training/methods.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/crf/solvers/average_gradient.h"
#include "lib/crf/solvers/block_average.h"
#include "lib/crf/solvers/lbfgs.h"
#include "lib/crf/solvers/proximal_average.h"

namespace luthier::crf {
namespace {

using Registered = std::pair<std::string, ChainMethod>;

ChainMethod Average(AverageMethod average) {
  ChainMethod method;
  method.make = [average](const ChainData* data, double l2, const ChainTrainerOptions& options,
                          const Kernels& kernels) { return MakeAverageSolver(data, l2, average, options, kernels); };
  method.vectors = [](const ChainTrainerOptions&) { return 2; };  // v and d; with l1 as well.
  return method;
}

ChainMethod Lbfgs() {
  ChainMethod method;
  method.make = [](const ChainData* data, double l2, const ChainTrainerOptions& options,
                   const Kernels& kernels) -> absl::StatusOr<std::unique_ptr<ChainSolver>> {
    return std::make_unique<ChainLbfgs>(data, l2, options.threads, kernels);
  };
  // Ten pairs; x and g of an iterate, of a trial and the best of a search, the direction; a gradient a thread.
  method.vectors = [](const ChainTrainerOptions& options) { return 20 + 7 + options.threads; };
  return method;
}

std::vector<Registered>& Methods() {
  static std::vector<Registered>& methods = *new std::vector<Registered>{
      {"sag", Average(AverageMethod::kSag)}, {"saga", Average(AverageMethod::kSaga)}, {"lbfgs", Lbfgs()}};
  return methods;
}

absl::StatusOr<std::unique_ptr<ChainSolver>> MakeProximal(const ChainData* data, double l2,
                                                          const ChainTrainerOptions& options, const Kernels& kernels) {
  if (options.method != "sag" && options.method != "saga") {
    return absl::InvalidArgumentError(absl::StrCat("l1 > 0 needs solver sag or saga; this is ", options.method));
  }
  if (options.average.step == stochastic::StepRule::kPort || options.average.search_remembered) {
    return absl::InvalidArgumentError(
        "step rule port and line searches along remembered gradients, forms to compare with, go without l1");
  }
  ProximalOptions proximal;
  proximal.average = options.average;
  proximal.average.method = options.method == "sag" ? AverageMethod::kSag : AverageMethod::kSaga;
  LUTHIER_ASSIGN_OR_RETURN(ProximalAverage solver, ProximalAverage::Create(data, options.l1, l2, proximal, kernels));
  return std::unique_ptr<ChainSolver>(std::make_unique<ProximalAverage>(std::move(solver)));
}

}  // namespace

void RegisterChainMethod(absl::string_view name, ChainMethod method) {
  LUTHIER_CHECK(!FindChainMethod(name).ok());
  Methods().emplace_back(std::string(name), std::move(method));
}

std::vector<std::string> ChainMethodNames() {
  std::vector<std::string> names;
  for (const Registered& one : Methods()) names.push_back(one.first);
  return names;
}

absl::StatusOr<const ChainMethod*> FindChainMethod(absl::string_view name) {
  for (const Registered& one : Methods()) {
    if (one.first == name) return &one.second;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no method ", base::Quote(name), "; there are ", absl::StrJoin(ChainMethodNames(), ", ")));
}

absl::StatusOr<std::unique_ptr<ChainSolver>> MakeAverageSolver(const ChainData* data, double l2, AverageMethod method,
                                                               const ChainTrainerOptions& options,
                                                               const Kernels& kernels) {
  AverageGradientOptions average = options.average;
  average.method = method;
  average.threads = options.threads;
  if (options.threads > 1) return BlockAverage::Create(data, l2, average, kernels);
  LUTHIER_ASSIGN_OR_RETURN(AverageGradient solver, AverageGradient::Create(data, l2, average, kernels));
  return std::unique_ptr<ChainSolver>(std::make_unique<AverageGradient>(std::move(solver)));
}

absl::StatusOr<std::unique_ptr<ChainSolver>> MakeChainSolver(const ChainData* data, double l2,
                                                             const ChainTrainerOptions& options,
                                                             const Kernels& kernels) {
  if (options.l1.any()) return MakeProximal(data, l2, options, kernels);
  LUTHIER_ASSIGN_OR_RETURN(const ChainMethod* method, FindChainMethod(options.method));
  return method->make(data, l2, options, kernels);
}

}  // namespace luthier::crf
