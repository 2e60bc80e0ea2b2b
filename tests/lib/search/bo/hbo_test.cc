#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/search/bo/bo_designer.h"
#include "lib/search/bo/turns/exploration_points.h"
#include "lib/search/quasi_random/random_designer.h"
#include "tests/lib/search/bo/bo_testing.h"

// The harmless rule: whatever the model does, every m-th trial is random search's own.
namespace luthier::search {
namespace {

using study::BoAcquisition;
using study::BoDefaults;
using study::BoExploration;
using study::Bool;
using study::BoOptions;
using study::BoPreset;
using study::FailureKind;
using study::Ordinal;
using study::Parameters;

study::SearchSpace Plane() {
  return Space({Float("x0", -5, 10), Float("x1", 0, 15)});
}
double BraninOf(const Parameters& p) {
  return Branin(Point(p));
}
// One kernel, no warp, no local steps: models that cost little where they do not matter.
BoOptions Cheap(BoPreset preset = BoPreset::kHbo) {
  BoOptions options = BoDefaults(preset);
  options.kernel = study::BoKernel::kMatern52;
  options.warp = study::BoWarp::kNone;
  options.trust_region = study::BoTrustRegion::kOff;
  return options;
}
// Random search's points 0, 1, … for a study.
Parameters RandomPoint(const study::StudySpec& spec, uint64_t index) {
  return ExplorationPoint(study::Encoding(spec.space), spec.seed, index);
}

TEST(Hbo, HoldsRandomSearchsPointsForEveryAcquisition) {
  for (const BoAcquisition acquisition : {BoAcquisition::kLogEi, BoAcquisition::kEi, BoAcquisition::kPi,
                                          BoAcquisition::kLogPi, BoAcquisition::kUcb, BoAcquisition::kTs}) {
    for (const bool plain : {true, false}) {
      BoOptions options = plain ? Cheap() : BoDefaults(BoPreset::kHbo);
      options.acquisition = acquisition;
      MemoryStudy study(BoSpec(Plane(), 9, options));
      double best = INFINITY, random = INFINITY;
      uint64_t explored = 0;
      for (int i = 0; i < 24; ++i) {
        const Suggestion s = study.Ask();
        const double value = BraninOf(s.parameters);
        study.Complete(study.newest(), value);
        best = std::min(best, value);
        // The first trial is the defaults', the rest of the design and every fourth trial after it exploration's.
        EXPECT_EQ(s.origin == "init", i == 0);
        EXPECT_EQ(s.origin == "explore", (i >= 1 && i < 4) || (i >= 15 && i % 4 == 3));
        if (s.origin == "explore") {
          EXPECT_EQ(s.parameters, RandomPoint(study.spec(), explored));
          random = std::min(random, BraninOf(RandomPoint(study.spec(), explored++)));
        }
        EXPECT_GE(explored, static_cast<uint64_t>((i + 1) / 4));
        EXPECT_LE(best, random);
      }
    }
  }
}

// The same promise by the test's own bookkeeping, for any number of workers and any endings. The design has `initial`
// asks, or more while there are fewer than two results.
class Workers {
 public:
  Workers(study::StudySpec spec, int every, int initial, int workers, uint64_t seed)
      : study_(std::move(spec)), every_(every), initial_(initial), workers_(workers), random_(seed, "test/workers") {}

  struct Ending {
    double infra = 0.3;
    double cancel = 0.1;
    double pruned = 0.0;  // Without a value: counts, and costs no model.
  };

  // Runs until `asks` asks were made, checking the rule at each event.
  void Run(int asks, const Ending& ending, const std::function<double(const Suggestion&)>& f) {
    std::map<double, int64_t> running;  // By time of ending.
    double now = 0.0;
    for (int ask = 0; ask < asks;) {
      if (running.size() < static_cast<size_t>(workers_)) {
        Ask();
        running[now + std::exp(2.0 * random_.Normal())] = study_.newest();
        ++ask;
        continue;
      }
      const auto [time, number] = *running.begin();
      running.erase(running.begin());
      now = time;
      End(number, ending, f);
    }
  }

  const MemoryStudy& study() const { return study_; }
  double best() const { return best_; }
  double random_best() const { return random_best_; }
  int64_t explorations() const { return explorations_; }
  int64_t counted() const { return counted_; }

 private:
  void Ask() {
    const int64_t debt = Debt();
    const bool due = explorations_ < (counted_ + 1) / every_;
    const bool design = suggestions_.size() < static_cast<size_t>(initial_) || results_ < 2;
    const Suggestion s = study_.Ask();
    const bool first = suggestions_.empty() && !due;
    EXPECT_EQ(s.origin == "init", first);
    EXPECT_EQ(s.origin == "explore", !first && (due || design));
    suggestions_.push_back(s);
    ++counted_;
    if (s.origin == "explore") {
      // A lost exploration is made up for by the next point of the stream.
      EXPECT_EQ(s.parameters, RandomPoint(study_.spec(), stream_++));
      ++explorations_;
    }
    EXPECT_LE(Debt(), debt);
    EXPECT_GE(explorations_, counted_ / every_ - Debt());
  }

  void End(int64_t number, const Ending& ending, const std::function<double(const Suggestion&)>& f) {
    const Suggestion& s = suggestions_[static_cast<size_t>(number - 1)];
    const bool explores = s.origin == "explore";
    const int64_t debt = Debt();
    const double u = random_.Uniform();
    if (u < ending.infra + ending.cancel) {
      u < ending.infra ? study_.Fail(number, FailureKind::kInfra) : study_.Cancel(number);
      --counted_;
      explorations_ -= explores;
      EXPECT_LE(Debt(), debt + explores);
      return;
    }
    ++completed_;
    completed_explorations_ += explores;
    EXPECT_GE(completed_explorations_, completed_ / every_ - workers_ - Debt());
    if (u < ending.infra + ending.cancel + ending.pruned) {
      study_.Prune(number, std::nullopt);
      return;
    }
    const double value = f(s);
    study_.Complete(number, value);
    ++results_;
    best_ = std::min(best_, value);
    if (explores) random_best_ = std::min(random_best_, value);
    EXPECT_LE(best_, random_best_);
  }
  // Explorations that were lost and not made up for yet.
  int64_t Debt() const { return std::max<int64_t>(0, counted_ / every_ - explorations_); }

  MemoryStudy study_;
  int every_, initial_, workers_;
  base::RandomStream random_;
  std::vector<Suggestion> suggestions_;
  uint64_t stream_ = 0;
  int64_t counted_ = 0, explorations_ = 0, completed_ = 0, completed_explorations_ = 0, results_ = 0;
  double best_ = INFINITY, random_best_ = INFINITY;
};

TEST(Hbo, KeepsThePromiseWithEightWorkersWhoseTrialsFail) {
  int seed = 0;
  for (const BoAcquisition acquisition : {BoAcquisition::kLogEi, BoAcquisition::kEi, BoAcquisition::kPi,
                                          BoAcquisition::kLogPi, BoAcquisition::kUcb, BoAcquisition::kTs}) {
    BoOptions options = ++seed % 2 == 0 ? Cheap() : BoDefaults(BoPreset::kHbo);
    options.acquisition = acquisition;
    Workers workers(BoSpec(Plane(), static_cast<uint64_t>(seed), options), 4, 4, 8, static_cast<uint64_t>(seed));
    workers.Run(45, {}, [](const Suggestion& s) { return BraninOf(s.parameters); });
    EXPECT_GE(workers.explorations(), 5);
  }
}

TEST(Hbo, CountsHoldOnManySchedules) {
  for (int schedule = 0; schedule < 60; ++schedule) {
    SCOPED_TRACE(schedule);
    base::RandomStream random(static_cast<uint64_t>(schedule), "test/schedules");
    BoOptions options = Cheap();
    options.explore_every = 1 + static_cast<int>(random.UniformInt(6));
    options.initial_points = 1 + static_cast<int>(random.UniformInt(4));
    options.maximizer = study::BoMaximizer::kDirect;
    Workers workers(BoSpec(Space({Float("x", 0, 1)}), random.NextU64(), options), options.explore_every,
                    options.initial_points, 1 + static_cast<int>(random.UniformInt(8)), random.NextU64());
    workers.Run(50, {.infra = 0.4 * random.Uniform(), .cancel = 0.3 * random.Uniform(), .pruned = 0.25},
                [](const Suggestion& s) { return Number(s.parameters, "x"); });
  }
}

TEST(Hbo, IsRandomSearchAtLeastWhenTheModelIsAlwaysWrong) {
  // An adversary: whatever the model proposes turns out bad.
  std::vector<double> hbo, random;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    MemoryStudy study(BoSpec(Plane(), seed, Cheap()));
    double best = INFINITY;
    for (int i = 0; i < 24; ++i) {
      const Suggestion s = study.Ask();
      const double value = s.origin == "explore" ? BraninOf(s.parameters) : 1000.0 + i;
      study.Complete(study.newest(), value);
      best = std::min(best, value);
    }
    hbo.push_back(best);
    random.push_back(INFINITY);
    for (uint64_t j = 0; j < 6; ++j) random.back() = std::min(random.back(), BraninOf(RandomPoint(study.spec(), j)));
  }
  EXPECT_EQ(hbo, random);
}

TEST(Hbo, ExplorationsAreUniformHoweverLongTheyTake) {
  BoOptions options = Cheap();
  options.explore_every = 1;
  options.initial_points = 2;
  MemoryStudy study(BoSpec(Space({Float("x", 0, 1), Float("y", 0, 1)}), 3, options));
  base::RandomStream random(5, "test/durations");
  std::map<double, int64_t> running;
  std::vector<double> cells(16, 0.0);
  double now = 0.0;
  int explored = 0;
  while (explored < 800) {
    if (running.size() < 8) {
      const Suggestion s = study.Ask();
      const double x = Number(s.parameters, "x"), y = Number(s.parameters, "y");
      // One quarter of the space takes a hundred times as long.
      running[now + (x < 0.5 && y < 0.5 ? 100.0 : 1.0) * (0.5 + random.Uniform())] = study.newest();
      if (s.origin == "init") continue;
      EXPECT_EQ(s.origin, "explore");
      cells[static_cast<size_t>(4 * std::min(3.0, std::floor(4 * x)) + std::min(3.0, std::floor(4 * y)))] += 1.0;
      ++explored;
      continue;
    }
    now = running.begin()->first;
    const int64_t number = running.begin()->second;
    running.erase(running.begin());
    random.Uniform() < 0.1 ? study.Cancel(number) : study.Complete(number, 1.0);
  }
  double chi2 = 0.0;
  for (const double count : cells) chi2 += (count - 50.0) * (count - 50.0) / 50.0;
  EXPECT_LT(chi2, 44.3);  // 15 degrees of freedom, p = 1e-4.
}

TEST(Hbo, ExploreEveryIsTheShareOfExplorations) {
  for (const int every : {0, 1, 2, 3, 7, 1'000'000}) {
    BoOptions options = Cheap();
    options.explore_every = every;
    MemoryStudy study(BoSpec(Plane(), 4, options));
    int explored = 0;
    for (int i = 0; i < 18; ++i) {
      const Suggestion s = study.Ask();
      explored += s.origin == "explore";
      study.Complete(study.newest(), BraninOf(s.parameters));
    }
    EXPECT_EQ(explored, every == 0 ? 0 : std::max(3, 18 / every));
  }
}

TEST(Hbo, WithoutExplorationIsBo) {
  BoOptions hbo = BoDefaults(BoPreset::kHbo);
  hbo.explore_every = 0;
  MemoryStudy a(BoSpec(Plane(), 4, hbo)), b(BoSpec(Plane(), 4, BoDefaults(BoPreset::kBo)));
  for (int i = 0; i < 16; ++i) {
    const Suggestion s = a.Ask(), t = b.Ask();
    EXPECT_EQ(s.parameters, t.parameters);
    EXPECT_EQ(s.designer_state, t.designer_state);
    a.Complete(a.newest(), BraninOf(s.parameters));
    b.Complete(b.newest(), BraninOf(t.parameters));
  }
}

TEST(Hbo, FiniteSpacesCostNoTrialTwice) {
  // 24 settings: explorations whose point was tried already cost nothing, and every setting comes up exactly once.
  for (const BoExploration exploration : {BoExploration::kRandom, BoExploration::kFarthest, BoExploration::kLipo}) {
    BoOptions options = Cheap(BoPreset::kHbo);
    options.exploration = exploration;
    options.explore_every = 2;
    const study::SearchSpace space = Space({Int("n", 1, 8), Categorical("c", {"a", "b", "c"})});
    MemoryStudy study(BoSpec(space, 6, options));
    std::set<Parameters> seen;
    int farthest = 0;
    for (int i = 0; i < 24; ++i) {
      const Suggestion s = study.Ask();
      farthest += s.origin == "explore";
      EXPECT_TRUE(seen.insert(s.parameters).second) << i;
      study.Complete(study.newest(), Number(s.parameters, "n"));
      // Random search's first points have all been tried, as many as the rule counts.
      if (exploration == BoExploration::kRandom) {
        for (uint64_t j = 0; j < static_cast<uint64_t>((i + 1) / 2); ++j) {
          EXPECT_TRUE(seen.contains(RandomPoint(study.spec(), j)));
        }
      }
    }
    EXPECT_EQ(study.TryAsk().status().code(), absl::StatusCode::kOutOfRange);
    if (exploration == BoExploration::kFarthest) {
      EXPECT_EQ(farthest, 10);  // Of 20: never skipped.
    }
  }
}

TEST(Hbo, SettingsWhoseTrialsWereLostAreTriedAgain) {
  // Random search's next point was tried before, in vain: the promise needs its value.
  BoOptions options = Cheap();
  options.explore_every = 1;
  const study::StudySpec spec = BoSpec(Space({Int("n", 1, 8), Categorical("c", {"a", "b", "c"})}), 7, options);
  const Parameters point = RandomPoint(spec, 4);
  for (const bool lost : {true, false}) {
    MemoryStudy study(spec);
    study.Run(4, [&](const Parameters& p) {
      EXPECT_NE(p, point) << "choose another seed";
      return Number(p, "n");
    });
    study.Fail(study.Enqueue(point), lost ? FailureKind::kInfra : FailureKind::kConfig);
    const Suggestion s = study.Ask();
    EXPECT_EQ(s.parameters == point, lost);
    EXPECT_EQ(s.origin == "explore", lost) << "a point whose value is known costs no trial";
  }
}

// The tried settings of a study, for FarthestPoint.
Observations Tried(const study::Encoding& encoding, const std::vector<Parameters>& settings) {
  Observations data;
  data.tried.resize(static_cast<Eigen::Index>(settings.size()), encoding.model_dim());
  for (size_t k = 0; k < settings.size(); ++k) {
    data.tried.row(static_cast<Eigen::Index>(k)) = encoding.ToModel(settings[k]);
  }
  return data;
}
double Gap(const Observations& data, const Eigen::VectorXd& u) {
  return (data.tried.rowwise() - u.transpose()).rowwise().norm().minCoeff();
}

TEST(Farthest, IsFarthest) {
  for (const study::SearchSpace& space :
       {Space({Int("i", 0, 6), Int("j", 0, 8)}), Space({Categorical("c", study::Labels(5)), Int("j", 0, 9), Bool("b")}),
        Space({Ordinal("o", study::Labels(4)), When("o", {std::string("v1"), std::string("v3")}, Int("k", 0, 5))})}) {
    const study::Encoding encoding(space);
    const std::optional<SettingTable> table = SettingTable::Create(encoding);
    ASSERT_TRUE(table.has_value());
    for (uint64_t seed = 0; seed < 8; ++seed) {
      base::RandomStream random(seed, "test/farthest");
      std::vector<Parameters> settings;
      for (int k = 0; k <= 3 * static_cast<int>(seed); ++k) settings.push_back(encoding.Sample(random));
      const Observations data = Tried(encoding, settings);
      double widest = 0.0;
      for (int i = 0; i < table->size(); ++i) widest = std::max(widest, Gap(data, table->points().row(i).transpose()));
      const Parameters found = FarthestPoint(encoding, data, seed, 0, base::StopToken()).value();
      EXPECT_TRUE(space.Validate(found).ok());
      EXPECT_NEAR(Gap(data, encoding.ToModel(found)), widest, 1e-12) << seed;
    }
  }
}

TEST(Farthest, ComesCloseInContinuousSpacesAndStartsAnywhere) {
  const study::Encoding encoding(Space({Float("x", 0, 1), Float("y", 0, 1)}));
  const std::vector<Parameters> settings = {
      {{"x", 0.2}, {"y", 0.3}}, {{"x", 0.9}, {"y", 0.2}}, {{"x", 0.4}, {"y", 0.9}}};
  const Observations data = Tried(encoding, settings);
  double widest = 0.0;
  for (int i = 0; i <= 400; ++i) {
    for (int j = 0; j <= 400; ++j) widest = std::max(widest, Gap(data, Eigen::Vector2d(i / 400.0, j / 400.0)));
  }
  EXPECT_GE(Gap(data, encoding.ToModel(FarthestPoint(encoding, data, 1, 0, base::StopToken()).value())), widest - 1e-3);
  EXPECT_TRUE(
      encoding.space().Validate(FarthestPoint(encoding, Tried(encoding, {}), 1, 0, base::StopToken()).value()).ok());
}

TEST(Farthest, IsWhatTheDesignerExplores) {
  BoOptions options = Cheap();
  options.exploration = BoExploration::kFarthest;
  options.explore_every = 1;
  MemoryStudy study(BoSpec(Space({Float("x", 0, 1)}), 2, options));
  std::vector<double> xs;
  for (int i = 0; i < 12; ++i) {
    const Suggestion s = study.Ask();
    const double x = Number(s.parameters, "x");
    if (s.origin == "explore") {
      // Half of the widest gap between neighbours, or an end of the range.
      std::vector<double> sorted = xs;
      std::sort(sorted.begin(), sorted.end());
      double widest = std::max(sorted.front(), 1.0 - sorted.back()), here = 1.0;
      for (size_t k = 1; k < sorted.size(); ++k) widest = std::max(widest, 0.5 * (sorted[k] - sorted[k - 1]));
      for (const double other : xs) here = std::min(here, std::abs(x - other));
      EXPECT_GE(here, widest - 2e-3);
    }
    xs.push_back(x);
    if (i % 3 != 2) study.Complete(study.newest(), x);  // Open trials have been tried, too.
  }
}

TEST(SampleWith, OpensAParameterAndDrawsTheRestLikeRandomSearch) {
  const study::SearchSpace space =
      Space({Categorical("a", {"u", "v", "w"}), When("a", {std::string("v"), std::string("w")}, Int("n", 1, 3)),
             When("n", {3.0}, Bool("b")), When("b", {true}, Float("x", 0, 1)), Float("y", 0, 1)});
  const study::Encoding encoding(space);
  base::RandomStream random(4, "test/sample");
  std::map<std::string, int> labels;
  double sum = 0.0;
  for (int i = 0; i < 2000; ++i) {
    const Parameters p = SampleWith(encoding, *space.Find("x"), random);
    EXPECT_TRUE(space.Validate(p).ok());
    ASSERT_TRUE(p.contains("x")) << study::FormatParameters(p);
    ++labels[std::get<std::string>(p.at("a"))];
    sum += Number(p, "y");
  }
  EXPECT_EQ(labels.size(), 2u);
  EXPECT_NEAR(labels["v"], 1000, 120);  // More than five deviations.
  EXPECT_NEAR(sum / 2000.0, 0.5, 0.04);
}

TEST(Lipo, WithoutBoundsIsRandomSearch) {
  const study::SearchSpace space = Space({Float("x", 1e-3, 1, study::Scale::kLog), Int("n", 1, 9), Bool("b")});
  const study::Encoding encoding(space);
  const LipschitzBounds none(Eigen::MatrixXd(0, encoding.model_dim()), Eigen::VectorXd(0), 1.0);
  for (uint64_t j = 0; j < 50; ++j) {
    EXPECT_EQ(LipoPoint(encoding, none, 0.0, 7, j, base::StopToken()).value(), ExplorationPoint(encoding, 7, j));
  }
  // Equal results give no slope, hence no bound.
  BoOptions options = Cheap(BoPreset::kLbo);
  options.exploration = BoExploration::kLipo;
  MemoryStudy study(BoSpec(space, 7, options));
  uint64_t explored = 0;
  for (int i = 0; i < 24; ++i) {
    const Suggestion s = study.Ask();
    if (s.origin == "explore") {
      EXPECT_EQ(s.parameters, RandomPoint(study.spec(), explored++));
    }
    study.Complete(study.newest(), 5.0);
  }
  EXPECT_EQ(explored, 6u);
}

TEST(Lipo, DrawsWhereARecordIsPossible) {
  // Loss |x - 0.3| has slope 1: with that bound known, explorations come ever nearer.
  BoOptions options = Cheap(BoPreset::kHbo);
  options.exploration = BoExploration::kLipo;
  options.explore_every = 1;
  options.growth = study::BoGrowth::kKnown;
  options.lipschitz_constant = 1.0;
  MemoryStudy study(BoSpec(Space({Float("x", 0, 1)}), 2, options));
  double best = INFINITY;
  std::vector<std::pair<double, double>> results;
  study.Run(16, [&](const Parameters& p) {
    const double x = Number(p, "x"), loss = std::abs(x - 0.3);
    if (study.history().trials().size() > 4) {
      double lower = -INFINITY;
      for (const auto& [at, value] : results) lower = std::max(lower, value - std::abs(x - at));
      EXPECT_LE(lower, best + 2e-3);  // Where it could not be found in 3000 draws, the next best.
    }
    results.emplace_back(x, loss);
    best = std::min(best, loss);
    return loss;
  });
  EXPECT_LT(best, 0.01);
}

}  // namespace
}  // namespace luthier::search
