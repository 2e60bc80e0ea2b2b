#ifndef LUTHIER_WORKER_OBJECTIVES_EXIT_STATUS_H_
#define LUTHIER_WORKER_OBJECTIVES_EXIT_STATUS_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "lib/study/trial.h"

namespace luthier::worker {

// Returns what the end of a program that nobody stopped, as waitpid tells it, says of its trial; nothing if it exited
// with 0. `errors`: the end of its standard error, where words about memory count if it has a limit of it; 0: no limit.
std::optional<study::Failure> JudgeExit(int wait_status, int64_t memory_limit_bytes, absl::string_view errors);

// True if it exited with a code of its own that does not ask for another try.
bool ExitedForGood(int wait_status);

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_OBJECTIVES_EXIT_STATUS_H_
