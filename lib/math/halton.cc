#include "lib/math/halton.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/random.h"

namespace luthier::math {
namespace {

constexpr std::array<uint64_t, HaltonSequence::kMaxHaltonDimension> kPrimes = {
    2,  3,  5,  7,  11, 13, 17, 19, 23, 29, 31,  37,  41,  43,  47,
    53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113};
// A coordinate is at most this, so that it stays below 1 whatever the sum of its digits rounds to.
constexpr double kBelowOne = 1.0 - 0x1p-53;

// Places of base b down to 2^-52.
size_t Places(uint64_t base) {
  return static_cast<size_t>(std::ceil(52.0 / std::log2(static_cast<double>(base))));
}

}  // namespace

HaltonSequence::HaltonSequence(int dimension) : dimension_(dimension), beyond_purpose_("halton/beyond") {
  LUTHIER_CHECK(dimension >= 0);
  for (int j = 0; j < std::min(dimension, kMaxHaltonDimension); ++j) {
    columns_.push_back({kPrimes[static_cast<size_t>(j)], {}});
  }
}

HaltonSequence::HaltonSequence(int dimension, uint64_t seed, absl::string_view purpose) : HaltonSequence(dimension) {
  seed_ = seed;
  beyond_purpose_ = absl::StrCat(purpose, "/beyond");
  for (size_t j = 0; j < columns_.size(); ++j) {
    Column& column = columns_[j];
    base::RandomStream random(seed, purpose, j);
    std::vector<uint8_t> digits(column.base);
    for (size_t place = 0; place < Places(column.base); ++place) {
      for (size_t a = 0; a < digits.size(); ++a) digits[a] = static_cast<uint8_t>(a);
      random.Shuffle(digits);
      column.permutation.insert(column.permutation.end(), digits.begin(), digits.end());
    }
  }
}

Eigen::VectorXd HaltonSequence::Point(uint64_t index) const {
  Eigen::VectorXd point(dimension_);
  for (size_t j = 0; j < columns_.size(); ++j) {
    const Column& column = columns_[j];
    const double step = 1.0 / static_cast<double>(column.base);
    const size_t places = Places(column.base);
    uint64_t rest = index;
    double x = 0.0, unit = step;
    for (size_t place = 0; place < places && (rest > 0 || !column.permutation.empty()); ++place) {
      uint64_t digit = rest % column.base;
      if (!column.permutation.empty()) digit = column.permutation[place * column.base + digit];
      x += static_cast<double>(digit) * unit;
      rest /= column.base;
      unit *= step;
    }
    point(static_cast<Eigen::Index>(j)) = std::min(x, kBelowOne);
  }
  for (Eigen::Index j = static_cast<Eigen::Index>(columns_.size()); j < point.size(); ++j) {
    point(j) = base::RandomStream(seed_, beyond_purpose_, index, static_cast<uint32_t>(j)).Uniform();
  }
  return point;
}

}  // namespace luthier::math
