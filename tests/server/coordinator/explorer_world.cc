#include "tests/server/coordinator/explorer_world.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/server/coordinator/rung_designer.h"

namespace luthier::coordinator::testing {

std::string ExplorerWorld::Name(const Action& action) {
  static constexpr std::array<const char*, 3> kFates = {"", ", reply lost", ", commit fails"};
  static constexpr std::array<const char*, 4> kContents = {"complete", "release", "fail(INFRA)", "pause"};
  const char* fate = kFates[static_cast<size_t>(action.fate)];
  switch (action.verb) {
    case Verb::kAsk:
      return absl::StrCat(kWorkers[action.who], " asks", fate);
    case Verb::kSend:
      return absl::StrCat(kWorkers[action.who], " sends ", kContents[static_cast<size_t>(action.content)]);
    case Verb::kDeliver:
      return absl::StrCat("message ", action.who, " arrives", fate);
    case Verb::kHeartbeat:
      return absl::StrCat(kWorkers[action.who], " beats");
    case Verb::kWorkerCrash:
      return absl::StrCat(kWorkers[action.who], " crashes");
    case Verb::kStop:
      return absl::StrCat("the end of trial ", action.who + 1, " is asked for", fate);
    case Verb::kChange: {
      static constexpr std::array<const char*, 5> kChanges = {"more trials", "an import", "a retry", "a deletion",
                                                              "a note"};
      return absl::StrCat(kChanges[action.who], fate);
    }
    case Verb::kTime:
      return "time passes";
    case Verb::kRestart:
      return "the coordinator restarts";
  }
  return "";
}

ExplorerWorld::ExplorerWorld(const ExplorerOptions& options)
    : options_(options), harness_(Harness::DefaultOptions(), [](const study::StudySpec& s) {
        return s.resource ? std::make_unique<RungDesigner>(s) : search::CreateDesigner(s);
      }) {
  // As small as can be: it is copied in every batch.
  study::StudySpec spec;
  study::ParameterSpec x;
  x.name = "x";
  x.domain = study::FloatRange{0.0, 1.0, study::Scale::kLinear, std::nullopt};
  spec.space = study::SearchSpace::Create({x}).value();
  spec.metric.name = kMetric;
  spec.algorithm = study::RandomOptions{};
  if (options.parts) {
    const study::StudySpec parts = PartsSpec();
    spec.algorithm = parts.algorithm;
    spec.resource = parts.resource;
  }
  spec.budget.max_trials = options.trials;
  spec.lease.ttl = kTtl;
  spec.lease.max_attempts = options.max_attempts;
  const absl::StatusOr<StudyReply> created = harness_.Create(kStudy, spec);
  if (!created.ok())
    Violated("the study can't be created");
  else
    key_ = created->record.key;
}

std::vector<ExplorerWorld::Action> ExplorerWorld::Enabled() const {
  std::vector<Action> actions;
  const std::array<Fate, 3> fates = {Fate::kAnswered, Fate::kReplyLost, Fate::kCommitFails};
  for (uint8_t w = 0; w < 2; ++w) {
    const Worker& worker = workers_[w];
    if (worker.status == Worker::kIdle || worker.status == Worker::kAsking) {
      for (const Fate fate : fates) actions.push_back({Verb::kAsk, w, fate, {}});
    }
    if (worker.status == Worker::kHolding) {
      actions.push_back({Verb::kSend, w, {}, options_.parts ? Content::kPause : Content::kComplete});
      if (releases_ < options_.releases) actions.push_back({Verb::kSend, w, {}, Content::kRelease});
      if (infra_ < options_.infra_failures) actions.push_back({Verb::kSend, w, {}, Content::kInfra});
    }
    if (worker.status == Worker::kHolding || worker.status == Worker::kFinishing) {
      actions.push_back({Verb::kHeartbeat, w, {}, {}});
    }
    if (worker.status != Worker::kIdle && crashes_ < options_.worker_crashes) {
      actions.push_back({Verb::kWorkerCrash, w, {}, {}});
    }
  }
  for (uint8_t m = 0; m < messages_.size(); ++m) {
    const bool awaited = Awaited(m);
    if (!awaited && messages_[m].first) continue;  // Probe() delivers it once more in each state.
    actions.push_back({Verb::kDeliver, m, Fate::kAnswered, {}});
    if (awaited && !messages_[m].first) actions.push_back({Verb::kDeliver, m, Fate::kReplyLost, {}});
    if (!messages_[m].first) actions.push_back({Verb::kDeliver, m, Fate::kCommitFails, {}});
  }
  for (uint8_t t = 0; t < rows_.size() && stops_ < options_.stops; ++t) {
    const study::TrialState state = rows_[t].trial.state;
    if (state == study::TrialState::kPending || study::IsFinal(state) || rows_[t].trial.stop_requested) continue;
    for (const Fate fate : {Fate::kAnswered, Fate::kCommitFails}) actions.push_back({Verb::kStop, t, fate, {}});
  }
  for (const Change change : options_.changes) {
    if (!MayChange(change)) continue;
    for (const Fate fate : fates) actions.push_back({Verb::kChange, static_cast<uint8_t>(change), fate, {}});
  }
  if (NextDeadline() < absl::InfiniteDuration()) actions.push_back({Verb::kTime, 0, {}, {}});
  actions.push_back({Verb::kRestart, 0, {}, {}});
  return actions;
}

void ExplorerWorld::Do(const Action& action) {
  switch (action.verb) {
    case Verb::kAsk:
      return Ask(workers_[action.who], kWorkers[action.who], action.fate);
    case Verb::kSend:
      return Send(action.who, action.content);
    case Verb::kDeliver:
      return Deliver(action.who, action.fate);
    case Verb::kHeartbeat:
      return Beat(workers_[action.who], kWorkers[action.who]);
    case Verb::kWorkerCrash:
      ++crashes_;
      workers_[action.who].status = Worker::kIdle;
      ++workers_[action.who].asks;
      return;
    case Verb::kStop:
      return Stop(action.who, action.fate);
    case Verb::kChange:
      return Make(static_cast<Change>(action.who), action.fate);
    case Verb::kTime:
      harness_.Pass(NextDeadline() - harness_.clock.Monotonic());
      return NoteRows();
    case Verb::kRestart:
      return Restart();
  }
}

bool ExplorerWorld::Awaited(size_t m) const {
  const Worker& w = workers_[static_cast<size_t>(messages_[m].worker)];
  return w.status == Worker::kFinishing && w.message == static_cast<int>(m);
}

absl::Duration ExplorerWorld::NextDeadline() const {
  absl::Duration next = absl::InfiniteDuration();
  for (const storage::TrialRecord& row : rows_) {
    if (row.trial.state != study::TrialState::kRunning) continue;
    const std::optional<absl::Duration> deadline = harness_.leases->Deadline(row.grants.back().token);
    if (deadline && *deadline > harness_.clock.Monotonic()) next = std::min(next, *deadline);
  }
  return next;
}

void ExplorerWorld::FailNextCommit() {
  harness_.storage.FailNextCommit(
      base::MakeError(absl::StatusCode::kUnavailable, base::reason::kStorageFull, "disk full"));
}

void ExplorerWorld::FailCommitOfSomethingElse() {
  while (true) {
    const int64_t commits = harness_.storage.commits();
    (void)harness_.storage.Commit({});
    if (harness_.storage.commits() > commits) return;
  }
}

absl::StatusOr<SuggestReply> ExplorerWorld::AskOnce(const std::string& name, const std::string& request) {
  absl::StatusOr<SuggestReply> reply = harness_.Suggest(kStudy, name, 1, request);
  if (options_.parts && reply.ok() && reply->grants.empty()) reply = harness_.Suggest(kStudy, name, 1, request);
  return reply;
}

void ExplorerWorld::Ask(Worker& worker, const std::string& name, Fate fate) {
  const std::string request = absl::StrCat(name, worker.asks);
  const int64_t commits = harness_.storage.commits();
  if (fate == Fate::kCommitFails) FailNextCommit();
  const absl::StatusOr<SuggestReply> reply = AskOnce(name, request);
  last_asked_[name == kWorkers[0] ? 0 : 1] = harness_.clock.Monotonic();
  if (fate == Fate::kCommitFails) {
    if (harness_.storage.commits() == commits)
      FailCommitOfSomethingElse();
    else if (reply.ok())
      Violated("OK before the commit");
    NoteRows();
    worker.status = Worker::kAsking;
    return;
  }
  if (!reply.ok()) return Violated(absl::StrCat("an ask is refused: ", std::string(reply.status().message())));
  NoteRows();
  worker.status = Worker::kAsking;
  if (!reply->grants.empty()) {
    const auto [place, fresh] = granted_.emplace(request, reply->grants[0].token);
    if (!fresh && place->second != reply->grants[0].token) return Violated("one request got two grants (I8)");
  } else if (granted_.count(request) > 0) {
    return Violated("a request that was granted a trial got none when repeated (I8)");
  }
  if (fate == Fate::kReplyLost) return;
  worker.status = Worker::kIdle;
  if (reply->grants.empty()) return;
  ++worker.asks;
  worker.status = Worker::kHolding;
  worker.grant = reply->grants[0];
}

void ExplorerWorld::Send(int w, Content content) {
  Worker& worker = workers_[static_cast<size_t>(w)];
  Message message;
  message.grant = worker.grant;
  message.content = content;
  message.worker = w;
  worker.status = Worker::kFinishing;
  worker.message = static_cast<int>(messages_.size());
  messages_.push_back(std::move(message));
  if (content == Content::kRelease) ++releases_;
  if (content == Content::kInfra) ++infra_;
}

absl::StatusOr<FinishReply> ExplorerWorld::Finish(const Message& m) {
  switch (m.content) {
    case Content::kComplete:
      return harness_.Complete(m.grant, Loss(Value(m.grant)));
    case Content::kRelease:
      return harness_.Release(m.grant);
    case Content::kInfra:
      return harness_.Fail(m.grant, MakeFailure(study::FailureKind::kInfra));
    case Content::kPause:
      return harness_.Pause(m.grant, Loss(Value(m.grant), m.grant.target_step));
  }
  return absl::InternalError("");
}

void ExplorerWorld::Deliver(size_t m, Fate fate) {
  Message& message = messages_[m];
  const int64_t commits = harness_.storage.commits();
  if (fate == Fate::kCommitFails) FailNextCommit();
  const absl::StatusOr<FinishReply> reply = Finish(message);
  NoteRows();
  if (fate == Fate::kCommitFails) {
    if (harness_.storage.commits() == commits)
      FailCommitOfSomethingElse();
    else if (reply.ok())
      Violated("OK before the commit");
    return;
  }
  const bool holds = workers_[static_cast<size_t>(message.worker)].status == Worker::kFinishing;
  if (!reply.ok() && base::GetReason(reply.status()) != base::reason::kLeaseLost &&
      base::GetReason(reply.status()) != base::reason::kTrialFinal) {
    return Violated(absl::StrCat("a result is refused: ", std::string(reply.status().message())));
  }
  if (!message.first) message.first = reply;
  if (fate == Fate::kAnswered && holds && Awaited(m)) {
    workers_[static_cast<size_t>(message.worker)].status = Worker::kIdle;
  }
}

void ExplorerWorld::Beat(Worker& worker, const std::string& name) {
  const std::vector<study::Directive> directives = harness_.Heartbeat(name, {worker.grant.token});
  NoteRows();
  const storage::TrialRecord& row = rows_[static_cast<size_t>(worker.grant.trial.number - 1)];
  const bool newest = row.trial.state == study::TrialState::kRunning && row.grants.back().token == worker.grant.token;
  study::Directive expected = study::Directive::kLost;
  if (newest) expected = row.trial.stop_requested ? study::Directive::kFinish : study::Directive::kContinue;
  // Whose trial was taken after its end was asked for is told to stop, also after a restart.
  const bool taken = row.trial.state == study::TrialState::kCancelled &&
                     row.grants.back().token == worker.grant.token &&
                     row.trial.attempts.back().outcome == study::AttemptOutcome::kCancelled;
  if (taken) expected = study::Directive::kStop;
  if (directives != std::vector<study::Directive>{expected}) {
    return Violated("a heartbeat got the wrong directive");
  }
  if (!newest) worker.status = Worker::kIdle;
}

void ExplorerWorld::Stop(size_t trial, Fate fate) {
  ++stops_;
  if (fate == Fate::kCommitFails) FailNextCommit();
  const absl::StatusOr<TrialReply> reply = harness_.StopTrial(kStudy, static_cast<int64_t>(trial) + 1);
  NoteRows();
  if (reply.ok() == (fate == Fate::kCommitFails)) return Violated("the wish for a trial's end got the wrong answer");
  const study::Trial& row = rows_[trial].trial;
  if (row.stop_requested != reply.ok()) return Violated("the wish for a trial's end is not stored as it was answered");
}

bool ExplorerWorld::MayChange(Change change) const {
  if (changed_.count(change) > 0) return false;
  const auto any = [&](auto&& fits) { return std::any_of(rows_.begin(), rows_.end(), fits); };
  switch (change) {
    case Change::kMoreTrials:
    case Change::kImport:
      return true;
    case Change::kRetry:
      return any([](const storage::TrialRecord& row) {
        return row.trial.state == study::TrialState::kFailed && !study::IsRemoved(row.trial);
      });
    case Change::kDelete:
      return any([](const storage::TrialRecord& row) { return study::IsFinal(row.trial.state); });
    case Change::kNote:
      return !rows_.empty() && !rows_[0].trial.deleted;
  }
  return false;
}

absl::StatusOr<uint64_t> ExplorerWorld::MakeOnce(Change change, int64_t max_trials, int64_t trial) {
  const auto seq = [](const auto& reply) -> absl::StatusOr<uint64_t> {
    if (!reply.ok()) return reply.status();
    return reply->seq;
  };
  switch (change) {
    case Change::kMoreTrials: {
      study::SpecChange more;
      more.max_trials = max_trials;
      return seq(harness_.Update(kStudy, more, "more"));
    }
    case Change::kImport: {
      ImportedTrial one;
      one.parameters = {{"x", 0.5}};
      one.measurement = Loss(100.0 * static_cast<double>(trial));
      return seq(harness_.Import(kStudy, {one}, "import"));
    }
    case Change::kRetry:
      return seq(harness_.Retry(kStudy, {}, "retry"));
    case Change::kDelete:
      return seq(harness_.DeleteTrial(kStudy, trial));
    case Change::kNote:
      return seq(harness_.SetAttributes(kStudy, 1, {{"note", "of a user"}}));
  }
  return absl::InternalError("");
}

void ExplorerWorld::Make(Change change, Fate fate) {
  changed_.insert(change);
  const storage::StudyRecord study = harness_.Study(kStudy);
  const std::vector<storage::TrialRecord> before = rows_;
  int64_t trial = static_cast<int64_t>(rows_.size()) + 1;  // That an import makes.
  if (change == Change::kDelete) {
    for (trial = 1; !study::IsFinal(rows_[static_cast<size_t>(trial) - 1].trial.state);) ++trial;
  }
  const auto make = [&] { return MakeOnce(change, study.spec.budget.max_trials + 1, trial); };
  if (fate == Fate::kCommitFails) FailNextCommit();
  const absl::StatusOr<uint64_t> made = make();
  if (made.ok() == (fate == Fate::kCommitFails)) {
    return Violated(absl::StrCat("a change got the wrong answer: ", made.status().ToString()));
  }
  if (made.ok() && (change == Change::kMoreTrials || change == Change::kImport || change == Change::kRetry))
    ++more_rows_;
  NoteRows();
  if (!made.ok()) {
    if (rows_ != before || !(harness_.Study(kStudy) == study)) Violated("a change that failed left something");
    return;
  }
  if (fate != Fate::kReplyLost) return;
  const std::vector<storage::TrialRecord> after = rows_;
  const absl::StatusOr<uint64_t> again = make();
  NoteRows();
  if (again != made || rows_ != after) Violated("a change that was sent again has another effect (I8)");
}

void ExplorerWorld::Restart() {
  harness_.Restart();
  last_asked_ = {absl::InfinitePast() - absl::UnixEpoch(), absl::InfinitePast() - absl::UnixEpoch()};
  NoteRows();
  for (const storage::TrialRecord& row : rows_) {
    if (row.trial.state == study::TrialState::kPending) eligible_since_[row.trial.number] = harness_.clock.Monotonic();
    if (row.trial.state != study::TrialState::kRunning) continue;
    const bool last = study::AttemptsUsed(row.trial) >= options_.max_attempts;
    if (harness_.leases->Deadline(row.grants.back().token) != harness_.clock.Monotonic() + kTtl * (last ? 10 : 1)) {
      Violated("a lease did not get a full TTL after a restart");
    }
  }
}

}  // namespace luthier::coordinator::testing
