#ifndef LUTHIER_LIB_SEARCH_BO_MODEL_OBSERVATIONS_H_
#define LUTHIER_LIB_SEARCH_BO_MODEL_OBSERVATIONS_H_

#include <cstdint>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/search/bo/model/gradients.h"
#include "lib/search/grid/setting_table.h"
#include "lib/study/encoding.h"
#include "lib/study/history.h"
#include "lib/study/study_spec.h"

namespace luthier::search {

// A study's results for a model of scores (larger is better). Points are in model coordinates (d
// columns).
struct Observations {
  Eigen::MatrixXd observed;     // n x d points with a score, in log order.
  Eigen::VectorXd scores;       // n.
  std::vector<int64_t> number;  // n: the trial's number.
  std::vector<bool> complete;   // n: True if the score was measured, not imputed.
  Eigen::VectorXd violations;   // n: V of study::ViolationsOf, 0 in feasible rows; empty if all of them are.
  // Derivatives of the scores: empty, or n entries, many of which may be empty. The designer sets
  // them after thinning.
  std::vector<ScoreSlopes> slopes;
  Eigen::MatrixXd known;  // Compact points of the best complete observations, best first, feasible ones before others.
  Eigen::MatrixXd pending;     // Points of pending trials.
  Eigen::MatrixXd tried;       // Points of all trials.
  std::vector<bool> excluded;  // For each row of the table, true if it was tried. Empty without a table.

  // Returns the rows whose score was measured, ascending.
  std::vector<Eigen::Index> CompleteRows() const;
  // Returns those of them that are feasible.
  std::vector<Eigen::Index> FeasibleRows() const;
};

// Collects a study's results. A trial's state decides its score:
//   COMPLETE  the score of its value
//   PRUNED    the score of its last value, but no better than the median of the complete scores
//   FAILED    for a fault of the setting, the worst complete score; only if `failures` is true, since
//             feasibility.h has a model of its own for failures
// Other trials have no row, and there are no rows before the first finite COMPLETE value. `table`
// holds the settings of a small finite space, or is null. `violations` are those of study::ViolationsOf; empty if every
// result is feasible. Returns CANCELLED if `stop` was raised.
absl::StatusOr<Observations> Collect(const study::History& history, const study::Encoding& encoding, study::Goal goal,
                                     const SettingTable* table, bool failures, const base::StopToken& stop,
                                     const std::vector<double>& violations = {});

// Raises the scores of PRUNED trials to the lower quartile of the COMPLETE ones, if they are lower: what such a trial
// gave on its way says that it was behind there, not what it would have given in the end.
void LiftPruned(const study::History& history, Observations* data);

// A model that can't take all observations takes so many of each kind: the newest, the best of the others, those
// nearest to the best one of the rest, and random ones of what is left.
struct ThinParts {
  Eigen::Index newest = 1000, best = 200, nearest = 0, random = 300;
  Eigen::Index rows() const { return newest + best + nearest + random; }
};
inline constexpr ThinParts kThinParts;
// Newer studies have these: their asks take the same time however many results there are.
inline constexpr ThinParts kThinPartsNearby = {.newest = 150, .best = 100, .nearest = 200, .random = 50};

// Returns the observations that a model can afford, at most parts.rows(), in their order. Keeps the newest 200 pending
// trials. `worth` (n, or null) takes the place of the scores. `lengthscales` are those of the model's columns, by which
// distances are measured.
Observations Thin(const Observations& data, const ThinParts& parts, uint64_t seed, uint64_t ask_index,
                  const Eigen::VectorXd* worth, const Eigen::VectorXd& lengthscales);

// Sorts row indices by score, best first. Ties go to the earlier row.
void SortByScore(const Eigen::VectorXd& scores, std::vector<Eigen::Index>* rows);
// Returns the points as rows of a matrix.
Eigen::MatrixXd Stack(const std::vector<Eigen::VectorXd>& points, Eigen::Index columns);
// Returns the given rows of `m`.
Eigen::MatrixXd Rows(const Eigen::MatrixXd& m, const std::vector<Eigen::Index>& rows);
// Returns true if every setting of a small finite space was tried.
bool Exhausted(const Observations& data);
// Returns true if u is within 1e-12 (Euclidean) of a tried point.
bool IsTried(const Observations& data, const Eigen::VectorXd& u);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_MODEL_OBSERVATIONS_H_
