#ifndef LUTHIER_LIB_BILEVEL_UNROLLED_GRADIENT_H_
#define LUTHIER_LIB_BILEVEL_UNROLLED_GRADIENT_H_

#include <Eigen/Core>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/inner_problem.h"

// Iterative differentiation ("Iterdiff"; Domke 2012, "Generic methods for optimization-based modeling"): the weights
// are those of a fixed number T of steps from 0, and the hypergradient is that of the map lambda -> g(x_T(lambda)), by
// reverse mode through the steps. It tends to the implicit gradient as T grows.
namespace luthier::bilevel {

enum class UnrollMethod {
  kGradientDescent,  // x_{t+1} = x_t - eta grad h(x_t)
  kHeavyBall,        // x_{t+1} = x_t - eta grad h(x_t) + beta (x_t - x_{t-1}), beta = 0.9
  kLbfgs,            // x_{t+1} = x_t - alpha_t B_t grad h(x_t), B_t of the last kUnrollMemory steps
};
inline constexpr int kUnrollMemory = 10;

// eta is the inverse of an estimate of the largest eigenvalue of the Hessian at 0, by the power method, and is
// differentiated with the steps. alpha_t is 1, for the first step eta, halved until h decreases enough; the number of
// halvings is a constant of the differentiation.
struct UnrolledGradient {
  double outer_value = 0.0;          // g(x_T)
  Eigen::VectorXd x;                 // x_T
  Eigen::VectorXd gradient;          // s entries, in lambda's coordinates.
  double inner_gradient_norm = 0.0;  // |grad h(x_T)|
  double outer_gradient_norm = 0.0;  // |grad_x g(x_T)|
  bool finite = true;                // False if the steps diverged; there is no gradient then.
  int steps = 0;                     // Number of steps taken: T, or fewer if no step lowers h any more.
};

// The forward pass: x_0 = 0, x_1, ..., a step at a time. Not thread-safe.
//
// The reverse pass needs every iterate. While all of them and their gradients fit into `memory_bytes`, they are kept;
// otherwise only those at about every square root of `planned_steps`, and the reverse pass computes those between anew,
// bit for bit, which costs one more forward pass.
class UnrolledDescent {
 public:
  static constexpr int64_t kMemoryBytes = int64_t{256} << 20;
  // Borrows `inner`, whose cross derivative D is linear in x, as that of penalties and of quadratic functions is.
  // `planned_steps` >= 1 is about how many steps will be taken.
  UnrolledDescent(InnerProblem* inner, UnrollMethod method, int planned_steps, int64_t memory_bytes = kMemoryBytes);

  // Takes a step. Returns false if no step lowers h any more, or if numbers are not finite (finite()).
  absl::StatusOr<bool> Advance(const base::StopToken& stop);
  bool finite() const { return finite_; }
  int steps() const { return static_cast<int>(length_.size()); }
  const Eigen::VectorXd& x() const { return x_.back(); }
  // Returns the number of iterates that are in memory.
  int kept() const;
  // Returns |grad h(0)|; 0 before the first step.
  double first_gradient_norm() const { return first_gradient_norm_; }
  double gradient_norm() const { return gradient_.empty() ? 0.0 : gradient_.back().norm(); }

  // Returns the gradient at x(), by the reverse pass. O(steps) products with the Hessian.
  absl::StatusOr<UnrolledGradient> Differentiate(OuterLoss& outer, const base::StopToken& stop);

 private:
  absl::Status Start(const base::StopToken& stop);
  // Returns the point after step t, of this length along `direction`.
  Eigen::VectorXd After(int t, const Eigen::VectorXd& direction, double length) const;
  Eigen::VectorXd DirectionAt(int t) const;
  // Returns true if step t has a length of about 1, rather than eta.
  bool Scaled(int t) const;
  // Returns the number of iterates up to x_t that a step from x_t depends on.
  int window() const {
    return method_ == UnrollMethod::kGradientDescent ? 1 : method_ == UnrollMethod::kHeavyBall ? 2 : kUnrollMemory + 1;
  }
  // Returns true if x_t is kept for the reverse pass.
  bool Kept(int t) const { return t % stride_ == 0 || t % stride_ > stride_ - window(); }
  // Makes x_t, ..., x_{t - window() + 1} available, and x_{t + 1}.
  absl::Status Recall(int t, const base::StopToken& stop);
  // Returns the indices of the pairs that step t uses, oldest first.
  std::vector<int> PairsOf(int t) const;
  // B_t v, and the intermediate results of the two loops that the reverse pass needs.
  struct TwoLoops;
  TwoLoops Loops(int t, const Eigen::VectorXd& v) const;
  // Adds the adjoints of s_i and y_i of step t's pairs, and returns that of grad h(x_t), for the adjoint `r` of B_t
  // grad.
  Eigen::VectorXd ReverseLoops(int t, const Eigen::VectorXd& r, std::vector<Eigen::VectorXd>* s_adjoint,
                               std::vector<Eigen::VectorXd>* y_adjoint) const;

  // Adjoints of x_t, grad h(x_t), and of the steps and differences of gradients; empty where no later step needs them.
  struct Adjoints {
    std::vector<Eigen::VectorXd> x, gradient, s, y;
  };
  // Adds the adjoints of what step t uses beside x_t itself, for the adjoint `next` of x_{t + 1}.
  void ReverseStep(size_t t, const Eigen::VectorXd& next, Adjoints* adjoint) const;

  InnerProblem* const inner_;
  const UnrollMethod method_;
  int stride_ = 1;
  std::vector<Eigen::VectorXd> x_;         // x_0 ... x_t, empty where they are not in memory.
  std::vector<Eigen::VectorXd> gradient_;  // grad h at each of these.
  std::vector<double> length_;
  double value_ = 0.0;  // h(x_t)
  double eta_ = 0.0;
  double first_gradient_norm_ = 0.0;
  bool finite_ = true;
};

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_UNROLLED_GRADIENT_H_
