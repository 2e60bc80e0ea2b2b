#ifndef LUTHIER_LIB_OBJECTIVES_REGRESSION_FOLD_H_
#define LUTHIER_LIB_OBJECTIVES_REGRESSION_FOLD_H_

#include <Eigen/Core>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/column_penalties.h"
#include "lib/bilevel/implicit_gradient.h"
#include "lib/bilevel/ridge_criterion.h"
#include "lib/bilevel/weighted_ridge.h"
#include "lib/catalogue/objective_info.h"
#include "lib/catalogue/penalty_groups.h"
#include "lib/catalogue/settings.h"
#include "lib/data/data_cache.h"
#include "lib/data/data_root.h"
#include "lib/data/dataset.h"
#include "lib/data/split.h"
#include "lib/data/standardize.h"
#include "lib/linear/conjugate_gradient.h"
#include "lib/objectives/differentiate.h"
#include "lib/objectives/objective.h"
#include "lib/study/search_space.h"

// One fold of a regression: the rows, laid out once for all trials, and trainings on them.
namespace luthier::objectives {

struct RegressionSettings {
  bool standardize = true;
  bool intercept = true;  // Targets are taken relative to their mean over the training rows.
  // ridge: the penalty of no group (of no column, with a list), then that of each group or entry. Others: one.
  std::vector<double> l2;
  double l1 = 0.0;  // elastic_net.
  // elastic_net: true if trials share l2, so that one path has the weights of all of them.
  bool path = false;
  // mlp: units of the hidden layer, the penalty of the output layer, and the seed of the start.
  int units = 0;
  double l2_out = 0.0;
  uint64_t init_seed = 0;
  Eigen::VectorXd gamma;                    // kernel_ridge: one entry, or one for each column.
  std::optional<bilevel::Recency> recency;  // ridge: weights of rows by their time.
  bilevel::RidgeCriterion criterion = bilevel::RidgeCriterion::kHeldOut;
  double tolerance = 1e-10;
  int max_iterations = 1000;
  int64_t max_memory_bytes = 0;
  UnrollSettings unroll;
};
RegressionSettings ParseRegressionSettings(const catalogue::ObjectiveInfo& info,
                                           const std::vector<catalogue::PenaltyGroup>& groups,
                                           const catalogue::Settings& settings);

// A trained regression. Predictions are offset + the model's value at (x - mean) * scale.
struct RegressionFit {
  // One weight a column, those of several targets behind each other; kernel_ridge: one a training row; mlp: in the
  // order of bilevel::MlpShape.
  Eigen::VectorXd weights;
  double intercept = 0.0;  // ridge with recency: on top of the offset.
  linear::CgOutcome outcome = linear::CgOutcome::kConverged;
  bool singular = false;  // The system has no solution up to round-off.
  bool diverged = false;  // True if unrolled steps did not stay finite.
  bool limited = false;   // True if unroll_steps ended the training.
  // Norm of the gradient, relative to that at zero weights. elastic_net: ElasticNetFit::violation.
  double relative_gradient = 0.0;
  double first_gradient = 0.0;  // mlp: norm of the gradient at the start.
  int products = 0;             // Products with the Hessian, unrolled steps, or sweeps over the columns.
  bool near_kink = false;       // elastic_net: the derivatives jump close by.
  // Sums of squared errors, and numbers of rows, each counted once for each target.
  double validation_sse = 0.0, train_sse = 0.0, third_sse = 0.0;
  double validation_rows = 0.0, train_rows = 0.0, third_rows = 0.0;
  std::optional<bilevel::ImplicitGradient> gradient;
};

// The rows of one fold, laid out for all trials with the same `standardize` and `intercept`. Immutable; any thread.
class RegressionFold {
 public:
  virtual ~RegressionFold() = default;
  const data::Standardization& scaling() const { return scaling_; }
  double offset() const { return offset_; }
  // Trains, measures, and with `gradient` differentiates the mean squared error of the held-out rows. `tolerance` as
  // EvaluationContext has it. Returns CANCELLED when stopped.
  virtual absl::StatusOr<RegressionFit> Fit(const RegressionSettings& settings, bool gradient,
                                            std::optional<double> tolerance, const base::StopToken& stop) const = 0;

 protected:
  data::Standardization scaling_;
  double offset_ = 0.0;
};

// `info`: that of a regression. `more_targets`: for ridge, as in RowSource. Held-out rows may be none. Returns
// RESOURCE_EXHAUSTED if it takes more memory than settings.max_memory_bytes; CANCELLED when stopped.
absl::StatusOr<std::shared_ptr<const RegressionFold>> MakeRegressionFold(
    const catalogue::ObjectiveInfo& info, const data::Dataset& dataset,
    const std::vector<std::vector<double>>& more_targets, const data::Partition& partition,
    const RegressionSettings& settings, const bilevel::ColumnPenalties& columns, const base::StopToken& stop);

// Returns the mean of a target (one number a row of the data) over `rows`, 0 of none.
double MeanTarget(const std::vector<double>& target, const std::vector<int32_t>& rows);

// Returns the map of columns fitted to `rows`. With an intercept they are centred also where they are not standardized:
// the intercept is then the mean target. Returns CANCELLED when stopped.
absl::StatusOr<data::Standardization> ScalingOf(const data::Dataset& dataset, const std::vector<int32_t>& rows,
                                                bool standardize, bool intercept, const base::StopToken& stop);

// Returns the coefficient of determination for a sum (or mean) of squared errors and that of squared differences of the
// targets from their mean; 1 or 0 where targets do not vary, as scikit-learn has it.
double R2(double errors, double variation);

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_REGRESSION_FOLD_H_
