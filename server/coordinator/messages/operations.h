#ifndef LUTHIER_SERVER_COORDINATOR_MESSAGES_OPERATIONS_H_
#define LUTHIER_SERVER_COORDINATOR_MESSAGES_OPERATIONS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lib/base/permit.h"
#include "lib/base/stop_token.h"
#include "lib/search/designer.h"
#include "lib/study/directive.h"
#include "lib/study/project.h"
#include "lib/study/spec_change.h"
#include "server/storage/storage.h"

// Requests to the core, and its answers. Plain values; no wire types.
namespace luthier::coordinator {

template <typename Reply>
using Done = std::function<void(absl::StatusOr<Reply>)>;

struct StudyReply {
  storage::StudyRecord record;
  uint64_t seq = 0;
  std::string message = "";  // The kept first answer (KeepAnswerOp) to a repeated request; empty: none.
};

// Says whose studies the caller of an operation may change.
struct Authority {
  bool all = true;          // Everybody's.
  std::string owner;        // Studies with this StudyRecord::owner, besides those without one.
  std::string worker = {};  // Names of the caller's workers begin with this. Empty: none does.
};

struct CreateStudyOp {
  std::string id;
  study::StudySpec spec;  // Valid.
  std::string actor;
  Done<StudyReply> done;
  std::string digest = "";  // Digest of the spec, the same for equal ones; empty: unknown.
  std::string owner = "";   // StudyRecord::owner.
};

enum class Control { kPause, kResume, kStop, kCancel, kDelete, kUndelete };

struct ControlOp {
  std::string id;
  Control control = Control::kPause;
  std::string request_id;  // May be empty: repetitions then rely on the call being idempotent.
  std::string actor;
  Done<StudyReply> done;
  Authority by = {};
  std::string new_id = {};  // In kUndelete: the id that the study gets; empty: `id`.
};

struct UpdateStudyOp {
  std::string id;
  study::SpecChange change;
  std::string content;  // The request as it was sent. Equal contents are the same change.
  // Checks that the changed spec fits a message. May be null.
  std::function<absl::Status(const study::StudySpec&)> fits;
  std::string request_id;
  std::string actor;
  Done<StudyReply> done;
  Authority by = {};
};

// Keeps the answer that the service made to a ControlOp or UpdateStudyOp, before it leaves, for repetitions. The reply
// is the answer to send: `message`, or the one that was kept before.
struct KeepAnswerOp {
  std::string request_id;
  std::string message;
  Done<std::string> done;
};

struct NewTrial {
  study::Parameters parameters;
  std::map<std::string, std::string> attributes;
};

struct EnqueueReply {
  std::vector<study::Trial> trials;
  uint64_t seq = 0;
};

struct EnqueueOp {
  std::string id;
  std::vector<NewTrial> trials;
  std::string request_id;
  std::string actor;
  Done<EnqueueReply> done;
  Authority by = {};
};

// A result from elsewhere.
struct ImportedTrial {
  study::Parameters parameters;
  study::TrialState state = study::TrialState::kComplete;  // Or PRUNED, FAILED.
  std::optional<study::Measurement> measurement;           // Final; in COMPLETE with the study's metric.
  std::vector<study::Measurement> curve;                   // Ascending in step.
  std::optional<study::Failure> failure;                   // In FAILED.
  std::map<std::string, std::string> attributes;
  std::optional<absl::Time> create_time, end_time;
};

struct ImportReply {
  std::vector<int64_t> numbers;
  uint64_t seq = 0;
};

struct ImportOp {
  std::string id;
  std::vector<ImportedTrial> trials;
  std::string request_id;
  std::string actor;
  Done<ImportReply> done;
  Authority by = {};
};

// Tries settings again, as new trials in place of the old ones.
struct RetryOp {
  std::string id;
  std::vector<int64_t> numbers;  // Empty: all trials that FAILED, up to `limit`.
  int64_t limit = 0;
  std::string request_id;
  std::string actor;
  Done<EnqueueReply> done;
  Authority by = {};
};

struct TrialReply {
  study::Trial trial;
  uint64_t seq = 0;
};

struct CancelTrialOp {
  std::string id;
  int64_t number = 0;
  std::string actor;
  Done<TrialReply> done;
  Authority by = {};
};

// Asks for the end of a running trial with the value that it has.
struct StopTrialOp {
  std::string id;
  int64_t number = 0;
  std::string actor;
  Done<TrialReply> done;
  Authority by = {};
};

struct DeleteTrialOp {
  std::string id;
  int64_t number = 0;
  std::string actor;
  Done<TrialReply> done;
  Authority by = {};
};

// Adds, changes and (empty values) removes attributes.
struct SetAttributesOp {
  std::string id;
  int64_t number = 0;
  std::map<std::string, std::string> attributes;
  std::string actor;
  Done<TrialReply> done;
  Authority by = {};
};

// One granted trial.
struct Grant {
  std::string study_id;
  std::shared_ptr<const study::StudySpec> spec;
  study::Trial trial;
  std::string token;
  int32_t attempt = 0;
  std::string resume_checkpoint;
  int64_t target_step = 0;                                  // Step at which to pause; 0: none.
  int64_t resume_step = 0;                                  // The step of the checkpoint.
  study::GradientUse gradient = study::GradientUse::kNone;  // Derivative that the study's algorithm can use.
};

struct SuggestReply {
  std::vector<Grant> grants;
  absl::Duration retry_after = absl::ZeroDuration();
  bool study_done = false;
  uint64_t seq = 0;
};

// A study of which a worker gets no trials for a while.
struct Rest {
  storage::StudyKey study = 0;
  absl::Duration left;
};

struct SuggestOp {
  std::string id;  // Empty: any study of `pool` that workers may take.
  std::string pool = study::PoolKey(study::kDefaultProject, study::kDefaultPool);
  std::string worker;
  int count = 1;
  std::string request_id;
  bool fail_if_paused = false;
  // Studies of which the worker gets none. An ask that names one is answered at once, without trials. Studies with an
  // external objective do not count.
  std::vector<Rest> rests = {};
  absl::Duration deadline = absl::InfiniteDuration();  // Clock::Monotonic().
  base::StopToken caller_gone;                         // Raised when nobody waits for the reply any more.
  std::shared_ptr<const base::Permit> permit;          // Asked before trials are granted. Null: none is needed.
  Done<SuggestReply> done;
};

struct ReportReply {
  study::Directive directive = study::Directive::kContinue;
  uint64_t seq = 0;
};

struct ReportOp {
  std::string id;
  int64_t number = 0;
  std::string token;
  std::vector<study::Measurement> measurements;
  std::string checkpoint;
  std::optional<int64_t> start_step = std::nullopt;  // Step that the attempt went on from; absent: not said.
  Done<ReportReply> done;
  std::optional<int64_t> checkpoint_step = std::nullopt;  // Step at which `checkpoint` was saved; absent: not said.
};

struct CompleteContent {
  study::Measurement measurement;
  bool pruned = false;
  std::string gradient_problem;        // Reason why the gradient could not be read and is dropped; empty: it could.
  bool paused = false;                 // The target was reached, and the trial can go on.
  std::string training_problem = "";   // Reason why the training could not be read and is dropped; empty: it could.
  std::string gradients_problem = "";  // The same of some of the gradients of further metrics.
};
struct ReleaseContent {};

struct FinishReply {
  study::TrialState state = study::TrialState::kPending;
  std::vector<std::string> warnings;
  uint64_t seq = 0;
};

// Complete, Fail or Release: the end of a grant.
struct FinishOp {
  std::string id;
  int64_t number = 0;
  std::string token;
  std::variant<CompleteContent, study::Failure, ReleaseContent> content;
  std::string checkpoint;
  std::string output_tail;
  std::optional<int64_t> start_step = std::nullopt;
  std::vector<std::string> unused = {};  // Parameters that the objective did not ask for; in open spaces.
  std::optional<int64_t> checkpoint_step = std::nullopt;
  Done<FinishReply> done;
};

struct DeclareReply {
  study::Parameters parameters;  // Values of the declared parameters.
  uint64_t seq = 0;
};

// Names parameters of a running trial that its open space may lack.
struct DeclareOp {
  std::string id;
  int64_t number = 0;
  std::string token;
  std::vector<study::ParameterSpec> parameters;
  Done<DeclareReply> done;
};

struct HeartbeatReply {
  std::vector<study::Directive> directives;
};

// A heartbeat with an expired lease, whose return to its holder is a change that is stored.
struct HeartbeatOp {
  std::string worker;
  std::vector<std::string> tokens;
  Done<HeartbeatReply> done;
};

// "Compute suggestions first_ask_index … +count-1 of this study from its history up to prefix_seq."
struct ProposalRequest {
  storage::StudyKey study = 0;
  std::string project;
  uint64_t generation = 0;
  uint64_t prefix_seq = 0;
  uint64_t first_ask_index = 0;
  int count = 0;
};

// Suggestions on their way to the core. `more`: others of the same request follow. `blocked`: no more come until
// another trial finishes. `exhausted`: no more ever come; `answered` then says what the search knows by now, or is
// empty where every setting has been tried.
struct ProposalsOp {
  storage::StudyKey study = 0;
  uint64_t generation = 0;  // As in the request; a stale answer is ignored.
  uint64_t first_ask_index = 0;
  uint64_t prefix_seq = 0;
  std::vector<search::Suggestion> suggestions;
  bool more = false;
  bool blocked = false;
  bool exhausted = false;
  std::string answered;
  absl::Status history;  // DATA_LOSS: the study's history is damaged, so nothing can be suggested.
};

using Operation = std::variant<CreateStudyOp, ControlOp, UpdateStudyOp, KeepAnswerOp, EnqueueOp, ImportOp, RetryOp,
                               CancelTrialOp, StopTrialOp, DeleteTrialOp, SetAttributesOp, SuggestOp, ReportOp,
                               FinishOp, DeclareOp, HeartbeatOp, ProposalsOp>;

// Answers an operation with an error without running it.
void Refuse(Operation& operation, const absl::Status& status);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_MESSAGES_OPERATIONS_H_
