#ifndef LUTHIER_TESTS_LIB_SEARCH_MULTI_FIDELITY_RUNGS_TESTING_H_
#define LUTHIER_TESTS_LIB_SEARCH_MULTI_FIDELITY_RUNGS_TESTING_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/search/designer.h"
#include "lib/search/registry.h"
#include "lib/study/rung_schedule.h"
#include "lib/study/study_spec.h"
#include "tests/contract/fake_study.h"
#include "tests/lib/search/restart_oracle.h"
#include "tests/lib/study/builders.h"

namespace luthier::search {

inline study::StudySpec RungSpec(study::AlgorithmSpec algorithm, int64_t max, int64_t max_trials, int64_t min = 1) {
  study::StudySpec spec;
  spec.space = study::Space({study::Float("x", 0, 1), study::Float("y", 0, 1)});
  spec.metric.name = "loss";
  spec.algorithm = std::move(algorithm);
  spec.resource = study::Resource{.min = min, .max = max, .unit = ""};
  spec.budget.max_trials = max_trials;
  spec.seed = 11;
  return spec;
}

// A study with workers that pause, in simulated time: each segment takes a random time. Checks on the way what holds
// always: targets, budget, and that nobody is told to wait or to stop without reason.
class RungWorld {
 public:
  // The loss of a trial at a step. NaN or infinite: it is reported, and the trial fails there.
  using Loss = std::function<double(const study::HistoryTrial&, int64_t step)>;

  RungWorld(study::StudySpec spec, Loss loss) : spec_(std::move(spec)), loss_(std::move(loss)) {
    EXPECT_TRUE(Validate(spec_).ok()) << Validate(spec_);
    designer_ = CreateDesigner(spec_);
  }

  enum class Answer { kSetting, kPromotion, kWait, kDone };
  // One ask; what comes of it begins at once.
  Answer Ask() {
    const absl::StatusOr<Suggestion> suggestion = designer_->Suggest(study.history(), study.asks(), base::StopToken());
    if (on_ask) on_ask(suggestion);
    if (!suggestion.ok()) {
      const bool wait = base::GetReason(suggestion.status()) == base::reason::kAwaitingResults;
      EXPECT_TRUE(wait || base::GetReason(suggestion.status()) == base::reason::kSpaceExhausted);
      EXPECT_TRUE(!wait || !jobs_.empty()) << "waits for nothing";
      return wait ? Answer::kWait : Answer::kDone;
    }
    study.Suggested(*suggestion);
    const int64_t number = study.Store();
    EXPECT_GT(suggestion->resource, 0);
    if (suggestion->resume) {
      promoted_to[suggestion->resource].push_back(number);
    } else {
      EXPECT_LE(static_cast<int64_t>(study.history().trials().size()), spec_.budget.max_trials);
    }
    Begin(number);
    return suggestion->resume ? Answer::kPromotion : Answer::kSetting;
  }
  void Begin(int64_t number) {
    base::RandomStream random(spec_.seed, "test/duration", segments_++);
    const int64_t from = done_[number];
    const int64_t target = Trial(number).resource > 0 ? Trial(number).resource : spec_.resource->max;
    training += static_cast<double>(target - from);
    jobs_.emplace(now + static_cast<double>(target - from) * (instant ? 0.0 : 0.5 + random.Uniform()), number);
  }
  // The next segment that ends. False: none is running.
  bool FinishOne() {
    if (jobs_.empty()) return false;
    const auto next = jobs_.begin();
    const int64_t number = next->second;
    now = next->first;
    jobs_.erase(next);
    const int64_t target = Trial(number).resource > 0 ? Trial(number).resource : spec_.resource->max;
    done_[number] = target;
    const double loss = loss_(Trial(number), target);
    study.Report(number, target, loss);
    if (!std::isfinite(loss))
      study.Finish(number, contract::Failed(study::FailureKind::kConfig));
    else if (target < spec_.resource->max)
      study.Pause(number);
    else
      study.Finish(number, contract::Complete(loss));
    return true;
  }
  // Until the designer says that nothing can follow. Returns how often a worker was told to wait.
  int Run(int workers) {
    int waits = 0;
    bool done = false;
    while (true) {
      bool idle = done;
      while (!idle && static_cast<int>(jobs_.size()) < workers) {
        const Answer answer = Ask();
        idle = answer == Answer::kWait || answer == Answer::kDone;
        waits += answer == Answer::kWait ? 1 : 0;
        done = done || answer == Answer::kDone;
      }
      if (after_asks) after_asks();
      if (!FinishOne()) return waits;
    }
  }

  const study::HistoryTrial& Trial(int64_t number) const {
    return study.history().trials()[static_cast<size_t>(number - 1)];
  }
  std::vector<int64_t> With(study::TrialState state) const {
    std::vector<int64_t> numbers;
    for (const study::HistoryTrial& trial : study.history().trials()) {
      if (trial.state == state) numbers.push_back(trial.number);
    }
    return numbers;
  }
  const study::StudySpec& spec() const { return spec_; }
  Designer& designer() { return *designer_; }
  size_t running() const { return jobs_.size(); }

  contract::FakeStudy study;
  std::map<int64_t, std::vector<int64_t>> promoted_to;  // By target, in order of asks.
  double training = 0.0;                                // Units, with checkpoints.
  double now = 0.0;
  bool instant = false;  // Segments take no time: they end in order of number.
  std::function<void(const absl::StatusOr<Suggestion>&)> on_ask;
  std::function<void()> after_asks;

 private:
  const study::StudySpec spec_;
  const Loss loss_;
  std::unique_ptr<Designer> designer_;
  std::set<std::pair<double, int64_t>> jobs_;
  std::map<int64_t, int64_t> done_;
  uint64_t segments_ = 0;
};

// A loss that ranks settings the same at every step: a random number for each.
inline double ExactRank(const study::HistoryTrial& trial, int64_t step) {
  base::RandomStream random(3, "test/loss", static_cast<uint64_t>(trial.number));
  return random.Uniform() + 1.0 / static_cast<double>(step);
}

// A designer made anew from the log of `world` answers its next ask as the living one did, in every field.
inline void ExpectSameAfterRestart(const RungWorld& world, const absl::StatusOr<Suggestion>& living) {
  const absl::StatusOr<Suggestion> restarted =
      CreateDesigner(world.spec())
          ->Suggest(world.study.Replay(world.study.events()), world.study.asks(), base::StopToken());
  ASSERT_EQ(living.status(), restarted.status());
  if (living.ok()) ExpectSameSuggestion(*living, *restarted);
}

}  // namespace luthier::search

#endif  // LUTHIER_TESTS_LIB_SEARCH_MULTI_FIDELITY_RUNGS_TESTING_H_
