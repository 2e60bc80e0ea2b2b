#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "server/coordinator/operations/handlers.h"
#include "server/coordinator/studies/changes.h"
#include "server/coordinator/studies/counts.h"
#include "server/coordinator/studies/index.h"

namespace luthier::coordinator {
namespace {

// Gives an expired lease that nobody else was granted back to its holder.
void TakeBack(Study& s, int64_t number) {
  const storage::TrialRecord& record = *s.slot(number).record;
  s.KeepLease(number);
  s.AddEvent(storage::EventType::kTrialResumed, &record).actor = record.trial.attempts.back().worker;
}

// Returns those of the leases that expired and are the newest of their trials.
std::set<std::pair<storage::StudyKey, int64_t>> ExpiredOf(const Context& c, const std::vector<std::string>& tokens) {
  std::set<std::pair<storage::StudyKey, int64_t>> trials;
  for (const std::string& token : tokens) {
    const std::optional<LeaseTable::Entry> lease = c.leases->Find(token);
    if (!lease) continue;
    const Study& s = c.state.studies.at(lease->study);
    if (s.expired().count(lease->trial) == 0) continue;
    if (s.slot(lease->trial).record->grants.back().token == token) trials.emplace(lease->study, lease->trial);
  }
  return trials;
}

}  // namespace

void Run(Context& c, HeartbeatOp op) {
  for (const auto& [key, number] : ExpiredOf(c, op.tokens)) TakeBack(c.state.studies.at(key), number);
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
