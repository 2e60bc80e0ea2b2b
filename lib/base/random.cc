#include "lib/base/random.h"

#include <cmath>
#include <limits>

#include "lib/base/check.h"
#include "lib/base/hash.h"

namespace luthier::base {

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  return c;
}

RandomStream::RandomStream(uint64_t seed, absl::string_view purpose, uint64_t i, uint32_t j) : i_(i), j_(j) {
  const uint64_t name = Hash64(purpose);
  const std::array<uint32_t, 4> key = Philox4x32({static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                                                  static_cast<uint32_t>(name), static_cast<uint32_t>(name >> 32)},
                                                 {0, 0});
  key_ = {key[0], key[1]};
}

void RandomStream::Refill() {
  words_ = Philox4x32({block_++, j_, static_cast<uint32_t>(i_), static_cast<uint32_t>(i_ >> 32)}, key_);
  used_ = 0;
}

uint64_t RandomStream::NextU64() {
  if (used_ > 2) Refill();
  const uint64_t value = words_[used_] | (uint64_t{words_[used_ + 1]} << 32);
  used_ += 2;
  return value;
}

double RandomStream::Uniform() {
  return static_cast<double>(NextU64() >> 11) * 0x1p-53;
}

double RandomStream::UniformOpen() {
  return (static_cast<double>(NextU64() >> 12) + 0.5) * 0x1p-52;
}

uint64_t RandomStream::UniformInt(uint64_t n) {
  LUTHIER_CHECK(n >= 1);
  const uint64_t threshold = (0 - n) % n;
  while (true) {
    const unsigned __int128 product = static_cast<unsigned __int128>(NextU64()) * n;
    if (static_cast<uint64_t>(product) >= threshold) return static_cast<uint64_t>(product >> 64);
  }
}

double RandomStream::Normal() {
  return NormalQuantile(UniformOpen());
}

double RandomStream::ChiSquared(int degrees) {
  double sum = 0.0;
  for (int k = 0; k < degrees; ++k) {
    const double z = Normal();
    sum += z * z;
  }
  return sum;
}

double RandomStream::Gamma(double shape) {
  if (shape < 1.0) {
    // X of shape + 1 times U^(1/shape).
    const double x = Gamma(shape + 1.0);
    return x * std::exp(std::log(UniformOpen()) / shape);
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  while (true) {
    const double z = Normal();
    const double cube = 1.0 + c * z;
    if (!(cube > 0.0)) continue;
    const double v = cube * cube * cube;
    if (std::log(UniformOpen()) < 0.5 * z * z + d * (1.0 - v + std::log(v))) return d * v;
  }
}

double NormalQuantile(double p) {
  if (!(p > 0.0)) return p == 0.0 ? -std::numeric_limits<double>::infinity() : std::nan("");
  if (!(p < 1.0)) return p == 1.0 ? std::numeric_limits<double>::infinity() : std::nan("");
  const double q = p - 0.5;
  // clang-format off
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q *
           (((((((2.5090809287301226727e3 * r + 3.3430575583588128105e4) * r + 6.7265770927008700853e4) * r +
                4.5921953931549871457e4) * r + 1.3731693765509461125e4) * r + 1.9715909503065514427e3) * r +
             1.3314166789178437745e2) * r + 3.3871328727963666080e0) /
           (((((((5.2264952788528545610e3 * r + 2.8729085735721942674e4) * r + 3.9307895800092710610e4) * r +
                2.1213794301586595867e4) * r + 5.3941960214247511077e3) * r + 6.8718700749205790830e2) * r +
             4.2313330701600911252e1) * r + 1.0);
  }
  double r = std::sqrt(-std::log(q < 0.0 ? p : 1.0 - p));
  double value;
  if (r <= 5.0) {
    r -= 1.6;
    value = (((((((7.74545014278341407640e-4 * r + 2.27238449892691845833e-2) * r + 2.41780725177450611770e-1) * r +
                1.27045825245236838258e0) * r + 3.64784832476320460504e0) * r + 5.76949722146069140550e0) * r +
              4.63033784615654529590e0) * r + 1.42343711074968357734e0) /
            (((((((1.05075007164441684324e-9 * r + 5.47593808499534494600e-4) * r + 1.51986665636164571966e-2) * r +
                1.48103976427480074590e-1) * r + 6.89767334985100004550e-1) * r + 1.67638483018380384940e0) * r +
              2.05319162663775882187e0) * r + 1.0);
  } else {
    r -= 5.0;
    value = (((((((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r + 1.24266094738807843860e-3) * r +
                2.65321895265761230930e-2) * r + 2.96560571828504891230e-1) * r + 1.78482653991729133580e0) * r +
              5.46378491116411436990e0) * r + 6.65790464350110377720e0) /
            (((((((2.04426310338993978564e-15 * r + 1.42151175831644588870e-7) * r + 1.84631831751005468180e-5) * r +
                7.86869131145613259100e-4) * r + 1.48753612908506148525e-2) * r + 1.36929880922735805310e-1) * r +
              5.99832206555887937690e-1) * r + 1.0);
  }
  // clang-format on
  return q < 0.0 ? -value : value;
}

}  // namespace luthier::base
