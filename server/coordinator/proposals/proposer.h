#ifndef LUTHIER_SERVER_COORDINATOR_PROPOSALS_PROPOSER_H_
#define LUTHIER_SERVER_COORDINATOR_PROPOSALS_PROPOSER_H_

#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/search/designer.h"
#include "lib/search/registry.h"
#include "lib/study/history.h"
#include "server/coordinator/messages/operations.h"
#include "server/coordinator/proposals/timeline.h"

namespace luthier::coordinator {

// Makes the designer of a study: search::CreateDesigner, but for tests.
using DesignerFactory = std::function<std::unique_ptr<search::Designer>(const study::StudySpec&)>;

// Returns true if suggestions depend on the results so far. In an open space they do whatever the algorithm, as it
// grows.
bool UsesHistory(const study::StudySpec& spec);

// Returns one suggestion. `history` must hold all asks of smaller index. Absent: the designer must wait for a trial to
// pause or to end. If the designer fails unexpectedly, asks for an impossible direction, or continues a trial that
// can't be continued, a random setting of origin "designer_failed" takes the suggestion's place; if the budget has no
// room for one, SPACE_EXHAUSTED. Errors: OUT_OF_RANGE SPACE_EXHAUSTED; CANCELLED.
absl::StatusOr<std::optional<search::Suggestion>> SuggestOne(search::Designer* designer, const study::StudySpec& spec,
                                                             const study::History& history, uint64_t ask_index,
                                                             const base::StopToken& stop);

// Adds a suggestion that is on its way to the store to the history, so that asks of larger index know of it.
void Note(const search::Suggestion& suggestion, uint64_t ask_index, study::History* history);

// One study's designer, with the history that it was told. Used by one thread at a time.
class StudyProposer {
 public:
  // `storage` must outlive it. The history is read from there when it is first needed.
  StudyProposer(storage::Storage* storage, storage::StudyKey study, std::shared_ptr<const study::StudySpec> spec,
                const DesignerFactory& create);

  // Takes in an update. In order of seq.
  void Update(const HistoryUpdate& update);
  // Computes the suggestions of `request`, which is the next of this study: earlier ones are in the history. CANCELLED:
  // nothing was suggested, and the request may be repeated.
  absl::StatusOr<ProposalsOp> Propose(const ProposalRequest& request, const base::StopToken& stop);

  // Estimates the bytes that designer and history hold.
  int64_t bytes() const;
  const study::StudySpec* spec() const { return spec_.get(); }

 private:
  // Reads the history. NOT_FOUND for a study that was deleted, DATA_LOSS for one that is damaged, and errors of
  // storage.
  absl::Status ReadHistory(uint64_t prefix_seq);

  storage::Storage* const storage_;
  const storage::StudyKey study_;
  const std::shared_ptr<const study::StudySpec> spec_;
  const std::unique_ptr<search::Designer> designer_;
  const bool uses_history_;
  bool read_;  // True once `history_` was read.
  study::History history_;
  uint64_t seq_ = 0;  // `history_` holds all updates up to it.
};

// Holds a StudyProposer for each study that asks, at most kMost. Beyond that all are dropped, and made again when they
// ask. Used by one thread.
class Proposer {
 public:
  static constexpr size_t kMost = 1000;

  // `storage` must outlive it.
  explicit Proposer(storage::Storage* storage, DesignerFactory create = search::CreateDesigner)
      : storage_(storage), create_(std::move(create)) {}

  // Takes in an update. In order of seq. Studies that never asked are skipped: their first request reads storage.
  void Update(const HistoryUpdate& update);
  void Forget(storage::StudyKey study) { studies_.erase(study); }
  ProposalsOp Propose(const ProposalRequest& request, const std::shared_ptr<const study::StudySpec>& spec);

 private:
  storage::Storage* const storage_;
  const DesignerFactory create_;
  std::map<storage::StudyKey, StudyProposer> studies_;
};

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_PROPOSALS_PROPOSER_H_
