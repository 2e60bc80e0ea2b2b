#include "lib/search/bo/local/trust_box.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/math/special_functions.h"
#include "lib/search/bo/acquisition/finite_thompson.h"
#include "tests/lib/search/bo/bo_testing.h"

namespace luthier::search {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using study::BoOptions;

study::SearchSpace Cube(int d) {
  std::vector<study::ParameterSpec> parameters;
  for (int i = 0; i < d; ++i) parameters.push_back(Float("x" + std::to_string(10 + i), 0, 1));
  return Space(parameters);
}

// Trials with these losses, in the middle of the space; NAN: failed for a fault of the setting.
study::History Finished(const study::SearchSpace& space, const std::vector<double>& losses) {
  study::History history;
  const study::Encoding encoding(space);
  int64_t number = 0;
  for (double loss : losses) {
    study::HistoryTrial trial;
    trial.number = ++number;
    trial.parameters =
        encoding.FromCompact(VectorXd::Constant(encoding.compact_dim(), 0.01 * static_cast<double>(number)));
    history.AddStored(trial);
    if (std::isnan(loss)) {
      history.Finish(number, study::TrialState::kFailed, std::nullopt, std::nullopt, study::FailureKind::kConfig);
    } else {
      history.Finish(number, study::TrialState::kComplete, loss, std::nullopt, std::nullopt);
    }
  }
  return history;
}

TEST(TrustBox, GrowsAndShrinks) {
  const study::SearchSpace space = Cube(2);
  const study::Encoding encoding(space);
  auto follow = [&](const std::vector<double>& losses, int64_t first = 1) {
    return FollowTrustBox(Finished(space, losses), encoding, study::Goal::kMinimize, first);
  };
  EXPECT_EQ(follow({}).side, 0.8);
  EXPECT_EQ(follow({}).centre.size(), 0);
  EXPECT_EQ(follow({5, 4}).side, 0.8);
  EXPECT_EQ(follow({5, 4, 3}).side, 1.6);
  EXPECT_EQ(follow({5, 4, 3, 2, 1, 0}).side, 1.6);
  EXPECT_EQ(follow({5, 6, 6, 6}).side, 0.8);
  EXPECT_EQ(follow({5, 6, 6, 6, 6}).side, 0.4);
  EXPECT_EQ(follow({5, 6, NAN, 6, NAN}).side, 0.4);
  // A ten-thousandth of what is usual is no success.
  EXPECT_EQ(follow({5, 4, 3.9999, 3.9998, 3.9997, 3.9996}).side, 0.4);
  EXPECT_NEAR(follow({5, 3, 4}).centre(0), 0.02, 1e-12);
  EXPECT_EQ(follow({5, 3, 4}, 3).results, 1);
  std::vector<double> losses(1 + 4 * 6, 1.0);
  EXPECT_FALSE(follow(losses).ended);
  EXPECT_EQ(follow(losses).side, 0.8 / 64);
  losses.resize(1 + 4 * 7, 1.0);
  EXPECT_TRUE(follow(losses).ended);
}

TEST(TrustBox, SidesFollowLengthscales) {
  const study::SearchSpace space = Space({Float("a", 0, 1), Float("b", 0, 1), Int("n", 1, 9)});
  const study::Encoding encoding(space);
  TrustBoxRun run;
  run.side = 0.2;
  run.centre = VectorXd::Constant(3, 0.45);
  const TrustBox box = BoxOf(run, (VectorXd(3) << 0.5, 2.0, 1.0).finished(), encoding);
  EXPECT_NEAR(box.upper(0) - box.lower(0), 0.1, 1e-12);
  EXPECT_NEAR(box.upper(1) - box.lower(1), 0.4, 1e-12);
  EXPECT_EQ(box.lower(2), 0.0);
  EXPECT_EQ(box.upper(2), 1.0);
  const TrustBox cut = BoxOf(run, (VectorXd(3) << 1e-6, 1e6, 1.0).finished(), encoding);
  EXPECT_NEAR(cut.upper(0) - cut.lower(0), 0.02, 1e-12);
  EXPECT_EQ(cut.lower(1), 0.0);
  EXPECT_EQ(cut.upper(1), 1.0);
}

TEST(TrustBox, AutoIsForManyContinuousParameters) {
  BoOptions options;
  EXPECT_FALSE(UsesTrustBox(options, study::Encoding(Cube(16))));  // Local steps do as well.
  EXPECT_TRUE(UsesTrustBox(options, study::Encoding(Cube(51))));   // There are none then.
  options.noisy = true;
  EXPECT_TRUE(UsesTrustBox(options, study::Encoding(Cube(16))));
  options.noisy = false;
  options.trust_region = study::BoTrustRegion::kOff;
  EXPECT_FALSE(UsesTrustBox(options, study::Encoding(Cube(15))));
  EXPECT_TRUE(UsesTrustBox(options, study::Encoding(Cube(16))));
  std::vector<study::ParameterSpec> mixed = Cube(14).parameters();
  for (int i = 0; i < 6; ++i) mixed.push_back(Int("n" + std::to_string(i), 0, 5));
  EXPECT_FALSE(UsesTrustBox(options, study::Encoding(Space(mixed))));
  options.trust_box = study::BoTrustBox::kOn;
  EXPECT_TRUE(UsesTrustBox(options, study::Encoding(Space(mixed))));
  EXPECT_FALSE(UsesTrustBox(options, study::Encoding(Space({Int("n", 0, 5)}))));
  options.maximizer = study::BoMaximizer::kDirect;
  EXPECT_FALSE(Validate(BoSpec(Cube(2), 1, options)).ok());
}

TEST(TrustBox, ProposalsStayInside) {
  for (const study::BoSampler sampler : {study::BoSampler::kPathwise, study::BoSampler::kFinite}) {
    for (const study::BoAcquisition acquisition : {study::BoAcquisition::kLogEi, study::BoAcquisition::kTs}) {
      BoOptions options;
      options.acquisition = acquisition;
      options.sampler = sampler;
      options.kernel = study::BoKernel::kMatern52;
      options.trust_box = study::BoTrustBox::kOn;
      options.trust_region = study::BoTrustRegion::kOff;
      MemoryStudy study(BoSpec(Cube(2), 1, options));
      const study::Encoding encoding(Cube(2));
      // Nothing improves on the second one: the box shrinks.
      for (int i = 0; i < 16; ++i) {
        const TrustBoxRun run = FollowTrustBox(study.history(), encoding, study::Goal::kMinimize, 1);
        const Suggestion s = study.Ask();
        if (s.origin == "acq") {
          EXPECT_EQ(s.details.at("box_side"), run.side);
          // Ten is the most that lengthscales stretch it.
          EXPECT_LE((encoding.ToCompact(s.parameters) - run.centre).cwiseAbs().maxCoeff(), 5.0 * run.side + 1e-9);
        }
        study.Complete(study.newest(), i == 1 ? 0.0 : 1.0 + 0.1 * i);
      }
    }
  }
}

TEST(TrustBox, ATinyBoxMakesRoomForANewOne) {
  BoOptions options;
  options.trust_box = study::BoTrustBox::kOn;
  options.trust_region = study::BoTrustRegion::kOff;
  options.kernel = study::BoKernel::kMatern52;
  MemoryStudy study(BoSpec(Cube(2), 1, options));
  int restarts = 0;
  double side = 0.0;
  for (int i = 0; i < 40; ++i) {
    const Suggestion s = study.Ask();
    restarts += s.origin == "restart";
    if (s.details.contains("box_side")) side = s.details.at("box_side");
    study.Complete(study.newest(), i == 0 ? 0.0 : 1.0);
  }
  EXPECT_EQ(restarts, 4);  // As many as the initial design has points.
  EXPECT_GE(side, 0.1);
}

TEST(FiniteDraw, PicksEachPointAsOftenAsItIsTheBest) {
  base::RandomStream stream(2, "test/finite");
  MatrixXd x(5, 2), pair(2, 2);
  for (double& v : x.reshaped()) v = stream.Uniform();
  pair << 0.2, 0.3, 0.35, 0.4;
  gp::Hyperparameters theta;
  theta.lengthscales = VectorXd::Constant(2, 0.4);
  const gp::Regression regression = *gp::Regression::Fit(kernels::ArdShape(kernels::Family::kMatern52, 2), theta, x,
                                                         VectorXd(x.rowwise().sum()), {}, base::StopToken())
                                         .value();
  const VectorXd mean = regression.PredictMean(pair);
  const MatrixXd covariance = regression.JointCovariance(pair, base::StopToken()).value();
  const double spread = std::sqrt(covariance(0, 0) + covariance(1, 1) - 2.0 * covariance(0, 1));
  const double expected = math::NormalCdf((mean(0) - mean(1)) / spread);
  int first = 0;
  const int draws = 4000;
  VectorXd sum = VectorXd::Zero(2);
  MatrixXd squares = MatrixXd::Zero(2, 2);
  for (int k = 0; k < draws; ++k) {
    const VectorXd f =
        FiniteDraw::Create(regression, pair, base::RandomStream(9, "test/draw", static_cast<uint64_t>(k)),
                           base::StopToken())
            ->Values(pair);
    first += f(0) > f(1);
    sum += f / draws;
    squares += (f - mean) * (f - mean).transpose() / draws;
  }
  EXPECT_NEAR(static_cast<double>(first) / draws, expected, 4.0 * 0.5 / std::sqrt(draws));
  EXPECT_LT((sum - mean).cwiseAbs().maxCoeff(), 4.0 * std::sqrt(covariance.maxCoeff() / draws));
  EXPECT_LT((squares - covariance).cwiseAbs().maxCoeff(), 6.0 * covariance.maxCoeff() / std::sqrt(draws));
}

TEST(FiniteDraw, GivesEachPointTheSameValueInAnyOrder) {
  base::RandomStream stream(3, "test/finite");
  MatrixXd points(6, 2);
  for (double& v : points.reshaped()) v = stream.Uniform();
  points.col(0).head(3).setConstant(0.5);
  gp::Hyperparameters theta;
  theta.lengthscales = VectorXd::Constant(2, 0.4);
  const gp::Regression regression = *gp::Regression::Fit(kernels::ArdShape(kernels::Family::kMatern52, 2), theta,
                                                         MatrixXd(0, 2), VectorXd(0), {}, base::StopToken())
                                         .value();
  const FiniteDraw draw = *FiniteDraw::Create(regression, points, base::RandomStream(1, "draw"), base::StopToken());
  const VectorXd all = draw.Values(points);
  EXPECT_TRUE(all.allFinite());
  EXPECT_EQ(draw.Values(points.colwise().reverse()), all.reverse());
  for (Index i = 0; i < 6; ++i) EXPECT_EQ(draw.Value(points.row(i).transpose(), nullptr), all(i));
  EXPECT_TRUE(std::isnan(draw.Value(VectorXd::Constant(2, 0.123), nullptr)));
}

TEST(FiniteCandidates, AreDifferentAndHoldTheBest) {
  const study::SearchSpace space = Space({Float("x", 0, 1), Int("n", 1, 4), Categorical("c", {"a", "b"})});
  const study::Encoding encoding(space);
  const MatrixXd known = MatrixXd::Constant(1, 3, 0.3);
  const std::vector<study::Parameters> points =
      FiniteCandidates(encoding, nullptr, {}, known, nullptr, {1, 2}).settings;
  EXPECT_EQ(std::set<study::Parameters>(points.begin(), points.end()).size(), points.size());
  EXPECT_GT(points.size(), 1000u);
  const study::Parameters best = encoding.FromCompact(known.row(0).transpose());
  EXPECT_TRUE(std::find(points.begin(), points.end(), best) != points.end());
  for (const study::Parameters& p : points) EXPECT_TRUE(space.Validate(p).ok());
  const study::Encoding finite(Space({Int("i", 0, 40), Int("j", 0, 40)}));
  const std::optional<SettingTable> table = SettingTable::Create(finite);
  std::vector<bool> excluded(static_cast<size_t>(table->size()), false);
  for (size_t i = 0; i < 1600; ++i) excluded[i] = true;
  const auto few = FiniteCandidates(finite, &*table, excluded, MatrixXd(0, 2), nullptr, {1, 2}).settings;
  EXPECT_EQ(few.size(), 81u);
  for (const study::Parameters& p : few) EXPECT_GE(table->Find(p), 1600);
}

}  // namespace
}  // namespace luthier::search
