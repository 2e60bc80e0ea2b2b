#include "lib/search/nsga2/population.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "lib/base/random.h"
#include "tests/lib/pareto/pareto_testing.h"

namespace luthier::search {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

Nsga2Member Member(int trial, const VectorXd& scores, double violation = 0.0) {
  Nsga2Member member;
  member.trial = trial;
  member.scores = scores;
  member.violation = violation;
  return member;
}

std::vector<int> TrialsOf(const Nsga2Population& population) {
  std::vector<int> trials;
  for (const Nsga2Member& member : population.members()) trials.push_back(member.trial);
  return trials;
}

bool IsWorse(const VectorXd& a, const VectorXd& b) {
  return (a.array() <= b.array()).all() && (a.array() < b.array()).any();
}

// Layers by peeling: those that no other left dominates, again and again.
std::vector<int> PeeledLayers(const std::vector<Nsga2Member>& members) {
  std::vector<int> layers(members.size(), -1);
  for (int layer = 0; std::count(layers.begin(), layers.end(), -1) > 0; ++layer) {
    std::vector<size_t> best;
    for (size_t i = 0; i < members.size(); ++i) {
      bool beaten = layers[i] >= 0;
      for (size_t k = 0; k < members.size() && !beaten; ++k) {
        beaten = layers[k] < 0 && IsWorse(members[i].scores, members[k].scores);
      }
      if (!beaten) best.push_back(i);
    }
    for (const size_t i : best) layers[i] = layer;
  }
  return layers;
}

// Room in a layer by the definition; scores of a column must be distinct.
double RoomOf(const std::vector<Nsga2Member>& layer, size_t i) {
  double room = 0.0;
  for (Index j = 0; j < layer.front().scores.size(); ++j) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    double above = kInfinity, below = -kInfinity, least = kInfinity, most = -kInfinity;
    for (const Nsga2Member& other : layer) {
      const double x = other.scores(j);
      least = std::min(least, x);
      most = std::max(most, x);
      if (x > layer[i].scores(j)) above = std::min(above, x);
      if (x < layer[i].scores(j)) below = std::max(below, x);
    }
    room += (above - below) / (most - least);
  }
  return room;
}

// One in, one out: the one that goes is the most crowded of the last layer.
TEST(Nsga2Population, TheMostCrowdedOfTheLastLayerGoes) {
  constexpr int kSize = 12;
  for (const int objectives : {1, 2, 3}) {
    base::RandomStream random(static_cast<uint64_t>(objectives), "test/population");
    Nsga2Population population(objectives, kSize);
    std::vector<Nsga2Member> oracle;
    for (int trial = 0; trial < 300; ++trial) {
      const VectorXd scores = pareto::RandomPoints(1, objectives, 0, random).row(0).transpose();
      ASSERT_TRUE(population.Add(Member(trial, scores), base::StopToken()).ok());
      oracle.push_back(Member(trial, scores));
      if (oracle.size() > kSize) {
        const std::vector<int> layers = PeeledLayers(oracle);
        const int last = *std::max_element(layers.begin(), layers.end());
        std::vector<Nsga2Member> of_last;
        for (size_t i = 0; i < oracle.size(); ++i) {
          if (layers[i] == last) of_last.push_back(oracle[i]);
        }
        size_t goes = 0;
        for (size_t i = 0; i < of_last.size(); ++i) {
          if (RoomOf(of_last, i) < RoomOf(of_last, goes)) goes = i;
        }
        const int number = of_last[goes].trial;
        std::erase_if(oracle, [&](const Nsga2Member& member) { return member.trial == number; });
      }
      std::vector<int> expected;
      for (const Nsga2Member& member : oracle) expected.push_back(member.trial);
      ASSERT_EQ(TrialsOf(population), expected) << objectives << " objectives, trial " << trial;
    }
    const std::vector<Nsga2Member> ranked = population.Ranked(base::StopToken()).value();
    const std::vector<int> layers = PeeledLayers(ranked);
    for (size_t i = 0; i < ranked.size(); ++i) EXPECT_EQ(ranked[i].layer, layers[i]);
  }
}

TEST(Nsga2Population, WhatKeepsTheBoundsSurvivesFirst) {
  Nsga2Population population(2, 4);
  const auto at = [](double x, double y) { return (VectorXd(2) << x, y).finished(); };
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(population.Add(Member(i, at(9, 9), 6.0 - i), base::StopToken()).ok());
  EXPECT_EQ(TrialsOf(population), (std::vector{2, 3, 4, 5})) << "the least violations";
  ASSERT_TRUE(population.Add(Member(6, at(0, 0)), base::StopToken()).ok());
  ASSERT_TRUE(population.Add(Member(7, at(-1, -1)), base::StopToken()).ok());
  EXPECT_EQ(TrialsOf(population), (std::vector{4, 5, 6, 7}));
  ASSERT_TRUE(population.Add(Member(8, at(9, 9), 1.0), base::StopToken()).ok());
  EXPECT_EQ(TrialsOf(population), (std::vector{5, 6, 7, 8})) << "of equal violations the newer ones stay";
  const std::vector<Nsga2Member> ranked = population.Ranked(base::StopToken()).value();
  EXPECT_TRUE(Beats(ranked[1], ranked[2]));
  EXPECT_TRUE(Beats(ranked[2], ranked[0]));
  EXPECT_FALSE(Beats(ranked[0], ranked[3]) || Beats(ranked[3], ranked[0]));
  population.SetViolations({0.0, 0.0, 1.0, 2.0});
  EXPECT_EQ(population.members()[2].violation, 1.0);
}

// Points on the lines themselves, beside many near one of them: a member for each line survives.
TEST(Nsga2Population, EveryReferenceLineKeepsItsMember) {
  constexpr int kObjectives = 4, kLines = 35;
  base::RandomStream random(5, "test/population");
  Nsga2Population population(kObjectives, kLines);
  const MatrixXd lattice = [&] {
    MatrixXd rows(0, kObjectives);
    for (int a = 0; a <= 4; ++a) {
      for (int b = 0; a + b <= 4; ++b) {
        for (int c = 0; a + b + c <= 4; ++c) {
          rows.conservativeResize(rows.rows() + 1, Eigen::NoChange);
          rows.row(rows.rows() - 1) << a / 4.0, b / 4.0, c / 4.0, (4 - a - b - c) / 4.0;
        }
      }
    }
    return rows;
  }();
  ASSERT_EQ(lattice.rows(), kLines);
  std::set<int> expected;
  int trial = 0;
  for (Index k = 0; k < kLines; ++k) {
    expected.insert(trial);
    ASSERT_TRUE(population.Add(Member(trial++, -lattice.row(k).transpose()), base::StopToken()).ok());
  }
  // Each of these is on the front, too, and crowds around the middle of it.
  for (int i = 0; i < 200; ++i) {
    VectorXd near = VectorXd::Constant(kObjectives, 0.25);
    for (double& x : near) x += 0.01 * random.Normal();
    ASSERT_TRUE(population.Add(Member(trial++, -near / near.sum()), base::StopToken()).ok());
  }
  const std::vector<int> left = TrialsOf(population);
  EXPECT_EQ(std::set(left.begin(), left.end()), expected);
}

TEST(Nsga2Population, LargeOnesLoseSeveralAtOnceAndAStopChangesNothing) {
  constexpr int kSize = 120;  // Three at a time.
  base::RandomStream random(6, "test/population");
  Nsga2Population population(5, kSize), stopped(5, kSize);
  size_t most = 0;
  const base::StopSource source;
  source.RequestStop();
  for (int trial = 0; trial < 400; ++trial) {
    const Nsga2Member member = Member(trial, pareto::SpherePoints(1, 5, random).row(0).transpose());
    ASSERT_TRUE(population.Add(member, base::StopToken()).ok());
    if (!stopped.Add(member, source.token()).ok()) {
      ASSERT_TRUE(stopped.Add(member, base::StopToken()).ok());
    }
    ASSERT_EQ(TrialsOf(stopped), TrialsOf(population));
    most = std::max(most, population.members().size());
  }
  EXPECT_EQ(most, kSize + 2u);
}

}  // namespace
}  // namespace luthier::search
