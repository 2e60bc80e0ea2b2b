#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/search/bo/bo_designer.h"
#include "lib/search/bo/model/surrogate.h"
#include "tests/lib/search/bo/bo_testing.h"
#include "tests/lib/search/bo/state_testing.h"
#include "tests/lib/search/restart_oracle.h"

// Hyperparameters drawn by Markov chain Monte Carlo: option hyperparameters MCMC.
namespace luthier::search {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using study::BoOptions;

BoOptions Mcmc() {
  BoOptions options;
  options.hyperparameters = study::BoHyperparameters::kMcmc;
  return options;
}

// Without local steps: every proposal is the model's.
BoOptions ModelOnly(BoOptions options) {
  options.trust_region = study::BoTrustRegion::kOff;
  return options;
}

BoOptions Thesis(BoOptions options) {
  options.prior = study::BoPrior::kThesis;
  options.kernel = study::BoKernel::kMatern52;
  options.warp = study::BoWarp::kNone;
  return options;
}

study::StudySpec BraninSpec(BoOptions options, uint64_t seed = 1) {
  return BoSpec(Space({Float("x0", -5, 10), Float("x1", 0, 15)}), seed, options);
}

double BraninOf(const study::Parameters& p) {
  return Branin(Point(p));
}

SurrogateOptions TwoChoices() {
  SurrogateOptions options;
  options.choices = {{kernels::ArdShape(kernels::Family::kMatern52, 2), Warp::kNone},
                     {kernels::ArdShape(kernels::Family::kSquaredExponential, 2), Warp::kNone}};
  options.sample = true;
  return options;
}

struct Data {
  MatrixXd x;
  VectorXd scores;
};

Data Sample(Index n) {
  base::RandomStream random(4, "data");
  Data data{MatrixXd(n, 2), VectorXd(n)};
  for (Index i = 0; i < n; ++i) {
    data.x.row(i) << random.Uniform(), random.Uniform();
    data.scores(i) = std::sin(5.0 * data.x(i, 0)) + data.x(i, 1) + 0.1 * random.Normal();
  }
  return data;
}

TEST(SampledSurrogate, HoldsTenDifferentStatesOfOneModel) {
  const Data data = Sample(12);
  const std::optional<Surrogate> s =
      FitSurrogate(TwoChoices(), {data.x, data.scores, {}}, std::nullopt, {1, 7}, true, base::StopToken()).value();
  ASSERT_TRUE(s.has_value());
  ASSERT_EQ(s->states.size(), static_cast<size_t>(kSampledStates));
  std::set<double> lengths;
  for (const gp::Regression& state : s->states) {
    EXPECT_EQ(state.size(), 12);
    lengths.insert(state.hyperparameters().lengthscales(0));
    EXPECT_EQ(state.outputs(), s->transform.Forward(data.scores));
  }
  EXPECT_GE(lengths.size(), 9u);  // A slice move may keep the old state, hardly ever does.
  EXPECT_GT(s->likelihoods, 500);
  EXPECT_EQ(s->next.chain.size(), 5);
  // The next call goes on without burning in, and depends on nothing else.
  const std::optional<Surrogate> next =
      FitSurrogate(TwoChoices(), {data.x, data.scores, {}}, s->next, {1, 8}, true, base::StopToken()).value();
  EXPECT_EQ(next->next.searches, s->next.searches);
  EXPECT_LT(next->likelihoods, s->likelihoods / 4);
  EXPECT_NE(next->next.chain, s->next.chain);
  EXPECT_EQ(FitSurrogate(TwoChoices(), {data.x, data.scores, {}}, s->next, {1, 8}, true, base::StopToken())
                .value()
                ->next.chain,
            next->next.chain);
}

TEST(SampledSurrogate, TooFewOrTooManyResultsHaveOneState) {
  for (Index n : {1, 2, 3, 301}) {
    const Data data = Sample(n);
    SurrogateOptions options = TwoChoices();
    options.choices.resize(1);
    SurrogateState state;
    state.observations = n;
    state.theta.lengthscales = VectorXd::Constant(2, 0.5);
    state.chain = VectorXd::Zero(5);
    const std::optional<Surrogate> s =
        FitSurrogate(options, {data.x, data.scores, {}}, state, {1, 7}, true, base::StopToken()).value();
    EXPECT_EQ(s->states.size(), n == 3 ? 10u : 1u) << n;
    EXPECT_EQ(s->next.chain.size(), n == 3 ? 5 : 0) << n;
  }
}

TEST(SampledSurrogate, CarriedChainsReadBackToTheSameBits) {
  const Data data = Sample(9);
  const std::optional<Surrogate> s =
      FitSurrogate(TwoChoices(), {data.x, data.scores, {}}, std::nullopt, {1, 7}, true, base::StopToken()).value();
  const std::string bytes = BytesOf(s->next);
  const std::vector<ModelChoice> choices = TwoChoices().choices;
  const std::optional<SurrogateState> back = ParseBoState(bytes, choices).surrogate;
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->chain, s->next.chain);
  EXPECT_EQ(BytesOf(*back), bytes);
  const std::string text = "9 1 0 1 1e-06 0 1 0.5 0.5";
  EXPECT_EQ(ReadLegacySurrogate(text + "@1 0x1p-2", choices)->chain, Eigen::Vector2d(1.0, 0.25));
  for (const char* bad : {"@", "@1 2 nan", "@1 2 x", "@1@2", "@0x1p+2000", "@1 2;1 0"}) {
    EXPECT_FALSE(ReadLegacySurrogate(text + bad, choices).has_value()) << bad;
  }
  // A chain of another length is of another model: it starts anew.
  SurrogateState foreign = s->next;
  foreign.chain = VectorXd::Zero(2);
  EXPECT_EQ(FitSurrogate(TwoChoices(), {data.x, data.scores, {}}, foreign, {1, 8}, true, base::StopToken())
                .value()
                ->next.chain.size(),
            5);
  SurrogateOptions map = TwoChoices();
  map.sample = false;
  EXPECT_FALSE(absl::StrContains(
      BytesOf(
          FitSurrogate(map, {data.x, data.scores, {}}, std::nullopt, {1, 7}, true, base::StopToken()).value()->next),
      "@"));
}

TEST(McmcBo, SuggestionsArePureFunctionsOfTheHistory) {
  const study::SearchSpace mixed =
      Space({Float("x", 1e-4, 1, study::Scale::kLog), Int("n", 1, 50), Categorical("c", {"a", "b", "c"})});
  const study::SearchSpace floats = Space({Float("x0", -5, 10), Float("x1", 0, 15)});
  int sampled = 0;
  for (const auto& [space, options] : {std::pair{floats, Mcmc()}, std::pair{mixed, Thesis(Mcmc())}}) {
    for (const Suggestion& s : ExpectRestartsChangeNothing(BoSpec(space, 5, options),
                                                           {.asks = 30, .workers = 6, .ending = NoiseAndFailures})) {
      sampled += s.details.count("states") == 1 && s.details.at("states") == kSampledStates;
    }
  }
  EXPECT_GE(sampled, 15);
}

TEST(McmcBo, FindsMinima) {
  for (const BoOptions& options : {Mcmc(), ModelOnly(Thesis(Mcmc())), Thesis(BoOptions())}) {
    MemoryStudy study(BraninSpec(options, 3));
    double best = INFINITY;
    study.Run(35, [&](const study::Parameters& p) {
      best = std::min(best, BraninOf(p));
      return BraninOf(p);
    });
    EXPECT_LT(best, 0.42);
  }
}

TEST(McmcBo, GoesWithEveryAcquisitionAndBound) {
  using study::BoAcquisition;
  using study::BoLipschitz;
  const std::vector<std::pair<BoAcquisition, BoLipschitz>> pairs = {
      {BoAcquisition::kEi, BoLipschitz::kOff},           {BoAcquisition::kPi, BoLipschitz::kOff},
      {BoAcquisition::kLogPi, BoLipschitz::kTruncate},   {BoAcquisition::kUcb, BoLipschitz::kCap},
      {BoAcquisition::kUcb, BoLipschitz::kAcceptReject}, {BoAcquisition::kTs, BoLipschitz::kOff},
      {BoAcquisition::kTs, BoLipschitz::kAcceptReject},  {BoAcquisition::kLogEi, BoLipschitz::kTruncate}};
  for (const auto& [acquisition, lipschitz] : pairs) {
    BoOptions options = ModelOnly(Mcmc());
    options.acquisition = acquisition;
    options.lipschitz = lipschitz;
    options.noisy = lipschitz == BoLipschitz::kCap;
    options.pending = study::BoPending::kBeliever;
    ASSERT_TRUE(Validate(BraninSpec(options)).ok());
    MemoryStudy study(BraninSpec(options));
    study.Run(6, BraninOf);
    std::set<study::Parameters> seen;
    for (int i = 0; i < 6; ++i) {
      const Suggestion s = study.Ask();
      // The smaller of two bounds may well be largest where everything is tied at the upper one.
      if (lipschitz == BoLipschitz::kCap && s.origin == "stuck_random") continue;
      EXPECT_TRUE(s.origin == "acq" || s.origin == "ar_empty") << s.origin;
      EXPECT_EQ(s.details.at("states"), kSampledStates);
      EXPECT_TRUE(seen.insert(s.parameters).second);
      if (i > 2) study.Complete(study.newest(), BraninOf(s.parameters));
    }
  }
}

TEST(McmcBo, PredictionsAreThoseOfTheMixture) {
  // predicted_mean and predicted_sd of a suggestion, against the states that its state leads to again.
  MemoryStudy study(BraninSpec(ModelOnly(Thesis(Mcmc()))));
  study.Run(9, BraninOf);
  const std::string before = study.history().trials().back().designer_state;
  const Suggestion s = study.Ask();
  ASSERT_EQ(s.origin, "acq");
  const study::Encoding encoding(study.spec().space);
  MatrixXd x(9, 2);
  VectorXd scores(9);
  for (int i = 0; i < 9; ++i) {
    const study::HistoryTrial& trial = study.history().trials()[static_cast<size_t>(i)];
    x.row(i) = encoding.ToModel(trial.parameters);
    scores(i) = -*trial.value;
  }
  SurrogateOptions options;
  options.choices = {{kernels::ArdShape(kernels::Family::kMatern52, 2), Warp::kNone}};
  options.prior = gp::PriorKind::kThesis;
  options.sample = true;
  const std::optional<Surrogate> surrogate =
      FitSurrogate(options, {x, scores, {}}, ParseBoState(before, options.choices).surrogate, {study.spec().seed, 9},
                   true, base::StopToken())
          .value();
  ASSERT_EQ(surrogate->states.size(), 10u);
  // Sample the mixture.
  base::RandomStream random(1, "mixture");
  constexpr int kDraws = 200'000;
  double sum = 0.0, squares = 0.0;
  for (const gp::Regression& state : surrogate->states) {
    const gp::Posterior p = state.Predict(encoding.ToModel(s.parameters).transpose());
    for (int k = 0; k < kDraws / 10; ++k) {
      const double f = p.mean(0) + std::sqrt(p.variance(0)) * random.Normal();
      sum += f / kDraws;
      squares += f * f / kDraws;
    }
  }
  const double deviation = std::sqrt(squares - sum * sum);
  const double unit = surrogate->transform.Inverse(1.0) - surrogate->transform.Inverse(0.0);  // Without a warp: linear.
  EXPECT_NEAR(s.details.at("predicted_mean"), -surrogate->transform.Inverse(sum), 0.02 * unit * deviation);
  EXPECT_NEAR(s.details.at("predicted_sd"), unit * deviation, 0.02 * unit * deviation);
}

TEST(McmcBo, OddMetricsNeverStopIt) {
  const double values[][4] = {{7, 7, 7, 7}, {1e300, -1e300, 0, 1}, {1, 1, 1, 1e30}, {-1.7e308, 1.7e308, 3, 3}};
  for (const auto& row : values) {
    for (const BoOptions& options : {ModelOnly(Mcmc()), ModelOnly(Thesis(Mcmc()))}) {
      MemoryStudy study(BraninSpec(options));
      for (int i = 0; i < 9; ++i) {
        study.Ask();
        study.Complete(study.newest(), row[i % 4]);
      }
      EXPECT_NE(study.Ask().origin, "gp_failed");
    }
  }
}

}  // namespace
}  // namespace luthier::search
