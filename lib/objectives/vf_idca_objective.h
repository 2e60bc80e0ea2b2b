#ifndef LUTHIER_LIB_OBJECTIVES_VF_IDCA_OBJECTIVE_H_
#define LUTHIER_LIB_OBJECTIVES_VF_IDCA_OBJECTIVE_H_

#include <Eigen/Core>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/catalogue/objective_info.h"
#include "lib/data/data_cache.h"
#include "lib/data/data_root.h"
#include "lib/data/standardize.h"
#include "lib/objectives/new_objective.h"
#include "lib/objectives/objective.h"
#include "lib/study/search_space.h"

// `vf_elastic_net` and `vf_sparse_group_lasso`: VF-iDCA on a data set.
namespace luthier::objectives {

// A strength that was found, in the units of the penalised problem
//   1/2 sum over training rows of squared errors + sum of strength * penalty
struct Strength {
  std::string name;  // "l1", "l2", "group.NAME"
  double value = 0.0;
};

// A penalised model of all rows. Predictions are offset + weights'((x - mean) / deviation).
struct SparseModel {
  Eigen::VectorXd weights;
  double offset = 0.0;
  data::Standardization scaling;
  std::string fingerprint;
  int64_t rows = 0;
  double train_loss = 0.0;  // Mean squared error.
  bool converged = false;   // True if the search for strengths and the model have converged.
  std::vector<std::string> features;
  std::string label_name;
  std::vector<std::string> classes;  // Empty, or the two: predictions above 0 are of the second.
};

// An Objective that also tells all strengths: there may be more than a measurement has room for.
class VfIdcaObjective : public Objective {
 public:
  // Evaluates, and writes the strengths of a complete result to *strengths unless null.
  virtual absl::StatusOr<EvaluationResult> Run(const EvaluationContext& context,
                                               std::vector<Strength>* strengths) const = 0;
  // Finds the strengths, then trains on all rows with them, held-out ones included. Returns FAILED_PRECONDITION if the
  // trial fails; CANCELLED when stopped.
  virtual absl::StatusOr<SparseModel> Train(const EvaluationContext& context) const = 0;
  absl::StatusOr<EvaluationResult> Evaluate(const EvaluationContext& context) const final {
    return Run(context, nullptr);
  }
};

// Returns the mean squared difference of y (any length) from its mean; 0 if it is empty.
double Variance(const Eigen::VectorXd& y);

// Returns INVALID_ARGUMENT naming the first parameter of the space that `parameters` lacks.
absl::Status CheckComplete(const study::SearchSpace& space, const study::Parameters& parameters);

// Returns `result` with the measurement; failed as CONFIG NON_FINITE if a metric is not finite.
EvaluationResult WithMeasurement(study::Measurement measurement, EvaluationResult result);

// Returns the errors of LoadRows; INVALID_ARGUMENT for groups that do not
// fit the data; RESOURCE_EXHAUSTED for more columns than option max_memory_mib allows; CANCELLED when stopped.
absl::StatusOr<std::unique_ptr<VfIdcaObjective>> CreateVfIdcaObjective(const NewObjective& of,
                                                                       const base::StopToken& stop);

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_VF_IDCA_OBJECTIVE_H_
