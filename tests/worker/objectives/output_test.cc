#include "worker/objectives/output.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/random.h"
#include "worker/run/runner.h"

namespace luthier::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

std::vector<std::pair<std::string, bool>> Split(const std::vector<std::string>& chunks, size_t limit) {
  std::vector<std::pair<std::string, bool>> lines;
  LineSplitter splitter(limit, [&](const TextLine& line) { lines.emplace_back(std::string(line.text), line.cut); });
  for (const std::string& chunk : chunks) splitter.Add(chunk);
  splitter.Finish();
  return lines;
}

TEST(LineSplitter, JoinsChunksAndKeepsTheLastLineWithoutNewline) {
  EXPECT_THAT(Split({"on", "e\n\ntw", "o"}, 10), ElementsAre(Pair("one", false), Pair("", false), Pair("two", false)));
  EXPECT_THAT(Split({"one\n"}, 10), ElementsAre(Pair("one", false)));
  EXPECT_THAT(Split({}, 10), ElementsAre());
}

TEST(LineSplitter, ACarriageReturnEndsALineAndIsNotCounted) {
  std::vector<std::string> seen;
  LineSplitter splitter(100, [&](const TextLine& line) {
    seen.push_back(absl::StrCat(line.number, line.overwrites ? "<" : ":", line.text, line.ended ? "" : "..."));
  });
  splitter.Add("a\r\nb\n\rc\rd\r");
  splitter.Add("\n\ne");
  splitter.Finish();
  EXPECT_THAT(seen, ElementsAre("1:a", "2:b", "3<c", "3<d", "4:", "5:e..."));
}

// A progress bar may run for days.
TEST(LineSplitter, TheLimitIsThatOfEachPart) {
  EXPECT_THAT(Split({"abcd\refgh\rij\n"}, 4), ElementsAre(Pair("abcd", false), Pair("efgh", false), Pair("ij", false)));
}

TEST(LineSplitter, CutsLongLinesAtTheLimit) {
  EXPECT_THAT(Split({"abc", "de\nx\n"}, 4), ElementsAre(Pair("abcd", true), Pair("x", false)));
  EXPECT_THAT(Split({"abcd\n"}, 4), ElementsAre(Pair("abcd", false)));
  EXPECT_THAT(Split({"abcd", "e"}, 4), ElementsAre(Pair("abcd", true)));
}

TEST(LineSplitter, ChunksMakeNoDifference) {
  base::RandomStream random(7, "line_splitter");
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "ab\n\r"[random.UniformInt(4)];
  const auto whole = Split({text}, 3);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::string> chunks;
    for (size_t at = 0; at < text.size();) {
      const size_t length = 1 + random.UniformInt(50);
      chunks.push_back(text.substr(at, length));
      at += length;
    }
    EXPECT_EQ(Split(chunks, 3), whole);
  }
}

TEST(Tail, KeepsTheLastBytesOfAnyChunking) {
  base::RandomStream random(8, "tail");
  std::string text;
  Tail tail(16);
  for (int i = 0; i < 300; ++i) {
    const std::string chunk(random.UniformInt(40), static_cast<char>('a' + i % 26));
    text += chunk;
    tail.Add(chunk);
    EXPECT_EQ(std::string(tail.bytes()), text.substr(text.size() > 16 ? text.size() - 16 : 0));
  }
}

TEST(PrintableTail, CutsAtACharacterAndReplacesWhatIsNoText) {
  EXPECT_EQ(PrintableTail("abc", 10), "abc");
  EXPECT_EQ(PrintableTail("a\xC3\xA9z", 2), "z");  // Would begin in the middle of é.
  EXPECT_EQ(PrintableTail("a\xC3\xA9z", 3), "\xC3\xA9z");
  EXPECT_EQ(PrintableTail(std::string("a\0b\x1b[1m\r\n\t\xff", 11), 99), "a?b?[1m\n\n\t?");
  EXPECT_EQ(PrintableTail("\x80\x80\x80\x80\x80", 4).size(), 1u);  // Only continuation bytes: at most 3 are skipped.
}

}  // namespace
}  // namespace luthier::worker
