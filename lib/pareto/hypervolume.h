#ifndef LUTHIER_LIB_PARETO_HYPERVOLUME_H_
#define LUTHIER_LIB_PARETO_HYPERVOLUME_H_

#include <cstdint>
#include <optional>

#include "Eigen/Core"

namespace luthier::pareto {

// Most steps of one computation by default: about a second. Fronts of 200 points in four objectives take a hundredth
// of it.
inline constexpr int64_t kMostHypervolumeSteps = 400'000'000;

// Returns the volume of the set of points that some row dominates and that dominate `reference` (one entry a column).
// Rows that are not above `reference` in every column add nothing. One column: a length; two: a sweep, O(n log n);
// more: by exclusive volumes, a column less at each level (While, Bradstreet & Barone 2012, "A fast way of calculating
// exact hypervolumes"), at worst exponential in the columns. Returns std::nullopt once it would take more than
// `most_steps` comparisons of coordinates. The result is exact but for rounding, about 1e-14 of it. The order of equal
// results does not depend on the order of rows, but for rounding.
std::optional<double> Hypervolume(const Eigen::Ref<const Eigen::MatrixXd>& points,
                                  const Eigen::Ref<const Eigen::VectorXd>& reference,
                                  int64_t most_steps = kMostHypervolumeSteps);

// Returns by how much the volume grows if `point` joins the points.
std::optional<double> HypervolumeGain(const Eigen::Ref<const Eigen::MatrixXd>& points,
                                      const Eigen::Ref<const Eigen::VectorXd>& reference,
                                      const Eigen::Ref<const Eigen::VectorXd>& point,
                                      int64_t most_steps = kMostHypervolumeSteps);

}  // namespace luthier::pareto

#endif  // LUTHIER_LIB_PARETO_HYPERVOLUME_H_
