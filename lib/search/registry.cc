#include "lib/search/registry.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/search/auto.h"
#include "lib/search/bo/bo_designer.h"
#include "lib/search/bo/model/bo_options.h"
#include "lib/search/cma_es/cma_es_designer.h"
#include "lib/search/constraints_taken.h"
#include "lib/search/grid/grid_designer.h"
#include "lib/search/harmonica/designer.h"
#include "lib/search/harmonica/plan.h"
#include "lib/search/hoag/hoag_designer.h"
#include "lib/search/legal/legal_designer.h"
#include "lib/search/metrics_taken.h"
#include "lib/search/multi_fidelity/asha_designer.h"
#include "lib/search/multi_fidelity/halving_designer.h"
#include "lib/search/multi_fidelity/rung_options.h"
#include "lib/search/nsga2/nsga2_designer.h"
#include "lib/search/portfolio/portfolio_designer.h"
#include "lib/search/quasi_random/halton_designer.h"
#include "lib/search/quasi_random/random_designer.h"
#include "lib/search/quasi_random/sobol_designer.h"
#include "lib/search/tpe/tpe_designer.h"
#include "lib/search/untried.h"
#include "lib/study/metrics.h"

namespace luthier::search {
namespace {

// Limits of the number of scalars of a space.
constexpr int kMostWithoutGradients = 1000;
constexpr int kFewWithGradients = 20;

struct Entry {
  AlgorithmInfo info;
  absl::Status (*validate)(const study::StudySpec&);
  std::unique_ptr<Designer> (*create)(const study::StudySpec&);
  // Returns the derivatives that its suggestions depend on, in a space that has some.
  study::GradientUse (*gradients)(const study::StudySpec&);
  // True if it suggests settings without regard to those tried; UntriedDesigner then replaces repetitions.
  bool repeats = false;
};

study::GradientUse ReadsNone(const study::StudySpec&) {
  return study::GradientUse::kNone;
}

study::GradientUse ReadsFull(const study::StudySpec&) {
  return study::GradientUse::kFull;
}

study::GradientUse ReadsAsOptionSays(const study::StudySpec& spec) {
  switch (std::get<study::BoOptions>(spec.algorithm).gradients) {
    case study::BoGradients::kOff:
      return study::GradientUse::kNone;
    case study::BoGradients::kFull:
      return study::GradientUse::kFull;
    case study::BoGradients::kDirectional:
      return study::GradientUse::kDirectional;
  }
  LUTHIER_CHECK(false);
}

study::GradientUse ReadsAsSamplerDoes(const study::StudySpec& spec) {
  study::StudySpec nested = spec;
  nested.algorithm = study::AsAlgorithm(*study::SamplerOf(spec.algorithm));
  return GradientUseOf(nested);
}

study::GradientUse ReadsAsChoiceDoes(const study::StudySpec& spec) {
  study::StudySpec chosen = spec;
  chosen.algorithm = Resolve(spec).algorithm;
  return GradientUseOf(chosen);
}

// The base sees results without their gradients, unless there are no stages.
study::GradientUse ReadsAsBaseDoesAlone(const study::StudySpec& spec) {
  const auto& options = std::get<study::HarmonicaOptions>(spec.algorithm);
  const HarmonicaPlan plan = PlanHarmonica(spec, options);
  return plan.staged ? study::GradientUse::kNone : GradientUseOf(BaseStudy(spec, options, plan));
}

bool AnyDerivative(const study::SearchSpace& space) {
  const std::vector<study::Scalar>& differentiable = space.differentiable();
  return std::any_of(differentiable.begin(), differentiable.end(), [&](const study::Scalar& scalar) {
    const auto& range = std::get<study::FloatRange>(space.parameters()[static_cast<size_t>(scalar.parameter)].domain);
    return range.min < range.max;
  });
}

absl::Status NothingToValidate(const study::StudySpec&) {
  return absl::OkStatus();
}

template <typename Options, absl::Status (*validate)(const study::StudySpec&, const Options&)>
absl::Status ValidateWith(const study::StudySpec& spec) {
  return validate(spec, std::get<Options>(spec.algorithm));
}

template <typename Options, absl::Status (*validate)(const study::StudySpec&, const Options&, const NestedAlgorithms&)>
absl::Status ValidateNested(const study::StudySpec& spec) {
  return validate(spec, std::get<Options>(spec.algorithm), AllAlgorithms());
}

template <typename D>
std::unique_ptr<Designer> Create(const study::StudySpec& spec) {
  return std::make_unique<D>(spec);
}

template <typename D, typename Options>
std::unique_ptr<Designer> CreateWith(const study::StudySpec& spec) {
  return std::make_unique<D>(spec, std::get<Options>(spec.algorithm));
}

template <typename D, typename Options>
std::unique_ptr<Designer> CreateNested(const study::StudySpec& spec) {
  return std::make_unique<D>(spec, std::get<Options>(spec.algorithm), AllAlgorithms());
}

std::unique_ptr<Designer> CreateAuto(const study::StudySpec& spec) {
  const AutoChoice choice = ChooseAlgorithm(spec, std::get<study::AutoOptions>(spec.algorithm));
  study::StudySpec chosen = spec;
  chosen.algorithm = choice.algorithm;
  chosen.budget.until_answered = study::EndsWhenAnswered(spec);
  if (choice.members.empty()) return CreateDesigner(chosen);
  return std::make_unique<PortfolioDesigner>(chosen, choice.members, AllAlgorithms());
}

std::unique_ptr<Designer> CreateHarmonica(const study::StudySpec& spec);

// Stands for the options that few need.
constexpr std::pair<const char*, const char*> kExpert = {"expert", "options that few need: docs/reference/expert.md"};

// Returns the entry of one preset of HOAG.
Entry HoagEntry(const char* name, int version, const char* description) {
  return Entry{AlgorithmInfo{name,
                             version,
                             description,
                             true,
                             {{"chains", "descents from different starts, side by side; default 1"}, kExpert}},
               ValidateWith<study::HoagOptions, ValidateHoag>, CreateWith<HoagDesigner, study::HoagOptions>, ReadsFull};
}

Entry BoEntry(const char* name, const char* description) {
  return Entry{
      AlgorithmInfo{
          name,
          21,
          description,
          true,
          {{"initial_points", "quasi-random settings before the model is used; 0: max(4, min(d+1, 20))"},
           {"acquisition", "LOG_EI (default), EI, PI, LOG_PI, UCB or TS"},
           {"noisy", "whether the same setting may give different values; default: found out"},
           {"explore_every", "every so many trials one explores; 0: none; default 4 in hbo and lbo, 0 in bo"},
           {"gradients", "that trials report: GRADIENTS_OFF, FULL (default in fobo) or DIRECTIONAL: one slope a trial"},
           kExpert}},
      ValidateWith<study::BoOptions, ValidateBo>, CreateWith<BoDesigner, study::BoOptions>, ReadsAsOptionSays};
}

// Options of the multi-fidelity algorithms.
constexpr std::pair<const char*, const char*> kEta = {"eta", "one in eta goes on from rung to rung; default 3"};
constexpr std::pair<const char*, const char*> kSampler = {
    "sampler",
    "where new settings come from: random (default), sobol, bo, …; it sees the highest rung with enough results"};

Entry AshaEntry() {
  return Entry{
      AlgorithmInfo{"asha",
                    3,
                    "asynchronous successive halving: trains many settings a little, the best of them on; needs a "
                    "resource",
                    true,
                    {kEta,
                     {"variant", "PROMOTE (default): trials pause at rungs; STOP: those below the best end there"},
                     kSampler}},
      ValidateNested<study::AshaOptions, ValidateAsha>, CreateNested<AshaDesigner, study::AshaOptions>,
      ReadsAsSamplerDoes};
}

Entry CmaEsEntry() {
  return Entry{AlgorithmInfo{"cma_es",
                             2,
                             "CMA-ES: an evolution strategy for hundreds of trials of numbers",
                             true,
                             {{"population", "settings of a generation; 0 (default): 4 + 3 ln d"}, kExpert}},
               ValidateWith<study::CmaEsOptions, ValidateCmaEs>, CreateWith<CmaEsDesigner, study::CmaEsOptions>,
               ReadsNone,
               /*repeats=*/true};
}

Entry HarmonicaEntry() {
  return Entry{
      AlgorithmInfo{"harmonica",
                    3,
                    "sparse polynomials of switches: stages of random settings fix the parameters that matter most",
                    true,
                    {{"samples", "settings of each stage; default 300, less where the budget is small"},
                     {"stages", "1 to 5; default 2"},
                     {"stage_resource", "step up to which samples of stages are trained; 0 (default): to the end"},
                     {"base",
                      "the algorithm after the stages, on what they leave: random (default), sobol, halton, grid, tpe, "
                      "cma_es, a bo, successive_halving, hyperband or asha"},
                     kExpert}},
      ValidateNested<study::HarmonicaOptions, ValidateHarmonica>, CreateHarmonica, ReadsAsBaseDoesAlone,
      /*repeats=*/true};
}

Entry HyperbandEntry() {
  return Entry{AlgorithmInfo{"hyperband",
                             2,
                             "brackets of successive halving, from many settings to few; needs a resource",
                             true,
                             {kEta, kSampler}},
               ValidateNested<study::HyperbandOptions, ValidateHyperband>,
               CreateNested<HalvingDesigner, study::HyperbandOptions>, ReadsAsSamplerDoes};
}

Entry Nsga2Entry() {
  return Entry{AlgorithmInfo{"nsga2",
                             1,
                             "NSGA-II: a genetic algorithm, for several objectives and thousands of cheap trials",
                             true,
                             {{"population", "trials of which parents are taken; 0 (default): 40"}}},
               ValidateWith<study::Nsga2Options, ValidateNsga2>, CreateWith<Nsga2Designer, study::Nsga2Options>,
               ReadsNone,
               /*repeats=*/true};
}

Entry SuccessiveHalvingEntry() {
  return Entry{
      AlgorithmInfo{"successive_halving",
                    2,
                    "trains many settings a little and the best of each rung on, in brackets; needs a resource",
                    true,
                    {kEta,
                     {"trials", "settings in a bracket; 0 (default): eta^s, s halvings from resource.min to max"},
                     kSampler}},
      ValidateNested<study::SuccessiveHalvingOptions, ValidateSuccessiveHalving>,
      CreateNested<HalvingDesigner, study::SuccessiveHalvingOptions>, ReadsAsSamplerDoes};
}

Entry TpeEntry() {
  return Entry{AlgorithmInfo{"tpe",
                             2,
                             "tree-structured Parzen estimator: like the good settings, unlike the others",
                             true,
                             {{"startup_trials", "results before the densities are used; default 10"},
                              {"candidates", "settings drawn from the good density for each suggestion; default 24"},
                              {"multivariate", "one density for parameters that exist together; default true"}}},
               ValidateWith<study::TpeOptions, ValidateTpe>, CreateWith<TpeDesigner, study::TpeOptions>, ReadsNone,
               /*repeats=*/true};
}

// The one list of algorithms, in order of name. A new one is one entry here.
const std::vector<Entry>& Entries() {
  static const std::vector<Entry> entries = {
      AshaEntry(),
      Entry{
          AlgorithmInfo{"auto",
                        17,
                        "chosen from space, objective and noise; the default",
                        true,
                        {{"noisy", "whether the same setting may give different values; default: found out"}, kExpert}},
          NothingToValidate, CreateAuto, ReadsAsChoiceDoes},
      BoEntry("bo", "Bayesian optimization: a Gaussian process proposes settings"),
      CmaEsEntry(),
      BoEntry("fobo", "first-order Bayesian optimization: uses the gradients that trials report"),
      Entry{AlgorithmInfo{"grid",
                          1,
                          "every combination of levels, in shuffled order; ends when all were tried",
                          false,
                          {{"levels", "points along each continuous parameter, both ends included; default 10"},
                           {"shuffle", "visit the grid in a seeded random order; default true"},
                           kExpert}},
            ValidateWith<study::GridOptions, ValidateGrid>, CreateWith<GridDesigner, study::GridOptions>, ReadsNone},
      Entry{AlgorithmInfo{"halton",
                          2,
                          "quasi-random settings: Halton's sequence with permuted digits",
                          false,
                          {{"scramble", "permute the digits by the study's seed; default true"}}},
            NothingToValidate, CreateWith<HaltonDesigner, study::HaltonOptions>, ReadsNone,
            /*repeats=*/true},
      HarmonicaEntry(),
      BoEntry("hbo", "harmless Bayesian optimization: every fourth trial is random search's own"),
      HoagEntry("hoag", 2,
                "descents along the gradients that trials report, with tolerances that shrink: for hundreds of floats"),
      HyperbandEntry(),
      HoagEntry("iterdiff", 2, "descents along gradients of unrolled training"),
      BoEntry("lbo", "Lipschitz Bayesian optimization: leaves out what bounds on the slope rule out"),
      Nsga2Entry(),
      HoagEntry("projected_gradient", 1, "gradient descent with exact gradients and backtracking, inside the ranges"),
      Entry{AlgorithmInfo{"random", 2, "independent uniform settings", false, {}}, NothingToValidate,
            Create<RandomDesigner>, ReadsNone, /*repeats=*/true},
      Entry{AlgorithmInfo{"sobol",
                          2,
                          "quasi-random settings that cover the space more evenly than random ones",
                          false,
                          {{"scramble", "randomize the sequence by the study's seed; default true"}}},
            NothingToValidate, CreateWith<SobolDesigner, study::SobolOptions>, ReadsNone, /*repeats=*/true},
      SuccessiveHalvingEntry(),
      TpeEntry(),
  };
  return entries;
}

const Entry& EntryOf(const study::AlgorithmSpec& algorithm) {
  const std::string name = study::AlgorithmName(algorithm);
  for (const Entry& entry : Entries()) {
    if (entry.info.name == name) return entry;
  }
  LUTHIER_CHECK(false && "an algorithm of the study spec is missing in the registry");
  return Entries().front();
}

bool SkipsTried(const study::StudySpec& spec) {
  return EntryOf(spec.algorithm).repeats && !AddsNoise(spec) && spec.space.size() > 0 && IsFinite(spec.space);
}

// Returns true if the newest version of the study's algorithm makes other suggestions than the version before. The
// newest version repeats no setting in spaces without ranges, and lets the optimizer step along the first of many
// gradients.
bool NewestDiffers(const study::StudySpec& spec) {
  study::StudySpec other = spec;
  if (std::holds_alternative<study::AutoOptions>(spec.algorithm)) {
    other.algorithm = Resolve(spec).algorithm;
    return NewestDiffers(other);
  }
  if (const study::SamplerSpec* const sampler = study::SamplerOf(spec.algorithm); sampler != nullptr) {
    other.algorithm = study::AsAlgorithm(*sampler);
    return NewestDiffers(other);
  }
  if (const auto* const bo = std::get_if<study::BoOptions>(&spec.algorithm)) {
    const int scalars = spec.space.scalars();
    return scalars > kMostWithoutGradients ||
           (scalars > kFewWithGradients && bo->gradients == study::BoGradients::kFull);
  }
  // The newest CMA-ES ignores samples that an open space changed.
  return SkipsTried(spec) || (spec.open_space && std::holds_alternative<study::CmaEsOptions>(spec.algorithm));
}

// Returns true if the algorithm, or that which it takes settings from, hands a model on from ask to ask.
bool HandsModelOn(const study::AlgorithmSpec& algorithm) {
  if (const study::SamplerSpec* const sampler = study::SamplerOf(algorithm); sampler != nullptr) {
    return HandsModelOn(study::AsAlgorithm(*sampler));
  }
  return std::holds_alternative<study::BoOptions>(algorithm) || std::holds_alternative<study::AutoOptions>(algorithm);
}

// Returns true if a model of Harmonica's base may have been lost in versions before the newest, which stored no base's
// state where all of it took more than 16 KiB as a text. Up to this number of scalars it never does.
bool BaseOutgrewText(const study::StudySpec& spec, const study::HarmonicaOptions& options) {
  constexpr int kScalarsThatFit = 50;
  return spec.space.scalars() > kScalarsThatFit && HandsModelOn(BaseAlgorithm(options));
}

bool FirstGradientsCount(const study::StudySpec& spec) {
  if (std::holds_alternative<study::AutoOptions>(spec.algorithm)) {
    study::StudySpec other = spec;
    other.algorithm = Resolve(spec).algorithm;
    return FirstGradientsCount(other);
  }
  const auto* const bo = std::get_if<study::BoOptions>(&spec.algorithm);
  return bo != nullptr && LearnsFromFirstGradients(spec, *bo);
}

// With `skip_tried` as search::CreateDesigner and search::UsesHistory, else the algorithm alone.
class Nested final : public NestedAlgorithms {
 public:
  explicit Nested(bool skip_tried) : skip_tried_(skip_tried) {}

  absl::Status Validate(const study::StudySpec& spec) const override { return search::Validate(spec); }
  bool UsesHistory(const study::StudySpec& spec) const override {
    return skip_tried_ ? search::UsesHistory(spec) : InfoOf(spec.algorithm).uses_history;
  }
  std::unique_ptr<Designer> Create(const study::StudySpec& spec) const override {
    return skip_tried_ ? CreateDesigner(spec) : EntryOf(spec.algorithm).create(spec);
  }

 private:
  const bool skip_tried_;
};

// Checks that a study can be told to end once it is answered.
absl::Status CheckUntilAnswered(const study::StudySpec& spec) {
  const auto refuse = [](absl::string_view why) {
    return base::BadField("budget.until_answered",
                          absl::StrCat(why,
                                       "; leave it out, or use budget.patience to end after so many trials "
                                       "without a better value"));
  };
  const auto* bo = std::get_if<study::BoOptions>(&spec.algorithm);
  const auto* chosen = std::get_if<study::AutoOptions>(&spec.algorithm);
  if (bo == nullptr && chosen == nullptr) {
    return refuse(
        absl::StrCat("needs the model of auto or bo, and ", study::AlgorithmName(spec.algorithm), " has none"));
  }
  if ((bo != nullptr ? bo->noisy : chosen->noisy).value_or(false))
    return refuse("results are said to be noisy, so no model is sure enough");
  if (bo != nullptr && bo->hyperparameters == study::BoHyperparameters::kMcmc) {
    return refuse("needs one model; hyperparameters: MCMC has several");
  }
  if (!spec.metrics.empty()) return refuse("is for one metric without bounds");
  if (study::CountsRows(spec)) {
    return refuse(absl::StrCat(spec.metric.name,
                               " counts rows, so it moves in steps, which no model bounds "
                               "(a validation_loss can be used)"));
  }
  if (spec.resource) return refuse("trials with a resource end on the way, so their results do not judge settings");
  if (spec.stopping) return refuse("stopped trials have no final result");
  if (spec.open_space) return refuse("an open space may grow at any time");
  if (spec.reproducible) return refuse("a study with reproducible does not look at all results");
  return absl::OkStatus();
}

// The base sees its history in its own coordinates, which is costly, so tried settings are skipped in the study's
// coordinates.
std::unique_ptr<Designer> CreateHarmonica(const study::StudySpec& spec) {
  static const Nested plain(/*skip_tried=*/false);
  return std::make_unique<HarmonicaDesigner>(spec, std::get<study::HarmonicaOptions>(spec.algorithm), plain);
}

}  // namespace

const std::vector<AlgorithmInfo>& Algorithms() {
  static const std::vector<AlgorithmInfo> algorithms = [] {
    std::vector<AlgorithmInfo> infos;
    for (const Entry& entry : Entries()) infos.push_back(entry.info);
    return infos;
  }();
  return algorithms;
}

const AlgorithmInfo& InfoOf(const study::AlgorithmSpec& algorithm) {
  return EntryOf(algorithm).info;
}

namespace {

// Resolves the algorithm of a study that has all of its options.
Resolution ResolveOptions(const study::StudySpec& spec) {
  if (const auto* options = std::get_if<study::AutoOptions>(&spec.algorithm)) {
    AutoChoice choice = ChooseAlgorithm(spec, *options);
    return {std::move(choice.algorithm), std::move(choice.reasons)};
  }
  if (const auto* options = std::get_if<study::HarmonicaOptions>(&spec.algorithm)) {
    HarmonicaPlan plan = PlanHarmonica(spec, *options);
    return {plan.staged ? spec.algorithm : BaseAlgorithm(*options), std::move(plan.notes)};
  }
  return {spec.algorithm, {}};
}

}  // namespace

Resolution Resolve(const study::StudySpec& spec) {
  Resolution resolution = ResolveOptions(spec);
  for (const std::string& option : spec.removed_options) {
    resolution.reasons.push_back(absl::StrCat(option, " is no option any more: suggestions are made without it"));
  }
  return resolution;
}

study::GradientUse GradientUseOf(const study::StudySpec& spec) {
  if (!AnyDerivative(spec.space)) return study::GradientUse::kNone;
  return EntryOf(spec.algorithm).gradients(spec);
}

study::GradientUse GradientUseOf(study::GradientUse of_study, const study::Provenance& provenance) {
  if (!provenance.direction.empty()) return study::GradientUse::kDirectional;
  if (of_study != study::GradientUse::kDirectional) return of_study;
  // If a suggestion asks for no slope, no active parameter can be differentiated.
  return provenance.ask_index ? study::GradientUse::kNone : study::GradientUse::kFull;
}

absl::Status Validate(const study::StudySpec& spec) {
  const Entry& entry = EntryOf(spec.algorithm);
  if (spec.budget.until_answered.value_or(false)) LUTHIER_RETURN_IF_ERROR(CheckUntilAnswered(spec));
  if (spec.space.scalars() > kMostWithoutGradients && GradientUseOf(spec) == study::GradientUse::kNone) {
    return base::BadField("algorithm", absl::StrCat(entry.info.name, " uses no gradients here and takes at most ",
                                                    kMostWithoutGradients, " scalars; the space has ",
                                                    spec.space.scalars(), ": use bo, fobo or auto with an objective ",
                                                    "that reports gradients, or shorten the vectors"));
  }
  const bool chosen = std::holds_alternative<study::AutoOptions>(spec.algorithm) && !spec.metrics.empty();
  LUTHIER_RETURN_IF_ERROR(CheckMetrics(spec, chosen ? Resolve(spec).algorithm : spec.algorithm));
  if (!spec.constraints.empty()) {
    const bool automatic = std::holds_alternative<study::AutoOptions>(spec.algorithm);
    LUTHIER_RETURN_IF_ERROR(CheckConstraints(spec, automatic ? Resolve(spec).algorithm : spec.algorithm));
  }
  return entry.validate(spec);
}

int VersionOf(const study::StudySpec& spec) {
  if (!spec.removed_options.empty()) return 0;  // No version ever made suggestions with only the options that remain.
  const int newest = InfoOf(spec.algorithm).version;
  // The newest HOAG steps by curvature, and backtracking goes on as it did.
  if (const auto* const hoag = std::get_if<study::HoagOptions>(&spec.algorithm); hoag != nullptr) {
    return hoag->step_rule == study::HoagStep::kBacktracking ? 1 : newest;
  }
  // The change below made no new version of these algorithms.
  const bool older = std::holds_alternative<study::GridOptions>(spec.algorithm) ||
                     std::holds_alternative<study::Nsga2Options>(spec.algorithm);
  if (older) return newest;
  if (const auto* const harmonica = std::get_if<study::HarmonicaOptions>(&spec.algorithm); harmonica != nullptr) {
    return BaseOutgrewText(spec, *harmonica) ? newest : newest - (NewestDiffers(spec) ? 1 : 2);
  }
  const bool optimizer = std::holds_alternative<study::AutoOptions>(spec.algorithm) ||
                         std::holds_alternative<study::BoOptions>(spec.algorithm);
  if (!optimizer) return newest - (NewestDiffers(spec) ? 0 : 1);
  // The newest version is for studies whose labels keep a floor of trials; the one before it for older ones that do not
  // repeat settings; the next for older ones that find out whether results are noisy; the next for older studies with
  // several metrics, of which its suggestions tell more; the next for studies that learn from their first gradients,
  // and the two before that for studies with many gradients.
  const auto* const bo = std::get_if<study::BoOptions>(&spec.algorithm);
  const auto* const chosen = std::get_if<study::AutoOptions>(&spec.algorithm);
  if ((bo != nullptr && bo->rules >= 3) || (chosen != nullptr && chosen->rules >= 5)) return newest;
  if ((bo != nullptr && bo->rules >= 2) || (chosen != nullptr && chosen->rules >= 4)) return newest - 1;
  if ((bo != nullptr && bo->rules >= 1) || (chosen != nullptr && chosen->rules >= 3)) return newest - 2;
  if (!spec.metrics.empty()) return newest - 3;
  if (FirstGradientsCount(spec)) return newest - 4;
  return newest - (NewestDiffers(spec) ? 5 : 7);
}

bool UsesHistory(const study::StudySpec& spec) {
  return InfoOf(spec.algorithm).uses_history || SkipsTried(spec);
}

std::unique_ptr<Designer> CreateDesigner(const study::StudySpec& spec) {
  std::unique_ptr<Designer> designer = EntryOf(spec.algorithm).create(spec);
  if (!spec.constraints.empty()) designer = std::make_unique<LegalDesigner>(spec, std::move(designer));
  if (!SkipsTried(spec)) return designer;
  return std::make_unique<UntriedDesigner>(spec, std::move(designer));
}

const NestedAlgorithms& AllAlgorithms() {
  static const Nested all(/*skip_tried=*/true);
  return all;
}

}  // namespace luthier::search
