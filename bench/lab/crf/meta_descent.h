#ifndef LUTHIER_BENCH_LAB_CRF_META_DESCENT_H_
#define LUTHIER_BENCH_LAB_CRF_META_DESCENT_H_

#include "Eigen/Core"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "lib/base/checkpoint.h"

namespace luthier::crf::lab {

// Stochastic meta-descent (Vishwanathan, Schraudolph, Schmidt, Murphy 2006): stochastic gradient with a step for each
// weight, which grows where successive steps agree. With g the gradient of the drawn examples' objective (penalty
// included) at x and H its Hessian there, `o` elementwise:
//
//   eta <- eta o max(1/2, 1 - mu g o v)
//   x   <- x - eta o g
//   v   <- rho v - eta o (g + rho H v)        v: how x depends on log eta
//
// Everything is dense: for small problems.
class MetaDescent {
 public:
  struct Options {
    double rate = 0.1;       // First eta. > 0.
    double meta_rate = 0.1;  // mu >= 0; 0 is plain stochastic gradient.
    double memory = 1.0;     // rho in [0, 1].
  };

  // Starts at 0.
  MetaDescent(Eigen::Index dim, const Options& options);
  // Call it before the first Step.
  void StartAt(Eigen::VectorXd x);

  // Makes one iteration. gradient(x, &g): the objective and its gradient; product(x, v): H v at that x. Returns false
  // if they are not finite, and their errors, such as CANCELLED; nothing has changed then.
  using Gradient = absl::FunctionRef<absl::StatusOr<double>(const Eigen::VectorXd& x, Eigen::VectorXd* g)>;
  using HessianProduct =
      absl::FunctionRef<absl::StatusOr<Eigen::VectorXd>(const Eigen::VectorXd& x, const Eigen::VectorXd& v)>;
  absl::StatusOr<bool> Step(Gradient gradient, HessianProduct product);

  const Eigen::VectorXd& x() const { return x_; }
  const Eigen::VectorXd& rates() const { return rates_; }

  // A solver with the same arguments that loads the saved bytes goes on bit for bit. Load returns false if they do not
  // fit.
  void Save(base::CheckpointWriter* writer) const;
  bool Load(base::CheckpointReader* reader);

 private:
  Options options_;
  Eigen::VectorXd x_, rates_, v_;
};

}  // namespace luthier::crf::lab

#endif  // LUTHIER_BENCH_LAB_CRF_META_DESCENT_H_
