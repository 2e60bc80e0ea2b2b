#ifndef LUTHIER_LIB_SEARCH_BO_LIPSCHITZ_SLOPE_BOUNDS_H_
#define LUTHIER_LIB_SEARCH_BO_LIPSCHITZ_SLOPE_BOUNDS_H_

#include <atomic>
#include <cstdint>
#include <optional>

#include "Eigen/Core"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "lib/base/random.h"
#include "lib/base/stop_token.h"

// Bounds on an objective to be maximised that follow from a Lipschitz constant L: |f(u) - f(v)| <= L |u - v|
// (Euclidean, model coordinates).
//
// Units. Nothing here knows about standardising: L, outputs, bounds and noise are all in the units of the outputs that
// are passed in. Two uses are sound. With a linear transform z = (y - m)/s the slope may be kept in user units, where
// it never falls as data come in, and L divided by s. With a warped transform slopes have to be estimated from the z
// themselves, anew whenever the transform changes. Outputs that were imputed (failed trials) must not be passed.
namespace luthier::search {

// L_lb = max_{i != j} |y_i - y_j|/|u_i - u_j|, the largest slope seen: at most the true constant when outputs are
// exact, and 0 until two outputs differ. Pairs nearer than 1e-12 are skipped. With noise deviation s > 0 close pairs
// would make it explode; then a slope is max(0, |y_i - y_j| - 2 sqrt2 s)/max(|u_i - u_j|, 1e-3 sqrt d).
class SlopeEstimate {
 public:
  explicit SlopeEstimate(Eigen::Index columns, double noise_deviation = 0.0);

  // Adds a point. Returns false, and changes nothing, if u or y is not finite. O(size() d).
  bool Add(const Eigen::Ref<const Eigen::VectorXd>& u, double y);

  double slope() const { return slope_; }
  Eigen::Index size() const { return size_; }

 private:
  double slack_;         // 2 sqrt2 s.
  double min_distance_;  // 0 without noise.
  Eigen::MatrixXd u_;    // Capacity x d.
  Eigen::VectorXd y_;
  Eigen::Index size_ = 0;
  double slope_ = 0.0;
};

// Returns the estimate over the rows of u (n x d) and y (n). O(n^2 d).
double SteepestSlope(const Eigen::Ref<const Eigen::MatrixXd>& u, const Eigen::Ref<const Eigen::VectorXd>& y,
                     double noise_deviation = 0.0);

// Returns the constant in use, given the largest slope seen after `t` completed evaluations (not asks, so that it
// depends on the data alone): the user's constant `known` > 0, in the units of the slope, or `slope` if that
// contradicts it. Without one, 10 t slope: a constant that grows without bound cannot exclude the maximum for ever,
// whereas a fixed multiple can. It is +infinity, which means no bound, while `slope` is 0 or not finite.
double LipschitzConstant(std::optional<double> known, double slope, int64_t t);

// Bounds at one point with a subgradient of each (0 where the bound is infinite).
struct PointBounds {
  double lower = 0.0;
  double upper = 0.0;
  Eigen::VectorXd lower_gradient;
  Eigen::VectorXd upper_gradient;
};

// A band that f is believed to lie in. Any thread may call const members.
class OutputBounds {
 public:
  virtual ~OutputBounds() = default;
  // Returns false if the bounds are -infinity and +infinity everywhere.
  virtual bool active() const = 0;
  // Computes both bounds at the rows of `u` (q x d); resizes `lower` and `upper` to q.
  virtual void Evaluate(const Eigen::Ref<const Eigen::MatrixXd>& u, Eigen::VectorXd* lower,
                        Eigen::VectorXd* upper) const = 0;
  virtual PointBounds At(const Eigen::Ref<const Eigen::VectorXd>& u) const = 0;
};

// upper(u) = min_i (y_i + L |u - u_i|) + slack, lower(u) = max_i (y_i - L |u - u_i|) - slack. Subgradients are those of
// the first row that attains the bound: +-L (u - u_i)/|u - u_i|, 0 at u_i itself. Without points, or with L =
// +infinity, there are no bounds (at the points themselves neither). Where L is below the slopes of the data, lower may
// exceed upper.
class LipschitzBounds final : public OutputBounds {
 public:
  // u: n x d, y: n, finite. constant >= 0, not NaN. slack >= 0: 0, or twice the noise deviation when y are noisy.
  LipschitzBounds(const Eigen::Ref<const Eigen::MatrixXd>& u, const Eigen::Ref<const Eigen::VectorXd>& y,
                  double constant, double slack = 0.0);

  double constant() const { return constant_; }
  double slack() const { return slack_; }

  bool active() const override { return active_; }
  // O(q n d).
  void Evaluate(const Eigen::Ref<const Eigen::MatrixXd>& u, Eigen::VectorXd* lower,
                Eigen::VectorXd* upper) const override;
  PointBounds At(const Eigen::Ref<const Eigen::VectorXd>& u) const override;

 private:
  Eigen::MatrixXd u_;
  Eigen::VectorXd y_;
  double constant_;
  double slack_;
  bool active_;
};

// The share of a uniform sample of the space at which f cannot exceed incumbent + epsilon, because the upper bound does
// not.
struct ExclusionShare {
  double share = 0.0;
  double standard_error = 0.0;  // Standard error of independent points; a Sobol sample's error is smaller.
  double largest_upper = 0.0;  // Largest upper bound of the sample. Minus the incumbent it estimates the possible gain.
  int points = 0;
};
// Estimates the share over the sample `u`: q x d model points, q >= 1. Returns CANCELLED if `stop` was raised.
absl::StatusOr<ExclusionShare> ExcludedShare(const OutputBounds& bounds, const Eigen::Ref<const Eigen::MatrixXd>& u,
                                             double incumbent, double epsilon, const base::StopToken& stop);
// Estimates the share over the first `points` scrambled Sobol points of [0, 1]^d of the stream (seed,
// "lipschitz/certificate"). For spaces whose model coordinates are that cube.
ExclusionShare ExcludedShareOfCube(const OutputBounds& bounds, int d, double incumbent, double epsilon, uint64_t seed,
                                   int points = 4096);

// Counts how often a band mattered in batch evaluations (a maximiser's screening). Copies are snapshots.
struct BindCount {
  int64_t evaluated = 0;
  int64_t bound = 0;
  double rate() const { return evaluated == 0 ? 0.0 : static_cast<double>(bound) / static_cast<double>(evaluated); }
};
class BindCounter {
 public:
  void Add(int64_t evaluated, int64_t bound) {
    evaluated_.fetch_add(evaluated, std::memory_order_relaxed);
    bound_.fetch_add(bound, std::memory_order_relaxed);
  }
  BindCount count() const {
    return {evaluated_.load(std::memory_order_relaxed), bound_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<int64_t> evaluated_{0}, bound_{0};
};

// LIPO (Malherbe & Vayatis 2017, "Global optimization of Lipschitz functions"): uniform draws until one could beat the
// incumbent, upper(u) >= incumbent. No evaluation is spent on the others.
struct LipoOptions {
  int max_draws = 3000;     // Then the draw with the largest upper bound is taken. >= 1.
  double unfiltered = 0.0;  // Probability of taking draw 0 as it is; AdaLIPO's is 0.1.
};
struct LipoProposal {
  uint32_t draw = 0;      // Number of the draw that was taken; 0 is the unfiltered one.
  Eigen::VectorXd u;      // Its model point.
  double upper = 0.0;     // The bound there (+infinity without one).
  bool accepted = false;  // True if `upper` reaches the incumbent, or the draw was taken unfiltered.
  int draws = 0;          // Draws made.
};
// Proposes a point by LIPO. draw(i) returns the model point of the i-th draw, a function of i alone. Draw 0 must be
// random search's next point, so that LIPO without a bound is random search; the caller samples the space with
// RandomStream(seed, "explore", j, i). `coin` decides whether draw 0 is taken unfiltered, and is read only if
// options.unfiltered > 0. Deterministic. O(draws n d). Returns CANCELLED if `stop` was raised.
absl::StatusOr<LipoProposal> ProposeLipo(const OutputBounds& bounds, double incumbent,
                                         absl::FunctionRef<Eigen::VectorXd(uint32_t)> draw, const LipoOptions& options,
                                         base::RandomStream coin, const base::StopToken& stop);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_LIPSCHITZ_SLOPE_BOUNDS_H_
