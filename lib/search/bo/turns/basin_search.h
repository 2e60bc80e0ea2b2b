#ifndef LUTHIER_LIB_SEARCH_BO_TURNS_BASIN_SEARCH_H_
#define LUTHIER_LIB_SEARCH_BO_TURNS_BASIN_SEARCH_H_

#include <cstddef>
#include <vector>

#include "Eigen/Core"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "lib/search/bo/acquisition/acquisition.h"
#include "lib/search/bo/acquisition/basins.h"
#include "lib/search/bo/acquisition/bounded_acquisition.h"
#include "lib/search/bo/acquisition/maximize.h"
#include "lib/search/bo/turns/ask.h"
#include "lib/search/bo/turns/bo_model.h"

namespace luthier::search {

// Smallest gain that the acquisition looks for, in output deviations, while local steps refine the incumbent.
inline constexpr double kWorthwhileGain = 1e-3;

// The search for the maximum of the (log) expected improvement, which goes on to other basins (basins.h) once little
// can be gained in the incumbent's. The object borrows the constructor's arguments.
class BasinSearch {
 public:
  // Maximises an acquisition function, given the lengthscales of its model.
  using Maximizer =
      absl::FunctionRef<absl::StatusOr<MaximizeResult>(const AcquisitionFunction&, const Eigen::VectorXd&)>;

  // `bounded` has the improvement under `model`, which has one state. `state` is the state of the last ask; it becomes
  // that of this one.
  BasinSearch(const BoStudy& study, const Ask& ask, const BoModel& model, const BoundedAcquisition& bounded,
              BasinsState* state);

  // Returns the maximum of `acquisition`: the improvement, weighted by the probability that a trial succeeds. If the
  // expected improvement is negligible, adds the incumbent's basin to the known ones and returns the maximum of the
  // improvement in all other basins.
  absl::StatusOr<MaximizeResult> Run(const AcquisitionFunction& acquisition, Maximizer maximize);

  // Returns the number of basins that the result of Run was searched outside of; 0 if it is of the whole space.
  size_t basins_left_out() const { return left_out_; }

 private:
  double LogImprovement(const MaximizeResult& result) const;
  // Returns the best row in no known basin; -1 if there is none.
  absl::StatusOr<Eigen::Index> BestElsewhere() const;
  void AddMaximum(Eigen::Index row);
  // Returns the maximum of the improvement on row `best`, or on the worst result if it is -1, in other than the known
  // basins. It has no candidates if no model of them could be fitted.
  absl::StatusOr<MaximizeResult> MaximizeElsewhere(Eigen::Index best, Maximizer maximize);

  const BoStudy& study_;
  const Ask& ask_;
  const BoModel& model_;
  const BoundedAcquisition& bounded_;
  BasinsState* const state_;
  const std::vector<Eigen::Index> rows_;  // Rows of measured results.
  const Eigen::VectorXd outputs_;
  const bool logarithm_;
  std::vector<Eigen::Index> maxima_;  // Rows of the maxima of known basins.
  size_t left_out_ = 0;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_TURNS_BASIN_SEARCH_H_
