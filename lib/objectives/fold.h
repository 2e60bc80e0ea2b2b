#ifndef LUTHIER_LIB_OBJECTIVES_FOLD_H_
#define LUTHIER_LIB_OBJECTIVES_FOLD_H_

#include <Eigen/Core>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/checkpoint.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/column_penalties.h"
#include "lib/bilevel/implicit_gradient.h"
#include "lib/catalogue/objective_info.h"
#include "lib/catalogue/penalty_groups.h"
#include "lib/catalogue/settings.h"
#include "lib/data/dataset.h"
#include "lib/data/split.h"
#include "lib/data/standardize.h"
#include "lib/linear/trainer.h"
#include "lib/linear/training_state.h"
#include "lib/objectives/differentiate.h"

// One fold of a cross-validated linear model: the rows, laid out once for all trials, and a training on them.
namespace luthier::objectives {

// Meaning of the settings of `logistic` and `hsvm`.
struct LinearSettings {
  linear::MarginLoss loss;
  linear::Bias bias = linear::Bias::kFree;
  bool standardize = true;
  double l2 = 0.0;
  std::vector<double> penalties;  // l2, then that of each group of columns.
  std::string solver;             // "auto", or one of linear::LinearSolverNames().
  linear::LinearTrainOptions train;
  int threads = 1;  // Number of threads of one training, with two classes; >= 1. The results do not depend on it.
  UnrollSettings unroll;
};
// `info` is that of one of the two.
LinearSettings ParseLinearSettings(const catalogue::ObjectiveInfo& info,
                                   const std::vector<catalogue::PenaltyGroup>& groups,
                                   const catalogue::Settings& settings);

// Returns the divisors of the columns of two classes for `solver`: s_j = sqrt(l2_g / l2), with the penalty l2_g of
// column j's group; empty if nothing is divided. Only solvers for a single penalty need them. They then solve, with u_j
// = s_j w_j,
//   sum loss(x'w) + sum_g l2_g/2 |w_g|^2 = sum loss((x/s)'u) + l2/2 |u|^2.
// Coordinate descent on the dual takes the very same steps either way. The others have penalties for each weight: their
// rows stay as they are, for all trials, and L-BFGS is faster without (columns of a weak group would become large).
Eigen::VectorXd ColumnScales(const bilevel::ColumnPenalties& groups, const LinearSettings& settings,
                             linear::LinearSolver solver);

// Returns, for people, the solver that "auto" chose first and why, and the changes of all folds' trainings.
std::string NoteOf(const linear::SolverChoice& choice, const std::vector<std::string>& changes);

// Not thread-safe.
class FoldTraining {
 public:
  virtual ~FoldTraining() = default;

  // Advances as LinearTrainer does.
  virtual absl::StatusOr<linear::TrainOutcome> Advance(const base::StopToken& stop) = 0;
  virtual linear::TrainOutcome outcome() const = 0;
  virtual bool started() const = 0;
  virtual int64_t iteration() const = 0;
  virtual double passes() const = 0;
  virtual double relative_gradient() const = 0;
  virtual double relative_gap() const = 0;
  // Explains to people why another solver than the first is at work; empty if it is the first.
  virtual std::string changes() const { return ""; }
  virtual void Save(base::CheckpointWriter* writer, absl::string_view identity) const = 0;
  virtual absl::Status Load(base::CheckpointReader* reader, absl::string_view identity) = 0;
  // Weights of the standardized columns, whatever their scales.
  virtual Eigen::VectorXd Weights() const = 0;
  // The adjoint that Differentiate solved for, in coordinates of Weights. Empty if there is none.
  virtual Eigen::VectorXd Adjoint() const { return {}; }
  // Starts at these weights instead of 0, and the solve for the adjoint at `adjoint` unless it is empty. Call it before
  // the first Advance only. Returns false, without a change, if the number of entries does not fit or one is not
  // finite.
  virtual bool WarmStart(const Eigen::VectorXd& w, const Eigen::VectorXd& adjoint) = 0;

  // Sums over rows, the penalty excluded.
  struct Sums {
    double validation_loss = 0.0;
    double validation_correct = 0.0;
    double validation_rows = 0.0;
    double train_loss = 0.0;
    double train_rows = 0.0;
    double third_loss = 0.0;
    double third_correct = 0.0;
    double third_rows = 0.0;
  };
  // Measures the current weights. Returns CANCELLED when stopped.
  virtual absl::StatusOr<Sums> Measure(const base::StopToken& stop) const = 0;

  // Without `unroll` in the settings: moves the weights to the optimum as exactly as rounding allows, then
  // differentiates the mean validation loss with respect to ln l2, and the ln of each group's penalty. Only after
  // kConverged or kPrecision; nothing is trained any more afterwards. Returns CANCELLED when stopped. With `unroll`:
  // differentiates the steps of training, whatever the effort.
  virtual absl::StatusOr<bilevel::ImplicitGradient> Differentiate(const GradientEffort& effort,
                                                                  const base::StopToken& stop) = 0;

  // Returns true if Differentiate may be called.
  virtual bool differentiable() const { return optimal(); }
  bool running() const { return outcome() == linear::TrainOutcome::kRunning; }
  bool optimal() const {
    return outcome() == linear::TrainOutcome::kConverged || outcome() == linear::TrainOutcome::kPrecision;
  }
};

// Immutable; any thread.
class FoldData {
 public:
  virtual ~FoldData() = default;

  // The map without scales.
  const data::Standardization& standardization() const { return standardization_; }
  const bilevel::ColumnPenalties& groups() const { return groups_; }
  // Returns the solver that "auto" stands for here, and the reason.
  virtual linear::SolverChoice Choose(const LinearSettings& settings) const = 0;
  // Returns INVALID_ARGUMENT if the solver does not fit the data. Scales are those of the settings. If settings.solver
  // is "auto" the training may go on with another solver than this.
  virtual absl::StatusOr<std::unique_ptr<FoldTraining>> Start(const LinearSettings& settings,
                                                              linear::LinearSolver solver) const = 0;

 protected:
  FoldData(data::Standardization standardization, bilevel::ColumnPenalties groups)
      : standardization_(std::move(standardization)), groups_(std::move(groups)) {}

 private:
  const data::Standardization standardization_;
  const bilevel::ColumnPenalties groups_;
};

// For trainings with this `standardize` and `bias`, and the solvers that `scales` (of ColumnScales) are for; the
// standardization is of the training rows. The validation rows may be none. Two classes are laid out anew; of more,
// only `dataset` is used, which must outlive the result. Returns CANCELLED when stopped.
absl::StatusOr<std::shared_ptr<const FoldData>> MakeFoldData(const data::Dataset* dataset,
                                                             const data::Partition& partition, bool standardize,
                                                             linear::Bias bias, const bilevel::ColumnPenalties& groups,
                                                             const Eigen::VectorXd& scales,
                                                             const base::StopToken& stop);

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_FOLD_H_
