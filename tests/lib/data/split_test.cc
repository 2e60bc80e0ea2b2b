#include "lib/data/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "lib/data/readers.h"
#include "lib/data/standardize.h"
#include "lib/data/synth.h"
#include "lib/notation/synth_specs.h"

namespace luthier::data {
namespace {

using ::testing::HasSubstr;

// Rows with these labels and nothing else.
Dataset Labelled(std::vector<int32_t> label, int classes) {
  Dataset dataset;
  dataset.x.rows = static_cast<int64_t>(label.size());
  dataset.label = std::move(label);
  for (int k = 0; k < classes; ++k) dataset.classes.push_back(std::to_string(k));
  return dataset;
}

std::string Why(std::vector<int32_t> label, int classes, const SplitOptions& options) {
  return std::string(MakeSplit(Labelled(std::move(label), classes), options).status().message());
}

std::vector<int32_t> RandomLabels(uint64_t seed, int rows, int classes) {
  base::RandomStream random(seed, "labels");
  std::vector<int32_t> label(rows);
  for (int i = 0; i < rows; ++i) {
    const double u = random.Uniform();
    label[i] = i < 2 * classes ? i / 2 : static_cast<int32_t>(u * u * classes);
  }
  return label;
}

void ExpectPartition(const Partition& p, size_t rows) {
  std::set<int32_t> all(p.train.begin(), p.train.end());
  all.insert(p.validation.begin(), p.validation.end());
  EXPECT_EQ(all.size(), rows);
  EXPECT_EQ(p.train.size() + p.validation.size(), rows);
  EXPECT_TRUE(std::is_sorted(p.train.begin(), p.train.end()));
  EXPECT_TRUE(std::is_sorted(p.validation.begin(), p.validation.end()));
  EXPECT_FALSE(p.validation.empty());
}

TEST(SplitTest, ValidationSplitIsStratifiedAndRepeatable) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const int classes = 2 + static_cast<int>(seed % 4);
    const std::vector<int32_t> label = RandomLabels(seed, 20 + static_cast<int>(seed) * 7, classes);
    for (const double fraction : {0.01, 0.25, 0.5, 0.99}) {
      const Partition p = SplitValidation(label, classes, fraction, seed).value();
      ExpectPartition(p, label.size());
      for (int k = 0; k < classes; ++k) {
        const auto is_k = [&](int32_t i) { return label[i] == k; };
        const double total = static_cast<double>(std::count(label.begin(), label.end(), k));
        const double held = static_cast<double>(std::count_if(p.validation.begin(), p.validation.end(), is_k));
        EXPECT_LT(held, total) << "seed " << seed;
        const bool capped = held + 1.0 == total;
        EXPECT_TRUE(capped || std::abs(held - fraction * total) <= 1.0) << "seed " << seed << " class " << k;
      }
      const Partition again = SplitValidation(label, classes, fraction, seed).value();
      EXPECT_EQ(again.validation, p.validation);
    }
  }
  const std::vector<int32_t> label = RandomLabels(1, 200, 2);
  EXPECT_EQ(SplitValidation(label, 2, 0.25, 1)->validation.size(), 50u);
  EXPECT_NE(SplitValidation(label, 2, 0.25, 1)->validation, SplitValidation(label, 2, 0.25, 2)->validation);
}

TEST(SplitTest, FoldsAreEvenAndCoverAllRowsOnce) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const int classes = 2 + static_cast<int>(seed % 3);
    const std::vector<int32_t> label = RandomLabels(seed, 15 + static_cast<int>(seed) * 3, classes);
    for (const int folds : {2, 5, 10}) {
      const std::vector<Partition> parts = SplitFolds(label, classes, folds, seed).value();
      ASSERT_EQ(parts.size(), static_cast<size_t>(folds));
      std::set<int32_t> held;
      for (const Partition& p : parts) {
        ExpectPartition(p, label.size());
        held.insert(p.validation.begin(), p.validation.end());
        const double even = static_cast<double>(label.size()) / folds;
        EXPECT_LT(std::abs(static_cast<double>(p.validation.size()) - even), 1.0);
        std::set<int32_t> trained;
        for (const int32_t i : p.train) trained.insert(label[i]);
        EXPECT_EQ(trained.size(), static_cast<size_t>(classes)) << "seed " << seed;
      }
      EXPECT_EQ(held.size(), label.size());
    }
  }
}

TEST(SplitTest, TheThirdSetIsApartFromAllOthers) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const int classes = 2 + static_cast<int>(seed % 3);
    const std::vector<int32_t> label = RandomLabels(seed, 90 + static_cast<int>(seed), classes);
    const auto rows = static_cast<double>(label.size());
    for (const int folds : {0, 3}) {
      const std::vector<Partition> parts =
          MakeSplit(Labelled(label, classes), {.validation = 1.0 / 3, .folds = folds, .third = 1.0 / 3, .seed = seed})
              .value();
      ASSERT_EQ(parts.size(), static_cast<size_t>(std::max(1, folds)));
      for (const Partition& p : parts) {
        EXPECT_EQ(p.third, parts[0].third);
        EXPECT_TRUE(std::is_sorted(p.third.begin(), p.third.end()));
        EXPECT_NEAR(static_cast<double>(p.third.size()), rows / 3, 1.0);
        const double held_out = folds == 0 ? rows / 3 : 2.0 * rows / 9;
        EXPECT_NEAR(static_cast<double>(p.validation.size()), held_out, 2.0);
        std::set<int32_t> all(p.train.begin(), p.train.end());
        all.insert(p.validation.begin(), p.validation.end());
        all.insert(p.third.begin(), p.third.end());
        EXPECT_EQ(all.size(), label.size());
        EXPECT_EQ(p.train.size() + p.validation.size() + p.third.size(), label.size());
      }
    }
    // Without a third set it is the other split, row for row.
    const Partition plain = MakeSplit(Labelled(label, classes), {.validation = 0.25, .seed = seed})->front();
    EXPECT_EQ(plain.validation, SplitValidation(label, classes, 0.25, seed)->validation);
    EXPECT_TRUE(plain.third.empty());
  }
  EXPECT_THAT(Why({0, 0, 1, 1}, 2, {.validation = 0.25, .third = 0.5}), HasSubstr("has only 1 row"));
}

// Regression rows with these keys.
Dataset Keyed(std::vector<int32_t> key) {
  Dataset dataset;
  dataset.x.rows = static_cast<int64_t>(key.size());
  dataset.target.assign(key.size(), 1.0);
  dataset.key = std::move(key);
  return dataset;
}

TEST(SplitTest, GroupsStayTogether) {
  base::RandomStream random(1, "groups");
  for (uint64_t seed = 0; seed < 30; ++seed) {
    std::vector<int32_t> key(100 + seed);
    for (int32_t& k : key) k = static_cast<int32_t>(random.UniformInt(12));
    const Dataset dataset = Keyed(key);
    for (const int folds : {0, 4}) {
      const double third = seed % 2 == 0 ? 0.0 : 0.2;
      const std::vector<Partition> parts =
          MakeSplit(dataset, {.validation = 0.3, .folds = folds, .third = third, .seed = seed, .key = KeyUse::kGroup})
              .value();
      std::set<int32_t> held;
      for (const Partition& p : parts) {
        std::map<int32_t, std::set<int>> sides;
        for (const int32_t row : p.train) sides[key[static_cast<size_t>(row)]].insert(0);
        for (const int32_t row : p.validation) sides[key[static_cast<size_t>(row)]].insert(1);
        for (const int32_t row : p.third) sides[key[static_cast<size_t>(row)]].insert(2);
        for (const auto& [group, side] : sides) EXPECT_EQ(side.size(), 1u) << group;
        EXPECT_EQ(p.train.size() + p.validation.size() + p.third.size(), key.size());
        EXPECT_TRUE(std::is_sorted(p.train.begin(), p.train.end()));
        EXPECT_FALSE(p.train.empty());
        EXPECT_FALSE(p.validation.empty());
        held.insert(p.validation.begin(), p.validation.end());
        if (folds == 0) {
          EXPECT_NEAR(static_cast<double>(p.validation.size()) / static_cast<double>(key.size()), 0.3, 0.12);
        }
      }
      if (folds > 0) {
        EXPECT_EQ(held.size() + parts[0].third.size(), key.size());
      }
    }
  }
  EXPECT_THAT(std::string(MakeSplit(Keyed({0, 0, 0}), {.key = KeyUse::kGroup}).status().message()),
              HasSubstr("1 different groups, and the split needs 2"));
}

TEST(SplitTest, LaterRowsAreHeldOut) {
  // Times 0, 0, 1, 1, 2, 2, ... in a scrambled order of rows.
  std::vector<int32_t> key;
  for (int i = 0; i < 40; ++i) key.push_back((i * 7 % 40) / 2);
  const auto last = [&](const std::vector<int32_t>& rows) {
    int32_t most = -1;
    for (const int32_t row : rows) most = std::max(most, key[static_cast<size_t>(row)]);
    return most;
  };
  const auto first = [&](const std::vector<int32_t>& rows) {
    int32_t least = 1000;
    for (const int32_t row : rows) least = std::min(least, key[static_cast<size_t>(row)]);
    return least;
  };
  const Partition one = MakeSplit(Keyed(key), {.validation = 0.25, .third = 0.25, .key = KeyUse::kTime})->front();
  EXPECT_EQ(one.train.size(), 20u);
  EXPECT_EQ(one.validation.size(), 10u);
  EXPECT_LT(last(one.train), first(one.validation));
  EXPECT_LT(last(one.validation), first(one.third));
  const std::vector<Partition> folds = MakeSplit(Keyed(key), {.folds = 4, .key = KeyUse::kTime}).value();
  ASSERT_EQ(folds.size(), 4u);
  for (size_t f = 0; f < folds.size(); ++f) {
    EXPECT_EQ(folds[f].train.size(), 8 * (f + 1));
    EXPECT_EQ(folds[f].validation.size(), 8u);
    EXPECT_EQ(last(folds[f].train) + 1, first(folds[f].validation));
  }
  // A time of many rows is on one side.
  const Partition tied = MakeSplit(Keyed({0, 1, 1, 1, 1, 1, 1, 2}), {.validation = 0.5, .key = KeyUse::kTime})->front();
  EXPECT_EQ(tied.train.size() + tied.validation.size(), 8u);
  EXPECT_LT(tied.train.size(), 8u);
  EXPECT_THAT(std::string(MakeSplit(Keyed({1, 1, 2, 2}), {.folds = 2, .key = KeyUse::kTime}).status().message()),
              HasSubstr("2 different times, and the split needs 3"));
  for (int folds_of_many = 2; folds_of_many <= 10; ++folds_of_many) {
    std::vector<int32_t> uneven(200, 0);
    for (size_t i = 0; i < uneven.size(); ++i) uneven[i] = i < 150 ? 0 : static_cast<int32_t>(i - 149) / 4;
    const std::vector<Partition> parts =
        MakeSplit(Keyed(uneven), {.folds = folds_of_many, .key = KeyUse::kTime}).value();
    ASSERT_EQ(parts.size(), static_cast<size_t>(folds_of_many));
    for (const Partition& p : parts) EXPECT_FALSE(p.train.empty() || p.validation.empty());
  }
}

TEST(SplitTest, WithoutStrataEveryClassMustTrain) {
  const std::vector<int32_t> rare = {0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  int refused = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const absl::StatusOr<std::vector<Partition>> parts =
        MakeSplit(Labelled(rare, 2), {.validation = 0.5, .seed = seed, .stratify = false});
    if (parts.ok()) {
      const std::vector<int32_t>& train = parts->front().train;
      EXPECT_TRUE(std::find(train.begin(), train.end(), 9) != train.end());
      continue;
    }
    ++refused;
    EXPECT_THAT(std::string(parts.status().message()), HasSubstr("of the data has no row in the training part"));
  }
  EXPECT_GT(refused, 2);
  EXPECT_LT(refused, 18);
}

TEST(SplitTest, AppendedRowsAreHeldOut) {
  Dataset dataset = Labelled({0, 1, 0, 1, 0, 1, 1, 0}, 2);
  dataset.appended = 2;
  const Partition p = MakeSplit(dataset, {.validation = 0.9, .third = 0.3, .seed = 1})->front();
  EXPECT_EQ(p.validation, (std::vector<int32_t>{6, 7}));
  EXPECT_EQ(p.train.size() + p.third.size(), 6u);
}

TEST(SplitTest, ImpossibleSplitsAreErrors) {
  EXPECT_THAT(std::string(SplitValidation({0, 0, 1}, 2, 0.5, 0).status().message()), HasSubstr("only 1 row"));
  EXPECT_FALSE(SplitFolds({0, 0, 0, 1}, 2, 2, 0).ok());
  EXPECT_THAT(std::string(SplitFolds({0, 0, 1, 1}, 2, 5, 0).status().message()), HasSubstr("5 folds of 4 rows"));
  EXPECT_FALSE(SplitFolds({0, 0, 1, 1}, 2, 1, 0).ok());
  for (const double bad : {0.0, 1.0, -1.0, std::nan("")}) EXPECT_FALSE(SplitValidation({0, 0, 1, 1}, 2, bad, 0).ok());
}

TEST(StandardizeTest, UsesTrainingRowsOnlyAndCountsZeros) {
  // Columns: 0 1 3 | 5 5 5 | 0 0 4 over rows 0-2; row 3 is not training.
  SparseMatrix x;
  x.rows = 4;
  x.cols = 3;
  x.row_start = {0, 1, 3, 6, 9};
  x.column = {1, 0, 1, 0, 1, 2, 0, 1, 2};
  x.value = {5, 1, 5, 3, 5, 4, 1e9, -1e9, 1e9};
  const Standardization s = FitStandardization(x, {0, 1, 2}).value();
  EXPECT_DOUBLE_EQ(s.mean[0], 4.0 / 3.0);
  EXPECT_DOUBLE_EQ(s.deviation[0], std::sqrt(14.0 / 9.0));
  EXPECT_EQ(s.mean[1], 5.0);
  EXPECT_EQ(s.deviation[1], 1.0);
  EXPECT_DOUBLE_EQ(s.mean[2], 4.0 / 3.0);
  EXPECT_DOUBLE_EQ(s.deviation[2], std::sqrt(32.0 / 9.0));
}

// Units so large or small that squares are beyond a double change nothing.
TEST(StandardizeTest, UnitsDoNotMatter) {
  for (const double unit : {1e-250, 1e-160, 1e160, 1e250}) {
    Dataset dataset;
    dataset.x.rows = 4;
    dataset.x.cols = 2;
    for (int64_t i = 0; i < 4; ++i) {
      for (int32_t j = 0; j < 2; ++j) {
        const double value = static_cast<double>(i * i - 3 * j * i + 1);
        if (value == 0.0) continue;
        dataset.x.column.push_back(j);
        dataset.x.value.push_back(j == 0 ? value : value * unit);
      }
      dataset.x.row_start.push_back(dataset.x.nonzeros());
    }
    const Standardization s = FitStandardization(dataset.x, {0, 1, 2, 3}).value();
    // Column 0: 1, 2, 5, 10; column 1: 1, -1, -1, 1.
    EXPECT_NEAR(s.deviation[0], std::sqrt(12.25), 1e-14);
    EXPECT_NEAR(s.deviation[1] / unit, 1.0, 1e-14) << unit;
    EXPECT_FALSE(s.constant[1]);
  }
}

TEST(SynthTest, FollowsTheUriAndOnlyTheUri) {
  const notation::SynthSpec spec =
      notation::ParseSynth(
          "synth:logistic?rows=300&cols=12&classes=3&seed=9&noise=0.2&density=0.5&informative=4&signal=2")
          .value();
  EXPECT_EQ(spec.rows, 300);
  EXPECT_EQ(spec.classes, 3);
  EXPECT_EQ(spec.density, 0.5);
  const Dataset d = Synthesize(spec).value();
  EXPECT_EQ(d.x.rows, 300);
  EXPECT_EQ(d.x.cols, 12);
  EXPECT_NEAR(static_cast<double>(d.x.nonzeros()) / 3600.0, 0.5, 0.05);
  EXPECT_EQ(Fingerprint(d).value(), Fingerprint(Synthesize(spec).value()).value());
  notation::SynthSpec other = spec;
  other.seed = 10;
  EXPECT_NE(Fingerprint(d).value(), Fingerprint(Synthesize(other).value()).value());
  EXPECT_EQ(notation::ParseSynth("synth:logistic")->rows, 500);
}

TEST(SynthTest, EveryClassHasTwoRows) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    notation::SynthSpec spec;
    spec.rows = 40;
    spec.classes = 20;
    spec.seed = seed;
    const Dataset d = Synthesize(spec).value();
    for (int k = 0; k < 20; ++k) EXPECT_EQ(std::count(d.label.begin(), d.label.end(), k), 2);
  }
}

// Images that two parts of the data agree about: those of a class are closest to the mean of their class.
TEST(SynthTest, ImagesLookLikeTheirClass) {
  const Dataset d = SynthesizeRows("synth:images?rows=300&side=16&classes=5&seed=3", Task::kClassification).value();
  EXPECT_EQ(d.x.rows, 300);
  EXPECT_EQ(d.x.cols, 256);
  EXPECT_EQ(d.num_classes(), 5);
  EXPECT_EQ(Fingerprint(d).value(),
            Fingerprint(SynthesizeRows("synth:images?rows=300&side=16&classes=5&seed=3", Task::kClassification).value())
                .value());
  EXPECT_NE(Fingerprint(d).value(),
            Fingerprint(SynthesizeRows("synth:images?rows=300&side=16&classes=5&seed=4", Task::kClassification).value())
                .value());
  for (const double v : d.x.value) ASSERT_TRUE(v > 0.0 && v <= 1.0);
  std::vector<std::vector<double>> mean(5, std::vector<double>(256, 0.0));
  const auto dot = [&](int64_t i, const std::vector<double>& m) {
    double sum = 0.0;
    for (int64_t e = d.x.row_start[i]; e < d.x.row_start[i + 1]; ++e) sum += d.x.value[e] * m[d.x.column[e]];
    return sum;
  };
  for (int64_t i = 0; i < 150; ++i) {
    for (int64_t e = d.x.row_start[i]; e < d.x.row_start[i + 1]; ++e) mean[d.label[i]][d.x.column[e]] += d.x.value[e];
  }
  int right = 0;
  for (int64_t i = 150; i < 300; ++i) {
    int best = 0;
    double most = -INFINITY;
    for (int k = 0; k < 5; ++k) {
      double norm = 0.0;
      for (const double m : mean[k]) norm += m * m;
      const double score = dot(i, mean[k]) / std::sqrt(norm);
      if (score > most) best = k, most = score;
    }
    right += best == d.label[i] ? 1 : 0;
  }
  EXPECT_GE(right, 120);  // 30 by chance.
}

}  // namespace
}  // namespace luthier::data
