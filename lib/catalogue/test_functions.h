#ifndef LUTHIER_LIB_CATALOGUE_TEST_FUNCTIONS_H_
#define LUTHIER_LIB_CATALOGUE_TEST_FUNCTIONS_H_

#include <Eigen/Core>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace luthier::catalogue {

// A function to minimise whose minimum is known. Dixon & Szego 1978 (branin, camel, goldstein_price, hartmann), Molga &
// Smutnicki 2005 (michalewicz), Rosenbrock 1960.
struct TestFunction {
  std::string name;
  std::string description;
  Eigen::VectorXd lower;  // The box it is customarily searched in.
  Eigen::VectorXd upper;
  double minimum;                           // To double precision.
  std::vector<Eigen::VectorXd> minimizers;  // All global ones within the box, to 1e-5.
  // Largest gradient norm per unit of the unit cube, found by multistart (a lower bound of the true one), and the
  // standard deviation of the value under uniform sampling of the box; both in the function's units.
  double lipschitz_unit;
  double deviation;
  double (*evaluate)(const Eigen::VectorXd& x, Eigen::VectorXd* gradient);

  Eigen::Index dim() const { return lower.size(); }
  // Returns f(x), and writes its exact gradient (dim) unless null. x has dim() entries, inside the box or not.
  double operator()(const Eigen::VectorXd& x, Eigen::VectorXd* gradient) const { return evaluate(x, gradient); }
};

// Returns branin, camel, goldstein_price, hartmann3, hartmann6, michalewicz2, michalewicz5, michalewicz10, rosenbrock2
// … rosenbrock5, in order of name.
const std::vector<TestFunction>& TestFunctions();

// Returns NOT_FOUND with the closest name for an unknown one.
absl::StatusOr<const TestFunction*> FindTestFunction(absl::string_view name);

// Returns the box moved along each axis by an offset drawn from `seed`, at most a fifth of the width, that keeps the
// first minimizer inside. For comparing optimisers: the customary boxes favour those that start in the centre.
std::pair<Eigen::VectorXd, Eigen::VectorXd> ShiftedBounds(const TestFunction& function, uint64_t seed);

}  // namespace luthier::catalogue

#endif  // LUTHIER_LIB_CATALOGUE_TEST_FUNCTIONS_H_
