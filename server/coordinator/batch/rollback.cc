#include <set>
#include <string>
#include <vector>

#include "lib/base/status_macros.h"
#include "server/coordinator/batch/commit.h"
#include "server/coordinator/state/counts.h"
#include "server/coordinator/state/load.h"
#include "server/coordinator/state/waiters.h"

namespace luthier::coordinator {
namespace {

using storage::StudyKey;

constexpr int kPage = 100;

// Forgets the studies that the batch changed; returns their keys.
std::set<StudyKey> ForgetChanged(Context& c) {
  std::set<StudyKey> changed = c.batch.touched;
  changed.insert(c.batch.deleted.begin(), c.batch.deleted.end());
  for (const StudyKey key : changed) {
    const auto found = c.state.studies.find(key);
    if (found != c.state.studies.end()) {
      c.state.by_id.erase(found->second.record.id);
      c.leases->DropStudy(key);
    }
    c.outbox.invalidated.push_back(key);
  }
  return changed;
}

}  // namespace

absl::Status RollBack(Context& c, const absl::Status& cause) {
  c.state.counters = c.batch.at_begin;
  const std::set<StudyKey> changed = ForgetChanged(c);
  std::set<StudyKey> present;
  for (std::string after;;) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::StudyRecord> page, c.storage->ListStudies(after, kPage));
    for (const storage::StudyRecord& record : page) {
      present.insert(record.key);
      if (changed.count(record.key) > 0) LUTHIER_RETURN_IF_ERROR(LoadStudy(SourceOf(c), record, c.state));
    }
    if (page.size() < kPage) break;
    after = page.back().id;
  }
  for (const StudyKey key : changed) {
    if (present.count(key) == 0) c.state.studies.erase(key);
  }
  c.state.held = CountHeld(c.state);
  RefuseWaiting(c.state, cause,
                [&](const Waiter& waiter) { return waiter.study != 0 && c.state.studies.count(waiter.study) == 0; });
  return absl::OkStatus();
}

}  // namespace luthier::coordinator
