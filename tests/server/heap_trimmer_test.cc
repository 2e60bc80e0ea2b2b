#include "server/heap_trimmer.h"

#include <gtest/gtest.h>

namespace luthier::server {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(HeapTrimmer, GivesBackWhatWasFreedOnceItIsWorthwhile) {
  int64_t resident = 100 * kMiB, allocated = 80 * kMiB;
  int given_back = 0;
  HeapTrimmer trimmer({[&] { return resident; }, [&] { return static_cast<size_t>(allocated); },
                       [&] {
                         ++given_back;
                         resident = allocated + 30 * kMiB;  // Not all of it can be given back.
                       }});
  trimmer.Tick();
  EXPECT_EQ(given_back, 0);
  resident = allocated = 500 * kMiB;  // In use.
  trimmer.Tick();
  EXPECT_EQ(given_back, 0);
  allocated = 100 * kMiB;
  trimmer.Tick();
  EXPECT_EQ(given_back, 1);
  for (int i = 0; i < 100; ++i) trimmer.Tick();
  EXPECT_EQ(given_back, 1) << "what could not be given back is not tried again and again";
  resident += HeapTrimmer::kWorthwhile;
  trimmer.Tick();
  EXPECT_EQ(given_back, 2);
}

}  // namespace
}  // namespace luthier::server
