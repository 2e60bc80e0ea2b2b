#ifndef LUTHIER_LIB_CRF_TRAINING_MEMORY_PLAN_H_
#define LUTHIER_LIB_CRF_TRAINING_MEMORY_PLAN_H_

#include <cstdint>

#include "absl/status/status.h"
#include "lib/crf/training/trainer.h"

namespace luthier::crf {

// Bytes of the vectors of all weights that a training holds at once: the solver's own, and those that losses, true
// gradients and looking at the weights take. Without the table of gradients (gradient_memory.h), the data, and what is
// as long as a sequence. An upper bound, within a few vectors.
int64_t PlanVectors(const ChainData& data, const ChainTrainerOptions& options);

// RESOURCE_EXHAUSTED, with the numbers, when they are above options.average.max_memory_bytes.
absl::Status CheckVectors(const ChainData& data, const ChainTrainerOptions& options);

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_TRAINING_MEMORY_PLAN_H_
