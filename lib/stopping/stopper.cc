#include "lib/stopping/stopper.h"

#include <limits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/stopping/asha_stopper.h"
#include "lib/stopping/curve_stopper.h"
#include "lib/stopping/percentile_stopper.h"
#include "lib/study/metrics.h"

namespace luthier::stopping {
namespace {

// All rules of a study: the first one that stops decides. Before resource.min nothing is known about a trial, and a
// trial that has had all its training is complete.
class Rules final : public Stopper {
 public:
  Rules(const study::StudySpec& spec, std::vector<std::unique_ptr<Stopper>> rules)
      : first_(spec.resource ? spec.resource->min : 0),
        whole_(spec.resource ? spec.resource->max : std::numeric_limits<int64_t>::max()),
        rules_(std::move(rules)) {}

  void Report(int64_t trial, int64_t step, double value) override {
    for (const auto& rule : rules_) rule->Report(trial, step, value);
  }
  void ReportPoint(int64_t trial, const study::CurvePoint& point) override {
    for (const auto& rule : rules_) rule->ReportPoint(trial, point);
  }
  void Finish(int64_t trial, study::TrialState state, std::optional<double> value) override {
    for (const auto& rule : rules_) rule->Finish(trial, state, value);
  }
  Decision Decide(int64_t trial, int64_t step) const override {
    if (step < first_ || step >= whole_) return {};
    for (const auto& rule : rules_) {
      Decision decision = rule->Decide(trial, step);
      if (decision.verdict != Verdict::kContinue) return decision;
    }
    return {};
  }

 private:
  const int64_t first_;
  const int64_t whole_;
  const std::vector<std::unique_ptr<Stopper>> rules_;
};

// Stops a trial that a rule for one objective would stop by every objective.
class InEveryObjective final : public Stopper {
 public:
  InEveryObjective(const study::StudySpec& spec, const study::PercentileStopping& rule,
                   PercentileStopper::Others others)
      : spec_(spec) {
    for (const study::MetricSpec& metric : spec_.metrics) {
      if (metric.objective) rules_.emplace_back(metric.goal, rule, others);
    }
  }

  void Report(int64_t trial, int64_t step, double value) override { ReportPoint(trial, {step, value}); }
  void ReportPoint(int64_t trial, const study::CurvePoint& point) override {
    size_t next = 0;
    for (size_t j = 0; j < spec_.metrics.size(); ++j) {
      if (!spec_.metrics[j].objective) continue;
      const double missing = std::numeric_limits<double>::quiet_NaN();
      rules_[next++].Report(trial, point.step, point.values.empty() ? missing : point.values[j]);
    }
  }
  void Finish(int64_t trial, study::TrialState state, std::optional<double>) override {
    for (PercentileStopper& rule : rules_) rule.Finish(trial, state, std::nullopt);
  }
  Decision Decide(int64_t trial, int64_t step) const override {
    std::vector<std::string> reasons;
    size_t next = 0;
    for (const study::MetricSpec& metric : spec_.metrics) {
      if (!metric.objective) continue;
      const Decision decision = rules_[next++].Decide(trial, step);
      if (decision.verdict != Verdict::kStop) return {};
      reasons.push_back(absl::StrCat(metric.name, ": ", decision.reason));
    }
    return {Verdict::kStop, absl::StrJoin(reasons, "; ")};
  }

 private:
  const study::StudySpec spec_;
  std::vector<PercentileStopper> rules_;
};

std::unique_ptr<Stopper> ByPercentile(const study::StudySpec& spec, const study::PercentileStopping& rule,
                                      PercentileStopper::Others others) {
  if (study::ObjectiveCount(spec) > 1) return std::make_unique<InEveryObjective>(spec, rule, others);
  return std::make_unique<PercentileStopper>(spec.metric.goal, rule, others);
}

std::unique_ptr<Stopper> RuleOf(const study::StudySpec& spec, const study::MedianStopping& rule) {
  return ByPercentile(spec,
                      study::PercentileStopping{50.0, rule.warmup, rule.min_trials, rule.interval, rule.running_mean},
                      PercentileStopper::Others::kComplete);
}
std::unique_ptr<Stopper> RuleOf(const study::StudySpec& spec, const study::PercentileStopping& rule) {
  return ByPercentile(spec, rule, PercentileStopper::Others::kEnded);
}
std::unique_ptr<Stopper> RuleOf(const study::StudySpec& spec, const study::CurveStopping& rule) {
  return std::make_unique<CurveStopper>(spec, rule);
}

}  // namespace

Decision AtTarget(const study::Resource& resource, int64_t target, int64_t step) {
  if (target == 0 || target >= resource.max || step < target) return {};
  return {Verdict::kPause, absl::StrCat("reached ", target, resource.unit.empty() ? "" : " ", resource.unit)};
}

std::unique_ptr<Stopper> CreateStopper(const study::StudySpec& spec) {
  std::vector<std::unique_ptr<Stopper>> rules;
  const auto* asha = std::get_if<study::AshaOptions>(&spec.algorithm);
  if (asha != nullptr && asha->variant == study::AshaVariant::kStop)
    rules.push_back(std::make_unique<AshaStopper>(spec));
  if (spec.stopping) {
    rules.push_back(std::visit([&](const auto& rule) { return RuleOf(spec, rule); }, *spec.stopping));
  }
  if (rules.empty()) return nullptr;
  return std::make_unique<Rules>(spec, std::move(rules));
}

}  // namespace luthier::stopping
