#ifndef LUTHIER_TESTS_LIB_LINEAR_STRENGTH_CELLS_H_
#define LUTHIER_TESTS_LIB_LINEAR_STRENGTH_CELLS_H_

#include <Eigen/Core>
#include <string>
#include <vector>

#include "lib/data/dataset.h"
#include "lib/linear/problem.h"

// Shapes of data that are hard for one solver or another, and the optimum of a linear problem on them, found by dense
// code that shares nothing with the library but the data.
namespace luthier::linear {

struct Shape {
  std::string name;
  data::Dataset dataset;
  bool standardize = false;
};

// Dense and sparse, n >> d, n ~ d, n << d, separable, badly scaled, constant and doubled columns, imbalanced. `seed`
// draws other data of the same shapes.
std::vector<Shape> HardShapes(uint64_t seed, int classes = 2);

struct Optimum {
  double value = 0.0;  // h at the best point found.
  double bound = 0.0;  // A lower bound of min h, by duality; at most `value`.
};

// Minimises h for the rows of `data` by damped Newton steps on dense matrices. l2 > 0.
Optimum FindOptimum(const data::Dataset& dataset, const data::Standardization& standardization, const MarginLoss& loss,
                    Bias bias, double l2);

// Returns h and a lower bound of its minimum, by duality, for more than two classes and weights `w` as LogisticData has
// them, with intercepts. l2 > 0.
Optimum CertifySoftmax(const data::Dataset& dataset, const data::Standardization& standardization, double l2,
                       const Eigen::VectorXd& w);

}  // namespace luthier::linear

#endif  // LUTHIER_TESTS_LIB_LINEAR_STRENGTH_CELLS_H_
