#ifndef LUTHIER_LIB_SEARCH_PORTFOLIO_DIRECT_MEMBER_H_
#define LUTHIER_LIB_SEARCH_PORTFOLIO_DIRECT_MEMBER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "lib/search/designer.h"
#include "lib/study/encoding.h"

namespace luthier::search {

// Covers few dimensions by dividing cells (lib/math/direct.h, cells by their longest side, locally biased): DIRECT-L of
// Gablonsky & Kelley 2001. It keeps no state: every ask follows the division again, answered by the results of the
// history, until a point was not tried. Settings that ended without a value count as places where nothing is.
//
// Returns OUT_OF_RANGE SPACE_EXHAUSTED once its cells are too small to divide, UNAVAILABLE AWAITING_RESULTS while all
// points of a sweep are pending, and CANCELLED.
class DirectMember final : public Designer {
 public:
  // The study has no constraints on parameters.
  explicit DirectMember(const study::StudySpec& spec) : encoding_(spec.space), goal_(spec.metric.goal) {}

  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                     const base::StopToken& stop) override;

 private:
  const study::Encoding encoding_;
  const study::Goal goal_;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_PORTFOLIO_DIRECT_MEMBER_H_
