#include "lib/simulate/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lib/catalogue/test_functions.h"
#include "lib/search/quasi_random/random_designer.h"
#include "tests/lib/study/builders.h"

namespace luthier::simulate {
namespace {

using namespace study;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Problem Bowl() {
  Problem problem;
  problem.name = "bowl";
  problem.space = Space({Float("x", -1, 1), Float("y", -1, 1)});
  problem.optimum = 3.0;
  problem.evaluate = [](const Parameters& p) {
    const double x = std::get<double>(p.at("x")), y = std::get<double>(p.at("y"));
    return 3.0 + (x - 0.3) * (x - 0.3) + (y + 0.2) * (y + 0.2);
  };
  return problem;
}

SimulateOptions Options(AlgorithmSpec algorithm, int64_t evaluations, int64_t parallel = 1) {
  SimulateOptions options;
  options.algorithm = algorithm;
  options.problem = Bowl();
  options.evaluations = evaluations;
  options.parallel = parallel;
  return options;
}

// Every reading is a millisecond later than the one before: each suggestion takes one.
std::vector<Row> Rows(const SimulateOptions& options) {
  std::vector<Row> rows;
  absl::Duration now;
  const auto clock = [&] { return now += absl::Milliseconds(1); };
  const absl::Status status = Simulate(options, clock, [&](const Row& row) {
    rows.push_back(row);
    return true;
  });
  EXPECT_TRUE(status.ok()) << status;
  return rows;
}

std::string Text(const std::vector<Row>& rows) {
  std::string text;
  for (const Row& row : rows) text += CsvLine(row) + "\n";
  return text;
}

TEST(SimulateTest, OneWorkerEvaluatesWhatTheAlgorithmSuggestsInTurn) {
  const SimulateOptions options = Options(RandomOptions(), 20);
  const std::vector<Row> rows = Rows(options);
  ASSERT_EQ(rows.size(), 20u);
  const Encoding encoding(options.problem.space);
  double best = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < rows.size(); ++i) {
    const double expected = options.problem.evaluate(search::ExplorationPoint(encoding, 0, i));
    best = std::min(best, expected);
    EXPECT_EQ(rows[i].algorithm, "random");
    EXPECT_EQ(rows[i].function, "bowl");
    EXPECT_EQ(rows[i].seed, 0u);
    EXPECT_EQ(rows[i].evaluation, static_cast<int64_t>(i + 1));
    EXPECT_EQ(rows[i].value, expected);
    EXPECT_EQ(rows[i].best, best);
    EXPECT_EQ(rows[i].regret, best - 3.0);
    EXPECT_EQ(rows[i].suggest_ms, 1.0);
  }
}

TEST(SimulateTest, MaximizationKeepsTheLargest) {
  SimulateOptions options = Options(RandomOptions(), 20);
  options.problem.goal = Goal::kMaximize;
  options.problem.optimum.reset();
  double best = -std::numeric_limits<double>::infinity();
  for (const Row& row : Rows(options)) {
    best = std::max(best, row.value);
    EXPECT_EQ(row.best, best);
    EXPECT_FALSE(row.regret.has_value());
  }
}

TEST(SimulateTest, NoiseIsSeenByTheAlgorithmAndTheRegretIsTheFunctionsOwn) {
  SimulateOptions options = Options(RandomOptions(), 400);
  const std::vector<Row> exact = Rows(options);
  options.noise = 0.5;
  const std::vector<Row> noisy = Rows(options);
  ASSERT_EQ(noisy.size(), exact.size());
  double best_reported = std::numeric_limits<double>::infinity(), best = 0.0, sum = 0.0, squares = 0.0;
  bool misled = false;
  for (size_t i = 0; i < noisy.size(); ++i) {
    const double noise = noisy[i].value - exact[i].value;  // Random search asks for the same settings.
    sum += noise;
    squares += noise * noise;
    if (noisy[i].value < best_reported) {
      best_reported = noisy[i].value;
      best = exact[i].value;
    }
    EXPECT_EQ(noisy[i].best, best);
    EXPECT_EQ(noisy[i].regret, best - 3.0);
    misled = misled || noisy[i].best > exact[i].best;
  }
  EXPECT_TRUE(misled);
  EXPECT_NEAR(sum / 400, 0.0, 4 * 0.5 / 20);
  EXPECT_NEAR(std::sqrt(squares / 400), 0.5, 4 * 0.5 / std::sqrt(800.0));
  options.first_seed = 1;
  EXPECT_NE(Rows(options)[0].value -
                options.problem.evaluate(search::ExplorationPoint(Encoding(options.problem.space), 1, 0)),
            noisy[0].value - exact[0].value);
}

TEST(SimulateTest, SeedsFollowOneAnother) {
  SimulateOptions options = Options(RandomOptions(), 3);
  options.seeds = 2;
  options.first_seed = 7;
  std::vector<uint64_t> seeds;
  for (const Row& row : Rows(options)) seeds.push_back(row.seed);
  EXPECT_THAT(seeds, ElementsAre(7, 7, 7, 8, 8, 8));
}

TEST(SimulateTest, IsDeterministic) {
  for (const int64_t parallel : {1, 5}) {
    EXPECT_EQ(Text(Rows(Options(BoOptions(), 15, parallel))), Text(Rows(Options(BoOptions(), 15, parallel))));
  }
}

// Random search does not look at results: with more workers the same settings finish in another order.
TEST(SimulateTest, ParallelWorkersFinishInTheOrderOfTheirDurations) {
  const auto values = [](int64_t parallel) {
    std::vector<double> v;
    for (const Row& row : Rows(Options(RandomOptions(), 40, parallel))) v.push_back(row.value);
    return v;
  };
  std::vector<double> one = values(1), eight = values(8);
  EXPECT_NE(one, eight);
  std::sort(one.begin(), one.end());
  std::sort(eight.begin(), eight.end());
  EXPECT_EQ(one, eight);
}

TEST(SimulateTest, EveryPointOfAGridComesOnceInParallelToo) {
  const auto values = [](int64_t parallel) {
    std::multiset<double> v;
    for (const Row& row : Rows(Options(GridOptions{3, true}, 9, parallel))) v.insert(row.value);
    return v;
  };
  EXPECT_EQ(values(1), values(4));
}

// An algorithm that did not see them would suggest the same setting to every free worker.
TEST(SimulateTest, TheAlgorithmSeesOpenTrials) {
  BoOptions bo;
  bo.noisy = false;
  SimulateOptions options = Options(bo, 20, 8);
  std::set<std::string> settings;
  options.problem.evaluate = [&](const Parameters& p) {
    settings.insert(FormatParameters(p));
    return Bowl().evaluate(p);
  };
  Rows(options);
  EXPECT_EQ(settings.size(), 20u);
}

TEST(SimulateTest, MoreWorkersThanEvaluationsAreFine) {
  EXPECT_EQ(Rows(Options(RandomOptions(), 3, 100)).size(), 3u);
}

TEST(SimulateTest, AnExhaustedSpaceEndsTheRun) {
  SimulateOptions options = Options(GridOptions{3, true}, 100, 4);
  options.seeds = 2;
  EXPECT_EQ(Rows(options).size(), 18u);
}

TEST(SimulateTest, SettingsWithoutAValueCountAsFailed) {
  SimulateOptions options = Options(BoOptions(), 12);
  int calls = 0;
  options.problem.evaluate = [&calls](const Parameters& p) {
    return ++calls % 3 == 1 ? std::nan("") : std::get<double>(p.at("x"));
  };
  const std::vector<Row> rows = Rows(options);
  ASSERT_EQ(rows.size(), 12u);
  EXPECT_TRUE(std::isnan(rows[0].value));
  EXPECT_TRUE(std::isnan(rows[0].best));
  EXPECT_FALSE(rows[0].regret.has_value());
  EXPECT_FALSE(std::isnan(rows[1].best));
  EXPECT_TRUE(std::isnan(rows[3].value));
  EXPECT_FALSE(std::isnan(rows[3].best));
}

TEST(SimulateTest, GradientsReachTheAlgorithmInFullOrAlongItsDirection) {
  // A quadratic in two parameters is known after few gradients; values alone need more.
  auto best = [](bool gradients, BoGradients kind) {
    BoOptions fobo = BoDefaults(BoPreset::kFobo);
    fobo.gradients = kind;
    SimulateOptions options = Options(fobo, 7);
    if (gradients) {
      options.problem.gradient = [](const Parameters& p) {
        return std::vector<double>{2.0 * (std::get<double>(p.at("x")) - 0.3),
                                   2.0 * (std::get<double>(p.at("y")) + 0.2)};
      };
    }
    return Rows(options).back().regret.value();
  };
  const double without = best(false, BoGradients::kFull);
  EXPECT_LT(best(true, BoGradients::kFull), 1e-3 * without);
  EXPECT_LT(best(true, BoGradients::kDirectional), without);
  EXPECT_EQ(best(false, BoGradients::kDirectional), without);
}

TEST(SimulateTest, TheReaderOfRowsMayStop) {
  int rows = 0;
  SimulateOptions options = Options(RandomOptions(), 50);
  options.seeds = 10;
  EXPECT_TRUE(Simulate(options, ThreadCpuTime, [&](const Row&) { return ++rows < 5; }).ok());
  EXPECT_EQ(rows, 5);
}

TEST(SimulateTest, BadOptionsAreRefusedNamingThem) {
  const auto error = [](const SimulateOptions& options) {
    return std::string(Simulate(options, ThreadCpuTime, [](const Row&) { return true; }).message());
  };
  SimulateOptions options = Options(RandomOptions(), 0, -1);
  options.seeds = 0;
  options.noise = -1.0;
  options.problem.evaluate = nullptr;
  for (const char* field : {"noise: ", "evaluations: ", "parallel: ", "seeds: ", "problem.evaluate: "}) {
    EXPECT_THAT(error(options), HasSubstr(field));
  }
  for (const double noise : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    options = Options(RandomOptions(), 10);
    options.noise = noise;
    EXPECT_THAT(error(options), HasSubstr("noise: "));
  }
  EXPECT_THAT(error(Options(RandomOptions(), 1'000'001)), HasSubstr("evaluations: "));
  EXPECT_THAT(error(Options(RandomOptions(), 10, 10'001)), HasSubstr("parallel: "));
  EXPECT_THAT(error(Options(GridOptions{1, true}, 10)), HasSubstr("algorithm.grid.levels: "));
  options = Options(RandomOptions(), 10);
  options.problem.space = SearchSpace();
  EXPECT_THAT(error(options), HasSubstr("space: "));
}

TEST(TestProblemTest, FunctionsHaveTheirBoxAndTheirOptimum) {
  for (const char* name : {"branin", "function:branin"}) {
    const absl::StatusOr<Problem> branin = TestProblem(name);
    ASSERT_TRUE(branin.ok()) << branin.status();
    EXPECT_EQ(branin->name, "branin");
    EXPECT_EQ(branin->goal, Goal::kMinimize);
    ASSERT_EQ(branin->space.size(), 2);
    EXPECT_EQ(branin->space.parameters()[0].domain, ParameterDomain(FloatRange{-5, 10, Scale::kLinear, std::nullopt}));
    EXPECT_EQ(branin->space.parameters()[1].domain, ParameterDomain(FloatRange{0, 15, Scale::kLinear, std::nullopt}));
    EXPECT_NEAR(branin->evaluate({{"x1", M_PI}, {"x2", 2.275}}), 0.39788736, 1e-7);
    EXPECT_NEAR(*branin->optimum, 0.39788736, 1e-7);
  }
  EXPECT_EQ(TestProblem("hartmann6")->space.size(), 6);
}

TEST(TestProblemTest, ShiftedBoxesAreThoseOfTheSeedAndHaveNamesOfTheirOwn) {
  const absl::StatusOr<Problem> problem = TestProblem("branin", 3);
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(problem->name, "branin+shift");
  EXPECT_EQ(problem->optimum, TestProblem("branin")->optimum);
  const catalogue::TestFunction& branin = **catalogue::FindTestFunction("branin");
  const auto [lower, upper] = catalogue::ShiftedBounds(branin, 3);
  for (int i = 0; i < 2; ++i) {
    const FloatRange& range = std::get<FloatRange>(problem->space.parameters()[static_cast<size_t>(i)].domain);
    EXPECT_EQ(range.min, lower[i]);
    EXPECT_EQ(range.max, upper[i]);
    EXPECT_NE(range.min, branin.lower[i]);
  }
  const Eigen::Vector2d inside = branin.minimizers[0];
  EXPECT_NEAR(problem->evaluate({{"x1", inside[0]}, {"x2", inside[1]}}), *problem->optimum, 1e-6);
}

TEST(TestProblemTest, UnknownNamesGetAHint) {
  const absl::Status status = TestProblem("brannin").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("branin"));
}

// Random search on Branin after 100 evaluations: the median error of many runs is 0.43 within a quarter.
TEST(TestProblemTest, RandomSearchIsAsGoodAsPublished) {
  SimulateOptions options = Options(RandomOptions(), 100);
  options.problem = TestProblem("branin").value();
  options.seeds = 500;
  std::vector<double> errors;
  for (const Row& row : Rows(options)) {
    if (row.evaluation == 100) errors.push_back(*row.regret);
  }
  std::nth_element(errors.begin(), errors.begin() + 250, errors.end());
  EXPECT_NEAR(errors[250], 0.43, 0.25 * 0.43);
}

TEST(CsvTest, IsQuotedWhereItMustBeAndEmptyWhereUnknown) {
  EXPECT_EQ(CsvHeader(), "algorithm,function,seed,evaluation,value,best,regret,suggest_ms");
  Row row{"bo", "branin", 3, 7, 0.5, 0.25, 0.125, 1.23456};
  EXPECT_EQ(CsvLine(row), "bo,branin,3,7,0.5,0.25,0.125,1.235");
  row.algorithm = R"({"bo": {"noisy": true, "initial_points": 3}})";
  row.value = std::nan("");
  row.regret.reset();
  EXPECT_EQ(CsvLine(row), R"("{""bo"": {""noisy"": true, ""initial_points"": 3}}",branin,3,7,,0.25,,1.235)");
}

TEST(ThreadCpuTimeTest, GrowsWithWork) {
  const absl::Duration start = ThreadCpuTime();
  volatile double x = 1.0;
  for (int i = 0; i < 3'000'000; ++i) x = x * 1.0000001;
  EXPECT_GT(ThreadCpuTime(), start);
}

}  // namespace
}  // namespace luthier::simulate
