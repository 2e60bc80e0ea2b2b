#ifndef LUTHIER_WORKER_RUN_STOP_SIGNAL_H_
#define LUTHIER_WORKER_RUN_STOP_SIGNAL_H_

#include <atomic>

#include "absl/strings/string_view.h"
#include "lib/base/stop_token.h"

namespace luthier::worker {

// Reason for a run to end before its result.
enum class StopReason {
  kNone,
  kPause,   // The lease's target is reached: save a checkpoint and end. Any other reason may still follow.
  kFinish,  // Somebody asked for the trial's end: end soon; its result is what was reported. Any other reason may still
            // follow.
  kCancelled,  // The trial is final, cancelled or pruned by a stopping rule: nothing need be reported.
  kLost,       // Another worker holds the trial now: nothing may be reported.
  kRejected,   // The run reports something malformed (a gradient of the wrong length): the trial fails.
  kDrain,      // This worker is shutting down: the trial is given back with its checkpoint.
};
absl::string_view StopReasonName(StopReason reason);

// A signal that is set once, except that stronger reasons replace a pause and a finish. A run sees it by asking,
// through a file descriptor that becomes readable (so that a loop around poll() needs no timeout), or as the token that
// builtin objectives take. Thread-safe.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // Sets the reason, which must not be kNone. The first reason stays, but kFinish replaces kPause, and any other
  // replaces both.
  void Request(StopReason reason);
  bool requested() const { return reason() != StopReason::kNone; }
  StopReason reason() const { return reason_.load(); }
  // Returns a descriptor that is readable once a stop was requested; -1 if the process had no descriptor left: then ask
  // now and then.
  int fd() const { return fd_; }
  base::StopToken token() const { return source_.token(); }

 private:
  std::atomic<StopReason> reason_{StopReason::kNone};
  const base::StopSource source_;
  int fd_;
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_RUN_STOP_SIGNAL_H_
