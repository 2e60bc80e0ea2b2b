#ifndef LUTHIER_LIB_MATH_SPECIAL_FUNCTIONS_H_
#define LUTHIER_LIB_MATH_SPECIAL_FUNCTIONS_H_

// Functions of the normal distribution that stay accurate in the tails, where acquisition functions live.
// All are pure, accept any double, return NaN for NaN and never trap.
namespace luthier::math {

// phi(z) = exp(-z^2/2)/sqrt(2 pi).
double NormalDensity(double z);

// ln phi(z).
double LogNormalDensity(double z);

// Phi(z) = erfc(-z/sqrt 2)/2, relative error a few 1e-16 down to its underflow at z = -38.
double NormalCdf(double z);

// ln Phi(z), above -inf for |z| < 1e154; relative error below 1e-14 for z <= 5, a few z^2 ulp above.
double LogNormalCdf(double z);

// phi(z)/Phi(z), the derivative of LogNormalCdf: about -z far left, where both underflow. Relative error below 1e-14
// for z <= 5.
double InverseMills(double z);

// Phi(a) - Phi(b) without cancellation in the tails; negative when a < b.
double NormalCdfDifference(double a, double b);

// ln(Phi(a) - Phi(b)) and its derivatives for a >= b, where the difference itself may underflow; -inf (and derivatives
// 0) when a == b, NaN when a < b. Either may be infinite. After reflection to a + b <= 0:
//   a - b small:  ln phi(m) + ln(a - b) + ln(1 + D/24 + …), m = (a + b)/2: the even Hermite series of the integral
//   else:         ln Phi(a) + ln(1 - Phi(b)/Phi(a)), the ratio by erfcx and (a - b)(a + b)/2
// Value and derivatives: relative error below 1e-11, or absolute 1e-12 for the value near 0.
struct LogCdfDifferenceValue {
  double value;
  double by_a;  // phi(a)/(Phi(a) - Phi(b))
  double by_b;  // -phi(b)/(Phi(a) - Phi(b))
};
LogCdfDifferenceValue LogNormalCdfDifference(double a, double b);

// ln(Phi(m + w/2) - Phi(m - w/2)) for a slice narrower than 1e-2/(1 + |m|), w > 0: the series above, of a width that is
// known better than as a difference of two ends. Relative error of value and derivatives as above, whatever w.
struct LogNormalSliceValue {
  double value;
  double by_middle;  // (phi(m + w/2) - phi(m - w/2))/(Phi(m + w/2) - Phi(m - w/2)): about -m
  double by_width;   // their half sum over the same: about 1/w
};
LogNormalSliceValue LogNormalSlice(double middle, double width);

// erfcx(x) = exp(x^2) erfc(x); +inf for x < -26.6. Relative error below 2e-15 for x >= -4.
// x < 4 by its definition, x >= 4 by the continued fraction (1/sqrt pi)/(x + (1/2)/(x + (2/2)/(x + ...))), 20 levels.
double Erfcx(double x);

// ln(1 - exp(a)) for a < 0 (Maechler 2012, "Accurately computing log(1 - exp(-|a|))"); -inf at 0, NaN above.
double Log1mExp(double a);

// ln(exp(a) + exp(b)) and ln(exp(a) - exp(b)) for a >= b, without overflow; -inf where the result is 0.
double LogSumExp(double a, double b);
double LogDiffExp(double a, double b);

// LogH(z) = ln(phi(z) + z Phi(z)): the logarithm of the expected improvement in units of sigma (Ament et al. 2023,
// "Unexpected improvements to expected improvement"). `slope` is its derivative h'/h = Phi/(phi + z Phi).
//   z > -1:         the definition
//   -50 < z <= -1:  -z^2/2 - ln(2 pi)/2 + ln(1 - exp(ln(erfcx(-z/sqrt 2) |z|) + ln(pi/2)/2))
//   z <= -50:       -z^2/2 - ln(2 pi)/2 + ln S, S = w (1 - w (3 - w (15 - w (105 - 945 w)))), w = 1/z^2
// The last switch is at -50 and not, as in the paper, at -1/sqrt(eps): the middle form loses digits like z^2.
// Absolute error of the value below 1e-12 for z in [-1e3, 5], relative below 1e-13 beyond; slope relative below 1e-12.
struct LogHValue {
  double value;
  double slope;
};
LogHValue LogH(double z);

// ln I(z, q), I = int_0^q t phi(t - z) dt, q in (0, inf]: the truncated expected improvement in units of sigma. LogH(z)
// at q = inf; -inf, with derivatives 0, for q <= 0. By quadrature, not by h(z) - h(z - q) - q Phi(z - q), which
// cancels: 20 Gauss-Legendre nodes on each side of the integrand's peak, over what lies within exp(-37) of it. The
// integrand is positive, so nothing cancels anywhere. Derivatives: by_z = (Phi(z) - Phi(z - q) - q phi(q - z))/I, by_q
// = q phi(q - z)/I. Absolute error of the value below 1e-12 (relative below 1e-13 where it is large), of the
// derivatives relative below 1e-10 away from their zeros. About 0.3 microseconds.
struct LogPartialMomentValue {
  double value;
  double by_z;
  double by_q;
};
LogPartialMomentValue LogPartialMoment(double z, double q);

}  // namespace luthier::math

#endif  // LUTHIER_LIB_MATH_SPECIAL_FUNCTIONS_H_
