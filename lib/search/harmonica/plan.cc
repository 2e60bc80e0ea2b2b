#include "lib/search/harmonica/plan.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/study/rung_schedule.h"

namespace luthier::search {
namespace {

constexpr int kDefaultSamples = 300;
constexpr int kLeastSamples = 20;
constexpr int kMostSamples = 100'000;
constexpr int kFewestDefaultSamples = 50;
constexpr int kMostStages = 5;
constexpr int kFewBits = 12;
// Limit of the number of parities: a pass over them stays below a second at a thousand samples.
constexpr int64_t kMostFeatures = 1'400'000;

void CheckStageResource(const study::StudySpec& spec, int64_t resource, base::Violations* violations) {
  const std::string at = "algorithm.harmonica.stage_resource";
  if (!spec.resource) {
    violations->Add(at,
                    "needs a resource: give resource.max, the step of the reports at which a setting has had all its "
                    "training");
    return;
  }
  const int64_t min = spec.resource->min;
  const int64_t max = spec.resource->max;
  if (resource < min || resource > max) {
    violations->Add(at, absl::StrCat(resource, " is not between resource.min, ", min, ", and resource.max, ", max));
  }
  if (resource >= max) return;
  if (spec.reproducible) violations->Add("reproducible", "does not go with a stage_resource below resource.max");
  const auto* command = std::get_if<study::CommandObjective>(&spec.objective);
  if (command != nullptr && !command->stdout_patterns.empty()) {
    violations->Add("objective.command.stdout_patterns",
                    absl::StrCat("give one result at the end, but stage_resource needs reports on the way; print JSON "
                                 "lines instead (docs/guide/command_objective.md)"));
  }
}

void CheckBase(const study::StudySpec& spec, const study::HarmonicaOptions& options,
               const std::optional<HarmonicaPlan>& plan, const NestedAlgorithms& nested, base::Violations* violations) {
  const std::string name = study::AlgorithmName(BaseAlgorithm(options));
  const std::string at = absl::StrCat("algorithm.harmonica.base.", name);
  const auto* asha = std::get_if<study::AshaOptions>(&options.base);
  if (asha != nullptr && asha->variant == study::AshaVariant::kStop) {
    violations->Add(at + ".variant", "STOP would compare with the samples of the stages, too; use PROMOTE");
  }
  HarmonicaPlan whole;
  whole.staged = false;
  whole.left = spec.budget.max_trials;
  study::StudySpec base = BaseStudy(spec, options, plan.value_or(whole));
  if (!plan || plan->staged) {
    base.space = *study::SearchSpace::Create({{"x", study::BoolSwitch{}, std::nullopt, std::nullopt}});
  }
  const std::optional<base::ErrorDetail> detail = base::GetErrorDetail(nested.Validate(base));
  if (!detail) return;
  const std::string own = absl::StrCat("algorithm.", name);
  for (const base::FieldViolation& violation : detail->violations) {
    std::string field = violation.field;
    if (absl::StartsWith(field, own)) {
      field = at + field.substr(own.size());
    } else if (!BaseIsMultiFidelity(options)) {
      field = at;
    }
    std::string description = violation.description;
    if (base.budget.max_trials < spec.budget.max_trials &&
        (field == "budget.max_trials" || absl::StrContains(description, "budget"))) {
      absl::StrAppend(&description, ". ", plan->stages, " stages of ", plan->samples, " samples leave ", plan->left,
                      " trials of the budget of ", spec.budget.max_trials);
    }
    violations->Add(field, description);
  }
}

}  // namespace

absl::Status ValidateHarmonica(const study::StudySpec& spec, const study::HarmonicaOptions& options,
                               const NestedAlgorithms& nested) {
  base::Violations violations;
  const auto within = [&](const char* field, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return;
    violations.Add(absl::StrCat("algorithm.harmonica.", field),
                   absl::StrCat(value, " is not between ", low, " and ", high));
  };
  if (options.samples != 0) within("samples", options.samples, kLeastSamples, kMostSamples);
  within("stages", options.stages, 1, kMostStages);
  within("expert.degree", options.degree, 1, spectral::kMaxDegree);
  within("expert.terms", options.terms, 1, 32);
  within("expert.restrictions", options.restrictions, 1, 16);
  if (options.float_bits != 0) within("expert.float_bits", options.float_bits, 1, 10);
  if (spec.space.size() > study::kMaxParameters - kMostStages) {
    violations.Add("algorithm.harmonica", absl::StrCat("the space has ", spec.space.size(), " parameters; at most ",
                                                       study::kMaxParameters - kMostStages, " are allowed"));
  }
  if (options.samples > spec.budget.max_trials) {
    violations.Add("algorithm.harmonica.samples",
                   absl::StrCat("a stage of ", options.samples, " samples does not fit into the budget of ",
                                spec.budget.max_trials, " trials: raise budget.max_trials or take fewer"));
  }
  if (violations.empty()) {
    const int bits = spectral::BitEncoding(spec.space, options.float_bits, spec.seed).bits();
    if (bits > kMostHarmonicaBits) {
      violations.Add("algorithm.harmonica",
                     absl::StrCat("the space has ", bits, " bits; at most ", kMostHarmonicaBits,
                                  " are allowed: take fewer parameters, fewer labels, or expert: {float_bits: 1}"));
    }
  }
  std::optional<HarmonicaPlan> plan;
  if (violations.empty()) plan = PlanHarmonica(spec, options);
  if (options.stage_resource != 0) CheckStageResource(spec, options.stage_resource, &violations);
  CheckBase(spec, options, plan, nested, &violations);
  return violations.ToStatus();
}

HarmonicaPlan PlanHarmonica(const study::StudySpec& spec, const study::HarmonicaOptions& options) {
  HarmonicaPlan plan;
  plan.stages = options.stages;
  plan.samples = options.samples;
  plan.resource = options.stage_resource;
  const int64_t trials = spec.budget.max_trials;
  if (plan.samples == 0) {
    const int64_t affordable = trials * 4 / 5 / options.stages;
    plan.samples = static_cast<int>(
        std::clamp<int64_t>(affordable, std::min<int64_t>(kFewestDefaultSamples, trials), kDefaultSamples));
    if (plan.samples < kDefaultSamples) {
      plan.notes.push_back(absl::StrCat("a budget of ", trials, " trials makes stages of ", plan.samples, " samples; ",
                                        kDefaultSamples, " find weaker effects"));
    }
  }
  const int bits = spectral::BitEncoding(spec.space, options.float_bits, spec.seed).bits();
  plan.degree = spectral::AffordableDegree(bits, options.degree, kMostFeatures);
  if (plan.degree < options.degree) {
    plan.notes.push_back(
        absl::StrCat(bits, " bits have too many products of ", options.degree, ": degree ", plan.degree, " instead"));
  }
  const std::string without = absl::StrCat("warning: no stages, ", study::AlgorithmName(BaseAlgorithm(options)),
                                           " on the whole space instead: ");
  if (bits < kFewBits || (bits < 40 && (int64_t{1} << bits) <= 4 * int64_t{plan.samples})) {
    plan.staged = false;
    plan.notes = {absl::StrCat(without, "the parameters make only ", bits, " bits, of which ", plan.samples,
                               " samples would see most settings")};
  } else if (plan.samples < kLeastSamples) {
    plan.staged = false;
    plan.notes = {absl::StrCat(without, "a budget of ", trials, " trials is too small for one")};
  }
  plan.left = plan.staged ? std::max<int64_t>(0, trials - int64_t{plan.stages} * plan.samples) : trials;
  return plan;
}

study::AlgorithmSpec BaseAlgorithm(const study::HarmonicaOptions& options) {
  return std::visit([](const auto& base) -> study::AlgorithmSpec { return base; }, options.base);
}

bool BaseIsMultiFidelity(const study::HarmonicaOptions& options) {
  return study::SamplerOf(BaseAlgorithm(options)) != nullptr;
}

study::StudySpec BaseStudy(const study::StudySpec& spec, const study::HarmonicaOptions& options,
                           const HarmonicaPlan& plan) {
  study::StudySpec base = spec;
  base.algorithm = BaseAlgorithm(options);
  // The base tries no setting again: it sees the stages' samples as its own.
  if (auto* bo = std::get_if<study::BoOptions>(&base.algorithm)) bo->rules = 0;
  if (BaseIsMultiFidelity(options)) base.budget.max_trials = plan.left;
  return base;
}

study::StudySpec RefinedStudy(const study::StudySpec& spec, const study::HarmonicaOptions& options,
                              const HarmonicaPlan& plan, const study::SearchSpace& space,
                              const NestedAlgorithms& nested) {
  study::StudySpec base = BaseStudy(spec, options, plan);
  base.space = space;
  // The options were checked when the study was created; whether they suit the space is known only now.
  const bool suits = nested.Validate(base).ok();
  if (!BaseIsMultiFidelity(options)) {
    if (!suits) base.algorithm = study::RandomOptions{};
    return base;
  }
  const study::Bracket first = study::BracketsOf(base).front();
  std::visit(
      [&](auto& algorithm) {
        using Algorithm = std::decay_t<decltype(algorithm)>;
        if constexpr (std::is_same_v<Algorithm, study::SuccessiveHalvingOptions>) {
          algorithm.trials = first.sizes.front();
        }
        if constexpr (std::is_same_v<Algorithm, study::AshaOptions>) {
          const auto halvings = static_cast<int32_t>(first.steps.size()) - 1;
          algorithm.skip_rungs = study::MaxHalvings(*spec.resource, algorithm.eta) - halvings;
        }
        if constexpr (requires { algorithm.sampler = study::SamplerSpec(); }) {
          if (!suits) algorithm.sampler = study::RandomOptions{};
        }
      },
      base.algorithm);
  base.budget.max_trials = spec.budget.max_trials;
  return base;
}

spectral::RecoveryOptions RecoveryOptionsOf(const study::HarmonicaOptions& options, int degree) {
  spectral::RecoveryOptions recovery;
  recovery.degree = degree;
  recovery.terms = options.terms;
  return recovery;
}

}  // namespace luthier::search
