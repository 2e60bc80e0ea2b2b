#include "lib/crf/features/segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "lib/base/random.h"
#include "tests/lib/crf/crf_testing.h"

namespace luthier::crf {
namespace {

// Segments as a set, from the published rules of conlleval (startOfChunk and endOfChunk), rule by rule. It has none for
// B after E of the same type, which then would neither end nor start: here it does both.
using Segment = std::tuple<std::string, size_t, size_t>;

bool EndOfChunk(char p, char t, const std::string& pt, const std::string& tt) {
  bool end = false;
  if (p == 'B' && t == 'B') end = true;
  if (p == 'B' && t == 'O') end = true;
  if (p == 'I' && t == 'B') end = true;
  if (p == 'I' && t == 'O') end = true;
  if (p == 'E' && (t == 'E' || t == 'I' || t == 'O' || t == 'B')) end = true;
  if (p != 'O' && p != '.' && pt != tt) end = true;
  if (p == ']' || p == '[') end = true;
  return end;
}

bool StartOfChunk(char p, char t, const std::string& pt, const std::string& tt) {
  bool start = false;
  if (p == 'B' && t == 'B') start = true;
  if (p == 'I' && t == 'B') start = true;
  if (p == 'O' && t == 'B') start = true;
  if (p == 'O' && t == 'I') start = true;
  if (p == 'E' && (t == 'E' || t == 'I')) start = true;
  if (p == 'O' && t == 'E') start = true;
  if (p == 'E' && t == 'B') start = true;
  if (t != 'O' && t != '.' && pt != tt) start = true;
  if (t == ']' || t == '[') start = true;
  return start;
}

std::set<Segment> Segments(const std::vector<std::string>& labels) {
  std::set<Segment> found;
  std::string type_before;
  char before = 'O';
  size_t begin = 0;
  for (size_t t = 0; t <= labels.size(); ++t) {
    const std::string label = t < labels.size() ? labels[t] : "O";
    const char now = label[0];
    const std::string type = label.size() > 2 ? label.substr(2) : "";
    if (EndOfChunk(before, now, type_before, type)) found.insert({type_before, begin, t});
    if (StartOfChunk(before, now, type_before, type)) begin = t;
    before = now;
    type_before = type;
  }
  return found;
}

TEST(SegmentsTest, AgreeWithTheRulesOfConlleval) {
  const std::vector<std::string> names = {"O", "B-A", "I-A", "E-A", "B-B", "I-B", "E-B"};
  base::RandomStream random(3, "test.segments");
  SegmentScorer scorer(names);
  int64_t gold_count = 0, guess_count = 0, correct = 0;
  std::map<std::string, int64_t> correct_of;
  for (int round = 0; round < 3000; ++round) {
    const uint64_t length = 1 + random.UniformInt(8);
    std::vector<int32_t> gold, guess;
    std::vector<std::string> gold_names, guess_names;
    for (uint64_t t = 0; t < length; ++t) {
      gold.push_back(static_cast<int32_t>(random.UniformInt(names.size())));
      guess.push_back(random.Uniform() < 0.6 ? gold.back() : static_cast<int32_t>(random.UniformInt(names.size())));
      gold_names.push_back(names[static_cast<size_t>(gold.back())]);
      guess_names.push_back(names[static_cast<size_t>(guess.back())]);
    }
    scorer.Add(gold.data(), guess.data(), static_cast<int64_t>(length));
    const std::set<Segment> a = Segments(gold_names), b = Segments(guess_names);
    gold_count += static_cast<int64_t>(a.size());
    guess_count += static_cast<int64_t>(b.size());
    for (const Segment& s : a) {
      correct += b.count(s);
      correct_of[std::get<0>(s)] += b.count(s);
    }
    ASSERT_EQ(scorer.scores().all.gold, gold_count) << "round " << round;
    ASSERT_EQ(scorer.scores().all.found, guess_count) << "round " << round;
    ASSERT_EQ(scorer.scores().all.correct, correct) << "round " << round;
  }
  for (const auto& [type, count] : correct_of) EXPECT_EQ(scorer.scores().by_type.at(type).correct, count);
}

TEST(SegmentsTest, RatiosAndSingles) {
  SegmentScorer scorer({"O", "S-A", "B-A", "I-A", "E-A"});
  const std::vector<int32_t> gold = {1, 1, 0, 2, 3, 4}, guess = {1, 0, 0, 2, 3, 4};
  scorer.Add(gold.data(), guess.data(), 6);
  EXPECT_EQ(scorer.scores().all.gold, 3);
  EXPECT_EQ(scorer.scores().all.found, 2);
  EXPECT_EQ(scorer.scores().all.correct, 2);
  EXPECT_DOUBLE_EQ(scorer.scores().all.precision(), 1.0);
  EXPECT_DOUBLE_EQ(scorer.scores().all.recall(), 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(scorer.scores().all.f1(), 0.8);
  EXPECT_TRUE(scorer.has_segments());
  EXPECT_FALSE(SegmentScorer({"a", "b", "NOUN"}).has_segments());
  EXPECT_EQ(SegmentCounts().f1(), 0.0);
}

}  // namespace
}  // namespace luthier::crf
