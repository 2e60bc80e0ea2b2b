#ifndef LUTHIER_LIB_SEARCH_BO_LOCAL_BORDER_STEP_H_
#define LUTHIER_LIB_SEARCH_BO_LOCAL_BORDER_STEP_H_

#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/search/bo/local/trust_region_step.h"

namespace luthier::search {

// A trust-region step for a smooth objective whose results must keep bounds. The optimum then mostly lies on some of
// the bounds, where the expected improvement of a Gaussian process stalls. One polynomial is fitted to the objective
// and one to each metric with bounds (math::TaylorModel); the step is the polynomials' constrained maximum in a box
// around the best point, found by an augmented Lagrangian. It stands back from each bound by the model's deviation
// there, so that the result is likely to be feasible; the deviations vanish as the models become exact.
//
// The gain of a step is that of merit, score - sum over the bounds of penalty * excess, whose penalties exceed the
// multipliers of the bounds (Conn, Gould & Toint 2000, "Trust-region methods", chapter 14).
// docs/design/trust_region.md.

// A metric with bounds, in user units.
struct BorderMetric {
  Eigen::VectorXd values;  // n, finite.
  double lower = -std::numeric_limits<double>::infinity();
  double upper = std::numeric_limits<double>::infinity();
  double spread = 1.0;  // The unit of its violation (study::SpreadsOf). Above 0.
};

// Faces of the legal settings (constraints on parameters): sets `excess` (a number a face) to how far `point` (d
// entries, in the unit cube) is beyond each, above 0 where it is illegal, and `slopes` (faces x d) to the derivatives.
using BorderFaces = std::function<void(const Eigen::VectorXd& point, Eigen::VectorXd* excess, Eigen::MatrixXd* slopes)>;

struct BorderData {
  Eigen::MatrixXd points;  // n x d, in the unit cube; continuous coordinates.
  Eigen::VectorXd scores;  // n, finite; larger is better.
  std::vector<BorderMetric> metrics;
  Eigen::MatrixXd pending;      // q x d, or empty: points of pending trials.
  BorderFaces faces = nullptr;  // Null: every setting is legal.
  Eigen::Index face_count = 0;
  // Slopes of the score.
  std::vector<SlopeObservation> slopes = {};
};

// The state that a step hands to the next. A default one starts anew.
struct BorderState {
  double radius = 0.0;          // Half the width of the last box; 0 if there was none.
  double predicted_gain = 0.0;  // Gain of merit that the last step predicted; 0 after a step of kind kLearn.
  bool at_boundary = false;     // True if the last step went to the end of its box.
  Eigen::VectorXd centre;       // d: the best point at the last step.
  Eigen::VectorXd step;         // d: the point it suggested.
  Eigen::VectorXd penalties;    // Penalty of each finite bound: score units a unit of its excess.
  // d numbers a model: the lengths of the objective's, then those of the metrics'. Empty if there was none.
  std::vector<Eigen::VectorXd> lengths;
};

struct BorderStep {
  TrustRegionStepKind kind = TrustRegionStepKind::kImprove;
  // d, in the unit cube, at least 1e-12 (max norm) from all data unless kConverged. It may be illegal, mostly by
  // rounding.
  Eigen::VectorXd point;
  double predicted_gain = 0.0;  // Gain of merit, score units, >= 0.
  int centre = 0;               // Row of the best point: least violation, then largest score; the first of equals.
  int active = 0;               // Number of bounds that the step ends on.
  BorderState next;
};

// Returns sum of max(0, excess) / spread over the metrics, for each row.
Eigen::VectorXd BorderViolations(const BorderData& data);

// Returns the next step. Returns std::nullopt if there is nothing to model: d = 0, fewer than two distinct points, or
// values so extreme that no model is finite. The radius follows the gain of merit by the rules of
// SuggestTrustRegionStep. Returns CANCELLED if `stop` was raised.
absl::StatusOr<std::optional<BorderStep>> SuggestBorderStep(const BorderData& data, const BorderState& state,
                                                            const base::StopToken& stop);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_LOCAL_BORDER_STEP_H_
