#ifndef LUTHIER_LIB_LINEAR_DUAL_COORDINATE_DESCENT_H_
#define LUTHIER_LIB_LINEAR_DUAL_COORDINATE_DESCENT_H_

#include <Eigen/Core>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/checkpoint.h"
#include "lib/linear/minimizer.h"
#include "lib/linear/problem.h"

// Coordinate descent on the dual of a linear problem (Hsieh, Chang, Lin, Keerthi, Sundararajan 2008; for logistic
// regression Yu, Huang, Lin 2011).
//
//   symbol   meaning                                                             name in code
//   z_i      row i as the model sees it: (a_i - m, 1)
//   alpha_i  dual variable: [0, 1]; squared hinge: [0, inf)                      alpha_
//   w        (1/l2) sum_i alpha_i s_i z_i
//   D        -sum_i loss*(-alpha_i) - l2/2 |w|^2 <= h(w), equal at the optimum   DualValue()
//   q_i      |z_i|^2 / l2
//
// One step sets alpha_i to the maximum of D along it. For the logistic loss that is the root of
// F(tau) = tau + t_i + q_i (sigma(tau) - alpha_i), alpha = sigma(tau), which we solve in tau: F is increasing with a
// slope of at least 1, the root lies between tau_i and -t_i, Newton's steps need one exponential each and no logarithm,
// and an alpha_i close to 0 or 1 keeps its relative precision. (The sources work in alpha, with two logarithms a step.)
//
// A free bias b has no dual variable; it is the multiplier of the constraint sum_i alpha_i s_i = 0. It is searched for
// by the method of multipliers (Bertsekas 1982): every epoch goes on with D for the penalty l2 / (2 k) (b - b_0)^2 of
// the bias, in which q_i = (|a_i - m|^2 + k) / l2, and then moves b_0 to where the bias is, b_0 + k sigma. Each move
// makes b's distance from its optimum smaller by about 1 + k C / l2, C the curvature of h along b.
//
// Centred data stay sparse: w = u - sigma m with u = (1/l2) sum alpha_i s_i a_i and
// sigma = (1/l2) sum alpha_i s_i. A step updates u, sigma and m'u, so it costs two passes over the
// entries of its row.
namespace luthier::linear {

class DualCoordinateDescent {
 public:
  // `problem` must outlive this. It must have l2 > 0.
  DualCoordinateDescent(const LinearProblem* problem, uint64_t seed);

  // Starts from the dual variables that belong to the scores of `w0`, or from (almost) zero if `w0`
  // is null. Returns kNonFinite if the rows or the scores are not finite. Returns CANCELLED when
  // stopped; Start must then be called again.
  absl::StatusOr<SolveState> Start(const Eigen::VectorXd* w0, const base::StopToken& stop = {});

  // Runs one epoch, or the rest of one that was stopped: a step for each row that does not rest, in
  // random order. Polls `stop` at the pace of lib/base/pace.h and returns CANCELLED when stopped.
  // The next call continues where this one stopped, with the same result.
  //
  // A row whose dual variable hardly moves rests for 1, 3, 7, ... epochs. At the end most rows of
  // an easy problem rest. The solution does not change: each rest ends, and convergence is judged
  // by the gradient over all rows.
  absl::StatusOr<SolveState> Advance(const base::StopToken& stop);

  Eigen::VectorXd Weights() const;
  // Not for a free bias, with which alpha meets the constraint only in the limit.
  double DualValue() const;
  // Returns an estimate of h(w) - D from the steps of the last epoch.
  double gap_estimate() const { return gap_estimate_; }
  int64_t epochs() const { return static_cast<int64_t>(epoch_); }
  int64_t steps() const { return steps_; }
  // Returns how often w was recomputed from all rows, against drift, in the finished epochs.
  int64_t rebuilds() const;

  void Save(base::CheckpointWriter* writer) const;
  // Returns false if the bytes do not fit. The object must then not be used.
  bool Load(base::CheckpointReader* reader);

 private:
  absl::Status BeginEpoch(const base::StopToken& stop);
  absl::Status Rebuild(const base::StopToken& stop);
  absl::Status Allocate(const base::StopToken& stop);
  bool Step(int64_t i);
  // Returns the new dual variable for margin t.
  double Solve(int64_t i, double t, double q);

  const LinearProblem* const problem_;
  const LinearData& data_;
  const uint64_t seed_;
  std::vector<double> alpha_;  // All members with an entry a row are filled by Start or Load.
  std::vector<double> tau_;    // Logistic: the logit of alpha.
  Eigen::VectorXd u_;
  double sigma_ = 0.0;       // Also the bias, if that is penalised.
  double bias_ = 0.0;        // b_0
  double weight_ = 1.0;      // k; 1 for a penalised bias, 0 without one.
  double center_dot_ = 0.0;  // m'u
  uint64_t epoch_ = 0;
  int64_t position_ = 0;         // Position in order_; 0 at the start of an epoch.
  std::vector<int32_t> order_;   // Rows in the order of the current epoch.
  std::vector<uint8_t> streak_;  // Number of visits in a row that hardly moved alpha.
  std::vector<int32_t> awake_;   // Epoch from which the row is visited again.
  double gap_sum_ = 0.0;         // Sum of the rows' parts of the gap in the current epoch.
  double gap_estimate_ = INFINITY;
  double rest_level_ = 0.0;  // Rows whose part of the gap is below this rest.
  int64_t steps_ = 0;
};

}  // namespace luthier::linear

#endif  // LUTHIER_LIB_LINEAR_DUAL_COORDINATE_DESCENT_H_
