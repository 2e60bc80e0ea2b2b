#include "lib/catalogue/penalty_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace luthier::catalogue {
namespace {

using ::testing::HasSubstr;

TEST(ParsePenaltyGroupsTest, NamesNumbersAndQuotes) {
  const std::vector<PenaltyGroup> groups =
      ParsePenaltyGroups("a: x y*, \"z; \"\"q\"\": 3\" \"p *\"*\"r s\" *_m *\n b_2 :1,3-7 8- 9-x;\n;age;").value();
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].name, "a");
  ASSERT_EQ(groups[0].members.size(), 6u);
  EXPECT_TRUE(groups[0].members[0].Fits("x"));
  EXPECT_FALSE(groups[0].members[0].Fits("xx"));
  EXPECT_TRUE(groups[0].members[1].Fits("y") && groups[0].members[1].Fits("yes"));
  EXPECT_TRUE(groups[0].members[2].Fits("z; \"q\": 3"));
  EXPECT_TRUE(groups[0].members[3].Fits("p *, r s") && groups[0].members[3].Fits("p *r s"));
  EXPECT_FALSE(groups[0].members[3].Fits("p *r") || groups[0].members[3].Fits("p q r s"));
  EXPECT_TRUE(groups[0].members[4].Fits("a_m") && groups[0].members[4].Fits("_m"));
  EXPECT_FALSE(groups[0].members[4].Fits("a_ma"));
  const GroupMember middle = ParsePenaltyGroups("a: x*|*|*y")->at(0).members[0];
  EXPECT_TRUE(middle.Fits("x||y") && middle.Fits("xa|b|cy") && middle.Fits("xx|||yy"));
  EXPECT_FALSE(middle.Fits("x|y") || middle.Fits("x||") || middle.Fits("||y") || middle.Fits("xy"));
  EXPECT_TRUE(groups[0].members[5].Fits("anything") && groups[0].members[5].Fits(""));
  ASSERT_EQ(groups[1].members.size(), 4u);
  const auto range = [&](size_t k) { return std::pair(groups[1].members[k].first, groups[1].members[k].last); };
  EXPECT_EQ(range(0), std::pair(int64_t{1}, int64_t{1}));
  EXPECT_EQ(range(1), std::pair(int64_t{3}, int64_t{7}));
  EXPECT_EQ(range(2), std::pair(int64_t{8}, INT64_MAX));
  EXPECT_TRUE(groups[1].members[3].Fits("9-x")) << "not a number";
  EXPECT_FALSE(groups[1].members[0].Fits("") || groups[1].members[0].Fits("1"));
  EXPECT_EQ(groups[2].name, "age");
  EXPECT_TRUE(groups[2].members[0].Fits("age"));
  EXPECT_TRUE(ParsePenaltyGroups(" ; \n")->empty());
}

TEST(ParsePenaltyGroupsTest, ErrorsSayWhat) {
  const auto error = [](const std::string& text) { return std::string(ParsePenaltyGroups(text).status().message()); };
  EXPECT_THAT(error("a: 1; a: 2"), HasSubstr("l2_groups: there are two groups \"a\""));
  EXPECT_THAT(error("a:"), HasSubstr("group \"a\" is empty"));
  EXPECT_THAT(error("a b: 1"), HasSubstr("\"a b\" is no name of a group"));
  EXPECT_THAT(error("mean_*"), HasSubstr("\"mean_*\" is no name of a group"));
  EXPECT_THAT(error(": 1"), HasSubstr("is no name of a group"));
  EXPECT_THAT(error("a: \"b"), HasSubstr("has no closing quote"));
  EXPECT_THAT(error("a: 0"), HasSubstr("counted from 1"));
  EXPECT_THAT(error("a: 7-3"), HasSubstr("\"7-3\" runs backwards"));
  EXPECT_THAT(error(std::string(70, 'a') + ": 1"), HasSubstr("is no name of a group"));
  std::string many;
  for (int k = 0; k < 101; ++k) absl::StrAppend(&many, "g", k, ": ", k + 1, ";");
  EXPECT_THAT(error(many), HasSubstr("more than 100 groups"));
}

}  // namespace
}  // namespace luthier::catalogue
