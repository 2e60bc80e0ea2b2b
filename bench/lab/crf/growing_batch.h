#ifndef LUTHIER_BENCH_LAB_CRF_GROWING_BATCH_H_
#define LUTHIER_BENCH_LAB_CRF_GROWING_BATCH_H_

#include <cstdint>
#include <deque>

#include "Eigen/Core"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "lib/base/checkpoint.h"
#include "lib/base/stop_token.h"
#include "lib/linear/minimizer.h"

namespace luthier::crf::lab {

// L-BFGS on a growing part of the examples (Friedlander & Schmidt 2012): from stochastic to deterministic. Minimises
//
//   f(x) = (1/n) sum_i f_i(x) + lambda/2 |x|^2
//
// An iteration takes an L-BFGS step (10 pairs) for the mean over the first b examples of a random order, with Armijo's
// condition on that mean; then b <- min(n, ceil(1.1 b + 1)). Both gradients of a pair are of the same examples; that of
// the next iteration is had by adding those of the new examples, so an iteration costs b losses with gradients (and b
// more for each step that was too long).
class GrowingBatch {
 public:
  // Returns the sum of f_i(x) for first <= i < last in the random order, and adds their gradient to *gradient. A long
  // sum may be stopped: CANCELLED.
  using PartialSum = absl::FunctionRef<absl::StatusOr<double>(const Eigen::VectorXd& x, int64_t first, int64_t last,
                                                              Eigen::VectorXd* gradient)>;

  // n >= 1, lambda >= 0. Starts at 0 with one example.
  GrowingBatch(Eigen::Index dim, int64_t n, double lambda);
  // Before the first Step: starts at x, and, unless that is 0, with all examples at once.
  void StartAt(Eigen::VectorXd x);

  // Makes one iteration. Returns kPrecision if no step from here decreases f, with all examples; kNonFinite if f is not
  // finite at x; CANCELLED if it or `sum` was stopped: nothing has changed then.
  absl::StatusOr<linear::SolveState> Step(PartialSum sum, const base::StopToken& stop);

  const Eigen::VectorXd& x() const { return x_; }
  int64_t batch() const { return batch_; }
  // Returns the batch after `batch`: min(n, ceil(1.1 batch + 1)).
  int64_t NextBatch(int64_t batch) const;
  // Returns the gradient of the mean over the batch, with the penalty: that of f once batch() == n.
  Eigen::VectorXd Gradient() const;
  int64_t evaluations() const { return evaluations_; }  // Evaluations of one example each.

  // Saves everything but dim, n and lambda. A solver with the same arguments that loads it goes on bit for bit. Load
  // returns false if the bytes do not fit.
  void Save(base::CheckpointWriter* writer) const;
  bool Load(base::CheckpointReader* reader);

 private:
  struct Pair {
    Eigen::VectorXd s, y;
    double rho;  // 1 / s'y
  };
  // Drops the pairs, so that the next step follows the gradient.
  absl::StatusOr<Eigen::VectorXd> Direction(const Eigen::VectorXd& gradient, bool pairs,
                                            const base::StopToken& stop) const;
  double Value(const Eigen::VectorXd& x, double loss) const;

  int64_t n_;
  double lambda_;
  Eigen::VectorXd x_;
  double loss_ = 0.0;         // Over the batch, at x; as its gradient:
  Eigen::VectorXd gradient_;  // sums, without the penalty.
  int64_t batch_ = 0;         // 0: nothing has been evaluated.
  std::deque<Pair> pairs_;    // Oldest first.
  int64_t evaluations_ = 0;
};

}  // namespace luthier::crf::lab

#endif  // LUTHIER_BENCH_LAB_CRF_GROWING_BATCH_H_
