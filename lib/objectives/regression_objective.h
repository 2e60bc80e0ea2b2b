#ifndef LUTHIER_LIB_OBJECTIVES_REGRESSION_OBJECTIVE_H_
#define LUTHIER_LIB_OBJECTIVES_REGRESSION_OBJECTIVE_H_

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

// `ridge`, `kernel_ridge`, `elastic_net` and `mlp`: regressions.
namespace luthier::objectives {

struct RegressionSettings {
  bool standardize = true;
  bool intercept = true;  // Targets are taken relative to their mean over the training rows.
  // ridge: the penalty of no group (or of none, with a list), then that of each group or entry. Others: one.
  std::vector<double> l2;
  double l1 = 0.0;        // elastic_net.
  // mlp: units of the hidden layer, the penalty of the output layer, and the seed of the start.
  int units = 0;
  double l2_out = 0.0;
  uint64_t init_seed = 0;
  Eigen::VectorXd gamma;  // kernel_ridge: one entry, or one for each column.
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
  Eigen::VectorXd weights;  // One a column; kernel_ridge: one a training row; mlp: as bilevel::MlpShape has them.
  double intercept = 0.0;   // ridge with recency: on top of the offset.
  linear::CgOutcome outcome = linear::CgOutcome::kConverged;
  bool singular = false;           // The system has no solution up to round-off.
  bool diverged = false;           // Unrolled steps did not stay finite.
  bool limited = false;            // By unroll_steps.
  // Norm of the gradient, relative to that at zero weights. elastic_net: ElasticNetFit::violation.
  double relative_gradient = 0.0;
  double first_gradient = 0.0;     // mlp: norm of the gradient at the start.
  int products = 0;                // Products with the Hessian, unrolled steps, or sweeps over the columns.
  bool near_kink = false;          // elastic_net: the derivatives jump close by.
  // Sums of squared errors, and numbers of rows.
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
  // EvaluationContext has it. CANCELLED when stopped.
  virtual absl::StatusOr<RegressionFit> Fit(const RegressionSettings& settings, bool gradient,
                                            std::optional<double> tolerance, const base::StopToken& stop) const = 0;

 protected:
  data::Standardization scaling_;
  double offset_ = 0.0;
};

// `info`: of a regression. Held-out rows may be none. RESOURCE_EXHAUSTED if it takes more memory than
// settings.max_memory_bytes; CANCELLED when stopped.
absl::StatusOr<std::shared_ptr<const RegressionFold>> MakeRegressionFold(
    const catalogue::ObjectiveInfo& info, const data::Dataset& dataset, const data::Partition& partition,
    const RegressionSettings& settings, const bilevel::ColumnPenalties& columns, const base::StopToken& stop);

// Creates a regression on a data set: trained on the training rows of every fold, judged on the others, with the
// derivatives by l1, l2 and gamma. Arguments as of CreateLinearObjective. Errors of LoadRows; INVALID_ARGUMENT for
// options that do not fit the data; CANCELLED when stopped.
absl::StatusOr<std::unique_ptr<Objective>> CreateRegressionObjective(
    const catalogue::ObjectiveInfo& info, const study::BuiltinObjective& objective, study::SearchSpace space,
    study::MetricSpec metric, const data::DataRoot* root, const data::DataCache* cache, const base::StopToken& stop);

// Returns which penalty each column of ridge has; other regressions have one. `length` is that of a list l2, `gammas`
// that of a list gamma; absent for single numbers. INVALID_ARGUMENT if a list has not one entry for each column of the
// data.
absl::StatusOr<bilevel::ColumnPenalties> RegressionPenalties(const catalogue::ObjectiveInfo& info,
                                                             const study::Parameters& options,
                                                             const std::vector<catalogue::PenaltyGroup>& groups,
                                                             std::optional<int64_t> length,
                                                             std::optional<int64_t> gammas,
                                                             const data::Dataset& dataset);

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_REGRESSION_OBJECTIVE_H_
