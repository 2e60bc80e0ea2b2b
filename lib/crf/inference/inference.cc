#include "lib/crf/inference/inference.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/crf/features/shape.h"

namespace luthier::crf {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
// Limits of the work between two polls of the stop: operations, which take some tenths of a millisecond, and tokens,
// each of which may have many attributes.
constexpr int64_t kPieceOperations = int64_t{2} << 20;
constexpr int64_t kPieceTokens = 1024;

// Returns log sum exp of x[0], x[x_step], ... plus the offsets y.
double LogSumExp(const double* x, int x_step, const double* y, int count) {
  double top = -INFINITY;
  for (int k = 0; k < count; ++k) {
    const double term = x[k * x_step] + y[k];
    if (std::isnan(term)) return term;
    top = std::max(top, term);
  }
  if (std::isinf(top)) return top;
  double sum = 0.0;
  for (int k = 0; k < count; ++k) sum += std::exp(x[k * x_step] + y[k] - top);
  return top + std::log(sum);
}

}  // namespace

AlignedDoubles::AlignedDoubles(int64_t size) : size_(size) {
  if (size == 0) return;
  size_t bytes = (static_cast<size_t>(size) * sizeof(double) + 63) / 64 * 64;
  const bool huge = bytes >= kHugePage;
  if (huge) bytes = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  data_ = static_cast<double*>(std::aligned_alloc(huge ? kHugePage : 64, bytes));
  LUTHIER_CHECK(data_ != nullptr);
  if (huge) madvise(data_, bytes, MADV_HUGEPAGE);  // This is a request; if it is refused, the results are the same.
  std::memset(data_, 0, bytes);
}

AlignedDoubles::AlignedDoubles(AlignedDoubles&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

AlignedDoubles& AlignedDoubles::operator=(AlignedDoubles&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

AlignedDoubles::~AlignedDoubles() {
  std::free(data_);
}

ChainInference::ChainInference(int labels, int64_t max_tokens, const Kernels& kernels)
    : kernels_(kernels),
      labels_(labels),
      stride_(Shape{0, labels}.stride()),
      piece_(std::clamp<int64_t>(kPieceOperations / (2 * int64_t{labels} * stride_), 1, kPieceTokens)) {
  LUTHIER_CHECK(labels >= 1 && max_tokens >= 1);
  const int64_t rows = max_tokens * stride_;
  const int64_t square = int64_t{labels} * stride_;
  for (AlignedDoubles* array : {&scores_, &e_, &a_, &b_, &q_}) *array = AlignedDoubles(rows);
  for (AlignedDoubles* array : {&w_, &psi_, &psi_t_, &g_}) *array = AlignedDoubles(square);
  for (AlignedDoubles* array : {&m_, &inverse_}) *array = AlignedDoubles(max_tokens);
}

void ChainInference::SetTransitions(const double* w) {
  std::copy_n(w, w_.size(), w_.data());
  Prepare();
}

void ChainInference::Prepare() {
  transition_span_ =
      kernels_.exp_transitions(w_.data(), labels_, stride_, psi_.data(), psi_t_.data(), &transition_max_);
}

void ChainInference::PrepareForward() {
  transition_span_ = kernels_.exp_transitions(w_.data(), labels_, stride_, psi_.data(), nullptr, &transition_max_);
}

absl::StatusOr<double> ChainInference::Forward(int64_t tokens, const base::StopToken& stop) {
  tokens_ = tokens;
  double span = 0.0;
  LUTHIER_RETURN_IF_ERROR(ByPieces(tokens, stop, [&](int64_t begin, int64_t count) {
    const int64_t row = begin * stride_;
    const double wide =
        kernels_.exp_scores(scores_.data() + row, count, labels_, stride_, e_.data() + row, m_.data() + begin);
    if (!(wide <= span)) span = wide;  // Keeps NaN.
  }));
  logarithms_ = !(span + transition_span_ <= kMaxSpan);
  if (logarithms_) return LogForward(stop);
  double log_z = 0.0;
  double log_c[2] = {0.0, 1.0};
  LUTHIER_RETURN_IF_ERROR(ByPieces(tokens, stop, [&](int64_t begin, int64_t count) {
    log_z = kernels_.forward(e_.data(), psi_.data(), begin, begin + count, labels_, stride_, a_.data(), inverse_.data(),
                             log_c);
  }));
  for (int64_t t = 0; t < tokens; ++t) log_z += m_.data()[t];
  return log_z + static_cast<double>(tokens - 1) * transition_max_;
}

absl::Status ChainInference::Backward(const base::StopToken& stop) {
  if (logarithms_) return LogBackward(stop);
  for (int64_t end = tokens_; end > 0; end -= std::min(end, piece_)) {
    if (end < tokens_) {
      LUTHIER_RETURN_IF_ERROR(stop.Poll());
    }
    kernels_.backward(e_.data(), psi_t_.data(), a_.data(), inverse_.data(), std::max<int64_t>(0, end - piece_), end,
                      tokens_, labels_, stride_, b_.data(), q_.data());
  }
  // Works on some rows of G at a time, because each is a sum over all tokens.
  const int64_t rows = tokens_ <= piece_ ? labels_ : std::max<int64_t>(1, labels_ * piece_ / tokens_ / 4) * 4;
  for (int64_t j = 0; j < labels_; j += rows) {
    if (j > 0) {
      LUTHIER_RETURN_IF_ERROR(stop.Poll());
    }
    kernels_.edges(a_.data() + j, inverse_.data(), b_.data(), psi_.data() + j * stride_, tokens_,
                   static_cast<int>(std::min<int64_t>(rows, labels_ - j)), stride_, g_.data() + j * stride_);
  }
  return absl::OkStatus();
}

// Fills a_ with the logarithms of the sums over beginnings that end with label k.
absl::StatusOr<double> ChainInference::LogForward(const base::StopToken& stop) {
  const double* u = scores_.data();
  double* a = a_.data();
  std::copy_n(u, stride_, a);
  for (int64_t t = 1; t < tokens_; ++t) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    for (int k = 0; k < labels_; ++k) {
      a[t * stride_ + k] = u[t * stride_ + k] + LogSumExp(w_.data() + k, stride_, a + (t - 1) * stride_, labels_);
    }
  }
  const std::vector<double> zeros(static_cast<size_t>(labels_), 0.0);
  log_z_ = LogSumExp(a + (tokens_ - 1) * stride_, 1, zeros.data(), labels_);
  return log_z_;
}

// Fills b_ with the logarithms of the sums over ends after label k.
absl::Status ChainInference::LogBackward(const base::StopToken& stop) {
  const double* u = scores_.data();
  double* a = a_.data();
  double* b = b_.data();
  double* q = q_.data();
  std::fill_n(b + (tokens_ - 1) * stride_, stride_, 0.0);
  std::vector<double> next(static_cast<size_t>(stride_));
  for (int64_t t = tokens_ - 2; t >= 0; --t) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    for (int k = 0; k < labels_; ++k) {
      next[static_cast<size_t>(k)] = u[(t + 1) * stride_ + k] + b[(t + 1) * stride_ + k];
    }
    for (int j = 0; j < labels_; ++j) {
      b[t * stride_ + j] = LogSumExp(w_.data() + j * stride_, 1, next.data(), labels_);
    }
  }
  // Each token is normalised by itself: log Z cancels, and with it most of the rounding.
  std::fill_n(g_.data(), g_.size(), 0.0);
  for (int64_t t = 0; t < tokens_; ++t) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    const double total = LogSumExp(a + t * stride_, 1, b + t * stride_, labels_);
    std::fill_n(q + t * stride_, stride_, 0.0);
    for (int k = 0; k < labels_; ++k) {
      q[t * stride_ + k] = std::exp(a[t * stride_ + k] + b[t * stride_ + k] - total);
    }
    if (t == 0) continue;
    for (int j = 0; j < labels_; ++j) {
      for (int k = 0; k < labels_; ++k) {
        g_.data()[j * stride_ + k] += std::exp(a[(t - 1) * stride_ + j] + w_.data()[j * stride_ + k] +
                                               u[t * stride_ + k] + b[t * stride_ + k] - total);
      }
    }
  }
  return absl::OkStatus();
}

void ChainInference::EdgeMarginals(int64_t t, double* xi) const {
  std::fill_n(xi, g_.size(), 0.0);
  const double* u = scores_.data() + t * stride_;
  const double* a = a_.data() + (t - 1) * stride_;
  const double* b = b_.data() + t * stride_;
  double total = 0.0;
  for (int j = 0; j < labels_; ++j) {
    for (int k = 0; k < labels_; ++k) {
      double& value = xi[j * stride_ + k];
      if (logarithms_) {
        value = std::exp(a[j] + w_.data()[j * stride_ + k] + u[k] + b[k] - log_z_);
      } else {
        value = a[j] * inverse_.data()[t - 1] * psi_.data()[j * stride_ + k] * b[k];
      }
      total += value;
    }
  }
  for (int k = 0; k < labels_ * stride_; ++k) xi[k] /= total;
}

void ChainInference::SubtractLabeling(const int32_t* labeling) {
  for (int64_t t = 0; t < tokens_; ++t) q_.data()[t * stride_ + labeling[t]] -= 1.0;
  for (int64_t t = 1; t < tokens_; ++t) g_.data()[labeling[t - 1] * stride_ + labeling[t]] -= 1.0;
}

double ChainInference::Score(const int32_t* labeling, int64_t tokens) const {
  double score = scores_.data()[labeling[0]];
  for (int64_t t = 1; t < tokens; ++t) {
    score += scores_.data()[t * stride_ + labeling[t]] + w_.data()[labeling[t - 1] * stride_ + labeling[t]];
  }
  return score;
}

absl::Status ChainInference::Viterbi(int64_t tokens, int32_t* labeling, const base::StopToken& stop) {
  const double* u = scores_.data();
  double* best = a_.data();
  std::copy_n(u, stride_, best);
  std::vector<int32_t> from(static_cast<size_t>(tokens * labels_), 0);
  for (int64_t t = 1; t < tokens; ++t) {
    if (t % piece_ == 0) {
      LUTHIER_RETURN_IF_ERROR(stop.Poll());
    }
    double* now = best + t * stride_;
    int32_t* back = from.data() + t * labels_;
    for (int k = 0; k < labels_; ++k) now[k] = best[(t - 1) * stride_] + w_.data()[k];
    for (int j = 1; j < labels_; ++j) {
      const double before = best[(t - 1) * stride_ + j];
      const double* row = w_.data() + j * stride_;
      for (int k = 0; k < labels_; ++k) {
        const double candidate = before + row[k];
        if (candidate > now[k]) {
          now[k] = candidate;
          back[k] = j;
        }
      }
    }
    for (int k = 0; k < labels_; ++k) now[k] += u[t * stride_ + k];
  }
  const double* last = best + (tokens - 1) * stride_;
  labeling[tokens - 1] = static_cast<int32_t>(std::max_element(last, last + labels_) - last);
  for (int64_t t = tokens - 1; t > 0; --t) labeling[t - 1] = from[static_cast<size_t>(t * labels_ + labeling[t])];
  return absl::OkStatus();
}

absl::Status ChainInference::Tangent(const double* du, const double* dw, double* dq, double* dg,
                                     const base::StopToken& stop) {
  LUTHIER_CHECK(!logarithms_);
  // With alpha_t = a_t / c_t, and beta as in kernel.h: derivatives of each recursion in turn. m_t and M are constants.
  const int K = labels_, S = stride_;
  const auto rows = static_cast<size_t>(tokens_ * S);
  const double *e = e_.data(), *psi = psi_.data(), *b = b_.data(), *w = dw;
  std::vector<double> alpha(rows), d_alpha(rows), beta(rows), d_beta(rows), d_c(static_cast<size_t>(tokens_));
  std::vector<double> sum(static_cast<size_t>(S)), d_sum(static_cast<size_t>(S));
  const auto at = [S](int64_t t, int k) { return static_cast<size_t>(t * S + k); };
  const auto inverse = [this](int64_t t) { return inverse_.data()[t]; };
  for (int64_t t = 0; t < tokens_; ++t) {
    for (int k = 0; k < K; ++k) alpha[at(t, k)] = a_.data()[t * S + k] * inverse(t);
  }
  for (int64_t t = 0; t < tokens_; ++t) {
    if (t > 0 && t % piece_ == 0) {
      LUTHIER_RETURN_IF_ERROR(stop.Poll());
    }
    // d a_t, unnormalised: a_t = E_t o (Psi' alpha_{t-1}).
    double total = 0.0;
    for (int k = 0; k < K; ++k) {
      double value = 1.0, change = 0.0;
      if (t > 0) {
        value = 0.0;
        for (int j = 0; j < K; ++j) {
          const double p = psi[j * S + k];
          value += p * alpha[at(t - 1, j)];
          change += p * (w[j * S + k] * alpha[at(t - 1, j)] + d_alpha[at(t - 1, j)]);
        }
      }
      d_alpha[at(t, k)] = e[t * S + k] * (du[t * S + k] * value + change);
      total += d_alpha[at(t, k)];
    }
    d_c[static_cast<size_t>(t)] = total;
    for (int k = 0; k < K; ++k) {
      d_alpha[at(t, k)] = (d_alpha[at(t, k)] - alpha[at(t, k)] * total) * inverse(t);
    }
  }
  for (int k = 0; k < K; ++k) beta[at(tokens_ - 1, k)] = 1.0;
  std::fill_n(dg, static_cast<size_t>(K) * static_cast<size_t>(S), 0.0);
  for (int64_t t = tokens_ - 1; t > 0; --t) {
    if (t % piece_ == 0) {
      LUTHIER_RETURN_IF_ERROR(stop.Poll());
    }
    // b_t = E_t o beta_t / c_t and its derivative; then edges and beta_{t-1} = Psi b_t.
    for (int k = 0; k < K; ++k) {
      sum[static_cast<size_t>(k)] = b[t * S + k];
      d_sum[static_cast<size_t>(k)] = b[t * S + k] * (du[t * S + k] - d_c[static_cast<size_t>(t)] * inverse(t)) +
                                      e[t * S + k] * d_beta[at(t, k)] * inverse(t);
    }
    for (int j = 0; j < K; ++j) {
      double value = 0.0, change = 0.0;
      for (int k = 0; k < K; ++k) {
        const double p = psi[j * S + k];
        const double x = sum[static_cast<size_t>(k)];
        const double dx = d_sum[static_cast<size_t>(k)] + w[j * S + k] * x;
        value += p * x;
        change += p * dx;
        dg[j * S + k] += p * (d_alpha[at(t - 1, j)] * x + alpha[at(t - 1, j)] * dx);
      }
      beta[at(t - 1, j)] = value;
      d_beta[at(t - 1, j)] = change;
    }
  }
  std::fill_n(dq, rows, 0.0);
  for (int64_t t = 0; t < tokens_; ++t) {
    for (int k = 0; k < K; ++k) {
      dq[at(t, k)] = d_alpha[at(t, k)] * beta[at(t, k)] + alpha[at(t, k)] * d_beta[at(t, k)];
    }
  }
  return absl::OkStatus();
}

}  // namespace luthier::crf
