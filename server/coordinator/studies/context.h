#ifndef LUTHIER_SERVER_COORDINATOR_STUDIES_CONTEXT_H_
#define LUTHIER_SERVER_COORDINATOR_STUDIES_CONTEXT_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "lib/stopping/stopper.h"
#include "lib/study/quotas.h"
#include "server/coordinator/messages/limits.h"
#include "server/coordinator/studies/batch.h"
#include "server/coordinator/studies/core_state.h"
#include "server/coordinator/studies/leases.h"
#include "server/coordinator/studies/request_log.h"
#include "server/storage/storage.h"

namespace luthier::coordinator {

// Makes the rule that stops trials of a study early; null: none does.
using StopperFactory = std::function<std::unique_ptr<stopping::Stopper>(const study::StudySpec&)>;

// Deleted studies can be brought back for so long.
inline constexpr absl::Duration kDeletionLifetime = absl::Hours(7 * 24);

struct CoreOptions {
  uint64_t token_seed = 0;     // Seeds the random half of lease tokens: from the system's entropy in production.
  int failures_to_pause = 20;  // Failures in a row that pause a study.
  int alike_to_pause = 3;      // First failures of one cause that pause a study (CommonFailure).
  absl::Duration alike_within = absl::Seconds(5);
  absl::Duration request_lifetime = absl::Hours(24);     // Uptime for which a request is remembered.
  absl::Duration deletion_lifetime = kDeletionLifetime;  // Uptime for which a deleted study can be brought back.
  // A longer time between two batches is the coordinator's own fault, and every lease is extended by it.
  absl::Duration stall = absl::Seconds(1);
  // Time that asks wait for suggestions of one study while other studies wait, too (StoreLate).
  absl::Duration suggest_deadline = absl::Seconds(10);
  Limits limits;
  StopperFactory stoppers = stopping::CreateStopper;
  const study::QuotaTable* quotas = nullptr;  // Must outlive the core. Null: no project has any.
};

// Studies and operations work with this: the memory of the core, the batch under way, and what they were given. One
// thread (the writer) uses it; only `leases` is shared with others.
struct Context {
  storage::Storage* const storage;
  const base::Clock* const clock;
  LeaseTable* const leases;
  const CoreOptions options;
  RequestLog requests;
  CoreState state;
  Batch batch;
  Outbox outbox;
};

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STUDIES_CONTEXT_H_
