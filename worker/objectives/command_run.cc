#include "worker/objectives/command_run.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "worker/objectives/exit_status.h"
#include "worker/process/environment.h"
#include "worker/run/stop_signal.h"

namespace luthier::worker {
namespace {

constexpr absl::Duration kLongestWait = absl::Minutes(1);
constexpr absl::Duration kLook = absl::Milliseconds(200);  // Time between two looks at a stop that no descriptor tells.

// Reads what is available, at most `chunks` times, and hands it to `take`; a closed descriptor becomes -1.
template <typename Take>
void Read(int* fd, int chunks, const Take& take) {
  std::array<char, 1 << 16> buffer;
  while (*fd >= 0 && chunks-- > 0) {
    const ssize_t got = read(*fd, buffer.data(), buffer.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
      *fd = -1;
      return;
    }
    take(absl::string_view(buffer.data(), static_cast<size_t>(got)));
  }
}

// True if the program may take its time to end, and its result counts.
bool EndsWell(StopReason reason) {
  return reason == StopReason::kPause || reason == StopReason::kFinish;
}

RunOutcome Stopped() {
  RunOutcome stopped;
  stopped.result = RunResult::kStopped;
  return stopped;
}

}  // namespace

CommandRun::CommandRun(const CommandOptions& options, const RunRequest& request, std::vector<std::string> withheld,
                       RunSink* sink)
    : options_(options),
      command_(std::get<study::CommandObjective>(request.spec.objective)),
      withheld_(std::move(withheld)),
      sink_(sink),
      results_(request, sink) {}

void CommandRun::ReadOut(int* fd, int chunks) {
  Read(fd, chunks, [this](absl::string_view bytes) {
    all_tail_.Add(bytes);
    results_.AddStdout(bytes);
  });
}

void CommandRun::ReadError(int* fd, int chunks) {
  Read(fd, chunks, [this](absl::string_view bytes) {
    all_tail_.Add(bytes);
    error_tail_.Add(bytes);
  });
}

void CommandRun::ReadResults(int* fd, int chunks) {
  Read(fd, chunks, [this](absl::string_view bytes) { results_.AddResults(bytes); });
}

// --- While it runs ---

void CommandRun::Terminate(Process* process, Ending why) {
  ending_ = why;
  results_.Interrupt();
  kill_at_ = Now() + options_.grace;
  process->SignalGroup(SIGTERM);
  process->SignalGroup(SIGCONT);  // A stopped process would not see it.
}

void CommandRun::Steer(Process* process, absl::Duration now, StopReason reason) {
  const bool stop_seen = reason != StopReason::kNone;
  const bool natural = ending_ == Ending::kNatural;
  if (stop_seen && !EndsWell(reason) && (natural || ending_ == Ending::kPause || ending_ == Ending::kFinish)) {
    process->SendLine(absl::StrCat("{\"directive\": \"stop\", \"reason\": \"", StopReasonName(reason), "\"}"));
    Terminate(process, Ending::kStop);
  } else if (!natural) {
    // It has been told to end, and has until `kill_at_`.
  } else if (!finish_sent_ && reason == StopReason::kFinish) {
    process->SendLine("{\"directive\": \"finish\"}");
    finish_sent_ = pause_sent_ = true;
    pause_until_ = std::min(pause_until_, now + options_.wish);
  } else if (!pause_sent_ && (results_.reached_target() || stop_seen)) {
    process->SendLine("{\"directive\": \"pause\"}");
    pause_sent_ = true;
    pause_until_ = now + options_.wish;
  } else if (now >= pause_until_) {
    Terminate(process, finish_sent_ ? Ending::kFinish : Ending::kPause);
  } else if (now >= deadline_) {
    Terminate(process, Ending::kTimeout);
  } else if (!results_.bad_line().empty()) {
    Terminate(process, Ending::kBadLine);
  }
  if (now >= kill_at_) {
    process->KillAll();
    kill_at_ = absl::InfiniteDuration();
  }
}

int CommandRun::WaitMilliseconds(absl::Duration now, StopReason reason) const {
  absl::Duration next = std::min(results_.held_since() + options_.hold, kill_at_);
  if (ending_ == Ending::kNatural) next = std::min({next, deadline_, pause_until_});
  // A descriptor tells the first reason to stop; what replaces it has to be looked for.
  const bool may_change = reason == StopReason::kNone ? sink_->stop().fd() < 0 : EndsWell(reason);
  const absl::Duration wait = std::min(next - now, may_change ? kLook : kLongestWait);
  return static_cast<int>(std::max(std::ceil(absl::ToDoubleMilliseconds(wait)), 0.0));
}

void CommandRun::Watch(Process* process) {
  deadline_ = Now() + command_.timeout;
  int out = process->stdout_fd(), error = process->stderr_fd(), result = process->result_fd();
  while (!process->HasEnded()) {
    const absl::Duration now = Now();
    // It is looked at once a turn: a stop that comes later makes the descriptor below readable.
    const StopReason reason = sink_->stop().reason();
    Steer(process, now, reason);
    if (now >= results_.held_since() + options_.hold) {
      results_.EmitHeld();
      continue;
    }
    const int wait = WaitMilliseconds(now, reason);
    const int stop = reason == StopReason::kNone ? sink_->stop().fd() : -1;
    std::array<pollfd, 5> fds = {pollfd{out, POLLIN, 0}, pollfd{error, POLLIN, 0}, pollfd{result, POLLIN, 0},
                                 pollfd{process->exit_fd(), POLLIN, 0}, pollfd{stop, POLLIN, 0}};
    if (poll(fds.data(), fds.size(), wait) < 0) continue;  // EINTR
    if (fds[0].revents != 0) ReadOut(&out, 1);
    if (fds[1].revents != 0) ReadError(&error, 1);
    if (fds[2].revents != 0) ReadResults(&result, 1);
  }
}

// --- When it has ended ---

RunOutcome CommandRun::Finish(Process* process, int wait_status) {
  // Everything that was written is in the pipes now. The number of chunks is bounded, since a process that another
  // daemon started may write for ever.
  constexpr int kMaxChunks = 256;
  int out = process->stdout_fd(), error = process->stderr_fd(), result = process->result_fd();
  ReadResults(&result, kMaxChunks);
  ReadOut(&out, kMaxChunks);
  ReadError(&error, kMaxChunks);
  results_.Finish();
  RunOutcome outcome = Judge(*process, wait_status);
  if (outcome.result == RunResult::kFailed || outcome.result == RunResult::kStopped) results_.EmitHeld();
  if (outcome.result == RunResult::kFailed) {
    AddErrors(&outcome.failure.message);
    NoteWithheld(outcome.failure.message);
  }
  outcome.checkpoint = results_.checkpoint();
  std::string tail(all_tail_.bytes());
  for (const std::string& note : results_.notes()) absl::StrAppend(&tail, "\n[luthier-worker] ", note);
  outcome.output_tail = PrintableTail(tail, kTailBytes);
  return outcome;
}

RunOutcome CommandRun::Judge(const Process& process, int wait_status) {
  if (ending_ == Ending::kStop) return Stopped();
  if (process.lost()) {
    return Failed(study::FailureKind::kInfra, kWorkerError,
                  "the process that looked after the program was killed, and the program with it");
  }
  switch (ending_) {
    case Ending::kStop:
      break;
    case Ending::kPause:
      results_.Note("it did not end at its target by itself and was stopped");
      return results_.Outcome();
    case Ending::kFinish:
      results_.Note("it did not end when it was asked to and was stopped");
      return results_.Outcome();
    case Ending::kTimeout:
      return Failed(study::FailureKind::kConfig, study::failure::kTimeout,
                    absl::StrCat("no result after ", absl::FormatDuration(command_.timeout)));
    case Ending::kBadLine:
      return Failed(study::FailureKind::kConfig, study::failure::kBadOutput, results_.bad_line());
    case Ending::kNatural:
      break;
  }
  // A program may end at its own line that can't be read before it is stopped for it.
  if (ExitedForGood(wait_status) && !results_.bad_line().empty()) {
    return Failed(study::FailureKind::kConfig, study::failure::kBadOutput, results_.bad_line());
  }
  const std::optional<study::Failure> failure =
      JudgeExit(wait_status, command_.memory_limit_bytes, error_tail_.bytes());
  return failure ? Failed(failure->kind, failure->reason, failure->message) : results_.Outcome();
}

void CommandRun::AddErrors(std::string* message) const {
  const absl::string_view errors = absl::StripTrailingAsciiWhitespace(error_tail_.bytes());
  if (errors.empty() || message->size() + 1 >= kTailBytes) return;
  absl::StrAppend(message, "\n", PrintableTail(errors, kTailBytes - message->size() - 1));
}

void CommandRun::NoteWithheld(absl::string_view failure) {
  for (const std::string& name : withheld_) {
    if (command_.environment.contains(name) || !SpeaksOf(failure, name)) continue;
    results_.Note(absl::StrCat("the variable ", name,
                               " of the worker is not passed on to commands; start the worker with --env-allow ", name,
                               " to do so"));
  }
}

}  // namespace luthier::worker
