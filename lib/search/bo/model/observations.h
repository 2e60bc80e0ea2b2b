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

// A study's results, in model coordinates (d columns), for a model of scores (larger is better).
struct Observations {
  Eigen::MatrixXd observed;     // n x d points with a score, in log order.
  Eigen::VectorXd scores;       // n.
  std::vector<int64_t> number;  // n: the trial's.
  std::vector<bool> complete;   // n: True if the score was measured, not imputed.
  // Derivatives of the scores: empty, or n, of which many may be empty. Set by the designer, after thinning.
  std::vector<ScoreSlopes> slopes;
  Eigen::MatrixXd known;       // Compact points of the best complete observations, best first.
  Eigen::MatrixXd pending;     // Points of pending trials.
  Eigen::MatrixXd tried;       // Points of all trials.
  std::vector<bool> excluded;  // Rows of the table that were tried.

  // The rows that were measured.
  std::vector<Eigen::Index> CompleteRows() const;
};

// COMPLETE: its value. FAILED for a fault of the setting: the worst complete score. PRUNED: its value, but no better
// than the median score. Others say nothing. `table`: of a small finite space, or null. Without `failures` failed
// settings have no row: a model of their own has them (feasibility.h). CANCELLED: `stop` was raised.
absl::StatusOr<Observations> Collect(const study::History& history, const study::Encoding& encoding, study::Goal goal,
                                     const SettingTable* table, bool failures, const base::StopToken& stop);

// The observations that a model can afford, at most 1500: the newest 1000, the best 200 of the others, 300 at random;
// and the newest 200 pending trials.
Observations Thin(const Observations& data, uint64_t seed, uint64_t ask_index);

// Row indices best first, ties to the earlier.
void SortByScore(const Eigen::VectorXd& scores, std::vector<Eigen::Index>* rows);
// The points as rows.
Eigen::MatrixXd Stack(const std::vector<Eigen::VectorXd>& points, Eigen::Index columns);
// The given rows of m.
Eigen::MatrixXd Rows(const Eigen::MatrixXd& m, const std::vector<Eigen::Index>& rows);
// Returns true if every setting of a small finite space was tried.
bool Exhausted(const Observations& data);
// Returns true if u is within 1e-12 (Euclidean) of a tried point.
bool IsTried(const Observations& data, const Eigen::VectorXd& u);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_MODEL_OBSERVATIONS_H_
