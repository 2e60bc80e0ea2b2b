#ifndef LUTHIER_LIB_MATH_PIECES_H_
#define LUTHIER_LIB_MATH_PIECES_H_

#include "Eigen/Core"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"

namespace luthier::math {

// Returns f(u) for the q points in the rows of u, a few rows at a time, and polls `stop` before each: f takes points as
// rows and gives a value for each, which depends on nothing but the point.
absl::StatusOr<Eigen::VectorXd> EvaluateInPieces(const Eigen::Ref<const Eigen::MatrixXd>& u,
                                                 const base::StopToken& stop,
                                                 absl::FunctionRef<Eigen::VectorXd(const Eigen::MatrixXd&)> f);

}  // namespace luthier::math

#endif  // LUTHIER_LIB_MATH_PIECES_H_
