#ifndef LUTHIER_LIB_CRF_INFERENCE_KERNEL_H_
#define LUTHIER_LIB_CRF_INFERENCE_KERNEL_H_

#include <cstdint>

// The arithmetic of linear chains on which training spends its time, compiled for several
// instruction sets. Matrices are plain pointers, row-major, with `stride` doubles a row, a multiple
// of 8. They have T rows for tokens or K for labels. Entries of a row from K on are 0 and are
// written as 0. Notation as in inference.h.
namespace luthier::crf {

struct Kernels {
  const char* name;

  // In the next five, `value` has a value for each of `attribute`, or is null if all are 1. Rows
  // are prefetched `ahead` attributes ahead; see Ahead().

  // U_t = sum of value times row of token t's attributes; rows begin at weights + attribute * row_stride.
  void (*gather)(const double* weights, int64_t row_stride, const int32_t* attribute, const double* value,
                 const int64_t* token_start, int64_t tokens, int stride, int64_t ahead, double* scores);
  // The same for rows [v | d] of 2 * stride doubles whose v are first brought up to date: v -= (now - last) d, last =
  // now. Scores are multiplied by `scale`.
  void (*gather_lazy)(double* rows, double* last, double now, double scale, const int32_t* attribute,
                      const double* value, const int64_t* token_start, int64_t tokens, int stride, int64_t ahead,
                      double* scores);
  // The same scores for rows [c | d] whose v is c - now d: nothing is written, many threads may read the same rows.
  void (*gather_along)(const double* rows, double now, double scale, const int32_t* attribute, const double* value,
                       const int64_t* token_start, int64_t tokens, int stride, int64_t ahead, double* scores);
  // Rows [c | d] of attribute[0 ... count), in this order: c += along * value * C_t, d += keep * value * C_t, t =
  // token[e].
  void (*move_rows)(double* rows, double along, double keep, const int32_t* attribute, const double* value,
                    const int32_t* token, int64_t count, int stride, int64_t ahead, const double* change);
  // Row of each attribute += scale * value * R_t.
  void (*scatter)(double* rows, int64_t row_stride, double scale, const int32_t* attribute, const double* value,
                  const int64_t* token_start, int64_t tokens, int stride, int64_t ahead, const double* residuals);

  // E_t = exp(U_t - m_t), m_t = max_k U_t(k). Returns the largest max_k U_t - min_k U_t.
  double (*exp_scores)(const double* scores, int64_t tokens, int labels, int stride, double* e, double* m);
  // Psi = exp(W - M), M = max W, and its transpose. Returns max W - min W.
  double (*exp_transitions)(const double* w, int labels, int stride, double* psi, double* psi_t, double* m);

  // a_t = E_t o (Psi' a_{t-1}) / c_{t-1}, a_1 = E_1, c_t = sum a_t; inverse: 1 / c_t. For tokens [begin, end), counted
  // from 0; those before are done. Returns the sum of log c_t up to there, kept from one call to the next in `log_c`.
  double (*forward)(const double* e, const double* psi, int64_t begin, int64_t end, int labels, int stride, double* a,
                    double* inverse, double* log_c);
  // b_t = E_t o beta_t / c_t, beta_T = 1, beta_{t-1} = Psi b_t; q_t = a_t o beta_t / c_t. For tokens [begin, end);
  // those from `end` on are done.
  void (*backward)(const double* e, const double* psi_t, const double* a, const double* inverse, int64_t begin,
                   int64_t end, int64_t tokens, int labels, int stride, double* b, double* q);
  // G = Psi o sum_{t >= 2} (a_{t-1} / c_{t-1}) b_t'.
  void (*edges)(const double* a, const double* inverse, const double* b, const double* psi, int64_t tokens, int labels,
                int stride, double* g);

  // D = C R for the T x T Gram matrix C of tokens (token_gram.h).
  void (*overlap_times)(const float* counts, const double* r, int64_t tokens, int stride, double* d);
  double (*dot)(const double* x, const double* y, int64_t n);  // n a multiple of 8, as below.
  // z = x + s y
  void (*add_scaled)(const double* x, double s, const double* y, int64_t n, double* z);
  // d += change; v -= step d; w = scale v. n a multiple of 8.
  void (*follow)(const double* change, double step, double scale, int64_t n, double* d, double* v, double* w);
  // x (T x stride) is rounded to float, which goes to `memory` (T x labels, followed by at least 7 more floats, which
  // are read and keep their values); delta = rounded x - the former contents of memory. x and
  // delta do not overlap.
  void (*exchange)(const double* x, int64_t tokens, int labels, int stride, float* memory, double* delta);
};

// Returns the argument `ahead` for rows that have `bytes` bytes together: 16, or never if they fit
// the cache.
inline int64_t Ahead(int64_t bytes) {
  return bytes < (int64_t{1} << 20) ? INT64_MAX / 2 : 16;
}

// Returns the kernels for the widest instruction set of this machine.
const Kernels& BestKernels();
// All kernels that this machine can run, for tests; BestKernels() is first.
struct KernelList {
  const Kernels* kernels[3];
  int count;
};
KernelList RunnableKernels();

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_INFERENCE_KERNEL_H_
