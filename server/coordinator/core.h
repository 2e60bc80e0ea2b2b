#ifndef LUTHIER_SERVER_COORDINATOR_CORE_H_
#define LUTHIER_SERVER_COORDINATOR_CORE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "lib/base/random.h"
#include "lib/stopping/stopper.h"
#include "lib/study/history.h"
#include "lib/study/warm_start.h"
#include "server/coordinator/leases.h"
#include "server/coordinator/messages/limits.h"
#include "server/coordinator/messages/operations.h"
#include "server/coordinator/proposals/timeline.h"
#include "server/storage/storage.h"

namespace luthier::coordinator {

// "Compute suggestions first_ask_index … +count-1 of this study from its history up to prefix_seq."
struct ProposalRequest {
  storage::StudyKey study = 0;
  uint64_t generation = 0;
  uint64_t prefix_seq = 0;
  uint64_t first_ask_index = 0;
  int count = 0;
};

// Whether the trial was cancelled, or pruned by a stopping rule, while `token` held it: its holder is told to stop
// rather than that it lost the trial.
bool StoppedUnder(const storage::TrialRecord& record, const std::string& token);

// The state machine of all studies: operations in, changes and answers out. It has no thread, clock, file or network of
// its own and is driven by one thread (the writer):
//
//   core.BeginBatch();                         // reads the clock once, looks at deadlines
//   core.Apply(op) …                           // decides, changes memory, notes changes and answers
//   core.ServeWaiting();                       // grants to waiting asks; may want suggestions
//   status = storage.Commit(core.Seal());   // asks whose time is up are answered with what there is
//   core.EndBatch(status);                     // delivers the answers; on failure restores memory from storage
//
// Answers leave only after the commit they depend on. Everything is derived from storage (Load): killing the process
// between any two steps loses no acknowledged change.
class Core {
 public:
  struct Options {
    uint64_t token_seed = 0;  // Seeds the random half of lease tokens: from the system's entropy in production.
    int failures_to_pause = 20;
    absl::Duration request_lifetime = absl::Hours(24);
    // A longer time between two batches is our own fault, and every lease is extended by it.
    absl::Duration stall = absl::Seconds(1);
    Limits limits;
    std::function<std::unique_ptr<stopping::Stopper>(const study::StudySpec&)> stoppers = stopping::CreateStopper;
  };

  // `storage`, `clock` and `leases` must outlive the core.
  Core(storage::Storage* storage, const base::Clock* clock, LeaseTable* leases, Options options);
  ~Core();

  // Reads everything; every RUNNING trial gets a full TTL from now. Errors as Storage.
  absl::Status Load();

  void BeginBatch();
  void Apply(Operation operation);
  void ServeWaiting();
  // What the batch changes; empty: nothing to commit.
  const storage::WriteBatch& Seal();
  void EndBatch(const absl::Status& committed);

  // Suggestions that are wanted now. Each study has at most one request under way; it is answered by a ProposalsOp with
  // its generation. May be taken within a batch (for designers that ignore history) or after it.
  std::vector<ProposalRequest> TakeProposalRequests(const std::function<bool(storage::StudyKey)>& which);

  // After EndBatch(OK): what to tell designers, watchers and the keeper of designers.
  std::vector<HistoryUpdate> TakeHistoryUpdates();
  std::vector<storage::Event> TakeEvents();
  // Studies whose designer must be made anew from storage (after a rollback), and those that are gone.
  std::vector<storage::StudyKey> TakeInvalidated();

  // The spec of a live study, or null.
  std::shared_ptr<const study::StudySpec> SpecOf(storage::StudyKey key) const;
  std::vector<storage::StudyKey> Studies() const;
  uint64_t last_seq() const { return seq_; }
  uint64_t fence() const { return fence_; }
  // Earliest deadline of a waiting Suggest; InfiniteDuration when none waits.
  absl::Duration NextDeadline() const;
  // Gives every lease so much more time: for a time in which we could not have renewed or stored anything.
  void ExtendLeases(absl::Duration by);
  // Drops waiting asks with an answer: at shutdown.
  void RefuseWaiting(const absl::Status& status) {
    RefuseWaiting(status, [](const Waiter&) { return true; });
  }
  int waiting() const { return static_cast<int>(waiters_.size()); }
  // Trials of all studies, by state. O(studies).
  std::array<int64_t, study::kTrialStateCount> CountTrials() const;

  // Recounts everything from the rows in storage and compares with memory: the invariants I1, I2, I5, I7. For tests;
  // O(trials).
  absl::Status CheckInvariants();

 private:
  // What has been reported of an attempt.
  struct Curve {
    std::map<int64_t, std::string> digests;  // By step.
    int64_t gradient_bytes = 0;
  };
  struct TrialSlot {
    study::TrialState state = study::TrialState::kPending;
    std::unique_ptr<storage::TrialRecord>
        record;                    // Set while the trial is open, or until the batch that ended it commits.
    std::unique_ptr<Curve> curve;  // Of the newest attempt; null: not loaded.
    absl::Duration eligible_since = absl::ZeroDuration();  // When a retry became possible.
  };
  struct StudyState {
    storage::StudyRecord record;
    std::shared_ptr<const study::StudySpec> spec;
    std::vector<TrialSlot> trials;  // Index: number - 1.
    std::array<int64_t, study::kTrialStateCount> counts{};
    std::set<int64_t> retries;   // PENDING with attempts behind them.
    std::set<int64_t> enqueued;  // PENDING, never granted.
    std::set<int64_t> running;
    std::set<int64_t> paused;
    std::set<int64_t> expired;  // Of `running`: lease past its deadline when last looked at.
    absl::Duration next_expiry_check = absl::ZeroDuration();
    uint64_t asks_stored = 0;                                    // Trials with an ask index, and promotions.
    std::unique_ptr<stopping::Stopper> stopper;                  // Null: no trial is ever stopped.
    std::set<int64_t> set_aside;                                 // Trials whose gradient was set aside.
    std::deque<std::pair<uint64_t, suggest::Suggestion>> ready;  // With the prefix each was computed from.
    uint64_t generation = 0;  // Raised whenever suggestions under way become worthless.
    bool computing = false;
    bool blocked = false;    // The designer waits for a trial to finish or to pause, …
    uint64_t unblocked = 0;  // … as one did at this seq.
    bool exhausted = false;  // The designer has nothing more to suggest.
    int64_t demand = 0;      // New trials that waiting asks could have.
    int failures_in_row = 0;
    std::optional<double> best_score;
    int64_t finished_since_best = 0;
    std::vector<study::WarmSource> models;  // COMPLETE trials, where others may start from their models.
  };
  struct Waiter {
    SuggestOp op;
    std::string digest;
    storage::StudyKey study = 0;  // 0: any.
  };

  void RefuseWaiting(const absl::Status& status, const std::function<bool(const Waiter&)>& which);

  // Batch bookkeeping.
  template <typename Reply>
  void Answer(Done<Reply> done, absl::StatusOr<Reply> reply);
  // The event's seq is the new last_seq(). The reference holds until the next call.
  storage::Event& AddEvent(StudyState& s, storage::EventType type, const storage::TrialRecord* record = nullptr);
  void MarkDirty(StudyState& s, storage::TrialRecord& record);

  // Operations.
  void Run(CreateStudyOp op);
  void Run(ControlOp op);
  void Run(EnqueueOp op);
  void Run(CancelTrialOp op);
  void Run(SuggestOp op);
  void Run(ReportOp op);
  void Run(FinishOp op);
  void Run(HeartbeatOp op);
  void Run(ProposalsOp op);

  // OK while RUNNING and `token` is of the newest grant; else why a call with that token has no effect: TRIAL_FINAL or
  // LEASE_LOST.
  absl::Status CheckHolder(const TrialSlot& slot, const std::string& token) const;
  absl::Status LoadCurve(const StudyState& s, TrialSlot& slot);
  absl::StatusOr<StudyState*> FindStudy(const std::string& id);
  // Loads the record of a final trial back into its slot for the rest of the batch.
  absl::StatusOr<TrialSlot*> FindTrial(StudyState& s, int64_t number);
  struct Found {
    StudyState* study = nullptr;
    TrialSlot* slot = nullptr;
  };
  absl::StatusOr<Found> FindTrial(const std::string& id, int64_t number);
  // The stored answer to `request_id`, absent when it is new; INVALID_ARGUMENT REQUEST_ID_REUSED for other content.
  absl::StatusOr<std::optional<std::string>> Replayed(const std::string& request_id, const std::string& digest);
  void Remember(const std::string& request_id, const std::string& digest, std::string reply);

  // Trials.
  void Move(StudyState& s, TrialSlot& slot, study::TrialEvent event);
  // After the event that made the trial final.
  void Finalize(StudyState& s, TrialSlot& slot);
  void EndAttempt(storage::TrialRecord& record, study::AttemptOutcome outcome);
  // A grant ended without a result: PENDING again, or FAILED when attempts are used up, or CANCELLED in a finished
  // study.
  void RetryOrGiveUp(StudyState& s, TrialSlot& slot);
  void CancelTrial(StudyState& s, TrialSlot& slot, const std::string& why);
  void FinishStudy(StudyState& s, study::StudyState state, const std::string& reason, const std::string& actor,
                   bool cancel_running);
  void ApplyStoppingRules(StudyState& s, const study::Trial& finished);
  void CompleteWhenDone(StudyState& s);
  // Whether any trial waits for a worker or has one.
  static bool AnyOpenBesidesPaused(const StudyState& s);

  // Training in parts (core_parts.cc).
  // The attempt under way was said to have begun at `start_step`, and has reported the steps first … last.
  void NoteTraining(StudyState& s, TrialSlot& slot, std::optional<int64_t> start_step, int64_t first, int64_t last);
  // A new point of the trial's curve: row, event, rules. The curve must be loaded.
  void AddPoint(StudyState& s, TrialSlot& slot, const study::Measurement& point);
  // The lease's target was reached. The holder's attempt is ended with it.
  void PauseTrial(StudyState& s, TrialSlot& slot, study::Measurement measurement, bool with_checkpoint);
  // A PAUSED trial, when the study ends: its last value stands.
  void PrunePaused(StudyState& s, TrialSlot& slot);
  // A stopping rule ends the trial under its holder.
  void StopTrial(StudyState& s, TrialSlot& slot, const study::Measurement& last, const std::string& reason);
  // A suggestion that continues a PAUSED trial.
  void PromoteTrial(StudyState& s, study::Provenance promotion, int64_t number);
  void PushUpdate(StudyState& s, HistoryUpdate::Kind kind, int64_t number,
                  const std::function<void(HistoryUpdate&)>& fill);
  // Suggestions that are ready or being computed are worthless: what they continue or leave room for has changed.
  void DropReady(StudyState& s);
  bool CanGrant(const StudyState& s, const suggest::Suggestion& suggestion) const;

  // Granting.
  void CheckDeadlines();
  // The holder of a running trial has been silent for too long, or is back. False: known already.
  bool MarkExpired(StudyState& s, int64_t number);
  bool ClearExpired(StudyState& s, int64_t number);
  // Unexpired leases of each worker, counted from the rows.
  std::map<std::string, int> CountHeld() const;
  int Held(const std::string& worker) const;
  void AddHeld(const std::string& worker, int by);
  // Ends the lease when the batch commits: until then its holder must not hear of it.
  void EndLease(const std::string& token, Directive directive) { ending_.emplace_back(token, directive); }
  enum class Served { kYes, kNo };
  // `answer_due`: no ask whose deadline has passed goes on waiting.
  void Serve(bool answer_due);
  // At most `count` trials. `due`: what can be granted now, rather than all that was asked for once it is computed.
  Served ServeFrom(StudyState& s, Waiter& waiter, int count, bool due);
  std::vector<int64_t> EligibleTrials(const StudyState& s, const std::string& worker, int count) const;
  bool OthersAskedSince(const std::string& worker, absl::Duration since) const;
  Grant GrantTrial(StudyState& s, int64_t number, const std::string& worker);
  int64_t StoreTrial(StudyState& s, study::Trial trial, storage::EventType type);
  // Those of the trials that have a gradient and were not set aside before.
  std::vector<int64_t> NewlySetAside(StudyState& s, const std::vector<int64_t>& numbers);
  void NoteSetAside(StudyState& s, const std::vector<int64_t>& numbers);
  // Provenance of what is granted for the front of `ready`, which is taken off.
  study::Provenance TakeReady(StudyState& s, suggest::Suggestion* suggestion);
  // New trials the budget has room for now.
  int64_t RoomForNew(const StudyState& s) const;
  // Trials that may start running now.
  int64_t RoomToRun(const StudyState& s) const;
  absl::StatusOr<SuggestReply> RebuildSuggestReply(const std::string& stored);
  std::vector<StudyState*> CandidatesFor(const Waiter& waiter);

  absl::Status LoadStudy(const storage::StudyRecord& record);
  void CountFinished(StudyState& s, const study::Trial& trial, uint64_t finish_seq);

  storage::Storage* const storage_;
  const base::Clock* const clock_;
  LeaseTable* const leases_;
  const Options options_;

  std::map<storage::StudyKey, StudyState> studies_;
  std::unordered_map<std::string, storage::StudyKey> by_id_;
  std::deque<Waiter> waiters_;                       // In order of arrival.
  std::map<std::string, absl::Duration> last_seen_;  // Worker -> when it last asked.
  std::map<std::string, int> held_;                  // CountHeld(), kept up to date.
  uint64_t seq_ = 0;
  uint64_t fence_ = 0;
  storage::StudyKey last_key_ = 0;
  absl::Duration last_tick_ = absl::ZeroDuration();
  absl::Duration next_forget_ = absl::ZeroDuration();

  // The batch under way.
  absl::Duration now_ = absl::ZeroDuration();
  absl::Time wall_;
  storage::WriteBatch batch_;
  std::set<storage::StudyKey> touched_;
  std::set<storage::StudyKey> deleted_;
  std::set<std::pair<storage::StudyKey, int64_t>> dirty_trials_;
  std::vector<std::function<void(const absl::Status&)>> answers_;
  std::map<std::string, storage::RequestRecord> batch_requests_;
  std::vector<std::pair<std::string, Directive>> ending_;
  std::vector<storage::MeasurementRecord> measurements_;
  uint64_t seq_at_begin_ = 0;
  uint64_t fence_at_begin_ = 0;
  storage::StudyKey key_at_begin_ = 0;
  std::vector<storage::Event> events_;
  std::vector<HistoryUpdate> updates_;
  std::set<std::pair<storage::StudyKey, int64_t>> pinned_;  // Final trials whose record was loaded for this batch.
  // Committed, waiting to be taken.
  std::vector<storage::Event> committed_events_;
  std::vector<HistoryUpdate> committed_updates_;
  std::vector<storage::StudyKey> invalidated_;
};

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_CORE_H_
