#include "worker/objectives/exit_status.h"

#include <string.h>
#include <sys/wait.h>

#include <csignal>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace luthier::worker {
namespace {

constexpr int kTempFail = 75;  // EX_TEMPFAIL of sysexits.h

bool SpeaksOfMemory(absl::string_view text) {
  const std::string lower = absl::AsciiStrToLower(text);
  for (const char* word : {"memoryerror", "bad_alloc", "cannot allocate memory", "out of memory", "outofmemory",
                           "unable to allocate", "memory exhausted"}) {
    if (absl::StrContains(lower, word)) return true;
  }
  return false;
}

std::string SignalText(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? absl::StrCat("SIG", name) : absl::StrCat("signal ", signal);
}

}  // namespace

bool ExitedForGood(int wait_status) {
  return WIFEXITED(wait_status) && WEXITSTATUS(wait_status) != kTempFail;
}

std::optional<study::Failure> JudgeExit(int wait_status, int64_t memory_limit_bytes, absl::string_view errors) {
  const bool limited = memory_limit_bytes > 0;
  const bool memory_words = limited && SpeaksOfMemory(errors);
  const int signal = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
  const int code = signal == 0 ? WEXITSTATUS(wait_status) : 0;
  if (signal == 0 && code == 0) return std::nullopt;
  if (code == kTempFail) {
    return study::Failure{study::FailureKind::kInfra, study::failure::kExitCode, "exit code 75 (temporary failure)"};
  }
  std::string what = signal != 0 ? absl::StrCat("killed by ", SignalText(signal)) : absl::StrCat("exit code ", code);
  if (memory_words || (limited && (signal == SIGKILL || signal == SIGABRT))) {
    absl::StrAppend(&what, ", with a memory limit of ", memory_limit_bytes >> 20, " MiB");
    return study::Failure{study::FailureKind::kConfig, study::failure::kMemoryLimit, what};
  }
  if (signal == 0) return study::Failure{study::FailureKind::kConfig, study::failure::kExitCode, what};
  if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP) {
    absl::StrAppend(&what, ", which this worker did not send");
    return study::Failure{study::FailureKind::kInfra, study::failure::kSignal, what};
  }
  if (signal == SIGKILL) absl::StrAppend(&what, ", perhaps because the machine ran out of memory");
  return study::Failure{study::FailureKind::kConfig, study::failure::kSignal, what};
}

}  // namespace luthier::worker
