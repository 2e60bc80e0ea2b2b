#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/search/bo/bo_designer.h"
#include "lib/search/bo/model/bo_options.h"
#include "lib/search/bo/model/observations.h"
#include "lib/search/bo/turns/bo_state.h"
#include "lib/study/encoding.h"
#include "tests/lib/search/bo/bo_testing.h"
#include "tests/lib/search/restart_oracle.h"
#include "tests/lib/search/switch_variants.h"

// Every switch of the Gaussian-process optimizer on data and spaces that break careless numerics, and across restarts.
namespace luthier::search {
namespace {

using study::Bool;
using study::BoOptions;
using study::FailureKind;
using study::Parameters;

constexpr int kAsks = 4;

// A start of one initial point, so that models come at once.
study::StudySpec SpecOf(const study::SearchSpace& space, BoOptions options, uint64_t seed = 3) {
  options.initial_points = 1;
  return BoSpec(space, seed, options);
}

study::SearchSpace Plane() {
  return Space({Float("x0", -5, 10), Float("x1", 0, 15)});
}
study::SearchSpace Mixed() {
  return Space({Float("rate", 1e-6, 1, study::Scale::kLog), Int("n", 1, 50), Categorical("c", {"a", "b", "c"}),
                When("c", {std::string("b")}, Float("extra", -1, 1)), Bool("flag"), Float("fixed", 2, 2)});
}

// Asks, of which every other one ends as `value` says; never outside the space (MemoryStudy::Ask checks), never a
// setting again unless noisy.
void AskOn(MemoryStudy* study, int asks, const std::function<double(int)>& value) {
  std::set<Parameters> seen;
  for (const study::HistoryTrial& trial : study->history().trials()) seen.insert(trial.parameters);
  const bool noisy = std::get<BoOptions>(study->spec().algorithm).SaidNoisy();
  for (int i = 0; i < asks; ++i) {
    const absl::StatusOr<Suggestion> s = study->TryAsk();
    ASSERT_TRUE(s.ok()) << s.status();
    EXPECT_NE(s->origin, "gp_failed");
    EXPECT_TRUE(seen.insert(s->parameters).second || noisy) << study::FormatParameters(s->parameters);
    if (i % 2 == 0) study->Complete(study->newest(), value(i));
  }
}

// Settings at random, given in by a user.
void EnqueueRandom(MemoryStudy* study, int count, const std::function<void(int64_t)>& end) {
  base::RandomStream random(17, "test/enqueue");
  const study::Encoding encoding(study->spec().space);
  for (int i = 0; i < count; ++i) end(study->Enqueue(encoding.Sample(random)));
}

class EverySwitch : public ::testing::TestWithParam<SwitchVariant> {
 protected:
  const BoOptions& options() const { return GetParam().options; }
};
INSTANTIATE_TEST_SUITE_P(Bo, EverySwitch, ::testing::ValuesIn(SwitchVariants()),
                         [](const auto& variant) { return variant.param.name; });

TEST_P(EverySwitch, IsValid) {
  for (const study::SearchSpace& space : {Plane(), Mixed()}) {
    EXPECT_TRUE(Validate(BoSpec(space, 1, options())).ok()) << Validate(BoSpec(space, 1, options()));
  }
}

TEST_P(EverySwitch, EqualValues) {
  MemoryStudy study(SpecOf(Mixed(), options()));
  EnqueueRandom(&study, 6, [&](int64_t number) { study.Complete(number, 7.0); });
  AskOn(&study, kAsks, [](int) { return 7.0; });
}

TEST_P(EverySwitch, DuplicatedSettings) {
  MemoryStudy study(SpecOf(Plane(), options()));
  for (int i = 0; i < 12; ++i) study.Complete(study.Enqueue({{"x0", 1.0}, {"x1", 2.0}}), i % 3);
  AskOn(&study, kAsks, [](int i) { return i + 0.5; });
}

TEST_P(EverySwitch, OneObservation) {
  MemoryStudy study(SpecOf(Plane(), options()));
  study.Complete(study.Enqueue({{"x0", 1.0}, {"x1", 2.0}}), 3.0);
  AskOn(&study, kAsks, [](int i) { return 3.0 + i; });
}

TEST_P(EverySwitch, ExtremeValues) {
  const double rows[][4] = {{1e300, -1e300, 0, 1}, {1e-310, 2e-310, 5e-324, 1e-310}, {-1.7e308, 1.7e308, 3, 1e300}};
  for (const auto& row : rows) {
    MemoryStudy study(SpecOf(Space({Float("x0", -5, 10)}), options()));
    int i = 0;
    EnqueueRandom(&study, 8, [&](int64_t number) { study.Complete(number, row[i++ % 4]); });
    AskOn(&study, kAsks, [&](int k) { return row[k % 4]; });
  }
}

TEST_P(EverySwitch, NoNoiseAtAll) {
  // Exactly linear, exactly quadratic.
  for (const int power : {1, 2}) {
    MemoryStudy study(SpecOf(Space({Float("x", 0, 1)}), options()));
    auto f = [&](double x) { return std::pow(x - 0.25, power); };
    for (int i = 0; i <= 8; ++i) study.Complete(study.Enqueue({{"x", i / 8.0}}), f(i / 8.0));
    std::set<Parameters> seen;
    for (int i = 0; i < kAsks; ++i) {
      const Suggestion s = study.Ask();
      EXPECT_TRUE(seen.insert(s.parameters).second || options().SaidNoisy());
      study.Complete(study.newest(), f(Number(s.parameters, "x")));
    }
  }
}

TEST_P(EverySwitch, FailuresInARow) {
  MemoryStudy study(SpecOf(Mixed(), options()));
  EnqueueRandom(&study, 16, [&](int64_t number) { study.Fail(number, FailureKind::kConfig); });
  AskOn(&study, 2, [](int) { return 1.0; });  // The first results at all.
  for (int i = 0; i < kAsks; ++i) {
    study.Ask();
    study.Fail(study.newest(), i % 2 == 0 ? FailureKind::kConfig : FailureKind::kInfra);
  }
  AskOn(&study, 2, [](int i) { return 2.0 - i; });
}

TEST_P(EverySwitch, ConstantParameters) {
  MemoryStudy some(
      SpecOf(Space({Float("a", 3, 3), Categorical("b", {"only"}), Float("x", 0, 1), Int("k", 5, 5)}), options()));
  AskOn(&some, 6, [](int i) { return i; });
  MemoryStudy all(SpecOf(Space({Float("a", 3, 3), Categorical("b", {"only"})}), options()));
  EXPECT_EQ(Number(all.Ask().parameters, "a"), 3.0);
  if (options().SaidNoisy()) {
    all.Complete(1, 1.0);
    EXPECT_EQ(all.Ask().origin, "repeat");
  } else {
    EXPECT_EQ(base::GetReason(all.TryAsk().status()), base::reason::kSpaceExhausted);
  }
}

TEST_P(EverySwitch, ManyCategories) {
  std::vector<study::ParameterSpec> parameters;
  for (int i = 0; i < 5; ++i) parameters.push_back(Categorical("c" + std::to_string(i), study::Labels(10)));
  MemoryStudy study(SpecOf(Space(parameters), options()));  // 10^5 settings.
  int i = 0;
  EnqueueRandom(&study, 12, [&](int64_t number) { study.Complete(number, std::cos(i++)); });
  AskOn(&study, kAsks, [](int k) { return std::sin(k); });
}

TEST_P(EverySwitch, HundredOpenTrials) {
  MemoryStudy study(SpecOf(Plane(), options()));
  int i = 0;
  EnqueueRandom(&study, 100, [&](int64_t number) {
    if (i++ < 5) study.Complete(number, std::cos(i));
  });
  AskOn(&study, 3, [](int k) { return std::sin(k); });
}

TEST_P(EverySwitch, SmallSpacesAreExhausted) {
  const study::SearchSpace space = Space({Int("n", 1, 3), Categorical("c", {"a", "b"})});
  MemoryStudy study(SpecOf(space, options()));
  AskOn(&study, 6, [](int i) { return i; });
  const absl::StatusOr<Suggestion> more = study.TryAsk();
  if (options().SaidNoisy()) {
    EXPECT_TRUE(more.ok());
  } else {
    EXPECT_EQ(base::GetReason(more.status()), base::reason::kSpaceExhausted);
  }
}

// Results of every kind.
TEST_P(EverySwitch, ARestartChangesNothing) {
  for (const study::SearchSpace& space : {Plane(), Mixed()}) {
    const study::Encoding encoding(space);
    auto loss = [&](const Parameters& parameters) {
      return 0.1 + (encoding.ToCompact(parameters).array() - 0.3).square().sum();
    };
    RestartRun run;
    run.enqueued = encoding.compact_dim() == 2 ? 12 : 0;  // Enough for local steps in the plane.
    run.enqueued_ending = [&](base::RandomStream&, const Parameters& p) { return contract::Complete(loss(p)); };
    run.ending = [&](base::RandomStream& random, const Parameters& p) {
      switch (random.UniformInt(10)) {
        case 0:
          return contract::Failed(FailureKind::kConfig);
        case 1:
          return contract::Failed(FailureKind::kInfra);
        case 2:
          return contract::Cancelled();
        case 3:
          return contract::Pruned(loss(p) + 1.0);
        default:
          return contract::Complete(loss(p));
      }
    };
    std::set<std::string> origins;
    for (const Suggestion& s : ExpectRestartsChangeNothing(SpecOf(space, options()), run)) origins.insert(s.origin);
    EXPECT_TRUE(origins.contains("acq") || origins.contains("ar_empty"));
    if (encoding.compact_dim() == 2) {
      EXPECT_EQ(origins.contains("trust_region"),
                options().trust_region == study::BoTrustRegion::kAuto && !options().SaidNoisy());
    }
  }
}

// Whether so many values of a switch, all that it has, are in some variant.
template <typename Switch>
void ExpectAllTried(Switch BoOptions::* member, size_t values, const char* name) {
  std::set<int> tried;
  for (const SwitchVariant& variant : SwitchVariants()) tried.insert(static_cast<int>(variant.options.*member));
  EXPECT_EQ(tried.size(), values) << name;
}

TEST(Switches, EveryValueOfEverySwitchIsInAVariant) {
  ExpectAllTried(&BoOptions::preset, 4, "preset");
  ExpectAllTried(&BoOptions::acquisition, 6, "acquisition");
  ExpectAllTried(&BoOptions::kernel, 5, "kernel");
  ExpectAllTried(&BoOptions::warp, 3, "warp");
  ExpectAllTried(&BoOptions::prior, 2, "prior");
  ExpectAllTried(&BoOptions::maximizer, 2, "maximizer");
  ExpectAllTried(&BoOptions::pending, 3, "pending");
  ExpectAllTried(&BoOptions::trust_region, 2, "trust_region");
  ExpectAllTried(&BoOptions::exploration, 3, "exploration");
  ExpectAllTried(&BoOptions::lipschitz, 4, "lipschitz");
  ExpectAllTried(&BoOptions::growth, 2, "growth");
  ExpectAllTried(&BoOptions::beta_schedule, 4, "beta_schedule");
  ExpectAllTried(&BoOptions::sampler, 2, "sampler");
  ExpectAllTried(&BoOptions::hyperparameters, 2, "hyperparameters");
  ExpectAllTried(&BoOptions::gradients, 3, "gradients");
  std::set<bool> noisy;
  for (const SwitchVariant& variant : SwitchVariants()) noisy.insert(variant.options.SaidNoisy());
  EXPECT_EQ(noisy.size(), 2u);
}

// More parameters than fifteen: with noise there is a trust box, which shrinks and begins anew here.
TEST(Switches, ARestartChangesNothingInWideSpaces) {
  std::vector<study::ParameterSpec> parameters;
  for (int j = 0; j < 16; ++j) parameters.push_back(Float("x" + std::to_string(j), 0, 1));
  const study::SearchSpace space = Space(parameters);
  const study::Encoding encoding(space);
  for (const bool noisy : {false, true}) {
    BoOptions options = study::BoDefaults(study::BoPreset::kHbo);
    options.noisy = noisy;
    options.kernel = study::BoKernel::kMatern52;
    options.warp = study::BoWarp::kNone;
    options.count_history = false;  // So that what is enqueued leaves a design.
    RestartRun run;
    run.asks = 8;
    run.enqueued = noisy ? 120 : 70;  // None of them better than the first: the box shrinks to its end.
    run.ending = [&](base::RandomStream&, const Parameters& p) {
      return contract::Complete(encoding.ToCompact(p).squaredNorm());
    };
    int count = 0;
    run.enqueued_ending = [&](base::RandomStream& random, const Parameters& p) {
      return noisy ? contract::Complete(++count == 1 ? 0.0 : 1.0 + random.Uniform()) : run.ending(random, p);
    };
    std::set<std::string> origins;
    for (const Suggestion& s : ExpectRestartsChangeNothing(SpecOf(space, options), run)) {
      origins.insert(s.origin);
      const bool proposed = s.origin == "acq" || s.origin == "stuck_random";
      EXPECT_EQ(s.details.contains("box_side"), noisy && proposed) << s.origin;
    }
    EXPECT_TRUE(origins.contains("acq"));
    EXPECT_EQ(origins.contains("restart"), noisy);
    EXPECT_EQ(origins.contains("trust_region"), !noisy);
  }
}

TEST(Switches, OpenTrialsCountAsWhatTheOptionSays) {
  // Nine settings in a row, the fifth open and the sixth alone untried: what is taken for granted of the fifth shows in
  // what the model predicts for the sixth.
  auto predict = [](study::BoPending pending, bool open) {
    BoOptions options;
    options.pending = pending;
    options.kernel = study::BoKernel::kMatern52;
    options.warp = study::BoWarp::kNone;
    MemoryStudy study(SpecOf(Space({study::WithDefault(5.0, Int("n", 1, 9))}), options));
    study.Ask();
    if (!open) study.Cancel(1);
    for (const int n : {1, 2, 3, 4, 7, 8, 9}) {
      study.Complete(study.Enqueue({{"n", static_cast<double>(n)}}), std::cos(0.5 * n));
    }
    const Suggestion s = study.Ask();
    EXPECT_EQ(Number(s.parameters, "n"), 6.0);
    return std::make_pair(s.details.at("predicted_mean"), s.details.at("predicted_sd"));
  };
  const auto nothing = predict(study::BoPending::kBeliever, false);
  const auto believer = predict(study::BoPending::kBeliever, true);
  EXPECT_NEAR(believer.first, nothing.first, 1e-6);
  EXPECT_LT(believer.second, 0.9 * nothing.second);
}

TEST(Switches, PointsCloserThanTheRuleSaysAreTheSame) {
  Observations data;
  data.tried.resize(2, 2);
  data.tried << 0.25, 0.5, 0.75, 0.5;
  for (const double apart : {0.0, 0.99e-12, 1.01e-12}) {
    const Eigen::Vector2d straight(0.75, 0.5 + apart);
    const Eigen::Vector2d across = Eigen::Vector2d(0.25, 0.5) + Eigen::Vector2d::Constant(apart / std::sqrt(2.0));
    EXPECT_EQ(IsTried(data, straight), apart < 1e-12);
    EXPECT_EQ(IsTried(data, across), apart < 1e-12);
  }
}

// A bound without any weight on deviations is largest where the mean is, and by symmetry that is in the middle.
TEST(Switches, AProposalThatWasTriedIsReplacedByARandomSetting) {
  for (const bool open : {false, true}) {
    BoOptions options;
    options.acquisition = study::BoAcquisition::kUcb;
    options.beta_schedule = study::BoBeta::kConstant;
    options.beta = 0.0;
    options.maximizer = study::BoMaximizer::kDirect;
    options.kernel = study::BoKernel::kSe;
    options.warp = study::BoWarp::kNone;
    MemoryStudy study(SpecOf(Space({study::WithDefault(0.0, Float("x", 0, 1))}), options));
    study.Ask();
    study.Complete(1, 4.0);
    study.Complete(study.Enqueue({{"x", 1.0}}), 4.0);
    for (const double x : {0.25, 0.75}) study.Complete(study.Enqueue({{"x", x}}), 1.0);
    for (const double x : {0.45, 0.55}) study.Complete(study.Enqueue({{"x", x}}), 0.04);
    EXPECT_NEAR(Number(study.Ask().parameters, "x"), 0.5, 1e-12);
    if (!open) study.Complete(study.newest(), 0.0);
    const Suggestion s = study.Ask();
    // Where a trial is open nothing would be learnt: the bound's next best place is another one.
    EXPECT_EQ(s.origin, open ? "acq" : "stuck_random");
    EXPECT_GT(std::abs(Number(s.parameters, "x") - 0.5), 1e-6);
  }
}

TEST(Switches, StatesStaySmall) {
  // What every trial stores: bounded by the parameters, not by the length of the study.
  std::vector<study::ParameterSpec> parameters;
  for (int i = 0; i < 10; ++i) parameters.push_back(Float("x" + std::to_string(i), 0, 1));
  MemoryStudy study(SpecOf(Space(parameters), study::BoDefaults(study::BoPreset::kBo)));
  const std::vector<ModelChoice> choices =
      ModelsFor(study::Encoding(study.spec().space), study::BoDefaults(study::BoPreset::kBo)).choices;
  size_t largest = 0;
  bool modelled = false;
  for (int i = 0; i < 60; ++i) {
    const Suggestion s = study.Ask();
    largest = std::max(largest, s.designer_state.size());
    // Once there is a model, all asks hand its hyperparameters on.
    if (s.origin == "acq") modelled = true;
    EXPECT_EQ(ParseBoState(s.designer_state, choices).surrogate.has_value(), modelled) << s.origin;
    double loss = 0.0;
    for (const double x : Point(s.parameters)) loss += std::cos(9.0 * x) + x * x;
    study.Complete(study.newest(), loss);
  }
  RecordProperty("largest_carry", static_cast<int>(largest));
  EXPECT_LE(largest, 4096u);
}

}  // namespace
}  // namespace luthier::search
