#ifndef LUTHIER_LIB_SEARCH_MULTI_FIDELITY_ASHA_DESIGNER_H_
#define LUTHIER_LIB_SEARCH_MULTI_FIDELITY_ASHA_DESIGNER_H_

#include <cstdint>
#include <vector>

#include "lib/search/designer.h"
#include "lib/search/multi_fidelity/rung_sampler.h"
#include "lib/study/rung_schedule.h"

namespace luthier::search {

// Asynchronous successive halving (Li et al. 2020, Algorithm 2). docs/reference/asha.md.
//
//   rung k     P_k = all trials with a study::ResultAt(r_k), of users too; m_k = floor(|P_k| / eta)
//   an ask     goes through k = K-1 … 0. If fewer than m_k trials have gone on from rung k, it promotes to r_{k+1} the
//              best PAUSED one of the best m_k that has not gone on. If no rung has one, a new setting begins towards
//              r_0
//   order      study::RungOrder: by loss, then by number; with bounds and several objectives by feasibility and layer.
//              Failed trials never go on
//   COMPLETE   before the last rung (converged, or its worker could not pause): the trial counts in P_k, and holds one
//              of the m_k slots only while it is among the best m_k
//   kStop      new settings only, with the whole resource as target; lib/stopping decides at the rungs
//
// Departure: the published rule promotes every trial that is at that moment among the best m_k. More than m_k of a rung
// then go on as better ones keep arriving. Here at most m_k have gone on at any time, and later ones wait until m_k has
// grown.
//
// While the budget has room every ask has an answer, so no worker is idle. O(trials) an ask; with several objectives, a
// promotion takes as long as pareto::NetOrder. Promotions have origin "promote" and details rung, rank, of and loss (of
// the first objective). New settings have the sampler's origin and details, and detail rung 0.
class AshaDesigner final : public Designer {
 public:
  AshaDesigner(const study::StudySpec& spec, const study::AshaOptions& options, const NestedAlgorithms& nested);

  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                     const base::StopToken& stop) override;

 private:
  const study::StudySpec spec_;
  const int64_t max_trials_;
  const study::AshaOptions options_;
  const std::vector<int64_t> steps_;
  RungSampler sampler_;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_MULTI_FIDELITY_ASHA_DESIGNER_H_
