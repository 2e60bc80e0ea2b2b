#ifndef LUTHIER_TESTS_WORKER_FAKE_COORDINATOR_H_
#define LUTHIER_TESTS_WORKER_FAKE_COORDINATOR_H_

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "tests/worker/fake_clock.h"
#include "worker/coordinator_api.h"

namespace luthier::worker {

// A coordinator in memory that records all it is asked and can be told to misbehave. Everything public is guarded by
// the world's mutex: tests read it through Check or inside a Drive condition.
class FakeCoordinator final : public CoordinatorApi {
 public:
  FakeCoordinator(World* world, const FakeWaitClock* clock) : world_(world), clock_(clock) {}

  struct Released {
    int64_t trial;
    std::string checkpoint;
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

  absl::StatusOr<study::StudySpec> GetSpec(const std::string& study) override {
    const std::lock_guard<std::mutex> lock(world_->mutex);
    Note("get_spec");
    if (away) return absl::UnavailableError("away");
    if (absl::Status error = NextError("get_spec"); !error.ok()) return error;
    looked_at.push_back(study);
    return spec;
  }
  absl::StatusOr<SuggestReply> Suggest(const SuggestRequest& request) override {
    std::unique_lock<std::mutex> lock(world_->mutex);
    Note("suggest");
    asks.push_back(request);
    if (absl::Status error = NextError("suggest"); !error.ok()) return error;
    // A long poll without end.
    while (!cancelled && queue.empty() && !done && !away) world_->changed.wait(lock);
    if (away) return absl::UnavailableError("away");
    SuggestReply reply;
    if (cancelled && !grant_after_cancel) return absl::CancelledError("cancelled");
    while (!queue.empty() && (static_cast<int>(reply.leases.size()) < request.count || ignore_count)) {
      reply.leases.push_back(queue.front());
      queue.pop_front();
    }
    reply.study_done = reply.leases.empty() && done;
    reply.retry_after = absl::Seconds(1);
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
      out.push_back(directives.count(token) != 0 ? directives[token] : study::Directive::kContinue);
    }
    return out;
  }
  absl::StatusOr<study::Directive> Report(const ReportRequest& request) override {
    std::unique_lock<std::mutex> lock(world_->mutex);
    Note("report");
    while (hold_reports) world_->changed.wait(lock);
    if (away) return absl::UnavailableError("away");
    if (absl::Status error = NextError("report"); !error.ok()) return error;
    reports.push_back(request);
    return report_directive;
  }
  absl::StatusOr<FinishReply> Finish(const FinalResult& result) override {
    std::unique_lock<std::mutex> lock(world_->mutex);
    Note("finish");
    tried.push_back(result);
    while (hold_results) world_->changed.wait(lock);
    if (away) return absl::UnavailableError("away");
    if (!finish_error.ok()) return finish_error;
    if (absl::Status error = NextError("finish"); !error.ok()) return error;
    results.push_back(result);
    FinishReply reply;
    reply.state = !result.failed                                       ? finish_state
                  : result.failure.kind == study::FailureKind::kConfig ? study::TrialState::kFailed
                                                                       : study::TrialState::kPending;
    return reply;
  }
  absl::StatusOr<FinishReply> Release(const std::string&, int64_t trial, const std::string&,
                                      const std::string& checkpoint) override {
    const std::lock_guard<std::mutex> lock(world_->mutex);
    Note("release");
    if (away) return absl::UnavailableError("away");
    if (absl::Status error = NextError("release"); !error.ok()) return error;
    released.push_back({trial, checkpoint});
    return FinishReply{study::TrialState::kPending, {}};
  }

  study::StudySpec spec;    // Of every study.
  std::deque<Lease> queue;  // What will be granted.
  bool done = false;        // Nothing will ever be granted again.
  bool away = false;
  bool cancelled = false;
  bool grant_after_cancel = false;  // The answer crossed the cancellation.
  bool ignore_count = false;
  bool hold_reports = false;
  bool hold_results = false;
  std::map<std::string, study::Directive> directives;
  absl::Status finish_error;                                      // While it is not OK.
  study::TrialState finish_state = study::TrialState::kComplete;  // Of results that are no failures.
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
};

}  // namespace luthier::worker

#endif  // LUTHIER_TESTS_WORKER_FAKE_COORDINATOR_H_
