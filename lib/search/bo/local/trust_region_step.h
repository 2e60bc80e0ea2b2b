#ifndef LUTHIER_LIB_SEARCH_BO_LOCAL_TRUST_REGION_STEP_H_
#define LUTHIER_LIB_SEARCH_BO_LOCAL_TRUST_REGION_STEP_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"

namespace luthier::search {

// A polynomial trust-region step towards the nearest local maximum of a smooth function without noise. It takes an
// incumbent from an error of 1e-4 to one of 1e-15, where a Gaussian process stalls. math::TaylorModel fits a polynomial
// to the values and slopes nearest the incumbent; the polynomial's maximum within a box around the incumbent is the
// step. With values alone this is a derivative-free method (NEWUOA's class: Powell 2006), with gradients a quasi-Newton
// method. The classical methods fit a quadratic; here the degree is as high as the number of terms allows, so that all
// points ever evaluated help, and less than half the evaluations are needed (bench/search/pages/trust_region.md).
//
// A step depends on the data and on the state of the last step alone.

// A directional derivative of the score at one point.
struct SlopeObservation {
  int point = 0;              // Row of TrustRegionData::points.
  Eigen::VectorXd direction;  // d, not zero.
  double slope = 0.0;         // direction . gradient of the score, by unit coordinates.
};

struct TrustRegionData {
  Eigen::MatrixXd points;  // n x d, in the unit cube; continuous coordinates.
  Eigen::VectorXd scores;  // n, finite; larger is better.
  std::vector<SlopeObservation> slopes;
  Eigen::MatrixXd pending;  // q x d, or empty: points of pending trials.
};

// The state that a step hands to the next. A default one starts anew.
struct TrustRegionState {
  double radius = 0.0;          // Half the width of the last box; 0 if there was none.
  double anchor = 0.0;          // Score of the incumbent at the last step.
  double predicted_gain = 0.0;  // Gain that the last step predicted; 0 after a step of kind kLearn.
  bool at_boundary = false;     // True if the last step went to the end of its box.
  double slope_error = 0.0;
  Eigen::VectorXd centre;   // d: the incumbent at the last step.
  Eigen::VectorXd step;     // d: the point it suggested.
  Eigen::VectorXd lengths;  // d: the model's.
};

struct TrustRegionOptions {
  double initial_radius = 0.2;
  double max_radius = 0.5;
  double min_radius = 1e-9;
  int max_degree = 8;       // Largest degree, >= 2. 2 gives the classical quadratic model.
  int max_terms = 130;      // Most terms above degree 2. 130: degree 8 for d = 2, 4 for 5, 3 to 7.
  double max_work = 1.5e7;  // See math::TaylorFitOptions.
};

enum class TrustRegionStepKind {
  kImprove,  // `point` is expected to beat the incumbent by predicted_gain.
  kLearn,  // The model predicts no gain, or a pending trial is at its maximum. `point` has the largest deviation within
           // the box.
  kConverged  // Neither gain nor uncertainty within the box is above rounding, or the box cannot shrink further: the
              // incumbent is a local maximum as far as can be told, and `point` is not worth a trial.
};

struct TrustRegionStep {
  TrustRegionStepKind kind = TrustRegionStepKind::kImprove;
  Eigen::VectorXd point;        // d, in the unit cube, at least 1e-12 (max norm) from all data unless kConverged.
  double predicted_gain = 0.0;  // Score units, >= 0.
  double deviation = 0.0;       // Standard deviation of the gain.
  bool well_poised = false;     // True if deviation <= predicted_gain, so that the gain is trusted.
  Eigen::VectorXd gradient;     // d: gradient of the model of the score at the incumbent.
  Eigen::MatrixXd hessian;      // d x d: Hessian of that model there.
  int incumbent = 0;            // Row of the best point; the first of equals.
  int points_used = 0;          // Number of points in the model besides the incumbent.
  int degree = 0;
  TrustRegionState next;
};

// Returns the next step. Returns std::nullopt if there is nothing to model: d = 0, no or one
// distinct point without slopes, or scores so extreme that no model is finite. Returns the errors
// of math::FitTaylorModel and of the search in the box, such as CANCELLED if `stop` was raised.
//
// The radius is half the width of the box, which is cut off at the unit cube. It changes by the
// gain of the last step:
//   below 1/4 of the predicted gain, or      0.6 times the smaller of the radius and the length of
//   never evaluated; after kLearn: no gain   the step
//   above 3/4, step at the end of the box    3 times; 4 times if the gain was within about 10 %
//                                            of the predicted one
//   last step pending                        unchanged
// If another trial became the incumbent, the radius is at least the distance by which the incumbent
// moved, or initial_radius if that is less. It always stays between min_radius and max_radius.
absl::StatusOr<std::optional<TrustRegionStep>> SuggestTrustRegionStep(const TrustRegionData& data,
                                                                      const TrustRegionState& state,
                                                                      const TrustRegionOptions& options,
                                                                      const base::StopToken& stop);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_LOCAL_TRUST_REGION_STEP_H_
