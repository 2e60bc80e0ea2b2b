#include "lib/gp/slope_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/kernels/derivatives.h"
#include "lib/math/cholesky.h"
#include "lib/math/triangular_blocks.h"

namespace luthier::gp {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr double kSlopeNoise = 0.1;  // As a share of the prior variance.
constexpr Index kMinSlopes = 5;
constexpr double kMaxMedian = 20.0;
constexpr double kNats = 50.0;
// For right slopes the scale was between 0.2 and 23 whatever the values told, between 0.3 and 8 if they told the sign.
constexpr double kMaxScale = 200.0, kMinScale = 0.02;
constexpr double kMaxSureScale = 10.0, kMinSureScale = 0.1;
// The largest of right slopes was at least 0.46 of the widest secant's where the scale looked too small; the largest of
// slopes a thousandth of the right ones was at most 0.03.
constexpr double kMinOfSecant = 0.1;
constexpr double kMinRange = 0.1;  // As a share of all values' range: less may be noise that theta has missed.

// Returns the slope of the secant through the two of the slopes' points whose values differ most; 0 if these are
// inconclusive.
double WidestSecant(const Eigen::Ref<const MatrixXd>& x, const Eigen::Ref<const VectorXd>& y, const Slopes& slopes) {
  const auto [low, high] =
      std::minmax_element(slopes.points.begin(), slopes.points.end(), [&](Index a, Index b) { return y(a) < y(b); });
  const double rise = y(*high) - y(*low), run = (x.row(*high) - x.row(*low)).norm();
  return run > 0.0 && rise >= kMinRange * (y.maxCoeff() - y.minCoeff()) ? rise / run : 0.0;
}

}  // namespace

absl::StatusOr<std::optional<SlopeCheck>> CheckSlopes(const kernels::KernelShape& shape, const Hyperparameters& theta,
                                                      const Eigen::Ref<const MatrixXd>& x,
                                                      const Eigen::Ref<const VectorXd>& y, const Slopes& slopes,
                                                      const base::StopToken& stop) {
  const Index n = y.size(), m = slopes.size();
  LUTHIER_CHECK(x.rows() == n && x.cols() == shape.columns());
  if (m == 0 || !slopes.Valid(n, x.cols()) || !x.allFinite() || !y.allFinite()) return std::nullopt;
  const kernels::DerivativeKernel kernel(KernelOf(shape, theta));
  kernels::ObservedRows observed;
  observed.points = kernel.kernel().Scale(x);
  observed.directions = kernel.kernel().Scale(slopes.directions);
  for (Index i = 0; i < n; ++i) observed.rows.push_back({i, -1});
  for (Index i = 0; i < m; ++i) observed.rows.push_back({slopes.points[static_cast<size_t>(i)], i});
  MatrixXd c;
  LUTHIER_RETURN_IF_ERROR(kernel.GramLower(observed, &c, stop));
  c.diagonal().head(n).array() += theta.noise_variance;
  c.diagonal().tail(m).array() += kSlopeNoise * kernel.GradientVariances().mean() + slopes.extra_variances.array();
  math::CholeskyOptions options;
  options.jitter_scale = theta.signal_variance;
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<math::Cholesky> factor, math::Cholesky::Factor(c, options, stop));
  if (!factor.has_value()) return std::nullopt;

  // Values first: the last block of L is the factor of S, and the tail of L^-1 [y - m; g] is L_S^-1 (g - mu).
  VectorXd rest(n + m);
  rest.head(n) = (y.array() - theta.mean).matrix();
  rest.tail(m) = slopes.values;
  math::TriangularSpace space;
  MatrixXd inverse;  // L^-T.
  LUTHIER_RETURN_IF_ERROR(math::InverseTransposed(factor->lower(), &space, &inverse, stop));
  const VectorXd whitened = inverse.triangularView<Eigen::Upper>().adjoint() * rest;
  const VectorXd by_slopes = inverse.bottomRightCorner(m, m).triangularView<Eigen::Upper>().adjoint() * slopes.values;
  const VectorXd expected = by_slopes - whitened.tail(m);
  const VectorXd alpha = inverse.triangularView<Eigen::Upper>() * whitened;

  SlopeCheck check;
  check.z = alpha.tail(m).cwiseQuotient(inverse.bottomRows(m).rowwise().norm());
  VectorXd sizes = check.z.cwiseAbs();
  std::nth_element(sizes.data(), sizes.data() + m / 2, sizes.data() + m);
  check.median = sizes(m / 2);

  // In w = 1/scale: -(w^2 a - 2 w b)/2 + m ln |w|, stationary where a w^2 - b w - m = 0: one root of either sign.
  const double a = by_slopes.squaredNorm(), b = by_slopes.dot(expected), count = static_cast<double>(m);
  if (!std::isfinite(a) || !std::isfinite(b) || !std::isfinite(check.median)) return std::nullopt;
  if (a > 0.0) {
    auto log_density = [&](double w) { return -0.5 * w * w * a + w * b + count * std::log(std::abs(w)); };
    // The larger root by the formula, the other by their product -m/a: no cancellation.
    const double far = 0.5 * (b + std::copysign(std::sqrt(b * b + 4.0 * count * a), b)) / a;
    const double near = -count / (a * far);
    const double positive = std::max(far, near), negative = std::min(far, near);
    check.sign_gain = log_density(negative) - log_density(positive);
    const double best = check.sign_gain > 0.0 ? negative : positive;
    check.scale = 1.0 / best;
    check.gain = log_density(best) - log_density(1.0);
  } else {
    // If all slopes are 0, a derivative is cut off somewhere, unless all values are equal, too.
    check.scale = 0.0;
    if (y.maxCoeff() > y.minCoeff()) check.gain = std::numeric_limits<double>::infinity();
  }
  const double size = std::abs(check.scale);
  const bool sure = check.sign_gain < -kNats;
  const auto too_small = [&] {
    return size == 0.0 ||
           (size < kMinScale && slopes.values.cwiseAbs().maxCoeff() < kMinOfSecant * WidestSecant(x, y, slopes));
  };
  const bool wrong_size = sure ? size > kMaxSureScale || size < kMinSureScale : size > kMaxScale || too_small();
  check.contradicts =
      m >= kMinSlopes && (check.median > kMaxMedian || check.sign_gain > kNats || (check.gain > kNats && wrong_size));
  check.confirms = m >= kMinSlopes && sure && !check.contradicts;
  return check;
}

}  // namespace luthier::gp
