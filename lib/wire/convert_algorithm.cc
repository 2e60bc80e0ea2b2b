#include "lib/wire/convert_algorithm.h"

#include <google/protobuf/descriptor.h>

#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace luthier::wire {
namespace {

// Enumerations of BoOptions have the API's order; the API's have an UNSPECIFIED in front.
template <typename E>
int Number(E value) {
  return static_cast<int>(value) + 1;
}

v1::Algorithm::Bo* MutableBo(study::BoPreset preset, v1::Algorithm* proto) {
  switch (preset) {
    case study::BoPreset::kHbo:
      return proto->mutable_hbo();
    case study::BoPreset::kLbo:
      return proto->mutable_lbo();
    case study::BoPreset::kFobo:
      return proto->mutable_fobo();
    case study::BoPreset::kBo:
      break;
  }
  return proto->mutable_bo();
}

void Set(const study::BoOptions& options, v1::Algorithm* proto) {
  v1::Algorithm::Bo* out = MutableBo(options.preset, proto);
  out->set_initial_points(options.initial_points);
  out->set_noisy(options.noisy);
  out->set_explore_every(options.explore_every);
  out->set_growth_factor(options.growth_factor);
  out->set_lipschitz_constant(options.lipschitz_constant);
  out->set_beta(options.beta);
  out->set_improvement(options.improvement);
  out->set_acquisition(static_cast<v1::Algorithm::Bo::Acquisition>(Number(options.acquisition)));
  out->set_kernel(static_cast<v1::Algorithm::Bo::Kernel>(Number(options.kernel)));
  out->set_warp(static_cast<v1::Algorithm::Bo::Warp>(Number(options.warp)));
  out->set_prior(static_cast<v1::Algorithm::Bo::Prior>(Number(options.prior)));
  out->set_criterion(static_cast<v1::Algorithm::Bo::Criterion>(Number(options.criterion)));
  out->set_maximizer(static_cast<v1::Algorithm::Bo::Maximizer>(Number(options.maximizer)));
  out->set_pending(static_cast<v1::Algorithm::Bo::Pending>(Number(options.pending)));
  out->set_trust_region(static_cast<v1::Algorithm::Bo::TrustRegion>(Number(options.trust_region)));
  out->set_exploration(static_cast<v1::Algorithm::Bo::Exploration>(Number(options.exploration)));
  out->set_lipschitz(static_cast<v1::Algorithm::Bo::Lipschitz>(Number(options.lipschitz)));
  out->set_growth(static_cast<v1::Algorithm::Bo::Growth>(Number(options.growth)));
  out->set_beta_schedule(static_cast<v1::Algorithm::Bo::BetaSchedule>(Number(options.beta_schedule)));
  out->set_sampler(static_cast<v1::Algorithm::Bo::Sampler>(Number(options.sampler)));
  out->set_hyperparameters(static_cast<v1::Algorithm::Bo::Hyperparameters>(Number(options.hyperparameters)));
  out->set_gradients(static_cast<v1::Algorithm::Bo::Gradients>(Number(options.gradients)));
  out->set_feasibility(static_cast<v1::Algorithm::Bo::Feasibility>(Number(options.feasibility)));
  out->set_trust_box(static_cast<v1::Algorithm::Bo::TrustBox>(Number(options.trust_box)));
  out->set_count_history(options.count_history);
}

void Set(const study::AutoOptions& options, v1::Algorithm* proto) {
  proto->mutable_auto_()->set_noisy(options.noisy);
  proto->mutable_auto_()->set_rules(options.rules);
}

void Set(const study::RandomOptions&, v1::Algorithm* proto) {
  proto->mutable_random();
}

void Set(const study::SobolOptions& options, v1::Algorithm* proto) {
  proto->mutable_sobol()->set_scramble(options.scramble);
}

void Set(const study::GridOptions& options, v1::Algorithm* proto) {
  proto->mutable_grid()->set_levels(options.levels);
  proto->mutable_grid()->set_shuffle(options.shuffle);
  proto->mutable_grid()->set_centres(options.centres);
}

void Set(const study::CmaEsOptions& options, v1::Algorithm* proto) {
  proto->mutable_cma_es()->set_population(options.population);
  proto->mutable_cma_es()->set_initial_sigma(options.initial_sigma);
  proto->mutable_cma_es()->set_restarts(options.restarts);
}

void Set(const study::HoagOptions& options, v1::Algorithm* proto) {
  v1::Algorithm::Hoag* out = options.preset == study::HoagPreset::kHoag       ? proto->mutable_hoag()
                             : options.preset == study::HoagPreset::kIterdiff ? proto->mutable_iterdiff()
                                                                              : proto->mutable_projected_gradient();
  out->set_sequence(static_cast<v1::Algorithm::Hoag::Sequence>(Number(options.sequence)));
  out->set_first_tolerance(options.first_tolerance);
  out->set_step_rule(static_cast<v1::Algorithm::Hoag::StepRule>(Number(options.step_rule)));
  out->set_reject_guard(options.reject_guard);
  out->set_chains(options.chains);
  out->set_max_step(options.max_step);
  out->set_stop(options.stop);
}

void Set(const study::HaltonOptions& options, v1::Algorithm* proto) {
  proto->mutable_halton()->set_scramble(options.scramble);
}

void Set(const study::TpeOptions& options, v1::Algorithm* proto) {
  v1::Algorithm::Tpe* out = proto->mutable_tpe();
  out->set_startup_trials(options.startup_trials);
  out->set_candidates(options.candidates);
  out->set_multivariate(options.multivariate);
  out->set_gamma(static_cast<v1::Algorithm::Tpe::Gamma>(Number(options.gamma)));
  out->set_bandwidth(static_cast<v1::Algorithm::Tpe::Bandwidth>(Number(options.bandwidth)));
}

// Reads a field's value into `out`. UNSPECIFIED keeps the default.
template <typename E>
void ReadEnum(const std::string& path, int value, E last, const google::protobuf::EnumDescriptor* names, E* out,
              base::Violations* violations) {
  if (value == 0) return;
  if (value >= 1 && value <= Number(last)) {
    *out = static_cast<E>(value - 1);
    return;
  }
  std::vector<std::string> known;
  for (int i = 1; i < names->value_count(); ++i) known.push_back(names->value(i)->name());
  violations->Add(path, absl::StrCat("has the unknown value ", value, "; use one of ", absl::StrJoin(known, ", ")));
}

study::TpeOptions ReadTpe(const v1::Algorithm::Tpe& proto, base::Violations* violations) {
  study::TpeOptions result;
  if (proto.has_startup_trials()) result.startup_trials = proto.startup_trials();
  if (proto.has_candidates()) result.candidates = proto.candidates();
  if (proto.has_multivariate()) result.multivariate = proto.multivariate();
  ReadEnum("algorithm.tpe.gamma", proto.gamma(), study::TpeGamma::kSqrt, v1::Algorithm::Tpe::Gamma_descriptor(),
           &result.gamma, violations);
  ReadEnum("algorithm.tpe.bandwidth", proto.bandwidth(), study::TpeBandwidth::kFixed,
           v1::Algorithm::Tpe::Bandwidth_descriptor(), &result.bandwidth, violations);
  return result;
}

study::HoagOptions ReadHoag(study::HoagPreset preset, const v1::Algorithm::Hoag& proto, base::Violations* violations) {
  study::HoagOptions result = study::HoagOptionsFor(preset);
  const std::string at = absl::StrCat("algorithm.", study::AlgorithmName(result));
  ReadEnum(at + ".sequence", proto.sequence(), study::HoagSequence::kExact, v1::Algorithm::Hoag::Sequence_descriptor(),
           &result.sequence, violations);
  if (proto.has_first_tolerance()) result.first_tolerance = proto.first_tolerance();
  ReadEnum(at + ".step_rule", proto.step_rule(), study::HoagStep::kBacktracking,
           v1::Algorithm::Hoag::StepRule_descriptor(), &result.step_rule, violations);
  if (proto.has_reject_guard()) result.reject_guard = proto.reject_guard();
  if (proto.has_chains()) result.chains = proto.chains();
  if (proto.has_max_step()) result.max_step = proto.max_step();
  if (proto.has_stop()) result.stop = proto.stop();
  return result;
}

void Set(const study::SuccessiveHalvingOptions& options, v1::Algorithm* proto) {
  v1::Algorithm::SuccessiveHalving* out = proto->mutable_successive_halving();
  out->set_eta(options.eta);
  out->set_trials(options.trials);
  out->set_quorum(options.quorum);
  out->set_overlap(options.overlap);
  *out->mutable_sampler() = AlgorithmToProto(study::AsAlgorithm(options.sampler));
}

void Set(const study::HyperbandOptions& options, v1::Algorithm* proto) {
  v1::Algorithm::Hyperband* out = proto->mutable_hyperband();
  out->set_eta(options.eta);
  out->set_sizes(options.sizes == study::HyperbandSizes::kFloor ? v1::Algorithm::Hyperband::FLOOR
                                                                : v1::Algorithm::Hyperband::CEIL);
  out->set_quorum(options.quorum);
  out->set_overlap(options.overlap);
  *out->mutable_sampler() = AlgorithmToProto(study::AsAlgorithm(options.sampler));
}

void Set(const study::AshaOptions& options, v1::Algorithm* proto) {
  v1::Algorithm::Asha* out = proto->mutable_asha();
  out->set_eta(options.eta);
  out->set_variant(options.variant == study::AshaVariant::kStop ? v1::Algorithm::Asha::STOP
                                                                : v1::Algorithm::Asha::PROMOTE);
  out->set_skip_rungs(options.skip_rungs);
  out->set_first_go_on(options.first_go_on);
  *out->mutable_sampler() = AlgorithmToProto(study::AsAlgorithm(options.sampler));
}

void Set(const study::HarmonicaOptions& options, v1::Algorithm* proto) {
  v1::Algorithm::Harmonica* out = proto->mutable_harmonica();
  out->set_samples(options.samples);
  out->set_stages(options.stages);
  out->set_degree(options.degree);
  out->set_terms(options.terms);
  out->set_restrictions(options.restrictions);
  out->set_lambda(static_cast<v1::Algorithm::Harmonica::Lambda>(Number(options.lambda)));
  out->set_lambda_factor(options.lambda_factor);
  out->set_lambda_abs(options.lambda_abs);
  out->set_float_bits(options.float_bits);
  out->set_gray(options.gray);
  out->set_cell_centres(options.cell_centres);
  out->set_strict(options.strict);
  out->set_stage_resource(options.stage_resource);
  std::visit([&](const auto& base) { Set(base, out->mutable_base()); }, options.base);
}

class BoReader {
 public:
  BoReader(study::BoPreset preset, base::Violations* violations)
      : path_(absl::StrCat("algorithm.", study::AlgorithmName(study::BoDefaults(preset)), ".")),
        defaults_(study::BoDefaults(preset)),
        violations_(violations) {}

  study::BoOptions Read(const v1::Algorithm::Bo& proto);

 private:
  template <typename E>
  void Enum(const char* field, int value, E last, const google::protobuf::EnumDescriptor* names, E* out) {
    ReadEnum(absl::StrCat(path_, field), value, last, names, out, violations_);
  }

  std::string path_;
  study::BoOptions defaults_;
  base::Violations* violations_;
};

study::BoOptions BoReader::Read(const v1::Algorithm::Bo& proto) {
  study::BoOptions result = defaults_;
  result.initial_points = proto.initial_points();
  result.noisy = proto.noisy();
  if (proto.has_explore_every()) result.explore_every = proto.explore_every();
  if (proto.has_beta()) result.beta = proto.beta();
  if (proto.has_improvement()) result.improvement = proto.improvement();
  result.lipschitz_constant = proto.lipschitz_constant();
  Enum("acquisition", proto.acquisition(), study::BoAcquisition::kTs, v1::Algorithm::Bo::Acquisition_descriptor(),
       &result.acquisition);
  Enum("kernel", proto.kernel(), study::BoKernel::kPairwise, v1::Algorithm::Bo::Kernel_descriptor(), &result.kernel);
  Enum("warp", proto.warp(), study::BoWarp::kLog, v1::Algorithm::Bo::Warp_descriptor(), &result.warp);
  Enum("prior", proto.prior(), study::BoPrior::kThesis, v1::Algorithm::Bo::Prior_descriptor(), &result.prior);
  Enum("criterion", proto.criterion(), study::BoCriterion::kLeaveOneOut, v1::Algorithm::Bo::Criterion_descriptor(),
       &result.criterion);
  Enum("maximizer", proto.maximizer(), study::BoMaximizer::kDirect, v1::Algorithm::Bo::Maximizer_descriptor(),
       &result.maximizer);
  Enum("pending", proto.pending(), study::BoPending::kAuto, v1::Algorithm::Bo::Pending_descriptor(), &result.pending);
  Enum("trust_region", proto.trust_region(), study::BoTrustRegion::kOff, v1::Algorithm::Bo::TrustRegion_descriptor(),
       &result.trust_region);
  Enum("exploration", proto.exploration(), study::BoExploration::kLipo, v1::Algorithm::Bo::Exploration_descriptor(),
       &result.exploration);
  Enum("lipschitz", proto.lipschitz(), study::BoLipschitz::kCap, v1::Algorithm::Bo::Lipschitz_descriptor(),
       &result.lipschitz);
  Enum("growth", proto.growth(), study::BoGrowth::kFitted, v1::Algorithm::Bo::Growth_descriptor(), &result.growth);
  Enum("beta_schedule", proto.beta_schedule(), study::BoBeta::kConstant, v1::Algorithm::Bo::BetaSchedule_descriptor(),
       &result.beta_schedule);
  Enum("sampler", proto.sampler(), study::BoSampler::kFinite, v1::Algorithm::Bo::Sampler_descriptor(), &result.sampler);
  Enum("hyperparameters", proto.hyperparameters(), study::BoHyperparameters::kMcmc,
       v1::Algorithm::Bo::Hyperparameters_descriptor(), &result.hyperparameters);
  Enum("gradients", proto.gradients(), study::BoGradients::kDirectional, v1::Algorithm::Bo::Gradients_descriptor(),
       &result.gradients);
  Enum("feasibility", proto.feasibility(), study::BoFeasibility::kOff, v1::Algorithm::Bo::Feasibility_descriptor(),
       &result.feasibility);
  Enum("trust_box", proto.trust_box(), study::BoTrustBox::kOff, v1::Algorithm::Bo::TrustBox_descriptor(),
       &result.trust_box);
  if (proto.has_count_history()) result.count_history = proto.count_history();
  // The default suits the acquisition.
  if (result.preset == study::BoPreset::kLbo && proto.lipschitz() == v1::Algorithm::Bo::LIPSCHITZ_UNSPECIFIED) {
    if (result.acquisition == study::BoAcquisition::kUcb) result.lipschitz = study::BoLipschitz::kCap;
    if (result.acquisition == study::BoAcquisition::kTs) result.lipschitz = study::BoLipschitz::kAcceptReject;
  }
  if (proto.has_growth_factor()) {
    result.growth_factor = proto.growth_factor();
  } else if (result.growth == study::BoGrowth::kConstant || result.growth == study::BoGrowth::kLogarithmic) {
    result.growth_factor = 2.0;
  }
  return result;
}

study::HarmonicaOptions ReadHarmonica(const v1::Algorithm::Harmonica& proto, base::Violations* violations) {
  study::HarmonicaOptions result;
  result.samples = proto.samples();
  if (proto.has_stages()) result.stages = proto.stages();
  if (proto.has_degree()) result.degree = proto.degree();
  if (proto.has_terms()) result.terms = proto.terms();
  if (proto.has_restrictions()) result.restrictions = proto.restrictions();
  ReadEnum("algorithm.harmonica.lambda", proto.lambda(), study::HarmonicaLambda::kAbs,
           v1::Algorithm::Harmonica::Lambda_descriptor(), &result.lambda, violations);
  if (proto.has_lambda_factor()) result.lambda_factor = proto.lambda_factor();
  result.lambda_abs = proto.lambda_abs();
  result.float_bits = proto.float_bits();
  result.gray = proto.gray();
  result.cell_centres = proto.cell_centres();
  result.strict = proto.strict();
  result.stage_resource = proto.stage_resource();
  const v1::Algorithm::KindCase kind = proto.base().kind_case();
  if (kind == v1::Algorithm::KIND_NOT_SET) return result;
  // A nested harmonica is not read, as it may be nested without end.
  std::optional<study::HarmonicaBase> read;
  if (kind != v1::Algorithm::kHarmonica) {
    base::Violations own;
    std::visit(
        [&](const auto& options) {
          if constexpr (std::is_constructible_v<study::HarmonicaBase, decltype(options)>) read = options;
        },
        AlgorithmFromProto(proto.base(), &own));
    violations->AddMoved("algorithm", "algorithm.harmonica.base", own.ToStatus());
  }
  if (read) {
    result.base = *read;
  } else {
    violations->Add("algorithm.harmonica.base",
                    "cannot be this algorithm; use random, sobol, halton, grid, bo, hbo, lbo, fobo, tpe, cma_es, "
                    "successive_halving, hyperband or asha");
  }
  return result;
}

// Returns the sampler of an algorithm that trains in parts, whose field is `at`.
template <typename Proto>
study::SamplerSpec SamplerFrom(const Proto& proto, const std::string& at, base::Violations* violations) {
  if (!proto.has_sampler() || proto.sampler().kind_case() == v1::Algorithm::KIND_NOT_SET) return study::RandomOptions{};
  base::Violations own;
  // One level at most: nothing is read below what is refused.
  switch (proto.sampler().kind_case()) {
    case v1::Algorithm::kSuccessiveHalving:
    case v1::Algorithm::kHyperband:
    case v1::Algorithm::kAsha:
      violations->Add(at + ".sampler", "trains in parts itself; choose another, e.g. random, sobol or bo");
      return study::RandomOptions{};
    case v1::Algorithm::kHarmonica:
      violations->Add(at + ".sampler", "has stages of its own; choose another, e.g. random, tpe or bo");
      return study::RandomOptions{};
    default:
      break;
  }
  const study::AlgorithmSpec algorithm = AlgorithmFromProto(proto.sampler(), &own);
  violations->AddMoved("algorithm", at + ".sampler", own.ToStatus());
  study::SamplerSpec sampler;
  std::visit(
      [&](const auto& options) {
        if constexpr (std::is_constructible_v<study::SamplerSpec, decltype(options)>) sampler = options;
      },
      algorithm);
  return sampler;
}

study::SuccessiveHalvingOptions SuccessiveHalvingFrom(const v1::Algorithm::SuccessiveHalving& proto,
                                                      base::Violations* violations) {
  study::SuccessiveHalvingOptions result;
  if (proto.has_eta()) result.eta = proto.eta();
  result.trials = proto.trials();
  if (proto.has_quorum()) result.quorum = proto.quorum();
  if (proto.has_overlap()) result.overlap = proto.overlap();
  result.sampler = SamplerFrom(proto, "algorithm.successive_halving", violations);
  return result;
}

study::HyperbandOptions HyperbandFrom(const v1::Algorithm::Hyperband& proto, base::Violations* violations) {
  study::HyperbandOptions result;
  if (proto.has_eta()) result.eta = proto.eta();
  if (proto.has_quorum()) result.quorum = proto.quorum();
  if (proto.has_overlap()) result.overlap = proto.overlap();
  switch (proto.sizes()) {
    case v1::Algorithm::Hyperband::SIZES_UNSPECIFIED:
    case v1::Algorithm::Hyperband::CEIL:
      break;
    case v1::Algorithm::Hyperband::FLOOR:
      result.sizes = study::HyperbandSizes::kFloor;
      break;
    default:
      violations->Add(
          "algorithm.hyperband.sizes",
          absl::StrCat("has the unknown value ", static_cast<int>(proto.sizes()), "; use one of CEIL, FLOOR"));
  }
  result.sampler = SamplerFrom(proto, "algorithm.hyperband", violations);
  return result;
}

study::AshaOptions AshaFrom(const v1::Algorithm::Asha& proto, base::Violations* violations) {
  study::AshaOptions result;
  if (proto.has_eta()) result.eta = proto.eta();
  switch (proto.variant()) {
    case v1::Algorithm::Asha::VARIANT_UNSPECIFIED:
    case v1::Algorithm::Asha::PROMOTE:
      break;
    case v1::Algorithm::Asha::STOP:
      result.variant = study::AshaVariant::kStop;
      break;
    default:
      violations->Add(
          "algorithm.asha.variant",
          absl::StrCat("has the unknown value ", static_cast<int>(proto.variant()), "; use one of PROMOTE, STOP"));
  }
  result.skip_rungs = proto.skip_rungs();
  result.first_go_on = proto.first_go_on();
  result.sampler = SamplerFrom(proto, "algorithm.asha", violations);
  return result;
}

study::AutoOptions AutoFrom(const v1::Algorithm::Auto& proto, base::Violations* violations) {
  study::AutoOptions result;
  result.noisy = proto.noisy();
  if (!proto.has_rules()) return result;
  if (proto.rules() < 0 || proto.rules() > study::AutoOptions::kNewestRules) {
    violations->Add("algorithm.auto.rules", absl::StrCat(proto.rules(), " is not between 0 and ",
                                                         study::AutoOptions::kNewestRules, "; leave it out"));
  }
  result.rules = proto.rules();
  return result;
}

}  // namespace

v1::Algorithm AlgorithmToProto(const study::AlgorithmSpec& algorithm) {
  v1::Algorithm proto;
  std::visit([&](const auto& options) { Set(options, &proto); }, algorithm);
  return proto;
}

study::AlgorithmSpec AlgorithmFromProto(const v1::Algorithm& proto, base::Violations* violations) {
  switch (proto.kind_case()) {
    case v1::Algorithm::kRandom:
      return study::RandomOptions{};
    case v1::Algorithm::kSobol: {
      study::SobolOptions result;
      if (proto.sobol().has_scramble()) result.scramble = proto.sobol().scramble();
      return result;
    }
    case v1::Algorithm::kGrid: {
      study::GridOptions result;
      if (proto.grid().has_levels()) result.levels = proto.grid().levels();
      if (proto.grid().has_shuffle()) result.shuffle = proto.grid().shuffle();
      result.centres = proto.grid().centres();
      return result;
    }
    case v1::Algorithm::kCmaEs: {
      study::CmaEsOptions result;
      result.population = proto.cma_es().population();
      if (proto.cma_es().has_initial_sigma()) result.initial_sigma = proto.cma_es().initial_sigma();
      if (proto.cma_es().has_restarts()) result.restarts = proto.cma_es().restarts();
      return result;
    }
    case v1::Algorithm::kHoag:
      return ReadHoag(study::HoagPreset::kHoag, proto.hoag(), violations);
    case v1::Algorithm::kProjectedGradient:
      return ReadHoag(study::HoagPreset::kProjectedGradient, proto.projected_gradient(), violations);
    case v1::Algorithm::kIterdiff:
      return ReadHoag(study::HoagPreset::kIterdiff, proto.iterdiff(), violations);
    case v1::Algorithm::kHalton: {
      study::HaltonOptions result;
      if (proto.halton().has_scramble()) result.scramble = proto.halton().scramble();
      return result;
    }
    case v1::Algorithm::kBo:
      return BoReader(study::BoPreset::kBo, violations).Read(proto.bo());
    case v1::Algorithm::kHbo:
      return BoReader(study::BoPreset::kHbo, violations).Read(proto.hbo());
    case v1::Algorithm::kLbo:
      return BoReader(study::BoPreset::kLbo, violations).Read(proto.lbo());
    case v1::Algorithm::kFobo:
      return BoReader(study::BoPreset::kFobo, violations).Read(proto.fobo());
    case v1::Algorithm::kTpe:
      return ReadTpe(proto.tpe(), violations);
    case v1::Algorithm::kAuto:
      return AutoFrom(proto.auto_(), violations);
    case v1::Algorithm::kHarmonica:
      return ReadHarmonica(proto.harmonica(), violations);
    case v1::Algorithm::kSuccessiveHalving:
      return SuccessiveHalvingFrom(proto.successive_halving(), violations);
    case v1::Algorithm::kHyperband:
      return HyperbandFrom(proto.hyperband(), violations);
    case v1::Algorithm::kAsha:
      return AshaFrom(proto.asha(), violations);
    case v1::Algorithm::KIND_NOT_SET:
      break;
  }
  return study::AutoOptions{};
}

}  // namespace luthier::wire
