#include "lib/data/growth.h"

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace luthier::data {
namespace {

// Returns a line's number of /proc/self/status, in KiB; 0 if there is none.
int64_t StatusLine(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(name + ":", 0) == 0) return std::stoll(line.substr(name.size() + 1));
  }
  return 0;
}

// Grows a vector element by element to `bytes`, and returns the most memory that the process took meanwhile, beyond
// what it had, as a multiple of `bytes`. Negative if the system does not tell.
template <typename Grow>
double PeakOf(int64_t bytes, Grow grow) {
  std::ofstream("/proc/self/clear_refs") << "5";  // The peak is counted from here on.
  const int64_t before = StatusLine("VmRSS");
  if (StatusLine("VmHWM") > before + before / 8) return -1.0;  // It can't be reset here.
  std::vector<double> v;
  const int64_t count = bytes / static_cast<int64_t>(sizeof(double));
  for (int64_t k = 0; k < count; ++k) {
    EXPECT_TRUE(grow(&v).ok());
    v.push_back(static_cast<double>(k));
  }
  for (int64_t k = 0; k < count; k += 4099) EXPECT_EQ(v[static_cast<size_t>(k)], static_cast<double>(k));
  EXPECT_EQ(v.size(), static_cast<size_t>(count));
  EXPECT_EQ(v.back(), static_cast<double>(count - 1));
  const int64_t peak = StatusLine("VmHWM");
  return peak == 0 ? -1.0 : static_cast<double>((peak - before) << 10) / static_cast<double>(bytes);
}

TEST(GrowByTest, KeepsTheElementsAndNeverHasThemTwice) {
  constexpr int64_t kBytes = int64_t{135} << 20;  // Just beyond a doubling, where growth by copying has all twice.
  const base::StopToken never;
  const double peak = PeakOf(kBytes, [&](auto* v) { return GrowBy(1, never, v); });
  if (peak < 0.0) GTEST_SKIP() << "the system does not tell how much memory was used";
  EXPECT_LT(peak, 1.3);  // Vectors up to kGrowsPlainly, 12 % of it, may stay with the heap.
  EXPECT_GT(peak, 0.9);
  EXPECT_GT(PeakOf(kBytes, [&](auto* v) { return base::MakeRoom(1, never, v); }), 1.5);
}

TEST(GrowByTest, MakesRoomForManyAtOnce) {
  std::vector<int32_t> v = {1, 2, 3};
  ASSERT_TRUE(GrowBy(10'000'000, {}, &v).ok());
  EXPECT_GE(v.capacity(), 10'000'003U);
  EXPECT_EQ(v, (std::vector<int32_t>{1, 2, 3}));
  v.resize(10'000'003, 7);
  const size_t before = v.capacity();
  ASSERT_TRUE(GrowBy(before, {}, &v).ok());
  EXPECT_EQ(v[2], 3);
  EXPECT_EQ(v[5'000'000], 7);
  EXPECT_EQ(v.back(), 7);
}

TEST(GrowByTest, CanBeStopped) {
  std::vector<double> v(4'000'000, 1.0);
  base::StopSource source;
  source.RequestStop();
  EXPECT_EQ(GrowBy(1'000'000'000, source.token(), &v).code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace luthier::data
