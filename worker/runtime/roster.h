#ifndef LUTHIER_WORKER_RUNTIME_ROSTER_H_
#define LUTHIER_WORKER_RUNTIME_ROSTER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "lib/base/mutex.h"
#include "lib/study/directive.h"
#include "worker/run/coordinator_api.h"
#include "worker/runtime/attempt.h"
#include "worker/runtime/contact.h"
#include "worker/runtime/options.h"
#include "worker/runtime/wait_clock.h"

namespace luthier::worker {

// The attempts that a worker holds, from their leases until their results are settled. The threads of a runtime wait
// here for their turn. Thread-safe.
class Roster {
 public:
  // All must outlive it. Whoever owns `contact` calls Wake when it has reason to hurry.
  Roster(const RuntimeOptions* options, const Contact* contact, WaitClock* clock)
      : options_(*options), contact_(contact), clock_(clock), idle_since_(clock->Monotonic()) {}
  Roster(const Roster&) = delete;
  Roster& operator=(const Roster&) = delete;

  // Lets those who wait look again.
  void Wake() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until nothing is asked for or held any more, and tells what runs that the worker drains when it is time.
  // Afterwards the threads below are told to end.
  void AwaitEnd() ABSL_LOCKS_EXCLUDED(mutex_);

  // For the asker. Waits for a free slot, and until `next` or a reason to hurry other than `hurry`, which is brought up
  // to date. Returns the number of trials to ask for; 0: no more are to be asked for.
  int AwaitFreeSlots(absl::Duration next, uint64_t* hurry) ABSL_LOCKS_EXCLUDED(mutex_);
  // Hands leases to the slots. Returns those that there is no use for.
  std::vector<Lease> Add(std::vector<Lease> leases) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the time at which the worker will have been idle for long enough to leave, if it gets no trial.
  absl::Duration IdleUntil() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns true if AwaitFreeSlots ended because the worker drains.
  bool Drained() ABSL_LOCKS_EXCLUDED(mutex_);
  // Nothing will be asked for any more.
  void EndAsking() ABSL_LOCKS_EXCLUDED(mutex_);

  // For a slot. Waits for an attempt whose run nobody has begun; null: there will be none. To be given to Remove.
  Attempt* AwaitAttempt() ABSL_LOCKS_EXCLUDED(mutex_);
  // Forgets an attempt. `ended`: its trial is over.
  void Remove(Attempt* attempt, bool ended) ABSL_LOCKS_EXCLUDED(mutex_);

  // For the reporter. Waits for points to send, and until `next` or a reason to hurry. `last` is the token of the
  // attempt served last: others come first. Nothing: there will be none.
  std::optional<std::pair<Attempt*, ReportRequest>> AwaitReport(absl::Duration next, uint64_t* hurry, std::string* last)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // For the heartbeat. Waits until one is due: at `next`; if absent, `jitter` times a third of the leases' shortest
  // time to live from now on. Returns the tokens of all leases; none: there will be no more to send.
  std::vector<std::string> AwaitBeat(std::optional<absl::Duration> next, double jitter) ABSL_LOCKS_EXCLUDED(mutex_);
  // Passes on the directives for these tokens.
  void Follow(const std::vector<std::string>& tokens, const std::vector<study::Directive>& directives)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Wait(absl::Duration deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<std::pair<Attempt*, ReportRequest>> NextReport(std::string* last) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RuntimeOptions& options_;
  const Contact* const contact_;
  WaitClock* const clock_;

  base::Mutex mutex_;      // Taken before that of an attempt or of `contact_`.
  base::CondVar changed_;  // Signalled at any change of what follows, of `contact_`, and of what there is to report.
  std::map<std::string, std::unique_ptr<Attempt>> active_ ABSL_GUARDED_BY(mutex_);  // By token.
  std::deque<Attempt*> ready_ ABSL_GUARDED_BY(mutex_);                              // Not yet taken by a slot.
  int64_t ended_ ABSL_GUARDED_BY(mutex_) = 0;                                       // Trials that ended here.
  absl::Duration idle_since_ ABSL_GUARDED_BY(mutex_);  // When the last attempt was removed, or this was made.
  bool drained_ ABSL_GUARDED_BY(mutex_) = false;
  bool asking_ ABSL_GUARDED_BY(mutex_) = true;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_RUNTIME_ROSTER_H_
