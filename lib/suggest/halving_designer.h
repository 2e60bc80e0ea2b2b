#ifndef LUTHIER_LIB_SUGGEST_HALVING_DESIGNER_H_
#define LUTHIER_LIB_SUGGEST_HALVING_DESIGNER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/suggest/designer.h"
#include "lib/suggest/rung_sampler.h"
#include "lib/suggest/rungs.h"

namespace luthier::suggest {

// Successive halving (Jamieson & Talwalkar 2016) and Hyperband (Li et al. 2018, Algorithm 1): a schedule of brackets
// that is gone through again and again. docs/reference/successive_halving.md.
//
//   bracket   n_0 settings, the next ones in order of their asks; cut short when the budget or the space has no more
//   rung i    trained to r_i. When ceil(quorum * n_i) of the results are there, the best floor(n_0 / eta^(i+1)) of
//             them, in order of loss and then of ask, go on to r_{i+1}; at least one does in a bracket cut short.
//             Results that come later compete for the places that are left
//   loss      LossAt; a trial that was cancelled counts as failed. Failed trials never go on
//   COMPLETE  before the last rung (its worker could not pause): ranks like the others, and takes a place without
//             being asked for
//   an ask    continues the best trial that may go on, of the earliest bracket that has one; else it takes the next new
//             setting, of the bracket that is not full or, where overlap allows, of the next one
//   enqueued  trials of users belong to no bracket: they are trained to the end
//
// A function of (spec, history, ask index), O(trials log trials) an ask. Origins: "promote" with details bracket, rung,
// rank and loss; for new settings the sampler's, with details bracket and rung 0.
class HalvingDesigner final : public Designer {
 public:
  HalvingDesigner(const study::StudySpec& spec, const study::SuccessiveHalvingOptions& options);
  HalvingDesigner(const study::StudySpec& spec, const study::HyperbandOptions& options);

  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                     const base::StopToken& stop) override;

 private:
  // What is left to do in one bracket.
  struct Progress {
    std::optional<Suggestion> promotion;
    bool waiting = false;  // Results still to come may lead to promotions.
    bool running = false;  // Some member is being trained.
  };
  struct Step {
    std::optional<Suggestion> promotion;
    int64_t bracket = 0;   // Of a new setting.
    int64_t resource = 0;  // Its target; 0: there is no new setting now.
    bool waiting = false;
  };
  using Members = std::vector<const study::HistoryTrial*>;

  HalvingDesigner(const study::StudySpec& spec, int32_t eta, double quorum, bool overlap);

  // `full`: no new setting can come any more.
  absl::StatusOr<Step> Next(const Members& members, bool full, const base::StopToken& stop) const;
  // `members`: all that the bracket will ever have.
  Progress Look(const Bracket& bracket, int64_t index, const Members& members) const;

  const study::Goal goal_;
  const int64_t max_trials_;
  const int32_t eta_;
  const double quorum_;
  const bool overlap_;
  const std::vector<Bracket> brackets_;
  RungSampler sampler_;
};

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_HALVING_DESIGNER_H_
