#ifndef LUTHIER_LIB_SUGGEST_ACQUISITION_H_
#define LUTHIER_LIB_SUGGEST_ACQUISITION_H_

#include "Eigen/Core"
#include "lib/gp/regression.h"

namespace luthier::suggest {

// A value and its derivatives by the predictive mean and standard deviation.
struct AcquisitionTerm {
  double value;
  double by_mean;
  double by_deviation;
};

// Expected improvement of N(mean, deviation^2) over `best` when larger is better (Jones, Schonlau & Welch 1998, eq.
// 15):
//   EI = E max(f - best, 0) = deviation (z Phi(z) + phi(z)), z = (mean - best)/deviation
// with dEI/dmean = Phi(z), dEI/ddeviation = phi(z). deviation > 0.
AcquisitionTerm ExpectedImprovement(double mean, double deviation, double best);

// ln EI = ln deviation + LogH(z), finite where EI itself underflows (Ament et al. 2023). deviation > 0.
AcquisitionTerm LogExpectedImprovement(double mean, double deviation, double best);

// What a maximiser climbs: a function on the unit cube of model coordinates, larger is better. Thread-safe.
class AcquisitionFunction {
 public:
  virtual ~AcquisitionFunction() = default;
  // q values for the q x d points in the rows of u. May hold NaN; callers take that for -infinity.
  virtual Eigen::VectorXd Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const = 0;
  // The value at one point and, in the not-null `gradient`, its d derivatives.
  virtual double Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const = 0;
};

// (Log) expected improvement under a regression. Borrows it.
class ImprovementAcquisition final : public AcquisitionFunction {
 public:
  // `best`: the value to beat, in the regression's units.
  ImprovementAcquisition(const gp::Regression* model, double best, bool logarithm)
      : model_(model), best_(best), logarithm_(logarithm) {}

  Eigen::VectorXd Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const override;
  double Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const override;

 private:
  AcquisitionTerm Term(double mean, double variance) const;

  const gp::Regression* model_;
  double best_;
  bool logarithm_;
};

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_ACQUISITION_H_
