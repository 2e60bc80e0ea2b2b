#include "lib/crf/features/features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "lib/notation/templates.h"
#include "tests/lib/crf/crf_testing.h"

namespace luthier::crf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Texts of small alphabets, so that attributes repeat; three labels.
data::ColumnText RandomText(uint64_t seed, int64_t sequences) {
  base::RandomStream random(seed, "test.text");
  data::ColumnText text;
  text.name = "t";
  text.columns = 2;
  for (int64_t i = 0; i < sequences; ++i) {
    const uint64_t length = 1 + random.UniformInt(6);
    for (uint64_t t = 0; t < length; ++t) {
      text.cell.push_back(
          text.strings.Intern(absl::StrCat(random.UniformInt(2) == 0 ? "W" : "w", random.UniformInt(9))));
      text.cell.push_back(text.strings.Intern(absl::StrCat("P", random.UniformInt(3))));
      const uint64_t label = text.tokens() < 3 ? static_cast<uint64_t>(text.tokens()) : random.UniformInt(3);
      text.label.push_back(text.label_names.Intern(absl::StrCat("L", 2 - label)));
      text.line.push_back(static_cast<int32_t>(text.tokens() + i));
    }
    text.sequence_start.push_back(text.tokens());
  }
  return text;
}

// The attributes of each token as texts, by the definition.
std::vector<std::set<std::string>> Spell(const data::ColumnText& text, const FeatureOptions& options) {
  std::vector<std::set<std::string>> tokens;
  for (int64_t i = 0; i < text.sequences(); ++i) {
    const int64_t begin = text.sequence_start[static_cast<size_t>(i)];
    const int64_t end = text.sequence_start[static_cast<size_t>(i) + 1];
    for (int64_t t = begin; t < end; ++t) {
      std::set<std::string> attributes;
      for (const notation::Template& one : options.templates) {
        std::string value = one.space + absl::StrCat("#", one.positions.size());
        bool present = true;
        for (const notation::Position& p : one.positions) {
          const int64_t at = t + p.offset;
          if (at >= begin && at < end) {
            std::string cell = text.strings.text(text.cell[static_cast<size_t>(at * text.columns + p.column)]);
            if (p.column == 0 && options.lower_words) absl::AsciiStrToLower(&cell);
            value += "|" + cell;
          } else if (options.boundary == Boundary::kSkip) {
            present = false;
          } else if (options.boundary == Boundary::kSingle) {
            value += "| out";
          } else {
            value += absl::StrCat("| out", at < begin ? at - begin : at - end + 1);
          }
        }
        if (present) attributes.insert(value);
      }
      tokens.push_back(attributes);
    }
  }
  return tokens;
}

TEST(FeaturesTest, AgreeWithTheDefinition) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    const data::ColumnText text = RandomText(seed, 30);
    const std::vector<int32_t> rows = testing::AllRows(text.sequences());
    for (const Boundary boundary : {Boundary::kSingle, Boundary::kNumbered, Boundary::kSkip}) {
      for (const bool lower : {false, true}) {
        for (const int64_t min_count : {1, 3}) {
          FeatureOptions options;
          options.templates =
              notation::ParseTemplates("w[-2]|w[0]\nw[0]\npos[-1]|pos[0]|pos[1]\nU:%x[-1,0]\nU:%x[1,0]\npos[2]")
                  .value();
          options.boundary = boundary;
          options.lower_words = lower;
          options.min_count = min_count;
          const FeatureMap map = FeatureMap::Fit(text, rows, options).value();
          const ChainData data = map.Encode(text, rows).value();
          ASSERT_TRUE(CheckChainData(data).ok()) << CheckChainData(data);
          const std::vector<std::set<std::string>> spelt = Spell(text, options);
          std::map<std::string, int64_t> count;
          for (const notation::Template& one : options.templates) {
            FeatureOptions single = options;
            single.templates = {one};
            for (const auto& token : Spell(text, single)) {
              for (const std::string& a : token) ++count[a];
            }
          }
          // Rows and texts are in one-to-one correspondence.
          std::map<std::string, int32_t> row_of;
          std::map<int32_t, std::string> text_of;
          int32_t kept = 0;
          for (const auto& [a, c] : count) kept += c >= min_count ? 1 : 0;
          EXPECT_EQ(map.attributes(), kept + 3);
          std::vector<std::set<int32_t>> encoded;
          for (size_t t = 0; t < spelt.size(); ++t) {
            std::set<int32_t> set(data.attribute.begin() + data.token_start[t],
                                  data.attribute.begin() + data.token_start[t + 1]);
            EXPECT_EQ(set.count(kept), 1) << "the bias";
            std::erase_if(set, [&](int32_t a) { return a >= kept; });
            size_t expected = 0;
            for (const std::string& a : spelt[t]) expected += count[a] >= min_count ? 1 : 0;
            EXPECT_EQ(set.size(), expected);
            encoded.push_back(set);
          }
          for (const auto& [a, c] : count) {
            if (c < min_count) continue;
            // The row of a text: in all tokens that have it, in no other.
            std::set<int32_t> candidates;
            for (int32_t r = 0; r < kept; ++r) candidates.insert(r);
            for (size_t t = 0; t < spelt.size(); ++t) {
              std::erase_if(candidates, [&](int32_t r) { return encoded[t].contains(r) != spelt[t].contains(a); });
            }
            EXPECT_GE(candidates.size(), 1) << a;
          }
          // Frequent rows first.
          std::vector<int64_t> uses(static_cast<size_t>(kept), 0);
          for (const auto& set : encoded) {
            for (const int32_t r : set) ++uses[static_cast<size_t>(r)];
          }
          EXPECT_GE(uses.front(), uses.back());
        }
      }
    }
  }
}

TEST(FeaturesTest, TheDictionaryIsFrozen) {
  const data::ColumnText text = RandomText(1, 20);
  const std::vector<int32_t> rows = testing::AllRows(text.sequences());
  FeatureOptions options;
  options.templates = notation::ParseTemplates("w[0], w[0]|w[1]").value();
  const FeatureMap map = FeatureMap::Fit(text, rows, options).value();
  const data::ColumnText other = RandomText(99, 50);
  const ChainData data = map.Encode(other, testing::AllRows(50)).value();
  EXPECT_TRUE(CheckChainData(data).ok());
  EXPECT_EQ(data.attributes, map.attributes());
  // Encoding part of the data gives part of the encoding.
  const ChainData all = map.Encode(text, rows).value();
  EXPECT_EQ(Fingerprint(map.Encode(text, {3, 7}).value()).value(), Fingerprint(Select(all, {3, 7})).value());
  EXPECT_NE(Fingerprint(all).value(), Fingerprint(Select(all, {3, 7})).value());
}

TEST(FeaturesTest, UnknownLabelsAreAnErrorOrCountAsWrong) {
  const data::ColumnText text = RandomText(1, 20);
  data::ColumnText other = RandomText(1, 20);
  other.label[5] = other.label_names.Intern("NEW");
  FeatureOptions options;
  options.templates = notation::ParseTemplates("w[0]").value();
  const FeatureMap map = FeatureMap::Fit(text, testing::AllRows(20), options).value();
  const absl::Status error = map.Encode(other, testing::AllRows(20)).status();
  EXPECT_THAT(std::string(error.message()),
              HasSubstr(absl::StrCat("t:", other.line[5], ": its label does not occur in the training data")));
  const ChainData kept = map.Encode(other, testing::AllRows(20), FeatureMap::UnknownLabels::kKeep).value();
  EXPECT_THAT(kept.unknown_names, ElementsAre("NEW"));
  EXPECT_EQ(kept.label[5], 3);
  EXPECT_FALSE(CheckChainData(kept).ok());
}

TEST(FeaturesTest, HashingNeedsNoDictionary) {
  const data::ColumnText text = RandomText(1, 40);
  const std::vector<int32_t> rows = testing::AllRows(40);
  FeatureOptions options;
  options.templates = notation::ParseTemplates("w[0], w[-1]|w[0], pos[0]|pos[1]").value();
  options.hash_bits = 16;
  const FeatureMap map = FeatureMap::Fit(text, rows, options).value();
  EXPECT_EQ(map.attributes(), 65536 + 3);
  const ChainData data = map.Encode(text, rows).value();
  EXPECT_TRUE(CheckChainData(data).ok());
  // Another map, fitted to other sequences, gives the same rows.
  const FeatureMap part = FeatureMap::Fit(text, {0, 1, 2, 3, 4, 5, 6, 7}, options).value();
  EXPECT_EQ(part.Encode(text, rows).value().attribute, data.attribute);
  EXPECT_LT(map.collision_rate(), 0.05);
  options.hash_bits = 3;
  const FeatureMap crowded = FeatureMap::Fit(text, rows, options).value();
  EXPECT_GT(crowded.collision_rate(), 0.9);
  EXPECT_TRUE(CheckChainData(crowded.Encode(text, rows).value()).ok());
}

TEST(FeaturesTest, DataThatDoNotFitAreNamed) {
  const data::ColumnText text = RandomText(1, 5);
  FeatureOptions options;
  options.templates = notation::ParseTemplates("c2[0]").value();
  const auto error = [&](const std::vector<int32_t>& rows) {
    return std::string(FeatureMap::Fit(text, rows, options).status().message());
  };
  EXPECT_THAT(error({0}), HasSubstr("template \"c2[0]\" needs column 2, but t has 2 beside the label"));
  options.templates = notation::ParseTemplates("w[0]").value();
  EXPECT_THAT(error({}), HasSubstr("no sequences"));
  data::ColumnText one = RandomText(1, 5);
  std::fill(one.label.begin(), one.label.end(), 0);
  EXPECT_THAT(std::string(FeatureMap::Fit(one, {0}, options).status().message()), HasSubstr("all labels are the same"));
}

}  // namespace
}  // namespace luthier::crf
