#ifndef LUTHIER_LIB_SEARCH_HARMONICA_DESIGNER_H_
#define LUTHIER_LIB_SEARCH_HARMONICA_DESIGNER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lib/search/designer.h"
#include "lib/search/harmonica/restricted_space.h"
#include "lib/search/harmonica/stages.h"

namespace luthier::search {

// Harmonica (Hazan, Klivans, Yuan 2018, "Hyperparameter optimization: a spectral approach"): stages of random settings
// (stages.h). After them another algorithm, the base, goes on in the space that they leave (restricted_space.h).
// docs/design/harmonica.md has the equations and the reasons.
//
// Origins: "stage"; then "base_" and the base's origin; "explore" if the base has nothing left to suggest. Asks never
// wait for a stage: until its last results are there, further samples of it are handed out. A multi-fidelity base
// (successive_halving, hyperband, asha) waits as it does alone. It sees its own trials only, since others have no
// results at its rungs. Details: stage (from 1) and sample for a stage's setting; else the base's own.
class HarmonicaDesigner final : public Designer {
 public:
  // `nested` must outlive the object.
  HarmonicaDesigner(const study::StudySpec& spec, const study::HarmonicaOptions& options,
                    const NestedAlgorithms& nested);

  // Returns OUT_OF_RANGE if the plan has no stages and the base returns it, or if the base is multi-fidelity, the
  // budget is full and no PAUSED trial may go on any more. Returns UNAVAILABLE if a multi-fidelity base returns it.
  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                     const base::StopToken& stop) override;

 private:
  // View of the base once the stages are done.
  struct Refinement {
    std::vector<HarmonicaStage> stages;      // Stages that this was made for.
    std::unique_ptr<RestrictedSpace> space;  // Null: nothing is restricted.
    std::unique_ptr<Designer> designer;
    bool uses_history = true;
    std::vector<int64_t> numbers;  // Study's trial numbers, by the number in the base's last history.
    // Arguments and result of Project, kept by trial number to save time.
    struct Projection {
      study::Parameters parameters;
      std::optional<std::vector<int>> selection;
      std::optional<study::Parameters> projected;
    };
    std::map<int64_t, Projection> projections;
  };
  void Refine(const std::vector<HarmonicaStage>& stages);
  std::optional<study::Parameters> Projected(const study::HistoryTrial& trial, const HarmonicaState& state);
  // Returns true if the base is to see `trial`.
  bool IsSeen(const study::HistoryTrial& trial, const HarmonicaState& state) const;
  absl::StatusOr<study::History> BaseHistory(const study::History& history, const base::StopToken& stop);
  Suggestion SuggestSample() const;
  absl::StatusOr<Suggestion> SuggestBase(const study::History& history, uint64_t ask_index,
                                         const base::StopToken& stop);
  Suggestion Explore(HarmonicaState state, uint64_t ask_index) const;
  // Adds to `state` the stages that no suggestion carries yet.
  void AddRecords(HarmonicaState* state) const;

  const NestedAlgorithms& nested_;
  const study::StudySpec spec_;
  const study::HarmonicaOptions options_;
  const HarmonicaPlan plan_;
  const bool multi_fidelity_;  // True if the base is multi-fidelity.
  const spectral::BitEncoding bits_;
  HarmonicaStages stages_;
  Refinement refinement_;
  std::unique_ptr<Designer> base_only_;  // Designer of a plan without stages.
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_HARMONICA_DESIGNER_H_
