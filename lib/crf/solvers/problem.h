#ifndef LUTHIER_LIB_CRF_SOLVERS_PROBLEM_H_
#define LUTHIER_LIB_CRF_SOLVERS_PROBLEM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/crf/features/chain_data.h"
#include "lib/crf/features/segments.h"
#include "lib/crf/inference/inference.h"
#include "lib/crf/solvers/l1_penalty.h"

// Training of linear-chain conditional random fields (Lafferty et al. 2001) with an L2 penalty.
//
//   symbol     meaning                                                              name in code
//   n          sequences                                                            data().sequences()
//   w          weights: A + K rows of K, see Shape                                  w
//   nll_i(w)   -log p(y_i | x_i, w) = log Z_i - s(y_i), nats
//   h(w)       sum_i nll_i + l2/2 |w|^2
//
// h is a sum over sequences, not a mean, as for `logistic`. So l2 is n lambda of Ahmed 2018, whose
// lambda = 1/n is l2 = 1. It is twice CRFsuite's c2, and Wapiti's -2. All weights are penalised.
namespace luthier::crf {

// The sum of the losses nll_i. `data` must outlive it. Not thread-safe, because it owns scratch.
class ChainLoss {
 public:
  // Sums over sequences are split into `threads` contiguous parts of about equal work; the result depends on their
  // number, not on their timing. 1 <= threads <= 256.
  explicit ChainLoss(const ChainData* data, int threads = 1, const Kernels& kernels = BestKernels());

  const ChainData& data() const { return *data_; }
  Eigen::Index dim() const { return data_->shape().dim(); }

  // Functions with a stop poll it before each sequence and within long ones, and return CANCELLED
  // when stopped.

  // Returns sum_i nll_i(w), and its gradient unless null. NaN or infinite if scores overflow. `w`
  // has dim() entries, with padding 0.
  absl::StatusOr<double> Value(const Eigen::VectorXd& w, Eigen::VectorXd* gradient, const base::StopToken& stop = {});
  // Returns (sum_i Hessian of nll_i at w) v, exactly; NaN if scores are too far apart for the
  // scaled sums.
  Eigen::VectorXd HessianVector(const Eigen::VectorXd& w, const Eigen::VectorXd& v);

  // Compute the same over the sequences rows[0 ... count), on one thread. AddSubset adds its gradient to *gradient
  // (dim()).
  absl::StatusOr<double> AddSubset(const int32_t* rows, int64_t count, const Eigen::VectorXd& w,
                                   Eigen::VectorXd* gradient, const base::StopToken& stop = {});
  absl::StatusOr<Eigen::VectorXd> SubsetHessianVector(const int32_t* rows, int64_t count, const Eigen::VectorXd& w,
                                                      const Eigen::VectorXd& v, const base::StopToken& stop = {});

  // Returns the sum over tokens of x^2 q (1 - q) for each weight of an attribute, and the same sum over pairs of labels
  // for each transition. This is the diagonal of the Hessian without the covariances between different tokens. >= 0.
  // Costs a gradient.
  absl::StatusOr<Eigen::VectorXd> TokenVariances(const Eigen::VectorXd& w, const base::StopToken& stop = {});

  struct Metrics {
    double loss_nats = 0.0;        // sum_i nll_i / known_tokens
    double accuracy = 0.0;         // Share of tokens labelled right by the best labelings.
    double log_space_share = 0.0;  // Share of sequences whose sums needed logarithms.
    int64_t tokens = 0;
    int64_t known_tokens = 0;  // Tokens of sequences without unknown labels.
    int64_t left_out = 0;      // Sequences with unknown labels.
    SegmentScores segments;
  };
  // Returns metrics at w. Unlike above, data may have unknown labels. Unless null, `guesses` gets
  // the best labelings, one label a token.
  absl::StatusOr<Metrics> Evaluate(const Eigen::VectorXd& w, std::vector<int32_t>* guesses = nullptr,
                                   const base::StopToken& stop = {});

 private:
  struct Part;
  // Returns the loss of the sequences rows[first ... last), or first ... last - 1 if `rows` is
  // null, at w_. Unless null, their gradient is added to `gradient`, dim() numbers.
  absl::StatusOr<double> Sum(ChainInference& chain, const int32_t* rows, int64_t first, int64_t last, double* gradient,
                             const base::StopToken& stop);
  absl::StatusOr<Eigen::VectorXd> HessianSum(const int32_t* rows, int64_t count, const Eigen::VectorXd& w,
                                             const Eigen::VectorXd& v, const base::StopToken& stop);

  const ChainData* const data_;
  const Kernels& kernels_;
  AlignedDoubles w_;  // A copy of w with rows at multiples of 64 bytes.
  std::vector<std::shared_ptr<Part>> parts_;
};

// The training problem h.
class ChainProblem {
 public:
  // l2 >= 0, finite.
  ChainProblem(ChainLoss* loss, double l2) : loss_(loss), l2_(l2) {}
  ChainLoss& loss() const { return *loss_; }
  double l2() const { return l2_; }
  // As ChainLoss::Value.
  absl::StatusOr<double> Value(const Eigen::VectorXd& w, Eigen::VectorXd* gradient,
                               const base::StopToken& stop = {}) const;
  Eigen::VectorXd HessianVector(const Eigen::VectorXd& w, const Eigen::VectorXd& v) const;

 private:
  ChainLoss* const loss_;
  const double l2_;
};

// Returns the largest entry of the smallest subgradient of h + sum over rows l1 |w_row|_1, given
// the gradient of h. It is 0 at the optimum only. Rows have `stride` weights.
double SmallestSubgradient(const Eigen::VectorXd& w, const Eigen::VectorXd& gradient, const L1Penalty& l1, int stride);

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_SOLVERS_PROBLEM_H_
