#ifndef LUTHIER_LIB_SEARCH_BO_ACQUISITION_TRUNCATED_H_
#define LUTHIER_LIB_SEARCH_BO_ACQUISITION_TRUNCATED_H_

#include <vector>

#include "Eigen/Core"
#include "lib/search/bo/acquisition/acquisition.h"
#include "lib/search/bo/lipschitz/slope_bounds.h"

// Acquisitions under a belief that f(u) lies in a band [lower, upper]: a model's predictions truncated to what a
// Lipschitz constant allows. Notation as in acquisition.h; a = max(y*, lower), U = upper, z_v = (mu - v)/sigma.
namespace luthier::search {

// A value with its derivatives by mean, deviation and the two ends of the band.
struct TruncatedTerm {
  double value;
  double by_mean;
  double by_deviation;
  double by_lower;
  double by_upper;
};

// The truncated form of settings.kind:
//   TEI = int_a^U (f - y*) N(f; mu, sigma^2) df = sigma I(z_a, (U - a)/sigma) + (a - y*) TPI     (I: LogPartialMoment)
//   TPI = int_a^U N(f; mu, sigma^2) df = Phi(z_a) - Phi(z_U)
//   TUCB = min(UCB, U)
// and the logarithms of TEI and TPI. (The printed source of TEI has the sign of one term wrong; with U = +infinity it
// must be EI.) `normalised` divides TEI and TPI by the band's own mass Phi(z_lower) - Phi(z_U), which makes them an
// expectation and a probability; the mass is handled by its logarithm, so it may underflow. For a band narrower than
// 1e-6 deviations (or 1e-6 of its distance from the mean) the width is used instead of the two ends in deviations,
// which keeps relative errors below 1e-9 however narrow the band is. A band of no width (lower >= upper) is a point
// mass at its end nearest to the mean.
//
// If nothing can be gained (U <= a), TEI and TPI are 0, and their logarithms are -1e30 (1 + a - U): finite, below every
// other value, and with a gradient that leads to where U is largest. A band without ends gives EvaluateTerm's value,
// bit for bit. deviation > 0; lower may be -infinity, upper +infinity.
TruncatedTerm EvaluateTruncated(const AcquisitionSettings& settings, bool normalised, double mean, double deviation,
                                double best, double lower, double upper);

// A truncated acquisition, averaged over posteriors. Borrows their regressions and the bounds, which must be in the
// regressions' units.
class TruncatedAcquisition final : public AcquisitionFunction {
 public:
  TruncatedAcquisition(std::vector<ModelState> states, const AcquisitionSettings& settings, const OutputBounds* bounds,
                       bool normalised = false);

  Eigen::VectorXd Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const override;
  double Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const override;

  // Counts the points given to Values at which the band matters under some state: it cuts off more than a thousandth of
  // the probability of improvement (P(f > U) > 1e-3 P(f > y* + margin)), or, for UCB, lies below the confidence bound.
  BindCount bind_count() const { return counter_.count(); }

 private:
  bool Binds(double mean, double deviation, double best, double upper) const;

  std::vector<ModelState> states_;
  AcquisitionSettings settings_;
  const OutputBounds* bounds_;
  bool normalised_;
  mutable BindCounter counter_;
};

// Accept-reject: returns g where lower <= g <= upper, and -infinity with gradient 0 elsewhere. `g` is on the scale of
// f: an upper confidence bound or a drawn function, not an improvement. No maximiser proposes a rejected point: a
// screening ranks it last, and MinimizeLbfgs neither starts there nor ends a step there. A search often ends on the
// edge of the band, where Values and Value may round to different sides. With a gradient the band is therefore narrower
// by 1e-8 max(1, |g|). If every point is rejected there is no candidate, and the caller uses ProposeLipo. The bounds
// bring their own slack.
class AcceptRejectAcquisition final : public AcquisitionFunction {
 public:
  // Borrows both.
  AcceptRejectAcquisition(const AcquisitionFunction* g, const OutputBounds* bounds) : g_(g), bounds_(bounds) {}

  Eigen::VectorXd Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const override;
  double Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const override;
  bool Rejected(const Eigen::VectorXd& u) const;

  // Counts the points given to Values that were rejected.
  BindCount bind_count() const { return counter_.count(); }

 private:
  const AcquisitionFunction* g_;
  const OutputBounds* bounds_;
  mutable BindCounter counter_;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_ACQUISITION_TRUNCATED_H_
