#include "lib/search/lipschitz_certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lib/base/random.h"
#include "tests/lib/study/builders.h"

namespace luthier::search {
namespace {

using study::Float;
using study::Parameters;
using study::Space;
using study::StudySpec;
using ::testing::HasSubstr;

using Results = CertificateResults;

StudySpec Spec(study::SearchSpace space, study::Goal goal = study::Goal::kMinimize) {
  StudySpec spec;
  spec.space = std::move(space);
  spec.metric = {"loss", goal};
  spec.algorithm = study::BoDefaults(study::BoPreset::kLbo);
  spec.seed = 5;
  return spec;
}

// At most 3.3 steep.
double Wave(double x) {
  return 0.1 * std::sin(9.0 * x) + 0.05 * std::cos(48.0 * x);
}

Results WaveResults(int n, double sign) {
  base::RandomStream random(1, "wave");
  Results results;
  for (int i = 0; i < n; ++i) {
    const double x = random.Uniform();
    results.push_back({{{"x", x}}, sign * Wave(x)});
  }
  return results;
}

std::optional<Certificate> MustCertify(const StudySpec& spec, const Results& results,
                                       const CertificateOptions& options) {
  const absl::StatusOr<std::optional<Certificate>> certificate = Certify(spec, results, options);
  EXPECT_TRUE(certificate.ok()) << certificate.status();
  return certificate.ok() ? *certificate : std::nullopt;
}

TEST(Certificate, TheShareIsWhatAFineGridSays) {
  constexpr double kSlope = 3.4;
  for (const double sign : {1.0, -1.0}) {
    const StudySpec spec = Spec(Space({Float("x", 0, 1)}), sign > 0 ? study::Goal::kMinimize : study::Goal::kMaximize);
    for (const double epsilon : {0.0, 0.02, 0.2}) {
      const Results results = WaveResults(20, sign);
      const std::optional<Certificate> c = MustCertify(spec, results, {epsilon, kSlope});
      ASSERT_TRUE(c.has_value());
      double best = INFINITY;  // Of the wave itself.
      for (const auto& [p, value] : results) best = std::min(best, sign * value);
      constexpr int kGrid = 20'000;
      int excluded = 0;
      for (int k = 0; k < kGrid; ++k) {
        const double x = (k + 0.5) / kGrid;
        double lower = -INFINITY;
        for (const auto& [p, value] : results) {
          lower = std::max(lower, sign * value - kSlope * std::abs(x - std::get<double>(p.at("x"))));
        }
        if (lower < best - epsilon) continue;
        ++excluded;
        EXPECT_GE(Wave(x), best - epsilon);  // What is ruled out is not there.
      }
      EXPECT_NEAR(c->share, static_cast<double>(excluded) / kGrid, 0.002);
      EXPECT_EQ(c->best, sign * best);
      EXPECT_EQ(c->epsilon, epsilon);
      EXPECT_EQ(c->lipschitz, kSlope);
      EXPECT_LE(c->steepest_slope, 3.3);
      EXPECT_GT(c->steepest_slope, 1.0);
      EXPECT_EQ(c->results, 20);
      EXPECT_EQ(c->points, 4096);
      EXPECT_NEAR(c->standard_error, std::sqrt(c->share * (1 - c->share) / 4096), 1e-12);
    }
  }
}

TEST(Certificate, DistancesAreThoseOfTheScaledCube) {
  const StudySpec spec = Spec(Space({Float("x", 1e-4, 1.0, study::Scale::kLog)}));
  // 1 and 3 at a quarter and three quarters of the cube: with slope 4 the second bounds the loss from below by
  // 3 - 4 |u - 3/4|, which is at least 1 on [1/4, 1].
  const Results results = {{{{"x", 1e-3}}, 1.0}, {{{"x", 1e-1}}, 3.0}};
  const std::optional<Certificate> c = MustCertify(spec, results, {0.0, 4.0});
  ASSERT_TRUE(c.has_value());
  EXPECT_NEAR(c->steepest_slope, 4.0, 1e-9);
  EXPECT_NEAR(c->share, 0.75, 0.002);
}

TEST(Certificate, WithoutAConstantTheAlgorithmsRuleGivesIt) {
  StudySpec spec = Spec(Space({Float("x", 0, 1)}));
  const Results results = {{{{"x", 0.0}}, 1.0}, {{{"x", 0.5}}, 2.0}, {{{"x", 1.0}}, 2.5}};
  EXPECT_EQ(MustCertify(spec, results, {})->lipschitz, 10.0 * 3 * 2.0);
  study::BoOptions options = study::BoDefaults(study::BoPreset::kLbo);
  options.growth = study::BoGrowth::kKnown;
  options.lipschitz_constant = 7.0;
  spec.algorithm = options;
  EXPECT_EQ(MustCertify(spec, results, {})->lipschitz, 7.0);
  // What the results contradict cannot be the constant.
  EXPECT_EQ(MustCertify(spec, results, {0.0, 0.5})->lipschitz, 2.0);
  // Any algorithm's results can be looked at with a constant of one's own.
  spec.algorithm = study::RandomOptions{};
  EXPECT_EQ(MustCertify(spec, results, {0.0, 5.0})->lipschitz, 5.0);
}

TEST(Certificate, AbsentWithoutAConstantOrResults) {
  const StudySpec spec = Spec(Space({Float("x", 0, 1)}));
  EXPECT_FALSE(MustCertify(spec, {}, {}).has_value());
  EXPECT_FALSE(MustCertify(spec, {}, {0.0, 1.0}).has_value());
  EXPECT_FALSE(MustCertify(spec, {{{{"x", 0.0}}, 1.0}}, {}).has_value());
  EXPECT_FALSE(MustCertify(spec, {{{{"x", 0.0}}, 1.0}, {{{"x", 1.0}}, 1.0}}, {}).has_value());
  EXPECT_TRUE(MustCertify(spec, {{{{"x", 0.0}}, 1.0}}, {0.0, 1.0}).has_value());
  const Results two = {{{{"x", 0.0}}, 1.0}, {{{"x", 1.0}}, 2.0}};
  StudySpec without = spec;
  without.algorithm = study::BoDefaults(study::BoPreset::kBo);
  EXPECT_FALSE(MustCertify(without, two, {}).has_value());
  EXPECT_FALSE(HasLipschitzBounds(without));
  EXPECT_TRUE(HasLipschitzBounds(spec));
  without.algorithm = study::RandomOptions{};
  EXPECT_FALSE(MustCertify(without, two, {}).has_value());
  EXPECT_FALSE(MustCertify(Spec(Space({Float("x", 1, 1)})), {{{{"x", 1.0}}, 1.0}}, {0.0, 1.0}).has_value());
  // Slopes no double holds.
  EXPECT_FALSE(MustCertify(spec, {{{{"x", 0.0}}, -1e308}, {{{"x", 1.0}}, 1e308}}, {}).has_value());
}

TEST(Certificate, OptionsOutOfRangeAreRefused) {
  const StudySpec spec = Spec(Space({Float("x", 0, 1)}));
  const auto error = [&](CertificateOptions options) {
    return std::string(Certify(spec, {}, options).status().message());
  };
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  EXPECT_THAT(error({-1.0, {}}), HasSubstr("epsilon: -1 is not"));
  EXPECT_THAT(error({nan, {}}), HasSubstr("epsilon"));
  EXPECT_THAT(error({inf, {}}), HasSubstr("epsilon"));
  EXPECT_THAT(error({0.0, 0.0}), HasSubstr("lipschitz: 0 is not"));
  EXPECT_THAT(error({0.0, nan}), HasSubstr("lipschitz"));
  EXPECT_THAT(error({-1.0, inf}), HasSubstr("lipschitz"));
}

TEST(Certificate, UsesTheBestAndTheNewestOfManyResults) {
  const StudySpec spec = Spec(Space({Float("x", 0, 1)}));
  Results results = {{{{"x", 0.5}}, -1.0}};
  constexpr int64_t kOthers = 2 * kCertificateResults + 500;
  for (int64_t i = 0; i < kOthers; ++i) {
    const double x = static_cast<double>(i) / static_cast<double>(kOthers);
    results.push_back({{{"x", x}}, 1.0});
  }
  Results kept;
  for (const auto& result : results) {
    kept.push_back(result);
    if (kept.size() % 700 == 0) KeepForCertificate(study::Goal::kMinimize, &kept);
  }
  for (const Results& some : {results, kept}) {
    const std::optional<Certificate> c = MustCertify(spec, some, {0.0, 1e4});
    ASSERT_TRUE(c.has_value());
    EXPECT_EQ(c->best, -1.0);
    EXPECT_EQ(c->results, kCertificateResults);
  }
}

}  // namespace
}  // namespace luthier::search
