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
  // Scale of the noise terms, > 0: a term s adds (s/rho)^2/2 to the objective, beside |K|^2/2. The default, 1e-3,
  // explains the data by slopes as far as possible; it is right for exact outputs. For noisy ones use
  // max(1e-3, standard deviation of the noise/standard deviation of y).
  double rho = 1e-3;
  double tolerance = 1e-6;   // Largest allowed violation of a constraint, in units of the variance of y.
  double max_updates = 2e7;  // Limit of coordinate updates in one fit; it bounds the latency.
};

// An upper bound on the outputs with one slope for each coordinate and one noise term for each sample (King, "A global
// optimization algorithm worth using", 2017, as in dlib):
//   U(u) = min_i y_i + sqrt(s_i + sum_k K_k (u_k - u_ik)^2),  K >= 0, s >= 0
// K and s are the smallest that the data allow, with u and y divided by their standard deviations over the data:
//   min (|K|^2 + sum_i (s_i/rho)^2)/2  s.t.  s_j + sum_k K_k (u_ik - u_jk)^2 >= (y_i - y_j)^2 for all pairs y_i > y_j
// The dual has one multiplier alpha_c >= 0 for each constraint c, with target b_c and features phi_c: the squared
// differences, and rho in place of s_j. Then (K, s/rho) = w = sum_c alpha_c phi_c, which is never negative. Coordinate
// ascent maximises over one alpha_c at a time,
//   alpha_c <- max(0, alpha_c + (b_c - w' phi_c)/|phi_c|^2)
// within an active set: a scan of all pairs adds violated constraints, and those whose multiplier is 0 are dropped. The
// next fit starts from the multipliers of this one. At the end s_j grows by the remaining violation, so that the
// constraints hold exactly, and U(u_i) >= y_i up to round-off.
//
// Results are in the units of u and y as passed. There is no lower bound (-infinity). Not thread-safe while fitting.
class LipoQpBounds final : public OutputBounds {
 public:
  explicit LipoQpBounds(const LipoQpOptions& options = {});

  // Fits to the rows of u (n x d) and y (n), all finite. Starts from the previous fit's multipliers of rows with the
  // same index. If all outputs are equal there is no bound. A fit takes a few scans of all pairs, O(n^2 d) each. Once
  // `stop` is raised, returns CANCELLED and leaves the bounds as they were.
  absl::Status Fit(const Eigen::Ref<const Eigen::MatrixXd>& u, const Eigen::Ref<const Eigen::VectorXd>& y,
                   const base::StopToken& stop);

  // K, in (units of y/units of u_k)^2, and s, in squared units of y. Both are empty without a bound.
  const Eigen::VectorXd& squared_slopes() const { return slopes_; }
  const Eigen::VectorXd& noise() const { return noise_; }
  // The largest violation before s_j grew, in units of the variance of y, and whether it met the tolerance.
  double violation() const { return violation_; }
  bool converged() const { return violation_ <= options_.tolerance; }
  // Number of constraints with a positive multiplier, and number of coordinate updates of the last fit.
  int active_constraints() const { return static_cast<int>(pairs_.size()); }
  double updates() const { return updates_; }

  bool active() const override { return slopes_.size() > 0; }
  void Evaluate(const Eigen::Ref<const Eigen::MatrixXd>& u, Eigen::VectorXd* lower,
                Eigen::VectorXd* upper) const override;
  // Returns the bound at u, and the gradient K (u - u_i)/sqrt(…) of the sample i that attains the minimum; 0 where the
  // root is 0.
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
