#include "lib/search/effective.h"

#include <utility>
#include <variant>

#include "lib/search/registry.h"

namespace luthier::search {

study::StudySpec Effective(study::StudySpec spec) {
  if (!std::holds_alternative<study::AutoOptions>(spec.algorithm)) return spec;
  study::AlgorithmSpec resolved = Resolve(spec).algorithm;
  if (study::SamplerOf(resolved) != nullptr) spec.algorithm = std::move(resolved);
  return spec;
}

}  // namespace luthier::search
