#ifndef LUTHIER_LIB_GP_SLOPE_CHECK_H_
#define LUTHIER_LIB_GP_SLOPE_CHECK_H_

#include <optional>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/gp/hyperparameters.h"
#include "lib/gp/slopes.h"
#include "lib/kernels/stationary.h"

// Checks reported slopes against the reported values. Slopes in the wrong unit or of the wrong sign ruin a search
// without any other sign of it: a model fitted to both bends its lengthscales until they agree.
namespace luthier::gp {

struct SlopeCheck {
  // m: (slope - predicted)/deviation, each predicted from all values and the other slopes.
  Eigen::VectorXd z;
  double median = 0.0;  // Median of |z|.
  // Reported slopes = scale x true ones: the most probable scale, of either sign, given the values. 1 is as it should
  // be.
  double scale = 1.0;
  // Log likelihood of that scale less that of 1 (>= 0), and of the best negative scale less that of the best positive
  // one.
  double gain = 0.0;
  double sign_gain = 0.0;
  // True if there are at least 5 slopes and one of these holds: the median of |z| is above 20; the sign is wrong by 50
  // nats; the scale is wrong by 50 nats and outside 1/50 … 200 (too small only if secants say so, too), or outside 0.1
  // … 10 if the values tell the sign by 50 nats.
  bool contradicts = false;
  // True if the sign is right by 50 nats and nothing contradicts.
  bool confirms = false;
};

// theta: from the values alone (a fit to slopes too would explain wrong ones away); its slope noise is not used. The
// noise of slopes is taken as a tenth of their prior variance, so that noisy slopes and a model that is not quite right
// do not count as contradiction. With slopes g ~ N(mu, S) predicted jointly from the values, and g/scale in their
// place, ln p = -|L^-1 (g/scale - mu)|^2/2 - m ln |scale| + const, maximised in closed form for both signs.
//
// The thresholds are wide because theta, from few values or from values along climbs, may be off by far. For right
// slopes in 72 searches on twelve test functions (2880 checks of 5 to 50 results) the largest sign gain was 30, the
// largest median 6.8, and scales were 0.2 to 23. Flipped slopes gain 50 nats as soon as values say anything about
// slopes.
//
// A scale far too small also results if theta has missed the noise of close values, which then ask for steep slopes
// between them. So if the values do not tell the sign, the largest slope must be below a tenth of that of the secant
// between the two of the reporter's points that differ most in value, by a tenth of all values' range or more: noise is
// small beside that. (By the mean value theorem a slope as steep as the secant exists in between.)
//
// Slopes that are all 0 contradict values that are not all equal.
//
// Returns std::nullopt if a covariance could not be factored or no slopes were given. Takes O((n + m)^3). Returns
// CANCELLED if `stop` was raised.
absl::StatusOr<std::optional<SlopeCheck>> CheckSlopes(const kernels::KernelShape& shape, const Hyperparameters& theta,
                                                      const Eigen::Ref<const Eigen::MatrixXd>& x,
                                                      const Eigen::Ref<const Eigen::VectorXd>& y, const Slopes& slopes,
                                                      const base::StopToken& stop);

}  // namespace luthier::gp

#endif  // LUTHIER_LIB_GP_SLOPE_CHECK_H_
