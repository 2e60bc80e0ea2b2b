#include "tests/server/coordinator/walker.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/server/coordinator/rung_designer.h"
#include "tests/server/coordinator/walk_studies.h"
#include "tests/testing/storage_records.h"

namespace luthier::coordinator::testing {
namespace {

const absl::Duration kStall = absl::Seconds(15);
constexpr int kFailuresToPause = 4;
constexpr int kAlikeToPause = 2;
// Small enough to be met now and then.
constexpr int kLeasesPerWorker = 5;
constexpr int kWorkers = 4;
constexpr int kStudies = 4;
constexpr int kCallers = 5;
const absl::Duration kRequestLifetime = absl::Minutes(2);
constexpr size_t kSent = 60;  // Operations that may be sent again.

// Answers to the last field; "": an answer that nothing follows from, and that is not remembered.
std::string Text(const std::vector<study::Trial>& trials) {
  std::string text;
  for (const study::Trial& trial : trials) {
    absl::StrAppend(&text, luthier::testing::Text(trial), "\n");
  }
  return text;
}
std::string Text(const study::StudySpec& spec) {
  return absl::StrCat(spec.budget.max_trials, " ", spec.budget.max_parallel, " ", spec.description);
}
std::string Text(const StudyReply& reply) {
  return absl::StrCat(reply.seq);  // The rest is what the service keeps of its answer.
}
std::string Text(const EnqueueReply& reply) {
  return absl::StrCat(reply.seq, " ", Text(reply.trials));
}
std::string Text(const ImportReply& reply) {
  return absl::StrCat(reply.seq, " ", absl::StrJoin(reply.numbers, ","));
}
std::string Text(const SuggestReply& reply) {
  if (reply.grants.empty()) return "";
  std::string text = absl::StrCat(reply.seq, " ");
  for (const Grant& g : reply.grants) {
    absl::StrAppend(&text, g.study_id, " ", absl::CEscape(g.token), " ", g.attempt, " ", g.resume_checkpoint, " ",
                    g.target_step, " ", g.resume_step, " ", static_cast<int>(g.gradient), " ", Text({g.trial}),
                    Text(*g.spec), "\n");
  }
  return text;
}

std::vector<Grant> GrantsOf(const SuggestReply& reply) {
  return reply.grants;
}
template <typename Reply>
std::vector<Grant> GrantsOf(const Reply&) {
  return {};
}

}  // namespace

Walker::Walker(const WalkOptions& options, WalkStats* stats)
    : late_(options.delay_proposals),
      stats_(stats),
      harness_(CoreOptions(), MakeWalkDesigner),
      model_(ModelOptions(late_)) {
  harness_.late_suggestions = late_;
  for (int i = 0; i < kCallers; ++i) callers_.push_back(std::make_shared<Token>());
  harness_.on_events = [this](const std::vector<storage::Event>& events) { NoteEvents(events); };
  model_.Restart(harness_.clock.Monotonic());
}

std::optional<WalkFailure> Walker::Run(const std::vector<Step>& steps) {
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

Core::Options Walker::CoreOptions() {
  Core::Options options = Harness::DefaultOptions();
  options.stall = kStall;
  options.failures_to_pause = kFailuresToPause;
  options.alike_to_pause = kAlikeToPause;
  options.alike_within = absl::InfiniteDuration();  // The model does not know how long attempts took.
  options.request_lifetime = kRequestLifetime;
  options.limits.leases_per_worker = kLeasesPerWorker;
  options.limits.studies = kStudies - 1;
  options.stoppers = MakeWalkStopper;
  return options;
}

NaiveModel::Options Walker::ModelOptions(bool late) {
  return {kStall, kFailuresToPause, kAlikeToPause, late, kLeasesPerWorker, kStudies - 1, MakeWalkDesigner, kStopAbove};
}

void Walker::Fail(const std::string& what) {
  if (failure_.empty()) failure_ = what;
}

std::string Walker::StudyId(uint32_t r) const {
  return absl::StrCat("s", r % kStudies);
}
std::string Walker::Worker(uint32_t r) const {
  return absl::StrCat("w", r % kWorkers);
}

Walker::Known Walker::Holder(uint32_t how, uint32_t which) {
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

bool Walker::MustBeKnown(const std::string& request_id) const {
  const auto found = first_answers_.find(request_id);
  if (found == first_answers_.end()) return true;  // Whatever became of it, the model knows.
  if (harness_.clock.Monotonic() - found->second.at < kRequestLifetime) return true;
  for (const Known& grant : found->second.granted) {
    for (const auto& [key, s] : model_.studies()) {
      const auto t = s.trials.find(grant.number);
      if (s.id == grant.study && t != s.trials.end() && t->second.state == study::TrialState::kRunning &&
          t->second.grants.back().token == grant.token) {
        return true;
      }
    }
  }
  return false;
}

template <typename Reply>
Done<Reply> Walker::AsBefore(const std::string& request_id, Done<Reply> done) {
  if (request_id.empty()) return done;
  return [this, request_id, done = std::move(done)](absl::StatusOr<Reply> reply) {
    const std::string text = reply.ok() && !commit_failed_now_ ? Text(*reply) : "";
    if (!text.empty()) {
      const auto [first, fresh] = first_answers_.try_emplace(request_id);
      if (fresh) {
        first->second = {text, harness_.clock.Monotonic(), {}};
        for (const Grant& g : GrantsOf(*reply)) {
          first->second.granted.push_back({g.study_id, g.trial.number, g.token, ""});
        }
      } else if (first->second.text != text) {
        Fail(absl::StrCat(request_id, " was answered\n", text, "\nwhere the first answer was\n", first->second.text));
      } else {
        ++stats_->repeated;
      }
    }
    done(std::move(reply));
  };
}

void Walker::SetWallClock(uint32_t r) {
  static const std::array<absl::Duration, 8> kOffsets = {
      absl::ZeroDuration(), absl::Seconds(1), absl::Seconds(-1),          absl::Hours(72),
      absl::Hours(-72),     absl::Hours(50),  absl::Hours(20 * 365 * 24), absl::Hours(-20 * 365 * 24)};
  const absl::Duration offset = kOffsets[r % kOffsets.size()];
  harness_.clock.JumpWall(offset - wall_offset_);
  wall_offset_ = offset;
}

std::string Walker::RequestId(uint32_t r) {
  if (r % 5 < 2) return "";
  if (r % 5 < 4 || request_ids_.empty()) {
    request_ids_.push_back(absl::StrCat("request-", request_ids_.size()));
    return request_ids_.back();
  }
  const size_t recent = std::min<size_t>(request_ids_.size(), 12);
  const std::string& id = request_ids_[request_ids_.size() - 1 - r / 5 % recent];
  return MustBeKnown(id) ? id : "";
}

study::Measurement Walker::Point(uint32_t r) {
  study::Measurement m = Loss(r % 10, r / 10 % 4);
  if (r % 31 == 0) m.step = -1;
  if (r % 29 == 0) m.metrics.clear();
  if (r % 23 == 0) m.metrics[kMetric] = std::numeric_limits<double>::quiet_NaN();
  if (r % 19 == 0) m.metrics[kMetric] = std::numeric_limits<double>::infinity();
  if (r % 5 == 0) m.gradient.emplace().values = {0.25};
  if (r % 15 == 0) m.gradient.emplace().values = {0.25, 0.5};
  return m;
}

void Walker::Take(const Step& step, int index) {
  const auto& r = step.r;
  if (r[5] % 5 == 0) SetWallClock(r[5] / 5);
  switch (step.kind) {
    case Step::kTime: {
      static const std::array<absl::Duration, 6> kSteps = {absl::Seconds(1),  absl::Seconds(3),  absl::Seconds(7),
                                                           absl::Seconds(12), absl::Seconds(16), absl::Seconds(45)};
      FlushBatch();
      // Long silences are our own stalls: rarer than time that passes tick by tick.
      const absl::Duration by = r[1] % 4 == 0 ? kSteps[r[0] % 6] : kSteps[r[0] % 4];
      harness_.clock.Advance(by);
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
    case Step::kToken:
      FlushBatch();
      ChangeToken(r);
      return;
    case Step::kHangUp:
      if (!gone_.empty()) gone_[r[0] % gone_.size()].RequestStop();
      return;
    default:
      planned_.push_back({step, index});
  }
}

void Walker::FlushBatch() {
  if (!planned_.empty()) RunBatch();
}

void Walker::Heartbeat(const std::array<uint32_t, 6>& r) {
  std::vector<std::string> tokens;
  for (uint32_t i = 0; i < 1 + r[0] % 3; ++i) tokens.push_back(Holder(r[1 + i], r[2 + i]).token);
  const absl::Duration now = harness_.clock.Monotonic();
  LeaseTable::Renewal renewal = harness_.leases->Renew(tokens, now, /*take_back=*/false);
  if (!renewal.any_expired) {
    if (renewal.directives != model_.Heartbeat(tokens, now)) Fail("heartbeat: other directives");
    return;
  }
  Begin();
  const std::vector<study::Directive> expected = model_.Heartbeat(tokens, now);
  HeartbeatOp op{"w", tokens, [this, expected](absl::StatusOr<HeartbeatReply> reply) {
                   if (commit_failed_now_) {
                     if (reply.ok()) Fail("heartbeat: OK after a failed commit");
                   } else if (!reply.ok() || reply->directives != expected) {
                     Fail("heartbeat through the writer: other directives");
                   }
                 }};
  permit_ = nullptr;
  Push(std::move(op));
  Commit();
}

template <typename Reply>
Done<Reply> Walker::Check(std::string name, Expected expected) {
  const auto times = std::make_shared<int>(0);
  pending_answers_.push_back(times);
  return [this, name = std::move(name), expected = std::move(expected), times](absl::StatusOr<Reply> reply) {
    if (++*times > 1) Fail(name + ": answered twice");
    if (!reply.ok()) ++stats_->refused;
    if (base::GetReason(reply.status()) == base::reason::kLimitExceeded) ++stats_->limited;
    if (absl::IsUnauthenticated(reply.status())) ++stats_->ended;
    if (commit_failed_now_) {
      if (reply.ok()) Fail(name + ": OK after a failed commit");
      return;
    }
    const std::string got = absl::StrCat(static_cast<int>(reply.status().code()), " ", base::GetReason(reply.status()));
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

Step Walker::Useful(Step step) const {
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

absl::Status Walker::Token::Check(absl::Time now) const {
  if (revoked) return base::MakeError(absl::StatusCode::kUnauthenticated, base::reason::kRevoked, "revoked");
  if (now < expire) return absl::OkStatus();
  return base::MakeError(absl::StatusCode::kUnauthenticated, base::reason::kExpired, "expired");
}

void Walker::ChangeToken(const std::array<uint32_t, 6>& r) {
  std::shared_ptr<Token>& token = callers_[r[0] % kCallers];
  if (r[1] % 4 == 0) {
    token->revoked = true;
  } else if (r[1] % 4 == 1) {
    token->expire = harness_.clock.Wall() + absl::Seconds(r[2] % 40);
  } else {
    token = std::make_shared<Token>();
  }
}

void Walker::ComeFrom(uint32_t caller) {
  // Whoever has no token any more seldom calls.
  for (uint32_t i = 0; i < kCallers; ++i) {
    permit_ = callers_[(caller + i) % kCallers];
    if (caller % 7 == 0 || permit_->Check(harness_.clock.Wall()).ok()) return;
  }
}

template <typename F>
Expected Walker::Judged(F&& judge) const {
  const absl::Status allowed = permit_->Check(harness_.clock.Wall());
  return allowed.ok() ? judge() : Expected::Error(allowed.code(), base::GetReason(allowed));
}

void Walker::Push(Operation operation) {
  operations_.push_back(std::move(operation));
  permits_.push_back(permit_);
}

void Walker::Send(ControlOp op) {
  Remember(op);
  const std::string name = absl::StrCat("control ", static_cast<int>(op.control), " of ", op.id);
  op.done = AsBefore(op.request_id, Check<StudyReply>(name, Judged([&] { return model_.Control(op); })));
  Push(std::move(op));
}
void Walker::Send(EnqueueOp op) {
  Remember(op);
  op.done =
      AsBefore(op.request_id, Check<EnqueueReply>("enqueue in " + op.id, Judged([&] { return model_.Enqueue(op); })));
  Push(std::move(op));
}
void Walker::Send(UpdateStudyOp op) {
  Remember(op);
  const std::string name = absl::StrCat("update ", op.id, " to ", op.content);
  op.done = AsBefore(op.request_id, Check<StudyReply>(name, Judged([&] { return model_.Update(op); })));
  Push(std::move(op));
}
void Walker::Send(ImportOp op) {
  Remember(op);
  op.done =
      AsBefore(op.request_id, Check<ImportReply>("import into " + op.id, Judged([&] { return model_.Import(op); })));
  Push(std::move(op));
}
void Walker::Send(RetryOp op) {
  Remember(op);
  op.done = AsBefore(op.request_id, Check<EnqueueReply>("retry in " + op.id, Judged([&] { return model_.Retry(op); })));
  Push(std::move(op));
}

template <typename Op>
void Walker::Remember(const Op& op) {
  if (op.request_id.empty()) return;
  sent_.push_back(op);
  if (sent_.size() > kSent) sent_.pop_front();
}

bool Walker::SendAgain(uint32_t which, int index) {
  if (sent_.empty()) return false;
  const Operation again = sent_[which % sent_.size()];
  return std::visit(
      [&](const auto& op) {
        using Op = std::decay_t<decltype(op)>;
        if constexpr (std::is_same_v<Op, SuggestOp>) {
          if (!MustBeKnown(op.request_id)) return false;
          Send(op, index);
          return true;
        } else if constexpr (std::is_same_v<Op, ControlOp> || std::is_same_v<Op, EnqueueOp> ||
                             std::is_same_v<Op, UpdateStudyOp> || std::is_same_v<Op, ImportOp> ||
                             std::is_same_v<Op, RetryOp>) {
          if (!MustBeKnown(op.request_id)) return false;
          Send(op);
          return true;
        } else {
          return false;
        }
      },
      again);
}

void Walker::Plan(const Step& planned, int index) {
  const Step step = Useful(planned);
  ComeFrom(planned.r[5] / 64 + planned.r[1] / 64);
  const std::array<uint32_t, 6>& r = step.r;
  if (r[4] % 13 == 0 && SendAgain(r[3], index)) return;
  switch (step.kind) {
    case Step::kCreate: {
      CreateStudyOp op{StudyId(r[0]), WalkSpec(r[1] % kWalkSpecs, late_), "user", {}};
      op.done = Check<StudyReply>("create " + op.id, Judged([&] { return model_.Create(op); }));
      Push(std::move(op));
      return;
    }
    case Step::kControl: {
      static const std::array<Control, 8> kWhich = {Control::kPause,  Control::kResume, Control::kResume,
                                                    Control::kStop,   Control::kCancel, Control::kDelete,
                                                    Control::kDelete, Control::kDelete};
      ControlOp op{StudyId(r[0]), kWhich[r[1] % kWhich.size()], RequestId(r[2]), "user", {}};
      Send(std::move(op));
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
      Send(std::move(op));
      return;
    }
    case Step::kCancelTrial: {
      const Known k = Holder(r[0], r[1]);
      CancelTrialOp op{k.study, k.number, "user", {}};
      op.done = Check<TrialReply>(absl::StrCat("cancel ", k.study, "/", k.number),
                                  Judged([&] { return model_.CancelTrial(op); }));
      Push(std::move(op));
      return;
    }
    case Step::kStopTrial: {
      const Known k = Holder(r[0], r[1]);
      StopTrialOp op{k.study, k.number, "user", {}};
      op.done = Check<TrialReply>(absl::StrCat("stop ", k.study, "/", k.number),
                                  Judged([&] { return model_.StopTrial(op); }));
      Push(std::move(op));
      return;
    }
    case Step::kUpdate: {
      UpdateStudyOp op;
      op.id = StudyId(r[0]);
      op.change.max_trials = static_cast<int64_t>(r[1] % 70);
      if (r[4] % 3 == 0) op.change.description = absl::StrCat("text ", r[3] % 3);
      op.content = absl::StrCat(*op.change.max_trials, op.change.description.value_or(""));
      op.request_id = RequestId(r[2]);
      op.actor = "user";
      Send(std::move(op));
      return;
    }
    case Step::kImport: {
      ImportOp op{StudyId(r[0]), {}, RequestId(r[1]), "user", {}};
      for (uint32_t i = 0; i <= r[2] % 3; ++i) {
        ImportedTrial trial;
        trial.parameters = {{"x", 0.25}, {"n", static_cast<double>(i)}};
        trial.state = (r[3] + i) % 4 == 0 ? study::TrialState::kFailed : study::TrialState::kComplete;
        if (trial.state == study::TrialState::kComplete) {
          trial.measurement = Loss(1.0 + (r[4] + i) % 9);
        } else {
          trial.failure = MakeFailure(study::FailureKind::kConfig, "IMPORTED", "");
        }
        op.trials.push_back(std::move(trial));
      }
      Send(std::move(op));
      return;
    }
    case Step::kRetry: {
      RetryOp op{StudyId(r[0]), {}, 3, RequestId(r[1]), "user", {}};
      for (uint32_t i = 0; i < r[2] % 3; ++i) op.numbers.push_back(1 + (r[3] + i) % 9);
      Send(std::move(op));
      return;
    }
    case Step::kDeleteTrial: {
      DeleteTrialOp op{StudyId(r[0]), 1 + r[1] % 9, "user", {}};
      op.done = Check<TrialReply>(absl::StrCat("delete ", op.id, "/", op.number),
                                  Judged([&] { return model_.DeleteTrial(op); }));
      Push(std::move(op));
      return;
    }
    case Step::kNote: {
      SetAttributesOp op{StudyId(r[0]), 1 + r[1] % 9, {{"note", absl::StrCat(1 + r[2] % 3)}}, "user", {}};
      op.done = Check<TrialReply>(absl::StrCat("note on ", op.id, "/", op.number),
                                  Judged([&] { return model_.SetAttributes(op); }));
      Push(std::move(op));
      return;
    }
    case Step::kReport: {
      const Known k = Holder(r[0], r[1]);
      ReportOp op{k.study,      k.number, k.token, {}, r[2] % 4 == 0 ? absl::StrCat("checkpoint-", r[2] % 3) : "",
                  std::nullopt, {}};
      for (uint32_t i = 0; i < (r[3] % 20 == 0 ? 0 : 1 + r[3] % 3); ++i)
        op.measurements.push_back(Point(r[4] + 10 * i));
      op.done = Check<ReportReply>(absl::StrCat("report on ", k.study, "/", k.number),
                                   Judged([&] { return model_.Report(op); }));
      Push(std::move(op));
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
      const Expected expected = Judged([&] { return model_.Finish(op); });
      const Done<FinishReply> check = Check<FinishReply>(name, expected);
      op.done = [this, check, token = op.token, first = expected.repeats.empty()](absl::StatusOr<FinishReply> reply) {
        if (reply.ok() && first) model_.NoteSeq(token, reply->seq);
        check(std::move(reply));
      };
      Push(std::move(op));
      return;
    }
    default:
      PlanSuggest(r, index);
  }
}

void Walker::PlanSuggest(const std::array<uint32_t, 6>& r, int index) {
  SuggestOp op =
      MakeSuggest(r[0] % 5 == 0 ? "" : StudyId(r[0]), Worker(r[1]), r[2] % 4 == 0 ? 2 + r[2] % 3 : 1, RequestId(r[3]));
  op.fail_if_paused = r[4] % 8 == 0;
  if (r[4] % 3 == 0) op.deadline = harness_.clock.Monotonic() + absl::Seconds(5 + static_cast<int>(r[5] % 30));
  if (r[4] % 6 == 0) {
    gone_.emplace_back();
    if (gone_.size() > 5) gone_.erase(gone_.begin());
    op.caller_gone = gone_.back().token();
  }
  Send(std::move(op), index);
}

void Walker::Send(SuggestOp op, int index) {
  Remember(op);
  const std::string name = absl::StrCat("suggest in ", op.id.empty() ? "any" : op.id, " for ", op.worker);
  int replaced = -1;
  std::optional<Expected> at_once = Judged([] { return Expected(); });
  if (at_once->code == absl::StatusCode::kOk) {
    op.permit = permit_;
    at_once = model_.Suggest(op, index, &replaced);
  }
  if (replaced >= 0) expect_replaced_.insert(replaced);
  if (at_once) {
    op.done = AsBefore(op.request_id, Check<SuggestReply>(name, *at_once));
  } else {
    const int incarnation = static_cast<int>(stats_->restarts);
    const Done<SuggestReply> asked = [this, name, index, incarnation](absl::StatusOr<SuggestReply> reply) {
      if (incarnation != stats_->restarts) Fail(name + ": answered by a dead coordinator");
      Asked(name, index, std::move(reply));
    };
    op.done = AsBefore(op.request_id, asked);
  }
  Push(std::move(op));
}

void Walker::Asked(const std::string& name, int handle, absl::StatusOr<SuggestReply> reply) {
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
  if (absl::IsUnauthenticated(reply.status())) ++stats_->ended_waiting;
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

void Walker::RunBatch() {
  Begin();
  for (const auto& [step, index] : planned_) Plan(step, index);
  planned_.clear();
  Commit();
}

void Walker::Commit() {
  ++stats_->batches;
  permit_ = nullptr;
  if (late_ && stats_->batches % 3 == 0) {
    if (std::optional<ProposalsOp> proposals = harness_.ComputeOne()) Push(*std::move(proposals));
  }
  const int64_t commits = harness_.storage.commits();
  answered_now_.clear();
  granted_now_.clear();
  events_now_.clear();
  commit_failed_now_ = armed_;  // Unless there is nothing to commit: see below.
  std::vector<Operation> operations;
  operations.swap(operations_);
  Harness::Permits permits;
  permits.swap(permits_);
  std::vector<std::shared_ptr<int>> answers;
  answers.swap(pending_answers_);
  // An armed fault fires only when there is something to commit; forgetting old requests hourly is, so whether the
  // batch is empty is known only to the core. The storage tells before answers are delivered.
  harness_.before_answers = [&](bool committed_something) {
    if (!committed_something) commit_failed_now_ = false;
    if (!commit_failed_now_) NoteExhausted();
  };
  const absl::Status status = harness_.Batch(std::move(operations), permits);
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

bool Walker::InParts(const std::string& id) const {
  return std::any_of(model_.studies().begin(), model_.studies().end(),
                     [&](const auto& s) { return s.second.id == id && s.second.spec.resource; });
}

}  // namespace luthier::coordinator::testing
