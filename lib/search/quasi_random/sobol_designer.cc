#include "lib/search/quasi_random/sobol_designer.h"

#include "lib/search/quasi_random/random_designer.h"

namespace luthier::search {

SobolDesigner::SobolDesigner(const study::StudySpec& spec, const study::SobolOptions& options)
    : encoding_(spec.space),
      seed_(spec.seed),
      skip_(options.scramble ? 0 : 1),
      sequence_(options.scramble ? math::SobolSequence(encoding_.compact_dim(), spec.seed, "sobol")
                                 : math::SobolSequence(encoding_.compact_dim())) {}

absl::StatusOr<Suggestion> SobolDesigner::Suggest(const study::History&, uint64_t ask_index, const base::StopToken&) {
  constexpr uint64_t kPoints = uint64_t{1} << math::SobolSequence::kIndexBits;
  Suggestion suggestion;
  suggestion.origin = "sobol";
  suggestion.parameters = ask_index < kPoints - skip_ ? encoding_.FromCompact(sequence_.Point(ask_index + skip_))
                                                      : ExplorationPoint(encoding_, seed_, ask_index);
  return suggestion;
}

}  // namespace luthier::search
