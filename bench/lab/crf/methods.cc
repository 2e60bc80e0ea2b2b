#include "bench/lab/crf/methods.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/lab/crf/batch_solvers.h"
#include "bench/lab/crf/exponentiated_gradient.h"
#include "bench/lab/crf/stochastic_gradient.h"
#include "lib/base/status_macros.h"
#include "lib/crf/training/methods.h"

namespace luthier::crf::lab {
namespace {

using Made = absl::StatusOr<std::unique_ptr<ChainSolver>>;

ChainMethod Average(AverageMethod average) {
  ChainMethod method;
  method.make = [average](const ChainData* data, double l2, const ChainTrainerOptions& options,
                          const Kernels& kernels) { return MakeAverageSolver(data, l2, average, options, kernels); };
  method.vectors = [](const ChainTrainerOptions&) { return 2; };
  return method;
}

ChainMethod Stochastic(GradientRule rule, int vectors) {
  ChainMethod method;
  method.make = [rule](const ChainData* data, double l2, const ChainTrainerOptions& options,
                       const Kernels& kernels) -> Made {
    if (rule == GradientRule::kPegasos && !(l2 > 0.0)) {
      return absl::InvalidArgumentError("pegasos, whose step is rate / (lambda t), needs l2 > 0");
    }
    StochasticGradientOptions stochastic;
    stochastic.rule = rule;
    stochastic.rate = options.rate;
    stochastic.sampling = options.average.sampling;
    stochastic.seed = options.average.seed;
    return std::make_unique<StochasticGradient>(data, l2, stochastic, kernels);
  };
  method.vectors = [vectors](const ChainTrainerOptions&) { return vectors; };
  // The first steps of pegasos, rate / (lambda t), are so long that nothing is left of the weights before them.
  method.forgets_its_start = rule == GradientRule::kPegasos;
  return method;
}

ChainMethod Hybrid() {
  ChainMethod method;
  method.make = [](const ChainData* data, double l2, const ChainTrainerOptions& options,
                   const Kernels& kernels) -> Made {
    return std::make_unique<ChainHybrid>(data, l2, options.average.seed, kernels);
  };
  method.vectors = [](const ChainTrainerOptions&) { return 20 + 7; };
  return method;
}

ChainMethod MetaDescentMethod() {
  ChainMethod method;
  method.make = [](const ChainData* data, double l2, const ChainTrainerOptions& options,
                   const Kernels& kernels) -> Made {
    MetaDescent::Options descent;
    descent.rate = options.rate;
    return std::make_unique<ChainMetaDescent>(data, l2, descent, options.average.seed, kernels);
  };
  method.vectors = [](const ChainTrainerOptions&) { return 6; };
  return method;
}

ChainMethod Exponentiated() {
  ChainMethod method;
  method.make = [](const ChainData* data, double l2, const ChainTrainerOptions& options,
                   const Kernels& kernels) -> Made {
    ExponentiatedGradientOptions exponentiated;
    exponentiated.sampling = options.average.sampling;
    exponentiated.seed = options.average.seed;
    exponentiated.max_memory_bytes = options.average.max_memory_bytes;
    LUTHIER_ASSIGN_OR_RETURN(ExponentiatedGradient solver,
                             ExponentiatedGradient::Create(data, l2, exponentiated, kernels));
    return std::make_unique<ExponentiatedGradient>(std::move(solver));
  };
  method.vectors = [](const ChainTrainerOptions&) { return 1; };
  return method;
}

}  // namespace

void RegisterMethods() {
  RegisterChainMethod("saga2", Average(AverageMethod::kSaga2));
  RegisterChainMethod("saga_literal", Average(AverageMethod::kSagaLiteral));
  RegisterChainMethod("saga2_literal", Average(AverageMethod::kSaga2Literal));
  RegisterChainMethod("hybrid", Hybrid());
  RegisterChainMethod("sg", Stochastic(GradientRule::kConstant, 1));
  RegisterChainMethod("asg", Stochastic(GradientRule::kAveraged, 2));
  RegisterChainMethod("pegasos", Stochastic(GradientRule::kPegasos, 1));
  RegisterChainMethod("adagrad", Stochastic(GradientRule::kAdaGrad, 2));
  RegisterChainMethod("smd", MetaDescentMethod());
  RegisterChainMethod("oeg", Exponentiated());
}

}  // namespace luthier::crf::lab
