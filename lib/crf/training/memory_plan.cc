#include "lib/crf/training/memory_plan.h"

#include "absl/strings/str_cat.h"
#include "lib/base/status_macros.h"

namespace luthier::crf {

absl::StatusOr<int64_t> PlanVectors(const ChainData& data, const ChainTrainerOptions& options) {
  LUTHIER_ASSIGN_OR_RETURN(const ChainMethod* method, FindChainMethod(options.method));
  // Further vectors: the copy that losses read, a gradient, and two copies for readers of the weights.
  constexpr int64_t kBeside = 4;
  return (method->vectors(options) + kBeside) * data.shape().dim() * static_cast<int64_t>(sizeof(double));
}

absl::Status CheckVectors(const ChainData& data, const ChainTrainerOptions& options) {
  LUTHIER_ASSIGN_OR_RETURN(const int64_t bytes, PlanVectors(data, options));
  if (bytes <= options.average.max_memory_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "solver ", options.method, " would need ", (bytes + (1 << 20) - 1) >> 20, " MiB for vectors of the ",
      data.shape().parameters(), " weights (", data.attributes, " attributes, ", data.labels(),
      " labels), and the limit is ", options.average.max_memory_bytes >> 20,
      " MiB; drop rare attributes (min_count), hash into fewer rows (hash_bits), or raise max_memory_mib"));
}

}  // namespace luthier::crf
