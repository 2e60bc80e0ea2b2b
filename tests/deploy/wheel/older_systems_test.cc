// What the programs for others' machines bring instead of the C library's: it is linked into this test.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace luthier {
namespace {

using Hypot = double (*)(double, double);

Hypot SystemHypot() {
  return reinterpret_cast<Hypot>(dlsym(dlopen("libm.so.6", RTLD_NOW), "hypot"));
}

bool Same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

TEST(OlderSystemsTest, HypotIsOursInThisProgram) {
  EXPECT_NE(SystemHypot(), static_cast<Hypot>(&hypot));
}

TEST(OlderSystemsTest, HypotIsTheSystemsToTheBitForExtremeValues) {
  const Hypot system = SystemHypot();
  using Limits = std::numeric_limits<double>;
  std::vector<double> values = {
      0, Limits::denorm_min(), Limits::min(), 1, 3, 4, Limits::max(), Limits::infinity(), Limits::quiet_NaN()};
  // The bounds where it scales, and both neighbours of each.
  for (const double bound : {0x1p+511, 0x1p-459, 0x1p-513, 0x1p+565, 0x1p+54, 0x1p-54, 0x1p-1022}) {
    for (const double value : {std::nextafter(bound, 0), bound, std::nextafter(bound, HUGE_VAL)}) {
      values.push_back(value);
    }
  }
  for (const double x : values) {
    for (const double y : values) {
      for (const double sign : {1.0, -1.0}) {
        EXPECT_TRUE(Same(hypot(sign * x, y), system(sign * x, y))) << sign * x << " " << y;
      }
    }
  }
}

TEST(OlderSystemsTest, HypotIsTheSystemsToTheBitForMillionsOfValues) {
  const Hypot system = SystemHypot();
  std::mt19937_64 draw(46);
  int64_t differ = 0;
  for (int i = 0; i < 2'000'000; ++i) {
    const uint64_t first = draw();
    // Mostly of about the same size: else the smaller one is lost.
    const uint64_t exponent = ((first >> 52) + draw() % 121 - 60) & 0x7ff;
    const double x = std::bit_cast<double>(first);
    const double y = std::bit_cast<double>((draw() & 0x800fffffffffffffull) | (exponent << 52));
    if (!Same(hypot(x, y), system(x, y))) ++differ;
  }
  EXPECT_EQ(differ, 0);
}

TEST(OlderSystemsTest, SeedsOfTheCxxLibraryAreDrawn) {
  std::random_device seeds;
  const unsigned first = seeds(), second = seeds(), third = seeds();
  EXPECT_TRUE(first != second || second != third);
}

}  // namespace
}  // namespace luthier
