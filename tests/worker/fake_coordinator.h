#ifndef LUTHIER_TESTS_WORKER_FAKE_COORDINATOR_H_
#define LUTHIER_TESTS_WORKER_FAKE_COORDINATOR_H_

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "tests/worker/fake_clock.h"
#include "worker/run/coordinator_api.h"

namespace luthier::worker {

// A coordinator of one study, in memory. It grants what tests put into its queue, keeps the rules of leases that
// tests/contract/coordinator_contract.h checks, records all it is asked and can be told to misbehave. Everything public
// is guarded by the world's mutex: tests read it through Check or inside a Drive condition.
class FakeCoordinator final : public CoordinatorApi {
 public:
  FakeCoordinator(World* world, const FakeWaitClock* clock) : world_(world), clock_(clock) {}

  struct Released {
    int64_t trial;
    std::string checkpoint;
    int64_t checkpoint_step = 0;
  };

  template <typename F>
  auto Check(F&& f) {
    const std::lock_guard<std::mutex> lock(world_->mutex);
    auto result = f();
    world_->changed.notify_all();
    return result;
  }
  template <typename F>
  void Do(F&& f) {
    const std::lock_guard<std::mutex> lock(world_->mutex);
    f();
    world_->changed.notify_all();
  }
  // Waits in real time until `reached` (called with the world's mutex held); the clock stands still.
  void Await(const std::function<bool()>& reached) {
    std::unique_lock<std::mutex> lock(world_->mutex);
    while (!reached()) world_->changed.wait(lock);
  }

  // Makes `token` the newest grant of a trial, as if an earlier process had been granted it.
  void Hold(const std::string& token, int64_t trial) {
    Do([&] { grants_[token] = Granted{trial, {}, {}, {}}; });
  }

  absl::StatusOr<std::vector<std::string>> OwnProjects() override { return std::vector<std::string>{"default"}; }
  absl::StatusOr<study::StudySpec> GetSpec(const std::string& study) override {
    const std::lock_guard<std::mutex> lock(world_->mutex);
    Note("get_spec");
    if (away) return absl::UnavailableError("away");
    if (absl::Status error = NextError("get_spec"); !error.ok()) return error;
    if (absl::Status error = CheckStudy(study); !error.ok()) return error;
    looked_at.push_back(study);
    return spec;
  }
  absl::StatusOr<SuggestAnswer> Suggest(const SuggestRequest& request) override {
    std::unique_lock<std::mutex> lock(world_->mutex);
    Note("suggest");
    asks.push_back(request);
    if (absl::Status error = NextError("suggest"); !error.ok()) return error;
    if (absl::Status error = request.study.empty() ? absl::OkStatus() : CheckStudy(request.study); !error.ok()) {
      return error;
    }
    const auto before = answered_.find(request.request_id);
    if (before != answered_.end() && !away && (!cancelled || request.last)) return before->second;
    // A long poll without end.
    if (queue.empty() && !done && grants_nothing_after != absl::ZeroDuration()) {
      SuggestAnswer nothing;
      nothing.retry_after = grants_nothing_after;
      return nothing;
    }
    while (!cancelled && queue.empty() && !done && !away) world_->changed.wait(lock);
    if (away) return absl::UnavailableError("away");
    SuggestAnswer reply;
    if (cancelled && !grant_after_cancel && !lose_cancelled_answer) return absl::CancelledError("cancelled");
    while (!queue.empty() && (static_cast<int>(reply.leases.size()) < request.count || ignore_count)) {
      reply.leases.push_back(queue.front());
      grants_[queue.front().token] = Granted{queue.front().run.trial, {}, {}, {}};
      queue.pop_front();
    }
    reply.study_done = reply.leases.empty() && done;
    reply.retry_after = absl::Seconds(1);
    if (!reply.leases.empty()) answered_[request.request_id] = reply;
    if (cancelled && lose_cancelled_answer) return absl::CancelledError("cancelled");
    return reply;
  }
  void CancelSuggest() override {
    Do([&] { cancelled = true; });
  }
  absl::StatusOr<std::vector<study::Directive>> Heartbeat(const std::string& worker,
                                                          const std::vector<std::string>& tokens) override {
    const absl::Duration now = clock_->Monotonic();
    const std::lock_guard<std::mutex> lock(world_->mutex);
    Note("heartbeat");
    if (away) return absl::UnavailableError("away");
    if (absl::Status error = NextError("heartbeat"); !error.ok()) return error;
    beats.emplace_back(now, tokens);
    beating_worker = worker;
    std::vector<study::Directive> out;
    for (const std::string& token : tokens) {
      const auto grant = grants_.find(token);
      const bool held = grant != grants_.end() && !grant->second.reply;
      const auto told = directives.find(token);
      out.push_back(told != directives.end() ? told->second
                    : held                   ? study::Directive::kContinue
                                             : study::Directive::kLost);
    }
    return out;
  }
  absl::StatusOr<study::Directive> Report(const ReportRequest& request) override {
    std::unique_lock<std::mutex> lock(world_->mutex);
    Note("report");
    while (hold_reports) world_->changed.wait(lock);
    if (away) return absl::UnavailableError("away");
    if (absl::Status error = NextError("report"); !error.ok()) return error;
    if (absl::Status error = CheckStudy(request.study); !error.ok()) return error;
    const auto grant = grants_.find(request.token);
    if (grant == grants_.end() || grant->second.reply) return Lost(request.trial);
    for (const study::Measurement& point : request.measurements) {
      const auto known = grant->second.curve.find(point.step);
      if (known != grant->second.curve.end() && known->second != point) return Conflict();
    }
    for (const study::Measurement& point : request.measurements) grant->second.curve[point.step] = point;
    reports.push_back(request);
    return report_directive;
  }
  absl::StatusOr<FinishAnswer> Finish(const FinalResult& result) override {
    std::unique_lock<std::mutex> lock(world_->mutex);
    Note("finish");
    tried.push_back(result);
    while (hold_results) world_->changed.wait(lock);
    if (away) return absl::UnavailableError("away");
    if (!finish_error.ok()) return finish_error;
    if (absl::Status error = NextError("finish"); !error.ok()) return error;
    const auto grant = grants_.find(result.token);
    if (absl::Status error = CheckStudy(result.study); !error.ok()) return error;
    if (grant == grants_.end()) return Lost(result.trial);
    if (grant->second.reply) {
      if (grant->second.result != result) return Conflict();
      return *grant->second.reply;
    }
    results.push_back(result);
    grant->second.result = result;
    grant->second.reply = FinishAnswer{StateAfter(result), {}};
    return *grant->second.reply;
  }
  absl::StatusOr<FinishAnswer> Release(const std::string& study, int64_t trial, const std::string& token,
                                       const std::string& checkpoint, int64_t checkpoint_step) override {
    const std::lock_guard<std::mutex> lock(world_->mutex);
    Note("release");
    if (away) return absl::UnavailableError("away");
    if (absl::Status error = NextError("release"); !error.ok()) return error;
    if (absl::Status error = CheckStudy(study); !error.ok()) return error;
    const auto grant = grants_.find(token);
    if (grant == grants_.end()) return Lost(trial);
    if (grant->second.reply) {
      if (grant->second.result) return Conflict();
      return *grant->second.reply;
    }
    released.push_back({trial, checkpoint, checkpoint_step});
    grant->second.reply = FinishAnswer{study::TrialState::kPending, {}};
    return *grant->second.reply;
  }

  std::string study_id = "demo";
  study::StudySpec spec;    // Of the study.
  std::deque<Lease> queue;  // What will be granted.
  bool done = false;        // Nothing will ever be granted again.
  bool away = false;
  bool cancelled = false;
  bool grant_after_cancel = false;     // The answer crossed the cancellation.
  bool lose_cancelled_answer = false;  // Trials are granted to a cancelled ask, which does not hear of them.
  bool ignore_count = false;
  absl::Duration
      grants_nothing_after;  // Without trials an ask is answered at once, with this retry_after; 0: it waits.
  bool hold_reports = false;
  bool hold_results = false;
  std::map<std::string, study::Directive> directives;
  absl::Status finish_error;                      // While it is not OK.
  std::optional<study::TrialState> finish_state;  // Of results that are no failures; absent: what they ask for.
  study::Directive report_directive = study::Directive::kContinue;
  std::map<std::string, std::deque<absl::Status>> errors;  // By call, each used once.

  std::vector<std::string> calls;
  std::vector<std::string> looked_at;
  std::vector<SuggestRequest> asks;
  std::vector<std::pair<absl::Duration, std::vector<std::string>>> beats;
  std::string beating_worker;
  std::vector<ReportRequest> reports;
  std::vector<FinalResult> tried, results;
  std::vector<Released> released;

 private:
  // The newest grant under a token, and what ended it.
  struct Granted {
    int64_t trial;
    std::map<int64_t, study::Measurement> curve;
    std::optional<FinishAnswer> reply;  // Once it is ended.
    std::optional<FinalResult> result;  // Unless it was released.
  };

  absl::Status CheckStudy(const std::string& id) const {
    return id == study_id ? absl::OkStatus() : absl::NotFoundError("no study");
  }
  // The answer to a token that is not the trial's newest.
  absl::Status Lost(int64_t trial) const {
    for (const auto& [token, grant] : grants_) {
      if (grant.trial != trial || !grant.reply || !study::IsFinal(grant.reply->state)) continue;
      return base::MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kTrialFinal, "the trial has ended");
    }
    return base::MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kLeaseLost, "another has it");
  }
  static absl::Status Conflict() {
    return base::MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kConflictingReport, "another content");
  }
  study::TrialState StateAfter(const FinalResult& result) const {
    using study::TrialState;
    if (result.failed) {
      return result.failure.kind == study::FailureKind::kConfig ? TrialState::kFailed : TrialState::kPending;
    }
    if (finish_state) return *finish_state;
    return result.pruned ? TrialState::kPruned : result.paused ? TrialState::kPaused : TrialState::kComplete;
  }
  void Note(const char* call) {
    calls.push_back(call);
    world_->changed.notify_all();
  }
  absl::Status NextError(const std::string& call) {
    std::deque<absl::Status>& list = errors[call];
    if (list.empty()) return absl::OkStatus();
    absl::Status error = list.front();
    list.pop_front();
    return error;
  }

  World* const world_;
  const FakeWaitClock* const clock_;
  std::map<std::string, Granted> grants_;          // By token.
  std::map<std::string, SuggestAnswer> answered_;  // By request id.
};

}  // namespace luthier::worker

#endif  // LUTHIER_TESTS_WORKER_FAKE_COORDINATOR_H_
