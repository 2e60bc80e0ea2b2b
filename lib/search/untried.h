#ifndef LUTHIER_LIB_SEARCH_UNTRIED_H_
#define LUTHIER_LIB_SEARCH_UNTRIED_H_

#include <cstdint>
#include <memory>
#include <unordered_set>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/search/designer.h"
#include "lib/search/grid/grid.h"
#include "lib/study/encoding.h"

namespace luthier::search {

// Returns true if the study's space has a finite number of settings: no parameter is a float with a range
// and without a step.
bool IsFinite(const study::SearchSpace& space);

// Replaces a suggestion in a finite space whose setting was tried already. It serves algorithms that do not look at
// tried settings, in studies where trying a setting again gives no new information.
//
// The new setting differs from the suggestion in as few parameters as a few random draws find. In spaces with labels or
// switches it comes from random search instead, because pairs of labels may have effects that no neighbour shows. If
// all draws were tried, it is the next untried setting of the grid after a random place; above 2^63 settings, and with
// constraints on parameters once 10^7 places gave none, the suggestion is kept. Illegal settings are passed over. The
// origin becomes "untried"; everything else stays as it was. The settings of all trials count as tried, whatever their
// state. If the algorithm has exhausted the part of the space to which it restricted itself, a random setting takes the
// place of its suggestion, except in studies with a `resource`. Returns OUT_OF_RANGE SPACE_EXHAUSTED once every setting
// was tried. Continued trials are not repetitions.
class UntriedDesigner final : public Designer {
 public:
  // The space of `spec` is finite and not empty.
  UntriedDesigner(const study::StudySpec& spec, std::unique_ptr<Designer> inner);

  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                     const base::StopToken& stop) override;
  absl::StatusOr<std::vector<Prediction>> Predict(const study::History& history,
                                                  const std::vector<study::Parameters>& settings,
                                                  const base::StopToken& stop) override;

 private:
  using Tried = std::unordered_set<uint64_t>;  // By study::HashOf.

  absl::StatusOr<study::Parameters> Untried(const study::Parameters& near, const Tried& tried, uint64_t ask_index,
                                            const base::StopToken& stop) const;

  const uint64_t seed_;
  const bool in_parts_;  // The study has a resource: SPACE_EXHAUSTED then says more (Designer::Suggest).
  const study::Encoding encoding_;
  const Grid grid_;
  const std::unique_ptr<Designer> inner_;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_UNTRIED_H_
