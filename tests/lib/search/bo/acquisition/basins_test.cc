#include "lib/search/bo/acquisition/basins.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "Eigen/Core"
#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/gp/regression.h"
#include "lib/kernels/stationary.h"
#include "lib/search/registry.h"
#include "tests/contract/fake_study.h"
#include "tests/lib/search/bo/bo_testing.h"
#include "tests/lib/search/bo/state_testing.h"
#include "tests/lib/search/restart_oracle.h"

namespace luthier::search {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

const kernels::KernelShape kShape = kernels::GroupedShape(kernels::Family::kMatern52, {0, 1});

double Basin(const VectorXd& u, double x, double y, double width) {
  return std::exp(-0.5 * ((u(0) - x) * (u(0) - x) + (u(1) - y) * (u(1) - y)) / (width * width));
}

// A broad basin and a narrow one that is higher.
double TwoHills(const VectorXd& u) {
  return Basin(u, 0.75, 0.7, 0.2) + 1.3 * Basin(u, 0.2, 0.2, 0.08);
}

struct Landscape {
  explicit Landscape(int n, uint64_t seed) : x(n, 2), y(n) {
    base::RandomStream random(seed, "test/hills");
    for (Index i = 0; i < n; ++i) {
      x(i, 0) = random.Uniform();
      x(i, 1) = random.Uniform();
      y(i) = TwoHills(x.row(i).transpose());
      rows.push_back(i);
    }
    gp::Hyperparameters theta;
    theta.lengthscales = VectorXd::Constant(2, 0.2);
    theta.noise_variance = 1e-8;
    model = gp::Regression::Fit(kShape, theta, x, y, {}, base::StopToken()).value();
  }
  Index Best() const {
    Index best = 0;
    y.maxCoeff(&best);
    return best;
  }

  MatrixXd x;
  VectorXd y;
  std::vector<Index> rows;
  std::optional<gp::Regression> model;
};

gp::InferenceOptions Inference() {
  gp::InferenceOptions options;
  options.doubt_noise = true;
  options.min_noise = 1e-8;
  return options;
}

TEST(Basins, TheBestOutsideResultIsInTheOtherBasin) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    SCOPED_TRACE(seed);
    const Landscape land(80, seed);
    const Index top = land.Best();
    const Index other = BestInOtherBasins(*land.model, land.x, land.y, land.rows, {top}, base::StopToken()).value();
    ASSERT_GE(other, 0);
    const auto narrow = [&](Index i) { return land.x(i, 0) + land.x(i, 1) < 0.9; };
    EXPECT_NE(narrow(other), narrow(top));
    // With no basin known it is the incumbent, and with both no better than a slope.
    EXPECT_EQ(BestInOtherBasins(*land.model, land.x, land.y, land.rows, {}, base::StopToken()).value(), top);
    const Index third =
        BestInOtherBasins(*land.model, land.x, land.y, land.rows, {top, other}, base::StopToken()).value();
    if (third >= 0) {
      EXPECT_LT(land.y(third), 0.5 * land.y(other));
    }
  }
}

TEST(Basins, TheOutsideModelSeesOnlyTheEdgeOfAKnownBasin) {
  const Landscape land(60, 3);
  BasinsState state;
  state.maxima = {land.Best() + 1};
  const Index other =
      BestInOtherBasins(*land.model, land.x, land.y, land.rows, {land.Best()}, base::StopToken()).value();
  const double level = land.y(other);
  const std::optional<OtherBasinsModel> elsewhere =
      FitOtherBasins(kShape, Inference(), {land.x, land.y, MatrixXd(0, 2), level}, &state,
                     base::RandomStream(1, "test/fit"), base::StopToken())
          .value();
  ASSERT_TRUE(elsewhere.has_value());
  ASSERT_TRUE(state.theta.has_value());
  int below = 0;
  const VectorXd mean = elsewhere->regression.PredictMean(land.x);
  for (Index i = 0; i < land.y.size(); ++i) {
    below += land.y(i) <= level ? 1 : 0;
    EXPECT_NEAR(elsewhere->offset + elsewhere->unit * mean(i), std::min(level, land.y(i)), 1e-3) << i;
  }
  EXPECT_EQ(state.rows, below);
  // The same data again: nothing is searched for.
  const VectorXd lengths = state.theta->lengthscales;
  ASSERT_TRUE(FitOtherBasins(kShape, Inference(), {land.x, land.y, MatrixXd(0, 2), level}, &state,
                             base::RandomStream(2, "test/fit"), base::StopToken())
                  .value()
                  .has_value());
  EXPECT_EQ(state.theta->lengthscales, lengths);
}

TEST(Basins, OpenTrialsAreBelieved) {
  const Landscape land(30, 4);
  const double level = land.y.maxCoeff();
  BasinsState state;
  const MatrixXd pending = MatrixXd::Constant(1, 2, 0.21);
  const auto fit = [&](const MatrixXd& open) {
    return FitOtherBasins(kShape, Inference(), {land.x, land.y, open, level}, &state, base::RandomStream(1, "test/fit"),
                          base::StopToken())
        .value();
  };
  const std::optional<OtherBasinsModel> without = fit(MatrixXd(0, 2)), with = fit(pending);
  ASSERT_TRUE(without.has_value() && with.has_value());
  EXPECT_LT(with->regression.Predict(pending).variance(0), 1e-3 * without->regression.Predict(pending).variance(0));
  EXPECT_GE(with->level, without->level);
}

TEST(Basins, AcquisitionHasTheGradientOfItsValue) {
  const Landscape land(40, 5);
  const Index top = land.Best();
  const Index other = BestInOtherBasins(*land.model, land.x, land.y, land.rows, {top}, base::StopToken()).value();
  ASSERT_GE(other, 0);
  BasinsState state;
  const std::optional<OtherBasinsModel> elsewhere =
      FitOtherBasins(kShape, Inference(), {land.x, land.y, MatrixXd(0, 2), 0.5 * land.y(other)}, &state,
                     base::RandomStream(1, "test/fit"), base::StopToken())
          .value();
  ASSERT_TRUE(elsewhere.has_value());
  MatrixXd maxima(2, 2);
  maxima << land.x.row(top), land.x.row(other);
  base::RandomStream random(7, "test/points");
  int on_slopes = 0;
  for (const bool logarithm : {true, false}) {
    const OtherBasinsAcquisition acquisition(&*land.model, &*elsewhere, maxima, 1e-3, logarithm);
    for (int k = 0; k < 40; ++k) {
      const VectorXd u = (VectorXd(2) << random.Uniform(), random.Uniform()).finished();
      VectorXd gradient(2);
      const double value = acquisition.Value(u, &gradient);
      EXPECT_NEAR(value, acquisition.Values(u.transpose())(0), 1e-9 * (1.0 + std::abs(value)));
      EXPECT_EQ(acquisition.Value(u, nullptr), acquisition.Values(u.transpose())(0));
      for (Index t = 0; t < 2; ++t) {
        const MatrixXd half = 0.5 * (u.transpose() + maxima.row(t));
        if (land.model->PredictMean(half)(0) > elsewhere->level) ++on_slopes;
      }
      const double h = 1e-6;
      for (Index j = 0; j < 2; ++j) {
        VectorXd above = u, below = u;
        above(j) += h;
        below(j) -= h;
        const double slope = (acquisition.Value(above, nullptr) - acquisition.Value(below, nullptr)) / (2 * h);
        EXPECT_NEAR(gradient(j), slope, 1e-3 * (1.0 + std::abs(slope))) << "point " << k << ", axis " << j;
      }
    }
  }
  EXPECT_GT(on_slopes, 10);
}

// The basins above 0.05.
std::optional<OtherBasinsModel> Elsewhere(const Landscape& land) {
  BasinsState state;
  return FitOtherBasins(kShape, Inference(), {land.x, land.y, MatrixXd(0, 2), 0.05}, &state,
                        base::RandomStream(1, "test/fit"), base::StopToken())
      .value();
}

TEST(Basins, TheSlopeOfAKnownBasinHasNoAcquisition) {
  const Landscape land(100, 6);
  const Index top = land.Best();
  const std::optional<OtherBasinsModel> elsewhere = Elsewhere(land);
  ASSERT_TRUE(elsewhere.has_value());
  const OtherBasinsAcquisition acquisition(&*land.model, &*elsewhere, land.x.row(top), 1e-3, true);
  // Half a width from the top the function is high, and far from the unknown: no basin.
  const bool narrow = land.x(top, 0) + land.x(top, 1) < 0.9;
  VectorXd slope = land.x.row(top).transpose();
  slope(0) += narrow ? 0.04 : 0.1;
  const VectorXd foot =
      land.x.row(BestInOtherBasins(*land.model, land.x, land.y, land.rows, {top}, base::StopToken()).value())
          .transpose();
  EXPECT_LT(acquisition.Value(slope, nullptr) + 3.0, acquisition.Value(foot + VectorXd::Constant(2, 0.01), nullptr));
}

TEST(Basins, BoundsRuleSettingsOut) {
  const Landscape land(40, 8);
  const Index top = land.Best();
  const std::optional<OtherBasinsModel> elsewhere = Elsewhere(land);
  ASSERT_TRUE(elsewhere.has_value());
  const LipschitzBounds bounds(land.x, land.y, 8.0);
  const OtherBasinsAcquisition free(&*land.model, &*elsewhere, land.x.row(top), 1e-3, true);
  const OtherBasinsAcquisition bounded(&*land.model, &*elsewhere, land.x.row(top), 1e-3, true, &bounds, land.y(top));
  base::RandomStream random(9, "test/points");
  int out = 0;
  for (int k = 0; k < 100; ++k) {
    const VectorXd u = (VectorXd(2) << random.Uniform(), random.Uniform()).finished();
    VectorXd gradient(2);
    const double value = bounded.Value(u, &gradient);
    if (bounds.At(u).upper <= land.y(top)) {
      ++out;
      EXPECT_EQ(value, -INFINITY);
      EXPECT_EQ(bounded.Values(u.transpose())(0), -INFINITY);
      EXPECT_EQ(gradient.norm(), 0.0);
    } else {
      EXPECT_EQ(bounded.Value(u, nullptr), free.Value(u, nullptr));
    }
  }
  EXPECT_GT(out, 5);
  EXPECT_LT(out, 95);
}

TEST(Basins, TheStateSurvivesAsBytes) {
  BasinsState state;
  state.maxima = {3, 17};
  state.away = true;
  state.log_ei = -12.345678901234567;
  state.turns = 2;
  state.best_other = 5;
  for (int k = 0; k < 2; ++k) {
    const std::string bytes = BytesOf(state);
    const BasinsState read = ParseBoState(bytes, ChoicesOfGroups(2)).basins;
    EXPECT_EQ(read.maxima, state.maxima);
    EXPECT_EQ(read.away, state.away);
    EXPECT_EQ(read.log_ei, state.log_ei);
    EXPECT_EQ(read.turns, state.turns);
    EXPECT_EQ(read.best_other, state.best_other);
    EXPECT_EQ(BytesOf(read), bytes);
    state.log_ei = -INFINITY;
    state.rows = 12;
    state.theta.emplace();
    state.theta->lengthscales = VectorXd::Constant(2, 0.25);
  }
  for (const char* foreign : {"", "1", "1 2", "2 -3 0 5 3", "1 nan 0 5 3", "1 -3 -1 5 3", "1 -3 0 -5 3", "1 -3 0 5 0",
                              "1 -3 0 5 x", "1 -3 0 5 3;", "1 -3 0 5 3;4", "1 -3 0 5 3;0;1 1 0 1 1 1",
                              "1 -3 0 5 3;4;1 1 0 1 1", "1 -3 0 5 3;4;a b", ";;"}) {
    EXPECT_TRUE(ReadLegacyBasins(foreign, 2).maxima.empty()) << foreign;
  }
}

// The study as a whole: the broad basin comes first, the narrow one is the better.
const TestFunction& BroadAndNarrow() {
  static const TestFunction& function =
      *new TestFunction{"two hills", {{0, 1}, {0, 1}, {0, 1}, {0, 1}}, -1.3, [](const std::vector<double>& x) {
                          double broad = 0.0, narrow = 0.0;
                          for (const double v : x) {
                            broad += (v - 0.65) * (v - 0.65);
                            narrow += (v - 0.2) * (v - 0.2);
                          }
                          return -std::exp(-broad / 0.18) - 1.3 * std::exp(-narrow / 0.08);
                        }};
  return function;
}

TEST(Basins, AStudyLeavesAKnownBasin) {
  int found = 0;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    if (Regret(BroadAndNarrow(), seed, study::BoOptions(), 120) < 0.01) ++found;
  }
  EXPECT_GE(found, 2);
}

TEST(Basins, ARestartWhileItLastsChangesNothing) {
  const study::StudySpec spec = FunctionSpec(BroadAndNarrow(), 0, study::BoOptions());
  const std::unique_ptr<Designer> living = CreateDesigner(spec);
  contract::FakeStudy study;
  int compared = 0;
  while (study.asks() < 150 && compared < 12) {
    const absl::StatusOr<Suggestion> a = living->Suggest(study.history(), study.asks(), base::StopToken());
    ASSERT_TRUE(a.ok()) << a.status();
    // The list of known basins is in the carries, so it matters from the first proposal that has one on.
    if (compared > 0 || a->details.contains("known_hills")) {
      const absl::StatusOr<Suggestion> b =
          CreateDesigner(spec)->Suggest(study.Replay(study.events()), study.asks(), base::StopToken());
      ASSERT_TRUE(b.ok()) << b.status();
      ExpectSameSuggestion(*a, *b);
      ++compared;
    }
    study.Suggested(*a);
    study.Finish(study.Store(), contract::Complete(BroadAndNarrow().f(Point(a->parameters))));
  }
  EXPECT_EQ(compared, 12);
}

}  // namespace
}  // namespace luthier::search
