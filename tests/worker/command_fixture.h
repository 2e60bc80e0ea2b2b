#ifndef LUTHIER_TESTS_WORKER_COMMAND_FIXTURE_H_
#define LUTHIER_TESTS_WORKER_COMMAND_FIXTURE_H_

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/testing/python.h"
#include "tests/worker/testing.h"
#include "worker/objectives/command.h"
#include "worker/process/keeper.h"

namespace luthier::worker {

// Runs programs as the trials of a study.
class CommandTest : public ::testing::Test {
 protected:
  CommandTest() {
    options_.temporary_root = temporary_.path();
    options_.grace = absl::Seconds(20);        // Tests that want SIGKILL make it tiny.
    options_.wish = absl::Seconds(20);         // Tests that want SIGTERM after a wish make it tiny.
    options_.hold = absl::InfiniteDuration();  // Which points are intermediate is then no matter of speed.
    request_.study = "demo";
    request_.trial = 3;
    request_.attempt = 2;
    request_.seed = 77;
    request_.spec.metric.name = "loss";
    request_.spec.space = study::SearchSpace::Create({{"lr", study::FloatRange{}, {}, {}},
                                                      {"opt.depth", study::IntRange{1, 9}, {}, {}},
                                                      {"kind", study::CategoricalLabels{{"a b", "c"}}, {}, {}},
                                                      {"fast", study::BoolSwitch{}, {}, {}},
                                                      {"absent", study::FloatRange{}, {}, {}}})
                              .value();
    request_.parameters = {{"lr", 0.25}, {"opt.depth", 4.0}, {"kind", "a b"}, {"fast", true}};
  }

  study::CommandObjective& Command(std::vector<std::string> argv) {
    request_.spec.objective = study::CommandObjective{std::move(argv), {}, absl::InfiniteDuration(), 0, {}};
    return std::get<study::CommandObjective>(request_.spec.objective);
  }
  // No placeholders in these scripts: every brace is itself.
  study::CommandObjective& Shell(const std::string& script) {
    return Command({"sh", "-c", absl::StrReplaceAll(script, {{"{", "{{"}, {"}", "}}"}})});
  }
  study::CommandObjective& Python(const std::string& script) {
    return Command({testing::kPython, "-S", temporary_.Write("script.py", script)});
  }
  RunOutcome Run() {
    CommandRunner runner(keeper_.get(), options_);
    return runner.Run(request_, &sink_);
  }
  void ExpectFailure(const RunOutcome& outcome, study::FailureKind kind, const std::string& reason) {
    EXPECT_EQ(outcome.result, RunResult::kFailed);
    EXPECT_EQ(outcome.failure.kind, kind) << outcome.failure.message;
    EXPECT_EQ(outcome.failure.reason, reason) << outcome.failure.message;
  }
  void ExpectLoss(const RunOutcome& outcome, double loss) {
    ASSERT_EQ(outcome.result, RunResult::kComplete) << outcome.failure.reason << " " << outcome.failure.message;
    EXPECT_EQ(outcome.measurement.metrics.at("loss"), loss);
  }

  const std::unique_ptr<Keeper> keeper_ = Keeper::Start().value();
  TemporaryDirectory temporary_;
  CommandOptions options_;
  RunRequest request_;
  RecordingSink sink_;
};

inline constexpr study::FailureKind kConfig = study::FailureKind::kConfig;
inline constexpr study::FailureKind kInfra = study::FailureKind::kInfra;

}  // namespace luthier::worker

#endif  // LUTHIER_TESTS_WORKER_COMMAND_FIXTURE_H_
