#ifndef LUTHIER_WORKER_RUNTIME_RUNTIME_H_
#define LUTHIER_WORKER_RUNTIME_RUNTIME_H_

#include <vector>

#include "absl/status/status.h"
#include "worker/disk/spool.h"
#include "worker/run/coordinator_api.h"
#include "worker/run/runner.h"
#include "worker/runtime/contact.h"
#include "worker/runtime/delivery.h"
#include "worker/runtime/options.h"
#include "worker/runtime/roster.h"
#include "worker/runtime/wait_clock.h"

namespace luthier::worker {

// Lease -> run -> heartbeat -> report -> complete, for `slots` trials at once.
//
// Threads: one that asks (Asker); one heartbeat thread for all leases, which does nothing else; one reporter, so that
// no run waits for the network; `slots` threads that run objectives (Attempt) and then deliver their results
// (Delivery). A coordinator that is out of reach ends no run: training, heartbeats and sending go on, with backoff
// (Contact). Only directives end a run. Until a result is accepted or refused for good its lease is kept alive. Results
// that an earlier process left in the spool are sent before anything is asked for.
class Runtime {
 public:
  // All must outlive the runtime. `spool` may be null: then a result lives in memory only.
  Runtime(RuntimeOptions options, CoordinatorApi* api, Runner* runner, const Spool* spool, WaitClock* clock);
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Works until Drain, with exit_when_done until the study is done, with exit_when_idle until there was no trial for so
  // long, with max_trials until so many have ended. To be called once. OK: drained, done or idle. INVALID_ARGUMENT,
  // UNAUTHENTICATED, PERMISSION_DENIED, UNIMPLEMENTED: the coordinator's, if it refuses asks for a reason that
  // repeating does not mend. FAILED_PRECONDITION: the study can't be evaluated here; no trial of it was taken (but for
  // one given back by a worker of any study, if its objective is external).
  absl::Status Run();

  // Stops asking. Running trials get `drain_timeout` to finish, then they are stopped and given back with their newest
  // checkpoint. Any thread; returns at once; repeating has no effect.
  void Drain();
  // Returns true once Run has returned because of Drain, whether or not trials were under way.
  bool Drained() { return roster_.Drained(); }
  // To be called when the process is about to end: kills what would outlive it. Any thread.
  void Abort() { runner_->Abort(); }

 private:
  void AskLoop();
  void HeartbeatLoop();
  void ReportLoop();
  void SlotLoop(int slot);

  // OK if workers evaluate the trials of all these studies.
  static absl::Status CheckObjectives(const std::vector<Lease>& leases);
  // Returns a Delivery for one thread, whose jitter differs from that of others.
  Delivery NewDelivery(int thread);

  const RuntimeOptions options_;
  CoordinatorApi* const api_;
  Runner* const runner_;
  const Spool* const spool_;
  WaitClock* const clock_;
  Contact contact_;
  Roster roster_;
  absl::Status fatal_;  // The asker's, until Run has joined it.
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_RUNTIME_RUNTIME_H_
