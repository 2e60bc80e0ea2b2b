#include "lib/linear/blocked_sum.h"

#include <gtest/gtest.h>

#include <cmath>

namespace luthier::linear {
namespace {

TEST(BlockedSumTest, KeepsWhatPlainSummationLoses) {
  BlockedSum sum;
  double plain = 0.0;
  for (int i = 0; i < 10'000'00; ++i) {
    sum.Add(0.1);
    plain += 0.1;
  }
  EXPECT_LT(std::abs(sum.Total() - 1e5), 1e-9);
  EXPECT_GT(std::abs(plain - 1e5), 1e-7);
  EXPECT_EQ(BlockedSum().Total(), 0.0);
}

}  // namespace
}  // namespace luthier::linear
