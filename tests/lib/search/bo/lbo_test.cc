#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/search/bo/acquisition/bounded_acquisition.h"
#include "lib/search/bo/bo_designer.h"
#include "tests/lib/search/bo/bo_testing.h"

// Lipschitz bounds in the optimizer: every mode with every acquisition that it goes with.
namespace luthier::search {
namespace {

using study::BoAcquisition;
using study::BoDefaults;
using study::BoExploration;
using study::BoGrowth;
using study::BoLipschitz;
using study::BoOptions;
using study::BoPreset;
using study::Parameters;

struct Mode {
  BoLipschitz lipschitz;
  BoAcquisition acquisition;
};
const std::vector<Mode>& Modes() {
  static const std::vector<Mode> modes = {
      {BoLipschitz::kTruncate, BoAcquisition::kLogEi},  {BoLipschitz::kTruncate, BoAcquisition::kEi},
      {BoLipschitz::kTruncate, BoAcquisition::kPi},     {BoLipschitz::kTruncate, BoAcquisition::kLogPi},
      {BoLipschitz::kCap, BoAcquisition::kUcb},         {BoLipschitz::kAcceptReject, BoAcquisition::kUcb},
      {BoLipschitz::kAcceptReject, BoAcquisition::kTs},
  };
  return modes;
}

study::SearchSpace BraninPlane() {
  return Space({Float("x0", -5, 10), Float("x1", 0, 15)});
}
double BraninAt(const Parameters& p) {
  return Branin(Point(p));
}
BoOptions Lbo(const Mode& mode) {
  BoOptions options = BoDefaults(BoPreset::kLbo);
  options.lipschitz = mode.lipschitz;
  options.acquisition = mode.acquisition;
  options.kernel = study::BoKernel::kMatern52;
  options.trust_region = study::BoTrustRegion::kOff;
  return options;
}

TEST(Lbo, EveryModeRunsAndSaysWhatItsBoundsDid) {
  for (const Mode& mode : Modes()) {
    for (const BoGrowth growth : {BoGrowth::kLinear, BoGrowth::kKnown}) {
      SCOPED_TRACE(testing::Message() << "mode " << static_cast<int>(mode.lipschitz) << " acquisition "
                                      << static_cast<int>(mode.acquisition) << " growth " << static_cast<int>(growth));
      BoOptions options = Lbo(mode);
      options.growth = growth;
      options.lipschitz_constant = 900.0;  // Of Branin over the unit cube, about.
      options.warp = study::BoWarp::kNone;
      const study::StudySpec spec = BoSpec(BraninPlane(), 2, options);
      ASSERT_TRUE(Validate(spec).ok()) << Validate(spec);
      MemoryStudy study(spec);
      bool bounded = false;
      for (int i = 0; i < 11; ++i) {
        const Suggestion s = study.Ask();
        if (s.details.contains("bind_rate")) {
          bounded = true;
          EXPECT_GE(s.details.at("bind_rate"), 0.0);
          EXPECT_LE(s.details.at("bind_rate"), 1.0);
          EXPECT_GT(s.details.at("lipschitz"), 0.0);
          EXPECT_GE(s.details.at("excluded_share"), 0.0);
          EXPECT_LT(s.details.at("excluded_share"), 1.0);
          if (growth == BoGrowth::kLinear) {
            EXPECT_LT(s.details.at("excluded_share"), 0.05);
          }
        }
        EXPECT_EQ(s.details.contains("bind_rate"), s.details.contains("excluded_share"));
        if (s.origin == "acq" || s.origin == "ar_empty") {
          EXPECT_TRUE(s.details.contains("bind_rate"));
        }
        study.Complete(study.newest(), BraninAt(s.parameters));
      }
      EXPECT_TRUE(bounded);
    }
  }
}

TEST(Lbo, ExcludedShareIsTheShareThatCannotHoldARecord) {
  // A wave whose slope is at most 2.5, on a fine grid.
  BoOptions options = Lbo({BoLipschitz::kTruncate, BoAcquisition::kLogEi});
  options.growth = BoGrowth::kKnown;
  options.lipschitz_constant = 2.5;
  options.warp = study::BoWarp::kNone;
  auto f = [](double x) { return 0.1 * std::sin(9.0 * x) + 0.05 * std::cos(31.0 * x); };
  MemoryStudy study(BoSpec(Space({Float("x", 0, 1)}), 2, options));
  std::vector<std::pair<double, double>> results;
  int checked = 0;
  for (int i = 0; i < 12; ++i) {
    const Suggestion s = study.Ask();
    if (s.details.contains("excluded_share")) {
      double best = INFINITY;
      for (const auto& [x, loss] : results) best = std::min(best, loss);
      int excluded = 0;
      for (int k = 0; k < 10'000; ++k) {
        double lower = -INFINITY;
        for (const auto& [x, loss] : results) lower = std::max(lower, loss - 2.5 * std::abs((k + 0.5) / 10'000 - x));
        excluded += lower >= best;
      }
      EXPECT_NEAR(s.details.at("excluded_share"), excluded / 10'000.0, 0.005);
      ++checked;
    }
    const double x = Number(s.parameters, "x");
    results.emplace_back(x, f(x));
    study.Complete(study.newest(), f(x));
  }
  EXPECT_GE(checked, 4);
}

// Two studies of the same objective suggest the same, bit for bit. Every fifth trial has no result.
void ExpectSameStudies(const study::StudySpec& one, const study::StudySpec& two, int asks,
                       const std::function<double(const Parameters&)>& f) {
  MemoryStudy a(one), b(two);
  for (int i = 0; i < asks; ++i) {
    const Suggestion s = a.Ask(), t = b.Ask();
    ASSERT_EQ(s.parameters, t.parameters) << i << " " << s.origin << " " << t.origin;
    ASSERT_EQ(s.origin, t.origin);
    ASSERT_EQ(s.designer_state, t.designer_state);
    if (i % 5 == 4) continue;
    a.Complete(a.newest(), f(s.parameters));
    b.Complete(b.newest(), f(t.parameters));
  }
}

TEST(Lbo, BoundsThatNeverBindChangeNothing) {
  for (const Mode& mode : Modes()) {
    SCOPED_TRACE(testing::Message() << "mode " << static_cast<int>(mode.lipschitz) << " acquisition "
                                    << static_cast<int>(mode.acquisition));
    BoOptions bounded = Lbo(mode);
    bounded.growth = BoGrowth::kKnown;
    bounded.lipschitz_constant = 1e200;
    BoOptions free = bounded;
    free.lipschitz = BoLipschitz::kOff;
    free.exploration = BoExploration::kRandom;  // What LIPO is without a bound.
    // The default of open trials is not the same with PI.
    bounded.pending = free.pending = study::BoPending::kBeliever;
    ExpectSameStudies(BoSpec(BraninPlane(), 3, bounded), BoSpec(BraninPlane(), 3, free), 16, BraninAt);
  }
}

TEST(Lbo, NoSlopeNoBound) {
  for (const Mode& mode : Modes()) {
    BoOptions bounded = Lbo(mode);
    BoOptions free = bounded;
    free.lipschitz = BoLipschitz::kOff;
    free.exploration = BoExploration::kRandom;
    ExpectSameStudies(BoSpec(BraninPlane(), 3, bounded), BoSpec(BraninPlane(), 3, free), 12,
                      [](const Parameters&) { return 4.0; });
  }
}

TEST(Lbo, SwitchedOffIsHbo) {
  BoOptions off = BoDefaults(BoPreset::kLbo);
  off.lipschitz = BoLipschitz::kOff;
  off.exploration = BoExploration::kRandom;
  ExpectSameStudies(BoSpec(BraninPlane(), 3, off), BoSpec(BraninPlane(), 3, BoDefaults(BoPreset::kHbo)), 20, BraninAt);
}

TEST(Lbo, HugeBetaWorksAndRejectsNearlyEverything) {
  for (const BoLipschitz lipschitz : {BoLipschitz::kOff, BoLipschitz::kCap, BoLipschitz::kAcceptReject}) {
    for (const double beta : {1e16, 1e100}) {
      BoOptions options = Lbo({lipschitz, BoAcquisition::kUcb});
      options.beta_schedule = study::BoBeta::kConstant;
      options.beta = beta;
      options.growth = BoGrowth::kKnown;
      options.lipschitz_constant = 900.0;  // Of Branin over the unit cube, about.
      MemoryStudy study(BoSpec(BraninPlane(), 5, options));
      int empty = 0, proposed = 0;
      for (int i = 0; i < 14; ++i) {
        const Suggestion s = study.Ask();
        EXPECT_NE(s.origin, "all_random");
        empty += s.origin == "ar_empty";
        proposed += s.origin == "acq" || s.origin == "ar_empty";
        if (s.origin == "ar_empty") {
          EXPECT_GT(s.details.at("bind_rate"), 0.99);
        }
        study.Complete(study.newest(), BraninAt(s.parameters));
      }
      EXPECT_GE(proposed, 7);
      EXPECT_EQ(empty > 0, lipschitz == BoLipschitz::kAcceptReject) << beta;
    }
  }
}

TEST(Lbo, WhenAllIsRejectedTheModelStillChooses) {
  // Of the settings that the bounds allow the one with the best mean: far better than random search, which is what is
  // left of UCB with such a beta otherwise.
  BoOptions options = Lbo({BoLipschitz::kAcceptReject, BoAcquisition::kUcb});
  options.beta_schedule = study::BoBeta::kConstant;
  options.beta = 1e16;
  options.explore_every = 0;
  options.trust_region = study::BoTrustRegion::kOff;
  const TestFunction hartmann = SixFunctions().back();
  double chosen = 0.0, random = 0.0;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    chosen = std::max(chosen, Regret(hartmann, seed, options, 50));
    random = std::max(random, Regret(hartmann, seed, study::RandomOptions(), 50));
  }
  EXPECT_LT(chosen, 0.3 * random);
}

TEST(Lbo, WhenAllIsRejectedAPointThatTheBoundsAllowIsTaken) {
  // Mixed space with a condition; a beta that rejects everything. Every fallback is a legal, new setting.
  BoOptions options = Lbo({BoLipschitz::kAcceptReject, BoAcquisition::kUcb});
  options.beta_schedule = study::BoBeta::kConstant;
  options.beta = 1e16;
  options.explore_every = 0;
  const study::SearchSpace space = Space({Float("x", 1e-6, 1, study::Scale::kLog), Categorical("c", {"a", "b", "c"}),
                                          When("c", {std::string("b")}, Int("n", 1, 100))});
  MemoryStudy study(BoSpec(space, 8, options));
  std::set<Parameters> seen;
  int empty = 0;
  for (int i = 0; i < 20; ++i) {
    const Suggestion s = study.Ask();  // Checks that it is in the space.
    EXPECT_TRUE(seen.insert(s.parameters).second);
    empty += s.origin == "ar_empty";
    study.Complete(study.newest(), std::log(Number(s.parameters, "x")) + static_cast<double>(s.parameters.size()));
  }
  EXPECT_GE(empty, 12);
}

TEST(Lbo, CapWithHugeBetaIsPiyavskiiAndShubertsRule) {
  // min(UCB, upper bound) is the bound nearly everywhere: the proposal is the largest bound, in one dimension known
  // from the crossings of neighbouring cones.
  BoOptions options = Lbo({BoLipschitz::kCap, BoAcquisition::kUcb});
  options.beta_schedule = study::BoBeta::kConstant;
  options.beta = 1e16;
  options.growth = BoGrowth::kKnown;
  options.lipschitz_constant = 8.0;
  options.warp = study::BoWarp::kNone;
  options.explore_every = 0;
  MemoryStudy study(BoSpec(Space({Float("x", 0, 1)}), 2, options));
  auto f = [](double x) { return std::sin(7.0 * x); };
  std::vector<double> xs;
  auto lower = [&](double x) {
    double bound = -INFINITY;
    for (const double at : xs) bound = std::max(bound, f(at) - 8.0 * std::abs(x - at));
    return bound;
  };
  for (int i = 0; i < 14; ++i) {
    const Suggestion s = study.Ask();
    const double x = Number(s.parameters, "x");
    if (s.origin == "acq") {
      double lowest = INFINITY;
      for (int k = 0; k <= 4000; ++k) lowest = std::min(lowest, lower(k / 4000.0));
      EXPECT_LE(lower(x), lowest + 0.02) << i;
    }
    xs.push_back(x);
    study.Complete(study.newest(), f(x));
  }
}

TEST(Lbo, KnownConstantIsInUnitsOfTheMetric) {
  for (const double unit : {1.0, 4096.0}) {  // A power of two: the same bits otherwise.
    BoOptions options = Lbo({BoLipschitz::kTruncate, BoAcquisition::kLogEi});
    options.growth = BoGrowth::kKnown;
    options.lipschitz_constant = 2.0 * unit;
    options.warp = study::BoWarp::kNone;
    MemoryStudy study(BoSpec(Space({Float("x", 0, 1)}), 2, options));
    std::vector<double> values;
    for (int i = 0; i < 6; ++i) {
      const Suggestion s = study.Ask();
      if (s.origin == "acq") {
        double mean = 0.0, square = 0.0;
        for (const double v : values) mean += v / static_cast<double>(values.size());
        for (const double v : values) square += (v - mean) * (v - mean) / static_cast<double>(values.size());
        EXPECT_NEAR(s.details.at("lipschitz"), 2.0 * unit / std::sqrt(square), 1e-9);
      }
      values.push_back(unit * Number(s.parameters, "x"));
      study.Complete(study.newest(), values.back());
    }
  }
}

TEST(Lbo, ModesThatDoNotSuitTheAcquisitionAreRefused) {
  for (const BoLipschitz lipschitz : {BoLipschitz::kTruncate, BoLipschitz::kAcceptReject, BoLipschitz::kCap}) {
    for (const BoAcquisition acquisition : {BoAcquisition::kLogEi, BoAcquisition::kEi, BoAcquisition::kPi,
                                            BoAcquisition::kLogPi, BoAcquisition::kUcb, BoAcquisition::kTs}) {
      bool suits = false;
      for (const Mode& mode : Modes())
        suits = suits || (mode.lipschitz == lipschitz && mode.acquisition == acquisition);
      EXPECT_EQ(Validate(BoSpec(BraninPlane(), 1, Lbo({lipschitz, acquisition}))).ok(), suits);
    }
  }
  BoOptions options = Lbo({BoLipschitz::kTruncate, BoAcquisition::kLogEi});
  options.growth = BoGrowth::kKnown;
  EXPECT_FALSE(Validate(BoSpec(BraninPlane(), 1, options)).ok()) << "a known constant of 0";
  for (const double bad : {-1.0, std::nan(""), HUGE_VAL}) {
    options.lipschitz_constant = bad;
    EXPECT_FALSE(Validate(BoSpec(BraninPlane(), 1, options)).ok()) << bad;
    BoOptions other = Lbo({BoLipschitz::kOff, BoAcquisition::kUcb});
    other.beta = bad;
    EXPECT_FALSE(Validate(BoSpec(BraninPlane(), 1, other)).ok()) << bad;
    other.beta = 2.0;
    other.improvement = bad;
    EXPECT_FALSE(Validate(BoSpec(BraninPlane(), 1, other)).ok()) << bad;
  }
}

}  // namespace
}  // namespace luthier::search
