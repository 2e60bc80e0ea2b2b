#include "lib/base/pace.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/random.h"
#include "tests/lib/base/look_meter.h"

namespace luthier::base {
namespace {

using testing::LookMeter;

TEST(PaceTest, PollsAtFirstAndThenOnceInSoManyOperations) {
  const StopSource source;
  LookMeter meter([] {});
  Pace pace(source.token());
  EXPECT_TRUE(pace.Poll(1).ok());
  EXPECT_EQ(meter.looks(), 1);
  for (int64_t k = 1; k < Pace::kOperations; ++k) EXPECT_TRUE(pace.Poll(1).ok());
  EXPECT_EQ(meter.looks(), 1);
  EXPECT_TRUE(pace.Poll(1).ok());
  EXPECT_EQ(meter.looks(), 2);
  EXPECT_EQ(meter.operations(), Pace::kOperations);
  // What is more than that by itself is looked at before and after.
  EXPECT_TRUE(pace.Poll(5 * Pace::kOperations).ok());
  EXPECT_TRUE(pace.Poll(1).ok());
  EXPECT_EQ(meter.looks(), 4);
  EXPECT_EQ(meter.most(), 5 * Pace::kOperations);
}

TEST(PaceTest, PiecesCoverTheRangeAndEndAtAStop) {
  const StopSource source;
  const StopToken stop = source.token();
  LookMeter meter([&] { source.RequestStop(); });
  for (const int64_t count : {int64_t{0}, int64_t{1}, Pace::kOperations / 3, 5 * Pace::kOperations / 3 + 7}) {
    int64_t next = 0;
    EXPECT_TRUE(InPieces(count, 3, stop, [&](int64_t begin, int64_t end) {
                  EXPECT_EQ(begin, next);
                  EXPECT_LE(3 * (end - begin), Pace::kOperations);
                  next = end;
                }).ok());
    EXPECT_EQ(next, count);
  }
  meter.Restart(3);
  int pieces = 0;
  EXPECT_EQ(InPieces(5 * Pace::kOperations, 1, stop, [&](int64_t, int64_t) { ++pieces; }), StoppedError());
  EXPECT_EQ(pieces, 2);
}

TEST(PaceTest, PiecewiseVectorsAreThoseMadeAtOnce) {
  const StopSource source;
  const StopToken stop = source.token();
  const size_t count = static_cast<size_t>(Pace::kOperations) * 2 + 5;
  std::vector<int32_t> filled, copied, grown;
  EXPECT_TRUE(FillInPieces(count, 7, stop, &filled).ok());
  EXPECT_EQ(filled, std::vector<int32_t>(count, 7));
  for (size_t k = 0; k < count; ++k) {
    ASSERT_TRUE(MakeRoom(1, stop, &grown).ok());
    grown.push_back(static_cast<int32_t>(k));
  }
  const std::string shifted = "x" + std::string(reinterpret_cast<const char*>(grown.data()), count * sizeof(int32_t));
  EXPECT_TRUE(CopyInPieces(shifted.data() + 1, count, stop, &copied).ok());
  EXPECT_EQ(copied, grown);
  std::vector<int32_t> shuffled = grown, expected = grown;
  RandomStream once(3, "test.shuffle"), again(3, "test.shuffle");
  once.Shuffle(expected);
  EXPECT_TRUE(ShuffleInPieces(stop, again, &shuffled).ok());
  EXPECT_EQ(shuffled, expected);
  source.RequestStop();
  EXPECT_EQ(ShuffleInPieces(stop, again, &shuffled), StoppedError());
  EXPECT_EQ(FillInPieces(count, 7, stop, &filled), StoppedError());
  EXPECT_EQ(CopyInPieces(shifted.data() + 1, count, stop, &copied), StoppedError());
  EXPECT_TRUE(MakeRoom(copied.capacity() - copied.size(), stop, &copied).ok());
  EXPECT_EQ(MakeRoom(2 * count, stop, &grown), StoppedError());
  EXPECT_EQ(grown.size(), count);
}

}  // namespace
}  // namespace luthier::base
