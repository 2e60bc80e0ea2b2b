#ifndef LUTHIER_SERVER_COORDINATOR_WRITER_OBSERVER_H_
#define LUTHIER_SERVER_COORDINATOR_WRITER_OBSERVER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lib/study/trial_state.h"
#include "server/storage/storage.h"

namespace luthier::coordinator {

// Results must always get in; requests for more work may be refused earlier.
enum class OperationClass { kResults, kRequests };
inline constexpr size_t kOperationClassCount = 2;

// The waiting operations of one class.
struct Load {
  size_t ops = 0;
  size_t bytes = 0;
};

// The slots of workers that studies use and could use.
struct PoolSlots {
  int64_t running = 0;  // Trials under leases of workers, expired leases not counted.
  int64_t wanted = 0;   // Further trials that could begin at once (Study::WantedSlots), by the quotas of projects.
  friend bool operator==(const PoolSlots&, const PoolSlots&) = default;
};

// Numbers of everything. Index of `trials`: study::TrialState; of `queues`: OperationClass.
struct Census {
  std::array<int64_t, study::kTrialStateCount> trials{};
  size_t leases = 0;
  int waiting_asks = 0;
  std::array<Load, kOperationClassCount> queues;
  // Pools of which studies use or want slots, by study::PoolKey.
  std::map<std::string, PoolSlots> slots;
};

// Counts what a coordinator does. Calls come from several threads; they must be short and must not block.
class Observer {
 public:
  virtual ~Observer() = default;
  // An operation was refused without being applied: too many wait, the server stops, the disk is nearly full, or its
  // deadline passed.
  virtual void OnRefused(OperationClass operation_class, const absl::Status& status) = 0;
  // A batch that changed something was written and synced, or failed to be.
  virtual void OnCommit(absl::Duration took, size_t operations, const absl::Status& status) = 0;
  // Called for each event once, after its commit.
  virtual void OnEvent(const storage::Event& event) = 0;
  // A suggestion was computed; if the designer ignores history, all those of one request.
  virtual void OnSuggestions(absl::string_view algorithm, absl::Duration took) = 0;
  // Called every second.
  virtual void OnCensus(const Census& census) = 0;
};

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_WRITER_OBSERVER_H_
