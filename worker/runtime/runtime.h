#ifndef LUTHIER_WORKER_RUNTIME_H_
#define LUTHIER_WORKER_RUNTIME_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lib/base/backoff.h"
#include "lib/base/mutex.h"
#include "lib/base/random.h"
#include "worker/coordinator_api.h"
#include "worker/report_queue.h"
#include "worker/runner.h"
#include "worker/spool.h"
#include "worker/wait_clock.h"

namespace luthier::worker {

inline constexpr int kMaxSlots = 64;  // One heartbeat lists all leases.

struct RuntimeOptions {
  std::string worker;           // [a-z0-9][a-z0-9_.-]{0,63}, unique among the workers of a coordinator.
  std::string study;            // Id; empty: any study.
  int slots = 1;                // Trials at once, 1 … kMaxSlots.
  bool exit_when_done = false;  // Run returns when the study (which must be named) is done.
  int64_t max_trials = 0;       // Run returns when so many trials have ended here; 0: no limit.
  absl::Duration drain_timeout = absl::Seconds(2);    // Time from Drain until running trials are told to stop.
  absl::Duration delivery_timeout = absl::Hours(24);  // A result that can't be sent for so long stays in the spool.
  absl::Duration drain_delivery_timeout = absl::Seconds(5);  // The same while draining.
  uint64_t seed = 0;  // Seed of request ids and jitter: must differ from process to process.
};

// Lease -> run -> heartbeat -> report -> complete, for `slots` trials at once.
//
// Threads: one asker; one heartbeat thread for all leases, which does nothing else; one reporter, so that no run waits
// for the network; `slots` threads that run objectives and then deliver their results. A coordinator that is out of
// reach ends no run: training, heartbeats and sending go on, with backoff. Only the directives STOP and LOST end a run.
//
// A result is written to the spool, and waiting points of the curve are sent. Then the result is sent again and again
// until it is accepted or refused for good (LEASE_LOST, TRIAL_FINAL, CONFLICTING_REPORT, NOT_FOUND: discarded with a
// log line). A result that the service finds malformed is sent without its gradient, then as FAILED(CONFIG,
// BAD_OUTPUT). Until then its lease is kept alive. Results that an earlier process left in the spool are sent before
// anything is asked for.
class Runtime {
 public:
  // All must outlive the runtime. `spool` may be null: then a result lives in memory only.
  Runtime(RuntimeOptions options, CoordinatorApi* api, Runner* runner, const Spool* spool, WaitClock* clock);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Works until Drain, with exit_when_done until the study is done, with max_trials until so many have ended. To be
  // called once. OK: drained or done. INVALID_ARGUMENT, UNAUTHENTICATED, PERMISSION_DENIED, UNIMPLEMENTED: the
  // coordinator's, if it refuses asks for a reason that repeating does not mend. FAILED_PRECONDITION: the study can't
  // be evaluated here; no trial of it was taken (but for one given back by a worker of any study, if its objective is
  // external).
  absl::Status Run();

  // Stops asking. Running trials get `drain_timeout` to finish, then they are stopped and given back with their newest
  // checkpoint. Any thread; returns at once; repeating has no effect.
  void Drain();
  // To be called when the process is about to end: kills what would outlive it. Any thread.
  void Abort() { runner_->Abort(); }

 private:
  class ActiveRun;
  enum class Delivery { kAccepted, kRefused, kMalformed, kKept };

  void AskLoop();
  void HeartbeatLoop();
  void ReportLoop();
  void SlotLoop(int slot);

  // Sends results that an earlier process left in the spool.
  void DeliverLeftovers();
  // True if the spool takes results, or there is none. Says so in the log when that changes.
  bool CanKeepResults();
  // For a worker of one study: reads its spec and opens it. Returns when to try again; ZeroDuration if it is open;
  // InfinitePast to stop, with `fatal_` set.
  absl::Duration OpenStudy(base::Backoff* backoff) ABSL_LOCKS_EXCLUDED(mutex_);
  // Judges an error of a call by the asker. Returns when to try again, InfinitePast to stop.
  absl::Duration AfterError(const absl::Status& status, base::Backoff* backoff) ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes one call of Suggest and starts the runs of its leases. `fresh`: true if the last request is settled, so that
  // the next gets a new id. Returns when to ask again; InfinitePast to stop asking.
  absl::Duration AskOnce(int count, base::Backoff* backoff, bool* fresh) ABSL_LOCKS_EXCLUDED(mutex_);
  void StartRuns(std::vector<Lease> leases) ABSL_LOCKS_EXCLUDED(mutex_);
  std::string NewRequestId();

  // Sends one heartbeat for all leases.
  absl::Status Beat() ABSL_LOCKS_EXCLUDED(mutex_);
  // Sends the oldest waiting points; OK also if they were refused for good. Releases the mutex meanwhile.
  absl::Status SendReports(ActiveRun* run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FlushReports(ActiveRun* run, base::Backoff* backoff) ABSL_LOCKS_EXCLUDED(mutex_);

  // Returns the number of trials to ask for now.
  int Wanted() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns true if the trial has ended: it is not tried again.
  bool Execute(ActiveRun* run, base::Backoff* backoff);
  // Makes the result of a run that has returned, and corrects the outcome by what was asked of it meanwhile.
  FinalResult Settle(ActiveRun* run, RunOutcome* outcome);
  // Gives back, or gives up, a run that stopped before its end. Returns whether the trial is final; nothing if the run
  // stopped without being asked to.
  std::optional<bool> EndStopped(ActiveRun* run, const FinalResult& result, base::Backoff* backoff);
  void ReturnLease(const Lease& lease, const std::string& checkpoint, int64_t checkpoint_step, base::Backoff* backoff);
  // Spools and sends the result, and follows the answer. True when the trial is final.
  bool DeliverDurably(FinalResult result, base::Backoff* backoff);
  Delivery Deliver(const FinalResult& result, base::Backoff* backoff, absl::Status* error);

  // Counts the reasons to repeat waiting calls at once: the drain, and the coordinator's return.
  uint64_t Hurry() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits before a call that began at `start` is repeated. False when it is time to give up. Returns early if a reason
  // to hurry came after Hurry() had returned `hurry`. That must be from before the try that failed, so that no reason
  // is missed that came during it.
  bool WaitToRetry(absl::Duration start, uint64_t hurry, absl::Duration wait) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Duration GiveUpTime(absl::Duration start) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Logs the first failure and the first success after it.
  void NoteContact(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

  const RuntimeOptions options_;
  CoordinatorApi* const api_;
  Runner* const runner_;
  const Spool* const spool_;
  WaitClock* const clock_;

  base::Mutex mutex_;
  base::CondVar changed_;  // Signalled at any change of what follows.
  // Leases that are held, by token, until their results are settled.
  std::map<std::string, std::unique_ptr<ActiveRun>> active_ ABSL_GUARDED_BY(mutex_);
  std::deque<ActiveRun*> ready_ ABSL_GUARDED_BY(mutex_);  // Not yet taken by a slot.
  int64_t ended_ ABSL_GUARDED_BY(mutex_) = 0;             // Trials that ended here.
  bool asker_done_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;  // All threads are to end.
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration drain_deadline_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  absl::Status fatal_ ABSL_GUARDED_BY(mutex_);
  bool away_ ABSL_GUARDED_BY(mutex_) = false;
  // Counts the moments from which waiting to repeat a call makes no sense: the coordinator is back, or this worker
  // drains.
  uint64_t hurry_ ABSL_GUARDED_BY(mutex_) = 0;

  // The asker's own.
  bool open_ = false;
  uint64_t requests_ = 0;
  SuggestRequest request_;  // The newest request.
  bool not_found_logged_ = false;
  bool spool_failed_ = false;
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_RUNTIME_H_
