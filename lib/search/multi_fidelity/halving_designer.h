#ifndef LUTHIER_LIB_SEARCH_MULTI_FIDELITY_HALVING_DESIGNER_H_
#define LUTHIER_LIB_SEARCH_MULTI_FIDELITY_HALVING_DESIGNER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/search/designer.h"
#include "lib/search/multi_fidelity/rung_sampler.h"
#include "lib/study/rung_schedule.h"

namespace luthier::search {

// Successive halving (Jamieson & Talwalkar 2016) and Hyperband (Li et al. 2018, Algorithm 1): a schedule of brackets
// that is repeated round after round. docs/reference/successive_halving.md.
//
//   bracket   has n_0 settings, the next ones in order of their asks; fewer if the budget or the space has no more
//   rung i    is trained to r_i. Once all of its results are there, the best floor(n_0 / eta^(i+1)) of them, in order
//             of loss and then of ask (with bounds and several objectives: of study::RungOrder), go on to r_{i+1}; at
//             least one does in a bracket cut short
//   loss      study::ResultAt; a cancelled trial counts as failed. Failed trials never go on
//   COMPLETE  before the last rung (its worker could not pause): the trial ranks like the others and takes a place
//             without a promotion
//   an ask    continues the best trial that may go on, in the earliest bracket that has one. Else it takes a new
//             setting for the bracket that is not full, or for the next one
//   enqueued  trials of users belong to no bracket: they are trained to the end
//
// A suggestion is a function of (spec, history, ask index) and takes O(trials log trials). Promotions have origin
// "promote" and details bracket, rung, rank and loss (of the first objective). New settings have the sampler's origin
// and details, and details bracket and rung 0.
class HalvingDesigner final : public Designer {
 public:
  HalvingDesigner(const study::StudySpec& spec, const study::SuccessiveHalvingOptions& options,
                  const NestedAlgorithms& nested);
  HalvingDesigner(const study::StudySpec& spec, const study::HyperbandOptions& options, const NestedAlgorithms& nested);

  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                     const base::StopToken& stop) override;

 private:
  // State of one bracket: its next promotion, if there is one.
  struct Progress {
    std::optional<Suggestion> promotion;
    bool waiting = false;  // True if results still to come may lead to promotions.
  };
  struct Step {
    std::optional<Suggestion> promotion;
    int64_t bracket = 0;   // Bracket of a new setting.
    int64_t resource = 0;  // Target of a new setting; 0: there is none now.
    bool waiting = false;
  };
  using Members = std::vector<const study::HistoryTrial*>;
  struct Arrived {
    double loss;
    const study::HistoryTrial* trial;
  };
  using Rung = std::vector<Arrived>;

  HalvingDesigner(const study::StudySpec& spec, int32_t eta, const NestedAlgorithms& nested);

  // Returns what the next ask does. `full`: no new setting can come any more.
  absl::StatusOr<Step> Next(const Members& members, bool full, const base::StopToken& stop) const;
  // Returns the state of a bracket. `members`: all that the bracket will ever have.
  absl::StatusOr<Progress> Look(const study::Bracket& bracket, int64_t index, const Members& members,
                                const base::StopToken& stop) const;
  // Returns the members, best first, with their losses at the rung; std::nullopt while a result is missing.
  absl::StatusOr<std::optional<Rung>> Rank(const Members& members, int64_t step, const base::StopToken& stop) const;

  const study::StudySpec spec_;
  const int64_t max_trials_;
  const int32_t eta_;
  const std::vector<study::Bracket> brackets_;
  RungSampler sampler_;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_MULTI_FIDELITY_HALVING_DESIGNER_H_
