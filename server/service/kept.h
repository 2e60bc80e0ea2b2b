#ifndef LUTHIER_SERVER_SERVICE_KEPT_H_
#define LUTHIER_SERVER_SERVICE_KEPT_H_

#include <atomic>

#include "server/service/backend.h"
#include "server/service/importances.h"
#include "server/service/legal_shares.h"
#include "server/service/trial_table.h"

namespace luthier::service {

// State that calls keep for later ones. Thread-safe.
struct Kept {
  explicit Kept(const Backend& backend) : tables(backend.memory, backend.clock) {}

  TrialTables tables;
  Importances importances;
  LegalShares legal_shares;
  std::atomic<bool> computing{false};  // True while importance or a prediction is computed.
  std::atomic<int> watchers{0};        // Streams that are open.
};

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_KEPT_H_
