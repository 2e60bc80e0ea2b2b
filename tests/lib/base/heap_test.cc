#include "lib/base/heap.h"

#include <sys/resource.h>

#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/sanitized.h"

namespace luthier::base {
namespace {

long PageFaults() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// Blocks of the size of a suggestion's matrices, twenty at a time, written and freed: 8 MB, 2000 pages.
void ComeAndGo() {
  std::vector<std::unique_ptr<char[]>> blocks;
  for (int i = 0; i < 20; ++i) {
    constexpr size_t kBytes = 400 << 10;
    blocks.push_back(std::make_unique<char[]>(kBytes));
    for (size_t at = 0; at < kBytes; at += 1024) blocks.back()[at] = 1;
  }
}

constexpr bool IsOurAllocator() {
#if defined(__GLIBC__)
  return !testing::kSanitized;
#else
  return false;
#endif
}

TEST(Heap, AllocatedBytesAreThoseThatAreHeld) {
  if (!IsOurAllocator()) GTEST_SKIP() << "another allocator";
  const size_t before = AllocatedBytes();
  std::vector<std::unique_ptr<char[]>> blocks;
  for (int i = 0; i < 1000; ++i) blocks.push_back(std::make_unique<char[]>(10'000));
  EXPECT_GT(AllocatedBytes(), before + 9'000'000);
  blocks.clear();
  GiveBackFreed();
  EXPECT_LT(AllocatedBytes(), before + 1'000'000);
}

TEST(Heap, FreedMemoryIsKept) {
  if (!IsOurAllocator()) GTEST_SKIP() << "another allocator";
  KeepFreedMemory();
  ComeAndGo();
  const long before = PageFaults();
  for (int i = 0; i < 20; ++i) ComeAndGo();
  EXPECT_LT(PageFaults() - before, 2000);
}

}  // namespace
}  // namespace luthier::base
