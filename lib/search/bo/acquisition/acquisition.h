#ifndef LUTHIER_LIB_SEARCH_BO_ACQUISITION_ACQUISITION_H_
#define LUTHIER_LIB_SEARCH_BO_ACQUISITION_ACQUISITION_H_

#include <cstdint>
#include <vector>

#include "Eigen/Core"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/gp/regression.h"

// Acquisition functions: model-based designers maximise one to choose their next point. Larger is better, also in the
// model's outputs. Notation: f ~ N(mean, deviation^2) is the latent value at a point, `best` the value to beat,
// z = (mean - best)/deviation, phi and Phi the normal density and distribution. deviation > 0 throughout.
namespace luthier::search {

// An acquisition's value at a point, and its derivatives by the predictive mean and standard deviation.
struct AcquisitionTerm {
  double value;
  double by_mean;
  double by_deviation;
};

// Returns the expected improvement over `best` (Jones, Schonlau & Welch 1998, eq. 15):
//   EI = E max(f - best, 0) = deviation (z Phi(z) + phi(z)),   dEI/dmean = Phi(z),   dEI/ddeviation = phi(z)
AcquisitionTerm ExpectedImprovement(double mean, double deviation, double best);

// Returns ln EI = ln deviation + LogH(z), which is finite where EI itself underflows (Ament et al. 2023).
AcquisitionTerm LogExpectedImprovement(double mean, double deviation, double best);

// Returns PI = P(f > best) = Phi(z) (Kushner 1964). If `best` is the incumbent's value, PI only exploits; pass that
// value plus a margin. The second function returns ln PI.
AcquisitionTerm ProbabilityOfImprovement(double mean, double deviation, double best);
AcquisitionTerm LogProbabilityOfImprovement(double mean, double deviation, double best);

// Returns UCB = mean + root_beta deviation. root_beta <= 1e150, so that products stay finite.
AcquisitionTerm UpperConfidenceBound(double mean, double deviation, double root_beta);
// Returns UCB of a minus UCB of b, as (mean_a - mean_b) + root_beta (deviation_a - deviation_b). With a large root_beta
// (1e8) the two sums round the means away; this difference keeps them.
double UpperConfidenceAdvantage(double mean_a, double deviation_a, double mean_b, double deviation_b, double root_beta);

// Rules by which UCB's weight grows. Several publications of one group give different ones. t is 1 plus the number of
// completed and pending points, d the number of coordinates.
enum class BetaRule {
  kKandasamy15,  // 0.2 d ln(2 t): Kandasamy, Schneider & Poczos 2015.
  kDragonfly,    // 0.5 d ln(2 d t + 1): the same group's Dragonfly.
  kK17Code,      // 5 d ln(2 d t + 1): code released with Kandasamy et al. 2017.
  kConstant,
};
// Returns sqrt(beta). d >= 1, t >= 1, constant_beta >= 0. Only kConstant uses constant_beta.
double RootBeta(BetaRule rule, int d, int64_t t, double constant_beta = 0.0);

// A function to maximise on the unit cube of model coordinates; larger is better. Thread-safe.
class AcquisitionFunction {
 public:
  virtual ~AcquisitionFunction() = default;
  // Returns the values at the q points in the rows of u (q x d). Callers treat NaN as -infinity. The value at a point
  // must not depend on the other rows, since callers pass many points in pieces (math::EvaluateInPieces).
  virtual Eigen::VectorXd Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const = 0;
  // Returns the value at one point and sets `gradient`, unless null, to its d derivatives. A point outside the domain
  // has value -infinity and gradient 0; math::MinimizeLbfgs steps back from such points.
  virtual double Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const = 0;
};

// One posterior of f and the value to beat under it. An acquisition is averaged over several of them if the
// hyperparameters are drawn by Markov chain Monte Carlo.
struct ModelState {
  const gp::Regression* regression = nullptr;  // Borrowed.
  double best = 0.0;                           // In the regression's units.
};

enum class AcquisitionKind {
  kExpectedImprovement,
  kLogExpectedImprovement,
  kProbabilityOfImprovement,
  kLogProbabilityOfImprovement,
  kUpperConfidenceBound,
};

inline constexpr double kDefaultImprovementMargin = 0.01;  // Margin of PI, in standard deviations of the outputs.

struct AcquisitionSettings {
  AcquisitionKind kind = AcquisitionKind::kLogExpectedImprovement;
  double margin = 0.0;     // xi >= 0: EI and PI measure the improvement over best + margin.
  double root_beta = 0.0;  // Weight of the deviation in UCB; see RootBeta.
};

// Returns the acquisition settings.kind under one posterior.
AcquisitionTerm EvaluateTerm(const AcquisitionSettings& settings, double mean, double deviation, double best);

// Returns true if `kind` is a logarithm.
bool IsLogarithm(AcquisitionKind kind);

// Returns the average over states at each of q points. `values` is q x states. Logarithms are averaged as ln mean exp,
// so that EI or PI itself is averaged either way. The average of one state is its value, bit for bit.
Eigen::VectorXd AverageStates(const Eigen::MatrixXd& values, bool logarithm);
// The same at one point. `values` has one entry a state, `gradients` (d x states) one column a state. Sets `gradient`
// to the gradient of the average.
double AverageStates(const Eigen::VectorXd& values, const Eigen::MatrixXd& gradients, bool logarithm,
                     Eigen::VectorXd* gradient);

// An acquisition averaged over posteriors, whose regressions it borrows.
class ModelAcquisition : public AcquisitionFunction {
 public:
  // `states` has at least one entry; all regressions have the same columns.
  ModelAcquisition(std::vector<ModelState> states, const AcquisitionSettings& settings);

  Eigen::VectorXd Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const override;
  double Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const override;

  // Returns the row of u with the largest value; the first of equal ones; -1 if every value is NaN. Rows are compared
  // by UpperConfidenceAdvantage if the acquisition is UCB.
  Eigen::Index BestRow(const Eigen::Ref<const Eigen::MatrixXd>& u) const;

 private:
  std::vector<ModelState> states_;
  AcquisitionSettings settings_;
};

// Expected improvement under one regression, or its logarithm.
class ImprovementAcquisition final : public ModelAcquisition {
 public:
  // `best` is the value to beat, in the regression's units. Borrows `model`.
  ImprovementAcquisition(const gp::Regression* model, double best, bool logarithm)
      : ModelAcquisition({{model, best}}, {.kind = logarithm ? AcquisitionKind::kLogExpectedImprovement
                                                             : AcquisitionKind::kExpectedImprovement}) {}
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_ACQUISITION_ACQUISITION_H_
