#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/search/designer.h"
#include "lib/search/registry.h"
#include "lib/study/encoding.h"
#include "lib/study/study_spec.h"
#include "tests/contract/fake_study.h"
#include "tests/lib/study/builders.h"

// Data and spaces at the edge of what there is, for every registered algorithm: never an error or a crash, never a
// setting outside the space, never one that was tried (but where an algorithm's page says so), and each suggestion
// again, bit by bit, from the log alone.
namespace luthier::search {
namespace {

using namespace study;
using contract::Cancelled;
using contract::Complete;
using contract::Failed;
using contract::Outcome;
using contract::Pruned;

constexpr double kLargest = std::numeric_limits<double>::max();

struct Algorithm {
  std::string name;
  AlgorithmSpec spec;
  bool repeats = false;  // Settings may come again where there are ranges of floats.
  bool parts = false;    // Trains settings in parts.
};

void PrintTo(const Algorithm& algorithm, std::ostream* out) {
  *out << algorithm.name;
}

std::vector<Algorithm> AllAlgorithms() {
  std::vector<Algorithm> all;
  const auto add = [&](const char* name, AlgorithmSpec spec, bool repeats) {
    const bool parts = SamplerOf(spec) != nullptr;
    all.push_back({name, std::move(spec), repeats, parts});
  };
  constexpr bool kNever = false, kMayRepeat = true;
  add("auto", AutoOptions{}, kNever);
  add("bo", BoDefaults(BoPreset::kBo), kNever);
  add("hbo", BoDefaults(BoPreset::kHbo), kNever);
  add("lbo", BoDefaults(BoPreset::kLbo), kNever);
  add("fobo", BoDefaults(BoPreset::kFobo), kNever);
  add("grid", GridOptions{}, kNever);
  add("random", RandomOptions{}, kMayRepeat);
  add("sobol", SobolOptions{}, kMayRepeat);
  add("halton", HaltonOptions{}, kMayRepeat);
  add("tpe", TpeOptions{.startup_trials = 3}, kMayRepeat);
  add("cma_es", CmaEsOptions{}, kMayRepeat);
  add("nsga2", study::Nsga2Options{.population = 4}, kMayRepeat);
  add("hoag", HoagOptions{}, kMayRepeat);
  add("iterdiff", study::HoagOptionsFor(study::HoagPreset::kIterdiff), kMayRepeat);
  add("projected_gradient", study::HoagOptionsFor(study::HoagPreset::kProjectedGradient), kMayRepeat);
  add("harmonica", HarmonicaOptions{.samples = 20, .stages = 1}, kMayRepeat);
  add("successive_halving", SuccessiveHalvingOptions{}, kMayRepeat);
  add("hyperband", HyperbandOptions{.sampler = GridOptions{}}, kNever);
  add("asha", AshaOptions{.sampler = BoDefaults(BoPreset::kBo)}, kNever);
  return all;
}

TEST(Extremes, AreTriedOnEveryRegisteredAlgorithm) {
  std::set<std::string> tried, registered;
  for (const Algorithm& algorithm : AllAlgorithms()) tried.insert(AlgorithmName(algorithm.spec));
  for (const AlgorithmInfo& info : Algorithms()) registered.insert(info.name);
  EXPECT_EQ(tried, registered) << "a new algorithm is one line in AllAlgorithms";
}

bool OnGrid(const Algorithm& algorithm) {
  const SamplerSpec* sampler = SamplerOf(algorithm.spec);
  return std::holds_alternative<GridOptions>(algorithm.spec) ||
         (sampler != nullptr && std::holds_alternative<GridOptions>(*sampler));
}

// All settings of a finite space, in the same spelling as a designer's.
std::optional<std::set<std::string>> AllSettings(const SearchSpace& space) {
  const std::optional<int64_t> cells = space.Cardinality();
  if (!cells || *cells > 1000) return std::nullopt;
  std::set<std::string> settings;
  for (int64_t cell = 0; cell < *cells; ++cell) {
    std::vector<int64_t> level;
    int64_t rest = cell;
    for (int i = 0; i < space.size(); ++i) {
      level.push_back(rest % *space.Levels(i));
      rest /= *space.Levels(i);
    }
    Parameters active;
    for (const int i : space.topological_order()) {
      const auto at = static_cast<size_t>(i);
      if (space.IsActive(i, active)) active[space.parameters()[at].name] = space.LevelValue(i, level[at]);
    }
    settings.insert(FormatParameters(active));
  }
  return settings;
}

std::string Print(const Suggestion& s) {
  std::string text = s.origin + ": " + FormatParameters(s.parameters) + " carry=" + s.designer_state;
  text += " resume=" + std::to_string(s.resume.value_or(0)) + " resource=" + std::to_string(s.resource);
  for (const double part : s.direction) text += " v=" + FormatDouble(part);
  for (const auto& [name, value] : s.details) text += " " + name + "=" + FormatDouble(value);
  return text;
}

// A study that checks whatever is suggested to it.
class Probe {
 public:
  Probe(const Algorithm& algorithm, SearchSpace space) : algorithm_(algorithm), encoding_(space) {
    spec_.space = std::move(space);
    spec_.metric.name = "loss";
    spec_.algorithm = algorithm.spec;
    spec_.seed = 11;
    spec_.budget.max_trials = 100'000;
    if (algorithm.parts) spec_.resource = Resource{.min = 1, .max = 9, .unit = "epochs"};
    valid_ = Validate(spec_).ok();
    // Only a grid may say that a space is too large for it, and ends before the space does.
    // HOAG is for spaces with derivatives.
    const bool hoag = std::holds_alternative<HoagOptions>(algorithm.spec);
    EXPECT_TRUE(valid_ || OnGrid(algorithm) || hoag) << Validate(spec_);
    may_end = OnGrid(algorithm);
    if (!valid_) return;
    designer_ = CreateDesigner(spec_);
    settings_ = AllSettings(spec_.space);
  }

  // False: the algorithm does not take this space.
  bool valid() const { return valid_; }
  bool exhausted() const { return exhausted_; }
  const contract::FakeStudy& study() const { return study_; }
  const Encoding& encoding() const { return encoding_; }
  const HistoryTrial& Trial(int64_t number) const { return study_.history().trials()[static_cast<size_t>(number - 1)]; }

  // One ask, stored. The number of its trial; absent when there is nothing to suggest (now).
  std::optional<int64_t> Ask() {
    const absl::StatusOr<Suggestion> s = designer_->Suggest(study_.history(), study_.asks(), base::StopToken());
    if (study_.asks() % 5 == 4) {
      const absl::StatusOr<Suggestion> again =
          CreateDesigner(spec_)->Suggest(study_.Replay(study_.events()), study_.asks(), base::StopToken());
      EXPECT_EQ(again.status(), s.status());
      if (s.ok() && again.ok()) {
        EXPECT_EQ(Print(*again), Print(*s)) << "ask " << study_.asks() << " depends on more than the log";
      }
    }
    if (!s.ok()) {
      const std::string reason = base::GetReason(s.status());
      if (reason == base::reason::kAwaitingResults) {
        EXPECT_FALSE(study_.open().empty()) << "waits for nothing";
        return std::nullopt;
      }
      EXPECT_EQ(reason, base::reason::kSpaceExhausted) << s.status();
      exhausted_ = true;
      EXPECT_TRUE(settings_.has_value() || may_end) << "a space that has no end is exhausted";
      if (settings_.has_value()) {
        EXPECT_EQ(seen_, *settings_) << "exhausted, yet settings are left";
      }
      return std::nullopt;
    }
    if (!s->resume) {
      const absl::StatusOr<Parameters> canonical = spec_.space.Canonical(s->parameters);
      EXPECT_TRUE(canonical.ok()) << canonical.status();
      EXPECT_TRUE(!canonical.ok() || *canonical == s->parameters) << "not canonical: " << Print(*s);
      const bool fresh = seen_.insert(FormatParameters(s->parameters)).second;
      EXPECT_TRUE(fresh || (algorithm_.repeats && !settings_) || may_repeat || s->origin == "probe" ||
                  s->origin == "repeat")
          << "again: " << Print(*s) << " at ask " << study_.asks();
    }
    EXPECT_NE(s->origin, "gp_failed");
    EXPECT_NE(s->origin, "all_random");
    EXPECT_LE(s->designer_state.size(), 16384u);
    for (const auto& [name, value] : s->details) EXPECT_TRUE(std::isfinite(value)) << name << " in " << Print(*s);
    study_.Suggested(*s);
    return study_.Store();
  }

  int64_t Enqueue(const Parameters& parameters) {
    seen_.insert(FormatParameters(parameters));
    return study_.Enqueue(parameters, spec_.resource ? spec_.resource->max : 0);
  }
  // A setting at random, given in by a user.
  int64_t EnqueueRandom(base::RandomStream& random) { return Enqueue(encoding_.Sample(random)); }

  // Its training ends: at its target, where it pauses if there is more to train.
  void Finish(int64_t number, double value) {
    const HistoryTrial trial = Trial(number);
    if (spec_.resource) study_.Report(number, trial.resource, value);
    if (spec_.resource && trial.resource < spec_.resource->max) {
      study_.Pause(number);
    } else {
      study_.Finish(number, Complete(value));
    }
  }
  void End(int64_t number, const Outcome& outcome) { study_.Finish(number, outcome); }

  // Asks, of which every other one ends as `value` says, and the last ones stay open.
  void AskOn(int asks, const std::function<double(int, const Parameters&)>& value) {
    std::vector<int64_t> open;
    for (int i = 0; i < asks; ++i) {
      const std::optional<int64_t> number = Ask();
      if (exhausted_) return;
      if (number) open.push_back(*number);
      if (open.size() > (number ? 2u : 0u)) {
        Finish(open.front(), value(i, Trial(open.front()).parameters));
        open.erase(open.begin());
      }
    }
  }

  bool may_repeat = false;  // As when the space has fewer settings than asks come, or trials were lost.
  bool may_end = false;     // As when a continuous range holds but a few doubles.

 private:
  const Algorithm algorithm_;
  const Encoding encoding_;
  StudySpec spec_;
  bool valid_ = false;
  bool exhausted_ = false;
  std::unique_ptr<Designer> designer_;
  contract::FakeStudy study_;
  std::optional<std::set<std::string>> settings_;
  std::set<std::string> seen_;
};

SearchSpace Plane() {
  return Space({Float("x0", -5, 10), Float("x1", 0, 15)});
}
SearchSpace Mixed() {
  return Space({Float("rate", 1e-6, 1, Scale::kLog), Int("n", 1, 50), Categorical("c", {"a", "b", "c"}),
                When("c", {std::string("b")}, Float("extra", -1, 1)), Bool("flag"), Float("fixed", 2, 2)});
}

class EveryAlgorithm : public ::testing::TestWithParam<Algorithm> {
 protected:
  static constexpr int kAsks = 14;

  // A start of random settings with these values, then asks that go on with them.
  void RunOn(const SearchSpace& space, int results, const std::function<double(int, const Parameters&)>& value,
             int asks = kAsks) {
    Probe probe(GetParam(), space);
    if (!probe.valid()) return;
    base::RandomStream random(17, "test/extremes");
    // Those of a user may be a grid's own.
    probe.may_repeat = space.Cardinality().has_value() && OnGrid(GetParam());
    for (int i = 0; i < results; ++i) {
      const int64_t number = probe.EnqueueRandom(random);
      probe.Finish(number, value(i, probe.Trial(number).parameters));
    }
    probe.AskOn(asks, value);
    EXPECT_TRUE(!probe.exhausted() || OnGrid(GetParam()));
  }
};
INSTANTIATE_TEST_SUITE_P(Registry, EveryAlgorithm, ::testing::ValuesIn(AllAlgorithms()),
                         [](const auto& algorithm) { return algorithm.param.name; });

TEST_P(EveryAlgorithm, EqualValues) {
  for (const SearchSpace& space : {Plane(), Mixed()}) RunOn(space, 6, [](int, const Parameters&) { return 7.0; });
}

TEST_P(EveryAlgorithm, DuplicatedSettings) {
  Probe probe(GetParam(), Plane());
  for (int i = 0; i < 12; ++i) probe.Finish(probe.Enqueue({{"x0", 1.0}, {"x1", 2.0}}), i % 3);
  probe.AskOn(kAsks, [](int i, const Parameters&) { return i + 0.5; });
}

TEST_P(EveryAlgorithm, OneObservation) {
  Probe probe(GetParam(), Mixed());
  base::RandomStream random(18, "test/extremes");
  probe.Finish(probe.EnqueueRandom(random), 3.0);
  for (int i = 0; i < 6 && !probe.exhausted(); ++i) probe.Ask();
}

TEST_P(EveryAlgorithm, ExtremeValues) {
  const double rows[][4] = {{1e300, -1e300, 0, 1},
                            {1e-310, 2e-310, 5e-324, 1e-310},
                            {-kLargest, kLargest, 3, 1e300},
                            {1.0, std::nextafter(1.0, 2.0), 1.0, std::nextafter(1.0, 0.0)}};
  for (const auto& row : rows) {
    RunOn(Space({Float("x0", -5, 10)}), 8, [&](int i, const Parameters&) { return row[i % 4]; });
  }
}

// Exactly linear, exactly quadratic.
TEST_P(EveryAlgorithm, NoNoiseAtAll) {
  for (const int power : {1, 2}) {
    RunOn(Space({Float("x", 0, 1)}), 9,
          [&](int, const Parameters& p) { return std::pow(std::get<double>(p.at("x")) - 0.25, power); });
  }
}

// From the first trial on; then the first results of all.
TEST_P(EveryAlgorithm, TwoHundredFailuresInARow) {
  const Outcome endings[] = {Failed(FailureKind::kConfig), Failed(FailureKind::kInfra), Cancelled(),
                             Pruned(std::nullopt), Pruned(std::nan(""))};
  for (const Outcome& ending : endings) {
    Probe probe(GetParam(), Mixed());
    // What was lost for no fault of its own may be tried again.
    probe.may_repeat = ending.failure == FailureKind::kInfra || ending.state == TrialState::kCancelled;
    for (int i = 0; i < 200; ++i) {
      const std::optional<int64_t> number = probe.Ask();
      ASSERT_TRUE(number.has_value()) << i;
      probe.End(*number, ending);
    }
    probe.AskOn(4, [](int i, const Parameters&) { return 1.0 + i % 3; });
    EXPECT_FALSE(probe.exhausted());
  }
}

// After a good start, of which the model knows where settings work.
TEST_P(EveryAlgorithm, FailuresInARowAfterResults) {
  for (const FailureKind kind : {FailureKind::kConfig, FailureKind::kInfra}) {
    Probe probe(GetParam(), Plane());
    probe.may_repeat = kind == FailureKind::kInfra;
    probe.AskOn(8, [](int, const Parameters& p) { return std::cos(std::get<double>(p.at("x0"))); });
    for (int i = 0; i < 24; ++i) {
      const std::optional<int64_t> number = probe.Ask();
      if (number) {
        probe.End(*number, Failed(kind));
      } else if (!probe.study().open().empty()) {
        probe.End(probe.study().open().front(), Failed(kind));
      }
    }
    EXPECT_FALSE(probe.exhausted());
  }
}

TEST_P(EveryAlgorithm, ConstantParameters) {
  RunOn(Space({Float("a", 3, 3), Categorical("b", {"only"}), Float("x", 0, 1), Int("k", 5, 5)}), 0,
        [](int i, const Parameters&) { return i; });
}

TEST_P(EveryAlgorithm, ASpaceOfOnePoint) {
  Probe probe(GetParam(), Space({Float("a", 3, 3), Categorical("b", {"only"}), Ordinal("c", {"one"})}));
  if (!probe.valid()) return;
  for (int i = 0; i < 6 && !probe.exhausted(); ++i) {
    if (const std::optional<int64_t> number = probe.Ask()) probe.Finish(*number, 1.0);
  }
  EXPECT_NE(probe.exhausted(), std::holds_alternative<HoagOptions>(GetParam().spec));
}

TEST_P(EveryAlgorithm, AnExhaustedSpace) {
  const SearchSpace spaces[] = {
      Space({Int("n", 1, 3), Categorical("c", {"a", "b"})}),
      Space({Bool("on"), When("on", {true}, Int("n", 1, 4)), When("on", {true}, Bool("deep")),
             When("deep", {true}, Ordinal("o", {"s", "m", "l"}))}),
      Space({Float("x", 0, 1, Scale::kLinear, 0.25)}),
  };
  for (const SearchSpace& space : spaces) {
    Probe probe(GetParam(), space);
    if (!probe.valid()) continue;
    for (int i = 0; i < 80 && !probe.exhausted(); ++i) {
      if (const std::optional<int64_t> number = probe.Ask()) probe.Finish(*number, std::cos(i));
    }
    EXPECT_NE(probe.exhausted(), std::holds_alternative<HoagOptions>(GetParam().spec));
  }
}

TEST_P(EveryAlgorithm, ManyCategories) {
  std::vector<ParameterSpec> parameters;
  for (int i = 0; i < 5; ++i) parameters.push_back(Categorical("c" + std::to_string(i), Labels(10)));
  RunOn(Space(parameters), 12, [](int i, const Parameters&) { return std::cos(i); });  // 10^5 settings.
}

TEST_P(EveryAlgorithm, HundredOpenTrials) {
  for (const SearchSpace& space : {Plane(), Mixed()}) {
    Probe probe(GetParam(), space);
    if (!probe.valid()) continue;
    base::RandomStream random(19, "test/extremes");
    for (int i = 0; i < 100; ++i) {
      const int64_t number = probe.EnqueueRandom(random);
      if (i < 5) probe.Finish(number, std::cos(i));
    }
    probe.AskOn(5, [](int i, const Parameters&) { return std::sin(i); });
  }
  // Its own, asked for one after the other without a single result. A descent waits for that of its last step.
  Probe probe(GetParam(), Plane());
  const int asks = std::holds_alternative<HoagOptions>(GetParam().spec) ? 1 : 100;
  for (int i = 0; i < asks; ++i) ASSERT_TRUE(probe.Ask().has_value()) << i;
}

TEST_P(EveryAlgorithm, ConditionalSpaces) {
  RunOn(Space({When("model", {std::string("tree")}, Int("depth", 1, 30)), Categorical("model", {"tree", "net", "none"}),
               When("model", {std::string("net")}, Float("rate", 1e-5, 1, Scale::kLog)),
               When("model", {std::string("net")}, Bool("dropout")), When("dropout", {true}, Float("p", 0.1, 0.9))}),
        4, [](int i, const Parameters& p) { return p.count("rate") > 0 ? std::sin(i) : 2.0 + std::cos(i); });
  // Nearly all of random search's settings are one of a few: the rest is down a narrow path.
  std::vector<ParameterSpec> chain = {Bool("b0")};
  for (int i = 1; i < 10; ++i) {
    chain.push_back(When("b" + std::to_string(i - 1), {true}, Bool("b" + std::to_string(i))));
  }
  chain.push_back(When("b9", {true}, Float("x", 0, 1)));
  RunOn(Space(chain), 0, [](int, const Parameters& p) { return p.count("x") > 0 ? std::get<double>(p.at("x")) : 2.0; });
}

TEST_P(EveryAlgorithm, RangesOfAFewDoubles) {
  const double tiny = 5e-324;
  const ParameterSpec ranges[] = {
      Float("x", 1.0, 1.0 + 1e-12, Scale::kLog),
      Float("x", 1e300, 1e300 * (1.0 + 1e-10), Scale::kLog),
      Float("x", 0.5, 0.5 + 1e-12, Scale::kLogit),
      Float("x", tiny, kLargest, Scale::kLog),
      Float("x", 1e-300, 1.0 - 1e-16, Scale::kLogit),
      Float("x", -0.49 * kLargest, 0.5 * kLargest),
      Float("x", -1e-310, 1e-310),
  };
  const auto values = [](int i, const Parameters&) { return std::cos(3 * i); };
  for (const ParameterSpec& range : ranges) {
    RunOn(Space({range}), 6, values, 5);
    RunOn(Space({range, Float("y", 0, 1)}), 6, values, 5);
  }
  // Nine, three and two doubles in all.
  const ParameterSpec few[] = {Float("x", 1e15, 1e15 + 1.0), Float("x", 1.0, 1.0 + 5e-16),
                               Float("x", 1.0, std::nextafter(1.0, 2.0), Scale::kLog), Float("x", 0.0, tiny)};
  for (const ParameterSpec& range : few) {
    Probe probe(GetParam(), Space({range}));
    probe.may_end = true;
    // A grid's levels are places in the range, not doubles.
    probe.may_repeat = OnGrid(GetParam());
    probe.AskOn(12, values);
  }
}

TEST_P(EveryAlgorithm, IntegersOfHugeRange) {
  constexpr int64_t kEnd = int64_t{1} << 53;
  const ParameterSpec ranges[] = {Int("n", -kEnd, kEnd), Int("n", 1, kEnd, 1, Scale::kLog), Int("n", kEnd - 3, kEnd),
                                  Float("n", 0, 1, Scale::kLinear, 1e-15)};
  for (const ParameterSpec& range : ranges) {
    RunOn(Space({range, Float("y", 0, 1)}), 4, [](int i, const Parameters&) { return std::sin(3 * i); }, 4);
  }
}

}  // namespace
}  // namespace luthier::search
