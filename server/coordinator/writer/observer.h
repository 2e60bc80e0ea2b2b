#ifndef LUTHIER_SERVER_COORDINATOR_WRITER_OBSERVER_H_
#define LUTHIER_SERVER_COORDINATOR_WRITER_OBSERVER_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lib/study/trial_state.h"
#include "server/storage/storage.h"

namespace luthier::coordinator {

// Results must always get in; what asks for more work may be turned away earlier.
enum class OperationClass { kResults, kRequests };
inline constexpr size_t kOperationClassCount = 2;

// Operations that wait, of one class of operations.
struct Load {
  size_t ops = 0;
  size_t bytes = 0;
};

// A census of everything; index of `trials`: study::TrialState, of `queues`: OperationClass.
struct Census {
  std::array<int64_t, study::kTrialStateCount> trials{};
  size_t leases = 0;
  int waiting_asks = 0;
  std::array<Load, kOperationClassCount> queues;
};

// Whoever counts what a coordinator does. Calls come from several threads; they must be short and must not block.
class Observer {
 public:
  virtual ~Observer() = default;
  // An operation was turned away unseen: too many wait, the server stops, the disk is nearly full, its deadline passed.
  virtual void OnRefused(OperationClass operation_class, const absl::Status& status) = 0;
  // A batch that changed something was written and synced, or failed to be.
  virtual void OnCommit(absl::Duration took, size_t operations, const absl::Status& status) = 0;
  // After its commit, each event once.
  virtual void OnEvent(const storage::Event& event) = 0;
  // A suggestion was computed; where designers ignore history, those of one request.
  virtual void OnSuggestions(absl::string_view algorithm, absl::Duration took) = 0;
  // Every second.
  virtual void OnCensus(const Census& census) = 0;
};

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_WRITER_OBSERVER_H_
