#include "lib/study/study_spec.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/study/command_template.h"
#include "lib/study/legal_settings.h"
#include "lib/study/metrics.h"
#include "lib/study/output_pattern.h"

namespace luthier::study {
namespace {

constexpr size_t kMaxPattern = 1024;

std::string PatternField(const std::string& metric) {
  return absl::StrCat("objective.command.stdout_patterns[", base::Quote(metric), "]");
}

void CheckObjective(const CommandObjective& command, const StudySpec& spec, base::Violations* violations) {
  const std::string at = "objective.command";
  if (command.argv.empty()) violations->Add(at + ".argv", "is empty; give the program and its arguments");
  if (command.argv.size() > 1000) violations->Add(at + ".argv", "has more than 1000 entries");
  for (size_t i = 0; i < command.argv.size(); ++i) {
    const std::string field = absl::StrCat(at, ".argv[", i, "]");
    if (command.argv[i].size() > 65536) violations->Add(field, "is longer than 65536 bytes");
    if (command.argv[i].find('\0') != std::string::npos) violations->Add(field, "contains a zero byte");
  }
  if (!command.argv.empty() && command.argv[0].empty()) violations->Add(at + ".argv[0]", "is empty; name a program");
  for (const auto& [name, value] : command.environment) {
    if (name.empty() || name.find('=') != std::string::npos || name.find('\0') != std::string::npos) {
      violations->Add(absl::StrCat(at, ".environment[", base::Quote(name), "]"), "is not a legal variable name");
      continue;
    }
    if (value.find('\0') != std::string::npos) violations->Add(at + ".environment." + name, "contains a zero byte");
  }
  if (!(command.timeout > absl::ZeroDuration())) violations->Add(at + ".timeout", "must be above 0");
  if (command.memory_limit_bytes < 0) violations->Add(at + ".memory_limit_mb", "must be at least 0 (0: no limit)");
  for (const auto& [name, pattern] : command.stdout_patterns) {
    if (pattern.size() > kMaxPattern) violations->Add(PatternField(name), "is longer than 1024 bytes");
  }
  for (const MetricSpec& metric : MetricsOf(spec)) {
    if (command.stdout_patterns.empty() || command.stdout_patterns.contains(metric.name)) continue;
    violations->Add(at + ".stdout_patterns",
                    absl::StrCat("has no pattern for the study's metric ", base::Quote(metric.name)));
  }
}

// Checks which of the fields go together.
void CheckSplitColumns(const Split& split, const std::string& at, base::Violations* violations) {
  for (const auto& [name, text] : {std::pair<const char*, const std::string*>{"group_column", &split.group_column},
                                   {"time_column", &split.time_column},
                                   {"validation_data", &split.validation_data}}) {
    if (text->size() > 4096) violations->Add(absl::StrCat(at, ".", name), "is longer than 4096 bytes");
  }
  const bool grouped = !split.group_column.empty(), timed = !split.time_column.empty();
  if (grouped && timed) {
    violations->Add(at + ".time_column", "and group_column exclude each other; remove one of the two");
  }
  if (split.stratify.value_or(false) && (grouped || timed)) {
    violations->Add(at + ".stratify", absl::StrCat("does not go with ", grouped ? "group_column" : "time_column",
                                                   ", which decides what is held out; remove one of the two"));
  }
  if (split.validation_data.empty()) return;
  const char* other = split.folds != 0 ? "folds" : grouped ? "group_column" : timed ? "time_column" : nullptr;
  if (other != nullptr) {
    violations->Add(at + ".validation_data",
                    absl::StrCat("says what is held out, and so does ", other, "; remove one of the two"));
  }
}

void CheckObjective(const BuiltinObjective& builtin, const StudySpec&, base::Violations* violations) {
  const std::string at = "objective.builtin";
  if (builtin.model.empty()) violations->Add(at + ".model", "is required; `luthier objectives` lists the models");
  if (builtin.model.size() > 256) violations->Add(at + ".model", "is longer than 256 bytes");
  if (builtin.data.size() > 4096) violations->Add(at + ".data", "is longer than 4096 bytes");
  const Split& split = builtin.split;
  if (!(split.validation > 0.0 && split.validation < 1.0)) {
    violations->Add(at + ".split.validation", absl::StrCat(FormatDouble(split.validation), " is not between 0 and 1"));
  }
  if (!(split.third >= 0.0 && split.third < 1.0)) {
    violations->Add(at + ".split.third", absl::StrCat(FormatDouble(split.third), " is not at least 0 and below 1"));
  } else if (split.folds == 0 && split.validation_data.empty() && split.third > 0.0 &&
             !(split.validation + split.third < 1.0)) {
    violations->Add(at + ".split.third",
                    absl::StrCat(FormatDouble(split.third), " and the ", FormatDouble(split.validation),
                                 " of validation leave no rows to train on; lower one of them"));
  }
  if (split.folds != 0 && (split.folds < 2 || split.folds > 100)) {
    violations->Add(at + ".split.folds", absl::StrCat(split.folds, " is not 0 (one split) or 2 to 100"));
  }
  CheckSplitColumns(split, at + ".split", violations);
}

void CheckObjective(const ExternalObjective&, const StudySpec&, base::Violations*) {}

void CheckResource(const Resource& resource, base::Violations* violations) {
  if (resource.max < 1 || resource.max > kMaxResource) {
    violations->Add("resource.max", absl::StrCat(resource.max, " is not between 1 and ", kMaxResource));
  } else if (resource.min < 1 || resource.min > resource.max) {
    violations->Add("resource.min", absl::StrCat(resource.min, " is not between 1 and resource.max, ", resource.max));
  }
  violations->AddAll("", ValidateText("resource.unit", resource.unit, 64, false));
}

// Checks the options that all rules have.
template <typename Rule>
void CheckRule(const Rule& rule, const std::string& at, base::Violations* violations) {
  if (rule.warmup < 0) violations->Add(at + ".warmup", absl::StrCat(rule.warmup, " is below 0"));
  if (rule.min_trials < 1) violations->Add(at + ".min_trials", absl::StrCat(rule.min_trials, " is below 1"));
  if (rule.interval < 1) violations->Add(at + ".interval", absl::StrCat(rule.interval, " is below 1"));
}

void CheckStopping(const MedianStopping& rule, const StudySpec&, base::Violations* violations) {
  CheckRule(rule, "stopping.median", violations);
}

void CheckStopping(const PercentileStopping& rule, const StudySpec&, base::Violations* violations) {
  CheckRule(rule, "stopping.percentile", violations);
  if (!(rule.percentile > 0.0 && rule.percentile < 100.0)) {
    violations->Add("stopping.percentile.percentile",
                    absl::StrCat(FormatDouble(rule.percentile), " is not above 0 and below 100"));
  }
}

void CheckStopping(const CurveStopping& rule, const StudySpec& spec, base::Violations* violations) {
  CheckRule(rule, "stopping.curve", violations);
  if (!(rule.confidence > 0.5 && rule.confidence < 1.0)) {
    violations->Add("stopping.curve.confidence",
                    absl::StrCat(FormatDouble(rule.confidence), " is not above 0.5 and below 1"));
  }
  if (rule.min_points < 4) {
    violations->Add("stopping.curve.min_points", absl::StrCat(rule.min_points, " is below 4"));
  }
  if (!spec.resource) {
    violations->Add("stopping.curve", "needs resource.max: the step to which learning curves are extrapolated");
  }
}

// Sets the rules of `auto` and `bo`, nested ones included, to one version.
template <typename Options>
void ForgetRules(Options* options) {
  if constexpr (requires { options->rules; }) options->rules = 0;
  if constexpr (requires { options->sampler.index(); }) {
    std::visit([](auto& nested) { ForgetRules(&nested); }, options->sampler);
  }
  if constexpr (requires { options->base.index(); }) {
    std::visit([](auto& nested) { ForgetRules(&nested); }, options->base);
  }
}

// Compares algorithms as users state them: the newest rules of `auto` and `bo` at that time do not count.
bool SameAlgorithm(AlgorithmSpec a, AlgorithmSpec b) {
  for (AlgorithmSpec* algorithm : {&a, &b}) std::visit([](auto& options) { ForgetRules(&options); }, *algorithm);
  return a == b;
}

std::string BudgetDifference(const Budget& a, const Budget& b) {
  if (a.max_trials != b.max_trials) return "budget.max_trials";
  if (a.max_parallel != b.max_parallel) return "budget.max_parallel";
  if (a.max_failed_trials != b.max_failed_trials) return "budget.max_failed_trials";
  if (a.target_value != b.target_value) return "budget.target_value";
  if (a.patience != b.patience) return "budget.patience";
  if (a.max_wall != b.max_wall) return "budget.max_wall";
  return a.until_answered != b.until_answered ? "budget.until_answered" : "";
}

}  // namespace

BoOptions BoDefaults(BoPreset preset) {
  BoOptions options;
  options.preset = preset;
  if (preset == BoPreset::kHbo || preset == BoPreset::kLbo) options.explore_every = 4;
  if (preset == BoPreset::kLbo) {
    options.lipschitz = BoLipschitz::kTruncate;
    options.exploration = BoExploration::kLipo;
  }
  if (preset == BoPreset::kFobo) options.gradients = BoGradients::kFull;
  return options;
}

HoagOptions HoagOptionsFor(HoagPreset preset) {
  HoagOptions options;
  options.preset = preset;
  if (preset != HoagPreset::kHoag) options.sequence = HoagSequence::kExact;
  if (preset == HoagPreset::kProjectedGradient) options.step_rule = HoagStep::kBacktracking;
  return options;
}

std::string AlgorithmName(const AlgorithmSpec& algorithm) {
  static constexpr std::array<const char*, 14> kNames = {
      "auto",      "bo",   "random",    "sobol", "grid", "halton", "tpe", "cma_es", "nsga2", "successive_halving",
      "hyperband", "asha", "harmonica", "hoag"};
  static_assert(kNames.size() == std::variant_size_v<AlgorithmSpec>);
  if (const auto* hoag = std::get_if<HoagOptions>(&algorithm)) {
    static constexpr std::array<const char*, 3> kPresets = {"hoag", "projected_gradient", "iterdiff"};
    return kPresets[static_cast<size_t>(hoag->preset)];
  }
  if (const auto* bo = std::get_if<BoOptions>(&algorithm)) {
    static constexpr std::array<const char*, 4> kPresets = {"bo", "hbo", "lbo", "fobo"};
    return kPresets[static_cast<size_t>(bo->preset)];
  }
  return kNames[algorithm.index()];
}

AlgorithmSpec AsAlgorithm(const SamplerSpec& sampler) {
  return std::visit([](const auto& options) { return AlgorithmSpec(options); }, sampler);
}

const SamplerSpec* SamplerOf(const AlgorithmSpec& algorithm) {
  if (const auto* halving = std::get_if<SuccessiveHalvingOptions>(&algorithm)) return &halving->sampler;
  if (const auto* hyperband = std::get_if<HyperbandOptions>(&algorithm)) return &hyperband->sampler;
  if (const auto* asha = std::get_if<AshaOptions>(&algorithm)) return &asha->sampler;
  return nullptr;
}

bool HasStepPattern(const CommandObjective& command, const StudySpec& spec) {
  for (const MetricSpec& metric : MetricsOf(spec)) {
    if (metric.name == kStepPattern) return false;
  }
  return command.stdout_patterns.contains(kStepPattern);
}

bool EndsWhenAnswered(const StudySpec& spec) {
  if (spec.budget.until_answered) return *spec.budget.until_answered;
  const auto* chosen = std::get_if<AutoOptions>(&spec.algorithm);
  const auto* builtin = std::get_if<BuiltinObjective>(&spec.objective);
  if (chosen == nullptr || chosen->rules < 2 || chosen->noisy.value_or(false) || builtin == nullptr) return false;
  if (spec.resource || spec.stopping || spec.open_space || spec.reproducible || !spec.metrics.empty()) return false;
  return builtin->split.folds >= 2 && !CountsRows(spec);
}

absl::Status ValidateNewSpec(const StudySpec& spec) {
  base::Violations violations;
  if (const auto* command = std::get_if<CommandObjective>(&spec.objective)) {
    for (const auto& [metric, pattern] : command->stdout_patterns) {
      violations.AddAll(PatternField(metric), OutputPattern::Compile(pattern).status());
    }
    RefuseShellLines(*command, &violations);
  }
  return violations.ToStatus();
}

bool LaidOut(const AlgorithmSpec& algorithm) {
  const SamplerSpec* const sampler = SamplerOf(algorithm);
  const std::string name = AlgorithmName(sampler != nullptr ? AsAlgorithm(*sampler) : algorithm);
  return name == "grid" || name == "harmonica" || name == "sobol" || name == "halton";
}

absl::Status ValidateSpec(const StudySpec& spec) {
  base::Violations violations;
  violations.AddAll("", ValidateText("display_name", spec.display_name, 200, false));
  violations.AddAll("", ValidateText("description", spec.description, 4000, true));
  if (spec.space.size() == 0 && !spec.open_space) violations.Add("space", "is empty; give at least one parameter");
  if (spec.open_space && spec.reproducible) {
    violations.Add("open_space", "does not go with reproducible: suggestions would depend on what others declared");
  }
  if (spec.open_space && LaidOut(spec.algorithm)) {
    violations.Add("open_space", absl::StrCat("does not go with ", AlgorithmName(spec.algorithm),
                                              ", which lays its settings out over the space from the start"));
  }
  ValidateMetrics(spec, &violations);
  if (!spec.constraints.empty() && spec.open_space) {
    violations.Add("open_space", "does not go with constraints, which name parameters; list the space instead");
  } else {
    ValidateConstraints(spec.space, spec.constraints, &violations);
  }
  std::visit([&](const auto& objective) { CheckObjective(objective, spec, &violations); }, spec.objective);
  if (const auto* command = std::get_if<CommandObjective>(&spec.objective)) {
    ValidateTemplates(*command, spec.space, &violations);
  }
  const Budget& budget = spec.budget;
  if (budget.max_trials < 1 || budget.max_trials > kMaxTrials) {
    violations.Add("budget.max_trials", absl::StrCat(budget.max_trials, " is not between 1 and ", kMaxTrials));
  }
  if (budget.max_parallel < 0 || budget.max_parallel > kMaxParallel) {
    violations.Add("budget.max_parallel",
                   absl::StrCat(budget.max_parallel, " is not between 0 (no limit) and ", kMaxParallel));
  }
  if (budget.max_failed_trials < 0) violations.Add("budget.max_failed_trials", "must be at least 0 (0: no such rule)");
  if (budget.patience < 0) violations.Add("budget.patience", "must be at least 0 (0: no such rule)");
  if (budget.max_wall && (*budget.max_wall <= absl::ZeroDuration() || *budget.max_wall > kMaxWall)) {
    violations.Add("budget.max_wall",
                   "must be above 0 and at most 87840 hours (10 years); leave it out for no such rule");
  }
  if (budget.target_value && !std::isfinite(*budget.target_value)) {
    violations.Add("budget.target_value", "must be finite; leave it out for no target");
  }
  if (spec.lease.ttl < absl::Seconds(10) || spec.lease.ttl > absl::Hours(1)) {
    violations.Add("lease.ttl", absl::StrCat(absl::FormatDuration(spec.lease.ttl), " is not between 10 s and 1 h"));
  }
  if (spec.lease.max_attempts < 1 || spec.lease.max_attempts > 100) {
    violations.Add("lease.max_attempts", absl::StrCat(spec.lease.max_attempts, " is not between 1 and 100"));
  }
  if (spec.reproducible && (budget.max_parallel < 1 || budget.max_parallel > 1000)) {
    violations.Add("reproducible",
                   "needs budget.max_parallel between 1 and 1000: it decides which results a suggestion may see");
  }
  if (!(spec.weight >= kMinWeight && spec.weight <= kMaxWeight)) {
    violations.Add("weight", absl::StrCat(spec.weight, " is not between ", kMinWeight, " and ", kMaxWeight));
  }
  violations.AddAll("", ValidateId("pool", spec.pool));
  if (spec.labels.size() > 64) violations.Add("labels", "has more than 64 entries");
  for (const auto& [key, value] : spec.labels) {
    if (key.empty() || key.size() > 64 || !ValidateText("", key, 64, false).ok()) {
      violations.Add("labels", absl::StrCat("key ", base::Quote(key), " is not 1 to 64 bytes of printable text"));
      continue;
    }
    violations.AddAll("", ValidateText("labels." + key, value, 1024, false));
  }
  if (spec.resource) CheckResource(*spec.resource, &violations);
  if (spec.stopping) {
    std::visit([&](const auto& rule) { CheckStopping(rule, spec, &violations); }, *spec.stopping);
    if (spec.reproducible) {
      violations.Add("reproducible", "does not go with stopping: what is stopped depends on who was faster");
    }
    const auto* command = std::get_if<CommandObjective>(&spec.objective);
    if (command != nullptr && !command->stdout_patterns.empty() && !HasStepPattern(*command, spec)) {
      violations.Add("objective.command.stdout_patterns",
                     "give one result at the end, but stopping needs reports on the way; add a pattern step, or print "
                     "JSON lines instead (docs/guide/command_objective.md)");
    }
  }
  return violations.ToStatus();
}

std::string FirstDifference(const StudySpec& a, const StudySpec& b) {
  if (a.display_name != b.display_name) return "display_name";
  if (a.description != b.description) return "description";
  if (a.open_space != b.open_space) return "open_space";
  if (!(a.space == b.space)) {
    const auto& x = a.space.parameters();
    const auto& y = b.space.parameters();
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!(x[i] == y[i])) return absl::StrCat("space[", i, "] (", base::Quote(x[i].name), ")");
    }
    const auto& longer = x.size() > y.size() ? x : y;
    return absl::StrCat("space (", base::Quote(longer[std::min(x.size(), y.size())].name), ")");
  }
  if (a.metric.name != b.metric.name) return "metric.name";
  if (a.metric.goal != b.metric.goal) return "metric.goal";
  if (a.metrics != b.metrics) return "metrics";
  if (!SameAlgorithm(a.algorithm, b.algorithm)) return "algorithm";
  if (!(a.objective == b.objective)) return "objective";
  if (const std::string budget = BudgetDifference(a.budget, b.budget); !budget.empty()) return budget;
  if (!(a.lease == b.lease)) return "lease";
  if (a.seed != b.seed) return "seed";
  if (a.reproducible != b.reproducible) return "reproducible";
  if (a.labels != b.labels) return "labels";
  if (a.resource != b.resource) return "resource";
  if (a.stopping != b.stopping) return "stopping";
  if (a.weight != b.weight) return "weight";
  if (a.pool != b.pool) return "pool";
  if (a.constraints != b.constraints) return "constraints";
  return "";
}

absl::Status ValidateId(absl::string_view what, absl::string_view id) {
  const auto lower_or_digit = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  bool good = !id.empty() && id.size() <= 64 && lower_or_digit(id[0]) && id.find("..") == absl::string_view::npos;
  for (const char c : id) good = good && (lower_or_digit(c) || c == '_' || c == '.' || c == '-');
  if (good) return absl::OkStatus();
  return base::BadField(what, absl::StrCat(base::Quote(id),
                                           " is not an id: lower-case letters, digits, '_', '-' and '.', starting with "
                                           "a letter or digit, at most 64 characters, no \"..\""));
}

std::string Slug(absl::string_view text) {
  std::string out;
  for (const char ch : text) {
    const auto c = static_cast<unsigned char>(ch);
    const bool keep = std::isalnum(c) || c == '_' || (c == '.' && !out.empty() && out.back() != '.');
    const char next = keep ? static_cast<char>(std::tolower(c)) : '-';
    if (next == '-' && (out.empty() || out.back() == '-')) continue;
    if (out.empty() && !std::isalnum(c)) continue;
    out += next;
    if (out.size() == 64) break;
  }
  while (!out.empty() && (out.back() == '-' || out.back() == '.')) out.pop_back();
  return out.empty() ? "study" : out;
}

size_t Utf8Length(absl::string_view text, size_t i) {
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
  const auto continues = [&](size_t k) { return k < text.size() && (byte(k) & 0xC0) == 0x80; };
  const unsigned char c = byte(i);
  if (c < 0x80) return 1;
  if (c >= 0xC2 && c <= 0xDF) return continues(i + 1) ? 2 : 0;
  if (c >= 0xE0 && c <= 0xEF) {
    if (!continues(i + 1) || !continues(i + 2)) return 0;
    if ((c == 0xE0 && byte(i + 1) < 0xA0) || (c == 0xED && byte(i + 1) > 0x9F)) return 0;
    return 3;
  }
  if (c >= 0xF0 && c <= 0xF4) {
    if (!continues(i + 1) || !continues(i + 2) || !continues(i + 3)) return 0;
    if ((c == 0xF0 && byte(i + 1) < 0x90) || (c == 0xF4 && byte(i + 1) > 0x8F)) return 0;
    return 4;
  }
  return 0;
}

absl::Status ValidateText(absl::string_view what, absl::string_view text, int max_characters, bool newlines_allowed) {
  int characters = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8Length(text, i);
    if (length == 0) return base::BadField(what, absl::StrCat("is not valid UTF-8 at byte ", i));
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c < 0x20 || c == 0x7F) && !(newlines_allowed && (c == '\n' || c == '\t'))) {
      return base::BadField(what, absl::StrCat("contains a control character at byte ", i));
    }
    i += length;
    ++characters;
  }
  if (characters > max_characters) {
    return base::BadField(what,
                          absl::StrCat("has ", characters, " characters; at most ", max_characters, " are allowed"));
  }
  return absl::OkStatus();
}

}  // namespace luthier::study
