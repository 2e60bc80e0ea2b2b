#include "lib/search/quasi_random/halton_designer.h"

namespace luthier::search {

HaltonDesigner::HaltonDesigner(const study::StudySpec& spec, const study::HaltonOptions& options)
    : encoding_(spec.space),
      skip_(options.scramble ? 0 : 1),
      sequence_(options.scramble ? math::HaltonSequence(encoding_.compact_dim(), spec.seed, "halton")
                                 : math::HaltonSequence(encoding_.compact_dim())) {}

absl::StatusOr<Suggestion> HaltonDesigner::Suggest(const study::History&, uint64_t ask_index, const base::StopToken&) {
  Suggestion suggestion;
  suggestion.origin = "halton";
  suggestion.parameters = encoding_.FromCompact(sequence_.Point(ask_index + skip_));
  return suggestion;
}

}  // namespace luthier::search
