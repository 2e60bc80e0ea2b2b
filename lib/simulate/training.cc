#include "lib/simulate/training.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/search/effective.h"
#include "lib/search/registry.h"
#include "lib/stopping/stopper.h"
#include "lib/study/encoding.h"
#include "lib/study/history.h"

namespace luthier::simulate {
namespace {

using study::TrialState;

absl::StatusOr<study::StudySpec> SpecOf(const TrainingOptions& options) {
  base::Violations violations;
  if (!options.problem.value) violations.Add("problem.value", "is required");
  if (options.report_every < 1) violations.Add("report_every", absl::StrCat(options.report_every, " is below 1"));
  if (options.workers < 1 || options.workers > study::kMaxParallel) {
    violations.Add("workers", absl::StrCat(options.workers, " is not between 1 and ", study::kMaxParallel));
  }
  study::StudySpec spec;
  spec.space = options.problem.space;
  spec.metric = {"value", options.problem.goal};
  spec.algorithm = options.algorithm;
  spec.budget.max_trials = options.trials;
  spec.seed = options.seed;
  spec.resource = options.resource;
  spec.stopping = options.stopping;
  violations.AddAll("", study::ValidateSpec(spec));
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  LUTHIER_RETURN_IF_ERROR(search::Validate(spec));
  return spec;
}

class TrainingRun {
 public:
  TrainingRun(const TrainingOptions& options, study::StudySpec spec)
      : options_(options),
        spec_(search::Effective(std::move(spec))),
        designer_(search::CreateDesigner(spec_)),
        stopper_(stopping::CreateStopper(spec_)) {}

  absl::StatusOr<TrainingSummary> ToTheEnd() {
    bool done = false;
    while (true) {
      bool wait = done;
      while (!wait && static_cast<int64_t>(next_.size()) < options_.workers) {
        LUTHIER_ASSIGN_OR_RETURN(const Answer answer, Ask());
        wait = answer != Answer::kTrial;
        done = answer == Answer::kDone;
      }
      if (next_.empty()) break;
      if (summary_.settings < options_.trials && !done) {
        const double until = next_.top().time;
        idle_time_ += (until - now_) * static_cast<double>(options_.workers - static_cast<int64_t>(next_.size()));
        asking_time_ += (until - now_) * static_cast<double>(options_.workers);
      }
      ReportNext();
    }
    for (const study::HistoryTrial& trial : history_.trials()) summary_.paused += trial.state == TrialState::kPaused;
    summary_.elapsed = now_;
    summary_.idle = asking_time_ > 0.0 ? idle_time_ / asking_time_ : 0.0;
    return summary_;
  }

 private:
  enum class Answer { kTrial, kWait, kDone };
  struct Event {
    double time;
    int64_t trial;
    int64_t step;  // Step of its next report.
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.time != b.time ? a.time > b.time : a.trial > b.trial;
    }
  };

  const study::HistoryTrial& Trial(int64_t number) const { return history_.trials()[static_cast<size_t>(number - 1)]; }

  absl::StatusOr<Answer> Ask() {
    const absl::StatusOr<search::Suggestion> suggestion = designer_->Suggest(history_, asks_, base::StopToken());
    if (!suggestion.ok()) {
      const std::string reason = base::GetReason(suggestion.status());
      if (reason == base::reason::kAwaitingResults) return Answer::kWait;
      if (reason == base::reason::kSpaceExhausted) return Answer::kDone;
      return suggestion.status();
    }
    int64_t number = suggestion->resume.value_or(summary_.settings + 1);
    if (suggestion->resume) {
      history_.Resume(asks_, number, suggestion->resource);
      ++summary_.promotions;
      Train(number, options_.checkpoints ? Trial(number).points.back().step : 0);
    } else if (summary_.settings == options_.trials) {
      return Answer::kDone;
    } else {
      study::HistoryTrial trial;
      trial.number = number;
      trial.ask_index = asks_;
      trial.parameters = suggestion->parameters;
      trial.designer_state = suggestion->designer_state;
      trial.resource = suggestion->resource;
      history_.AddStored(std::move(trial));
      ++summary_.settings;
      Train(number, 0);
    }
    ++asks_;
    return Answer::kTrial;
  }

  int64_t TargetOf(int64_t number) const {
    const int64_t target = Trial(number).resource;
    return target > 0 ? target : spec_.resource->max;
  }

  // Returns the step at which the training of a trial is over.
  int64_t EndOf(int64_t number) const {
    if (!options_.problem.length) return spec_.resource->max;
    return std::clamp<int64_t>(options_.problem.length(Trial(number).parameters), 1, spec_.resource->max);
  }

  // Schedules the next report of a trial that has been trained to `step`.
  void Train(int64_t number, int64_t step) {
    const int64_t stride = (step / options_.report_every + 1) * options_.report_every;
    const int64_t next = std::min({TargetOf(number), EndOf(number), stride});
    base::RandomStream random(spec_.seed, "simulate/speed", static_cast<uint64_t>(number));
    const auto units = static_cast<double>(next - step);
    summary_.training += units;
    next_.push({now_ + units * (0.5 + random.Uniform()), number, next});
  }

  void ReportNext() {
    const Event event = next_.top();
    next_.pop();
    now_ = event.time;
    const double value = options_.problem.value(Trial(event.trial).parameters, event.step);
    history_.Report(event.trial, event.step, value);
    if (stopper_) stopper_->Report(event.trial, event.step, value);
    if (event.step == EndOf(event.trial)) {
      const bool good = std::isfinite(value);
      End(event, good ? TrialState::kComplete : TrialState::kFailed, value);
      return;
    }
    stopping::Decision decision = stopping::AtTarget(*spec_.resource, Trial(event.trial).resource, event.step);
    if (stopper_ && decision.verdict == stopping::Verdict::kContinue) {
      decision = stopper_->Decide(event.trial, event.step);
    }
    if (decision.verdict == stopping::Verdict::kPause) {
      history_.Pause(event.trial);
    } else if (decision.verdict == stopping::Verdict::kStop) {
      End(event, TrialState::kPruned, value);
    } else {
      Train(event.trial, event.step);
    }
  }

  void End(const Event& event, TrialState state, double value) {
    const int64_t number = event.trial;
    const std::optional<double> known = std::isfinite(value) ? std::optional<double>(value) : std::nullopt;
    const bool failed = state == TrialState::kFailed;
    history_.Finish(number, state, failed ? std::nullopt : known, std::nullopt,
                    failed ? std::optional(study::FailureKind::kConfig) : std::nullopt, "", failed ? 0 : event.step);
    if (stopper_) stopper_->Finish(number, state, known);
    summary_.failed += failed;
    summary_.stopped += state == TrialState::kPruned;
    if (state != TrialState::kComplete) return;
    ++summary_.complete;
    const study::Goal goal = spec_.metric.goal;
    if (!summary_.best || study::Score(goal, value) > study::Score(goal, *summary_.best)) summary_.best = value;
  }

  const TrainingOptions& options_;
  const study::StudySpec spec_;
  const std::unique_ptr<search::Designer> designer_;
  const std::unique_ptr<stopping::Stopper> stopper_;
  study::History history_;
  std::priority_queue<Event, std::vector<Event>, Later> next_;
  TrainingSummary summary_;
  uint64_t asks_ = 0;
  double now_ = 0.0;
  double idle_time_ = 0.0;
  double asking_time_ = 0.0;
};

}  // namespace

absl::StatusOr<TrainingSummary> SimulateTraining(const TrainingOptions& options) {
  LUTHIER_ASSIGN_OR_RETURN(study::StudySpec spec, SpecOf(options));
  return TrainingRun(options, std::move(spec)).ToTheEnd();
}

TrainingProblem WithCurves(const Problem& problem, int64_t whole) {
  const study::Encoding encoding(problem.space);
  study::StudySpec spec;
  spec.space = problem.space;
  spec.algorithm = study::SobolOptions{};
  const std::unique_ptr<search::Designer> sobol = search::CreateDesigner(spec);
  constexpr uint64_t kPoints = 64;
  std::vector<double> losses;
  for (uint64_t i = 0; i < kPoints; ++i) {
    const double value = problem.evaluate(sobol->Suggest(study::History(), i, base::StopToken())->parameters);
    if (std::isfinite(value)) losses.push_back(-study::Score(problem.goal, value));
  }
  std::sort(losses.begin(), losses.end());
  const double worse = losses.empty() ? 0.0 : losses[losses.size() / 2] - losses.front();
  const double sign = problem.goal == study::Goal::kMinimize ? 1.0 : -1.0;
  TrainingProblem result;
  result.name = problem.name;
  result.space = problem.space;
  result.goal = problem.goal;
  result.value = [=, evaluate = problem.evaluate](const study::Parameters& setting, int64_t step) {
    const double exponent = 0.3 + 0.9 * encoding.ToCompact(setting).mean();
    const auto end = static_cast<double>(whole);
    const double above = std::pow(static_cast<double>(step) / end, -exponent) - 1.0;
    const double first = std::pow(end, exponent) - 1.0;
    return evaluate(setting) + (first > 0.0 ? sign * worse * above / first : 0.0);
  };
  return result;
}

TrainingProblem CurveProblem(int64_t whole) {
  TrainingProblem problem;
  problem.name = "curves";
  std::vector<study::ParameterSpec> parameters(3);
  parameters[0].name = "lr";
  parameters[0].domain = study::FloatRange{1e-4, 1.0, study::Scale::kLog, std::nullopt};
  parameters[1].name = "width";
  parameters[1].domain = study::FloatRange{0.0, 1.0, study::Scale::kLinear, std::nullopt};
  parameters[2].name = "decay";
  parameters[2].domain = study::FloatRange{0.0, 1.0, study::Scale::kLinear, std::nullopt};
  absl::StatusOr<study::SearchSpace> space = study::SearchSpace::Create(std::move(parameters));
  LUTHIER_CHECK(space.ok());
  problem.space = *std::move(space);
  problem.value = [whole](const study::Parameters& setting, int64_t step) {
    const double lr = 0.25 * (std::log10(std::get<double>(setting.at("lr"))) + 4.0);  // 0 … 1.
    const double width = std::get<double>(setting.at("width"));
    const double decay = std::get<double>(setting.at("decay"));
    const double end =
        0.1 + 1.5 * (lr - 0.6) * (lr - 0.6) + 0.4 * (width - 0.7) * (width - 0.7) + 0.2 * (decay - 0.3) * (decay - 0.3);
    const double exponent = 0.3 + 0.9 * lr;
    const auto t = static_cast<double>(step);
    // Large learning rates begin lower; all reach their end at `whole`.
    return end + (std::pow(t, -exponent) - std::pow(static_cast<double>(whole), -exponent)) * (1.2 - 0.4 * lr);
  };
  return problem;
}

}  // namespace luthier::simulate
