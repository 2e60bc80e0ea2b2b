#include "lib/search/legal/legal_designer.h"

#include "lib/base/random.h"

namespace luthier::search {

absl::StatusOr<Suggestion> LegalDesigner::Suggest(const study::History& history, uint64_t ask_index,
                                                  const base::StopToken& stop) {
  absl::StatusOr<Suggestion> suggestion = inner_->Suggest(history, ask_index, stop);
  if (!suggestion.ok() || suggestion->resume || encoding_.IsLegal(suggestion->parameters)) return suggestion;
  base::RandomStream random(seed_, "legal", ask_index);
  suggestion->parameters = encoding_.Sample(random);
  suggestion->origin = "legal";
  suggestion->details.clear();
  return suggestion;
}

}  // namespace luthier::search
