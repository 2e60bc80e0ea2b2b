#ifndef LUTHIER_LIB_SEARCH_HARMONICA_STAGES_H_
#define LUTHIER_LIB_SEARCH_HARMONICA_STAGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "Eigen/Core"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/stop_token.h"
#include "lib/search/designer_state.h"
#include "lib/search/harmonica/plan.h"
#include "lib/spectral/bit_encoding.h"
#include "lib/spectral/minimizers.h"
#include "lib/spectral/recovery.h"
#include "lib/study/history.h"
#include "lib/study/study_spec.h"

// The stages of Harmonica, from the log of a study. Each stage draws T settings of uniform bits, learns a sparse
// polynomial of their losses, and restricts the bits that the polynomial depends on to the t assignments with the least
// values. Every later setting takes one of these t restrictions.
namespace luthier::search {

// Findings of a closed stage, in units of the loss: the metric, its sign changed if the goal is to maximise.
struct HarmonicaStage {
  spectral::Polynomial polynomial;  // Set even if it is not believed.
  bool believed = false;            // True if the gate is open; else there are no restrictions.
  int32_t results = 0;              // Samples used, those of earlier stages with a closed gate included.
  int32_t failed = 0;               // Results of settings that failed; they count as the worst loss.
  int32_t dropped = 0;              // Terms left out: too many variables to enumerate.
  double variance = 0.0;
  double r2 = 0.0;
  double cv_r2 = 0.0;
  double factor = 0.0;                             // Weight of the Lasso's penalty / sqrt(2 ln N / T).
  std::vector<spectral::Assignment> restrictions;  // Values of Variables(polynomial); best first.
  friend bool operator==(const HarmonicaStage&, const HarmonicaStage&) = default;
};

// A stage of that number.
struct HarmonicaRecord {
  int number = 0;
  HarmonicaStage stage;
};

// The designer state: the origin of the setting, the stages that had closed since the suggestion before (they are in
// the log once), and the base's own designer state.
struct HarmonicaState {
  char kind = 0;  // s: sample `index` of stage `stage`; b: ask `index` of the base; 0: not Harmonica's.
  int stage = 0;
  int64_t index = 0;
  std::vector<int> selection;  // Kind b: the restriction of each stage that has some.
  std::vector<HarmonicaRecord> records;
  std::string base;
};
inline constexpr char kHarmonicaStateKind[] = "harmonica/1";
// Returns such a state; a default one for other bytes.
HarmonicaState ReadHarmonicaState(absl::string_view bytes);

template <>
inline constexpr auto kStateFields<spectral::Term> = std::tuple(&spectral::Term::bits, &spectral::Term::weight);
template <>
inline constexpr auto kStateFields<spectral::Polynomial> =
    std::tuple(&spectral::Polynomial::intercept, &spectral::Polynomial::terms);
template <>
inline constexpr auto kStateFields<spectral::Assignment> =
    std::tuple(&spectral::Assignment::code, &spectral::Assignment::value);
template <>
inline constexpr auto kStateFields<HarmonicaStage> =
    std::tuple(&HarmonicaStage::polynomial, &HarmonicaStage::believed, &HarmonicaStage::results,
               &HarmonicaStage::failed, &HarmonicaStage::dropped, &HarmonicaStage::variance, &HarmonicaStage::r2,
               &HarmonicaStage::cv_r2, &HarmonicaStage::factor, &HarmonicaStage::restrictions);
template <>
inline constexpr auto kStateFields<HarmonicaRecord> = std::tuple(&HarmonicaRecord::number, &HarmonicaRecord::stage);
template <>
inline constexpr auto kStateFields<HarmonicaState> =
    std::tuple(&HarmonicaState::kind, &HarmonicaState::stage, &HarmonicaState::index, &HarmonicaState::selection,
               &HarmonicaState::records, &HarmonicaState::base);

// Samples of one or more stages that a polynomial is learnt from.
struct HarmonicaData {
  spectral::BitMatrix x;   // T x b.
  Eigen::VectorXd losses;  // T; failures imputed, winsorized, minus the earlier stages' polynomials.
  std::vector<int> free;   // Bits that no earlier stage has fixed.
  int failed = 0;
};

// The stages of one study: finds in the history which have closed, learns their polynomials, and draws samples.
class HarmonicaStages {
 public:
  // All arguments must outlive the object.
  HarmonicaStages(const study::StudySpec& spec, const study::HarmonicaOptions& options, const HarmonicaPlan& plan,
                  const spectral::BitEncoding& bits);

  // Finds the closed stages in `history`: from the records in the designer states of suggestions, or, if no suggestion
  // has been made since a stage closed, from the results. The outcome is a function of the history alone. A stage
  // closes with the T-th of its results (COMPLETE, PAUSED at its target, FAILED for a fault of the setting, or PRUNED)
  // in log order, and uses those T in order of sample. A stage whose gate stayed closed leaves its samples to the next,
  // as both are drawn alike. Returns CANCELLED if `stop` was raised; call no other method before another Read.
  absl::Status Read(const study::History& history, const base::StopToken& stop);

  const std::vector<HarmonicaStage>& stages() const { return stages_; }
  // Returns true if no stage is left: all are done, no bit is free, or two in a row explained less than 5 %.
  bool done() const;
  // Returns the number of stages() that no suggestion records yet: the last ones.
  int unrecorded() const { return static_cast<int>(stages_.size()) - recorded_; }
  // Return the index of the next sample of stage number stages().size(), and that of the next ask of the base.
  int64_t next_sample() const { return next_sample_; }
  int64_t next_base() const { return next_base_; }
  // Decoded designer states, one for each trial of the history that was read.
  const std::vector<HarmonicaState>& states() const { return states_; }

  // Returns sample `index` of stage `stage` <= stages().size(). It takes one restriction of each earlier stage,
  // uniformly, and draws all other bits uniformly. The sample is a function of seed, stage, index and the earlier
  // stages.
  study::Parameters Sample(int stage, int64_t index) const;

  // Returns the data from which closed stage `stage` was learnt. `history`: the one that was read.
  HarmonicaData Data(const study::History& history, int stage) const;

 private:
  spectral::Bits SampleBits(int stage, base::RandomStream* random) const;
  // Returns the trials with which stage `stage` closed, as indices into the history, in order of sample; std::nullopt
  // while the stage is open.
  std::optional<std::vector<size_t>> Closing(const study::History& history, int stage) const;
  HarmonicaData DataOf(const study::History& history, const std::vector<std::vector<size_t>>& closings,
                       int stage) const;
  absl::StatusOr<HarmonicaStage> Learn(const HarmonicaData& data, const base::StopToken& stop) const;

  const study::StudySpec& spec_;
  const study::HarmonicaOptions& options_;
  const HarmonicaPlan& plan_;
  const spectral::BitEncoding& bits_;
  std::vector<HarmonicaStage> stages_;
  std::vector<HarmonicaState> states_;
  int recorded_ = 0;
  int64_t next_sample_ = 0;
  int64_t next_base_ = 0;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_HARMONICA_STAGES_H_
