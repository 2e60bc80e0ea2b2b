#ifndef LUTHIER_TESTS_SERVER_COORDINATOR_NAIVE_MODEL_H_
#define LUTHIER_TESTS_SERVER_COORDINATOR_NAIVE_MODEL_H_

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/search/designer.h"
#include "server/coordinator/messages/operations.h"
#include "server/coordinator/proposals/proposer.h"

namespace luthier::coordinator::testing {

// What an operation must answer. Fields that do not fit the operation stay as they are.
struct Expected {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string reason;
  std::optional<study::TrialState> trial_state;
  std::optional<study::StudyState> study_state;
  size_t warnings = 0;
  std::optional<study::Directive> directive;
  std::vector<int64_t> numbers;                          // Enqueue.
  std::vector<std::pair<int64_t, std::string>> granted;  // A repeated Suggest: trials and tokens.
  std::string repeats;                                   // Token whose first answer had the same seq.

  static Expected Error(absl::StatusCode code, const std::string& reason = "") {
    Expected e;
    e.code = code;
    e.reason = reason;
    return e;
  }
};

// The rules of docs/design/trial_lifecycle.md on plain maps: no sets of pending trials, no counters, no indices, no
// batches; each question is answered by looking at everything. Knows nothing of the core but its operations and
// answers. For designers that ignore history, so that suggestions are there at once.
//
// Tokens are opaque: the model learns them from the answers it checks.
class NaiveModel {
 public:
  struct Options {
    absl::Duration stall = absl::InfiniteDuration();
    int failures_to_pause = 20;
    int alike_to_pause = 3;
    bool late_suggestions = false;  // They take their time: then an ask need not get all there is room for.
    int leases_per_worker = 64;
    int64_t studies = 10'000;
    DesignerFactory designers = search::CreateDesigner;
    double stop_above = std::numeric_limits<double>::infinity();  // LimitStopper, in studies with a resource.
  };
  explicit NaiveModel(Options options) : options_(std::move(options)) {}

  // A new coordinator on what was stored.
  void Restart(absl::Duration now);
  // `may_fail`: remember everything for RollBack.
  // `wall`: what tokens expire by, and nothing else.
  void BeginBatch(absl::Duration now, absl::Time wall, bool may_fail);

  Expected Create(const CreateStudyOp& op);
  Expected Control(const ControlOp& op);
  Expected Enqueue(const EnqueueOp& op);
  Expected Update(const UpdateStudyOp& op);  // Of max_trials and description.
  Expected Import(const ImportOp& op);       // Of good results.
  Expected Retry(const RetryOp& op);
  Expected DeleteTrial(const DeleteTrialOp& op);
  Expected SetAttributes(const SetAttributesOp& op);
  Expected CancelTrial(const CancelTrialOp& op);
  Expected StopTrial(const StopTrialOp& op);
  Expected Report(const ReportOp& op);
  Expected Finish(const FinishOp& op);
  std::vector<study::Directive> Heartbeat(const std::vector<std::string>& tokens, absl::Duration now);
  // Absent: it waits, known as `handle`; CheckAnswer judges the answer. `replaced` gets the handle of an earlier ask
  // that this one takes the place of (it is answered CANCELLED), or -1.
  std::optional<Expected> Suggest(const SuggestOp& op, int handle, int* replaced);
  // The answer to a waiting ask, in order of delivery. Grants what it grants. "" or what is wrong with it.
  std::string CheckAnswer(int handle, const absl::StatusOr<SuggestReply>& reply);
  // "" or which waiting ask could have been served.
  std::string EndBatch();
  // Instead of EndBatch, when the commit failed: these studies were read again from storage.
  void RollBack(const std::vector<storage::StudyKey>& studies, const std::vector<int>& answered);

  // The coordinator completed a study with PAUSED trials as its designer had nothing more to ask for. "" or why that is
  // wrong: an open trial, or room for another.
  std::string CompleteExhausted(storage::StudyKey key);

  // The first answer to a Finish: its seq.
  void NoteSeq(const std::string& token, uint64_t seq) { finish_seq_[token] = seq; }
  std::optional<uint64_t> SeqOf(const std::string& token) const;

  struct Grant {
    std::string token;
    std::string worker;
    std::string ended_with;  // Content of the call by which its holder ended it.
    study::TrialState reply_state = study::TrialState::kPending;
    size_t reply_warnings = 0;
    bool stopped = false;   // Cancelled while it held the trial.
    bool released = false;  // Given back by its holder.
  };
  struct Trial {
    study::TrialState state = study::TrialState::kPending;
    study::Parameters parameters;
    std::optional<uint64_t> ask_index;
    std::vector<Grant> grants;
    int releases = 0;        // Since the last pause, …
    size_t part_begins = 0;  // … which so many grants came before.
    int64_t target = 0;
    size_t promotions = 0;
    std::string checkpoint;
    std::map<int64_t, std::string> points;  // Of the newest attempt.
    std::map<int64_t, double> values;       // The finite ones among them.
    bool stop_requested = false;
    std::optional<double> ends_with;  // The value it was PRUNED with, where it is not its holder's result.
    absl::Duration deadline;          // RUNNING: of the newest grant.
    absl::Duration ttl;
    bool seen_expired = false;
    absl::Duration eligible_since;
    std::string failure;
    bool config = false;  // Its worker said that the setting, or the program, is at fault.
    std::vector<double> direction;
    std::vector<int64_t> set_aside;  // By its suggestion for the first time.
    bool has_gradient = false;       // Of its final result.
    uint64_t finished_at = 0;        // Place in the order in which trials ended; 0: open.
    std::optional<double> value;     // Of a COMPLETE trial.
    bool removed = false;            // Its result no longer counts.
    int64_t retried_by = 0;
    bool deleted = false;
    std::map<std::string, std::string> attributes;
  };
  struct Study {
    std::string id;
    study::StudySpec spec;
    study::StudyState state = study::StudyState::kActive;
    std::map<int64_t, Trial> trials;
    bool paused_by_user = false;
    int64_t added = 0;        // To max_trials, by imports and retries.
    uint64_t resumed_at = 0;  // Failures that ended later count.
    int failures_in_row = 0;
    std::optional<double> best;
    int64_t since_best = 0;
    std::map<int64_t, std::string> set_aside;  // Trials whose gradient was set aside, and who reported it.
    std::shared_ptr<search::Designer> designer;
    uint64_t last_turn = 0;  // Of its grants since it was read from storage.
  };
  const std::map<storage::StudyKey, Study>& studies() const { return studies_; }
  int64_t Count(const Study& s, study::TrialState state) const;

 private:
  struct Request {
    std::string content;
    std::vector<int64_t> numbers;
    storage::StudyKey study = 0;
    std::vector<std::pair<int64_t, std::string>> granted;
  };
  struct Waiting {
    int handle = 0;
    SuggestOp op;
    storage::StudyKey study = 0;
  };

  storage::StudyKey KeyOf(const std::string& id) const;
  Study* Find(const std::string& id);
  // Whether a trial that completes at step `last` said too little on its way to be paused or stopped, or trained on.
  static bool MissedTarget(const Study& s, const Trial& t, int64_t last);
  void Final(Study& s, Trial& t, study::TrialState state, std::optional<double> value);
  void CancelOpen(Study& s, Trial& t);
  void FinishStudy(Study& s, study::StudyState state, bool cancel_running);
  void AfterFinal(Study& s);
  // After AddRoom and the like: a study goes on, or ends.
  void GoOnOrEnd(Study& s);
  bool EndedByRule(const Study& s) const;
  // Its failures since it was resumed are alike, all there is, and as many as pause it.
  bool FailsAlike(const Study& s) const;
  // Counts all that is final anew.
  void Recount(Study& s);
  void CompleteIfDone(Study& s);
  void BackOrGiveUp(Study& s, Trial& t);
  // Somebody asked for its end: with the last value there is.
  void EndAsRequested(Study& s, Trial& t);
  void TakeFromHolder(Study& s, Trial& t);
  static int AttemptsUsed(const Trial& t) { return static_cast<int>(t.grants.size() - t.part_begins) - t.releases; }
  // "" or why what was granted beyond the eligible trials is wrong. For studies whose designer looks at history.
  std::string TakeUnpredicted(Study& s, const coordinator::Grant& g);
  void CheckLeases();
  bool Expired(const Trial& t) const { return t.state == study::TrialState::kRunning && t.deadline <= now_; }
  // Trials to hand out again or enqueued, for this worker, in order.
  std::vector<int64_t> Eligible(const Study& s, const std::string& worker, int count) const;
  int64_t RoomForNew(const Study& s, const std::vector<int64_t>& eligible) const;
  // What this ask may get at most: its worker may hold only so many leases.
  int CountFor(const Waiting& w) const;
  bool CanServe(const Study& s, const Waiting& w, int64_t spoken_for) const;
  std::vector<storage::StudyKey> Candidates(const Waiting& w) const;
  // Why the ask may get nothing: the token of its caller has ended.
  absl::Status TokenOf(const Waiting& w) const;
  // What earlier asks might still take.
  int64_t SpokenFor(int handle) const;
  // Returns the study of an operation that is new; null: `answer` is the operation's.
  template <typename Op>
  Study* Begin(const Op& op, Expected* answer);
  std::optional<Expected> CheckRequest(const std::string& id, const std::string& content) const;

  const Options options_;
  std::map<storage::StudyKey, Study> studies_;
  storage::StudyKey last_key_ = 0;
  std::map<std::string, Request> requests_;
  std::set<std::string> stopped_;  // Tokens whose holders are told STOP.
  std::vector<Waiting> waiting_;
  std::map<std::string, absl::Duration> last_asked_;
  std::map<std::string, uint64_t> finish_seq_;
  absl::Duration now_;
  absl::Time wall_;
  absl::Duration last_batch_;
  uint64_t turns_ = 0;
  uint64_t ends_ = 0;  // Trials that ended, and marks among them.

  std::map<storage::StudyKey, Study> saved_studies_;
  storage::StudyKey saved_last_key_ = 0;
  std::map<std::string, Request> saved_requests_;
  std::set<std::string> saved_stopped_;
};

}  // namespace luthier::coordinator::testing

#endif  // LUTHIER_TESTS_SERVER_COORDINATOR_NAIVE_MODEL_H_
