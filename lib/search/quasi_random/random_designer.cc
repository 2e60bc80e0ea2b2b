#include "lib/search/quasi_random/random_designer.h"

#include "lib/base/random.h"

namespace luthier::search {

study::Parameters ExplorationPoint(const study::Encoding& encoding, uint64_t seed, uint64_t index) {
  base::RandomStream random(seed, "explore", index);
  return encoding.Sample(random);
}

absl::StatusOr<Suggestion> RandomDesigner::Suggest(const study::History&, uint64_t ask_index, const base::StopToken&) {
  Suggestion suggestion;
  suggestion.parameters = ExplorationPoint(encoding_, seed_, ask_index);
  suggestion.origin = "random";
  return suggestion;
}

}  // namespace luthier::search
