#ifndef LUTHIER_SERVER_COORDINATOR_BATCH_CONTEXT_H_
#define LUTHIER_SERVER_COORDINATOR_BATCH_CONTEXT_H_

#include <cstdint>

#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "lib/stopping/stopper.h"
#include "lib/study/quotas.h"
#include "server/coordinator/batch/batch.h"
#include "server/coordinator/leases.h"
#include "server/coordinator/messages/limits.h"
#include "server/coordinator/request_log.h"
#include "server/coordinator/state/core_state.h"
#include "server/coordinator/state/load.h"
#include "server/storage/storage.h"

namespace luthier::coordinator {

struct CoreOptions {
  uint64_t token_seed = 0;     // Seeds the random half of lease tokens: from the system's entropy in production.
  int failures_to_pause = 20;  // Failures in a row that pause a study.
  int alike_to_pause = 3;      // First failures of one cause that pause a study (CommonFailure).
  absl::Duration alike_within = absl::Seconds(5);
  absl::Duration request_lifetime = absl::Hours(24);  // Uptime for which a request is remembered.
  // A longer time between two batches is the coordinator's own fault, and every lease is extended by it.
  absl::Duration stall = absl::Seconds(1);
  // Time that asks wait for suggestions of one study while other studies wait, too (StoreLate).
  absl::Duration suggest_deadline = absl::Seconds(10);
  Limits limits;
  StopperFactory stoppers = stopping::CreateStopper;
  const study::QuotaTable* quotas = nullptr;  // Must outlive the core. Null: no project has any.
};

// The functions of the core work on this. One thread (the writer) uses it; only `leases` is shared with others.
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

// LoadState and LoadStudy read from this.
inline Source SourceOf(const Context& c) {
  return {c.storage, c.leases, c.options.stoppers, c.batch.now};
}

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_BATCH_CONTEXT_H_
