#ifndef LUTHIER_TESTS_WORKER_RUNTIME_FIXTURE_H_
#define LUTHIER_TESTS_WORKER_RUNTIME_FIXTURE_H_

#include <gmock/gmock.h>
#include <poll.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/log.h"
#include "tests/worker/fake_clock.h"
#include "tests/worker/fake_coordinator.h"
#include "tests/worker/testing.h"
#include "worker/runtime/runtime.h"

namespace luthier::worker {

inline constexpr absl::Duration kTtl = absl::Seconds(60);

class FunctionRunner final : public Runner {
 public:
  absl::Status Open(const study::StudySpec& spec) override { return open(spec); }
  RunOutcome Run(const RunRequest& request, RunSink* sink) override { return run(request, sink); }
  void Discard(const RunRequest& request) override { discard(request); }
  void DiscardStudy(const std::string& study) override { discard_study(study); }
  void Abort() override { ++aborts; }

  std::function<absl::Status(const study::StudySpec&)> open = [](const study::StudySpec&) { return absl::OkStatus(); };
  std::function<RunOutcome(const RunRequest&, RunSink*)> run;
  std::function<void(const RunRequest&)> discard = [](const RunRequest&) {};
  std::function<void(const std::string&)> discard_study = [](const std::string&) {};
  int aborts = 0;
};

inline RunOutcome Complete(double loss) {
  RunOutcome outcome;
  outcome.result = RunResult::kComplete;
  outcome.measurement.metrics["loss"] = loss;
  return outcome;
}

inline RunOutcome UntilStopped(RunSink* sink) {
  pollfd fd = {sink->stop().fd(), POLLIN, 0};
  while (!sink->stop().requested()) poll(&fd, 1, -1);
  RunOutcome outcome;
  outcome.result = RunResult::kStopped;
  return outcome;
}

inline study::Measurement Point(int64_t step, double loss) {
  study::Measurement m;
  m.step = step;
  m.metrics["loss"] = loss;
  return m;
}

class RuntimeTest : public ::testing::Test {
 protected:
  RuntimeTest() {
    base::SetLogLevel(base::LogLevel::kOff);
    options_.worker = "w1";
    options_.study = "demo";
    options_.exit_when_done = true;
    runner_.run = [](const RunRequest& request, RunSink*) { return Complete(static_cast<double>(request.trial)); };
    runner_.discard = [this](const RunRequest& request) { coordinator_.Do([&] { discarded_.insert(request.trial); }); };
    runner_.discard_study = [this](const std::string& study) {
      coordinator_.Do([&] { discarded_studies_.push_back(study); });
    };
  }
  ~RuntimeTest() override {
    if (thread_.joinable()) thread_.join();
    base::SetLogLevel(base::LogLevel::kInfo);
  }

  static Lease MakeLease(int64_t trial) {
    Lease lease;
    lease.run.study = "demo";
    lease.run.trial = trial;
    lease.run.parameters = {{"lr", 0.5}};
    lease.token = absl::StrCat("token-", trial);
    lease.ttl = kTtl;
    lease.run.spec.metric.name = "loss";
    lease.run.spec.seed = 5;
    lease.run.spec.space = study::SearchSpace::Create({{"lr", study::FloatRange{}, {}, {}}}).value();
    lease.run.spec.objective = study::CommandObjective{};
    return lease;
  }
  void Grant(int64_t first, int64_t last) {
    coordinator_.Do([&] {
      for (int64_t trial = first; trial <= last; ++trial) coordinator_.queue.push_back(MakeLease(trial));
    });
  }
  void Done() {
    coordinator_.Do([&] { coordinator_.done = true; });
  }
  void Start() {
    runtime_ = std::make_unique<Runtime>(options_, &coordinator_, &runner_, spool_.get(), &clock_);
    thread_ = std::thread([this] {
      const absl::Status status = runtime_->Run();
      coordinator_.Do([&] {
        status_ = status;
        ended_ = true;
      });
    });
  }
  absl::Status Join() {
    thread_.join();
    return status_;
  }
  // With time moving.
  absl::Status JoinDriven() {
    clock_.Drive([this] { return ended_; });
    return Join();
  }
  // A worker's life, until what is granted has ended.
  void RunToTheEnd() {
    Done();
    Start();
    EXPECT_TRUE(JoinDriven().ok());
  }
  // The same for one trial.
  void RunOneTrial() {
    Grant(1, 1);
    RunToTheEnd();
  }
  // The same with an objective that reports a point and then waits to be stopped.
  void ReportOnceAndWait() {
    runner_.run = [](const RunRequest&, RunSink* sink) {
      sink->Report(Point(0, 1), "");
      return UntilStopped(sink);
    };
    RunOneTrial();
  }
  void UseSpool() { spool_ = std::make_unique<Spool>(Spool::Open(temporary_.path() + "/spool").value()); }
  std::vector<std::string> SpoolFiles() const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(spool_->directory())) {
      out.push_back(entry.path().filename());
    }
    return out;
  }

  World world_;
  FakeWaitClock clock_{&world_};
  FakeCoordinator coordinator_{&world_, &clock_};
  FunctionRunner runner_;
  TemporaryDirectory temporary_;
  std::unique_ptr<Spool> spool_;
  RuntimeOptions options_;
  std::unique_ptr<Runtime> runtime_;
  std::thread thread_;
  bool ended_ = false;
  absl::Status status_;
  std::set<int64_t> discarded_;
  std::vector<std::string> discarded_studies_;
};

inline absl::Status Precondition(const char* reason) {
  return base::MakeError(absl::StatusCode::kFailedPrecondition, reason, reason);
}

}  // namespace luthier::worker

#endif  // LUTHIER_TESTS_WORKER_RUNTIME_FIXTURE_H_
