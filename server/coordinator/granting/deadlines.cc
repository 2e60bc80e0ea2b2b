#include "server/coordinator/granting/deadlines.h"

#include <cstdint>
#include <set>
#include <utility>

namespace luthier::coordinator {
void CheckDeadlines(Context& c) {
  // A time in which this process did not run must not cost a worker its lease: no lease could be renewed through it.
  const absl::Duration gap = c.batch.now - c.state.last_tick;
  if (gap > c.options.stall) ExtendLeases(c, gap);
  c.state.last_tick = c.batch.now;
  std::set<storage::StudyKey> due;
  for (auto it = c.state.timers.begin(); it != c.state.timers.end() && it->first <= c.batch.now; ++it) {
    due.insert(it->second);
  }
  for (const storage::StudyKey key : due) {
    Study& s = c.state.studies.at(key);
    s.ClearTimer();
    for (const int64_t number : std::set<int64_t>(s.running())) s.CheckDeadline(number);
    if (s.TimeIsUp() && !study::IsFinished(s.record().state)) s.EndWhenDue();
    s.WatchTime();
    s.Wake();  // A trial may no longer be kept for other workers.
  }
  for (const storage::StudyKey key : std::exchange(c.state.departed, {})) {
    const auto found = c.state.studies.find(key);
    if (found != c.state.studies.end()) found->second.ForgetDeparted();
  }
}

void ExtendLeases(Context& c, absl::Duration by) {
  c.leases->ShiftAll(by);
  // A lease that had expired may be live again. Timers of live leases merely fire too early, and are set anew then.
  for (const storage::StudyKey key : c.state.expired) {
    c.state.studies.at(key).SetTimer(absl::ZeroDuration());
  }
}

}  // namespace luthier::coordinator
