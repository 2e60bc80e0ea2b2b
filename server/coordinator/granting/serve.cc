#include "server/coordinator/granting/serve.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "server/coordinator/batch/changes.h"
#include "server/coordinator/granting/grant.h"
#include "server/coordinator/granting/room.h"
#include "server/coordinator/granting/suggestions.h"
#include "server/coordinator/messages/size.h"
#include "server/coordinator/state/counts.h"
#include "server/coordinator/trials/study_end.h"

namespace luthier::coordinator {
namespace {

using base::Quote;
using study::TrialState;

// A message may have 4 MiB, a spec 2 MiB and the rest of a trial at most about 1.5 MiB: no further trial joins a reply
// that has grown to this.
constexpr size_t kFullReply = size_t{1} << 20;
const absl::Duration kRetryAfter = absl::Seconds(1);

// What an ask gets from one study.
struct Share {
  std::vector<int64_t> waiting;  // Trials that wait for a worker.
  int64_t suggestions = 0;       // Of the ready ones.
  bool none() const { return waiting.empty() && suggestions == 0; }
};

// Studies that may serve the ask. Of any study: the one with the fewest running trials first, so that none starves.
std::vector<StudyState*> CandidatesFor(CoreState& state, const Waiter& waiter) {
  std::vector<StudyState*> candidates;
  if (waiter.study != 0) {
    const auto found = state.studies.find(waiter.study);
    if (found != state.studies.end()) candidates.push_back(&found->second);
    return candidates;
  }
  for (auto& [key, s] : state.studies) {
    if (s.record.state != study::StudyState::kActive) continue;
    if (std::holds_alternative<study::ExternalObjective>(s.spec->objective)) continue;
    candidates.push_back(&s);
  }
  std::sort(candidates.begin(), candidates.end(), [](const StudyState* a, const StudyState* b) {
    return std::pair(a->running.size(), a->record.key) < std::pair(b->running.size(), b->record.key);
  });
  return candidates;
}

// What the study has for the ask, at most `count` trials. None while it is worth waiting for more, which is added to
// its demand. `due`: takes what is there rather than wait.
Share ShareOf(Context& c, StudyState& s, const Waiter& waiter, int count, bool due) {
  Share share;
  share.waiting = EligibleTrials(c, s, waiter.op.worker, count);
  int64_t taken = 0;
  for (const int64_t number : share.waiting) taken += s.trials[number - 1].state == TrialState::kPending ? 1 : 0;
  // It can't be granted any more, and nothing behind it can be before it.
  if (s.spec->resource && !s.ready.empty() && !CanGrantReady(c, s)) DropReady(c, s);
  // To continue a PAUSED trial takes no row: the designer says whether it will. Rows that earlier asks wait for are
  // spoken for.
  const int64_t rows = s.paused.empty() ? RoomForNew(c, s) : std::numeric_limits<int64_t>::max();
  const int64_t want = std::clamp<int64_t>(std::min(rows, RoomToRun(c, s) - taken) - s.demand, 0,
                                           count - static_cast<int64_t>(share.waiting.size()));
  share.suggestions = std::clamp<int64_t>(static_cast<int64_t>(s.ready.size()) - s.demand, 0, want);
  const bool more_may_come = s.history.ok() && !s.exhausted && !(s.blocked && !s.computing);
  if (share.suggestions < want && more_may_come && (!due || share.none())) {
    s.demand += want;
    return Share();
  }
  return share;
}

// Grants at most `count` trials of the study. False: the ask goes on waiting for this study.
bool ServeFrom(Context& c, StudyState& s, Waiter& waiter, int count, bool due) {
  if (s.record.state != study::StudyState::kActive) return false;
  const Share share = ShareOf(c, s, waiter, count, due);
  if (share.none()) return false;
  SuggestReply reply;
  storage::GrantedLeases stored{s.record.key, {}};
  size_t bytes = 0;
  const auto full = [&] { return bytes >= kFullReply; };
  const auto grant = [&](int64_t number) {
    reply.grants.push_back(GrantTrial(c, s, number, waiter.op.worker));
    bytes += BytesOf(reply.grants.back());
    stored.leases.push_back({number, reply.grants.back().token});
  };
  for (const int64_t number : share.waiting) {
    if (!full()) grant(number);
  }
  for (int64_t i = 0; i < share.suggestions && !full() && CanGrantReady(c, s); ++i) grant(StoreReady(c, s));
  reply.seq = c.state.counters.seq;
  c.requests.Remember(waiter.op.request_id, waiter.digest, std::move(stored), c.batch.wall);
  Answer<SuggestReply>(c, waiter.op.done, std::move(reply));
  return true;
}

// Why the ask can never be served; OK: it may be. `room`: leases its worker may still get.
absl::Status CheckWaiter(const Context& c, const Waiter& waiter, bool has_candidates, int room) {
  if (waiter.op.caller_gone.stop_requested()) return absl::CancelledError("the caller hung up");
  if (waiter.study != 0 && !has_candidates) {
    return base::MakeError(absl::StatusCode::kNotFound, base::reason::kNotFound,
                           absl::StrCat("study ", Quote(waiter.op.id), " was deleted"));
  }
  if (room > 0) return absl::OkStatus();
  const int limit = c.options.limits.leases_per_worker;
  return LimitExceeded("leases_per_worker", limit,
                       absl::StrCat("worker ", Quote(waiter.op.worker), " holds ", limit - room, " leases, and ", limit,
                                    " is the most one worker may hold; finish or release some, or ask under "
                                    "another worker's name"));
}

bool StudyDone(const StudyState& s) {
  return study::IsFinished(s.record.state) && !AnyOpenBesidesPaused(s);
}

// Answers the ask if it can be answered now. False: it goes on waiting.
bool ServeWaiter(Context& c, Waiter& waiter, bool answer_due) {
  const std::vector<StudyState*> candidates = CandidatesFor(c.state, waiter);
  const int room = c.options.limits.leases_per_worker - Held(c.state, waiter.op.worker);
  if (absl::Status status = CheckWaiter(c, waiter, !candidates.empty(), room); !status.ok()) {
    Answer<SuggestReply>(c, waiter.op.done, std::move(status));
    return true;
  }
  const int count = std::min(waiter.op.count, room);
  const bool due = answer_due && waiter.op.deadline <= c.batch.now;
  for (StudyState* s : candidates) {
    const int64_t demand_before = s->demand;
    if (ServeFrom(c, *s, waiter, count, due)) return true;
    // Once a study computes for this ask, the others need not.
    if (!due && s->demand != demand_before) break;
  }
  if (waiter.study != 0 && !candidates.front()->history.ok()) {
    Answer<SuggestReply>(c, waiter.op.done, candidates.front()->history);
    return true;
  }
  SuggestReply nothing;
  nothing.seq = c.state.counters.seq;
  nothing.study_done = waiter.study != 0 && StudyDone(*candidates.front());
  if (!due && !nothing.study_done) return false;
  nothing.retry_after = kRetryAfter;
  Answer<SuggestReply>(c, waiter.op.done, std::move(nothing));
  return true;
}

}  // namespace

void Serve(Context& c, bool answer_due) {
  for (auto& [key, s] : c.state.studies) {
    s.demand = 0;
    if (s.exhausted) CompleteWhenDone(c, s);
  }
  std::deque<Waiter> still;
  for (Waiter& waiter : c.state.waiters) {
    if (!ServeWaiter(c, waiter, answer_due)) still.push_back(std::move(waiter));
  }
  c.state.waiters = std::move(still);
}

void ServeDue(Context& c) {
  const std::deque<Waiter>& waiters = c.state.waiters;
  if (std::any_of(waiters.begin(), waiters.end(), [&](const Waiter& w) { return w.op.deadline <= c.batch.now; })) {
    Serve(c, /*answer_due=*/true);
  }
}

}  // namespace luthier::coordinator
