#ifndef LUTHIER_SERVER_COORDINATOR_STUDIES_BATCH_H_
#define LUTHIER_SERVER_COORDINATOR_STUDIES_BATCH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/coordinator/messages/operations.h"
#include "server/coordinator/proposals/timeline.h"
#include "server/coordinator/studies/core_state.h"
#include "server/storage/storage.h"

namespace luthier::coordinator {

// The changes that the operations of one batch made, until it commits or is rolled back.
struct Batch {
  // The clock, read once at the beginning.
  absl::Duration now = absl::ZeroDuration();
  absl::Time wall;        // Time stamp of events; nothing compares it.
  absl::Duration uptime;  // Now, on the clock of Storage::LastUptime.
  bool timed = false;     // True if an operation compared the age of a study with `uptime`.
  Counters at_begin;

  std::vector<storage::Event> events;
  std::vector<HistoryUpdate> updates;
  std::vector<storage::MeasurementRecord> measurements;
  std::map<storage::StudyKey, std::string> touched;  // Studies whose row changed, with their ids.
  std::set<storage::StudyKey> deleted;               // Studies that are gone, hidden or for ever.
  // Hides, erases and brings back studies, before everything else. What the batch changed of a study before it was
  // hidden comes first.
  storage::WriteBatch partings;
  std::vector<std::pair<storage::StudyKey, storage::FormerSpec>> former_specs;
  std::set<std::pair<storage::StudyKey, int64_t>> dirty_trials;   // Trials whose row changed.
  std::set<std::pair<storage::StudyKey, int64_t>> pinned_trials;  // Final trials whose row was loaded.
  std::vector<std::pair<std::string, study::Directive>>
      ending_leases;                          // Leases that end with the commit; their holders are not told before.
  std::vector<std::string> finishing_leases;  // Leases whose holders are told kFinish after the commit.
  std::vector<std::function<void(const absl::Status&)>> answers;  // Called with the outcome of the commit.

  storage::WriteBatch sealed;
};

// Results of batches that ended, for the caller of the core to take.
struct Outbox {
  std::vector<storage::Event> events;
  std::vector<HistoryUpdate> updates;
  std::vector<storage::StudyKey> invalidated;  // Studies whose designer saw changes that were rolled back.
};

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STUDIES_BATCH_H_
