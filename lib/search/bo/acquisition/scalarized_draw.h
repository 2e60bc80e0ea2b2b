#ifndef LUTHIER_LIB_SEARCH_BO_ACQUISITION_SCALARIZED_DRAW_H_
#define LUTHIER_LIB_SEARCH_BO_ACQUISITION_SCALARIZED_DRAW_H_

#include <utility>
#include <vector>

#include "Eigen/Core"
#include "lib/base/random.h"
#include "lib/search/bo/acquisition/acquisition.h"
#include "lib/search/bo/acquisition/thompson.h"

namespace luthier::search {

// The distance from a reference point r to f(u), in a direction d of positive entries, of functions f_j drawn from
// posteriors:
//   s(u) = min_j (f_j(u) - r_j)/d_j
// Over directions that are uniform on the positive part of the unit sphere, E max_u max(0, s(u))^m is the hypervolume
// of f above r up to a constant. Its gradient is that of the function in which the minimum is attained, the first of
// equal ones. Thread-safe.
class ScalarizedDraw final : public AcquisitionFunction {
 public:
  // One function, one entry of `reference` and one of `direction`, above 0, for each objective.
  ScalarizedDraw(std::vector<FunctionDraw> functions, Eigen::VectorXd reference, Eigen::VectorXd direction)
      : functions_(std::move(functions)), reference_(std::move(reference)), direction_(std::move(direction)) {}

  Eigen::VectorXd Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const override;
  double Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const override;

 private:
  std::vector<FunctionDraw> functions_;
  Eigen::VectorXd reference_, direction_;
};

// Draws such a direction.
Eigen::VectorXd PositiveDirection(Eigen::Index objectives, base::RandomStream random);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_ACQUISITION_SCALARIZED_DRAW_H_
