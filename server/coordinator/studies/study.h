#ifndef LUTHIER_SERVER_COORDINATOR_STUDIES_STUDY_H_
#define LUTHIER_SERVER_COORDINATOR_STUDIES_STUDY_H_

#include <array>
#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lib/search/designer.h"
#include "lib/stopping/stopper.h"
#include "lib/study/front.h"
#include "lib/study/study_spec.h"
#include "lib/study/trial_state.h"
#include "lib/study/warm_start.h"
#include "server/coordinator/messages/operations.h"
#include "server/coordinator/proposals/timeline.h"
#include "server/storage/storage.h"

namespace luthier::coordinator {

struct Context;

// Points reported of one attempt.
struct Curve {
  std::map<int64_t, std::string> digests;  // By step.
  int64_t gradient_bytes = 0;
  std::optional<study::Measurement> last;  // The point of the largest step with a finite metric, without its gradient.
};

// The place of a study among those of its pool. An ask for any study gets the study with the fewest running trials for
// its weight, and of equal ones the one whose turn is the longest ago. So no study starves, even with more studies than
// workers.
struct Rank {
  double share = 0.0;      // Running trials ÷ StudySpec::weight.
  uint64_t last_turn = 0;  // Fence of the newest lease granted since the study was read; 0: none.
  storage::StudyKey key = 0;
  friend auto operator<=>(const Rank&, const Rank&) = default;
};

// One trial in memory. Open trials have their row here, final ones only their state.
struct TrialSlot {
  study::TrialState state = study::TrialState::kPending;
  // Set until the trial ends, and until the end of a batch that looked it up or ended it.
  std::unique_ptr<storage::TrialRecord> record;
  std::unique_ptr<Curve> curve;                          // The curve of the newest attempt; null: not loaded.
  absl::Duration eligible_since = absl::ZeroDuration();  // When a retry became possible.
};

// The end of a trial (Study::End).
struct TrialEnd {
  study::TrialEvent event;                            // kComplete, kPrune, kFail or kCancel.
  std::optional<study::AttemptOutcome> attempt = {};  // Outcome of the attempt under way; absent: none is.
  std::optional<study::Directive> directive = {};     // Told to the holder, whose lease ends; absent: it knows.
  std::string actor = {};                             // The rest is of the event.
  std::string detail = {};
  std::optional<double> value = {};
  std::optional<int64_t> step = {};
  bool rules = true;  // The study may end or pause because of it.
};

// One study in memory, with its trials. Everything follows from the rows in storage (Read), except for suggestions that
// are computed but not yet stored, and for the turns of its pool. Changes go to the batch (Context::batch), and the
// indexes over all studies (Context::state) are kept up to date. Used by the writer's thread alone.
class Study {
 public:
  // A new study, of which nothing is stored.
  static Study New(Context* context, storage::StudyRecord record);
  // The study without its trials, which are to be read later.
  static Study Outline(Context* context, storage::StudyRecord record);
  // Reads its rows. Each lease of a RUNNING trial gets a full TTL. Errors as Storage; damage (storage/damage.h).
  static absl::StatusOr<Study> Read(Context* context, storage::StudyRecord record, uint64_t generation);

  // Takes its place in the indexes over all studies, and leaves it.
  void Join();
  void Leave();

  storage::StudyKey key() const { return record_.key; }
  const storage::StudyRecord& record() const { return record_; }
  const std::shared_ptr<const study::StudySpec>& spec() const { return spec_; }
  study::GradientUse gradient() const { return gradient_; }  // search::GradientUseOf(*spec())
  const std::string& pool() const { return pool_; }          // study::PoolKey

  int64_t size() const { return static_cast<int64_t>(trials_.size()); }  // Trials are numbered from 1 to size().
  TrialSlot& slot(int64_t number) { return trials_[static_cast<size_t>(number - 1)]; }
  const TrialSlot& slot(int64_t number) const { return trials_[static_cast<size_t>(number - 1)]; }
  // Returns the slot of the trial with its row. The row of a final trial is read from storage and stays for the rest of
  // the batch. NOT_FOUND, or errors as Storage.
  absl::StatusOr<TrialSlot*> FindTrial(int64_t number);
  // Drops the row of a final trial.
  void DropRow(int64_t number);

  const std::array<int64_t, study::kTrialStateCount>& counts() const { return counts_; }  // By state.
  const std::set<int64_t>& retries() const { return retries_; }    // PENDING with attempts behind them.
  const std::set<int64_t>& enqueued() const { return enqueued_; }  // PENDING, never granted.
  const std::set<int64_t>& running() const { return running_; }    // RUNNING.
  const std::set<int64_t>& paused() const { return paused_; }      // PAUSED.
  // Part of running(): lease past its deadline when last looked at.
  const std::set<int64_t>& expired() const { return expired_; }
  // True if any trial waits for a worker or has one.
  bool AnyOpenBesidesPaused() const { return !running_.empty() || !retries_.empty() || !enqueued_.empty(); }

  // Notes for the batch.

  // Appends an event about the study, and about the newest attempt of `record` if it is given. Its seq is the new
  // `counters.seq`. The reference holds until the next call.
  storage::Event& AddEvent(storage::EventType type, const storage::TrialRecord* record = nullptr);
  // Notes that the row of this trial changed.
  void MarkDirty(storage::TrialRecord& record);
  // Adds to the estimate of the bytes on disk. An event of the same batch must write the study's row.
  void AddBytes(size_t bytes);
  // Makes asks that may get a trial of the study be looked at again.
  void Wake();

  // Trials begin.

  // Stores a new PENDING trial under the next number, which it returns. `type`, `actor` and `detail` are of its event.
  int64_t Store(study::Trial trial, storage::EventType type, const std::string& actor = "",
                const std::string& detail = "");
  // Does the same for a trial that any worker may be granted from now on.
  int64_t Enqueue(study::Trial trial, storage::EventType type, const std::string& actor = "",
                  const std::string& detail = "");
  // Starts an attempt of the PENDING trial at `worker`, or of the RUNNING trial whose lease expired. `request_id` is
  // that of the ask.
  coordinator::Grant Grant(int64_t number, const std::string& worker, const std::string& request_id);
  // The number of trials that may start running now, and that of new trials that the budget has room for.
  int64_t RoomToRun() const;
  int64_t RoomForNew() const;
  // Returns at most `count` trials that wait for a worker and may be granted to `worker` now: first those that others
  // gave up or that expired, in order of number, then those that users added. Trials are kept for other workers for a
  // while only: `again` is brought forward to the time at which `worker` may have more.
  std::vector<int64_t> EligibleTrials(const std::string& worker, int count, absl::Duration* again) const;

  // Attempts go on.

  // Reads the curve of the newest attempt into `slot.curve`, unless it is there. Errors as Storage.
  absl::Status LoadCurve(TrialSlot& slot);
  // Adds a point to the trial's curve: its row, its event, and what designers are told. `slot.curve` must be loaded.
  void AddPoint(TrialSlot& slot, const study::Measurement& point);
  // Keeps a point of a trial from elsewhere.
  void AddImportedPoint(int64_t trial, study::Measurement point);
  // Tells the rule that stops trials early of a point that has the study's metric.
  void TellRule(int64_t trial, const study::Measurement& m);
  // Tells the rule of a trial that is final.
  void TellRuleOfEnd(const study::HistoryTrial& trial);
  // Tells the rule of a point that has the study's metric, and returns why the rule ends the trial; absent: it goes on.
  std::optional<std::string> AskRule(int64_t trial, const study::Measurement& m);
  // Notes that the attempt under way began at `start_step` (absent: it did not say) and reported the steps `first` …
  // `last`. Studies without a resource do not count steps.
  void NoteTraining(TrialSlot& slot, std::optional<int64_t> start_step, int64_t first, int64_t last);
  // Notes that the holder of the RUNNING trial is heard of: its lease does not end before another TTL.
  void KeepLease(int64_t number);
  // To be called when the lease of a RUNNING trial may be past its deadline. The trial may then be granted to another
  // worker; one without further attempts, or of a finished study, ends.
  void CheckDeadline(int64_t number);

  // Attempts and trials end.

  // Ends the attempt, whose trial goes on: Retry or PauseTrial follows.
  void EndAttempt(storage::TrialRecord& record, study::AttemptOutcome outcome);
  // Ends the lease when the batch commits: until then its holder must not hear of it.
  void EndLease(const std::string& token, study::Directive directive);
  // To be called when a grant ended without a result. The trial becomes PENDING; FAILED if its attempts are used up;
  // CANCELLED in a finished study. If its end was asked for (study::Trial::stop_requested) it ends with the last value
  // of the attempt, for which `slot.curve` must be loaded, or CANCELLED.
  void Retry(TrialSlot& slot);
  // Ends the attempt, which reached the target of its lease: the trial becomes PAUSED with `measurement`, in a finished
  // study PRUNED. `with_checkpoint`: true if the holder sent the checkpoint of this step.
  void PauseTrial(TrialSlot& slot, study::Measurement measurement, bool with_checkpoint);
  // Makes the trial final, with everything that follows: attempt, lease, state, event, row, designers, rules of the
  // study.
  void End(TrialSlot& slot, const TrialEnd& end);
  // Does so for a new trial, a result from elsewhere, which has the final state `state`.
  void EndImported(TrialSlot& slot, study::TrialState state, const TrialEnd& end);
  // Ends the trial by a stopping rule, because of `last`, while a worker holds it.
  void StopTrial(TrialSlot& slot, const study::Measurement& last, const std::string& reason);
  // Ends a RUNNING trial whose end somebody asked for, when its lease is past its deadline: it is PRUNED with the last
  // value of the attempt, or CANCELLED without one. `slot.curve` must be loaded.
  void TakeFromHolder(TrialSlot& slot);
  // Cancels a trial that has not ended. The worker that holds it is told to stop.
  void Cancel(TrialSlot& slot, const std::string& why, const std::string& actor = "");
  // Prunes a PAUSED trial: its last value stands. `why`: "the study ended".
  void PrunePaused(TrialSlot& slot, const std::string& why);
  // Makes the trial no longer count: from the newest event on, which is about it, designers take it for cancelled.
  // RecountFinished must follow.
  void Remove(TrialSlot& slot);
  // Returns all trials of the study as they are now, the first one first. O(trials). Errors as Storage.
  absl::StatusOr<std::vector<storage::TrialSketch>> ReadSketches() const;
  // Counts the final trials anew after the batch removed some. `before` is what ReadSketches returned before.
  void RecountFinished(std::vector<storage::TrialSketch> before);

  // The study changes.

  // `detail` is of the event.
  void Pause(const std::string& reason, const std::string& actor, const std::string& detail = "");
  void Resume(const std::string& actor, const std::string& detail = "");
  // Ends the study in `state` (STOPPED, CANCELLED or COMPLETED). Trials that wait are cancelled, PAUSED ones pruned;
  // running ones go on unless `cancel_running`. `actor` is empty if nobody asked for it.
  void Finish(study::StudyState state, const std::string& reason, const std::string& actor, bool cancel_running);
  // Completes the study once no trial is open and there will be no other: the budget is used up, or the designer has
  // nothing more.
  void CompleteWhenDone();
  // Ends a study that is not finished, if a rule of its budget says so or CompleteWhenDone does.
  void EndWhenDue();
  // Draws the consequences of the end of the trial `finished`: a rule of the budget may end the study, many failures in
  // a row pause it.
  void ApplyStoppingRules(const study::Trial& finished);
  // True if the study had used up its time (Budget::max_wall) when the batch began. That time passes only while a
  // coordinator runs, and does not depend on the wall clock.
  bool TimeIsUp() const;
  // Makes a study with max_wall be looked at when its time may be used up.
  void WatchTime();
  // Makes failures so far no longer count as failures in a row.
  void ForgetFailures();

  // Notes the study's creation.
  void NoteCreated(const std::string& actor);
  // Gives the study the spec `next`, with one STUDY_UPDATED event. The spec that designers used so far is kept, and
  // they begin anew.
  void ChangeSpec(study::StudySpec next, const std::string& actor);
  // Adds parameters that a trial declares to the study's space, with one PARAMETERS_DECLARED event.
  void GrowSpace(study::SearchSpace space, TrialSlot& slot);
  // Returns how often the study's spec changed besides max_trials. Errors as Storage.
  absl::StatusOr<int64_t> CountSpecChanges() const;
  // Raises max_trials by `trials`, which are then stored in the same batch. RESOURCE_EXHAUSTED LIMIT_EXCEEDED beyond
  // study::kMaxTrials.
  absl::Status AddRoom(int64_t trials, const std::string& actor);
  // FAILED_PRECONDITION STUDY_FINISHED for a study that a user stopped or cancelled: only a COMPLETED one can go on.
  absl::Status CheckMayGoOn() const;
  // Takes a COMPLETED study back to ACTIVE if no rule ends it any more, and completes an ACTIVE one if a rule does. To
  // be called at the end of a change.
  void GoOnOrEnd(const std::string& why, const std::string& actor);

  // Suggestions, from the designer to trials.

  const absl::Status& history() const { return history_; }  // DATA_LOSS: what the designer must know is damaged.
  // Returns how many further workers could get a trial at once, if there were any: trials that wait for one, such as
  // those of lost workers, and as many new ones as the budget has room for, but no more than may run beside those that
  // run (budget.max_parallel). 0 unless the study is ACTIVE and any worker of its pool may take its trials. PAUSED
  // trials count, as the search may continue each. An upper bound: what the search can't suggest yet is not known here.
  int64_t WantedSlots() const;
  uint64_t generation() const { return generation_; }  // Raised whenever suggestions under way become worthless.
  bool exhausted() const { return exhausted_; }        // The designer has nothing more to suggest.
  int64_t ready() const { return static_cast<int64_t>(ready_.size()); }  // Suggestions that are not stored yet.
  // True if the designer can suggest more, as far as is known.
  bool MoreMayCome() const;
  // True if the first ready suggestion can become a trial: its PAUSED trial is still there, or the budget has room.
  bool CanGrantReady() const;
  // Takes the first ready suggestion and stores it: as a new trial, or as the promotion of the one it continues.
  // Returns the number of the trial, which waits for a worker.
  int64_t StoreReady();
  // Stores at most `count` points that need no model, for asks that have waited for the designer for too long.
  void StoreLate();
  // Drops suggestions that are ready or being computed, because what they continue or leave room for has changed.
  void DropReady();
  // Number of suggestions to ask of the designer now; at most `most` of them are asked for by Request.
  int64_t Missing() const;
  ProposalRequest Request(int64_t most);
  // Takes what the designer answered, unless it is about the study as it was before.
  void TakeProposals(ProposalsOp op);

  // Asks that wait for the study.

  int64_t demand() const { return demand_; }      // New trials that waiting asks could have.
  int64_t departed() const { return departed_; }  // The part for asks that were told, in this batch, to come again.
  bool counts_ask(uint64_t number) const { return counted_.count(number) > 0; }
  // Counts that the designer of this study, and of no other, is to compute `wanted` trials for the ask `number`.
  void Count(uint64_t number, int64_t wanted);
  void Uncount(uint64_t number, int64_t wanted);
  // Counts the same for an ask that ends: the trials are for the next asker. Holds until ForgetDeparted.
  void CountDeparted(int64_t wanted);
  void ForgetDeparted();
  // Forgets the demand of waiting asks, and makes them be looked at again.
  void Recount();
  // True if one more ask may get a trial of the study, now or from its designer, of which demand() trials are wanted
  // already. Depends on the study and the limits only.
  bool MayServe() const;
  // True if asks for any study may get trials of this one: those of an external objective go only to asks that name it.
  bool ForAnyWorker() const;
  // Puts the study at its place in its pool. `fresh`: true if it changed since asks were looked at.
  void Place(bool fresh);
  const std::optional<Rank>& rank() const { return rank_; }  // Its place in the pool; absent: not there.
  Rank RankNow() const;

  // No lease of the study ends before this, and no trial that is kept for other workers becomes free for its last one.
  absl::Duration timer() const { return timer_; }
  // Makes the leases and asks of the study be looked at by `when` at the latest.
  void SetTimer(absl::Duration when);
  void ClearTimer();

 private:
  Study(Context* context, storage::StudyRecord record);

  // study_load.cc
  using Finished = std::vector<storage::TrialSketch>;
  absl::Status ReadTrials(Finished* finished);
  absl::Status ReadTrial(storage::TrialSketch trial, Finished* finished);
  void ReadOpenTrial(TrialSlot& slot, storage::TrialRecord record);
  absl::Status CheckGrants(const storage::TrialSketch& trial) const;
  absl::Status ReadSetAside();
  // Makes the rule that stops trials early, with what it must know up to the event `until`, if the study may need it
  // and has none.
  absl::Status LoadStopper(uint64_t until);

  // study.cc
  void Tell(HistoryUpdate::Kind kind, int64_t number, const std::function<void(HistoryUpdate&)>& fill);
  void CountMove(study::TrialState from, study::TrialState to);
  void Move(TrialSlot& slot, study::TrialEvent event);
  bool MarkExpired(int64_t number);
  bool ClearExpired(int64_t number);
  void AddHeld(const std::string& worker, int by);
  void CountTrials(int by);
  // `row`: the trial's, which is needed with several objectives.
  void CountFinished(const storage::TrialSketch& trial, const study::Trial* row);
  bool JoinsFront(const study::Trial* row);
  void CountAllFinished(std::vector<storage::TrialSketch> finished);
  void CountModel(const study::Trial& trial);
  void PlaceAt(std::optional<Rank> rank, bool fresh);
  // Notes that a request for suggestions is under way since `since`; InfiniteDuration: none is.
  void SetComputing(absl::Duration since);
  bool Computing() const { return computing_since_ != absl::InfiniteDuration(); }

  // study_grants.cc
  absl::Duration KeptForOthersUntil(const TrialSlot& slot, const std::string& worker) const;
  void BeginAttempt(storage::TrialRecord& record, const std::string& worker, const std::string& request_id);
  study::Provenance TakeReady(search::Suggestion* suggestion);
  std::vector<int64_t> NewlySetAside(const std::vector<int64_t>& numbers);
  void NoteSetAside(const std::vector<int64_t>& numbers);
  // Adds the event of found noise if the suggestion of trial `number` is the first one that knows of it.
  void NoteNoise(int64_t number);
  // Returns the newest trial below `number` that a designer suggested, or null.
  const study::Trial* SuggestedBefore(int64_t number);
  // Returns true if results are noisy, as is stated or was found, and the designer says when the target is reached or
  // patience is at its end.
  bool EndsByExpectation();
  // Lets a designer continue the PAUSED trial. `promotion` has its ask index and its target.
  void Promote(study::Provenance promotion, int64_t number);

  // study_trials.cc
  void CountPoint(const study::Measurement& point, Curve& curve) const;
  // Returns the point of a measurement that has the study's metric.
  study::CurvePoint PointOf(const study::Measurement& m) const;
  void Conclude(TrialSlot& slot, const TrialEnd& end);
  void PruneWith(TrialSlot& slot, const study::Measurement& last, TrialEnd end);

  // study_end.cc
  std::string ReasonToEnd();
  std::string EndedText() const;
  std::vector<int64_t> TrialsToCancel(bool cancel_running) const;
  // Returns the newest of the failures, if since the study was made or resumed there are Options::alike_to_pause of
  // them and all have one cause: the trials run a command, none has ever succeeded, those that failed had different
  // settings, reported no step, ran no longer than Options::alike_within, and are alike. Absent otherwise. Reads their
  // rows.
  std::optional<study::Failure> CommonFailure();
  bool FailedAtOnce(TrialSlot& slot);
  bool AnySucceeded() const;

  // study_change.cc
  void TakeFromBatch(std::vector<storage::TrialSketch>* sketches) const;
  void Replace(study::StudySpec next, storage::Event& event);

  Context* c_;  // Never null.
  storage::StudyRecord record_;
  std::shared_ptr<const study::StudySpec> spec_;
  study::GradientUse gradient_ = study::GradientUse::kNone;
  std::string pool_;

  std::vector<TrialSlot> trials_;  // Index: number - 1.
  std::array<int64_t, study::kTrialStateCount> counts_{};
  std::set<int64_t> retries_, enqueued_, running_, paused_, expired_;
  absl::Duration timer_ = absl::InfiniteDuration();

  uint64_t asks_stored_ = 0;                    // Trials with an ask index, and promotions.
  std::unique_ptr<stopping::Stopper> stopper_;  // Null: no trial is ever stopped.
  std::set<int64_t> set_aside_;                 // Trials whose gradient was set aside.
  std::vector<study::WarmSource> models_;       // COMPLETE trials, where others may start from their models.

  std::deque<std::pair<uint64_t, search::Suggestion>> ready_;  // With the prefix each was computed from.
  uint64_t generation_ = 0;
  // Time since which a request for suggestions is under way, or since it last delivered one. Infinite: none is.
  absl::Duration computing_since_ = absl::InfiniteDuration();
  bool blocked_ = false;    // The designer waits for a trial to finish or to pause.
  uint64_t unblocked_ = 0;  // Number of the newest event by which a trial finished or paused.
  bool exhausted_ = false;
  std::string answered_;      // ProposalsOp::answered, if exhausted.
  bool noise_found_ = false;  // A suggestion since the start of this program knows that results are noisy.
  absl::Status history_;
  int64_t demand_ = 0;
  std::set<uint64_t> counted_;  // The asks that `demand_` counts.
  int64_t departed_ = 0;

  // Besides suggestions it is the only field that does not follow from rows: after a restart all turns are equally long
  // ago.
  uint64_t last_turn_ = 0;
  std::optional<Rank> rank_;

  int failures_in_row_ = 0;
  // The best COMPLETE trial that is feasible; with several objectives the newest that came onto the front.
  std::optional<double> best_score_;  // Its study::Score of the first objective.
  int64_t best_trial_ = 0;            // Its number.
  study::Front front_;                // With several objectives.
  int64_t removed_failed_ = 0;        // FAILED trials that were removed (study::IsRemoved).
  int64_t finished_since_best_ = 0;   // Without those that are not feasible.
};

// The reason of a study that a user paused.
inline constexpr char kPausedByUser[] = "paused by a user";

// Keeps the checkpoint that a holder sent, unless it is empty, with the step at which it was saved: `step`, or, if that
// was not said, the known step of the same checkpoint, else `reported`, the last step reported. Returns true if that
// changed the trial.
bool NoteCheckpoint(const std::string& checkpoint, std::optional<int64_t> step, int64_t reported, study::Trial* trial);

// Returns the grant that tells the holder of `token` about the trial, whose newest attempt is its own. `use` is
// search::GradientUseOf(*spec).
Grant DescribeGrant(const std::string& study_id, std::shared_ptr<const study::StudySpec> spec, study::GradientUse use,
                    study::Trial trial, const std::string& token);

// Returns equal texts for points of equal content.
std::string PointDigest(const study::Measurement& point);

inline constexpr int64_t kMaxProposals = 64;  // Most suggestions in one request to a designer.

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STUDIES_STUDY_H_
