#ifndef LUTHIER_SERVER_ACCESS_WAITING_CALLS_H_
#define LUTHIER_SERVER_ACCESS_WAITING_CALLS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "server/access/standing.h"

namespace luthier::access {

// Calls that last, such as streams and asks, by the secret under which they were admitted and by the time at which that
// ends. Each is told when its secret ends. A look at the clock costs as much as the calls that end then, and the end of
// a token as much as its own calls; calls that go on cost nothing. Thread-safe.
class WaitingCalls {
 public:
  using Listener = std::function<void(const absl::Status& why)>;

  // Looks at `clock`, which must outlive it, every `tick` of real time.
  WaitingCalls(const base::Clock* clock, absl::Duration tick);
  ~WaitingCalls();

  // Calls `ended` once, with what Standing::Check says, when the secret has ended: on this thread if it has already.
  // Returns a number for Remove.
  uint64_t Add(std::shared_ptr<const Standing> standing, Listener ended);
  // Forgets a call that is over. `ended` may still be running on another thread.
  void Remove(uint64_t number);
  // To be called when the standing has changed.
  void Look(const Standing* standing);
  // Ends all calls whose secret has ended by now.
  void Tick();
  size_t size() const;

 private:
  // The calls under one secret.
  struct Group {
    std::shared_ptr<const Standing> standing;
    absl::Time end;  // Its place in `by_end_`.
    std::map<uint64_t, Listener> listeners;
  };

  void Loop();
  // Moves out the listeners of calls whose secret has ended by now, with the reason.
  void TakeEnded(absl::Time now, std::vector<std::pair<Listener, absl::Status>>* ended)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const base::Clock* const clock_;
  const absl::Duration tick_;
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::map<const Standing*, Group> groups_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<absl::Time, const Standing*>> by_end_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, const Standing*> all_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace luthier::access

#endif  // LUTHIER_SERVER_ACCESS_WAITING_CALLS_H_
