#ifndef LUTHIER_LIB_CRF_SOLVERS_L1_PENALTY_H_
#define LUTHIER_LIB_CRF_SOLVERS_L1_PENALTY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace luthier::crf {

// L1 penalties on a chain model's weights, all >= 0 and finite: one for all of them, or one for the row
// of each attribute and one for the transitions.
class L1Penalty {
 public:
  // A number is the penalty of all weights: NOLINTNEXTLINE(google-explicit-constructor)
  L1Penalty(double all = 0.0) : transitions_(all) {}
  L1Penalty(std::vector<double> rows, double transitions) : rows_(std::move(rows)), transitions_(transitions) {}

  // Returns the penalty of a row as Shape has them: attributes, then the transitions'.
  double Of(int64_t row) const {
    return row < static_cast<int64_t>(rows_.size()) ? rows_[static_cast<size_t>(row)] : transitions_;
  }
  double transitions() const { return transitions_; }
  // Returns true if there is any penalty.
  bool any() const {
    return transitions_ > 0.0 || std::any_of(rows_.begin(), rows_.end(), [](double l1) { return l1 > 0.0; });
  }

 private:
  std::vector<double> rows_;  // Empty if all rows have the penalty of the transitions.
  double transitions_;
};

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_SOLVERS_L1_PENALTY_H_
