#ifndef LUTHIER_SERVER_COORDINATOR_WRITER_WATCHERS_H_
#define LUTHIER_SERVER_COORDINATOR_WRITER_WATCHERS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/time/time.h"
#include "lib/base/mutex.h"
#include "server/storage/storage.h"

namespace luthier::coordinator {

// Wakes callers that wait for commits of a study. A commit costs as much as the watchers it wakes. Thread-safe;
// watchers are called under the lock, so a watcher must not add any.
class Watchers {
 public:
  // Reasons to wake a watcher.
  enum class Wake {
    kCommit,  // Its study has new events.
    kTick,    // Time has passed, or draining has begun: it may try again what failed before.
  };

  // Each watcher is woken at least every `tick`, which is above 0.
  explicit Watchers(absl::Duration tick);

  // Calls `wake` until it returns false.
  void Add(storage::StudyKey study, absl::Duration now, std::function<bool(Wake)> wake);

  // Wakes the watchers of the studies `changed`, and those whose tick has come. Returns the number of calls that this
  // took.
  size_t Notify(const std::set<storage::StudyKey>& changed, absl::Duration now);
  // Wakes all watchers, with kTick.
  void TickAll();

 private:
  struct Watcher {
    storage::StudyKey study = 0;
    absl::Duration tick;  // When the next tick is due.
    std::function<bool(Wake)> wake;
  };
  void WakeOne(uint64_t number, Wake why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const absl::Duration tick_;
  base::Mutex mutex_;
  std::map<uint64_t, Watcher> all_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<storage::StudyKey, std::set<uint64_t>> by_study_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<absl::Duration, uint64_t>> ticks_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_WRITER_WATCHERS_H_
