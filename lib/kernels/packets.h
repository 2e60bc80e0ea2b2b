#ifndef LUTHIER_LIB_KERNELS_PACKETS_H_
#define LUTHIER_LIB_KERNELS_PACKETS_H_

#include <cstdint>

#include "Eigen/Core"
#include "lib/kernels/kernel.h"

// The profiles for a vector register of distances at once, and loops over rows by whole registers. For the .cc files of
// this folder: everything is inlined there, so that a covariance is computed from the coordinates without passes over
// memory in between. A pair of points gets the same bits wherever in an array it stands.
namespace luthier::kernels::packets {

using Eigen::Index;
using Packet = Eigen::internal::packet_traits<double>::type;
inline constexpr Index kLanes = Eigen::internal::packet_traits<double>::size;
static_assert(sizeof(Packet) == kLanes * sizeof(double));

EIGEN_ALWAYS_INLINE Packet Set(double x) {
  return Eigen::internal::pset1<Packet>(x);
}
// a b + c: one rounding where the instruction set has fused operations, two where it has not.
EIGEN_ALWAYS_INLINE Packet MulAdd(Packet a, Packet b, Packet c) {
  return Eigen::internal::pmadd(a, b, c);
}
// kOne: a single double in all lanes; only the first lane is stored.
template <bool kOne>
EIGEN_ALWAYS_INLINE Packet Load(const double* from) {
  if constexpr (kOne) return Set(*from);
  return Eigen::internal::ploadu<Packet>(from);
}
template <bool kOne>
EIGEN_ALWAYS_INLINE void Store(double* to, Packet x) {
  if constexpr (kOne) {
    *to = Eigen::internal::pfirst(x);
  } else {
    Eigen::internal::pstoreu(to, x);
  }
}
// `from` with 0 in the first `skip` lanes; kOne: in all but the first.
template <bool kOne>
EIGEN_ALWAYS_INLINE Packet LoadFrom(const double* from, Index skip) {
  if (!kOne && skip == 0) return Load<false>(from);
  double lanes[kLanes] = {};
  for (Index lane = skip; lane < (kOne ? 1 : kLanes); ++lane) lanes[lane] = from[lane];
  return Eigen::internal::ploadu<Packet>(lanes);
}

// exp(x) for x <= 0, relative error below 2e-16; 0 below -708, NaN for NaN. x = n ln 2 + r, |r| <= ln(2)/2; Taylor's
// polynomial of degree 13 leaves 4e-18.
EIGEN_ALWAYS_INLINE Packet ExpOfNegative(Packet x) {
  using Bits = int64_t __attribute__((vector_size(sizeof(Packet))));
  // Adding 1.5 2^52 rounds to a whole number, which is then in the low bits.
  constexpr double kRound = 0x1.8p52;
  constexpr double kLog2E = 1.4426950408889634074;
  constexpr double kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10;
  constexpr double kLeast = -708.0;
  const Packet clamped = Eigen::internal::pmax<Eigen::PropagateNaN>(x, Set(kLeast));
  const Packet shifted = Eigen::internal::padd(Eigen::internal::pmul(clamped, Set(kLog2E)), Set(kRound));
  const Packet n = Eigen::internal::psub(shifted, Set(kRound));
  const Packet r = MulAdd(n, Set(-kLn2Low), MulAdd(n, Set(-kLn2High), clamped));
  Packet p = Set(1.0 / 6227020800.0);
  p = MulAdd(p, r, Set(1.0 / 479001600.0));
  p = MulAdd(p, r, Set(1.0 / 39916800.0));
  p = MulAdd(p, r, Set(1.0 / 3628800.0));
  p = MulAdd(p, r, Set(1.0 / 362880.0));
  p = MulAdd(p, r, Set(1.0 / 40320.0));
  p = MulAdd(p, r, Set(1.0 / 5040.0));
  p = MulAdd(p, r, Set(1.0 / 720.0));
  p = MulAdd(p, r, Set(1.0 / 120.0));
  p = MulAdd(p, r, Set(1.0 / 24.0));
  p = MulAdd(p, r, Set(1.0 / 6.0));
  p = MulAdd(p, r, Set(0.5));
  p = MulAdd(p, r, Set(1.0));
  p = MulAdd(p, r, Set(1.0));
  const Bits exponent = (__builtin_bit_cast(Bits, shifted) + 1023) << 52;
  const Packet result = Eigen::internal::pmul(p, __builtin_bit_cast(Packet, exponent));
  return Eigen::internal::pandnot(result, Eigen::internal::pcmp_lt(x, Set(kLeast)));
}

struct Profile {
  Packet value, slope;  // At unit variance: see ProfileValue.
};

template <Family family>
EIGEN_ALWAYS_INLINE Profile ProfileOf(Packet r2) {
  using Eigen::internal::padd;
  using Eigen::internal::pmul;
  using Eigen::internal::pnegate;
  using Eigen::internal::psqrt;
  const Packet one = Set(1.0);
  if constexpr (family == Family::kSquaredExponential) {
    const Packet k = ExpOfNegative(pmul(Set(-0.5), r2));
    return {k, pmul(Set(-0.5), k)};
  } else {
    const Packet r = psqrt(pmul(Set(5.0), r2));
    const Packet e = ExpOfNegative(pnegate(r));
    const Packet linear = padd(one, r);
    return {pmul(MulAdd(pmul(r, r), Set(1.0 / 3.0), linear), e), pmul(pmul(Set(-5.0 / 6.0), linear), e)};
  }
}

// Calls f.template operator()<kPackets, kOne>(row, skip) so that rows 0 … m-1 are covered: kPackets registers of rows
// from `row` on, the first `skip` of which were done before; kOne: that row alone.
template <typename F>
inline void OverRows(Index m, F&& f) {
  Index i = 0;
  for (; i + 4 * kLanes <= m; i += 4 * kLanes) f.template operator()<4, false>(i, Index{0});
  for (; i + kLanes <= m; i += kLanes) f.template operator()<1, false>(i, Index{0});
  if (i == m) return;
  if (m >= kLanes) {
    f.template operator()<1, false>(m - kLanes, i - (m - kLanes));
  } else {
    for (; i < m; ++i) f.template operator()<1, true>(i, Index{0});
  }
}

// f.template operator()<family>() for the given one.
template <typename F>
inline void WithFamily(Family family, F&& f) {
  switch (family) {
    case Family::kSquaredExponential:
      return f.template operator()<Family::kSquaredExponential>();
    case Family::kMatern52:
      return f.template operator()<Family::kMatern52>();
  }
}

}  // namespace luthier::kernels::packets

#endif  // LUTHIER_LIB_KERNELS_PACKETS_H_
