#include "lib/gp/hyperparameters.h"

namespace luthier::gp {

kernels::StationaryKernel KernelOf(const kernels::KernelShape& shape, const Hyperparameters& theta) {
  return kernels::StationaryKernel(shape, theta.lengthscales, theta.signal_variance, theta.shape_parameter);
}

}  // namespace luthier::gp
