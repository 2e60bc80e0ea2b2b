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

// The difference between sequences and those that another solver had: the values of attribute a are r_a times as large.
// (Penalties of groups are such values: objectives/chain_groups.h.) What is of the data then goes over as it is, on
// another scale: a weight with the same scores is 1 / r_a of what it was, a gradient with respect to it r_a times.
// Transitions have no values: r = 1.
class Rescaling {
 public:
  Rescaling() = default;  // The same sequences.
  // r, of all attributes; each > 0 and finite.
  explicit Rescaling(Eigen::VectorXd ratio) : ratio_(std::move(ratio)) {}

  bool any() const { return ratio_.size() > 0; }
  double Of(int32_t attribute) const { return any() ? ratio_[attribute] : 1.0; }
  // In place, of each attribute a row of `stride` numbers, `apart` from one row to the next: weights of the other
  // solver, or gradients.
  void ToWeights(int stride, int64_t apart, double* rows) const;
  void ToGradients(int stride, int64_t apart, double* rows) const;
  // Estimated Lipschitz constants. Along a gradient that lies in the attributes it is their squares that matter: of a
  // sequence, by the mean over its entries, and a 1 for each pair of neighbours. An estimate; searches correct it.
  void ToConstants(const ChainData& data, stochastic::Sampler* sampler) const;

 private:
  Eigen::VectorXd ratio_;  // Empty: all 1.
};

// Weights of `shape` as a vector, and on this scale; none when they do not fit.
std::optional<Eigen::VectorXd> LoadWeights(base::CheckpointReader* reader, const Shape& shape,
                                           const Rescaling& rescaling);

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_SOLVERS_RESCALING_H_
