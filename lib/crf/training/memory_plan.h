#ifndef LUTHIER_LIB_CRF_TRAINING_MEMORY_PLAN_H_
#define LUTHIER_LIB_CRF_TRAINING_MEMORY_PLAN_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/crf/features/chain_data.h"
#include "lib/crf/training/methods.h"

namespace luthier::crf {

// Returns an upper bound, within a few vectors, of the bytes of weight vectors that a training
// holds at once. It counts those of the solver, of losses and true gradients, and of readers of the
// weights. It does not count the table of gradients (gradient_memory.h), the data, and arrays as
// long as a sequence.
absl::StatusOr<int64_t> PlanVectors(const ChainData& data, const ChainTrainerOptions& options);

// Returns RESOURCE_EXHAUSTED, with the numbers, if PlanVectors is above
// options.average.max_memory_bytes.
absl::Status CheckVectors(const ChainData& data, const ChainTrainerOptions& options);

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_TRAINING_MEMORY_PLAN_H_
