#ifndef LUTHIER_LIB_BILEVEL_VF_IDCA_HINGE_PROGRAM_H_
#define LUTHIER_LIB_BILEVEL_VF_IDCA_HINGE_PROGRAM_H_

#include <Eigen/Core>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/vf_idca/svm_vf_idca.h"

// Interior-point method for convex programs with many hinge losses in few variables.
namespace luthier::bilevel {

// Hinge losses max(0, 1 - y (x'w - c)) of rows, in variables z[at ...] = (w, c).
struct HingeTerm {
  const SvmRows* rows = nullptr;
  Eigen::Index at = 0;
  double cost = 0.0;  // Weight of each row's loss in the objective.
  double cut = 0.0;   // Its weight in the cut.
};

// The constraint factor/2 |z[at ... at + count]|^2 + sum of (index, slope) * z <= bound.
struct ProgramConstraint {
  double factor = 0.0;
  Eigen::Index at = 0, count = 0;
  std::vector<std::pair<Eigen::Index, double>> linear;
  double bound = 0.0;
};

// Minimises sum of cost * hinge + 1/2 sum_i weight_i (z_i - center_i)^2 + linear'z subject to the constraints and, with
// `has_cut`, sum of cut * hinge + cut_linear'z <= cut_bound.
struct HingeProgram {
  Eigen::Index size = 0;
  std::vector<HingeTerm> terms;
  std::vector<ProgramConstraint> constraints;
  Eigen::VectorXd weight, center, linear;
  bool has_cut = false;
  Eigen::VectorXd cut_linear;
  double cut_bound = 0.0;
};

struct HingeSolution {
  Eigen::VectorXd z;
  std::vector<Eigen::VectorXd> hinge;  // Multiplier of each row's margin, in [0, cost + cut multiplier * cut].
  Eigen::VectorXd multipliers;         // One for each constraint.
  double cut_multiplier = 0.0;
};

// Starts at `z`. Ends at a complementarity of `tolerance`, or after a number of steps, so the caller has to bound the
// error. O(n p^2 + size^3) a step. Returns CANCELLED when stopped.
absl::StatusOr<HingeSolution> SolveHingeProgram(const HingeProgram& program, Eigen::VectorXd z, double tolerance,
                                                const base::StopToken& stop);

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_VF_IDCA_HINGE_PROGRAM_H_
