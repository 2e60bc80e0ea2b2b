#ifndef LUTHIER_LIB_CRF_SOLVERS_LAZY_AVERAGE_H_
#define LUTHIER_LIB_CRF_SOLVERS_LAZY_AVERAGE_H_

#include "Eigen/Core"
#include "lib/base/checkpoint.h"
#include "lib/crf/features/chain_data.h"
#include "lib/crf/inference/inference.h"

namespace luthier::crf {

// The iterate of an average gradient method, w = beta v, and the sum d of remembered gradients.
// Names as in average_gradient.h. Rows of v are updated lazily: w_a = beta (v_a - (S - S_a) d_a).
// Transitions are always up to date.
struct LazyAverage {
  static constexpr double kMinBeta = 1e-6;  // Below this beta loses digits; Flush then.

  // Sets everything to 0. `chains` must outlive this.
  explicit LazyAverage(const ChainData* chains);

  void Flush();  // Sets beta = 1 and S = 0 without changing w.
  void CopyWeights(Eigen::VectorXd* w) const;
  // Returns the largest entry of d + l2 w; NaN if an entry is NaN.
  double LargestGradientEntry(double l2) const;
  // Returns true if LargestGradientEntry(`l2`) <= `bound`, and false with a NaN. Stops at the first
  // entry that is larger or NaN, which is mostly among the transitions and the frequent attributes.
  // These come first.
  bool GradientWithin(double l2, double bound) const;

  void Save(base::CheckpointWriter* writer) const;
  bool Load(base::CheckpointReader* reader);

  const ChainData* data;
  int stride;
  AlignedDoubles rows;           // A x [v | d]
  AlignedDoubles row_progress;   // A: S_a
  AlignedDoubles v_transitions;  // K x stride
  AlignedDoubles d_transitions;
  double beta = 1.0;
  double progress = 0.0;  // S
};

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_SOLVERS_LAZY_AVERAGE_H_
