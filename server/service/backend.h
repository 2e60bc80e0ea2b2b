#ifndef LUTHIER_SERVER_SERVICE_BACKEND_H_
#define LUTHIER_SERVER_SERVICE_BACKEND_H_

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/clock.h"
#include "lib/base/executor.h"
#include "server/access/access.h"
#include "server/coordinator/writer/coordinator.h"
#include "server/service/memory_guard.h"
#include "server/service/worker_log.h"
#include "server/storage/storage.h"

namespace luthier::service {

// The server that calls work for; all of it outlives them.
struct Backend {
  coordinator::Coordinator* coordinator = nullptr;
  storage::Storage* storage = nullptr;
  base::Executor* readers = nullptr;  // Get, List, Watch: SQLite must not run on the transports' threads.
  const base::Clock* clock = nullptr;
  const MemoryGuard* memory = nullptr;         // Null: there is no limit.
  coordinator::Observer* observer = nullptr;   // Is told of refusals. Null: nobody is.
  const std::atomic<bool>* closing = nullptr;  // True when connections are about to end. Null: never.
  access::Access* access = nullptr;            // Null: all callers are equal.
  WorkerLog* workers = nullptr;                // Is told of workers that call. Null: nobody is.
  // Threads of low priority for reads that look at all of a study, so that results are accepted beside them. Null:
  // `readers`.
  base::Executor* scanners = nullptr;
  // Returns the address of the page, "" if there is none; and opens one for this machine, unless there is one. Null:
  // this coordinator has none, and opens none.
  std::function<std::string()> page_url = nullptr;
  std::function<absl::StatusOr<std::string>()> open_page = nullptr;

  // Admits a call that brings work, or one that ends it (MemoryGuard). UNAVAILABLE DRAINING when `closing`.
  absl::Status Admit(coordinator::OperationClass operation_class, MemoryGuard::Kind kind) const {
    if (closing != nullptr && *closing) return Refused(coordinator::Draining(), operation_class);
    absl::Status within = memory == nullptr ? absl::OkStatus() : memory->Admit(kind);
    return within.ok() ? within : Refused(std::move(within), operation_class);
  }

  // Reserves memory for what a call makes. RESOURCE_EXHAUSTED MEMORY. No call gets more than a sixteenth of the limit
  // promised; otherwise a small limit would admit none.
  absl::StatusOr<MemoryGuard::Promise> TakeMemory(int64_t bytes) const {
    if (memory == nullptr || memory->limit() == 0) return MemoryGuard::Promise();
    return memory->Take(MemoryGuard::Kind::kWork, std::min(bytes, memory->limit() / 16));
  }

  // Reserves memory for the history of a study and what a designer makes of it. Errors as Storage, and as above.
  absl::StatusOr<MemoryGuard::Promise> TakeForHistory(const storage::StudyRecord& study) const {
    if (memory == nullptr || memory->limit() == 0) return MemoryGuard::Promise();
    const absl::StatusOr<storage::Storage::Summary> summary = storage->Summarize(study);
    if (!summary.ok()) return summary.status();
    constexpr int64_t kTrial = 1024, kParameter = 256;  // Twice what a history takes of each, for the time it is read.
    const int64_t trials = std::accumulate(summary->by_state.begin(), summary->by_state.end(), int64_t{0});
    return memory->Take(MemoryGuard::Kind::kWork, trials * (kTrial + kParameter * study.spec.space.scalars()));
  }

  // Tells the observer of a request that is refused. Returns `why`.
  absl::Status Refused(absl::Status why,
                       coordinator::OperationClass operation_class = coordinator::OperationClass::kRequests) const {
    if (observer != nullptr) observer->OnRefused(operation_class, why);
    return why;
  }
};

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_BACKEND_H_
