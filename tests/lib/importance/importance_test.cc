#include "lib/importance/importance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "lib/base/random.h"
#include "lib/importance/forest.h"
#include "lib/study/encoding.h"
#include "tests/lib/study/builders.h"

namespace luthier::importance {
namespace {

using namespace study;
using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

double Number(const Parameters& p, const std::string& name) {
  return std::get<double>(p.at(name));
}

std::vector<Observation> Sample(const SearchSpace& space, int n, const std::function<double(const Parameters&)>& f,
                                uint64_t seed = 1) {
  const Encoding encoding(space);
  base::RandomStream random(seed, "test/importance");
  std::vector<Observation> observations;
  for (int i = 0; i < n; ++i) {
    const Parameters p = encoding.Sample(random);
    observations.push_back({p, f(p)});
  }
  return observations;
}

Importance Shares(const SearchSpace& space, const std::vector<Observation>& observations,
                  ImportanceOptions options = {}) {
  const absl::StatusOr<Importance> result = Compute(space, Goal::kMinimize, observations, options);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *result : Importance();
}

std::vector<std::string> Names(const Importance& importance) {
  std::vector<std::string> names;
  for (const ParameterShare& p : importance.parameters) names.push_back(p.name);
  return names;
}

double ShareOf(const Importance& importance, const std::string& name) {
  for (const ParameterShare& p : importance.parameters) {
    if (p.name == name) return p.share.share;
  }
  ADD_FAILURE() << name;
  return -1.0;
}

SearchSpace Cube(int d) {
  std::vector<ParameterSpec> parameters;
  for (int i = 0; i < d; ++i) parameters.push_back(Float(absl::StrCat("x", i), 0, 1));
  return Space(parameters);
}

// --- Trees, against sums over all cells ---

struct Problem {
  std::vector<CellColumn> columns;
  std::vector<uint8_t> cells;  // Row after row.
  std::vector<double> y;
  std::vector<int> rows;

  std::vector<uint8_t> ByColumn() const {
    std::vector<uint8_t> result;
    for (size_t j = 0; j < columns.size(); ++j) {
      for (size_t i = 0; i < y.size(); ++i) result.push_back(cells[i * columns.size() + j]);
    }
    return result;
  }
};

Problem SmallProblem() {
  Problem problem;
  problem.columns = {{{0.1, 0.2, 0.3, 0.4}, true}, {{0.25, 0.25, 0.5}, false}, {{0.5, 0.5}, true}};
  base::RandomStream random(5, "test/problem");
  for (int i = 0; i < 60; ++i) {
    const uint8_t a = static_cast<uint8_t>(random.UniformInt(4)), b = static_cast<uint8_t>(random.UniformInt(3)),
                  c = static_cast<uint8_t>(random.UniformInt(2));
    problem.cells.insert(problem.cells.end(), {a, b, c});
    problem.y.push_back(a * a + (b == 1 ? 3.0 : 0.0) * c + 0.1 * random.Normal());
    problem.rows.push_back(i);
  }
  return problem;
}

TEST(TreeTest, LeavesPartTheCubeAndMarginalsAreSumsOverIt) {
  const Problem problem = SmallProblem();
  base::RandomStream random(6, "test/tree");
  const std::vector<uint8_t> cells = problem.ByColumn();
  const Tree tree(problem.columns, cells, problem.y, problem.rows, 2, 3, random);
  EXPECT_GT(tree.leaves().size(), 6u);
  double total = 0.0;
  for (const Leaf& leaf : tree.leaves()) total += leaf.volume;
  EXPECT_NEAR(total, 1.0, 1e-12);
  VectorXd one = VectorXd::Zero(4);
  MatrixXd two = MatrixXd::Zero(4, 3);
  AddMarginal(tree, 0, &one);
  AddMarginal(tree, 0, 1, &two);
  for (uint8_t a = 0; a < 4; ++a) {
    double average = 0.0;
    for (uint8_t b = 0; b < 3; ++b) {
      double over_c = 0.0;
      for (uint8_t c = 0; c < 2; ++c) {
        const uint8_t at[] = {a, b, c};
        over_c += 0.5 * tree.Predict(at);
        int boxes = 0;
        for (const Leaf& leaf : tree.leaves()) {
          boxes += (leaf.box[0] >> a & 1) != 0 && (leaf.box[1] >> b & 1) != 0 && (leaf.box[2] >> c & 1) != 0;
        }
        EXPECT_EQ(boxes, 1);
      }
      EXPECT_NEAR(two(a, b), over_c, 1e-12);
      average += problem.columns[1].volume[b] * over_c;
    }
    EXPECT_NEAR(one(a), average, 1e-12);
  }
}

// With every row a leaf of its own, a tree reproduces what it was shown.
TEST(TreeTest, LearnsATableByHeart) {
  Problem problem;
  problem.columns = {{std::vector<double>(kMaxCells, 1.0 / kMaxCells), true}, {{0.2, 0.8}, false}};
  for (uint8_t a = 0; a < kMaxCells; ++a) {
    for (uint8_t b = 0; b < 2; ++b) {
      problem.rows.push_back(static_cast<int>(problem.y.size()));
      problem.cells.insert(problem.cells.end(), {a, b});
      problem.y.push_back(std::sin(a) + b);
    }
  }
  base::RandomStream random(7, "test/tree");
  const std::vector<uint8_t> cells = problem.ByColumn();
  const Tree tree(problem.columns, cells, problem.y, problem.rows, 1, 2, random);
  for (size_t i = 0; i < problem.y.size(); ++i) {
    EXPECT_NEAR(tree.Predict(&problem.cells[2 * i]), problem.y[i], 1e-12);
  }
}

// A row that is drawn three times is three rows. Whole numbers: their sums are exact in any order.
TEST(TreeTest, RepeatedRowsCountAsOften) {
  Problem drawn = SmallProblem();
  for (double& y : drawn.y) y = std::round(10.0 * y);
  Problem copied = drawn;
  base::RandomStream draws(8, "test/draws");
  drawn.rows.clear();
  for (size_t k = 0; k < 90; ++k) drawn.rows.push_back(static_cast<int>(draws.UniformInt(drawn.y.size())));
  copied.cells.clear();
  copied.y.clear();
  copied.rows.clear();
  for (const int row : drawn.rows) {
    const auto begin = drawn.cells.begin() + 3 * row;
    copied.cells.insert(copied.cells.end(), begin, begin + 3);
    copied.y.push_back(drawn.y[static_cast<size_t>(row)]);
    copied.rows.push_back(static_cast<int>(copied.rows.size()));
  }
  const std::vector<uint8_t> drawn_cells = drawn.ByColumn(), copied_cells = copied.ByColumn();
  base::RandomStream one(9, "test/tree"), other(9, "test/tree");
  const Tree a(drawn.columns, drawn_cells, drawn.y, drawn.rows, 3, 2, one);
  const Tree b(copied.columns, copied_cells, copied.y, copied.rows, 3, 2, other);
  EXPECT_EQ(a.leaves().size(), b.leaves().size());
  for (size_t i = 0; i < drawn.y.size(); ++i) {
    EXPECT_EQ(a.Predict(&drawn.cells[3 * i]), b.Predict(&drawn.cells[3 * i]));
  }
}

// --- Importances ---

TEST(ImportanceTest, RecoversAPlantedOrder) {
  const auto f = [](const Parameters& p) {
    return 8.0 * std::abs(Number(p, "x3") - 0.4) + 4.0 * Number(p, "x0") + 2.0 * Number(p, "x4");
  };
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const Importance importance = Shares(Cube(6), Sample(Cube(6), 200, f, seed));
    const std::vector<std::string> names = Names(importance);
    EXPECT_THAT((std::vector<std::string>{names[0], names[1], names[2]}), ElementsAre("x3", "x0", "x4")) << seed;
    EXPECT_LT(importance.parameters[3].share.share, 0.05);
    EXPECT_GT(importance.predicted, 0.7);
  }
}

// Ishigami's function, whose shares are known: 0.3139, 0.4424, 0, and 0.2437 for the pair (x0, x2).
TEST(ImportanceTest, SharesAreThoseOfAKnownDecomposition) {
  const auto f = [](const Parameters& p) {
    const auto x = [&](const char* name) { return (2.0 * Number(p, name) - 1.0) * M_PI; };
    return std::sin(x("x0")) + 7.0 * std::pow(std::sin(x("x1")), 2.0) +
           0.1 * std::pow(x("x2"), 4.0) * std::sin(x("x0"));
  };
  const Importance importance = Shares(Cube(3), Sample(Cube(3), 4000, f), {.pairs = true});
  EXPECT_NEAR(ShareOf(importance, "x0"), 0.3139, 0.04);
  EXPECT_NEAR(ShareOf(importance, "x1"), 0.4424, 0.04);
  EXPECT_LT(ShareOf(importance, "x2"), 0.01);
  ASSERT_EQ(importance.pairs.size(), 3u);
  EXPECT_EQ(importance.pairs[0].first, "x0");
  EXPECT_EQ(importance.pairs[0].second, "x2");
  EXPECT_NEAR(importance.pairs[0].share.share, 0.2437, 0.05);
  EXPECT_LT(importance.pairs[1].share.share, 0.02);
  for (const ParameterShare& p : importance.parameters) {
    EXPECT_LE(p.share.low, p.share.share);
    EXPECT_GE(p.share.high, p.share.share);
  }
}

TEST(ImportanceTest, EveryKindOfParameterCounts) {
  const SearchSpace space =
      Space({Float("lr", 1e-5, 1, Scale::kLog), Int("units", 1, 1024, 1, Scale::kLog), Int("wide", 0, 1'000'000),
             Categorical("kernel", Labels(5)), Bool("bias"), Ordinal("size", {"s", "m", "l"}), Float("fixed", 2, 2),
             Categorical("many", Labels(100))});
  const auto label = [](const Parameters& p, const char* name) { return std::get<std::string>(p.at(name)); };
  const std::vector<std::pair<std::string, std::function<double(const Parameters&)>>> cases = {
      {"lr", [](const Parameters& p) { return std::pow(std::log10(Number(p, "lr")) + 2.0, 2.0); }},
      {"units", [](const Parameters& p) { return -std::log(Number(p, "units")); }},
      {"wide", [](const Parameters& p) { return Number(p, "wide"); }},
      {"kernel", [&](const Parameters& p) { return label(p, "kernel") == "v2" ? 0.0 : 1.0; }},
      {"bias", [](const Parameters& p) { return std::get<bool>(p.at("bias")) ? 1.0 : 0.0; }},
      {"size", [&](const Parameters& p) { return label(p, "size") == "m" ? 0.0 : 1.0; }},
      {"many", [&](const Parameters& p) { return label(p, "many") < "v5" ? 0.0 : 1.0; }},
  };
  for (const auto& [name, f] : cases) {
    const Importance importance = Shares(space, Sample(space, 300, f));
    EXPECT_EQ(importance.parameters.size(), 7u) << "constants are left out";
    EXPECT_EQ(importance.parameters[0].name, name);
    EXPECT_GT(importance.parameters[0].share.share, 0.5) << name;
    EXPECT_LT(importance.parameters[1].share.share, 0.1) << name;
  }
}

// momentum exists in half of the trials and makes half of the difference there: by hand, with u uniform,
// f = [sgd] m: V = 1/2 E m^2 - (1/4)^2 = 1/6 - 1/16 = 5/48, V_optimizer = 1/16, V_momentum = (1/4) Var m = 1/48.
TEST(ImportanceTest, ConditionalParametersCountWhereTheyExist) {
  const SearchSpace space =
      Space({Categorical("optimizer", {"sgd", "adam"}), When("optimizer", {"sgd"}, Float("momentum", 0, 1)),
             When("optimizer", {"adam"}, Float("beta", 0, 1)), Float("dummy", 0, 1)});
  const auto f = [](const Parameters& p) { return p.count("momentum") > 0 ? Number(p, "momentum") : 0.0; };
  const Importance importance = Shares(space, Sample(space, 3000, f), {.pairs = true});
  EXPECT_NEAR(ShareOf(importance, "optimizer"), 0.6, 0.03);
  EXPECT_NEAR(ShareOf(importance, "momentum"), 0.2, 0.03);
  EXPECT_LT(ShareOf(importance, "beta"), 0.01);
  EXPECT_LT(ShareOf(importance, "dummy"), 0.01);
  EXPECT_EQ(importance.pairs[0].first, "optimizer");
  EXPECT_EQ(importance.pairs[0].second, "momentum");
  EXPECT_NEAR(importance.pairs[0].share.share, 0.2, 0.03);
}

// x0 decides whether a setting is bad at all, x1 which of the good ones is best.
TEST(ImportanceTest, AQuantileAsksWhatMattersAmongGoodSettings) {
  const auto f = [](const Parameters& p) { return Number(p, "x0") < 0.5 ? Number(p, "x1") : 100.0 + Number(p, "x2"); };
  const std::vector<Observation> observations = Sample(Cube(3), 600, f);
  EXPECT_GT(ShareOf(Shares(Cube(3), observations), "x0"), 0.95);
  EXPECT_LT(ShareOf(Shares(Cube(3), observations), "x1"), 0.02);
  const Importance good = Shares(Cube(3), observations, {.quantile = 0.25});
  EXPECT_GT(ShareOf(good, "x1"), 0.15);
  EXPECT_LT(ShareOf(good, "x2"), 0.02);
}

TEST(ImportanceTest, TheGoalDecidesWhichEndIsClipped) {
  const auto f = [](const Parameters& p) { return Number(p, "x0") < 0.5 ? Number(p, "x1") : 100.0 + Number(p, "x2"); };
  const std::vector<Observation> observations = Sample(Cube(3), 600, f);
  const Importance best = Compute(Cube(3), Goal::kMaximize, observations, {.quantile = 0.25}).value();
  EXPECT_GT(ShareOf(best, "x2"), 0.15);
  EXPECT_LT(ShareOf(best, "x1"), 0.02);
}

TEST(ImportanceTest, NoiseShowsInWhatIsPredicted) {
  base::RandomStream random(8, "test/noise");
  const Importance importance =
      Shares(Cube(4), Sample(Cube(4), 300, [&](const Parameters&) { return random.Normal(); }));
  EXPECT_LT(importance.predicted, 0.1);
}

TEST(ImportanceTest, HugeAndTinyValuesAreOrdinary) {
  const auto f = [](const Parameters& p) { return Number(p, "x1") - 0.5; };
  const std::vector<Observation> plain = Sample(Cube(3), 100, f);
  const Importance expected = Shares(Cube(3), plain);
  for (const double factor : {3.5e307, 1e-300}) {
    std::vector<Observation> scaled = plain;
    for (Observation& o : scaled) o.value *= factor;
    EXPECT_NEAR(ShareOf(Shares(Cube(3), scaled), "x1"), ShareOf(expected, "x1"), 0.02) << factor;
  }
}

TEST(ImportanceTest, TheSameTrialsGiveTheSameAnswer) {
  const auto f = [](const Parameters& p) { return Number(p, "x1"); };
  const std::vector<Observation> observations = Sample(Cube(3), 60, f);
  const Importance a = Shares(Cube(3), observations, {.pairs = true}),
                   b = Shares(Cube(3), observations, {.pairs = true});
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(a.parameters[i].share.share, b.parameters[i].share.share);
    EXPECT_EQ(a.pairs[i].share.high, b.pairs[i].share.high);
  }
}

TEST(ImportanceTest, ManyParametersArePairedByTheMostImportant) {
  const auto f = [](const Parameters& p) { return Number(p, "x29") * Number(p, "x7"); };
  const Importance importance = Shares(Cube(30), Sample(Cube(30), 150, f), {.pairs = true});
  EXPECT_EQ(importance.parameters.size(), 30u);
  EXPECT_EQ(importance.pairs.size(), 190u);
  EXPECT_EQ(importance.pairs[0].first, "x7");
  EXPECT_EQ(importance.pairs[0].second, "x29");
}

TEST(ImportanceTest, SaysWhatIsMissing) {
  const auto error = [](const SearchSpace& space, const std::vector<Observation>& observations, double quantile = 1.0) {
    return std::string(Compute(space, Goal::kMinimize, observations, {.quantile = quantile}).status().message());
  };
  const auto x0 = [](const Parameters& p) { return Number(p, "x0"); };
  EXPECT_THAT(error(Cube(2), {}), HasSubstr("at least 10 complete trials with a value; there are 0"));
  EXPECT_THAT(error(Cube(2), Sample(Cube(2), 9, x0)), HasSubstr("there are 9"));
  EXPECT_EQ(error(Cube(2), Sample(Cube(2), 10, x0)), "");
  EXPECT_THAT(error(Cube(2), Sample(Cube(2), 30, [](const Parameters&) { return 1.5; })),
              HasSubstr("all 30 values are equal"));
  const auto floor = [](const Parameters& p) { return std::max(0.5, Number(p, "x0")); };
  EXPECT_THAT(error(Cube(2), Sample(Cube(2), 30, floor), 0.1), HasSubstr("up to the quantile 0.1 are equal"));
  const SearchSpace constant = Space({Float("x0", 1, 1)});
  std::vector<Observation> constants;
  for (int i = 0; i < 20; ++i) constants.push_back({{{"x0", 1.0}}, static_cast<double>(i)});
  EXPECT_THAT(error(constant, constants), HasSubstr("no parameter of this study has more than one value"));
  for (const double q : {0.0, -1.0, 1.5, std::nan("")}) {
    EXPECT_THAT(error(Cube(2), Sample(Cube(2), 20, x0), q), HasSubstr("quantile: "));
  }
}

}  // namespace
}  // namespace luthier::importance
