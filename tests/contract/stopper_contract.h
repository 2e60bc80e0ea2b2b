#ifndef LUTHIER_TESTS_CONTRACT_STOPPER_CONTRACT_H_
#define LUTHIER_TESTS_CONTRACT_STOPPER_CONTRACT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "lib/stopping/stopper.h"

// Tests what every rule that stops trials promises (lib/stopping/stopper.h), against any study it is given:
//   INSTANTIATE_TEST_SUITE_P(Mine, StopperContract, ::testing::ValuesIn(cases), StopperContract::Name);
namespace luthier::contract {

struct StopperCase {
  std::string name;
  study::StudySpec spec;  // Has a stopper and a resource.
};

inline void PrintTo(const StopperCase& c, std::ostream* out) {
  *out << c.name;
}

class StopperContract : public ::testing::TestWithParam<StopperCase> {
 public:
  static std::string Name(const ::testing::TestParamInfo<StopperCase>& info) { return info.param.name; }

 protected:
  static constexpr int64_t kTrials = 40;

  // A call of a stopper about one trial.
  struct Call {
    int64_t trial = 0;
    std::optional<int64_t> step;  // Absent: the trial ends.
    double value = 0.0;
    study::TrialState state = study::TrialState::kComplete;
  };

  std::unique_ptr<stopping::Stopper> New() const { return stopping::CreateStopper(GetParam().spec); }
  int64_t most() const { return GetParam().spec.resource->max; }

  static void Make(const Call& call, stopping::Stopper& stopper) {
    const size_t metrics = GetParam().spec.metrics.size();
    if (call.step && metrics > 0) {
      // Metrics that go together, but not quite.
      study::CurvePoint point{*call.step, call.value};
      for (size_t j = 0; j < metrics && std::isfinite(call.value); ++j) {
        const auto shift = static_cast<double>(j);
        point.values.push_back(call.value + shift * std::sin(9.0 * shift + call.value));
      }
      return stopper.ReportPoint(call.trial, point);
    }
    if (call.step) return stopper.Report(call.trial, *call.step, call.value);
    const bool complete = call.state == study::TrialState::kComplete;
    stopper.Finish(call.trial, call.state, complete ? std::optional<double>(call.value) : std::nullopt);
  }

  // What each of kTrials trials says, in order: curves towards levels of their own, some with steps left out or said
  // again by a later attempt, some with values that are no numbers; two of three trials end.
  std::map<int64_t, std::vector<Call>> Curves(base::RandomStream& random) const {
    const double sign = GetParam().spec.metric.goal == study::Goal::kMinimize ? 1.0 : -1.0;
    std::map<int64_t, std::vector<Call>> curves;
    for (int64_t trial = 1; trial <= kTrials; ++trial) {
      std::vector<Call>& calls = curves[trial];
      const double level = random.Normal();
      const int64_t last = random.UniformInt(3) == 0 ? 1 + static_cast<int64_t>(random.UniformInt(most())) : most();
      const auto value = [&](int64_t step) {
        if (random.UniformInt(40) == 0) return std::nan("");
        if (random.UniformInt(40) == 0) return std::numeric_limits<double>::infinity();
        return sign * (level + 3.0 * std::exp(-0.3 * static_cast<double>(step)) + 0.05 * random.Normal());
      };
      for (int64_t step = 1; step <= last; ++step) {
        if (random.UniformInt(10) == 0) continue;
        calls.push_back({trial, step, value(step)});
        if (random.UniformInt(30) == 0) step = std::max<int64_t>(0, step - 3);  // Another attempt goes on before.
      }
      if (last == most() || random.UniformInt(2) == 0) {
        const study::TrialState ends[] = {study::TrialState::kComplete, study::TrialState::kPruned,
                                          study::TrialState::kFailed, study::TrialState::kCancelled};
        const study::TrialState end = last == most() ? ends[0] : ends[1 + random.UniformInt(3)];
        calls.push_back({trial, std::nullopt, sign * level, end});
      }
    }
    return curves;
  }

  // The calls of all trials, in an order drawn at random that keeps each trial's.
  static std::vector<Call> Mixed(const std::map<int64_t, std::vector<Call>>& curves, base::RandomStream& random) {
    std::vector<int64_t> turns;
    for (const auto& [trial, calls] : curves) turns.insert(turns.end(), calls.size(), trial);
    random.Shuffle(turns);
    std::map<int64_t, size_t> next;
    std::vector<Call> mixed;
    for (const int64_t trial : turns) mixed.push_back(curves.at(trial)[next[trial]++]);
    return mixed;
  }
};

TEST_P(StopperContract, StopsSomeTrialsAndNotAll) {
  base::RandomStream random(5, "test/stopper");
  const std::unique_ptr<stopping::Stopper> stopper = New();
  ASSERT_NE(stopper, nullptr);
  int64_t stopped = 0, went_on = 0;
  for (const Call& call : Mixed(Curves(random), random)) {
    Make(call, *stopper);
    if (!call.step) continue;
    (stopper->Decide(call.trial, *call.step).verdict == stopping::Verdict::kStop ? stopped : went_on) += 1;
  }
  EXPECT_GT(stopped, 0);
  EXPECT_GT(went_on, stopped / 10);
}

// After any number of calls a stopper that was told the same trial by trial decides the same: it is rebuilt from rows.
TEST_P(StopperContract, OnlyTheOrderWithinATrialCounts) {
  for (const uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    base::RandomStream random(seed, "test/stopper");
    const std::vector<Call> mixed = Mixed(Curves(random), random);
    const std::unique_ptr<stopping::Stopper> stopper = New();
    size_t made = 0;
    for (const size_t until : {mixed.size() / 3, mixed.size() / 2, mixed.size()}) {
      for (; made < until; ++made) Make(mixed[made], *stopper);
      std::map<int64_t, std::vector<Call>> by_trial;
      for (size_t i = 0; i < until; ++i) by_trial[mixed[i].trial].push_back(mixed[i]);
      const std::unique_ptr<stopping::Stopper> rebuilt = New();
      for (const auto& [trial, calls] : by_trial) {
        for (const Call& call : calls) Make(call, *rebuilt);
      }
      for (const auto& [trial, calls] : by_trial) {
        if (!calls.back().step) continue;
        const int64_t step = *calls.back().step;
        const stopping::Decision decision = stopper->Decide(trial, step);
        EXPECT_EQ(decision, rebuilt->Decide(trial, step)) << "trial " << trial << ", step " << step;
        EXPECT_EQ(decision, stopper->Decide(trial, step)) << "to ask changes nothing";
      }
    }
  }
}

TEST_P(StopperContract, DecisionsToStopHaveAReasonAndOthersNone) {
  base::RandomStream random(7, "test/stopper");
  const std::unique_ptr<stopping::Stopper> stopper = New();
  for (const Call& call : Mixed(Curves(random), random)) {
    Make(call, *stopper);
    if (!call.step) continue;
    const stopping::Decision decision = stopper->Decide(call.trial, *call.step);
    EXPECT_NE(decision.verdict, stopping::Verdict::kPause);
    EXPECT_EQ(decision.reason.empty(), decision.verdict == stopping::Verdict::kContinue) << decision.reason;
    if (*call.step == most()) {
      EXPECT_EQ(decision.verdict, stopping::Verdict::kContinue) << "it is complete";
    }
  }
}

// A later attempt that says other values leaves nothing of what was said before.
TEST_P(StopperContract, AStepThatIsReportedAgainTakesTheNewerValue) {
  base::RandomStream random(9, "test/stopper");
  const std::vector<Call> calls = Mixed(Curves(random), random);
  const std::unique_ptr<stopping::Stopper> plain = New(), corrected = New();
  for (const Call& call : calls) {
    Make(call, *plain);
    Make(call, *corrected);
  }
  constexpr int64_t kNew = kTrials + 1;
  const int64_t last = most() / 2;
  for (int64_t step = 1; step <= last; ++step) corrected->Report(kNew, step, 100.0 * random.Normal());
  for (int64_t step = 1; step <= last; ++step) {
    const double value = random.Normal();
    plain->Report(kNew, step, value);
    corrected->Report(kNew, step, value);
  }
  EXPECT_EQ(plain->Decide(kNew, last), corrected->Decide(kNew, last));
  for (const Call& call : calls) {
    if (!call.step) continue;
    EXPECT_EQ(plain->Decide(call.trial, *call.step), corrected->Decide(call.trial, *call.step));
  }
}

}  // namespace luthier::contract

#endif  // LUTHIER_TESTS_CONTRACT_STOPPER_CONTRACT_H_
