#ifndef LUTHIER_LIB_MODEL_LINEAR_MODEL_H_
#define LUTHIER_LIB_MODEL_LINEAR_MODEL_H_

#include <Eigen/Core>
#include <memory>
#include <string>
#include <vector>

#include "lib/linear/margin_loss.h"
#include "lib/model/model.h"

namespace luthier::model {

// The scores of a linear classifier. With C classes there are K = 1 scores for two, else K = C:
//   z_k(x) = sum_j w_jk (x_j - mean_j) / deviation_j + b_k        x: p raw features
// Two classes: the second one where z > 0. More: the class of the largest score, the first of equal ones.
struct LinearParts {
  std::vector<std::string> classes;   // C >= 2, as Dataset has them.
  std::vector<std::string> features;  // p names, or empty.
  std::string label_name;             // Name of the label's column, or empty.
  int64_t cols = 0;                   // p
  linear::MarginLoss loss;            // More than two classes: softmax.
  Eigen::VectorXd mean, deviation;    // p each, or both empty.
  Eigen::VectorXd weights;            // p x K, entry k of feature j at j * K + k
  Eigen::VectorXd bias;               // K

  int scores() const { return classes.size() == 2 ? 1 : static_cast<int>(classes.size()); }
};

class LinearModel final : public Model {
 public:
  static constexpr char kType[] = "linear";
  // The sizes of `parts` must fit together.
  LinearModel(ModelInfo info, LinearParts parts);
  static absl::StatusOr<std::unique_ptr<Model>> Load(ModelInfo info, base::CheckpointReader* reader);

  const LinearParts& parts() const { return parts_; }
  // rows x K. Rows have parts().cols columns.
  Eigen::MatrixXd Scores(const data::SparseMatrix& x) const;

  std::vector<std::pair<std::string, std::string>> Facts() const override;
  absl::StatusOr<Predictions> Predict(const DataFile& data) const override;
  absl::StatusOr<Evaluation> Evaluate(const DataFile& data) const override;

 protected:
  void SaveParts(base::CheckpointWriter* writer) const override;

 private:
  absl::StatusOr<data::RawRows> Read(const DataFile& data, std::vector<std::string>* notes) const;

  const LinearParts parts_;
  Eigen::VectorXd slopes_;   // Weights of raw features: w / deviation.
  Eigen::VectorXd offsets_;  // K: b - sum_j slope_j mean_j
};

}  // namespace luthier::model

#endif  // LUTHIER_LIB_MODEL_LINEAR_MODEL_H_
