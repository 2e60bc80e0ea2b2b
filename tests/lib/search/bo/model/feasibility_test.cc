#include "lib/search/bo/model/feasibility.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/math/finite_difference.h"
#include "lib/search/bo/acquisition/feasible_acquisition.h"
#include "tests/lib/search/bo/bo_testing.h"
#include "tests/lib/search/bo/state_testing.h"

namespace luthier::search {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using study::BoAcquisition;
using study::BoOptions;

const BoAcquisition kAcquisitions[] = {BoAcquisition::kLogEi, BoAcquisition::kEi,  BoAcquisition::kPi,
                                       BoAcquisition::kLogPi, BoAcquisition::kUcb, BoAcquisition::kTs};

study::SearchSpace Square() {
  return Space({Float("x0", 0, 1), Float("x1", 0, 1)});
}

struct Outcome {
  int failed = 0;  // Of the asks beyond the first 40.
  double best = INFINITY;
};

// Asks `asks` times; `fails` says which settings fail.
Outcome Play(const BoOptions& options, int asks, uint64_t seed, const std::function<double(const VectorXd&)>& loss,
             const std::function<bool(const VectorXd&, int)>& fails, study::SearchSpace space = Square()) {
  MemoryStudy study(BoSpec(std::move(space), seed, options));
  Outcome outcome;
  for (int i = 0; i < asks; ++i) {
    const std::vector<double> point = Point(study.Ask().parameters);
    const VectorXd x = Eigen::Map<const VectorXd>(point.data(), static_cast<Index>(point.size()));
    if (fails(x, i)) {
      study.Fail(study.newest(), study::FailureKind::kConfig);
      if (i >= 40) ++outcome.failed;
      continue;
    }
    study.Complete(study.newest(), loss(x));
    outcome.best = std::min(outcome.best, loss(x));
  }
  return outcome;
}

BoOptions With(BoAcquisition acquisition) {
  BoOptions options;
  options.acquisition = acquisition;
  options.kernel = study::BoKernel::kMatern52;
  return options;
}

TEST(Feasibility, AFailingHalfIsAvoided) {
  for (const BoAcquisition acquisition :
       {BoAcquisition::kLogEi, BoAcquisition::kPi, BoAcquisition::kUcb, BoAcquisition::kTs}) {
    int failed = 0;
    for (uint64_t seed = 0; seed < 2; ++seed) {
      const auto fails = [](const VectorXd& x, int) { return x(0) > 0.5; };
      const auto bowl = [](const VectorXd& x) { return (x.array() - 0.3).square().sum(); };
      const Outcome outcome = Play(With(acquisition), 70, seed, bowl, fails);
      EXPECT_LT(outcome.best, 1e-6);
      failed += outcome.failed;
    }
    RecordProperty("failed_" + std::to_string(static_cast<int>(acquisition)), failed);
    EXPECT_LE(failed, 6);  // Of 60.
  }
}

// The best settings are those next to the failing ones.
TEST(Feasibility, ABorderIsApproached) {
  for (uint64_t seed = 0; seed < 2; ++seed) {
    const auto fails = [](const VectorXd& x, int) { return x(0) > 0.47; };
    const auto slope = [](const VectorXd& x) { return 0.47 - x(0) + (x(1) - 0.4) * (x(1) - 0.4); };
    EXPECT_LT(Play(With(BoAcquisition::kLogEi), 60, seed, slope, fails).best, 0.01);
  }
}

TEST(Feasibility, ADiscIsFoundAndSearched) {
  for (const BoAcquisition acquisition : {BoAcquisition::kLogEi, BoAcquisition::kTs}) {
    for (uint64_t seed = 0; seed < 2; ++seed) {
      const VectorXd centre = VectorXd::Constant(2, 0.6);
      const auto fails = [&](const VectorXd& x, int) { return (x - centre).norm() > 0.3; };
      const auto loss = [&](const VectorXd& x) { return (x(0) - 0.55) * (x(0) - 0.55) + (x(1) - 0.7) * (x(1) - 0.7); };
      const Outcome outcome = Play(With(acquisition), 60, seed, loss, fails);
      EXPECT_LT(outcome.best, 1e-6);
      EXPECT_LE(outcome.failed, 8);  // Of 20.
    }
  }
}

TEST(Feasibility, RandomFailuresDoNotStopTheSearch) {
  for (const double rate : {0.1, 0.3}) {
    for (const BoAcquisition acquisition : {BoAcquisition::kLogEi, BoAcquisition::kTs}) {
      for (uint64_t seed = 0; seed < 2; ++seed) {
        base::RandomStream stream(seed, "test/failures");
        std::vector<bool> bad;
        for (int i = 0; i < 60; ++i) bad.push_back(stream.Uniform() < rate);
        const auto fails = [&](const VectorXd&, int i) { return static_cast<bool>(bad[static_cast<size_t>(i)]); };
        const auto branin = [](const VectorXd& x) { return Branin({15 * x(0) - 5, 15 * x(1)}) - 0.39788735772973816; };
        EXPECT_LT(Play(With(acquisition), 60, seed, branin, fails).best, 0.1);
      }
    }
  }
}

TEST(Feasibility, SaysHowLikelyASuccessIs) {
  MemoryStudy study(BoSpec(Square(), 1));
  for (int i = 0; i < 8; ++i) {
    const Suggestion s = study.Ask();
    i % 2 == 0 ? study.Complete(study.newest(), Point(s.parameters)[0])
               : study.Fail(study.newest(), study::FailureKind::kConfig);
  }
  const Suggestion s = study.Ask();
  ASSERT_TRUE(s.details.contains("p_feasible"));
  EXPECT_GT(s.details.at("p_feasible"), 0.0);
  EXPECT_LT(s.details.at("p_feasible"), 1.0);
}

// Values -u'u, so that logarithms go from 0 to far below where c begins to count.
class Bowl final : public AcquisitionFunction {
 public:
  explicit Bowl(double scale, bool exponential) : scale_(scale), exponential_(exponential) {}
  VectorXd Values(const Eigen::Ref<const MatrixXd>& u) const override {
    VectorXd values(u.rows());
    for (Index i = 0; i < u.rows(); ++i) values(i) = Value(u.row(i).transpose(), nullptr);
    return values;
  }
  double Value(const VectorXd& u, VectorXd* gradient) const override {
    const double t = -scale_ * u.squaredNorm(), value = exponential_ ? std::exp(t) : t;
    if (gradient != nullptr) *gradient = (exponential_ ? value : 1.0) * -2.0 * scale_ * u;
    return value;
  }

 private:
  double scale_;
  bool exponential_;
};

TEST(Feasibility, WeightedGradientsMatchDifferences) {
  const study::Encoding encoding(Square());
  FeasibilityData data;
  base::RandomStream stream(3, "test/weighted");
  data.points.resize(30, 2);
  for (double& v : data.points.reshaped()) v = stream.Uniform();
  data.labels = (0.6 - data.points.col(0).array()).sign();
  const std::optional<FeasibilityModel> model =
      FeasibilityModel::Fit(data, encoding, std::nullopt, base::StopToken()).value();
  ASSERT_TRUE(model.has_value());
  // What it carries gives the same model, without a search.
  const std::optional<FeasibilityModel> again =
      FeasibilityModel::Fit(data, encoding, model->next(), base::StopToken()).value();
  EXPECT_EQ(BytesOf(model->next()), BytesOf(again->next()));
  for (const BoAcquisition kind : kAcquisitions) {
    const bool plain = kind == BoAcquisition::kEi || kind == BoAcquisition::kPi;
    for (const double scale : {1.0, 15.0}) {
      const Bowl bowl(scale, plain);
      const FeasibleAcquisition weighted(&bowl, &*model, kind, -0.5);
      for (int k = 0; k < 10; ++k) {
        VectorXd u(2), gradient;
        u << stream.Uniform(), stream.Uniform();
        const double value = weighted.Value(u, &gradient);
        EXPECT_NEAR(value, weighted.Values(u.transpose())(0), 1e-9);
        const math::GradientCheck check =
            math::CheckGradient([&](const VectorXd& at) { return weighted.Value(at, nullptr); }, u, gradient);
        EXPECT_LT(check.error, 1e-5) << check.Summary();
      }
    }
  }
}

}  // namespace
}  // namespace luthier::search
