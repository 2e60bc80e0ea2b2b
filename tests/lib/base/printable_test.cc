#include "lib/base/printable.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "lib/base/log.h"

namespace luthier::base {
namespace {

TEST(Printable, LeavesTextOfAllScriptsAsItIs) {
  for (const char* text : {"", "plain", "grün", "日本語", "עברית", "العربية", "हिन्दी", "😀", "a\\b\"c", "e\u0301"}) {
    EXPECT_EQ(Printable(text), text);
  }
}

TEST(Printable, ShowsWhatATerminalWouldObeyOrHide) {
  EXPECT_EQ(Printable("\x1b[2J\n\x7f\xC2\x9B"), "\\x1b[2J\\x0a\\x7f\\x9b");
  // The direction of text: overrides, embeddings, isolates and marks.
  EXPECT_EQ(Printable("a\u202Eb\u202C\u2066\u2069\u200F\u061C"), "a\\u202eb\\u202c\\u2066\\u2069\\u200f\\u061c");
  // No glyph: zero widths, joiners, fillers, soft hyphen, byte order mark, separators, tags.
  EXPECT_EQ(Printable("a\u200Bb\u2060\u3164\u00AD\uFEFF\u2028\u2029"),
            "a\\u200bb\\u2060\\u3164\\xad\\ufeff\\u2028\\u2029");
  EXPECT_EQ(Printable("\U000E0041\uE000\uFFFE"), "\\U000e0041\\ue000\\ufffe");
}

TEST(Printable, ShowsBytesThatAreNoUtf8) {
  EXPECT_EQ(Printable("\xff\xc3(\xed\xa0\x80\xe2\x80"), "\\xff\\xc3(\\xed\\xa0\\x80\\xe2\\x80");
  EXPECT_EQ(Printable(std::string("\0", 1)), "\\x00");
}

TEST(Printable, PutsABackslashBeforeWhatIsAskedFor) {
  EXPECT_EQ(Printable("a\"b\\c", "\"\\"), "a\\\"b\\\\c");
}

TEST(Printable, KeepsLinesApart) {
  EXPECT_EQ(PrintableLines("a\u202E\nb\r\n"), "a\\u202e\nb\\x0d\n");
}

TEST(Printable, JsonReadsBackAsTheSame) {
  const std::string text = "a\u202Eb\u200Bc\x7f\u009B\U000E0041😀é\n\"";
  nlohmann::json value;
  value["k\u202E"] = text;
  const std::string shown = PrintableJson(value.dump(2));
  EXPECT_EQ(nlohmann::json::parse(shown), value);
  for (const char* hidden : {"\u202E", "\u200B", "\x7f", "\u009B", "\U000E0041"}) {
    EXPECT_EQ(shown.find(hidden), std::string::npos) << shown;
  }
  EXPECT_NE(shown.find("😀é"), std::string::npos) << shown;
  EXPECT_NE(shown.find("\\udb40\\udc41"), std::string::npos) << shown;
  EXPECT_EQ(PrintableJson("\"\U000E0041\"", Escapes::kYaml), "\"\\U000e0041\"");
}

TEST(Printable, IsWhatLogsShow) {
  EXPECT_EQ(FormatLogLine("e", {{"k", "a\u202Eb"}, {"l", "plain"}, {"m", "two words"}, {"n", ""}}),
            "e k=\"a\\u202eb\" l=plain m=\"two words\" n=\"\"");
}

}  // namespace
}  // namespace luthier::base
