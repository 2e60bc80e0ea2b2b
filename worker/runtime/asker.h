#ifndef LUTHIER_WORKER_RUNTIME_ASKER_H_
#define LUTHIER_WORKER_RUNTIME_ASKER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lib/base/backoff.h"
#include "worker/disk/spool.h"
#include "worker/run/coordinator_api.h"
#include "worker/run/runner.h"
#include "worker/runtime/contact.h"
#include "worker/runtime/options.h"
#include "worker/runtime/wait_clock.h"

namespace luthier::worker {

// Asks the coordinator for trials. For a worker of one study it reads the spec first and opens the study; while results
// could not be kept on disk it asks for none. Used by one thread.
class Asker {
 public:
  // All pointers must outlive it. `spool` may be null.
  Asker(const RuntimeOptions* options, CoordinatorApi* api, Runner* runner, const Spool* spool, Contact* contact,
        WaitClock* clock);

  // The outcome of one call.
  struct Answer {
    std::vector<Lease> leases;
    absl::Duration next;   // When to ask again; InfiniteDuration: never.
    absl::Status error;    // The reason if it is never; OK: the study is done.
    bool nothing = false;  // True if the coordinator answered that there is no trial.
  };
  // Makes at most one call, for `count` trials, that waits for them for `longest_wait` at most. An error is the
  // coordinator's if it refuses asks for a reason that repeating does not mend, or FAILED_PRECONDITION if the study
  // can't be evaluated here.
  Answer Ask(int count, absl::Duration longest_wait);
  // Returns what the newest ask was granted if its answer has not arrived: it may have been cancelled on its way. To be
  // called once, when no more is asked for. Takes half a second at most.
  std::vector<Lease> Recall();

 private:
  // True if the spool takes results, or there is none. Says so in the log when that changes.
  bool CanKeepResults();
  Answer OpenStudy();
  Answer Suggest(int count, absl::Duration longest_wait);
  // Judges an error of a call.
  Answer AfterError(const absl::Status& status);
  std::string NewRequestId();

  const RuntimeOptions& options_;
  CoordinatorApi* const api_;
  Runner* const runner_;
  const Spool* const spool_;
  Contact* const contact_;
  WaitClock* const clock_;
  base::Backoff backoff_;
  bool open_;               // The study is open, or there is none to open.
  SuggestRequest request_;  // The newest request.
  bool settled_ = true;     // The newest request is settled, so that the next gets a new id.
  uint64_t requests_ = 0;
  bool not_found_logged_ = false;
  bool spool_failed_ = false;
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_RUNTIME_ASKER_H_
