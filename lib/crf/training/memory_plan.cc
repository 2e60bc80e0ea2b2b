#include "lib/crf/training/memory_plan.h"

#include "absl/strings/str_cat.h"

namespace luthier::crf {
namespace {

// Vectors of all weights, at most, at a time.
int64_t SolverVectors(const ChainTrainerOptions& options) {
  switch (options.method) {
    case ChainMethod::kSag:
    case ChainMethod::kSaga:
    case ChainMethod::kSaga2:
    case ChainMethod::kSagaLiteral:
    case ChainMethod::kSaga2Literal:
      return 2;  // v and d; with l1 as well.
    case ChainMethod::kLbfgs:
      // Ten pairs; x and g of an iterate, of a trial and the best of a search, the direction; a gradient a thread.
      return 20 + 7 + options.threads;
    case ChainMethod::kHybrid:
      return 20 + 7;
    case ChainMethod::kConstant:
    case ChainMethod::kPegasos:
      return 1;
    case ChainMethod::kAveraged:
    case ChainMethod::kAdaGrad:
      return 2;
    case ChainMethod::kMetaDescent:
      return 6;
    case ChainMethod::kExponentiated:
      return 1;
  }
  return 0;
}

}  // namespace

int64_t PlanVectors(const ChainData& data, const ChainTrainerOptions& options) {
  // The copy that losses read, a gradient, and two copies for whoever looks.
  constexpr int64_t kBeside = 4;
  return (SolverVectors(options) + kBeside) * data.shape().dim() * static_cast<int64_t>(sizeof(double));
}

absl::Status CheckVectors(const ChainData& data, const ChainTrainerOptions& options) {
  const int64_t bytes = PlanVectors(data, options);
  if (bytes <= options.average.max_memory_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "solver ", ChainMethodNames()[static_cast<size_t>(options.method)], " would need ", (bytes + (1 << 20) - 1) >> 20,
      " MiB for vectors of the ", data.shape().parameters(), " weights (", data.attributes, " attributes, ",
      data.labels(), " labels), and the limit is ", options.average.max_memory_bytes >> 20,
      " MiB; drop rare attributes (min_count), hash into fewer rows (hash_bits), or raise max_memory_mib"));
}

}  // namespace luthier::crf
