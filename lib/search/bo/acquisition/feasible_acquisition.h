#ifndef LUTHIER_LIB_SEARCH_BO_ACQUISITION_FEASIBLE_ACQUISITION_H_
#define LUTHIER_LIB_SEARCH_BO_ACQUISITION_FEASIBLE_ACQUISITION_H_

#include "Eigen/Core"
#include "lib/search/bo/acquisition/acquisition.h"
#include "lib/search/bo/model/feasibility.h"
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
// Values that are not finite are returned unchanged. Borrows both arguments. Thread-safe if they are.
class FeasibleAcquisition final : public AcquisitionFunction {
 public:
  FeasibleAcquisition(const AcquisitionFunction* a, const FeasibilityModel* model, study::BoAcquisition kind,
                      double failure_value);

  Eigen::VectorXd Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const override;
  double Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const override;

 private:
  // Returns the value given `a` = a(u) and `log` = ln P(u), and sets its derivatives by both.
  double Combine(double a, double log, double* by_a, double* by_log) const;

  const AcquisitionFunction* a_;
  const FeasibilityModel* model_;
  bool logarithm_, bound_;
  double failure_value_;
};

// Returns the value that a failure counts as for UCB and TS, given the outputs of the results (at least one).
double FailureValue(Eigen::VectorXd outputs);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_ACQUISITION_FEASIBLE_ACQUISITION_H_
