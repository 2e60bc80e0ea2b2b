#ifndef LUTHIER_LIB_LINEAR_PANEL_CHOLESKY_H_
#define LUTHIER_LIB_LINEAR_PANEL_CHOLESKY_H_

#include <Eigen/Core>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"

namespace luthier::linear {

// Replaces the lower triangle of *a by that of its Cholesky factor L, L L' = a. Works by panels, so that `stop` is
// polled at the pace of lib/base/pace.h. Returns false, and leaves *a undefined, if the matrix is not positive
// definite. Returns CANCELLED when stopped.
absl::StatusOr<bool> FactorInPlace(Eigen::MatrixXd* a, const base::StopToken& stop);

}  // namespace luthier::linear

#endif  // LUTHIER_LIB_LINEAR_PANEL_CHOLESKY_H_
