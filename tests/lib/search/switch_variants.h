#ifndef LUTHIER_TESTS_LIB_SEARCH_SWITCH_VARIANTS_H_
#define LUTHIER_TESTS_LIB_SEARCH_SWITCH_VARIANTS_H_

#include <string>
#include <utility>
#include <vector>

#include "lib/study/study_spec.h"

// The presets of the Gaussian-process optimizer and, of each, its switches turned one at a time.
namespace luthier::search {

struct SwitchVariant {
  std::string name;
  study::BoOptions options;
};

inline std::vector<SwitchVariant> SwitchVariants() {
  using namespace study;
  std::vector<SwitchVariant> variants;
  auto add = [&](const char* name, BoPreset preset, auto change) {
    BoOptions options = BoDefaults(preset);
    change(&options);
    if (!options.noisy.has_value()) options.noisy = false;  // No probe comes between the suggestions.
    variants.push_back({name, options});
  };
  auto nothing = [](BoOptions*) {};
  add("bo", BoPreset::kBo, nothing);
  add("hbo", BoPreset::kHbo, nothing);
  add("lbo", BoPreset::kLbo, nothing);
  add("ei", BoPreset::kBo, [](BoOptions* o) { o->acquisition = BoAcquisition::kEi; });
  add("pi", BoPreset::kBo, [](BoOptions* o) { o->acquisition = BoAcquisition::kPi; });
  add("hbo_log_pi", BoPreset::kHbo, [](BoOptions* o) { o->acquisition = BoAcquisition::kLogPi; });
  add("hbo_ucb", BoPreset::kHbo, [](BoOptions* o) {
    o->acquisition = BoAcquisition::kUcb;
    o->beta_schedule = BoBeta::kKandasamy17;
  });
  add("ucb_huge_beta", BoPreset::kBo, [](BoOptions* o) {
    o->acquisition = BoAcquisition::kUcb;
    o->beta_schedule = BoBeta::kConstant;
    o->beta = 1e16;
  });
  add("ts", BoPreset::kBo, [](BoOptions* o) { o->acquisition = BoAcquisition::kTs; });
  add("ts_fourier", BoPreset::kHbo, [](BoOptions* o) {
    o->acquisition = BoAcquisition::kTs;
    o->sampler = BoSampler::kFourier;
  });
  add("lbo_ei", BoPreset::kLbo, [](BoOptions* o) { o->acquisition = BoAcquisition::kEi; });
  add("lbo_log_pi_known", BoPreset::kLbo, [](BoOptions* o) {
    o->acquisition = BoAcquisition::kLogPi;
    o->growth = BoGrowth::kKnown;
    o->lipschitz_constant = 3.0;
  });
  add("lbo_ucb_cap", BoPreset::kLbo, [](BoOptions* o) {
    o->acquisition = BoAcquisition::kUcb;
    o->lipschitz = BoLipschitz::kCap;
  });
  add("lbo_ucb_reject", BoPreset::kLbo, [](BoOptions* o) {
    o->acquisition = BoAcquisition::kUcb;
    o->lipschitz = BoLipschitz::kAcceptReject;
    o->beta_schedule = BoBeta::kDragonfly;
  });
  add("lbo_ts_reject", BoPreset::kLbo, [](BoOptions* o) {
    o->acquisition = BoAcquisition::kTs;
    o->lipschitz = BoLipschitz::kAcceptReject;
    o->growth = BoGrowth::kKnown;
    o->lipschitz_constant = 3.0;
  });
  add("hbo_farthest", BoPreset::kHbo, [](BoOptions* o) { o->exploration = BoExploration::kFarthest; });
  add("hbo_lipo_every_2", BoPreset::kHbo, [](BoOptions* o) {
    o->exploration = BoExploration::kLipo;
    o->explore_every = 2;
  });
  add("se", BoPreset::kBo, [](BoOptions* o) { o->kernel = BoKernel::kSe; });
  add("lbo_mcmc_ts", BoPreset::kLbo, [](BoOptions* o) {
    o->hyperparameters = BoHyperparameters::kMcmc;
    o->acquisition = BoAcquisition::kTs;
    o->lipschitz = BoLipschitz::kAcceptReject;
  });
  add("additive_log", BoPreset::kHbo, [](BoOptions* o) {
    o->kernel = BoKernel::kAdditive;
    o->warp = BoWarp::kLog;
  });
  add("pairwise", BoPreset::kBo, [](BoOptions* o) { o->kernel = BoKernel::kPairwise; });
  add("direct", BoPreset::kBo, [](BoOptions* o) {
    o->maximizer = BoMaximizer::kDirect;
    o->kernel = BoKernel::kMatern52;
    o->warp = BoWarp::kNone;
  });
  add("pi_believer", BoPreset::kBo, [](BoOptions* o) {
    o->pending = BoPending::kBeliever;
    o->acquisition = BoAcquisition::kPi;
  });
  add("no_steps", BoPreset::kBo, [](BoOptions* o) { o->trust_region = BoTrustRegion::kOff; });
  add("fantasies", BoPreset::kBo, [](BoOptions* o) { o->pending = BoPending::kFantasies; });
  add("fantasies_mcmc_noisy", BoPreset::kHbo, [](BoOptions* o) {
    o->pending = BoPending::kFantasies;
    o->acquisition = BoAcquisition::kEi;
    o->hyperparameters = BoHyperparameters::kMcmc;
    o->noisy = true;
  });
  add("noisy", BoPreset::kBo, [](BoOptions* o) { o->noisy = true; });
  add("hbo_mcmc_thesis", BoPreset::kHbo, [](BoOptions* o) {
    o->hyperparameters = BoHyperparameters::kMcmc;
    o->prior = BoPrior::kThesis;
    o->kernel = BoKernel::kMatern52;
    o->warp = BoWarp::kNone;
  });
  add("fobo", BoPreset::kFobo, nothing);
  add("fobo_directional_ts", BoPreset::kFobo, [](BoOptions* o) {
    o->gradients = BoGradients::kDirectional;
    o->acquisition = BoAcquisition::kTs;
  });
  add("hbo_gradients_mcmc", BoPreset::kHbo, [](BoOptions* o) {
    o->gradients = BoGradients::kFull;
    o->hyperparameters = BoHyperparameters::kMcmc;
  });
  add("lbo_noisy", BoPreset::kLbo, [](BoOptions* o) { o->noisy = true; });
  add("thesis_map", BoPreset::kBo, [](BoOptions* o) { o->prior = BoPrior::kThesis; });
  add("mcmc_ucb", BoPreset::kHbo, [](BoOptions* o) {
    o->hyperparameters = BoHyperparameters::kMcmc;
    o->acquisition = BoAcquisition::kUcb;
  });
  add("ts_fantasies", BoPreset::kBo, [](BoOptions* o) {
    o->pending = BoPending::kFantasies;
    o->acquisition = BoAcquisition::kTs;
  });
  add("mcmc_direct_log_pi", BoPreset::kBo, [](BoOptions* o) {
    o->hyperparameters = BoHyperparameters::kMcmc;
    o->acquisition = BoAcquisition::kLogPi;
    o->improvement = 0.1;
    o->maximizer = BoMaximizer::kDirect;
    o->kernel = BoKernel::kMatern52;
    o->warp = BoWarp::kNone;
  });
  return variants;
}

}  // namespace luthier::search

#endif  // LUTHIER_TESTS_LIB_SEARCH_SWITCH_VARIANTS_H_
