#ifndef LUTHIER_LIB_SEARCH_HOAG_HOAG_DESIGNER_H_
#define LUTHIER_LIB_SEARCH_HOAG_HOAG_DESIGNER_H_

#include <Eigen/Core>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "lib/math/sobol.h"
#include "lib/search/designer.h"
#include "lib/search/designer_state.h"
#include "lib/search/hoag/hoag_rule.h"
#include "lib/study/encoding.h"
#include "lib/study/study_spec.h"

namespace luthier::search {

absl::Status ValidateHoag(const study::StudySpec& spec, const study::HoagOptions& options);

// HOAG (hoag_rule.h) as an algorithm of studies: `chains` chains of projected gradient steps on the scalars that have
// derivatives; other parameters keep, within a chain, the values of its start. The first chain starts at the defaults,
// all others at scrambled Sobol points. A chain that has ended makes way for a new one; after 8, 16, 32, ...
// evaluations of every chain the worse half of several chains ends.
//
// A suggestion carries its chain and number (HoagState), and everything else is replayed from the log:
// nothing is lost with the designer. A chain waits for the result of its last suggestion; when all do, the answer is
// AWAITING_RESULTS. A trial that was cancelled, or lost without saying anything of the setting, is suggested again. A
// trial without gradient counts as a rejected step; on its first point it ends its chain.
//
// Coordinates: the logarithm for scale LOG, the logit for LOGIT; for LINEAR the range is 24 wide, as the paper's box.
// Origins: "hoag", "hoag_start".
struct HoagState {
  int chain = 0;
  int evaluation = 0;  // Its number within the chain, from 1.
};
template <>
inline constexpr auto kStateFields<HoagState> = std::tuple(&HoagState::chain, &HoagState::evaluation);
// By version of a chain's steps. A study whose trials have states of the first goes on by it.
inline constexpr char kHoagStateKind[] = "hoag/1";
inline constexpr char kHoagCurvatureStateKind[] = "hoag/2";

class HoagDesigner final : public Designer {
 public:
  HoagDesigner(const study::StudySpec& spec, const study::HoagOptions& options);

  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                     const base::StopToken& stop) override;

 private:
  // The state of one chain, replayed from the log.
  struct Chain;
  // Evaluations by chain and number. Entries are null where there is none.
  struct Evaluations {
    std::map<int, std::vector<const study::HistoryTrial*>> of;
    HoagVersion version = HoagVersion::kCurvature;
  };

  // Collects the evaluations. If there are several trials for one, an answered trial counts, else a pending one; a lost
  // trial gives way to the next.
  Evaluations Gather(const study::History& history) const;
  // Drops the worse half of the chains after 8, 16, … evaluations of each.
  static void DropWorse(std::vector<Chain>* chains);
  // Returns the chains that have not ended: the first ones that are left, and new ones in place of others.
  absl::StatusOr<std::vector<Chain>> ChainsOf(Evaluations trials, const base::StopToken& stop) const;
  // Replays chain `index`, of which `trials` has the evaluations by number.
  absl::StatusOr<Chain> Replay(int index, HoagVersion version, const std::vector<const study::HistoryTrial*>& trials,
                               const base::StopToken& stop) const;
  Eigen::VectorXd ToPoint(const study::Parameters& parameters) const;
  study::Parameters ToSetting(const study::Parameters& start, const Eigen::VectorXd& point) const;
  study::Parameters StartOf(int index) const;

  const study::Encoding encoding_;
  const study::Goal goal_;
  const study::HoagOptions options_;
  const math::SobolSequence starts_;
  std::vector<int> column_;    // Compact coordinate of each scalar with a derivative, without constant ones.
  std::vector<int> entry_;     // Its entry of a gradient.
  std::vector<double> width_;  // Width of its box, in the coordinates above.
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_HOAG_HOAG_DESIGNER_H_
