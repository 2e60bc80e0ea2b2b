#include "worker/objectives/command.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/objectives/command_inputs.h"
#include "worker/objectives/command_run.h"
#include "worker/process/private_directory.h"

namespace luthier::worker {
namespace {

// Returns the outcome for an error before the program runs.
RunOutcome StartFailure(const absl::Status& status) {
  const std::string message(status.message());
  if (absl::IsUnavailable(status)) return Failed(study::FailureKind::kInfra, kWorkerError, message);
  if (absl::IsResourceExhausted(status)) {
    return Failed(study::FailureKind::kConfig, study::failure::kMemoryLimit, message);
  }
  return Failed(study::FailureKind::kConfig, study::failure::kBadObjective, message);
}

}  // namespace

absl::Status CommandRunner::Open(const study::StudySpec& spec) {
  const auto& command = std::get<study::CommandObjective>(spec.objective);
  const bool fixed = !command.argv.empty() && !absl::StrContains(command.argv[0], "{") &&
                     !absl::StrContains(command.argv[0], "}") && command.environment.count("PATH") == 0;
  if (!fixed) return absl::OkStatus();
  const char* path = std::getenv("PATH");
  const absl::Status found = FindProgram(command.argv[0], path != nullptr ? path : "").status();
  if (found.ok()) return found;
  return absl::Status(found.code(), absl::StrCat("objective.command.argv[0]: ", std::string(found.message())));
}

RunOutcome CommandRunner::Run(const RunRequest& request, RunSink* sink) {
  if (sink->stop().requested()) {
    RunOutcome stopped;
    stopped.result = RunResult::kStopped;
    return stopped;
  }
  const absl::StatusOr<PrivateDirectory> directory = PrivateDirectory::Create(options_.temporary_root);
  if (!directory.ok()) return StartFailure(directory.status());
  absl::StatusOr<PreparedCommand> prepared = PrepareCommand(options_, request, *directory);
  if (!prepared.ok()) return StartFailure(prepared.status());
  CommandRun run(options_, request, std::move(prepared->withheld), sink);
  if (const absl::Status patterns = run.PreparePatterns(); !patterns.ok()) return StartFailure(patterns);

  absl::StatusOr<std::unique_ptr<Process>> process = Process::Start(keeper_, prepared->process);
  if (!process.ok()) return StartFailure(process.status());
  {
    const base::MutexLock lock(&mutex_);
    running_.insert(process->get());
    if (aborted_) (*process)->KillAll();
  }
  run.Watch(process->get());
  const int status = (*process)->Reap();
  {
    const base::MutexLock lock(&mutex_);
    running_.erase(process->get());
  }
  return run.Finish(process->get(), status);
}

void CommandRunner::Abort() {
  const base::MutexLock lock(&mutex_);
  aborted_ = true;
  for (Process* const process : running_) process->KillAll();
}

}  // namespace luthier::worker
