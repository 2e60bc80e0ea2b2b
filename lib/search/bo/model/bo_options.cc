#include "lib/search/bo/model/bo_options.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/study/metrics.h"

namespace luthier::search {
namespace {

constexpr int32_t kMaxInitialPoints = 10'000;
constexpr int32_t kMaxExploreEvery = 1'000'000;
constexpr int kMostModelColumns = 5'000;

// Checks the options of a study of several objectives, of which only the acquisition's defaults know.
template <typename Check>
void CheckSeveralObjectives(const study::BoOptions& options, const Check& check) {
  check(options.acquisition == study::BoAcquisition::kLogEi, "acquisition",
        "is for one objective; several take LOG_EI, which is then the expected growth of the front's hypervolume");
  check(options.gradients != study::BoGradients::kDirectional, "gradients",
        "along a direction are of one objective; with several use FULL or GRADIENTS_OFF");
  check(options.lipschitz == study::BoLipschitz::kOff && options.exploration != study::BoExploration::kLipo,
        "expert.lipschitz", "bounds the slope of one objective; with several use bo or hbo");
  check(options.hyperparameters == study::BoHyperparameters::kMap, "expert.hyperparameters",
        "MCMC is for one objective; use MAP with several");
  check(options.pending != study::BoPending::kBeliever, "expert.pending",
        "BELIEVER is for one objective; with several the outcomes of pending trials are drawn: leave it out");
}

}  // namespace

bool LearnsFromFirstGradients(const study::StudySpec& spec, const study::BoOptions& options) {
  constexpr int kFewest = 4, kMost = 20;  // Below, the design has four points anyway; above, climbs take over.
  const auto* builtin = std::get_if<study::BuiltinObjective>(&spec.objective);
  if (builtin == nullptr || absl::StartsWith(builtin->model, "function:") || spec.resource) return false;
  if (options.gradients != study::BoGradients::kFull || options.SaidNoisy() || options.initial_points != 0 ||
      options.explore_every > 0) {
    return false;
  }
  const int scalars = static_cast<int>(spec.space.differentiable().size());
  return scalars == spec.space.scalars() && scalars >= kFewest && scalars <= kMost;
}

bool FindsNoise(const study::StudySpec& spec, const study::BoOptions& options) {
  constexpr int64_t kFewestTrials = 20;
  if (!Recommends(spec, options) || options.noisy || spec.budget.max_trials < kFewestTrials) return false;
  const auto* builtin = std::get_if<study::BuiltinObjective>(&spec.objective);
  return builtin == nullptr || builtin->options.contains("noise");
}

bool Recommends(const study::StudySpec& spec, const study::BoOptions& options) {
  return options.rules >= 1 && study::ObjectiveCount(spec) == 1 && !spec.resource &&
         options.lipschitz == study::BoLipschitz::kOff && options.exploration != study::BoExploration::kLipo;
}

int InitialPoints(const study::BoOptions& options, int compact_dim) {
  return options.initial_points > 0 ? options.initial_points : std::max(4, std::min(compact_dim + 1, 20));
}

SurrogateOptions ModelsFor(const study::Encoding& encoding, const study::BoOptions& options) {
  using kernels::Family;
  using kernels::Structure;
  SurrogateOptions result;
  result.noisy = options.SaidNoisy();
  if (options.prior == study::BoPrior::kThesis) result.prior = gp::PriorKind::kThesis;
  result.sample = options.hyperparameters == study::BoHyperparameters::kMcmc;
  const std::vector<int> groups = encoding.ModelGroups();
  std::vector<std::pair<Family, Structure>> kernels;
  switch (options.kernel) {
    case study::BoKernel::kAuto:
      kernels = {{Family::kMatern52, Structure::kJoint},
                 {Family::kMatern52, Structure::kAdditive},
                 {Family::kSquaredExponential, Structure::kPairwise}};
      break;
    case study::BoKernel::kMatern52:
      kernels = {{Family::kMatern52, Structure::kJoint}};
      break;
    case study::BoKernel::kSe:
      kernels = {{Family::kSquaredExponential, Structure::kJoint}};
      break;
    case study::BoKernel::kAdditive:
      kernels = {{Family::kMatern52, Structure::kAdditive}};
      break;
    case study::BoKernel::kPairwise:
      kernels = {{Family::kSquaredExponential, Structure::kPairwise}};
      break;
  }
  std::vector<Warp> warps;
  switch (options.warp) {
    case study::BoWarp::kAuto:
      warps = {Warp::kNone, Warp::kYeoJohnson, Warp::kLog};
      break;
    case study::BoWarp::kNone:
      warps = {Warp::kNone};
      break;
    case study::BoWarp::kLog:
      warps = {Warp::kNone, Warp::kLog};
      break;
  }
  for (const auto& [family, structure] : kernels) {
    // With one parameter there is nothing to add up, so all structures are the same.
    const Structure used = encoding.compact_dim() < 2 ? Structure::kJoint : structure;
    if (kernels.size() > 1 && used != structure) continue;
    for (Warp warp : warps) {
      // A logarithm turns sums into products, which the joint kernel models.
      if (warp == Warp::kLog && structure != Structure::kJoint && kernels.size() > 1) continue;
      result.choices.push_back({kernels::GroupedShape(family, groups, used), warp});
    }
  }
  return result;
}

absl::Status ValidateBo(const study::StudySpec& spec, const study::BoOptions& options) {
  base::Violations violations;
  const std::string path = absl::StrCat("algorithm.", study::AlgorithmName(options));
  auto check = [&](bool good, const char* field, const std::string& message) {
    if (!good) violations.Add(absl::StrCat(path, ".", field), message);
  };
  check(options.initial_points >= 0 && options.initial_points <= kMaxInitialPoints, "initial_points",
        absl::StrCat(options.initial_points, " is not between 0 (chosen from the dimension) and ", kMaxInitialPoints));
  check(options.explore_every >= 0 && options.explore_every <= kMaxExploreEvery, "explore_every",
        absl::StrCat(options.explore_every, " is not between 0 (never) and ", kMaxExploreEvery));
  const bool known = options.growth == study::BoGrowth::kKnown;
  check(options.lipschitz_constant >= 0.0 && options.lipschitz_constant <= 1e300, "expert.lipschitz_constant",
        absl::StrCat(options.lipschitz_constant, " is not between 0 and 1e300"));
  check(!known || options.lipschitz_constant > 0.0, "expert.lipschitz_constant",
        "is required above 0 with growth KNOWN");
  check(options.beta >= 0.0 && options.beta <= 1e100, "expert.beta",
        absl::StrCat(options.beta, " is not between 0 and 1e100"));
  check(options.improvement >= 0.0 && options.improvement <= 10.0, "expert.improvement",
        absl::StrCat(options.improvement, " is not between 0 and 10 deviations"));
  const bool ucb = options.acquisition == study::BoAcquisition::kUcb;
  const bool draw = options.acquisition == study::BoAcquisition::kTs;
  switch (options.lipschitz) {
    case study::BoLipschitz::kOff:
      break;
    case study::BoLipschitz::kTruncate:
      check(!ucb && !draw, "expert.lipschitz",
            "TRUNCATE goes with EI and PI; use CAP or ACCEPT_REJECT with UCB, "
            "ACCEPT_REJECT with TS");
      break;
    case study::BoLipschitz::kAcceptReject:
      check(ucb || draw, "expert.lipschitz", "ACCEPT_REJECT goes with UCB and TS; use TRUNCATE with EI and PI");
      break;
    case study::BoLipschitz::kCap:
      check(ucb, "expert.lipschitz", "CAP goes with UCB; use TRUNCATE with EI and PI, ACCEPT_REJECT with TS");
      break;
  }
  check(options.pending != study::BoPending::kFantasies || options.lipschitz != study::BoLipschitz::kTruncate,
        "expert.pending", "FANTASIES goes without lipschitz TRUNCATE; use BELIEVER, or lipschitz LIPSCHITZ_OFF");
  check(options.kernel != study::BoKernel::kPairwise || study::Encoding(spec.space).compact_dim() != 1, "expert.kernel",
        "PAIRWISE needs two parameters that are tuned");
  if (study::ObjectiveCount(spec) > 1) CheckSeveralObjectives(options, check);
  const int columns = study::Encoding(spec.space).model_dim();
  if (columns > kMostModelColumns) {
    violations.Add(path, absl::StrCat("the model would have ", columns,
                                      " coordinates (a categorical parameter has one a label); at most ",
                                      kMostModelColumns, " are allowed: use fewer labels, or another algorithm"));
  }
  return violations.ToStatus();
}

}  // namespace luthier::search
