#ifndef LUTHIER_LIB_SUGGEST_ASHA_DESIGNER_H_
#define LUTHIER_LIB_SUGGEST_ASHA_DESIGNER_H_

#include <cstdint>
#include <vector>

#include "lib/suggest/designer.h"
#include "lib/suggest/rung_sampler.h"
#include "lib/suggest/rungs.h"

namespace luthier::suggest {

// Asynchronous successive halving (Li et al. 2020, Algorithm 2). docs/reference/asha.md.
//
//   rung k     P_k = all trials with a LossAt(r_k), of users too; m_k = floor(|P_k| / eta)
//   an ask     for k = K-1 … 0: while fewer than m_k trials have gone on from rung k, the best of the best m_k that has
//              not and is PAUSED goes on to r_{k+1}; if there is none at any rung, a new setting begins towards r_0
//   order      by loss, then by number; failed trials never go on
//   COMPLETE   before the last rung (converged, or its worker could not pause): counts in P_k, and as gone on while it
//              is among the best m_k; a bad one that was done early must not take the place of a good one
//   kStop      new settings only, with the whole resource as target; lib/stopping decides at the rungs
//
// Departure: the published rule lets every trial go on that is at that moment among the best m_k, so that more than m_k
// of a rung go on as better ones keep arriving. Here at most m_k do at any time, and the late ones wait until m_k has
// grown.
//
// No worker is ever idle while the budget has room: an ask then always has an answer. O(trials) an ask. Origin
// "promote" with details rung, rank, of and loss; for new settings the sampler's, with detail rung 0.
class AshaDesigner final : public Designer {
 public:
  AshaDesigner(const study::StudySpec& spec, const study::AshaOptions& options);

  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                     const base::StopToken& stop) override;

 private:
  const study::Goal goal_;
  const int64_t max_trials_;
  const study::AshaOptions options_;
  const std::vector<int64_t> steps_;
  RungSampler sampler_;
};

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_ASHA_DESIGNER_H_
