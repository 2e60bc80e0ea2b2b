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
// docs/algorithms/harmonica.md has the equations and the reasons.
//
// Origins: stage; then those of the base after "base_"; explore where the base has nothing left to suggest. Asks never
// wait: while a stage waits for its last results, further samples of it are handed out.
// Details: stage (from 1) and sample of a stage's setting; the base's own.
class HarmonicaDesigner final : public Designer {
 public:
  HarmonicaDesigner(const study::StudySpec& spec, const study::HarmonicaOptions& options);

  // OUT_OF_RANGE only where the plan has no stages and the base says so.
  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index) override;

 private:
  // What the base sees once the stages are done.
  struct Refinement {
    std::vector<HarmonicaStage> stages;      // That it was made for.
    std::unique_ptr<RestrictedSpace> space;  // Null: nothing is restricted.
    std::unique_ptr<Designer> designer;
    bool uses_history = true;
    // By number of trial: its parameters and what Project said of them. Only saves time.
    std::map<int64_t, std::pair<study::Parameters, std::optional<study::Parameters>>> projected;
  };
  // What the base makes of a space.
  study::StudySpec BaseSpec(const study::SearchSpace& space) const;
  void Refine(const std::vector<HarmonicaStage>& stages);
  std::optional<study::Parameters> Projected(const study::HistoryTrial& trial, const HarmonicaCarry& carry);
  study::History BaseHistory(const study::History& history);
  Suggestion SuggestSample() const;
  Suggestion SuggestBase(const study::History& history, uint64_t ask_index);
  // Adds to `carry` the stages that no suggestion carries yet.
  void AddRecords(HarmonicaCarry* carry) const;

  const study::StudySpec spec_;
  const study::HarmonicaOptions options_;
  const HarmonicaPlan plan_;
  const spectral::BitEncoding bits_;
  HarmonicaStages stages_;
  Refinement refinement_;
  std::unique_ptr<Designer> base_only_;  // Of a plan without stages.
};

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_HARMONICA_DESIGNER_H_
