#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "server/coordinator/messages/digest.h"
#include "server/coordinator/operations/handlers.h"
#include "server/coordinator/operations/repeated.h"
#include "server/coordinator/studies/changes.h"
#include "server/coordinator/studies/find.h"
#include "server/coordinator/studies/hidden.h"

namespace luthier::coordinator {
namespace {

using storage::EventType;

absl::Status StudyFinished(const Study& s) {
  return base::MakeError(
      absl::StatusCode::kFailedPrecondition, base::reason::kStudyFinished,
      absl::StrCat("study ", base::Quote(s.record().id), " is ", study::StudyStateName(s.record().state),
                   s.record().state == study::StudyState::kCompleted ? "; a larger max_trials reopens it"
                                                                     : "; that can't be undone"));
}

absl::Status Pause(Study& s, const std::string& actor) {
  if (study::IsFinished(s.record().state)) return StudyFinished(s);
  if (s.record().state != study::StudyState::kActive) return absl::OkStatus();
  s.Pause(kPausedByUser, actor);
  return absl::OkStatus();
}

absl::Status Resume(Study& s, const std::string& actor) {
  if (study::IsFinished(s.record().state)) return StudyFinished(s);
  if (s.record().state != study::StudyState::kPaused) return absl::OkStatus();
  s.Resume(actor);
  return absl::OkStatus();
}

absl::Status Stop(Study& s, const std::string& actor) {
  if (s.record().state == study::StudyState::kStopped) return absl::OkStatus();
  if (study::IsFinished(s.record().state)) return StudyFinished(s);
  s.Finish(study::StudyState::kStopped, "stopped by a user", actor, /*cancel_running=*/false);
  return absl::OkStatus();
}

absl::Status Cancel(Study& s, const std::string& actor) {
  if (s.record().state == study::StudyState::kCancelled) return absl::OkStatus();
  if (s.record().state == study::StudyState::kCompleted) return StudyFinished(s);
  s.Finish(study::StudyState::kCancelled, "cancelled by a user", actor, /*cancel_running=*/true);
  return absl::OkStatus();
}

// Says that the study is deleted.
absl::Status Delete(Study& s, const std::string& actor) {
  if (!s.running().empty()) {
    return base::MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kTrialsRunning,
                           absl::StrCat("study ", base::Quote(s.record().id), " has ", s.running().size(),
                                        " running trials; cancel the study first"));
  }
  s.AddEvent(EventType::kStudyDeleted).actor = actor;
  return absl::OkStatus();
}

absl::Status Apply(Study& s, Control control, const std::string& actor) {
  switch (control) {
    case Control::kPause:
      return Pause(s, actor);
    case Control::kResume:
      return Resume(s, actor);
    case Control::kStop:
      return Stop(s, actor);
    case Control::kCancel:
      return Cancel(s, actor);
    case Control::kDelete:
      return Delete(s, actor);
    case Control::kUndelete:
      s.AddEvent(EventType::kStudyUndeleted).actor = actor;
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

// Rebuilds the first answer. A deleted study has no row to read.
absl::StatusOr<StudyReply> Rebuild(Context& c, const ControlOp& op, const storage::ChangedStudy& stored) {
  if (op.control == Control::kDelete) return StudyReply{{}, stored.seq};
  return RebuildStudy(c, op.new_id.empty() ? op.id : op.new_id, stored);
}

// Deletes a damaged study for ever. Its rows are not read, so it is unknown whether trials run.
StudyReply DeleteDamaged(Context& c, const ControlOp& op, storage::StudyKey key) {
  const uint64_t seq = AddEvent(c, key, op.id, EventType::kStudyDeleted).seq;
  c.batch.events.back().actor = op.actor;
  c.state.damaged.erase(op.id);
  ++c.state.damaged_version;
  Erase(c, key);
  storage::StudyRecord gone;
  gone.key = key;
  gone.id = op.id;
  return {gone, seq};
}

// Brings back a deleted study.
absl::StatusOr<Study*> Undelete(Context& c, const ControlOp& op) {
  LUTHIER_ASSIGN_OR_RETURN(storage::StudyRecord hidden, FindHidden(c, op.id));
  LUTHIER_RETURN_IF_ERROR(CheckOwner(hidden, op.by));
  if (!op.new_id.empty()) hidden.id = op.new_id;
  if (c.state.by_id.count(hidden.id) > 0 || c.state.damaged.count(hidden.id) > 0) {
    return base::MakeError(absl::StatusCode::kAlreadyExists, base::reason::kStudyExists,
                           absl::StrCat("another study is called ", base::Quote(hidden.id),
                                        " now; bring this one back under a name of its own (`luthier study undelete ",
                                        op.id, " --as NAME`)"));
  }
  LUTHIER_RETURN_IF_ERROR(CheckRoomForStudy(c, hidden.id));
  return Unhide(c, std::move(hidden));
}

}  // namespace

void Run(Context& c, ControlOp op) {
  const std::string digest = DigestOf(op);
  if (AnswerRepeated<storage::ChangedStudy, StudyReply>(c, op.request_id, digest, op.done,
                                                        [&](const auto& stored) { return Rebuild(c, op, stored); })) {
    return;
  }
  const absl::StatusOr<Study*> found = op.control == Control::kUndelete ? Undelete(c, op) : FindStudy(c, op.id);
  const auto damaged = c.state.damaged.find(op.id);
  if (!found.ok() && op.control == Control::kDelete && damaged != c.state.damaged.end()) {
    const storage::StudyKey key = damaged->second.key;
    const StudyReply deleted = DeleteDamaged(c, op, key);
    c.requests.Remember(op.request_id, digest, storage::ChangedStudy{deleted.seq, key}, c.batch.uptime);
    return Answer<StudyReply>(c, op.done, deleted);
  }
  if (!found.ok()) return Answer<StudyReply>(c, op.done, found.status());
  Study& s = **found;
  if (absl::Status status = CheckOwner(s.record(), op.by); !status.ok()) {
    return Answer<StudyReply>(c, op.done, std::move(status));
  }
  if (absl::Status status = Apply(s, op.control, op.actor); !status.ok()) {
    return Answer<StudyReply>(c, op.done, std::move(status));
  }
  const StudyReply reply{s.record(), s.record().update_seq};
  c.requests.Remember(op.request_id, digest, storage::ChangedStudy{reply.seq, s.record().key}, c.batch.uptime);
  if (op.control == Control::kDelete) Hide(c, s);
  Answer<StudyReply>(c, op.done, reply);
}

void Run(Context& c, KeepAnswerOp op) {
  Answer<std::string>(c, op.done, c.requests.KeepAnswer(op.request_id, std::move(op.message)));
}

}  // namespace luthier::coordinator
