#ifndef LUTHIER_LIB_STUDY_STUDY_SPEC_H_
#define LUTHIER_LIB_STUDY_STUDY_SPEC_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lib/study/parameter_constraints.h"
#include "lib/study/parameters.h"
#include "lib/study/project.h"
#include "lib/study/search_space.h"

namespace luthier::study {

enum class Goal { kMinimize, kMaximize };

// A metric that results must have: an objective, bounds on the outcome, or both.
struct MetricSpec {
  std::string name;
  Goal goal = Goal::kMinimize;                    // Direction of an objective.
  bool objective = true;                          // False: it has no goal, only bounds.
  std::optional<double> at_least = std::nullopt;  // Bounds of feasible results, in user units; both ends are feasible.
  std::optional<double> at_most = std::nullopt;
  std::optional<double> reference = std::nullopt;  // With several objectives: worse values are worth nothing.
  friend bool operator==(const MetricSpec&, const MetricSpec&) = default;
};

// --- Algorithms. One struct an algorithm; AlgorithmName() gives the registry name. ---

// The service chooses: lib/search/auto.h.
struct AutoOptions {
  // True if the same setting may give different values; std::nullopt: nobody says, so that the search finds out.
  std::optional<bool> noisy = std::nullopt;
  // The rules that choose: those that were the newest when the study was created, 0 … kNewestRules, so that better ones
  // never switch the algorithm of a study that is there. docs/reference/auto.md says what each added.
  int32_t rules = kNewestRules;
  static constexpr int32_t kNewestRules = 5;
  friend bool operator==(const AutoOptions&, const AutoOptions&) = default;
};

struct RandomOptions {
  friend bool operator==(const RandomOptions&, const RandomOptions&) = default;
};

struct SobolOptions {
  bool scramble = true;  // Owen-style matrix scramble and digital shift from the study's seed.
  friend bool operator==(const SobolOptions&, const SobolOptions&) = default;
};

struct GridOptions {
  int32_t levels =
      10;  // Points along each continuous parameter, both ends included; 2 … 10^6. Others: all their levels.
  bool shuffle = true;   // A seeded permutation, so that a stopped run has covered the space.
  bool centres = false;  // Points in the middle of `levels` equal cells instead: the ends are left out.
  friend bool operator==(const GridOptions&, const GridOptions&) = default;
};

// One Gaussian-process optimizer with independent switches carries Bayesian optimization (bo), its harmless (hbo),
// Lipschitz (lbo) and first-order (fobo) variants and every combination: a preset only sets defaults.
enum class BoPreset { kBo, kHbo, kLbo, kFobo };

// The values of each enumeration below, and of those of other algorithms, have the API's numbers.
enum class BoAcquisition { kLogEi = 1, kEi, kPi, kLogPi, kUcb, kTs };
enum class BoKernel { kAuto = 1, kMatern52 = 2, kSe = 5, kAdditive = 7, kPairwise = 8 };
enum class BoWarp { kAuto = 1, kNone = 2, kLog = 4 };
enum class BoPrior { kDimensionScaled = 1, kThesis = 3 };
enum class BoMaximizer { kSobolLbfgs = 1, kDirect };
enum class BoPending { kBeliever = 1, kFantasies = 5, kAuto = 7 };
enum class BoTrustRegion { kAuto = 1, kOff };
enum class BoExploration { kRandom = 1, kFarthest, kLipo };
enum class BoLipschitz { kOff = 1, kTruncate, kAcceptReject, kCap };
enum class BoGrowth { kLinear = 1, kKnown = 4 };
enum class BoBeta { kKandasamy15 = 1, kDragonfly, kKandasamy17, kConstant };
enum class BoSampler { kPathwise = 1, kFourier };
enum class BoHyperparameters { kMap = 1, kMcmc };
enum class BoGradients { kOff = 1, kFull, kDirectional };

struct BoOptions {
  BoPreset preset = BoPreset::kBo;
  int32_t initial_points = 0;  // Quasi-random settings before the model is used; 0: max(4, min(d+1, 20)). At most 10^4.
  BoAcquisition acquisition = BoAcquisition::kLogEi;
  // True if the same setting may give different values; std::nullopt: nobody says, so that the search finds out.
  std::optional<bool> noisy = std::nullopt;
  BoKernel kernel = BoKernel::kAuto;
  BoWarp warp = BoWarp::kAuto;
  BoPrior prior = BoPrior::kDimensionScaled;
  BoMaximizer maximizer = BoMaximizer::kSobolLbfgs;
  BoPending pending = BoPending::kAuto;
  BoTrustRegion trust_region = BoTrustRegion::kAuto;
  // One trial in `explore_every` is exploration; 0: none. 0 … 10^6.
  int32_t explore_every = 0;
  BoExploration exploration = BoExploration::kRandom;
  BoLipschitz lipschitz = BoLipschitz::kOff;
  BoGrowth growth = BoGrowth::kLinear;
  double lipschitz_constant = 0.0;  // For kKnown: > 0, units of the metric per unit cube side.
  BoBeta beta_schedule = BoBeta::kKandasamy15;
  double beta = 2.0;          // For BoBeta::kConstant, >= 0.
  double improvement = 0.01;  // xi >= 0 of PI and LOG_PI, in deviations of the outputs.
  BoSampler sampler = BoSampler::kPathwise;
  BoHyperparameters hyperparameters = BoHyperparameters::kMap;
  BoGradients gradients = BoGradients::kOff;  // Reported derivatives that the model uses.
  // Results that users imported or enqueued stand for points of the initial design.
  bool count_history = true;
  // The rules of the search: those that were the newest when the study was created, 0 … kNewestRules, so that better
  // ones change no suggestion of a study that is there. docs/reference/bo.md says what each added.
  int32_t rules = kNewestRules;
  static constexpr int32_t kNewestRules = 3;
  // Returns true if results are said to be noisy.
  bool SaidNoisy() const { return noisy.value_or(false); }
  friend bool operator==(const BoOptions&, const BoOptions&) = default;
};
// The defaults of a preset.
BoOptions BoDefaults(BoPreset preset);

struct CmaEsOptions {
  int32_t population = 0;      // Samples of a generation; 0: 4 + floor(3 ln d). Else 4 … 10^4.
  double initial_sigma = 0.3;  // First step size, in units of the parameters' ranges; above 0, at most 1.
  friend bool operator==(const CmaEsOptions&, const CmaEsOptions&) = default;
};

struct HaltonOptions {
  bool scramble = true;  // Random permutations of the digits from the study's seed.
  friend bool operator==(const HaltonOptions&, const HaltonOptions&) = default;
};

struct TpeOptions {
  int32_t startup_trials = 10;  // Results before the densities are used; 1 … 10^4.
  int32_t candidates = 24;      // Drawn from the good density for a suggestion; 1 … 10^4.
  bool multivariate = true;     // One joint density for the parameters that exist together; false: one a parameter.
  friend bool operator==(const TpeOptions&, const TpeOptions&) = default;
};

struct Nsga2Options {
  int32_t population = 0;  // Trials of which parents are taken; 0: 40. Else 4 … 10^4.
  friend bool operator==(const Nsga2Options&, const Nsga2Options&) = default;
};

// Algorithms that give every trial all it wants. New ones join this list.
using SamplerSpec = std::variant<AutoOptions, BoOptions, RandomOptions, SobolOptions, GridOptions, HaltonOptions,
                                 TpeOptions, CmaEsOptions, Nsga2Options>;

// Multi-fidelity algorithms train settings up to rungs of StudySpec::resource and continue the best. They need a
// resource and take new settings from a sampler.

// Brackets of `trials` settings, one in eta of which goes on from rung to rung.
struct SuccessiveHalvingOptions {
  int32_t eta = 3;     // 2 … 1000.
  int64_t trials = 0;  // eta … 10^6; 0: eta^s settings, where s halvings lead from resource.min to max.
  SamplerSpec sampler = RandomOptions{};
  friend bool operator==(const SuccessiveHalvingOptions&, const SuccessiveHalvingOptions&) = default;
};

// Brackets of successive halving from many settings with little training to few with all of it, over and over.
struct HyperbandOptions {
  int32_t eta = 3;
  SamplerSpec sampler = RandomOptions{};
  friend bool operator==(const HyperbandOptions&, const HyperbandOptions&) = default;
};

// Successive halving without barriers: a setting goes on as soon as it is among the best 1/eta of its rung so far.
enum class AshaVariant {
  kPromote = 1,  // Trials pause at each rung.
  kStop,  // Trials train on unless they are worse than that when they pass a rung; for workers that cannot pause.
};
struct AshaOptions {
  int32_t eta = 3;
  AshaVariant variant = AshaVariant::kPromote;
  int32_t skip_rungs = 0;  // The lowest rungs are left out, as harmonica has it. 0 … halvings - 1. No option of users.
  SamplerSpec sampler = RandomOptions{};
  friend bool operator==(const AshaOptions&, const AshaOptions&) = default;
};

// Algorithm that goes on after Harmonica's stages: one that can stand in for it on any space. A new one is one entry
// here.
using HarmonicaBase = std::variant<RandomOptions, SobolOptions, GridOptions, BoOptions, HaltonOptions, TpeOptions,
                                   CmaEsOptions, SuccessiveHalvingOptions, HyperbandOptions, AshaOptions>;

struct HarmonicaOptions {
  int32_t samples = 0;       // Samples of each stage, 20 … 10^5; 0: 300, or less where the budget is small.
  int32_t stages = 2;        // 1 … 5.
  int32_t degree = 3;        // Largest degree of the monomials, 1 … 5.
  int32_t terms = 5;         // Terms of a stage's polynomial, 1 … 32.
  int32_t restrictions = 4;  // Best settings that a stage hands on, 1 … 16.
  int32_t float_bits = 0;    // Bits of a parameter cut into cells, 1 … 10; 0: 2, or 3 for at most 4 parameters.
  // Step up to which the samples of stages are trained, where they pause: resource.min … max; 0: to the end.
  int64_t stage_resource = 0;
  HarmonicaBase base = RandomOptions{};
  friend bool operator==(const HarmonicaOptions&, const HarmonicaOptions&) = default;
};

// Tolerances of HOAG's evaluations: 0.1 * 0.9^(k-1), 0.1 / k^2 and 0.1 / k^3 for a first tolerance of 0.1; all digits.
enum class HoagSequence { kExponential = 1, kQuadratic, kCubic, kExact };
// Rules by which HOAG's step adapts: the paper's test as it follows from its equations 10 and 16, or Armijo's condition
// of sufficient decrease.
enum class HoagStep { kCorrected = 1, kBacktracking = 3 };
enum class HoagPreset { kHoag, kProjectedGradient, kIterdiff };

struct HoagOptions {
  HoagPreset preset = HoagPreset::kHoag;  // Name under which a user asked for it; HoagOptionsFor has its defaults.
  HoagSequence sequence = HoagSequence::kExponential;
  double first_tolerance = 0.1;  // Above 0, at most 10^6.
  HoagStep step_rule = HoagStep::kCorrected;
  int32_t chains = 1;  // Descents from different starts, side by side; 1 ... 100.
  double stop = 1e-4;  // A chain ends when its gradient mapping is so much of its first. [0, 1)
  friend bool operator==(const HoagOptions&, const HoagOptions&) = default;
};

// Returns the defaults of a preset: exact gradients for all but kHoag, and backtracking for kProjectedGradient.
HoagOptions HoagOptionsFor(HoagPreset preset);

template <typename Variant, typename... More>
struct Extended;
template <typename... Types, typename... More>
struct Extended<std::variant<Types...>, More...> {
  using type = std::variant<Types..., More...>;
};
using AlgorithmSpec =
    Extended<SamplerSpec, SuccessiveHalvingOptions, HyperbandOptions, AshaOptions, HarmonicaOptions, HoagOptions>::type;
// "auto", "bo", "hbo", "lbo", "fobo", "random", "sobol", "grid", "halton", "tpe", "cma_es", "nsga2",
// "successive_halving", "hyperband", "asha", "harmonica", "hoag", "projected_gradient", "iterdiff".
std::string AlgorithmName(const AlgorithmSpec& algorithm);
AlgorithmSpec AsAlgorithm(const SamplerSpec& sampler);
// The sampler of an algorithm that trains in parts; null for others.
const SamplerSpec* SamplerOf(const AlgorithmSpec& algorithm);

// --- Objectives: what a worker evaluates. ---

struct Split {
  double validation = 0.25;  // Share of rows held out, in (0, 1). Unused with folds.
  int32_t folds = 0;         // 0: one split; else 2 … 100 folds, losses averaged by size.
  uint64_t seed = 0;
  // Share of rows, in [0, 1), that neither train nor validate: measured and logged, never used by a search. With
  // `validation` it is below 1.
  double third = 0.0;
  std::optional<bool> stratify = {};  // If absent: true where there are classes and none of the columns below.
  std::string group_column = {};      // CSV column whose equal values stay on one side; empty: none.
  std::string time_column = {};       // CSV column that orders rows: later ones are held out; empty: none.
  std::string validation_data = {};   // Data set to validate on, as `data`; empty: part of `data`.
  friend bool operator==(const Split&, const Split&) = default;
};

struct BuiltinObjective {
  std::string model;  // `luthier objectives` lists them: logistic, function:branin, ….
  std::string data;   // A path below the worker's data root, or synth:…; empty where the model needs none.
  Split split;
  std::map<std::string, ParameterValue> options;  // Hyperparameters held fixed, and options of the model.
  friend bool operator==(const BuiltinObjective&, const BuiltinObjective&) = default;
};

struct CommandObjective {
  std::vector<std::string> argv;                   // {name} is replaced by the parameter's value; no shell.
  std::map<std::string, std::string> environment;  // Same replacement.
  absl::Duration timeout = absl::InfiniteDuration();
  int64_t memory_limit_bytes = 0;                      // Address space of each process; 0: no limit.
  std::map<std::string, std::string> stdout_patterns;  // Metric -> regular expression: OutputPattern.
  friend bool operator==(const CommandObjective&, const CommandObjective&) = default;
};

// Nobody's worker: users ask and tell.
struct ExternalObjective {
  friend bool operator==(const ExternalObjective&, const ExternalObjective&) = default;
};

using ObjectiveSpec = std::variant<ExternalObjective, BuiltinObjective, CommandObjective>;

// --- Budget and stopping rules ---

struct Budget {
  int64_t max_trials = 100;            // 1 … 10^6.
  int64_t max_parallel = 0;            // RUNNING at once; 0: no limit but 10^4.
  int64_t max_failed_trials = 0;       // FAILED trials that end the study; 0: no such rule.
  std::optional<double> target_value;  // The study ends when a trial reaches it.
  int64_t patience = 0;                // End after so many finished trials without a better value; 0: no such rule.
  // The study ends after so much time in which a coordinator runs; above 0, at most kMaxWall. Absent: no such rule.
  std::optional<absl::Duration> max_wall;
  // The study ends once the search knows that too little is left to gain (search::CheckAnswered). Absent: as
  // EndsWhenAnswered says.
  std::optional<bool> until_answered;
  friend bool operator==(const Budget&, const Budget&) = default;
};

inline constexpr absl::Duration kMaxWall = absl::Hours(24 * 3660);

struct LeaseOptions {
  absl::Duration ttl = absl::Seconds(60);  // 10 s … 1 h.
  int32_t max_attempts = 3;                // 1 … 100.
  friend bool operator==(const LeaseOptions&, const LeaseOptions&) = default;
};

// --- Training in parts ---

// Amount of training that a setting may get, on the axis of Measurement::step of its intermediate reports.
struct Resource {
  int64_t min = 1;   // The least that says anything about a setting. 1 … max.
  int64_t max = 1;   // All that a setting gets. At most kMaxResource.
  std::string unit;  // For people: "epochs". At most 64 characters.
  friend bool operator==(const Resource&, const Resource&) = default;
};
inline constexpr int64_t kMaxResource = 1'000'000'000'000;

// Stops a trial whose best value so far is strictly worse than the median, over the COMPLETE trials, of what they had
// at the same step.
struct MedianStopping {
  int64_t warmup = 0;         // Reports of smaller steps stop nothing. >= 0.
  int64_t min_trials = 5;     // COMPLETE trials before anything is stopped. >= 1.
  int64_t interval = 1;       // Only every `interval`-th report of a trial is judged. >= 1.
  bool running_mean = false;  // Compare with the means up to the step of the others' values.
  friend bool operator==(const MedianStopping&, const MedianStopping&) = default;
};

// The same with another percentile: 25 keeps the best quarter going.
struct PercentileStopping {
  double percentile = 50.0;  // Above 0, below 100.
  int64_t warmup = 0;
  int64_t min_trials = 5;
  int64_t interval = 1;
  bool running_mean = false;
  friend bool operator==(const PercentileStopping&, const PercentileStopping&) = default;
};

// Stops a trial whose learning curve, extrapolated to Resource::max, will with this confidence not reach the best
// COMPLETE value.
struct CurveStopping {
  double confidence = 0.95;  // Above 0.5, below 1.
  int64_t warmup = 0;
  int64_t min_trials = 1;
  int64_t min_points = 6;  // Points of the trial's own curve. >= 4.
  int64_t interval = 1;
  friend bool operator==(const CurveStopping&, const CurveStopping&) = default;
};

using StoppingRule = std::variant<MedianStopping, PercentileStopping, CurveStopping>;

struct StudySpec {
  std::string display_name;
  std::string description;
  SearchSpace space;
  MetricSpec metric;  // The objective; of several the first one.
  // All metrics in the user's order, if there are bounds or several: SetMetrics (metrics.h). Else empty.
  std::vector<MetricSpec> metrics = {};
  AlgorithmSpec algorithm;
  ObjectiveSpec objective;
  Budget budget;
  LeaseOptions lease;
  uint64_t seed = 0;
  // Suggestions do not depend on the order in which workers finish (History::ReproducibleView). Needs max_parallel.
  bool reproducible = false;
  std::map<std::string, std::string> labels;
  std::optional<Resource> resource;      // Needed by multi-fidelity and CurveStopping.
  std::optional<StoppingRule> stopping;  // Beside whatever the algorithm itself stops.
  // Its share where studies compete for workers and for the computing of suggestions. kMinWeight … kMaxWeight.
  double weight = 1.0;
  bool open_space = false;          // Running trials may add parameters.
  std::string pool = kDefaultPool;  // Workers of this pool may take it.
  // Options of the algorithm that the stored study has and this program has no more, for people: "FIELD: VALUE".
  std::vector<std::string> removed_options;
  std::vector<ParameterConstraint> constraints;  // Settings that break one are illegal; at most kMaxConstraints.
  friend bool operator==(const StudySpec&, const StudySpec&) = default;
};

// Returns true if the standard output of the study's command has a learning curve: one of its patterns is that of the
// step (kStepPattern).
bool HasStepPattern(const CommandObjective& command, const StudySpec& spec);

// Returns true if the study ends once it is answered: what Budget::until_answered says, else true for `auto` of the
// rules 2 and later over a builtin objective whose losses repeat exactly and come with the standard error over their
// folds.
bool EndsWhenAnswered(const StudySpec& spec);

inline constexpr int64_t kMaxTrials = 1'000'000;
inline constexpr int64_t kMaxParallel = 10'000;
inline constexpr double kMinWeight = 0.01;
inline constexpr double kMaxWeight = 100.0;

// Returns true for an algorithm whose settings are laid out over the space from the start.
bool LaidOut(const AlgorithmSpec& algorithm);

// Checks everything but the space (validated at its creation), the algorithm against the space (search::Validate) and
// the builtin objective (catalogue::Validate). Returns INVALID_ARGUMENT with every violation.
absl::Status ValidateSpec(const StudySpec& spec);

// Makes the checks of a new study beyond ValidateSpec: its patterns are OutputPatterns. A stored study need not pass,
// because older versions took it. Returns INVALID_ARGUMENT with every violation.
absl::Status ValidateNewSpec(const StudySpec& spec);

// The first field in which two specs differ, as a user would name it; "" when they are equal.
std::string FirstDifference(const StudySpec& a, const StudySpec& b);

// [a-z0-9][a-z0-9_.-]{0,63} without "..": studies, projects, workers. `what` names the field in the error.
absl::Status ValidateId(absl::string_view what, absl::string_view id);
// Any text as an id: lower case, other characters to '-'; "study" when nothing is left.
std::string Slug(absl::string_view text);

// Bytes of the UTF-8 sequence that begins at text[i], 1 … 4; 0 when there is no valid one. i < text.size().
size_t Utf8Length(absl::string_view text, size_t i);

// Valid UTF-8, no control characters, at most `max_characters`.
absl::Status ValidateText(absl::string_view what, absl::string_view text, int max_characters, bool newlines_allowed);

// The value as the engine sees it: larger is better.
inline double Score(Goal goal, double value) {
  return goal == Goal::kMaximize ? value : -value;
}

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_STUDY_SPEC_H_
