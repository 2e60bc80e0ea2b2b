#ifndef LUTHIER_LIB_GP_HYPERPARAMETERS_H_
#define LUTHIER_LIB_GP_HYPERPARAMETERS_H_

#include "Eigen/Core"
#include "lib/kernels/stationary.h"

namespace luthier::gp {

// Hyperparameters of a Gaussian process with a constant mean and a stationary kernel, for outputs standardised to mean
// 0, deviation 1.
struct Hyperparameters {
  Eigen::VectorXd lengthscales;  // One a group of the kernel's shape, > 0, unit-cube units.
  double signal_variance = 1.0;  // s_f^2 > 0: prior variance of f. (A scale of the output, not noise.)
  double noise_variance = 1e-6;  // sigma_n^2 >= 0, added to the diagonal.
  double mean = 0.0;             // m.
  double shape_parameter = 1.0;  // > 0: KernelShape's, where it has one.
  // sigma_g^2 >= 0: noise of observed slopes, per unit of the cube squared. Used only where there are slopes.
  double slope_noise_variance = 0.0;
};

// The kernel of `shape` with these parameters.
kernels::StationaryKernel KernelOf(const kernels::KernelShape& shape, const Hyperparameters& theta);

}  // namespace luthier::gp

#endif  // LUTHIER_LIB_GP_HYPERPARAMETERS_H_
