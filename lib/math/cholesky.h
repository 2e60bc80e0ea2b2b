#ifndef LUTHIER_LIB_MATH_CHOLESKY_H_
#define LUTHIER_LIB_MATH_CHOLESKY_H_

#include <optional>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"

namespace luthier::math {

struct CholeskyOptions {
  // The ladder's first rung and its unit: rungs are 0, then scale * first_jitter * 10^i for i = 0 … rungs-1.
  double jitter_scale = 1.0;
  double first_jitter = 1e-10;
  int rungs = 7;
};

// L L' = C + jitter I for a symmetric positive definite C that grows and shrinks at its end. Lower triangle, held in a
// column-major buffer whose capacity doubles, so that Append costs O(n^2) and PopBack nothing. Not thread-safe while
// being changed; const members may be called from any thread.
class Cholesky {
 public:
  Cholesky() = default;

  // Factors `c` (n x n; only its lower triangle is read), climbing the jitter ladder until it succeeds. Returns
  // std::nullopt if an entry is not finite or the last rung fails, too. n = 0 is legal. Takes O(n^3/3). Returns
  // CANCELLED if `stop` was raised.
  static absl::StatusOr<std::optional<Cholesky>> Factor(const Eigen::Ref<const Eigen::MatrixXd>& c,
                                                        const CholeskyOptions& options, const base::StopToken& stop);

  // Appends the row (cross', diagonal + jitter()) of C in O(n^2). Returns false, leaving this unchanged, if the new
  // pivot diagonal - |L^-1 cross|^2 is below 1e-10 * diagonal or not finite.
  bool Append(const Eigen::Ref<const Eigen::VectorXd>& cross, double diagonal);
  // Forgets the last `count` rows. 0 <= count <= size().
  void PopBack(int count);

  Eigen::Index size() const { return size_; }
  // Amount that was added to the diagonal; 0 almost always. Exported as a metric.
  double jitter() const { return jitter_; }
  // Round-off of repeated Append and PopBack adds up slowly: factor anew every 50 or so.
  int appends_since_factor() const { return appends_; }

  // Returns the factor, n x n. Entries above the diagonal may not be zero: read the lower triangle only.
  Eigen::Ref<const Eigen::MatrixXd, 0, Eigen::OuterStride<>> lower() const {
    return buffer_.topLeftCorner(size_, size_);
  }

  // L^-1 b, L^-T b and (L L')^-1 b in place; b is n x q.
  void SolveLowerInPlace(Eigen::Ref<Eigen::MatrixXd> b) const;
  void SolveLowerTransposedInPlace(Eigen::Ref<Eigen::MatrixXd> b) const;
  Eigen::VectorXd Solve(const Eigen::Ref<const Eigen::VectorXd>& b) const;

  // ln det(L L') = 2 sum ln L_ii.
  double LogDeterminant() const;

 private:
  Eigen::MatrixXd buffer_;  // Capacity x capacity.
  Eigen::Index size_ = 0;
  double jitter_ = 0.0;
  int appends_ = 0;
};

}  // namespace luthier::math

#endif  // LUTHIER_LIB_MATH_CHOLESKY_H_
