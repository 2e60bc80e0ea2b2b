#include "lib/base/secret.h"

#include <gtest/gtest.h>

#include "lib/base/error.h"

namespace luthier::base {
namespace {

const std::string kToken = "lut_0123456789abcdef_" + std::string(43, 'S');

TEST(HideTokens, LeavesTheNameAndTakesTheSecret) {
  EXPECT_EQ(HideTokens("authorization: Bearer " + kToken + " end"), "authorization: Bearer lut_0123456789abcdef_… end");
  EXPECT_EQ(HideTokens(kToken + "\n" + kToken), "lut_0123456789abcdef_…\nlut_0123456789abcdef_…");
  EXPECT_EQ(HideTokens("\"" + kToken + "\""), "\"lut_0123456789abcdef_…\"");
}

TEST(HideTokens, ASecretWithAStrangeByteIsOneToo) {
  EXPECT_EQ(HideTokens("lut_0123456789abcdef_SS\x80SS"), "lut_0123456789abcdef_…");
  EXPECT_EQ(HideTokens("lut_0123456789abcdef_SSüSS."), "lut_0123456789abcdef_…");
}

TEST(HideTokens, BytesAreHiddenToo) {
  EXPECT_EQ(HideTokens("value=42 65 61 6c 75 74 5f 39 65 63 'Bea…'"), "value=42 65 61 6c 75 74 5f … 'Bea…'");
  EXPECT_EQ(HideTokens("6c 75 74 5f 39\n6c 75 74 5f 39"), "6c 75 74 5f … \n6c 75 74 5f … ");
  EXPECT_EQ(HideTokens("6c 75 74 20 39"), "6c 75 74 20 39");
}

TEST(HideTokens, OtherTextStays) {
  for (const char* text :
       {"", "lut_", "absolut_path", "lut_0123456789abcdef", "lut_0123456789abcde_x", "lut_lut_lut_"}) {
    EXPECT_EQ(HideTokens(text), text);
  }
}

TEST(HideTokens, MessagesQuoteNoSecret) {
  EXPECT_EQ(Quote(kToken), "\"lut_0123456789abcdef_…\"");
  EXPECT_EQ(Quote("in/" + kToken + "/file"), "\"in/lut_0123456789abcdef_…\"");
}

}  // namespace
}  // namespace luthier::base
