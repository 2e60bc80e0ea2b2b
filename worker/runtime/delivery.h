#ifndef LUTHIER_WORKER_RUNTIME_DELIVERY_H_
#define LUTHIER_WORKER_RUNTIME_DELIVERY_H_

#include <functional>

#include "absl/status/status.h"
#include "lib/base/backoff.h"
#include "lib/base/random.h"
#include "worker/disk/spool.h"
#include "worker/run/coordinator_api.h"
#include "worker/run/runner.h"
#include "worker/runtime/attempt.h"
#include "worker/runtime/contact.h"
#include "worker/runtime/wait_clock.h"

namespace luthier::worker {

// Takes what a run leaves to the coordinator, and repeats its calls while that may help.
//
// A result is written to the spool, and waiting points of the curve are sent. Then the result is sent again and again
// until it is accepted or refused for good (LEASE_LOST, TRIAL_FINAL, CONFLICTING_REPORT, NOT_FOUND: discarded with a
// log line). A result that the service finds malformed is sent without its gradient, then as FAILED(CONFIG,
// BAD_OUTPUT). A result that can't be sent for `RuntimeOptions::delivery_timeout` stays in the spool.
//
// Each thread has one of its own.
class Delivery {
 public:
  // All pointers must outlive it. `spool` may be null: then a result lives in memory only. `jitter` decides the waits.
  Delivery(CoordinatorApi* api, const Spool* spool, Contact* contact, WaitClock* clock, base::RandomStream jitter)
      : api_(api), spool_(spool), contact_(contact), clock_(clock), backoff_(jitter) {}

  // Brings an attempt whose run has returned to its end. True if the trial has ended: it is not tried again.
  bool End(Attempt* attempt, RunOutcome outcome);
  // Gives back a lease of which no use was made.
  void GiveBack(const Lease& lease) { Release(lease, lease.run.resume_checkpoint, lease.run.resume_step); }
  // Sends the results that an earlier process left in the spool, until this one drains.
  void SendLeftovers();
  // Sends points that were taken from the attempt. OK also if they were refused for good.
  absl::Status Send(Attempt* attempt, const ReportRequest& report);

 private:
  enum class Verdict { kAccepted, kRefused, kMalformed, kKept };

  // Calls until it is OK, will never be, or it is time to give up; returns the last status. `max_odd` is how often it
  // repeats after errors other than outages and overload of the server.
  absl::Status Repeat(int max_odd, const std::function<absl::Status()>& call);
  // Sends the points that are left.
  void Flush(Attempt* attempt);
  // Gives back, or gives up, a run that stopped before its end. True if the trial has ended.
  bool EndStopped(Attempt* attempt, const Attempt::Ending& ending);
  void Release(const Lease& lease, const std::string& checkpoint, int64_t checkpoint_step);
  // Spools and sends the result, and follows the answer. True if the trial has ended.
  bool SendDurably(FinalResult result);
  Verdict Send(const FinalResult& result, absl::Status* error);
  // Writes the result to the spool, if there is one.
  void Keep(const FinalResult& result, absl::Status (Spool::*how)(const FinalResult&) const);

  CoordinatorApi* const api_;
  const Spool* const spool_;
  Contact* const contact_;
  WaitClock* const clock_;
  base::Backoff backoff_;
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_RUNTIME_DELIVERY_H_
