#include "lib/wire/text.h"

#include <gtest/gtest.h>

namespace luthier::wire {
namespace {

TEST(Text, FindsWhatIsNotUtf8) {
  EXPECT_EQ(InvalidUtf8At("plain é 日本 😀"), std::string("plain é 日本 😀").size());
  EXPECT_EQ(InvalidUtf8At("ab\xC0\x80"), 2u);        // Overlong.
  EXPECT_EQ(InvalidUtf8At("a\xED\xA0\x80"), 1u);     // Surrogate.
  EXPECT_EQ(InvalidUtf8At("\xF4\x90\x80\x80"), 0u);  // Beyond U+10FFFF.
  EXPECT_EQ(InvalidUtf8At("\xE6\x97"), 0u);          // Cut off.
  EXPECT_EQ(InvalidUtf8At("\x80"), 0u);
}

TEST(Text, ReplacesOneByteAtATime) {
  EXPECT_EQ(ValidUtf8("a\xFFé\xE6\x97"), "a\uFFFDé\uFFFD\uFFFD");
  EXPECT_EQ(ValidUtf8("日本"), "日本");
}

TEST(Text, CutsAtCharacters) {
  EXPECT_EQ(CutHead("hello", 5), "hello");
  EXPECT_EQ(CutHead("hello!", 5), "he…");
  EXPECT_EQ(CutTail("hello!", 5), "…o!");
  EXPECT_EQ(CutHead("日本語", 8), "日…");
  EXPECT_EQ(CutTail("日本語", 8), "…語");
  EXPECT_EQ(CutHead("日本語", 2), "");
  EXPECT_EQ(CutTail("abc", 2), "bc");
  for (size_t n = 0; n < 20; ++n) {
    const std::string text = "aé日😀aé日😀";
    for (const std::string& cut : {CutHead(text, n), CutTail(text, n)}) {
      EXPECT_LE(cut.size(), std::max<size_t>(n, 0));
      EXPECT_EQ(InvalidUtf8At(cut), cut.size());
    }
  }
}

}  // namespace
}  // namespace luthier::wire
