#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/catalogue/test_functions.h"
#include "lib/search/quasi_random/random_designer.h"
#include "lib/study/encoding.h"
#include "tests/lib/search/bo/bo_testing.h"
#include "tests/lib/search/restart_oracle.h"

// Bayesian optimisation with reported gradients: preset fobo, option gradients.
namespace luthier::search {
namespace {

using Eigen::Index;
using Eigen::VectorXd;
using study::BoGradients;
using study::BoOptions;
using study::BoPreset;
using study::Gradient;
using study::Parameters;

BoOptions Options(BoGradients gradients, BoPreset preset = BoPreset::kFobo) {
  BoOptions options = study::BoDefaults(preset);
  options.gradients = gradients;
  options.noisy = false;
  return options;
}
const BoOptions kFull = Options(BoGradients::kFull), kDirectional = Options(BoGradients::kDirectional);

study::StudySpec SpecOf(const catalogue::TestFunction& f, uint64_t seed, const BoOptions& options) {
  std::vector<study::ParameterSpec> parameters;
  for (Index i = 0; i < f.dim(); ++i) parameters.push_back(Float("x" + std::to_string(i), f.lower(i), f.upper(i)));
  return BoSpec(Space(std::move(parameters)), seed, options);
}

// What a good worker reports: the slope along the direction asked for, or the gradient.
Gradient Report(const catalogue::TestFunction& f, const Suggestion& s, double* value) {
  const std::vector<double> x = Point(s.parameters);
  VectorXd gradient(f.dim());
  *value = f(Eigen::Map<const VectorXd>(x.data(), f.dim()), &gradient);
  if (s.direction.empty()) return FullGradient(std::vector<double>(gradient.data(), gradient.data() + gradient.size()));
  const double slope = gradient.dot(Eigen::Map<const VectorXd>(s.direction.data(), f.dim()));
  return SlopeAlong(s.direction, slope);
}

struct Outcome {
  double regret = INFINITY;
  std::vector<Suggestion> suggestions;
};
// `spoil` changes what is reported of trial k = 0, 1, …, by reporter k % reporters.
Outcome RunOn(const std::string& name, uint64_t seed, const BoOptions& options, int n, int reporters = 1,
              const std::function<void(int, Gradient*)>& spoil = nullptr) {
  const catalogue::TestFunction& f = **catalogue::FindTestFunction(name);
  MemoryStudy study(SpecOf(f, seed, options));
  Outcome outcome;
  double best = INFINITY;
  for (int k = 0; k < n; ++k) {
    const Suggestion s = study.Ask(k % reporters);
    double value = 0.0;
    Gradient gradient = Report(f, s, &value);
    if (spoil) spoil(k, &gradient);
    study.Complete(study.newest(), value, gradient);
    best = std::min(best, value);
    outcome.suggestions.push_back(s);
  }
  outcome.regret = std::max(0.0, best - f.minimum);
  return outcome;
}

// Returns how many of the last settings lie within a thousandth of the range of an earlier one, in a study of one
// strength whose loss has one minimum, with its derivative.
int RepetitionsAmongLast(int last, uint64_t seed, const BoOptions& options) {
  constexpr int kTrials = 40;
  MemoryStudy study(BoSpec(Space({Float("l2", 1e-4, 1e4, study::Scale::kLog)}), seed, options));
  std::vector<double> tried;
  int repetitions = 0;
  for (int k = 0; k < kTrials; ++k) {
    const double l2 = std::get<double>(study.Ask().parameters.at("l2")), t = std::log10(l2);
    const double e = std::exp(2.0 * (t - 0.55));
    study.Complete(study.newest(), 0.35 + 0.1 * std::log1p(e) + 0.05 * std::exp(-t),
                   FullGradient({(0.2 * e / (1.0 + e) - 0.05 * std::exp(-t)) / (l2 * std::log(10.0))}));
    const bool again = std::any_of(tried.begin(), tried.end(), [&](double u) { return std::abs(u - t) < 8e-3; });
    repetitions += again && k >= kTrials - last ? 1 : 0;
    tried.push_back(t);
  }
  return repetitions;
}

TEST(Fobo, DoesNotTryAStrengthAgainFromWhichNothingIsExpected) {
  for (const uint64_t seed : {1, 2, 3}) EXPECT_EQ(RepetitionsAmongLast(15, seed, kFull), 0) << seed;
}

TEST(Fobo, UnderTheFormerRulesGoesOnWithTheBestStrength) {
  BoOptions former = kFull;
  former.rules = 1;
  int repetitions = 0;
  for (const uint64_t seed : {1, 2, 3}) repetitions += RepetitionsAmongLast(15, seed, former);
  EXPECT_GT(repetitions, 10);
}

TEST(Fobo, FindsInFewCallsWhatTakesBoMany) {
  // Regrets after 25 calls; bo needs 100 or more for each.
  for (const auto& [name, bar] :
       std::map<std::string, double>{{"branin", 1e-10}, {"rosenbrock3", 1e-6}, {"hartmann3", 1e-5}}) {
    std::vector<double> regrets;
    for (uint64_t seed = 0; seed < 3; ++seed) regrets.push_back(RunOn(name, seed, kFull, 25).regret);
    std::sort(regrets.begin(), regrets.end());
    EXPECT_LE(regrets[1], bar) << name;
  }
}

TEST(Fobo, WithoutGradientsItIsBoBitForBit) {
  const study::StudySpec plane = BoSpec(Space({Float("x0", -5, 10), Float("x1", 0, 15)}));
  study::StudySpec first_order = plane;
  for (const BoGradients gradients : {BoGradients::kFull, BoGradients::kDirectional}) {
    first_order.algorithm = Options(gradients);
    MemoryStudy bo(plane), fobo(first_order);
    for (int i = 0; i < 24; ++i) {
      const Suggestion a = bo.Ask(), b = fobo.Ask();
      EXPECT_EQ(a.parameters, b.parameters);
      EXPECT_EQ(a.origin, b.origin);
      EXPECT_EQ(a.details, b.details);
      EXPECT_EQ(a.designer_state, b.designer_state);
      EXPECT_EQ(b.direction.empty(), gradients == BoGradients::kFull);
      if (i % 5 == 4) continue;  // Stays open.
      bo.Complete(bo.newest(), Branin(Point(a.parameters)));
      fobo.Complete(fobo.newest(), Branin(Point(b.parameters)));
    }
  }
}

TEST(Fobo, ClimbsBeginSoonerAndInSmallerBoxesWithWholeGradients) {
  struct First {
    size_t ask = 0;
    double radius = 0.0;
  };
  auto first_step = [](const BoOptions& options) {
    const Outcome outcome = RunOn("rosenbrock3", 2, options, 24);
    for (size_t k = 0; k < outcome.suggestions.size(); ++k) {
      const Suggestion& s = outcome.suggestions[k];
      if (s.origin == "trust_region") return First{k, s.details.at("radius")};
    }
    return First{};
  };
  const First values = first_step(Options(BoGradients::kOff)), slopes = first_step(kDirectional),
              gradients = first_step(kFull);
  EXPECT_EQ(values.radius, 0.2);
  EXPECT_EQ(slopes.radius, 0.2);
  EXPECT_EQ(gradients.radius, 0.1);
  EXPECT_LT(gradients.ask, values.ask);
  EXPECT_EQ(slopes.ask, values.ask);
}

TEST(Fobo, OtherPresetsIgnoreGradientsUnlessTold) {
  const Outcome with = RunOn("branin", 1, Options(BoGradients::kOff, BoPreset::kBo), 15);
  const Outcome wrong = RunOn("branin", 1, Options(BoGradients::kOff, BoPreset::kBo), 15, 1,
                              [](int, Gradient* g) { g->values[0] += 1e3; });
  for (size_t i = 0; i < 15; ++i) EXPECT_EQ(with.suggestions[i].parameters, wrong.suggestions[i].parameters);
  EXPECT_LT(RunOn("branin", 1, Options(BoGradients::kFull, BoPreset::kHbo), 30).regret, 1e-9);
}

TEST(Fobo, DoesNotSeeUnitsScalesOrGoals) {
  // The same function of parameters in other units, of a metric in other units, and maximised: the same bits.
  const catalogue::TestFunction& f = **catalogue::FindTestFunction("branin");
  for (BoOptions options : {kFull, kDirectional}) {
    options.warp = study::BoWarp::kNone;  // A logarithm rounds scaled values differently.
    MemoryStudy plain(SpecOf(f, 3, options));
    study::StudySpec other = BoSpec(Space({Float("x0", -5.0 * 64, 10.0 * 64), Float("x1", 0, 15.0 / 64)}), 3, options);
    other.metric.goal = study::Goal::kMaximize;
    MemoryStudy scaled(other);
    for (int i = 0; i < 18; ++i) {
      const Suggestion a = plain.Ask(), b = scaled.Ask();
      ASSERT_EQ(64.0 * Number(a.parameters, "x0"), Number(b.parameters, "x0")) << i;
      ASSERT_EQ(Number(a.parameters, "x1"), 64.0 * Number(b.parameters, "x1")) << i;
      double value = 0.0;
      const Gradient gradient = Report(f, a, &value);
      plain.Complete(plain.newest(), value, gradient);
      Gradient same;
      if (gradient.full()) {
        same.values = {-1024.0 * gradient.values[0] / 64.0, -1024.0 * gradient.values[1] * 64.0};
      } else {
        ASSERT_EQ(b.direction, (std::vector<double>{64.0 * a.direction[0], a.direction[1] / 64.0}));
        same.direction = b.direction;
        same.slope = -1024.0 * gradient.slope;
      }
      scaled.Complete(scaled.newest(), -1024.0 * value, same);
    }
  }
}

study::SearchSpace MixedSpace() {
  return Space({Float("rate", 1e-6, 1, study::Scale::kLog), Int("n", 1, 50), Categorical("c", {"a", "b"}),
                When("c", {std::string("b")}, Float("extra", -1, 1)), Float("fixed", 2, 2)});
}

// A bowl in the cube and its gradient in user units, by the compact coordinates of the space.
double Bowl(const study::Encoding& encoding, const Parameters& p, std::vector<double>* gradient) {
  const VectorXd u = encoding.ToCompact(p);
  gradient->clear();
  const std::vector<study::Scalar>& differentiable = encoding.space().differentiable();
  for (size_t k = 0; k < differentiable.size(); ++k) {
    double slope = 0.0;
    const double user = encoding.UserPerUnit(static_cast<int>(k), p);
    for (int c = 0; c < encoding.compact_dim(); ++c) {
      if (encoding.compact_scalar(c) == differentiable[k] && user != 0.0) slope = 2.0 * (u(c) - 0.3) / user;
    }
    gradient->push_back(slope);
  }
  return (u.array() - 0.3).square().sum();
}

TEST(Fobo, ARestartChangesNothingInAnyMode) {
  // Full gradients, slopes, none, and useless ones in turn; failures between them.
  for (const study::SearchSpace& space : {Space({Float("x0", -5, 10), Float("x1", 0, 15)}), MixedSpace()}) {
    const study::Encoding encoding(space);
    RestartRun run;
    run.asks = 14;
    run.ending = [&](base::RandomStream& random, const Parameters& p) {
      if (random.Uniform() < 0.1) return contract::Failed(study::FailureKind::kConfig);
      Gradient full;
      contract::Outcome outcome = contract::Complete(Bowl(encoding, p, &full.values));
      switch (random.UniformInt(4)) {
        case 0: {
          Gradient one;
          for (const double g : full.values) {
            one.direction.push_back(random.Normal());
            one.slope += g * one.direction.back();
          }
          outcome.gradient = one;
          break;
        }
        case 1:
          break;
        case 2:
          full.error_bound = 0.1;
          [[fallthrough]];
        default:
          outcome.gradient = full;
      }
      return outcome;
    };
    run.enqueued = 4;
    run.enqueued_ending = run.ending;
    for (BoOptions options : {kFull, kDirectional, Options(BoGradients::kFull, BoPreset::kLbo)}) {
      std::set<std::string> origins;
      for (const Suggestion& s : ExpectRestartsChangeNothing(BoSpec(space, 2, options), run)) origins.insert(s.origin);
      EXPECT_TRUE(origins.contains("acq") || origins.contains("trust_region"));
      options.acquisition = study::BoAcquisition::kTs;
      if (options.lipschitz != study::BoLipschitz::kOff) options.lipschitz = study::BoLipschitz::kAcceptReject;
      ExpectRestartsChangeNothing(BoSpec(space, 2, options), run);
    }
  }
}

TEST(Fobo, DirectionsBelongToTheActiveContinuousParameters) {
  const study::Encoding encoding(MixedSpace());
  MemoryStudy study(BoSpec(MixedSpace(), 4, kDirectional));
  std::set<std::vector<double>> seen;
  int with_extra = 0;
  for (int i = 0; i < 14; ++i) {
    const Suggestion s = study.Ask();
    ASSERT_EQ(s.direction.size(), 3u) << s.origin;  // rate, extra, fixed.
    EXPECT_NE(s.direction[0], 0.0);
    EXPECT_EQ(s.direction[1] != 0.0, s.parameters.contains("extra"));
    EXPECT_EQ(s.direction[2], 0.0);
    double squares = 0.0;
    for (int k = 0; k < 2; ++k) {
      const double user = encoding.UserPerUnit(k, s.parameters);
      if (user != 0.0) squares += std::pow(s.direction[static_cast<size_t>(k)] / user, 2);
    }
    EXPECT_NEAR(squares, 1.0, 1e-12);
    EXPECT_TRUE(seen.insert(s.direction).second || s.direction[1] == 0.0);
    with_extra += s.parameters.contains("extra");
    Gradient slope = SlopeAlong(s.direction, 0.0);
    std::vector<double> full;
    const double value = Bowl(encoding, s.parameters, &full);
    for (size_t k = 0; k < 3; ++k) slope.slope += full[k] * s.direction[k];
    study.Complete(study.newest(), value, slope);
  }
  EXPECT_GE(with_extra, 1);
}

TEST(Fobo, ExplorationsStayThoseOfRandomSearch) {
  const catalogue::TestFunction& f = **catalogue::FindTestFunction("camel");
  const study::StudySpec spec = SpecOf(f, 8, Options(BoGradients::kFull, BoPreset::kHbo));
  const study::Encoding encoding(spec.space);
  uint64_t next = 0;
  for (const Suggestion& s : RunOn("camel", 8, Options(BoGradients::kFull, BoPreset::kHbo), 26).suggestions) {
    if (s.origin == "explore") {
      EXPECT_EQ(s.parameters, ExplorationPoint(encoding, 8, next++));
    }
  }
  EXPECT_GE(next, 5u);
}

TEST(Fobo, OddGradientsNeverStopIt) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<std::vector<double>> odd = {{1e300, -1e300},    {0.0, 0.0},       {std::nan(""), 1.0}, {inf, -inf},
                                                {1.7e308, 1.7e308}, {5e-324, 1e-310}, {1e8, 3.0}};
  for (const BoOptions& options : {kFull, kDirectional}) {
    for (size_t kind = 0; kind <= odd.size(); ++kind) {
      SCOPED_TRACE(kind);
      const Outcome outcome = RunOn("branin", 1, options, 14, 1, [&](int k, Gradient* g) {
        const std::vector<double>& values = odd[kind < odd.size() ? kind : static_cast<size_t>(k) % odd.size()];
        if (g->full()) {
          g->values = values;
        } else {
          g->slope = values[0];
        }
      });
      for (const Suggestion& s : outcome.suggestions) EXPECT_NE(s.origin, "gp_failed");
    }
  }
}

TEST(Fobo, GradientsOfAFullAndOfALostKindMix) {
  // Every third worker sends nothing, every third a slope of its own choice, every third the gradient.
  const catalogue::TestFunction& f = **catalogue::FindTestFunction("rosenbrock3");
  MemoryStudy study(SpecOf(f, 1, kFull));
  double best = INFINITY;
  for (int k = 0; k < 40; ++k) {
    Suggestion s = study.Ask();
    double value = 0.0;
    if (k % 3 == 1) s.direction = {0.0, 2.0, -1.0};
    const Gradient gradient = Report(f, s, &value);
    study.Complete(study.newest(), value, k % 3 == 0 ? std::nullopt : std::optional(gradient));
    best = std::min(best, value);
  }
  EXPECT_LT(best, 1e-3);
}

// One of three workers is wrong in a way that happens.
TEST(GradientCheck, AWorkerWithWrongGradientsIsSetAside) {
  const std::map<std::string, std::function<void(Gradient*)>> faults = {
      {"sign",
       [](Gradient* g) {
         for (double& v : g->values) v = -v;
       }},
      {"unit",
       [](Gradient* g) {
         for (double& v : g->values) v *= 1000.0;
       }},
  };
  for (const std::string name : {"branin", "hartmann3", "rosenbrock4"}) {
    for (const auto& [fault, spoil] : faults) {
      SCOPED_TRACE(name + " " + fault);
      const Outcome outcome = RunOn(name, 2, kFull, 48, 3, [&](int k, Gradient* g) {
        if (k % 3 == 1) spoil(g);
      });
      int first = -1;
      for (size_t i = 0; i < outcome.suggestions.size(); ++i) {
        const Suggestion& s = outcome.suggestions[i];
        if (s.set_aside.empty()) {
          EXPECT_EQ(s.details.count("gradients_set_aside"), 0u);
          continue;
        }
        if (first < 0) first = static_cast<int>(i);
        EXPECT_EQ(s.details.at("gradients_set_aside"), static_cast<double>(s.set_aside.size()));
        EXPECT_TRUE(std::is_sorted(s.set_aside.begin(), s.set_aside.end()));
        // Only that worker's, and all of them.
        for (const int64_t number : s.set_aside) EXPECT_EQ((number - 1) % 3, 1) << "at ask " << i;
        EXPECT_EQ(s.set_aside.size(), (i + 1) / 3);
      }
      EXPECT_GE(first, 5);
      EXPECT_LE(first, 40);
      EXPECT_LT(outcome.regret, name == "rosenbrock4" ? 3.0 : 0.02);
    }
  }
}

// Faults that leave the sign: found once the search has settled, by pairs of close points.
TEST(GradientCheck, AWrongFactorOrOrderIsFound) {
  const std::map<std::string, std::function<void(Gradient*)>> faults = {
      {"factor 4",
       [](Gradient* g) {
         for (double& v : g->values) v *= 4.0;
       }},
      {"factor 1/4",
       [](Gradient* g) {
         for (double& v : g->values) v *= 0.25;
       }},
      {"order", [](Gradient* g) { std::rotate(g->values.begin(), g->values.begin() + 1, g->values.end()); }},
  };
  for (const std::string name : {"branin", "goldstein_price", "hartmann3"}) {
    for (const auto& [fault, spoil] : faults) {
      SCOPED_TRACE(name + " " + fault);
      const Outcome outcome = RunOn(name, 1, kFull, 40, 1, [&](int, Gradient* g) { spoil(g); });
      EXPECT_FALSE(outcome.suggestions.back().set_aside.empty());
    }
  }
}

// What the values alone cannot tell early, the other workers' gradients can.
TEST(GradientCheck, OneWorkerOfThreeIsFoundByTheOthers) {
  const std::map<std::string, std::function<void(Gradient*)>> faults = {
      {"factor 1/4",
       [](Gradient* g) {
         for (double& v : g->values) v *= 0.25;
       }},
      {"order", [](Gradient* g) { std::rotate(g->values.begin(), g->values.begin() + 1, g->values.end()); }},
      {"no last component", [](Gradient* g) { g->values.back() = 0.0; }},
  };
  for (const std::string name : {"hartmann3", "rosenbrock4", "hartmann6"}) {
    for (const auto& [fault, spoil] : faults) {
      SCOPED_TRACE(name + " " + fault);
      const Outcome outcome = RunOn(name, 0, kFull, 41, 3, [&](int k, Gradient* g) {
        if (k % 3 == 1) spoil(g);
      });
      const std::vector<int64_t>& aside = outcome.suggestions.back().set_aside;
      EXPECT_FALSE(aside.empty());
      for (const int64_t number : aside) EXPECT_EQ((number - 1) % 3, 1);
    }
  }
}

// A derivative that is cut off is found, one that is 0 because nothing depends on the parameter is right.
TEST(GradientCheck, AComponentThatIsAlwaysZero) {
  for (const std::string name : {"branin", "hartmann3", "hartmann6"}) {
    const Outcome outcome = RunOn(name, 1, kFull, 20, 1, [](int, Gradient* g) { g->values[0] = 0.0; });
    EXPECT_FALSE(outcome.suggestions.back().set_aside.empty()) << name;
  }
  MemoryStudy study(BoSpec(Space({Float("x0", -5, 10), Float("x1", 0, 15), Float("x2", 0, 1)}), 1, kFull));
  const catalogue::TestFunction& f = **catalogue::FindTestFunction("branin");
  for (int k = 0; k < 36; ++k) {
    const Suggestion s = study.Ask(k % 2);
    EXPECT_TRUE(s.set_aside.empty()) << k;
    VectorXd gradient(2);
    const std::vector<double> x = Point(s.parameters);
    const double value = f(Eigen::Vector2d(x[0], x[1]), &gradient);
    study.Complete(study.newest(), value, FullGradient({gradient(0), gradient(1), 0.0}));
  }
}

TEST(GradientCheck, RightAndNoisyGradientsRaiseNoAlarm) {
  for (const catalogue::TestFunction& f : catalogue::TestFunctions()) {
    for (const double noise : {0.0, 0.3}) {
      base::RandomStream random(9, "noise");
      const Outcome outcome = RunOn(f.name, 3, kFull, f.dim() > 5 ? 16 : 24, 2, [&](int, Gradient* g) {
        for (double& v : g->values) v *= 1.0 + noise * random.Normal();
      });
      for (size_t i = 0; i < outcome.suggestions.size(); ++i) {
        EXPECT_TRUE(outcome.suggestions[i].set_aside.empty()) << f.name << " noise " << noise << " ask " << i;
      }
    }
  }
}

TEST(GradientCheck, GradientsOfAMendedWorkerAreUsedAgain) {
  // Wrong for 24 trials, right from then on; its old gradients leave the newest hundred in time.
  const catalogue::TestFunction& f = **catalogue::FindTestFunction("branin");
  MemoryStudy study(SpecOf(f, 1, kFull));
  base::RandomStream random(2, "points");
  const study::Encoding encoding(study.spec().space);
  bool aside = false, back = false;
  for (int k = 0; k < 160; ++k) {
    study::HistoryTrial trial;
    Suggestion s;
    s.parameters = encoding.Sample(random);
    double value = 0.0;
    Gradient gradient = Report(f, s, &value);
    if (k < 24) {
      for (double& v : gradient.values) v = -v;
    }
    if (k % 20 == 19) {
      const Suggestion asked = study.Ask();
      study.Cancel(study.newest());
      if (k < 60) aside = aside || !asked.set_aside.empty();
      if (k > 130) back = asked.set_aside.empty();
    }
    study.Complete(study.Enqueue(s.parameters), value, gradient);
  }
  EXPECT_TRUE(aside);
  EXPECT_TRUE(back);
}

}  // namespace
}  // namespace luthier::search
