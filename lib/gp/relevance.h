#ifndef LUTHIER_LIB_GP_RELEVANCE_H_
#define LUTHIER_LIB_GP_RELEVANCE_H_

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/random.h"
#include "lib/base/stop_token.h"
#include "lib/gp/hyper_inference.h"
#include "lib/gp/slopes.h"
#include "lib/kernels/stationary.h"

namespace luthier::gp {

// Values and slopes that two models are to explain.
struct RelevanceData {
  const kernels::KernelShape& shape;
  const Eigen::MatrixXd& x;  // n x d points of the cube.
  const Eigen::VectorXd& y;  // n standardised outputs.
  const Slopes& slopes;      // No slope has a part along the axis, as the model without it could not have it.
};

// Returns by how many nats a model of f that depends on coordinate `axis` explains values and slopes better than a
// model that does not, both at the hyperparameters of largest posterior density. The result is below 0 to a few nats if
// the coordinate has no effect, dozens as soon as it matters at some points.
//
// The newest (last) 60 values are used, and their first slopes, up to 150 rows in all: O(150^3), some 150 times.
// Returns CANCELLED if `stop` was raised.
absl::StatusOr<double> RelevanceGain(const RelevanceData& data, Eigen::Index axis, const InferenceOptions& inference,
                                     base::RandomStream random, const base::StopToken& stop);

}  // namespace luthier::gp

#endif  // LUTHIER_LIB_GP_RELEVANCE_H_
