#ifndef LUTHIER_LIB_OBJECTIVES_CHAIN_PENALTY_H_
#define LUTHIER_LIB_OBJECTIVES_CHAIN_PENALTY_H_

#include <Eigen/Core>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/catalogue/chain_groups.h"
#include "lib/crf/features/attribute_map.h"
#include "lib/crf/features/chain_data.h"
#include "lib/crf/features/features.h"
#include "lib/crf/solvers/l1_penalty.h"
#include "lib/crf/solvers/rescaling.h"

// Penalties of groups (lib/catalogue/chain_groups.h), brought to the weights of a chain model.
namespace luthier::objectives {

// The group of each row of the weights. Returns INVALID_ARGUMENT when templates of different groups are hashed: they
// share rows.
absl::StatusOr<std::vector<int32_t>> GroupRows(const catalogue::ChainGroups& groups, const crf::FeatureMap& map);
std::vector<int32_t> GroupRows(const catalogue::ChainGroups& groups, const crf::AttributeMap& map);
std::vector<int32_t> GroupLetterRows(const catalogue::ChainGroups& groups);

// One penalty instead of many. With l2 that of the transitions and s_a = sqrt(l2 / l2_a) for the rows of attributes,
//   sum nll(x, w) + 1/2 sum_a l2_a |w_a|^2 + l2/2 |w_transitions|^2  =  sum nll(s x, u) + l2/2 |u|^2,   w_a = s_a u_a,
// where s x are the sequences whose attributes have the values s_a (times their own). So every method is the one for
// one penalty, and all of their memory, line searches and lazy updates hold as they are. An l1 penalty of w is one of
// penalties s_a l1_a on u, which solvers that can do with l1 take for each row.
class ChainPenalty {
 public:
  // `row_group`: the group of each attribute, may be empty without groups; `l2`, `l1`: results of PenaltiesOf.
  ChainPenalty(const std::vector<int32_t>& row_group, int32_t transitions, const std::vector<double>& l2,
               const std::vector<double>& l1);

  double l2() const { return l2_; }
  // The penalty on u.
  const crf::L1Penalty& l1() const { return l1_; }
  // Returns true if all l2 are equal: nothing needs scaling.
  bool uniform() const { return scale_.size() == 0; }
  crf::ChainData Scaled(const crf::ChainData& data) const;
  // Computes w from u, in place, in rows of `stride` (crf::Shape), attributes first.
  void Unscale(int stride, Eigen::VectorXd* u) const;
  // Returns the change from the scaled sequences of another penalty to those of this one.
  crf::Rescaling From(const ChainPenalty& other) const;

 private:
  double l2_;
  crf::L1Penalty l1_;
  Eigen::VectorXd scale_;  // Scale of each attribute.
};

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_CHAIN_PENALTY_H_
