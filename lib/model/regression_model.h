#ifndef LUTHIER_LIB_MODEL_REGRESSION_MODEL_H_
#define LUTHIER_LIB_MODEL_REGRESSION_MODEL_H_

#include <Eigen/Core>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/model/model.h"

namespace luthier::model {

// A regression. With z_j = (x_j - mean_j) / deviation_j for p raw features x, the prediction is
//   offset + sum_j weights_j z_j                                             ridge
//   offset + sum_k weights_k exp(-sum_j gamma_j (z_j - points_kj)^2)         kernel_ridge, n points
//   offset + v' tanh(W z + b) + v_0                                          mlp: weights are W by columns, b, v, v_0
struct RegressionParts {
  std::vector<std::string> features;  // p names, or empty.
  std::string label_name;             // Name of the target's column, or empty.
  int64_t cols = 0;                   // p
  Eigen::VectorXd mean, deviation;    // p each, or both empty.
  Eigen::VectorXd weights;            // p, or n, or units (p + 2) + 1.
  double offset = 0.0;
  Eigen::VectorXd gamma;   // kernel_ridge: 1 or p entries > 0; ridge: empty.
  Eigen::MatrixXd points;  // kernel_ridge: n x p.
  int64_t units = 0;       // mlp: those of the hidden layer; else 0.
};

// Predictions are numbers; Predictions::label holds them as text. Evaluations: loss (mean squared error), rmse, mae,
// r2.
class RegressionModel final : public Model {
 public:
  static constexpr char kType[] = "regression";
  static constexpr char kNetworkType[] = "regression.network";  // With units.
  // The sizes of `parts` must fit together.
  RegressionModel(ModelInfo info, RegressionParts parts);
  // Reads a model, of kNetworkType if `network` is set.
  static absl::StatusOr<std::unique_ptr<Model>> Load(ModelInfo info, bool network, base::CheckpointReader* reader);

  const RegressionParts& parts() const { return parts_; }
  std::vector<std::pair<std::string, std::string>> Facts() const override;
  absl::StatusOr<Predictions> Predict(const DataFile& data) const override;
  absl::StatusOr<Evaluation> Evaluate(const DataFile& data) const override;

 protected:
  void SaveParts(base::CheckpointWriter* writer) const override;

 private:
  absl::StatusOr<data::RawRows> Read(const DataFile& data, std::vector<std::string>* notes) const;
  Eigen::VectorXd Values(const data::SparseMatrix& x) const;

  const RegressionParts parts_;
};

}  // namespace luthier::model

#endif  // LUTHIER_LIB_MODEL_REGRESSION_MODEL_H_
