#include "server/coordinator/state/invariants.h"

#include <array>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "server/coordinator/state/counts.h"

namespace luthier::coordinator {
namespace {

using storage::TrialRecord;
using study::TrialState;

constexpr int kInvariantsPage = 1000;

absl::Status Broken(const StudyState& s, absl::string_view what) {
  return absl::InternalError(absl::StrCat("study ", base::Quote(s.record.id), ": ", what));
}

// Counts made while the rows are read.
struct Counts {
  std::array<int64_t, study::kTrialStateCount> counts{};
  std::set<std::string> tokens;
  int64_t rows = 0;
};

absl::Status CheckRow(const StudyState& s, const TrialRecord& record, Counts* recount) {
  const int64_t row = ++recount->rows;
  ++recount->counts[static_cast<size_t>(record.trial.state)];
  if (record.trial.number != row) return Broken(s, "numbers have a hole");
  const TrialSlot& slot = s.trials[row - 1];
  if (slot.state != record.trial.state) return Broken(s, "state in memory differs from storage");
  if (slot.record && !(*slot.record == record)) return Broken(s, "trial differs from storage");
  if (study::AttemptsUsed(record.trial) > s.spec->lease.max_attempts) {
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

absl::Status CheckCounts(const StudyState& s, const Counts& recount) {
  const auto count = [&](TrialState state) { return static_cast<size_t>(recount.counts[static_cast<size_t>(state)]); };
  if (recount.rows != static_cast<int64_t>(s.trials.size())) return Broken(s, "rows in memory differ from storage");
  if (recount.rows > s.spec->budget.max_trials) return Broken(s, "more rows than max_trials (I1)");
  if (recount.counts != s.counts) return Broken(s, "counts differ from a recount (I2)");
  if (count(TrialState::kRunning) != s.running.size()) return Broken(s, "running set differs (I2)");
  if (count(TrialState::kPaused) != s.paused.size()) return Broken(s, "paused set differs (I2)");
  if (count(TrialState::kPending) != s.retries.size() + s.enqueued.size()) {
    return Broken(s, "pending sets differ (I2)");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckInvariants(storage::Storage* storage, const CoreState& state) {
  for (const auto& [key, s] : state.studies) {
    LUTHIER_ASSIGN_OR_RETURN(const storage::StudyRecord stored, storage->GetStudy(s.record.id));
    if (!(stored == s.record)) return Broken(s, "record in memory differs from storage");
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
    for (size_t i = 0; i < totals.size(); ++i) totals[i] += s.counts[i];
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

}  // namespace luthier::coordinator
