#ifndef LUTHIER_SERVER_COORDINATOR_STATE_STUDY_STATE_H_
#define LUTHIER_SERVER_COORDINATOR_STATE_STUDY_STATE_H_

#include <array>
#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lib/search/designer.h"
#include "lib/stopping/stopper.h"
#include "lib/study/study_spec.h"
#include "lib/study/trial_state.h"
#include "lib/study/warm_start.h"
#include "server/storage/storage.h"

namespace luthier::coordinator {

// Points reported of one attempt.
struct Curve {
  std::map<int64_t, std::string> digests;  // By step.
  int64_t gradient_bytes = 0;
  std::optional<study::Measurement> last;  // The point of the largest step with a finite metric, without its gradient.
};

// The place of a study among those of its pool. An ask for any study gets the study with the fewest running trials for
// its weight, and of equal ones the one whose turn is the longest ago. So no study starves, even with more studies than
// workers.
struct Rank {
  double share = 0.0;      // Running trials ÷ StudySpec::weight.
  uint64_t last_turn = 0;  // StudyState::last_turn
  storage::StudyKey key = 0;
  friend auto operator<=>(const Rank&, const Rank&) = default;
};

// One trial in memory. Open trials have their row here, final ones only their state.
struct TrialSlot {
  study::TrialState state = study::TrialState::kPending;
  // Set until the trial ends, and until the end of a batch that looked it up or ended it.
  std::unique_ptr<storage::TrialRecord> record;
  std::unique_ptr<Curve> curve;                          // The curve of the newest attempt; null: not loaded.
  absl::Duration eligible_since = absl::ZeroDuration();  // When a retry became possible.
};

// One study in memory. Everything here follows from the rows in storage (LoadStudy), except for suggestions that are
// computed but not yet stored.
struct StudyState {
  storage::StudyRecord record;
  std::shared_ptr<const study::StudySpec> spec;
  study::GradientUse gradient = study::GradientUse::kNone;  // search::GradientUseOf(*spec)

  std::vector<TrialSlot> trials;                          // Index: number - 1.
  std::array<int64_t, study::kTrialStateCount> counts{};  // Numbers of `trials`, by state.
  std::set<int64_t> retries;                              // PENDING with attempts behind them.
  std::set<int64_t> enqueued;                             // PENDING, never granted.
  std::set<int64_t> running;                              // RUNNING.
  std::set<int64_t> paused;                               // PAUSED.
  std::set<int64_t> expired;  // Part of `running`: lease past its deadline when last looked at.
  // No lease of the study ends before this, and no trial that is kept for other workers becomes free for its last one.
  // SetTimer.
  absl::Duration timer = absl::InfiniteDuration();

  uint64_t asks_stored = 0;                    // Trials with an ask index, and promotions.
  std::unique_ptr<stopping::Stopper> stopper;  // Null: no trial is ever stopped.
  std::set<int64_t> set_aside;                 // Trials whose gradient was set aside.
  std::vector<study::WarmSource> models;       // COMPLETE trials, where others may start from their models.

  std::deque<std::pair<uint64_t, search::Suggestion>> ready;  // With the prefix each was computed from.
  uint64_t generation = 0;                                    // Raised whenever suggestions under way become worthless.
  // Time since which a request for suggestions is under way, or since it last delivered one (SetComputing). Infinite:
  // none is.
  absl::Duration computing_since = absl::InfiniteDuration();
  bool blocked = false;        // The designer waits for a trial to finish or to pause.
  uint64_t unblocked = 0;      // Number of the newest event by which a trial finished or paused.
  bool exhausted = false;      // The designer has nothing more to suggest.
  absl::Status history;        // DATA_LOSS: what the designer must know is damaged; it is not asked again.
  int64_t demand = 0;          // New trials that waiting asks could have.
  std::set<uint64_t> counted;  // The asks that `demand` counts.
  int64_t departed = 0;        // The part of `demand` that is for asks that were told, in this batch, to come again.

  std::string pool;  // study::PoolKey
  // Fence of the newest lease granted since the study was read; 0: none. Besides suggestions it is the only field that
  // does not follow from rows: after a restart all turns are equally long ago.
  uint64_t last_turn = 0;
  std::optional<Rank> rank;  // Its place in Pool::open; absent: not there.

  int failures_in_row = 0;
  std::optional<double> best_score;  // study::Score of the best COMPLETE trial.
  int64_t best_trial = 0;            // Number of the best COMPLETE trial.
  int64_t removed_failed = 0;        // FAILED trials that were removed (study::IsRemoved).
  int64_t finished_since_best = 0;
};

inline Rank RankOf(const StudyState& s) {
  return {static_cast<double>(s.running.size()) / s.spec->weight, s.last_turn, s.record.key};
}

inline bool Computing(const StudyState& s) {
  return s.computing_since != absl::InfiniteDuration();
}

// True if any trial waits for a worker or has one.
inline bool AnyOpenBesidesPaused(const StudyState& s) {
  return !s.running.empty() || !s.retries.empty() || !s.enqueued.empty();
}

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STATE_STUDY_STATE_H_
