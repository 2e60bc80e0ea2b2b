#ifndef LUTHIER_LIB_STOPPING_CURVE_STOPPER_H_
#define LUTHIER_LIB_STOPPING_CURVE_STOPPER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "lib/stopping/stopper.h"

namespace luthier::stopping {

struct StepLoss {
  double step;  // Above 0.
  double loss;  // Finite.
};

// Returns a value below which the loss at step `whole` will, with this confidence, not fall; -infinity if the points do
// not tell. points: ascending in step, the last below `whole`; at least 4 of them are needed.
//
//   family      y(t) = a + b (t^-c - whole^-c) / c + noise, b >= 0, for c in {0, 1/4, 1/2, 1, 2}; c = 0 is
//               a + b ln(whole / t). a is what is asked for: the loss at `whole`
//   data        the points from a quarter of the last step on, but at least 4: laws of learning curves hold late
//   each c      least squares; a_c with the variance of its estimate, plus that of one more result, plus
//               (0.2 (y_n - a_c))^2, since residuals along a smooth curve do not tell how wrong its law is
//   bound       the smallest of a_c - t q sqrt(variance) over those c whose residuals are at most 4 times those of the
//               best one; q: Student's quantile with n - 2 degrees of freedom
// The smallest over what is plausible rather than an average, and c = 0, whose curves never end, make it conservative.
double LossBound(const std::vector<StepLoss>& points, double whole, double confidence);

// The quantile of Student's distribution: P(T <= q) = p, 0.5 <= p < 1, degrees >= 1. O(degrees). Up to rounding.
double StudentQuantile(double p, int degrees);

// Learning-curve stopping (docs/reference/early_stopping.md): at a report, stop iff neither a value of the trial so
// far nor its LossBound is better than the best COMPLETE value. O(points of the trial), of which at most 64 are fitted.
class CurveStopper final : public Stopper {
 public:
  CurveStopper(const study::StudySpec& spec, const study::CurveStopping& rule)
      : goal_(spec.metric.goal), whole_(static_cast<double>(spec.resource->max)), rule_(rule) {}

  void Report(int64_t trial, int64_t step, double value) override;
  void Finish(int64_t trial, study::TrialState state, std::optional<double> value) override;
  Decision Decide(int64_t trial, int64_t step) const override;

 private:
  const study::Goal goal_;
  const double whole_;
  const study::CurveStopping rule_;
  std::map<int64_t, std::map<int64_t, double>> open_;  // Trial -> step -> loss; not finite: +infinity.
  std::optional<double> best_;                         // Smallest loss of a COMPLETE trial.
  int64_t complete_ = 0;
};

}  // namespace luthier::stopping

#endif  // LUTHIER_LIB_STOPPING_CURVE_STOPPER_H_
