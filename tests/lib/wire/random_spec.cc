#include "tests/lib/wire/random_spec.h"

#include <google/protobuf/descriptor.h>

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/study/metrics.h"
#include "luthier/v1/study.pb.h"

namespace luthier::testing {
namespace {

using base::RandomStream;

bool Coin(RandomStream& r) {
  return r.UniformInt(2) == 1;
}

int64_t Between(RandomStream& r, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(r.UniformInt(static_cast<uint64_t>(high - low) + 1));
}

double Number(RandomStream& r) {
  switch (r.UniformInt(5)) {
    case 0:
      return static_cast<double>(Between(r, -5, 5));
    case 1:
      return r.Normal() * 1e-300;
    case 2:
      return r.Normal() * 1e300;
    case 3:
      return std::numeric_limits<double>::denorm_min();
    default:
      return r.Normal();
  }
}

std::string Text(RandomStream& r) {
  static const char* const kPieces[] = {"a",  "B7", "é",  "日本", "😀", " ",   "-",
                                        ": ", "#",  "\"", "'",    "{}", "0x1", "true"};
  std::string text;
  for (uint64_t n = r.UniformInt(8); n > 0; --n) text += kPieces[r.UniformInt(std::size(kPieces))];
  return text;
}

// Text without the braces that commands give a meaning.
std::string PlainText(RandomStream& r) {
  std::string text = Text(r);
  std::erase_if(text, [](char c) { return c == '{' || c == '}'; });
  return text;
}

// Text that people write although it looks like something else.
std::string Label(RandomStream& r, int i) {
  static const char* const kTricky[] = {"true", "null", "1e5", "0.5", "~",  "yes", "- a",
                                        "",     "a: b", "#",   "[",   "*x", "&y"};
  return absl::StrCat(kTricky[r.UniformInt(std::size(kTricky))], i);
}

study::ParameterValue Value(RandomStream& r) {
  switch (r.UniformInt(4)) {
    case 3: {
      static const std::vector<double> kLists[] = {{1.0}, {0.5, -2.0}, {1e300, 0.0, 3.0}};
      return kLists[r.UniformInt(3)];
    }
    case 0:
      return Number(r);
    case 1:
      return Coin(r);
    default:
      return Label(r, 0) + Text(r);
  }
}

study::ParameterDomain Domain(RandomStream& r) {
  switch (r.UniformInt(7)) {
    case 0: {
      const double min = r.Normal();
      return study::FloatRange{.min = min, .max = min + r.Uniform(), .scale = study::Scale::kLinear, .step = {}};
    }
    case 1:
      return study::FloatRange{.min = 1e-300 * r.UniformOpen(), .max = 1e10, .scale = study::Scale::kLog, .step = {}};
    case 2:
      return study::FloatRange{.min = 0.01, .max = 0.1 + 0.8 * r.Uniform(), .scale = study::Scale::kLogit, .step = {}};
    case 3:
      return study::FloatRange{.min = -1, .max = 3, .scale = study::Scale::kLinear, .step = 0.25};
    case 4: {
      const int64_t min = Between(r, -(int64_t{1} << 53), 0);
      return study::IntRange{
          .min = min, .max = Between(r, 0, int64_t{1} << 53), .step = Between(r, 1, 1000), .scale = {}};
    }
    case 5: {
      std::vector<std::string> labels;
      for (int i = 0; i < Between(r, 1, 5); ++i) labels.push_back(Label(r, i));
      if (Coin(r)) return study::OrdinalLabels{labels};
      return study::CategoricalLabels{labels};
    }
    default:
      return study::BoolSwitch{};
  }
}

study::SearchSpace Space(RandomStream& r) {
  std::vector<study::ParameterSpec> parameters;
  for (int i = 0; i < Between(r, 1, 6); ++i) {
    study::ParameterSpec p{.name = absl::StrCat("p.", i), .domain = Domain(r), .condition = {}, .default_value = {}};
    if (i == 0) {
      p.domain = study::CategoricalLabels{{"true", "b", "0.5"}};
      p.default_value = std::string("0.5");
    } else if (Coin(r)) {
      p.condition = study::Condition{"p.0", {"b", "true"}};
    }
    const auto* range = std::get_if<study::FloatRange>(&p.domain);
    if (range != nullptr && !range->step && Coin(r)) {
      p.count = static_cast<int>(Between(r, 1, 4));
      if (Coin(r)) p.default_value = std::vector<double>(static_cast<size_t>(*p.count), range->max);
    }
    parameters.push_back(std::move(p));
  }
  absl::StatusOr<study::SearchSpace> space = study::SearchSpace::Create(std::move(parameters));
  LUTHIER_CHECK(space.ok());
  return *std::move(space);
}

study::ObjectiveSpec Objective(RandomStream& r) {
  switch (r.UniformInt(3)) {
    case 0:
      return study::ExternalObjective{};
    case 1: {
      study::BuiltinObjective builtin{.model = "function:branin", .data = Text(r), .split = {}, .options = {}};
      builtin.split.validation = r.UniformOpen();
      builtin.split.folds = Coin(r) ? 0 : 10;
      builtin.split.seed = r.NextU64();
      if (Coin(r)) builtin.split.third = (1.0 - builtin.split.validation) * 0.5;
      if (Coin(r)) builtin.split.stratify = false;
      if (Coin(r)) {
        (Coin(r) ? builtin.split.group_column : builtin.split.time_column) = "when";
      } else if (builtin.split.folds == 0 && Coin(r)) {
        builtin.split.validation_data = "held/out.csv";
      }
      for (int i = 0; i < Between(r, 0, 3); ++i) builtin.options[absl::StrCat("o", i)] = Value(r);
      return builtin;
    }
    default: {
      study::CommandObjective command;
      command.argv = {"./train.py", "--lr={p.0}", "", PlainText(r)};
      command.environment = {{"PATH", "/bin"}, {"A B", PlainText(r)}};
      if (Coin(r)) command.timeout = absl::Milliseconds(Between(r, 1, 100'000'000));
      command.memory_limit_bytes = Between(r, 0, 5) << 20;
      if (Coin(r)) command.stdout_patterns = {{"loss", "loss=([0-9.e+-]+)"}};
      return command;
    }
  }
}

// One of the values from 0, the presets.
template <typename E>
E AnyPreset(RandomStream& r, E last) {
  return static_cast<E>(r.UniformInt(static_cast<uint64_t>(last) + 1));
}

// One of the values that the API has under the same numbers.
template <typename E>
E Any(RandomStream& r, const google::protobuf::EnumDescriptor* type) {
  const int i = 1 + static_cast<int>(r.UniformInt(static_cast<uint64_t>(type->value_count() - 1)));
  return static_cast<E>(type->value(i)->number());
}

study::BoOptions Bo(RandomStream& r) {
  study::BoOptions bo;
  bo.preset = AnyPreset(r, study::BoPreset::kFobo);
  bo.initial_points = static_cast<int32_t>(Between(r, 0, 10'000));
  bo.acquisition = Any<study::BoAcquisition>(r, v1::Algorithm::Bo::Acquisition_descriptor());
  if (Coin(r)) bo.noisy = Coin(r);
  bo.rules = Coin(r) ? 0 : study::BoOptions::kNewestRules;
  bo.kernel = Any<study::BoKernel>(r, v1::BoExpert::Kernel_descriptor());
  bo.warp = Any<study::BoWarp>(r, v1::BoExpert::Warp_descriptor());
  bo.prior = Any<study::BoPrior>(r, v1::BoExpert::Prior_descriptor());
  bo.maximizer = Any<study::BoMaximizer>(r, v1::BoExpert::Maximizer_descriptor());
  bo.pending = Any<study::BoPending>(r, v1::BoExpert::Pending_descriptor());
  bo.trust_region = Any<study::BoTrustRegion>(r, v1::BoExpert::TrustRegion_descriptor());
  bo.explore_every = static_cast<int32_t>(Between(r, 0, 9));
  bo.exploration = Any<study::BoExploration>(r, v1::BoExpert::Exploration_descriptor());
  bo.lipschitz = Any<study::BoLipschitz>(r, v1::BoExpert::Lipschitz_descriptor());
  bo.growth = Any<study::BoGrowth>(r, v1::BoExpert::Growth_descriptor());
  bo.lipschitz_constant = r.UniformOpen();
  bo.beta_schedule = Any<study::BoBeta>(r, v1::BoExpert::BetaSchedule_descriptor());
  bo.beta = r.Uniform();
  bo.improvement = r.Uniform();
  bo.sampler = Any<study::BoSampler>(r, v1::BoExpert::Sampler_descriptor());
  bo.count_history = Coin(r);
  bo.hyperparameters = Any<study::BoHyperparameters>(r, v1::BoExpert::Hyperparameters_descriptor());
  bo.gradients = Any<study::BoGradients>(r, v1::Algorithm::Bo::Gradients_descriptor());
  return bo;
}

study::SamplerSpec Sampler(RandomStream& r) {
  switch (r.UniformInt(3)) {
    case 0:
      return Bo(r);
    case 1:
      return study::SobolOptions{.scramble = Coin(r)};
    default:
      return study::RandomOptions{};
  }
}

study::SuccessiveHalvingOptions SuccessiveHalving(RandomStream& r) {
  study::SuccessiveHalvingOptions options;
  options.eta = static_cast<int32_t>(Between(r, 2, 9));
  options.trials = Between(r, 0, 1'000'000);
  options.sampler = Sampler(r);
  return options;
}

study::HyperbandOptions Hyperband(RandomStream& r) {
  study::HyperbandOptions options;
  options.eta = static_cast<int32_t>(Between(r, 2, 9));
  options.sampler = Sampler(r);
  return options;
}

study::AshaOptions Asha(RandomStream& r) {
  study::AshaOptions options;
  options.eta = static_cast<int32_t>(Between(r, 2, 9));
  options.variant = Any<study::AshaVariant>(r, v1::Algorithm::Asha::Variant_descriptor());
  options.sampler = Sampler(r);
  return options;
}

study::HarmonicaOptions Harmonica(RandomStream& r) {
  study::HarmonicaOptions options;
  options.samples = static_cast<int32_t>(Between(r, 0, 100'000));
  options.stages = static_cast<int32_t>(Between(r, 1, 5));
  options.degree = static_cast<int32_t>(Between(r, 1, 5));
  options.terms = static_cast<int32_t>(Between(r, 1, 32));
  options.restrictions = static_cast<int32_t>(Between(r, 1, 16));
  options.float_bits = static_cast<int32_t>(Between(r, 0, 10));
  options.stage_resource = Between(r, 0, 1'000'000);
  switch (r.UniformInt(6)) {
    case 0:
      options.base = Bo(r);
      break;
    case 1:
      options.base = study::SobolOptions{.scramble = Coin(r)};
      break;
    case 2:
      options.base = SuccessiveHalving(r);
      break;
    case 3:
      options.base = Hyperband(r);
      break;
    case 4:
      options.base = Asha(r);
      break;
    default:
      break;
  }
  return options;
}

study::AlgorithmSpec Algorithm(RandomStream& r) {
  switch (r.UniformInt(14)) {
    case 0:
      return Bo(r);
    case 12:
      return study::Nsga2Options{.population = static_cast<int32_t>(Between(r, 4, 10'000))};
    case 11:
      return study::HoagOptions{.preset = AnyPreset(r, study::HoagPreset::kIterdiff),
                                .sequence = Any<study::HoagSequence>(r, v1::HoagExpert::Sequence_descriptor()),
                                .first_tolerance = r.UniformOpen(),
                                .step_rule = Any<study::HoagStep>(r, v1::HoagExpert::StepRule_descriptor()),
                                .chains = static_cast<int32_t>(Between(r, 1, 100)),
                                .stop = r.Uniform()};
    case 5:
      return SuccessiveHalving(r);
    case 6:
      return Hyperband(r);
    case 7:
      return Asha(r);
    case 8:
      return Harmonica(r);
    case 3:
      return study::AutoOptions{.noisy = Coin(r) ? std::optional<bool>(Coin(r)) : std::nullopt};
    case 1:
      return study::RandomOptions{};
    case 4:
      return study::TpeOptions{.startup_trials = static_cast<int32_t>(Between(r, 1, 10'000)),
                               .candidates = static_cast<int32_t>(Between(r, 1, 10'000)),
                               .multivariate = Coin(r)};
    case 9:
      return study::CmaEsOptions{.population = static_cast<int32_t>(Between(r, 4, 10'000)),
                                 .initial_sigma = 1.0 - r.Uniform()};
    case 10:
      return study::HaltonOptions{.scramble = Coin(r)};
    case 2:
      return study::SobolOptions{.scramble = Coin(r)};
    default:
      return study::GridOptions{
          .levels = static_cast<int32_t>(Between(r, 2, 1'000'000)), .shuffle = Coin(r), .centres = Coin(r)};
  }
}

absl::Time Moment(RandomStream& r) {
  return absl::FromUnixNanos(Between(r, 0, int64_t{4'000'000'000'000'000'000}));
}

study::Failure RandomFailure(RandomStream& r) {
  return {.kind = Coin(r) ? study::FailureKind::kConfig : study::FailureKind::kInfra,
          .reason = "EXIT_CODE",
          .message = Text(r)};
}

study::Gradient RandomGradient(RandomStream& r) {
  study::Gradient gradient;
  std::vector<double>& v = Coin(r) ? gradient.values : gradient.direction;
  for (int i = 0; i < Between(r, 1, 4); ++i) v.push_back(Number(r));
  if (!gradient.full()) gradient.slope = Number(r);
  if (Coin(r)) gradient.error_bound = r.Uniform();
  if (gradient.full() && Coin(r)) {
    study::ImplicitSolve& solve = gradient.solve.emplace();
    solve = {.tolerance = r.Uniform(),
             .inner_gradient_norm = r.Uniform(),
             .residual = r.Uniform(),
             .outer_gradient_norm = r.Uniform(),
             .strong_convexity = r.Uniform(),
             .log_error_bound = {},
             .certified = Coin(r)};
    if (Coin(r)) solve.log_error_bound = r.Uniform();
  }
  return gradient;
}

study::StoppingRule Rule(RandomStream& r) {
  switch (r.UniformInt(3)) {
    case 0:
      return study::MedianStopping{.warmup = Between(r, 0, 9),
                                   .min_trials = Between(r, 1, 9),
                                   .interval = Between(r, 1, 9),
                                   .running_mean = Coin(r)};
    case 1:
      return study::PercentileStopping{.percentile = 1.0 + 98.0 * r.Uniform(),
                                       .warmup = Between(r, 0, 9),
                                       .min_trials = Between(r, 1, 9),
                                       .interval = Between(r, 1, 9),
                                       .running_mean = Coin(r)};
    default:
      return study::CurveStopping{.confidence = 0.51 + 0.48 * r.Uniform(),
                                  .warmup = Between(r, 0, 9),
                                  .min_trials = Between(r, 1, 9),
                                  .min_points = Between(r, 4, 9),
                                  .interval = Between(r, 1, 9)};
  }
}

std::vector<study::MetricSpec> Metrics(RandomStream& r) {
  std::vector<study::MetricSpec> metrics;
  const int64_t several = Between(r, 0, 1);
  for (int64_t i = 0; i <= several; ++i) {
    metrics.push_back({absl::StrCat("goal", i), Coin(r) ? study::Goal::kMinimize : study::Goal::kMaximize});
    if (several > 0 && Coin(r)) metrics.back().reference = Number(r);
  }
  for (int64_t i = 0; i < Between(r, 0, 3); ++i) {
    metrics.push_back({.name = absl::StrCat("bound", i), .objective = false});
    if (Coin(r)) metrics.back().at_most = Number(r);
    if (!metrics.back().at_most) metrics.back().at_least = Number(r);
  }
  return metrics;
}

// A constraint for each parameter at most: a bounded sum of a number, or a value that is forbidden.
std::vector<study::ParameterConstraint> Constraints(RandomStream& r, const study::SearchSpace& space) {
  std::vector<study::ParameterConstraint> constraints;
  for (int i = 0; i < space.size() && constraints.size() < 60; ++i) {
    const study::ParameterSpec& parameter = space.parameters()[static_cast<size_t>(i)];
    study::ParameterConstraint constraint;
    const bool number = std::holds_alternative<study::FloatRange>(parameter.domain) ||
                        std::holds_alternative<study::IntRange>(parameter.domain);
    if (number && (parameter.is_vector() || Coin(r))) {
      constraint.sum[parameter.name] = 1.0 + r.Uniform();
      (Coin(r) ? constraint.at_least : constraint.at_most) = Number(r);
    } else if (const std::optional<int64_t> levels = space.Levels(i); levels && *levels >= 1) {
      auto& values = constraint.forbid[parameter.name].values;
      values.push_back(space.LevelValue(i, 0));
      if (*levels > 1 && Coin(r)) values.push_back(space.LevelValue(i, *levels - 1));
    } else {
      constraint.forbid[parameter.name].at_most = std::get<study::FloatRange>(parameter.domain).max;
    }
    constraints.push_back(std::move(constraint));
  }
  return constraints;
}

}  // namespace

study::StudySpec RandomSpec(RandomStream& r) {
  study::StudySpec spec;
  spec.display_name = Text(r);
  spec.description = Text(r) + "\n" + Text(r);
  spec.space = Space(r);
  spec.metric = {"loss", Coin(r) ? study::Goal::kMinimize : study::Goal::kMaximize};
  spec.algorithm = Algorithm(r);
  spec.objective = Objective(r);
  if (Coin(r) && std::holds_alternative<study::ExternalObjective>(spec.objective)) study::SetMetrics(Metrics(r), &spec);
  const bool several = study::ObjectiveCount(spec) > 1;
  spec.budget.max_trials = Between(r, 1, study::kMaxTrials);
  spec.budget.max_parallel = Between(r, 1, 1000);
  spec.budget.max_failed_trials = Between(r, 0, 10);
  if (Coin(r) && !several) spec.budget.target_value = Number(r);
  spec.budget.patience = Between(r, 0, 10);
  if (Coin(r)) spec.budget.max_wall = absl::Milliseconds(Between(r, 1, 1'000'000'000));
  spec.lease.ttl = absl::Milliseconds(Between(r, 10'000, 3'600'000));
  spec.lease.max_attempts = static_cast<int32_t>(Between(r, 1, 100));
  spec.seed = r.NextU64();
  spec.reproducible = Coin(r);
  for (int i = 0; i < Between(r, 0, 3); ++i) spec.labels[absl::StrCat("team ", i)] = Text(r);
  spec.resource = study::Resource{.min = Between(r, 1, 5), .max = Between(r, 5, study::kMaxResource), .unit = Text(r)};
  const auto* command = std::get_if<study::CommandObjective>(&spec.objective);
  const bool reports = command == nullptr || command->stdout_patterns.empty();
  if (reports && !several && Coin(r)) {
    spec.stopping = Rule(r);
    spec.reproducible = false;
  }
  if (Coin(r)) spec.weight = study::kMinWeight + r.Uniform() * (study::kMaxWeight - study::kMinWeight);
  if (Coin(r)) spec.constraints = Constraints(r, spec.space);
  return spec;
}

study::Trial RandomTrial(RandomStream& r) {
  study::Trial trial;
  trial.number = Between(r, 1, int64_t{1} << 60);
  trial.state = static_cast<study::TrialState>(r.UniformInt(study::kTrialStateCount));
  for (int i = 0; i < Between(r, 0, 4); ++i) trial.parameters[absl::StrCat("p", i)] = Value(r);
  trial.provenance = {.designer = "bo",
                      .algorithm_version = 3,
                      .ask_index = {},
                      .prefix_seq = r.NextU64(),
                      .origin = "acq",
                      .details = {{"predicted_mean", Number(r)}},
                      .designer_state = Text(r),
                      .direction = {},
                      .set_aside = {},
                      .tolerance = {},
                      .resource = Between(r, 0, 3),
                      .warm_start = Between(r, 0, 9)};
  for (int i = 0; i < Between(r, 0, 3); ++i) trial.provenance.direction.push_back(Number(r));
  for (int i = 0; i < Between(r, 0, 3); ++i) trial.provenance.set_aside.push_back(Between(r, 1, int64_t{1} << 60));
  if (Coin(r)) trial.provenance.ask_index = r.NextU64();
  if (Coin(r)) trial.provenance.tolerance = r.UniformOpen();
  for (int i = 0; i < Between(r, 0, 2); ++i) {
    trial.promotions.push_back(trial.provenance);
    trial.promotions.back().resource = Between(r, 4, 1'000'000);
  }
  if (Coin(r)) {
    study::Measurement m;
    m.step = Between(r, 0, int64_t{1} << 60);
    m.metrics = {{"loss", Number(r)}, {"accuracy", std::numeric_limits<double>::infinity()}};
    if (Coin(r)) m.elapsed_seconds = r.Uniform() * 1e6;
    if (Coin(r)) m.gradient = RandomGradient(r);
    if (Coin(r)) m.gradients = {{"accuracy", RandomGradient(r)}, {"ms", RandomGradient(r)}};
    if (Coin(r)) {
      m.training.emplace().outcome = static_cast<study::TrainingOutcome>(r.UniformInt(study::kTrainingOutcomeCount));
      if (Coin(r)) m.training->gradient_norm = r.Uniform();
      if (Coin(r)) m.training->duality_gap = r.Uniform();
    }
    if (Coin(r)) m.gradient_seconds = r.Uniform() * 1e6;
    trial.final_measurement = m;
  }
  if (Coin(r)) trial.failure = RandomFailure(r);
  for (int i = 0; i < Between(r, 0, 4); ++i) {
    study::Attempt attempt;
    attempt.number = i + 1;
    attempt.worker = "w-1";
    attempt.start = Moment(r);
    if (Coin(r)) attempt.end = Moment(r);
    attempt.outcome = static_cast<study::AttemptOutcome>(r.UniformInt(8));
    attempt.start_step = static_cast<int64_t>(r.UniformInt(5));
    attempt.last_step = static_cast<int64_t>(r.UniformInt(9));
    if (Coin(r)) attempt.failure = RandomFailure(r);
    attempt.output_tail = Text(r);
    trial.releases += attempt.outcome == study::AttemptOutcome::kReleased ? 1 : 0;
    if (attempt.outcome == study::AttemptOutcome::kPaused) trial.releases = 0;
    trial.attempts.push_back(attempt);
  }
  trial.checkpoint = Text(r);
  trial.attributes = {{"note", Text(r)}};
  trial.create_time = Moment(r);
  if (Coin(r)) trial.end_time = Moment(r);
  trial.update_seq = r.NextU64();
  return trial;
}

}  // namespace luthier::testing
