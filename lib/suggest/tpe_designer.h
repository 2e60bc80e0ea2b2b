#ifndef LUTHIER_LIB_SUGGEST_TPE_DESIGNER_H_
#define LUTHIER_LIB_SUGGEST_TPE_DESIGNER_H_

#include <cstdint>
#include <vector>

#include "Eigen/Core"
#include "absl/status/status.h"
#include "lib/study/encoding.h"
#include "lib/suggest/designer.h"
#include "lib/suggest/parzen.h"

namespace luthier::suggest {

// INVALID_ARGUMENT with fields "algorithm.tpe.…".
absl::Status ValidateTpe(const study::StudySpec& spec, const study::TpeOptions& options);

// The tree-structured Parzen estimator: of `candidates` settings drawn from a density l of good settings, the one with
// the largest l/g, where g is the density of the others.
//
//   l  the best min(ceil(n/10), 25) (SQRT: min(ceil(sqrt(n)/4), 25)) of n results; COMPLETE ones by value, then PRUNED
//      ones by how far they got, then by value; ties to the smaller number
//   g  the others, FAILED settings (for a fault of theirs), and open trials, so that workers do not all try the same
//
// Trials enter in order of number, so results that arrive in another order change nothing. Failures that say nothing
// about the setting and cancelled trials are left out. The first `startup_trials` results come from ExplorationPoint:
// point for point random search.
//
// Parameters that exist together (the same condition, or none) form a group with one joint mixture of products;
// groups are drawn one after the other, parents first, each from the trials in which it exists. Not `multivariate`:
// every parameter is a group. Origin "random" at the start, then "tpe"; details: below, above (trials in l and g),
// log_ratio (sum over groups of ln l - ln g of what was chosen).
class TpeDesigner final : public Designer {
 public:
  TpeDesigner(const study::StudySpec& spec, const study::TpeOptions& options);

  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index) override;

 private:
  // What is remembered of a stored trial: its setting and its compact coordinates.
  struct Encoded {
    study::Parameters parameters;
    Eigen::VectorXd u;
    std::vector<bool> active;  // By group.
  };
  struct Split {
    std::vector<const Encoded*> good, rest;  // In order of age.
  };

  Encoded Encode(const study::Parameters& parameters) const;
  // Absent before there are enough results. `open`: takes what is not remembered.
  bool SplitTrials(const study::History& history, std::vector<Encoded>* open, Split* split);
  // Sets the group's coordinates; returns ln l - ln g there.
  double Choose(const Split& split, size_t group, uint64_t ask_index, Eigen::VectorXd* u) const;

  const study::Encoding encoding_;
  const study::Goal goal_;
  const study::TpeOptions options_;
  const uint64_t seed_;
  std::vector<CompactColumn> columns_;    // By compact coordinate.
  std::vector<std::vector<int>> groups_;  // Compact coordinates.
  std::vector<int> group_of_;             // By compact coordinate.
  std::vector<int> coordinate_of_;        // By parameter; -1 for constants.
  std::vector<Encoded> encoded_;          // Cache, by trial number - 1.
};

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_TPE_DESIGNER_H_
