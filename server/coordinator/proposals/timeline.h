#ifndef LUTHIER_SERVER_COORDINATOR_PROPOSALS_TIMELINE_H_
#define LUTHIER_SERVER_COORDINATOR_PROPOSALS_TIMELINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/study/history.h"
#include "server/storage/storage.h"

// The part of a study's log that designers and stopping rules depend on.
namespace luthier::coordinator {

// A change of a study's history, for designers.
struct HistoryUpdate {
  enum class Kind { kStored, kFinished, kReported, kPaused, kPromoted, kRemoved };
  storage::StudyKey study = 0;
  uint64_t seq = 0;
  Kind kind = Kind::kStored;
  // Stored: the trial as it was stored. Finished: its number, parameters and result. Otherwise its number only.
  study::HistoryTrial trial;
  std::string worker;       // Finished: who reported the result (study::ReporterOf).
  study::CurvePoint point;  // Reported: the point.
  uint64_t ask_index = 0;   // Promoted: the ask that it answers.
  int64_t resource = 0;     // Promoted: the step up to which it is trained.
};

void Apply(const HistoryUpdate& update, study::History* history);

// Returns the trial as designers see it: the results of the study's metrics if it is final, its parameters and
// target always.
study::HistoryTrial ToHistoryTrial(const study::Trial& trial, const study::StudySpec& spec);

// True if the study's designers or rules look at points of learning curves, which are kept for every study.
bool NeedsCurves(const study::StudySpec& spec);

// Returns all updates with seq <= `until`, in order of seq, from rows and, where curves are needed, from the log.
// Errors as Storage; NOT_FOUND for a study that was deleted, DATA_LOSS for a log that is damaged or does not fit the
// rows.
absl::StatusOr<std::vector<HistoryUpdate>> ReadTimeline(storage::Storage* storage, storage::StudyKey study,
                                                        const study::StudySpec& spec, uint64_t until);

// The specs that a study had.
class SpecHistory {
 public:
  // Errors as Storage.
  static absl::StatusOr<SpecHistory> Read(storage::Storage* storage, const storage::StudyRecord& study);

  // Adds a change of the batch under way, which is later than those that are known.
  void Add(storage::FormerSpec former) { former_.push_back(std::move(former)); }

  // Returns the spec as it was right after the event `seq`. Older programs did not keep what designers do not go by.
  study::StudySpec At(uint64_t seq) const;
  // Returns the number of changes up to `seq`.
  size_t Changes(uint64_t seq) const;

 private:
  study::StudySpec newest_;
  std::vector<storage::FormerSpec> former_;  // In order of seq.
};

// Returns the history that a designer saw at `until`. Errors as ReadTimeline.
absl::StatusOr<study::History> HistoryAt(storage::Storage* storage, storage::StudyKey study,
                                         const study::StudySpec& spec, uint64_t until);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_PROPOSALS_TIMELINE_H_
