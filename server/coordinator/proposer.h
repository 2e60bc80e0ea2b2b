#ifndef LUTHIER_SERVER_COORDINATOR_PROPOSER_H_
#define LUTHIER_SERVER_COORDINATOR_PROPOSER_H_

#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/study/history.h"
#include "lib/suggest/designer.h"
#include "lib/suggest/registry.h"
#include "server/coordinator/core.h"

namespace luthier::coordinator {

// The history that a designer saw at `prefix_seq`, from the trials' rows alone: which were stored and which had
// finished by then. Errors as Storage.
absl::StatusOr<study::History> HistoryAt(storage::Storage* storage, storage::StudyKey study,
                                         const study::MetricSpec& metric, uint64_t prefix_seq);

// Makes the designer of a study: suggest::CreateDesigner, but for tests.
using DesignerFactory = std::function<std::unique_ptr<suggest::Designer>(const study::StudySpec&)>;

// One suggestion. `history` must hold all asks of smaller index. Absent: a reproducible study waits for a trial.
// A designer that fails for no good reason, or asks for an impossible direction, is replaced, for this ask, by a random
// setting of origin "designer_failed".
// Errors: OUT_OF_RANGE SPACE_EXHAUSTED.
absl::StatusOr<std::optional<suggest::Suggestion>> SuggestOne(suggest::Designer* designer, const study::StudySpec& spec,
                                                              const study::History& history, uint64_t ask_index);

// Keeps a designer and a history for each study that asks. Used by one thread.
class Proposer {
 public:
  // `storage` must outlive it.
  explicit Proposer(storage::Storage* storage, DesignerFactory create = suggest::CreateDesigner)
      : storage_(storage), create_(std::move(create)) {}

  // In order of seq. Studies that never asked are skipped: their first request reads storage.
  void Update(const HistoryUpdate& update);
  void Forget(storage::StudyKey study);
  ProposalsOp Propose(const ProposalRequest& request, const std::shared_ptr<const study::StudySpec>& spec);

 private:
  struct Entry {
    std::unique_ptr<suggest::Designer> designer;
    study::History history;
    uint64_t seq = 0;
    bool uses_history = true;
  };
  storage::Storage* const storage_;
  const DesignerFactory create_;
  std::map<storage::StudyKey, Entry> entries_;
};

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_PROPOSER_H_
