#ifndef LUTHIER_LIB_CRF_INFERENCE_INFERENCE_H_
#define LUTHIER_LIB_CRF_INFERENCE_INFERENCE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/crf/inference/kernel.h"
#include "lib/linear/minimizer.h"

// Sums and maxima over all labelings of one chain.
//
//   symbol     meaning                                                          shape      name in code
//   T, K       tokens, labels                                                              tokens, labels
//   U          scores of labels at tokens                                       T x K      scores
//   W          scores of a label after a label                                  K x K      transitions
//   s(y)       sum_t U_t(y_t) + sum_{t>=2} W(y_{t-1}, y_t)
//   log Z      log sum_y exp s(y)
//   q_t(k)     P(y_t = k) under p(y) proportional to exp s(y)                   T x K      marginals
//   G(j,k)     expected number of places with label k after label j             K x K      edge_sums
//
// Matrices are row-major, rows padded with zeros to a multiple of 8 (Shape::stride).
namespace luthier::crf {

// An array of doubles at a multiple of 64 bytes. Large arrays use huge pages, because rows of
// weights are visited at random.
class AlignedDoubles {
 public:
  explicit AlignedDoubles(int64_t size = 0);  // All entries are 0.
  AlignedDoubles(AlignedDoubles&& other) noexcept;
  AlignedDoubles& operator=(AlignedDoubles&& other) noexcept;
  ~AlignedDoubles();

  double* data() { return data_; }
  const double* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  double* data_ = nullptr;
  int64_t size_ = 0;
};

// Forward-backward with scaling: each step is normalised, so a chain needs only the exponentials of
// its scores and transitions. It is exact if the scores differ by at most kMaxSpan in all. Beyond
// that, as with forbidden transitions (scores of -1e300), sums are computed in logarithms, at 5 to
// 10 times the cost. An object is for one thread; results are valid until the next call.
//
// Work on a long chain polls `stop` every few million operations and returns CANCELLED when
// stopped. Polling does not change the results.
class ChainInference {
 public:
  // Largest span of the scores without under- or overflow: every a_t(k) is at least exp(-span) / K
  // of the largest.
  static constexpr double kMaxSpan = 600.0;

  // Makes an object for chains of at most `max_tokens` tokens.
  ChainInference(int labels, int64_t max_tokens, const Kernels& kernels = BestKernels());

  int labels() const { return labels_; }
  int stride() const { return stride_; }
  const Kernels& kernels() const { return kernels_; }

  // Returns the scores, T x K, which the caller fills before Forward. Padding must stay 0.
  double* scores() { return scores_.data(); }
  // Copies the transitions, K x K, which are used until the next call of this.
  void SetTransitions(const double* w);
  // Set transitions in place: write to transitions(), then call Prepare. PrepareForward is cheaper,
  // but Backward does not work after it.
  double* transitions() { return w_.data(); }
  void Prepare();
  void PrepareForward();

  // Calls work(begin, count) for pieces of the tokens [0, T) in turn, to fill scores(). Polls
  // `stop` between them.
  template <typename Work>
  absl::Status ByPieces(int64_t tokens, const base::StopToken& stop, Work&& work) const {
    for (int64_t begin = 0; begin < tokens; begin += piece_) {
      if (begin > 0) {
        LUTHIER_RETURN_IF_ERROR(stop.Poll());
      }
      work(begin, std::min(piece_, tokens - begin));
    }
    return absl::OkStatus();
  }

  // Returns log Z, for T >= 1. It is NaN or infinite if scores are.
  absl::StatusOr<double> Forward(int64_t tokens, const base::StopToken& stop = {});
  // Computes marginals() and edge_sums(), after Forward.
  absl::Status Backward(const base::StopToken& stop = {});
  double* marginals() { return q_.data(); }
  double* edge_sums() { return g_.data(); }
  // Computes the probabilities (K x K) of labels j, k at tokens t-1, t, 1 <= t < T. Call it after
  // Backward.
  void EdgeMarginals(int64_t t, double* xi) const;
  // Returns true if the last Forward went to logarithms.
  bool in_logarithms() const { return logarithms_; }

  // Subtracts the labeling y from the marginals and edge sums, in place: q_t - e_{y_t}, and G minus
  // the counts of y. The gradient of -log p(y) is made of these. Call it after Backward.
  void SubtractLabeling(const int32_t* labeling);

  // Returns s(y).
  double Score(const int32_t* labeling, int64_t tokens) const;

  // Computes the best labeling. Of equals it takes the one with the smallest last label, then with
  // the smallest label before it, and so on. O(T K^2).
  absl::Status Viterbi(int64_t tokens, int32_t* labeling, const base::StopToken& stop = {});

  // Computes the derivatives of q and G along (U', W') (T x K and K x K): products with the
  // covariance of the model, which is the Hessian of log Z. Call it after Backward. The scores must
  // be within kMaxSpan. O(T K^2).
  absl::Status Tangent(const double* du, const double* dw, double* dq, double* dg, const base::StopToken& stop = {});

 private:
  absl::StatusOr<double> LogForward(const base::StopToken& stop);
  absl::Status LogBackward(const base::StopToken& stop);

  const Kernels& kernels_;
  const int labels_;
  const int stride_;
  const int64_t piece_;  // Tokens between two polls of the stop.
  int64_t tokens_ = 0;
  double transition_max_ = 0.0;
  double transition_span_ = 0.0;
  bool logarithms_ = false;
  double log_z_ = 0.0;  // Set only in logarithms.
  AlignedDoubles scores_, w_, psi_, psi_t_, e_, m_, a_, inverse_, b_, q_, g_;
};

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_INFERENCE_INFERENCE_H_
