#ifndef LUTHIER_LIB_SEARCH_BO_LIPSCHITZ_LIPO_QP_H_
#define LUTHIER_LIB_SEARCH_BO_LIPSCHITZ_LIPO_QP_H_

#include <vector>

#include "Eigen/Core"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/search/bo/lipschitz/slope_bounds.h"

namespace luthier::search {

struct LipoQpOptions {
  // Price of noise, > 0: a noise term s costs (s/rho)^2/2 beside |K|^2/2. 1e-3 explains data by slopes wherever it can
  // and is right for exact outputs; noisy ones need max(1e-3, noise deviation/deviation of y).
  double rho = 1e-3;
  double tolerance = 1e-6;   // Violation allowed of a constraint, in squared deviations of y.
  double max_updates = 2e7;  // Coordinate updates of one fit: the bound on latency.
};

// An upper bound with a slope of its own for every coordinate and a noise term for every sample (King, "A global
// optimization algorithm worth using", 2017, as in dlib):
//   U(u) = min_i y_i + sqrt(s_i + sum_k K_k (u_k - u_ik)^2),  K >= 0, s >= 0
// K and s are the smallest that the data allow, with u and y divided by their deviations over the data:
//   min (|K|^2 + sum_i (s_i/rho)^2)/2  s.t.  s_j + sum_k K_k (u_ik - u_jk)^2 >= (y_i - y_j)^2 for all pairs y_i > y_j
// Solved in the dual: one multiplier alpha_c >= 0 a constraint with features phi_c = ((u_ik - u_jk)^2 …, rho at j's
// slot) and target b_c; w = sum_c alpha_c phi_c = (K, s/rho), >= 0 by itself; each step maximises over one alpha_c,
//   alpha_c <- max(0, alpha_c + (b_c - w' phi_c)/|phi_c|^2)
// over the constraints that matter: violated ones enter after a scan of all pairs, those whose multiplier falls to 0
// leave. The next fit starts from this one's multipliers. What violation the tolerance leaves is added to s_j, so the
// constraints hold exactly, and U(u_i) >= y_i up to round-off.
//
// Units: those of u and y as passed. There is no lower bound (-infinity). Not thread-safe while fitting.
class LipoQpBounds final : public OutputBounds {
 public:
  explicit LipoQpBounds(const LipoQpOptions& options = {});

  // Fits to the rows of u (n x d) and y (n), finite. Rows that the previous fit had, in the same places, warm-start
  // this one. Without two different outputs there is no bound. A pass over all pairs costs O(n^2 d); a fit takes a few.
  // CANCELLED, the bounds being as before: `stop` was raised.
  absl::Status Fit(const Eigen::Ref<const Eigen::MatrixXd>& u, const Eigen::Ref<const Eigen::VectorXd>& y,
                   const base::StopToken& stop);

  // K in (units of y/units of u_k)^2 and s in units of y^2; empty without a bound.
  const Eigen::VectorXd& squared_slopes() const { return slopes_; }
  const Eigen::VectorXd& noise() const { return noise_; }
  // Largest violation before the repair, in squared deviations of y; whether it met the tolerance.
  double violation() const { return violation_; }
  bool converged() const { return violation_ <= options_.tolerance; }
  // Constraints with a positive multiplier, and coordinate updates of the last fit.
  int active_constraints() const { return static_cast<int>(pairs_.size()); }
  double updates() const { return updates_; }

  bool active() const override { return slopes_.size() > 0; }
  void Evaluate(const Eigen::Ref<const Eigen::MatrixXd>& u, Eigen::VectorXd* lower,
                Eigen::VectorXd* upper) const override;
  // The gradient of the branch that attains the minimum, K (u - u_i)/sqrt(...), 0 where the root is 0.
  PointBounds At(const Eigen::Ref<const Eigen::VectorXd>& u) const override;

 private:
  struct Pair {
    Eigen::Index high;  // y(high) > y(low).
    Eigen::Index low;
    double alpha;
  };
  class Solver;

  LipoQpOptions options_;
  std::vector<Pair> pairs_;  // Pairs with positive multipliers.
  Eigen::MatrixXd u_;        // n x d.
  Eigen::VectorXd y_;
  Eigen::VectorXd slopes_;
  Eigen::VectorXd noise_;
  double violation_ = 0.0;
  double updates_ = 0.0;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_LIPSCHITZ_LIPO_QP_H_
