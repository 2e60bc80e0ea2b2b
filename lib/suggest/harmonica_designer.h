#ifndef LUTHIER_LIB_SUGGEST_HARMONICA_DESIGNER_H_
#define LUTHIER_LIB_SUGGEST_HARMONICA_DESIGNER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lib/suggest/designer.h"
#include "lib/suggest/harmonica_stages.h"
#include "lib/suggest/restricted_space.h"

namespace luthier::suggest {

// Harmonica (Hazan, Klivans, Yuan 2018, "Hyperparameter optimization: a spectral approach"): stages of random settings
// (harmonica_stages.h), after which another algorithm goes on in the space that they leave (restricted_space.h).
// docs/design/harmonica.md has the equations and the reasons.
//
// Origins: stage; then those of the base after "base_"; explore where the base has nothing left to suggest. Asks never
// wait for a stage: until its last results are there, further samples of it are handed out. A base that trains in parts
// (successive_halving, hyperband, asha) waits as it does alone; it knows of its own trials only, as the results of
// others were not had at its rungs. Details: stage (from 1) and sample of a stage's setting; the base's own.
class HarmonicaDesigner final : public Designer {
 public:
  HarmonicaDesigner(const study::StudySpec& spec, const study::HarmonicaOptions& options);

  // OUT_OF_RANGE where the plan has no stages and the base says so, and, with a base that trains in parts, when the
  // budget is full and no PAUSED trial may go on any more; UNAVAILABLE as such a base says.
  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                     const base::StopToken& stop) override;

 private:
  // What the base sees once the stages are done.
  struct Refinement {
    std::vector<HarmonicaStage> stages;      // That it was made for.
    std::unique_ptr<RestrictedSpace> space;  // Null: nothing is restricted.
    std::unique_ptr<Designer> designer;
    bool uses_history = true;
    std::vector<int64_t> numbers;  // By number of a trial in the history that the base saw last: the study's.
    // By number of trial: what Project was asked and said. Only saves time.
    struct Projection {
      study::Parameters parameters;
      std::optional<std::vector<int>> selection;
      std::optional<study::Parameters> projected;
    };
    std::map<int64_t, Projection> projections;
  };
  void Refine(const std::vector<HarmonicaStage>& stages);
  std::optional<study::Parameters> Projected(const study::HistoryTrial& trial, const HarmonicaCarry& carry);
  // Whether the base is to see a trial.
  bool IsSeen(const study::HistoryTrial& trial, const HarmonicaCarry& carry) const;
  absl::StatusOr<study::History> BaseHistory(const study::History& history, const base::StopToken& stop);
  Suggestion SuggestSample() const;
  absl::StatusOr<Suggestion> SuggestBase(const study::History& history, uint64_t ask_index,
                                         const base::StopToken& stop);
  Suggestion Explore(HarmonicaCarry carry, uint64_t ask_index) const;
  // Adds to `carry` the stages that no suggestion carries yet.
  void AddRecords(HarmonicaCarry* carry) const;

  const study::StudySpec spec_;
  const study::HarmonicaOptions options_;
  const HarmonicaPlan plan_;
  const bool in_parts_;  // The base's.
  const spectral::BitEncoding bits_;
  HarmonicaStages stages_;
  Refinement refinement_;
  std::unique_ptr<Designer> base_only_;  // Of a plan without stages.
};

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_HARMONICA_DESIGNER_H_
