#ifndef LUTHIER_LIB_LINEAR_CONJUGATE_GRADIENT_H_
#define LUTHIER_LIB_LINEAR_CONJUGATE_GRADIENT_H_

#include <Eigen/Core>
#include <functional>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"

namespace luthier::linear {

enum class CgOutcome {
  kConverged,       // |b - A x| <= tolerance, by the true residual.
  kIterationLimit,  // Best effort so far.
  kPrecision,       // Rounding prevents a smaller residual; x is as good as it gets.
  kIndefinite,      // A direction with d'Ad <= 0 was met: A is not positive definite. x is the iterate before it.
  kNonFinite,       // A product was not finite; x is the iterate before it.
};

struct CgOptions {
  double tolerance = 0.0;  // Absolute, on the 2-norm of the residual.
  int max_iterations = 0;  // 0: 10 times the dimension, at least 100.
  // True if success is confirmed by the true residual, which costs a product. The recursive
  // residual is accurate enough for a few digits.
  bool verify = true;
  base::StopToken stop;  // Polled before each product.
  // Returns M^-1 r for a symmetric positive definite M near A. Replaces `diagonal` unless null.
  const std::function<Eigen::VectorXd(const Eigen::VectorXd&)>* precondition = nullptr;
};

struct CgResult {
  CgOutcome outcome = CgOutcome::kConverged;
  Eigen::VectorXd x;
  double residual_norm = 0.0;  // True residual |b - A x|.
  int iterations = 0;          // Products with A, checks included.
};

// Solves A x = b for symmetric positive definite A by preconditioned conjugate gradients (Golub & Van Loan 4th ed.,
// alg. 11.5.1). `diagonal`: Jacobi preconditioner, entries > 0, or empty for none. `x0`: start, or empty for 0. The
// recursive residual is replaced by the true one every 50 iterations and before success is reported. Returns the errors
// of `multiply`; CANCELLED when stopped.
absl::StatusOr<CgResult> SolveCg(absl::FunctionRef<absl::StatusOr<Eigen::VectorXd>(const Eigen::VectorXd&)> multiply,
                                 const Eigen::VectorXd& b, const Eigen::VectorXd& diagonal, const Eigen::VectorXd& x0,
                                 const CgOptions& options);

}  // namespace luthier::linear

#endif  // LUTHIER_LIB_LINEAR_CONJUGATE_GRADIENT_H_
