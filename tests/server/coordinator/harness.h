#ifndef LUTHIER_TESTS_SERVER_COORDINATOR_HARNESS_H_
#define LUTHIER_TESTS_SERVER_COORDINATOR_HARNESS_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "server/coordinator/messages/operations.h"
#include "server/coordinator/proposals/proposer.h"
#include "server/coordinator/studies/leases.h"
#include "server/coordinator/writer/core.h"
#include "server/storage/memory_storage.h"
#include "tests/testing/faulty_storage.h"

namespace luthier::coordinator::testing {

inline constexpr char kMetric[] = "loss";

// One float `x` in [0, 1] and one integer `n` in [0, 9]; minimizes "loss"; random search; a command that any worker may
// run; TTL 60 s, 3 attempts.
study::StudySpec MakeSpec(int64_t max_trials = 100);
// The same with Bayesian optimisation.
study::StudySpec BoSpec(int64_t max_trials, int initial_points = 4);
study::Measurement Loss(double value, int64_t step = 0);
study::Failure MakeFailure(study::FailureKind kind, const std::string& reason = "EXIT_CODE",
                           const std::string& message = "exit code 1");

// Where an answer arrives. Checks that it arrives once.
template <typename Reply>
class Answered {
 public:
  Done<Reply> done() {
    auto slot = slot_;
    return [slot](absl::StatusOr<Reply> reply) {
      ++slot->times;
      slot->reply = std::move(reply);
    };
  }
  bool ready() const { return slot_->times > 0; }
  int times() const { return slot_->times; }
  const absl::StatusOr<Reply>& get() const { return *slot_->reply; }

 private:
  struct Slot {
    int times = 0;
    std::optional<absl::StatusOr<Reply>> reply;
  };
  std::shared_ptr<Slot> slot_ = std::make_shared<Slot>();
};

// A core on a storage in memory, driven batch by batch as the coordinator's writer drives it, but with time in hand and
// without threads. Suggestions of designers that ignore history are computed within the batch, the others right after
// it; with `late_suggestions`, all of them when ComputeOne says so.
class Harness {
 public:
  explicit Harness(Core::Options options = DefaultOptions(), DesignerFactory designers = search::CreateDesigner);

  // No stall: time may pass between batches without shifting leases. Asks wait for designers, however long.
  static Core::Options DefaultOptions();

  // A new core on the same storage: what a crash leaves behind.
  void Restart();

  // One batch: apply, serve, commit, answer. Returns the commit's status.
  absl::Status Batch(std::vector<Operation> operations = {}) { return Batch(std::move(operations), {}); }
  // `permits`: one for each operation, or none at all.
  using Permits = std::vector<std::shared_ptr<const base::Permit>>;
  absl::Status Batch(std::vector<Operation> operations, const Permits& permits);
  // Time passes, then an empty batch: deadlines are looked at.
  void Pass(absl::Duration by);

  // Operations in a batch of their own.
  absl::StatusOr<StudyReply> Create(const std::string& id, const study::StudySpec& spec);
  absl::StatusOr<StudyReply> Control(const std::string& id, coordinator::Control control,
                                     const std::string& request_id = "");
  absl::StatusOr<EnqueueReply> Enqueue(const std::string& id, std::vector<NewTrial> trials,
                                       const std::string& request_id = "");
  absl::StatusOr<StudyReply> Update(const std::string& id, study::SpecChange change,
                                    const std::string& request_id = "");
  absl::StatusOr<ImportReply> Import(const std::string& id, std::vector<ImportedTrial> trials,
                                     const std::string& request_id = "");
  // Of all that failed, where there are no numbers.
  absl::StatusOr<EnqueueReply> Retry(const std::string& id, std::vector<int64_t> numbers,
                                     const std::string& request_id = "");
  absl::StatusOr<TrialReply> DeleteTrial(const std::string& id, int64_t number);
  absl::StatusOr<TrialReply> SetAttributes(const std::string& id, int64_t number,
                                           std::map<std::string, std::string> attributes);
  absl::StatusOr<TrialReply> CancelTrial(const std::string& id, int64_t number);
  absl::StatusOr<TrialReply> StopTrial(const std::string& id, int64_t number);
  // Answered within the batch.
  absl::StatusOr<SuggestReply> Suggest(const std::string& id, const std::string& worker, int count = 1,
                                       const std::string& request_id = "");
  // Waits for `patience`.
  Answered<SuggestReply> Ask(const std::string& id, const std::string& worker, int count = 1,
                             absl::Duration patience = absl::Seconds(60), const std::string& request_id = "");
  Answered<SuggestReply> Ask(SuggestOp op);  // As it is.
  absl::StatusOr<ReportReply> Report(const Grant& grant, std::vector<study::Measurement> points,
                                     const std::string& checkpoint = "");
  absl::StatusOr<FinishReply> Complete(const Grant& grant, const study::Measurement& measurement, bool pruned = false);
  // At the lease's target, with a checkpoint unless it is empty.
  absl::StatusOr<FinishReply> Pause(const Grant& grant, const study::Measurement& measurement,
                                    const std::string& checkpoint = "saved");
  absl::StatusOr<FinishReply> Fail(const Grant& grant, const study::Failure& failure);
  absl::StatusOr<FinishReply> Release(const Grant& grant, const std::string& checkpoint = "");
  // As Coordinator::Heartbeat: from memory unless a lease has expired.
  std::vector<study::Directive> Heartbeat(const std::string& worker, const std::vector<std::string>& tokens);

  // The first trial of a reply that must have one.
  Grant Get(const std::string& id, const std::string& worker);

  // Committed rows.
  storage::StudyRecord Study(const std::string& id);
  storage::TrialRecord Trial(const std::string& id, int64_t number);
  std::vector<storage::TrialRecord> Rows(const std::string& id);
  std::vector<storage::Event> Events(const std::string& id);
  std::vector<storage::Event> Events(const std::string& id, storage::EventType type);

  // Computes the oldest request of `late_suggestions`; apply the result in some batch. Absent when there is none.
  std::optional<ProposalsOp> ComputeOne();

  base::ManualClock clock;
  storage::MemoryStorage memory;
  luthier::testing::FaultyStorage storage{&memory};
  std::unique_ptr<LeaseTable> leases;
  std::unique_ptr<Core> core;
  bool late_suggestions = false;
  // Called after each commit with its events.
  std::function<void(const std::vector<storage::Event>&)> on_events;
  // Called between commit and answers: whether there was anything to commit.
  std::function<void(bool)> before_answers;
  // The keys of studies that the last batch changed, committed or not.
  std::vector<storage::StudyKey> last_batch_studies;

 private:
  // What the designers' thread would find in its queue: in order, whatever the time.
  struct Task {
    std::optional<HistoryUpdate> update;
    std::optional<storage::StudyKey> forget;
    std::optional<ProposalRequest> request;
    std::shared_ptr<const study::StudySpec> spec;
  };
  absl::Status OneBatch(std::vector<Operation> operations, const Permits& permits);

  const Core::Options options_;
  const DesignerFactory designers_;
  std::unique_ptr<Proposer> inline_proposer_;
  std::unique_ptr<Proposer> proposer_;
  std::deque<Task> tasks_;
};

// The operations that Harness runs, for batches of several.
FinishOp MakeFinish(const Grant& grant, std::variant<CompleteContent, study::Failure, ReleaseContent> content);
SuggestOp MakeSuggest(const std::string& id, const std::string& worker, int count = 1,
                      const std::string& request_id = "");

}  // namespace luthier::coordinator::testing

#endif  // LUTHIER_TESTS_SERVER_COORDINATOR_HARNESS_H_
