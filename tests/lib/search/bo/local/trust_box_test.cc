#include "lib/search/bo/local/trust_box.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lib/base/random.h"
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
  options.maximizer = study::BoMaximizer::kDirect;
  EXPECT_FALSE(UsesTrustBox(options, study::Encoding(Cube(16))));
}

TEST(TrustBox, ProposalsStayInside) {
  for (const study::BoAcquisition acquisition : {study::BoAcquisition::kLogEi, study::BoAcquisition::kTs}) {
    BoOptions options;
    options.acquisition = acquisition;
    options.kernel = study::BoKernel::kMatern52;
    options.trust_region = study::BoTrustRegion::kOff;
    options.initial_points = 3;
    MemoryStudy study(BoSpec(Cube(16), 1, options));
    const study::Encoding encoding(Cube(16));
    int inside = 0;
    // Nothing improves on the second one: the box shrinks.
    for (int i = 0; i < 24; ++i) {
      const TrustBoxRun run = FollowTrustBox(study.history(), encoding, study::Goal::kMinimize, 1);
      const Suggestion s = study.Ask();
      if (s.origin == "acq") {
        ++inside;
        EXPECT_EQ(s.details.at("box_side"), run.side);
        // Ten is the most that lengthscales stretch it.
        EXPECT_LE((encoding.ToCompact(s.parameters) - run.centre).cwiseAbs().maxCoeff(), 5.0 * run.side + 1e-9);
      }
      study.Complete(study.newest(), i == 1 ? 0.0 : 1.0 + 0.1 * i);
    }
    EXPECT_GE(inside, 15);
  }
}

TEST(TrustBox, ATinyBoxMakesRoomForANewOne) {
  BoOptions options;
  options.trust_region = study::BoTrustRegion::kOff;
  options.kernel = study::BoKernel::kMatern52;
  options.initial_points = 3;
  MemoryStudy study(BoSpec(Cube(16), 1, options));
  const study::Encoding encoding(Cube(16));
  // Sixteen failures in a row halve the side, from 0.8 to 2^-7: the results of users count like others.
  for (int i = 0; i < 130; ++i) study.Complete(study.Enqueue(encoding.space().Default()), i == 0 ? 0.0 : 1.0);
  int restarts = 0;
  for (int i = 0; i < 6; ++i) {
    restarts += study.Ask().origin == "restart";
    study.Complete(study.newest(), 1.0);
  }
  EXPECT_EQ(restarts, 3);  // As many as the initial design has points.
}

}  // namespace
}  // namespace luthier::search
