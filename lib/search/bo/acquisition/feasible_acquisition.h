#ifndef LUTHIER_LIB_SEARCH_BO_ACQUISITION_FEASIBLE_ACQUISITION_H_
#define LUTHIER_LIB_SEARCH_BO_ACQUISITION_FEASIBLE_ACQUISITION_H_

#include "Eigen/Core"
#include "lib/search/bo/acquisition/acquisition.h"
#include "lib/search/bo/model/feasibility.h"
#include "lib/study/study_spec.h"

namespace luthier::search {

// An acquisition under the chance that the trial fails. A failure improves on nothing, so
//   EI, PI:          P(u) exp c(ln a(u))        their logarithms: c(a(u)) + ln P(u)
// where c(t) = t, but -14 - ln(-13 - t) below -14: once next to nothing is left to gain anywhere (an EI of 10^-6
// deviations), the model's guess of what might be gained where everything fails, 10^-100 instead of 10^-400, must not
// outweigh any P. For the same reason ln P counts 20 times what it is below 0.7 of the largest P at any success. A
// bound or draw g is on the outputs' scale. There a failure counts as the outputs' lower quartile w:
//   UCB, TS:         w + P(u) (g(u) - w)
// -infinity stays what it is. Borrows both.
class FeasibleAcquisition final : public AcquisitionFunction {
 public:
  FeasibleAcquisition(const AcquisitionFunction* a, const FeasibilityModel* model, study::BoAcquisition kind,
                      double failure_value);

  Eigen::VectorXd Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const override;
  double Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const override;

 private:
  // The value for a(u) and ln P(u), with its derivatives.
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
