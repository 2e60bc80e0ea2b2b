// Functions of the C library that programs for others' machines bring themselves, so that they start where it is older
// than the one they were linked on: with these, all that they need was in version 2.34.
#include <sys/random.h>

#include <cmath>
#include <cstdlib>

namespace {

// Scales that keep squares in range.
constexpr double kScale = 0x1p-600, kLarge = 0x1p+511, kTiny = 0x1p-459;
// Half of what is lost in a sum.
constexpr double kNothing = 0x1p-54;

// The root of a * a + b * b, corrected for what the squares lost: C. F. Borges, "An improved algorithm for hypot(a,
// b)". a >= b >= 0.
double CorrectedRoot(double a, double b) {
#ifdef __aarch64__  // As that library is compiled there; on x86-64 it fuses nothing, whatever the processor has.
  const double twice = b + b, difference = a - b;
  if (twice >= a) return std::sqrt(std::fma(twice, a, difference * difference));
  return std::sqrt(std::fma(a, a, b * b));
#else
  const double root = std::sqrt(a * a + b * b);
  double error;
  if (root <= 2 * b) {
    const double delta = root - b;
    error = a * (2 * delta - a) + (delta - 2 * (a - b)) * delta;
  } else {
    const double delta = root - a;
    error = 2 * delta * (a - 2 * b) + ((4 * delta - b) * b + delta * delta);
  }
  return root - error / (2 * root);
#endif
}

}  // namespace

extern "C" {

// To the bit what the GNU C library returns from version 2.35 on: suggestions are computed with it. Older ones round
// otherwise.
double hypot(double x, double y) {
  if (!std::isfinite(x) || !std::isfinite(y)) return std::isinf(x) || std::isinf(y) ? HUGE_VAL : x + y;
  x = std::fabs(x);
  y = std::fabs(y);
  const double a = x < y ? y : x, b = x < y ? x : y;
  if (a > kLarge) return b <= a * kNothing ? a + b : CorrectedRoot(a * kScale, b * kScale) / kScale;
  if (b < kTiny) return a >= b / kNothing ? a + b : CorrectedRoot(a / kScale, b / kScale) * kScale;
  return b <= a * kNothing ? a + b : CorrectedRoot(a, b);
}

// Seeds of std::random_device, which the C++ library draws by this function of version 2.36.
unsigned arc4random() {
  unsigned drawn;
  if (getentropy(&drawn, sizeof(drawn)) != 0) std::abort();  // No kernel that this program starts on lacks it.
  return drawn;
}

}  // extern "C"
