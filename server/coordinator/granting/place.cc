#include "server/coordinator/granting/place.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "server/coordinator/granting/room.h"
#include "server/coordinator/state/index.h"

namespace luthier::coordinator {
namespace {

using storage::StudyKey;

// True if asks for any study may get trials of this one: those of an external objective go only to asks that name it.
bool ForAnyWorker(const StudyState& s) {
  return !std::holds_alternative<study::ExternalObjective>(s.spec->objective);
}

absl::Status Misplaced(const StudyState& s, absl::string_view what) {
  return absl::InternalError(absl::StrCat("study ", base::Quote(s.record.id), ": ", what));
}

absl::Status CheckStudy(const Context& c, const StudyState& s, const std::map<StudyKey, int64_t>& counted) {
  const StudyKey key = s.record.key;
  const auto found = counted.find(key);
  const int64_t waiting = found == counted.end() ? 0 : found->second;
  if (s.demand != waiting + s.departed) return Misplaced(s, "demand differs from what asks were counted for");
  const bool has_timer = s.timer != absl::InfiniteDuration();
  if (has_timer != (c.state.timers.count({s.timer, key}) > 0)) return Misplaced(s, "timer is not among all timers");
  if (!s.running.empty() && s.expired.size() < s.running.size() && !has_timer)
    return Misplaced(s, "no timer for leases");
  if (s.expired.empty() != (c.state.expired.count(key) == 0)) return Misplaced(s, "not known to have expired leases");
  if (c.state.woken.count(key) > 0) return absl::OkStatus();  // The next batch places it anew.
  const bool open = ForAnyWorker(s) && MayServe(c, s);
  const auto pool = c.state.pools.find(s.pool);
  if (open != s.rank.has_value() || (open && *s.rank != RankOf(s))) return Misplaced(s, "not at its place in its pool");
  if (open && pool->second.open.count(*s.rank) == 0) return Misplaced(s, "not in its pool");
  return absl::OkStatus();
}

}  // namespace

void Place(Context& c, StudyState& s, bool fresh) {
  std::optional<Rank> rank;
  if (ForAnyWorker(s) && MayServe(c, s)) rank = RankOf(s);
  PlaceAt(c.state, s, rank, fresh);
}

absl::Status CheckIndexes(const Context& c) {
  std::map<StudyKey, int64_t> counted;
  const Waiters& waiters = c.state.waiters;
  for (const auto& [number, waiter] : waiters.Behind(0, waiters.size())) {
    if (waiter->counted_for == 0) continue;
    counted[waiter->counted_for] += waiter->counted;
    const auto s = c.state.studies.find(waiter->counted_for);
    if (s == c.state.studies.end() || s->second.counted.count(number) == 0) {
      return absl::InternalError("an ask is counted for a study that does not know of it");
    }
  }
  size_t placed = 0;
  for (const auto& [key, s] : c.state.studies) {
    LUTHIER_RETURN_IF_ERROR(CheckStudy(c, s, counted));
    placed += s.rank ? 1 : 0;
  }
  for (const auto& [name, pool] : c.state.pools) placed -= pool.open.size();
  if (placed != 0) return absl::InternalError("a pool has studies that do not know of it");
  return absl::OkStatus();
}

}  // namespace luthier::coordinator
