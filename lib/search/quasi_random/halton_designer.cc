#include "lib/search/quasi_random/halton_designer.h"

#include <limits>
#include <optional>

#include "lib/base/status_macros.h"

namespace luthier::search {

HaltonDesigner::HaltonDesigner(const study::StudySpec& spec, const study::HaltonOptions& options)
    : encoding_(spec.space, spec.constraints),
      skip_(options.scramble ? 0 : 1),
      sequence_(options.scramble ? math::HaltonSequence(encoding_.compact_dim(), spec.seed, "halton")
                                 : math::HaltonSequence(encoding_.compact_dim())) {}

absl::StatusOr<Suggestion> HaltonDesigner::Suggest(const study::History&, uint64_t ask_index,
                                                   const base::StopToken& stop) {
  std::optional<uint64_t> place = ask_index;
  if (encoding_.legal() != nullptr) {
    const auto is_legal = [&](uint64_t i) { return encoding_.IsLegalAt(sequence_.Point(i + skip_)); };
    LUTHIER_ASSIGN_OR_RETURN(place, walk_.Find(ask_index, std::numeric_limits<uint64_t>::max(), is_legal, stop));
  }
  Suggestion suggestion;
  suggestion.origin = "halton";
  suggestion.parameters = encoding_.FromCompact(sequence_.Point(*place + skip_));
  return suggestion;
}

}  // namespace luthier::search
