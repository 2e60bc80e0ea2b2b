#include "lib/notation/templates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace luthier::notation {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string TemplateError(const std::string& text) {
  return std::string(ParseTemplates(text).status().message());
}

TEST(TemplatesTest, BothNotationsAndTheNamedSet) {
  const std::vector<Template> named = ParseTemplates("w[-1]|w[0], pos[2]").value();
  ASSERT_EQ(named.size(), 2);
  EXPECT_THAT(named[0].positions, ElementsAre(Position{-1, 0}, Position{0, 0}));
  EXPECT_THAT(named[1].positions, ElementsAre(Position{2, 1}));
  const std::vector<Template> plus_plus =
      ParseTemplates("# Unigram\nU05:%x[-1,0]/%x[0,0]  # pair\nU12:%x[2,1]\n\n# Bigram\nB\n").value();
  ASSERT_EQ(plus_plus.size(), 2);
  EXPECT_EQ(plus_plus[0].positions, named[0].positions);
  EXPECT_EQ(plus_plus[0].space, "U05:");
  EXPECT_EQ(plus_plus[1].positions, named[1].positions);
  EXPECT_EQ(ParseTemplates("chunking").value().size(), 19);
  EXPECT_THAT(ParseTemplates("shape[0]", {"word", "shape"}).value()[0].positions, ElementsAre(Position{0, 1}));
}

TEST(TemplatesTest, ErrorsNameTheTemplate) {
  EXPECT_THAT(TemplateError(""), HasSubstr("there are none"));
  EXPECT_THAT(TemplateError("# nothing"), HasSubstr("there are none"));
  EXPECT_THAT(TemplateError("word[0]"), HasSubstr("template \"word[0]\": there is no column \"word\""));
  EXPECT_THAT(TemplateError("w[x]"), HasSubstr("\"x\" is not an offset"));
  EXPECT_THAT(TemplateError("w[101]"), HasSubstr("offset 101 is not in [-100, 100]"));
  EXPECT_THAT(TemplateError("w[-2147483648]"), HasSubstr("offset -2147483648 is not in [-100, 100]"));
  EXPECT_THAT(TemplateError("w"), HasSubstr("is not name[offset]"));
  EXPECT_THAT(TemplateError("U1:%x[0]"), HasSubstr("is not %x[row,column]"));
  EXPECT_THAT(TemplateError("U1:%y[0,0]"), HasSubstr("expected %x[row,column]"));
  EXPECT_THAT(TemplateError("U1:%x[0,-1]"), HasSubstr("is not %x[row,column]"));
  EXPECT_THAT(TemplateError("w[0]|"), HasSubstr("is not name[offset]"));
}

}  // namespace
}  // namespace luthier::notation
