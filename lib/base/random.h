#ifndef LUTHIER_LIB_BASE_RANDOM_H_
#define LUTHIER_LIB_BASE_RANDOM_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace luthier::base {

// One stream of random numbers named by (seed, purpose, i, j): Philox4x32-10 (Salmon et al. 2011, "Parallel random
// numbers: as easy as 1, 2, 3") with counter = (block, j, i) and as key the first words of Philox4x32-10 of
// (seed, Hash64(purpose)) under key 0: the hash with a seed would give ("abd", seed 0) the key of ("abc", seed 1).
// Streams of different names are independent, nothing is shared, nothing needs saving. Same bits on every machine and
// compiler: std distributions are not used. A stream yields at most 2^33 words, far beyond any use. Not thread-safe;
// copy freely.
class RandomStream {
 public:
  RandomStream(uint64_t seed, absl::string_view purpose, uint64_t i = 0, uint32_t j = 0);

  uint64_t NextU64();
  // Uniform in [0, 1), with 53 bits.
  double Uniform();
  // Uniform in (0, 1), never an end.
  double UniformOpen();
  // Uniform in 0 … n-1 (Lemire's multiply-shift with rejection). n >= 1.
  uint64_t UniformInt(uint64_t n);
  // Standard normal by inversion (Wichura 1988, AS 241): one uniform per normal, so draws stay aligned.
  double Normal();
  // Chi-squared with integer degrees of freedom: a sum of squared normals.
  double ChiSquared(int degrees);
  // Gamma with this shape > 0 and unit scale (Marsaglia & Tsang 2000).
  double Gamma(double shape);
  // Shuffles by Fisher and Yates.
  template <typename T>
  void Shuffle(std::vector<T>& v) {
    for (size_t k = v.size(); k > 1; --k) std::swap(v[k - 1], v[UniformInt(k)]);
  }

 private:
  void Refill();

  std::array<uint32_t, 2> key_;
  uint64_t i_;
  uint32_t j_;
  uint32_t block_ = 0;
  std::array<uint32_t, 4> words_{};
  int used_ = 4;
};

// The Philox4x32-10 block function itself, for known-answer tests.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// Inverse of the standard normal distribution function, p in (0, 1); relative error about 1e-16 (AS 241 PPND16).
double NormalQuantile(double p);

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_RANDOM_H_
