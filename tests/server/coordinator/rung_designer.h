#ifndef LUTHIER_TESTS_SERVER_COORDINATOR_RUNG_DESIGNER_H_
#define LUTHIER_TESTS_SERVER_COORDINATOR_RUNG_DESIGNER_H_

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "lib/base/error.h"
#include "lib/search/designer.h"
#include "lib/search/registry.h"
#include "lib/stopping/stopper.h"
#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {

inline constexpr int64_t kFirstTarget = 1;
inline constexpr int64_t kLastTarget = 3;

// A study whose trials are trained up to step 1 and, if RungDesigner likes them, up to step 3.
inline study::StudySpec PartsSpec(int64_t max_trials = 100) {
  study::StudySpec spec = MakeSpec(max_trials);
  spec.algorithm = study::BoOptions{};  // One that looks at history; its designer is never made.
  spec.resource = study::Resource{kFirstTarget, kLastTarget, "epochs"};
  return spec;
}

// Promotes what is paused, the lowest number first, but never a trial whose number is a multiple of `left_out`. New
// settings are random search's: while there is room, each second ask prefers one.
class RungDesigner final : public search::Designer {
 public:
  explicit RungDesigner(const study::StudySpec& spec, int64_t left_out = 0)
      : max_trials_(spec.budget.max_trials), left_out_(left_out) {
    study::StudySpec random = spec;
    random.algorithm = study::RandomOptions{};
    random_ = search::CreateDesigner(random);
  }
  absl::StatusOr<search::Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                             const base::StopToken& stop) override {
    std::optional<int64_t> promotable;
    bool open = false;
    for (const study::HistoryTrial& trial : history.trials()) {
      const bool paused = trial.state == study::TrialState::kPaused;
      open = open || (trial.open() && !paused);
      const bool wanted = left_out_ == 0 || trial.number % left_out_ != 0;
      if (paused && wanted && trial.resource < kLastTarget && !promotable) promotable = trial.number;
    }
    const bool room = static_cast<int64_t>(history.trials().size()) < max_trials_;
    search::Suggestion suggestion;
    if (promotable && (!room || ask_index % 2 == 1)) {
      suggestion.resume = promotable;
      suggestion.resource = kLastTarget;
      suggestion.origin = "promote";
      return suggestion;
    }
    if (room) {
      absl::StatusOr<search::Suggestion> fresh = random_->Suggest({}, ask_index, stop);
      if (fresh.ok()) fresh->resource = kFirstTarget;
      return fresh;
    }
    if (open) {
      return base::MakeError(absl::StatusCode::kUnavailable, base::reason::kAwaitingResults, "a trial is open");
    }
    return base::MakeError(absl::StatusCode::kOutOfRange, base::reason::kSpaceExhausted, "nothing can follow");
  }

 private:
  const int64_t max_trials_;
  const int64_t left_out_;
  std::unique_ptr<search::Designer> random_;
};

// Stops a trial that reports a loss above `limit` at step 1 or later.
class LimitStopper final : public stopping::Stopper {
 public:
  explicit LimitStopper(double limit) : limit_(limit) {}
  void Report(int64_t trial, int64_t step, double value) override { newest_[{trial, step}] = value; }
  void Finish(int64_t, study::TrialState, std::optional<double>) override {}
  stopping::Decision Decide(int64_t trial, int64_t step) const override {
    const auto found = newest_.find({trial, step});
    if (step < 1 || found == newest_.end() || !(found->second > limit_)) return {};
    return {stopping::Verdict::kStop, "above the limit"};
  }

 private:
  const double limit_;
  std::map<std::pair<int64_t, int64_t>, double> newest_;
};

}  // namespace luthier::coordinator::testing

#endif  // LUTHIER_TESTS_SERVER_COORDINATOR_RUNG_DESIGNER_H_
