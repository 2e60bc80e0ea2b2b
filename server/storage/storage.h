#ifndef LUTHIER_SERVER_STORAGE_STORAGE_H_
#define LUTHIER_SERVER_STORAGE_STORAGE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lib/study/spec_change.h"
#include "lib/study/study_spec.h"
#include "lib/study/trial.h"

namespace luthier::storage {

// Identifies a study inside one database for ever; never reused. From 1, in order of creation.
using StudyKey = int64_t;

// When a study was deleted that can be brought back.
struct Deletion {
  absl::Time time;        // Time stamp; never compared.
  absl::Duration uptime;  // On the clock of Storage::LastUptime.
  friend bool operator==(const Deletion&, const Deletion&) = default;
};

struct StudyRecord {
  StudyKey key = 0;
  std::string id;  // Unique among the studies that are not deleted.
  study::StudySpec spec;
  study::StudyState state = study::StudyState::kActive;
  std::string state_reason;
  absl::Time create_time;
  absl::Time update_time;
  uint64_t create_seq = 0;
  uint64_t update_seq = 0;     // Newest event of the study or its trials.
  uint64_t resume_seq = 0;     // Failures with a finish_seq above it count towards the pause after many in a row.
  std::string created_digest;  // Digest of the spec that the study was created with; empty in those of old programs.
  int64_t added_trials = 0;    // Number that imports and retries added to spec.budget.max_trials.
  int64_t bytes = 0;           // Estimated bytes of its ended trials and of points of curves; it only grows.
  // Storage::LastUptime's clock when it was created; below 0 where older programs created it.
  absl::Duration create_uptime = absl::ZeroDuration();
  std::string owner;                 // Who made it (access::Caller::Owner); empty: nobody in particular. Never changes.
  std::optional<Deletion> deletion;  // Says when it was deleted; absent: it was not. Set by ListDeleted alone.
  absl::Status damage;  // Set by ListStudies alone: the row is damaged (damage.h), and only key and id are valid.
  friend bool operator==(const StudyRecord&, const StudyRecord&) = default;
};

// One grant: its lease token and, once its holder ended it (Complete, Fail, Release), what the answer was, so that the
// same call gets the same answer.
struct GrantRecord {
  std::string token;   // 16 bytes, unique in the database.
  std::string digest;  // Digest of the ending call's content; empty: not ended by its holder.
  study::TrialState reply_state = study::TrialState::kPending;
  std::vector<std::string> reply_warnings;
  uint64_t reply_seq = 0;
  std::string request_id = "";  // The ask that it answered; empty: it had no id, or an older program granted.
  // Storage::LastUptime's clock when it was given, and when its attempt ended; both 0 where an older program gave it.
  absl::Duration uptime = absl::ZeroDuration();
  absl::Duration end_uptime = absl::ZeroDuration();
  int64_t checkpoint_step =
      0;  // The step of the trial's checkpoint when it was given; 0 where an older program gave it.
  friend bool operator==(const GrantRecord&, const GrantRecord&) = default;
};

// The spec of a study until event `until_seq` changed it.
struct FormerSpec {
  uint64_t until_seq = 0;
  int64_t max_trials = 0;                // The budget's.
  std::optional<study::StudySpec> spec;  // If absent: the spec that follows, but for max_trials and for `back`.
  // Leads from the spec that follows back to this one, in what designers do not go by. Absent: nothing of that changed,
  // `spec` has it, or an older program wrote the row, which did not keep it.
  std::optional<study::SpecChange> back = std::nullopt;
  friend bool operator==(const FormerSpec&, const FormerSpec&) = default;
};

struct TrialRecord {
  study::Trial trial;
  uint64_t create_seq = 0;          // Event that stored it.
  uint64_t finish_seq = 0;          // Event that made it final; 0 while open.
  uint64_t removed_seq = 0;         // Event since which designers take it for cancelled (study::IsRemoved); or 0.
  std::vector<GrantRecord> grants;  // Parallel to trial.attempts; the last is the newest.
  friend bool operator==(const TrialRecord&, const TrialRecord&) = default;
};

enum class EventType {
  kStudyCreated = 1,
  kStudyPaused,
  kStudyResumed,
  kStudyStopped,
  kStudyCancelled,
  kStudyCompleted,
  kStudyDeleted,
  kTrialSuggested,
  kTrialEnqueued,
  kTrialGranted,
  kTrialResumed,
  kTrialReleased,
  kTrialRetried,
  kTrialCompleted,
  kTrialPruned,
  kTrialFailed,
  kTrialCancelled,
  kReportRefused,
  kGradientDropped,
  kMeasurement,
  kGradientSetAside,
  kTrialPaused,
  kTrialPromoted,
  kTrialRestarted,
  kStudyUpdated,
  kTrialDeleted,
  kTrialReplaced,
  kTrialImported,
  kTrialNoted,
  kParametersDeclared,
  kTrialStopRequested,
  kNoiseFound,
  kStudyUndeleted = 36,
};  // Numbers are those of luthier.v1.Event.Type.

struct Event {
  uint64_t seq = 0;
  absl::Time time;  // Time stamp; never compared.
  StudyKey study = 0;
  std::string study_id;
  int64_t trial = 0;  // 0: the event is about the study.
  int32_t attempt = 0;
  EventType type = EventType::kStudyCreated;
  std::string actor;
  std::string detail;           // For people; programs read the fields below.
  std::optional<double> value;  // May be non-finite: must survive storage exactly (NaN included).
  // The step of a point, a pause and an end by a stopping rule; of a promotion, the step up to which the trial goes on.
  // Absent if the row is damaged: calls that need it report DATA_LOSS, and the log stays readable.
  std::optional<int64_t> step;
  std::optional<uint64_t> ask_index;  // The ask that a promotion answers.
  // The values of a point in a study with StudySpec::metrics, in that order; empty if it lacks a finite one.
  std::vector<double> values = {};
  friend bool operator==(const Event&, const Event&) = default;
};

// A trial whose gradient is not used, and the worker that reported it.
struct SetAside {
  int64_t trial = 0;
  std::string worker;
  friend bool operator==(const SetAside&, const SetAside&) = default;
};

// The answer to a request, so that a repetition gets the same one, whatever happened since.
struct ChangedStudy {
  uint64_t seq = 0;          // The study's newest event at that time.
  StudyKey study = 0;        // 0 in rows of older programs.
  std::string message = "";  // Answer that the service made, in its own form; empty: none was kept.
  friend bool operator==(const ChangedStudy&, const ChangedStudy&) = default;
};
struct GrantedLease {
  int64_t trial = 0;
  std::string token;
  std::optional<study::Trial> granted = std::nullopt;  // The trial at that time; absent in rows of older programs.
  friend bool operator==(const GrantedLease&, const GrantedLease&) = default;
};
struct GrantedLeases {
  StudyKey study = 0;
  std::vector<GrantedLease> leases;
  uint64_t seq = 0;  // The newest event at that time; 0 in rows of older programs.
  friend bool operator==(const GrantedLeases&, const GrantedLeases&) = default;
};
struct StoredTrials {
  StudyKey study = 0;
  std::vector<int64_t> trials;
  uint64_t seq = 0;                      // The study's newest event at that time; 0 in rows of older programs.
  std::vector<study::Trial> whole = {};  // `trials` at that time, if the answer has more than their numbers.
  friend bool operator==(const StoredTrials&, const StoredTrials&) = default;
};
// A reply that an older program wrote. ParseLegacyReply (legacy_records.h) tells which of the others it stands for. May
// be read, not written.
struct LegacyReply {
  std::string text;
  friend bool operator==(const LegacyReply&, const LegacyReply&) = default;
};
// A reply whose bytes are damaged. May be read, not written: calls that need it report DATA_LOSS, and others go on.
struct DamagedReply {
  friend bool operator==(const DamagedReply&, const DamagedReply&) = default;
};
using StoredReply = std::variant<ChangedStudy, GrantedLeases, StoredTrials, LegacyReply, DamagedReply>;

// A mutating request that was answered, so that its repetition gets the same answer.
struct RequestRecord {
  std::string id;      // 1 to 64 bytes; unique in the database.
  std::string digest;  // Digest of the request's content.
  StoredReply reply;
  absl::Duration uptime;  // Storage::LastUptime's clock when it was answered.
  friend bool operator==(const RequestRecord&, const RequestRecord&) = default;
};

struct MeasurementRecord {
  StudyKey study = 0;
  int64_t trial = 0;
  int32_t attempt = 0;
  study::Measurement measurement;  // Key: (study, trial, attempt, step). Metrics may be NaN or infinite.
  friend bool operator==(const MeasurementRecord&, const MeasurementRecord&) = default;
};

// --- What one transaction changes. Applied in order. ---
struct PutStudy {
  StudyRecord record;
};  // Insert or replace by key.
struct DeleteStudy {
  StudyKey key = 0;
};  // Removes it for ever, hidden or not, with its trials and measurements; events stay.
struct HideStudy {
  StudyKey key = 0;
  Deletion deletion;
};  // Takes it from the lists, frees its id, and lets nothing be put to it. Its rows can be read by key.
struct UnhideStudy {
  StudyKey key = 0;
  std::string id;
};  // Undoes HideStudy, and gives the study this id, which must be free.
struct PutFormerSpec {
  StudyKey study = 0;
  FormerSpec former;
};  // Insert by (study, until_seq).
struct PutTrial {
  StudyKey study = 0;
  TrialRecord record;
};  // Insert or replace by (study, number).
struct PutMeasurement {
  MeasurementRecord record;
};  // Insert; a repeated key replaces.
struct AppendEvent {
  Event event;
};  // Insert; seq is above every earlier one.
struct PutRequest {
  RequestRecord record;
};  // Insert.
struct ChangeRequest {
  RequestRecord record;
};  // Replace by id.
struct ForgetRequestsBefore {
  absl::Duration uptime;
};
struct SetUptime {
  absl::Duration uptime;
};
struct SetFence {
  uint64_t fence = 0;
};
using Mutation = std::variant<PutStudy, DeleteStudy, HideStudy, UnhideStudy, PutFormerSpec, PutTrial, PutMeasurement,
                              AppendEvent, PutRequest, ChangeRequest, ForgetRequestsBefore, SetUptime, SetFence>;
using WriteBatch = std::vector<Mutation>;

// A final trial as the rules of its study see it, and its whole row if that was asked for.
struct TrialSketch {
  int64_t number = 0;
  study::TrialState state = study::TrialState::kPending;
  uint64_t finish_seq = 0;
  std::optional<double> value;  // RankedValue (rules.h) of a COMPLETE trial; absent if it is not feasible.
  bool removed = false;         // study::IsRemoved
  int64_t asks = 0;             // Number of asks that it answers: its own, if it has an ask index, and its promotions.
  std::optional<TrialRecord> record;  // Present if it was asked for.
};

struct TrialFilter {
  std::vector<study::TrialState> states;  // Empty: all.
};

// Storage in which the coordinator's state survives. One writer: Commit is called by one thread at a time. Reads may be
// called from any thread at any time, see committed state only, and each call sees one moment.
//
// Errors of Commit: UNAVAILABLE STORAGE_FULL (nothing was written; may succeed later); INTERNAL BUG for a violated
// constraint (nothing was written); DATA_LOSS or INTERNAL for I/O errors and corruption: the outcome is unknown and the
// process must end without another write. Reads: NOT_FOUND where said, else as Commit.
class Storage {
 public:
  virtual ~Storage() = default;

  // Applies all of the batch or nothing; returns after the data is on stable storage.
  virtual absl::Status Commit(const WriteBatch& batch) = 0;

  // Erases what is left of deleted studies, at most `rows` rows, in one transaction: deleting a study of a million
  // trials at once would keep others waiting. False: nothing is left. Called by the thread of Commit. Errors as Commit.
  virtual absl::StatusOr<bool> EraseSome(int rows) = 0;

  // Return the seq of the newest committed event, and the fence counter; 0 in a new database.
  virtual absl::StatusOr<uint64_t> LastSeq() = 0;
  virtual absl::StatusOr<uint64_t> LastFence() = 0;
  // Returns how long coordinators have run on this database, all added up, as the newest SetUptime said. It does not
  // depend on the wall clock, so it is used for times that a changed clock must not affect.
  virtual absl::StatusOr<absl::Duration> LastUptime() = 0;
  // Returns the largest key ever given to a study, deleted ones included.
  virtual absl::StatusOr<StudyKey> LastStudyKey() = 0;

  // Lists studies in order of id, ids above `after_id`, at most `limit`. Those with a damaged row have `damage` set.
  virtual absl::StatusOr<std::vector<StudyRecord>> ListStudies(const std::string& after_id, int limit) = 0;
  // Returns a study. NOT_FOUND.
  virtual absl::StatusOr<StudyRecord> GetStudy(const std::string& id) = 0;
  // Lists hidden studies (HideStudy), with the id that they had, in order of key, keys above `after`, at most `limit`.
  // Those with a damaged row have `damage` set.
  virtual absl::StatusOr<std::vector<StudyRecord>> ListDeleted(StudyKey after, int limit) = 0;

  // Returns a trial. NOT_FOUND.
  virtual absl::StatusOr<TrialRecord> GetTrial(StudyKey study, int64_t number) = 0;
  // Lists former specs in order of seq.
  virtual absl::StatusOr<std::vector<FormerSpec>> ListFormerSpecs(StudyKey study) = 0;
  // Lists trials in order of number, numbers above `after`, at most `limit`.
  virtual absl::StatusOr<std::vector<TrialRecord>> ListTrials(StudyKey study, const TrialFilter& filter, int64_t after,
                                                              int limit) = 0;
  // Lists all trials, but whole rows only of those in the states `whole`, which is a small part of the work.
  virtual absl::StatusOr<std::vector<TrialSketch>> SketchTrials(const StudyRecord& study,
                                                                const std::vector<study::TrialState>& whole,
                                                                int64_t after, int limit) = 0;
  // Returns the measurements of one attempt, in order of step.
  virtual absl::StatusOr<std::vector<study::Measurement>> ListMeasurements(StudyKey study, int64_t trial,
                                                                           int32_t attempt) = 0;
  // Lists events of the study with seq above `after`, in order, at most `limit`. Works for deleted studies.
  virtual absl::StatusOr<std::vector<Event>> ListEvents(StudyKey study, uint64_t after, int limit) = 0;
  // Lists events backwards: seq below `before`, newest first.
  virtual absl::StatusOr<std::vector<Event>> ListEventsBefore(StudyKey study, uint64_t before, int limit) = 0;

  // Lists the trials that GRADIENT_SET_ASIDE events are about, each once, with the worker that the first of them names,
  // in order of trial: trials above `after`, at most `limit`. It reads the log, so it works for deleted studies.
  virtual absl::StatusOr<std::vector<SetAside>> ListSetAside(StudyKey study, int64_t after, int limit) = 0;

  virtual absl::StatusOr<std::optional<RequestRecord>> FindRequest(const std::string& id) = 0;

  // Counts by state and, with one objective, the best COMPLETE trial that is feasible (its number and the objective's
  // value; ties to the lower number), for GetStudy and ListStudies: derived from rows, at the same moment.
  struct Summary {
    std::array<int64_t, study::kTrialStateCount> by_state{};  // Index: study::TrialState. Without deleted trials.
    int64_t deleted = 0;
    int64_t retried = 0;  // Part of FAILED and CANCELLED: other trials took their places.
    int64_t best_trial = 0;
    std::optional<double> best_value;
    int64_t resource_spent = 0;  // study::ResourceSpent, summed over the trials.
    // COMPLETE trials that say how their training ended. Index: study::TrainingOutcome.
    std::array<int64_t, study::kTrainingOutcomeCount> trainings{};
    friend bool operator==(const Summary&, const Summary&) = default;
  };
  virtual absl::StatusOr<Summary> Summarize(const StudyRecord& study) = 0;
};

}  // namespace luthier::storage

#endif  // LUTHIER_SERVER_STORAGE_STORAGE_H_
