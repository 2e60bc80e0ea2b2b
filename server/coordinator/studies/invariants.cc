#include "server/coordinator/studies/invariants.h"

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "server/coordinator/studies/counts.h"

namespace luthier::coordinator {
namespace {

using storage::StudyKey;
using storage::TrialRecord;
using study::TrialState;

constexpr int kInvariantsPage = 1000;

absl::Status Broken(const Study& s, absl::string_view what) {
  return absl::InternalError(absl::StrCat("study ", base::Quote(s.record().id), ": ", what));
}

// Counts made while the rows are read.
struct Counts {
  std::array<int64_t, study::kTrialStateCount> counts{};
  std::set<std::string> tokens;
  int64_t rows = 0;
};

absl::Status CheckRow(const Study& s, const TrialRecord& record, Counts* recount) {
  const int64_t row = ++recount->rows;
  ++recount->counts[static_cast<size_t>(record.trial.state)];
  if (record.trial.number != row) return Broken(s, "numbers have a hole");
  const TrialSlot& slot = s.slot(row);
  if (slot.state != record.trial.state) return Broken(s, "state in memory differs from storage");
  if (slot.record && !(*slot.record == record)) return Broken(s, "trial differs from storage");
  if (study::AttemptsUsed(record.trial) > s.spec()->lease.max_attempts) {
    return Broken(s, "more attempts than max_attempts (I7)");
  }
  if (record.grants.size() != record.trial.attempts.size()) return Broken(s, "grants and attempts differ");
  for (const storage::GrantRecord& grant : record.grants) {
    if (!recount->tokens.insert(grant.token).second) return Broken(s, "a token was given twice (I5)");
  }
  if (study::IsFinal(record.trial.state) != (record.finish_seq != 0)) {
    return Broken(s, "finish_seq does not fit the state");
  }
  return absl::OkStatus();
}

absl::Status CheckCounts(const Study& s, const Counts& recount) {
  const auto count = [&](TrialState state) { return static_cast<size_t>(recount.counts[static_cast<size_t>(state)]); };
  if (recount.rows != s.size()) return Broken(s, "rows in memory differ from storage");
  if (recount.rows > s.spec()->budget.max_trials) return Broken(s, "more rows than max_trials (I1)");
  if (recount.counts != s.counts()) return Broken(s, "counts differ from a recount (I2)");
  if (count(TrialState::kRunning) != s.running().size()) return Broken(s, "running set differs (I2)");
  if (count(TrialState::kPaused) != s.paused().size()) return Broken(s, "paused set differs (I2)");
  if (count(TrialState::kPending) != s.retries().size() + s.enqueued().size()) {
    return Broken(s, "pending sets differ (I2)");
  }
  return absl::OkStatus();
}

// Compares the indexes that the study is in with the study. `counted`: what asks want of each study.
absl::Status CheckPlace(const Context& c, const Study& s, const std::map<StudyKey, int64_t>& counted) {
  const StudyKey key = s.record().key;
  const auto found = counted.find(key);
  const int64_t waiting = found == counted.end() ? 0 : found->second;
  if (s.demand() != waiting + s.departed()) return Broken(s, "demand differs from what asks were counted for");
  const bool has_timer = s.timer() != absl::InfiniteDuration();
  if (has_timer != (c.state.timers.count({s.timer(), key}) > 0)) return Broken(s, "timer is not among all timers");
  if (!s.running().empty() && s.expired().size() < s.running().size() && !has_timer)
    return Broken(s, "no timer for leases");
  if (s.expired().empty() != (c.state.expired.count(key) == 0)) return Broken(s, "not known to have expired leases");
  if (c.state.woken.count(key) > 0) return absl::OkStatus();  // The next batch places it anew.
  const bool open = s.ForAnyWorker() && s.MayServe();
  const auto pool = c.state.pools.find(s.pool());
  if (open != s.rank().has_value() || (open && *s.rank() != s.RankNow()))
    return Broken(s, "not at its place in its pool");
  if (open && pool->second.open().count(*s.rank()) == 0) return Broken(s, "not in its pool");
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckInvariants(storage::Storage* storage, const CoreState& state) {
  for (const auto& [key, s] : state.studies) {
    LUTHIER_ASSIGN_OR_RETURN(const storage::StudyRecord stored, storage->GetStudy(s.record().id));
    if (!(stored == s.record())) return Broken(s, "record in memory differs from storage");
    if (state.put_off.count(key) > 0) continue;
    Counts recount;
    for (int64_t after = 0;;) {
      LUTHIER_ASSIGN_OR_RETURN(const std::vector<TrialRecord> page,
                               storage->ListTrials(key, {}, after, kInvariantsPage));
      for (const TrialRecord& record : page) {
        after = record.trial.number;
        LUTHIER_RETURN_IF_ERROR(CheckRow(s, record, &recount));
      }
      if (page.size() < kInvariantsPage) break;
    }
    LUTHIER_RETURN_IF_ERROR(CheckCounts(s, recount));
  }
  std::array<int64_t, study::kTrialStateCount> totals{};
  for (const auto& [key, s] : state.studies) {
    for (size_t i = 0; i < totals.size(); ++i) totals[i] += s.counts()[i];
  }
  if (totals != state.totals) return absl::InternalError("counts over all studies differ from a recount (I2)");
  if (state.held != CountHeld(state)) {
    return absl::InternalError("counts of held leases differ from a recount (I2)");
  }
  std::map<std::string, ProjectUse> used = state.projects;
  std::set<std::string> held_back;
  for (auto& [project, use] : used) {
    if (!use.stalled.empty()) held_back.insert(project);
    use.stalled.clear();
  }
  if (held_back != state.held_back)
    return absl::InternalError("projects that quotas hold back are others than noted (I2)");
  if (used != CountUse(state)) return absl::InternalError("what projects use differs from a recount (I2)");
  return absl::OkStatus();
}

absl::Status CheckIndexes(const Context& c) {
  std::map<StudyKey, int64_t> counted;
  const Waiters& waiters = c.state.waiters;
  for (const auto& [number, waiter] : waiters.Behind(0, waiters.size())) {
    if (waiter->counted_for == 0) continue;
    counted[waiter->counted_for] += waiter->counted;
    const auto s = c.state.studies.find(waiter->counted_for);
    if (s == c.state.studies.end() || !s->second.counts_ask(number)) {
      return absl::InternalError("an ask is counted for a study that does not know of it");
    }
  }
  size_t placed = 0;
  for (const auto& [key, s] : c.state.studies) {
    LUTHIER_RETURN_IF_ERROR(CheckPlace(c, s, counted));
    placed += s.rank() ? 1 : 0;
  }
  for (const auto& [name, pool] : c.state.pools) placed -= pool.open().size();
  if (placed != 0) return absl::InternalError("a pool has studies that do not know of it");
  return absl::OkStatus();
}

}  // namespace luthier::coordinator
