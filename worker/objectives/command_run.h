#ifndef LUTHIER_WORKER_OBJECTIVES_COMMAND_RUN_H_
#define LUTHIER_WORKER_OBJECTIVES_COMMAND_RUN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "worker/objectives/command_options.h"
#include "worker/objectives/command_results.h"
#include "worker/objectives/output.h"
#include "worker/process/process.h"
#include "worker/run/runner.h"
#include "worker/run/stop_signal.h"

namespace luthier::worker {

// One run of a program from its start to the outcome: it reads what the program writes, passes on what the worker is
// told, and stops the program when it has to. Used by one thread.
class CommandRun {
 public:
  // All must outlive it. `withheld`: PreparedCommand::withheld.
  CommandRun(const CommandOptions& options, const RunRequest& request, std::vector<std::string> withheld,
             RunSink* sink);

  // To be called first. INVALID_ARGUMENT if a pattern does not compile.
  absl::Status PreparePatterns() { return results_.PreparePatterns(); }
  // Returns when the program has ended; then Finish.
  void Watch(Process* process);
  RunOutcome Finish(Process* process, int wait_status);

 private:
  enum class Ending { kNatural, kPause, kFinish, kStop, kTimeout, kBadLine };

  absl::Duration Now() const { return clock_.Monotonic(); }
  // Tells the program what it is asked for, and stops it when its time is up.
  void Steer(Process* process, absl::Duration now, StopReason reason);
  // Returns for how long at most to wait for something to read.
  int WaitMilliseconds(absl::Duration now, StopReason reason) const;
  void Terminate(Process* process, Ending why);
  // Read what is available, at most `chunks` times; a closed descriptor becomes -1.
  void ReadOut(int* fd, int chunks);
  void ReadError(int* fd, int chunks);
  void ReadResults(int* fd, int chunks);
  RunOutcome Judge(const Process& process, int wait_status);
  // Completes the message of a failure with the end of standard error.
  void AddErrors(std::string* message) const;
  // Notes which variables the message of a failed program mentions that were kept from it.
  void NoteWithheld(absl::string_view failure);

  const CommandOptions& options_;
  const study::CommandObjective& command_;
  const std::vector<std::string> withheld_;
  RunSink* const sink_;
  const base::SystemClock clock_;

  CommandResults results_;
  Tail all_tail_{kTailBytes}, error_tail_{kTailBytes};
  Ending ending_ = Ending::kNatural;
  bool finish_sent_ = false;  // The program was asked to finish.
  bool pause_sent_ = false;   // The program was asked to pause or finish; it has until `pause_until_`.
  absl::Duration deadline_ = absl::InfiniteDuration();
  absl::Duration pause_until_ = absl::InfiniteDuration();
  absl::Duration kill_at_ = absl::InfiniteDuration();
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_OBJECTIVES_COMMAND_RUN_H_
