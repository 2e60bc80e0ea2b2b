// What a walk compares: replies, rows, events.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/coordinator/proposals/replay.h"
#include "tests/server/coordinator/walk_studies.h"
#include "tests/server/coordinator/walker.h"

namespace luthier::coordinator::testing {

void Walker::Compare(const std::string& name, const Expected& e, const StudyReply& reply) {
  if (e.study_state && reply.record.state != *e.study_state) Fail(name + ": other study state");
}

void Walker::Compare(const std::string& name, const Expected& e, const EnqueueReply& reply) {
  std::vector<int64_t> numbers;
  for (const study::Trial& t : reply.trials) numbers.push_back(t.number);
  if (numbers != e.numbers) Fail(name + ": other trials");
}

void Walker::Compare(const std::string& name, const Expected& e, const ImportReply& reply) {
  if (reply.numbers != e.numbers) Fail(name + ": other trials");
}

void Walker::Compare(const std::string& name, const Expected& e, const TrialReply& reply) {
  if (reply.trial.state != e.trial_state) Fail(name + ": other trial state");
}

void Walker::Compare(const std::string& name, const Expected& e, const ReportReply& reply) {
  if (reply.directive != e.directive) Fail(name + ": other directive");
}

void Walker::Compare(const std::string& name, const Expected& e, const FinishReply& reply) {
  if (reply.state != e.trial_state) {
    Fail(absl::StrCat(name, ": state ", std::string(study::TrialStateName(reply.state)), ", expected ",
                      std::string(study::TrialStateName(*e.trial_state))));
  }
  if (reply.warnings.size() != e.warnings) Fail(name + ": other warnings");
  if (!e.repeats.empty() && model_.SeqOf(e.repeats) != reply.seq) Fail(name + ": a repetition with another seq");
}

void Walker::Compare(const std::string& name, const Expected& e, const SuggestReply& reply) {
  std::vector<std::pair<int64_t, std::string>> granted;
  for (const Grant& g : reply.grants) granted.emplace_back(g.trial.number, g.token);
  if (granted != e.granted) Fail(name + ": a repetition with other trials");
}

void Walker::NoteExhausted() {
  for (const auto& [key, s] : model_.studies()) {
    if (!s.spec.resource || (s.state != study::StudyState::kActive && s.state != study::StudyState::kPaused)) continue;
    const absl::StatusOr<storage::StudyRecord> record = harness_.memory.GetStudy(s.id);
    if (!record.ok() || record->key != key || record->state != study::StudyState::kCompleted) continue;
    const std::string wrong = model_.CompleteExhausted(key);
    if (!wrong.empty()) Fail(absl::StrCat("study ", s.id, ": ", wrong));
  }
}

void Walker::NoteEvents(const std::vector<storage::Event>& events) {
  events_now_.insert(events_now_.end(), events.begin(), events.end());
}

void Walker::CheckEvents() {
  std::vector<std::tuple<std::string, int64_t, int32_t>> granted;
  for (const storage::Event& event : events_now_) {
    if (event.seq <= last_seq_) Fail("event seqs do not increase (I4)");
    last_seq_ = event.seq;
    if (event.type == storage::EventType::kGradientSetAside) {
      ++stats_->set_aside;
      if (!set_aside_.emplace(event.study, event.trial).second) Fail("a gradient was set aside twice");
    }
    stats_->stopped += event.type == storage::EventType::kTrialStopRequested ? 1 : 0;
    stats_->updated += event.type == storage::EventType::kStudyUpdated ? 1 : 0;
    if (event.type == storage::EventType::kTrialReplaced || event.type == storage::EventType::kTrialDeleted) {
      ++stats_->removed;
    }
    stats_->paused += event.type == storage::EventType::kTrialPaused ? 1 : 0;
    stats_->promoted += event.type == storage::EventType::kTrialPromoted ? 1 : 0;
    if (event.type == storage::EventType::kTrialGranted)
      granted.emplace_back(event.study_id, event.trial, event.attempt);
  }
  // Grants in order of seq are grants in order of fence.
  if (granted != granted_now_) Fail("granted events differ from the grants that were answered (I5)");
}

void Walker::CheckRows(storage::StudyKey only) {
  if (!failure_.empty()) return;
  if (only == 0) {
    const absl::Status invariants = harness_.core->CheckInvariants();
    if (!invariants.ok()) return Fail(std::string(invariants.message()));
    if (harness_.core->Studies().size() != model_.studies().size()) return Fail("other studies than in the model");
  }
  for (const auto& [key, s] : model_.studies()) {
    if (only != 0 && key != only) continue;
    const std::string at = absl::StrCat("study ", s.id, ": ");
    const absl::StatusOr<storage::StudyRecord> record = harness_.memory.GetStudy(s.id);
    if (!record.ok() || record->key != key) return Fail(at + "not stored");
    if (record->state != s.state) return Fail(at + "other state in storage");
    if (record->spec.budget.max_trials != s.spec.budget.max_trials) return Fail(at + "other max_trials in storage");
    if (record->added_trials != s.added) return Fail(at + "other number of added trials");
    const std::vector<storage::TrialRecord> rows = harness_.memory.ListTrials(key, {}, 0, 1'000'000).value();
    if (static_cast<int64_t>(rows.size()) > s.spec.budget.max_trials)
      return Fail(at + "more rows than max_trials (I1)");
    if (rows.size() != s.trials.size()) return Fail(at + "other number of rows in storage");
    for (const storage::TrialRecord& row : rows) CheckRow(key, at, row, s);
    std::map<int64_t, std::string> set_aside;
    const std::vector<storage::SetAside> all = harness_.memory.ListSetAside(key, 0, 1'000'000).value();
    for (const storage::SetAside& entry : all) {
      set_aside[entry.trial] = entry.worker;
    }
    if (set_aside != s.set_aside) return Fail(at + "other gradients set aside");
  }
}

void Walker::CheckRow(storage::StudyKey key, const std::string& study, const storage::TrialRecord& row,
                      const NaiveModel::Study& s) {
  const NaiveModel::Trial& t = s.trials.at(row.trial.number);
  const std::string at = absl::StrCat(study, "trial ", row.trial.number, ": ");
  if (row.trial.state != t.state) return Fail(at + "other state in storage");
  if (row.grants.size() != t.grants.size() || row.trial.releases != t.releases) return Fail(at + "other attempts");
  for (size_t i = 0; i < t.grants.size(); ++i) {
    if (row.grants[i].token != t.grants[i].token) return Fail(at + "other token");
    if (row.grants[i].digest.empty() != t.grants[i].ended_with.empty()) return Fail(at + "other end of a grant");
  }
  if (study::AttemptsUsed(row.trial) > s.spec.lease.max_attempts) return Fail(at + "I7");
  if (row.trial.target() != t.target || row.trial.promotions.size() != t.promotions) return Fail(at + "other target");
  if (row.trial.parameters != t.parameters) return Fail(at + "other parameters");
  if (row.trial.checkpoint != t.checkpoint) return Fail(at + "other checkpoint");
  if ((row.trial.failure ? row.trial.failure->reason : "") != t.failure) return Fail(at + "other failure");
  if (row.trial.retried_by != t.retried_by || row.trial.deleted != t.deleted) return Fail(at + "removed otherwise");
  if (row.trial.stop_requested != t.stop_requested) return Fail(at + "its end was asked for, or not");
  if (t.ends_with && row.trial.final_measurement->metrics.at(kMetric) != *t.ends_with) return Fail(at + "other value");
  if (row.trial.attributes != t.attributes) return Fail(at + "other attributes");
  if ((row.removed_seq != 0) != t.removed) return Fail(at + "removed, or not");
  if (!study::IsFinal(row.trial.state)) return;
  // What may change: notes, and whether the result counts.
  storage::TrialRecord result = row;
  result.trial.attributes.clear();
  result.trial.retried_by = 0;
  result.trial.deleted = false;
  result.trial.update_seq = 0;
  result.removed_seq = 0;
  const auto [place, fresh] = finals_.emplace(std::pair(key, row.trial.number), result);
  if (fresh)
    ++stats_->finals;
  else if (!(place->second == result))
    Fail(at + "a final row changed (I3)");
}

void Walker::CheckReplay() {
  for (const auto& [key, s] : model_.studies()) {
    const absl::StatusOr<ReplayReport> report = VerifyReplay(&harness_.memory, harness_.Study(s.id), MakeWalkDesigner);
    if (!report.ok()) return Fail(std::string(report.status().message()));
    if (!report->mismatches.empty()) return Fail(absl::StrCat("replay (I9): ", report->mismatches[0]));
  }
}

}  // namespace luthier::coordinator::testing
