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
//   z_i      what the model sees of row i: (a_i - m, 1)
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
// Centred data stay sparse: w = u - sigma m with u = (1/l2) sum alpha_i s_i a_i, sigma = (1/l2) sum alpha_i s_i, and
// m'u is kept up to date beside them, so a step costs two passes over the entries of its row.
namespace luthier::linear {

class DualCoordinateDescent {
 public:
  // `problem` must outlive it, with l2 > 0 and a bias that is penalised or none.
  DualCoordinateDescent(const LinearProblem* problem, uint64_t seed);

  // Starts from the dual variables that belong to the scores of w0; with none, from (almost) zero. kNonFinite when the
  // rows or the scores are not finite. CANCELLED when stopped: to be started again.
  absl::StatusOr<SolveState> Start(const Eigen::VectorXd* w0, const base::StopToken& stop = {});

  // One epoch, or what is left of it: n steps in random order, less those of rows at rest (below). CANCELLED when
  // stopped, at the pace of lib/base/pace.h; Advance then goes on as if nothing had been.
  //
  // A row whose dual variable hardly moves rests for 1, 3, 7, ... epochs, as long as that goes on: at the end most rows
  // of an easy problem do. Nothing is lost: a rest ends, and convergence is judged by the gradient over all rows.
  absl::StatusOr<SolveState> Advance(const base::StopToken& stop);

  Eigen::VectorXd Weights() const;
  double DualValue() const;
  // An estimate of h(w) - D from the steps of the last epoch.
  double gap_estimate() const { return gap_estimate_; }
  int64_t epochs() const { return static_cast<int64_t>(epoch_); }
  int64_t steps() const { return steps_; }
  // Sums over all rows in the epochs that are done, against drift.
  int64_t rebuilds() const;

  void Save(base::CheckpointWriter* writer) const;
  // False when the bytes do not fit: the object is then of no use.
  bool Load(base::CheckpointReader* reader);

 private:
  absl::Status BeginEpoch(const base::StopToken& stop);
  absl::Status Rebuild(const base::StopToken& stop);
  absl::Status Allocate(const base::StopToken& stop);
  bool Step(int64_t i);
  // The new dual variable for margin t.
  double Solve(int64_t i, double t, double q);

  const LinearProblem* const problem_;
  const LinearData& data_;
  const uint64_t seed_;
  std::vector<double> alpha_;  // This and what else there is of each row: from Start or Load on.
  std::vector<double> tau_;    // Logistic: the logit of alpha.
  Eigen::VectorXd u_;
  double sigma_ = 0.0;       // Also the bias.
  double center_dot_ = 0.0;  // m'u
  uint64_t epoch_ = 0;
  int64_t position_ = 0;         // In order_; 0: at the start of an epoch.
  std::vector<int32_t> order_;   // Rows in the order of the current epoch.
  std::vector<uint8_t> streak_;  // Visits in a row that hardly moved alpha.
  std::vector<int32_t> awake_;   // Epoch from which the row is visited again.
  double gap_sum_ = 0.0;         // Sum of the rows' parts of the gap in the current epoch.
  double gap_estimate_ = INFINITY;
  double rest_level_ = 0.0;  // Rows whose part of the gap is below this rest.
  int64_t steps_ = 0;
};

}  // namespace luthier::linear

#endif  // LUTHIER_LIB_LINEAR_DUAL_COORDINATE_DESCENT_H_
