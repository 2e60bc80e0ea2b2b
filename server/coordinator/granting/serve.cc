#include "server/coordinator/granting/serve.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/project.h"
#include "server/coordinator/messages/size.h"
#include "server/coordinator/studies/changes.h"
#include "server/coordinator/studies/counts.h"
#include "server/coordinator/studies/index.h"

namespace luthier::coordinator {
namespace {

using base::Quote;
using storage::StudyKey;
using study::TrialState;

// A message may have 4 MiB, a spec 2 MiB and the rest of a trial at most about 1.5 MiB, so no trial is added to a reply
// that has grown to this.
constexpr size_t kFullReply = size_t{1} << 20;
const absl::Duration kRetryAfter = absl::Seconds(1);
constexpr size_t kChecked = 16;  // Number of asks that each batch checks.

const absl::Duration kLongestRetryAfter = absl::Seconds(30);

// Returns how long the asker gets no trials of the study; not above 0: it may have some.
absl::Duration RestFrom(const SuggestOp& op, const Study& s) {
  if (std::holds_alternative<study::ExternalObjective>(s.spec()->objective)) return absl::ZeroDuration();
  const auto rest =
      std::find_if(op.rests.begin(), op.rests.end(), [&](const Rest& r) { return r.study == s.record().key; });
  return rest == op.rests.end() ? absl::ZeroDuration() : rest->left;
}

// The trials that an ask gets from one study.
struct Share {
  std::vector<int64_t> waiting;  // Numbers of trials that wait for a worker.
  int64_t suggestions = 0;       // Number of ready suggestions.
  bool none() const { return waiting.empty() && suggestions == 0; }
};

// Returns the study's trials for the ask, at most `count`. Returns none while it is worth waiting for more, which is
// added to the study's demand. `due`: takes what is there rather than wait.
Share ShareOf(Study& s, uint64_t number, const Waiter& waiter, int count, bool due) {
  Share share;
  absl::Duration again = absl::InfiniteDuration();
  share.waiting = s.EligibleTrials(waiter.op.worker, count, &again);
  s.SetTimer(again);
  int64_t taken = 0;
  for (const int64_t trial : share.waiting) taken += s.slot(trial).state == TrialState::kPending ? 1 : 0;
  // The first suggestion can't be granted any more, and those behind it can't be granted before it.
  if (s.spec()->resource && s.ready() > 0 && !s.CanGrantReady()) s.DropReady();
  // Continuing a PAUSED trial takes no row, and the designer decides whether it continues one. Rows that earlier asks
  // wait for are reserved for these.
  const int64_t rows = s.paused().empty() ? s.RoomForNew() : std::numeric_limits<int64_t>::max();
  const int64_t want = std::clamp<int64_t>(std::min(rows, s.RoomToRun() - taken) - s.demand(), 0,
                                           count - static_cast<int64_t>(share.waiting.size()));
  share.suggestions = std::clamp<int64_t>(s.ready() - s.demand(), 0, want);
  if (share.suggestions == want || !s.MoreMayCome() || (due && !share.none())) return share;
  if (due)
    s.CountDeparted(want);
  else
    s.Count(number, want);
  return Share();
}

// Grants at most `count` trials of the study. False: the ask goes on waiting for this study.
bool GrantFrom(Context& c, Study& s, uint64_t number, const Waiter& waiter, int count, bool due) {
  if (s.record().state != study::StudyState::kActive || s.TimeIsUp()) return false;
  const Share share = ShareOf(s, number, waiter, count, due);
  if (share.none()) return false;
  SuggestReply reply;
  storage::GrantedLeases stored{s.record().key, {}};
  size_t bytes = 0;
  const auto full = [&] { return bytes >= kFullReply; };
  const auto grant = [&](int64_t trial) {
    reply.grants.push_back(s.Grant(trial, waiter.op.worker, waiter.op.request_id));
    bytes += BytesOf(reply.grants.back());
    stored.leases.push_back({trial, reply.grants.back().token, reply.grants.back().trial});
  };
  for (const int64_t trial : share.waiting) {
    if (!full()) grant(trial);
  }
  for (int64_t i = 0; i < share.suggestions && !full() && s.CanGrantReady(); ++i) grant(s.StoreReady());
  stored.seq = reply.seq = c.state.counters.seq;
  c.requests.Remember(waiter.op.request_id, waiter.digest, std::move(stored), c.batch.uptime);
  Answer<SuggestReply>(c, waiter.op.done, std::move(reply));
  return true;
}

// Calls GrantFrom, then updates the study's place in its pool. A grant alone does not wake the study.
bool ServeFrom(Context& c, Study& s, uint64_t number, const Waiter& waiter, int count, bool due) {
  ++c.state.steps;
  const bool awake = c.state.woken.count(s.key()) > 0;
  const bool served = GrantFrom(c, s, number, waiter, count, due);
  s.Place(/*fresh=*/false);
  if (!awake) c.state.woken.erase(s.key());
  return served;
}

int RoomOf(const Context& c, const Waiter& waiter) {
  return c.options.limits.leases_per_worker - Held(c.state, waiter.op.worker);
}

// Returns the number of trials that may start running in the ask's project.
int64_t RoomInProject(const Context& c, const Waiter& waiter) {
  if (c.options.quotas == nullptr) return std::numeric_limits<int64_t>::max();
  const absl::string_view project = study::ProjectOfPool(waiter.pool);
  const int64_t quota = c.options.quotas->Of(project).running_trials;
  if (quota == 0) return std::numeric_limits<int64_t>::max();
  return std::max<int64_t>(0, quota - c.state.projects.at(std::string(project)).running);
}

// Returns why the ask can never be served; OK: it may be.
absl::Status CheckWaiter(const Context& c, const Waiter& waiter) {
  if (waiter.op.caller_gone.stop_requested()) return absl::CancelledError("the caller hung up");
  if (waiter.op.permit != nullptr) LUTHIER_RETURN_IF_ERROR(waiter.op.permit->Check(c.batch.wall));
  if (waiter.study != 0 && c.state.studies.count(waiter.study) == 0) {
    return base::MakeError(absl::StatusCode::kNotFound, base::reason::kNotFound,
                           absl::StrCat("study ", Quote(waiter.op.id), " was deleted"));
  }
  const int room = RoomOf(c, waiter);
  if (room > 0) return absl::OkStatus();
  const int limit = c.options.limits.leases_per_worker;
  return LimitExceeded("leases_per_worker", limit,
                       absl::StrCat("worker ", Quote(waiter.op.worker), " holds ", limit - room, " leases, and ", limit,
                                    " is the most one worker may hold; finish or release some, or ask under "
                                    "another worker's name"));
}

bool StudyDone(const Study& s) {
  return study::IsFinished(s.record().state) && !s.AnyOpenBesidesPaused();
}

void AnswerWaiter(Context& c, uint64_t number, absl::StatusOr<SuggestReply> reply) {
  const Waiter waiter = TakeWaiter(c.state, number);
  Answer<SuggestReply>(c, waiter.op.done, std::move(reply));
}

// Looks once at the asks that may get something: those that are unsettled, and, in order of arrival, those that a
// changed study may serve, until it has nothing more.
class Round {
 public:
  Round(Context& c, bool answer_due) : c_(c), answer_due_(answer_due) {}

  void Run() {
    unsettled_ = std::exchange(c_.state.unsettled, {});
    woken_ = std::exchange(c_.state.woken, {});
    for (const StudyKey key : woken_) Refresh(key);
    unsettled_.merge(c_.state.unsettled);
    c_.state.unsettled.clear();
    agenda_ = unsettled_;
    for (const StudyKey key : woken_) GoOn(c_.state.waiters.Of(key), 0, Walks(key));
    for (auto& [name, pool] : c_.state.pools) GoOn(c_.state.waiters.OfPool(name), 0, !pool.fresh().empty());
    while (!agenda_.empty()) {
      const uint64_t number = *agenda_.begin();
      agenda_.erase(agenda_.begin());
      Look(number);
    }
    for (auto& [name, pool] : c_.state.pools) pool.ForgetFresh();
  }

 private:
  // Counts anew what asks want of the study.
  void Refresh(StudyKey key) {
    ++c_.state.steps;
    const auto found = c_.state.studies.find(key);
    if (found == c_.state.studies.end()) return;
    Study& s = found->second;
    s.Recount();
    if (s.exhausted()) s.CompleteWhenDone();
    s.Place(/*fresh=*/true);
    c_.state.woken.erase(key);
  }

  // True if the next ask that names this changed study may be answered.
  bool Walks(StudyKey key) const {
    const auto found = c_.state.studies.find(key);
    if (found == c_.state.studies.end()) return true;
    const Study& s = found->second;
    return s.MayServe() || StudyDone(s) || !s.history().ok();
  }

  // Makes the next ask of the queue be looked at, too.
  void GoOn(const Waiters::Queue& queue, uint64_t after, bool walks) {
    if (!walks) return;
    const auto next = queue.upper_bound(after);
    if (next != queue.end()) agenda_.insert(*next);
  }

  void Look(uint64_t number) {
    ++c_.state.steps;
    const Waiter& waiter = *c_.state.waiters.Find(number);
    const StudyKey study = waiter.study;
    const std::string pool = waiter.pool;
    Serve(number, waiter);
    if (study != 0)
      GoOn(c_.state.waiters.Of(study), number, woken_.count(study) > 0 && Walks(study));
    else
      GoOn(c_.state.waiters.OfPool(pool), number, !c_.state.pools[pool].fresh().empty());
  }

  // Answers the ask if it can be answered now.
  void Serve(uint64_t number, const Waiter& waiter) {
    if (absl::Status status = CheckWaiter(c_, waiter); !status.ok()) return AnswerWaiter(c_, number, std::move(status));
    const int64_t room = RoomInProject(c_, waiter);
    const int count = static_cast<int>(std::min<int64_t>({waiter.op.count, RoomOf(c_, waiter), room}));
    const bool due = answer_due_ && waiter.op.deadline <= c_.batch.now;
    const Study* const s = waiter.study == 0 ? nullptr : &c_.state.studies.at(waiter.study);
    const absl::Duration rest = s == nullptr ? absl::ZeroDuration() : RestFrom(waiter.op, *s);
    const bool rests = rest > absl::ZeroDuration();
    if (room == 0 && !due && !rests) {
      const std::string project(study::ProjectOfPool(waiter.pool));
      c_.state.projects.at(project).stalled.insert(number);
      NoteStalled(c_.state, project);
    }
    const bool served = room == 0 || rests ? false
                        : waiter.study == 0
                            ? ServeFromAny(number, waiter, count, due)
                            : ServeFrom(c_, c_.state.studies.at(waiter.study), number, waiter, count, due);
    if (served) {
      TakeWaiter(c_.state, number);
      return;
    }
    if (s != nullptr && !s->history().ok()) return AnswerWaiter(c_, number, s->history());
    SuggestReply nothing;
    nothing.seq = c_.state.counters.seq;
    nothing.study_done = s != nullptr && StudyDone(*s);
    if (!due && !nothing.study_done && !rests) return;
    nothing.retry_after = std::clamp(rest, kRetryAfter, kLongestRetryAfter);
    AnswerWaiter(c_, number, std::move(nothing));
  }

  // Tries studies in order of rank: all of them for a new ask, only changed ones for an ask that was tried before. It
  // stops at a study that computes a suggestion for this ask.
  bool ServeFromAny(uint64_t number, const Waiter& waiter, int count, bool due) {
    const Pool& pool = c_.state.pools[waiter.pool];
    const std::set<Rank>& candidates = unsettled_.count(number) > 0 ? pool.open() : pool.fresh();
    const StudyKey before = waiter.counted_for;
    Rank rank;
    for (auto it = candidates.begin(); it != candidates.end(); it = candidates.upper_bound(rank)) {
      rank = *it;
      if (before != 0 && c_.state.studies.at(before).RankNow() < rank) return false;
      Study& s = c_.state.studies.at(rank.key);
      if (RestFrom(waiter.op, s) > absl::ZeroDuration()) continue;
      if (ServeFrom(c_, s, number, waiter, count, due)) return true;
      // Once a study computes for this ask, the others need not.
      if (waiter.counted_for == rank.key) return false;
    }
    return false;
  }

  Context& c_;
  const bool answer_due_;
  std::set<uint64_t> unsettled_;
  std::set<StudyKey> woken_;
  std::set<uint64_t> agenda_;
};

// Looks at kChecked asks, and answers those that can't be served any more, for instance because the caller hung up,
// before it is their turn.
void CheckSome(Context& c) {
  const std::vector<std::pair<uint64_t, const Waiter*>> some = c.state.waiters.Behind(c.state.checked, kChecked);
  c.state.checked = some.size() < kChecked ? 0 : some.back().first;
  for (const auto& [number, waiter] : some) {
    ++c.state.steps;
    absl::Status status = CheckWaiter(c, *waiter);
    if (!status.ok()) AnswerWaiter(c, number, std::move(status));
  }
}

// Makes rounds until no study is woken and no ask is unsettled.
void Settle(Context& c, bool answer_due) {
  while (!c.state.woken.empty() || !c.state.unsettled.empty()) Round(c, answer_due).Run();
}

}  // namespace

void Serve(Context& c) {
  CheckSome(c);
  Settle(c, /*answer_due=*/false);
}

void ServeDue(Context& c) {
  const std::vector<uint64_t> due = c.state.waiters.Due(c.batch.now);
  for (const uint64_t number : due) {
    const Waiter& waiter = *c.state.waiters.Find(number);
    if (waiter.study != 0) Wake(c.state, waiter.study);
    if (waiter.counted_for != 0) Wake(c.state, waiter.counted_for);
    c.state.unsettled.insert(number);
  }
  if (!due.empty()) Settle(c, /*answer_due=*/true);
}

}  // namespace luthier::coordinator
