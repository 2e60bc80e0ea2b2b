#include "tests/server/coordinator/random_walk.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/random.h"
#include "server/coordinator/replay.h"
#include "tests/server/coordinator/harness.h"
#include "tests/server/coordinator/naive_model.h"
#include "tests/server/coordinator/rung_designer.h"

namespace luthier::coordinator::testing {
namespace {

const absl::Duration kTtl = absl::Seconds(20);
const absl::Duration kStall = absl::Seconds(15);
constexpr int kFailuresToPause = 4;
// Small enough to be met now and then.
constexpr int kLeasesPerWorker = 5;
constexpr int kWorkers = 4;
constexpr int kStudies = 4;

study::StudySpec WalkSpec(uint32_t variant, bool late) {
  study::StudySpec spec = MakeSpec(12);
  spec.lease.ttl = kTtl;
  spec.seed = variant;
  switch (variant % 8) {
    case 0:
      spec.budget.max_trials = 6;
      break;
    case 1:
      spec.budget.max_parallel = 2;
      break;
    case 2:
      spec.budget.target_value = 0.0;
      break;
    case 3:
      spec.budget.patience = 3;
      spec.metric.goal = study::Goal::kMaximize;
      break;
    case 4:
      spec.budget.max_failed_trials = 2;
      spec.lease.max_attempts = 1;
      break;
    case 5:
      spec.objective = study::ExternalObjective{};
      spec.lease.max_attempts = 2;
      break;
    case 6:
      spec.budget.max_trials = 40;
      spec.budget.max_parallel = 3;
      spec.reproducible = late;
      break;
    default:
      spec.budget.max_trials = 60;
      break;
  }
  // Its designer looks at history, so what it suggests comes late.
  if (late && variant >= 7) {
    const int64_t trials = variant % 2 == 0 ? 5 : 20;
    const study::LeaseOptions lease = spec.lease;
    spec = PartsSpec(trials);
    spec.lease = lease;
    spec.seed = variant;
    if (variant == 9) spec.budget.max_parallel = 3;
  }
  return spec;
}

// Another's settings, with directions and with gradients set aside: those of every fourth trial, whether there are such
// or not, as designers are not told.
class AskingDesigner final : public suggest::Designer {
 public:
  explicit AskingDesigner(std::unique_ptr<suggest::Designer> other) : other_(std::move(other)) {}
  absl::StatusOr<suggest::Suggestion> Suggest(const study::History& history, uint64_t ask_index) override {
    absl::StatusOr<suggest::Suggestion> suggestion = other_->Suggest(history, ask_index);
    if (!suggestion.ok()) return suggestion;
    if (ask_index % 3 != 0) suggestion->direction = {ask_index % 2 == 0 ? 1.0 : -0.1 * static_cast<double>(ask_index)};
    for (int64_t number = 1; number <= static_cast<int64_t>(ask_index); number += 4) {
      suggestion->set_aside.push_back(number);
    }
    return suggestion;
  }

 private:
  const std::unique_ptr<suggest::Designer> other_;
};

std::unique_ptr<suggest::Designer> MakeDesigner(const study::StudySpec& spec) {
  if (spec.resource) return std::make_unique<RungDesigner>(spec, /*left_out=*/3);
  return std::make_unique<AskingDesigner>(suggest::CreateDesigner(spec));
}

constexpr double kStopAbove = 7.5;

std::unique_ptr<stopping::Stopper> MakeStopper(const study::StudySpec& spec) {
  return spec.resource ? std::make_unique<LimitStopper>(kStopAbove) : nullptr;
}

struct Known {
  std::string study;
  int64_t number = 0;
  std::string token;
  std::string worker;
};

class Walker {
 public:
  Walker(const WalkOptions& options, WalkStats* stats)
      : late_(options.delay_proposals),
        stats_(stats),
        harness_(CoreOptions(), MakeDesigner),
        model_(ModelOptions(late_)) {
    harness_.late_suggestions = late_;
    harness_.on_events = [this](const std::vector<storage::Event>& events) { NoteEvents(events); };
    model_.Restart(harness_.clock.Monotonic());
  }

  std::optional<WalkFailure> Run(const std::vector<Step>& steps) {
    for (size_t i = 0; i < steps.size(); ++i) {
      ++stats_->operations;
      Take(steps[i], static_cast<int>(i));
      if (failure_.empty() && (steps[i].ends_batch || i + 1 == steps.size())) RunBatch();
      if (!failure_.empty()) return WalkFailure{static_cast<int>(i), failure_};
    }
    CheckRows(0);
    CheckReplay();
    if (!failure_.empty()) return WalkFailure{static_cast<int>(steps.size()) - 1, failure_};
    return std::nullopt;
  }

 private:
  static Core::Options CoreOptions() {
    Core::Options options = Harness::DefaultOptions();
    options.stall = kStall;
    options.failures_to_pause = kFailuresToPause;
    options.request_lifetime = absl::InfiniteDuration();
    options.limits.leases_per_worker = kLeasesPerWorker;
    options.limits.studies = kStudies - 1;
    options.stoppers = MakeStopper;
    return options;
  }
  static NaiveModel::Options ModelOptions(bool late) {
    return {kStall, kFailuresToPause, late, kLeasesPerWorker, kStudies - 1, MakeDesigner, kStopAbove};
  }

  void Fail(const std::string& what) {
    if (failure_.empty()) failure_ = what;
  }

  // --- Choosing ---

  std::string StudyId(uint32_t r) const { return absl::StrCat("s", r % kStudies); }
  std::string Worker(uint32_t r) const { return absl::StrCat("w", r % kWorkers); }

  // Mostly the newest token of a running trial; else any earlier one; else nonsense.
  Known Holder(uint32_t how, uint32_t which) {
    std::vector<Known> running;
    if (how % 10 < 6) {
      for (const auto& [key, s] : model_.studies()) {
        for (const auto& [number, t] : s.trials) {
          if (t.state != study::TrialState::kRunning) continue;
          running.push_back({s.id, number, t.grants.back().token, t.grants.back().worker});
        }
      }
      if (!running.empty()) return running[which % running.size()];
    }
    if (how % 10 < 9 && !tokens_.empty()) {
      const size_t recent = std::min<size_t>(tokens_.size(), 40);
      return tokens_[tokens_.size() - 1 - which % recent];
    }
    Known wrong{StudyId(which), 1 + which / 7 % 8, std::string(16, 'x'), Worker(which)};
    if (!tokens_.empty() && which % 2 == 0) wrong.token = tokens_[which % tokens_.size()].token;
    return wrong;
  }

  std::string RequestId(uint32_t r) {
    if (r % 5 < 2) return "";
    if (r % 5 < 4 || request_ids_.empty()) {
      request_ids_.push_back(absl::StrCat("request-", request_ids_.size()));
      return request_ids_.back();
    }
    const size_t recent = std::min<size_t>(request_ids_.size(), 12);
    return request_ids_[request_ids_.size() - 1 - r / 5 % recent];
  }

  study::Measurement Point(uint32_t r) {
    study::Measurement m = Loss(r % 10, r / 10 % 4);
    if (r % 31 == 0) m.step = -1;
    if (r % 29 == 0) m.metrics.clear();
    if (r % 23 == 0) m.metrics[kMetric] = std::numeric_limits<double>::quiet_NaN();
    if (r % 19 == 0) m.metrics[kMetric] = std::numeric_limits<double>::infinity();
    if (r % 5 == 0) m.gradient.emplace().values = {0.25};
    if (r % 15 == 0) m.gradient.emplace().values = {0.25, 0.5};
    return m;
  }

  // --- Steps ---

  void Take(const Step& step, int index) {
    const auto& r = step.r;
    switch (step.kind) {
      case Step::kTime: {
        static const std::array<absl::Duration, 6> kSteps = {absl::Seconds(1),  absl::Seconds(3),  absl::Seconds(7),
                                                             absl::Seconds(12), absl::Seconds(16), absl::Seconds(45)};
        FlushBatch();
        // Long silences are our own stalls: rarer than time that passes tick by tick.
        const absl::Duration by = r[1] % 4 == 0 ? kSteps[r[0] % 6] : kSteps[r[0] % 4];
        harness_.clock.Advance(by);
        if (r[2] % 50 == 0) harness_.clock.JumpWall(absl::Hours(static_cast<int>(r[3] % 100) - 50));
        return;
      }
      case Step::kRestart: {
        FlushBatch();
        if (!failure_.empty()) return;
        CheckRows(0);
        ++stats_->restarts;
        harness_.Restart();
        model_.Restart(harness_.clock.Monotonic());
        answered_.clear();
        return;
      }
      case Step::kFailCommit:
        FlushBatch();
        if (!armed_) {
          harness_.storage.FailNextCommit(
              base::MakeError(absl::StatusCode::kUnavailable, base::reason::kStorageFull, "disk full"));
        }
        armed_ = true;
        return;
      case Step::kHeartbeat: {
        FlushBatch();
        if (!failure_.empty()) return;
        Heartbeat(r);
        return;
      }
      case Step::kHangUp:
        if (!gone_.empty()) *gone_[r[0] % gone_.size()] = true;
        return;
      default:
        planned_.push_back({step, index});
    }
  }

  void FlushBatch() {
    if (!planned_.empty()) RunBatch();
  }

  void Heartbeat(const std::array<uint32_t, 6>& r) {
    std::vector<std::string> tokens;
    for (uint32_t i = 0; i < 1 + r[0] % 3; ++i) tokens.push_back(Holder(r[1 + i], r[2 + i]).token);
    const absl::Duration now = harness_.clock.Monotonic();
    LeaseTable::Renewal renewal = harness_.leases->Renew(tokens, now, /*take_back=*/false);
    if (!renewal.any_expired) {
      if (renewal.directives != model_.Heartbeat(tokens, now)) Fail("heartbeat: other directives");
      return;
    }
    Begin();
    const std::vector<Directive> expected = model_.Heartbeat(tokens, now);
    HeartbeatOp op{"w", tokens, [this, expected](absl::StatusOr<HeartbeatReply> reply) {
                     if (commit_failed_now_) {
                       if (reply.ok()) Fail("heartbeat: OK after a failed commit");
                     } else if (!reply.ok() || reply->directives != expected) {
                       Fail("heartbeat through the writer: other directives");
                     }
                   }};
    operations_.push_back(std::move(op));
    Commit();
  }

  template <typename Reply>
  Done<Reply> Check(std::string name, Expected expected) {
    const auto times = std::make_shared<int>(0);
    pending_answers_.push_back(times);
    return [this, name = std::move(name), expected = std::move(expected), times](absl::StatusOr<Reply> reply) {
      if (++*times > 1) Fail(name + ": answered twice");
      if (!reply.ok()) ++stats_->refused;
      if (base::GetReason(reply.status()) == base::reason::kLimitExceeded) ++stats_->limited;
      if (commit_failed_now_) {
        if (reply.ok()) Fail(name + ": OK after a failed commit");
        return;
      }
      const std::string got =
          absl::StrCat(static_cast<int>(reply.status().code()), " ", base::GetReason(reply.status()));
      const std::string want = absl::StrCat(static_cast<int>(expected.code), " ", expected.reason);
      if (got != want) {
        Fail(absl::StrCat(name, ": answered ", got, " (", std::string(reply.status().message()), "), expected ", want));
        return;
      }
      if (reply.ok())
        Compare(name, expected, *reply);
      else if (reply.status().message().empty())
        Fail(name + ": an error without a message");
    };
  }

  void Compare(const std::string& name, const Expected& e, const StudyReply& reply) {
    if (e.study_state && reply.record.state != *e.study_state) Fail(name + ": other study state");
  }
  void Compare(const std::string& name, const Expected& e, const EnqueueReply& reply) {
    std::vector<int64_t> numbers;
    for (const study::Trial& t : reply.trials) numbers.push_back(t.number);
    if (numbers != e.numbers) Fail(name + ": other trials");
  }
  void Compare(const std::string& name, const Expected& e, const TrialReply& reply) {
    if (reply.trial.state != e.trial_state) Fail(name + ": other trial state");
  }
  void Compare(const std::string& name, const Expected& e, const ReportReply& reply) {
    if (reply.directive != e.directive) Fail(name + ": other directive");
  }
  void Compare(const std::string& name, const Expected& e, const FinishReply& reply) {
    if (reply.state != e.trial_state) {
      Fail(absl::StrCat(name, ": state ", std::string(study::TrialStateName(reply.state)), ", expected ",
                        std::string(study::TrialStateName(*e.trial_state))));
    }
    if (reply.warnings.size() != e.warnings) Fail(name + ": other warnings");
    if (!e.repeats.empty() && model_.SeqOf(e.repeats) != reply.seq) Fail(name + ": a repetition with another seq");
  }
  void Compare(const std::string& name, const Expected& e, const SuggestReply& reply) {
    std::vector<std::pair<int64_t, std::string>> granted;
    for (const Grant& g : reply.grants) granted.emplace_back(g.trial.number, g.token);
    if (granted != e.granted) Fail(name + ": a repetition with other trials");
  }

  // Asks of a study that is not there, or that is over, would mostly be wasted: some become its creation or its end.
  Step Useful(Step step) const {
    if (step.kind != Step::kSuggest) return step;
    const auto found = std::find_if(model_.studies().begin(), model_.studies().end(),
                                    [&](const auto& s) { return s.second.id == StudyId(step.r[0]); });
    if (found == model_.studies().end()) {
      if (step.r[5] % 2 == 0) step.kind = Step::kCreate;
    } else if (found->second.state != study::StudyState::kActive && step.r[5] % 3 == 0) {
      step.kind = Step::kControl;
    }
    return step;
  }

  void Plan(const Step& planned, int index) {
    const Step step = Useful(planned);
    const std::array<uint32_t, 6>& r = step.r;
    switch (step.kind) {
      case Step::kCreate: {
        CreateStudyOp op{StudyId(r[0]), WalkSpec(r[1] % 11, late_), "user", {}};
        op.done = Check<StudyReply>("create " + op.id, model_.Create(op));
        operations_.push_back(std::move(op));
        return;
      }
      case Step::kControl: {
        static const std::array<Control, 8> kWhich = {Control::kPause,  Control::kResume, Control::kResume,
                                                      Control::kStop,   Control::kCancel, Control::kDelete,
                                                      Control::kDelete, Control::kDelete};
        ControlOp op{StudyId(r[0]), kWhich[r[1] % kWhich.size()], RequestId(r[2]), "user", {}};
        op.done = Check<StudyReply>(absl::StrCat("control ", static_cast<int>(op.control), " of ", op.id),
                                    model_.Control(op));
        operations_.push_back(std::move(op));
        return;
      }
      case Step::kEnqueue: {
        EnqueueOp op{StudyId(r[0]), {}, RequestId(r[1]), "user", {}};
        for (uint32_t i = 0; i < r[2] % 4; ++i) {
          NewTrial trial;
          trial.parameters["x"] = r[3] % 17 == 0 && i == 1 ? 7.5 : 0.5;
          if (r[4] % 2 == 0) trial.parameters["n"] = static_cast<double>(i);
          op.trials.push_back(std::move(trial));
        }
        op.done = Check<EnqueueReply>("enqueue in " + op.id, model_.Enqueue(op));
        operations_.push_back(std::move(op));
        return;
      }
      case Step::kCancelTrial: {
        const Known k = Holder(r[0], r[1]);
        CancelTrialOp op{k.study, k.number, "user", {}};
        op.done = Check<TrialReply>(absl::StrCat("cancel ", k.study, "/", k.number), model_.CancelTrial(op));
        operations_.push_back(std::move(op));
        return;
      }
      case Step::kReport: {
        const Known k = Holder(r[0], r[1]);
        ReportOp op{k.study,      k.number, k.token, {}, r[2] % 4 == 0 ? absl::StrCat("checkpoint-", r[2] % 3) : "",
                    std::nullopt, {}};
        for (uint32_t i = 0; i < (r[3] % 20 == 0 ? 0 : 1 + r[3] % 3); ++i)
          op.measurements.push_back(Point(r[4] + 10 * i));
        op.done = Check<ReportReply>(absl::StrCat("report on ", k.study, "/", k.number), model_.Report(op));
        operations_.push_back(std::move(op));
        return;
      }
      case Step::kFinish: {
        const Known k = Holder(r[0], r[1]);
        FinishOp op;
        op.id = k.study;
        op.number = k.number;
        op.token = k.token;
        if (r[2] % 10 < 5) {
          study::Measurement m = Point(r[3]);
          const bool paused = r[5] % (InParts(k.study) ? 2 : 40) == 0;
          if (paused && r[5] % 5 != 0) m.step = kLastTarget;
          op.content = CompleteContent{std::move(m), r[4] % 6 == 0 && (!paused || r[5] % 7 == 0), "", paused};
          if (paused) op.checkpoint = r[4] % 3 == 0 ? "saved" : "";
        } else if (r[2] % 10 < 7) {
          op.content = MakeFailure(r[4] % 2 == 0 ? study::FailureKind::kConfig : study::FailureKind::kInfra,
                                   r[4] % 16 == 0 ? "no reason" : "EXIT_CODE", absl::StrCat("text ", r[4] % 3));
        } else {
          op.content = ReleaseContent{};
          op.checkpoint = r[4] % 3 == 0 ? "saved" : "";
        }
        const std::string name = absl::StrCat("finish (kind ", op.content.index(), ") of ", k.study, "/", k.number);
        const Expected expected = model_.Finish(op);
        const Done<FinishReply> check = Check<FinishReply>(name, expected);
        op.done = [this, check, token = op.token, first = expected.repeats.empty()](absl::StatusOr<FinishReply> reply) {
          if (reply.ok() && first) model_.NoteSeq(token, reply->seq);
          check(std::move(reply));
        };
        operations_.push_back(std::move(op));
        return;
      }
      default:
        PlanSuggest(r, index);
    }
  }

  void PlanSuggest(const std::array<uint32_t, 6>& r, int index) {
    SuggestOp op = MakeSuggest(r[0] % 5 == 0 ? "" : StudyId(r[0]), Worker(r[1]), r[2] % 4 == 0 ? 2 + r[2] % 3 : 1,
                               RequestId(r[3]));
    op.fail_if_paused = r[4] % 8 == 0;
    if (r[4] % 3 == 0) op.deadline = harness_.clock.Monotonic() + absl::Seconds(5 + static_cast<int>(r[5] % 30));
    if (r[4] % 6 == 0) {
      gone_.push_back(std::make_shared<std::atomic<bool>>(false));
      if (gone_.size() > 5) gone_.erase(gone_.begin());
      op.caller_gone = gone_.back();
    }
    const std::string name = absl::StrCat("suggest in ", op.id.empty() ? "any" : op.id, " for ", op.worker);
    int replaced = -1;
    const std::optional<Expected> at_once = model_.Suggest(op, index, &replaced);
    if (replaced >= 0) expect_replaced_.insert(replaced);
    if (at_once) {
      op.done = Check<SuggestReply>(name, *at_once);
    } else {
      const int incarnation = static_cast<int>(stats_->restarts);
      op.done = [this, name, index, incarnation](absl::StatusOr<SuggestReply> reply) {
        if (incarnation != stats_->restarts) Fail(name + ": answered by a dead coordinator");
        Asked(name, index, std::move(reply));
      };
    }
    operations_.push_back(std::move(op));
  }

  void Asked(const std::string& name, int handle, absl::StatusOr<SuggestReply> reply) {
    if (!answered_.insert(handle).second) Fail(name + ": answered twice");
    answered_now_.push_back(handle);
    if (expect_replaced_.erase(handle) > 0) {
      if (reply.status().code() != absl::StatusCode::kCancelled && !commit_failed_now_)
        Fail(name + ": replaced, not told");
      return;
    }
    if (commit_failed_now_) {
      if (reply.ok()) Fail(name + ": OK after a failed commit");
      return;
    }
    if (base::GetReason(reply.status()) == base::reason::kLimitExceeded) ++stats_->limited;
    const std::string wrong = model_.CheckAnswer(handle, reply);
    if (!wrong.empty()) Fail(absl::StrCat(name, ": ", wrong));
    if (!reply.ok()) return;
    for (const Grant& g : reply->grants) {
      ++stats_->grants;
      if (g.attempt > 1) ++stats_->regrants;
      if (!known_tokens_.insert(g.token).second) Fail(name + ": a token was given twice (I5)");
      if (FenceOf(g.token) <= last_fence_) Fail(name + ": fences do not increase (I5)");
      last_fence_ = FenceOf(g.token);
      tokens_.push_back({g.study_id, g.trial.number, g.token, g.trial.attempts.back().worker});
      granted_now_.emplace_back(g.study_id, g.trial.number, g.attempt);
    }
  }

  // --- Running ---

  void Begin() { model_.BeginBatch(harness_.clock.Monotonic(), armed_); }

  void RunBatch() {
    Begin();
    for (const auto& [step, index] : planned_) Plan(step, index);
    planned_.clear();
    Commit();
  }

  void Commit() {
    ++stats_->batches;
    if (late_ && stats_->batches % 3 == 0) {
      if (std::optional<ProposalsOp> proposals = harness_.ComputeOne()) operations_.push_back(*std::move(proposals));
    }
    const int64_t commits = harness_.storage.commits();
    answered_now_.clear();
    granted_now_.clear();
    events_now_.clear();
    commit_failed_now_ = armed_;  // Unless there is nothing to commit: see below.
    std::vector<Operation> operations;
    operations.swap(operations_);
    std::vector<std::shared_ptr<int>> answers;
    answers.swap(pending_answers_);
    // An armed fault fires only when there is something to commit; forgetting old requests hourly is, so whether the
    // batch is empty is known only to the core. The storage tells before answers are delivered.
    harness_.before_answers = [&](bool committed_something) {
      if (!committed_something) commit_failed_now_ = false;
      if (!commit_failed_now_) NoteExhausted();
    };
    const absl::Status status = harness_.Batch(std::move(operations));
    for (const auto& times : answers) {
      if (*times != 1) Fail("an operation was not answered");
    }
    if (harness_.storage.commits() != commits) armed_ = false;
    if (status.ok() == commit_failed_now_) Fail("a failed commit was not seen");
    if (commit_failed_now_) {
      ++stats_->failed_commits;
      model_.RollBack(harness_.last_batch_studies, answered_now_);
      if (!events_now_.empty()) Fail("events of a failed commit were told");
      CheckRows(0);
    } else {
      CheckEvents();
      const std::string wrong = failure_.empty() ? model_.EndBatch() : "";
      if (!wrong.empty()) Fail(wrong);
      if (stats_->batches % 16 == 0)
        CheckRows(0);
      else
        for (const storage::StudyKey key : harness_.last_batch_studies) CheckRows(key);
    }
    commit_failed_now_ = false;
  }

  bool InParts(const std::string& id) const {
    return std::any_of(model_.studies().begin(), model_.studies().end(),
                       [&](const auto& s) { return s.second.id == id && s.second.spec.resource; });
  }

  // When a designer has nothing more to ask for is its own affair; the model is told, and says whether it may be.
  void NoteExhausted() {
    for (const auto& [key, s] : model_.studies()) {
      if (!s.spec.resource || (s.state != study::StudyState::kActive && s.state != study::StudyState::kPaused))
        continue;
      const absl::StatusOr<storage::StudyRecord> record = harness_.memory.GetStudy(s.id);
      if (!record.ok() || record->key != key || record->state != study::StudyState::kCompleted) continue;
      const std::string wrong = model_.CompleteExhausted(key);
      if (!wrong.empty()) Fail(absl::StrCat("study ", s.id, ": ", wrong));
    }
  }

  void NoteEvents(const std::vector<storage::Event>& events) {
    events_now_.insert(events_now_.end(), events.begin(), events.end());
  }

  void CheckEvents() {
    std::vector<std::tuple<std::string, int64_t, int32_t>> granted;
    for (const storage::Event& event : events_now_) {
      if (event.seq <= last_seq_) Fail("event seqs do not increase (I4)");
      last_seq_ = event.seq;
      if (event.type == storage::EventType::kGradientSetAside) {
        ++stats_->set_aside;
        if (!set_aside_.emplace(event.study, event.trial).second) Fail("a gradient was set aside twice");
      }
      stats_->paused += event.type == storage::EventType::kTrialPaused ? 1 : 0;
      stats_->promoted += event.type == storage::EventType::kTrialPromoted ? 1 : 0;
      if (event.type == storage::EventType::kTrialGranted)
        granted.emplace_back(event.study_id, event.trial, event.attempt);
    }
    // Grants in order of seq are grants in order of fence.
    if (granted != granted_now_) Fail("granted events differ from the grants that were answered (I5)");
  }

  // Rows in storage against the model; key 0: all studies, and the core's own recount.
  void CheckRows(storage::StudyKey only) {
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

  void CheckRow(storage::StudyKey key, const std::string& study, const storage::TrialRecord& row,
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
    if (!study::IsFinal(row.trial.state)) return;
    const auto [place, fresh] = finals_.emplace(std::pair(key, row.trial.number), row);
    if (fresh)
      ++stats_->finals;
    else if (!(place->second == row))
      Fail(at + "a final row changed (I3)");
  }

  void CheckReplay() {
    for (const auto& [key, s] : model_.studies()) {
      const absl::StatusOr<ReplayReport> report = VerifyReplay(&harness_.memory, harness_.Study(s.id), MakeDesigner);
      if (!report.ok()) return Fail(std::string(report.status().message()));
      if (!report->mismatches.empty()) return Fail(absl::StrCat("replay (I9): ", report->mismatches[0]));
    }
  }

  const bool late_;
  WalkStats* const stats_;
  Harness harness_;
  NaiveModel model_;
  std::string failure_;

  std::vector<std::pair<Step, int>> planned_;
  std::vector<Operation> operations_;
  std::vector<std::shared_ptr<int>> pending_answers_;
  bool armed_ = false;
  bool commit_failed_now_ = false;
  std::vector<int> answered_now_;
  std::vector<std::tuple<std::string, int64_t, int32_t>> granted_now_;
  std::vector<storage::Event> events_now_;

  std::vector<Known> tokens_;
  std::set<std::string> known_tokens_;
  std::vector<std::string> request_ids_;
  std::vector<std::shared_ptr<std::atomic<bool>>> gone_;
  std::set<std::pair<storage::StudyKey, int64_t>> set_aside_;
  std::set<int> expect_replaced_;
  std::set<int> answered_;
  std::map<std::pair<storage::StudyKey, int64_t>, storage::TrialRecord> finals_;
  uint64_t last_fence_ = 0;
  uint64_t last_seq_ = 0;
};

}  // namespace

std::vector<Step> RandomSteps(uint64_t seed, int count) {
  // How often each kind comes, of 1000.
  static constexpr std::pair<Step::Kind, uint32_t> kWeights[] = {
      {Step::kSuggest, 300}, {Step::kFinish, 280}, {Step::kReport, 100}, {Step::kHeartbeat, 90},
      {Step::kCreate, 40},   {Step::kControl, 30}, {Step::kEnqueue, 35}, {Step::kCancelTrial, 12},
      {Step::kTime, 95},     {Step::kHangUp, 6},   {Step::kRestart, 6},  {Step::kFailCommit, 6}};
  base::RandomStream random(seed, "walk");
  std::vector<Step> steps(static_cast<size_t>(count));
  for (Step& step : steps) {
    auto pick = static_cast<uint32_t>(random.UniformInt(1000));
    for (const auto& [kind, weight] : kWeights) {
      step.kind = kind;
      if (pick < weight) break;
      pick -= weight;
    }
    step.ends_batch = random.UniformInt(3) != 0;
    for (uint32_t& r : step.r) r = static_cast<uint32_t>(random.UniformInt(uint64_t{1} << 30));
  }
  return steps;
}

std::optional<WalkFailure> RunWalk(const std::vector<Step>& steps, const WalkOptions& options, WalkStats* stats) {
  WalkStats local;
  std::optional<WalkFailure> failure = Walker(options, &local).Run(steps);
  if (stats != nullptr) {
    stats->operations += local.operations;
    stats->batches += local.batches;
    stats->failed_commits += local.failed_commits;
    stats->restarts += local.restarts;
    stats->limited += local.limited;
    stats->grants += local.grants;
    stats->regrants += local.regrants;
    stats->refused += local.refused;
    stats->finals += local.finals;
    stats->set_aside += local.set_aside;
    stats->paused += local.paused;
    stats->promoted += local.promoted;
  }
  return failure;
}

std::vector<Step> Shrink(std::vector<Step> steps, const WalkOptions& options) {
  std::optional<WalkFailure> failure = RunWalk(steps, options, nullptr);
  if (!failure) return steps;
  steps.resize(static_cast<size_t>(failure->step) + 1);
  for (size_t chunk = steps.size() / 2; chunk >= 1; chunk /= 2) {
    for (size_t begin = 0; begin + chunk <= steps.size();) {
      std::vector<Step> fewer(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(begin));
      fewer.insert(fewer.end(), steps.begin() + static_cast<std::ptrdiff_t>(begin + chunk), steps.end());
      failure = RunWalk(fewer, options, nullptr);
      if (failure) {
        fewer.resize(static_cast<size_t>(failure->step) + 1);
        steps = std::move(fewer);
      } else {
        begin += chunk;
      }
    }
  }
  return steps;
}

std::string Describe(const std::vector<Step>& steps) {
  static constexpr const char* kNames[] = {"Suggest", "Finish",      "Report", "Heartbeat", "Create",  "Control",
                                           "Enqueue", "CancelTrial", "Time",   "HangUp",    "Restart", "FailCommit"};
  std::string text;
  for (const Step& step : steps) {
    absl::StrAppend(&text, "  {Step::k", kNames[step.kind], ", ", step.ends_batch ? "true" : "false", ", {");
    for (size_t i = 0; i < step.r.size(); ++i) absl::StrAppend(&text, i == 0 ? "" : ", ", step.r[i]);
    absl::StrAppend(&text, "}},\n");
  }
  return text;
}

std::string CheckWalk(const WalkOptions& options, WalkStats* stats) {
  const std::vector<Step> steps = RandomSteps(options.seed, options.steps);
  const std::optional<WalkFailure> failure = RunWalk(steps, options, stats);
  if (!failure) return "";
  // Known even if a shorter walk ends in an abort.
  std::fprintf(stderr, "seed %llu, step %d: %s\n", static_cast<unsigned long long>(options.seed), failure->step,
               failure->what.c_str());
  const std::vector<Step> shortest = Shrink(steps, options);
  const std::optional<WalkFailure> again = RunWalk(shortest, options, nullptr);
  return absl::StrCat("seed ", options.seed, ", step ", failure->step, ": ", failure->what, "\nshortest failing walk (",
                      shortest.size(), " steps): ", again ? again->what : "", "\n", Describe(shortest));
}

}  // namespace luthier::coordinator::testing
