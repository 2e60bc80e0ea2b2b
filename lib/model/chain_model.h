#ifndef LUTHIER_LIB_MODEL_CHAIN_MODEL_H_
#define LUTHIER_LIB_MODEL_CHAIN_MODEL_H_

#include <Eigen/Core>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lib/crf/features/attribute_map.h"
#include "lib/crf/features/chain_data.h"
#include "lib/crf/features/features.h"
#include "lib/model/model.h"

namespace luthier::model {

// The way a chain model's tokens become attributes: letters, columns of text, or tokens that come with their
// attributes.
using ChainInput = std::variant<std::monostate, crf::FeatureMap, crf::AttributeMap>;

// A linear-chain conditional random field.
class ChainModel final : public Model {
 public:
  static constexpr char kType[] = "chain";
  // `weights`: as crf::Shape lays them out, of finite numbers.
  ChainModel(ModelInfo info, ChainInput input, std::vector<std::string> label_names, Eigen::VectorXd weights);
  static absl::StatusOr<std::unique_ptr<Model>> Load(ModelInfo info, base::CheckpointReader* reader);

  std::vector<std::pair<std::string, std::string>> Facts() const override;
  // text: the file's columns, its label too if it has one, and the prediction, separated by tabs; an empty line between
  // sequences. Letters and tokens with attributes: the letter or label, and the prediction.
  absl::StatusOr<Predictions> Predict(const DataFile& data) const override;
  absl::StatusOr<Evaluation> Evaluate(const DataFile& data) const override;

 protected:
  void SaveParts(base::CheckpointWriter* writer) const override;

 private:
  // The sequences read, with the fields of each token as text.
  struct Read {
    crf::ChainData data;
    std::vector<std::string> fields;  // Fields of each token, separated by tabs.
    bool labelled = true;
  };
  absl::StatusOr<Read> ReadFile(const DataFile& data) const;
  absl::StatusOr<Read> ReadColumns(const DataFile& data) const;
  absl::StatusOr<Read> ReadLetters(const DataFile& data) const;
  absl::StatusOr<Read> ReadAttributes(const DataFile& data) const;
  const crf::FeatureMap* features() const { return std::get_if<crf::FeatureMap>(&input_); }
  crf::Shape shape() const;

  const ChainInput input_;
  const std::vector<std::string> label_names_;
  const Eigen::VectorXd weights_;
};

}  // namespace luthier::model

#endif  // LUTHIER_LIB_MODEL_CHAIN_MODEL_H_
