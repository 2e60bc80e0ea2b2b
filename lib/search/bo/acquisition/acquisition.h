#ifndef LUTHIER_LIB_SEARCH_BO_ACQUISITION_ACQUISITION_H_
#define LUTHIER_LIB_SEARCH_BO_ACQUISITION_ACQUISITION_H_

#include <cstdint>
#include <vector>

#include "Eigen/Core"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/gp/regression.h"

// Functions that model-based designers maximise to choose their next point. Larger is better, in the model's outputs
// too. Notation: mean mu and deviation sigma > 0 of the latent f at a point, y* the value to beat, z = (mu - y*)/sigma.
namespace luthier::search {

// A value and its derivatives by the predictive mean and standard deviation.
struct AcquisitionTerm {
  double value;
  double by_mean;
  double by_deviation;
};

// Expected improvement of N(mean, deviation^2) over `best` (Jones, Schonlau & Welch 1998, eq. 15):
//   EI = E max(f - best, 0) = deviation (z Phi(z) + phi(z))
// with dEI/dmean = Phi(z), dEI/ddeviation = phi(z). deviation > 0.
AcquisitionTerm ExpectedImprovement(double mean, double deviation, double best);

// ln EI = ln deviation + LogH(z), finite where EI itself underflows (Ament et al. 2023). deviation > 0.
AcquisitionTerm LogExpectedImprovement(double mean, double deviation, double best);

// PI = P(f > best) = Phi(z) (Kushner 1964) and its logarithm. With `best` the incumbent itself it only exploits: add a
// margin.
AcquisitionTerm ProbabilityOfImprovement(double mean, double deviation, double best);
AcquisitionTerm LogProbabilityOfImprovement(double mean, double deviation, double best);

// UCB = mean + root_beta deviation. root_beta up to 1e150 or so.
AcquisitionTerm UpperConfidenceBound(double mean, double deviation, double root_beta);
// UCB of a minus UCB of b as (mean_a - mean_b) + root_beta (deviation_a - deviation_b): with a root_beta of 1e8 the sum
// itself has no digits left for the mean, this difference does.
double UpperConfidenceAdvantage(double mean_a, double deviation_a, double mean_b, double deviation_b, double root_beta);

// The growth of UCB's weight. Sources give beta "after Kandasamy" without agreeing on it; t is the number of points
// completed and pending plus 1, d the number of coordinates.
enum class BetaRule {
  kKandasamy15,  // 0.2 d ln(2 t): Kandasamy, Schneider & Poczos 2015.
  kDragonfly,    // 0.5 d ln(2 d t + 1): the same group's Dragonfly.
  kK17Code,      // 5 d ln(2 d t + 1): code released with Kandasamy et al. 2017.
  kConstant,
};
// sqrt(beta). d >= 1, t >= 1; constant_beta >= 0 is read by kConstant alone.
double RootBeta(BetaRule rule, int d, int64_t t, double constant_beta = 0.0);

// A function to maximise on the unit cube of model coordinates, larger is better. Thread-safe.
class AcquisitionFunction {
 public:
  virtual ~AcquisitionFunction() = default;
  // q values for the q x d points in the rows of u. May hold NaN; callers take that for -infinity.
  // The value at a point does not depend on the others: many points are given by pieces (EvaluateInPieces).
  virtual Eigen::VectorXd Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const = 0;
  // The value at one point and, in the not-null `gradient`, its d derivatives. -infinity marks a point outside the
  // domain (its gradient is 0): math::MinimizeLbfgs steps back from such points.
  virtual double Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const = 0;
};

// One posterior of f and the value to beat under it. Several of them (hyperparameters drawn by Markov chain Monte
// Carlo) are averaged over. The regression is borrowed.
struct ModelState {
  const gp::Regression* regression = nullptr;
  double best = 0.0;  // In the regression's units.
};

enum class AcquisitionKind {
  kExpectedImprovement,
  kLogExpectedImprovement,
  kProbabilityOfImprovement,
  kLogProbabilityOfImprovement,
  kUpperConfidenceBound,
};

inline constexpr double kDefaultImprovementMargin = 0.01;  // For PI, in units of the outputs' deviation.

struct AcquisitionSettings {
  AcquisitionKind kind = AcquisitionKind::kLogExpectedImprovement;
  double margin = 0.0;     // xi: an improvement counts from best + margin on. >= 0.
  double root_beta = 0.0;  // Weight of the deviation in UCB: RootBeta().
};

// The term of settings.kind for one posterior.
AcquisitionTerm EvaluateTerm(const AcquisitionSettings& settings, double mean, double deviation, double best);

// Returns true if `kind` is a logarithm.
bool IsLogarithm(AcquisitionKind kind);

// Averages over states: the mean, or for logarithms ln mean exp, so that the average is that of EI or PI itself either
// way. With one state both are that state's value, bit for bit.
// values: q x states. Returns q.
Eigen::VectorXd AverageStates(const Eigen::MatrixXd& values, bool logarithm);
// values: states; gradients: d x states.
double AverageStates(const Eigen::VectorXd& values, const Eigen::MatrixXd& gradients, bool logarithm,
                     Eigen::VectorXd* gradient);

// An acquisition averaged over posteriors. Borrows their regressions.
class ModelAcquisition : public AcquisitionFunction {
 public:
  // At least one state; all of the same columns.
  ModelAcquisition(std::vector<ModelState> states, const AcquisitionSettings& settings);

  Eigen::VectorXd Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const override;
  double Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const override;

  // The row of u with the largest value, ties to the first, -1 when none is a number; UCB by UpperConfidenceAdvantage.
  Eigen::Index BestRow(const Eigen::Ref<const Eigen::MatrixXd>& u) const;

 private:
  std::vector<ModelState> states_;
  AcquisitionSettings settings_;
};

// (Log) expected improvement under one regression.
class ImprovementAcquisition final : public ModelAcquisition {
 public:
  // `best`: the value to beat, in the regression's units.
  ImprovementAcquisition(const gp::Regression* model, double best, bool logarithm)
      : ModelAcquisition({{model, best}}, {.kind = logarithm ? AcquisitionKind::kLogExpectedImprovement
                                                             : AcquisitionKind::kExpectedImprovement}) {}
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_ACQUISITION_ACQUISITION_H_
