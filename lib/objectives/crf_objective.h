#ifndef LUTHIER_LIB_OBJECTIVES_CRF_OBJECTIVE_H_
#define LUTHIER_LIB_OBJECTIVES_CRF_OBJECTIVE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/crf/inference/kernel.h"
#include "lib/objectives/new_objective.h"
#include "lib/objectives/objective.h"

// Objective `crf` in three parts: crf_settings.h has the settings and their meaning, chain_source.h the data, and this
// file trains all folds side by side.
//
// It is not built on LinearObjective, which does the same for linear models. There a round is an iteration of a solver,
// measures are sums over rows, gradients follow at the end, and the layout of rows follows from two switches; here a
// round is a pass, which ends at a fraction, measures are of tokens and segments, and settings change the attributes
// themselves. A common class would carry the cases of both; they share only the loop, a page of code.
namespace luthier::objectives {

// Returns the errors of ChainSource::Open. `kernels` are those of this machine, except in tests that count.
absl::StatusOr<std::unique_ptr<Objective>> CreateCrfObjective(const NewObjective& of, const base::StopToken& stop,
                                                              const crf::Kernels& kernels = crf::BestKernels());

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_CRF_OBJECTIVE_H_
