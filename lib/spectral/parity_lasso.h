#ifndef LUTHIER_LIB_SPECTRAL_PARITY_LASSO_H_
#define LUTHIER_LIB_SPECTRAL_PARITY_LASSO_H_

#include <cstdint>
#include <vector>

#include "Eigen/Core"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/pace.h"
#include "lib/base/stop_token.h"
#include "lib/spectral/parity.h"

namespace luthier::spectral {

inline constexpr int kMaxDegree = 5;
inline constexpr int kMaxLassoBits = 4094;

// A feature as one word: its bits plus one, ascending, in fields of 12 bits from the top; unused fields are 0.
using FeatureKey = uint64_t;
FeatureKey KeyOf(const std::vector<int>& bits);
std::vector<int> BitsOf(FeatureKey key);
// Lower degree first, then lexicographic.
bool KeyBefore(FeatureKey a, FeatureKey b);

struct LassoFit {
  std::vector<Term> terms;  // Terms of non-zero weight, in order of KeyBefore.
  int passes = 0;           // Over all features.
  bool converged = true;    // False: the optimality conditions are not met everywhere after the last pass.
};

// The Lasso over all parities of at most `degree` of the bits `free`,
//   min_a  1/(2T) |y - Psi a|^2 + lambda |a|_1,      Psi_iS = chi_S(x_i),  T x N,
// without ever holding Psi. A working set of features is solved by coordinate descent on its Gram matrix (columns have
// Psi_S'Psi_S = T exactly, so a step is soft thresholding); a pass over all features computes the correlations
// c = Psi'r/T with the residual r, takes the worst violators of |c| <= lambda into the set, and ends when there are
// none. A pass costs N T multiplications: with w = x_i ... x_j r for the first bits of S fixed, the correlations of
// all S that differ in the last two bits are one small matrix product X' diag(w) X, made in tiles that stay in
// registers. Memory O(T b + T w + w^2) for a working set of w, which is kept below 2T + 200. Keeps a copy of x; const
// calls from any thread. Functions that take a stop look at it every few tenths of a millisecond and return CANCELLED
// once it is raised.
class ParityLasso {
 public:
  // x: T x b, T >= 1. free: ascending bits. 1 <= degree <= kMaxDegree, b <= kMaxLassoBits.
  ParityLasso(const BitMatrix& x, const std::vector<int>& free, int degree);

  Eigen::Index samples() const { return samples_; }
  int64_t features() const { return CountFeatures(static_cast<int>(free_.size()), degree_); }

  // Returns the number of features of exactly `degree` bits.
  int64_t FeaturesOfDegree(int degree) const {
    const auto bits = static_cast<int>(free_.size());
    return CountFeatures(bits, degree) - CountFeatures(bits, degree - 1);
  }

  // y: T, of about unit scale, centred by the caller. lambda > 0. `start`: features to begin with, e.g. those of a
  // neighbouring lambda; they change the work, not the result beyond rounding.
  // Conditions met at the end: |c_S| <= lambda (1 + 1e-4) for zero weights, |c_S - lambda sign a_S| <= 1e-7 for others.
  absl::StatusOr<LassoFit> Fit(const Eigen::VectorXd& y, double lambda, const std::vector<FeatureKey>& start,
                               const base::StopToken& stop) const;
  // Returns the features with |c_S| > threshold, unordered.
  absl::StatusOr<std::vector<FeatureKey>> Above(const Eigen::VectorXd& r, double threshold,
                                                const base::StopToken& stop) const;
  // Returns max |c_S| at r = y: from this lambda on all weights are 0.
  absl::StatusOr<double> LargestCorrelation(const Eigen::VectorXd& y, const base::StopToken& stop) const;
  // Visits c = Psi'r/T, feature by feature in a fixed order, in single precision.
  absl::Status Correlations(const Eigen::VectorXd& r, absl::FunctionRef<void(FeatureKey, float)> visit,
                            const base::StopToken& stop) const;
  // Returns chi_S over the samples.
  Eigen::VectorXf Column(FeatureKey key) const;

 private:
  // Returns r/T in single precision, with as many rows as x_.
  Eigen::VectorXf Scaled(const Eigen::VectorXd& r) const;
  template <typename F>
  absl::Status Visit(const Eigen::VectorXf& w, FeatureKey prefix, int length, Eigen::Index next, base::Pace& pace,
                     F& visit) const;

  Eigen::Index samples_;   // T.
  std::vector<int> free_;  // The bit of each column.
  BitMatrix x_;            // T x free.size(), with rows and columns of 0 up to whole tiles.
  int degree_;
};

}  // namespace luthier::spectral

#endif  // LUTHIER_LIB_SPECTRAL_PARITY_LASSO_H_
