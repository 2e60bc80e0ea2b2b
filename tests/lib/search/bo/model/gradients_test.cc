#include "lib/search/bo/model/gradients.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/search/bo/acquisition/thompson.h"
#include "lib/search/bo/model/surrogate.h"
#include "tests/lib/search/bo/bo_testing.h"
#include "tests/lib/search/random_points.h"
#include "tests/lib/study/builders.h"

namespace luthier::search {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using study::Goal;
using study::Parameters;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Every scale, a condition, and parameters without derivatives between them.
study::SearchSpace ManyKinds() {
  return study::Space({study::Float("linear", -5, 10), study::Int("steps", 1, 9),
                       study::Float("log", 1e-6, 1e3, study::Scale::kLog), study::Float("fixed", 2, 2),
                       study::Categorical("kind", {"a", "b", "c"}),
                       study::When("kind", {std::string("b")}, study::Float("inner", -1, 1)),
                       study::Float("logit", 1e-3, 0.9, study::Scale::kLogit)});
}

double NumberOr0(const Parameters& p, const std::string& name) {
  const auto found = p.find(name);
  return found == p.end() ? 0.0 : std::get<double>(found->second);
}
double Loss(const Parameters& p) {
  return std::sin(NumberOr0(p, "linear")) + std::pow(std::log(NumberOr0(p, "log")), 2) + 3.0 * NumberOr0(p, "logit") +
         NumberOr0(p, "inner") * NumberOr0(p, "linear");
}
// In the order of SearchSpace::differentiable(); inactive ones 0.
std::vector<double> LossGradient(const study::SearchSpace& space, const Parameters& p) {
  std::vector<double> gradient;
  for (const study::Scalar& scalar : space.differentiable()) {
    const std::string name = space.ScalarName(scalar);
    double value = 0.0;
    if (name == "linear") value = std::cos(NumberOr0(p, "linear")) + NumberOr0(p, "inner");
    if (name == "log") value = 2.0 * std::log(NumberOr0(p, "log")) / NumberOr0(p, "log");
    if (name == "logit") value = 3.0;
    if (name == "inner" && p.contains("inner")) value = NumberOr0(p, "linear");
    if (name == "fixed") value = 1e5;  // Nobody can use it.
    gradient.push_back(value);
  }
  return gradient;
}

TEST(GradientUnits, TheChainRuleMatchesDifferencesThroughTheEncoding) {
  const study::Encoding encoding(ManyKinds());
  base::RandomStream random(1, "chain");
  for (const Goal goal : {Goal::kMinimize, Goal::kMaximize}) {
    const GradientUnits units(encoding, goal);
    int checked = 0;
    for (int i = 0; i < 20; ++i) {
      const Parameters p = encoding.Sample(random);
      const ScoreSlopes slopes = units.FromUser(FullGradient(LossGradient(encoding.space(), p)), p);
      const VectorXd u = encoding.ToModel(p);
      for (size_t k = 0; k < slopes.axes.size(); ++k) {
        const int axis = slopes.axes[k];
        constexpr double kStep = 1e-6;
        const VectorXd unit = VectorXd::Unit(u.size(), axis);
        if (u(axis) < kStep || u(axis) > 1.0 - kStep) continue;
        const double up = study::Score(goal, Loss(encoding.FromModel(u + kStep * unit)));
        const double down = study::Score(goal, Loss(encoding.FromModel(u - kStep * unit)));
        const double difference = (up - down) / (2.0 * kStep);
        EXPECT_NEAR(slopes.values(static_cast<Index>(k)), difference, 1e-6 * (1.0 + std::abs(difference)));
        ++checked;
      }
      EXPECT_EQ(slopes.axes.size(), p.contains("inner") ? 4u : 3u);
      EXPECT_EQ(slopes.variances.cwiseAbs().maxCoeff(), 0.0);
    }
    EXPECT_GE(checked, 55);
  }
}

TEST(GradientUnits, DirectionalDerivativesAgreeWithTheGradient) {
  const study::Encoding encoding(ManyKinds());
  const GradientUnits units(encoding, Goal::kMinimize);
  base::RandomStream random(2, "direction");
  for (uint64_t ask = 0; ask < 20; ++ask) {
    const Parameters p = encoding.Sample(random);
    const std::vector<double> full = LossGradient(encoding.space(), p);
    const std::vector<double> direction = units.RandomDirection(p, 5, ask, base::StopToken()).value();
    ASSERT_EQ(direction.size(), full.size());
    study::Gradient gradient = SlopeAlong(direction, 0.0, 0.5);
    for (size_t k = 0; k < full.size(); ++k) gradient.slope += full[k] * direction[k];
    const ScoreSlopes all = units.FromUser(FullGradient(full), p), one = units.FromUser(gradient, p);
    ASSERT_EQ(one.values.size(), 1);
    EXPECT_NEAR(one.direction.norm(), 1.0, 1e-14);
    double slope = 0.0;
    for (size_t k = 0; k < all.axes.size(); ++k)
      slope += all.values(static_cast<Index>(k)) * one.direction(all.axes[k]);
    EXPECT_NEAR(one.values(0), slope, 1e-12 * (1.0 + std::abs(slope)));
    // The suggested direction has length 1 in the cube, so that errors keep their size.
    EXPECT_NEAR(one.variances(0), 0.25, 1e-12);
    EXPECT_NE(direction, units.RandomDirection(p, 5, ask + 1, base::StopToken()).value());
    EXPECT_NE(direction, units.RandomDirection(p, 6, ask, base::StopToken()).value());
  }
}

TEST(GradientUnits, DirectionsAreUniformOnTheSphereOfWhatCanMove) {
  const study::Encoding encoding(study::Space({study::Float("x", 0, 1), study::Int("n", 1, 3), study::Float("y", 0, 4),
                                               study::Float("z", 0, 1), study::Float("fixed", 1, 1)}));
  const GradientUnits units(encoding, Goal::kMinimize);
  const Parameters p = encoding.space().Default();
  Eigen::Vector3d squares = Eigen::Vector3d::Zero(), sum = Eigen::Vector3d::Zero();
  constexpr int kDraws = 2000;
  for (int i = 0; i < kDraws; ++i) {
    const std::vector<double> v = units.RandomDirection(p, 1, static_cast<uint64_t>(i), base::StopToken()).value();
    ASSERT_EQ(v.size(), 4u);
    EXPECT_EQ(v[3], 0.0);
    const Eigen::Vector3d unit(v[0], v[1] / 4.0, v[2]);
    EXPECT_NEAR(unit.norm(), 1.0, 1e-14);
    squares += unit.cwiseAbs2() / kDraws;
    sum += unit / kDraws;
  }
  EXPECT_LT((squares.array() - 1.0 / 3.0).abs().maxCoeff(), 0.03);
  EXPECT_LT(sum.cwiseAbs().maxCoeff(), 0.06);
  const study::Encoding discrete(study::Space({study::Int("n", 1, 3)}));
  EXPECT_TRUE(
      GradientUnits(discrete, Goal::kMinimize).RandomDirection({{"n", 1.0}}, 1, 1, base::StopToken()).value().empty());
}

TEST(GradientUnits, UnusableDerivativesAreDroppedOneByOne) {
  const study::Encoding encoding(
      study::Space({study::Float("x", 0, 2), study::Float("y", 0, 1), study::Float("z", 1, 1)}));
  const GradientUnits units(encoding, Goal::kMaximize);
  const Parameters p = {{"x", 0.5}, {"y", 0.5}, {"z", 1.0}};
  const ScoreSlopes some = units.FromUser(FullGradient({kNan, 3.0, 7.0}, 2.0), p);
  EXPECT_EQ(some.axes, std::vector<int>{1});
  EXPECT_EQ(some.values(0), 3.0);
  EXPECT_EQ(some.variances(0), 4.0);
  EXPECT_EQ(units.FromUser(FullGradient({1.5e308, 3.0, 0.0}), p).axes, std::vector<int>{1}) << "x is 3e308 a side";
  EXPECT_TRUE(units.FromUser(FullGradient({kNan, kNan, 1.0}), p).empty());
  EXPECT_TRUE(units.FromUser(SlopeAlong({1.0, 1.0, 1.0}, 1.0), p).empty()) << "moves a constant";
  EXPECT_TRUE(units.FromUser(SlopeAlong({1.0, 1.0, 0.0}, kNan), p).empty());
  EXPECT_TRUE(units.FromUser(FullGradient({1.0}), p).empty());
  const ScoreSlopes along = units.FromUser(SlopeAlong({2e300, 0.0, 0.0}, 1e300), p);
  EXPECT_DOUBLE_EQ(along.values(0), 1.0);
  EXPECT_DOUBLE_EQ(along.direction(0), 1.0);
}

std::vector<ScoreSlopes> Gradients(int n, int d, uint64_t seed) {
  const MatrixXd g = RandomPoints(n, d, seed);
  std::vector<ScoreSlopes> known(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < d; ++j) known[static_cast<size_t>(i)].axes.push_back(j);
    known[static_cast<size_t>(i)].values = g.row(i).transpose().array() - 0.5;
    known[static_cast<size_t>(i)].variances = VectorXd::Constant(d, 0.01);
  }
  return known;
}

TEST(ModelSlopes, WholeGradientsGoToTheBestWhileThereIsRoom) {
  std::vector<ScoreSlopes> known = Gradients(6, 3, 1);
  known[2] = {};
  known[4].axes.clear();
  known[4].direction = VectorXd::Unit(3, 1);
  known[4].values = VectorXd::Constant(1, 0.7);
  known[4].variances = VectorXd::Zero(1);
  const VectorXd scores = (VectorXd(6) << 1, 5, 9, 2, 4, 3).finished();
  const gp::Slopes all = ModelSlopes(known, scores, 3, false, 100, 100);
  EXPECT_EQ(all.points, (std::vector<Index>{0, 0, 0, 1, 1, 1, 3, 3, 3, 4, 5, 5, 5}));
  EXPECT_EQ(all.values(9), 0.7);
  EXPECT_TRUE(all.Valid(6, 3));
  // Rows: 6 values, one slope each for 5 points, and two more for as many of the best as fit.
  const gp::Slopes few = ModelSlopes(known, scores, 3, false, 15, 100);
  EXPECT_EQ(few.points, (std::vector<Index>{0, 1, 1, 1, 3, 4, 5, 5, 5}));
  const gp::Slopes one = ModelSlopes(known, scores, 3, true, 100, 100);
  ASSERT_EQ(one.points, (std::vector<Index>{0, 1, 3, 4, 5}));
  for (const Index k : {0, 1, 2, 4}) {
    const VectorXd& gradient = known[static_cast<size_t>(one.points[static_cast<size_t>(k)])].values;
    EXPECT_NEAR(one.values(k), gradient.norm(), 1e-14);
    EXPECT_NEAR((one.directions.row(k).transpose() * gradient.norm() - gradient).norm(), 0.0, 1e-14);
    EXPECT_NEAR(one.extra_variances(k), 0.01, 1e-14);
  }
  EXPECT_EQ(ModelSlopes(known, scores, 3, false, 15, 0).size(), 9) << "the best twenty are spared";
  known[0].values.setZero();  // A stationary point: any direction tells it.
  EXPECT_EQ(ModelSlopes(known, scores, 3, true, 100, 100).values(0), 0.0);
  EXPECT_TRUE(ModelSlopes(known, scores, 3, true, 100, 100).Valid(6, 3));
}

SurrogateOptions Choices(int d) {
  SurrogateOptions options;
  for (const Warp warp : kWarps) options.choices.push_back({kernels::ArdShape(kernels::Family::kMatern52, d), warp});
  return options;
}

// -(1 + |u - 0.4|^2 10) and its gradient: a loss above 0, for all warps.
double Bowl(const VectorXd& u, VectorXd* gradient) {
  *gradient = -20.0 * (u.array() - 0.4).matrix();
  return -1.0 - 10.0 * (u.array() - 0.4).square().sum();
}

struct Sample {
  MatrixXd x;
  VectorXd scores;
  gp::Slopes slopes;
};
Sample Bowls(int n, int d) {
  Sample sample{RandomPoints(n, d, 3), VectorXd(n), {}};
  for (int i = 0; i < n; ++i) {
    VectorXd gradient;
    sample.scores(i) = Bowl(sample.x.row(i).transpose(), &gradient);
    sample.slopes.AddGradient(i, gradient);
  }
  return sample;
}

TEST(SlopeSurrogate, SlopesFollowTheOutputTransform) {
  // Under every warp: the regression's slopes are those of its outputs, found by differences through the transform.
  const Sample sample = Bowls(8, 2);
  for (const ModelChoice& choice : Choices(2).choices) {
    SurrogateOptions options;
    options.choices = {choice};
    const std::optional<Surrogate> s =
        FitSurrogate(options, {sample.x, sample.scores, sample.slopes}, std::nullopt, {1, 1}, true, base::StopToken())
            .value();
    if (choice.warp == Warp::kYeoJohnson && !s.has_value()) continue;
    ASSERT_TRUE(s.has_value());
    const VectorXd targets = s->states[0].Targets();
    ASSERT_EQ(targets.size(), 24);
    constexpr double kStep = 1e-6;
    for (Index k = 0; k < 16; ++k) {
      VectorXd ignored;
      const VectorXd u = sample.x.row(k / 2).transpose(), step = kStep * VectorXd::Unit(2, k % 2);
      const double rise =
          s->transform.Forward(Bowl(u + step, &ignored)) - s->transform.Forward(Bowl(u - step, &ignored));
      EXPECT_NEAR(targets(8 + k), rise / (2.0 * kStep), 1e-5) << WarpName(choice.warp);
    }
    EXPECT_GT(s->next.theta.slope_noise_variance, 0.0);
  }
}

TEST(SlopeSurrogate, SlopesImproveOnValuesAlone) {
  const Sample sample = Bowls(7, 3);
  const std::optional<Surrogate> with =
      FitSurrogate(Choices(3), {sample.x, sample.scores, sample.slopes}, std::nullopt, {1, 1}, true, base::StopToken())
          .value();
  const std::optional<Surrogate> without =
      FitSurrogate(Choices(3), {sample.x, sample.scores, {}}, std::nullopt, {1, 1}, true, base::StopToken()).value();
  auto error = [&](const Surrogate& s) {
    const MatrixXd at = RandomPoints(100, 3, 9);
    const VectorXd mean = s.states[0].PredictMean(at);
    double sum = 0.0;
    for (int i = 0; i < 100; ++i) {
      VectorXd ignored;
      sum += std::abs(s.transform.Inverse(mean(i)) - Bowl(at.row(i).transpose(), &ignored));
    }
    return sum / 100.0;
  };
  EXPECT_LT(error(*with), 0.7 * error(*without));
}

TEST(SlopeSurrogate, SlopesThatArriveLateAreSearchedFor) {
  const Sample sample = Bowls(40, 2);
  const std::optional<Surrogate> before =
      FitSurrogate(Choices(2), {sample.x, sample.scores, {}}, std::nullopt, {1, 1}, true, base::StopToken()).value();
  EXPECT_EQ(before->next.theta.slope_noise_variance, 0.0);
  const std::optional<Surrogate> after =
      FitSurrogate(Choices(2), {sample.x, sample.scores, sample.slopes}, before->next, {1, 2}, true, base::StopToken())
          .value();
  EXPECT_EQ(after->next.searches, 2);
  EXPECT_GT(after->next.theta.slope_noise_variance, 0.0);
  // And given up again without harm.
  EXPECT_TRUE(FitSurrogate(Choices(2), {sample.x, sample.scores, {}}, after->next, {1, 3}, true, base::StopToken())
                  .value()
                  .has_value());
}

TEST(SlopeSurrogate, DropsSlopesThatNoKernelCanFollow) {
  Sample sample = Bowls(6, 2);
  const double huge[] = {1e300, -1e300, 1e8};
  for (int k = 0; k < 3; ++k) sample.slopes.values(k) = huge[k];
  sample.slopes.extra_variances(3) = 1e200;
  const std::optional<Surrogate> s =
      FitSurrogate(Choices(2), {sample.x, sample.scores, sample.slopes}, std::nullopt, {1, 1}, true, base::StopToken())
          .value();
  ASSERT_TRUE(s.has_value());
  EXPECT_EQ(s->states[0].rows(), 6 + 8);
}

TEST(SlopeSurrogate, SamplesOnlyWhileRowsAreFew) {
  SurrogateOptions options = Choices(3);
  options.choices.resize(1);
  options.sample = true;
  const Sample many = Bowls(76, 3);  // 304 rows.
  SurrogateState state;
  state.observations = 76;
  state.theta.lengthscales = VectorXd::Constant(3, 0.8);
  state.theta.slope_noise_variance = 1e-6;
  EXPECT_EQ(FitSurrogate(options, {many.x, many.scores, many.slopes}, state, {1, 1}, true, base::StopToken())
                .value()
                ->states.size(),
            1u);
  const Sample few = Bowls(6, 3);
  const std::optional<Surrogate> s =
      FitSurrogate(options, {few.x, few.scores, few.slopes}, std::nullopt, {1, 1}, true, base::StopToken()).value();
  EXPECT_EQ(s->states.size(), static_cast<size_t>(kSampledStates));
  for (const gp::Regression& one : s->states) EXPECT_EQ(one.rows(), 24);
}

gp::Regression SomeRegression(double slope_noise) {
  const Sample sample = Bowls(7, 2);
  gp::Hyperparameters theta;
  theta.lengthscales = (VectorXd(2) << 0.4, 0.7).finished();
  theta.signal_variance = 1.7;
  theta.noise_variance = 1e-4;
  theta.slope_noise_variance = slope_noise;
  theta.mean = -1.0;
  gp::Slopes slopes = sample.slopes;
  slopes.Add(3, VectorXd::Constant(2, std::sqrt(0.5)), 1.0, 0.2);
  return *gp::Regression::Fit(kernels::ArdShape(kernels::Family::kMatern52, 2), theta, sample.x, sample.scores, slopes,
                              base::StopToken())
              .value();
}

TEST(SlopeThompson, DrawsHaveThePosteriorsMomentsWithSlopes) {
  const gp::Regression model = SomeRegression(0.3);
  const MatrixXd at = RandomPoints(12, 2, 8);
  const gp::Posterior posterior = model.Predict(at);
  for (const bool pathwise : {true, false}) {
    // The weight-space posterior knows the kernel by its features only.
    constexpr int kDraws = 1500;
    MatrixXd draws(kDraws, at.rows());
    for (int i = 0; i < kDraws; ++i) {
      const base::RandomStream random(3, "draw", static_cast<uint64_t>(i));
      const std::optional<FunctionDraw> draw =
          pathwise ? FunctionDraw::Pathwise(model, 192, random, base::StopToken()).value()
                   : FunctionDraw::FourierFeatures(model, 256, random, base::StopToken()).value();
      draws.row(i) = draw->Values(at).transpose();
      if (!pathwise && i == 199) {
        draws.conservativeResize(200, Eigen::NoChange);
        break;
      }
    }
    const double n = static_cast<double>(draws.rows());
    for (Index k = 0; k < at.rows(); ++k) {
      const double deviation = std::sqrt(posterior.variance(k));
      const double mean = draws.col(k).mean();
      const double ratio = (draws.col(k).array() - mean).square().mean() / posterior.variance(k);
      EXPECT_NEAR(mean, posterior.mean(k), pathwise ? 4.0 * deviation / std::sqrt(n) : 0.8 * deviation);
      EXPECT_GT(ratio, pathwise ? 0.8 : 0.4);
      EXPECT_LT(ratio, pathwise ? 1.25 : 2.0);
    }
  }
}

TEST(SlopeThompson, GradientMatchesDifferencesAndPassesThroughTheSlopes) {
  const gp::Regression model = SomeRegression(1e-10);
  const base::RandomStream random(5, "gradient");
  const FunctionDraw path = *FunctionDraw::Pathwise(model, kPathwiseFeatures, random, base::StopToken()).value();
  const FunctionDraw fourier =
      *FunctionDraw::FourierFeatures(model, kFourierFeatures, random, base::StopToken()).value();
  for (const FunctionDraw* draw : {&path, &fourier}) {
    for (int i = 0; i < 5; ++i) {
      const VectorXd u = RandomPoints(5, 2, 12).row(i).transpose();
      VectorXd gradient, ignored;
      EXPECT_NEAR(draw->Value(u, &gradient), draw->Values(u.transpose())(0), 1e-9);
      for (int j = 0; j < 2; ++j) {
        const VectorXd step = 1e-5 * VectorXd::Unit(2, j);
        const double difference = (draw->Value(u + step, &ignored) - draw->Value(u - step, &ignored)) / 2e-5;
        EXPECT_NEAR(gradient(j), difference, 1e-5 * (1.0 + std::abs(difference)));
      }
    }
  }
  const Sample sample = Bowls(7, 2);
  for (int i = 0; i < 7; ++i) {
    VectorXd gradient, truth;
    path.Value(sample.x.row(i).transpose(), &gradient);
    Bowl(sample.x.row(i).transpose(), &truth);
    EXPECT_LT((gradient - truth).cwiseAbs().maxCoeff(), 1e-3);
  }
}

}  // namespace
}  // namespace luthier::search
