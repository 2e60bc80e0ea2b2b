#ifndef LUTHIER_LIB_CRF_SOLVERS_RESCALING_H_
#define LUTHIER_LIB_CRF_SOLVERS_RESCALING_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "Eigen/Core"
#include "lib/base/checkpoint.h"
#include "lib/crf/features/chain_data.h"
#include "lib/crf/features/shape.h"
#include "lib/stochastic/sampler.h"

namespace luthier::crf {

// Conversion of state between solvers whose sequences differ by the scale of values: those of
// attribute a are now r_a times as large. (Penalties of groups are such values:
// objectives/chain_groups.h.) A weight with the same scores is then 1 / r_a of what it was, and a
// gradient with respect to it r_a times. Transitions have no values, so their r is 1.
class Rescaling {
 public:
  Rescaling() = default;  // All r are 1.
  // `ratio` has the r of all attributes, each > 0 and finite.
  explicit Rescaling(Eigen::VectorXd ratio) : ratio_(std::move(ratio)) {}

  bool any() const { return ratio_.size() > 0; }
  double Of(int32_t attribute) const { return any() ? ratio_[attribute] : 1.0; }
  // Convert weights or gradients of the other solver in place. `rows` has a row of `stride` numbers
  // for each attribute; rows begin `apart` numbers apart.
  void ToWeights(int stride, int64_t apart, double* rows) const;
  void ToGradients(int stride, int64_t apart, double* rows) const;
  // Rescales the estimated Lipschitz constants of the sequences seen so far. The factor of a
  // sequence is the ratio of the sums of its squared values, now and before, with a 1 added to each
  // sum for each pair of neighbours. This is an estimate, which searches correct.
  void ToConstants(const ChainData& data, stochastic::Sampler* sampler) const;

 private:
  Eigen::VectorXd ratio_;  // Empty: all 1.
};

// Reads weights of `shape` and converts them by `rescaling`. Returns std::nullopt if they do not
// fit.
std::optional<Eigen::VectorXd> LoadWeights(base::CheckpointReader* reader, const Shape& shape,
                                           const Rescaling& rescaling);

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_SOLVERS_RESCALING_H_
