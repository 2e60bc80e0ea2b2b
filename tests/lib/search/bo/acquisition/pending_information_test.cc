#include "lib/search/bo/acquisition/pending_information.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "Eigen/Cholesky"
#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/kernels/stationary.h"
#include "lib/study/encoding.h"
#include "tests/lib/search/bo/bo_testing.h"

namespace luthier::search {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using study::BoAcquisition, study::BoOptions, study::BoPending;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

MatrixXd Uniforms(Index rows, Index columns, const char* purpose) {
  base::RandomStream stream(5, purpose);
  MatrixXd u(rows, columns);
  for (double& v : u.reshaped()) v = stream.Uniform();
  return u;
}

struct PendingSample {
  MatrixXd x = Uniforms(12, 2, "test/news/x"), open = Uniforms(4, 2, "test/news/open");
  VectorXd y = (3.0 * x.col(0)).array().sin() + x.col(1).array().square();
  gp::Hyperparameters theta{(VectorXd(2) << 0.3, 0.5).finished(), 1.7, 1e-4, 0.1};

  gp::Regression Results() const {
    return *gp::Regression::Fit(kernels::ArdShape(kernels::Family::kMatern52, 2), theta, x, y, {}, base::StopToken())
                .value();
  }
  gp::Regression WithOpen() const {
    gp::Regression regression = Results();
    for (Index i = 0; i < open.rows(); ++i) {
      EXPECT_TRUE(regression.Append(open.row(i).transpose(), regression.PredictMean(open.row(i))(0), base::StopToken())
                      .value());
    }
    return regression;
  }
  double Covariance(const VectorXd& a, const VectorXd& b) const {
    const double r = std::sqrt(5.0) * (a - b).cwiseQuotient(theta.lengthscales).norm();
    return theta.signal_variance * (1.0 + r + r * r / 3.0) * std::exp(-r);
  }
  // sd(f(u) | measurements at the rows of `at`), by the textbook's formula.
  double Deviation(const MatrixXd& at, const VectorXd& u) const {
    const Index n = at.rows();
    MatrixXd c(n, n);
    VectorXd k(n);
    for (Index i = 0; i < n; ++i) {
      k(i) = Covariance(at.row(i), u);
      for (Index j = 0; j < n; ++j) c(i, j) = Covariance(at.row(i), at.row(j)) + (i == j ? theta.noise_variance : 0.0);
    }
    return std::sqrt(theta.signal_variance - k.dot(c.ldlt().solve(k)));
  }
};

TEST(News, TheLevelIsThatOfTheMostPromisingOpenTrial) {
  const PendingSample s;
  const gp::Regression results = s.Results();
  for (const double root_beta : {0.0, 1.0, 30.0}) {
    double top = -kInfinity, expected = 0.0;
    for (Index i = 0; i < s.open.rows(); ++i) {
      const double deviation = s.Deviation(s.x, s.open.row(i));
      const double promise = results.PredictMean(s.open.row(i))(0) + root_beta * deviation;
      if (promise > top) expected = kLeastInformation * deviation;
      top = std::max(top, promise);
    }
    EXPECT_NEAR(LeastInformation(results, s.open, root_beta, true), expected, 1e-9);
    EXPECT_NEAR(LeastInformation(results, s.open, root_beta, false),
                std::sqrt(expected * expected + s.theta.noise_variance), 1e-9);
  }
  EXPECT_NE(LeastInformation(results, s.open, 0.0, true), LeastInformation(results, s.open, 30.0, true));
}

TEST(News, ExcludesCandidatesThatPendingTrialsDetermine) {
  const PendingSample s;
  const gp::Regression regression = s.WithOpen();
  MatrixXd all(s.x.rows() + s.open.rows(), 2);
  all << s.x, s.open;
  // Two states, of different levels: the average counts.
  const double low = 0.1, high = 0.4;
  const ModelAcquisition bound({{&regression, 0.0}},
                               {.kind = AcquisitionKind::kUpperConfidenceBound, .root_beta = 1.5});
  const PendingInformation information(&bound, {{&regression, low}, {&regression, high}});
  MatrixXd u = Uniforms(300, 2, "test/news/u");
  u.topRows(4) = s.open.array() + 1e-3;
  const VectorXd plain = bound.Values(u), values = information.Values(u);
  int left_out = 0;
  for (Index i = 0; i < u.rows(); ++i) {
    const double deviation = s.Deviation(all, u.row(i));
    const double average = 0.5 * (deviation / low + deviation / high);
    ASSERT_GT(std::abs(average - 1.0), 1e-7);
    EXPECT_EQ(values(i), average < 1.0 ? -kInfinity : plain(i));
    if (average < 1.0) ++left_out;
    VectorXd gradient, expected;
    const double value = information.Value(u.row(i).transpose(), &gradient);
    if (average < 1.0 + 1e-6) {
      EXPECT_EQ(value, -kInfinity);
      EXPECT_EQ(gradient, VectorXd::Zero(2));
    } else {
      EXPECT_EQ(value, bound.Value(u.row(i).transpose(), &expected));
      EXPECT_EQ(gradient, expected);
    }
  }
  EXPECT_TRUE((values.head(4).array() == -kInfinity).all());
  EXPECT_GT(left_out, 20);
  EXPECT_LT(left_out, 280);
}

// A noisy measurement leaves much to be learnt where it is: another one there is no waste.
TEST(News, NoisyMeasurementsMayBeRepeated) {
  PendingSample s;
  s.theta.noise_variance = 1.0;
  const gp::Regression regression = s.WithOpen();
  const ModelAcquisition bound({{&regression, 0.0}},
                               {.kind = AcquisitionKind::kUpperConfidenceBound, .root_beta = 1.5});
  const PendingInformation information(&bound, {{&regression, LeastInformation(s.Results(), s.open, 1.5, true)}});
  EXPECT_EQ(information.Values(s.open), bound.Values(s.open));
}

// The model has some noise where there is none, and would wait for ever to be sure of a value: that is no information.
TEST(News, ExactMeasurementsAreNotRepeatedHoweverLittleThereIsToLearn) {
  PendingSample s;
  s.x.row(0) = s.open.row(0).array() + 1e-4;  // A result that noise alone leaves in doubt.
  s.open = s.open.topRows(1).eval();
  const gp::Regression results = s.Results(), regression = s.WithOpen();
  ASSERT_LT(s.Deviation(s.x, s.open.row(0)), 1.01 * std::sqrt(s.theta.noise_variance));
  const ModelAcquisition bound({{&regression, 0.0}},
                               {.kind = AcquisitionKind::kUpperConfidenceBound, .root_beta = 1.5});
  const PendingInformation exact(&bound, {{&regression, LeastInformation(results, s.open, 1.5, false)}});
  EXPECT_EQ(exact.Values(s.open)(0), -kInfinity);
  const PendingInformation noisy(&bound, {{&regression, LeastInformation(results, s.open, 1.5, true)}});
  EXPECT_EQ(noisy.Values(s.open), bound.Values(s.open));
}

// Seed 4 has come to its last digits when the second batch is asked for, of which half lay within 1e-4 then.
TEST(News, BatchesSpreadAtTheLastDigits) {
  const TestFunction function = SixFunctions()[0];
  BoOptions options;
  options.acquisition = BoAcquisition::kUcb;
  const study::StudySpec spec = FunctionSpec(function, 4, options);
  MemoryStudy study(spec);
  const auto f = [&](const study::Parameters& p) { return function.f(Point(p)); };
  study.Run(10, f);
  const study::Encoding encoding(spec.space);
  for (int batch = 0; batch < 2; ++batch) {
    std::vector<VectorXd> points;
    double apart = kInfinity;
    const int64_t first = study.newest() + 1;
    for (int i = 0; i < 16; ++i) {
      const Suggestion suggestion = study.Ask();
      const VectorXd u = encoding.ToCompact(suggestion.parameters);
      if (suggestion.origin == "trust_region") continue;  // Local steps have rules of their own.
      for (const VectorXd& other : points) apart = std::min(apart, (u - other).norm());
      points.push_back(u);
    }
    EXPECT_GT(apart, 1e-3) << batch;
    for (int64_t number = first; number <= study.newest(); ++number) {
      study.Complete(number, f(study.history().trials()[static_cast<size_t>(number - 1)].parameters));
    }
  }
}

// Sixteen settings at once from an upper confidence bound or from drawn functions, of which the second to last used to
// be 1e-6 from each other.
TEST(News, BatchesSpread) {
  for (const TestFunction& function : SixFunctions()) {
    if (function.name != "camel" && function.name != "rosenbrock2") continue;
    for (const BoAcquisition acquisition : {BoAcquisition::kUcb, BoAcquisition::kTs}) {
      for (const uint64_t seed : {1, 2}) {
        BoOptions options;
        options.acquisition = acquisition;
        options.kernel = study::BoKernel::kMatern52;
        const study::StudySpec spec = FunctionSpec(function, seed, options);
        MemoryStudy study(spec);
        study.Run(10, [&](const study::Parameters& p) { return function.f(Point(p)); });
        const study::Encoding encoding(spec.space);
        std::vector<VectorXd> points;
        double apart = kInfinity;
        for (int i = 0; i < 16; ++i) {
          const VectorXd u = encoding.ToCompact(study.Ask().parameters);
          for (const VectorXd& other : points) apart = std::min(apart, (u - other).norm());
          points.push_back(u);
        }
        EXPECT_GT(apart, 3e-4) << function.name << " " << static_cast<int>(acquisition) << " " << seed;
      }
    }
  }
}

// Nothing is information when all but one of a few settings are tried or under way; it is proposed all the same.
TEST(News, AFiniteSpaceIsUsedUp) {
  for (const BoAcquisition acquisition : {BoAcquisition::kUcb, BoAcquisition::kTs}) {
    BoOptions options;
    options.acquisition = acquisition;
    MemoryStudy study(BoSpec(Space({Int("n", 1, 12)}), 3, options));
    const auto f = [](const study::Parameters& p) { return std::pow(Number(p, "n") - 4.3, 2); };
    study.Run(5, f);
    for (int i = 0; i < 7; ++i) EXPECT_EQ(study.Ask().origin, "acq") << i;
    EXPECT_FALSE(study.TryAsk().ok());
  }
}

// One ask at a time nothing is open, and nothing is left out.
TEST(News, SequentialAsksAreUnaffected) {
  BoOptions options;
  options.acquisition = BoAcquisition::kUcb;
  const TestFunction function = SixFunctions()[1];
  MemoryStudy believer(FunctionSpec(function, 4, options));
  options.pending = BoPending::kFantasies;
  MemoryStudy dreamer(FunctionSpec(function, 4, options));
  for (MemoryStudy* study : {&believer, &dreamer}) {
    study->Run(16, [&](const study::Parameters& p) { return function.f(Point(p)); });
  }
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(believer.history().trials()[i].parameters, dreamer.history().trials()[i].parameters);
  }
}

}  // namespace
}  // namespace luthier::search
