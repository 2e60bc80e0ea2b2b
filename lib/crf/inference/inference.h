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
//   q_t(k)     share of labelings with y_t = k, weighed by exp s(y)             T x K      marginals
//   G(j,k)     expected number of places with label k after label j             K x K      edge_sums
//
// Matrices are row-major, rows padded with zeros to a multiple of 8 (Shape::stride).
namespace luthier::crf {

// Doubles at a multiple of 64 bytes, in huge pages where large: rows of weights are visited at random.
class AlignedDoubles {
 public:
  explicit AlignedDoubles(int64_t size = 0);  // All 0.
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

// Forward-backward with scaling: each step is normalised, so only K and T K exponentials a chain are needed. Exact for
// scores as far apart as kMaxSpan in all; beyond that the sums are done in logarithms, at 5 to 10 times the cost (also
// for forbidden transitions, scores of -1e300). One thread's scratch; results are valid until the next call.
//
// Work on a long chain looks at `stop` every few million operations, which changes no bit, and returns CANCELLED when
// stopped.
class ChainInference {
 public:
  // Within this span of the scores nothing under- or overflows: every a_t(k) is at least exp(-span) / K of the largest.
  static constexpr double kMaxSpan = 600.0;

  // For chains of at most `max_tokens`.
  ChainInference(int labels, int64_t max_tokens, const Kernels& kernels = BestKernels());

  int labels() const { return labels_; }
  int stride() const { return stride_; }
  const Kernels& kernels() const { return kernels_; }

  // To be filled before Forward; padding must stay 0. T x K.
  double* scores() { return scores_.data(); }
  // K x K, copied. Kept until the next call.
  void SetTransitions(const double* w);
  // The same in place: write to transitions(), then Prepare; or PrepareForward, with which Backward does not work.
  double* transitions() { return w_.data(); }
  void Prepare();
  void PrepareForward();

  // work(begin, count) for pieces of the tokens [0, T) in turn: for filling scores().
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

  // log Z; NaN or infinite when scores are. T >= 1.
  absl::StatusOr<double> Forward(int64_t tokens, const base::StopToken& stop = {});
  // After Forward.
  absl::Status Backward(const base::StopToken& stop = {});
  double* marginals() { return q_.data(); }
  double* edge_sums() { return g_.data(); }
  // After Backward: shares of labelings with labels j, k at tokens t-1, t (K x K), 1 <= t < T.
  void EdgeMarginals(int64_t t, double* xi) const;
  // Returns true if the last Forward went to logarithms.
  bool in_logarithms() const { return logarithms_; }

  // Marginals and edge sums minus those of the one labeling y, in place: q_t - e_{y_t} and G - its counts. These are
  // what the gradient of -log p(y) is made of. After Backward.
  void SubtractLabeling(const int32_t* labeling);

  // s(y).
  double Score(const int32_t* labeling, int64_t tokens) const;

  // The best labeling, ties to the smallest last label first. O(T K^2).
  absl::Status Viterbi(int64_t tokens, int32_t* labeling, const base::StopToken& stop = {});

  // After Backward: derivatives of q and G along (U', W') (T x K and K x K): products with the covariance of the model,
  // which is the Hessian of log Z. O(T K^2). The scores must be within kMaxSpan.
  absl::Status Tangent(const double* du, const double* dw, double* dq, double* dg, const base::StopToken& stop = {});

 private:
  absl::StatusOr<double> LogForward(const base::StopToken& stop);
  absl::Status LogBackward(const base::StopToken& stop);

  const Kernels& kernels_;
  const int labels_;
  const int stride_;
  const int64_t piece_;  // Tokens between two looks at the stop.
  int64_t tokens_ = 0;
  double transition_max_ = 0.0;
  double transition_span_ = 0.0;
  bool logarithms_ = false;
  double log_z_ = 0.0;  // Only in logarithms.
  AlignedDoubles scores_, w_, psi_, psi_t_, e_, m_, a_, inverse_, b_, q_, g_;
};

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_INFERENCE_INFERENCE_H_
