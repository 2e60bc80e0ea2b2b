#ifndef LUTHIER_LIB_SEARCH_BO_ACQUISITION_FEASIBLE_ACQUISITION_H_
#define LUTHIER_LIB_SEARCH_BO_ACQUISITION_FEASIBLE_ACQUISITION_H_

#include <utility>
#include <vector>

#include "Eigen/Core"
#include "lib/search/bo/acquisition/acquisition.h"
#include "lib/search/bo/model/feasibility.h"
#include "lib/search/bo/model/metric_models.h"
#include "lib/study/study_spec.h"

namespace luthier::search {

// An acquisition weighted by the probability P(u) that a trial succeeds. A failed trial improves on nothing, so that
//   EI, PI:          P(u) exp c(ln a(u))        their logarithms: c(a(u)) + ln P(u)
// Here c(t) = t for t >= -14 and -14 - ln(-13 - t) below: it compresses negligible improvements. Without it, once an EI
// of 10^-6 deviations is the largest, a ratio of 10^-100 to 10^-400 between two hopeless points would outweigh any
// difference in P. For the same reason ln P is multiplied by 20 where P is below 0.7 of the largest P at any success.
// An upper confidence bound or a drawn function g is on the scale of the outputs. There a failure counts as the
// outputs' lower quartile w:
//   UCB, TS:         w + P(u) (g(u) - w)
// Bounds of metrics multiply P(u) by the probability B(u) that a result keeps them (Gardner et al. 2014, "Bayesian
// optimization with inequality constraints"), whose logarithm is not weighted. Before any result keeps them there is
// nothing to improve on: the value is then ln P(u) + ln B(u) alone.
// Values that are not finite are returned unchanged. Borrows its arguments. Thread-safe if they are.
class FeasibleAcquisition final : public AcquisitionFunction {
 public:
  // `a`: null before any result keeps the bounds. `model`: null if no failures are known.
  FeasibleAcquisition(const AcquisitionFunction* a, const FeasibilityModel* model, study::BoAcquisition kind,
                      double failure_value, std::vector<OutcomeBound> bounds = {});

  Eigen::VectorXd Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const override;
  double Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const override;

 private:
  // The value, and its derivatives by a(u), ln P(u) and ln B(u).
  struct Combined {
    double value = 0.0, by_a = 0.0, by_failures = 0.0, by_bounds = 0.0;
  };
  Combined Combine(double a, double failures, double bounds) const;

  const AcquisitionFunction* a_;
  const FeasibilityModel* model_;
  bool logarithm_, bound_;
  double failure_value_;
  std::vector<OutcomeBound> bounds_;
};

// Returns the value that a failure counts as for UCB and TS, given the outputs of the results (at least one).
double FailureValue(Eigen::VectorXd outputs);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_ACQUISITION_FEASIBLE_ACQUISITION_H_
