#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/server/coordinator/explorer_world.h"

namespace luthier::coordinator::testing {

void ExplorerWorld::Check() {
  const absl::Status status = harness_.core->CheckInvariants();
  if (!status.ok()) return Violated(std::string(status.message()));
  if (static_cast<int>(rows_.size()) > options_.trials + more_rows_) return Violated("more rows than max_trials (I1)");
  const std::string before = State();
  for (Message& message : messages_) {
    if (!message.first) continue;
    const absl::StatusOr<FinishReply> again = Finish(message);
    NoteRows();
    // Refused stays refused; whether the trial is lost or final by now is all that may differ.
    if (again.ok() != message.first->ok()) return Violated("a repeated message got another answer");
    if (again.ok() && (again->state != (*message.first)->state || again->seq != (*message.first)->seq)) {
      return Violated("a repeated message got another reply");
    }
  }
  if (State() != before) return Violated("a repeated message changed the state");
}

void ExplorerWorld::FinishAll() {
  for (int i = 0; i < 60; ++i) {
    const absl::StatusOr<SuggestReply> reply = AskOnce("healthy", "");
    if (!reply.ok()) return Violated("a healthy worker is refused");
    if (reply->study_done) break;
    for (const Grant& grant : reply->grants) {
      const bool paused = grant.target_step > 0;
      const auto told = paused ? harness_.Pause(grant, Loss(Value(grant), grant.target_step))
                               : harness_.Complete(grant, Loss(Value(grant)));
      if (!told.ok()) return Violated("a healthy worker's result is refused");
    }
    if (reply->grants.empty()) {
      if (NextDeadline() == absl::InfiniteDuration()) return Violated("nothing to do, yet the study is not done");
      harness_.Pass(NextDeadline() - harness_.clock.Monotonic());
    }
  }
  NoteRows();
  const storage::StudyRecord record = harness_.Study(kStudy);
  if (record.state != study::StudyState::kCompleted) return Violated("one healthy worker can't finish the study (I10)");
  for (const storage::TrialRecord& row : rows_) {
    if (!study::IsFinal(row.trial.state)) return Violated("a trial stays open for ever (I10)");
    // A trial that nobody gives back ends by its lease; what nobody asked for goes on.
    if (row.trial.stop_requested && row.trial.state == study::TrialState::kComplete) {
      return Violated("a trial is COMPLETE after its end was asked for");
    }
    if (!row.trial.stop_requested && row.trial.state == study::TrialState::kCancelled) {
      return Violated("a trial was cancelled, and nobody asked for that");
    }
    if (row.trial.stop_requested) continue;
    if (options_.parts && row.trial.state == study::TrialState::kPruned) return Violated("a trial was not promoted");
  }
}

namespace {

// Users may take final trials away and write notes to them; what came of them stays.
bool SameResult(storage::TrialRecord a, storage::TrialRecord b) {
  for (storage::TrialRecord* const row : {&a, &b}) {
    row->removed_seq = row->trial.update_seq = 0;
    row->trial.deleted = false;
    row->trial.retried_by = 0;
    row->trial.attributes.clear();
  }
  return a == b;
}

}  // namespace

void ExplorerWorld::NoteRows() {
  std::vector<storage::TrialRecord> rows = harness_.memory.ListTrials(key_, {}, 0, 1000).value();
  const absl::Duration now = harness_.clock.Monotonic();
  std::set<uint64_t> fences;  // Of new grants.
  for (size_t i = 0; i < rows.size(); ++i) {
    const storage::TrialRecord& row = rows[i];
    if (i < rows_.size() && study::IsFinal(rows_[i].trial.state) && !SameResult(row, rows_[i])) {
      Violated("a final row changed (I3)");
    }
    const size_t known = i < rows_.size() ? rows_[i].grants.size() : 0;
    for (size_t g = known; g < row.grants.size(); ++g) {
      if (!fences.insert(FenceOf(row.grants[g].token)).second) Violated("a fence was used twice (I5)");
    }
    if (row.trial.state == study::TrialState::kComplete &&
        row.trial.final_measurement->metrics.at(kMetric) !=
            100.0 * static_cast<double>(row.trial.number) + static_cast<double>(row.grants.size())) {
      Violated("a result is not that of the newest grant (I6)");
    }
    const bool was_open = i >= rows_.size() || rows_[i].trial.state != study::TrialState::kPending ||
                          rows_[i].grants.size() != row.grants.size();
    if (row.trial.state == study::TrialState::kPending && was_open) eligible_since_[row.trial.number] = now;
    if (row.trial.state == study::TrialState::kRunning) {
      const bool expired = harness_.leases->Expired(row.grants.back().token, now);
      if (expired && expired_.insert(row.grants.back().token).second) eligible_since_[row.trial.number] = now;
      if (!expired) expired_.erase(row.grants.back().token);
    }
  }
  if (!fences.empty() && *fences.begin() <= last_fence_) Violated("fences do not increase (I5)");
  if (!fences.empty()) last_fence_ = *fences.rbegin();
  rows_ = std::move(rows);
  if (!changed_.empty()) max_trials_ = harness_.Study(kStudy).spec.budget.max_trials;
}

int64_t ExplorerWorld::Age(absl::Duration since) const {
  return absl::ToInt64Seconds(std::min(harness_.clock.Monotonic() - since, kTtl + absl::Seconds(1)));
}

std::string ExplorerWorld::TrialState(const storage::TrialRecord& row, int first_worker) const {
  std::string text =
      absl::StrCat("|", static_cast<int>(row.trial.state), ".", row.trial.releases, ".", row.trial.promotions.size());
  if (row.trial.stop_requested) absl::StrAppend(&text, "s");
  if (row.trial.deleted) absl::StrAppend(&text, "d");
  if (row.trial.retried_by != 0) absl::StrAppend(&text, "r", row.trial.retried_by);
  if (!row.trial.attributes.empty()) absl::StrAppend(&text, "n");
  if (study::IsFinal(row.trial.state)) return absl::StrCat(text, "f", row.grants.size());
  for (size_t g = 0; g < row.grants.size(); ++g) {
    const study::Attempt& attempt = row.trial.attempts[g];
    absl::StrAppend(&text, ",", attempt.worker == kWorkers[0] ? first_worker : 1 - first_worker,
                    row.grants[g].digest.empty() ? "" : "e",
                    attempt.outcome == study::AttemptOutcome::kPaused ? "p" : "");
  }
  if (row.trial.state == study::TrialState::kRunning) {
    const absl::Duration left = *harness_.leases->Deadline(row.grants.back().token) - harness_.clock.Monotonic();
    absl::StrAppend(&text, ";", std::max<int64_t>(0, absl::ToInt64Seconds(left)));
  }
  const auto since = eligible_since_.find(row.trial.number);
  absl::StrAppend(&text, ";", since == eligible_since_.end() ? -1 : Age(since->second));
  return text;
}

std::string ExplorerWorld::WorkerState(size_t w) const {
  const Worker& worker = workers_[w];
  std::string text = absl::StrCat("|", static_cast<int>(worker.status), "@", Age(last_asked_[w]));
  if (worker.status == Worker::kHolding || worker.status == Worker::kFinishing) {
    absl::StrAppend(&text, worker.grant.trial.number, ".", worker.grant.attempt);
  }
  if (worker.status != Worker::kAsking) return text;
  const auto granted = granted_.find(absl::StrCat(kWorkers[w], worker.asks));
  if (granted == granted_.end()) return text;
  for (const storage::TrialRecord& row : rows_) {
    for (size_t g = 0; g < row.grants.size(); ++g) {
      if (row.grants[g].token == granted->second) absl::StrAppend(&text, "g", row.trial.number, ".", g);
    }
  }
  return text;
}

std::string ExplorerWorld::State(int first_worker) const {
  std::string text = absl::StrCat(static_cast<int>(harness_.core->Studies().size()));
  for (const storage::TrialRecord& row : rows_) absl::StrAppend(&text, TrialState(row, first_worker));
  if (!changed_.empty()) absl::StrAppend(&text, "/", max_trials_);
  for (const Change change : changed_) absl::StrAppend(&text, "c", static_cast<int>(change));
  const size_t first = static_cast<size_t>(first_worker);
  absl::StrAppend(&text, WorkerState(first), WorkerState(1 - first), "|", crashes_, releases_, infra_, stops_);
  std::set<std::string> network;
  for (size_t m = 0; m < messages_.size(); ++m) {
    const Message& message = messages_[m];
    if (!Awaited(m) && message.first) continue;
    network.insert(absl::StrCat(message.grant.trial.number, ".", message.grant.attempt, ".",
                                static_cast<int>(message.content), message.first ? "d" : "", Awaited(m) ? "a" : ""));
  }
  for (const std::string& message : network) absl::StrAppend(&text, "|", message);
  return text;
}

}  // namespace luthier::coordinator::testing
