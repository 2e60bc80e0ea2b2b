#include "server/service/memory_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "lib/base/error.h"

namespace luthier::service {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

class MemoryGuardTest : public ::testing::Test {
 protected:
  void Use(int64_t bytes) {
    used_ = bytes;
    clock_.Advance(absl::Milliseconds(10));  // It has not looked for that long.
  }

  base::ManualClock clock_;
  int64_t used_ = 0;
  int looks_ = 0;
  int given_back_ = 0;
  MemoryGuard guard_{{100 * kMiB,
                      [this] {
                        ++looks_;
                        return used_;
                      },
                      [this] { ++given_back_; }},
                     &clock_};
};

TEST_F(MemoryGuardTest, WorkIsRefusedAtTheLimitAndResultsATenthLater) {
  Use(100 * kMiB - 1);
  EXPECT_TRUE(guard_.Admit(MemoryGuard::Kind::kWork).ok());
  EXPECT_TRUE(guard_.Admit(MemoryGuard::Kind::kEnding).ok());
  Use(100 * kMiB);
  const absl::Status refused = guard_.Admit(MemoryGuard::Kind::kWork);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(base::GetReason(refused), base::reason::kMemory);
  EXPECT_GT(base::GetErrorDetail(refused)->retry_delay, absl::ZeroDuration());
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("100 MiB of memory, of 100 MiB"));
  EXPECT_TRUE(guard_.Admit(MemoryGuard::Kind::kEnding).ok());
  Use(110 * kMiB - 1);
  EXPECT_TRUE(guard_.Admit(MemoryGuard::Kind::kEnding).ok());
  Use(110 * kMiB);
  EXPECT_EQ(base::GetReason(guard_.Admit(MemoryGuard::Kind::kEnding)), base::reason::kMemory);
  Use(99 * kMiB);
  EXPECT_TRUE(guard_.Admit(MemoryGuard::Kind::kWork).ok());
}

TEST_F(MemoryGuardTest, PromisedBytesCountAsUsedUntilTheirPromiseEnds) {
  using Kind = MemoryGuard::Kind;
  Use(50 * kMiB);
  absl::StatusOr<MemoryGuard::Promise> first = guard_.Take(Kind::kWork, 30 * kMiB);
  ASSERT_TRUE(first.ok());
  const absl::Status refused = guard_.Take(Kind::kWork, 21 * kMiB).status();
  EXPECT_EQ(base::GetReason(refused), base::reason::kMemory);
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("uses 80 MiB"));
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("need 22 MiB more"));
  EXPECT_TRUE(guard_.Take(Kind::kWork, 20 * kMiB).ok()) << "a refused promise is none";
  EXPECT_TRUE(guard_.Take(Kind::kEnding, 30 * kMiB).ok()) << "1.1 times the limit";
  EXPECT_FALSE(guard_.Take(Kind::kEnding, 31 * kMiB).ok());
  MemoryGuard::Promise moved = *std::move(first);
  EXPECT_FALSE(guard_.Take(Kind::kWork, 21 * kMiB).ok());
  moved = MemoryGuard::Promise();
  EXPECT_TRUE(guard_.Take(Kind::kWork, 50 * kMiB).ok());
  EXPECT_TRUE(guard_.Admit(MemoryGuard::Kind::kWork).ok());
}

TEST_F(MemoryGuardTest, MemoryIsReadNowAndThen) {
  Use(0);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(guard_.Admit(MemoryGuard::Kind::kWork).ok());
  EXPECT_EQ(looks_, 1);
}

TEST_F(MemoryGuardTest, FreedMemoryIsGivenBackBeforeAnythingIsRefusedAtMostOnceASecond) {
  for (int i = 0; i < 100; ++i) {
    Use(200 * kMiB);
    EXPECT_FALSE(guard_.Admit(MemoryGuard::Kind::kWork).ok());
  }
  EXPECT_EQ(given_back_, 1);
  MemoryGuard freeing({100 * kMiB, [this] { return used_; }, [this] { used_ = 0; }}, &clock_);
  Use(200 * kMiB);
  EXPECT_TRUE(freeing.Admit(MemoryGuard::Kind::kWork).ok());
}

TEST(MemoryGuard, WithoutALimitEverythingIsTaken) {
  base::ManualClock clock;
  const MemoryGuard guard({0, [] { return INT64_MAX; }, [] {}}, &clock);
  EXPECT_TRUE(guard.Admit(MemoryGuard::Kind::kWork).ok());
}

TEST(MemoryGuard, ResidentBytesAreThoseOfThisProcess) {
  const int64_t before = MemoryGuard::ResidentBytes();
  EXPECT_GT(before, kMiB);
  // Pages of its own: those that earlier tests gave back to the heap are resident still.
  void* const more = mmap(nullptr, 64 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(more, MAP_FAILED);
  std::memset(more, 'x', 64 * kMiB);
  EXPECT_GT(MemoryGuard::ResidentBytes(), before + 60 * kMiB);
  EXPECT_EQ(munmap(more, 64 * kMiB), 0);
}

}  // namespace
}  // namespace luthier::service
