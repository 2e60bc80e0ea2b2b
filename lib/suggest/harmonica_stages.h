#ifndef LUTHIER_LIB_SUGGEST_HARMONICA_STAGES_H_
#define LUTHIER_LIB_SUGGEST_HARMONICA_STAGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "Eigen/Core"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/stop_token.h"
#include "lib/spectral/bit_encoding.h"
#include "lib/spectral/minimizers.h"
#include "lib/spectral/recovery.h"
#include "lib/study/history.h"
#include "lib/study/study_spec.h"
#include "lib/suggest/harmonica_plan.h"

// The stages of Harmonica, from the log of a study. Each takes T settings of uniform bits, learns a sparse polynomial
// of their losses, and fixes the bits that it depends on to the t settings that make it least; later settings take one
// of the t each.
namespace luthier::suggest {

// What a closed stage found. In units of the loss: the metric, its sign changed where the goal is to maximise.
struct HarmonicaStage {
  spectral::Polynomial polynomial;  // Also where it is not believed.
  bool believed = false;            // Whether the gate is open; else there are no restrictions.
  int32_t results = 0;              // Samples used, those of earlier stages with a closed gate included.
  int32_t failed = 0;               // Of these, settings that failed and count as the worst loss.
  int32_t dropped = 0;              // Terms that would have been too many variables to enumerate.
  double variance = 0.0;
  double r2 = 0.0;
  double cv_r2 = 0.0;
  double factor = 0.0;                             // The penalty in units of sqrt(2 ln N / T).
  std::vector<spectral::Assignment> restrictions;  // Of Variables(polynomial); best first.
  friend bool operator==(const HarmonicaStage&, const HarmonicaStage&) = default;
};

// One line, numbers in hexadecimal; and back. Absent for any other text.
std::string FormatStage(const HarmonicaStage& stage);
std::optional<HarmonicaStage> ParseStage(absl::string_view text);

// What Suggestion::carry says: whose sample a setting is, the stages that had closed since the suggestion before (they
// are in the log once), and the base's own carry.
struct HarmonicaCarry {
  char kind = 0;  // s: sample `index` of stage `stage`; b: ask `index` of the base; 0: none of ours.
  int stage = 0;
  int64_t index = 0;
  std::vector<int> selection;                        // Of kind b: the restriction of each stage that has some.
  std::vector<std::pair<int, std::string>> records;  // Stage numbers and FormatStage texts.
  std::string base;
};
std::string FormatCarry(const HarmonicaCarry& carry);
HarmonicaCarry ParseCarry(absl::string_view text);

// Samples of one or more stages that a polynomial is learnt from.
struct HarmonicaData {
  spectral::BitMatrix x;   // T x b.
  Eigen::VectorXd losses;  // T; failures imputed, winsorized, less the earlier stages' polynomials.
  std::vector<int> free;   // Bits that no earlier stage has fixed.
  int failed = 0;
};

class HarmonicaStages {
 public:
  // All of these must outlive it.
  HarmonicaStages(const study::StudySpec& spec, const study::HarmonicaOptions& options, const HarmonicaPlan& plan,
                  const spectral::BitEncoding& bits);

  // Reads the log: which stages have closed, from the records that suggestions carry or, where no suggestion has been
  // made since, from the results. A function of the history alone: a stage closes with the T-th of its results
  // (COMPLETE, PAUSED at its target, FAILED for a fault of the setting, or PRUNED) in log order, and uses those T in
  // order of sample; with `strict`, when the T samples of least index that were not lost have results. A stage whose
  // gate stayed closed leaves its samples to the next, as both are drawn alike. CANCELLED: `stop` was raised; nothing
  // else may be asked before another Read.
  absl::Status Read(const study::History& history, const base::StopToken& stop);

  const std::vector<HarmonicaStage>& stages() const { return stages_; }
  // Whether there is no more stage: all are done, no bit is free, or two in a row explained less than 5 %.
  bool done() const;
  // How many of stages() no suggestion carries yet: the last ones.
  int unrecorded() const { return static_cast<int>(stages_.size()) - recorded_; }
  // The next sample's index in stage number stages().size(), and the next base ask's.
  int64_t next_sample() const { return next_sample_; }
  int64_t next_base() const { return next_base_; }
  // Parsed carries by trial of the history read.
  const std::vector<HarmonicaCarry>& carries() const { return carries_; }

  // Sample `index` of stage `stage` <= stages().size(): of each earlier stage one of the restrictions, uniformly, and
  // uniform bits for the rest. A function of seed, stage, index and the earlier stages.
  study::Parameters Sample(int stage, int64_t index) const;

  // What closed stage `stage` was learnt from, in the history that was read.
  HarmonicaData Data(const study::History& history, int stage) const;

 private:
  spectral::Bits SampleBits(int stage, base::RandomStream* random) const;
  // The trials, by index into the history, that closed stage `stage` with, in order of sample; absent while it is open.
  std::optional<std::vector<size_t>> Closing(const study::History& history, int stage) const;
  HarmonicaData DataOf(const study::History& history, const std::vector<std::vector<size_t>>& closings,
                       int stage) const;
  absl::StatusOr<HarmonicaStage> Learn(const HarmonicaData& data, const base::StopToken& stop) const;

  const study::StudySpec& spec_;
  const study::HarmonicaOptions& options_;
  const HarmonicaPlan& plan_;
  const spectral::BitEncoding& bits_;
  std::vector<HarmonicaStage> stages_;
  std::vector<HarmonicaCarry> carries_;
  int recorded_ = 0;
  int64_t next_sample_ = 0;
  int64_t next_base_ = 0;
};

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_HARMONICA_STAGES_H_
