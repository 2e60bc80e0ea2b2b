#include "lib/search/quasi_random/sobol_designer.h"

#include <optional>

#include "lib/base/status_macros.h"
#include "lib/search/quasi_random/random_designer.h"

namespace luthier::search {

SobolDesigner::SobolDesigner(const study::StudySpec& spec, const study::SobolOptions& options)
    : encoding_(spec.space, spec.constraints),
      seed_(spec.seed),
      skip_(options.scramble ? 0 : 1),
      sequence_(options.scramble ? math::SobolSequence(encoding_.compact_dim(), spec.seed, "sobol")
                                 : math::SobolSequence(encoding_.compact_dim())) {}

absl::StatusOr<Suggestion> SobolDesigner::Suggest(const study::History&, uint64_t ask_index,
                                                  const base::StopToken& stop) {
  constexpr uint64_t kPoints = uint64_t{1} << math::SobolSequence::kIndexBits;
  std::optional<uint64_t> place;
  if (encoding_.legal() != nullptr) {
    const auto is_legal = [&](uint64_t i) { return encoding_.IsLegalAt(sequence_.Point(i + skip_)); };
    LUTHIER_ASSIGN_OR_RETURN(place, walk_.Find(ask_index, kPoints - skip_, is_legal, stop));
  } else if (ask_index < kPoints - skip_) {
    place = ask_index;
  }
  Suggestion suggestion;
  suggestion.origin = "sobol";
  suggestion.parameters =
      place ? encoding_.FromCompact(sequence_.Point(*place + skip_)) : ExplorationPoint(encoding_, seed_, ask_index);
  return suggestion;
}

}  // namespace luthier::search
