#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/search/effective.h"
#include "lib/search/registry.h"
#include "server/coordinator/messages/digest.h"
#include "server/coordinator/operations/handlers.h"
#include "server/coordinator/operations/repeated.h"
#include "server/coordinator/studies/changes.h"
#include "server/coordinator/studies/find.h"
#include "server/coordinator/studies/index.h"

namespace luthier::coordinator {
namespace {

using base::MakeError;

const absl::Duration kAskAgain = absl::Seconds(1);

// Returns the trial as it was granted under `token`, as far as its present row tells: an older program kept no more.
absl::StatusOr<study::Trial> TrialNow(Study& s, const storage::GrantedLease& lease, const std::string& request_id) {
  LUTHIER_ASSIGN_OR_RETURN(const storage::TrialRecord* const record, FindRepliedTrial(s, lease.trial, request_id));
  for (size_t i = 0; i < record->grants.size(); ++i) {
    if (record->grants[i].token != lease.token) continue;
    study::Trial trial = record->trial;
    trial.attempts.resize(i + 1);
    return trial;
  }
  return ReplyDamaged(request_id, absl::StrCat("trial ", lease.trial, " was never granted under its token"));
}

// Rebuilds the first answer: trials, spec and seq as they were.
absl::StatusOr<SuggestReply> Rebuild(Context& c, const std::string& request_id, const storage::GrantedLeases& stored) {
  LUTHIER_ASSIGN_OR_RETURN(Study* const found, FindStudy(c, stored.study));
  if (found == nullptr) {
    return MakeError(absl::StatusCode::kNotFound, base::reason::kNotFound, "the study was deleted");
  }
  Study& s = *found;
  SuggestReply reply;
  reply.seq = stored.seq != 0 ? stored.seq : s.record().update_seq;
  LUTHIER_ASSIGN_OR_RETURN(const study::StudySpec then, SpecThen(c, s, reply.seq));
  const auto spec = std::make_shared<const study::StudySpec>(search::Effective(then));
  const study::GradientUse use = search::GradientUseOf(*spec);
  for (const storage::GrantedLease& lease : stored.leases) {
    absl::StatusOr<study::Trial> trial = study::Trial();
    if (lease.granted) {
      trial = *lease.granted;
    } else {
      trial = TrialNow(s, lease, request_id);
    }
    if (!trial.ok()) return trial.status();
    reply.grants.push_back(DescribeGrant(s.record().id, spec, use, *std::move(trial), lease.token));
  }
  return reply;
}

// Returns the key of the study that the ask names; 0: any.
absl::StatusOr<storage::StudyKey> StudyOf(Context& c, const SuggestOp& op) {
  if (op.id.empty()) return 0;
  LUTHIER_ASSIGN_OR_RETURN(const Study* const s, FindStudy(c, op.id));
  if (!op.fail_if_paused || s->record().state != study::StudyState::kPaused) return s->record().key;
  return MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kStudyPaused,
                   absl::StrCat("study ", base::Quote(op.id), " is paused: ", s->record().state_reason,
                                "; `luthier study resume` lets it go on"));
}

// Answers an earlier call with the same request id: its caller has sent the request again, and only one of the two may
// get trials.
void DropEarlierCall(Context& c, const std::string& request_id) {
  const uint64_t number = c.state.waiters.FindRequest(request_id);
  if (number == 0) return;
  const Waiter first = TakeWaiter(c.state, number);
  Answer<SuggestReply>(c, first.op.done, absl::CancelledError("the same request was sent again"));
}

// Limits the number of pools that are remembered, since any caller may name one.
absl::Status KnowPool(const Context& c, const std::string& pool) {
  const int limit = c.options.limits.pools;
  if (c.state.pools.count(pool) > 0 || c.state.pools.size() < static_cast<size_t>(limit)) return absl::OkStatus();
  return LimitExceeded("pools", limit,
                       absl::StrCat("there are ", limit,
                                    " pools already; use one that exists, or restart the coordinator "
                                    "to forget those without studies"));
}

// Returns RESOURCE_EXHAUSTED QUEUE_FULL: workers come back by themselves.
absl::Status AskAgain(std::string why) {
  base::ErrorDetail detail;
  detail.reason = base::reason::kQueueFull;
  detail.retry_delay = kAskAgain;
  return MakeError(absl::StatusCode::kResourceExhausted, std::move(why), std::move(detail));
}

// Checks that one more ask of the project may wait.
absl::Status CheckAsks(const Context& c, const std::string& pool) {
  if (c.options.quotas == nullptr) return absl::OkStatus();
  const absl::string_view project = study::ProjectOfPool(pool);
  if (const absl::Status bytes = CheckBytes(c, project); !bytes.ok()) return AskAgain(std::string(bytes.message()));
  const int64_t quota = c.options.quotas->Of(project).waiting_asks;
  const auto used = c.state.projects.find(std::string(project));
  if (quota == 0 || used == c.state.projects.end() || used->second.waiting < quota) return absl::OkStatus();
  return AskAgain(absl::StrCat("project ", base::Quote(project), " has ", quota,
                               " asks waiting, the most that its quota allows; ask again later"));
}

}  // namespace

void Run(Context& c, SuggestOp op) {
  Waiter waiter;
  const absl::StatusOr<storage::StudyKey> study = StudyOf(c, op);
  waiter.pool = study.ok() && *study != 0 ? c.state.studies.at(*study).pool() : op.pool;
  if (absl::Status known = KnowPool(c, waiter.pool); !known.ok())
    return Answer<SuggestReply>(c, op.done, std::move(known));
  c.state.pools[waiter.pool].NoteAsker(op.worker, c.batch.now);
  waiter.digest = DigestOf(op);
  if (AnswerRepeated<storage::GrantedLeases, SuggestReply>(
          c, op.request_id, waiter.digest, op.done,
          [&](const auto& stored) { return Rebuild(c, op.request_id, stored); })) {
    return;
  }
  if (!study.ok()) return Answer<SuggestReply>(c, op.done, study.status());
  waiter.study = *study;
  DropEarlierCall(c, op.request_id);
  if (absl::Status room = CheckAsks(c, waiter.pool); !room.ok()) {
    return Answer<SuggestReply>(c, op.done, std::move(room));
  }
  waiter.op = std::move(op);
  AddWaiter(c.state, std::move(waiter));
}

}  // namespace luthier::coordinator
