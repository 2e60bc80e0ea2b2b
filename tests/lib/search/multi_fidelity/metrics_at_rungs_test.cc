#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "tests/lib/search/metrics_testing.h"

// Rungs of several metrics: who goes on, against what the definition says of every promotion.
namespace luthier::search {
namespace {

using study::HistoryTrial;
using study::TrialState;

// A study with rungs at 1, 3 and 9, two objectives and a bound, which one worker or several train.
class MetricsAtRungs {
 public:
  explicit MetricsAtRungs(study::AlgorithmSpec algorithm, uint64_t seed) {
    spec_.space = Square();
    spec_.algorithm = std::move(algorithm);
    spec_.seed = seed;
    spec_.resource = study::Resource{.min = 1, .max = 9, .unit = ""};
    spec_.budget.max_trials = 60;
    study::SetMetrics({Objective("f"), Objective("g", study::Goal::kMaximize), AtMost("h", 1.2)}, &spec_);
    EXPECT_TRUE(Validate(spec_).ok()) << Validate(spec_);
    designer_ = CreateDesigner(spec_);
  }

  static std::vector<double> Values(const HistoryTrial& trial, int64_t step) {
    const double x = Number(trial.parameters, "x0"), y = Number(trial.parameters, "x1");
    const double late = 1.0 / static_cast<double>(step);
    return {x + late, -(y + std::pow(x - 0.5, 2)) - late, x + y + 0.3 * std::sin(20.0 * x)};
  }

  // Runs it to its end and checks each promotion.
  void Run(int workers) {
    base::RandomStream random(spec_.seed, "test/rungs");
    std::vector<int64_t> running;
    bool over = false;
    while (!over || !running.empty()) {
      while (!over && static_cast<int>(running.size()) < workers) {
        const absl::StatusOr<Suggestion> next = designer_->Suggest(history_, asks_, base::StopToken());
        const absl::StatusOr<Suggestion> anew = CreateDesigner(spec_)->Suggest(history_, asks_, base::StopToken());
        ASSERT_EQ(next.ok(), anew.ok());
        if (!next.ok()) {
          over = base::GetReason(next.status()) == base::reason::kSpaceExhausted;
          ASSERT_TRUE(over || !running.empty()) << next.status();
          break;
        }
        ASSERT_EQ(next->parameters, anew->parameters);
        ASSERT_EQ(next->resume, anew->resume);
        running.push_back(Begin(*next));
      }
      if (running.empty()) continue;
      const auto which = static_cast<std::ptrdiff_t>(random.UniformInt(running.size()));
      End(running[static_cast<size_t>(which)]);
      running.erase(running.begin() + which);
    }
  }

  const study::History& history() const { return history_; }
  int64_t promotions() const { return promotions_; }

 private:
  const HistoryTrial& Trial(int64_t number) const { return history_.trials()[static_cast<size_t>(number - 1)]; }

  int64_t Begin(const Suggestion& next) {
    if (next.resume) {
      CheckPromotion(*next.resume);
      ++promotions_;
      history_.Resume(asks_++, *next.resume, next.resource);
      return *next.resume;
    }
    HistoryTrial trial;
    trial.number = static_cast<int64_t>(history_.trials().size()) + 1;
    trial.ask_index = asks_++;
    trial.parameters = next.parameters;
    trial.designer_state = next.designer_state;
    trial.resource = next.resource;
    history_.AddStored(trial);
    return trial.number;
  }

  void End(int64_t number) {
    const int64_t step = Trial(number).resource;
    const std::vector<double> values = Values(Trial(number), step);
    history_.Report(number, study::CurvePoint{step, values.front(), values});
    if (step < 9) return history_.Pause(number);
    history_.Finish(number, TrialState::kComplete, values.front(), std::nullopt, std::nullopt, "", step);
    HistoryTrial result;
    result.values = values;
    result.feasible = study::IsFeasible(spec_.metrics, values);
    history_.NoteMetrics(number, result);
  }

  // Of those that wait at the same rung none is better: none keeps the bound where this one doesn't, or dominates it.
  void CheckPromotion(int64_t number) const {
    const int64_t step = Trial(number).resource;
    const std::vector<double> mine = Values(Trial(number), step);
    for (const HistoryTrial& other : history_.trials()) {
      if (other.state != TrialState::kPaused || other.resource != step || other.number == number) continue;
      if (of_bracket_ > 0 && (other.number - 1) / of_bracket_ != (number - 1) / of_bracket_) continue;
      const std::vector<double> theirs = Values(other, step);
      if (mine[2] > 1.2) {
        EXPECT_GE(theirs[2], mine[2]) << "a smaller violation waits";
      } else if (theirs[2] <= 1.2) {
        EXPECT_FALSE(theirs[0] <= mine[0] && theirs[1] >= mine[1] && theirs != mine) << "one that is better waits";
      }
    }
  }

  study::StudySpec spec_;
  std::unique_ptr<Designer> designer_;
  study::History history_;
  uint64_t asks_ = 0;
  int64_t promotions_ = 0;

 public:
  int64_t of_bracket_ = 0;  // Settings in a bracket; 0: there are none.
};

TEST(MetricsAtRungsTest, TheBestOfARungGoOn) {
  for (const uint64_t seed : {1, 2, 3}) {
    for (const int workers : {1, 5}) {
      for (const study::SamplerSpec& sampler :
           {study::SamplerSpec(study::RandomOptions{}), study::SamplerSpec(study::Nsga2Options{.population = 6})}) {
        MetricsAtRungs asha(study::AshaOptions{.sampler = sampler}, seed);
        asha.Run(workers);
        EXPECT_EQ(asha.history().trials().size(), 60u);
        EXPECT_GE(asha.promotions(), 20);
        MetricsAtRungs halving(study::SuccessiveHalvingOptions{.trials = 9, .sampler = sampler}, seed);
        halving.of_bracket_ = 9;
        halving.Run(workers);
        EXPECT_GE(halving.promotions(), 4 * 6);
      }
    }
  }
}

// The settings that were trained to the end are better than those of as many trials without rungs.
TEST(MetricsAtRungsTest, TrainingGoesToTheFront) {
  int feasible = 0, complete = 0;
  for (const uint64_t seed : {1, 2, 3, 4}) {
    MetricsAtRungs asha(study::AshaOptions{.sampler = study::RandomOptions{}}, seed);
    asha.Run(1);
    for (const HistoryTrial& trial : asha.history().trials()) {
      if (trial.state != TrialState::kComplete) continue;
      ++complete;
      feasible += trial.feasible ? 1 : 0;
    }
  }
  EXPECT_GE(complete, 4 * 6);
  EXPECT_EQ(feasible, complete) << "a half of random settings is beyond the bound";
}

}  // namespace
}  // namespace luthier::search
