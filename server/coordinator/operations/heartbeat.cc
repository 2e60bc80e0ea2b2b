#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "server/coordinator/batch/changes.h"
#include "server/coordinator/operations/handlers.h"
#include "server/coordinator/state/counts.h"

namespace luthier::coordinator {
namespace {

// An expired lease that nobody else was granted goes back to its holder.
void TakeBack(Context& c, StudyState& s, const std::vector<std::string>& tokens) {
  for (const int64_t number : std::set<int64_t>(s.expired)) {
    const storage::TrialRecord& record = *s.trials[number - 1].record;
    if (std::find(tokens.begin(), tokens.end(), record.grants.back().token) == tokens.end()) continue;
    ClearExpired(c.state, s, number);
    AddEvent(c, s, storage::EventType::kTrialResumed, &record).actor = record.trial.attempts.back().worker;
  }
}

}  // namespace

void Run(Context& c, HeartbeatOp op) {
  for (auto& [key, s] : c.state.studies) {
    TakeBack(c, s, op.tokens);
    s.next_expiry_check = std::min(s.next_expiry_check, c.batch.now + s.spec->lease.ttl);
  }
  c.leases->Renew(op.tokens, c.batch.now, /*take_back=*/true);
  // Leases that this batch ends are live until it commits; the answer is given after that.
  LeaseTable* const leases = c.leases;
  c.batch.answers.push_back([leases, op = std::move(op), now = c.batch.now](const absl::Status& committed) {
    if (!op.done) return;
    if (committed.ok())
      op.done(HeartbeatReply{leases->Renew(op.tokens, now, /*take_back=*/true).directives});
    else
      op.done(committed);
  });
}

}  // namespace luthier::coordinator
