#include "lib/search/bo/model/surrogate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/gp/hyper_inference.h"
#include "lib/gp/likelihood.h"
#include "lib/math/sobol.h"
#include "tests/lib/search/bo/state_testing.h"

namespace luthier::search {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using kernels::ArdShape;
using kernels::Family;
using kernels::Structure;

// What the designer chooses from by default, in d dimensions.
std::vector<ModelChoice> AllChoices(int d) {
  const kernels::KernelShape joint = ArdShape(Family::kMatern52, d);
  const kernels::KernelShape additive = ArdShape(Family::kMatern52, d, Structure::kAdditive);
  const kernels::KernelShape pairwise = ArdShape(Family::kSquaredExponential, d, Structure::kPairwise);
  return {{joint, Warp::kNone},         {joint, Warp::kYeoJohnson},    {joint, Warp::kLog},
          {additive, Warp::kNone},      {additive, Warp::kYeoJohnson}, {pairwise, Warp::kNone},
          {pairwise, Warp::kYeoJohnson}};
}
SurrogateOptions OptionsOf(std::vector<ModelChoice> choices) {
  SurrogateOptions options;
  options.choices = std::move(choices);
  return options;
}

MatrixXd Points(int n, int d, uint64_t seed = 1) {
  const math::SobolSequence sobol(d, seed, "test/surrogate");
  MatrixXd x(n, d);
  for (int i = 0; i < n; ++i) x.row(i) = sobol.Point(static_cast<uint64_t>(i));
  return x;
}
// Minus the loss at each row.
VectorXd Scores(const MatrixXd& x, const std::function<double(const VectorXd&)>& loss) {
  VectorXd scores(x.rows());
  for (Index i = 0; i < x.rows(); ++i) scores(i) = -loss(x.row(i).transpose());
  return scores;
}
ModelChoice Chosen(const MatrixXd& x, const VectorXd& scores) {
  const SurrogateOptions options = OptionsOf(AllChoices(static_cast<int>(x.cols())));
  const std::optional<Surrogate> surrogate =
      FitSurrogate(options, {x, scores, {}}, std::nullopt, {3, 40}, true, base::StopToken()).value();
  EXPECT_TRUE(surrogate.has_value());
  EXPECT_EQ(surrogate->next.searches, 1);
  EXPECT_GT(surrogate->likelihoods, 0);
  EXPECT_EQ(surrogate->next.observations, x.rows());
  EXPECT_EQ(surrogate->transform.warp(), options.choices[static_cast<size_t>(surrogate->next.choice)].warp);
  return options.choices[static_cast<size_t>(surrogate->next.choice)];
}

TEST(Surrogate, ChoosesTheStructureOfTheData) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    const MatrixXd x = Points(60, 5, seed);
    // A sum of wiggly functions of one parameter.
    EXPECT_EQ(Chosen(x, Scores(x, [](const VectorXd& u) { return (9.0 * u.array()).sin().sum(); })).shape.structure,
              Structure::kAdditive);
    // Sums of products of two.
    EXPECT_EQ(Chosen(x, Scores(x,
                               [](const VectorXd& u) {
                                 return std::sin(5 * u(0)) * std::cos(4 * u(1)) + std::sin(6 * u(2)) * u(3) +
                                        std::cos(5 * u(4)) * u(0);
                               }))
                  .shape.structure,
              Structure::kPairwise);
    // A function of all at once.
    EXPECT_EQ(Chosen(x, Scores(x,
                               [](const VectorXd& u) {
                                 return std::exp(-3.0 * (u.array() - 0.4).square().sum()) *
                                        std::cos(2.0 * u.sum() + u(0));
                               }))
                  .shape.structure,
              Structure::kJoint);
  }
}

TEST(Surrogate, ChoosesTheWarpOfTheData) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    const MatrixXd x = Points(50, 3, seed);
    auto smooth = [](const VectorXd& u) { return std::sin(4 * u(0)) + u(1) * u(2) + std::cos(3 * u(1)); };
    // A loss that spans decades; the same, but below 0 in places, where no logarithm exists; a plain one.
    EXPECT_EQ(Chosen(x, Scores(x, [&](const VectorXd& u) { return std::exp(3.0 * smooth(u)); })).warp, Warp::kLog);
    const VectorXd shifted = Scores(x, [&](const VectorXd& u) { return std::exp(2.0 * smooth(u)) - 0.5; });
    ASSERT_GT(shifted.maxCoeff(), 0.0);
    EXPECT_EQ(Chosen(x, shifted).warp, Warp::kYeoJohnson);
    EXPECT_EQ(Chosen(x, Scores(x, smooth)).warp, Warp::kNone);
  }
}

// Declared noise may be a thousandth of what the values differ by, or more than that.
TEST(Surrogate, FindsDeclaredNoiseOfAnySize) {
  const MatrixXd x = Points(80, 2);
  for (const double noise : {1e-3, 3e-2, 1.0, 3.0}) {
    SCOPED_TRACE(noise);
    base::RandomStream random(7, "test/declared noise");
    VectorXd scores = Scores(x, [](const VectorXd& u) { return std::sin(5 * u(0)) + u(0) * u(1); });
    for (Index i = 0; i < scores.size(); ++i) scores(i) += noise * random.Normal();
    SurrogateOptions options = OptionsOf({AllChoices(2)[0]});
    options.noisy = true;
    const Surrogate surrogate =
        *FitSurrogate(options, {x, scores, {}}, std::nullopt, {3, 40}, true, base::StopToken()).value();
    const double deviation = std::sqrt((scores.array() - scores.mean()).square().mean());
    const double found = deviation * std::sqrt(surrogate.next.theta.noise_variance);
    EXPECT_GT(found, noise / 1.5);
    EXPECT_LT(found, noise * 1.5);
  }
}

TEST(Surrogate, KeepsTheChoiceWhenInDoubt) {
  // Three choices that are the same model: the first without a past, else the one in use.
  const ModelChoice choice{ArdShape(Family::kMatern52, 2), Warp::kNone};
  const SurrogateOptions options = OptionsOf({choice, choice, choice});
  const MatrixXd x = Points(20, 2);
  const VectorXd scores = Scores(x, [](const VectorXd& u) { return std::sin(5 * u(0)) + u(1) * u(1); });
  std::optional<Surrogate> fit =
      FitSurrogate(options, {x.topRows(10), scores.head(10), {}}, std::nullopt, {1, 10}, true, base::StopToken())
          .value();
  ASSERT_TRUE(fit.has_value());
  EXPECT_EQ(fit->next.choice, 0);
  SurrogateState state = fit->next;
  state.choice = 2;
  state.others.clear();
  for (int n = 11; n <= 20; ++n) {
    fit = FitSurrogate(options, {x.topRows(n), scores.head(n), {}}, state, {1, static_cast<uint64_t>(n)}, true,
                       base::StopToken())
              .value();
    ASSERT_TRUE(fit.has_value());
    EXPECT_EQ(fit->next.choice, 2) << n;
    EXPECT_EQ(fit->next.searches, state.searches + 1);
    state = fit->next;
  }
  EXPECT_EQ(state.searches, 11);
}

TEST(Surrogate, ABetterChoiceTakesOverInItsTurn) {
  const MatrixXd x = Points(40, 4);
  const VectorXd scores = Scores(x, [](const VectorXd& u) { return (9.0 * u.array()).sin().sum(); });
  const SurrogateOptions options = OptionsOf(AllChoices(4));
  SurrogateState state =
      FitSurrogate(options, {x.topRows(6), scores.head(6), {}}, std::nullopt, {1, 6}, true, base::StopToken())
          .value()
          ->next;
  for (int n = 7; n <= 40; ++n) {
    const std::optional<Surrogate> fit = FitSurrogate(options, {x.topRows(n), scores.head(n), {}},
                                                      ParseBoState(BytesOf(state), options.choices).surrogate,
                                                      {1, static_cast<uint64_t>(n)}, true, base::StopToken())
                                             .value();
    ASSERT_TRUE(fit.has_value());
    state = fit->next;
  }
  EXPECT_EQ(options.choices[static_cast<size_t>(state.choice)].shape.structure, Structure::kAdditive);
}

TEST(Surrogate, SearchesOnlyWhenTheDataHaveGrown) {
  const MatrixXd x = Points(110, 2);
  const VectorXd scores = Scores(x, [](const VectorXd& u) { return std::sin(5 * u(0)) + u(1) * u(1); });
  const SurrogateOptions options = OptionsOf({{ArdShape(Family::kMatern52, 2), Warp::kNone}});
  const SurrogateState state =
      FitSurrogate(options, {x.topRows(100), scores.head(100), {}}, std::nullopt, {1, 1}, true, base::StopToken())
          .value()
          ->next;
  for (const int n : {100, 104, 105, 110, 99}) {
    const std::optional<Surrogate> fit =
        FitSurrogate(options, {x.topRows(n), scores.head(n), {}}, state, {1, 2}, true, base::StopToken()).value();
    ASSERT_TRUE(fit.has_value());
    const bool searched = n >= 105 || n < 100;
    EXPECT_EQ(fit->next.searches, state.searches + (searched ? 1 : 0)) << n;
    EXPECT_EQ(fit->next.observations, searched ? n : 100);
    if (!searched) {
      EXPECT_EQ(BytesOf(fit->next), BytesOf(state));
    }
  }
}

TEST(Surrogate, AWarpThatNoLongerSuitsIsGivenUp) {
  // In use: the logarithm. Then a loss of 0 comes in.
  const MatrixXd x = Points(30, 2);
  VectorXd scores = Scores(x, [](const VectorXd& u) { return std::exp(6 * u(0) + 3 * u(1) * u(1)); });
  const SurrogateOptions options = OptionsOf(AllChoices(2));
  const SurrogateState state =
      FitSurrogate(options, {x, scores, {}}, std::nullopt, {1, 1}, true, base::StopToken()).value()->next;
  ASSERT_EQ(options.choices[static_cast<size_t>(state.choice)].warp, Warp::kLog);
  scores(7) = 0.0;
  const std::optional<Surrogate> fit =
      FitSurrogate(options, {x, scores, {}}, state, {1, 2}, true, base::StopToken()).value();
  ASSERT_TRUE(fit.has_value());
  EXPECT_EQ(fit->next.searches, state.searches + 1);
  EXPECT_NE(fit->transform.warp(), Warp::kLog);
}

TEST(Surrogate, NoSuitableChoiceGivesNoModel) {
  const MatrixXd x = Points(5, 2);
  const SurrogateOptions options = OptionsOf({{ArdShape(Family::kMatern52, 2), Warp::kLog}});
  EXPECT_FALSE(FitSurrogate(options, {x, VectorXd::Ones(5), {}}, std::nullopt, {1, 1}, true, base::StopToken())
                   .value()
                   .has_value());
}

// Margins against the densities themselves; alternatives against regressions of their own.
TEST(Surrogate, AlternativesAreTheComparableChoices) {
  const SurrogateOptions options = OptionsOf(AllChoices(2));
  bool some = false;
  for (const int n : {8, 14, 30}) {
    SCOPED_TRACE(n);
    const MatrixXd x = Points(n, 2);
    const VectorXd scores = Scores(x, [](const VectorXd& u) { return std::exp(std::sin(5 * u(0)) + u(0) * u(1)); });
    const SurrogateState state =
        FitSurrogate(options, {x, scores, {}}, std::nullopt, {3, 1}, true, base::StopToken()).value()->next;
    const auto density = [&](int c, const gp::Hyperparameters& theta) {
      const ModelChoice& choice = options.choices[static_cast<size_t>(c)];
      const OutputTransform transform = *OutputTransform::Create(choice.warp, scores);
      gp::Likelihood likelihood(choice.shape, x, transform.Forward(scores));
      const gp::HyperPosterior posterior(&likelihood, InferenceFor(choice, options));
      return posterior.Value(posterior.Pack(theta), nullptr, nullptr, base::StopToken()).value() +
             transform.LogJacobian();
    };
    ASSERT_EQ(state.others.size(), options.choices.size() - 1);
    std::vector<double> weights;
    for (const SurrogateState::Start& other : state.others) {
      const double margin = density(other.choice, other.theta) - density(state.choice, state.theta);
      EXPECT_NEAR(other.margin, margin, 1e-6 * (1.0 + std::abs(margin))) << other.choice;
      if (margin > -10.0) weights.push_back(std::exp(0.5 * margin));
    }
    std::sort(weights.rbegin(), weights.rend());
    if (weights.size() > 3) weights.resize(3);
    const MatrixXd pending = MatrixXd::Constant(1, 2, 0.4);
    const std::vector<Alternative> alternatives =
        FitAlternatives(options, {x, scores, {}}, state, pending, base::StopToken()).value();
    ASSERT_EQ(alternatives.size(), weights.size());
    for (size_t k = 0; k < weights.size(); ++k) {
      some = true;
      EXPECT_NEAR(alternatives[k].weight, weights[k], 1e-5);
      const gp::Regression& regression = alternatives[k].regression;
      EXPECT_EQ(regression.size(), n + 1);
      // Where a trial is open, and where one ended, nothing is left to be surprised by.
      EXPECT_LT(regression.Predict(pending).variance(0), 0.01);
      EXPECT_NEAR(regression.PredictMean(x.topRows(1))(0), alternatives[k].transform.Forward(scores(0)), 0.05);
    }
  }
  EXPECT_TRUE(some);
}

TEST(Surrogate, NoAlternativesBesideStatesOrForManyRows) {
  SurrogateOptions options = OptionsOf(AllChoices(2));
  const MatrixXd x = Points(501, 2);
  const VectorXd scores = Scores(x, [](const VectorXd& u) { return u(0); });
  SurrogateState state =
      FitSurrogate(options, {x.topRows(6), scores.head(6), {}}, std::nullopt, {3, 1}, true, base::StopToken())
          .value()
          ->next;
  for (SurrogateState::Start& other : state.others) other.margin = 0.0;
  EXPECT_EQ(FitAlternatives(options, {x.topRows(6), scores.head(6), {}}, state, MatrixXd(0, 2), base::StopToken())
                .value()
                .size(),
            3u);
  EXPECT_TRUE(FitAlternatives(options, {x, scores, {}}, state, MatrixXd(0, 2), base::StopToken()).value().empty());
  options.sample = true;
  EXPECT_TRUE(FitAlternatives(options, {x.topRows(6), scores.head(6), {}}, state, MatrixXd(0, 2), base::StopToken())
                  .value()
                  .empty());
}

TEST(SurrogateState, ReadsBackToTheSameBits) {
  const std::vector<ModelChoice> choices = AllChoices(3);
  base::RandomStream random(5, "test/state");
  auto theta = [&] {
    gp::Hyperparameters t;
    t.lengthscales = VectorXd(3);
    for (double& l : t.lengthscales) l = std::exp(30.0 * random.Normal());
    t.signal_variance = std::exp(random.Normal());
    t.noise_variance = std::exp(-10.0 * random.Uniform());
    t.mean = random.Normal();
    t.shape_parameter = std::exp(random.Normal());
    return t;
  };
  for (int round = 0; round < 200; ++round) {
    SurrogateState state;
    state.observations = static_cast<int64_t>(random.UniformInt(uint64_t{1} << 40));
    state.searches = static_cast<int>(random.UniformInt(10'000));
    state.choice = static_cast<int>(random.UniformInt(choices.size()));
    state.theta = theta();
    for (int c = 0; c < static_cast<int>(random.UniformInt(6)); ++c)
      state.others.push_back({c, theta(), -std::exp(5.0 * random.Normal())});
    const std::string bytes = BytesOf(state);
    const std::optional<SurrogateState> back = ParseBoState(bytes, choices).surrogate;
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(back->observations, state.observations);
    EXPECT_EQ(back->searches, state.searches);
    EXPECT_EQ(back->choice, state.choice);
    EXPECT_EQ(back->theta.lengthscales, state.theta.lengthscales);
    EXPECT_EQ(back->theta.signal_variance, state.theta.signal_variance);
    EXPECT_EQ(back->theta.noise_variance, state.theta.noise_variance);
    EXPECT_EQ(back->theta.mean, state.theta.mean);
    EXPECT_EQ(back->theta.shape_parameter, state.theta.shape_parameter);
    ASSERT_EQ(back->others.size(), state.others.size());
    for (size_t k = 0; k < state.others.size(); ++k) {
      EXPECT_EQ(back->others[k].choice, state.others[k].choice);
      EXPECT_NEAR(back->others[k].margin, state.others[k].margin, -1e-3 * state.others[k].margin);
      const VectorXd& l = state.others[k].theta.lengthscales;
      EXPECT_TRUE(back->others[k].theta.lengthscales.isApprox(l, 1e-4));
    }
    // Rounding is idempotent: a state that is handed on many times does not drift.
    EXPECT_EQ(BytesOf(*back), bytes);
  }
}

TEST(SurrogateState, HostileStatesAreRefused) {
  const std::vector<ModelChoice> choices = AllChoices(2);
  SurrogateState state;
  state.observations = 5;
  state.theta.lengthscales = VectorXd::Ones(2);
  state.others.push_back({3, state.theta, -1.5});
  const std::string bytes = BytesOf(state);
  ASSERT_TRUE(ParseBoState(bytes, choices).surrogate.has_value());
  EXPECT_FALSE(ParseBoState(bytes, AllChoices(3)).surrogate.has_value()) << "another space's";
  EXPECT_FALSE(ParseBoState(bytes, {choices[0]}).surrogate.has_value()) << "other options'";
  const std::string good = "5 0 0 0x1p+0 0x1p-10 0x0p+0 0x1p+0 0x1p+0 0x1p+0;3 -1.5 1 1e-06 0 1 1 1";
  ASSERT_TRUE(ReadLegacySurrogate(good, choices).has_value());
  for (const char* bad :
       {"", " ", ";", "5", "5 0 0", "5 0 0 ", "-1 0 0 0x1p+0 0x1p-10 0x0p+0 0x1p+0 0x1p+0 0x1p+0",
        "5 -1 0 0x1p+0 0x1p-10 0x0p+0 0x1p+0 0x1p+0 0x1p+0", "5 0 -1 0x1p+0 0x1p-10 0x0p+0 0x1p+0 0x1p+0 0x1p+0",
        "5 0 7 0x1p+0 0x1p-10 0x0p+0 0x1p+0 0x1p+0 0x1p+0", "5 0 0 nan 0x1p-10 0x0p+0 0x1p+0 0x1p+0 0x1p+0",
        "5 0 0 0x1p+0 0x1p-10 0x0p+0 0x1p+0 inf 0x1p+0", "5 0 0 0x1p+0 0x1p-10 0x0p+0 0x1p+0 -0x1p+0 0x1p+0",
        "5 0 0 0x1p+0 0x1p-10 0x0p+0 0x1p+0 0x1p+0", "5 0 0 0x1p+0 0x1p-10 0x0p+0 0x1p+0 0x1p+0 0x1p+0 0x1p+0",
        "5 0 0 0x1p+0 0x1p-10 0x0p+0 0x1p+0 0x1p+0 0x1p+0;", "99999999999999999999 0 0 1 1 1 1 1 1"}) {
    EXPECT_FALSE(ReadLegacySurrogate(bad, choices).has_value()) << bad;
  }
  // Any damage to one byte is refused, or read as something that a fit survives.
  const MatrixXd x = Points(6, 2);
  const VectorXd scores = Scores(x, [](const VectorXd& u) { return u(0); });
  base::RandomStream random(6, "test/damage");
  int fits = 0;
  for (int round = 0; round < 400; ++round) {
    std::string text = good;
    text[random.UniformInt(text.size())] = static_cast<char>(random.UniformInt(128));
    const std::optional<SurrogateState> parsed = ReadLegacySurrogate(text, choices);
    if (!parsed.has_value() || fits >= 25) continue;
    ++fits;
    EXPECT_TRUE(
        FitSurrogate(OptionsOf(choices), {x, scores, {}}, parsed, {1, 6}, true, base::StopToken()).value().has_value())
        << text;
  }
  EXPECT_GE(fits, 5);
}

}  // namespace
}  // namespace luthier::search
