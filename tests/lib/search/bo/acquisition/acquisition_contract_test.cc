#include "tests/contract/acquisition_contract.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/gp/regression.h"
#include "lib/kernels/stationary.h"
#include "lib/search/bo/acquisition/basins.h"
#include "lib/search/bo/acquisition/fantasies.h"
#include "lib/search/bo/acquisition/feasible_acquisition.h"
#include "lib/search/bo/acquisition/hypervolume_acquisition.h"
#include "lib/search/bo/acquisition/pending_information.h"
#include "lib/search/bo/acquisition/thompson.h"
#include "lib/search/bo/acquisition/truncated.h"
#include "lib/search/bo/lipschitz/slope_bounds.h"
#include "lib/search/bo/model/feasibility.h"
#include "lib/study/encoding.h"
#include "tests/lib/study/builders.h"

namespace luthier::contract {
namespace {

using namespace search;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Thirty results on the unit square, a regression of them, and what some acquisitions need beside it.
struct Land {
  Land() : x(30, 2), open(4, 2), y(30) {
    base::RandomStream random(3, "test/land");
    for (double& v : x.reshaped()) v = random.Uniform();
    for (double& v : open.reshaped()) v = random.Uniform();
    y = (4.0 * x.col(0)).array().sin() + x.col(1).array().square();
    shape = kernels::ArdShape(kernels::Family::kMatern52, 2);
    theta.lengthscales = VectorXd::LinSpaced(2, 0.3, 0.6);
    theta.signal_variance = 1.3;
    theta.noise_variance = 1e-6;
    theta.mean = 0.2;
    model = gp::Regression::Fit(shape, theta, x, y, {}, base::StopToken()).value();
    best = y.maxCoeff();
  }

  MatrixXd x, open;
  VectorXd y;
  kernels::KernelShape shape;
  gp::Hyperparameters theta;
  std::optional<gp::Regression> model;
  double best = 0.0;
};

// Owns a land, the acquisition, and whatever else that borrows.
class OnLand final : public AcquisitionUnderTest {
 public:
  using Function = std::unique_ptr<AcquisitionFunction>;
  // `make` may keep what the function borrows in `kept`.
  using Make = std::function<Function(Land& land, std::vector<std::shared_ptr<const void>>& kept)>;
  explicit OnLand(const Make& make) : function_(make(land_, kept_)) {}
  const AcquisitionFunction& function() const override { return *function_; }

 private:
  Land land_;
  std::vector<std::shared_ptr<const void>> kept_;
  Function function_;
};

template <typename T, typename... Args>
const T* Keep(std::vector<std::shared_ptr<const void>>& kept, Args&&... args) {
  auto value = std::make_shared<T>(std::forward<Args>(args)...);
  const T* const pointer = value.get();
  kept.push_back(std::move(value));
  return pointer;
}

std::vector<AcquisitionCase> Cases() {
  std::vector<AcquisitionCase> cases;
  const auto add = [&](std::string name, OnLand::Make make) {
    cases.push_back({std::move(name), [make = std::move(make)] { return std::make_unique<OnLand>(make); }});
  };
  const std::pair<const char*, AcquisitionSettings> kinds[] = {
      {"ei", {.kind = AcquisitionKind::kExpectedImprovement}},
      {"log_ei", {.kind = AcquisitionKind::kLogExpectedImprovement}},
      {"pi", {.kind = AcquisitionKind::kProbabilityOfImprovement, .margin = kDefaultImprovementMargin}},
      {"log_pi", {.kind = AcquisitionKind::kLogProbabilityOfImprovement, .margin = kDefaultImprovementMargin}},
      {"ucb", {.kind = AcquisitionKind::kUpperConfidenceBound, .root_beta = 2.0}}};
  const auto bounds = [](Land& land, auto& kept) {
    return Keep<LipschitzBounds>(kept, land.x, land.y, 2.0 * SteepestSlope(land.x, land.y));
  };
  for (const auto& [name, settings] : kinds) {
    const AcquisitionSettings s = settings;
    add(name, [s](Land& land, auto&) {
      return std::make_unique<ModelAcquisition>(std::vector<ModelState>{{&*land.model, land.best}}, s);
    });
    add(std::string("truncated_") + name, [s, bounds](Land& land, auto& kept) {
      return std::make_unique<TruncatedAcquisition>(std::vector<ModelState>{{&*land.model, land.best}}, s,
                                                    bounds(land, kept));
    });
  }
  const AcquisitionSettings ucb = kinds[4].second;
  const auto ucb_on = [ucb](Land& land, auto& kept) {
    return Keep<ModelAcquisition>(kept, std::vector<ModelState>{{&*land.model, land.best}}, ucb);
  };
  add("accept_reject", [ucb_on, bounds](Land& land, auto& kept) {
    return std::make_unique<AcceptRejectAcquisition>(ucb_on(land, kept), bounds(land, kept));
  });
  add("fantasies", [](Land& land, auto&) {
    Fantasies fantasies =
        *Fantasize(&*land.model, land.open, {land.best, nullptr}, 8, {1, 2}, 0, base::StopToken()).value();
    return std::make_unique<FantasyAcquisition>(std::vector<Fantasies>{std::move(fantasies)}, AcquisitionSettings());
  });
  add("news", [ucb_on](Land& land, auto& kept) {
    const double level = LeastInformation(*land.model, land.open, 2.0, false);
    const AcquisitionFunction* const function = ucb_on(land, kept);
    Fantasize(&*land.model, land.open, {land.best, nullptr}, 2, {1, 2}, 0, base::StopToken()).value();
    return std::make_unique<PendingInformation>(function, std::vector<InformationLevel>{{&*land.model, level}});
  });
  add("feasible", [](Land& land, auto& kept) {
    FeasibilityData data{land.x, (0.6 - land.x.col(0).array()).sign()};
    const study::Encoding encoding(study::Space({study::Float("x", 0, 1), study::Float("y", 0, 1)}));
    const auto* const model =
        Keep<FeasibilityModel>(kept, *FeasibilityModel::Fit(data, encoding, std::nullopt, base::StopToken()).value());
    const auto* const ei = Keep<ImprovementAcquisition>(kept, &*land.model, land.best, true);
    return std::make_unique<FeasibleAcquisition>(ei, model, study::BoAcquisition::kLogEi, FailureValue(land.y));
  });
  for (const int draws : {0, 8}) {
    add(draws == 0 ? "hypervolume" : "hypervolume_of_draws", [draws](Land& land, auto& kept) {
      const VectorXd other = -land.x.rowwise().norm();
      const auto* const second = Keep<gp::Regression>(
          kept, *gp::Regression::Fit(land.shape, land.theta, land.x, other, {}, base::StopToken()).value());
      MatrixXd results(land.x.rows(), 2);
      results << land.y, other;
      const VectorXd reference = results.colwise().minCoeff();
      std::vector<MetricPosterior> posteriors;
      base::RandomStream random(4, "test/normals");
      const gp::Regression* const models[] = {&*land.model, second};
      for (const gp::Regression* const model : models) {
        MatrixXd normals(land.open.rows(), draws);
        for (double& n : normals.reshaped()) n = random.Normal();
        posteriors.push_back(draws == 0 ? MetricPosterior(model)
                                        : *MetricPosterior::Draw(model, land.open, normals, base::StopToken()).value());
      }
      std::vector<HypervolumeImprovement> improvements;
      for (int f = 0; f < std::max(draws, 1); ++f) {
        improvements.push_back(*HypervolumeImprovement::Create(results, reference));
      }
      return std::make_unique<HypervolumeAcquisition>(std::move(posteriors), std::move(improvements));
    });
  }
  add("elsewhere", [](Land& land, auto& kept) {
    gp::InferenceOptions inference;
    inference.min_noise = 1e-8;
    BasinsState carry;
    VectorXd::Index top = 0;
    land.y.maxCoeff(&top);
    carry.maxima = {static_cast<int64_t>(top) + 1};
    const double level = 0.5 * land.best;
    const auto* const elsewhere =
        Keep<OtherBasinsModel>(kept, *FitOtherBasins(land.shape, inference, {land.x, land.y, MatrixXd(0, 2), level},
                                                     &carry, base::RandomStream(1, "test/fit"), base::StopToken())
                                          .value());
    return std::make_unique<OtherBasinsAcquisition>(&*land.model, elsewhere, MatrixXd(land.x.row(top)), 0.01, true);
  });
  add("pathwise", [](Land& land, auto&) {
    return std::make_unique<FunctionDraw>(
        *FunctionDraw::Pathwise(*land.model, 256, base::RandomStream(1, "test/draw"), base::StopToken()).value());
  });
  add("fourier_features", [](Land& land, auto&) {
    return std::make_unique<FunctionDraw>(
        *FunctionDraw::FourierFeatures(*land.model, 100, base::RandomStream(1, "test/draw"), base::StopToken())
             .value());
  });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, AcquisitionContract, ::testing::ValuesIn(Cases()), AcquisitionContract::Name);

}  // namespace
}  // namespace luthier::contract
