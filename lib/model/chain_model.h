#ifndef LUTHIER_LIB_MODEL_CHAIN_MODEL_H_
#define LUTHIER_LIB_MODEL_CHAIN_MODEL_H_

#include <Eigen/Core>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/crf/chain_data.h"
#include "lib/crf/features.h"
#include "lib/model/model.h"

namespace luthier::model {

// A linear-chain conditional random field: from columns of text, or from letters.
class ChainModel final : public Model {
 public:
  static constexpr char kType[] = "chain";
  // `features`: from columns; absent: letters. `weights`: as crf::Shape lays them out, of finite numbers.
  ChainModel(ModelInfo info, std::optional<crf::FeatureMap> features, std::vector<std::string> label_names,
             Eigen::VectorXd weights);
  static absl::StatusOr<std::unique_ptr<Model>> Load(ModelInfo info, learn::CheckpointReader* reader);

  std::vector<std::pair<std::string, std::string>> Facts() const override;
  // text: the file's columns, its label too if it has one, and the prediction, separated by tabs; an empty line between
  // sequences. Letters: the letter and the prediction.
  absl::StatusOr<Predictions> Predict(const DataFile& data) const override;
  absl::StatusOr<Evaluation> Evaluate(const DataFile& data) const override;

 protected:
  void SaveParts(learn::CheckpointWriter* writer) const override;

 private:
  // What was read, with the fields of each token as text.
  struct Read {
    crf::ChainData data;
    std::vector<std::string> fields;  // Of each token, separated by tabs.
    bool labelled = true;
  };
  absl::StatusOr<Read> ReadFile(const DataFile& data) const;
  absl::StatusOr<Read> ReadColumns(const std::string& path) const;
  absl::StatusOr<Read> ReadLetters(const std::string& path) const;
  crf::Shape shape() const;

  const std::optional<crf::FeatureMap> features_;
  const std::vector<std::string> label_names_;
  const Eigen::VectorXd weights_;
};

}  // namespace luthier::model

#endif  // LUTHIER_LIB_MODEL_CHAIN_MODEL_H_
